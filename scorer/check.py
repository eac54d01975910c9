"""The referee: a bundle in, every rule run once, a verdict out."""

import contextlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from protocol import EDITION
from protocol.engine import Facts, run_rules
from protocol.findings import Verdict
from protocol.submission import Submission
from protocol.task import Task
from scorer.intake.jail import Intake, decode
from scorer.warehouse import Warehouse
from splits import attack
from submission.bundle import Bundle, open_bundle

log = logging.getLogger("mvc")


@dataclass(frozen=True)
class Examination:
    """A bundle with its decoded tables still open, and the verdict on it."""

    bundle: Bundle
    intake: Intake
    warehouse: Warehouse
    verdict: Verdict

    @property
    def records(self) -> tuple[Task, Submission]:
        """Task and record of a bundle that was accepted."""
        assert self.bundle.task is not None
        assert self.bundle.record is not None
        return self.bundle.task, self.bundle.record


@contextlib.contextmanager
def examine(
    path: Path, *, record: Path | None = None, progress: Callable[[str], None] = lambda step: None
) -> Iterator[Examination]:
    """Check the bundle at ``path`` (folder, zip or predictions file) and keep it open for scoring.

    ``record`` overrides the ``submission.yaml`` beside the predictions. ``progress`` is told each step by name.
    Raises submission.bundle.NoBundleError when there is nothing at ``path``.
    """
    with tempfile.TemporaryDirectory(prefix="mvc-") as scratch:
        folders = [Path(scratch, name) for name in ("bundle", "arrays", "spill")]
        for folder in folders:
            folder.mkdir()
        progress("reading the record")
        bundle = open_bundle(path, folders[0], record)
        progress("decoding tables")
        waiting = threading.Thread(target=attack.prepare, daemon=True)  # while the decoding process works
        waiting.start()
        intake = decode(bundle, folders[1])
        waiting.join()
        with Warehouse(folders[2]) as warehouse:
            if bundle.task is not None and bundle.record is not None:
                warehouse.load(bundle.task, bundle.record, intake.splits, intake.predictions)
            progress("checking rules")
            yield Examination(bundle, intake, warehouse, _judge(bundle, intake, warehouse))


def check(path: Path, *, record: Path | None = None) -> Verdict:
    """The verdict on the bundle at ``path``; nothing is written."""
    with examine(path, record=record) as examination:
        return examination.verdict


def _judge(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Verdict:
    waivers = {} if bundle.record is None else {w.rule: w.reason for w in bundle.record.waivers}
    hidden = bundle.task is not None and bundle.task.hosted
    results = run_rules(_facts(bundle, intake, warehouse), waivers, labels_hidden=hidden, on_crash=_log_crash)
    return Verdict(
        edition=EDITION,
        submission=bundle.claimed_id,
        task=bundle.task.name if bundle.task else "",
        results=results,
        notes=(*bundle.notes, *intake.notes),
        digests=bundle.files,
    )


def _log_crash(rule: str, trace: str) -> None:
    log.error("rule %s crashed: this is our fault, please report it\n%s", rule, trace)


def _facts(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Facts:
    task, record, splits, predictions = bundle.task, bundle.record, intake.splits, intake.predictions
    missing = {**bundle.missing, **intake.missing}
    if splits is None:
        missing.setdefault("splits", "the split file could not be decoded")
    if predictions is None:
        missing.setdefault("predictions", "the predictions could not be decoded")
    for name, needs in (("reversed_ids", ("splits",)), ("claim_checks", ("splits", "predictions"))):
        for needed in needs:
            if needed in missing:
                missing.setdefault(name, missing[needed])
    makers: Mapping[str, Callable[[], Any]] = {
        "problems": lambda: (*bundle.problems, *intake.problems),
        "task": lambda: task,
        "record": lambda: record,
        "lock": lambda: bundle.lock,
        "calibrators": lambda: bundle.calibrators,
        "files": lambda: bundle.files,
        "sql": lambda: warehouse.sql,
        "splits": lambda: splits.table if splits else None,
        "predictions": lambda: predictions.table if predictions else None,
        "reversed_ids": lambda: attack.reverse_plain_digests([*warehouse.images, *warehouse.patients]),
        "claim_checks": lambda: _claims(bundle, intake, warehouse),
    }
    return Facts(makers, missing)


def _claims(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Any:
    from scorer.claims import check_claims  # scoring is loaded only when there is something to score

    assert bundle.task is not None
    assert bundle.record is not None
    assert intake.splits is not None
    assert intake.predictions is not None
    return check_claims(
        bundle.task, bundle.record, intake.splits.table.extras, warehouse, intake.predictions.table.precision
    )
