"""Named mutations: each changes one thing in a good submission, so that one rule fires, and no other."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from protocol.findings import Outcome
from protocol.types import Kind
from tests.builders import Draft, good_submission

Change = Callable[[Draft], None]
Base = Callable[[Kind], Draft]


@dataclass(frozen=True)
class Mutation:
    """A change to a good submission that makes ``rule`` say ``outcome``.

    ``base`` makes the good submission, on which the rule says ``good``; ``pack`` turns the written folder into the path
    that is checked. ``disk`` has the decoding process run for real, with files of at most that many bytes.
    """

    rule: str
    name: str
    kind: Kind
    change: Change
    base: Base
    outcome: Outcome
    good: Outcome
    pack: Callable[[Path], Path]
    disk: int | None

    @property
    def key(self) -> str:
        """Rule and name: the key of the pinned message."""
        return f"{self.rule} {self.name}"


MUTATIONS: dict[str, Mutation] = {}


def as_folder(folder: Path) -> Path:
    """The folder as it was written."""
    return folder


def mutates(
    rule: str,
    kind: Kind = "binary",
    *,
    base: Base = good_submission,
    outcome: Outcome = Outcome.FAILED,
    good: Outcome = Outcome.PASSED,
    pack: Callable[[Path], Path] = as_folder,
    disk: int | None = None,
) -> Callable[[Change], Change]:
    """Register the decorated function under its name as a mutation for ``rule``."""

    def register(change: Change) -> Change:
        mutation = Mutation(rule, change.__name__, kind, change, base, outcome, good, pack, disk)
        assert mutation.key not in MUTATIONS, mutation.key
        MUTATIONS[mutation.key] = mutation
        return change

    return register


def all_mutations() -> dict[str, Mutation]:
    """Every mutation by its key, in order."""
    for module in ("tables", *(f"stage{stage}" for stage in range(8))):
        importlib.import_module(f"tests.mutations.{module}")
    return dict(sorted(MUTATIONS.items()))
