"""The referee: a bundle in, every rule run once, a verdict out."""

import contextlib
import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from protocol import EDITION
from protocol.engine import Facts, run_rules
from protocol.facts import Problem
from protocol.findings import Verdict
from protocol.rules import Rule
from protocol.submission import Submission
from protocol.task import Task
from scorer.ahead import for_rules
from scorer.intake.jail import Intake, decode
from scorer.receipts import declared_words, receipt_of
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
    path: Path,
    *,
    record: Path | None = None,
    task: Task | None = None,
    progress: Callable[[str], None] = lambda step: None,
    ahead: Callable[[], None] = for_rules,
) -> Iterator[Examination]:
    """Check the bundle at ``path`` (folder, zip or predictions file) and keep it open for scoring.

    ``record`` overrides the ``submission.yaml`` beside the predictions. ``task`` is the host's, where there is one: a
    bundle with another is rejected (MVC011). ``progress`` is told each step by name; ``ahead`` is
    done while the tables are decoded.
    Raises submission.bundle.NoBundleError when there is nothing at ``path``.
    """
    with tempfile.TemporaryDirectory(prefix="mvc-") as scratch:
        folders = [Path(scratch, name) for name in ("bundle", "arrays", "spill")]
        for folder in folders:
            folder.mkdir()
        progress("reading the record")
        bundle = _admitted(open_bundle(path, folders[0], record), task)
        progress("decoding tables")
        waiting = threading.Thread(target=_quietly, args=(ahead,), daemon=True)
        waiting.start()
        intake = decode(bundle, folders[1])
        waiting.join()
        with Warehouse(folders[2]) as warehouse:
            if bundle.task is not None and bundle.record is not None:
                warehouse.load(bundle.task, bundle.record, intake.splits, intake.predictions)
            progress("checking rules")
            yield Examination(bundle, intake, warehouse, judge(bundle, intake, warehouse))


def _quietly(ahead: Callable[[], None]) -> None:
    """What fails here fails again, and is told, where it is needed."""
    with contextlib.suppress(Exception):
        ahead()


def check(path: Path, *, record: Path | None = None) -> Verdict:
    """The verdict on the bundle at ``path``; nothing is written."""
    with examine(path, record=record) as examination:
        return examination.verdict


def _admitted(bundle: Bundle, host: Task | None) -> Bundle:
    """``bundle`` with the problems of one that answers another task than the ``host``'s, or has more runs than allowed.

    The record of the latter is given up: what it declares could fill any memory.
    """
    problems, missing, record = list(bundle.problems), dict(bundle.missing), bundle.record
    if host is not None and bundle.task is not None and bundle.task.digest != host.digest:
        wanted = f"the host's own: {host.digest} ({host.name})"
        problems.append(Problem("task-mismatch", "task.yaml", f"digest {bundle.task.digest}", wanted))
    task = host or bundle.task
    if task is not None and record is not None:
        runs = sum(len(model.run_seeds) for model in record.models) * len(record.calibration.methods)
        if runs > task.caps.max_runs:
            saw, wanted = f"{runs} runs (models, seeds and methods)", f"at most {task.caps.max_runs}, the task's cap"
            problems.append(Problem("too-large", "submission.yaml: models", saw, wanted))
            given_up = ("record", "splits", "predictions", "calibrators")
            missing |= dict.fromkeys(given_up, "it declares more runs than the task allows")
            record = None
    return replace(bundle, problems=tuple(problems), missing=missing, record=record)


def judge(
    bundle: Bundle,
    intake: Intake,
    warehouse: Warehouse,
    *,
    hidden: bool | None = None,
    rules: Mapping[str, type[Rule]] | None = None,
) -> Verdict:
    """The verdict of ``rules`` (all of them) on a bundle; ``hidden``: those that read test labels are not applicable.

    It defaults to whether the bundle's task is hosted.
    """
    waivers = {} if bundle.record is None else {w.rule: w.reason for w in bundle.record.waivers}
    if hidden is None:
        hidden = bundle.task is not None and bundle.task.hosted
    facts = _facts(bundle, intake, warehouse)
    results = run_rules(facts, waivers, labels_hidden=hidden, rules=rules, on_crash=_log_crash)
    verification = facts.made("verification")
    return Verdict(
        edition=EDITION,
        submission=bundle.claimed_id,
        task=bundle.task.name if bundle.task else "",
        results=results,
        notes=(*bundle.notes, *intake.notes, *_declaration(bundle)),
        digests=bundle.files,
        calibrators={} if verification is None else verification.calibrators,
    )


def _declaration(bundle: Bundle) -> tuple[str, ...]:
    """In a hosted task: whether the host has a receipt of the declaration."""
    if bundle.task is None or not bundle.task.hosted:
        return ()
    return (f"declaration: {declared_words(bundle)}",)


def _log_crash(rule: str, trace: str) -> None:
    log.error("rule %s crashed: this is our fault, please report it\n%s", rule, trace)


def _facts(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Facts:
    task, record, splits, predictions = bundle.task, bundle.record, intake.splits, intake.predictions
    missing = {**bundle.missing, **intake.missing}
    if splits is None:
        missing.setdefault("splits", "the split file could not be decoded")
    if predictions is None:
        missing.setdefault("predictions", "the predictions could not be decoded")
    both = ("splits", "predictions")
    needed_by = {
        "reversed_ids": ("splits",),
        "claim_checks": both,
        "unusable_entries": ("task", "calibrators"),
        "verification": (*both, "calibrators"),
        "peeking": (*both, "calibrators"),
    }
    for name, needs in needed_by.items():
        for needed in needs:
            if needed in missing:
                missing.setdefault(name, missing[needed])
    makers: Mapping[str, Callable[[], Any]] = {
        "problems": lambda: (*bundle.problems, *intake.problems),
        "task": lambda: task,
        "record": lambda: record,
        "lock": lambda: bundle.lock,
        "receipt": lambda: receipt_of(bundle),
        "calibrators": lambda: bundle.calibrators,
        "files": lambda: bundle.files,
        "sql": lambda: warehouse.sql,
        "splits": lambda: splits.table if splits else None,
        "predictions": lambda: predictions.table if predictions else None,
        "reversed_ids": lambda: attack.reverse_plain_digests([*warehouse.images, *warehouse.patients]),
        "claim_checks": lambda: _claims(bundle, intake, warehouse),
        "unusable_entries": lambda: _unusable(bundle),
        "verification": lambda: _verification(bundle, intake, warehouse),
        "peeking": lambda: _peeking(bundle, intake, warehouse, facts.get("verification")),
    }
    facts = Facts(makers, missing)
    return facts


def _unusable(bundle: Bundle) -> Any:
    from scorer.verify.entries import unusable

    assert bundle.calibrators is not None
    return unusable(*_records(bundle), bundle.calibrators)


def _verification(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Any:
    from scorer.verify.calibrators import verify

    assert bundle.calibrators is not None
    task, record = _records(bundle)
    return verify(task, record, bundle.calibrators, *_decoded(intake, warehouse))


def _peeking(bundle: Bundle, intake: Intake, warehouse: Warehouse, verification: Any) -> Any:
    from scorer.verify.peeking import peek

    task, record = _records(bundle)
    return peek(task, record, verification, *_decoded(intake, warehouse))


def _records(bundle: Bundle) -> tuple[Task, Submission]:
    assert bundle.task is not None
    assert bundle.record is not None
    return bundle.task, bundle.record


def _decoded(intake: Intake, warehouse: Warehouse) -> tuple[tuple[str, ...], Warehouse, Mapping[str, str]]:
    """Subgroup columns, the tables, and the precision of the stored columns."""
    assert intake.splits is not None
    assert intake.predictions is not None
    return intake.splits.table.extras, warehouse, intake.predictions.table.precision


def _claims(bundle: Bundle, intake: Intake, warehouse: Warehouse) -> Any:
    task, record = _records(bundle)
    if not record.metrics.claims:
        return ()
    from scorer.claims import check_claims  # compiled code, loaded only where there is something to recompute

    return check_claims(task, record, *_decoded(intake, warehouse))
