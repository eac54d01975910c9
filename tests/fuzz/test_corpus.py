"""What fuzzing started from and what it found: every input is handed to its target again."""

from pathlib import Path

import pytest

from tests.fuzz.run import CORPUS
from tests.fuzz.seeds import seeds
from tests.fuzz.targets import TARGETS

FILES = sorted(path for target in TARGETS for path in (CORPUS / target).iterdir())
MAX_BYTES = 300_000


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_promises_hold_for_the_corpus(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


def test_the_corpus_is_small_and_has_every_seed(tmp_path: Path) -> None:
    assert sum(path.stat().st_size for path in FILES) < MAX_BYTES
    assert {f"{target}/{name}" for target, name, _ in seeds(tmp_path)} <= {
        f"{path.parent.name}/{path.name}" for path in FILES
    }
