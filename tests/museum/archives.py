"""Zips, and CSV files that carry them: paths that leave, bombs, headers that lie, and what else was ever sent."""

import os
import stat
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from submission.carrier import HEADER, carry
from tests.museum.registry import exhibit, show
from tests.museum.support import Member, bundled, forged, zipped

ZEROS = bytes(8 << 20)


def holding(*members: Member) -> Callable[[Path], Path]:
    """The good bundle in a zip with further members."""
    return lambda folder: zipped(folder, *members)


for name, member, story in (
    ("slip_parent", "../evil.yaml", "a member that climbs out of the folder"),
    ("slip_hidden", "configs/../../evil.yaml", "a member that climbs out in the middle of its path"),
    ("slip_absolute", "/etc/cron.d/evil", "an absolute member"),
    ("slip_double_slash", "//host/share/evil", "an absolute member with two slashes"),
    ("slip_backslash", "..\\evil.yaml", "a member that climbs on Windows"),
    ("slip_drive", "C:evil.yaml", "a member on a drive"),
    ("slip_drive_root", "C:/Windows/evil.dll", "a member at the root of a drive"),
    ("slip_unc", "\\\\host\\share\\evil", "a member on a network share"),
    ("slip_stream", "task.yaml:evil", "a member in an alternate stream"),
    ("member_newline", "a\nMVC ACCEPTED", "a name that prints a verdict of its own"),
    ("member_escape", "\x1b[2J\x1b[32mACCEPTED", "a name that clears the terminal"),
    ("member_rtl", "configs/gpj.\u202etxt", "a name turned round by a direction mark"),
    ("member_zero_width", "task\u200b.yaml", "a name with a space of no width"),
    ("member_dot", ".", "a member that is the folder itself"),
    ("member_deep", "a/b/c/d/e/f.txt", "folders in folders in folders"),
    ("member_long", "n" * 4000, "a name longer than any file system takes"),
    ("member_long_part", "configs/" + "ü" * 120, "a name that is too long only in bytes"),
    ("collision_case", "TASK.YAML", "a second task.yaml where case is ignored"),
    ("collision_same", "task.yaml", "two members called task.yaml"),
    ("nested_zip", "more.zip", "a zip in the zip"),
    ("nested_tar", "more.tar.gz", "a tar in the zip"),
    ("nested_7z", "more.7z", "an archive of another kind in the zip"),
):
    show(name, story, "MVC006", make=holding(Member(member)))

for suffix in ("pkl", "pickle", "pt", "pth", "joblib", "npy", "npz"):
    show(f"zip_{suffix}", f"a .{suffix} file in the zip", "MVC007", make=holding(Member(f"model.{suffix}")))

for name, mode in (
    ("link", stat.S_IFLNK),
    ("character_device", stat.S_IFCHR),
    ("block_device", stat.S_IFBLK),
    ("pipe", stat.S_IFIFO),
    ("socket", stat.S_IFSOCK),
):
    member_of_mode = Member("extra", b"/etc/passwd", mode=mode | 0o777)
    show(f"zip_{name}", f"a member that is a {name.replace('_', ' ')}", "MVC006", make=holding(member_of_mode))

for name, method in (("bzip2", 12), ("lzma", 14), ("deflate64", 9), ("zstd", 93), ("unknown", 77)):
    packed = Member("extra", local={"method": method}, central={"method": method})
    show(f"zip_{name}", f"a member packed by {name}", "MVC006", make=holding(packed))

for name, told, story in (
    ("name", {"name": b"other.txt"}, "one name in the directory, another in front of the member"),
    ("method", {"method": 8}, "stored in the directory, deflated in front of the member"),
    ("size", {"packed": 0, "full": 0}, "a size in the directory, none in front of the member"),
    ("flags", {"flags": 0x801}, "encrypted in one header only"),
):
    show(f"mismatch_{name}", story, "MVC006", make=holding(Member("extra", local=told)))


@exhibit("MVC006")
def collision_normalised(folder: Path) -> Path:
    """Two names that are one after Unicode normalisation."""
    return zipped(folder, Member("configs/caf\u00e9"), Member("configs/cafe\u0301"))


@exhibit("MVC006")
def encrypted(folder: Path) -> Path:
    """An encrypted member."""
    return zipped(folder, Member("secret", flags=0x801))


@exhibit("MVC006")
def strongly_encrypted(folder: Path) -> Path:
    """A member under strong encryption, flagged as that alone."""
    return zipped(folder, Member("secret", flags=0x840))


@exhibit("MVC006")
def ratio_bomb(folder: Path) -> Path:
    """Eight megabytes of zeros in eight kilobytes."""
    return zipped(folder, Member("zeros", ZEROS, 8))


@exhibit("MVC006")
def overlap_bomb(folder: Path) -> Path:
    """Twenty members that share the bytes of one (Fifield's bomb)."""
    members = [*bundled(folder), Member("zeros", ZEROS[: 1 << 20], 8)]
    place = len(forged(members[:-1])) - sum(46 + len(m.name) for m in members[:-1]) - 22
    members += [Member(f"zeros{n}", ZEROS[: 1 << 20], 8, central={"offset": place}) for n in range(20)]
    target = folder.with_name("bundle.zip")
    target.write_bytes(forged(members))
    return target


@exhibit("MVC004")
def forged_size(folder: Path) -> Path:
    """A member that says it has three gigabytes, and as many packed."""
    told = {"full": 3 << 30, "packed": 3 << 30}
    return zipped(folder, Member("big", local=told, central=told), Member("end"))


@exhibit("MVC001")
def size_below_the_truth(folder: Path) -> Path:
    """A member that unpacks to more than it says."""
    told = {"full": 10}
    return zipped(folder, Member("big", bytes(range(256)) * 1000, 8, local=told, central=told))


@exhibit("MVC001")
def wrong_checksum(folder: Path) -> Path:
    """A member whose bytes were changed."""
    return zipped(folder, Member("extra", local={"crc": 1}, central={"crc": 1}))


@exhibit("MVC001")
def zip64_lies(folder: Path) -> Path:
    """A zip64 field that promises 2^63 bytes and holds half of them."""
    junk = struct.pack("<2HQ", 1, 8, 2**63)
    told = {"full": 0xFFFFFFFF, "packed": 0xFFFFFFFF}
    return zipped(folder, Member("big", extra=junk, local=told, central=told))


@exhibit("MVC001")
def zip64_directory(folder: Path) -> Path:
    """An end that says that the true one is elsewhere."""
    return zipped(folder, entries=0xFFFF)


@exhibit("MVC006")
def entries_lie(folder: Path) -> Path:
    """A directory that is said to be shorter than it is."""
    return zipped(folder, length=60)


@exhibit("MVC006")
def prefix_data(folder: Path) -> Path:
    """A program in front of the zip: a file that is two things."""
    return zipped(folder, prefix=b"#!/bin/sh\necho owned\n" * 100)


@exhibit("MVC006")
def suffix_data(folder: Path) -> Path:
    """Bytes behind the end of the zip."""
    target = zipped(folder)
    target.write_bytes(target.read_bytes() + b"more")
    return target


@exhibit("MVC006")
def bytes_between(folder: Path) -> Path:
    """A member that is not in the directory."""
    target = folder.with_name("bundle.zip")
    members = bundled(folder)
    hidden = forged([Member("hidden", b"h" * 500), *members])
    target.write_bytes(hidden.replace(b"PK\x01\x02", b"PK\x01\x02", 1))
    cut = hidden.index(b"PK\x01\x02")
    after = hidden.index(b"PK\x01\x02", cut + 4)
    tail = bytearray(hidden[after:])
    sizes = (len(members), len(members), len(hidden) - 22 - after, cut)
    tail[-14:-2] = struct.pack("<2H2L", *sizes)
    target.write_bytes(hidden[:cut] + bytes(tail))
    return target


@exhibit("MVC006")
def members_300(folder: Path) -> Path:
    """Three hundred small files."""
    return zipped(folder, *(Member(f"f{n}") for n in range(300)))


@exhibit("MVC006")
def members_25000(folder: Path) -> Path:
    """Twenty-five thousand empty files: the directory alone is larger than most bundles."""
    return zipped(folder, *(Member(f"f{n}", b"") for n in range(25_000)))


@exhibit("MVC006")
def extra_junk(folder: Path) -> Path:
    """Extra fields of sixty kilobytes, forty times."""
    junk = struct.pack("<2H", 0x9999, 60_000) + b"j" * 60_000
    return zipped(folder, *(Member(f"f{n}", extra=junk) for n in range(40)))


@exhibit("MVC001")
def file_and_folder(folder: Path) -> Path:
    """A file that is also a folder."""
    return zipped(folder, Member("configs/x"), Member("configs/x/y"))


@exhibit("MVC001")
def cut_in_two(folder: Path) -> Path:
    """A zip that lost its end."""
    target = zipped(folder)
    target.write_bytes(target.read_bytes()[:-400])
    return target


@exhibit("MVC001")
def part_of_a_split_zip(folder: Path) -> Path:
    """The first part of a zip in several parts."""
    target = zipped(folder)
    data = bytearray(target.read_bytes())
    data[-18:-14] = struct.pack("<2H", 1, 1)
    target.write_bytes(data)
    return target


@exhibit("MVC006")
def quine(folder: Path) -> Path:
    """A zip that holds itself, as far as one can."""
    inner = zipped(folder).read_bytes()
    return zipped(folder, Member("bundle.zip", inner))


@exhibit("MVC001")
def another_format(folder: Path) -> Path:
    """A tar that calls itself a zip."""
    target = folder.with_name("bundle.zip")
    target.write_bytes(b"task.yaml".ljust(257, b"\0") + b"ustar\x0000" + bytes(10_000))
    return target


@exhibit()
def comment(folder: Path) -> Path:
    """A comment on the zip: nobody reads it, and nobody minds."""
    return zipped(folder, comment=b"\x1b[2J MVC ACCEPTED")


class Pipe:
    """Something that can be written to and nothing else."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> int:
        self.data += data
        return len(data)

    def flush(self) -> None:
        """Nothing is kept back."""


@exhibit()
def streamed(folder: Path) -> Path:
    """Members written as a stream, their sizes behind them: how pipes make zips."""
    pipe: Any = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for member in bundled(folder):
            archive.writestr(member.name, member.data)
    target = folder.with_name("bundle.zip")
    target.write_bytes(pipe.data)
    return target


def in_csv(archive: Path, name: str = "bundle.csv") -> Path:
    """``archive`` in a CSV file that carries it."""
    target = archive.with_name(name)
    carry(archive, target)
    return target


@exhibit()
def carrier_name(folder: Path) -> Path:
    """A carried zip in a file whose name prints a verdict of its own."""
    return in_csv(zipped(folder), "a\n\x1b[2J\u202eMVC ACCEPTED.csv")


@exhibit("MVC006")
def carrier_slip(folder: Path) -> Path:
    """A carried zip with a member that climbs out of the folder."""
    return in_csv(zipped(folder, Member("../evil.yaml")))


@exhibit("MVC006")
def carrier_bomb(folder: Path) -> Path:
    """A carried zip of zeros."""
    return in_csv(zipped(folder, Member("zeros.bin", ZEROS, 8)))


@exhibit("MVC001")
def carrier_in_carrier(folder: Path) -> Path:
    """A carrier that carries a carrier."""
    inner = in_csv(zipped(folder))
    return in_csv(inner, "outer.csv")


@exhibit("MVC001")
def carrier_far_line(folder: Path) -> Path:
    """A line that belongs 700 gigabytes into the zip."""
    target = in_csv(zipped(folder))
    target.write_bytes(target.read_bytes().replace(b"\n2,", b"\n999999999,", 1))
    return target


@exhibit("MVC001", process=True)
def carrier_without_lines(folder: Path) -> Path:
    """A header, and a line of two gigabytes that never ends."""
    target = in_csv(zipped(folder))
    target.write_bytes(HEADER + b"\n1,")
    os.truncate(target, 2 << 30)
    return target
