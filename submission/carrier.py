"""A sealed zip as one CSV file of plain text, for hosts that take nothing but a table: the same bytes, in base64.

The table has two columns, ``line`` (from 1) and ``mvc_bundle_base64``. Every line carries ROW bytes of the zip, the
last one fewer, maybe none: so a file that was cut short after a whole line is seen. The lines may come in any order.
"""

import binascii
import contextlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from protocol.facts import Problem
from protocol.findings import counted
from submission.archive import MAX_TOTAL

HEADER = b"line,mvc_bundle_base64"
ROW = 768  # bytes a line: of so few lines in the two KiB that platforms look at, libmagic says plain text
TEXT = ROW // 3 * 4  # characters of them in base64
MAX_DIGITS = 9  # of a line number
MAX_LINE = MAX_DIGITS + 1 + TEXT + 2  # with comma and line end
MAX_CARRIER = MAX_TOTAL // ROW * MAX_LINE  # as much as a zip may hold
SPARE = 16  # line numbers beyond what a file has room for: where few lines are missing, they are counted
WANTED = "the file as mvc submit --as gc-csv wrote it"


class _NoCarrierError(Exception):
    """What was seen in ``row`` of a carrier (0: in the whole) that can't be one."""

    def __init__(self, saw: str, row: int = 0, wanted: str = WANTED) -> None:
        super().__init__(saw)
        self.saw, self.row, self.wanted = saw, row, wanted


def carry(zip_path: Path, csv_path: Path) -> None:
    """Write the bytes of the file ``zip_path`` into the new file ``csv_path``; the same for the same.

    Raises OSError where one can't be read or the other not written.
    """
    with zip_path.open("rb") as source, csv_path.open("xb") as sink:
        sink.write(HEADER + b"\n")
        for number in itertools.count(1):
            part = source.read(ROW)
            sink.write(b"%d,%s\n" % (number, binascii.b2a_base64(part, newline=False)))
            if len(part) < ROW:
                return


def is_carrier(path: Path) -> bool:
    """Whether the first line of the file at ``path`` is a carrier's; False also where it can't be read.

    No more than that line is read, and no pipe is waited for.
    """
    try:
        with _opened(path) as source:
            return _bare(source.readline(MAX_LINE)) == HEADER
    except (OSError, _NoCarrierError):
        return False


def uncarry(csv_path: Path, zip_path: Path) -> tuple[Problem, ...]:
    """Write the zip that the file ``csv_path`` carries to the new file ``zip_path``; the problem where there is one.

    On a problem ``zip_path`` should not be used. Raises OSError where the disk of ``zip_path`` is full or read-only.
    """
    name = csv_path.name
    try:
        with _opened(csv_path) as source:
            size = os.fstat(source.fileno()).st_size
            if size > MAX_CARRIER:
                return (Problem("too-large", name, f"{size} bytes", f"at most {MAX_CARRIER} bytes"),)
            _copy(source, size, zip_path)
    except _NoCarrierError as error:
        where = f"{name}: row {error.row}" if error.row else name
        return (Problem("unreadable-file", where, error.saw, error.wanted),)
    return ()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _NoCarrierError(error.strerror or "not readable") from None
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _NoCarrierError("no plain file")
    with open(handle, "rb") as source:
        yield source


def _copy(source: BinaryIO, size: int, target: Path) -> None:
    """Every line of ``source`` at its place in ``target``; _NoCarrierError unless each is there once."""
    room = size // (TEXT + 3) + 1 + SPARE
    seen = bytearray(room + 1)
    highest, short, at = 0, 0, 1
    rows = _rows(source)
    if _bare(next(rows, b"")) != HEADER:
        raise _NoCarrierError("another header", 1, HEADER.decode())
    try:
        with target.open("xb") as sink:
            for row, raw in enumerate(rows, 2):
                number, part = _line(raw, row)
                if number > room:
                    raise _NoCarrierError(
                        f"line {number}, more than its {size} bytes can hold: others are missing", row
                    )
                if seen[number]:
                    raise _NoCarrierError(f"line {number} a second time", row)
                if len(part) < ROW:
                    if short:
                        raise _NoCarrierError(f"line {number} cut short, and line {short} too", row)
                    short = number
                if number != at:
                    sink.seek((number - 1) * ROW)
                sink.write(part)
                seen[number] = 1
                highest, at = max(highest, number), number + 1
    except OSError as error:  # of the target alone
        raise OSError(error.errno, error.strerror, str(target)) from None
    _whole(seen, highest, short)


def _whole(seen: bytearray, highest: int, short: int) -> None:
    missing = seen.count(0, 1, highest + 1)
    if missing:
        raise _NoCarrierError(f"{counted(missing, 'line')} missing, the first is line {seen.find(0, 1)}")
    if not short:
        raise _NoCarrierError(f"no line after line {highest}: cut short" if highest else "no line after the header")
    if short < highest:
        raise _NoCarrierError(f"line {short} cut short, before line {highest}")


def _rows(source: BinaryIO) -> Iterator[bytes]:
    try:
        while raw := source.readline(MAX_LINE + 1):
            yield raw
    except OSError as error:
        raise _NoCarrierError(error.strerror or "not readable") from None


def _line(raw: bytes, row: int) -> tuple[int, bytes]:
    """Number and bytes of one line."""
    number, comma, text = _bare(raw).partition(b",")
    if len(raw) > MAX_LINE:
        raise _NoCarrierError(f"more than {MAX_LINE} bytes in one row", row)
    if not comma or not number.isdigit() or number[:1] == b"0" or len(number) > MAX_DIGITS:
        raise _NoCarrierError("no line number and comma at its start", row)
    try:
        part = binascii.a2b_base64(text, strict_mode=True)
    except binascii.Error:
        raise _NoCarrierError("text that is no base64", row) from None
    if len(part) > ROW:
        raise _NoCarrierError(f"{len(part)} bytes in base64, more than the {ROW} of a line", row)
    if binascii.b2a_base64(part, newline=False) != text:  # strict_mode lets pass some padding
        raise _NoCarrierError("base64 that is not the usual form of its bytes", row)
    return int(number), part


def _bare(raw: bytes) -> bytes:
    return raw.removesuffix(b"\n").removesuffix(b"\r")
