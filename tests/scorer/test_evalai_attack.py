"""The remote worker against an EvalAI that answers what it never should, and against others on its own machine."""

import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scorer.evalai.web import UnreachableError
from scorer.evalai.worker import MAX_TRIES
from tests.evalai import LABELS
from tests.evalai_desk import Desk, a_desk


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A worker with an accepting scorer and nothing queued."""
    with a_desk(tmp_path, monkeypatch) as made:
        yield made


def test_what_tells_of_labels_is_the_hosts_alone(desk: Desk, tmp_path: Path) -> None:
    """Whatever the umask is."""
    desk.worker.host = tmp_path / "for-me"
    desk.scorer.more = (
        "modes = [oct(p.stat().st_mode & 0o777) for p in (submission, output, output.parents[1])]\n"
        "(kept / 'modes.json').write_text(json.dumps(modes))"
    )
    desk.submit()
    before = os.umask(0)
    try:
        assert desk.once()
    finally:
        os.umask(before)
    assert json.loads((tmp_path / "modes.json").read_text()) == ["0o700"] * 3
    kept = desk.worker.save / "7"
    for folder in (desk.worker.save, kept, desk.worker.host, desk.worker.host / "7"):
        assert folder.stat().st_mode & 0o777 == 0o700, folder
    assert (kept / "scorer.log").stat().st_mode & 0o777 == 0o600


ADDRESSES = {
    "half an address": "http://[::1/x.zip",
    "a port too high": "http://127.0.0.1:99999/x.zip",
    "no port": "http://127.0.0.1:abc/x.zip",
    "half a character": "http://127.0.0.1/\ud800.zip",
    "a long name": f"http://{'a' * 70}.example/x.zip",
    "a blank in the host": "http://127.0.0.1 x/x.zip",
    "no text": ["x.zip"],
}


@pytest.mark.parametrize("case", ADDRESSES)
def test_an_address_that_is_none_is_no_end_of_the_worker(case: str, desk: Desk) -> None:
    desk.state.submit(7, ADDRESSES[case])  # type: ignore[arg-type]
    desk.submit(8)
    for _ in range(MAX_TRIES):
        assert not desk.once()
    assert desk.once()
    reported = [(update["submission"], update["submission_status"]) for update in desk.state.updates]
    assert reported == [("8", "FINISHED"), ("7", "FAILED")]
    assert ("EvalAI names no file" if case == "no text" else "is broken; left in the queue") in desk.log


SPLITS: dict[str, Any] = {
    "a text": {"dataset_split": "abc"},
    "NaN": {"dataset_split": math.nan},
    "infinite": {"dataset_split": math.inf},
    "no text to rank by": {"leaderboard_schema": {"labels": list(LABELS), "default_order_by": ["brier_binary"]}},
    "a number to rank by": {"leaderboard_schema": {"labels": list(LABELS), "default_order_by": 1}},
    "a number of labels": {"leaderboard_schema": {"labels": 5, "default_order_by": "brier_binary"}},
    "numbers as labels": {"leaderboard_schema": {"labels": [[1]], "default_order_by": "brier_binary"}},
    "labels in one text": {"leaderboard_schema": {"labels": "accuracy", "default_order_by": "accuracy"}},
}


@pytest.mark.parametrize("case", SPLITS)
def test_a_split_of_another_form_is_an_answer_that_can_not_be_used(
    case: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = desk.state._row(0)
    desk.submit()
    with monkeypatch.context() as patched:
        patched.setattr(desk.state, "_row", lambda number: {**row, **SPLITS[case]})
        with pytest.raises(UnreachableError, match=r"another form than EvalAI's|an answer has no dataset_split"):
            desk.once()
    assert (desk.state.count("PUT"), desk.state.count("POST")) == (0, 0)
    assert desk.once()
