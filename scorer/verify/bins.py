"""Histogram and scaling-binning maps: are the bins those declared, and the values the means of the calibration rows?

What a bin says where no calibration row lies is nobody's fit. It refutes nothing, but it could say what the test labels
want: only by a convention (its middle, what stands beside it, one constant) do all such bins leave a map verified.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from protocol.calibrators import FittedCalibrator
from protocol.findings import counted
from protocol.objective import Binning, Objective
from protocol.task import Task
from scorer.verify.boxes import Box, box_of
from scorer.verify.losses import targets
from scorer.verify.ranges import odds_range
from scorer.verify.refit import EXCESS, CalibrationRows, Excess, Unverifiable, excesses
from submission.recalibration.maps import Floats, Piecewise, RunMap, map_of

EMPTY_SLACK = 1e-3  # of a convention for empty bins
WIDTH_SLACK = 1e-6  # of an edge k/M, as printed


def binned_excesses(
    task: Task,
    records: Sequence[FittedCalibrator],
    objective: Objective,
    rows: CalibrationRows,
    precision: Mapping[str, Sequence[str]],
) -> list[Excess]:
    """As :func:`scorer.verify.refit.excesses`, for the two binned families."""
    if objective.binning is None:
        raise Unverifiable("the declared grid does not say which bins: write it like 15 equal-mass bins")
    found, doubts = [], []
    if records[0].family == "scaling-binning":
        first = [r.model_copy(update={"family": "platt", "interpolation": None, "outside": None}) for r in records]
        found += excesses(task, first, objective, rows, precision)
    run_map = map_of(records, task.kind, rows.outputs.p.shape[1])
    box = box_of(run_map, rows.outputs, precision)
    by_class = {record.class_index: record for record in records}
    for k, column in enumerate(run_map.columns):
        assert isinstance(column, Piecewise)
        part = "" if None in by_class else f", class {k}"
        try:
            found += _judged(part, task, run_map, column, k, rows, box, objective)
        except Unverifiable as error:
            doubts.append(error)
    if doubts and not found:
        raise doubts[0]
    return found


def _judged(
    part: str,
    task: Task,
    run_map: RunMap,
    column: Piecewise,
    k: int,
    rows: CalibrationRows,
    box: Box,
    objective: Objective,
) -> list[Excess]:
    y = rows.y[:, k] if task.kind == "multilabel" else rows.y
    chosen = np.flatnonzero(y >= 0)
    p, u0, u1 = run_map.pair(rows.outputs.rows(chosen), k)
    own = box.rows(chosen)
    if column.scale is None:
        at, low, high = p, own.p[0][:, k], own.p[1][:, k]
        goal = targets((y[chosen] == (k if task.kind == "multiclass" else 1)).astype(np.int64), None, objective)
    else:
        at = np.asarray(expit(column.scale.odds(u0, u1)))
        low, high = (np.asarray(expit(end)) for end in odds_range(column.scale, own, k))
        goal = at
    assert objective.binning is not None
    said = _edges(column.x, at, low, high, objective.binning)
    if said:
        return [Excess(part, math.inf, math.nan, math.nan, len(at), said)]
    found = _values(part, column, at, low, high, goal)
    if not found:
        _look_at_empty(column, at, goal, rows.outputs.p.shape[1])
    return found


def _look_at_empty(column: Piecewise, at: Floats, goal: Floats, columns: int) -> None:
    """Raise Unverifiable where the bins without a row follow no convention."""
    empty = np.bincount(column.bins(at), minlength=len(column.y)) == 0
    if not empty.any():
        return
    edges = np.concatenate(([0.0], column.x, [1.0]))
    middle, values = (edges[:-1] + edges[1:]) / 2.0, column.y[~empty]
    filled = np.cumsum(~empty)  # how many bins with rows stand up to each
    before, after = values[np.maximum(filled - 1, 0)], values[np.minimum(filled, len(values) - 1)]
    between = np.interp(middle, middle[~empty], values)
    constants = 0.0, 0.5, 1.0, 1.0 / columns, float(goal.mean())
    conventions = middle, before, after, between, *(np.full(len(middle), value) for value in constants)
    if not any((np.abs(said - column.y)[empty] <= EMPTY_SLACK).all() for said in conventions):
        bins = counted(int(empty.sum()), "bin")
        raise Unverifiable(f"{bins} without a calibration row follow no convention: give them their middle, for one")


def _edges(cuts: Floats, at: Floats, low: Floats, high: Floats, binning: Binning) -> str:
    """Why the cuts are not those of the declared bins; '' where they may be."""
    scheme, count = binning
    if len(cuts) >= count:
        return f"{count} {scheme} bins, not {len(cuts) + 1}"
    if scheme == "equal-width":
        off = np.abs(cuts * count - np.round(cuts * count)) > WIDTH_SLACK * count
        return f"edges at whole multiples of 1/{count}" if off.any() or len(cuts) != count - 1 else ""
    if any(_cut_at(wanted, cuts, at, low, high) for wanted in _shares(len(at), count)):
        return ""
    return f"edges between {count} equal shares of the calibration rows"


def _shares(n: int, count: int) -> list[Floats]:
    """Ranks at which libraries cut ``n`` rows into ``count`` equal shares: quantiles; the rows left over spread over
    the first shares, or all in the last; full shares and a short last one."""
    j = np.arange(1, count, dtype=np.float64)
    each, rest = divmod(n, count)
    return [j * n / count, j * each + np.minimum(j, rest), j * each, np.minimum(j * -(-n // count), n)]


def _cut_at(wanted: Floats, cuts: Floats, at: Floats, low: Floats, high: Floats) -> bool:
    """Do the cuts lie at these ranks, give or take a row, and what equal and nearly equal inputs leave open?"""
    n, highs, lows = len(at), np.sort(high), np.sort(low)
    below = np.searchsorted(highs, cuts, side="left") - 1.0  # ranks that each cut may have
    upto = np.searchsorted(lows, cuts, side="right") + 1.0
    order = np.argsort(at, kind="stable")
    row = order[np.clip(np.ceil(wanted) - 1, 0, n - 1).astype(np.intp)]
    first = np.minimum(np.searchsorted(highs, low[row], side="left"), np.floor(wanted))  # ranks of inputs equal to it
    last = np.maximum(np.searchsorted(lows, high[row], side="right"), np.ceil(wanted))
    meets = (below[:, None] <= last) & (first <= upto[:, None])
    nothing = (first <= 0) | (last >= n)  # a share that ties have taken away
    return bool(meets.any(axis=1).all() and (meets.any(axis=0) | nothing).all())


def _values(part: str, column: Piecewise, at: Floats, low: Floats, high: Floats, goal: Floats) -> list[Excess]:
    """Sum of squares of the bins' values over that of their means, least over the bins that a row may lie in."""
    count = len(column.y)
    bins = column.bins(at)
    weight = np.bincount(bins, minlength=count)
    means = np.bincount(bins, weights=goal, minlength=count) / np.maximum(weight, 1)
    means = np.where(weight > 0, means, column.y)
    own, best = column.y, means
    total = math.fsum((own[bins] - goal) ** 2), math.fsum((best[bins] - goal) ** 2)
    if total[0] - total[1] <= EXCESS:
        return []
    first, last = column.bins(low), column.bins(high)
    least = np.full(len(at), np.inf)
    for step in range(int((last - first).max()) + 1):
        b = np.minimum(first + step, last)
        blur = 2.0 * np.abs(own[b] - best[b]) * (high - low if column.scale is not None else 0.0)
        least = np.minimum(least, (own[b] - goal) ** 2 - (best[b] - goal) ** 2 - blur)
    sure = math.fsum(least)
    if sure <= EXCESS:
        return []
    n = len(at)
    worst = int(np.argmax(weight * (own - best) ** 2))
    return [Excess(part, sure, total[0] / n, total[1] / n, n, f"bin {worst} at {best[worst]:.6g}")]
