"""``mvc score``: a submission to a hosted task, judged without labels and scored with them.

Two channels are kept apart by construction. What participants see is the verdict, made before a label is read, and
rounded aggregates; all else goes to the host's folder and log. Once labels are joined, whatever fails gives one fixed
text.
"""

import base64
import importlib.metadata
import json
import logging
import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from protocol import EDITION
from protocol.canonical import canonical_json
from protocol.catalogue import headline_metrics
from protocol.engine import Facts, run_rules
from protocol.facts import Problem
from protocol.findings import Outcome, RuleResult, Status, Verdict
from protocol.hosting import Entry, PublicScore, Receipt, RecordedFinding, ScoreRecord
from protocol.rules import all_rules, facts_of
from protocol.task import Task
from scorer.ahead import for_scores
from scorer.check import Examination, examine, judge
from scorer.host_task import HostError, load_host_key
from scorer.hosted_places import emptied, enough_memory, find_bundle, host_log, kept_apart, lies_in
from scorer.receipts import declared_words, receipt_of
from scorer.signing import KeyFileError, payload_type, public_hex, seal
from scorer.truth import Truth, hosted_task, joined, not_covered, read_truth
from submission.bundle import PREDICTIONS_FILES, RECORD_FILE, TASK_FILE, Bundle, NoBundleError
from submission.files import made_aside, write_atomic

if TYPE_CHECKING:
    import polars as pl
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from scorer.disclosure import Disclosure
    from scorer.rows import Scores

log = logging.getLogger("mvc")

Progress = Callable[[str], None]
VERDICT_FILE, SCORES_FILE, SIGNED_FILE = "verdict.json", "scores.json", "record.json"
HOST_FILE = "host.json"
FAULT = "MVC UNDETERMINED the host's scorer failed; the host has the log; this is not the submission's fault"
MISCONFIGURED = "MVC HOST MISCONFIGURED nothing was scored; this is not the submission's fault"
HOST_ONLY = "for the host's eyes only"


class Fault(Verdict):
    """The verdict where the scorer failed: undetermined, whatever was submitted and whatever the labels are."""

    @property
    def status(self) -> Status:
        """Undetermined."""
        return Status.UNDETERMINED

    @property
    def last_line(self) -> str:
        """A fixed text: what went wrong may depend on labels."""
        return FAULT


@dataclass(frozen=True)
class HostedScore:
    """What participants may know: the verdict, made without labels, and the record with the public scores.

    The record is None where nothing was decided. ``documents`` has the bytes of what was made, by file name, verdict
    last; ``files`` are those that were written.
    """

    verdict: Verdict
    record: ScoreRecord | None
    documents: Mapping[str, bytes]
    files: tuple[Path, ...] = ()

    @property
    def entry(self) -> Entry | None:
        """The run that a platform ranks; None unless the submission was accepted."""
        return None if self.record is None else self.record.entry

    @property
    def scores(self) -> tuple[PublicScore, ...]:
        """The public scores; none unless the submission was accepted."""
        return () if self.record is None else self.record.scores

    def to_frame(self) -> "pl.DataFrame":
        """The public scores, a row a number."""
        import polars as pl

        numbers: dict[str, Any] = dict.fromkeys(("value", "lo", "hi"), pl.Float64)
        numbers |= dict.fromkeys(("n_images", "n_patients"), pl.Int64)
        schema = {name: numbers.get(name, pl.String) for name in PublicScore.model_fields}
        return pl.DataFrame([score.model_dump() for score in self.scores], schema=schema)


@dataclass(frozen=True)
class Side:
    """The host's side, read before the submission; ``folder`` is where the host's files go, None for nowhere."""

    task: Task
    truth: Truth
    key: "Ed25519PrivateKey | None"
    folder: Path | None
    scored_at: str


def score_hosted(
    truth: Path,
    bundle: Path,
    output: Path,
    *,
    task: Path | None = None,
    host: Path | None = None,
    key: Path | None = None,
    now: str | None = None,
    progress: Progress = lambda step: None,
) -> HostedScore:
    """Judge the submission at ``bundle`` (folder, zip, folder of one of them); score it with the labels of ``truth``.

    ``output`` gets verdict.json and record.json, and scores.json if accepted, each whole or not at all; ``host`` (mode
    0700) the host's files. The record is signed with ``key``, the private half of the task's host_key. ``now`` is the
    time of scoring (UTC, ISO 8601, to the second); default: SOURCE_DATE_EPOCH, else the clock. Raises HostError where
    the host's side can't be used: its text is for the host, and in the log.
    """
    with host_log(None if host is not None and lies_in(host, output) else host):
        kept_apart(output, bundle, {"--truth": truth, "--key": key, "--host": host})
        names = (VERDICT_FILE, SCORES_FILE, SIGNED_FILE)
        if output.is_dir():
            emptied(output, names)
        enough_memory()
        side = read_side(truth, task, key, host, now)
        emptied(output, names)
        place, notes = find_bundle(bundle)
        done = judged(side, place, notes, progress)
        try:
            for name, data in done.documents.items():
                write_atomic(output / name, data)
        except OSError as error:
            raise HostError(f"{output} can't be written ({error.strerror})") from None
        return replace(done, files=tuple(output / name for name in done.documents))


def judged(side: Side, place: Path, notes: tuple[str, ...], progress: Progress) -> HostedScore:
    """The submission at ``place`` against the host's ``side``; writes to the host's folder alone.

    ``notes`` are said with the verdict. Raises HostError, as :func:`score_hosted`.
    """
    if side.folder is not None:
        from scorer.outputs import RESULTS  # takes its time, and not every host asks for these

        emptied(side.folder, (HOST_FILE, *(Path(name).name for name in RESULTS)))
    try:
        verdict, record, scores = _score(side, place, notes, progress)
        return HostedScore(verdict, record, _documents(side, verdict, record, scores))
    except HostError:
        raise
    except Exception:
        log.exception("scoring failed")
        return failed(side)


def failed(side: Side) -> HostedScore:
    """What participants may know where the scorer failed: anything more about it could tell of labels."""
    verdict = Fault(EDITION, "", side.task.name, ())
    return HostedScore(verdict, None, _documents(side, verdict, None, None))


def _score(
    side: Side, place: Path, notes: tuple[str, ...], progress: Progress
) -> tuple[Verdict, ScoreRecord | None, dict[str, Any] | None]:
    try:
        with examine(place, task=side.task, progress=progress, ahead=for_scores) as examination:
            verdict = _seen(examination.verdict, notes)
            if not verdict.accepted:
                return verdict, _record(side, verdict, examination), None
            wrong = not_covered(examination, side.truth)
            if wrong:
                raise HostError(*wrong)
            return _scored(side, verdict, examination, progress)
    except NoBundleError:
        verdict = _nothing(side.task, notes)
        return verdict, _record(side, verdict, None), None


def _scored(
    side: Side, verdict: Verdict, examination: Examination, progress: Progress
) -> tuple[Verdict, ScoreRecord, dict[str, Any]]:
    from scorer.cohort import predictions_of
    from scorer.content import content_digest, groups_of, people_of
    from scorer.disclosure import disclosure
    from scorer.outputs import LEVEL, METHOD
    from scorer.public import entry_of, public_scores, scores_document

    task, record = examination.records
    progress("comparing runs")
    content = content_digest(examination)
    shown = disclosure(
        task, people_of(examination), groups_of(examination), predictions_of(task, examination.warehouse)
    )
    with warnings.catch_warnings():  # a warning about a number tells of labels
        warnings.simplefilter("ignore")
        scores = _with_labels(side, examination, shown, content, progress)
    public = public_scores(task, scores, shown)
    intervals = {"resamples": task.resamples, "level": LEVEL, "method": METHOD}
    document = scores_document(task, record, verdict, public, shown, intervals)
    model, calibrator = entry_of(record)
    entry = Entry(model=model, calibrator=calibrator)
    found = {"content_sha256": content, "scores": public, "entry": entry}
    signed = _record(side, verdict, examination).model_copy(update=found)
    return verdict, signed, document


def _with_labels(
    side: Side, examination: Examination, shown: "Disclosure", content: str, progress: Progress
) -> "Scores":
    """All numbers, and the host's files where there is a folder for them."""
    from scorer.metrics.sets import family_of
    from scorer.outputs import score_examined, write_results

    with joined(examination, side.truth) as opened:
        if side.folder is None:
            shown_of = headline_metrics(side.task.kind)
            return score_examined(opened, progress, families={family_of(metric) for metric in shown_of})
        rules = {name: rule for name, rule in all_rules().items() if rule.reads_test_labels}
        looked = judge(opened.bundle, opened.intake, opened.warehouse, hidden=False, rules=rules)
        again = {result.rule: result for result in looked.results}
        results = tuple(again.get(result.rule, result) for result in examination.verdict.results)
        verdict = replace(examination.verdict, results=results)
        with made_aside(side.folder) as stage:
            scores = write_results(replace(opened, verdict=verdict), stage, progress)
            for path in sorted(stage.rglob("*.*")):
                os.replace(path, side.folder / path.name)
    document = {
        "verdict": verdict.to_dict(),
        "content_sha256": content,
        "withheld": [[*place, reason] for place, reason in sorted(shown.withheld.items())],
    }
    write_atomic(side.folder / HOST_FILE, _json(document))
    return scores


# What participants see


def _seen(verdict: Verdict, notes: tuple[str, ...]) -> Verdict:
    """``verdict`` without what is evidence for the host alone."""
    results = tuple(_blind(result) for result in verdict.results)
    return replace(verdict, results=results, notes=(*notes, *verdict.notes))


def _blind(result: RuleResult) -> RuleResult:
    if result.visibility != "host" or result.outcome in (Outcome.NOT_APPLICABLE, Outcome.SKIPPED, Outcome.CRASHED):
        return result
    return replace(result, outcome=Outcome.NOT_APPLICABLE, reason=HOST_ONLY, findings=())


def _nothing(task: Task, notes: tuple[str, ...]) -> Verdict:
    """The verdict where there is no bundle."""
    wanted = f"a folder or zip with {TASK_FILE}, {RECORD_FILE} and {' or '.join(PREDICTIONS_FILES)}"
    problem = Problem("unreadable-file", "submission", "no bundle", wanted)
    names = {name for rule in all_rules().values() for name in facts_of(rule)} - {"problems"}
    facts = Facts({"problems": lambda: (problem,)}, dict.fromkeys(names, "there is no bundle"))
    return Verdict(EDITION, "", task.name, run_rules(facts, {}, labels_hidden=True), notes)


def _record(side: Side, verdict: Verdict, examination: Examination | None) -> ScoreRecord:
    """The record of ``verdict``, without scores yet."""
    bundle = None if examination is None else examination.bundle
    known = None if bundle is None else bundle.record
    declared = bundle if _declaration_holds(side, verdict, bundle) else None
    receipt = None if declared is None else receipt_of(declared)
    assert side.task.splits_sha256 is not None
    assert side.task.truth_sha256 is not None
    return ScoreRecord(
        edition=verdict.edition,
        scorer=importlib.metadata.version("mvc-kit"),
        task=side.task.name,
        task_sha256=side.task.digest,
        splits_sha256=side.task.splits_sha256,
        truth_sha256=side.task.truth_sha256,
        submission=verdict.submission,
        title="" if known is None else known.title,
        team="" if known is None else known.team,
        status=verdict.status.value,
        outcomes={result.rule: result.outcome.value for result in verdict.results},
        waivers={result.rule: result.reason for result in verdict.of(Outcome.WAIVED)},
        unverified={result.rule: result.reason for result in verdict.of(Outcome.UNVERIFIED)},
        findings=tuple(
            RecordedFinding(rule=result.rule, where=f.where, saw=f.saw, wanted=f.wanted, count=f.count)
            for result in verdict.rejecting
            for f in result.findings
        ),
        digests=dict(sorted(verdict.digests.items())),
        content_sha256=None,
        lock_sha256=None if bundle is None or bundle.lock is None else bundle.lock.digest,
        declared="self-declared" if declared is None else declared_words(declared),
        filings=receipt.filing if isinstance(receipt, Receipt) else None,
        scored_at=side.scored_at,
        scores=(),
    )


def _declaration_holds(side: Side, verdict: Verdict, bundle: Bundle | None) -> bool:
    """Whether lock and receipt of ``bundle`` were found to be of this record and for the host's own task."""
    answers = bundle is not None and bundle.task is not None and bundle.task.digest == side.task.digest
    return answers and any(r.rule == "MVC604" and r.outcome is Outcome.PASSED for r in verdict.results)


def _documents(
    side: Side, verdict: Verdict, record: ScoreRecord | None, scores: dict[str, Any] | None
) -> dict[str, bytes]:
    """The participant's files; the verdict comes last, so that where it stands all else does."""
    files = {}
    if scores is not None:
        files[SCORES_FILE] = _json(scores)
    if record is not None and verdict.status is not Status.UNDETERMINED:
        files[SIGNED_FILE] = _envelope(record) if side.key is None else seal(record, "record", side.key)
    files[VERDICT_FILE] = _json(verdict.to_dict())
    return files


def _envelope(record: ScoreRecord) -> bytes:
    """``record`` in an envelope that nobody has signed."""
    payload = base64.b64encode(canonical_json(record.model_dump(mode="json"))).decode()
    return canonical_json({"payload": payload, "payloadType": payload_type("record"), "signatures": []}) + b"\n"


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"


# The host's side


def read_side(
    truth: Path, task: Path | None, key: Path | None, host: Path | None, now: str | None, *, sealed: bool = False
) -> Side:
    """The host's files, read and compared with each other; HostError with what does not fit.

    In a ``sealed`` container the key lies beside the labels, and its mode is the mount's.
    """
    try:
        return _side(truth, task, key, host, now, sealed)
    except HostError:
        raise
    except Exception:  # which may name a label
        log.exception("the host's files")
        raise HostError("the host's files can't be read; what failed stands above") from None


def _side(truth: Path, task: Path | None, key: Path | None, host: Path | None, now: str | None, sealed: bool) -> Side:
    known = hosted_task(truth, task)
    labels = read_truth(truth, known)
    try:
        private = None if key is None else load_host_key(key, any_mode=sealed)
    except KeyFileError as error:
        raise HostError(str(error)) from None
    if private is not None and known.host_key != public_hex(private):
        raise HostError(f"{key} is not the key of the task, whose host_key is {known.host_key or 'not set'}")
    return Side(known, labels, private, host, now or _now())


def _now() -> str:
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        moment = datetime.now(UTC) if not epoch else datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError):
        raise HostError("SOURCE_DATE_EPOCH is no number of seconds") from None
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
