"""Calibration errors of one column of confidences under every usual way to bin it, from one sort.

Bins of sorted confidences are cuts of the ranks: with sums kept up to each rank, any binning costs a look-up an edge,
whatever the number of rows. All arrays of cuts and values have one row a number of bins (COUNTS).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.audit.shapes import Codes, Floats
from scorer.metrics.binned import half_unit

COUNTS = (15, 10, 20, *(n for n in range(5, 51) if n not in (15, 10, 20)))  # the usual ones first
MOST = max(COUNTS)

WIDTH, MASS, SPLIT, QUANTILE, RANKED = (
    "equal-width",
    "equal-mass (ties kept together)",
    "equal-count (sorted and cut)",
    "quantile",
    "quantile (edges interpolated on ranks)",
)
RIGHT, LEFT = "closed on the right", "closed on the left"
BINNINGS: tuple[tuple[str, str], ...] = (
    (WIDTH, RIGHT),
    (WIDTH, LEFT),
    (WIDTH, "closed on the right, edges as floating point rounds them"),
    (WIDTH, "closed on the left, edges as floating point rounds them"),
    (WIDTH, "closed on the right, 0 in no bin"),
    (WIDTH, "closed on the left, 1 in no bin"),
    (MASS, ""),
    (SPLIT, ""),
    (QUANTILE, RIGHT),
    (QUANTILE, LEFT),
    (RANKED, RIGHT),
    (RANKED, "closed on the right, the smallest in no bin"),
)

MEAN_GAP = "mean gap weighted by bin size"
ROOT_GAP = "root of the weighted mean squared gap"
MAX_GAP = "largest gap"
MAX_TERM = "largest gap times its bin's share"
PLAIN = "plain mean of the gaps of non-empty bins"
PLAIN_ALL = "plain mean of the gaps, empty bins as 0"
DEBIASED = "debiased root of the mean squared gap"
FORMS = (MEAN_GAP, ROOT_GAP, MAX_GAP, MAX_TERM, PLAIN, PLAIN_ALL, DEBIASED)

_M = np.array(COUNTS, dtype=np.int64)[:, None]
_K = np.arange(MOST + 1, dtype=np.int64)[None, :]
_INSIDE = _K <= _M
_SHARE = np.where(_INSIDE, _K / _M, 1.0)
_FLOATING = np.stack([np.pad(np.linspace(0.0, 1.0, m + 1), (0, MOST - m), constant_values=1.0) for m in COUNTS])


@dataclass(frozen=True)
class Sorted:
    """``score`` (n,) ascending, ties in the order of the file; sums of the scores and the outcomes of the first i
    rows, (n + 1,)."""

    score: Floats
    scores: Floats
    outcomes: Floats

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.score)


def sort(score: Floats, outcome: Floats | NDArray[np.bool_]) -> Sorted:
    """``score`` (n,), finite, with ``outcome`` (n,) in [0, 1]."""
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    return Sorted(ordered, _sums(ordered), _sums(outcome[order]))


def _sums(values: Floats | NDArray[np.bool_]) -> Floats:
    out = np.zeros(len(values) + 1)
    np.cumsum(values, dtype=np.float64, out=out[1:])
    return out


def errors(column: Sorted, precision: str) -> Floats:
    """Every error of ``column``, shape (BINNINGS, FORMS, COUNTS); ``precision`` is how it was stored."""
    return np.stack([_forms(column, cut) for cut in cuts(column, precision)])


def cuts(column: Sorted, precision: str) -> list[Codes]:
    """The first rank of each bin and the end of the last, (COUNTS, MOST + 1), one array a binning; ranks before the
    first or after the last cut are in no bin."""
    n, score = column.n, column.score
    slack = np.minimum(half_unit(precision, _SHARE), 0.5 / _M)
    right, left = _closed(score, _SHARE + slack, "right"), _closed(score, _SHARE - slack, "left")
    no_zero, no_one = right.copy(), left.copy()
    no_zero[:, 0] = np.searchsorted(score, 0.0, "right")
    np.maximum(no_zero, no_zero[:, :1], out=no_zero)
    np.minimum(no_one, np.searchsorted(score, 1.0, "left"), out=no_one)
    quantile = _interpolated(score, _FLOATING * (n - 1))
    ranked = _interpolated(score, np.minimum(_FLOATING * n, n - 1))
    lowest = _closed(score, ranked, "right")
    without = lowest.copy()
    without[:, 0] = np.searchsorted(score, score[:1], "right")[0]
    np.maximum(without, without[:, :1], out=without)
    return [
        right,
        left,
        _closed(score, _FLOATING, "right"),
        _closed(score, _FLOATING, "left"),
        no_zero,
        no_one,
        _mass(score),
        _split(n),
        _closed(score, quantile, "right"),
        _closed(score, quantile, "left"),
        lowest,
        without,
    ]


def _closed(score: Floats, edges: Floats, side: str) -> Codes:
    at = np.searchsorted(score, edges.ravel(), "right" if side == "right" else "left").reshape(edges.shape)
    at[:, 0] = 0
    at[_K >= _M] = len(score)
    return at.astype(np.int64)


def _mass(score: Floats) -> Codes:
    """Ends of the equal-mass bins of :mod:`scorer.metrics.binned`: a group of ties goes whole to the bin of its
    midpoint."""
    n = len(score)
    ends = np.concatenate((np.flatnonzero(score[1:] != score[:-1]) + 1, [n])).astype(np.int64)
    twice = ends + np.concatenate(([0], ends[:-1]))  # the midpoint of each group, doubled
    at = np.searchsorted(twice, np.minimum(2 * _K * n // _M, 2 * n).ravel(), "right").reshape(_INSIDE.shape)
    return np.asarray(np.concatenate(([0], ends))[at], dtype=np.int64)


def _split(n: int) -> Codes:
    """Ends of n sorted rows cut into parts that differ by one row at most, the larger ones first."""
    size, more = n // _M, n % _M
    return np.where(_INSIDE, _K * size + np.minimum(_K, more), n)


def _interpolated(score: Floats, at: Floats) -> Floats:
    below = np.clip(np.floor(at), 0, len(score) - 1).astype(np.int64)
    above = np.minimum(below + 1, len(score) - 1)
    part, low, high = at - below, score[below], score[above]
    step = high - low
    return np.where(part >= 0.5, high - step * (1.0 - part), low + step * part)


def _forms(column: Sorted, cut: Codes) -> Floats:
    """(FORMS, COUNTS) of one binning; NaN where no row is in a bin."""
    weight = np.diff(cut, axis=1).astype(np.float64)
    mean, rate = np.diff(column.scores[cut], axis=1), np.diff(column.outcomes[cut], axis=1)
    filled = weight > 0.0
    size = np.where(filled, weight, 1.0)
    term = np.where(filled, np.abs(mean - rate), 0.0)  # the gap times the number of rows
    gap, n = term / size, float(column.n)
    rate = rate / size
    enough = weight > 1.0
    chance = np.where(enough, rate * (1.0 - rate) / np.where(enough, weight - 1.0, 1.0), 0.0)
    squared = np.where(enough, weight * (gap**2 - chance), 0.0).sum(axis=1) / n
    used = np.maximum(filled.sum(axis=1), 1)
    found = np.stack(
        [
            term.sum(axis=1) / n,
            np.sqrt((term * gap).sum(axis=1) / n),
            gap.max(axis=1),
            term.max(axis=1) / n,
            gap.sum(axis=1) / used,
            gap.sum(axis=1) / _M[:, 0],
            np.sqrt(np.maximum(squared, 0.0)),
        ]
    )
    return np.where(filled.any(axis=1), found, np.nan)
