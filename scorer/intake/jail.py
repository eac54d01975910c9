"""Starts the decoding process for a bundle and takes back what it wrote, trusting none of it."""

import contextlib
import errno
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.facts import Problem, Table
from scorer.intake import DISK_REFUSED
from scorer.machine import FLOOR, memory
from submission.bundle import Bundle

CHILD = Path(__file__).with_name("child.py")
MEMORY = 8 << 30  # at most, and of a smaller machine or container three quarters
DISK = 16 << 30
SECONDS = 600
MAX_RESULT = 64 << 20
# Few threads and no memory reserved ahead: the limit on address space is then one on memory.
FRUGAL = {
    "POLARS_MAX_THREADS": "2", "OMP_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2",
}  # fmt: skip


@dataclass(frozen=True)
class Arrays:
    """A decoded table on disk: ``column`` maps it into memory, ``values`` has the distinct texts of a column."""

    table: Table
    folder: Path
    name: str
    columns: tuple[str, ...]
    text: tuple[str, ...]

    def column(self, name: str) -> NDArray[Any]:
        """The column as a read-only array: int32 codes for text, int64 or float64 for numbers."""
        array: NDArray[Any] = np.load(self.folder / f"{self.name}.{name}.npy", mmap_mode="r", allow_pickle=False)
        if array.shape != (self.table.rows,) or array.dtype not in (np.int32, np.int64, np.float64):
            raise ValueError(f"decoded column {name} has shape {array.shape} and type {array.dtype}")
        return array

    def values(self, name: str) -> list[str]:
        """Distinct values of a text column; codes index them, -1 is null."""
        distinct = json.loads((self.folder / f"{self.name}.{name}.json").read_text(encoding="utf-8"))
        codes = self.column(name)
        if codes.min(initial=0) < -1 or codes.max(initial=-1) >= len(distinct):
            raise ValueError(f"decoded column {name} has codes outside its values")
        return [str(value) for value in distinct]


@dataclass(frozen=True)
class Intake:
    """Both tables as far as they could be decoded, with problems, notes and reasons for what is missing."""

    splits: Arrays | None = None
    predictions: Arrays | None = None
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def decode(bundle: Bundle, folder: Path) -> Intake:
    """Decode the tables of ``bundle`` into the empty ``folder`` in a process of its own.

    Raises OSError where the disk of ``folder`` is full: no offence of the bundle.
    """
    if bundle.task is None or bundle.record is None:
        return Intake()
    names = {"splits": bundle.record.splits.file, "predictions": bundle.predictions}
    wanted = {table: file for table, file in names.items() if table not in bundle.missing}
    if not wanted:
        return Intake()
    with contextlib.ExitStack() as stack:
        opened: dict[str, dict[str, Any] | None] = dict.fromkeys(names)
        changed = set()
        for table, file in wanted.items():
            try:  # opened once, here, without following links: the child is handed this very file
                fd = os.open(bundle.root / file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError:
                changed.add(table)
                continue
            stack.callback(os.close, fd)
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                changed.add(table)
                continue
            opened[table] = {"fd": fd, "file": file}
        job = {
            "task": bundle.task.model_dump(mode="json"),
            "patient_ids": bundle.record.splits.patient_ids == "available",
            "runs": len(bundle.record.runs),
            "folder": str(folder),
            "memory": min(MEMORY, max(FLOOR, memory() * 3 // 4)),
            "seconds": SECONDS,
            "disk": DISK,
            **opened,
        }
        stopped = _run(job, [slot["fd"] for slot in opened.values() if slot is not None])
        # What was digested before is still there after the child has read it: a digest is of the decoded bytes.
        changed |= {t for t, slot in opened.items() if slot and _digest(slot["fd"]) != bundle.files[slot["file"]]}
    return _collect(folder, wanted, stopped, changed)


def _digest(fd: int) -> str:
    """SHA-256 of the whole open file."""
    os.lseek(fd, 0, os.SEEK_SET)
    with open(fd, "rb", closefd=False) as source:
        return hashlib.file_digest(source, "sha256").hexdigest()


def _run(job: Mapping[str, Any], fds: Sequence[int]) -> str:
    """Run the child; '' when it ended well, else what stopped it."""
    # Without HOME a library asks the system for it, which opens a socket.
    environment = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "HOME": "/", **FRUGAL}
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(CHILD)],
            input=json.dumps(job).encode(),
            capture_output=True,
            pass_fds=fds,
            env=environment,
            cwd="/",
            timeout=SECONDS + 60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end after {SECONDS} seconds"
    if done.returncode < 0:
        return f"signal {-done.returncode}"
    if done.returncode == DISK_REFUSED:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), job["folder"])
    if done.returncode > 0:
        if os.environ.get("MVC_DEBUG"):
            sys.stderr.write(done.stderr.decode(errors="replace"))
        return "the decoder failed on these bytes"
    return ""


def _collect(folder: Path, wanted: Mapping[str, str], stopped: str, changed: Set[str]) -> Intake:
    result: dict[str, Any] = {}
    place = folder / "result.json"
    if place.is_file() and place.stat().st_size <= MAX_RESULT:
        result = json.loads(place.read_text(encoding="utf-8"))
    tables: dict[str, Arrays] = {}
    problems: list[Problem] = []
    notes: list[str] = []
    missing: dict[str, str] = {}
    halted = False
    for table, file in wanted.items():
        if table in changed:
            saw = "the file changed while it was read"
            problems.append(Problem("unreadable-file", file, saw, "a file at rest"))
            missing[table] = f"{file} changed while it was read"
            continue
        part = result.get(table)
        if part is None:
            if not halted:  # what comes after the table that stopped the process was not tried
                saw = stopped or "no result"
                problems.append(Problem("decoding-stopped", file, saw, "a table that decodes within the limits"))
            halted = True
            missing[table] = f"{file} could not be decoded"
            continue
        problems += [Problem(**{**item, "samples": tuple(item["samples"])}) for item in part["problems"]]
        notes += part["notes"]
        if part["table"] is None:
            missing[table] = f"{file} could not be decoded"
        else:
            facts = part["table"]
            known = Table(**{**facts, "columns": tuple(facts["columns"]), "extras": tuple(facts["extras"])})
            tables[table] = Arrays(known, folder, table, tuple(part["columns"]), tuple(part["text"]))
    return Intake(tables.get("splits"), tables.get("predictions"), tuple(problems), tuple(notes), missing)
