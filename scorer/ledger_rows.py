"""What stands in a ledger's tables: their shape, their SQL, and the digests that chain events and metric rows.

Nothing here opens a file: :mod:`scorer.ledger` does.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from protocol.canonical import digest_of, sha256_hex

FORMAT = "mvc-ledger-2"
FIRST_PREVIOUS = "0" * 64

EVENT_COLUMNS = ("seq", "time", "kind", "submission", "task", "payload", "previous", "digest")

_KEYS = ("submission", "model", "seed", "calibrator", "slice_kind", "slice", "class", "metric", "reading")
_COUNTS = ("n_draws", "n_undefined", "n_images", "n_patients", "n_events")
METRIC_SCHEMA = pa.schema(
    [(name, pa.string()) for name in _KEYS]
    + [(name, pa.int64()) for name in ("bins_asked", "bins_used")]
    + [(name, pa.float64()) for name in ("cutoff", "value", "lo", "hi")]
    + [("method", pa.string())]
    + [(name, pa.int64()) for name in _COUNTS]
    + [("reason", pa.string())]
)

STORED_METRICS = pa.schema([pa.field("seq", pa.int64()), *METRIC_SCHEMA])
STORED_EVENTS = pa.schema([(name, pa.int64() if name == "seq" else pa.string()) for name in EVENT_COLUMNS])

CREATE_TABLES = """
create table head (format varchar not null, seq bigint not null, digest varchar not null);
create table events (
    seq bigint primary key, time varchar not null, kind varchar not null, submission varchar not null,
    task varchar not null, payload varchar not null, previous varchar not null, digest varchar not null
);
create table metrics (
    seq bigint not null, submission varchar, model varchar, seed varchar, calibrator varchar, slice_kind varchar,
    slice varchar, "class" varchar, metric varchar, reading varchar, bins_asked bigint, bins_used bigint,
    cutoff double, value double, lo double, hi double, method varchar, n_draws bigint, n_undefined bigint,
    n_images bigint, n_patients bigint, n_events bigint, reason varchar
);
"""
SELECT_EVENTS = "select seq, time, kind, submission, task, payload, previous, digest from events order by all"
SELECT_HEAD = "select format, seq, digest from head"
SELECT_LAST_EVENT = "select seq, digest from events order by seq desc limit 1"
# "seq" leads in both tables, so ordering by all columns groups the rows of an event and fixes the order of exports.
SELECT_METRICS = "select * from metrics order by all"
SELECT_METRICS_BY_EVENT = "select * from metrics order by seq"


class EventKind(StrEnum):
    """What an event records."""

    LOCK = "lock"
    RECEIPT = "receipt"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    SEALED = "sealed"  # checked and packed for the host of its task, who scores it
    SUPERSEDE = "supersede"
    WITHDRAW = "withdraw"


@dataclass(frozen=True)
class Event:
    """One row of the chain; ``payload`` is the decoded canonical JSON, digests are 64 hex characters."""

    seq: int
    time: str
    kind: EventKind
    submission: str
    task: str
    payload: Mapping[str, Any]
    previous: str
    digest: str


def first_line(error: Exception) -> str:
    """The first line of an error's message, or its class where it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def event_of(row: Sequence[Any]) -> Event:
    """A stored row of ``EVENT_COLUMNS`` as an event; ValueError where the kind or the payload is none of ours."""
    seq, stamp, kind, submission, task, payload, previous, digest = row
    document = json.loads(payload, parse_int=_number)
    return Event(seq, stamp, EventKind(kind), submission, task, document, previous, digest)


def _number(digits: str) -> int | float:
    # RFC 8785 writes 7.2e16 without exponent; only floats reach that far, and only as one is its value exact.
    return int(digits) if abs(int(digits)) < 2**53 else float(digits)


def event_digest(seq: int, *texts: str) -> str:
    """Digest of an event; ``texts``: time, kind, submission, task, payload, previous."""
    # the payload goes in as its own digest
    document: dict[str, Any] = dict(zip(EVENT_COLUMNS[1:-1], texts, strict=True))
    return digest_of({**document, "seq": _whole(seq), "payload": sha256_hex(document["payload"].encode())})


def promised_metrics(payload: str) -> str | None:
    """The digest of the metric rows that a stored payload names, or None."""
    try:
        promised = json.loads(payload).get("metrics_sha256")
    except (ValueError, AttributeError, RecursionError):
        return None  # no payload of ours: its event's digest differs and is reported
    return promised if isinstance(promised, str) else None


@dataclass(frozen=True)
class Metrics:
    """Metric rows as they are stored, and their digest."""

    rows: pa.Table
    digest: str


def prepared(metrics: pa.Table) -> Metrics:
    """``metrics`` made ready to be appended, which takes longer than appending; ValueError where it does not fit."""
    rows = to_schema(metrics)
    return Metrics(rows, rows_digest(table_rows(rows)))


def to_schema(metrics: pa.Table) -> pa.Table:
    """``metrics`` in the columns and types of ``METRIC_SCHEMA``, NaN as null; ValueError where it does not fit."""
    names = METRIC_SCHEMA.names
    if sorted(metrics.column_names) != sorted(names):
        raise ValueError(f"metrics must have the columns {', '.join(names)}; got {', '.join(metrics.column_names)}")
    try:
        table = metrics.select(names).cast(METRIC_SCHEMA)
    except pa.ArrowNotImplementedError as error:
        raise ValueError(f"a metrics column has the wrong type: {first_line(error)}") from None
    for index, field in enumerate(METRIC_SCHEMA):
        if field.type == pa.float64():
            column = table.column(index)
            # Undefined has one form, null: NaN would compare as the largest number in SQL.
            table = table.set_column(index, field, pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column))
    return table


def table_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The rows of ``table`` as tuples, a batch at a time."""
    for batch in table.to_batches(max_chunksize=4096):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def rows_digest(rows: Iterator[tuple[Any, ...]]) -> str:
    """Digest of metric rows, each in the order of ``METRIC_SCHEMA``: SHA-256 of the sorted digests of the rows.

    A row's digest is that of its values as a compact JSON array, undefined numbers null. No matter in which order rows
    are stored; small in memory.
    """
    digests = sorted(hashlib.sha256(_line(row)).digest() for row in rows)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _line(row: tuple[Any, ...]) -> bytes:
    values = [_canonical(value) for value in row]
    return json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _whole(seq: int) -> int | str:
    # RFC 8785 has no integer from 2**53 on: written as text
    return str(seq) if abs(seq) >= 2**53 else seq


def _canonical(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    return value
