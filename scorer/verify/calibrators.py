"""Every declared calibrator is fitted again and applied again: what comes of it, as problems, notes and gaps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.facts import Problem, Verification
from protocol.findings import MAX_SAMPLES, counted
from protocol.objective import objective_of
from protocol.submission import Method, Submission
from protocol.task import Task
from scorer.verify import custom, exchange
from scorer.verify.bins import binned_excesses
from scorer.verify.boxes import COARSEST, effective, output_slack, unit_of
from scorer.verify.logits import stray_logits
from scorer.verify.refit import CalibrationRows, Excess, Unverifiable, excesses
from scorer.verify.replay import Replay, replay
from scorer.verify.rows import EXTERNAL, RunRows, Tables, common, tables_of
from scorer.warehouse import Warehouse
from submission.recalibration.maps import Floats, UnusableMap, map_of

REFIT, REPLAY, SHIFT, MONOTONE = (
    "calibrator-not-reproducible",
    "frozen-calibrator-not-applied",
    "refitted-under-shift",
    "map-not-monotone",
)
EXCHANGE = "calibration-and-test-scores-not-exchangeable"
BINNED = ("histogram", "scaling-binning")
MANY = 0.05  # of the rows: so many that can't be verified leave the calibrator unverified
FALL = 1e-9  # of an isotonic value: printed parameters are not exact

Precision = Mapping[str, Sequence[str]]


@dataclass
class _Found:
    """What is gathered over the runs; samples are kept with how bad they are, so that the worst come first."""

    samples: dict[tuple[str, str], list[tuple[float, str, str]]] = field(default_factory=dict)
    counts: dict[tuple[str, str], int] = field(default_factory=dict)
    noted: dict[tuple[str, str, str], list[str]] = field(default_factory=dict)
    unverified: dict[str, dict[str, None]] = field(default_factory=dict)
    open_rows: dict[str, int] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def offence(self, slug: str, where: str, badness: float, sample: str, wanted: str, count: int = 1) -> None:
        kept = self.samples.setdefault((slug, where), [])
        kept.append((badness, sample, wanted))
        kept.sort(key=lambda entry: -entry[0])
        del kept[MAX_SAMPLES:]
        self.counts[slug, where] = self.counts.get((slug, where), 0) + count

    def note(self, slug: str, where: str, saw: str, wanted: str) -> None:
        self.noted.setdefault((slug, where, wanted), []).append(saw)

    def notes(self) -> Iterator[Problem]:
        for (slug, where, wanted), seen in sorted(self.noted.items()):
            saw = seen[0] if len(seen) == 1 else f"{counted(len(seen), 'fit')}: {seen[0]}"
            yield Problem(slug, where, saw, wanted, len(seen), tuple(seen[:MAX_SAMPLES]) if len(seen) > 1 else ())

    def cannot(self, calibrator: str, reason: str, *slugs: str) -> None:
        self.reasons.setdefault(calibrator, reason)
        for slug in slugs:
            self.unverified.setdefault(slug, {})[f"{calibrator}: {reason}"] = None

    def problems(self) -> Iterator[Problem]:
        for (slug, where), samples in sorted(self.samples.items()):
            count, texts = self.counts[slug, where], tuple(sample for _, sample, _ in samples)
            what = "fit" if slug in (REFIT, MONOTONE) else "row"
            saw = f"{counted(count, what)}: {texts[0]}" if count > 1 else texts[0]
            yield Problem(slug, where, saw, samples[0][2], count, texts)


def verify(
    task: Task,
    record: Submission,
    calibrators: Sequence[FittedCalibrator],
    extras: tuple[str, ...],
    warehouse: Warehouse,
    precision: Mapping[str, str],
) -> Verification:
    """Fit and apply every declared calibrator again; reads no test label.

    ``extras`` are the subgroup columns of the split file in order, ``precision`` is that of each stored column.
    """
    tables, stated = tables_of(task, record, extras, warehouse, precision)
    found = _Found()
    records: dict[tuple[str, int, str], list[FittedCalibrator]] = {}
    for entry in calibrators:
        records.setdefault((entry.model, entry.seed, entry.calibrator), []).append(entry)
    methods = [method for method in record.calibration.methods if method.family != "none"]
    looks: list[tuple[float, str]] = []
    for model in record.models:
        for seed in model.run_seeds:
            plain = tables.run(model.name, seed, "none")
            units = {**stated, "p": effective(stated["p"], plain.outputs.p)}
            fitted_on, evaluated = tables.calibration(plain), tables.evaluated(plain)
            if record.calibration.cross_fit is None:
                looks += _looks(plain, tables, f"model {model.name}, seed {seed}")
            _stray(found, task, plain, units, warehouse, f"model {model.name}, seed {seed}")
            for method in methods:
                run = _Run(f"model {model.name}, seed {seed}", method, records.get((model.name, seed, method.name), []))
                stored = tables.run(model.name, seed, method.name)
                _one_run(found, task, run, fitted_on, evaluated, stored, tables, units, warehouse)
    return Verification(
        problems=(*found.problems(), *_exchangeable(looks)),
        notes=(*found.notes(), *_open(found)),
        unverified={slug: tuple(reasons) for slug, reasons in found.unverified.items()},
        calibrators={method.name: found.reasons.get(method.name, "") for method in methods},
    )


@dataclass(frozen=True)
class _Run:
    name: str
    method: Method
    records: Sequence[FittedCalibrator]

    @property
    def where(self) -> str:
        return f"calibrator {self.method.name}"


def _one_run(
    found: _Found,
    task: Task,
    run: _Run,
    fitted_on: CalibrationRows,
    evaluated: RunRows,
    stored: RunRows,
    tables: Tables,
    units: Precision,
    warehouse: Warehouse,
) -> None:
    image, inputs, outputs = common(evaluated, stored)
    if run.method.family == "custom":
        external = np.asarray(tables.images.part[image] == EXTERNAL)
        said = custom.looked_at(task.kind, inputs.p, outputs.p, external, output_slack(units["p"]))
        found.cannot(run.method.name, f"not one of the reference families ({said})", REFIT, REPLAY, SHIFT, MONOTONE)
        return
    if not run.records:
        return  # MVC310 says so
    records = _readable(run.records, task, inputs.z is not None)
    try:
        run_map = map_of(records, task.kind, len(task.probability_columns))
        run_map.apply(inputs.rows(slice(0, 1)))
    except UnusableMap as error:
        found.cannot(run.method.name, str(error), REFIT, REPLAY, SHIFT)
        return
    if run_map.softmax is not None and run_map.source == "logits" and not run_map.softmax.of_differences:
        said = "its map depends on constants in the rows of logits, which no probability shows: fit log-probabilities"
        found.cannot(run.method.name, said, REFIT, REPLAY, SHIFT)
        return
    if (unit := max(map(unit_of, units["p"]))) > 1.5 * COARSEST:
        said = f"probabilities are known to {unit:g} only, {COARSEST:g} is wanted"
        found.cannot(run.method.name, said, REFIT, REPLAY, SHIFT)
    _monotone(found, run)
    _refitted(found, task, run, records, fitted_on, units)
    if len(image):
        played = replay(run_map, inputs, outputs.p, image, tables.images, units)
        _replayed(found, run, played, image, outputs.p, warehouse, task)


def _readable(records: Sequence[FittedCalibrator], task: Task, logits: bool) -> Sequence[FittedCalibrator]:
    """Without stored logits a map of them is one of log-probabilities, where a constant in each row does not matter."""
    same = ("temperature",) if task.kind == "multiclass" else ("temperature", "platt", "scaling-binning")
    if logits or records[0].input != "logits" or records[0].family not in same:
        return records
    return [entry.model_copy(update={"input": "log-probabilities"}) for entry in records]


def _monotone(found: _Found, run: _Run) -> None:
    for entry in run.records:
        part = run.name + ("" if entry.class_index is None else f", class {entry.class_index}")
        given = {name: np.asarray(value, dtype=np.float64) for name, value in entry.parameters.items()}
        if entry.family == "isotonic" and len(given["y"].ravel()) > 1:
            fall = float(-np.diff(given["y"]).min())
            if fall > FALL:
                found.offence(MONOTONE, run.where, fall, f"{part}: y falls by {fall:.3g}", "y that never falls")
        if entry.family == "beta" and min(given["a"], given["b"]) < 0:
            least = float(min(given["a"], given["b"]))
            found.offence(MONOTONE, run.where, -least, f"{part}: a or b is {least:.3g}", "a and b of at least 0")
        if entry.family in ("platt", "scaling-binning") and given["slope"] < 0:
            saw = f"{part}: slope {float(given['slope']):.3g}"
            found.note(MONOTONE, run.where, saw, "a positive slope: this one turns the order round")


def _refitted(
    found: _Found,
    task: Task,
    run: _Run,
    records: Sequence[FittedCalibrator],
    rows: CalibrationRows,
    units: Precision,
) -> None:
    objective = objective_of(run.method)
    if isinstance(objective, str):
        found.cannot(run.method.name, objective, REFIT)
        return
    if not len(rows.y) or rows.y.max() >= max(2, len(task.classes)) or (task.kind != "multilabel" and rows.y.min() < 0):
        found.cannot(run.method.name, "the calibration rows are not all labelled", REFIT)
        return

    def metric(q: Floats, y: NDArray[np.int64]) -> float:
        from scorer.metrics import ece, ece_width  # compiled code, loaded only where it is asked for

        scheme, bins = objective.binning or ("equal-mass", 15)
        table = q[:, 0] if q.shape[1] == 1 else q
        return float((ece if scheme == "equal-mass" else ece_width)(table, y, bins=bins).value)

    try:
        if run.method.family in BINNED:
            worse = binned_excesses(task, records, objective, rows, units)
        else:
            worse = excesses(task, records, objective, rows, units, metric)
    except Unverifiable as error:
        found.cannot(run.method.name, str(error), REFIT)
        return
    _counted(found, run, records, rows)
    for excess in worse:
        found.offence(REFIT, run.where, excess.excess, f"{run.name}{excess.part}: {_worse(excess)}", _wanted(excess))


def _counted(found: _Found, run: _Run, records: Sequence[FittedCalibrator], rows: CalibrationRows) -> None:
    """Entries that say how many rows they were fitted on, and say otherwise than the released rows: a note."""
    for entry in records:
        n = len(rows.y) if rows.y.ndim == 1 else int((rows.y[:, entry.class_index or 0] >= 0).sum())
        if entry.n not in (n, n * rows.outputs.p.shape[1]):  # pooled: pairs
            found.note(REFIT, run.where, f"{run.name}: n {entry.n}", f"{n}, the labelled calibration rows")


def _worse(excess: Excess) -> str:
    if not np.isfinite(excess.excess):
        return excess.saw or "bins other than those declared"
    rows = counted(excess.n, "row")
    return f"objective {excess.submitted:.6g} on {rows}, in all {excess.excess:.3g} above that of a refit"


def _wanted(excess: Excess) -> str:
    if not np.isfinite(excess.excess):
        return excess.refit
    return f"at most 0.01 in all above {excess.best:.6g}" + (f" ({excess.refit})" if excess.refit else "")


def _replayed(
    found: _Found, run: _Run, played: Replay, image: NDArray[np.int64], stored: Floats, warehouse: Warehouse, task: Task
) -> None:
    names = warehouse.images
    if played.unverified:
        found.open_rows[run.method.name] = found.open_rows.get(run.method.name, 0) + played.unverified
        if played.unverified > MANY * len(image):
            said = f"{played.unverified} of {counted(len(image), 'row')} are saturated, without logits"
            found.cannot(run.method.name, f"{run.name}: {said}", REPLAY, SHIFT)
    for own in (False, True):
        chosen = np.flatnonzero(played.of_slices == own)
        if not len(chosen):
            continue
        slug = SHIFT if own else REPLAY
        where = f"{run.where}: {', '.join(played.slices)}" if own else run.where
        for rank, place in enumerate(chosen[:MAX_SAMPLES]):
            row, k = int(played.off[place]), int(played.column[place])
            low, high, value = played.low[place, k], played.high[place, k], stored[row, k]
            badness = float(max(low - value, value - high))
            sample = f"{run.name}, image {names[image[row]]}: {task.probability_columns[k]} {value:.6g}"
            wanted = f"{low:.6g}" if high - low < 1e-6 else f"{low:.6g} to {high:.6g}"
            count = len(chosen) if rank == 0 else 0
            found.offence(slug, where, badness, sample, f"{wanted}, as the frozen map gives it", count)


def _stray(found: _Found, task: Task, plain: RunRows, units: Precision, warehouse: Warehouse, name: str) -> None:
    """Logits that do not give the probabilities beside them would let any map be shown as another."""
    off, made, column = stray_logits(task.kind, plain.outputs, units)
    for rank, row in enumerate(off[:MAX_SAMPLES]):
        k = int(column[rank])
        value = plain.outputs.p[row, k]
        sample = f"{name}, image {warehouse.images[plain.image[row]]}: probability {value:.6g}"
        wanted = f"{made[rank]:.6g}, as the stored logits give it"
        badness, count = abs(value - made[rank]), len(off) if rank == 0 else 0
        found.offence(REPLAY, "logits of calibrator none", badness, sample, wanted, count)


def _open(found: _Found) -> list[Problem]:
    wanted = "logits beside the probabilities, or more digits"
    return [
        Problem(REPLAY, f"calibrator {name}", f"{counted(n, 'saturated row')} without logits: not verified", wanted, n)
        for name, n in found.open_rows.items()
    ]


def _looks(plain: RunRows, tables: Tables, name: str) -> list[tuple[float, str]]:
    return [
        (
            d.p_value,
            f"{name}, column {d.column}: distance {d.distance:.3f}, {d.patients[0]} and {d.patients[1]} patients",
        )
        for d in exchange.differences(plain, tables.images)
    ]


def _exchangeable(looks: Sequence[tuple[float, str]]) -> list[Problem]:
    """The smallest p-value of all comparisons, where it is too small for chance."""
    if not looks:
        return []
    p_value, said = min(looks)
    if p_value * len(looks) >= exchange.LEVEL:
        return []
    saw = f"{said}; p {p_value:.2g} in {counted(len(looks), 'comparison')}"
    return [Problem(EXCHANGE, "uncalibrated scores of calib and test", saw, "scores that look alike by patient")]
