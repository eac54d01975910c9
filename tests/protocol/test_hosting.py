"""Teams, receipts and records as shapes."""

from typing import Any

import pytest
from pydantic import ValidationError

from protocol.declaration import Declaration, changed_sections, team_key
from protocol.hosting import Receipt, ScoreRecord, receipt_differences
from submission.writing import record_from, task_from
from tests.builders import good_submission
from tests.hosting import SPLITS, hosted_task, lock_of, receipt_of, score_record


@pytest.mark.parametrize(
    "same",
    [
        "first team",
        "First  Team",
        " first\tteam ",
        "FIRST\u00a0TEAM",
        "ﬁrst team",
        "\uff26irst team",
        "first\u200b \u2060te\0am",
    ],
)
def test_names_of_a_team_that_are_the_same(same: str) -> None:
    assert team_key(same) == team_key("first team")


@pytest.mark.parametrize("other", ["first", "firstteam", "first team 2", "fïrst team", ""])
def test_names_of_other_teams(other: str) -> None:
    assert team_key(other) != team_key("first team")


@pytest.mark.parametrize("team", ["İstanbul ǅ ẞ", "e\u0301quipe", "ﬀ", "Σίσυφος", "①", "e\u200d\u0301 \u200b x"])
def test_the_key_of_a_key_is_itself(team: str) -> None:
    assert team_key(team_key(team)) == team_key(team)


def test_a_lock_carries_its_team_and_tells_when_it_changed() -> None:
    task, record = hosted_task(), record_from({**good_submission().record, "team": "first team"})
    lock = lock_of(task)
    assert lock.team == "first team"
    assert changed_sections(lock, task, record, SPLITS) == ()
    assert changed_sections(lock, task, record.model_copy(update={"team": "First Team "}), SPLITS) == ()
    assert changed_sections(lock, task, record.model_copy(update={"team": "another"}), SPLITS) == ("team",)
    forged = lock.model_copy(update={"team": "another"})
    assert changed_sections(forged, task, record, SPLITS) == ("team", "the lock itself")


@pytest.mark.parametrize("name", [name for name in Declaration.model_fields if name != "digest"])
def test_a_lock_with_any_field_flipped_is_not_itself(name: str) -> None:
    lock = lock_of(hosted_task())
    value = {} if name == "declared" else _flipped(getattr(lock, name))
    forged = lock.model_copy(update={name: value})
    assert lock.digest == lock.recomputed_digest
    assert forged.digest != forged.recomputed_digest


def _flipped(value: Any) -> Any:
    if isinstance(value, int):
        return value + 1
    return ("1" if value[0] != "1" else "2") + value[1:]


@pytest.mark.parametrize(
    "name", ["edition", "task", "task_sha256", "submission_id", "team", "lock_sha256", "declared_at"]
)
def test_a_receipt_of_something_else_says_in_what(name: str) -> None:
    task = hosted_task()
    lock = lock_of(task)
    receipt = receipt_of(task, lock)
    assert receipt_differences(receipt, task, lock) == ()
    (told,) = receipt_differences(receipt_of(task, lock, **{name: _flipped(getattr(receipt, name))}), task, lock)
    assert told.startswith(f"{name} ")


def test_a_receipt_of_another_team_names_both() -> None:
    task = hosted_task()
    told = receipt_differences(receipt_of(task, lock_of(task, "second team")), task, lock_of(task))
    assert told[0] == "team second team, here first team"
    assert [line.split()[0] for line in told] == ["team", "lock_sha256"]


@pytest.mark.parametrize("change", [{"extra": 1}, {"filing": 0}, {"filing": "1"}, {"received_at": "now"}, {"team": 3}])
def test_a_receipt_is_strict(change: dict[str, Any]) -> None:
    task = hosted_task()
    good = receipt_of(task, lock_of(task))
    assert Receipt.model_validate_json(good.model_dump_json()) == good
    with pytest.raises(ValidationError):
        Receipt.model_validate({**good.model_dump(), **change})


def test_a_record_survives_json_and_is_frozen() -> None:
    record = score_record(hosted_task())
    assert ScoreRecord.model_validate_json(record.model_dump_json()) == record
    with pytest.raises(ValidationError):
        record.team = "another"


def test_the_host_key_belongs_to_the_task() -> None:
    task = hosted_task()
    assert hosted_task(host_key="0" * 64).digest != task.digest
    assert hosted_task(host_key=None).host_key is None
    for bad in ("0" * 63, "0" * 66, "A" * 64, "zz" * 32):
        with pytest.raises(ValueError, match="raw Ed25519 public key: 64 lower-case hex characters"):
            task_from({**good_submission().task, "host_key": bad})
