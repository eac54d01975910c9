"""What a host signs: the receipt of a declaration, and the record of a scored submission."""

from typing import Annotated

from pydantic import Field

from protocol.declaration import Declaration, Moment, team_key
from protocol.task import Task
from protocol.types import Name, Record, Sha256, Text


class Receipt(Record):
    """A host's word that a declaration was filed, and when.

    ``filing`` counts the distinct locks that the team filed for the task, this one included; the same lock again has
    the same number. ``event`` and ``event_digest`` name the lock's event in the host's ledger, ``received_at`` its
    time.
    """

    edition: Text
    task: Name
    task_sha256: Sha256
    submission_id: Text
    team: Text
    lock_sha256: Sha256
    declared_at: Moment
    received_at: Moment
    filing: Annotated[int, Field(ge=1)]
    event: Annotated[int, Field(ge=1)]
    event_digest: Sha256


def receipt_differences(receipt: Receipt, task: Task, lock: Declaration) -> tuple[str, ...]:
    """What ``receipt`` says otherwise than ``lock`` and ``task``, field by field; empty means that it is theirs."""
    wanted = {
        "edition": lock.edition,
        "task": task.name,
        "task_sha256": task.digest,
        "submission_id": lock.submission_id,
        "lock_sha256": lock.digest,
        "declared_at": lock.declared_at,
    }
    pairs = [(name, str(getattr(receipt, name)), value) for name, value in wanted.items()]
    if team_key(receipt.team) != team_key(lock.team):
        pairs.insert(0, ("team", receipt.team, lock.team))
    return tuple(f"{name} {saw}, here {value}" for name, saw, value in pairs if saw != value)


class RecordedFinding(Record):
    """A finding of a rule that rejected."""

    rule: Text
    where: Text
    saw: Text
    wanted: Text
    count: int


class PublicScore(Record):
    """A number as participants may see it: rounded, None where it is undefined or withheld."""

    model: Text
    seed: Text
    calibrator: Text
    slice_kind: Text
    slice: Text
    metric: Text
    value: float | None
    lo: float | None
    hi: float | None
    n_images: Annotated[int, Field(ge=0)]
    n_patients: Annotated[int, Field(ge=0)]


class Entry(Record):
    """The run that stands for a submission where one number is ranked: the first model and method of the record."""

    model: Text
    calibrator: Text


class ScoreRecord(Record):
    """What became of a submission to a hosted task; ``scores`` is empty and ``entry`` None unless it was accepted.

    ``content_sha256`` is the digest of what was predicted for test and external images, however the file is written;
    ``filings`` is the number on the receipt, None without one.
    """

    edition: Text
    scorer: Text
    task: Name
    task_sha256: Sha256
    splits_sha256: Sha256
    truth_sha256: Sha256
    submission: Text
    title: Text
    team: Text
    status: Text
    outcomes: dict[str, Text]
    waivers: dict[str, Text]
    unverified: dict[str, Text]
    findings: tuple[RecordedFinding, ...]
    digests: dict[str, Sha256]
    content_sha256: Sha256 | None
    entry: Entry | None = None
    lock_sha256: Sha256 | None
    declared: Text
    filings: Annotated[int, Field(ge=1)] | None
    scored_at: Moment
    scores: tuple[PublicScore, ...]
