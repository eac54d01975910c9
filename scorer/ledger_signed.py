"""What can be checked offline of the signed events of a ledger: each envelope, and that its event says the same."""

from collections.abc import Iterator, Mapping
from typing import Any

from protocol.declaration import team_key
from protocol.hosting import Receipt
from protocol.task import Task
from scorer.host_task import host_key_of
from scorer.ledger import Event, EventKind, Ledger, LedgerDamaged
from scorer.ledger_filings import locks_of, receipt_payload
from scorer.ledger_records import KINDS, Signed, metric_rows, record_payload
from scorer.ledger_rows import rows_digest, table_rows, to_schema
from scorer.signing import AnotherKey, SignatureError, opened_receipt, opened_record


def signed_problems(ledger: Ledger, task: Task) -> tuple[str, ...]:
    """Problems of receipts, records and filings under the host's key of ``task``, in order; empty means none.

    Events of other tasks under other keys are passed over. `Ledger.verify` checks the chain itself. HostError where the
    task names no key.
    """
    key = host_key_of(task)
    try:
        events = ledger.events()
    except LedgerDamaged as error:
        return (str(error),)
    found, by_number = [*_filings(events, task)], {event.seq: event for event in events}
    for event in events:
        found += _checked(event, by_number, task, key)
    return (*found, *_repeated(events, task))


def _repeated(events: tuple[Event, ...], task: Task) -> Iterator[str]:
    """Signed events that stand twice: what was withdrawn or superseded could be brought back so."""
    first: dict[str, int] = {}
    for event in events:
        envelope = event.payload.get("envelope")
        if envelope is not None and event.payload.get("task_sha256") == task.digest:
            seq = first.setdefault(str(envelope), event.seq)
            if seq != event.seq:
                yield f"event {event.seq} repeats the signed document of event {seq}"


def _filings(events: tuple[Event, ...], task: Task) -> Iterator[str]:
    filed: dict[str, list[Any]] = {}
    for event in locks_of(events, task.digest):
        own = filed.setdefault(team_key(str(event.payload.get("team"))), [])
        if event.payload.get("lock_sha256") not in own:
            own.append(event.payload.get("lock_sha256"))
        number = 1 + own.index(event.payload.get("lock_sha256"))
        if event.payload.get("filing") != number:
            yield f"event {event.seq} says filing {event.payload.get('filing')}, the locks before it make it {number}"


def _checked(event: Event, by_number: Mapping[int, Event], task: Task, key: str) -> list[str]:
    """What is wrong with one event."""
    what = "receipt" if event.kind is EventKind.RECEIPT else "record"
    envelope = event.payload.get("envelope")
    if envelope is None:
        promised = event.kind is EventKind.RECEIPT or (event.kind is EventKind.ACCEPTED and task.hosted)
        return [f"event {event.seq} has no signed {what}"] if promised and event.task == task.name else []
    data = str(envelope).encode(errors="replace")
    try:
        wanted = _of_receipt(data, str(envelope), key) if what == "receipt" else _of_record(data, str(envelope), key)
    except AnotherKey as error:
        own = task.digest == event.payload.get("task_sha256")
        return [f"the {what} of event {event.seq} can't be believed: {error}"] if own else []
    except SignatureError as error:
        return [f"the {what} of event {event.seq} can't be believed: {error}"]
    said = _said(event)
    other = [name for name in {**wanted, **said} if said.get(name) != wanted.get(name)]
    found = [f"event {event.seq} differs from its signed {what} in {', '.join(sorted(other))}"] if other else []
    if what == "receipt" and not _names_its_lock(opened_receipt(data, key), by_number):
        found.append(f"the receipt of event {event.seq} names another event as its lock than the ledger holds")
    return found


def _said(event: Event) -> Mapping[str, Any]:
    """What the event itself says; that it went over the quota is the ledger's own remark."""
    fields = {name: value for name, value in event.payload.items() if name != "over_quota"}
    return {**fields, "kind": event.kind, "submission": event.submission, "task": event.task}


def _of_receipt(data: bytes, envelope: str, key: str) -> Mapping[str, Any]:
    receipt = opened_receipt(data, key)
    fields = receipt_payload(receipt, envelope)
    return {**fields, "kind": EventKind.RECEIPT, "submission": receipt.submission_id, "task": receipt.task}


def _of_record(data: bytes, envelope: str, key: str) -> Mapping[str, Any]:
    record = opened_record(data, key)
    kind = KINDS.get(record.status)
    fields = record_payload(Signed.of(record, envelope))
    if kind is EventKind.ACCEPTED:
        fields["metrics_sha256"] = rows_digest(table_rows(to_schema(metric_rows(record))))
    return {**fields, "kind": kind, "submission": record.submission, "task": record.task}


def _names_its_lock(receipt: Receipt, by_number: Mapping[int, Event]) -> bool:
    event = by_number.get(receipt.event)
    if event is None or event.kind is not EventKind.LOCK:
        return False
    said = (event.digest, event.time, event.payload.get("lock_sha256"))
    return said == (receipt.event_digest, receipt.received_at, receipt.lock_sha256)
