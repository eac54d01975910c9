"""What the parts of an audit hand on: findings, and the error for what can't be used."""

from dataclasses import dataclass
from enum import StrEnum

from protocol.findings import plain

MAX_SAMPLES = 10


class AuditError(ValueError):
    """A file, a column or an option that can't be used: what was seen and the mend, in words."""


class Level(StrEnum):
    """How much a finding weighs, heaviest first."""

    CONTRADICTION = "contradiction"  # can't be, by definition or by arithmetic
    WARNING = "warning"
    NOTE = "note"


ORDER = tuple(Level)


@dataclass(frozen=True)
class Finding:
    """One thing that an audit saw, in words for a terminal: all text is escaped.

    ``code`` is a stable slug, ``rule`` the id of a rule of the protocol that it bears on. ``assumption`` is what the
    test takes for granted, ``chance`` how often it would fire by chance, ``explanation`` what could explain it; ''
    where there is nothing to say. ``count`` is the full number, ``samples`` at most ten.
    """

    level: Level
    code: str
    title: str
    count: int = 1
    samples: tuple[str, ...] = ()
    rule: str = ""
    assumption: str = ""
    chance: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "assumption", "chance", "explanation"):
            object.__setattr__(self, name, plain(getattr(self, name), 700))
        object.__setattr__(self, "samples", tuple(plain(one, 300) for one in self.samples[:MAX_SAMPLES]))
