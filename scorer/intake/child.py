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


def main() -> int:
    """Decode the job on standard input; 0 when ``result.json`` was written."""
    job = json.load(sys.stdin)
    resource.setrlimit(resource.RLIMIT_AS, (job["memory"], job["memory"]))
    resource.setrlimit(resource.RLIMIT_CPU, (job["seconds"], job["seconds"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (job["disk"], job["disk"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path.append(str(Path(__file__).resolve().parents[2]))
    from protocol.task import Task
    from scorer.intake import decode

    task = Task.model_validate_json(json.dumps(job["task"]))
    folder = Path(job["folder"])
    result: dict[str, Any] = {}
    expected = DEFAULT_PREDICTIONS_CAP
    if job["splits"] is not None:
        with os.fdopen(job["splits"]["fd"], "rb") as source:
            splits = decode.decode_splits(source, job["splits"]["file"], task, job["patient_ids"], SPLITS_CAP)
        result["splits"] = decode.write(splits, "splits", folder)
        save(folder, result)  # so that a table that stops the process is the only one accused
        if splits.table is not None:
            expected = splits.table.rows * job["runs"]
    if job["predictions"] is not None:
        with os.fdopen(job["predictions"]["fd"], "rb") as source:
            cap = 2 * expected + SLACK
            predictions = decode.decode_predictions(source, job["predictions"]["file"], task, cap)
        result["predictions"] = decode.write(predictions, "predictions", folder)
    save(folder, result)
    return 0


def save(folder: Path, result: dict[str, Any]) -> None:
    """Write ``result.json`` whole."""
    part = folder / "result.part"
    part.write_text(json.dumps(result), encoding="utf-8")
    part.replace(folder / "result.json")


if __name__ == "__main__":
    sys.exit(main())
