"""Smooth calibration error: residuals smoothed by a Gaussian that is reflected at 0 and 1, its width chosen by the
data."""

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.arrays import NO_WEIGHT, Floats, Ints, Value, checked, reading

CELLS = 1024  # of the grid on [0, 1]
NARROWEST = 1e-3  # width below which the error is not asked for
SPREAD = 1.0 / (6.0 * CELLS**2)  # mean variance that sharing a case between two nodes adds
START = 0.05  # the first width that is tried
STEPS = 40
ROWS = 16  # resamples at a time: what they need stays in the cache
_WAVES = (np.pi * np.arange(CELLS + 1)) ** 2 / 2.0


def on_grid(p: Floats) -> tuple[Ints, Floats]:
    """The grid node below each p, and the share of a case that goes to the next: mass and mean are kept."""
    below = np.minimum((p * CELLS).astype(np.int64), CELLS - 1)
    return below, p * CELLS - below


def smooth_ece_of(residuals: Floats, total: Floats) -> Floats:
    """Smooth ECE of each resample, (D,), from summed ``residuals`` at the nodes (D, CELLS + 1) and total weight (D,).

    The width is the root of error(width) - width, which falls: where error(s) > s it lies between s and error(s).
    Found by regula falsi (Illinois) to 1e-9.
    """
    return np.concatenate([_roots(residuals[i : i + ROWS], total[i : i + ROWS]) for i in range(0, len(total), ROWS)])


def _roots(residuals: Floats, total: Floats) -> Floats:
    density = residuals * CELLS
    density[:, [0, -1]] *= 2.0  # the outer nodes stand for half a cell
    waves = _even(density)
    scale = np.where(total > 0.0, total, 1.0)
    start = np.full(len(total), START)
    error = _error(waves, start, scale)
    other = np.clip(error, NARROWEST, 1.0)
    gaps = error - start, _error(waves, other, scale) - other
    first_low = start <= other
    lo, hi = np.where(first_low, start, other), np.where(first_low, other, start)
    f_lo, f_hi = np.where(first_low, *gaps), np.where(first_low, *gaps[::-1])
    hi, f_hi = np.where(f_lo <= 0.0, lo, hi), np.where(f_lo <= 0.0, f_lo, f_hi)  # below the narrowest
    low_is_nearer = np.abs(f_lo) < np.abs(f_hi)
    width, miss = np.where(low_is_nearer, lo, hi), np.where(low_is_nearer, np.abs(f_lo), np.abs(f_hi))
    side = np.zeros(len(total))
    for _ in range(STEPS):
        open_ = (hi - lo > 1e-9) & (miss > 1e-9)
        if not open_.any():
            break
        new = np.where(open_, (lo * f_hi - hi * f_lo) / np.where(open_, f_hi - f_lo, 1.0), width)
        f = np.where(open_, 0.0, f_hi)
        f[open_] = _error(waves[open_], new[open_], scale[open_]) - new[open_]
        down = open_ & (f <= 0.0)
        up = open_ & ~down
        # the end that stays a second time counts half: Illinois
        f_lo = np.where(up, f, np.where(down & (side < 0), 0.5 * f_lo, f_lo))
        f_hi = np.where(down, f, np.where(up & (side > 0), 0.5 * f_hi, f_hi))
        lo, hi = np.where(up, new, lo), np.where(down, new, hi)
        side = np.where(down, -1.0, np.where(up, 1.0, side))
        width, miss = np.where(open_, new, width), np.where(open_, np.abs(f), miss)
    return np.where(total > 0.0, _error(waves, width, scale), np.nan)


def _even(rows: Floats) -> Floats:
    """Cosine transform (type 1) of each row: that of Fourier of the row mirrored at its ends. Twice, 2 CELLS times."""
    mirrored = np.concatenate((rows, rows[:, -2:0:-1]), axis=1)
    return np.fft.rfft(mirrored, axis=1).real


def _error(waves: Floats, width: Floats, total: Floats) -> Floats:
    variance = width[:, None] ** 2 - SPREAD
    # waves beyond are damped to nothing; each row has its own end, so that its bits do not depend on the others
    own = np.searchsorted(_WAVES, 45.0 / variance)
    n = int(own.max())
    damped = np.zeros_like(waves)
    damped[:, :n] = np.where(np.arange(n) < own, waves[:, :n] * np.exp(-_WAVES[:n] * variance), 0.0)
    smoothed = np.abs(_even(damped)) / (2.0 * CELLS)
    area = smoothed[:, 1:-1].sum(axis=1) + 0.5 * (smoothed[:, 0] + smoothed[:, -1])
    return np.asarray(area / CELLS / total, dtype=np.float64)


def smooth_ece(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Smooth ECE: integral over t of abs(sum_i w_i (y_i - p_i) K_s(t, p_i)) / T at the width s where it equals s.

    ``p`` (N,): positive class; (N, K): top label. K is the Gaussian of standard deviation s reflected at 0 and 1. Range
    [0, 1], lower is better, no unit; no bins to choose. Evaluated on 1,024 cells, which shifts values by less than
    1e-5; widths stop at 1e-3, as in the authors' package. NaN with a reason when no row has positive weight. Raises
    ValueError on bad input. Source: Blasiok and Nakkiran 2023, arXiv:2309.12236, section 4.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    if not case_weights.sum() > 0.0:
        return Value(float("nan"), NO_WEIGHT)
    probability, outcome = reading(probabilities, labels)
    below, share = on_grid(probability)
    residual = case_weights * (outcome - probability)
    nodes = np.zeros((1, CELLS + 1))
    np.add.at(nodes[0], below, residual * (1.0 - share))
    np.add.at(nodes[0], below + 1, residual * share)
    return Value(float(smooth_ece_of(nodes, case_weights.sum(keepdims=True))[0]))
