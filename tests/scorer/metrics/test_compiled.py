"""Where compiled code is kept: beside the source, or read from a folder that is never written."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

CODE = """
import json
import numpy as np
from scorer.metrics.kernels import count
counts = np.zeros((1, 4))
count(np.arange(8, dtype=np.uint64) << np.uint64(61), 4, counts)
print(json.dumps([len(count.stats.cache_hits), len(count.stats.cache_misses), counts.tolist()]))
"""
COUNTED = [[2.0, 2.0, 0.0, 0.0]]


def ran(**environment: str) -> Any:
    """Cache hits, misses and the counts of a new process."""
    clean = {name: text for name, text in os.environ.items() if not name.startswith(("NUMBA_", "MVC_"))}
    command = [sys.executable, "-c", CODE]
    done = subprocess.run(command, env={**clean, **environment}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Bytes and time of every file below ``folder``."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def test_code_made_before_is_read_and_the_folder_left_alone(tmp_path: Path) -> None:
    assert ran(NUMBA_CACHE_DIR=str(tmp_path)) == [0, 1, COUNTED]
    made = contents(tmp_path)
    assert [name for name in made if name.endswith(".nbc")]
    assert ran(MVC_KERNELS=str(tmp_path)) == [1, 0, COUNTED]
    assert ran(MVC_KERNELS=str(tmp_path), NUMBA_CPU_NAME="generic") == [0, 1, COUNTED]  # code for another processor
    assert contents(tmp_path) == made


def test_code_that_is_not_there_is_compiled_and_not_kept(tmp_path: Path) -> None:
    assert ran(MVC_KERNELS=str(tmp_path / "none")) == [0, 1, COUNTED]
    assert contents(tmp_path) == {}
