"""Released label files, where they are on this machine; nothing of them is part of the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("MVC_REAL_DATA") or Path(__file__).resolve().parents[4] / "shared" / "real")


def released(repository: str, path: str) -> Path:
    """The file of OWNER+REPOSITORY below MVC_REAL_DATA (else shared/real beside the checkout); skips where absent."""
    file = ROOT / repository / path
    if not file.is_file():
        pytest.skip(f"no released {path} of {repository} in {ROOT}")
    return file
