"""Locks, receipts and records in the host's ledger: filed once, counted by team, and named when they were changed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from protocol.canonical import canonical_json
from protocol.declaration import Declaration
from protocol.hosting import Receipt
from protocol.task import Task
from scorer import ledger as ledger_module
from scorer.host_task import HostError
from scorer.ledger import Event, EventKind, Ledger
from scorer.ledger_filings import Filed, FilingRefused, file_lock, filings_of, locks_of, read_lock
from scorer.ledger_records import RecordRefused, Usage, append_record, believed, exceeds, usage
from scorer.ledger_rows import event_digest
from scorer.ledger_signed import signed_problems
from scorer.signing import opened_receipt, public_hex, seal
from tests.hosting import KEY, OTHER_KEY, hosted_task, lock_of, score_record

TASK = hosted_task()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(tmp_path / "host.duckdb") as opened:
        yield opened


def filed(ledger: Ledger, lock: Declaration, task: Task = TASK) -> Filed:
    return file_lock(read_lock(lock.model_dump_json().encode(), task), task, KEY, ledger)


def record(task: Task = TASK, **fields: Any) -> bytes:
    return seal(score_record(task, **fields), "record", KEY)


def append(ledger: Ledger, task: Task = TASK, over_quota: bool = False, **fields: Any) -> Event:
    return append_record(believed(record(task, **fields), task), task, ledger, over_quota=over_quota)


def test_a_receipt_names_the_event_of_its_lock(ledger: Ledger) -> None:
    lock = lock_of(TASK)
    made = filed(ledger, lock)
    event, receipt = ledger.events()
    assert (event.kind, receipt.kind, made.new) == ("lock", "receipt", True)
    assert event.payload["lock_sha256"] == lock.digest
    assert opened_receipt(made.envelope, public_hex(KEY)) == made.receipt
    assert (made.receipt.event, made.receipt.event_digest, made.receipt.received_at) == (1, event.digest, event.time)
    assert receipt.payload["envelope"].encode() == made.envelope
    assert (made.receipt.team, made.receipt.filing, made.receipt.lock_sha256) == ("first team", 1, lock.digest)
    assert signed_problems(ledger, TASK) == ()
    assert ledger.verify() == ()


def test_filings_are_counted_by_team_and_task(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    second = lock_of(TASK, recipe={})
    assert [filed(ledger, lock).receipt.filing for lock in (lock_of(TASK), second)] == [1, 2]
    assert filed(ledger, lock_of(TASK, "FIRST  team", title="x", submission_id="a")).receipt.filing == 3
    assert filed(ledger, lock_of(TASK, "second team")).receipt.filing == 1
    assert filed(ledger, lock_of(hosted_task(name="another")), hosted_task(name="another")).receipt.filing == 1
    before, first = ledger.events(), filed(ledger, lock_of(TASK))
    monkeypatch.setattr(ledger_module, "utc_now", lambda: "2099-01-01T00:00:00Z")
    again = filed(ledger, second)
    assert (again.new, again.receipt.filing, first.new, first.receipt.filing) == (False, 2, False, 1)
    assert again.envelope.decode() in [event.payload.get("envelope") for event in before]
    assert ledger.events() == before  # nothing is added, and the date stays that of the first time
    assert signed_problems(ledger, TASK) == ()


def test_a_filing_cut_between_its_two_events_is_finished_later(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, real = lock_of(TASK), ledger.append

    def killed(kind: str, **rest: Any) -> Event:
        if kind == EventKind.RECEIPT:
            raise KeyboardInterrupt
        return real(kind, **rest)

    monkeypatch.setattr(ledger, "append", killed)
    with pytest.raises(KeyboardInterrupt):
        filed(ledger, lock)
    monkeypatch.undo()
    made = filed(ledger, lock)
    assert [event.kind for event in ledger.events()] == ["lock", "receipt"]
    assert (made.new, made.receipt.filing, made.receipt.event) == (False, 1, 1)
    assert signed_problems(ledger, TASK) == ()


@pytest.mark.parametrize("name", list(Declaration.model_fields))
def test_a_lock_with_any_field_flipped_is_not_filed(name: str, ledger: Ledger) -> None:
    document = lock_of(TASK).model_dump(mode="json")
    document[name] = {} if name == "declared" else ("1" if document[name][0] != "1" else "2") + document[name][1:]
    with pytest.raises(FilingRefused, match="it was changed after it was made: its digest differs"):
        read_lock(json.dumps(document).encode(), TASK)
    assert ledger.head()[0] == 0


@pytest.mark.parametrize(
    ("lock", "told"),
    [
        (lock_of(hosted_task(target="another")), "it is for another task"),
        (lock_of(hosted_task(splits_sha256="d" * 64)), "it is for another split file: dddd"),
        (lock_of(TASK, " "), "its team is blank"),
    ],
)
def test_a_lock_for_something_else_is_not_filed(lock: Declaration, told: str) -> None:
    with pytest.raises(FilingRefused, match=told):
        read_lock(lock.model_dump_json().encode(), TASK)


@pytest.mark.parametrize("data", [b"", b"{}", b"PK\x03\x04", b"[" * 99_999, b"{" + b" " * (1 << 20)])
def test_what_is_no_lock_is_refused(data: bytes) -> None:
    with pytest.raises(FilingRefused):
        read_lock(data, TASK)


def test_the_key_must_be_the_one_of_the_task(ledger: Ledger) -> None:
    with pytest.raises(HostError, match=f"the key is not the one that the task {TASK.name} names"):
        file_lock(lock_of(TASK), TASK, OTHER_KEY, ledger)
    keyless = hosted_task(host_key=None)
    with pytest.raises(HostError, match="names no host key"):
        file_lock(lock_of(keyless), keyless, KEY, ledger)
    with pytest.raises(HostError, match="names no host key"):
        believed(record(keyless), keyless)
    assert ledger.head()[0] == 0


def test_a_record_brings_its_scores(ledger: Ledger) -> None:
    event = append(ledger)
    assert (event.kind, event.submission, event.task) == ("accepted", "example-1", TASK.name)
    kept = ("team", "content_sha256", "filings", "task_sha256", "outcomes", "declared")
    made = score_record(TASK).model_dump(mode="json")
    assert {name: event.payload[name] for name in kept} == {name: made[name] for name in kept}
    assert "over_quota" not in event.payload
    brier, nll = ledger.metrics().to_pylist()
    assert (brier["metric"], brier["value"], brier["lo"], brier["hi"], brier["n_patients"]) == (
        *("brier_binary", 0.1234, 0.1, 0.15),
        80,
    )
    assert brier["reading"] is brier["n_draws"] is brier["class"] is nll["value"] is None
    assert ledger.verify() == signed_problems(ledger, TASK) == ()


def test_a_rejected_record_is_kept_without_scores(ledger: Ledger) -> None:
    found = ({"rule": "MVC101", "where": "splits", "saw": "a", "wanted": "b", "count": 3},)
    event = append(ledger, status="rejected", scores=(), findings=found, content_sha256=None)
    assert event.kind == "rejected"
    assert event.payload["findings"] == list(found)
    assert ledger.metrics().num_rows == 0
    assert ledger.verify() == signed_problems(ledger, TASK) == ()


def test_the_same_record_twice_is_refused_by_name(ledger: Ledger) -> None:
    filed(ledger, lock_of(TASK))
    assert append(ledger).seq == 3
    spaced = json.dumps(json.loads(record()), indent=4).encode()
    with pytest.raises(RecordRefused, match="already recorded as event 3"):
        append_record(believed(spaced, TASK), TASK, ledger)
    assert ledger.head()[0] == 3


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (seal(score_record(TASK), "record", OTHER_KEY), "signed by another key"),
        (json.dumps({**json.loads(record()), "signatures": []}).encode(), "unsigned"),
        (seal(score_record(TASK), "receipt", KEY), "another kind of document"),
        (record(hosted_task(name="another")), "it was scored for another task: task another, wanted example-binary"),
        (record(hosted_task(target="another")), "it was scored for another task: task_sha256"),
        (record(splits_sha256="d" * 64), "it was scored for another task: splits_sha256 d"),
        (record(truth_sha256="d" * 64), "it was scored for another task: truth_sha256 d"),
        (record(status="undetermined"), "its status is undetermined: nothing was decided"),
        (b"{}", "no signed envelope"),
    ],
)
def test_what_can_not_be_believed_is_refused_by_name(data: bytes, told: str) -> None:
    with pytest.raises(RecordRefused, match=told):
        believed(data, TASK)


def test_the_quota_counts_distinct_contents(ledger: Ledger) -> None:
    filed(ledger, lock_of(TASK))
    append(ledger)
    append(ledger, scored_at="2026-03-02T00:00:00Z")  # the same content again
    append(ledger, status="rejected", scores=(), content_sha256="1" * 64)
    append(ledger, team="Second team", content_sha256="2" * 64)
    first, second = usage(TASK, ledger.events())
    assert (first, first.left) == (Usage("first team", 1, 2, 1), 1)
    assert (second, second.left) == (Usage("Second team", 1, 2, 0), 1)
    append(ledger, team=" FIRST TEAM ", content_sha256="3" * 64)
    third = score_record(TASK, content_sha256="4" * 64)
    told = exceeds(third, TASK, ledger.events())
    assert told == f"team first team has used its quota of 2: 2 contents scored for {TASK.name}"
    with pytest.raises(RecordRefused, match=f"{told}; --over-quota records it and says so"):
        append(ledger, content_sha256="4" * 64)
    assert usage(TASK, ledger.events(), "First Team") == (Usage("First Team", 2, 2, 1),)
    assert append(ledger, scored_at="2026-03-03T00:00:00Z").payload.get("over_quota") is None
    assert append(ledger, over_quota=True, content_sha256="4" * 64).payload["over_quota"] is True
    (used,) = usage(TASK, ledger.events(), "first team")
    assert (used.scored, used.left) == (3, 0)
    assert ledger.verify() == signed_problems(ledger, TASK) == ()
    assert usage(hosted_task(name="another"), ledger.events()) == ()


def test_a_task_without_quota_has_no_end(ledger: Ledger) -> None:
    task = hosted_task(caps={})
    for number in range(4):
        append(ledger, task, content_sha256=str(number) * 64)
    assert usage(task, ledger.events()) == (Usage("first team", 4, None, 0),)
    assert usage(task, ledger.events())[0].left is None


def rewritten(path: Path, change: Callable[[int, dict[str, Any]], None]) -> None:
    """The ledger as one who can write the file, but has no key, would forge it: the chain fits, the envelopes don't."""
    with duckdb.connect(str(path)) as connection:
        previous = "0" * 64
        columns = "seq, time, kind, submission, task, payload"
        for seq, *row in connection.execute(f"select {columns} from events order by seq").fetchall():
            event = dict(zip(("time", "kind", "submission", "task"), row[:4], strict=True)) | {
                "payload": json.loads(row[4])
            }
            change(seq, event)
            texts = [event["time"], event["kind"], event["submission"], event["task"]]
            texts += [canonical_json(event["payload"]).decode(), previous]
            digest = event_digest(seq, *texts)
            connection.execute(
                "update events set time = ?, kind = ?, submission = ?, task = ?, payload = ?, previous = ?, digest = ? "
                "where seq = ?",
                [*texts, digest, seq],
            )
            previous = digest
        connection.execute("update head set digest = ?", [previous])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Two filings of one team (events 1 to 4), an accepted record (5) and a rejected one (6)."""
    path = tmp_path_factory.mktemp("whole") / "host.duckdb"
    with Ledger.open(path) as opened:
        filed(opened, lock_of(TASK))
        filed(opened, lock_of(TASK, title="x", recipe={}))
        append(opened)
        append(opened, status="rejected", scores=(), content_sha256=None)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path: Path, whole: bytes) -> Path:
    file = tmp_path / "copy.duckdb"
    file.write_bytes(whole)
    return file


def found(path: Path, task: Task = TASK) -> tuple[str, ...]:
    with Ledger.open(path, read_only=True) as opened:
        assert opened.verify() == ()  # the forger made the chain anew
        return signed_problems(opened, task)


def test_a_rewritten_chain_alone_is_no_problem_of_records(path: Path) -> None:
    rewritten(path, lambda seq, event: None)
    assert found(path) == ()


RECEIPT_FIELDS = [name for name in Receipt.model_fields if name not in ("edition", "task", "submission_id")]


@pytest.mark.parametrize("name", [*RECEIPT_FIELDS, "submission", "task"])
def test_a_forged_receipt_event_is_named(path: Path, name: str) -> None:
    def forge(seq: int, event: dict[str, Any]) -> None:
        where = event if name in event else event["payload"]
        if seq == 4:
            where[name] = where[name] + 1 if isinstance(where[name], int) else f"x{where[name][1:]}"

    rewritten(path, forge)
    assert f"event 4 differs from its signed receipt in {name}" in found(path)


@pytest.mark.parametrize("seq", [5, 6])
@pytest.mark.parametrize(
    "name",
    sorted({*score_record(TASK).model_dump(), "record_sha256"} - {"scores"}),
)
def test_a_forged_record_event_is_named(path: Path, seq: int, name: str) -> None:
    def forge(number: int, event: dict[str, Any]) -> None:
        where = event if name in event else event["payload"]
        if number == seq:
            where[name] = "forged"

    rewritten(path, forge)
    assert found(path) == (f"event {seq} differs from its signed record in {name}",)


def test_an_event_of_another_kind_is_named(path: Path) -> None:
    def forge(number: int, event: dict[str, Any]) -> None:
        if number == 6:
            event["kind"] = "accepted"

    rewritten(path, forge)
    assert found(path) == ("event 6 differs from its signed record in kind",)


def test_forged_scores_are_named(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("update metrics set value = 0.01 where metric = 'brier_binary'")
    with Ledger.open(path, read_only=True) as opened:
        digests = opened._metric_digests()
    rewritten(path, lambda seq, event: event["payload"].update(metrics_sha256=digests[5]) if seq == 5 else None)
    assert found(path) == ("event 5 differs from its signed record in metrics_sha256",)


@pytest.mark.parametrize("seq", [2, 5])
@pytest.mark.parametrize("how", ["payload", "signature", "key", "gone"])
def test_a_forged_envelope_is_named(path: Path, seq: int, how: str) -> None:
    what = {2: "receipt", 5: "record"}[seq]

    def forge(number: int, event: dict[str, Any]) -> None:
        if number != seq:
            return
        parts = json.loads(event["payload"]["envelope"])
        if how == "payload":
            parts["payload"] = ("A" if parts["payload"][9] != "A" else "B").join(
                (parts["payload"][:9], parts["payload"][10:])
            )
        if how == "signature":
            parts["signatures"][0]["sig"] = "A" * 86 + "=="
        if how == "key":
            parts["signatures"][0]["keyid"] = public_hex(OTHER_KEY)
        event["payload"]["envelope"] = json.dumps(parts)
        if how == "gone":
            del event["payload"]["envelope"]

    rewritten(path, forge)
    told = found(path)[0]
    wanted = {
        "payload": f"the {what} of event {seq} can't be believed: the signature does not fit",
        "signature": f"the {what} of event {seq} can't be believed: the signature does not fit",
        "key": f"the {what} of event {seq} can't be believed: signed by another key",
        "gone": f"event {seq} has no signed {what}",
    }
    assert told.startswith(wanted[how])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"filing": 3}, "event 3 says filing 3, the locks before it make it 2"),
        ({"team": "second team"}, "event 3 says filing 2, the locks before it make it 1"),
        ({"lock_sha256": "0" * 64}, "the receipt of event 4 names another event as its lock than the ledger holds"),
    ],
)
def test_a_forged_lock_event_is_named(path: Path, change: dict[str, Any], told: str) -> None:
    rewritten(path, lambda seq, event: event["payload"].update(change) if seq == 3 else None)
    assert told in found(path)


def test_an_accepted_event_put_in_without_a_record_is_named(path: Path) -> None:
    with Ledger.open(path) as opened:
        opened.append("accepted", submission="mine", task=TASK.name, payload={"team": "me"})
    assert found(path) == ("event 7 has no signed record",)


def test_a_record_put_in_again_is_named(path: Path) -> None:
    with Ledger.open(path) as opened:
        rejected = opened.events()[-1]
        opened.append("rejected", submission=rejected.submission, task=rejected.task, payload=dict(rejected.payload))
    assert found(path) == ("event 7 repeats the signed document of event 6",)


def test_events_of_other_tasks_and_keys_are_passed_over(path: Path) -> None:
    other = hosted_task(name="another", host_key=public_hex(OTHER_KEY))
    assert found(path, other) == ()
    with Ledger.open(path) as opened:
        assert locks_of(opened.events(), other.digest) == ()
        lock = read_lock(lock_of(other).model_dump_json().encode(), other)
        file_lock(lock, other, OTHER_KEY, opened)
        assert filings_of(locks_of(opened.events(), other.digest), lock.team) == [lock.digest]
    assert found(path) == found(path, other) == ()
