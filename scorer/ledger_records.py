"""Signed records of scored submissions in the host's ledger, and the quota that they use up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from protocol.canonical import canonical_json, digest_of
from protocol.declaration import team_key
from protocol.findings import Status, counted
from protocol.hosting import ScoreRecord
from protocol.task import Task
from scorer.host_task import host_key_of
from scorer.ledger import METRIC_SCHEMA, Event, EventKind, Ledger
from scorer.ledger_filings import filings_of, locks_of
from scorer.signing import SignatureError, opened_record
from submission.yaml_io import MAX_NUMBERS, load_json, load_yaml

KINDS = {
    Status.ACCEPTED.value: EventKind.ACCEPTED,
    Status.ACCEPTED_WITH_WAIVERS.value: EventKind.ACCEPTED,
    Status.REJECTED.value: EventKind.REJECTED,
}


class RecordRefused(ValueError):
    """A record can't be believed or recorded; the message says why."""


@dataclass(frozen=True)
class Signed:
    """A record whose signature fits: its envelope in canonical JSON, and the digest by which it is known again."""

    record: ScoreRecord
    envelope: str
    digest: str

    @classmethod
    def of(cls, record: ScoreRecord, envelope: str) -> Self:
        """``record`` out of ``envelope``, which the caller has verified."""
        return cls(record, envelope, digest_of(record.model_dump(mode="json")))


@dataclass(frozen=True)
class Usage:
    """What a team has used of its quota: distinct contents scored, and locks filed; None without a quota."""

    team: str
    scored: int
    quota: int | None
    filings: int

    @property
    def left(self) -> int | None:
        """Contents that can still be scored; never below zero."""
        return None if self.quota is None else max(0, self.quota - self.scored)


def believed(data: bytes, task: Task) -> Signed:
    """The record in the envelope ``data``, if the task's host signed it for this very task.

    ``data`` may be what a platform keeps in its place: metrics.json or results.yaml, which carry the envelope.
    RecordRefused names what is wrong; HostError where the task names no key.
    """
    data = _envelope_in(data)
    try:
        record = opened_record(data, host_key_of(task))
    except SignatureError as error:
        raise RecordRefused(str(error)) from None
    other = [
        f"{name} {saw}, wanted {wanted}"
        for name, saw, wanted in (
            ("task", record.task, task.name),
            ("task_sha256", record.task_sha256, task.digest),
            ("splits_sha256", record.splits_sha256, task.splits_sha256 or record.splits_sha256),
            ("truth_sha256", record.truth_sha256, task.truth_sha256 or record.truth_sha256),
        )
        if saw != wanted
    ]
    if other:
        raise RecordRefused(f"it was scored for another task: {'; '.join(other)}")
    if record.status not in KINDS:
        raise RecordRefused(f"its status is {record.status}: nothing was decided; score the submission again")
    envelope = canonical_json(load_json(data.decode())).decode()
    return Signed.of(record, envelope)


def _envelope_in(data: bytes) -> bytes:
    """The envelope that the result file of a platform carries; ``data`` itself where it is none."""
    try:
        text = data.decode()
        document = load_json(text, MAX_NUMBERS) if text.startswith("{") else load_yaml(text)
        return canonical_json(document["mvc"]["record"])
    except (ValueError, KeyError, TypeError):  # what it is instead is said where the envelope is opened
        return data


def append_record(signed: Signed, task: Task, ledger: Ledger, *, over_quota: bool = False) -> Event:
    """Add a believed record to the host's open ``ledger``: accepted with its scores, or rejected.

    RecordRefused where it stands there already, or would exceed the team's quota and ``over_quota`` is false; else
    raises as `Ledger.append`.
    """
    record, events = signed.record, ledger.events()
    again = next((e for e in events if e.payload.get("record_sha256") == signed.digest), None)
    if again is not None:
        raise RecordRefused(f"already recorded as event {again.seq}")
    over = exceeds(record, task, events)
    if over and not over_quota:
        raise RecordRefused(f"{over}; --over-quota records it and says so")
    payload = record_payload(signed) | ({"over_quota": True} if over else {})
    kind = KINDS[record.status]
    metrics = metric_rows(record) if kind is EventKind.ACCEPTED else None
    return ledger.append(kind, submission=record.submission, task=task.name, payload=payload, metrics=metrics)


def exceeds(record: ScoreRecord, task: Task, events: Sequence[Event]) -> str:
    """Why ``record`` does not fit into its team's quota, or '' where it does: rejections and old contents are free."""
    quota = task.caps.quota
    if quota is None or KINDS.get(record.status) is not EventKind.ACCEPTED:
        return ""
    scored = contents_of(events, task.digest, record.team)
    if _content(record.content_sha256, record.submission) in scored or len(scored) < quota:
        return ""
    done = counted(len(scored), "content")
    return f"team {record.team} has used its quota of {quota}: {done} scored for {task.name}"


def contents_of(events: Sequence[Event], task_sha256: str, team: str) -> set[str]:
    """The distinct contents that ``team`` had scored for a task."""
    return {
        _content(e.payload.get("content_sha256"), e.submission)
        for e in _accepted(events, task_sha256)
        if team_key(str(e.payload.get("team"))) == team_key(team)
    }


def usage(task: Task, events: Sequence[Event], team: str | None = None) -> tuple[Usage, ...]:
    """What each team (or only ``team``) has used, in the order in which the teams first appear."""
    locks = locks_of(events, task.digest)
    known = [*locks, *_accepted(events, task.digest)] if team is None else []
    found = [team] if team is not None else [str(e.payload.get("team")) for e in sorted(known, key=lambda e: e.seq)]
    names = {team_key(name): name for name in reversed(found)}  # as the team first wrote itself
    return tuple(
        Usage(name, len(contents_of(events, task.digest, name)), task.caps.quota, len(filings_of(locks, name)))
        for name in reversed(names.values())
    )


def _accepted(events: Sequence[Event], task_sha256: str) -> tuple[Event, ...]:
    return tuple(
        e
        for e in events
        if e.kind is EventKind.ACCEPTED and e.payload.get("task_sha256") == task_sha256 and "envelope" in e.payload
    )


def _content(content_sha256: Any, submission: str) -> str:
    # an accepted record without a digest of its content still counts, as its submission
    return str(content_sha256 or f"submission {submission}")


def record_payload(signed: Signed) -> dict[str, Any]:
    """What the ledger keeps of a record besides its scores: its own fields, and the envelope that proves them."""
    fields = signed.record.model_dump(mode="json", exclude={"scores", "task", "submission"})
    return {**fields, "record_sha256": signed.digest, "envelope": signed.envelope}


def metric_rows(record: ScoreRecord) -> pa.Table:
    """The public scores as rows of `METRIC_SCHEMA`; what a public score lacks is null."""
    rows = [{"submission": record.submission, **score.model_dump()} for score in record.scores]
    return pa.Table.from_pylist(rows, schema=METRIC_SCHEMA)
