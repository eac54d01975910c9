"""The folder of a run: one run at a time, of one set of inputs, and nothing that is finished gets lost."""

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from protocol.canonical import digest_of
from protocol.findings import plain
from submission.baseline.errors import BaselineError
from submission.bundle import LOCK_FILE as DECLARATION
from submission.bundle import RECORD_FILE
from submission.files import ASIDE, sha256_file, write_atomic

RUN_FILE, LOCK_FILE, BUNDLE, SEEDS, VIEWS = "run.json", ".lock", "bundle", "seeds", "views"
SHOWN = 3  # keys of a configuration that are named
WRITTEN = "bundle.json"  # digests of the bundle as the run wrote it


@contextlib.contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Hold ``out`` for this process; BaselineError while another run has it, and where it can't be a folder."""
    if out.exists() and not out.is_dir():
        raise BaselineError(f"--out {out} is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    with (out / LOCK_FILE).open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BaselineError(f"another run is at work in {out}; wait for it, or name another folder") from None
        except OSError:
            pass  # a file system without locks: nobody can be asked
        yield


def claim(out: Path, inputs: Mapping[str, str], force: bool, cache: Path | None = None) -> str:
    """Make ``out`` the folder of a run of ``inputs`` and give their digest.

    Raises BaselineError where it holds another run that has come to something (``force`` removes that), and where it
    holds files but no run: those are never touched. ``cache`` may lie in it.
    """
    path = out / RUN_FILE
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if strange := _strange(out, cache):
            raise BaselineError(f"{out} holds files of something else, such as {strange}; name a new folder") from None
        before = None
    except (OSError, ValueError, RecursionError):
        before = {}
    if before is not None and before != inputs and (_any(out / SEEDS) or os.path.lexists(out / BUNDLE)):
        said = before if isinstance(before, dict) else {}
        if not force:
            raise BaselineError(_other(out, said, inputs))
        shutil.rmtree(out / SEEDS, ignore_errors=True)
        if (out / BUNDLE).is_dir() and not (out / BUNDLE).is_symlink():
            shutil.rmtree(out / BUNDLE, ignore_errors=True)
    if before != inputs:
        note(out, inputs)
    return digest_of(dict(inputs))


def note(out: Path, inputs: Mapping[str, str]) -> None:
    """Write down that ``out`` is of ``inputs``: what was made of others there counts for nothing from now on."""
    write_atomic(out / RUN_FILE, json.dumps(dict(inputs), indent=2).encode() + b"\n")


def _strange(out: Path, cache: Path | None) -> str:
    """The name of something in ``out`` that no run put there; what a killed run can leave is not strange."""
    ours = {LOCK_FILE, VIEWS}
    if cache is not None and cache.resolve().is_relative_to(out.resolve()) and cache.resolve() != out.resolve():
        ours.add(cache.resolve().relative_to(out.resolve()).parts[0])
    names = sorted(path.name for path in out.iterdir())
    left = (f".{RUN_FILE}.", ASIDE)
    return next((name for name in names if name not in ours and not name.startswith(left)), "")


def _any(folder: Path) -> bool:
    """Whether a file lies below ``folder``."""
    return any(names for _, _, names in os.walk(folder))


def _other(out: Path, before: Mapping[str, str], inputs: Mapping[str, str]) -> str:
    changed = [name for name in inputs if before.get(name) != inputs[name]] or ["version of the kit"]
    if "draws" in changed and "images" in changed:
        changed.remove("images")  # others are used because others were drawn
    if "configuration" in changed:
        changed[changed.index("configuration")] = _keys(before.get("configuration"), inputs["configuration"])
    machine = ""
    if "processor" in changed and "processor" in before:
        machine = f"; it ran on {before['processor']}, this one on {inputs['processor']}: see --device and --threads"
    return (
        f"{out} holds a run with other inputs ({', '.join(changed)}); name a new folder, or give --force to remove "
        f"that run{machine}"
    )


def _keys(before: str | None, now: str) -> str:
    """The keys of two configurations that differ: ``configuration: loss.name ce, now mcm``."""
    try:
        old, new = _flat(json.loads(before or "")), _flat(json.loads(now))
    except (ValueError, AttributeError, RecursionError):
        return "configuration"
    differ = [
        f"{key} {old.get(key)}, now {new.get(key)}" for key in sorted({**old, **new}) if old.get(key) != new.get(key)
    ]
    more = f" and {len(differ) - SHOWN} more" if len(differ) > SHOWN else ""
    return f"configuration: {'; '.join(plain(one, 80) for one in differ[:SHOWN])}{more}"


def _flat(document: Mapping[str, Any], start: str = "") -> dict[str, Any]:
    """The values of a nested document by keys with dots."""
    found: dict[str, Any] = {}
    for key, value in document.items():
        found |= _flat(value, f"{start}{key}.") if isinstance(value, dict) else {f"{start}{key}": value}
    return found


def put(out: Path, made: Path) -> tuple[str, ...]:
    """Make the new bundle ``made`` that of ``out``; gives notes.

    A bundle that was changed since a run wrote it (filled in, submitted) is not lost: it stays where nothing new is to
    be written, else it is kept beside under another name. So is one of another record: its dated declaration may be
    with a host.
    """
    bundle, written = out / BUNDLE, out / WRITTEN
    new, now = _digests(made), _digests(bundle) if bundle.is_dir() and not bundle.is_symlink() else None
    try:
        before = json.loads(written.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        before = None
    notes: tuple[str, ...] = ()
    if os.path.lexists(bundle) and now != new:
        if before == new and now is not None:
            return (f"{bundle} was changed since it was written; nothing else is new, so it stays as it is",)
        untouched = now is not None and now == before
        if now is not None and untouched and now.get(RECORD_FILE) == new.get(RECORD_FILE):
            os.replace(bundle, made.parent / "before")
        else:
            kept = next(path for path in (out / f"{BUNDLE}-{n}" for n in range(1, 10**6)) if not os.path.lexists(path))
            os.rename(bundle, kept)
            why = f"is declared with another {RECORD_FILE}" if untouched else "was changed since it was written"
            notes = (f"{bundle} {why}; it is kept as {kept}",)
    if now != new:
        os.replace(made, bundle)
    if before != new:
        write_atomic(written, json.dumps(new, indent=2).encode() + b"\n")
    return notes


def _digests(folder: Path) -> dict[str, str]:
    """SHA-256 by name of the files below ``folder``, but of its lock, which holds a time."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != DECLARATION)
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in files}
