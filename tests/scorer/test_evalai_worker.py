"""The remote worker against a strict EvalAI on the loopback: what is sent, to whom, how often, and what is left."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from scorer import hosted, signing
from scorer.evalai import worker
from scorer.evalai.api import SetupError
from scorer.evalai.reports import FAULT, MAX_DOCUMENT
from scorer.evalai.runs import Local, NotStartedError, Run
from scorer.evalai.web import RefusedError, UnreachableError
from scorer.evalai.worker import MAX_TRIES, TakenError
from tests.evalai import LABELS, PHASE, QUEUE, TOKEN
from tests.evalai_desk import ACCURACIES, FOR_THE_HOST, RECORD, RESULT, RULE, Desk, a_desk, documents


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A worker with an accepting scorer and nothing queued."""
    with a_desk(tmp_path, monkeypatch) as made:
        yield made


def test_an_accepted_submission_is_reported_and_its_message_deleted(desk: Desk) -> None:
    desk.submit()
    assert desk.once()
    (update,) = desk.state.updates
    assert update == {
        "challenge_phase": str(PHASE),
        "submission": "7",
        "stdout": "MVC ACCEPTED example-1\n",
        "stderr": "",
        "submission_status": "FINISHED",
        "metadata": update["metadata"],
        "result": json.dumps([{**RESULT[0], "split": "test_split"}]),
    }
    assert json.loads(update["metadata"]) == {"record_sha256": hashlib.sha256(RECORD).hexdigest()}
    assert desk.state.leaderboard == {7: ACCURACIES}
    assert [line.split(" ")[0] for line in desk.state.log] == [*["GET"] * 4, "PATCH", "PUT", "POST", "GET"]
    assert (desk.state.queue, desk.state.handed) == ([], {})
    assert desk.scorer.seen == {"names": ["submission.zip"], "token": False, "bytes": ["the bundle"]}
    kept = desk.worker.save / "7"
    assert sorted(path.name for path in kept.iterdir()) == ["record.json", "result.json", "scorer.log", "verdict.json"]
    assert (kept / "record.json").read_bytes() == RECORD
    assert (kept / "scorer.log").read_text() == "raw output\n"


def test_the_hosts_folder_is_mounted_by_submission(desk: Desk, tmp_path: Path) -> None:
    desk.worker.host = tmp_path / "for" / "me"
    desk.submit()
    assert desk.once()
    assert (tmp_path / "for" / "me" / "7").stat().st_mode & 0o777 == 0o700
    run = Run(tmp_path / "root", tmp_path / "annotation", tmp_path / "for" / "me" / "7", "name")
    run.submission.mkdir(parents=True)
    assert Local().started_by(run)[-5:] == ["score", "--layout", "evalai", "--root", str(run.root)]
    assert (run.root / "host").samefile(tmp_path / "for" / "me" / "7")
    assert (run.root / "evalai" / "annotation").samefile(tmp_path / "annotation")


def test_a_rejection_tells_every_finding_and_no_number(desk: Desk) -> None:
    desk.scorer.files, desk.scorer.code = documents(RULE, FOR_THE_HOST), 1
    desk.submit()
    assert desk.once()
    (update,) = desk.state.updates
    assert (update["submission_status"], update["result"], update["stdout"]) == ("FAILED", "", "")
    assert update["stderr"].splitlines() == [
        "MVC REJECTED MVC106 test-split-missing: splits.csv: \\x1b[31msplit: no row with test; mend: Reserve patients.",
        "MVC106 test-split-missing (must): There is no test split",
        "  splits.csv: \\x1b[31msplit: no row with test; wanted a test split",
        "    a\\u202eb, c (12 in all)",
        "  mend: Reserve patients. (PROTOCOL.md#mvc106)",
    ]
    assert desk.state.count("POST") == 1


BROKEN: dict[str, tuple[dict[str, str], int, str]] = {
    "our fault": (documents(), 3, ""),
    "no result": ({k: v for k, v in documents().items() if k != "result.json"}, 0, ""),
    "no verdict": ({k: v for k, v in documents().items() if k != "verdict.json"}, 0, ""),
    "rejected without a verdict": ({}, 1, ""),
    "rejected by an accepting verdict": (documents(), 1, ""),
    "accepted by a rejecting verdict": ({**documents(), **documents(RULE)}, 0, ""),
    "NaN": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", "NaN")}, 0, ""),
    "infinite": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", "1e999")}, 0, ""),
    "text": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", '"0.9"')}, 0, ""),
    "a truth value": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", "true")}, 0, ""),
    "null": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", "null")}, 0, ""),
    "the shape of evaluation scripts": (documents(result=[{"test_split": ACCURACIES}]), 0, ""),
    "two splits": (documents(result=RESULT * 2), 0, ""),
    "no split": (documents(result=[]), 0, ""),
    "a list of numbers": (documents(result=[{**RESULT[0], "accuracies": [0.9]}]), 0, ""),
    "too many digits": ({**documents(), "result.json": json.dumps(RESULT).replace("0.9", "9" * 400)}, 0, ""),
    "no rules": ({**documents(), "verdict.json": '{"last_line": "MVC ACCEPTED", "exit_code": 0}'}, 0, ""),
    "a verdict in a list": ({**documents(), "verdict.json": "[]"}, 0, ""),
    "deep": ({**documents(), "result.json": "[" * 200_000}, 0, ""),
    "a link": (documents(), 0, "result.rename(kept / 'elsewhere'); result.symlink_to(kept / 'elsewhere')"),
    "a pipe": (documents(), 0, "result.unlink(); os.mkfifo(result)"),
    "a record that is too large": (documents(), 0, f"os.truncate(output / 'record.json', {MAX_DOCUMENT + 1})"),
    "a record that is a link": (documents(), 0, "p = output / 'record.json'; p.unlink(); p.symlink_to(result)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_not_the_submissions_fault_is_said_in_one_fixed_text(case: str, desk: Desk) -> None:
    desk.scorer.files, desk.scorer.code, desk.scorer.more = BROKEN[case]
    desk.submit()
    assert desk.once()
    (update,) = desk.state.updates
    assert (update["submission_status"], update["result"], update["stdout"]) == ("FAILED", "", "")
    assert update["stderr"] == f"{FAULT}\n"
    assert (FAULT, MAX_DOCUMENT) == (hosted.FAULT, signing.MAX_ENVELOPE)
    assert update["metadata"] == ""
    assert "submission 7: FAILED, not scored: " in desk.log


def test_a_scorer_out_of_time_is_stopped(desk: Desk) -> None:
    desk.worker.limit_s = 0.3
    desk.scorer.more = "import time; time.sleep(60)"
    desk.submit()
    assert desk.once()
    assert desk.state.updates[0]["stderr"] == f"{FAULT}\n"
    assert "out of time" in desk.log


def test_the_token_goes_to_the_api_alone(desk: Desk) -> None:
    """Not to where files lie, not along a redirect, not to the scorer, and into no line of the log."""
    desk.submit()
    desk.state.submissions[7]["input_file"] = "/media/x.zip"  # a file of the server's own, which lies elsewhere
    desk.state.moved["/media/x.zip"] = f"{desk.store.url}/media/x.zip?X-Amz-Signature=secret"
    assert desk.once()
    assert desk.state.leaderboard == {7: ACCURACIES}
    ((path, headers),) = desk.store.seen
    assert path == "/media/x.zip"
    assert "authorization" not in {name.lower() for name in headers}
    assert "GET /media/x.zip" in desk.state.log
    assert "/media/x.zip" not in desk.state.trusted
    assert desk.scorer.seen["token"] is False
    desk.state.submit(8, f"{desk.store.url}/gone?X-Amz-Signature=secret")
    assert not desk.once()
    assert "can't be downloaded: 127.0.0.1" in desk.log
    for secret in (TOKEN, "secret"):
        assert secret not in desk.log
        assert secret not in repr(desk.worker)


def test_a_redirect_of_the_api_is_not_followed(desk: Desk) -> None:
    place = f"/api/jobs/challenge/queues/{QUEUE}/"
    desk.state.moved[place] = desk.store.url + place
    with pytest.raises(RefusedError, match="HTTP 302"):
        desk.once()
    assert desk.store.seen == []


def test_a_server_error_is_asked_again_and_a_refusal_is_not(desk: Desk) -> None:
    desk.submit()
    for start in ("GET /api/jobs/challenge/queues", "GET /api/jobs/submission", "PATCH", "PUT", "POST"):
        desk.state.broken[start] = [500]
    desk.state.broken["GET /api/challenges"] = [429]
    assert desk.once()
    assert len(desk.state.updates) == 1
    assert (desk.state.count("PUT"), desk.state.count("POST"), desk.state.count("PATCH")) == (2, 2, 2)
    desk.submit(8)
    desk.state.broken["PUT"] = [400]
    assert not desk.once()
    assert desk.state.count("PUT") == 3
    assert "submission 8: PUT " in desk.log


def test_nothing_is_lost_while_evalai_is_silent(desk: Desk) -> None:
    """The message stays, and silence is no try of the submission."""
    desk.submit()
    for _ in range(MAX_TRIES + 1):
        desk.state.broken["PUT"] = [502] * 3
        with pytest.raises(UnreachableError, match="HTTP 502"):
            desk.once()
        assert desk.state.count("POST") == 0
    assert desk.once()
    assert desk.state.updates[0]["submission_status"] == "FINISHED"
    assert desk.state.count("POST") == 1


def test_what_was_reported_before_a_kill_is_not_scored_again(desk: Desk) -> None:
    desk.submit()
    desk.state.broken["POST"] = [502] * 3
    with pytest.raises(UnreachableError):
        desk.once()
    desk.scorer.files = {}
    assert desk.once()
    assert len(desk.state.updates) == 1
    assert desk.state.count("POST") == 4
    assert "submission 7 is finished already" in desk.log


def test_what_another_left_running_is_worked_on(desk: Desk) -> None:
    desk.submit()
    desk.state.submissions[7]["status"] = "running"
    work = desk.worker.save / "7" / "work" / "evalai" / "output"
    work.mkdir(parents=True)
    (work / "result.json").write_text("of a worker that was killed")
    assert desk.once()
    assert desk.state.leaderboard == {7: ACCURACIES}


def test_what_fails_again_and_again_does_not_hold_the_queue(desk: Desk) -> None:
    """Three tries over restarts, then FAILED without a word on the reason; the others are served meanwhile."""
    desk.submit(7)
    desk.submit(8)
    desk.state.submissions[7]["input_file"] = f"{desk.store.url}/gone.zip"
    for n in range(MAX_TRIES):
        assert not desk.once()
        assert [update["submission"] for update in desk.state.updates] == ["8"], n
    assert desk.once()
    update = desk.state.updates[-1]
    assert (update["submission"], update["submission_status"], update["stderr"]) == ("7", "FAILED", f"{FAULT}\n")
    assert (desk.state.queue, desk.state.handed) == ([], {})
    assert "given up after 3 tries" in desk.log
    desk.state.submit(7, f"{desk.store.url}/media/x.zip")  # resumed by the host
    assert desk.once()
    assert desk.state.updates[-1]["submission_status"] == "FINISHED"


def test_without_once_it_goes_on_for_ever(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through an outage, and past a file and a submission that are gone; it sleeps where there is nothing new."""
    naps: list[float] = []

    def nap(seconds: float) -> None:
        naps.append(seconds)
        desk.state.come_again()
        if len(naps) == 12:
            raise KeyboardInterrupt

    monkeypatch.setattr(worker, "time", SimpleNamespace(sleep=nap))
    desk.state.broken["GET /api/jobs/challenge/queues"] = [502] * 3
    desk.submit(7)
    desk.submit(8)
    desk.state.submissions[7]["input_file"] = f"{desk.store.url}/gone.zip"
    desk.state.submit(9, None)
    del desk.state.submissions[9]
    with pytest.raises(KeyboardInterrupt):
        desk.worker.run(pause_s=30)
    assert naps == [30] * 12
    assert "EvalAI does not answer; trying again in 30 s: " in desk.said[0]
    reported = [(update["submission"], update["submission_status"]) for update in desk.state.updates]
    assert reported == [("8", "FINISHED"), ("7", "FAILED")]
    assert desk.state.count("GET /api/jobs/submission/9") == 1
    assert desk.state.count("GET /api/jobs/submission/7") == MAX_TRIES + 1


def test_a_refused_result_is_tried_three_times(desk: Desk) -> None:
    desk.submit()
    desk.state.broken["PUT"] = [400] * MAX_TRIES
    for _ in range(MAX_TRIES):
        assert not desk.once()
    assert desk.once()
    assert desk.state.updates[-1]["stderr"] == f"{FAULT}\n"


@pytest.mark.parametrize(
    ("splits", "wanted", "found"),
    [
        ({"a": LABELS, "b": LABELS}, None, "phase 4723 has the splits a, b; say with --split"),
        ({"a": LABELS, "b": LABELS}, "c", "phase 4723 has no split c; it has a, b"),
        ({}, None, "has the splits none"),
        ({"a": ("accuracy",)}, None, "has no label for brier_binary, brier_binary_lo, n_images; add them"),
    ],
)
def test_a_challenge_that_does_not_fit_stops_the_worker(
    splits: dict[str, tuple[str, ...]], wanted: str | None, found: str, desk: Desk
) -> None:
    """Else every submission would fail for the host's mistake; nothing is reported, and no try is counted."""
    desk.state.splits, desk.worker.split = splits, wanted
    desk.submit()
    for _ in range(MAX_TRIES + 1):
        with pytest.raises(SetupError, match=found):
            desk.once()
    assert (desk.state.count("PUT"), desk.state.count("POST")) == (0, 0)
    desk.state.splits, desk.worker.split = {"a": (), "b": LABELS}, "b"
    desk.worker._phases.clear()
    assert desk.once()
    assert json.loads(desk.state.updates[0]["result"])[0]["split"] == "b"


def test_a_scorer_that_does_not_start_stops_the_worker(desk: Desk) -> None:
    desk.submit()
    desk.scorer.code = 125
    for _ in range(MAX_TRIES + 1):
        with pytest.raises(NotStartedError, match=r"did not start \(exit 125\); the reason is in .*scorer.log"):
            desk.once()
    desk.scorer.code = 0
    assert desk.once()
    assert desk.state.leaderboard == {7: ACCURACIES}


def test_a_scorer_that_finds_the_hosts_files_out_of_order_stops_the_worker(desk: Desk) -> None:
    """All that is queued would fail of it: nothing is reported, no try is counted, and the reason is there to read."""
    desk.submit(7)
    desk.submit(8)
    desk.scorer.code = 4
    for pk in (7, 8, 7, 8, 7):
        with pytest.raises(SetupError, match=rf"\(exit 4\); the reason is in .*/{pk}/scorer\.log$"):
            desk.once()
    assert (desk.state.count("PUT"), desk.state.count("POST")) == (0, 0)
    assert (desk.worker.save / "7" / "scorer.log").read_text() == "raw output\n"
    desk.scorer.code = 0
    assert desk.once()
    assert desk.state.leaderboard == {7: ACCURACIES, 8: ACCURACIES}


@pytest.mark.parametrize("how", ["sys.exit(143)", "sys.exit(130)", "os.kill(os.getpid(), 15)"])
def test_a_scorer_that_somebody_stopped_is_started_again(how: str, desk: Desk) -> None:
    """As often as it is stopped: that is no try."""
    desk.submit()
    desk.scorer.more = how
    for _ in range(MAX_TRIES + 1):
        assert not desk.once()
    assert not desk.state.updates
    assert "submission 7: somebody stopped the scorer" in desk.log
    desk.scorer.more = ""
    assert desk.once()
    assert desk.state.leaderboard == {7: ACCURACIES}


@pytest.mark.parametrize("how", ["sys.exit(137)", "os.kill(os.getpid(), 9)"])
def test_a_scorer_that_was_killed_is_tried_three_times(how: str, desk: Desk) -> None:
    """It may have been for want of memory, and that may lie in the submission."""
    desk.submit()
    desk.scorer.more = how
    for _ in range(MAX_TRIES):
        assert not desk.once()
        assert not desk.state.updates
    assert desk.once()
    assert [update["stderr"] for update in desk.state.updates] == [f"{FAULT}\n"]
    assert "killed, maybe for want of memory" in desk.log


def test_without_the_number_that_ranks_there_is_no_row(desk: Desk) -> None:
    """EvalAI would rank a number that is absent as 0: the best, where lower is better."""
    desk.state.ranked = "brier_binary_hi"
    desk.submit()
    assert desk.once()
    (update,) = desk.state.updates
    assert (update["submission_status"], update["result"]) == ("FINISHED", "[]")
    assert "no number to rank by, so it has no row on the leaderboard" in update["stdout"]
    assert desk.state.leaderboard == {}


def test_a_file_that_is_too_large_is_rejected_at_once(desk: Desk) -> None:
    desk.worker.max_file = 9
    desk.submit()
    assert desk.once()
    (update,) = desk.state.updates
    assert update["submission_status"] == "FAILED"
    assert update["stderr"] == "MVC REJECTED the file is larger than 9 bytes; nothing was scored\n"


@pytest.mark.parametrize(
    ("name", "ours"),
    [("a.CSV", "submission.csv"), ("b.parquet", "submission.parquet"), ("..%2F..%2Fc.zip%00.sh", "submission")],
)
def test_the_files_name_is_ours(name: str, ours: str, desk: Desk) -> None:
    desk.submit(name=name)
    assert desk.once()
    assert desk.scorer.seen["names"] == [ours]


def test_messages_of_other_challenges_are_left(desk: Desk) -> None:
    desk.state.submit(9, f"{desk.store.url}/media/x.zip", challenge=1)
    assert not desk.once()
    assert desk.state.count("GET /api/jobs/submission") + desk.state.count("POST") + desk.state.count("P") == 0


def test_one_worker_a_folder(desk: Desk) -> None:
    with desk.worker._alone(), pytest.raises(TakenError, match="another worker uses"):
        desk.once()
