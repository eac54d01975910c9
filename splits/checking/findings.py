"""What a check of splits says: findings by weight, and the one verdict that last line and exit code come from."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from protocol.findings import plain

MAX_SAMPLES = 5


class Level(StrEnum):
    """How much a finding weighs, heaviest first."""

    LEAK = "leak"
    COLLISION = "collision"
    WARNING = "warning"
    NOTE = "note"


ORDER = tuple(Level)


@dataclass(frozen=True)
class Finding:
    """One thing that was seen, in words for a terminal: all text is escaped.

    ``code`` is a stable slug. ``count`` is the full number (of names, groups, rows: the title says of what);
    ``share`` the part in [0, 1] of the images of the evaluated split, or None; ``samples`` at most five. ``groups`` has
    every group of copies or near duplicates: split ('' where none is known) -> images.
    """

    level: Level
    code: str
    title: str
    splits: tuple[str, ...] = ()
    count: int = 1
    share: float | None = None
    samples: tuple[str, ...] = ()
    mend: str = ""
    groups: tuple[Mapping[str, tuple[str, ...]], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "title", plain(self.title, 500))
        object.__setattr__(self, "mend", plain(self.mend, 400))
        object.__setattr__(self, "splits", tuple(plain(name) for name in self.splits))
        object.__setattr__(self, "groups", tuple(_safe(group) for group in self.groups))
        object.__setattr__(self, "samples", tuple(plain(sample, 120) for sample in self.samples[:MAX_SAMPLES]))


def _plain(finding: Finding) -> dict[str, Any]:
    said = {**asdict(finding), "level": finding.level.value}
    return {name: value for name, value in said.items() if value or name != "groups"}


def _safe(group: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """``group`` with escaped text; what can be printed as it is, as most names can, is not looked through again."""
    return {
        plain(split): tuple(name if name.isprintable() else plain(name, 400) for name in images)
        for split, images in group.items()
    }


@dataclass(frozen=True)
class Source:
    """How one file was understood: its form, and which column was taken for what."""

    file: str
    rows: int
    form: str
    columns: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """The outcome of a check: what was read, the size of each split, what was compared, what was found.

    ``unknown`` says of how many rows no patient is known; '' where all are.
    """

    sources: tuple[Source, ...]
    splits: Mapping[str, int]
    runs: int
    compared: tuple[str, ...]
    findings: tuple[Finding, ...]
    unknown: str = ""

    def of(self, level: Level) -> tuple[Finding, ...]:
        """The findings of one level."""
        return tuple(finding for finding in self.findings if finding.level is level)

    @property
    def leaks(self) -> tuple[Finding, ...]:
        """The findings for which the check fails."""
        return self.of(Level.LEAK)

    @property
    def exit_code(self) -> int:
        """1 where a leak was found, else 0."""
        return 1 if self.leaks else 0

    @property
    def verdict(self) -> str:
        """'leak', 'undecided' where names or ids collide and somebody has to look, or 'clean'."""
        if self.leaks:
            return "leak"
        return "undecided" if self.of(Level.COLLISION) else "clean"

    @property
    def last_line(self) -> str:
        """The verdict in one line; without patients it says how far it goes."""
        counts = {level: len(self.of(level)) for level in ORDER}
        seen = ", ".join(_counted(count, level.value) for level, count in counts.items() if count)
        said = f"MVC SPLITS {self.verdict.upper()}"
        if not self.splits:
            return f"{said} no splits to compare: {seen or 'nothing found'}"
        runs = f" in {self.runs:,} runs" if self.runs > 1 else ""
        where = f"{_counted(len(self.splits), 'split')}{runs}, {_counted(sum(self.splits.values()), 'row')}"
        if self.verdict == "clean" and self.unknown:
            seen = f"; {seen}" if seen else ""
            return (
                f"{said} of what was compared: {', '.join(self.compared) or 'nothing'}; {self.unknown}{seen}; {where}"
            )
        if self.verdict == "undecided":
            where = f"{self.unknown}; {where}" if self.unknown else where
            looked = f"{_counted(counts[Level.COLLISION], 'collision')} to look at"
            rest = [_counted(counts[level], level.value) for level in ORDER[2:] if counts[level]]
            seen = ", ".join([looked, *rest])
        return f"{said} {seen or 'nothing found'}; {where}"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for one JSON document."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "last_line": self.last_line,
            "sources": [{**asdict(source), "columns": dict(source.columns)} for source in self.sources],
            "splits": dict(self.splits),
            "runs": self.runs,
            "compared": list(self.compared),
            "findings": [_plain(finding) for finding in self.findings],
        }


def in_order(findings: list[Finding]) -> tuple[Finding, ...]:
    """Heaviest first; within a level as they were found."""
    return tuple(sorted(findings, key=lambda finding: ORDER.index(finding.level)))


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun if count == 1 else noun + 's'}"
