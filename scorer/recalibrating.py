"""``mvc recalibrate`` behind the command line: a bundle on disk in, its calibrated rows and parameters out.

Intake decodes the tables as for a check, so that any accepted shape of the predictions will do; what is fitted and
written is the business of ``submission.recalibration``.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.facts import Problem
from protocol.findings import counted, plain
from protocol.objective import Binning
from scorer.intake.columns import predictions_columns
from scorer.intake.jail import Intake, decode
from submission.bundle import Bundle, open_bundle
from submission.recalibration.refit import Plan, RecalibrationError, absent_classes, chosen, recalibrated
from submission.recalibration.rewrite import Shape, rewrite
from submission.recalibration.rows import Floats, Ints

SHOWN = 3


@dataclass(frozen=True)
class Recalibration:
    """What was done: files, fits a method (``runs``), rows added, and rows that each was fitted on."""

    predictions: str
    parameters: str
    runs: Mapping[str, int]
    rows: int
    fitted_on: str
    fitted_rows: int
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As one JSON document."""
        return asdict(self)


def recalibrate_bundle(
    path: Path,
    *,
    record: Path | None = None,
    methods: Sequence[str] = (),
    out: Path | None = None,
    force: bool = False,
    progress: Callable[[str], None] = lambda step: None,
) -> Recalibration:
    """Fit the declared ``methods`` (none named: all) of the bundle at ``path`` and write their rows and records.

    Raises NoBundleError where there is no bundle, RecalibrationError where it can't be done, OSError where a file
    can't be written; nothing is changed then.
    """
    with tempfile.TemporaryDirectory(prefix="mvc-") as scratch:
        folders = [Path(scratch, name) for name in ("bundle", "arrays")]
        for folder in folders:
            folder.mkdir()
        bundle = open_bundle(path, folders[0], record)
        if bundle.archive is not None:
            raise RecalibrationError(f"{path.name} is an archive, which can't be written to: unpack it first")
        _refuse(bundle, None)
        assert bundle.task is not None
        assert bundle.record is not None
        found = chosen(bundle.record.calibration, methods)
        target = _target(bundle, out, force)
        parameters = target.parent / bundle.record.calibration.parameters
        progress("decoding tables")
        intake = decode(bundle, folders[1])
        _refuse(bundle, intake)
        assert intake.splits is not None
        assert intake.predictions is not None
        _spare(bundle, intake, [method.name for method, _ in found], force)
        seeds = [(model.name, seed) for model in bundle.record.models for seed in model.run_seeds]
        plan = Plan(bundle.task, seeds, found, bundle.record.calibration.cross_fit is not None)
        notes = absent_classes(plan, intake.splits, intake.predictions)
        runs = list(recalibrated(plan, intake.splits, intake.predictions, _ece, progress))
        progress("writing")
        table = intake.predictions.table
        columns = predictions_columns(list(table.columns), bundle.task, table.file)
        shape = Shape(table.columns, bundle.task.kind, columns.source, columns.spread, table.precision)
        rows = rewrite(bundle.root / bundle.predictions, target, parameters, shape, runs, bundle.calibrators or ())
    endless = sum("no finite optimum" in record.objective for run in runs for record in run.records)
    if endless:
        notes.append(f"{counted(endless, 'fit')} without a finite optimum: the calibration rows can be separated")
    fitted = max(record.n for run in runs for record in run.records)
    return Recalibration(
        str(target),
        str(parameters),
        {method.name: len(seeds) for method, _ in found},
        rows,
        "out-of-fold train" if plan.cross_fit else "calib",
        fitted,
        tuple(notes),
    )


def _ece(p: Floats, y: Ints, weights: Floats, binning: Binning) -> float:
    from scorer.metrics import ece, ece_width

    scheme, bins = binning
    return float((ece if scheme == "equal-mass" else ece_width)(p, y, weights, bins=bins).value)


def _refuse(bundle: Bundle, intake: Intake | None) -> None:
    """RecalibrationError where what is needed could not be read."""
    problems: list[Problem] = list(intake.problems) if intake is not None else []
    missing = {**bundle.missing, **(intake.missing if intake is not None else {})}
    needed = [missing[name] for name in ("task", "record", "splits", "predictions", "calibrators") if name in missing]
    if not problems and not needed:
        return
    problems = problems or list(bundle.problems)
    said = [plain(f"{p.where}: {p.saw}, wanted {p.wanted}", 300) for p in problems[:SHOWN]] or needed[:1]
    more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
    raise RecalibrationError(f"{'; '.join(said)}{more}; mend it first, mvc check shows everything")


def _target(bundle: Bundle, out: Path | None, force: bool) -> Path:
    here = bundle.root / bundle.predictions
    if out is None or out.absolute() == here.absolute():
        return here
    if out.suffix.lower() != here.suffix.lower():
        raise RecalibrationError(f"--out {out} must end in {here.suffix}, as {bundle.predictions} does")
    if not out.parent.is_dir():
        raise RecalibrationError(f"--out {out}: there is no folder {out.parent}; make it first")
    if out.exists() and (not force or not out.is_file()):
        raise RecalibrationError(f"--out {out} is there already; --force replaces a file")
    return out


def _spare(bundle: Bundle, intake: Intake, names: Sequence[str], force: bool) -> None:
    """RecalibrationError where rows or records of the methods are there and may not be replaced."""
    assert intake.predictions is not None
    there = set(intake.predictions.values("calibrator")) | {r.calibrator for r in bundle.calibrators or ()}
    old = [name for name in names if name in there]
    if old and not force:
        said = f"rows or parameters of {', '.join(old)} are there already"
        raise RecalibrationError(f"{said}; --force replaces them, --method names others")
