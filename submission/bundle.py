"""A bundle on disk: which file is what, its digests, and its records read into their models."""

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter

from protocol.calibrators import CALIBRATORS, FittedCalibrator
from protocol.declaration import Declaration
from protocol.facts import Problem
from protocol.findings import plain
from protocol.submission import Submission
from protocol.task import Task
from submission.archive import PICKLES, unpack
from submission.carrier import is_carrier, uncarry
from submission.files import sha256_file
from submission.yaml_io import MAX_BYTES, claimed_name, parse_record

TASK_FILE = "task.yaml"
RECORD_FILE = "submission.yaml"
LOCK_FILE = "declaration.lock"
RECEIPT_FILE = "receipt.json"
PREDICTIONS_FILES = ("predictions.parquet", "predictions.csv")
CALIBRATORS_FILE = "calibrators.json"
SPLITS_FILE = "splits.parquet"
MAX_TABLE_BYTES = 2 << 30
MAX_BUNDLE_BYTES = 4 << 30  # of all files that are digested
MAX_CALIBRATORS_BYTES = 64 << 20
MAX_RUNS = 100_000  # whatever a task allows: runs are counted before they are listed
MAX_CLASSES = 1000

T = TypeVar("T")


class NoBundleError(ValueError):
    """There is no bundle at the path that the user gave; the message is safe to print."""

    def __init__(self, message: str) -> None:
        super().__init__(plain(message, 400))


@dataclass(frozen=True)
class Bundle:
    """What was found. ``files`` maps each file that the record refers to onto its SHA-256.

    ``task``, ``record`` and ``calibrators`` are None where they could not be read, which ``missing`` explains;
    ``lock`` is None both when absent and when unreadable (then ``missing`` has it too), and so is ``receipt``: the
    bytes of a signed envelope that nobody has verified yet. ``claimed_id`` is what the record calls itself, also where
    it does not fit its model; '' where that is no name.
    """

    root: Path
    predictions: str
    files: Mapping[str, str]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...]
    task: Task | None
    record: Submission | None
    lock: Declaration | None
    calibrators: tuple[FittedCalibrator, ...] | None
    missing: Mapping[str, str] = field(default_factory=dict)
    archive: Path | None = None
    claimed_id: str = ""
    receipt: bytes | None = None


def open_bundle(path: Path, scratch: Path, record: Path | None = None) -> Bundle:
    """Read the bundle at ``path``: a folder, a zip of one, a CSV file that carries such a zip, or its predictions file.

    ``scratch`` is an empty folder to unpack into; ``record`` overrides ``submission.yaml``.
    Raises NoBundleError when there is no bundle at ``path``, or no file at ``record``.
    """
    if not (path.is_file() or path.is_dir()):
        raise NoBundleError(f"{path}: no such file or folder")
    if record is not None and not record.is_file():
        raise NoBundleError(f"{record}: no such file; the record is a file such as {RECORD_FILE}")
    if path.is_dir() and not any(os.path.lexists(path / name) for name in (TASK_FILE, RECORD_FILE, *PREDICTIONS_FILES)):
        raise NoBundleError(f"{path} holds no bundle; mvc init makes one")
    if path.is_file() and path.name in (TASK_FILE, RECORD_FILE, LOCK_FILE, CALIBRATORS_FILE, SPLITS_FILE):
        raise _part(path)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()
    root, archive, named = path, None, None
    if path.is_file() and (path.suffix.lower() == ".zip" or is_carrier(path)):
        archive = path
        root, problems, notes = _unpacked(path, scratch)
        if problems:
            gone = f"{plain(path.name)} could not be unpacked"
            facts = ("task", "record", "lock", "receipt", "calibrators", "splits", "predictions", "files")
            missing = dict.fromkeys(facts, gone)
            return Bundle(root, "", {}, problems, notes, None, None, None, None, missing, archive)
    elif path.is_file():
        root, named = path.parent, path.name
    return _read(_Reader(root), named, record, problems, notes, archive)


def _unpacked(path: Path, scratch: Path) -> tuple[Path, tuple[Problem, ...], tuple[str, ...]]:
    """Where the zip at ``path``, or the one that it carries, was unpacked to, with problems and notes."""
    if path.suffix.lower() == ".zip":
        return scratch, *unpack(path, scratch)
    root, carried = scratch / "bundle", scratch / "carried" / path.name  # the name by which problems call it
    for folder in (root, carried.parent):
        folder.mkdir()
    note = f"{plain(path.name)} is a CSV file that carries a zip, which was taken out of it"
    problems = uncarry(path, carried)
    if problems:
        return root, problems, ()
    problems, notes = unpack(carried, root)
    carried.unlink()
    return root, problems, (note, *notes)


def _part(path: Path) -> NoBundleError:
    return NoBundleError(f"{path} is a part of a bundle: give the folder or the predictions file")


@dataclass
class _Reader:
    """Reads files below ``root`` once, gathering digests and problems."""

    root: Path
    files: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    claimed_id: str = ""
    volume: int = 0

    def record(self, fact: str, adapter: TypeAdapter[T], file: str, limit: int, path: Path | None = None) -> T | None:
        """The record ``file`` as a model, or None with ``missing[fact]`` saying why."""
        data = self.data(fact, file, limit, path)
        if data is None:
            return None
        if fact == "record":
            self.claimed_id = claimed_name(data, file, "submission_id")
        outcome = parse_record(adapter, data, file)
        self.problems += outcome[1]
        if outcome[0] is None:
            self.missing[fact] = f"{file} is not valid"
        return outcome[0]

    def data(self, fact: str, file: str, limit: int, path: Path | None = None) -> bytes | None:
        """The bytes of ``file``, digested, or None with ``missing[fact]`` saying why."""
        saw, size, data = _head(path or self.root / file, limit + 1)
        if saw:
            self.problems.append(Problem("unreadable-file", file, saw, f"the file {file}"))
            self.missing[fact] = f"{file} could not be read"
            return None
        if len(data) > limit:
            self.too_large(fact, file, f"{size} bytes", f"at most {limit} bytes")
            return None
        self.files[file] = hashlib.sha256(data).hexdigest()
        return data

    def too_large(self, fact: str, where: str, saw: str, wanted: str) -> None:
        """Note that ``fact`` is missing since ``where`` is larger than a submission can be."""
        self.problems.append(Problem("too-large", where, saw, wanted))
        self.missing[fact] = f"{where.partition(':')[0]} is too large"

    def digest(self, file: str) -> None:
        """Add the digest of ``file`` if it is there and plain, and the bundle not too large to be read through."""
        place = self.root / file
        if file in self.files or unreadable(place, self.root):
            return
        size = place.stat().st_size
        if self.volume + size > MAX_BUNDLE_BYTES:
            saw = f"{size} bytes" if size > MAX_BUNDLE_BYTES else "files that are too large together"
            self.too_large("files", file, saw, f"at most {MAX_BUNDLE_BYTES} bytes in all")
            return
        self.volume += size
        self.files[file] = sha256_file(place)

    def table(self, fact: str, file: str) -> None:
        """Note the table ``file``: there, plain, no pickle, not too large."""
        place = self.root / file
        saw = unreadable(place, self.root)
        offence, wanted = "unreadable-file", f"the file {file}"
        if saw == "absent" and fact == "predictions":
            wanted = " or ".join(PREDICTIONS_FILES) if file in PREDICTIONS_FILES else wanted
        elif saw == "absent" and (other := _of_other_format(place)):
            saw, wanted = f"absent, but {other} is there", f"the file {file}, or file: {other} in {RECORD_FILE}"
        if not saw and place.suffix.lower() in PICKLES:
            offence, saw, wanted = "pickle-refused", f"a {place.suffix} file", "Parquet or CSV"
        elif not saw and place.stat().st_size > MAX_TABLE_BYTES:
            offence, saw, wanted = "too-large", f"{place.stat().st_size} bytes", f"at most {MAX_TABLE_BYTES} bytes"
        if saw:
            self.problems.append(Problem(offence, file, saw, wanted))
            self.missing[fact] = f"{file} could not be read"
        else:
            self.digest(file)


def _of_other_format(place: Path) -> str:
    """The name of the same table in the other format, if it lies beside ``place``."""
    other = place.with_suffix(".csv" if place.suffix == ".parquet" else ".parquet")
    return "" if unreadable(other) else other.name


def _head(place: Path, limit: int) -> tuple[str, int, bytes]:
    """Why ``place`` can't be read, or '' with its size and its first ``limit`` bytes; waits for no pipe."""
    saw = unreadable(place)
    if saw:
        return saw, 0, b""
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            found = os.fstat(source.fileno())
            if not stat.S_ISREG(found.st_mode):
                return "no plain file", 0, b""
            return "", found.st_size, source.read(limit)
    except OSError as error:
        return error.strerror or "not readable", 0, b""


def unreadable(place: Path, root: Path | None = None) -> str:
    """Why ``place`` can't be used as a file, or '' if it can; links are not followed out of ``root``."""
    try:
        mode = place.lstat().st_mode
    except (OSError, ValueError):
        return "absent"
    if stat.S_ISLNK(mode):
        return "a link"
    if not stat.S_ISREG(mode):
        return "no plain file"
    if root is not None and not place.resolve().is_relative_to(root.resolve()):
        return "outside the bundle"
    return "" if os.access(place, os.R_OK) else "not readable"


def _read(
    reader: _Reader,
    named: str | None,
    record_path: Path | None,
    problems: tuple[Problem, ...],
    notes: tuple[str, ...],
    archive: Path | None,
) -> Bundle:
    task = reader.record("task", TypeAdapter(Task), TASK_FILE, MAX_BYTES)
    record = reader.record("record", TypeAdapter(Submission), RECORD_FILE, MAX_BYTES, record_path)
    task, record = _bounded(reader, task, record)
    lock = None
    if os.path.lexists(reader.root / LOCK_FILE):
        lock = reader.record("lock", TypeAdapter(Declaration), LOCK_FILE, MAX_BYTES)
    receipt = None
    if os.path.lexists(reader.root / RECEIPT_FILE):
        receipt = reader.data("receipt", RECEIPT_FILE, MAX_BYTES)
    there = [name for name in PREDICTIONS_FILES if os.path.lexists(reader.root / name)]
    predictions = named or (there[0] if there else PREDICTIONS_FILES[0])
    if named is None and len(there) > 1:
        both = f"both {' and '.join(there)}"
        wanted = f"one of them, or name the one that is meant: mvc check FOLDER/{there[1]}"
        reader.problems.append(Problem("unreadable-file", "predictions", both, wanted))
        reader.missing["predictions"] = f"{both} are there"
    else:
        reader.table("predictions", predictions)
    calibrators: tuple[FittedCalibrator, ...] | None = ()
    if record is None:
        for fact in ("splits", "calibrators"):
            reader.missing[fact] = reader.missing["record"]
        reader.missing.setdefault("predictions", reader.missing["record"])
        calibrators = None
    else:
        if named == record.splits.file and named not in PREDICTIONS_FILES:
            raise _part(reader.root / named)
        reader.table("splits", record.splits.file)
        parameters = record.calibration.parameters
        if not unreadable(reader.root / parameters, reader.root):
            calibrators = reader.record("calibrators", CALIBRATORS, parameters, MAX_CALIBRATORS_BYTES)
        for file in referred(record):
            reader.digest(file)
    if task is None:
        for fact in ("splits", "predictions"):
            reader.missing.setdefault(fact, reader.missing["task"])
    return Bundle(
        root=reader.root,
        predictions=predictions,
        files=dict(sorted(reader.files.items())),
        problems=(*problems, *reader.problems),
        notes=notes,
        task=task,
        record=record,
        lock=lock,
        calibrators=calibrators,
        missing=reader.missing,
        archive=archive,
        claimed_id=reader.claimed_id,
        receipt=receipt,
    )


def _bounded(reader: _Reader, task: Task | None, record: Submission | None) -> tuple[Task | None, Submission | None]:
    """Task and record, unless what they declare could not be listed."""
    if task is not None and len(task.classes) > MAX_CLASSES:
        where = f"{TASK_FILE}: classes"
        reader.too_large("task", where, f"{len(task.classes)} classes", f"at most {MAX_CLASSES}")
        task = None
    if record is not None:
        runs = sum(len(model.run_seeds) for model in record.models) * len(record.calibration.methods)
        if runs > MAX_RUNS:
            reader.too_large("record", f"{RECORD_FILE}: models", f"{runs} runs", f"at most {MAX_RUNS} runs")
            record = None
    return task, record


def referred(record: Submission) -> Iterator[str]:
    """Every file that the record names besides tables and records."""
    for recipe in (record.recipe, *(model.recipe for model in record.models if model.recipe)):
        yield from (config.file for config in recipe.configs)
    release: Any = record.release
    for name in ("code", "splits", "predictions", "parameters"):
        artefact = getattr(release, name)
        if artefact is not None and artefact.file is not None:
            yield artefact.file
