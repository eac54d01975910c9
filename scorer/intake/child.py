"""The decoding process: started anew for each bundle, limited by the system, killed when it takes too long.

It reads a job (JSON) from standard input, decodes what it was handed as open files, and writes arrays and
``result.json`` into the job's folder. Run by path with ``python -I``, so that nothing beside it can be imported.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

SPLITS_CAP = 50_000_000
DEFAULT_PREDICTIONS_CAP = 20_000_000
SLACK = 10_000
BYTES_PER_ROW = 16  # of a split file at least: its image identifiers are distinct, and a hash can't be packed
# What decoding takes (measured: half of it), so that a table that does not fit its row count dies early.
IDLE = 1 << 30  # bytes of address space, of which the libraries and their threads take half
ROW, CELL = 1200, 100  # further bytes a row and a value
SECONDS, CELLS = 20, 40_000  # of processor time, and values that one more second is given for


def main() -> int:
    """Decode the job on standard input; 0 when ``result.json`` was written."""
    job = json.load(sys.stdin)
    room = Room(job["memory"], job["seconds"])
    limit(resource.RLIMIT_FSIZE, job["disk"])
    limit(resource.RLIMIT_CORE, 0)
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from protocol.task import Task
    from scorer.intake import decode

    task = Task.model_validate_json(json.dumps(job["task"]))
    folder = Path(job["folder"])
    result: dict[str, Any] = {}
    expected = DEFAULT_PREDICTIONS_CAP
    if job["splits"] is not None:
        with os.fdopen(job["splits"]["fd"], "rb") as source:
            cap = min(SPLITS_CAP, os.fstat(source.fileno()).st_size // BYTES_PER_ROW + SLACK)
            splits = decode.decode_splits(source, job["splits"]["file"], task, job["patient_ids"], cap, room)
        result["splits"] = decode.write(splits, "splits", folder)
        save(folder, result)  # so that a table that stops the process is the only one accused
        if splits.table is not None:
            expected = splits.table.rows * job["runs"]
    if job["predictions"] is not None:
        with os.fdopen(job["predictions"]["fd"], "rb") as source:
            cap = 2 * expected + SLACK
            predictions = decode.decode_predictions(source, job["predictions"]["file"], task, cap, room)
        result["predictions"] = decode.write(predictions, "predictions", folder)
    save(folder, result)
    return 0


class Room:
    """Limits of memory and processor time that widen with what was opened, up to those of the job."""

    def __init__(self, memory: int, seconds: int) -> None:
        self.memory = limit(resource.RLIMIT_AS, memory)
        self.seconds = limit(resource.RLIMIT_CPU, seconds)
        self.cells = 0
        self(0, 0)

    def __call__(self, rows: int, columns: int) -> None:
        """Make room for a table of ``rows`` and ``columns``."""
        self.cells = max(self.cells, rows * (columns + 1))
        memory = IDLE + rows * (ROW + CELL * columns)
        resource.setrlimit(resource.RLIMIT_AS, (min(self.memory, memory), self.memory))
        seconds = min(self.seconds, SECONDS + self.cells // CELLS)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, self.seconds))


def limit(kind: int, value: int) -> int:
    """Set a limit of this process and return it; one that the system has set lower stays."""
    hard = resource.getrlimit(kind)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
    return value


def save(folder: Path, result: dict[str, Any]) -> None:
    """Write ``result.json`` whole."""
    part = folder / "result.part"
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(folder / "result.json")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as refused:
        from scorer.intake import DISK_REFUSED
        from submission.files import REFUSALS

        if refused.errno not in REFUSALS:
            raise
        sys.exit(DISK_REFUSED)
