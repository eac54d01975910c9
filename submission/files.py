"""Writing files whole or not at all."""

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

ASIDE = ".mvc-aside-"
# What the machine refuses whatever the bytes are: no offence of a submission.
REFUSALS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})


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


@contextlib.contextmanager
def made_aside(folder: Path) -> Iterator[Path]:
    """A new folder in ``folder`` to make files in and move them from; what is left in it goes when the block ends.

    Such folders of programs that were killed are removed first: a living one holds a lock on its own. Raises OSError
    where ``folder`` can't be written.
    """
    for left in folder.glob(f"{ASIDE}*"):
        with contextlib.suppress(OSError), _locked(left):
            shutil.rmtree(left, ignore_errors=True)
    made = Path(tempfile.mkdtemp(dir=folder, prefix=ASIDE))
    try:
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):  # a file system without locks: no other program can take it either
                stack.enter_context(_locked(made))
            yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``, which ends with this program; OSError where another holds it or it is a link."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex characters."""
    with path.open("rb") as source:
        return hashlib.file_digest(source, "sha256").hexdigest()
