"""Is a calibrator what its declared objective gives on the calibration rows? (MVC303)

The referee fits it again and compares the objective, not the parameters: other optimisers stop elsewhere. What was
stored is known within its precision only, so a fit is refused only if it is worse than the referee's for the inputs
that the stored ones may stand for (``bounds.py``): whoever minimised the objective on the true inputs can't be.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.findings import counted
from protocol.objective import Objective
from protocol.task import Task
from protocol.types import Kind
from scorer.verify.bounds import column_bound, softmax_bound
from scorer.verify.boxes import Box, box_of
from scorer.verify.losses import column_losses, penalty, softmax_losses, targets
from submission import recalibration
from submission.recalibration.maps import Floats, Outputs, RunMap, map_of

EXCESS = 0.01  # n x mean: what a fit's objective may exceed the best by
APART = 1.1  # ratio of temperatures: more is no rounding to a grid; also the widest step of one that is forgiven
PRINTED = 1e-3  # relative error of a temperature as printed
FAR = (0.1, 10.0)  # a bound on the temperature outside of this is there for separated classes
NO_OPTIMUM = "no finite optimum"  # what a fit says of itself under separation


@dataclass(frozen=True)
class CalibrationRows:
    """The rows that a run's calibrators were fitted on; multilabel labels (N, K) have -1 where there is none."""

    outputs: Outputs
    y: NDArray[np.int64]


@dataclass(frozen=True)
class Excess:
    """One fit that is worse than a refit: by ``excess`` in all, on ``n`` rows; ``refit`` says what the refit found.

    ``saw`` is set where the parameters are not even among those declared (``excess`` is then infinite).
    """

    part: str
    excess: float
    submitted: float
    best: float
    n: int
    refit: str
    saw: str = ""


class Unverifiable(Exception):
    """A fit that can't be judged; the message says why."""


def excesses(
    task: Task,
    records: Sequence[FittedCalibrator],
    objective: Objective,
    rows: CalibrationRows,
    precision: Mapping[str, Sequence[str]],
    metric: Callable[[Floats, NDArray[np.int64]], float] | None = None,
) -> list[Excess]:
    """The fits of one run that their own objective refutes.

    ``precision`` as for :func:`scorer.verify.boxes.box_of`; ``metric`` evaluates a loss that is a metric (``ece``) on
    calibrated probabilities. Raises Unverifiable where there is nothing to judge by.
    """
    kind, columns = task.kind, rows.outputs.p.shape[1]
    submitted = map_of(records, kind, columns)
    if objective.loss == "ece":
        return _on_grid(submitted, records, objective, rows, metric)
    again = _fitted(kind, records, objective, rows, submitted)
    box = box_of(submitted, rows.outputs, precision)
    judge = _Judge(kind, objective, rows, submitted, map_of(again, kind, columns), box, box.likely(precision["p"]))
    free = free_judge = None
    if _bound(again, objective):
        free = _fitted(kind, records, replace(objective, bounds=None, grid=None), rows, submitted)
        free_judge = replace(judge, best=map_of(free, kind, columns))
    found, doubts = [], []
    for mine, other, unbound in zip(_ordered(records), _ordered(again), _ordered(free or again), strict=True):
        if outside := _outside(mine, objective, len(rows.y)):
            found.append(outside)
            continue
        try:
            excess = judge.excess(mine, other)
            if excess is None and mine.family == "isotonic":  # its best map is that of the likelihood too
                excess = replace(judge, objective=replace(objective, loss="nll")).excess(mine, other)
            if excess is None or _within_a_step(mine, other, objective):
                if free_judge and _apart(mine, unbound) and free_judge.excess(mine, unbound):
                    raise Unverifiable("the declared bounds or grid decide the temperature, not the calibration rows")
                continue
        except Unverifiable as error:
            doubts.append(error)
            continue
        if NO_OPTIMUM in other.objective:
            doubts.append(Unverifiable("the objective has no finite optimum on these rows (classes are separated)"))
            continue
        found.append(excess)
    if doubts and not found:
        raise doubts[0]
    return found


@dataclass(frozen=True)
class _Judge:
    """Compares a submitted map with a refit of it, part by part."""

    kind: Kind
    objective: Objective
    rows: CalibrationRows
    submitted: RunMap
    best: RunMap
    box: Box
    likely: Box

    def excess(self, mine: FittedCalibrator, other: FittedCalibrator) -> Excess | None:
        """By how much the submitted fit is worse for every input in the box; None where it is not."""
        columns = self._columns(mine)
        parts = [self._softmax_part()] if self.submitted.softmax is not None else [self._part(k) for k in columns]
        n = sum(len(part.own) for part in parts)
        extra = penalty(mine, self.objective, n), penalty(other, self.objective, n)
        own = math.fsum(value for part in parts for value in part.own) + extra[0]
        best = math.fsum(value for part in parts for value in part.best) + extra[1]
        if own - best <= EXCESS:
            return None
        sure, likely = (
            math.fsum(part.least(box) for part in parts) + extra[0] - extra[1] for box in (self.box, self.likely)
        )
        if sure > EXCESS:
            return Excess(_name(mine), min(own - best, sure), own / n, best / n, n, _said(other))
        # a probability that may be as small as one likes excuses any map: a fit that needs one has not been checked
        if likely > EXCESS:
            rows = counted(int(self.box.open.sum()), "saturated calibration row")
            raise Unverifiable(f"{rows} without logits may excuse another fit")
        return None

    def _columns(self, record: FittedCalibrator) -> Sequence[int]:
        """The columns that one record serves."""
        if record.class_index is not None:
            return [record.class_index]
        return range(self.rows.outputs.p.shape[1])

    def _part(self, k: int) -> "_Part":
        y = self.rows.y[:, k] if self.kind == "multilabel" else self.rows.y
        chosen = np.flatnonzero(y >= 0)
        event = (y[chosen] == (k if self.kind == "multiclass" else 1)).astype(np.int64)
        target = targets(event, None, self.objective)
        pair = self.submitted.pair(self.rows.outputs.rows(chosen), k)
        both = self.submitted.columns[k], self.best.columns[k]
        own, best = (column_losses(column, pair, target, self.objective) for column in both)
        return _Part(own, best, lambda box: column_bound(*both, k, box.rows(chosen), target, self.objective))

    def _softmax_part(self) -> "_Part":
        assert self.submitted.softmax is not None
        assert self.best.softmax is not None
        x = self.submitted.inputs(self.rows.outputs)
        target = targets(self.rows.y, x.shape[1], self.objective)
        both = self.submitted.softmax, self.best.softmax
        own, best = (softmax_losses(scaling, x, target, self.objective) for scaling in both)
        return _Part(own, best, lambda box: softmax_bound(*both, x, box, target, self.objective))


@dataclass(frozen=True)
class _Part:
    """Losses of both fits, row by row, and the least that their differences can sum to over a box."""

    own: Floats
    best: Floats
    least: Callable[[Box], float]


def _fitted(
    kind: Kind, records: Sequence[FittedCalibrator], objective: Objective, rows: CalibrationRows, submitted: RunMap
) -> tuple[FittedCalibrator, ...]:
    """A refit of what ``records`` hold, from the same inputs."""
    first = records[0]
    try:
        return recalibration.fit(
            first.family,
            rows.outputs.p,
            rows.y,
            kind=kind,
            model=first.model,
            seed=first.seed,
            calibrator=first.calibrator,
            objective=objective,
            logits=rows.outputs.z if submitted.source == "logits" else None,
            pooled=_pooled(records, kind),
            on="probabilities" if first.family == "platt" and submitted.source == "probabilities" else None,
        )
    except ValueError as error:
        raise Unverifiable(str(error)) from None


def _bound(again: Sequence[FittedCalibrator], objective: Objective) -> bool:
    """True where bounds or a grid, and not the rows alone, may have set a temperature."""
    if objective.grid is not None:
        return True
    return objective.bounds is not None and any(
        record.parameters.get("temperature") in objective.bounds for record in again
    )


def _apart(mine: FittedCalibrator, free: FittedCalibrator) -> bool:
    """Is a temperature within the usual range another than that of a fit without bounds or grid?"""
    t, other = (float(record.parameters["temperature"]) for record in (mine, free))  # type: ignore[arg-type]
    return FAR[0] < t < FAR[1] and abs(math.log(t / other)) > math.log(APART)


def _outside(mine: FittedCalibrator, objective: Objective, n: int) -> Excess | None:
    """A temperature beyond the declared bounds, or beyond the ends of the grid, however well it fits."""
    ends = [(e[0], e[-1]) for e in (objective.bounds, objective.grid) if e is not None]
    if not ends or "temperature" not in mine.parameters:
        return None
    low, high, t = max(e[0] for e in ends), min(e[1] for e in ends), float(mine.parameters["temperature"])  # type: ignore[arg-type]
    if low * (1.0 - PRINTED) <= t <= high * (1.0 + PRINTED):
        return None
    return Excess(
        _name(mine), math.inf, math.nan, math.nan, n, f"{low:g} to {high:g}, as declared", f"temperature {t:.6g}"
    )


def _ordered(records: Sequence[FittedCalibrator]) -> list[FittedCalibrator]:
    return sorted(records, key=lambda record: -1 if record.class_index is None else record.class_index)


def _pooled(records: Sequence[FittedCalibrator], kind: Kind) -> bool:
    return kind == "multiclass" and records[0].family == "isotonic" and records[0].class_index is None


def _name(record: FittedCalibrator) -> str:
    return "" if record.class_index is None else f", class {record.class_index}"


def _said(record: FittedCalibrator) -> str:
    """Parameters of a refit that are short enough to print."""
    short = [f"{name} {value:.6g}" for name, value in record.parameters.items() if isinstance(value, float)]
    return ", ".join(short)


def _within_a_step(mine: FittedCalibrator, other: FittedCalibrator, objective: Objective) -> bool:
    """On a declared grid: no further from the best point than the grid's step there."""
    if objective.grid is None:
        return False
    return _near(objective.grid, float(mine.parameters["temperature"]), float(other.parameters["temperature"]))  # type: ignore[arg-type]


def _near(grid: Sequence[float], value: float, best: float) -> bool:
    points = np.asarray(grid)
    place = int(np.abs(points - best).argmin())
    low = max(float(points[max(place - 1, 0)]), best / APART)  # a coarse grid would leave all between its points open
    high = min(float(points[min(place + 1, len(points) - 1)]), best * APART)
    slack = 1e-9 * max(1.0, best)
    return bool(low - slack <= value <= high + slack)


def _on_grid(
    submitted: RunMap,
    records: Sequence[FittedCalibrator],
    objective: Objective,
    rows: CalibrationRows,
    metric: Callable[[Floats, NDArray[np.int64]], float] | None,
) -> list[Excess]:
    """A loss that is a metric has many minima: only the best point of a declared grid can be told."""
    if objective.grid is None or metric is None or submitted.family != "temperature":
        raise Unverifiable("a calibration error has no unique optimum; with a grid of temperatures it has")
    found = []
    for record in _ordered(records):
        if outside := _outside(record, objective, len(rows.y)):
            found.append(outside)
            continue
        k = record.class_index
        outputs, y = rows.outputs, rows.y
        if submitted.kind == "multilabel":
            assert k is not None
            labelled = np.flatnonzero(y[:, k] >= 0)
            z = None if outputs.z is None else outputs.z[labelled, k : k + 1]
            outputs, y = Outputs(outputs.p[labelled, k : k + 1], z), y[labelled, k]
        kind: Kind = "binary" if submitted.kind == "multilabel" else submitted.kind

        def value(t: float, record: FittedCalibrator = record, outputs: Outputs = outputs, y: NDArray[np.int64] = y, kind: Kind = kind) -> float:  # fmt: skip  # noqa: E501
            at = record.model_copy(update={"parameters": {"temperature": t}, "class_index": None})
            return metric(map_of([at], kind, outputs.p.shape[1]).apply(outputs), y)

        values = np.array([value(t) for t in objective.grid])
        t = record.parameters["temperature"]
        assert isinstance(t, float)
        own, best, n = value(t), float(values.min()), len(y)
        good = np.flatnonzero(n * (values - best) <= EXCESS)
        if n * (own - best) <= EXCESS or any(_near(objective.grid, t, objective.grid[i]) for i in good):
            continue
        found.append(
            Excess(
                _name(record), n * (own - best), own, best, n, f"temperature {objective.grid[int(values.argmin())]:.6g}"
            )
        )
    return found
