"""Every declared calibrator of a bundle, fitted on the uncalibrated calibration rows and applied to test and external.

Tables come decoded. Of the labels only those of the rows that are fitted on are read.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.findings import counted, plain
from protocol.objective import Binning, Objective, objective_of
from protocol.submission import Calibration, Method
from protocol.task import Task
from submission.recalibration.fitting import READS_LOGITS, apply, fit
from submission.recalibration.rows import Floats, Ints

NULL = np.iinfo(np.int64).min  # a missing whole number in a decoded table
SHOWN = 3
# The loss ece, from the layer that has the metrics: probabilities, labels, weights, bins.
Ece = Callable[[Floats, Ints, Floats, Binning], float]


class DecodedTable(Protocol):
    """A decoded table: text columns as codes into their distinct values (-1: null), numbers as int64 or float64."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    def column(self, name: str) -> NDArray[Any]:
        """One column."""

    def values(self, name: str) -> list[str]:
        """Distinct values of a text column."""


class RecalibrationError(ValueError):
    """The calibrators can't be fitted; the message says what was seen and what mends it."""


@dataclass(frozen=True)
class Recalibrated:
    """One run: its records, and the calibrated probabilities ``q`` (N, K) of the test and external ``images``."""

    model: str
    seed: int
    calibrator: str
    records: tuple[FittedCalibrator, ...]
    images: Sequence[str]
    q: Floats


@dataclass(frozen=True)
class Plan:
    """What is fitted (``methods`` with their objectives), for which models and seeds, on which rows."""

    task: Task
    runs: Sequence[tuple[str, int]]
    methods: Sequence[tuple[Method, Objective]]
    cross_fit: bool


def chosen(calibration: Calibration, names: Sequence[str] = ()) -> list[tuple[Method, Objective]]:
    """The declared methods called ``names``, or all that can be fitted; raises RecalibrationError."""
    declared = {method.name: method for method in calibration.methods}
    unknown = [name for name in names if name not in declared]
    if unknown:
        to_fit = [method.name for method in calibration.methods if method.family not in ("none", "custom")]
        said = f"{plain(unknown[0])} is no declared method"
        raise RecalibrationError(f"{said}; declared and fitted here: {', '.join(to_fit) or 'no method'}")
    wanted = [declared[name] for name in dict.fromkeys(names)] or list(declared.values())
    methods = [method for method in wanted if method.family not in ("none", "custom")]
    if names and len(methods) < len(wanted):
        other = next(method for method in wanted if method not in methods)
        raise RecalibrationError(f"method {other.name} has family {other.family}: there is nothing to fit here")
    if not methods:
        raise RecalibrationError("the record declares no calibrator that can be fitted: add one to calibration.methods")
    expected = "train" if calibration.cross_fit is not None else "calib"
    if calibration.fitted_on != expected:
        said = f"the record says fitted_on: {calibration.fitted_on}, but fits are on {expected} alone (MVC302)"
        raise RecalibrationError(f"{said}: correct calibration.fitted_on")
    found = []
    for method in methods:
        objective = objective_of(method)
        if isinstance(objective, str):
            raise RecalibrationError(objective)
        found.append((method, objective))
    return found


def recalibrated(
    plan: Plan,
    splits: DecodedTable,
    predictions: DecodedTable,
    ece: Ece,
    progress: Callable[[str], None] = lambda step: None,
) -> Iterator[Recalibrated]:
    """Fit and apply every method of ``plan``, run by run; raises RecalibrationError."""
    fitting, evaluated, row_of = _rows(plan, splits, predictions)
    y = _labels(plan.task, splits, fitting)
    total = len(plan.runs) * len(plan.methods)
    done = 0
    images = splits.values("image_id")
    names = [images[code] for code in np.asarray(splits.column("image_id"))[evaluated]]
    for model, seed in plan.runs:
        place = _places(plan, splits, predictions, row_of, (model, seed), fitting, evaluated)
        for method, objective in plan.methods:
            done += 1
            progress(f"fitting {method.name}, model {model}, seed {seed} ({done} of {total})")
            p, z = _outputs(plan.task, predictions, place[fitting])
            records = _fit(plan.task, method, objective, (model, seed), p, z, y, ece)
            p, z = _outputs(plan.task, predictions, place[evaluated])
            q = apply(records, p, kind=plan.task.kind, logits=z) if len(p) else p
            yield Recalibrated(model, seed, method.name, records, names, q)


def absent_classes(plan: Plan, splits: DecodedTable, predictions: DecodedTable) -> list[str]:
    """A note on each class (or outcome of a finding) of which the fitted rows hold none."""
    fitting, _, _ = _rows(plan, splits, predictions)
    y, where = _labels(plan.task, splits, fitting), _where(plan)
    if plan.task.kind != "multilabel":
        return [
            f"class {plain(name)} has no image in {where}: what the maps say of it rests on no case"
            for k, name in enumerate(plan.task.classes)
            if not (y == k).any()
        ]
    return [
        f"finding {plain(name)} is {'never' if value else 'always'} there in {where}: its maps rest on one outcome"
        for k, name in enumerate(plan.task.classes)
        for value in (0, 1)
        if not (y[:, k] == value).any()
    ]


def _fit(
    task: Task,
    method: Method,
    objective: Objective,
    run: tuple[str, int],
    p: Floats,
    z: Floats | None,
    y: Ints,
    ece: Ece,
) -> tuple[FittedCalibrator, ...]:
    binning: Binning = objective.binning or ("equal-mass", 15)
    try:
        return fit(
            method.family,
            p,
            y,
            kind=task.kind,
            model=run[0],
            seed=run[1],
            calibrator=method.name,
            objective=objective,
            logits=z if method.family in READS_LOGITS else None,
            metric=partial(_ece, ece, binning),
        )
    except ValueError as error:
        raise RecalibrationError(f"method {method.name} can't be fitted: {error}") from None


def _ece(ece: Ece, binning: Binning, p: Floats, y: Ints, weights: Floats) -> float:
    return ece(p, y, weights, binning)


def _where(plan: Plan) -> str:
    return "the train images with a fold" if plan.cross_fit else "calib"


def _rows(
    plan: Plan, splits: DecodedTable, predictions: DecodedTable
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], Ints]:
    """Rows of the split file that are fitted on, those that are mapped, and the row of each image that is predicted."""
    names = np.array(splits.values("split"))
    split = names[np.asarray(splits.column("split"))]
    fitting = split == ("train" if plan.cross_fit else "calib")
    if plan.cross_fit:
        has = np.asarray(splits.column("fold")) != NULL if "fold" in splits.columns else np.zeros(len(split), bool)
        fitting &= has
    if plan.cross_fit and not fitting.any():
        mend = "add the column fold to splits.parquet: the fold of every out-of-fold train image"
        raise RecalibrationError(f"no train image has a fold, and the record declares cross_fit; {mend}")
    if not fitting.any():
        said = f"there is no image in {_where(plan)}"
        raise RecalibrationError(f"{said}: reserve patients as split calib, or declare calibration.cross_fit")
    images = splits.values("image_id")
    codes = np.asarray(splits.column("image_id"))
    if len(np.unique(codes)) < len(codes):
        raise RecalibrationError("an image stands twice in the split file (MVC102): keep one row an image")
    row = np.empty(len(images), dtype=np.int64)
    row[codes] = np.arange(len(codes))
    known = dict(zip(images, row.tolist(), strict=True))
    row_of = np.array([known.get(image, -1) for image in predictions.values("image_id")], dtype=np.int64)
    return fitting, np.isin(split, ("test", "external")), row_of


def _labels(task: Task, splits: DecodedTable, fitting: NDArray[np.bool_]) -> Ints:
    """Labels of the fitted rows: (n,), or (n, K) with -1 where a finding was not labelled."""
    columns = [np.asarray(splits.column(name))[fitting] for name in task.label_columns]
    if task.kind == "multilabel":
        return np.column_stack([np.where(column == NULL, -1, column) for column in columns])
    missing = int((columns[0] == NULL).sum())
    if missing:
        said = f"{counted(missing, 'image')} that the calibrators are fitted on have no label (MVC108)"
        raise RecalibrationError(f"{said}: give the labels of calib; those of test and external are not needed")
    return np.asarray(columns[0])


def _places(
    plan: Plan,
    splits: DecodedTable,
    predictions: DecodedTable,
    row_of: Ints,
    run: tuple[str, int],
    fitting: NDArray[np.bool_],
    evaluated: NDArray[np.bool_],
) -> Ints:
    """Where in the predictions the uncalibrated row of each image of the split file stands; -1 where it has none."""
    model, seed = run
    rows = np.asarray(predictions.column("seed")) == seed
    for name, value in (("model", model), ("calibrator", "none")):
        values = predictions.values(name)
        rows &= np.asarray(predictions.column(name)) == (values.index(value) if value in values else -2)
    found = np.flatnonzero(rows)
    image = row_of[np.asarray(predictions.column("image_id"))[found]]
    found, image = found[image >= 0], image[image >= 0]
    place = np.full(len(fitting), -1, dtype=np.int64)
    place[image] = found
    needed = fitting | evaluated
    run_text = f"model {model}, seed {seed}"
    twice = np.bincount(image, minlength=len(needed)) > 1
    _refuse(
        splits, needed & twice, f"{run_text}: two rows of calibrator none for one image (MVC405)", "keep one of them"
    )
    missing = needed & (place < 0)
    mend = "predict them all, calibrator none"
    _refuse(splits, missing & fitting, f"{run_text}: no row of calibrator none for images of {_where(plan)}", mend)
    _refuse(splits, missing, f"{run_text}: no row of calibrator none for images of test or external", mend)
    if plan.cross_fit:
        if "fold" not in predictions.columns:
            said = "the predictions have no column fold, and the record declares cross_fit (MVC309)"
            raise RecalibrationError(f"{said}: add it, the fold of its image in each out-of-fold row, null elsewhere")
        own = np.asarray(predictions.column("fold"))[place]
        off = fitting & (own != np.asarray(splits.column("fold")))
        mend = "give each out-of-fold row the fold of its image"
        _refuse(splits, off, f"{run_text}: the fold of a row is not that of the split file (MVC309)", mend)
    return place


def _refuse(splits: DecodedTable, rows: NDArray[np.bool_], said: str, mend: str) -> None:
    if not rows.any():
        return
    images = splits.values("image_id")
    names = [plain(images[code]) for code in np.asarray(splits.column("image_id"))[rows][:SHOWN]]
    more = int(rows.sum()) - len(names)
    listed = ", ".join(names) + (f" and {more} more" if more else "")
    raise RecalibrationError(f"{said}: {listed}; {mend}")


def _outputs(task: Task, predictions: DecodedTable, rows: Ints) -> tuple[Floats, Floats | None]:
    """Probabilities and, where they are stored, logits of the given rows of the predictions."""
    p = np.column_stack([np.asarray(predictions.column(name))[rows] for name in task.probability_columns])
    names = [f"z_{name.removeprefix('p_')}" for name in task.probability_columns]
    if not all(name in predictions.columns for name in names):
        return p, None
    return p, np.column_stack([np.asarray(predictions.column(name))[rows] for name in names])
