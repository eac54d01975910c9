"""The host's commands: what they print, what they write, and their exit codes."""

import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from typer.testing import CliRunner, Result

from mvc.cli import app
from mvc.show import show_scores
from protocol.hosting import Receipt
from protocol.task import Task
from scorer.host_task import read_task
from scorer.signing import load_key, opened_receipt, seal
from submission.bundle import open_bundle
from submission.skeleton import declare_folder
from submission.writing import to_yaml
from tests.builders import copy_of, edit_json, good_submission, write
from tests.hosting import OTHER_KEY, score_record, write_key
from tests.referee import decoding_here, quick_check, rejecting, result_of

runner = CliRunner()


def mvc(*arguments: object) -> Result:
    return runner.invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hosted task (``hosted``) and a declared bundle for it (``bundle``)."""
    folder = tmp_path_factory.mktemp("host")
    draft = good_submission()
    draft.task["caps"] = {"quota": 1}
    (folder / "draft.yaml").write_bytes(to_yaml(draft.task))
    draft.splits.write_parquet(folder / "full.parquet")
    made = mvc("host", "init", folder / "hosted", "--task", folder / "draft.yaml", "--splits", folder / "full.parquet")
    assert made.exit_code == 0, made.output
    public = folder / "hosted" / "public"
    draft.task, draft.lock = yaml.safe_load((public / "task.yaml").read_text()), False
    splits = (public / "splits.parquet").read_bytes()
    bundle = write(draft, folder / "bundle")
    (bundle / "splits.parquet").write_bytes(splits)
    declare_folder(bundle)
    return folder


@pytest.fixture
def bundle(host: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the bundle; the ledger of the commands is one of this test's own."""
    monkeypatch.setenv("MVC_LEDGER", str(tmp_path / "host.duckdb"))
    monkeypatch.setenv("MVC_HOST_KEY", str(key(host)))
    return copy_of(host / "bundle", tmp_path / "bundle")


def key(host: Path) -> Path:
    return host / "hosted" / "private" / "host.key"


def task_file(host: Path) -> Path:
    return host / "hosted" / "public" / "task.yaml"


def task(host: Path) -> Task:
    return read_task(task_file(host))


def signed(host: Path, path: Path, **fields: object) -> Path:
    """A record of the host's own making."""
    made = task(host)
    digests = {"splits_sha256": made.splits_sha256, "truth_sha256": made.truth_sha256, "team": "your team"}
    path.write_bytes(seal(score_record(made, **{**digests, **fields}), "record", load_key(key(host))))
    return path


def test_init_says_what_to_publish_and_what_to_keep(host: Path, tmp_path: Path) -> None:
    inputs = ("--task", host / "draft.yaml", "--splits", host / "full.parquet")
    made = mvc("host", "init", tmp_path / "new", *inputs)
    assert made.exit_code == 0
    lines = made.stdout.splitlines()
    assert lines[0].endswith("/public: task.yaml, splits.parquet, host.pub; publish these")
    assert lines[1].endswith("/private: truth.parquet (240 images), host.key; keep these to yourself")
    assert lines[-1] == "  caps: 60 runs a submission, 1 content a team"
    document = json.loads(mvc("host", "init", tmp_path / "newer", *inputs, "--json").stdout)
    published = read_task(tmp_path / "newer" / "public" / "task.yaml")
    assert (document["task_sha256"], document["host_key"]) == (published.digest, published.host_key)
    again = mvc("host", "init", tmp_path / "new", *inputs)
    assert again.exit_code == 2
    assert "not an empty folder" in " ".join(again.output.replace("│", " ").split())
    assert mvc("host", "init", tmp_path / "x", "--task", tmp_path / "no", *inputs[2:]).exit_code == 2


def test_init_notes_caps_that_let_labels_be_read_out(host: Path, tmp_path: Path) -> None:
    document = yaml.safe_load((host / "draft.yaml").read_text())
    document["label_source"], told = "EXAMPLE: a biopsy", []
    for name, caps in (
        ("a", {"max_runs": 12, "quota": 20}),
        ("b", {"max_runs": 13, "quota": 20}),
        ("c", {"quota": None}),
    ):
        (tmp_path / "my.yaml").write_bytes(to_yaml({**document, "caps": caps}))
        inputs = ("--task", tmp_path / "my.yaml", "--splits", host / "full.parquet")
        notes = json.loads(mvc("host", "init", tmp_path / name, *inputs, "--json").stdout)["notes"]
        assert notes[0] == "1 text of the example left in the task: label_source"
        told.append([note.partition(" can read")[0] for note in notes[1:]])
    assert told == [[], ["13 runs x 20 contents"], ["60 runs without a quota"]]
    (tmp_path / "my.yaml").write_text("[")
    refused = mvc("host", "init", tmp_path / "d", *inputs)
    assert refused.stderr.startswith("problem: my.yaml: ")


def test_init_names_every_problem_and_leaves_nothing(host: Path, tmp_path: Path) -> None:
    truth = pl.read_parquet(host / "hosted" / "private" / "truth.parquet")
    truth.with_columns(label=truth["label"] + 1).head(-1).write_parquet(tmp_path / "truth.parquet")
    inputs = ["--task", host / "draft.yaml", "--splits", host / "full.parquet", "--truth", tmp_path / "truth.parquet"]
    refused = mvc("host", "init", tmp_path / "new", *inputs)
    assert refused.exit_code == 4
    *problems, last = refused.stderr.splitlines()
    assert [line.partition(":")[0] for line in problems] == ["problem"] * 3
    assert last == "error: the host's files are not in order (3 found)"
    document = json.loads(mvc("host", "init", tmp_path / "new", *inputs, "--json").stdout)
    assert [f"problem: {line}" for line in document["problems"]] == problems
    assert [path.name for path in tmp_path.iterdir()] == ["truth.parquet"]


def test_a_receipt_makes_a_bundle_dated(host: Path, bundle: Path) -> None:
    made = mvc("host", "receipt", bundle / "declaration.lock")
    assert made.exit_code == 0, made.output
    filed, numbered, _ = made.stdout.splitlines()
    assert filed == "filed: example-1 of team your team"
    assert numbered.startswith("  filing 1 of this team for example-binary, event 1, dated 20")
    first = (bundle / "receipt.json").read_bytes()
    again = mvc("host", "receipt", bundle / "declaration.lock", "--out", bundle.parent / "r.json", "--json")
    document = json.loads(again.stdout)
    assert (document["new"], document["receipt"]["filing"]) == (False, 1)
    assert (bundle.parent / "r.json").read_bytes() == first
    assert mvc("host", "receipt", bundle / "declaration.lock").stdout.startswith("already filed: ")
    kinds = [event["kind"] for event in json.loads(mvc("ledger", "list", "--json").stdout)]
    assert kinds == ["lock", "receipt"]
    verdict = quick_check(bundle)
    assert verdict.accepted, verdict.last_line
    assert "receipt.json" in verdict.digests
    assert Receipt(**document["receipt"]) == opened_receipt(first, task(host).host_key or "")


def test_the_upload_is_named_as_the_bundle_was_typed(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(bundle.parent)
    with decoding_here():
        first, again = mvc("submit", "bundle"), mvc("submit", bundle)
    told = [
        done.stdout.splitlines()[-2].removeprefix("to upload to the host, who scores it: ") for done in (first, again)
    ]
    assert told[0].startswith("example-1.zip (0.")
    assert told[1].startswith(f"{bundle.resolve().parent}/example-1.zip (0.")
    assert [line.endswith(", in place of an earlier one)") for line in told] == [False, True]


def test_a_receipt_does_not_move_to_another_bundle(host: Path, bundle: Path) -> None:
    assert mvc("host", "receipt", bundle / "declaration.lock").exit_code == 0
    record = yaml.safe_load((bundle / "submission.yaml").read_text())
    (bundle / "submission.yaml").write_bytes(to_yaml({**record, "team": "another team"}))
    declare_folder(bundle, force=True)
    verdict = quick_check(bundle)
    assert rejecting(verdict) == ["MVC604"]
    (finding,) = result_of(verdict, "MVC604").findings
    assert (finding.where, finding.saw) == ("receipt.json", "of another lock: team your team, here another team")
    assert len(finding.samples) >= 2
    (bundle / "receipt.json").unlink()
    assert quick_check(bundle).accepted


def test_a_receipt_that_is_no_file_is_refused_unread(host: Path, bundle: Path) -> None:
    (bundle / "receipt.json").symlink_to(key(host))
    verdict = quick_check(bundle)
    (first,) = verdict.rejecting
    assert first.slug == "unreadable-file"
    (bundle / "receipt.json").unlink()
    (bundle / "receipt.json").write_bytes(b" " * (1 << 21))
    assert [result.slug for result in quick_check(bundle).rejecting] == ["too-large"]


def test_what_is_wrong_with_a_lock_is_named(host: Path, bundle: Path) -> None:
    lock = bundle / "declaration.lock"
    edit_json(lock, lambda document: document.update(team="another"))
    refused = mvc("host", "receipt", lock)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: declaration.lock: it was changed after it was made: its digest differs; ")
    lock.write_text("{}")
    notalock = lock.rename(bundle / "notalock.yaml")
    refused = mvc("host", "receipt", notalock, "--task", task_file(host))
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: notalock.yaml: lock: ")
    assert not (bundle / "receipt.json").exists()
    assert mvc("ledger", "list").exit_code == 2  # no ledger was made for it
    assert mvc("host", "receipt", bundle / "no.lock").exit_code == 2
    assert mvc("host", "receipt", bundle).exit_code == 2


def test_a_wrong_key_is_named(host: Path, bundle: Path, tmp_path: Path) -> None:
    lock = bundle / "declaration.lock"
    other = mvc("host", "receipt", lock, "--key", write_key(tmp_path / "other.key", OTHER_KEY))
    assert other.exit_code == 4
    assert "the key is not the one that the task example-binary names" in other.stderr
    open_key = mvc("host", "receipt", lock, "--key", write_key(tmp_path / "open.key", mode=0o644))
    assert (open_key.exit_code, "chmod 600" in open_key.stderr) == (2, True)
    assert mvc("host", "receipt", lock, "--key", lock).exit_code == 2
    public = mvc("host", "receipt", lock, "--key", host / "hosted" / "public" / "host.pub")
    assert public.exit_code == 2
    assert public.stderr.endswith("host.pub: this is the public key; give the private one, host.key\n")
    open_task = mvc("host", "receipt", lock, "--task", host / "draft.yaml")
    assert (open_task.exit_code, "names no host key" in open_task.stderr) == (4, True)


def test_the_scorecard_says_how_it_was_declared(host: Path, bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from scorer.receipts import declared_words

    assert declared_words(open_bundle(bundle, bundle)) == "self-declared"
    mvc("host", "receipt", bundle / "declaration.lock")
    dated = json.loads(mvc("host", "receipt", bundle / "declaration.lock", "--json").stdout)["receipt"]["received_at"]
    words = declared_words(open_bundle(bundle, bundle))
    assert words == f"receipt dated {dated}, filing 1 of this team for this task"
    card = {"title": "t", "intervals": {"level": 0.95, "resamples": 2000, "unit": "patient"}, "declared": words}
    empty: dict[str, list[str]] = {"headline": [], "seed_spread": [], "test": [], "slices": [], "runs": []}
    (bundle / "results").mkdir()
    (bundle / "results" / "scorecard.json").write_text(json.dumps({**card, **empty}))
    show_scores(bundle)
    assert f"declaration: {words}\n" in capsys.readouterr().out


def test_a_record_is_appended_once_and_counted(host: Path, bundle: Path, tmp_path: Path) -> None:
    record, where = signed(host, tmp_path / "record.json"), ("--task", task_file(host))
    assert mvc("host", "quota", *where).exit_code == 2  # no ledger yet
    mvc("host", "receipt", bundle / "declaration.lock")
    assert mvc("host", "quota", *where, "--record", record).stdout.splitlines()[-1] == "fits"
    made = mvc("ledger", "append", record, *where)
    assert made.exit_code == 0, made.output
    assert made.stdout.splitlines()[0].endswith("as event 3: example-1, accepted")
    assert made.stdout.splitlines()[1] == "team your team: 1 content scored for example-binary, 0 left of a quota of 1"
    again = mvc("ledger", "append", record, *where)
    assert (again.exit_code, again.stderr) == (1, "error: record.json: already recorded as event 3\n")

    more = signed(host, tmp_path / "more.json", content_sha256="1" * 64)
    told = "team your team has used its quota of 1: 1 content scored for example-binary"
    asked = mvc("host", "quota", *where, "--record", more)
    assert (asked.exit_code, asked.stdout.splitlines()[-1]) == (1, f"does not fit: {told}")
    refused = mvc("ledger", "append", more, *where)
    assert (refused.exit_code, refused.stderr) == (
        1,
        f"error: more.json: {told}; --over-quota records it and says so\n",
    )
    document = json.loads(mvc("ledger", "append", more, *where, "--over-quota", "--json").stdout)
    assert (document["event"]["seq"], document["over_quota"], document["left"]) == (4, True, 0)
    shown = mvc("host", "quota", *where, "--team", "YOUR team").stdout
    assert shown == "YOUR team: 2 contents scored, 1 over the quota of 1; 1 declaration filed\n"
    (team,) = json.loads(mvc("host", "quota", *where, "--json").stdout)["teams"]
    assert team == {"team": "your team", "scored": 2, "quota": 1, "filings": 1, "left": 0}


def test_a_record_that_can_not_be_believed_is_named(host: Path, bundle: Path, tmp_path: Path) -> None:
    record, where = signed(host, tmp_path / "record.json"), ("--task", task_file(host))
    document = json.loads(record.read_bytes())
    document["payload"] = document["payload"][:-8] + "AAAA" + document["payload"][-4:]
    record.write_text(json.dumps(document))
    refused = mvc("ledger", "append", record, *where)
    assert refused.exit_code == 1
    assert refused.stderr.startswith("error: record.json: the signature does not fit")
    record.write_text("{")
    assert mvc("ledger", "append", record, *where).exit_code == 1
    assert mvc("host", "quota", *where, "--record", record).exit_code == 1
    assert mvc("ledger", "append", record, "--task", host / "draft.yaml").exit_code == 4
    assert mvc("ledger", "append", record).exit_code == 2  # no task.yaml beside it
    assert mvc("ledger", "append", tmp_path / "no.json", *where).exit_code == 2


def test_verify_reads_the_signed_events_too(host: Path, bundle: Path, tmp_path: Path) -> None:
    where = ("--task", task_file(host))
    mvc("host", "receipt", bundle / "declaration.lock")
    mvc("ledger", "append", signed(host, tmp_path / "record.json"), *where)
    assert mvc("ledger", "verify", *where).exit_code == 0
    from scorer.ledger import Ledger

    with Ledger.open(tmp_path / "host.duckdb") as opened:
        opened.append("accepted", submission="mine", task="example-binary", payload={"team": "me"})
    assert mvc("ledger", "verify").exit_code == 0
    found = mvc("ledger", "verify", *where)
    assert (found.exit_code, found.stdout.splitlines()[0]) == (1, "problem: event 4 has no signed record")
    assert mvc("ledger", "verify", "--task", host / "draft.yaml").exit_code == 4
    assert mvc("ledger", "verify", "--task", tmp_path / "no.yaml").exit_code == 2
