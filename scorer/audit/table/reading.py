"""Read a printed table: tidy (a row a value), a column a metric, or wide as printed, with or without a layout."""

import re
from decimal import Decimal
from pathlib import Path

from scorer.audit.shapes import AuditError
from scorer.audit.table import grid
from scorer.audit.table.cells import Cell, Number, Place, Table, no_value, number, ours
from scorer.audit.table.layout import Average, Layout
from splits.errors import SplitError
from splits.reading import SHEETS, need_columns, read_table

MAX_CELLS = 200_000
NO_PART = re.compile(
    r"avg|average|mean|std|\bs\.?[de]\b|total|overall|\ball\b|gain|delta|δ|diff|rank|improv|median|\bci\b"
)
AVERAGE_WORDS = ("average", "avg", "avg.", "mean")


def read_cells(path: Path, layout: Layout, encoding: str = "utf-8") -> Table:
    """The cells of a table: CSV, TSV, Parquet or Excel.

    Raises AuditError for a file that can't be read, columns that are missing or can't be told, a place that has two
    values, more than 200,000 cells, and no number at all.
    """
    try:
        if layout.wide is not None:
            rows, sha256 = _grid(path, encoding)
            names: list[str] = []
        else:
            read = read_table(path, encoding=encoding)
            need_columns(read.frame, [n for n in (layout.value, layout.metric, layout.method) if n is not None], path)
            names, sha256 = read.frame.columns, read.sha256
            rows = list(read.frame.fill_null("").iter_rows())
    except SplitError as error:
        raise AuditError(str(error)) from None
    try:
        plan = (
            grid.printed(rows, layout.wide, layout)
            if layout.wide is not None
            else grid.tidy(names, rows, layout) or grid.spread_out(names, rows, layout)
        )
    except AuditError as error:
        raise AuditError(f"{path}: {error}") from None
    if len(plan.values) * len(rows) > MAX_CELLS:
        raise AuditError(
            f"{path} has {len(plan.values) * len(rows):,} values; a printed table has at most {MAX_CELLS:,}"
        )
    found, unread, empty = _cells(path, rows, plan)
    if not found:
        raise AuditError(
            f"{path}: no cell is a number; a layout file names the columns (value, metric, method, or wide)"
        )
    metrics = dict.fromkeys(metric for _, metric, _, _ in found)
    known = {name: mine for name in metrics if (mine := ours(name)) is not None}
    guessed = list(plan.guessed)
    scale = layout.scale
    if scale is None:
        tested = [read for _, metric, _, read in found if metric in known or metric in layout.names]
        small = bool(tested) and all(not read.percent and abs(float(read.text)) <= 1 for read in tested)
        scale = "fraction" if small and any(float(read.text) for read in tested) else "percent"
        guessed.append(f"values are {'percent' if scale == 'percent' else 'fractions: none is above 1'}")
    average = layout.average
    if average is None:
        average = _average(found)
        if average is not None:
            guessed.append(f"cells with '{average.value}' in column '{average.column}' are averages")
    elif average.column not in {name for place, _, _, _ in found[:1] for name, _ in place}:
        raise AuditError(f"{path}: there is no column {average.column!r}, which the layout names for averages")
    cells = [_cell(place, metric, method, read, scale) for place, metric, method, read in found]
    cells.sort(key=lambda cell: (*cell.place.values(), cell.metric, cell.method))  # the order of rows says nothing
    return Table(
        tuple(cells), layout, plan.metric, plan.method, scale, average, {**known, **layout.names}, tuple(guessed),
        tuple(unread), empty, sha256,
    )  # fmt: skip


Found = tuple[Place, str, str, Number]


def _cells(path: Path, rows: list[tuple[str, ...]], plan: grid.Plan) -> tuple[list[Found], list[str], int]:
    found: list[Found] = []
    unread: list[str] = []
    empty = 0
    seen: dict[tuple[Place, str, str], str] = {}
    above: dict[str, str] = {}
    for row in rows[plan.first :]:
        own = {name: row[at] for at, name in plan.index}
        if plan.filled:
            own = _filled(own, above)
            above = own
        for at, said in plan.values:
            place = {**own, **said}
            metric, method = place.pop(plan.metric, ""), place.pop(plan.method, "")
            text = row[at]
            if no_value(text):
                empty += 1
                continue
            key = tuple(place.items())
            shown = ", ".join(part for part in (*place.values(), method, metric) if part)
            if (key, metric, method) in seen:
                raise AuditError(
                    f"{path}: two values for {shown}: {seen[key, metric, method]} and {text}; add the column that "
                    "tells them apart"
                )
            seen[key, metric, method] = text
            read = number(text)
            if read is None:
                unread.append(f"{shown}: {text[:80]!r}")
            else:
                found.append((key, metric, method, read))
    return found, unread, empty


def _filled(own: dict[str, str], above: dict[str, str]) -> dict[str, str]:
    """Empty cells of the index from the row above, up to the first that holds something."""
    filled = dict(own)
    for name, text in own.items():
        if text:
            break
        filled[name] = above.get(name, "")
    return filled


def _cell(place: Place, metric: str, method: str, read: Number, scale: str) -> Cell:
    text = read.text
    if read.percent and scale == "fraction":
        text = format(Decimal(text) / 100, "f")
    return Cell(dict(place), metric, method, text, float(text), read.spread)


def _average(found: list[Found]) -> Average | None:
    """The first column that has a word for an average beside two other values at least, all of which can be parts."""
    values: dict[str, dict[str, None]] = {}
    for place, _, _, _ in found:
        for name, text in place:
            values.setdefault(name, {})[text] = None
    for name, texts in values.items():
        words = [text for text in texts if text.casefold() in AVERAGE_WORDS]
        other = any(NO_PART.search(text[:60].casefold()) for text in texts if text not in words)
        if len(words) == 1 and len(texts) > 2 and not other:
            return Average(column=name, value=words[0])
    return None


def _grid(path: Path, encoding: str) -> tuple[list[tuple[str, ...]], str]:
    """Every row as text, the header's too."""
    try:
        read = read_table(path, encoding=encoding, header=False)
    except SplitError as error:
        if "beyond the last named column" not in str(error):
            raise
        raise SplitError(f"{error}; or save the sheet as CSV, where header rows may have gaps") from None
    rows = [tuple(row) for row in read.frame.fill_null("").iter_rows()]
    with path.open("rb") as file:
        if read.parquet or file.read(4) in SHEETS:  # its reader takes the first row for names in any case
            names = tuple("" if name.startswith("unnamed_") else name for name in read.frame.columns)
            rows.insert(0, names)
    return rows, read.sha256
