"""The ledger stays whole under kills, and says so when it is not."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.canonical import canonical_json, digest_of, sha256_hex
from scorer.ledger import (
    EVENT_COLUMNS,
    FIRST_PREVIOUS,
    METRIC_SCHEMA,
    EventKind,
    Ledger,
    LedgerBusy,
    LedgerDamaged,
    LedgerError,
    default_path,
)

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "'; drop table events; -- \" \\ \x00\x1b[31m\r\n\u202e $1 {x} %s 文"

APPEND_FOREVER = """
import sys
import pyarrow as pa
from scorer.ledger import METRIC_SCHEMA, Ledger
rows = pa.Table.from_pylist([{"metric": "ece", "value": i / 7} for i in range(200)], schema=METRIC_SCHEMA)
def add(ledger):
    event = ledger.append("accepted", submission="s", task="t", payload={"a": "x" * 500}, metrics=rows)
    print(event.seq, flush=True)
while sys.argv[2] == "reopen":
    with Ledger.open(sys.argv[1]) as ledger:
        add(ledger)
with Ledger.open(sys.argv[1]) as ledger:
    while True:
        add(ledger)
"""

HOLD = """
import sys
from scorer.ledger import Ledger
with Ledger.open(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


def metric_rows(n: int = 3, **columns: Any) -> pa.Table:
    row: dict[str, Any] = {
        name: f"{name} text" if kind == pa.string() else 7 if kind == pa.int64() else 0.1
        for name, kind in zip(METRIC_SCHEMA.names, METRIC_SCHEMA.types, strict=True)
    }
    return pa.Table.from_pylist([{**row, "value": i / 3, **columns} for i in range(n)], schema=METRIC_SCHEMA)


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A background shell may have made us deaf to Ctrl-C; the writer must hear it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    file = tmp_path_factory.mktemp("ledger") / "ledger.duckdb"
    with Ledger.open(file) as ledger:
        ledger.append("lock", submission="s1", task="skin", payload={"lock": "ab"})
        ledger.append("accepted", submission="s1", task="skin", payload={}, metrics=metric_rows())
        ledger.append("rejected", submission="s2", task="skin", payload={"rules": ["MVC101"]})
        ledger.append("withdraw", submission="s1", task="skin", payload={})
        ledger.append("accepted", submission="s3", task="skin", payload={"x": 1.5}, metrics=metric_rows(2))
    return file.read_bytes()


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    """A whole ledger of five events; the second and the last carry metrics."""
    file = tmp_path / "ledger.duckdb"
    file.write_bytes(content)
    return file


def tamper(path: Path, *statements: str) -> None:
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)


def problems(path: Path, **options: Any) -> tuple[str, ...]:
    with Ledger.open(path, read_only=True) as ledger:
        return ledger.verify(**options)


def test_chain_is_what_the_documentation_says(path: Path) -> None:
    with Ledger.open(path) as ledger:
        events = ledger.events()
        head = ledger.head()
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert [event.previous for event in events] == [FIRST_PREVIOUS, *(event.digest for event in events[:-1])]
    assert head == (5, events[-1].digest)
    for event in events:
        document: dict[str, Any] = {name: getattr(event, name) for name in EVENT_COLUMNS if name != "digest"}
        document["payload"] = sha256_hex(canonical_json(document["payload"]))
        document["kind"] = event.kind.value
        assert event.digest == digest_of(document)
        assert time.strptime(event.time, "%Y-%m-%dT%H:%M:%SZ")


def test_append_returns_what_is_read_back(path: Path) -> None:
    with Ledger.open(path) as ledger:
        event = ledger.append(EventKind.RECEIPT, submission="s", task="t", payload={"b": [1, None, "é"]})
    with Ledger.open(path, read_only=True) as ledger:
        assert ledger.events()[-1] == event
        assert ledger.verify() == ()


def test_new_ledger_is_whole_and_empty(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "new.duckdb") as ledger:
        assert (ledger.events(), ledger.verify(), ledger.head()) == ((), (), (0, FIRST_PREVIOUS))
        assert ledger.metrics().num_rows == 0
    assert os.listdir(tmp_path) == ["new.duckdb"]


@pytest.mark.parametrize("column", EVENT_COLUMNS)
@pytest.mark.parametrize("seq", [1, 3, 5])
def test_changed_event_is_found(path: Path, column: str, seq: int) -> None:
    value = "seq + 100" if column == "seq" else f"{column} || ' '"
    tamper(path, f"update events set {column} = {value} where seq = {seq}")
    assert problems(path)


@pytest.mark.parametrize(
    ("column", "change"),
    [("seq", "other"), *((name, change) for name in METRIC_SCHEMA.names for change in ("null", "other"))],
)
def test_changed_metric_is_found(path: Path, column: str, change: str) -> None:
    text = column != "seq" and METRIC_SCHEMA.field(column).type == pa.string()
    value = "null" if change == "null" else f"\"{column}\" || ' '" if text else f'"{column}" + 1'
    tamper(path, f'update metrics set "{column}" = {value} where rowid = 0')
    found = problems(path)
    assert found
    assert "the metrics of event 2 were changed" in found[0]


@pytest.mark.parametrize("value", ["'nan'::double", "'inf'::double", "1e300"])
def test_odd_number_put_into_metrics_is_found(path: Path, value: str) -> None:
    tamper(path, f"update metrics set value = {value} where rowid = 0")
    assert "the metrics of event 2 were changed" in problems(path)[0]


@pytest.mark.parametrize("seq", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("with_metrics", [True, False])
def test_deleted_event_is_found(path: Path, seq: int, with_metrics: bool) -> None:
    statements = [f"delete from events where seq = {seq}"]
    if with_metrics:
        statements.append(f"delete from metrics where seq = {seq}")
    tamper(path, *statements)
    assert problems(path)


@pytest.mark.parametrize(
    "statement",
    [
        "delete from metrics where rowid = 0",
        "delete from metrics where seq = 5",
        "insert into metrics select * from metrics where rowid = 0",
        "insert into metrics (seq) values (3)",
        "insert into metrics (seq) values (-7)",
        "insert into metrics (seq, n_images) values (5, 9223372036854775807)",
        "insert into events select 6, time, kind, submission, task, payload, previous, digest from events where seq=5",
        "insert into events values (9223372036854775807, '', '', '', '', '{', '', '')",
        "update events set payload = repeat('[', 100000) where seq = 2",
        "update events set payload = '{}' where seq = 2",
        "update events set payload = '[]' where seq = 2",
        "update head set seq = 4",
        "update head set digest = 'x'",
        "delete from head",
        "insert into head select * from head",
    ],
)
def test_rows_added_or_removed_are_found(path: Path, statement: str) -> None:
    tamper(path, statement)
    try:
        assert problems(path)
    except LedgerDamaged:
        assert "head" in statement  # a ledger without its mark is refused as soon as it is opened


def test_cut_and_patched_ledger_is_found_by_a_noted_head(path: Path) -> None:
    with Ledger.open(path, read_only=True) as ledger:
        noted = ledger.head()[1]
        digests = [event.digest for event in ledger.events()]
    assert problems(path, head=noted) == ()
    assert problems(path, head=digests[2]) == ()
    cut = ["delete from events where seq = 5", "delete from metrics where seq = 5"]
    tamper(path, *cut, f"update head set seq = 4, digest = '{digests[3]}'")
    assert problems(path) == ()
    assert len(problems(path, head=noted)) == 1


def test_append_refuses_a_broken_end(path: Path) -> None:
    tamper(path, "delete from events where seq = 5")
    with Ledger.open(path) as ledger, pytest.raises(LedgerDamaged, match="mvc ledger verify"):
        ledger.append("lock", submission="s", task="t", payload={})


def test_order_of_stored_rows_and_forms_of_undefined_do_not_matter(path: Path) -> None:
    columns = ", ".join(f'"{name}"' for name in ["seq", *METRIC_SCHEMA.names])
    tamper(
        path,
        f"create table copy_ as select {columns} from metrics order by value desc",
        "delete from metrics",
        "insert into metrics select * from copy_",
        "drop table copy_",
    )
    assert problems(path) == ()


def test_metrics_are_kept_exactly(tmp_path: Path) -> None:
    values = [0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1e-7, 1e21, None, float("inf")]
    rows = pa.concat_tables([metric_rows(1, value=value, seed="mean") for value in values])
    nan = metric_rows(1, value=float("nan"), lo=None, **{"class": HOSTILE})
    with Ledger.open(tmp_path / "l.duckdb") as ledger:
        ledger.append("accepted", submission="s", task="t", payload={}, metrics=pa.concat_tables([rows, nan]))
        assert ledger.verify() == ()
        kept = ledger.metrics()
    assert kept.column_names == ["seq", *METRIC_SCHEMA.names]
    assert sorted(v for v in kept["value"].to_pylist() if v is not None) == sorted(v for v in values if v is not None)
    assert kept["value"].null_count == 2
    assert HOSTILE in kept["class"].to_pylist()


def test_metrics_of_other_types_are_cast(tmp_path: Path) -> None:
    shuffled = metric_rows().select(METRIC_SCHEMA.names[::-1])
    shuffled = shuffled.set_column(shuffled.column_names.index("seed"), "seed", pa.array([0, 1, 2]))
    shuffled = shuffled.set_column(
        shuffled.column_names.index("model"), "model", pa.array(["a", "b", "a"]).dictionary_encode()
    )
    with Ledger.open(tmp_path / "l.duckdb") as ledger:
        ledger.append("accepted", submission="s", task="t", payload={}, metrics=shuffled)
        ledger.append("accepted", submission="s", task="t", payload={}, metrics=metric_rows(0))
        assert ledger.verify() == ()
        assert sorted(ledger.metrics()["seed"].to_pylist()) == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "scored"}, "scored"),
        ({"payload": {"metrics_sha256": "x"}}, "metrics_sha256"),
        ({"payload": {"x": float("nan")}}, "nan"),
        ({"payload": {"x": 2**53}}, "safe integer"),
        ({"payload": {"x": "\ud800"}}, "UTF-8"),
        ({"payload": {"x": object()}}, "unsupported"),
        ({"submission": "\ud800"}, "surrogates"),
        ({"kind": "rejected", "metrics": metric_rows()}, "only an accepted event"),
        ({"metrics": metric_rows().drop_columns(["value"])}, "must have the columns"),
        ({"metrics": metric_rows().append_column("more", pa.nulls(3))}, "must have the columns"),
        ({"metrics": metric_rows().set_column(12, "value", pa.array([[1.0]] * 3))}, "wrong type"),
        ({"metrics": metric_rows().set_column(12, "value", pa.array(["x"] * 3))}, "x"),
    ],
)
def test_what_cannot_be_stored_is_refused_and_leaves_nothing(path: Path, options: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {"kind": "accepted", "submission": "s", "task": "t", "payload": {}, **options}
    with Ledger.open(path) as ledger:
        with pytest.raises(ValueError, match=message):
            ledger.append(arguments.pop("kind"), **arguments)
        assert len(ledger.events()) == 5
        assert ledger.verify() == ()


def test_hostile_strings_survive(tmp_path: Path) -> None:
    payload = {HOSTILE: [HOSTILE, {"deep": HOSTILE}]}
    with Ledger.open(tmp_path / "l.duckdb") as ledger:
        ledger.append("rejected", submission=HOSTILE, task=HOSTILE, payload=payload)
        ledger.append("lock", submission="", task="", payload={})
    with Ledger.open(tmp_path / "l.duckdb", read_only=True) as ledger:
        event = ledger.events()[0]
        assert (event.submission, event.task, event.payload) == (HOSTILE, HOSTILE, payload)
        assert ledger.verify() == ()


leaves = (
    st.none()
    | st.booleans()
    | st.text()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
)
payloads = st.dictionaries(
    st.text().filter(lambda key: key != "metrics_sha256"),
    st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3)),
    max_size=5,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(payload=payloads, submission=st.text(), task=st.text())
def test_any_payload_comes_back(
    tmp_path_factory: pytest.TempPathFactory, payload: dict[str, Any], submission: str, task: str
) -> None:
    file = tmp_path_factory.getbasetemp() / "any-payload.duckdb"
    with Ledger.open(file) as ledger:
        ledger.append("lock", submission=submission, task=task, payload=payload)
        event = ledger.events()[-1]
        assert (event.payload, event.submission, event.task) == (payload, submission, task)
        assert ledger.verify() == ()


@pytest.mark.parametrize("mode", ["stay", "reopen"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("after", [3, 11])
def test_kill_at_any_moment_leaves_it_whole(tmp_path: Path, mode: str, how: signal.Signals, after: int) -> None:
    file = tmp_path / "killed.duckdb"
    writer = start(APPEND_FOREVER, str(file), mode)
    assert writer.stdout is not None
    for _ in range(after):
        assert writer.stdout.readline()
    time.sleep(0.0137 * after)
    writer.send_signal(how)
    rest, errors = writer.communicate(timeout=60)
    assert writer.returncode != 0
    assert how is signal.SIGKILL or "KeyboardInterrupt" in errors
    printed = [int(line) for line in rest.split()] or [after]
    with Ledger.open(file) as ledger:
        assert ledger.verify() == ()
        count = len(ledger.events())
        assert printed[-1] <= count <= printed[-1] + 1  # nothing announced is lost, and no half event is there
        assert ledger.metrics().num_rows == 200 * count
        ledger.append("lock", submission="s", task="t", payload={})
        assert ledger.verify() == ()


def test_killed_ledger_can_be_read_without_writing(tmp_path: Path) -> None:
    file = tmp_path / "killed.duckdb"
    writer = start(APPEND_FOREVER, str(file), "stay")
    assert writer.stdout is not None
    for _ in range(5):
        assert writer.stdout.readline()
    writer.kill()
    writer.communicate(timeout=60)
    assert problems(file) == ()


def test_kill_while_it_is_made_leaves_nothing_half(tmp_path: Path) -> None:
    for step in range(4):
        file = tmp_path / f"{step}.duckdb"
        maker = start("import scorer.ledger as l, sys; print('go', flush=True); l.Ledger.open(sys.argv[1])", str(file))
        assert maker.stdout is not None
        assert maker.stdout.readline()
        time.sleep(0.01 * step)
        maker.kill()
        maker.communicate(timeout=60)
        with Ledger.open(file) as ledger:
            assert ledger.verify() == ()


@pytest.mark.parametrize("read_only", [False, True])
def test_second_program_waits_then_says_who_holds_it(path: Path, read_only: bool) -> None:
    holder = start(HOLD, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    begun = time.monotonic()
    with pytest.raises(LedgerBusy, match=rf"held by process {holder.pid} .*waited 0.5 s"):
        Ledger.open(path, wait_s=0.5, read_only=read_only)
    assert 0.5 <= time.monotonic() - begun < 5
    holder.communicate("", timeout=60)
    with Ledger.open(path, wait_s=0, read_only=read_only) as ledger:
        assert ledger.verify() == ()


def test_second_program_goes_on_when_the_first_ends(path: Path) -> None:
    holder = start(HOLD, str(path))
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    second = start("import scorer.ledger as l, sys; print(len(l.Ledger.open(sys.argv[1]).events()))", str(path))
    time.sleep(0.2)
    holder.communicate("", timeout=60)
    assert second.communicate(timeout=60)[0] == "5\n"


def test_other_handle_of_one_program(path: Path) -> None:
    with Ledger.open(path) as first:
        with pytest.raises(LedgerBusy, match="another part of this program"):
            Ledger.open(path, wait_s=0, read_only=True)
        with Ledger.open(path, wait_s=0) as second:
            second.append("lock", submission="s", task="t", payload={})
        first.append("lock", submission="s", task="t", payload={})
        assert first.verify() == ()


@pytest.mark.parametrize("junk", [b"", b"hello\n", b"\0" * 50_000, b"PAR1" * 9000, b"SQLite format 3\0" + b"\0" * 9000])
@pytest.mark.parametrize("read_only", [False, True])
def test_other_file_is_refused_and_left_alone(tmp_path: Path, junk: bytes, read_only: bool) -> None:
    file = tmp_path / "other"
    file.write_bytes(junk)
    with pytest.raises(LedgerDamaged, match="not a ledger"):
        Ledger.open(file, wait_s=0, read_only=read_only)
    assert file.read_bytes() == junk


@pytest.mark.parametrize(
    "statement",
    [
        "drop table head",
        "drop table metrics",
        "alter table events add column more varchar",
        "alter table metrics alter value type float",
        "update head set format = 'mvc-ledger-99'",
    ],
)
def test_duckdb_file_with_other_tables_is_refused(path: Path, statement: str) -> None:
    tamper(path, statement)
    with pytest.raises(LedgerDamaged, match="not a ledger"):
        Ledger.open(path)


def test_damaged_bytes_are_found(path: Path) -> None:
    content = path.read_bytes()
    for position in range(8, len(content), len(content) // 23):
        damaged = path.with_name("damaged.duckdb")
        damaged.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
        try:
            with Ledger.open(damaged, wait_s=0) as ledger:
                if not ledger.verify():  # a byte that the file does not use
                    assert len(ledger.events()) == 5
        except LedgerDamaged:
            pass
    damaged.write_bytes(content[:5000])
    with pytest.raises(LedgerDamaged):
        Ledger.open(damaged, wait_s=0)


def test_wrong_use_is_said(tmp_path: Path, path: Path) -> None:
    with pytest.raises(LedgerError, match="there is no ledger"):
        Ledger.open(tmp_path / "absent.duckdb", read_only=True)
    with pytest.raises(LedgerError, match="is a folder"):
        Ledger.open(tmp_path)
    with pytest.raises(LedgerError, match="can't make a ledger"):
        Ledger.open(tmp_path / "no folder" / "l.duckdb")
    with Ledger.open(path, read_only=True) as ledger, pytest.raises(LedgerError, match="read only"):
        ledger.append("lock", submission="s", task="t", payload={})
    with Ledger.open(path) as ledger, pytest.raises(LedgerError, match="can't export"):
        ledger.export(path / "below a file")


def test_special_names_are_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (":memory:", "md:x", "ä ' b.duckdb"):
        with Ledger.open(name) as ledger:
            ledger.append("lock", submission="s", task="t", payload={})
        assert (tmp_path / name).is_file()
        assert problems(tmp_path / name) == ()


def test_sql_reaches_no_file_and_no_setting(path: Path) -> None:
    with Ledger.open(path) as ledger:
        for sql in (
            "copy events to 'stolen.csv'",
            "select * from read_csv('/etc/passwd')",
            "attach 'other.duckdb'",
            "install httpfs",
            "set enable_external_access = true",
            "set lock_configuration = false",
        ):
            with pytest.raises(duckdb.Error):
                ledger._connection.execute(sql)


def test_export_round_trip(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "deep" / "export"
    with Ledger.open(path, read_only=True) as ledger:
        files = ledger.export(target)
        first = [file.read_bytes() for file in files]
        assert [file.read_bytes() for file in ledger.export(target)] == first
        events, metrics = ledger.events(), ledger.metrics()
    assert sorted(os.listdir(target)) == ["events.parquet", "metrics.parquet"]
    back = pq.read_table(files[0])
    assert back.column_names == list(EVENT_COLUMNS)
    assert back["digest"].to_pylist() == [event.digest for event in events]
    assert back["payload"].to_pylist() == [canonical_json(event.payload).decode() for event in events]
    assert pq.read_table(files[1]).equals(metrics)


def test_default_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MVC_LEDGER", raising=False)
    assert default_path() == Path("mvc.duckdb")
    monkeypatch.setenv("MVC_LEDGER", "/data/board.duckdb")
    assert default_path() == Path("/data/board.duckdb")
