"""The ledger: what was locked, received, accepted, rejected, superseded and withdrawn, in one DuckDB file.

The file is append-only. Every event carries the digest of the one before it, and an accepted event the digest of its
metric rows, so `Ledger.verify` finds a changed, missing or added row. The chain has no secret: who can rewrite the
whole file can also recompute it. Against that, note `Ledger.head` somewhere else and pass it to `verify` later.
"""

import os
import re
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from protocol.canonical import canonical_json
from scorer.interrupts import interruptible
from scorer.ledger_rows import (
    CREATE_TABLES,
    EVENT_COLUMNS,
    FIRST_PREVIOUS,
    FORMAT,
    METRIC_SCHEMA,
    SELECT_EVENTS,
    SELECT_HEAD,
    SELECT_LAST_EVENT,
    SELECT_METRICS,
    SELECT_METRICS_BY_EVENT,
    STORED_EVENTS,
    STORED_METRICS,
    Event,
    EventKind,
    Metrics,
    event_digest,
    event_of,
    first_line,
    prepared,
    promised_metrics,
    rows_digest,
)
from submission.files import replacing

__all__ = [
    "EVENT_COLUMNS",
    "FIRST_PREVIOUS",
    "METRIC_SCHEMA",
    "Event",
    "EventKind",
    "Ledger",
    "LedgerBusy",
    "LedgerDamaged",
    "LedgerError",
    "Metrics",
    "NotALedger",
    "default_path",
    "prepared",
    "utc_now",
]

# The ledger's own file stays open; everything else that SQL could reach is off, and can't be turned on again.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "threads": "1",
}


class LedgerError(Exception):
    """The ledger can't be used as asked; the message is for the user."""


class LedgerBusy(LedgerError):
    """Another program held the ledger for longer than the caller would wait."""


class LedgerDamaged(LedgerError):
    """The file is not a ledger, or its bytes are damaged."""


class NotALedger(LedgerDamaged):
    """The file is no database at all: another file, named by mistake."""


def default_path() -> Path:
    """The ledger named by the environment variable ``MVC_LEDGER``, else ``mvc.duckdb`` in the current folder."""
    return Path(os.environ.get("MVC_LEDGER") or "mvc.duckdb")


def utc_now() -> str:
    """The time now in UTC, ISO 8601 to the second, such as ``2026-01-31T09:30:00Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Ledger:
    """An open ledger; use ``with Ledger.open(path) as ledger``."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, path: Path, read_only: bool) -> None:
        self._connection = connection
        self.path = path
        self.read_only = read_only

    @classmethod
    @interruptible()
    def open(cls, path: str | Path, *, wait_s: float = 30.0, read_only: bool = False) -> Self:
        """Open the ledger at ``path``; it is made where it is absent and ``read_only`` is false.

        Only one program can write at a time, and none can read meanwhile: a second one tries again for ``wait_s``
        seconds. Raises `LedgerBusy` after that, `LedgerDamaged` where the file is no ledger or is damaged (`NotALedger`
        where it is no DuckDB file), and `LedgerError` where there is none to read or it can't be made.
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

    @interruptible()
    def append(
        self,
        kind: EventKind | str,
        *,
        submission: str,
        task: str,
        payload: Mapping[str, Any],
        metrics: pa.Table | Metrics | None = None,
    ) -> Event:
        """Add one event, and the metric rows of an accepted one, in one transaction; returns it as it was written.

        ``metrics`` has exactly the columns of `METRIC_SCHEMA`, in any order, of types that cast to it; NaN is kept as
        null. Where others wait for the ledger, hand it over `prepared`. ``payload`` is what `canonical_json` takes,
        without the key ``metrics_sha256``, which is added here.
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
            ready = metrics if isinstance(metrics, Metrics) else prepared(metrics)
            rows, document["metrics_sha256"] = ready.rows, ready.digest
        text = canonical_json(document).decode()
        for name in (submission, task):
            name.encode()  # a lone surrogate is no text: UnicodeEncodeError, a ValueError
        with self._transaction():
            last, previous = self._end()
            seq, texts = last + 1, (utc_now(), str(kind), submission, task, text, previous)
            row = [seq, *texts, event_digest(seq, *texts)]
            if rows is not None:
                self._connection.register("incoming", rows)
                self._connection.execute("insert into metrics select ?, * from incoming", [seq])
                self._connection.unregister("incoming")
            self._connection.execute("insert into events values (?, ?, ?, ?, ?, ?, ?, ?)", row)
            self._connection.execute("update head set seq = ?, digest = ?", [seq, row[-1]])
        return event_of(row)

    @interruptible()
    def events(self) -> tuple[Event, ...]:
        """All events in order. Raises `LedgerDamaged` where one can't be read; what it says is not checked here."""
        try:
            return tuple(event_of(row) for row in self._rows(SELECT_EVENTS))
        except (ValueError, TypeError, RecursionError) as error:
            raise LedgerDamaged(f"{self.path} holds an event that can't be read: {error}") from None

    @interruptible()
    def metrics(self) -> pa.Table:
        """The metric rows of all accepted events: the columns of `METRIC_SCHEMA` behind ``seq``, in a fixed order."""
        return self._table(SELECT_METRICS, STORED_METRICS)

    @interruptible()
    def head(self) -> tuple[int, str]:
        """Number and digest of the last event, (0, 64 zeros) where there is none; note it to prove the chain later."""
        rows = list(self._rows(SELECT_LAST_EVENT))
        return (int(rows[0][0]), str(rows[0][1])) if rows else (0, FIRST_PREVIOUS)

    @interruptible()
    def verify(self, *, head: str | None = None) -> tuple[str, ...]:
        """Recompute every digest and return the problems found, in order; empty means whole.

        ``head`` is a digest noted earlier from `head`: the chain must still hold it, which also finds a ledger that was
        cut or rewritten as a whole.
        """
        try:
            return tuple(self._problems(head))
        except LedgerDamaged as error:
            return (str(error),)

    @interruptible()
    def export(self, folder: str | Path) -> tuple[Path, Path]:
        """Write ``events.parquet`` and ``metrics.parquet`` into ``folder``, made where absent; returns their paths.

        Files of these names are replaced, each at once. Raises `LedgerError` where the folder can't be written.
        """
        target = Path(folder)
        tables = {"events.parquet": self._table(SELECT_EVENTS, STORED_EVENTS), "metrics.parquet": self.metrics()}
        try:
            target.mkdir(parents=True, exist_ok=True)
            for name, table in tables.items():
                with replacing(target / name) as sink:
                    pq.write_table(table, sink)
        except OSError as error:
            raise LedgerError(f"can't export to {target}: {error.strerror or error}") from None
        return target / "events.parquet", target / "metrics.parquet"

    def _problems(self, noted: str | None) -> Iterator[str]:
        metrics = self._metric_digests()
        last, previous, seen = 0, FIRST_PREVIOUS, noted in (None, FIRST_PREVIOUS)
        for seq, *body, stored_previous, digest in self._rows(SELECT_EVENTS):
            if seq != last + 1:
                yield f"event {seq} stands where event {last + 1} should: an event is missing or was moved"
            elif stored_previous != previous:
                yield f"event {seq} does not follow the event before it: its previous digest differs"
            if digest != event_digest(seq, *body, stored_previous):
                yield f"event {seq} was changed: its digest differs"
            promised = promised_metrics(body[-1])
            found = metrics.pop(seq, None if promised is None else rows_digest(iter(())))
            if found != promised:
                yield f"the metrics of event {seq} were changed: their digest differs"
            last, previous, seen = seq, digest, seen or digest == noted
        for seq in metrics:
            yield f"there are metrics of event {seq}, which is not there"
        if list(self._rows(SELECT_HEAD)) != [(FORMAT, last, previous)]:
            yield "the end of the chain is not the one noted in the ledger: events were removed or added by hand"
        if not seen:
            yield "the digest noted earlier is not in this chain: the ledger was cut or rewritten"

    def _metric_digests(self) -> dict[int, str]:
        rows = self._rows(SELECT_METRICS_BY_EVENT)
        return {seq: rows_digest(row[1:] for row in group) for seq, group in groupby(rows, key=lambda row: row[0])}

    def _end(self) -> tuple[int, str]:
        seq, digest = self.head()
        if list(self._rows(SELECT_HEAD)) != [(FORMAT, seq, digest)]:
            raise LedgerDamaged(f"{self.path} does not end where it says it does; run: mvc ledger verify")
        return seq, digest

    def _check_tables(self) -> None:
        shapes = (("select * from events limit 0", STORED_EVENTS), ("select * from metrics limit 0", STORED_METRICS))
        try:
            found = [format_ for format_, *_ in self._connection.execute(SELECT_HEAD).fetchall()]
            same = all(self._connection.sql(sql).to_arrow_table().schema == schema for sql, schema in shapes)
        except duckdb.Error as error:
            raise LedgerDamaged(f"{self.path} is a DuckDB file, but not a ledger: {first_line(error)}") from None
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
            refusal = _refusal(str(error))  # a full disk comes in the class of a conflict
            if isinstance(error, duckdb.TransactionException | duckdb.ConstraintException) and not refusal:
                raise LedgerBusy(f"another part of this program wrote to {self.path} at the same moment") from None
            if isinstance(error, duckdb.Error):
                said = f"{refusal or first_line(error)}; nothing was recorded"
                raise LedgerError(f"can't write to {self.path}: {said}") from None
            raise


def _create(file: Path) -> None:
    # Built aside and linked into place: a kill leaves no half-made ledger, and of two makers one wins.
    if not file.parent.is_dir():
        raise LedgerError(f"can't make a ledger at {file}: there is no folder {file.parent}")
    aside = file.with_name(f".{file.name}.{secrets.token_hex(8)}.new")
    try:
        with duckdb.connect(str(aside), config=_CONFIG) as connection:
            connection.execute(CREATE_TABLES)
            connection.execute("insert into head values (?, 0, ?)", [FORMAT, FIRST_PREVIOUS])
        with suppress(FileExistsError):
            os.link(aside, file)
    except (OSError, duckdb.Error) as error:
        raise LedgerError(f"can't make a ledger at {file}: {first_line(error)}") from None
    finally:
        for left in (aside, aside.with_name(f"{aside.name}.wal")):
            left.unlink(missing_ok=True)


def _connect(file: Path, wait_s: float, read_only: bool) -> duckdb.DuckDBPyConnection:
    # The file is never opened to look at it first: closing it would drop this program's own lock on it (POSIX locks).
    deadline = time.monotonic() + wait_s
    while True:
        try:
            connection = duckdb.connect(str(file), read_only=read_only, config=_CONFIG)
            _lock(connection)
            return connection
        except duckdb.Error as error:
            message = str(error)
        holder = _holder(message)
        if holder is None and (refusal := _refusal(message)):
            raise LedgerError(f"{file} may not be opened: {refusal}")
        if holder is None and "not a valid DuckDB database" in message:
            raise NotALedger(f"{file} is not a ledger: it is no DuckDB file")
        if holder is None:
            raise LedgerDamaged(f"{file} is not a ledger, or is damaged: {message.splitlines()[0]}")
        left = deadline - time.monotonic()
        if left <= 0:
            raise LedgerBusy(f"{file} is held by {holder}; waited {wait_s:g} s; try again when that has ended")
        time.sleep(min(0.1, left))


def _refusal(message: str) -> str:
    """Why the system refuses a file, lower case, or '' where that is not what DuckDB says."""
    found = re.search(r"(?:Cannot open|Could not (?:write|sync)) file \".*\": (.+)", message)
    return found[1].lower() if found else ""


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    # A second handle of this program finds it done. The bar would be printed between our lines.
    if connection.execute("select current_setting('lock_configuration')").fetchone() == (False,):
        connection.execute("set enable_progress_bar = false")
        connection.execute("set lock_configuration = true")


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
        raise LedgerDamaged(f"{path} is damaged: {first_line(error)}") from None
