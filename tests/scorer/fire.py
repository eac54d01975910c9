"""A small bundle, real ``mvc`` processes on it, and what must hold however one of them ends."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from protocol.types import CANONICAL_FILE, MANIFEST_FILE
from scorer.ledger import Event, Ledger
from scorer.outputs import RESULTS
from submission.crate import verify_manifest
from submission.example import example
from submission.files import sha256_file
from tests.builders import Draft, write

ROOT = Path(__file__).resolve().parents[2]
SEALED = (CANONICAL_FILE, *RESULTS, MANIFEST_FILE)
TITLE = "title: round "
LIMIT_S = 300.0


def small_bundle(folder: Path) -> Path:
    """A bundle that is accepted and scored in little time: one seed, 1,000 resamples, few images."""
    parts = example("binary", seeds=(1,))
    record = {**parts.record, "title": f"{TITLE.removeprefix('title: ')}0", "waivers": []}
    record["waivers"] = [{"rule": "MVC203", "reason": "a bundle that is submitted many times, made to be small"}]
    record["uncertainty"] = {**record["uncertainty"], "resamples": 1000}
    task = {**parts.task, "resamples": 1000}
    return write(Draft(task, record, parts.splits, parts.predictions, list(parts.calibrators)), folder)


def retitle(folder: Path, number: int) -> None:
    """Give the record another title, so that what is sealed next differs from what is there."""
    record = folder / "submission.yaml"
    lines = record.read_text(encoding="utf-8").splitlines(keepends=True)
    assert sum(line.startswith(TITLE) for line in lines) == 1
    record.write_text("".join(f"{TITLE}{number}\n" if line.startswith(TITLE) else line for line in lines), "utf-8")


@dataclass(frozen=True)
class Ended:
    """How a process ended."""

    code: int
    out: str
    err: str


def start(
    *arguments: str | Path,
    environment: Mapping[str, str] | None = None,
    before: Sequence[str] = (),
    file_bytes: int | None = None,
    stdout: int = subprocess.PIPE,
) -> subprocess.Popen[str]:
    """Start ``mvc`` in a process group of its own; ``before`` is a command that starts it, ``file_bytes`` a limit."""

    def limit() -> None:
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, resource.RLIM_INFINITY))

    return subprocess.Popen(
        [*before, sys.executable, "-m", "mvc", *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
        start_new_session=True,
        preexec_fn=limit,
    )


def ended(process: subprocess.Popen[str]) -> Ended:
    """Wait for the end; a process that hangs is killed and fails the test."""
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        kill_group(process)
        raise
    return Ended(process.returncode, out or "", err or "")


def submit_to(folder: Path, ledger: Path) -> Ended:
    """Submit undisturbed."""
    return ended(start("submit", folder, "--ledger", ledger))


def kill_group(process: subprocess.Popen[str]) -> None:
    """``kill -9`` for the process and its children."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def contents(folder: Path) -> dict[str, str]:
    """Digest of every file of the bundle by name; folders in which something is being made are left out."""
    return {
        name: sha256_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not (name := path.relative_to(folder).as_posix()).startswith(".mvc-")
    }


def aside(folder: Path) -> list[Path]:
    """Folders beside the bundle's files in which something is, or was, being made."""
    return sorted(folder.glob(".mvc-*"))


def events_of(ledger: Path) -> tuple[Event, ...]:
    """The events of a ledger that is whole; read without writing."""
    with Ledger.open(ledger, read_only=True, wait_s=5) as opened:
        assert opened.verify() == ()
        return opened.events()


def assert_sealed(folder: Path, event: Event) -> None:
    """The folder holds all that the event says was sealed, and nothing that was left half-made."""
    now = contents(folder)
    assert {name: now.get(name) for name in SEALED} == event.payload["outputs"]
    assert verify_manifest(folder) == ()
    assert aside(folder) == []


@dataclass(frozen=True)
class Course:
    """Seconds from the start of an undisturbed submit to the folder aside, to all being sealed in it, to the end."""

    staged: float
    sealed: float
    whole: float


def sealed_aside(folder: Path) -> bool:
    """Whether everything is made and only recording is left."""
    return any((path / MANIFEST_FILE).exists() for path in aside(folder))


def course_of(folder: Path, ledger: Path) -> Course:
    """Time an undisturbed submit."""
    begun = time.monotonic()
    process = start("submit", folder, "--ledger", ledger, stdout=subprocess.DEVNULL)
    staged = sealed = 0.0
    while process.poll() is None:
        staged = staged or (time.monotonic() - begun if aside(folder) else 0.0)
        sealed = sealed or (time.monotonic() - begun if sealed_aside(folder) else 0.0)
        time.sleep(0.0005)
    whole = time.monotonic() - begun
    assert ended(process).code == 0
    assert 0.0 < staged < sealed < whole
    return Course(staged, sealed, whole)


def kill_at(process: subprocess.Popen[str], folder: Path, ledger: Path, trigger: str, delay: float) -> None:
    """Kill ``delay`` seconds after the ``trigger``: start, staged, sealed, or wal (the ledger is being written)."""
    log = ledger.with_name(f"{ledger.name}.wal")
    reached = {
        "start": lambda: True,
        "staged": lambda: bool(aside(folder)),
        "sealed": lambda: sealed_aside(folder),
        "wal": log.exists,
    }[trigger]
    while process.poll() is None and not reached():
        time.sleep(0.0005)
    time.sleep(delay)
    kill_group(process)


def assert_held(folder: Path, ledger: Path, before: Mapping[str, str], events: Sequence[Event]) -> tuple[Event, ...]:
    """What holds after any end: nothing recorded is lost, no file is half, and none is new without its event.

    ``before`` and ``events`` are the folder and the ledger as they were; returns the events now.
    """
    now = events_of(ledger)
    assert now[: len(events)] == tuple(events), "an event was lost or changed"
    assert len(now) - len(events) in (0, 1)
    found = contents(folder)
    recorded = now[-1].payload["outputs"] if len(now) > len(events) else {}
    for name in {*found, *before}:
        allowed = {before.get(name), recorded.get(name)} if name in recorded else {before.get(name)}
        assert found.get(name) in allowed, f"{name} is neither the old nor the recorded one"
    return now
