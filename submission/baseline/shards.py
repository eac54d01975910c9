"""Rows of float32 numbers on disk under digests of what they were made of; what is damaged counts as absent."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from submission.files import replacing

FORMAT = "mvc-features-1"
ENDING = ".features"
OVERHEAD = 70  # bytes of a row's key in the head of its file

Rows = NDArray[np.float32]


def write_shard(folder: Path, view: str, keys: Sequence[str], rows: Rows) -> Path:
    """Write ``rows`` (N, width) under their ``keys`` (64 hex characters each); the file appears whole or not at all."""
    data = np.ascontiguousarray(rows, dtype="<f4").tobytes()
    head = {"format": FORMAT, "width": int(rows.shape[1]), "keys": list(keys), "sha256": _digest(keys, data)}
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{view}-{hashlib.sha256(''.join(keys).encode()).hexdigest()[:16]}{ENDING}"
    with replacing(path) as sink:
        sink.write(json.dumps(head).encode() + b"\n")
        sink.write(data)
    return path


def read_shards(folder: Path, view: str, width: int) -> Mapping[str, Rows]:
    """Every row (width,) of ``view`` that lies whole in ``folder``, by key."""
    found: dict[str, Rows] = {}
    for path in sorted(folder.glob(f"{view}-*{ENDING}")):
        found.update(_read(path, width))
    return found


def _read(path: Path, width: int) -> Mapping[str, Rows]:
    """The rows of one file; none where it is damaged, cut short or of another width."""
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        said = json.loads(head)
        keys = said["keys"]
        if (said["format"], said["width"]) != (FORMAT, width) or said["sha256"] != _digest(keys, data):
            return {}
        rows = np.frombuffer(data, dtype="<f4").reshape(len(keys), width)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return dict(zip(keys, rows, strict=True))


def _digest(keys: Sequence[str], data: bytes) -> str:
    whole = hashlib.sha256("\n".join(keys).encode())
    whole.update(b"\0")
    whole.update(data)
    return whole.hexdigest()
