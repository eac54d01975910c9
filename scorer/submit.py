"""``mvc submit``: check, score, seal, record; a rejection is recorded and leaves nothing else behind."""

import hashlib
import importlib.metadata
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from protocol import EDITION
from protocol.catalogue import headline_metrics, primary_metric
from protocol.findings import Outcome, Verdict
from protocol.submission import Submission
from protocol.task import Task
from scorer.bootstrap import Method
from scorer.check import Examination, examine
from scorer.claims import draw_key
from scorer.cohort import clustering_unit, cohort_of, predictions_of
from scorer.ledger import Event, EventKind, Ledger, utc_now
from scorer.results import scorecard_metrics, write_metrics
from scorer.scoring import MEAN, Run, Scores, Spread, score
from submission.bundle import RESULTS_FOLDER, NoBundleError
from submission.crate import build_manifest, write_manifest
from submission.files import write_atomic
from submission.writing import write_canonical_record

Progress = Callable[[str], None]


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

    A folder is sealed in place; a zip, or a record from elsewhere, into a folder of its own (``out``, else beside the
    bundle). A rejected bundle is only recorded. Raises submission.bundle.NoBundleError, scorer.ledger.LedgerError and
    SubmitError; nothing is half written.
    """
    if not path.exists():
        raise NoBundleError(f"{path}: no such file or folder")
    with Ledger.open(ledger):
        pass  # a ledger that can't be used is said before the work, not after it
    with examine(path, record=record, progress=progress) as examination:
        verdict = examination.verdict
        if not verdict.accepted:
            event = None
            if verdict.rejecting:
                with Ledger.open(ledger) as opened:
                    event = opened.append(
                        EventKind.REJECTED, submission=verdict.submission, task=verdict.task, payload=_payload(verdict)
                    )
            return Outcomes(verdict, event=event)
        if _records(examination)[0].hosted:
            raise SubmitError("the task is hosted and its test labels are hidden: only its host can score it")
        folder = _place(examination, path, record, out)
        scores = score_examined(examination, progress)
        progress("sealing")
        with tempfile.TemporaryDirectory(dir=folder, prefix=".mvc-") as scratch:
            results = Path(scratch, RESULTS_FOLDER)
            results.mkdir()
            write_metrics(scores, results / "metrics.parquet")
            card = scorecard(examination, scores, _sha256(results / "metrics.parquet"))
            write_atomic(results / "scorecard.json", _json(card))
            _replace(results, folder / RESULTS_FOLDER, Path(scratch, "old"))
        _seal(examination, folder)
        progress("recording")
        metrics = pq.read_table(folder / RESULTS_FOLDER / "metrics.parquet", partitioning=None)
        payload = {
            **_payload(verdict),
            "results": {
                name: _sha256(folder / RESULTS_FOLDER / name) for name in ("metrics.parquet", "scorecard.json")
            },
            "manifest": _sha256(folder / "ro-crate-metadata.json"),
        }
        with Ledger.open(ledger) as opened:
            event = opened.append(
                EventKind.ACCEPTED,
                submission=verdict.submission,
                task=verdict.task,
                payload=payload,
                metrics=metrics,
            )
        return Outcomes(verdict, scores, folder, event)


def score_examined(examination: Examination, progress: Progress = lambda step: None) -> Scores:
    """Score an accepted bundle: every declared run on test, every external site and every declared subgroup."""
    task, record = _records(examination)
    assert examination.intake.splits is not None
    runs = [Run(*run) for run in record.runs]
    method: Method = "basic" if record.uncertainty.method == "basic" else "percentile"
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
        level=record.uncertainty.level,
        method=method,
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
            "level": record.uncertainty.level,
            "method": "basic" if record.uncertainty.method == "basic" else "percentile",
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


def _place(examination: Examination, path: Path, record: Path | None, out: Path | None) -> Path:
    """The folder to seal: the bundle's own, or a new one with copies of the bundle's files."""
    bundle = examination.bundle
    elsewhere = record is not None and record.resolve() != (bundle.root / "submission.yaml").resolve()
    if out is None and bundle.archive is None and not elsewhere:
        if not os.access(bundle.root, os.W_OK):
            raise SubmitError(f"{bundle.root} can't be written; give --out FOLDER")
        return bundle.root
    beside = path.parent if path.is_file() else path
    folder = out or beside / f"{_records(examination)[1].submission_id}-sealed"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in bundle.files:
            source = record if elsewhere and name == "submission.yaml" and record is not None else bundle.root / name
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, folder / name)
    except OSError as error:
        raise SubmitError(f"{folder} can't be written ({error.strerror}); give --out FOLDER") from None
    return folder


def _replace(new: Path, place: Path, old: Path) -> None:
    if place.exists():
        os.replace(place, old)
    os.replace(new, place)


def _seal(examination: Examination, folder: Path) -> None:
    """Write ``submission.json`` and the release manifest with the SHA-256 of every file."""
    _, record = _records(examination)
    write_canonical_record(folder, record)
    results = [f"{RESULTS_FOLDER}/{name}" for name in ("metrics.parquet", "scorecard.json")]
    names = [*examination.bundle.files, "submission.json", *results]
    lock = examination.bundle.lock
    document = build_manifest(
        files={name: (_sha256(folder / name), (folder / name).stat().st_size) for name in names},
        name=record.title,
        description=f"Calibration submission {record.submission_id} to the task {record.task.name}",
        license_id=record.release.licence or "",
        authors=[record.team],
        contact=record.contact,
        date_published=utc_now() if lock is None else lock.declared_at,
        edition=EDITION,
        instrument={"name": "mvc-kit", "version": importlib.metadata.version("mvc-kit")},
        results=results,
        predictions=examination.bundle.predictions,
    )
    write_manifest(folder, document)


def _sha256(path: Path) -> str:
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"
