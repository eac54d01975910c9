"""Text tables too long to hold as text: read in pieces, numbers kept as numbers from the start."""

import csv
import io
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from scorer.audit.reading import numbers
from scorer.audit.reading.numbers import NO_TIERS, Tiers, Typed
from scorer.audit.reading.source import MAX_CELLS, Source

BLOCK = 16 << 20


@dataclass
class _Column:
    """What is known of a column so far: its pieces, each floats or text, and whether it may hold numbers only."""

    text: bool  # settled: it stays text
    pieces: list[pl.Series] = field(default_factory=list)
    tiers: Tiers = NO_TIERS
    pointed: bool = False
    failed: bool = False

    def add(self, cells: pl.Series) -> None:
        if self.text:
            self.pieces.append(cells)
            return
        values = None if self.failed else numbers.as_floats(cells)
        if values is None:
            self.failed = True
            self.pieces.clear()
        elif numbers.pointed(cells, values):
            self.pointed = True
            self.tiers = numbers.merged(self.tiers, numbers.decimals(cells, values))
            self.pieces.append(values)
        else:
            self.pieces.append(cells)  # whole numbers: text, should the rest be so too

    def whole(self, name: str) -> pl.Series:
        if self.pointed:
            pieces = [p if p.dtype == pl.Float64 else p.cast(pl.Float64, strict=False) for p in self.pieces]
            pieces = [p.fill_nan(None) for p in pieces]
        else:
            pieces = self.pieces
        self.pieces = []
        return pl.concat(pieces, rechunk=True).alias(name) if pieces else pl.Series(name, [], pl.String)


def read_long(source: Source, mark: str, header: bool, commas: bool) -> Typed | None:
    """The table, typed; None where anything is odd: reading it whole then says what."""
    with source.content.open("rb") as file:
        first = file.readline(1 << 20)
        quoted = any(b'"' in part for part in iter(lambda: file.read(1 << 22), b"")) or b'"' in first
    try:
        line = first.decode("utf-8-sig").strip("\r\n")
        row = next(csv.reader(io.StringIO(line, newline=""), delimiter=mark, skipinitialspace=True))
    except (UnicodeDecodeError, csv.Error, StopIteration):
        return None
    names = [cell.strip() for cell in row] if header else [f"column_{place + 1}" for place in range(len(row))]
    names = [name or f"unnamed_{place}" for place, name in enumerate(names, 1)]
    if len(set(names)) < len(names):
        return None
    columns = _pass(source, mark, header, quoted, [False] * len(names))
    if columns and any(column.failed for column in columns):
        settled = [column.failed or not column.pointed for column in columns]
        del columns
        columns = _pass(source, mark, header, quoted, settled)
    if columns is None:
        return None
    precision: dict[str, str] = {}
    facts: dict[str, str] = {}
    notes: list[str] = []
    series = []
    for name, column in zip(names, columns, strict=True):
        whole = column.whole(name)
        if column.pointed:
            precision[name] = numbers.decimals_of(column.tiers)
        elif column.text and (commas or whole.head(numbers.SAMPLE).str.contains(r"%|^\[").any()):
            other = numbers.typed(whole.to_frame(), commas=commas)
            if other.frame.width > 1 and set(other.frame.columns) & set(names):
                return None
            series += other.frame.get_columns()
            precision, facts = {**precision, **other.precision}, {**facts, **other.facts}
            notes += other.notes
            continue
        if not (name.startswith("unnamed_") and whole.null_count() == whole.len()):
            series.append(whole)
    return Typed(pl.DataFrame(series), precision, facts, tuple(notes))


def _pass(source: Source, mark: str, header: bool, quoted: bool, settled: list[bool]) -> list[_Column] | None:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    columns = [_Column(text) for text in settled]
    keys = [str(place) for place in range(len(settled))]
    rows, last = 0, ""
    try:
        with arrow_csv.open_csv(
            source.content,
            read_options=arrow_csv.ReadOptions(
                column_names=keys, skip_rows_after_names=int(header), use_threads=False, block_size=BLOCK
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=mark, newlines_in_values=quoted),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(keys, pa.string()), strings_can_be_null=False
            ),
        ) as stream:
            batch: Any
            for batch in stream:
                if not batch.num_rows:
                    continue
                rows += batch.num_rows
                if rows * len(keys) > MAX_CELLS:
                    source.refuse(f"more than {rows} rows of {len(keys)} columns can't be audited at once; split it")
                for column, key in zip(columns, keys, strict=True):
                    cells = pl.Series(key, batch.column(key), dtype=pl.String).str.strip_chars()
                    last = cells[-1] if key == keys[-1] else last
                    column.add(cells.set(cells == "", None))
    except (pa.ArrowException, OSError, pl.exceptions.PolarsError):
        return None
    odd = rows == 0 or (quoted and '"' in last)
    return None if odd else columns
