"""A folder for tables that take a second to make and never change, so that they are made once a machine."""

import contextlib
import os
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = "MVC_CACHE"


def folder() -> Path | None:
    """MVC_CACHE, else ``mvc-kit`` in the user's cache folder; None where the user has no home."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER]) if os.environ[FOLDER] else None
    caches = os.environ.get("XDG_CACHE_HOME")
    home = os.environ.get("HOME")  # never asked of the system, which may open a socket for it
    if caches:
        return Path(caches) / "mvc-kit"
    return Path(home) / ".cache" / "mvc-kit" if home else None


def read(name: str) -> NDArray[np.uint64] | None:
    """The table ``name``, mapped into memory; None where it is not kept. Nobody vouches for its content."""
    place = folder()
    if place is None:
        return None
    try:
        table = np.load(place / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    except Exception:  # numpy parses the header as Python: damaged bytes raise what they like
        return None
    return table if isinstance(table, np.ndarray) and table.dtype == np.uint64 else None


def keep(name: str, table: NDArray[np.uint64]) -> None:
    """Keep ``table``, whole or not at all; where nothing can be written, it is made again the next time."""
    place = folder()
    if place is None:
        return
    with contextlib.suppress(OSError):
        place.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=place, prefix=f".{name}.")
        try:
            with os.fdopen(handle, "wb") as sink:
                np.save(sink, table, allow_pickle=False)
            os.replace(temporary, place / f"{name}.npy")
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
