"""What ``mvc init`` and ``mvc declare`` write."""

import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

from protocol.declaration import Declaration
from protocol.types import Kind
from submission.bundle import LOCK_FILE, open_bundle
from submission.example import CLASSES, HOW, example
from submission.writing import make_lock, record_from, task_from, write_bundle, write_lock


def write_skeleton(folder: Path, kind: str, classes: Sequence[str] | None = None) -> list[str]:
    """Write a declared example bundle for a task of ``kind`` into ``folder`` (new or empty); the names of its files.

    Raises ValueError for an unknown kind, class names that do not fit it, or a folder that is not empty.
    """
    if kind not in CLASSES:
        raise ValueError(f"unknown kind of task {kind}; choose one of {', '.join(CLASSES)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists and is not an empty folder")
    try:
        task_from({"edition": "", "name": "check", "kind": kind, "classes": list(classes or CLASSES[kind])})
    except ValueError as error:
        raise ValueError(f"classes {', '.join(classes or ())}: {str(error).rpartition(', wanted ')[2]}") from None
    parts = example(cast(Kind, kind), classes)
    task_from(parts.task)
    record_from(parts.record)
    folder.mkdir(parents=True, exist_ok=True)
    write_bundle(folder, parts)
    declare_folder(folder)
    return sorted(path.name for path in folder.iterdir())


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
    splits = lock.declared.get("splits") if lock is not None else None
    return isinstance(splits, dict) and splits.get("how") == HOW
