"""What ``mvc init`` and ``mvc declare`` write."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import yaml

from protocol.declaration import Declaration
from protocol.types import Kind
from submission.bundle import LOCK_FILE, RECORD_FILE, TASK_FILE, open_bundle
from submission.example import CLASSES, NAME, example
from submission.writing import make_lock, record_from, task_from, write_bundle, write_lock


class SkeletonError(ValueError):
    """An example can't be made as asked; ``about`` names the argument: folder, kind or classes."""

    def __init__(self, about: str, text: str) -> None:
        super().__init__(text)
        self.about = about


def write_skeleton(folder: Path, kind: str, classes: Sequence[str] | None = None) -> list[str]:
    """Write a declared example bundle for a task of ``kind`` into ``folder`` (new or empty); the names of its files.

    Raises SkeletonError for an unknown kind, class names that do not fit it, or a folder that is not empty.
    """
    if kind not in CLASSES:
        raise SkeletonError("kind", f"unknown kind of task {kind}; choose one of {', '.join(CLASSES)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise SkeletonError("folder", f"{folder} exists and is not an empty folder")
    try:
        task_from({"edition": "", "name": "check", "kind": kind, "classes": list(classes or CLASSES[kind])})
    except ValueError as error:
        said = str(error).rpartition(", wanted ")[2]
        raise SkeletonError("classes", f"classes {', '.join(classes or ())}: {said}") from None
    parts = example(cast(Kind, kind), classes)
    task_from(parts.task)
    record_from(parts.record)
    folder.mkdir(parents=True, exist_ok=True)
    write_bundle(folder, parts)
    declare_folder(folder)
    return sorted(path.name for path in folder.iterdir())


def placeholders(folder: Path) -> dict[str, list[str]]:
    """The texts of the example that still stand in the records of ``folder``: their keys, by file."""
    return {
        name: list(_examples_texts(yaml.safe_load((folder / name).read_text(encoding="utf-8"))))
        for name in (TASK_FILE, RECORD_FILE)
    }


def _examples_texts(document: Mapping[str, Any], start: str = "") -> Iterator[str]:
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _examples_texts(value, f"{start}{key}.")
        elif str(value).startswith(("EXAMPLE", "example-", "https://example.org")):
            yield f"{start}{key}"


def declare_folder(folder: Path, *, force: bool = False) -> tuple[Path, Declaration]:
    """Freeze the declaration of the bundle in ``folder``, dated now.

    Raises ValueError when the folder or its records can't be read, or when a declaration is there already and
    ``force`` is false: a plan that changes is declared anew on purpose, not by accident. The example's own lock is no
    declaration of anybody's and gives way. OSError where the folder can't be written.
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is no folder")
    with tempfile.TemporaryDirectory(prefix="mvc-") as scratch:
        bundle = open_bundle(folder, Path(scratch))
        if (folder / LOCK_FILE).exists() and not force and not _is_examples(bundle.lock):
            made = f", made {bundle.lock.declared_at}" if bundle.lock else ""
            raise ValueError(f"a declaration exists{made}; --force replaces it by a new one, dated now")
        lock = make_lock(bundle, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    return write_lock(folder, lock), lock


def _is_examples(lock: Declaration | None) -> bool:
    return lock is not None and lock.submission_id == NAME and lock.team.startswith("EXAMPLE")
