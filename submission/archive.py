"""One zip of a bundle, unpacked without trust: plain files inside it, under caps, and nothing else."""

import os
import stat
import struct
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from protocol.facts import Problem
from submission.files import REFUSALS

MAX_MEMBERS = 200
MAX_DEPTH = 3
MAX_NAME = 200
MAX_TOTAL = 2 << 30
MAX_RATIO = 200
MAX_DIRECTORY = 1 << 20
MAX_PROBLEMS = 50
END = struct.Struct("<4s4H2LH")  # end of the central directory: APPNOTE.TXT, 4.3.16
LOCAL = struct.Struct("<4s5H3L2H")  # local file header: 4.3.7
DESCRIPTORS = frozenset({12, 16, 20, 24})  # sizes of what may follow a member that was written as a stream: 4.3.9
UNKNOWN = 0xFFFFFFFF
CHUNK = 1 << 20
JUNK = frozenset({".DS_Store", "desktop.ini", "Thumbs.db"})
# What zipfile raises on damaged or hostile bytes.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    OverflowError, LookupError,
)  # fmt: skip
PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".npy", ".npz")
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")


def unpack(path: Path, target: Path) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Copy the members of the zip at ``path`` into the empty folder ``target``; return problems and notes.

    One folder that wraps everything is taken off, and that is said in a note; system junk is left out. On any problem
    nothing in ``target`` should be used. Raises OSError where the disk of ``target`` is full or read-only.
    """
    try:
        saw = _directory(path)
        if saw:
            return (Problem("unsafe-archive", path.name, saw, "one plain zip"),), ()
        with zipfile.ZipFile(path) as archive:
            return _unpack(archive, path.name, target)
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno in REFUSALS:
            raise OSError(error.errno, error.strerror, str(target)) from None
        said = error.strerror if isinstance(error, OSError) else error  # which would name our own folders
        return (Problem("unreadable-file", path.name, f"no readable zip ({said})", "a zip of the bundle"),), ()


def _directory(path: Path) -> str:
    """What is wrong with the end of the zip and the size of its directory, before anything is built from it; or ''."""
    with path.open("rb") as source:
        size = source.seek(0, os.SEEK_END)
        start = source.seek(max(0, size - END.size - 0xFFFF))
        tail = source.read()
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or place + END.size > len(tail):
        return ""  # zipfile says so
    _, disk, first, here, entries, length, offset, comment = END.unpack_from(tail, place)
    if disk or first or here != entries:
        raise zipfile.BadZipFile("a part of a split zip")
    if 0xFFFF in (here, entries) or UNKNOWN in (length, offset):
        raise zipfile.BadZipFile("a directory in zip64 form, which a bundle has no need of")
    if length > MAX_DIRECTORY:
        return f"a directory of {length} bytes"
    if offset + length != start + place:
        return "bytes before the zip, or between its directory and its end"
    return "" if place + END.size + comment == len(tail) else "bytes after the zip"


def _misplaced(archive: zipfile.ZipFile) -> Iterator[tuple[zipfile.ZipInfo, str]]:
    """Members whose own header differs from the directory, and those that overlap others or leave bytes to nobody."""
    source: Any = archive.fp
    end, streamed = 0, False
    last: zipfile.ZipInfo | None = None
    for member in sorted(archive.infolist(), key=lambda m: m.header_offset):
        gap = member.header_offset - end
        if gap and not (streamed and gap in DESCRIPTORS):
            yield member, "bytes that two members share" if gap < 0 else "bytes before it that no member owns"
        source.seek(member.header_offset)
        head = source.read(LOCAL.size)
        _, _, flags, method, _, _, _, packed, full, name, extra = LOCAL.unpack(head)
        streamed = bool(flags & 0x8)
        named = source.read(name).decode("utf-8" if flags & 0x800 else "cp437")
        sizes = streamed or UNKNOWN in (packed, full) or (packed, full) == (member.compress_size, member.file_size)
        same = (method, named) == (member.compress_type, member.orig_filename)
        if not (same and sizes) or (flags ^ member.flag_bits) & 0x841:  # encrypted (0x41), name in UTF-8 (0x800)
            yield member, "a header that differs from the directory"
        end = member.header_offset + LOCAL.size + name + extra + member.compress_size
        last = member
    gap = archive.start_dir - end
    if last is not None and gap and not (streamed and gap in DESCRIPTORS):
        yield last, "bytes that the directory shares" if gap < 0 else "bytes after it that no member owns"


def _unpack(archive: zipfile.ZipFile, name: str, target: Path) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    members = [m for m in archive.infolist() if not m.is_dir() and not _junk(m.filename)]
    if len(members) > MAX_MEMBERS:
        return (Problem("unsafe-archive", name, f"{len(members)} members", f"at most {MAX_MEMBERS}"),), ()
    problems = [p for m in members if (p := _unsafe(m, name)) is not None]
    folded = [unicodedata.normalize("NFC", m.filename).casefold() for m in members]
    problems += [
        Problem("unsafe-archive", f"{name}: {m.filename}", "two members of one name", "distinct names")
        for m, key in zip(members, folded, strict=True)
        if folded.count(key) > 1
    ]
    if sum(m.file_size for m in members) > MAX_TOTAL:
        problems.append(Problem("too-large", name, "more than 2 GiB unpacked", "at most 2 GiB"))
    if not problems:
        problems = [_unfit(m, name, saw) for m, saw in _misplaced(archive)][:MAX_PROBLEMS]
    if problems:
        return tuple(problems), ()
    tops = {PurePosixPath(m.filename).parts[0] for m in members}
    wrapped = len(tops) == 1 and all(len(PurePosixPath(m.filename).parts) > 1 for m in members)
    for member in members:
        parts = PurePosixPath(member.filename).parts[1 if wrapped else 0 :]
        place = target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        if not _copy(archive, member, place):
            where = f"{name}: {member.filename}"
            return (Problem("unsafe-archive", where, "more bytes than the archive declares", "a true size"),), ()
    return (), ((f"the folder {tops.pop()} that wraps the bundle was taken off",) if wrapped else ())


def _copy(archive: zipfile.ZipFile, member: zipfile.ZipInfo, place: Path) -> bool:
    copied = 0
    with archive.open(member) as source, place.open("xb") as sink:
        while chunk := source.read(CHUNK):
            copied += len(chunk)
            if copied > member.file_size:
                return False
            sink.write(chunk)
    return True


def _junk(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return bool(parts) and ("__MACOSX" in parts or parts[-1] in JUNK)


def _unfit(member: zipfile.ZipInfo, archive: str, saw: str, offence: str = "unsafe-archive") -> Problem:
    return Problem(offence, f"{archive}: {member.filename}", saw, "a plain file inside the archive")


def _unsafe(member: zipfile.ZipInfo, archive: str) -> Problem | None:
    def say(saw: str, offence: str = "unsafe-archive") -> Problem:
        return _unfit(member, archive, saw, offence)

    path = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
        return say("a path that leaves the archive")
    if not path.parts or any(unicodedata.category(char)[0] == "C" for char in member.filename):
        return say("a name with control characters")
    if len(member.filename.encode()) > MAX_NAME:
        return say(f"a name of more than {MAX_NAME} bytes")
    if len(path.parts) > MAX_DEPTH:
        return say(f"more than {MAX_DEPTH} levels of folders")
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        return say("a link or a device")
    if member.flag_bits & 0x41:
        return say("an encrypted member")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return say("a compression other than deflate")
    if path.name.lower().endswith(ARCHIVES):
        return say("an archive in the archive")
    if path.suffix.lower() in PICKLES:
        return say("a pickle", "pickle-refused")
    if member.file_size > (1 << 20) and member.file_size > MAX_RATIO * max(member.compress_size, 1):
        return say(f"a ratio above {MAX_RATIO}")
    return None
