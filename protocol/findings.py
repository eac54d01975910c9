"""Findings, outcomes and the verdict: what a run of the rules says."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

MAX_SAMPLES = 10
ESCAPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 patient``, ``2 patients``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


class Level(StrEnum):
    """How much a rule weighs."""

    MUST = "must"
    WAIVABLE = "waivable"
    NOTE = "note"
    HOST = "host"


REJECTING = (Level.MUST, Level.WAIVABLE)


class Outcome(StrEnum):
    """What became of a rule; only ``passed`` is a pass."""

    PASSED = "passed"
    FAILED = "failed"
    WAIVED = "waived"
    NOT_APPLICABLE = "not-applicable"
    UNVERIFIED = "unverified"
    SKIPPED = "skipped"
    CRASHED = "crashed"


class Status(StrEnum):
    """The verdict on a submission."""

    ACCEPTED = "accepted"
    ACCEPTED_WITH_WAIVERS = "accepted with waivers"
    REJECTED = "rejected"
    UNDETERMINED = "undetermined"


def plain(text: object, limit: int = 200) -> str:
    """Text that is safe to print in one line: control, bidirectional and line characters escaped, cut at ``limit``."""
    shown = "".join(
        char.encode("unicode_escape").decode() if unicodedata.category(char) in ESCAPED else char for char in str(text)
    )
    return shown if len(shown) <= limit else shown[: limit - 1] + "…"


@dataclass(frozen=True)
class Finding:
    """One offence: where it lies, what was seen and what was wanted.

    ``count`` is the full number of offending rows or parts; ``samples`` holds at most ten of them.
    ``note`` marks a finding that informs and never fails its rule.
    """

    where: str
    saw: str
    wanted: str
    count: int = 1
    samples: tuple[str, ...] = ()
    note: bool = False

    def __post_init__(self) -> None:
        for name in ("where", "saw", "wanted"):
            object.__setattr__(self, name, plain(getattr(self, name), 400))
        object.__setattr__(self, "samples", tuple(plain(sample) for sample in self.samples[:MAX_SAMPLES]))
        if self.samples:  # which have the identifiers in full
            object.__setattr__(self, "saw", re.sub(r"\b([0-9a-f]{12})[0-9a-f]{52}\b", r"\1…", self.saw))


@dataclass(frozen=True)
class NotApplicable:
    """A rule has nothing to say here, and why."""

    reason: str


@dataclass(frozen=True)
class Unverified:
    """A rule can't be checked from what was released, and why."""

    reason: str


@dataclass(frozen=True)
class RuleResult:
    """The outcome of one rule with all that is needed to print it."""

    rule: str
    slug: str
    stage: int
    level: Level
    title: str
    mend: str
    outcome: Outcome
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    visibility: str = "participant"

    @property
    def docs(self) -> str:
        """Anchor of the rule in PROTOCOL.md."""
        return f"PROTOCOL.md#{self.rule.lower()}"


@dataclass(frozen=True)
class Verdict:
    """All results of one run; status, exit code and last line derive from them and from nothing else.

    ``calibrators`` maps each declared method other than none to '' where it was verified, else to why it was not; it
    is empty where none was looked at.
    """

    edition: str
    submission: str
    task: str
    results: tuple[RuleResult, ...]
    notes: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict)
    calibrators: Mapping[str, str] = field(default_factory=dict)

    def of(self, outcome: Outcome) -> tuple[RuleResult, ...]:
        """Results with ``outcome``."""
        return tuple(result for result in self.results if result.outcome is outcome)

    @property
    def rejecting(self) -> tuple[RuleResult, ...]:
        """Failed rules that reject: every ``must`` and every unwaived ``waivable``."""
        return tuple(r for r in self.of(Outcome.FAILED) if r.level in REJECTING)

    @property
    def status(self) -> Status:
        """Rejected before undetermined before accepted: the participant's offences count even if a rule crashed."""
        if self.rejecting:
            return Status.REJECTED
        if self.of(Outcome.CRASHED) or any(r.level in REJECTING for r in self.of(Outcome.SKIPPED)):
            return Status.UNDETERMINED  # what was not looked at is no pass
        return Status.ACCEPTED_WITH_WAIVERS if self.of(Outcome.WAIVED) else Status.ACCEPTED

    @property
    def accepted(self) -> bool:
        """True for both kinds of acceptance."""
        return self.status in (Status.ACCEPTED, Status.ACCEPTED_WITH_WAIVERS)

    @property
    def exit_code(self) -> int:
        """0 accepted, 1 rejected, 3 undetermined through a fault of ours."""
        if self.accepted:
            return 0
        return 1 if self.status is Status.REJECTED else 3

    @property
    def last_line(self) -> str:
        """One line that says it all; it is the last one printed."""
        if self.status is Status.REJECTED:
            first = self.rejecting[0]
            more = f"; +{len(self.rejecting) - 1} more" if len(self.rejecting) > 1 else ""
            where = f"{first.findings[0].where}: {first.findings[0].saw}"
            return f"MVC REJECTED {first.rule} {first.slug}: {where}; mend: {first.mend}{more}"
        if self.status is Status.UNDETERMINED:
            open_ = ", ".join(r.rule for r in self.of(Outcome.CRASHED) or self.of(Outcome.SKIPPED))
            return f"MVC UNDETERMINED rules of ours did not run ({open_}); this is not the submission's fault"
        waived = ", ".join(r.rule for r in self.of(Outcome.WAIVED))
        tail = f" with waivers {waived}" if waived else ""
        return f"MVC ACCEPTED {self.submission or 'submission'}{tail}"

    def __str__(self) -> str:
        return self.last_line

    def __repr__(self) -> str:
        return f"<Verdict {self.last_line}>"

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready form."""
        return {
            "edition": self.edition,
            "submission": self.submission,
            "task": self.task,
            "status": self.status.value,
            "exit_code": self.exit_code,
            "last_line": self.last_line,
            "notes": list(self.notes),
            "digests": dict(sorted(self.digests.items())),
            "calibrators": dict(sorted(self.calibrators.items())),
            "rules": [{**_jsonable(asdict(result)), "docs": result.docs} for result in self.results],
        }


def _jsonable(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, dict):
        return {key: _jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(item) for item in value]
    return value
