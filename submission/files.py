"""Writing files whole or not at all."""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write to that becomes ``path`` when the block ends well, and vanishes when it does not.

    It lies beside ``path`` meanwhile and is synced before it takes the name; an older file stays until then. Raises
    OSError where the folder can't be written.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as sink:
            yield sink
            sink.flush()
            os.fsync(sink.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def write_atomic(path: Path, data: bytes) -> None:
    """Write ``data`` to ``path``, whole or not at all."""
    with replacing(path) as sink:
        sink.write(data)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex characters."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
