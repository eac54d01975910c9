"""The command line as a user meets it: real processes for exit codes, the runner for the rest."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import mvc as api
from mvc.cli import app
from mvc.show import footnotes, show_verdict
from scorer.ledger import EventKind, Ledger
from tests.builders import good_submission, write
from tests.referee import quick_check

COMMANDS = (
    *("demo", "init", "declare", "recalibrate", "check", "submit", "score", "evalai-worker", "rules"),
    *("split", "split make", "split hash", "split verify", "split check", "split datasets", "host", "ledger"),
    *("baseline", "baseline run", "baseline zeroshot", "baseline toy", "baseline configs"),
    *("audit", "audit predictions", "audit table"),
)
GROUPS = ("split", "host", "ledger", "baseline", "audit")


def mvc(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    command = [sys.executable, "-P", "-m", "mvc", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert shown.exit_code == 0
    if command not in GROUPS:
        assert f"Example: mvc {command}" in re.sub(r"\s+", " ", shown.stdout)


def test_no_command_lacks_a_place_in_the_readme() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    for command in COMMANDS:
        assert f"mvc {command}" in readme


def test_wrong_usage_is_exit_2(tmp_path: Path) -> None:
    for arguments in (
        ["check", tmp_path / "nothing"],
        ["submit"],
        ["submit", tmp_path / "nothing"],
        ["no-such-command"],
        ["rules", "MVC999"],
    ):
        done = mvc(*arguments, cwd=tmp_path)
        assert done.returncode == 2, done
        assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_init_check_submit_ledger(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert mvc("init", folder, "--task", "multiclass", "--classes", "a,b,c,d").returncode == 0
    checked = mvc("check", folder, "--json")
    verdict = json.loads(checked.stdout)
    assert (checked.returncode, verdict["exit_code"], verdict["status"]) == (0, 0, "accepted")
    before = sorted(path.name for path in folder.iterdir())
    submitted = mvc("submit", folder / "predictions.parquet", "--ledger", tmp_path / "mvc.duckdb")
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.splitlines()[-1] == verdict["last_line"]
    assert before == sorted(
        path.name
        for path in folder.iterdir()
        if path.name not in ("results", "submission.json", "ro-crate-metadata.json")
    )
    assert mvc("ledger", "verify", "--ledger", tmp_path / "mvc.duckdb").returncode == 0


def test_init_refuses_what_it_can_not_make(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    refused: list[tuple[str, list[str | Path]]] = [
        ("DIR", [tmp_path / "full"]),
        ("--task", [tmp_path / "new", "--task", "regression"]),
        ("--classes", [tmp_path / "new", "--task", "binary", "--classes", "a,b,c"]),
        ("--classes", [tmp_path / "new", "--classes", "a,A"]),
    ]
    for option, arguments in refused:
        done = mvc("init", *arguments)
        assert done.returncode == 2
        assert f"Invalid value for {option}: " in done.stderr
        assert "task.yaml" not in done.stderr
    assert not (tmp_path / "new").exists()


def test_declare_freezes_once(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "mine")
    first = (folder / "declaration.lock").read_bytes()
    again = mvc("declare", folder)
    assert again.returncode == 2
    assert "a declaration exists" in again.stderr
    assert (folder / "declaration.lock").read_bytes() == first
    assert mvc("declare", folder, "--force").returncode == 0
    assert json.loads(mvc("declare", folder, "--force", "--json").stdout)["submission_id"] == "example-1"


def test_the_examples_own_lock_gives_way(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    told = json.loads(mvc("init", folder, "--json").stdout)["replace"]
    assert told["task.yaml"] == ["name", "target", "label_source", "label_definition"]
    assert {"submission_id", "splits.hash.salt_custody", "release.code.url"} <= set(told["submission.yaml"])
    record = folder / "submission.yaml"
    record.write_text(record.read_text(encoding="utf-8").replace("example-1", "mine-1"), encoding="utf-8")
    assert mvc("declare", folder).returncode == 0
    again = mvc("declare", folder)
    assert again.returncode == 2
    assert "a declaration exists, made 20" in again.stderr


def test_the_example_of_own_data_is_accepted(tmp_path: Path) -> None:
    script = Path(__file__).resolve().parents[2] / "examples" / "own_data.py"
    command = [sys.executable, str(script), str(tmp_path / "mine")]
    made = subprocess.run(command, check=True, capture_output=True, text=True, cwd=script.parents[1])
    assert made.stdout.startswith(f"{tmp_path / 'mine.salt'}: the secret salt")
    for wrong in (command, command[:2]):
        refused = subprocess.run(wrong, check=False, capture_output=True, text=True, cwd=script.parents[1])
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert mvc("declare", tmp_path / "mine").returncode == 0
    done = mvc("submit", tmp_path / "mine", "--ledger", tmp_path / "mvc.duckdb")
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1] == "MVC ACCEPTED mynet-1"
    assert (tmp_path / "mine.salt").stat().st_mode & 0o777 == 0o600


def test_a_folder_that_can_not_be_written_is_wrong_usage() -> None:
    for arguments in (["init", "/proc/mine"], ["init", "/dev/null/mine"]):
        done = mvc(*arguments)
        assert done.returncode == 2, done.stderr
        assert "can't be written" in done.stderr or "not an empty folder" in done.stderr


def test_version() -> None:
    assert mvc("--version").stdout.startswith("mvc 0.")


@pytest.mark.parametrize("width", ["80", "110"])
def test_numbers_never_wrap(width: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", width)
    folder = write(good_submission("multiclass"), tmp_path / "mine")
    shown = mvc("submit", folder, "--ledger", tmp_path / "mvc.duckdb").stdout
    tables = shown[: shown.index("step ")]
    intervals = re.findall(r"\d\.\d{4}–\d\.\d{4}", tables)
    assert len(intervals) == tables.count("–") == 3 * 6 + 9 * 3
    assert max(map(len, tables.splitlines())) <= int(width)


def test_findings_are_shown_without_blanks_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And the texts of the example that are left are one line."""
    draft = good_submission()
    draft.task["target"] = draft.task["label_source"] = draft.record["title"] = "EXAMPLE: a text"
    show_verdict(quick_check(write(draft, tmp_path / "mine")))
    lines = capsys.readouterr().out.splitlines()
    notes = lines[next(k for k, line in enumerate(lines) if line.startswith("note: MVC018")) :]
    assert notes[1] == "    task.yaml: target, task.yaml: label_source, submission.yaml: title"
    assert len([line for line in notes if line.startswith("    ")]) == 1
    assert [line for line in notes if line.endswith(" ")] == []


@pytest.mark.parametrize("name", ["splits.parquet", "patients.parquet"])
def test_a_split_file_is_no_bundle(name: str, tmp_path: Path) -> None:
    draft = good_submission()
    folder = write(draft, tmp_path / "mine")
    (folder / "splits.parquet").rename(folder / name)
    record = folder / "submission.yaml"
    record.write_text(record.read_text().replace("file: splits.parquet", f"file: {name}"))
    with pytest.raises(ValueError, match="is a part of a bundle: give the folder or the predictions file"):
        api.check(folder / name)


def test_a_record_that_is_not_there_is_named_by_its_option(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "mine")
    for command in ("check", "submit", "recalibrate"):
        done = CliRunner().invoke(app, [command, str(folder), "--record", "nofile.yaml"])
        assert done.exit_code == 2
        assert "Invalid value for --record: nofile.yaml: no such file" in done.output


def test_footnotes_explain_what_a_reader_may_stumble_over() -> None:
    inside = {"metric": "ece", "value": 0.2, "lo": 0.1, "hi": 0.3, "reason": ""}
    outside = inside | {"value": 0.05}
    undefined = {"metric": "auroc", "value": None, "lo": None, "hi": None, "reason": "[one class]"}
    assert footnotes([inside]) == []
    assert "section 10" in footnotes([outside])[0]
    assert footnotes([undefined, undefined]) == ["undefined auroc: \\[one class]"]


def test_python_api_takes_text(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "mine")
    verdict = api.check(str(folder))
    assert (str(verdict), repr(verdict)) == ("MVC ACCEPTED example-1", "<Verdict MVC ACCEPTED example-1>")
    assert [name for name in dir(api.metrics) if not name.startswith("_")] == sorted(api.metrics.__all__)
    done = api.submit(str(folder), ledger=str(tmp_path / "mvc.duckdb"))
    assert (done.folder, str(done)) == (folder, "MVC ACCEPTED example-1")


def test_the_readmes_python_runs(tmp_path: Path) -> None:
    write(good_submission(), tmp_path / "my-submission")
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    command = [sys.executable, "-P", "-c", code]
    assert subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout.strip() == (
        "MVC ACCEPTED example-1"
    )


def test_last_line_exit_code_and_json_agree_on_a_rejection(tmp_path: Path) -> None:
    draft = good_submission()
    draft.record["release"]["licence"] = None
    draft.record["uncertainty"]["resamples"] = 100
    folder = write(draft, tmp_path / "mine")
    verdict = json.loads(mvc("check", folder, "--json").stdout)
    plain = mvc("check", folder)
    assert plain.returncode == verdict["exit_code"] == 1
    assert plain.stdout.splitlines()[-1] == verdict["last_line"]
    assert verdict["last_line"].startswith(
        "MVC REJECTED MVC502 too-few-resamples: submission.yaml: uncertainty.resamples: 100;"
    )
    assert "MVC701" in plain.stdout
    assert verdict["last_line"].endswith("+1 more")


def test_check_and_submit_list_identical_findings(tmp_path: Path) -> None:
    draft = good_submission()
    draft.record["release"]["licence"] = "not a licence"
    draft.predictions = draft.predictions.slice(1)
    folder = write(draft, tmp_path / "mine")
    checked = json.loads(mvc("check", folder, "--json").stdout)
    submitted = json.loads(mvc("submit", folder, "--json", "--ledger", tmp_path / "l.duckdb").stdout)
    assert checked["rules"] == submitted["rules"]
    assert {r["rule"] for r in checked["rules"] if r["outcome"] == "failed" and r["level"] != "note"} >= {"MVC701"}
    assert submitted["folder"] is None
    with Ledger.open(tmp_path / "l.duckdb", read_only=True) as ledger:
        assert [event.kind for event in ledger.events()] == [EventKind.REJECTED]
        assert ledger.metrics().num_rows == 0


def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "mine")
    (tmp_path / "notes.txt").write_text("not a ledger")
    done = mvc("submit", folder, "--ledger", tmp_path / "notes.txt")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert (tmp_path / "notes.txt").read_text() == "not a ledger"
    assert not (folder / "results").exists()
    done = mvc("submit", folder, "--ledger", tmp_path / "none" / "mvc.duckdb")
    assert done.returncode == 2
    assert f"there is no folder {tmp_path / 'none'}" in done.stderr


@pytest.mark.parametrize("wait", [1.0, 1.6, 2.2, 2.8, 3.4])
def test_interrupt_leaves_the_ledger_whole(tmp_path: Path, wait: float) -> None:
    folder = write(good_submission("multilabel"), tmp_path / "mine")
    place = tmp_path / "mvc.duckdb"
    command = [sys.executable, "-P", "-m", "mvc", "submit", str(folder), "--ledger", str(place)]
    # A background shell may have made us deaf to Ctrl-C; the command must hear it.
    running = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    time.sleep(wait)
    if running.poll() is None:
        os.kill(running.pid, signal.SIGINT)
    out, err = running.communicate(timeout=60)
    # A shell shows 130 for both: Python may end itself by the signal when it hit a nested exec.
    assert running.returncode in (0, 130, -signal.SIGINT), err
    assert "Traceback" not in err
    if place.exists():
        with Ledger.open(place, read_only=True) as ledger:
            assert ledger.verify() == ()
            assert [event.kind for event in ledger.events()] == (
                [EventKind.ACCEPTED] if running.returncode == 0 else []
            )
    if running.returncode == 0:
        assert out.splitlines()[-1].startswith("MVC ACCEPTED")
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_the_demonstration_goes_as_it_says(tmp_path: Path) -> None:
    done = mvc("demo", "--dir", tmp_path / "demo")
    assert done.returncode == 0, done.stderr
    for line in (
        "MVC ACCEPTED wdbc-demo-1 with waivers MVC601",
        "MVC REJECTED MVC101",
        "MVC REJECTED MVC403",
        "MVC REJECTED MVC604",
        "MVC REJECTED MVC103",
        "as event 5",
        "  mend: Split by patient, not by image. (PROTOCOL.md#mvc101)",
    ):
        assert line in done.stdout
    with Ledger.open(tmp_path / "demo" / "mvc.duckdb", read_only=True) as ledger:
        assert ledger.verify() == ()
        assert [event.kind.value for event in ledger.events()] == ["accepted", *["rejected"] * 4]
    assert mvc("demo", "--dir", tmp_path / "demo").returncode == 2
