"""Digests of image files, remembered for as long as the file system says that a file is the same."""

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from submission.baseline.errors import BaselineError
from submission.files import sha256_file, write_atomic

REMEMBERED = "contents.json"
TICK = 50_000_000  # ns; clocks of file systems are coarser than the marks look
Mark = tuple[int, int, int, int]  # size, times of change of content and of entry (ns), number on its disk


class Contents:
    """SHA-256 of files, kept in ``folder`` so that the next run need not read them again."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._path, self._threads = folder / REMEMBERED, threads
        self._known: dict[str, tuple[Mark, str]] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            for path, (mark, digest) in json.loads(self._path.read_text(encoding="utf-8")).items():
                self._known[str(path)] = (tuple(mark), str(digest))

    def of(self, paths: Iterable[Path]) -> dict[Path, str]:
        """The digest of each file. BaselineError where one can't be read."""
        found: dict[Path, str] = {}
        fresh: dict[Path, Mark] = {}
        now = time.time_ns()
        for path in dict.fromkeys(paths):
            mark = _mark(path)
            before = self._known.get(os.fspath(path.absolute()))
            if before is not None and before[0] == mark:
                found[path] = before[1]
            else:
                fresh[path] = mark
        if fresh:
            with ThreadPoolExecutor(self._threads) as pool:
                found.update(zip(fresh, pool.map(_digest, fresh), strict=True))
            # what changes twice within a tick has the same mark: such a file is read again the next time
            old = {path: mark for path, mark in fresh.items() if abs(now - mark[2]) > TICK}
            self._known |= {os.fspath(path.absolute()): (mark, found[path]) for path, mark in old.items()}
            if not old:
                return found
            with contextlib.suppress(OSError, UnicodeEncodeError):  # the next run reads the files again, no more
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(self._path, json.dumps(self._known).encode())
        return found


def _mark(path: Path) -> Mark:
    try:
        seen = path.stat()
    except OSError as error:
        raise BaselineError(f"{path} can't be read ({error.strerror}); put the image there again") from None
    if not stat.S_ISREG(seen.st_mode):
        raise BaselineError(f"{path} is no regular file; put the image there")
    return seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns, seen.st_ino


def _digest(path: Path) -> str:
    try:
        return sha256_file(path)
    except OSError as error:
        raise BaselineError(f"{path} can't be read ({error.strerror}); give yourself the right to read it") from None
