"""Released label files and lists, where they are on this machine; nothing of them is part of the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(os.environ.get("MVC_REAL_DATA") or Path(__file__).resolve().parents[4] / "shared" / "real")


def released(repository: str, path: str) -> Path:
    """What OWNER+REPOSITORY has there in MVC_REAL_DATA (else shared/real beside the checkout); skips where absent."""
    found = ROOT / repository / path
    if not found.exists():
        pytest.skip(f"no released {path} of {repository} in {ROOT}")
    return found
