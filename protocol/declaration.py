"""``declaration.lock``: what was fixed in advance, hashed and dated."""

from typing import Any

from protocol import EDITION
from protocol.canonical import digest_of
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import Record, Sha256, Text


class Declaration(Record):
    """The frozen declaration: digests of task and splits, and the declared sections of the record."""

    edition: Text
    submission_id: Text
    declared_at: Text
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
        "declared_at": declared_at,
        "task_sha256": task.digest,
        "splits_sha256": splits_sha256,
        "declared": record.declared,
    }
    return Declaration(**content, digest=digest_of(content))


def changed_sections(lock: Declaration, task: Task, record: Submission, splits_sha256: str | None) -> tuple[str, ...]:
    """Names of the declared parts that differ between ``lock`` and what was submitted."""
    changed = [name for name, now in record.declared.items() if lock.declared.get(name) != now]
    changed += [name for name in lock.declared if name not in record.declared]
    if lock.task_sha256 != task.digest:
        changed.append("task")
    if splits_sha256 is not None and lock.splits_sha256 != splits_sha256:
        changed.append("splits file")
    if lock.submission_id != record.submission_id:
        changed.append("submission_id")
    if lock.digest != lock.recomputed_digest:
        changed.append("the lock itself")
    return tuple(changed)
