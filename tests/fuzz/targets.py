"""What is fuzzed: each target takes any bytes and raises AssertionError where a promise is broken.

The promises: a value or problems come back, never an exception; problems are words that can be printed; nothing takes
more than ten seconds of processor time; nothing is written outside the folder that was given.
"""

import io
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from protocol.calibrators import CALIBRATORS
from protocol.declaration import Declaration
from protocol.facts import Problem
from protocol.findings import MAX_SAMPLES
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import Kind
from scorer.intake.decode import Decoded, decode_predictions, decode_splits
from submission.archive import MAX_MEMBERS, unpack
from submission.carrier import carry, is_carrier, uncarry
from submission.example import example
from submission.writing import task_from
from submission.yaml_io import parse_record

SECONDS = 10.0
MAX_ROWS = 20_000
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")

# The first byte of an input chooses among these.
RECORDS: tuple[tuple[str, TypeAdapter[Any]], ...] = (
    ("task.yaml", TypeAdapter(Task)),
    ("submission.yaml", TypeAdapter(Submission)),
    ("declaration.lock", TypeAdapter(Declaration)),
    ("calibrators.json", CALIBRATORS),
)
TABLES: tuple[tuple[Kind, str], ...] = tuple((kind, ending) for kind in KINDS for ending in ("parquet", "csv"))
TASKS: dict[Kind, Task] = {kind: task_from(example(kind, seeds=(1,)).task) for kind in KINDS}


def records(data: bytes) -> None:
    """A record in YAML or JSON: its model, or problems."""
    file, adapter = RECORDS[_choice(data, len(RECORDS))]
    begun = time.process_time()
    value, problems = parse_record(adapter, data[1:], file)
    _in_time(begun)
    assert (value is None) == bool(problems), "a value or problems, not both, not neither"
    _printable(problems)


def archive(data: bytes) -> None:
    """A zip: files below the given folder, or problems."""
    with tempfile.TemporaryDirectory() as scratch:
        path, target = Path(scratch, "bundle.zip"), Path(scratch, "target")
        path.write_bytes(data)
        target.mkdir()
        begun = time.process_time()
        problems, notes = unpack(path, target)
        _in_time(begun)
        _printable(problems, notes)
        assert sorted(p.name for p in Path(scratch).iterdir()) == ["bundle.zip", "target"], "written outside"
        found = list(target.rglob("*"))
        assert not any(p.is_symlink() for p in found), "a link was made"
        assert all(p.is_dir() or p.is_file() for p in found), "something that is no file was made"
        assert sum(p.is_file() for p in found) <= MAX_MEMBERS


def carrier(data: bytes) -> None:
    """A CSV file: the bytes that it carries, which are carried again alike, or a problem."""
    with tempfile.TemporaryDirectory() as scratch:
        path, target, again = (Path(scratch, name) for name in ("bundle.csv", "bundle.zip", "again.csv"))
        path.write_bytes(data)
        begun = time.process_time()
        problems = uncarry(path, target)
        _in_time(begun)
        _printable(problems)
        assert not target.exists() or target.stat().st_size < len(data) + (1 << 16), "much made of little"
        assert {p.name for p in Path(scratch).iterdir()} <= {"bundle.csv", "bundle.zip"}, "something else was written"
        if not problems:
            assert is_carrier(path), "a carrier that is not taken for one"
            carry(target, again)
            lines = [[line.rstrip(b"\r\n") for line in p.read_bytes().split(b"\n") if line] for p in (path, again)]
            assert sorted(lines[0]) == sorted(lines[1]), "another form of the same bytes"


def splits(data: bytes) -> None:
    """A split file in Parquet or CSV, for each kind of task."""
    kind, ending = TABLES[_choice(data, len(TABLES))]
    _decoded(lambda source: decode_splits(source, f"splits.{ending}", TASKS[kind], True, MAX_ROWS), data[1:])


def predictions(data: bytes) -> None:
    """Predictions in Parquet or CSV, for each kind of task."""
    kind, ending = TABLES[_choice(data, len(TABLES))]
    _decoded(lambda source: decode_predictions(source, f"predictions.{ending}", TASKS[kind], MAX_ROWS), data[1:])


TARGETS: dict[str, Callable[[bytes], None]] = {
    "records": records,
    "archive": archive,
    "carrier": carrier,
    "splits": splits,
    "predictions": predictions,
}


def _choice(data: bytes, count: int) -> int:
    return data[0] % count if data else 0


def _decoded(decode: Callable[[io.BytesIO], Decoded], data: bytes) -> None:
    begun = time.process_time()
    decoded = decode(io.BytesIO(data))
    _in_time(begun)
    assert decoded.table is not None or decoded.problems, "neither a table nor a problem"
    _printable(decoded.problems, decoded.notes)
    if decoded.table is not None:
        assert 0 < decoded.table.rows <= MAX_ROWS
        assert {array.shape for array in decoded.arrays.values()} == {(decoded.table.rows,)}


def _in_time(begun: float) -> None:
    taken = time.process_time() - begun
    assert taken <= SECONDS, f"took {taken:.0f} s"


def _printable(problems: Sequence[Problem], notes: Sequence[str] = ()) -> None:
    """Problems name an offence, say where, what was seen and what is wanted, and can be encoded."""
    for problem in problems:
        assert problem.offence, problem
        assert problem.where, problem
        assert problem.saw, problem
        assert problem.wanted, problem
        assert problem.count >= 1, problem
        assert len(problem.samples) <= MAX_SAMPLES, problem
        "".join((problem.where, problem.saw, problem.wanted, *problem.samples)).encode()
    "".join(notes).encode()
