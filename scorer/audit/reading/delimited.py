"""Text tables and Excel sheets: whether they name their columns, and their numbers."""

import codecs
import csv
import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from scorer.audit.reading import long
from scorer.audit.reading.naming import facts_of
from scorer.audit.reading.numbers import Typed, typed
from scorer.audit.reading.source import MAX_CELLS, Source
from scorer.audit.shapes import Loaded
from splits.errors import SplitError
from splits.reading import SEPARATORS, read_table

LONG = 48 << 20  # bytes from which a text is read in pieces
LOOKED_AT = 1 << 16
COMMENTED = "; take out the comment lines before the header"
FIRST = 60  # rows from which a header is told
FILE_NAME = re.compile(r"[^/\\]\.(png|jpe?g|tiff?|bmp|dcm|dicom|nii|svs|npy|mha|webp|gif)$", re.I)
WHOLE = re.compile(r"[+-]?\d+")


def text_table(source: Source) -> Loaded:
    """A table of text. A first row that is all numbers, or holds a file name or a score, is a row like any other."""
    mark, rows = _looked_at(source)
    header, why = _has_header(rows)
    notes = [why] if why else []
    commas = mark not in (",", " ", "")
    result = None
    if mark and source.size() > LONG and codecs.lookup(source.encoding).name == "utf-8":
        result = long.read_long(source, mark, header, commas)
    if result is None:
        with source.named(COMMENTED if source.head(4).removeprefix(codecs.BOM_UTF8)[:1] == b"#" else ""):
            table = read_table(source.content, encoding=source.encoding, header=header, separator=mark or None)
        notes += table.notes
        frame = table.frame
        del table
        _bounded(source, frame)
        result = typed(frame, commas=commas)
    return _loaded(source, result, "text", header, notes)


def sheet(source: Source) -> Loaded:
    """The first sheet of an Excel workbook."""
    with source.named():
        table = read_table(source.content)
    _bounded(source, table.frame)
    others = _sheet_names(source.content)[1:]
    notes = list(table.notes)
    if others:
        notes.append(f"only the first sheet is read, not {', '.join(map(repr, others[:5]))}")
    return _loaded(source, typed(table.frame), "xlsx", True, notes)


def _loaded(source: Source, result: Typed, form: str, header: bool, notes: list[str]) -> Loaded:
    if not result.frame.height:
        source.refuse("names columns but has no rows")
    facts = dict(facts_of(source.file))
    if facts.get("index") and (header or result.frame.width < 2):
        del facts["index"]
    return Loaded(
        name=source.name,
        frame=result.frame,
        form=form,
        path=source.origin,
        sha256=source.sha256,
        precision=result.precision,
        header=header,
        facts={**facts, **result.facts},
        notes=(*source.notes, *notes, *result.notes),
    )


def _bounded(source: Source, frame: pl.DataFrame) -> None:
    if frame.height * frame.width > MAX_CELLS:
        source.refuse(f"{frame.height} rows of {frame.width} columns are more than can be audited at once; split it")


def _looked_at(source: Source) -> tuple[str, list[list[str]]]:
    """The separator and the first rows; '' and none where they can't be told, which a reading of the whole explains."""
    try:
        codec = codecs.lookup(source.encoding)
        text = codec.decode(source.head(LOOKED_AT), "ignore")[0]
    except (LookupError, ValueError, TypeError, AttributeError):
        return "", []
    text = text.removeprefix("\ufeff").lstrip("\r\n") if isinstance(text, str) else ""
    lines = text.splitlines()
    if len(lines) > 1 and source.size() > LOOKED_AT:
        lines.pop()
    lines = lines[:FIRST]
    if not lines or "\x00" in text:
        return "", []
    with TemporaryDirectory(prefix="mvc-audit-") as folder:
        start = Path(folder) / "start"
        start.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="replace")
        try:
            width = _width(start, None)
            mark = next((m for m in (*SEPARATORS, " ") if width > 1 and _width(start, m) == width), ",")
        except SplitError:
            return "", []
    if width == 1 and any(mark in line for line in lines[:2] for mark in ",\t;|"):
        return "", []
    try:
        rows = list(csv.reader(io.StringIO("\n".join(lines), newline=""), delimiter=mark, skipinitialspace=True))
    except csv.Error:
        return "", []
    return mark, [[cell.strip() for cell in row] for row in rows if row]


def _width(start: Path, mark: str | None) -> int:
    try:
        return read_table(start, header=False, separator=mark).frame.width
    except SplitError:
        if mark is None:
            raise
        return 0


def _has_header(rows: list[list[str]]) -> tuple[bool, str]:
    """Whether the first row names the columns, and a note where it does not or only seems not to."""
    if not rows:
        return True, ""
    first = rows[0]
    numbers = [_number(cell) for cell in first]
    if all(numbers):
        whole = [int(cell) for cell in first if WHOLE.fullmatch(cell)]
        second = rows[1] if len(rows) > 1 else []
        counted = len(whole) == len(first) and whole in (list(range(len(whole))), list(range(1, len(whole) + 1)))
        if counted and any(_number(cell) and not WHOLE.fullmatch(cell) for cell in second):
            return True, f"the first row counts {', '.join(first[:3])} ..., so it is taken to name the columns"
        return False, "the first row is all numbers, so it is taken as a row; the columns have no names"
    texts = [cell for cell, number in zip(first, numbers, strict=True) if not number]
    scored = any(number and not WHOLE.fullmatch(cell) for cell, number in zip(first, numbers, strict=True))
    if any(FILE_NAME.search(cell) for cell in texts):
        return False, "the first row holds a file name, so it is taken as a row; the columns have no names"
    if scored and all(re.search(r"\d", cell) for cell in texts) and not any(cell == "" for cell in texts):
        return False, "the first row holds a score, so it is taken as a row; the columns have no names"
    return True, ""


def _number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell and cell.lower() not in ("nan", "inf", "infinity", "-inf")


def _sheet_names(path: Path) -> list[str]:
    try:
        from python_calamine import CalamineWorkbook

        with CalamineWorkbook.from_path(path) as book:
            return list(book.sheet_names)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of the reader is no Exception; the table itself was read
        return []
