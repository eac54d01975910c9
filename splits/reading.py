"""Read a table of any shape people keep their metadata in, every cell as text: '007' stays '007'."""

import codecs
import csv
import datetime
import difflib
import gzip
import hashlib
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from splits.errors import SplitError
from splits.files import no_pipe

SEPARATORS = (",", "\t", ";", "|")
BATCH = 1 << 20  # rows of a Parquet file converted at once
LOOKED_AT = 1 << 16  # bytes of a file from which its separator is told
GZIP, PARQUET, SHEETS = b"\x1f\x8b", b"PAR1", (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")
UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
BLANK_LINES = re.compile(rb"(?: *[\r\n])*")
BLOCK = 1 << 24  # bytes that are parsed at once


@dataclass(frozen=True)
class Table:
    """A table as text: every column is ``pl.String``, an empty cell is null, outer blanks are gone.

    ``sha256`` is the digest of the file's bytes; ``notes`` say what was changed on reading. ``rounded`` are columns of
    floats with numbers so large that their type can't tell neighbouring whole numbers apart.
    """

    frame: pl.DataFrame
    path: Path
    sha256: str
    notes: tuple[str, ...] = ()
    parquet: bool = False
    rounded: tuple[str, ...] = ()


def read_table(path: Path, *, encoding: str = "utf-8", header: bool = True, separator: str | None = None) -> Table:
    """The table in ``path``: CSV, TSV or text (``separator`` is told from the first lines), Parquet, or an Excel sheet.

    Text may be packed with gzip. A byte order mark, CRLF line ends and blanks around names and cells are no content.
    ``header=False`` names the columns ``column_1 ...``. Whole numbers of a Parquet column of floats become '7', not
    '7.0', times of which all are midnight become dates.

    Raises :class:`SplitError` for no such file, an empty one, text that is not ``encoding``, a row with more or fewer
    cells than the header, a column name that comes twice, and what is no table.
    """
    if _starts_with(path, PARQUET):
        return _parquet(path)
    raw, digest = _content(path)
    if raw[:4] == PARQUET:
        raise SplitError(f"{path} is a Parquet file packed with gzip; unpack it")
    if raw[:4] in SHEETS:
        from splits.sheets import read_sheet

        frame = read_sheet(path)
        return Table(_tidy(path, frame, frame.columns), path, digest)
    text = _utf8(path, raw, encoding)
    mark = separator or _separator(text)
    names = _names(path, text, mark, header)
    frame = _tidy(path, _csv(path, text, mark, names, header), names)
    return Table(frame, path, digest, tuple(_line_breaks(frame)) if b'"' in text else ())


def read_lines(path: Path, encoding: str = "utf-8") -> list[str]:
    """The lines of a text file that are not blank, without line ends and byte order mark; errors as above."""
    raw, _ = _content(path)
    text = _utf8(path, raw, encoding).decode()
    return [line for line in text.splitlines() if line.strip()]


def need_columns(frame: pl.DataFrame, names: Iterable[str], path: Path) -> None:
    """SplitError naming the first of ``names`` that ``frame`` lacks, and what it has instead."""
    for name in names:
        if name in frame.columns:
            continue
        near = difflib.get_close_matches(name.casefold(), [c.casefold() for c in frame.columns], n=1, cutoff=0.6)
        meant = next((c for c in frame.columns if near and c.casefold() == near[0]), "")
        hint = f"; did you mean {meant!r}?" if meant else ";"
        raise SplitError(f"{path}: there is no column {name!r}{hint} it has {_listed(frame.columns)}")


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:20])
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def digest_of_file(path: Path) -> str:
    """SHA-256 of the bytes of ``path``, in hex."""
    try:
        no_pipe(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise _unreadable(path, error) from None


def _content(path: Path) -> tuple[bytes, str]:
    raw, digest = _read(path)
    if raw[:2] == GZIP:
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error) as error:
            raise SplitError(f"{path} is a damaged gzip file ({error})") from None
    if not raw.strip():
        raise SplitError(f"{path} is empty")
    return raw, digest


def _read(path: Path) -> tuple[bytes, str]:
    try:
        no_pipe(path)
        raw = path.read_bytes()
    except OSError as error:
        raise _unreadable(path, error) from None
    return raw, hashlib.sha256(raw).hexdigest()


def _starts_with(path: Path, mark: bytes) -> bool:
    try:
        no_pipe(path)
        with path.open("rb") as file:
            return file.read(len(mark)) == mark
    except OSError as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: OSError) -> SplitError:
    if isinstance(error, FileNotFoundError):
        return SplitError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return SplitError(f"{path} is a folder; name the file")
    return SplitError(f"{path} can't be read ({error.strerror})")


def _utf8(path: Path, raw: bytes, encoding: str) -> bytes:
    """The text as UTF-8 without byte order mark and blank lines before it."""
    unknown = f"{encoding!r} is no text encoding; try utf-8, latin-1, cp1252 or utf-16"
    try:
        codec = codecs.lookup(encoding).name
    except (LookupError, ValueError):
        raise SplitError(unknown) from None
    wide = "utf-32" if raw[:4] == codecs.BOM_UTF32_LE else "utf-16"
    if raw[:2] in UTF16 and not codec.startswith(wide):
        raise SplitError(f"{path} is {wide.upper()} text; save it as UTF-8, or say --encoding {wide}")
    raw = raw.removeprefix(codecs.BOM_UTF8)
    try:
        decoded = "" if codec == "utf-8" and raw.isascii() else raw.decode(encoding)
        text = raw if codec in ("utf-8", "ascii") else decoded.removeprefix("\ufeff").encode()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise SplitError(
            f"{path}, line {line}: byte 0x{raw[error.start]:02x} is not {encoding}; "
            "save the file as UTF-8, or say --encoding latin-1 (or cp1252), whichever shows its letters rightly"
        ) from None
    except UnicodeError:
        raise SplitError(f"{path} is not {encoding}; save the file as UTF-8") from None
    except LookupError:  # a codec, but of bytes
        raise SplitError(unknown) from None
    if b"\x00" in text:
        line = text.count(b"\n", 0, text.index(b"\x00")) + 1
        raise SplitError(
            f"{path}, line {line}: a NUL character; this is no text table (CSV, TSV, Parquet or Excel), "
            "unless it is UTF-16 (say --encoding utf-16-le or utf-16-be)"
        )
    blank = BLANK_LINES.match(text)
    text = text[blank.end() :] if blank else text
    if not text.strip():
        raise SplitError(f"{path} is empty")
    return text if text.endswith(b"\n") else text + b"\n"


def _first_rows(text: bytes, mark: str, count: int) -> list[list[str]]:
    end = text.rfind(b"\n", 0, LOOKED_AT)
    if end < 0:
        end = text.index(b"\n")  # there is one: after a header of thousands of columns, or lines that end in CR
    start = text[: end + 1].decode(errors="ignore")
    rows = []
    try:
        for row in csv.reader(io.StringIO(start, newline=""), delimiter=mark, skipinitialspace=True):
            if row:
                rows.append(row)
            if len(rows) == count:
                break
    except csv.Error:
        pass
    return rows


def _separator(text: bytes) -> str:
    """The separator that splits the first lines into the same number of cells, the largest such number."""
    best, most = ",", 1
    for mark in (*SEPARATORS, " "):
        widths = Counter(len(row) for row in _first_rows(text, mark, 20))
        if len(widths) == 1 and (width := next(iter(widths))) > most and (mark != " " or most == 1):
            best, most = mark, width
    if most == 1:  # ragged or one column: the header decides
        header = _first_rows(text, ",", 1)
        line = mark_line[0] if (mark_line := text[:LOOKED_AT].decode(errors="ignore").splitlines()) else ""
        best = max(SEPARATORS, key=line.count) if header else ","
    return best


def _names(path: Path, text: bytes, mark: str, header: bool) -> list[str]:
    rows = _first_rows(text, mark, 1)
    if not rows:
        raise SplitError(f"{path}: the first line can't be read as a row of a table")
    if not header:
        return [f"column_{number + 1}" for number in range(len(rows[0]))]
    return [name.strip() for name in rows[0]]


def _csv(path: Path, text: bytes, mark: str, names: list[str], header: bool) -> pl.DataFrame:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    keys = [str(index) for index in range(len(names))]
    bad: list[tuple[int | None, int, bool]] = []

    def skip(row: Any) -> str:
        bad.append((row.number, row.actual_columns, "\n" in row.text))
        return "skip"

    def parsed(threads: bool) -> Any:
        bad.clear()
        return arrow_csv.read_csv(
            pa.py_buffer(text),
            read_options=arrow_csv.ReadOptions(
                column_names=keys, skip_rows_after_names=int(header), use_threads=threads, block_size=BLOCK
            ),
            parse_options=arrow_csv.ParseOptions(
                delimiter=mark, newlines_in_values=b'"' in text, invalid_row_handler=skip
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(keys, pa.string()),
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )

    try:
        table = parsed(threads=len(text) > 4 * BLOCK)  # a small file gains nothing, and threads outlive its errors
        if bad:
            table = parsed(threads=False)  # only one thread counts rows
    except pa.ArrowException as error:
        said = str(error).splitlines()[0][:200]
        why = "a double quote is not closed, or a row is very long" if "straddling" in said else said
        raise SplitError(f"{path} can't be read as a table ({why})") from None
    if bad:
        number, width, several = bad[0]
        where = f", row {number}" if number is not None else ""
        more = f" ({len(bad)} such rows)" if len(bad) > 1 else ""
        quoting = "close the double quote in it" if several else f"put cells that hold {mark!r} in double quotes"
        cells = f"{width} cell{'s' if width > 1 else ''}"
        raise SplitError(f"{path}{where}: {cells} where the first row has {len(names)}{more}; {quoting}")
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    if frame.height and _never_closed(text, frame[-1, -1]):
        raise SplitError(f"{path}: the double quote that opens the last cell is not closed; close it, or take it out")
    return pl.DataFrame([_bare(column) for column in frame])


def _never_closed(text: bytes, last: str) -> bool:
    """Whether the last cell was opened by a quote that nothing closes, so that it swallowed the rows after it."""
    whole = text.rstrip(b"\r\n")
    return last.endswith(("\r", "\n")) and (not whole.endswith(b'"') or whole.endswith(b'""'))


def _line_breaks(frame: pl.DataFrame) -> Iterator[str]:
    """Where cells hold line breaks, which is what a quote that is closed too late looks like."""
    for name in frame.columns:
        broken = frame[name].str.contains("\n", literal=True).fill_null(False)
        if broken.any():
            many = int(broken.sum())
            yield (
                f"{many} cell{'s' if many > 1 else ''} of column {name!r} with a line break (first: row "
                f"{(broken.arg_max() or 0) + 1}); if none is meant, a double quote is closed too late"
            )


def _parquet(path: Path) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    digest = digest_of_file(path)
    notes: list[str] = []
    texts: dict[str, pl.Series] = {}
    rounded: list[str] = []
    try:
        with path.open("rb") as raw, parquet.ParquetFile(raw) as file:  # opened here: a path need not be UTF-8
            names = file.schema_arrow.names
            _once(path, [name.strip() for name in names])
            for name in names:
                text, large = _column(file, name)
                if large:
                    rounded.append(name.strip())
                if text is None:
                    notes.append(f"column {name!r} holds no plain values and is not read")
                else:
                    texts[name] = text
    except (pa.ArrowException, OSError) as error:
        raise SplitError(f"{path} is a damaged Parquet file ({str(error).splitlines()[0][:200]})") from None
    frame = pl.DataFrame([text.alias(str(place)) for place, text in enumerate(texts.values())])
    return Table(_tidy(path, frame, list(texts)), path, digest, tuple(notes), True, tuple(rounded))


def _column(file: Any, name: str) -> tuple[pl.Series | None, bool]:
    """A column of an open Parquet file as bare text, a part at a time where it is text already; whether it is rounded.

    None where its type has no plain text.
    """
    import pyarrow as pa

    kind = file.schema_arrow.field(name).type
    parts: list[pl.Series] = []
    values: list[Any] = []
    for batch in file.iter_batches(batch_size=BATCH, columns=[name]):
        batch.validate(full=True)  # text that is no UTF-8 is found here and nowhere later
        if pa.types.is_string(kind) or pa.types.is_large_string(kind):
            parts.append(_bare(pl.Series(batch.column(name), dtype=pl.String)))
        else:
            values.append(batch.column(name))
    if parts:
        return pl.concat(parts, rechunk=False), False
    whole = pa.chunked_array(values, type=kind)
    text = _as_text(whole)
    return (None, False) if text is None else (_bare(text), _rounded(whole))


def _rounded(values: Any) -> bool:
    """Whether a column of floats holds a number from which on its type leaves whole numbers out."""
    from pyarrow import types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    if not types.is_floating(kind):
        return False
    bits = 11 if types.is_float16(kind) else 24 if types.is_float32(kind) else 53
    numbers = pl.Series(values).cast(pl.Float64)
    return bool(((numbers.abs() >= 2.0**bits) & numbers.is_finite()).any())


def _as_text(values: Any) -> pl.Series | None:
    """A column of a Parquet file as text; None where its type has no plain one (lists, bytes, durations)."""
    from pyarrow import types

    kind = values.type.value_type if types.is_dictionary(values.type) else values.type
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    others = (types.is_boolean, types.is_integer, types.is_floating, types.is_decimal128, types.is_null)
    times = (types.is_date, types.is_time, types.is_timestamp)
    if not any(fits(kind) for fits in (*texts, *others, *times)):
        return None
    try:
        column = pl.Series(values)
        if column.dtype.is_float():
            column = column.fill_nan(None)
            whole = column.drop_nulls()
            if bool(((whole == whole.floor()) & (whole.abs() < 2**53)).all()):
                column = column.cast(pl.Int64)
        if isinstance(column.dtype, pl.Datetime) and bool((column.dt.time() == datetime.time()).all()):
            column = column.dt.date()
        return column.cast(pl.String)
    except pl.exceptions.PolarsError:  # a time zone that is unknown here
        return None


def _bare(cells: pl.Series) -> pl.Series:
    """``cells`` without outer blanks, empty ones null."""
    return cells.str.strip_chars().to_frame().select(pl.when(pl.all() != "").then(pl.all())).to_series()


def _tidy(path: Path, frame: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """``frame``, of bare cells, with its real names; each column has a name or content."""
    called = [name.strip() or f"unnamed_{place}" for place, name in enumerate(names, 1)]
    _once(path, called)
    frame.columns = called
    blank = [name for name, given in zip(called, names, strict=True) if not given.strip()]
    frame = frame.drop([name for name in blank if frame[name].null_count() == frame.height])
    if not frame.columns:
        raise SplitError(f"{path} has no column with a name or plain values; the first row names the columns")
    return frame


def _once(path: Path, names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise SplitError(
            f"{path}: the column name {twice[0]!r} comes {names.count(twice[0])} times; give each column its own"
        )
