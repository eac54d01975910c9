"""A tidy printed table as cells that keep their text: how a number was printed is part of what it says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from scorer.audit.shapes import AuditError
from scorer.audit.table.layout import Layout
from splits.errors import SplitError
from splits.reading import need_columns, read_table

NUMBER = re.compile(r"[-+]?(?:\d{1,12}\.?\d{0,12}|\.\d{1,12})")
SIGNS = str.maketrans({"−": "-", "–": "-", " ": None, "*": None})
MAX_CELLS = 1_000_000
METRICS = {
    "acc": "accuracy", "accuracy": "accuracy", "acc.": "accuracy", "top1": "accuracy",
    "ece": "ece", "mce": "mce", "ace": "ace",
}  # fmt: skip


def decimals(text: str) -> int:
    """The number of decimals that ``text`` prints."""
    return len(text.partition(".")[2])


def half_unit(text: str) -> float:
    """Half a unit of the last printed decimal, and a little more for the conversion to binary."""
    return 0.5 * 10.0 ** -decimals(text) + 1e-9


@dataclass(frozen=True)
class Cell:
    """One printed value: ``place`` maps every other column but metric and method to its text."""

    place: Mapping[str, str]
    metric: str
    method: str
    text: str
    value: float

    @property
    def shown(self) -> str:
        """Where it stands, in words."""
        return ", ".join([*self.place.values(), self.method, self.metric]) + f": {self.text}"

    @cached_property
    def key(self) -> tuple[tuple[str, str], ...]:
        """The place as a key."""
        return tuple(self.place.items())


@dataclass(frozen=True)
class Table:
    """The cells in the order of their names; ``names`` maps the table's names of metrics to ours.

    ``unread`` cells hold no number.
    """

    cells: tuple[Cell, ...]
    layout: Layout
    names: Mapping[str, str]
    unread: tuple[str, ...]
    sha256: str

    def called(self, metric: str) -> tuple[str, ...]:
        """The table's names of one of our metrics."""
        return tuple(name for name, ours in self.names.items() if ours == metric)

    def is_average(self, cell: Cell) -> bool:
        """Whether the layout says that the cell is a mean of others."""
        average = self.layout.average
        return average is not None and cell.place.get(average.column) == average.value

    @cached_property
    def by_key(self) -> dict[tuple[tuple[tuple[str, str], ...], str, str], Cell]:
        """Cells by place, metric and method."""
        return {(cell.key, cell.metric, cell.method): cell for cell in self.cells}

    def of(self, where: Mapping[str, str], metric: str, methods: Sequence[str]) -> dict[tuple[str, ...], list[Cell]]:
        """Cells of ``methods`` in their order, by place, at the places that ``where`` chooses and that have all."""
        found: dict[tuple[str, ...], dict[str, Cell]] = {}
        for cell in self.cells:
            if cell.metric == metric and all(cell.place.get(name) == value for name, value in where.items()):
                found.setdefault(tuple(cell.place.values()), {})[cell.method] = cell
        return {place: [own[m] for m in methods] for place, own in found.items() if all(m in own for m in methods)}


def read_cells(path: Path, layout: Layout) -> Table:
    """The cells of a tidy table (CSV, TSV, Parquet, Excel): a row a value.

    Raises AuditError for a file that can't be read, missing columns, a place that has two values, and no number at all.
    """
    try:
        table = read_table(path)
        need_columns(table.frame, [layout.value, layout.metric, layout.method], path)
    except SplitError as error:
        raise AuditError(str(error)) from None
    frame = table.frame
    if frame.height > MAX_CELLS:
        raise AuditError(f"{path} has {frame.height:,} rows; a printed table has at most {MAX_CELLS:,}")
    if layout.average is not None and layout.average.column not in frame.columns:
        raise AuditError(f"{path}: there is no column {layout.average.column!r}, which the layout names for averages")
    others = [c for c in frame.columns if c not in (layout.value, layout.metric, layout.method)]
    cells: list[Cell] = []
    unread: list[str] = []
    seen: dict[tuple[str, ...], str] = {}
    columns = frame.select(layout.value, layout.metric, layout.method, *others).fill_null("")
    for text, metric, method, *place in columns.iter_rows():
        number = text.translate(SIGNS).removesuffix("%")
        where = (metric, method, *place)
        shown = ", ".join([*place, method, metric])
        if where in seen:
            raise AuditError(
                f"{path}: two values for {shown}: {seen[where]} and {text}; add the column that tells them apart"
            )
        seen[where] = text
        if not NUMBER.fullmatch(number):
            unread.append(f"{shown}: {text!r}")
            continue
        cells.append(Cell(dict(zip(others, place, strict=True)), metric, method, number, float(number)))
    if not cells:
        raise AuditError(f"{path}: no cell of column {layout.value!r} is a number; name the column in a layout file")
    metrics = dict.fromkeys(cell.metric for cell in cells)
    guessed = {name: METRICS[name.casefold()] for name in metrics if name.casefold() in METRICS}
    names: dict[str, str] = {**guessed, **layout.names}
    cells.sort(key=lambda cell: (*cell.place.values(), cell.metric, cell.method))  # the order of rows says nothing
    return Table(tuple(cells), layout, names, tuple(unread), table.sha256)
