"""``mvc score`` as a host runs it: a process of its own, its two channels and its codes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import mvc as api
from tests.hosted import HostFolder, answer, publish, small


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HostFolder:
    """A hosted binary task."""
    return publish(small(), tmp_path_factory.mktemp("hosted") / "host")


def line(made: HostFolder, bundle: Path, output: Path, *more: str) -> list[str]:
    """The command line."""
    options = ["--truth", made.truth, "--input", bundle, "--output", output, "--key", made.key, *more]
    return [sys.executable, "-P", "-m", "mvc", "score", *map(str, options)]


def test_one_line_says_it_on_both_channels_and_in_the_file(made: HostFolder, tmp_path: Path) -> None:
    bundle = answer(small(), made, tmp_path / "bundle")
    (bundle / "predictions.parquet").write_bytes(b"PAR1 damaged")
    done = subprocess.run(line(made, bundle, tmp_path / "out"), capture_output=True, text=True, check=False)
    verdict = json.loads((tmp_path / "out" / "verdict.json").read_text())
    assert done.returncode == verdict["exit_code"] == 1
    assert done.stdout.splitlines()[-1] == done.stderr.splitlines()[-1] == verdict["last_line"]
    assert done.stderr.splitlines()[0] == "mvc score: reading the truth"
    assert "Traceback" not in done.stderr
    again = subprocess.run(line(made, bundle, tmp_path / "b", "--json"), capture_output=True, text=True, check=False)
    assert json.loads(again.stdout) == verdict


def test_the_first_line_comes_before_the_work(made: HostFolder, tmp_path: Path) -> None:
    """And SIGTERM ends it with 143: no verdict is left behind."""
    bundle = answer(small(), made, tmp_path / "bundle")
    with subprocess.Popen(line(made, bundle, tmp_path / "out"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "mvc score: reading the truth\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert not (tmp_path / "out" / "verdict.json").exists()


@pytest.mark.parametrize("option", ["--input", "--truth", "--key", "--task"])
def test_what_is_not_there(option: str, made: HostFolder, tmp_path: Path) -> None:
    """A path that was typed wrong is wrong usage: that depends on no label."""
    task = str(made.folder / "public" / "task.yaml")
    command = line(made, answer(small(), made, tmp_path / "bundle"), tmp_path / "out", "--task", task)
    command[command.index(option) + 1] = str(tmp_path / "gone")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert f"Invalid value for {option}" in done.stderr
    assert "gone" in "".join(done.stderr.replace("│", "").split())  # the message is wrapped in a box
    assert not (tmp_path / "out").exists()


def test_the_python_way(made: HostFolder, tmp_path: Path) -> None:
    bundle = answer(small(), made, tmp_path / "bundle")
    (bundle / "submission.yaml").write_text("edition: [\n")
    seen = api.score(made.truth, str(bundle), tmp_path / "out", key=made.key, now="2026-02-01T00:00:00Z")
    assert seen.verdict.exit_code == 1
    assert seen.to_frame().columns[0] == "model"
    assert seen.record is not None
    assert seen.record.scored_at == "2026-02-01T00:00:00Z"
