"""Carriers: any bytes come back as they were, and whatever was changed on the way is seen."""

import base64
import csv
import os
import random
import resource
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from submission.bundle import open_bundle
from submission.carrier import HEADER, MAX_CARRIER, MAX_LINE, ROW, TEXT, carry, is_carrier, uncarry
from tests.builders import good_submission, write
from tests.mutations.stage0 import zipped

Lines = list[bytes]
BYTES = random.Random(1).randbytes(ROW * 3 + 100)


def carried(folder: Path, data: bytes) -> Path:
    """The carrier of ``data``."""
    (folder / "a.zip").write_bytes(data)
    carry(folder / "a.zip", folder / "a.csv")
    return folder / "a.csv"


def seen(path: Path) -> tuple[str, str, str]:
    """Offence, place and words of the one problem of the carrier at ``path``."""
    (problem,) = uncarry(path, path.with_name("out.zip"))
    assert problem.wanted
    assert problem.count == 1
    return problem.offence, problem.where, problem.saw


@given(st.binary(max_size=3 * ROW), st.randoms(use_true_random=False), st.booleans(), st.booleans())
@example(b"", random.Random(1), True, False)
@example(BYTES[:ROW], random.Random(1), True, False)
@example(BYTES, random.Random(1), True, True)
@example(BYTES[: 3 * ROW], random.Random(2), False, False)
def test_bytes_come_back_whatever_the_order_of_lines(data: bytes, order: random.Random, crlf: bool, end: bool) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        path = carried(Path(scratch), data)
        header, *lines = path.read_bytes().splitlines()
        order.shuffle(lines)
        ending = b"\r\n" if crlf else b"\n"
        path.write_bytes(ending.join([header, *lines]) + (ending if end else b""))
        assert is_carrier(path)
        assert uncarry(path, Path(scratch, "out.zip")) == ()
        assert Path(scratch, "out.zip").read_bytes() == data


def test_a_carrier_is_a_plain_table_to_others(tmp_path: Path) -> None:
    """ASCII in short lines: what sniffs at it takes it for text, and any reader of CSV and base64 gets the bytes."""
    data = carried(tmp_path, BYTES).read_bytes()
    assert set(data) <= {ord("\n"), *range(0x20, 0x7F)}
    assert data.endswith(b"\n")
    assert max(map(len, data.splitlines(keepends=True))) <= MAX_LINE
    rows = list(csv.DictReader(data.decode("ascii").splitlines()))
    assert [row["line"] for row in rows] == ["1", "2", "3", "4"]
    assert b"".join(base64.b64decode(row["mvc_bundle_base64"]) for row in rows) == BYTES


def test_the_same_bytes_give_the_same_carrier(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    assert carried(tmp_path, BYTES).read_bytes() == carried(tmp_path / "b", BYTES).read_bytes()


def changed(change: Callable[[Lines], object]) -> Callable[[bytes], bytes]:
    """What changes the list of lines; the first is the header."""

    def whole(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        change(lines)
        return b"".join(lines)

    return whole


def at(row: int, line: bytes) -> Callable[[bytes], bytes]:
    """Row ``row`` (the header is 1) is another ``line``."""
    return changed(lambda lines: lines.__setitem__(row - 1, line + b"\n"))


FULL = base64.b64encode(bytes(ROW))
MUTATIONS: dict[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "missing": (changed(lambda lines: lines.pop(2)), "", "1 line missing, the first is line 2"),
    "doubled": (changed(lambda lines: lines.append(lines[1])), ": row 6", "line 1 a second time"),
    "cut after a line": (changed(lambda lines: lines.pop()), "", "no line after line 3: cut short"),
    "cut in a line": (lambda data: data[:-3], ": row 5", "text that is no base64"),
    "cut in the middle": (lambda data: data[: 2 * TEXT + 2], ": row 3", "text that is no base64"),
    "header alone": (changed(lambda lines: lines.__delitem__(slice(1, None))), "", "no line after the header"),
    "nothing": (lambda data: b"", ": row 1", "another header"),
    "no header": (changed(lambda lines: lines.pop(0)), ": row 1", "another header"),
    "another header": (lambda data: data.replace(b"line,", b"Line,"), ": row 1", "another header"),
    "byte order mark": (lambda data: b"\xef\xbb\xbf" + data, ": row 1", "another header"),
    "two headers": (lambda data: HEADER + b"\n" + data, ": row 2", "no line number and comma at its start"),
    "blank line": (changed(lambda lines: lines.insert(2, b"\n")), ": row 3", "no line number and comma at its start"),
    "blank line at the end": (lambda data: data + b"\n", ": row 6", "no line number and comma at its start"),
    "bad base64": (at(3, b"2," + b"!" + FULL[1:]), ": row 3", "text that is no base64"),
    "base64 of URLs": (at(3, b"2," + b"-_" * (TEXT // 2)), ": row 3", "text that is no base64"),
    "padding inside": (at(3, b"2,QQ==" + FULL[6:]), ": row 3", "text that is no base64"),
    "bits in the padding": (at(5, b"4,QR=="), ": row 5", "base64 that is not the usual form of its bytes"),
    "padding too much": (at(3, b"2," + FULL + b"="), ": row 3", "base64 that is not the usual form of its bytes"),
    "quoted": (at(3, b'2,"' + FULL[:-4] + b'"'), ": row 3", "text that is no base64"),
    "blanks": (at(3, b"2, " + FULL), ": row 3", "text that is no base64"),
    "third column": (at(3, b"2," + FULL[:-4] + b",x"), ": row 3", "text that is no base64"),
    "NUL": (at(3, b"2," + b"\0" * TEXT), ": row 3", "text that is no base64"),
    "NUL alone": (lambda data: HEADER + b"\n" + bytes(9000), ": row 2", f"more than {MAX_LINE} bytes in one row"),
    "not UTF-8": (at(3, b"2,\xff\xfe" + FULL[2:]), ": row 3", "text that is no base64"),
    "line 0": (at(2, b"0," + FULL), ": row 2", "no line number and comma at its start"),
    "line 02": (at(3, b"02," + FULL), ": row 3", "no line number and comma at its start"),
    "line -2": (at(3, b"-2," + FULL), ": row 3", "no line number and comma at its start"),
    "line of Arabic digits": (at(3, "٢,".encode() + FULL), ": row 3", "no line number and comma at its start"),
    "line 1234567890": (at(3, b"1234567890," + FULL[4:]), ": row 3", "no line number and comma at its start"),
    "far line": (at(3, b"999999999," + FULL), ": row 3", "line 999999999, more than its "),
    "missing lines": (at(3, b"9," + FULL), "", "5 lines missing, the first is line 2"),
    "short line": (at(3, b"2,QQ=="), ": row 5", "line 4 cut short, and line 2 too"),
    "short line alone": (
        changed(lambda lines: lines.__setitem__(slice(2, None), [b"2,QQ==\n", lines[3]])),
        "",
        "line 2 cut short, before line 3",
    ),
    "too long a line": (at(3, b"2," + FULL + b"QQ=="), ": row 3", f"{ROW + 1} bytes in base64, more than the {ROW}"),
    "endless line": (at(3, b"2," + FULL * 9), ": row 3", f"more than {MAX_LINE} bytes in one row"),
    "two commas for an end": (lambda data: data.replace(b"\n", b",\n"), ": row 1", "another header"),
    "semicolons": (lambda data: data.replace(b",", b";"), ": row 1", "another header"),
    "carriage returns alone": (lambda data: data.replace(b"\n", b"\r"), ": row 1", "another header"),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTATIONS)
def test_every_change_is_seen(name: str, tmp_path: Path) -> None:
    mutation, where, saw = MUTATIONS[name]
    path = carried(tmp_path, BYTES)
    before = path.read_bytes()
    path.write_bytes(mutation(before))
    assert path.read_bytes() != before
    offence, place, said = seen(path)
    assert (offence, place) == ("unreadable-file", f"a.csv{where}")
    assert said.startswith(saw)
    assert is_carrier(path) == (said != "another header")
    if path.with_name("out.zip").exists():  # a line number never makes a large file of a small one
        assert path.with_name("out.zip").stat().st_size <= len(BYTES) + 20 * ROW


@pytest.mark.parametrize(
    ("size", "offence"), [(MAX_CARRIER + 1, "too-large"), (MAX_CARRIER, "unreadable-file"), (1 << 40, "too-large")]
)
def test_giants_are_refused_before_they_are_read(size: int, offence: str, tmp_path: Path) -> None:
    path = carried(tmp_path, b"x")
    os.truncate(path, size)  # sparse: it takes no room
    assert is_carrier(path)
    assert seen(path)[0] == offence


def test_what_is_no_file_is_no_carrier(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder", "absent", "n" * 300):
        assert not is_carrier(tmp_path / name)
        assert seen(tmp_path / name)[0] == "unreadable-file"
    assert not (tmp_path / "out.zip").exists()
    (tmp_path / "predictions.csv").write_bytes(b"image_id,model,seed,calibrator,p_1\n")
    assert not is_carrier(tmp_path / "predictions.csv")


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file that is written here gets larger."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_refuses_is_no_problem_of_the_carrier(tmp_path: Path) -> None:
    path, target = carried(tmp_path, BYTES), tmp_path / "out.zip"
    with files_of_at_most(ROW), pytest.raises(OSError, match="File too large") as caught:
        uncarry(path, target)
    assert caught.value.filename == str(target)
    with files_of_at_most(ROW), pytest.raises(OSError, match="File too large"):
        carry(tmp_path / "a.zip", tmp_path / "b.csv")


def test_a_bundle_is_opened_from_a_carrier_as_from_its_zip(tmp_path: Path) -> None:
    archive = zipped()(write(good_submission(), tmp_path / "bundle"))
    path = tmp_path / "mine.csv"
    carry(archive, path)
    scratches = [tmp_path / name for name in ("1", "2")]
    for scratch in scratches:
        scratch.mkdir()
    there, here = (open_bundle(given, scratch) for given, scratch in zip((archive, path), scratches, strict=True))
    assert here.archive == path
    assert here.notes == ("mine.csv is a CSV file that carries a zip, which was taken out of it", *there.notes)
    assert here.files == there.files
    assert (here.record, here.task, here.lock, here.calibrators) == (
        there.record, there.task, there.lock, there.calibrators
    )  # fmt: skip
    assert (here.problems, here.missing) == ((), {})
    assert not list((tmp_path / "2").rglob("*.csv"))  # the zip itself is not kept beside what was in it


def test_problems_of_the_carrier_and_of_its_zip_name_the_file_that_was_given(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for number, data in enumerate((b"no zip", zipped(("../evil", b"x"))(tmp_path / "b").read_bytes())):
        (tmp_path / "a.zip").write_bytes(data)
        path, scratch = tmp_path / f"{number}.csv", tmp_path / str(number)
        carry(tmp_path / "a.zip", path)
        scratch.mkdir()
        bundle = open_bundle(path, scratch)
        (problem,) = bundle.problems
        assert problem.offence == ("unreadable-file", "unsafe-archive")[number]
        assert problem.where.startswith(f"{number}.csv")
        assert bundle.missing["predictions"] == f"{number}.csv could not be unpacked"
        assert str(tmp_path) not in "".join((problem.where, problem.saw, problem.wanted))
    assert not (tmp_path / "evil").exists()
