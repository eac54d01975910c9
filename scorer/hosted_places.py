"""Where hosted scoring reads and writes: the submission among what a platform puts beside it, the output, the log."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator, Set
from pathlib import Path

from protocol.findings import plain
from scorer.host_task import HostError
from scorer.machine import MemoryLimitError, memory
from submission.bundle import PREDICTIONS_FILES
from submission.carrier import is_carrier

log = logging.getLogger("mvc")

LOG_FILE = "host.log"


def find_bundle(place: Path, sidecars: Set[str] = frozenset()) -> tuple[Path, tuple[str, ...]]:
    """Where the bundle lies: ``place``, or the one zip, folder or packed CSV in it; with a note where that is said.

    Hidden files and ``sidecars``, which a platform puts beside a submission, are looked through. Raises HostError where
    the folder or a file in it can't be read: who mounted it chose the user, and the participant did not.
    """
    try:
        inside = list(place.iterdir()) if place.is_dir() else [place]
        closed = [path for path in (place, *inside) if not readable(path) and (path == place or not path.is_symlink())]
    except OSError as error:
        raise HostError(f"{plain(place)} can't be read ({error.strerror}) {as_user()}") from None
    if closed:
        raise HostError(f"{plain(closed[0])} can't be read {as_user()}")
    if inside == [place]:
        return place, ()
    inside = [path for path in inside if not path.name.startswith((".", "__MACOSX"))]
    inside = [path for path in inside if path.name not in sidecars]
    if len(inside) == 1 and not inside[0].is_symlink():
        only = inside[0]
        if only.is_dir():
            return only, (f"the folder {plain(only.name)} that wraps the bundle was taken off",)
        if only.suffix.lower() == ".zip" or (only.name not in PREDICTIONS_FILES[:1] and is_carrier(only)):
            return only, ()
    return place, ()


def kept_apart(output: Path, bundle: Path, kept: dict[str, Path | None]) -> None:
    """HostError where ``output``, which participants see, holds what is ``kept`` from them or is their bundle."""
    wrong = [
        f"{option} {path} lies in {output}, which participants see; give --output another folder"
        for option, path in kept.items()
        if path is not None and lies_in(path, output)
    ]
    if bundle.resolve() == output.resolve():
        wrong.append(f"--output is --input: {output}; give --output another folder")
    if wrong:
        raise HostError(*wrong)


def lies_in(path: Path, folder: Path) -> bool:
    """True when ``path`` is ``folder`` or below it, links followed."""
    return path.resolve().is_relative_to(folder.resolve())


def emptied(folder: Path, names: tuple[str, ...]) -> None:
    """Make ``folder`` ready: what an earlier run left there would pass for this one's."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise HostError(f"{folder} can't be written ({error.strerror})") from None


@contextlib.contextmanager
def host_log(host: Path | None, on_stderr: bool = False) -> Iterator[None]:
    """Send the log to the host's folder; without one that can be written to standard error, where that is the host's.

    It is where ``on_stderr`` says so, and on a terminal; else the log goes nowhere.
    """
    shown = on_stderr or sys.stderr.isatty()
    handler: logging.Handler = logging.StreamHandler() if shown else logging.NullHandler()
    refused = ""
    if host is not None:
        try:
            if not host.is_dir():
                host.mkdir(mode=0o700, parents=True, exist_ok=True)
            with contextlib.suppress(PermissionError):  # mounted, and somebody else's: theirs to close
                host.chmod(0o700)
            handler = logging.FileHandler(host / LOG_FILE, encoding="utf-8")
        except OSError as error:
            refused = f"{host} can't be written ({error.strerror})"
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    propagated, log.propagate = log.propagate, False
    log.addHandler(handler)
    try:
        if refused:
            log.error("%s", refused)
            raise HostError(refused)
        yield
    except HostError as error:
        for problem in error.problems:
            log.error("%s", problem)
        raise
    finally:
        log.removeHandler(handler)
        handler.close()
        log.propagate = propagated


def readable(path: Path) -> bool:
    """True when this process may read ``path``, a file, a folder with what is in it, or something else again."""
    return os.access(path, os.R_OK | os.X_OK if path.is_dir() else os.R_OK)


def as_user() -> str:
    """Who can't use a place, and the mend."""
    return f"as user {os.geteuid()}; mend its mode, or give --user"


def enough_memory() -> None:
    """HostError where the machine or the container has too little memory for any submission."""
    try:
        memory()
    except MemoryLimitError as error:
        raise HostError(str(error)) from None


def usable(folder: Path) -> bool:
    """True when this process may make files in ``folder``."""
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)
