"""Every exhibit is refused by its rule; none breaks, stops or starves the referee, or makes it tell what it knows.

``MVC_MUSEUM=all`` shows everything, each exhibit to the command itself as a process; otherwise the rooms show a part.
"""

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unicodedata
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from mvc.show import show_verdict
from protocol.findings import ESCAPED, Status
from submission.bundle import NoBundleError
from tests.builders import copy_of, good_submission, write
from tests.museum.registry import Exhibit, all_exhibits
from tests.referee import quick_check

ALL = os.environ.get("MVC_MUSEUM") == "all"
PATIENCE = 30  # seconds on a busy machine; more than 10 are reported
MEMORY = 1 << 20  # KiB that a process may hold
CANARY = "canary-of-the-host"
EXHIBITS = all_exhibits()
# A process inherits the peak of the one that made it: this small one stands between.
LAUNCHER = """
import os, resource, subprocess, sys
code = subprocess.run(sys.argv[1:]).returncode
with open(os.environ["MVC_MUSEUM_PEAK"], "w") as sink:
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sink)
sys.exit(code)
"""
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Seen:
    """What the referee did: its exit code, the verdict as JSON (None where there is no bundle), all that it printed."""

    code: int
    verdict: dict[str, Any] | None
    text: str
    seconds: float
    memory: int


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle, not to be changed."""
    return write(good_submission(), tmp_path_factory.mktemp("good") / "bundle")


def on_show(exhibit: Exhibit) -> bool:
    """Whether the exhibit is seen every day: what is cheap to see, and a share of the rest."""
    return ALL or exhibit.process or zlib.crc32(exhibit.name.encode()) % 3 == 0


@pytest.mark.parametrize("exhibit", [pytest.param(e, id=e.name) for e in EXHIBITS.values() if on_show(e)])
def test_an_exhibit_is_refused_by_its_rule_and_does_no_harm(
    exhibit: Exhibit, good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_property: Any
) -> None:
    path = exhibit.make(copy_of(good, tmp_path / "bundle")) or tmp_path / "bundle"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setenv("MVC_MUSEUM_CANARY", CANARY)
    before = tree(tmp_path)
    seen = command(path, scratch) if exhibit.process or ALL else here(path)
    record_property("seconds", round(seen.seconds, 1))
    assert tree(tmp_path) == before, "something was written, or left behind"
    assert seen.seconds < PATIENCE
    assert seen.memory < MEMORY
    # A usage error names the path that the user gave.
    assert not told(seen.text, None if exhibit.usage else tmp_path)
    if exhibit.usage:
        assert (seen.code, seen.verdict) == (2, None)
        return
    assert seen.verdict is not None
    found = [
        r["rule"] for r in seen.verdict["rules"] if r["outcome"] == "failed" and r["level"] in ("must", "waivable")
    ]
    assert set(found) == set(exhibit.rules), seen.verdict["last_line"]
    assert seen.code == (1 if exhibit.rules else 0)
    assert not [text for text in texts(seen.verdict) if not is_plain(text)]


def here(path: Path) -> Seen:
    """The verdict in this process, decoder and all, printed as the command prints it."""
    start, held = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sink = StringIO()
    with redirect_stdout(sink), at_most(PATIENCE):
        try:
            verdict = quick_check(path)
        except NoBundleError as error:
            return Seen(2, None, str(error), time.monotonic() - start, 0)
        show_verdict(verdict)
    seconds = time.monotonic() - start
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held
    assert verdict.status is not Status.UNDETERMINED, verdict.last_line
    document = verdict.to_dict()
    return Seen(verdict.exit_code, document, sink.getvalue(), seconds, grown)


def command(path: Path, scratch: Path) -> Seen:
    """``mvc check --json`` as a process of its own: its exit code, its output, its peak and that of its decoder."""
    outputs = [scratch.with_name(name) for name in ("stdout", "stderr", "peak")]
    start = time.monotonic()
    with outputs[0].open("wb") as out, outputs[1].open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "mvc", "check", str(path), "--json"],
            stdout=out,
            stderr=err,
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(scratch), "MVC_MUSEUM_PEAK": str(outputs[2])},
            start_new_session=True,
        )
        with at_most(PATIENCE, process):
            process.wait()
    seconds = time.monotonic() - start
    printed, errors, peak = (output.read_text(encoding="utf-8") for output in outputs)
    for output in outputs:
        output.unlink()
    assert process.returncode in (0, 1, 2), errors
    document = json.loads(printed) if process.returncode < 2 else None
    return Seen(process.returncode, document, printed + errors, seconds, int(peak))


@contextmanager
def at_most(seconds: int, process: "subprocess.Popen[bytes] | None" = None) -> Iterator[None]:
    """End the block after ``seconds``: a hang is a failure, not a long night."""

    def late(_signal: int, _frame: FrameType | None) -> None:
        if process is not None:
            os.killpg(process.pid, signal.SIGKILL)
        raise TimeoutError(f"no verdict after {seconds} seconds")

    old = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)


def tree(folder: Path) -> dict[str, tuple[int, int, int]]:
    """Kind, size and time of everything below ``folder``."""
    found = {str(p.relative_to(folder)): p.lstat() for p in folder.rglob("*")}
    return {name: (s.st_mode, s.st_size, 0 if name == "scratch" else s.st_mtime_ns) for name, s in found.items()}


def told(text: str, folder: Path | None) -> list[str]:
    """What the output tells that it must not: places and environment of the host, control characters, a traceback."""
    places = [str(folder.parent)] if folder else []
    secrets = [*places, CANARY, "/mvc-", str(ROOT), sys.prefix, "Traceback", "MVC_DEBUG"]
    return [secret for secret in secrets if secret in text] + [repr(c) for c in {*text} - {"\n"} if not is_plain(c)]


def is_plain(text: str) -> bool:
    return not any(unicodedata.category(char) in ESCAPED for char in text)


def texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item)


def test_the_museum_is_large_enough() -> None:
    assert sum(bool(exhibit.rules) for exhibit in EXHIBITS.values() if on_show(exhibit)) >= 150
    assert all(exhibit.story for exhibit in EXHIBITS.values())
