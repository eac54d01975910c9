"""One zip of a bundle, unpacked without trust: plain files inside it, under caps, and nothing else."""

import stat
import struct
import unicodedata
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from protocol.facts import Problem

MAX_MEMBERS = 200
MAX_DEPTH = 3
MAX_TOTAL = 4 << 30
MAX_RATIO = 200
CHUNK = 1 << 20
JUNK = frozenset({".DS_Store", "desktop.ini", "Thumbs.db"})
# What zipfile raises on damaged or hostile bytes.
DAMAGE = (
    zipfile.BadZipFile, zlib.error, struct.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError,
    OverflowError,
)  # fmt: skip
ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar", ".zst")


def unpack(path: Path, target: Path) -> tuple[tuple[Problem, ...], tuple[str, ...]]:
    """Copy the members of the zip at ``path`` into the empty folder ``target``; return problems and notes.

    One folder that wraps everything is taken off, and that is said in a note; system junk is left out. On any problem
    nothing in ``target`` should be used.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _unpack(archive, path.name, target)
    except DAMAGE as error:
        return (Problem("unreadable-file", path.name, f"no readable zip ({error})", "a zip of the bundle"),), ()


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
        problems.append(Problem("too-large", name, "more than 4 GiB unpacked", "at most 4 GiB"))
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


def _unsafe(member: zipfile.ZipInfo, archive: str) -> Problem | None:
    def say(saw: str, offence: str = "unsafe-archive") -> Problem:
        return Problem(offence, f"{archive}: {member.filename}", saw, "a plain file inside the archive")

    path = PurePosixPath(member.filename)
    mode = member.external_attr >> 16
    if path.is_absolute() or ".." in path.parts or "\\" in member.filename or ":" in member.filename:
        return say("a path that leaves the archive")
    if not path.parts or any(unicodedata.category(char)[0] == "C" for char in member.filename):
        return say("a name with control characters")
    if len(path.parts) > MAX_DEPTH:
        return say(f"more than {MAX_DEPTH} levels of folders")
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        return say("a link or a device")
    if member.flag_bits & 0x1:
        return say("an encrypted member")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        return say("a compression other than deflate")
    if path.name.lower().endswith(ARCHIVES):
        return say("an archive in the archive")
    if path.suffix.lower() in (".pkl", ".pickle", ".pt", ".pth", ".joblib"):
        return say("a pickle", "pickle-refused")
    if member.file_size > (1 << 20) and member.file_size > MAX_RATIO * max(member.compress_size, 1):
        return say(f"a ratio above {MAX_RATIO}")
    return None
