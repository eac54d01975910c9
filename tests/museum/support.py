"""Tools of the exhibits: tables written anew, Parquet footers and zips forged by hand."""

import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Columns = Callable[[pa.Table], pa.Table]


def table(folder: Path, change: Columns, name: str = "predictions", **options: Any) -> None:
    """Write a table of the bundle anew, changed."""
    path = folder / f"{name}.parquet"
    pq.write_table(change(pq.read_table(path)), path, **options)


def put(name: str, values: Any) -> Columns:
    """Replace the column ``name``, or add it."""

    def change(old: pa.Table) -> pa.Table:
        if name not in old.column_names:
            return old.append_column(name, values)
        return old.set_column(old.column_names.index(name), name, values)

    return change


def first(name: str, value: Any, kind: Any = None) -> Columns:
    """Replace the first value of the column ``name``."""

    def change(old: pa.Table) -> pa.Table:
        values = [value, *old[name].to_pylist()[1:]]
        return put(name, pa.array(values, kind or old[name].type))(old)

    return change


def overwrite(folder: Path, name: str, data: bytes) -> None:
    """Write a file of the bundle."""
    (folder / name).write_bytes(data)


def append(folder: Path, text: str, name: str = "submission.yaml") -> None:
    """Add to the end of a record."""
    with (folder / name).open("ab") as sink:
        sink.write(text.encode())


def as_csv(folder: Path, data: bytes) -> None:
    """Let the predictions be the CSV file ``data``."""
    (folder / "predictions.parquet").unlink()
    overwrite(folder, "predictions.csv", data)
    record = folder / "submission.yaml"
    record.write_text(record.read_text().replace("file: predictions.parquet", "file: predictions.csv"))


def whole(number: int) -> bytes:
    """A thrift i64 of the compact protocol, as the field after the last one: zigzag, seven bits a byte."""
    value, out = (number << 1) ^ (number >> 63), bytearray(b"\x16")
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*out, value))


def footer(path: Path, *changes: tuple[bytes, bytes], count: int = -1) -> None:
    """Replace bytes of a Parquet footer; the length at the end is made to fit."""
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    old = data[start:-8]
    for was, becomes in changes:
        assert was in old
        old = old.replace(was, becomes, count)
    path.write_bytes(data[:start] + old + struct.pack("<I", len(old)) + data[-4:])


@dataclass(frozen=True)
class Member:
    """A zip member as it is written; ``local`` and ``central`` replace fields of its two headers."""

    name: str
    data: bytes = b"x"
    method: int = 0
    flags: int = 0x800
    mode: int = 0
    extra: bytes = b""
    local: Mapping[str, Any] = field(default_factory=dict)
    central: Mapping[str, Any] = field(default_factory=dict)


def forged(members: Sequence[Member], prefix: bytes = b"", comment: bytes = b"", **end: int) -> bytes:
    """A zip of ``members``, each byte of it ours; ``end`` replaces fields of its last record (APPNOTE.TXT, 4.3)."""
    out, directory = bytearray(prefix), bytearray()
    for member in members:
        packed = zlib.compress(member.data, 9)[2:-4] if member.method == 8 else member.data
        fields: dict[str, Any] = {
            "flags": member.flags, "method": member.method, "crc": zlib.crc32(member.data), "packed": len(packed),
            "full": len(member.data), "name": member.name.encode(), "extra": member.extra,
            "offset": len(out) - len(prefix), "attributes": member.mode << 16,
        }  # fmt: skip
        near, far = fields | dict(member.local), fields | dict(member.central)
        out += _header("<4s5H3L2H", b"PK\x03\x04", near, 20)
        out += near["name"] + near["extra"] + packed
        directory += _header("<4s6H3L2H", b"PK\x01\x02", far, 0x31E, 20)
        directory += struct.pack("<3HLL", 0, 0, 0, far["attributes"], far["offset"]) + far["name"] + far["extra"]
    last = {"entries": len(members), "length": len(directory), "offset": len(out) - len(prefix)} | end
    out += directory
    out += struct.pack(
        "<4s4H2LH", b"PK\x05\x06", 0, 0, last["entries"], last["entries"], last["length"], last["offset"], len(comment)
    )
    return bytes(out) + comment


def _header(form: str, mark: bytes, fields: Mapping[str, Any], *versions: int) -> bytes:
    sizes = (fields["crc"], fields["packed"], fields["full"], len(fields["name"]), len(fields["extra"]))
    return struct.pack(form, mark, *versions, fields["flags"], fields["method"], 0, 0x5C21, *sizes)


def bundled(folder: Path) -> list[Member]:
    """The files of the bundle as members."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [Member(str(path.relative_to(folder)), path.read_bytes(), 8) for path in files]


def zipped(folder: Path, *members: Member, **options: Any) -> Path:
    """The bundle as a zip, with further members."""
    target = folder.with_name("bundle.zip")
    target.write_bytes(forged([*bundled(folder), *members], **options))
    return target
