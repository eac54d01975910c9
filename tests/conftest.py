"""What several tests share: verdicts on good submissions, made once."""

import os
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings

from protocol.findings import Verdict
from protocol.types import Kind
from tests.builders import write
from tests.mutations.registry import Base
from tests.referee import quick_check

# What is made once a machine is made once for all workers, and not in the home of whoever tests.
os.environ.setdefault("MVC_CACHE", str(Path(tempfile.gettempdir(), f"mvc-tests-{os.getuid()}")))
os.environ["COLUMNS"] = "110"  # what is read back must not be wrapped by the terminal at hand
# A busy machine is no failure; a gate tries the same examples each time, make test elsewhere looks for new ones.
settings.register_profile("kit", deadline=None, derandomize=bool(os.environ.get("MVC_GATE")))
settings.load_profile("kit")


@pytest.fixture(scope="session")
def good_verdict(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Base, Kind], Verdict]:
    """The verdict on an unchanged submission, by what makes it and its kind."""

    @cache
    def verdict(base: Base, kind: Kind) -> Verdict:
        folder: Path = tmp_path_factory.mktemp("good") / "bundle"
        return quick_check(write(base(kind), folder))

    return verdict
