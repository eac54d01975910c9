"""Opening a submitted table: its column names first, and its columns only when names and row count are in order."""

import re
from collections.abc import Callable
from typing import Any, BinaryIO

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from protocol.facts import Problem
from protocol.findings import MAX_SAMPLES
from protocol.task import Task
from scorer.intake.columns import at, colliding, is_csv, kind_wanted, too_many

PERCENT = "looks like percent: divide by 100"
MAX_GROUPS = 1000  # row groups of a Parquet file, and one more per so many rows
MAX_CHUNKS = 1_000_000  # columns times row groups
MAX_VALUE = 804  # bytes of a stored value: 200 characters of text and their length
SLACK = 4 << 20  # bytes of a column chunk beside its values
HEADER = 1 << 20  # bytes of the first line of a CSV file
BLOCK = 4 << 20
Reader = Callable[[list[str], set[str]], pa.Table]
Room = Callable[[int, int], None]


def no_limit(rows: int, columns: int) -> None:
    """Room for any table: what is told where nothing limits the process."""


class Refused(Exception):
    """The table can't be used; carries the problems that say why."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


def open_table(
    source: BinaryIO, file: str, task: Task, max_rows: int, room: Room = no_limit
) -> tuple[list[str], Reader]:
    """Column names and a function that reads columns; raises Refused before anything large is read.

    ``room`` is told how many rows and columns are about to be read.
    """
    head = source.read(4)
    source.seek(0)
    if not head:
        raise Refused(Problem("unreadable-file", file, "an empty file", "a table"))
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        raise Refused(Problem("pickle-refused", file, "a pickle", "Parquet or CSV"))
    if is_csv(file):
        names, rows, reader = _open_csv(source, file, task, max_rows, room)
    elif head != b"PAR1":
        raise Refused(Problem("unreadable-file", file, f"no Parquet (it starts with {head!r})", "a Parquet file"))
    else:
        names, rows, reader = _open_parquet(source, file, task)
    problems = colliding(names, file)
    if problems:
        raise Refused(*problems)
    if rows == 0:
        raise Refused(Problem("no-rows", file, "0 rows", "one row or more"))
    if rows > max_rows:
        raise _too_many_rows(file, f"{rows} rows", max_rows)
    room(rows, len(names))
    return names, reader


def _too_many_rows(file: str, saw: str, max_rows: int) -> Refused:
    return Refused(Problem("row-count-bomb", file, saw, f"at most {max_rows}, from the record"))


def _open_parquet(source: BinaryIO, file: str, task: Task) -> tuple[list[str], int, Reader]:
    opened = pq.ParquetFile(source)
    names = list(opened.schema_arrow.names)
    problems = too_many(names, task, file)
    if problems:
        raise Refused(*problems)

    def read(wanted: list[str], text: set[str]) -> pa.Table:
        _groups(opened.metadata, file)
        nested = [field for name in wanted if pa.types.is_struct((field := opened.schema_arrow.field(name)).type)]
        if nested:
            raise Refused(*(Problem("wrong-dtype", f"{file}: {f.name}", str(f.type), "a flat column") for f in nested))
        # Text is kept as a dictionary: an identifier repeated in a thousand runs is stored once.
        strings = [n for n in wanted if n in text and pa.types.is_string(opened.schema_arrow.field(n).type)]
        source.seek(0)
        table = pq.ParquetFile(source, read_dictionary=strings).read(columns=wanted, use_threads=False)
        if table.num_rows != opened.metadata.num_rows:
            saw = f"{opened.metadata.num_rows} rows in the footer, {table.num_rows} in the pages"
            raise Refused(Problem("unreadable-file", file, saw, "a footer that agrees with its pages"))
        table.validate(full=True)
        return table

    return names, opened.metadata.num_rows, read


def _groups(metadata: Any, file: str) -> None:
    """Refuse row groups that are too many, contradict the row count, or claim more bytes than their rows can have."""
    groups, rows = metadata.num_row_groups, metadata.num_rows
    if groups > MAX_GROUPS + rows // MAX_GROUPS or groups * metadata.num_columns > MAX_CHUNKS:
        raise Refused(Problem("too-large", file, f"{groups} row groups", f"one per {MAX_GROUPS} rows or more"))
    claimed = 0
    for index in range(groups):
        group = metadata.row_group(index)
        claimed += group.num_rows
        for place in range(metadata.num_columns):
            chunk = group.column(place)
            if not 0 <= chunk.total_uncompressed_size <= SLACK + max(0, chunk.num_values) * MAX_VALUE:
                saw = f"{chunk.total_uncompressed_size} bytes for {chunk.num_values} values"
                wanted = f"at most {MAX_VALUE} bytes a value"
                raise Refused(Problem("too-large", f"{file}: {chunk.path_in_schema}", saw, wanted))
    if claimed != rows:
        saw = f"{rows} rows in all, {claimed} in its row groups"
        raise Refused(Problem("unreadable-file", file, saw, "a footer that agrees with itself"))


def _open_csv(source: BinaryIO, file: str, task: Task, max_rows: int, room: Room) -> tuple[list[str], int, Reader]:
    header = source.readline(HEADER)
    source.seek(0)
    if len(header) == HEADER:
        raise Refused(Problem("unreadable-file", file, f"no line end in the first {HEADER} bytes", "a line of names"))
    listed = [""] * (header.count(b",") + 1)
    if not too_many(listed, task, file):
        listed = _header(header)
    problems = too_many(listed, task, file)
    if problems:
        raise Refused(*problems)
    if len(listed) == 1:
        for mark, shown in ((";", ";"), ("\t", "tabs"), ("|", "|")):
            if mark in listed[0]:
                raise Refused(Problem("unreadable-file", file, f"columns separated by {shown}", "commas"))
    if colliding(listed, file):
        return listed, 1, lambda wanted, text: pa.table({})
    options = pa.csv.ConvertOptions(column_types=dict.fromkeys(listed, pa.string()), strings_can_be_null=False)
    try:
        table = _rows(source, options, file, max_rows, room)
    except pa.ArrowInvalid as error:
        found = re.search(r"Expected (\d+) columns, got (\d+): (.*)", str(error))
        if found is None:
            raise
        saw = f"{found[2]} values under {found[1]} column names: {found[3][:120]}"
        wanted = "a value per column, with commas between them and a point before decimals"
        raise Refused(Problem("unreadable-file", file, saw, wanted)) from None

    if table.num_columns != len(listed):
        raise Refused(Problem("unreadable-file", file, f"{table.num_columns} columns", f"{len(listed)}, as named"))

    def read(wanted: list[str], text: set[str]) -> pa.Table:
        columns: dict[str, pa.ChunkedArray] = {}
        problems: list[Problem] = []
        for name in wanted:
            try:
                columns[name] = table[name] if name in text else _numbers(table[name], name, file)
            except Refused as refused:
                problems += refused.problems
        if problems:
            raise Refused(*_joined(problems, file))
        return pa.table(columns)

    return listed, table.num_rows, read


def _rows(source: BinaryIO, options: Any, file: str, max_rows: int, room: Room) -> pa.Table:
    """All rows as text; stops where there are more than ``max_rows``."""
    blocks: list[pa.RecordBatch] = []
    rows = 0
    with pa.csv.open_csv(source, pa.csv.ReadOptions(block_size=BLOCK), convert_options=options) as reader:
        for block in reader:
            rows += block.num_rows
            if rows > max_rows:
                raise _too_many_rows(file, f"more than {max_rows} rows", max_rows)
            room(rows, 2 * block.num_columns)  # as text and as numbers
            blocks.append(block)
        return pa.Table.from_batches(blocks, reader.schema)


def _header(line: bytes) -> list[str]:
    """Names in the first line, all of them as text."""
    names = pa.csv.ReadOptions(autogenerate_column_names=True)
    count = pa.csv.read_csv(pa.BufferReader(line), read_options=names).num_columns
    types = pa.csv.ConvertOptions(column_types={f"f{n}": pa.string() for n in range(count)}, strings_can_be_null=False)
    first = pa.csv.read_csv(pa.BufferReader(line), read_options=names, convert_options=types).to_pylist()
    return [str(name) for name in (first[0].values() if first else ())]


def _joined(problems: list[Problem], file: str) -> list[Problem]:
    """Percent signs in several columns are one problem."""
    percent = [p for p in problems if p.saw.endswith(PERCENT)]
    if len(percent) < 2:
        return problems
    where = f"{file}: {', '.join(p.where.removeprefix(f'{file}: ') for p in percent)}"
    first = percent[0]
    joined = Problem(first.offence, where, first.saw, first.wanted, sum(p.count for p in percent), first.samples)
    return [joined, *(p for p in problems if p not in percent)]


def _numbers(column: pa.ChunkedArray, name: str, file: str) -> pa.ChunkedArray:
    """A CSV text column as numbers; probability columns carry the printed decimals in a struct beside the value."""
    frame = pl.DataFrame({"text": pl.from_arrow(column)})
    whole = name in ("seed", "fold") or name.startswith("label")
    empty = pl.col("text") == ""
    value = pl.coalesce(*_whole(name)) if whole else pl.col("text").cast(pl.Float64, strict=False)
    if whole and name != "seed":  # pandas writes the labels that are not there so
        empty |= pl.col("text").str.to_lowercase() == "nan"
    frame = frame.with_columns(value=pl.when(empty).then(None).otherwise(value), row=pl.int_range(pl.len()))
    bad = frame.filter(pl.col("value").is_null() & ~empty)
    if bad.height:
        shown = bad.select("text", "row").head(MAX_SAMPLES).rows()
        samples = tuple(f"{at(file, row)}: {text[:40]!r}" for text, row in shown)
        kind = kind_wanted(name, "whole numbers" if whole else "numbers")
        saw, wanted = _meant(shown[0][0], f"text such as {samples[0]}", kind)
        raise Refused(Problem("wrong-dtype", f"{file}: {name}", saw, wanted, bad.height, samples))
    if whole:
        return pa.chunked_array([frame["value"].to_arrow()])
    field_ = pa.field("value", pa.float64(), metadata={b"decimals": str(_decimals(frame)).encode()})
    return pa.chunked_array([pa.StructArray.from_arrays([frame["value"].to_arrow()], fields=[field_])])


def _whole(name: str) -> list[pl.Expr]:
    """Ways to read text as whole numbers without loss: 1, 1.0 as pandas writes it beside nulls, True as a label."""
    text = pl.col("text")
    real = text.cast(pl.Float64, strict=False)
    ways = [text.cast(pl.Int64, strict=False), pl.when(real == real.floor()).then(real).cast(pl.Int64, strict=False)]
    if name.startswith("label"):
        ways.append(
            text.str.to_lowercase().replace_strict({"true": 1, "false": 0}, default=None, return_dtype=pl.Int64)
        )
    return ways


def _meant(text: str, saw: str, wanted: str) -> tuple[str, str]:
    """Hints for numbers that were written otherwise."""
    if re.fullmatch(r"\s*[0-9.,]+\s*%\s*", text):
        return f"{saw}; {PERCENT}", wanted
    if re.fullmatch(r"\s*[+-]?[0-9]*,[0-9]+\s*", text):
        return f"{saw}: decimal commas", f"{wanted} with a decimal point"
    return saw, wanted


def _decimals(frame: pl.DataFrame) -> int:
    """The most decimals printed in a column of numbers (1.2e-05 has six).

    Exact 0 and 1 tell nothing, and of numbers printed to some significant digits the large ones have the fewest
    decimals: those count where there are any.
    """
    inside = frame.filter((pl.col("value") > 0) & (pl.col("value") < 1))
    large = inside.filter(pl.col("value") >= 0.1)
    parts = (large if large.height else inside).select(
        fraction=pl.col("text").str.extract(r"\.(\d+)", 1).str.len_bytes().fill_null(0).cast(pl.Int64),
        exponent=pl.col("text").str.extract(r"[eE]([+-]?\d+)", 1).cast(pl.Int64, strict=False).fill_null(0),
    )
    most = parts.select((pl.col("fraction") - pl.col("exponent")).max()).item()
    return max(0, int(most or 0))
