"""The ledger: what was locked, received, accepted, rejected, superseded and withdrawn, in one DuckDB file.

The file is append-only. Every event carries the digest of the one before it, and an accepted event the digest of its
metric rows, so `Ledger.verify` finds a changed, missing or added row. The chain has no secret: who can rewrite the
whole file can also recompute it. Against that, note `Ledger.head` somewhere else and pass it to `verify` later.
"""

import json
import math
import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from protocol.canonical import canonical_json, digest_of, sha256_hex

FORMAT = "mvc-ledger-1"
FIRST_PREVIOUS = "0" * 64

EVENT_COLUMNS = ("seq", "time", "kind", "submission", "task", "payload", "previous", "digest")

_KEYS = ("submission", "model", "seed", "calibrator", "slice_kind", "slice", "class", "metric", "reading")
_COUNTS = ("n_draws", "n_undefined", "n_images", "n_patients", "n_events")
METRIC_SCHEMA = pa.schema(
    [(name, pa.string()) for name in _KEYS]
    + [(name, pa.int64()) for name in ("bins_asked", "bins_used")]
    + [(name, pa.float64()) for name in ("value", "lo", "hi")]
    + [("method", pa.string())]
    + [(name, pa.int64()) for name in _COUNTS]
    + [("reason", pa.string())]
)

_STORED_METRICS = pa.schema([pa.field("seq", pa.int64()), *METRIC_SCHEMA])
_STORED_EVENTS = pa.schema([(name, pa.int64() if name == "seq" else pa.string()) for name in EVENT_COLUMNS])

_CREATE = """
create table head (format varchar not null, seq bigint not null, digest varchar not null);
create table events (
    seq bigint primary key, time varchar not null, kind varchar not null, submission varchar not null,
    task varchar not null, payload varchar not null, previous varchar not null, digest varchar not null
);
create table metrics (
    seq bigint not null, submission varchar, model varchar, seed varchar, calibrator varchar, slice_kind varchar,
    slice varchar, "class" varchar, metric varchar, reading varchar, bins_asked bigint, bins_used bigint,
    value double, lo double, hi double, method varchar, n_draws bigint, n_undefined bigint, n_images bigint,
    n_patients bigint, n_events bigint, reason varchar
);
"""
_ALL_EVENTS = "select seq, time, kind, submission, task, payload, previous, digest from events order by all"
_HEAD = "select format, seq, digest from head"
_LAST_EVENT = "select seq, digest from events order by seq desc limit 1"
# "seq" leads in both tables, so ordering by all columns groups the rows of an event and fixes the order of exports.
_ALL_METRICS = "select * from metrics order by all"
_METRICS_BY_EVENT = "select * from metrics order by seq"

# The ledger's own file stays open; everything else that SQL could reach is off, and can't be turned on again.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "1",
    "lock_configuration": "true",
}


class LedgerError(Exception):
    """The ledger can't be used as asked; the message is for the user."""


class LedgerBusy(LedgerError):
    """Another program held the ledger for longer than the caller would wait."""


class LedgerDamaged(LedgerError):
    """The file is not a ledger, or its bytes are damaged."""


class EventKind(StrEnum):
    """What an event records."""

    LOCK = "lock"
    RECEIPT = "receipt"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
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


def default_path() -> Path:
    """The ledger named by the environment variable ``MVC_LEDGER``, else ``mvc.duckdb`` in the current folder."""
    return Path(os.environ.get("MVC_LEDGER") or "mvc.duckdb")


def utc_now() -> str:
    """The time now in UTC, ISO 8601 to the second, such as ``2026-01-31T09:30:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@contextmanager
def _interruptible() -> Iterator[None]:
    # DuckDB turns a Ctrl-C during a query into a RuntimeError.
    try:
        yield
    except RuntimeError as error:
        if "interrupted" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


class Ledger:
    """An open ledger; use ``with Ledger.open(path) as ledger``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, read_only: bool) -> None:
        self._connection = connection
        self.path = path
        self.read_only = read_only

    @classmethod
    @_interruptible()
    def open(cls, path: str | Path, *, wait_s: float = 30.0, read_only: bool = False) -> Self:
        """Open the ledger at ``path``; it is made where it is absent and ``read_only`` is false.

        Only one program can write at a time, and none can read meanwhile: a second one tries again for ``wait_s``
        seconds. Raises `LedgerBusy` after that, `LedgerDamaged` where the file is no ledger or is damaged, and
        `LedgerError` where there is none to read or it can't be made.
        """
        # An absolute path, because DuckDB reads meaning into names such as ":memory:" or "md:x".
        file = Path(path).resolve()
        if file.is_dir():
            raise LedgerError(f"{file} is a folder; a ledger is one file")
        if not file.exists():
            if read_only:
                raise LedgerError(f"there is no ledger at {file}")
            _create(file)
        ledger = cls(_connect(file, wait_s, read_only), file, read_only)
        try:
            ledger._check_tables()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, so that others can write; closing twice does nothing."""
        with suppress(duckdb.Error):
            self._connection.close()

    @_interruptible()
    def append(
        self,
        kind: EventKind | str,
        *,
        submission: str,
        task: str,
        payload: Mapping[str, Any],
        metrics: pa.Table | None = None,
    ) -> Event:
        """Add one event, and the metric rows of an accepted one, in one transaction; returns it as it was written.

        ``metrics`` has exactly the columns of `METRIC_SCHEMA`, in any order, of types that cast to it; NaN is kept as
        null. ``payload`` is what `canonical_json` takes, without the key ``metrics_sha256``, which is added here.
        A program killed at any moment leaves all of it or nothing.

        Raises ValueError for a kind, text, payload or table that can't be stored; `LedgerBusy` where another handle
        of this program wrote at the same moment; `LedgerDamaged` where the chain's end is not what was noted; and
        `LedgerError` where the disk refuses.
        """
        if self.read_only:
            raise LedgerError(f"{self.path} was opened to read only")
        kind = EventKind(kind)
        document = dict(payload)
        if "metrics_sha256" in document:
            raise ValueError("the payload key metrics_sha256 is the ledger's own")
        rows = None
        if metrics is not None:
            if kind is not EventKind.ACCEPTED:
                raise ValueError(f"only an accepted event carries metrics, not one of kind {kind}")
            rows = _to_schema(metrics)
            document["metrics_sha256"] = _rows_digest(_table_rows(rows))
        text = canonical_json(document).decode()
        for name in (submission, task):
            name.encode()  # a lone surrogate is no text: UnicodeEncodeError, a ValueError
        with self._transaction():
            last, previous = self._end()
            seq, texts = last + 1, (utc_now(), str(kind), submission, task, text, previous)
            row = [seq, *texts, _event_digest(seq, *texts)]
            if rows is not None:
                self._connection.register("incoming", rows)
                self._connection.execute("insert into metrics select ?, * from incoming", [seq])
                self._connection.unregister("incoming")
            self._connection.execute("insert into events values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._connection.execute("update head set seq = ?, digest = ?", [seq, row[-1]])
        return _event(row)

    @_interruptible()
    def events(self) -> tuple[Event, ...]:
        """All events in order. Raises `LedgerDamaged` where one can't be read; what it says is not checked here."""
        try:
            return tuple(_event(row) for row in self._rows(_ALL_EVENTS))
        except (ValueError, TypeError, RecursionError) as error:
            raise LedgerDamaged(f"{self.path} holds an event that can't be read: {error}") from None

    @_interruptible()
    def metrics(self) -> pa.Table:
        """The metric rows of all accepted events: the columns of `METRIC_SCHEMA` behind ``seq``, in a fixed order."""
        return self._table(_ALL_METRICS, _STORED_METRICS)

    @_interruptible()
    def head(self) -> tuple[int, str]:
        """Number and digest of the last event, (0, 64 zeros) where there is none; note it to prove the chain later."""
        rows = list(self._rows(_LAST_EVENT))
        return (int(rows[0][0]), str(rows[0][1])) if rows else (0, FIRST_PREVIOUS)

    @_interruptible()
    def verify(self, *, head: str | None = None) -> tuple[str, ...]:
        """Recompute every digest and return the problems found, in order; empty means whole.

        ``head`` is a digest noted earlier from `head`: the chain must still hold it, which also finds a ledger that was
        cut or rewritten as a whole.
        """
        try:
            return tuple(self._problems(head))
        except LedgerDamaged as error:
            return (str(error),)

    @_interruptible()
    def export(self, folder: str | Path) -> tuple[Path, Path]:
        """Write ``events.parquet`` and ``metrics.parquet`` into ``folder``, made where absent; returns their paths.

        Files of these names are replaced, each at once. Raises `LedgerError` where the folder can't be written.
        """
        target = Path(folder)
        tables = {"events.parquet": self._table(_ALL_EVENTS, _STORED_EVENTS), "metrics.parquet": self.metrics()}
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, table in tables.items():
                _write_parquet(table, target / name)
        except OSError as error:
            raise LedgerError(f"can't export to {target}: {error.strerror or error}") from None
        return target / "events.parquet", target / "metrics.parquet"

    def _problems(self, noted: str | None) -> Iterator[str]:
        metrics = self._metric_digests()
        last, previous, seen = 0, FIRST_PREVIOUS, noted in (None, FIRST_PREVIOUS)
        for seq, *body, stored_previous, digest in self._rows(_ALL_EVENTS):
            if seq != last + 1:
                yield f"event {seq} stands where event {last + 1} should: an event is missing or was moved"
            elif stored_previous != previous:
                yield f"event {seq} does not follow the event before it: its previous digest differs"
            if digest != _event_digest(seq, *body, stored_previous):
                yield f"event {seq} was changed: its digest differs"
            promised = _promised_metrics(body[-1])
            found = metrics.pop(seq, None if promised is None else _rows_digest(iter(())))
            if found != promised:
                yield f"the metrics of event {seq} were changed: their digest differs"
            last, previous, seen = seq, digest, seen or digest == noted
        for seq in metrics:
            yield f"there are metrics of event {seq}, which is not there"
        if list(self._rows(_HEAD)) != [(FORMAT, last, previous)]:
            yield "the end of the chain is not the one noted in the ledger: events were removed or added by hand"
        if not seen:
            yield "the digest noted earlier is not in this chain: the ledger was cut or rewritten"

    def _metric_digests(self) -> dict[int, str]:
        rows = self._rows(_METRICS_BY_EVENT)
        return {seq: _rows_digest(row[1:] for row in group) for seq, group in groupby(rows, key=lambda row: row[0])}

    def _end(self) -> tuple[int, str]:
        seq, digest = self.head()
        if list(self._rows(_HEAD)) != [(FORMAT, seq, digest)]:
            raise LedgerDamaged(f"{self.path} does not end where it says it does; run: mvc ledger verify")
        return seq, digest

    def _check_tables(self) -> None:
        shapes = (("select * from events limit 0", _STORED_EVENTS), ("select * from metrics limit 0", _STORED_METRICS))
        try:
            found = [format_ for format_, *_ in self._connection.execute(_HEAD).fetchall()]
            same = all(self._connection.sql(sql).to_arrow_table().schema == schema for sql, schema in shapes)
        except duckdb.Error as error:
            raise LedgerDamaged(f"{self.path} is a DuckDB file, but not a ledger: {_first_line(error)}") from None
        if not same or found != [FORMAT]:
            raise LedgerDamaged(f"{self.path} is a DuckDB file, but not a ledger: its tables are others")

    def _rows(self, sql: str) -> Iterator[tuple[Any, ...]]:
        with _damage(self.path):
            result = self._connection.execute(sql)
            while batch := result.fetchmany(4096):
                yield from batch

    def _table(self, sql: str, schema: pa.Schema) -> pa.Table:
        with _damage(self.path):
            return self._connection.sql(sql).to_arrow_table().cast(schema)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        try:
            self._connection.begin()
            yield
            self._connection.commit()
        except BaseException as error:  # Ctrl-C too: the connection must not keep half an event
            with suppress(duckdb.Error):
                self._connection.rollback()
            if isinstance(error, duckdb.TransactionException | duckdb.ConstraintException):
                raise LedgerBusy(f"another part of this program wrote to {self.path} at the same moment") from None
            if isinstance(error, duckdb.Error):
                raise LedgerError(f"can't write to {self.path}: {_first_line(error)}") from None
            raise


def _create(file: Path) -> None:
    # Built aside and linked into place: a kill leaves no half-made ledger, and of two makers one wins.
    aside = file.with_name(f".{file.name}.{secrets.token_hex(8)}.new")
    try:
        with duckdb.connect(str(aside), config=_CONFIG) as connection:
            connection.execute(_CREATE)
            connection.execute("insert into head values (?, 0, ?)", [FORMAT, FIRST_PREVIOUS])
        with suppress(FileExistsError):
            os.link(aside, file)
    except (OSError, duckdb.Error) as error:
        raise LedgerError(f"can't make a ledger at {file}: {_first_line(error)}") from None
    finally:
        for left in (aside, aside.with_name(f"{aside.name}.wal")):
            left.unlink(missing_ok=True)


def _connect(file: Path, wait_s: float, read_only: bool) -> duckdb.DuckDBPyConnection:
    # The file is never opened to look at it first: closing it would drop this program's own lock on it (POSIX locks).
    deadline = time.monotonic() + wait_s
    while True:
        try:
            return duckdb.connect(str(file), read_only=read_only, config=_CONFIG)
        except duckdb.Error as error:
            message = str(error)
        holder = _holder(message)
        if holder is None and "Permission denied" in message:
            raise LedgerError(f"{file} may not be opened: permission denied")
        if holder is None:
            raise LedgerDamaged(f"{file} is not a ledger, or is damaged: {message.splitlines()[0]}")
        left = deadline - time.monotonic()
        if left <= 0:
            raise LedgerBusy(f"{file} is held by {holder}; waited {wait_s:g} s; try again when that has ended")
        time.sleep(min(0.1, left))


def _holder(message: str) -> str | None:
    # DuckDB has no error class of its own for a locked file; these are its texts on POSIX, in one process, on Windows.
    if found := re.search(r"Conflicting lock is held in (.*?) \(PID (\d+)\)", message):
        return f"process {found[2]} ({found[1]})"
    if "different configuration" in message:
        return "another part of this program"
    if "Could not set lock" in message or "used by another process" in message:
        return "another program"
    return None


@contextmanager
def _damage(path: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise LedgerDamaged(f"{path} is damaged: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _event(row: Sequence[Any]) -> Event:
    seq, stamp, kind, submission, task, payload, previous, digest = row
    document = json.loads(payload, parse_int=_number)
    return Event(seq, stamp, EventKind(kind), submission, task, document, previous, digest)


def _number(digits: str) -> int | float:
    # RFC 8785 writes 7.2e16 without exponent; only floats reach that far, and only as one is its value exact.
    return int(digits) if abs(int(digits)) < 2**53 else float(digits)


def _event_digest(seq: int, *texts: str) -> str:
    # texts: time, kind, submission, task, payload, previous; the payload goes in as its own digest
    document: dict[str, Any] = dict(zip(EVENT_COLUMNS[1:-1], texts, strict=True))
    return digest_of({**document, "seq": _canonical(seq), "payload": sha256_hex(document["payload"].encode())})


def _promised_metrics(payload: str) -> str | None:
    try:
        promised = json.loads(payload).get("metrics_sha256")
    except (ValueError, AttributeError, RecursionError):
        return None  # no payload of ours: its event's digest differs and is reported
    return promised if isinstance(promised, str) else None


def _to_schema(metrics: pa.Table) -> pa.Table:
    names = METRIC_SCHEMA.names
    if sorted(metrics.column_names) != sorted(names):
        raise ValueError(f"metrics must have the columns {', '.join(names)}; got {', '.join(metrics.column_names)}")
    try:
        table = metrics.select(names).cast(METRIC_SCHEMA)
    except pa.ArrowNotImplementedError as error:
        raise ValueError(f"a metrics column has the wrong type: {_first_line(error)}") from None
    for index, field in enumerate(METRIC_SCHEMA):
        if field.type == pa.float64():
            column = table.column(index)
            # Undefined has one form, null: NaN would compare as the largest number in SQL.
            table = table.set_column(index, field, pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column))
    return table


def _table_rows(table: pa.Table) -> Iterator[tuple[Any, ...]]:
    for batch in table.to_batches(max_chunksize=4096):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _rows_digest(rows: Iterator[tuple[Any, ...]]) -> str:
    # Digest of the sorted digests of the rows: no matter in which order they are stored, and small in memory.
    names = METRIC_SCHEMA.names
    return digest_of(sorted(digest_of(dict(zip(names, map(_canonical, row), strict=True))) for row in rows))


def _canonical(value: Any) -> Any:
    # RFC 8785 has no NaN, no infinity and no integer from 2**53 on; undefined is null, the others are written as text.
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if isinstance(value, int) and abs(value) >= 2**53:
        return str(value)
    return value


def _write_parquet(table: pa.Table, path: Path) -> None:
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        pq.write_table(table, aside)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
