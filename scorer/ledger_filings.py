"""Filing a declaration with the host: the lock goes into the host's ledger, the team gets a signed receipt."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import TypeAdapter

from protocol import EDITION
from protocol.declaration import Declaration, team_key
from protocol.hosting import Receipt
from protocol.task import Task
from scorer.host_task import HostError, host_key_of
from scorer.ledger import Event, EventKind, Ledger
from scorer.signing import public_hex, seal
from submission.yaml_io import MAX_BYTES, parse_record


class FilingRefused(ValueError):
    """A lock can't be filed; the message names what is wrong with it."""


@dataclass(frozen=True)
class Filed:
    """A receipt, its signed envelope as it is handed out, and whether the lock was new to the ledger."""

    receipt: Receipt
    envelope: bytes
    new: bool


def read_lock(data: bytes, task: Task) -> Declaration:
    """The lock in ``data``, if it is whole and was made for ``task``; FilingRefused with everything that is wrong."""
    if len(data) > MAX_BYTES:
        raise FilingRefused(f"more than {MAX_BYTES} bytes")
    lock, problems = parse_record(TypeAdapter(Declaration), data, "lock")
    if lock is None:
        raise FilingRefused("; ".join(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems))
    wrong = []
    if lock.digest != lock.recomputed_digest:
        wrong.append("it was changed after it was made: its digest differs")
    if lock.edition != EDITION:
        wrong.append(f"it is of edition {lock.edition}, wanted {EDITION}")
    if lock.task_sha256 != task.digest:
        wrong.append(f"it is for another task: {lock.task_sha256}, wanted {task.digest} ({task.name})")
    if task.splits_sha256 not in (None, lock.splits_sha256):
        wrong.append(f"it is for another split file: {lock.splits_sha256}, wanted {task.splits_sha256}")
    if not team_key(lock.team):
        wrong.append("its team is blank, and filings are counted by team")
    if wrong:
        raise FilingRefused(f"{'; '.join(wrong)}; the team runs mvc declare on the published task")
    return lock


def file_lock(lock: Declaration, task: Task, key: Ed25519PrivateKey, ledger: Ledger) -> Filed:
    """Record ``lock`` (from `read_lock`) in the host's open ``ledger`` and sign its receipt.

    The same lock again changes nothing and gives the same receipt to the last byte: its filing number and date are
    those of the first time. HostError where ``key`` is not the one that the task names; else raises as `Ledger.append`.
    """
    if public_hex(key) != host_key_of(task):
        raise HostError(f"the key is not the one that the task {task.name} names; give the host.key made with it")
    events = ledger.events()  # the open ledger keeps other writers out until the lock stands in it
    locks = locks_of(events, task.digest)
    event = next((e for e in locks if e.payload["lock_sha256"] == lock.digest), None)
    new = event is None
    if event is None:
        payload = lock_payload(lock, 1 + len(filings_of(locks, lock.team)))
        event = ledger.append(EventKind.LOCK, submission=lock.submission_id, task=task.name, payload=payload)
        locks = (*locks, event)
    receipt = Receipt(
        edition=EDITION,
        task=task.name,
        task_sha256=task.digest,
        submission_id=lock.submission_id,
        team=lock.team,
        lock_sha256=lock.digest,
        declared_at=lock.declared_at,
        received_at=event.time,
        filing=1 + filings_of(locks, lock.team).index(lock.digest),
        event=event.seq,
        event_digest=event.digest,
    )
    envelope = seal(receipt, "receipt", key)
    payload = receipt_payload(receipt, envelope.decode())
    given = any(e.kind is EventKind.RECEIPT and dict(e.payload) == payload for e in events)
    if not given:  # new, or a program was killed between the two events
        ledger.append(EventKind.RECEIPT, submission=lock.submission_id, task=task.name, payload=payload)
    return Filed(receipt, envelope, new)


def locks_of(events: Sequence[Event], task_sha256: str) -> tuple[Event, ...]:
    """The locks filed for a task, in the order of filing."""
    return tuple(e for e in events if e.kind is EventKind.LOCK and e.payload.get("task_sha256") == task_sha256)


def filings_of(locks: Sequence[Event], team: str) -> list[str]:
    """Digests of the distinct locks that ``team`` filed, in the order of filing; ``locks`` are of one task."""
    own = [e for e in locks if team_key(str(e.payload.get("team"))) == team_key(team)]
    return list(dict.fromkeys(str(e.payload.get("lock_sha256")) for e in own))


def lock_payload(lock: Declaration, filing: int) -> dict[str, Any]:
    """What the ledger keeps of a lock."""
    return {
        "team": lock.team,
        "lock_sha256": lock.digest,
        "task_sha256": lock.task_sha256,
        "splits_sha256": lock.splits_sha256,
        "declared_at": lock.declared_at,
        "filing": filing,
    }


def receipt_payload(receipt: Receipt, envelope: str) -> dict[str, Any]:
    """What the ledger keeps of a receipt: its own fields, and the signed envelope that proves them."""
    kept = ("team", "lock_sha256", "task_sha256", "declared_at", "received_at", "filing", "event", "event_digest")
    return {**{name: getattr(receipt, name) for name in kept}, "envelope": envelope}
