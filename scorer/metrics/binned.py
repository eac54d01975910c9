"""Expected calibration error in equal-mass bins that never split a group of equal values.

Rule: sort by value; a group of equal values lies at its midpoint m = (weight below + weight up to and with it) / 2 of
the total weight T and goes, whole, to bin ceil(M m / T). Ties and the order of the rows can't change the value;
constant values fill one bin.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.proper import NO_WEIGHT, Floats, Ints, checked, hits
from scorer.metrics.rank import Indices, Ranking, cumulate, rank

BINS = 15


class Binned(NamedTuple):
    """A binned value, the number of bins that hold weight, and the reason when it is undefined (NaN, 0 bins)."""

    value: float
    bins_used: int
    reason: str | None = None


class ClasswiseEce(NamedTuple):
    """Mean over the declared classes, and one :class:`Binned` a class."""

    value: float
    per_class: tuple[Binned, ...]
    reason: str | None = None


def bin_starts(ranking: Ranking, cum: Floats, bins: int) -> Indices:
    """First position of each equal-mass bin in each resample, shape (D, bins), from cumulated weights ``cum`` (D, n +
    1), n >= 1.

    Bin b holds the positions from its start up to the next bin's start (n for the last); an empty bin starts where the
    next does.
    """
    starts = np.zeros((len(cum), bins), dtype=np.intp)
    total = cum[:, -1:]
    inner = np.arange(1.0, bins)
    cuts = inner * total / bins
    # the group that reaches a cut is the only one whose midpoint can lie on either side of it
    reached = np.array([row.searchsorted(cut) for row, cut in zip(cum, cuts, strict=True)]).reshape(cuts.shape) - 1
    reached = np.clip(reached, 0, len(ranking.order) - 1)
    start, end = ranking.start[reached], ranking.end[reached]
    # M m <= b T, without a division: exact for whole weights
    below = (
        bins * (np.take_along_axis(cum, start, axis=1) + np.take_along_axis(cum, end, axis=1)) <= 2.0 * inner * total
    )
    starts[:, 1:] = np.where(below, end, start)
    return starts


def ece_kernel(ranking: Ranking, residual: Floats, w: Floats, cum: Floats, bins: int) -> tuple[Floats, Ints]:
    """ECE and bins used of each resample, shapes (D,), (D,); NaN and 0 where a resample has no weight.

    ``residual`` (n,) is outcome minus probability in the ranking's order.
    """
    draws, n = w.shape
    if n == 0:
        return np.full(draws, np.nan), np.zeros(draws, dtype=np.int64)
    starts = bin_starts(ranking, cum, bins)
    ends = np.concatenate((starts[:, 1:], np.full((draws, 1), n)), axis=1)
    # all resamples in one line of cells, with a zero at the end so that an empty last bin has a place to start
    cells = np.zeros(draws * n + 1)
    np.multiply(w, residual, out=cells[:-1].reshape(draws, n))
    sums = np.add.reduceat(cells, (starts + n * np.arange(draws)[:, None]).ravel()).reshape(draws, bins)
    sums[starts == ends] = 0.0  # reduceat gives one cell, not zero, for an empty bin
    mass = np.take_along_axis(cum, ends, axis=1) - np.take_along_axis(cum, starts, axis=1)
    total = cum[:, -1]
    value = np.full(draws, np.nan)
    np.divide(np.abs(sums).sum(axis=1), total, out=value, where=total > 0.0)
    return value, (mass > 0.0).sum(axis=1, dtype=np.int64)


def ece(p: ArrayLike, y: ArrayLike, *, bins: int = BINS, weights: ArrayLike | None = None) -> Binned:
    """Expected calibration error: sum_b (w_b / T) abs(mean outcome in b - mean probability in b), equal-mass bins
    (module docstring).

    ``p`` (N,): positive-class reading, outcome y. ``p`` (N, K): top-label reading, probability max_k p_k, outcome the
    arg-max credit of :func:`scorer.metrics.proper.hits` (1/m under an m-way tie). Range [0, 1], lower is better, no
    unit. Empty bins count nothing; fewer values than bins is no error. NaN with a reason when no row has positive
    weight. Raises ValueError on bad input or bins < 1. Source: Naeini et al. 2015, doi:10.1609/aaai.v29i1.9602; equal
    mass: Nguyen and O'Connor 2015, doi:10.18653/v1/D15-1182.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    if probabilities.ndim == 1:
        return _ece(probabilities, labels.astype(np.float64), case_weights, bins)
    return _ece(probabilities.max(axis=1), hits(probabilities, labels), case_weights, bins)


def classwise_ece(p: ArrayLike, y: ArrayLike, *, bins: int = BINS, weights: ArrayLike | None = None) -> ClasswiseEce:
    """Class-wise ECE: mean over the K declared classes of the equal-mass ECE of p_k against 1[y = k].

    ``p`` (N, K); ``p`` (N,) stands for the two classes (1 - p, p). Range [0, 1], lower is better, no unit. A class
    absent from ``y`` counts: its ECE is its mean probability. NaN with a reason when no row has positive weight. Raises
    ValueError on bad input or bins < 1. Source: Kull et al. 2019, arXiv:1910.12656, section 2, with equal-mass bins.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    columns = np.stack((1.0 - probabilities, probabilities), axis=1) if probabilities.ndim == 1 else probabilities
    per_class = tuple(
        _ece(columns[:, k], (labels == k).astype(np.float64), case_weights, bins) for k in range(columns.shape[1])
    )
    return ClasswiseEce(float(np.mean([one.value for one in per_class])), per_class, per_class[0].reason)


def _ece(confidence: Floats, outcome: Floats, weights: Floats, bins: int) -> Binned:
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    if not weights.sum() > 0.0:
        return Binned(float("nan"), 0, NO_WEIGHT)
    ranking = rank(confidence)
    w = weights[ranking.order][None, :]
    value, used = ece_kernel(ranking, (outcome - confidence)[ranking.order], w, cumulate(w), bins)
    return Binned(float(value[0]), int(used[0]))
