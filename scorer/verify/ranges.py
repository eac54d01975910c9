"""The range of a calibrator over a box of inputs: between which values its output must lie, row by row."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from scorer.verify.boxes import Box
from submission.recalibration.maps import Column, Floats, OfProbability, Piecewise, RunMap, SoftmaxMap, TwoClass

Range = tuple[Floats, Floats]


def range_of(run_map: RunMap, box: Box) -> Range:
    """Lower and upper ends (N, K) of the map over ``box``: an enclosure, never too narrow."""
    if run_map.softmax is not None:
        return _softmax(run_map.softmax, *box.u1)
    ends = [column_range(column, box, k) for k, column in enumerate(run_map.columns)]
    low, high = (np.column_stack(side) for side in zip(*ends, strict=True))
    return _normalised(low, high) if run_map.kind == "multiclass" else (low, high)


def column_range(column: Column, box: Box, k: int) -> Range:
    """Ends (N,) of the map of column ``k``, before normalisation."""
    if isinstance(column, TwoClass):
        low, high = odds_range(column, box, k)
        return np.asarray(expit(low)), np.asarray(expit(high))
    low, high = box.p[0][:, k], box.p[1][:, k]
    if isinstance(column, OfProbability):
        ends = column.odds(low), column.odds(high)
        return np.asarray(expit(np.minimum(*ends))), np.asarray(expit(np.maximum(*ends)))
    if column.scale is not None:
        scaled = odds_range(column.scale, box, k)
        low, high = np.asarray(expit(scaled[0])), np.asarray(expit(scaled[1]))
    return _piecewise(column, low, high)


def odds_range(column: TwoClass, box: Box, k: int) -> Range:
    """Ends of the log odds: each input at the end that its factor asks for."""
    low, high = np.full(len(box.open), column.bias), np.full(len(box.open), column.bias)
    for factor, (under, over) in ((column.first, box.u0), (column.second, box.u1)):
        ends = factor * under[:, k], factor * over[:, k]
        low, high = low + np.minimum(*ends), high + np.maximum(*ends)
    return low, high


def _piecewise(column: Piecewise, low: Floats, high: Floats) -> Range:
    """Least and greatest value of a map by thresholds between ``low`` and ``high``."""
    if column.interpolation == "step":
        first, last = column.bins(low), column.bins(high)
        least, greatest = np.full(len(low), np.inf), np.full(len(low), -np.inf)
    else:
        ends = column.value(low), column.value(high)
        first = np.searchsorted(column.x, low, side="left")  # the points inside the interval
        last = np.searchsorted(column.x, high, side="right") - 1
        least, greatest = np.minimum(*ends), np.maximum(*ends)
    inside = np.flatnonzero(first <= last)
    if len(inside):
        first, last = first[inside], last[inside]
        least[inside] = np.minimum(least[inside], -_greatest(-column.y, first, last))
        greatest[inside] = np.maximum(greatest[inside], _greatest(column.y, first, last))
    return least, greatest


def _greatest(values: Floats, first: NDArray[np.intp], last: NDArray[np.intp]) -> Floats:
    """The greatest of ``values`` from ``first`` to ``last``, both included, row by row: as the greater of two runs of
    2^j values, so that wide intervals in a map of many thresholds cost no more than narrow ones."""
    found = np.empty(len(first))
    level = np.frexp(last - first + 1)[1] - 1  # floor of log2
    runs = values
    for j in range(int(level.max()) + 1):
        here = level == j
        found[here] = np.maximum(runs[first[here]], runs[last[here] + 1 - 2**j])
        runs = np.maximum(runs[: -(2**j)], runs[2**j :])
    return found


def _normalised(low: Floats, high: Floats) -> Range:
    """Ends of each value over the sum of its row; a row of zeros is uniform."""
    others_low = low.sum(axis=1, keepdims=True) - low
    others_high = high.sum(axis=1, keepdims=True) - high
    with np.errstate(invalid="ignore", divide="ignore"):
        least, greatest = low / (low + others_high), high / (high + others_low)
    uniform = 1.0 / low.shape[1]
    zero = low.sum(axis=1, keepdims=True) <= 0
    least = np.where(zero, np.minimum(np.nan_to_num(least, nan=uniform), uniform), least)
    greatest = np.where(zero, np.maximum(np.nan_to_num(greatest, nan=uniform), uniform), greatest)
    return least, greatest


def _softmax(scaling: SoftmaxMap, low: Floats, high: Floats) -> Range:
    """Ends of a softmax of linear functions: from the ends of every difference of two logits, which is exact."""
    n, k = low.shape
    least, greatest = np.empty((n, k)), np.empty((n, k))
    with np.errstate(over="ignore"):
        for own in range(k):
            most, fewest = np.zeros(n), np.zeros(n)  # the sums of exp(other - own) at their ends
            for other in range(k):
                factor = scaling.weights[other] - scaling.weights[own]
                offset = scaling.bias[other] - scaling.bias[own]
                up, down = np.maximum(factor, 0.0), np.minimum(factor, 0.0)
                most += np.exp(high @ up + low @ down + offset)
                fewest += np.exp(low @ up + high @ down + offset)
            least[:, own], greatest[:, own] = 1.0 / most, 1.0 / fewest
    return least, greatest
