"""``declaration.lock``: what was fixed in advance, hashed and dated."""

import unicodedata
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import StringConstraints

from protocol import EDITION
from protocol.canonical import canonical_json, digest_of
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import Record, Sha256, Text

Moment = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$")]


class Declaration(Record):
    """The frozen declaration: digests of task and splits, and the declared sections of the record."""

    edition: Text
    submission_id: Text
    team: Text
    declared_at: Moment
    task_sha256: Sha256
    splits_sha256: Sha256
    declared: dict[str, Any]
    digest: Sha256

    @property
    def recomputed_digest(self) -> str:
        """SHA-256 of everything but ``digest`` itself."""
        return digest_of(self.model_dump(mode="json", exclude={"digest"}))


def declare(task: Task, record: Submission, splits_sha256: str, declared_at: str) -> Declaration:
    """Freeze ``record`` (``declared_at``: UTC time, ISO 8601) into a declaration."""
    content: dict[str, Any] = {
        "edition": EDITION,
        "submission_id": record.submission_id,
        "team": record.team,
        "declared_at": declared_at,
        "task_sha256": task.digest,
        "splits_sha256": splits_sha256,
        "declared": record.declared,
    }
    return Declaration(**content, digest=digest_of(content))


def team_key(team: str) -> str:
    """The form in which names of teams are compared: NFKC, without case and invisible characters, blanks collapsed."""
    # folding can undo the normal form, so it is made again
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", team).casefold())
    seen = "".join(c for c in folded if c.isspace() or unicodedata.category(c) not in ("Cc", "Cf"))
    return " ".join(unicodedata.normalize("NFKC", seen).split())


def _differences(then: Any, now: Any, where: str) -> Iterator[str]:
    """Paths at which two declared documents differ, with both values where they are short."""
    if isinstance(then, dict) and isinstance(now, dict):
        for name in [*then, *(key for key in now if key not in then)]:
            yield from _differences(then.get(name), now.get(name), f"{where}.{name}" if where else name)
    elif then != now:
        values = (canonical_json(then).decode(), canonical_json(now).decode())
        yield f"{where}: {values[0]} -> {values[1]}" if max(map(len, values)) <= 40 else where


def changed_sections(lock: Declaration, task: Task, record: Submission, splits_sha256: str | None) -> tuple[str, ...]:
    """The declared parts that differ between ``lock`` and what was submitted, by path."""
    changed = list(_differences(lock.declared, record.declared, ""))
    if lock.task_sha256 != task.digest:
        changed.append("task")
    if splits_sha256 is not None and lock.splits_sha256 != splits_sha256:
        changed.append("splits file")
    if lock.edition != EDITION:
        changed.append("edition")
    if lock.submission_id != record.submission_id:
        changed.append("submission_id")
    if team_key(lock.team) != team_key(record.team):
        changed.append("team")
    if lock.digest != lock.recomputed_digest:
        changed.append("the lock itself")
    return tuple(changed)
