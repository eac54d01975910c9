"""``mvc submit``: check, score, seal, record; a rejection is recorded and leaves nothing else behind."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from protocol import EDITION
from protocol.catalogue import headline_metrics, primary_metric
from protocol.findings import Outcome, Verdict
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import CANONICAL_FILE, MANIFEST_FILE, RESULTS_FOLDER
from scorer.bootstrap import Method
from scorer.check import Examination, examine
from scorer.claims import draw_key
from scorer.cohort import clustering_unit, cohort_of, predictions_of
from scorer.ledger import Event, EventKind, Ledger, utc_now
from scorer.results import scorecard_metrics, write_metrics
from scorer.scoring import MEAN, Run, Scores, Spread, score
from submission.bundle import RECORD_FILE, Bundle, NoBundleError
from submission.crate import build_manifest, write_manifest
from submission.files import write_atomic
from submission.writing import write_canonical_record

Progress = Callable[[str], None]
METRICS_FILE = f"{RESULTS_FOLDER}/metrics.parquet"
SCORECARD_FILE = f"{RESULTS_FOLDER}/scorecard.json"
# The intervals of the edition: a submission can't make its own wider or narrower.
LEVEL = 0.95
METHOD: Method = "percentile"


class SubmitError(Exception):
    """The submission was not at fault, but it could not be sealed or recorded; the message says why."""


@dataclass(frozen=True)
class Outcomes:
    """What a submission came to: the verdict, and, if accepted, scores, the sealed folder and the ledger's event."""

    verdict: Verdict
    scores: Scores | None = None
    folder: Path | None = None
    event: Event | None = None


def submit(
    path: Path,
    *,
    ledger: Path,
    record: Path | None = None,
    out: Path | None = None,
    progress: Progress = lambda step: None,
) -> Outcomes:
    """Check the bundle at ``path``, score it, seal it and append it to ``ledger``.

    A folder is sealed in place; a zip, or a record from elsewhere, into a new folder of its own (``out``, else beside
    the bundle). A rejected bundle is only recorded. Everything is made aside, then recorded, then moved into place:
    until the event stands in the ledger nothing in the bundle changes. Raises submission.bundle.NoBundleError,
    scorer.ledger.LedgerError and SubmitError.
    """
    if not path.exists():
        raise NoBundleError(f"{path}: no such file or folder")
    with examine(path, record=record, progress=progress) as examination:
        verdict = examination.verdict
        if not verdict.accepted:
            return Outcomes(verdict, event=_record_rejection(verdict, ledger) if verdict.rejecting else None)
        if _records(examination)[0].hosted:
            raise SubmitError("the task is hosted and its test labels are hidden: only its host can score it")
        place, new = _place(examination, path, record, out)
        with _aside(place.parent if new else place) as stage:
            with Ledger.open(ledger):
                pass  # a ledger that can't be used is said before the work, not after it
            scores = score_examined(examination, progress)
            progress("sealing")
            if new:
                _copy_bundle(examination, record, stage)
            written = _write_outputs(examination, scores, stage)
            progress("recording")
            payload = {**_payload(verdict), "outputs": {name: _sha256(stage / name) for name in written}}
            metrics = pq.read_table(stage / METRICS_FILE, partitioning=None)
            with Ledger.open(ledger) as opened:
                event = opened.append(
                    EventKind.ACCEPTED,
                    submission=verdict.submission,
                    task=verdict.task,
                    payload=payload,
                    metrics=metrics,
                )
            _move(stage, place, written, new)
        return Outcomes(verdict, scores, place, event)


def _record_rejection(verdict: Verdict, ledger: Path) -> Event:
    with Ledger.open(ledger) as opened:
        return opened.append(
            EventKind.REJECTED, submission=verdict.submission, task=verdict.task, payload=_payload(verdict)
        )


def score_examined(examination: Examination, progress: Progress = lambda step: None) -> Scores:
    """Score an accepted bundle: every declared run on test, every external site and every declared subgroup.

    Level and method of the intervals are the edition's, the same for all; what the record declares is for its claims.
    """
    task, record = _records(examination)
    assert examination.intake.splits is not None
    runs = [Run(*run) for run in record.runs]
    done = iter(range(1, len(runs) + 1))
    return score(
        submission=record.submission_id,
        kind=task.kind,
        classes=task.classes,
        cohort=cohort_of(task, record, examination.intake.splits.table.extras, examination.warehouse),
        runs=runs,
        predictions=predictions_of(task, examination.warehouse),
        key=draw_key(task),
        resamples=task.resamples,
        level=LEVEL,
        method=METHOD,
        progress=lambda run: progress(f"scoring run {next(done)} of {len(runs)}"),
    )


def scorecard(examination: Examination, scores: Scores, metrics_sha256: str) -> dict[str, Any]:
    """The scorecard: versions, digests, verdict, how intervals were made, and the numbers that people read first.

    These are, per model and calibrator (seed mean where there are several): all metrics on the test split, and the
    headline ones per external site and subgroup. Single seeds and classes are in ``metrics.parquet``, whose digest
    is here.
    """
    task, record = _records(examination)
    verdict = examination.verdict
    single = {model.name for model in record.models if len(model.run_seeds) == 1}
    kept = [row for row in scorecard_metrics(scores) if row["seed"] == MEAN or row["model"] in single]
    overall = set(headline_metrics(task.kind))
    return {
        "edition": EDITION,
        "scorer": importlib.metadata.version("mvc-kit"),
        "packages": {name: importlib.metadata.version(name) for name in ("duckdb", "numpy", "pyarrow")},
        "submission": record.submission_id,
        "title": record.title,
        "team": record.team,
        "task": {"name": task.name, "kind": task.kind, "sha256": task.digest, "classes": list(task.classes)},
        "status": verdict.status.value,
        "waivers": {r.rule: r.reason for r in verdict.of(Outcome.WAIVED)},
        "unverified": {r.rule: r.reason for r in verdict.of(Outcome.UNVERIFIED)},
        "declared": "self-declared",
        "primary_metric": primary_metric(task.kind, task.primary_metric),
        "intervals": {
            "unit": clustering_unit(task, record),
            "resamples": task.resamples,
            "level": LEVEL,
            "method": METHOD,
            "key": draw_key(task),
        },
        "digests": dict(sorted(verdict.digests.items())),
        "metrics_sha256": metrics_sha256,
        "runs": [[model.name, method.name] for model in record.models for method in record.calibration.methods],
        "headline": list(headline_metrics(task.kind)),
        "test": [row for row in kept if row["slice_kind"] == "test"],
        "slices": [
            row for row in kept if row["slice_kind"] != "test" and row["class"] is None and row["metric"] in overall
        ],
        "seed_spread": [_spread(s) for s in scores.seed_spread if s.slice_kind == "test" and s.n > 1],
        "counts": [{("class" if k == "class_" else k): v for k, v in vars(c).items()} for c in scores.counts],
    }


def _spread(spread: Spread) -> dict[str, Any]:
    document = {("class" if k == "class_" else k): v for k, v in vars(spread).items()}
    return {k: None if isinstance(v, float) and v != v else v for k, v in document.items()}


def _records(examination: Examination) -> tuple[Task, Submission]:
    task, record = examination.bundle.task, examination.bundle.record
    assert task is not None
    assert record is not None
    return task, record


def _payload(verdict: Verdict) -> dict[str, Any]:
    """What the ledger keeps of a verdict: outcome of every rule, findings of those that failed, digests."""
    return {
        "edition": verdict.edition,
        "scorer": importlib.metadata.version("mvc-kit"),
        "status": verdict.status.value,
        "outcomes": {r.rule: r.outcome.value for r in verdict.results},
        "waivers": {r.rule: r.reason for r in verdict.of(Outcome.WAIVED)},
        "findings": [
            {"rule": r.rule, "where": f.where, "saw": f.saw, "wanted": f.wanted, "count": f.count}
            for r in verdict.rejecting
            for f in r.findings
        ],
        "digests": dict(sorted(verdict.digests.items())),
    }


def _place(examination: Examination, path: Path, record: Path | None, out: Path | None) -> tuple[Path, bool]:
    """The folder to seal, and whether it is a new one with copies of the bundle's files."""
    bundle = examination.bundle
    elsewhere = record is not None and record.resolve() != (bundle.root / RECORD_FILE).resolve()
    if out is None and bundle.archive is None and not elsewhere:
        return bundle.root, False
    home = bundle.root if bundle.archive is None else path
    folder = out or home.resolve().parent / f"{_records(examination)[1].submission_id}-sealed"
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SubmitError(f"{folder} exists and is not empty; give --out FOLDER, a new one")
    return folder, True


@contextlib.contextmanager
def _aside(folder: Path) -> Iterator[Path]:
    """A temporary folder in ``folder``, so that what is made there can be moved into place at once."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        made = tempfile.TemporaryDirectory(dir=folder, prefix=".mvc-")
    except OSError as error:
        raise SubmitError(f"{folder} can't be written ({error.strerror}); give --out FOLDER") from None
    with made as name:
        yield Path(name)


def _copy_bundle(examination: Examination, record: Path | None, stage: Path) -> None:
    for name in examination.bundle.files:
        source = record if record is not None and name == RECORD_FILE else examination.bundle.root / name
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, stage / name)


def _write_outputs(examination: Examination, scores: Scores, stage: Path) -> tuple[str, ...]:
    """Write results, canonical record and release manifest below ``stage``; their names."""
    bundle, record = examination.bundle, _records(examination)[1]
    (stage / RESULTS_FOLDER).mkdir(exist_ok=True)
    write_metrics(scores, stage / METRICS_FILE)
    write_atomic(stage / SCORECARD_FILE, _json(scorecard(examination, scores, _sha256(stage / METRICS_FILE))))
    write_canonical_record(stage, record)
    files = {name: (_unchanged(bundle, name, stage), _size(bundle, name, stage)) for name in bundle.files}
    made = (CANONICAL_FILE, METRICS_FILE, SCORECARD_FILE)
    files |= {name: (_sha256(stage / name), (stage / name).stat().st_size) for name in made}
    document = build_manifest(
        files=files,
        name=record.title,
        description=f"Calibration submission {record.submission_id} to the task {record.task.name}",
        license_id=record.release.licence or "",
        authors=[record.team],
        contact=record.contact,
        date_published=utc_now() if bundle.lock is None else bundle.lock.declared_at,
        edition=EDITION,
        instrument={"name": "mvc-kit", "version": importlib.metadata.version("mvc-kit")},
        results=[METRICS_FILE, SCORECARD_FILE],
        predictions=bundle.predictions,
    )
    write_manifest(stage, document)
    return (*made, MANIFEST_FILE)


def _source(bundle: Bundle, name: str, stage: Path) -> Path:
    return stage / name if (stage / name).exists() else bundle.root / name


def _size(bundle: Bundle, name: str, stage: Path) -> int:
    return _source(bundle, name, stage).stat().st_size


def _unchanged(bundle: Bundle, name: str, stage: Path) -> str:
    """The digest under which ``name`` was checked; SubmitError when the file is another by now."""
    try:
        now = _sha256(_source(bundle, name, stage))
    except OSError:
        now = "gone"
    if now != bundle.files[name]:
        raise SubmitError(f"{name} changed while it was being submitted; nothing was recorded, submit again")
    return now


def _move(stage: Path, place: Path, written: tuple[str, ...], new: bool) -> None:
    """Take what was made aside to its place; other files in a results folder are left alone."""
    try:
        names = [path.relative_to(stage).as_posix() for path in stage.rglob("*") if path.is_file()] if new else written
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(stage / name, place / name)
    except OSError as error:
        raise SubmitError(f"recorded, but {place} can't be written ({error.strerror}); submit again") from None


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"
