"""Zip archives: each table in one is read, nothing is written under a name that the archive chose."""

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import NoReturn

from scorer.audit.reading.forms import TABLES, TORCH
from scorer.audit.reading.source import FREE_BYTES, MAX_BYTES, MAX_RATIO, Source, copied
from scorer.audit.shapes import AuditError

MAX_MEMBERS = 2000
MAX_TABLES = 200
PACKED = (".zip", ".gz", ".tgz", ".tar", ".bz2", ".xz", ".7z", ".rar", ".zst")
DOCUMENTS = {"word/": "a Word document", "ppt/": "slides", "META-INF/": "a program or an OpenDocument file"}
DAMAGED = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError, KeyError)


def kind_of(source: Source) -> str:
    """``xlsx``, ``npz`` or ``zip``; AuditError for PyTorch files and documents."""
    names = [info.filename for info in _infos(source)]
    if "[Content_Types].xml" in names and any(name.startswith("xl/") for name in names):
        return "xlsx"
    if any(PurePosixPath(name).name == "data.pkl" for name in names):
        source.refuse(TORCH)
    for start, what in DOCUMENTS.items():
        if any(name.startswith(start) for name in names):
            source.refuse(f"is {what}, no table; save the table in it as CSV")
    if names and source.suffix != ".zip" and any(name.endswith(".npy") for name in names):
        return "npz"
    return "zip"


def members(source: Source, folder: Path) -> tuple[list[Source], list[str]]:
    """What may be tables, unpacked into ``folder`` under names of our own, and notes on the rest."""
    infos = [info for info in _infos(source) if not info.is_dir() and not _hidden(info.filename)]
    if not infos:
        source.refuse("the zip archive has no files in it")
    tables = [info for info in infos if _suffix(info.filename) in TABLES]
    rest = [info for info in infos if info not in tables]
    if not tables:
        tables, rest = infos, []
    if len(tables) > MAX_TABLES:
        source.refuse(f"the zip archive holds {len(tables)} tables, more than {MAX_TABLES}; name those that matter")
    nested = [info for info in tables if _suffix(info.filename) in PACKED]
    if nested:
        source.refuse(f"{nested[0].filename!r} is an archive in an archive; unpack the outer one")
    notes = [f"not read: {info.filename!r}, which is no table by its name" for info in rest[:5]]
    if len(rest) > 5:
        notes.append(f"not read: {len(rest) - 5} more files that are no tables by their names")
    found = []
    left = MAX_BYTES
    try:
        with zipfile.ZipFile(source.content) as packed:
            for place, info in enumerate(tables):
                target = folder / f"member_{place}"
                name = source.name if len(infos) == 1 else f"{source.name}: {info.filename}"
                own = replace(source, name=name)
                if info.flag_bits & 1:
                    own.refuse("is locked with a password; unpack it")
                with packed.open(info) as file:
                    digest = copied(file, target, info.compress_size, own)
                left -= target.stat().st_size
                if left < 0:
                    source.refuse(f"unpacks to more than {MAX_BYTES >> 30} GiB; unpack it yourself and split it")
                found.append(replace(own, content=target, file=PurePosixPath(info.filename).name, sha256=digest))
    except AuditError:
        raise
    except DAMAGED as error:
        _damaged(source, error)
    return found, notes


def bounded_sheet(source: Source) -> None:
    """AuditError for a workbook that unpacks to far more than its size."""
    total = sum(info.file_size for info in _infos(source))
    if total > MAX_BYTES or total > max(FREE_BYTES, MAX_RATIO * source.size()):
        source.refuse(f"the workbook unpacks to {total >> 20} MiB, far more than a sheet of its size; save it as CSV")


def _infos(source: Source) -> list[zipfile.ZipInfo]:
    try:
        with zipfile.ZipFile(source.content) as packed:
            infos = packed.infolist()
    except DAMAGED as error:
        _damaged(source, error)
    if len(infos) > MAX_MEMBERS:
        source.refuse(f"the archive has {len(infos)} members, more than {MAX_MEMBERS}; name the tables that matter")
    return infos


def _damaged(source: Source, error: Exception) -> NoReturn:
    source.refuse(f"a damaged or unusual zip archive ({str(error)[:200]}); unpack it yourself")


def _hidden(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or "__MACOSX" in parts or parts[-1].startswith(".") or parts[-1] == "Thumbs.db"


def _suffix(name: str) -> str:
    return PurePosixPath(name).suffix.lower()
