"""The quick toy world, made once a session for all test files and workers that want it."""

import fcntl
import os
import pickle
from pathlib import Path

import pytest

from submission.baseline.toy import Toy, make_toy


def quick_toy(factory: pytest.TempPathFactory) -> Toy:
    """It lies in the session's temporary folder; the first caller makes it (some 25 s), others wait for it."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    with (shared / "toy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        note = shared / "toy.made"
        if note.exists():
            toy: Toy = pickle.loads(note.read_bytes())  # written by this session
            return toy
        toy = make_toy(Path(shared, "toy"), quick=True)
        note.write_bytes(pickle.dumps(toy))
        return toy
