"""``mvc evalai-worker`` as a host runs it: its own process, a script for a container engine, the true scorer."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from mvc.cli import app
from scorer.ledger_records import believed
from tests.evalai import CHALLENGE, QUEUE, TOKEN, EvalAI, Store, evalai
from tests.hosted import answer, publish, small

CONFIG = Path(__file__).resolve().parents[2] / "docker" / "hosts" / "evalai" / "challenge_config.yaml"
LABELS = tuple(yaml.safe_load(CONFIG.read_text(encoding="utf-8"))["leaderboard"][0]["schema"]["labels"])
# A container goes on when its client is killed: ``run`` starts it in a session of its own and is deaf to SIGTERM.
ENGINE = """#!{python} -S
import os, pathlib, signal, subprocess, sys, time
here, words = pathlib.Path({here!r}), sys.argv[1:]
if words[0] == "image":
    sys.exit("no such image" if words[-1] == "none" else 0)
running = here / "running"
if words[0] in ("kill", "rm") and running.exists():
    os.killpg(int(running.read_text()), 9)
    running.unlink()
if words[0] == "run":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = subprocess.Popen(["sleep", "60"], start_new_session=True)
    running.write_text(str(held.pid))
    (here / "words").write_text(" ".join(words))
    held.wait()
"""


@pytest.fixture
def challenge() -> Iterator[tuple[EvalAI, Store]]:
    """A challenge with the labels of the example for hosts."""
    with evalai(splits={"test_split": LABELS}) as served:
        yield served


@pytest.fixture
def annotation(tmp_path: Path) -> Path:
    """A folder that could hold labels."""
    folder = tmp_path / "annotation"
    folder.mkdir()
    for name in ("truth.parquet", "task.yaml"):
        (folder / name).touch()
    return folder


def line(state: EvalAI, annotation: Path, *more: str | Path) -> list[str]:
    """The command line."""
    place = ["--server", state.url, "--queue", QUEUE, "--challenge", str(CHALLENGE), "--annotation", str(annotation)]
    return [sys.executable, "-P", "-m", "mvc", "evalai-worker", *place, *map(str, more)]


def environment(token: str = TOKEN) -> dict[str, str]:
    """That of the worker: no proxy stands between it and the loopback."""
    return {**os.environ, "AUTH_TOKEN": token, "no_proxy": "*"}


def engine(folder: Path) -> Path:
    """A container engine as an executable file in the new ``folder``."""
    folder.mkdir()
    path = folder / "engine"
    path.write_text(ENGINE.format(python=sys.executable, here=str(folder)))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_worker_and_container(
    number: signal.Signals, code: int, challenge: tuple[EvalAI, Store], annotation: Path, tmp_path: Path
) -> None:
    """Within five seconds, and Ctrl-C with one line of the worker's own; the message stays in the queue."""
    state, store = challenge
    store.files["/a.zip"] = b"PK"
    state.submit(7, f"{store.url}/a.zip")
    docker = engine(tmp_path / "engine")
    command = line(state, annotation, "--docker", docker, "--image", "some:tag", "--save", tmp_path / "save")
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a background shell may have made it deaf
    ) as process:
        assert process.stderr is not None
        assert "image some:tag; results in" in process.stderr.readline()
        limit = time.monotonic() + 20
        while not (tmp_path / "engine" / "words").exists() and time.monotonic() < limit:
            time.sleep(0.02)
        held = int((tmp_path / "engine" / "running").read_text())
        start = time.monotonic()
        process.send_signal(number)
        assert process.wait(10) == code
        assert time.monotonic() - start < 5
        said = process.stderr.read().splitlines()
    interrupted = ["evalai-worker: interrupted; what is queued or was being scored stays in the queue"]
    assert said[said.index("evalai-worker: submission 7: working on it") + 1 :] == (
        interrupted if number == signal.SIGINT else []
    )
    with pytest.raises(ProcessLookupError):
        os.killpg(held, 0)
    assert (len(state.handed), state.updates) == (1, [])
    assert (tmp_path / "save" / "7" / "tries").read_text() == "0"
    assert not (tmp_path / "save" / "7" / "work").exists()
    words = (tmp_path / "engine" / "words").read_text()
    assert words.endswith("some:tag")
    assert TOKEN not in words


def test_the_true_scorer_through_the_whole_round(challenge: tuple[EvalAI, Store], tmp_path: Path) -> None:
    """The example's leaderboard takes every number, and the record here is one that the host's key has signed."""
    state, store = challenge
    made = publish(small(), tmp_path / "host")
    labels = tmp_path / "labels"
    labels.mkdir()
    for file in (made.truth, made.key, made.folder / "public" / "task.yaml"):
        shutil.copyfile(file, labels / file.name)
    archive = shutil.make_archive(str(tmp_path / "a"), "zip", answer(small(), made, tmp_path / "bundle"))
    store.files["/a.zip"] = Path(archive).read_bytes()
    state.submit(7, f"{store.url}/a.zip")
    command = line(state, labels, "--local", "--once", "--save", tmp_path / "save")
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "evalai-worker: submission 7: FINISHED, accepted"
    verdict = json.loads((tmp_path / "save" / "7" / "verdict.json").read_text())
    assert state.updates[0]["stdout"].splitlines()[0] == verdict["last_line"]
    assert set(state.leaderboard[7]) == set(LABELS)
    record = believed((tmp_path / "save" / "7" / "record.json").read_bytes(), made.task).record
    assert state.leaderboard[7]["brier_binary"] in {s.value for s in record.scores if s.metric == "brier_binary"}


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--docker", "no-such-engine"), 4, "no-such-engine can't be run (No such file or directory)"),
        (("--image", "none"), 4, "shows no image none (no such image); build it"),
        (("--local", "--queue", "another"), 4, "HTTP 404"),
        (("--server", "ftp://eval.ai"), 2, "the server is no address like https://eval.ai"),
        (("--token-file", "gone"), 2, "gone can't be read"),
        (("--annotation", "."), 2, "has no truth.parquet"),
        (("--save", "a:b"), 2, "a colon or a line break in the path"),
        (("--save", "/dev/null/a"), 2, "error: /dev/null/a can't be written (Not a directory)"),
        (("--challenge", "0"), 2, "Invalid value for '--challenge'"),
    ],
)
def test_what_a_host_has_to_mend(
    more: tuple[str, ...], code: int, said: str, challenge: tuple[EvalAI, Store], annotation: Path, tmp_path: Path
) -> None:
    docker = () if "--docker" in more else ("--docker", str(engine(tmp_path / "engine")))
    folder = () if "--save" in more else ("--save", str(tmp_path / "save"))
    arguments = [*line(challenge[0], annotation, "--once", *folder, *docker)[4:], *more]
    done = CliRunner().invoke(app, arguments, env={**environment(), "COLUMNS": "300"})
    assert done.exit_code == code, done.output
    assert said in done.output
    assert TOKEN not in done.output


def test_the_token_comes_from_a_file_or_the_environment(
    challenge: tuple[EvalAI, Store], annotation: Path, tmp_path: Path
) -> None:
    arguments = line(challenge[0], annotation, "--once", "--local", "--save", str(tmp_path / "save"))[4:]
    without = CliRunner().invoke(app, arguments, env={**environment(), "AUTH_TOKEN": None, "COLUMNS": "300"})
    assert without.exit_code == 2
    assert "no token; set AUTH_TOKEN" in without.output
    wrong = CliRunner().invoke(app, arguments, env=environment("another"))
    assert wrong.exit_code == 4
    assert "HTTP 401" in wrong.output
    assert "another" not in wrong.output
    broken = CliRunner().invoke(app, arguments, env=environment("two words"))
    assert broken.exit_code == 2
    assert "two words" not in broken.output
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    read = CliRunner().invoke(app, [*arguments, "--token-file", str(tmp_path / "token")], env=environment("another"))
    assert read.exit_code == 0, read.output
    assert "note: the token goes to this server in clear text" in read.output
