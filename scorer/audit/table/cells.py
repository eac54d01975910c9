"""A printed table as cells that keep their text: how a number was printed is part of what it says."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from scorer.audit.shapes import AuditError
from scorer.audit.table.layout import Average, Choice, Layout

_NUMBER = r"[-+]?(?:[0-9]{1,12}\.?[0-9]{0,12}|\.[0-9]{1,12})(?:[eE][-+]?(?:[0-9]|1[0-2]))?"
PRINTED = re.compile(rf"({_NUMBER})(%?)(?:±({_NUMBER})%?)?")
DASHES = str.maketrans(dict.fromkeys("−–‐‑", "-"))
UNSAID = dict.fromkeys("*_$↑↓†‡§ \t\u00a0\u2009\u202f\u200b\ufeff")  # marks and blanks around a number
SIGNS = DASHES | str.maketrans(UNSAID)
PLUS_MINUS = re.compile(r"\\pm|\+/-|\+-")
MARKS = re.compile(r"\\[a-z]{2,12}\{|</?(?:[biu]|strong|em)>|[{}]")
NO_VALUE = frozenset({"", "-", "--", "---", "—", "n/a", "na", "nan", "none", "null"})
LONGEST = 200  # characters of a cell that may be a number
METRICS = {
    "acc": "accuracy", "accuracy": "accuracy", "top1": "accuracy", "top-1": "accuracy", "acc@1": "accuracy",
    "ece": "ece", "expected calibration error": "ece", "mce": "mce", "maximum calibration error": "mce",
    "ace": "ace", "adaptive calibration error": "ace",
}  # fmt: skip
UNTESTED = frozenset({"auc", "auroc", "auprc", "nll", "brier", "f1", "kappa", "loss", "sce", "sensitivity", "aurc"})
Place = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Number:
    """A number as printed, without marks; ``percent`` where a percent sign follows it, ``spread`` after '±' or ''."""

    text: str
    percent: bool
    spread: str


def number(text: str) -> Number | None:
    """The number that a cell prints: '76.69', '**76.69**', '76.69 ± 0.4', '76.69%'. None for anything else."""
    if len(text) > LONGEST:
        return None
    bare = MARKS.sub("", PLUS_MINUS.sub("±", text).translate(SIGNS))
    found = PRINTED.fullmatch(bare)
    if found is None:
        return None
    value, percent, spread = found.groups()
    if "e" in value.casefold():
        value = format(Decimal(value), "f")
    return Number(value, bool(percent), spread or "")


def no_value(text: str) -> bool:
    """Whether a cell says in so many words, or by a dash, that it has no value."""
    return text[:LONGEST].casefold().translate(DASHES) in NO_VALUE


def metric_word(name: str) -> str:
    """A metric's name without '(%)', arrows and a full stop."""
    return re.sub(r"\(.{0,9}\)|[↑↓%*$]", "", name[:60]).strip().rstrip(".").casefold()


def ours(name: str) -> str | None:
    """Our name of a metric that a table calls ``name``."""
    return METRICS.get(metric_word(name))


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
    spread: str = ""

    @property
    def where(self) -> str:
        """Where it stands, in words."""
        return ", ".join(part for part in (*self.place.values(), self.method, self.metric) if part)

    @property
    def shown(self) -> str:
        """Where it stands, and the value."""
        return f"{self.where}: {self.text}"

    @cached_property
    def key(self) -> Place:
        """The place as a key."""
        return tuple(self.place.items())


@dataclass(frozen=True)
class Table:
    """The cells in the order of their names; ``names`` maps the table's names of metrics to ours.

    ``metric`` and ``method`` are what the source calls those columns ('' for none), ``scale`` and ``average`` those of
    the layout or guessed; ``guessed`` says in words what was. ``unread`` cells hold text that is no number, ``empty``
    counts those that hold none.
    """

    cells: tuple[Cell, ...]
    layout: Layout
    metric: str
    method: str
    scale: str
    average: Average | None
    names: Mapping[str, str]
    guessed: tuple[str, ...]
    unread: tuple[str, ...]
    empty: int
    sha256: str

    @property
    def unit(self) -> float:
        """One percent in the scale of the table."""
        return 1.0 if self.scale == "percent" else 0.01

    def called(self, metric: str) -> tuple[str, ...]:
        """The table's names of one of our metrics."""
        return tuple(name for name, known in self.names.items() if known == metric)

    def is_average(self, cell: Cell) -> bool:
        """Whether the cell is a mean of others."""
        return self.average is not None and cell.place.get(self.average.column) == self.average.value

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Every name that a choice of cells may use."""
        places = dict.fromkeys(name for cell in self.cells[:1] for name in cell.place)
        return tuple(name for name in (*places, self.metric, self.method) if name)

    def part(self, cell: Cell, column: str) -> str:
        """What a cell has in ``column``."""
        if column == self.metric:
            return cell.metric
        return cell.method if column == self.method else cell.place.get(column, "")

    @cached_property
    def _holders(self) -> dict[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for at, cell in enumerate(self.cells):
            for column in self.columns:
                found.setdefault((column, self.part(cell, column)), []).append(at)
        return found

    def choose(self, where: Mapping[str, str | list[str]], name: str) -> list[Cell]:
        """The cells that ``where`` chooses. Averages count only where it names their column.

        Raises AuditError, with ``name`` of the claim, for a column that the table does not have.
        """
        chosen: set[int] | None = None
        for column, wanted in where.items():
            if column not in self.columns:
                raise AuditError(f"{name}: the table has no column {column!r}; it has {', '.join(self.columns)}")
            values = [wanted] if isinstance(wanted, str) else wanted
            holding = {at for value in values for at in self._holders.get((column, value), [])}
            chosen = holding if chosen is None else chosen & holding
        cells = [self.cells[at] for at in sorted(chosen)] if chosen is not None else list(self.cells)
        if self.average is not None and self.average.column in where:
            return cells
        return [cell for cell in cells if not self.is_average(cell)]

    def of(self, where: Choice, methods: Sequence[str], name: str) -> dict[Place, list[Cell]]:
        """Cells of ``methods`` in their order, by place, at the places that ``where`` chooses and that have all.

        Raises AuditError where ``where`` doesn't choose one metric.
        """
        found: dict[Place, dict[str, Cell]] = {}
        cells = self.choose(where, name)
        metrics = {cell.metric for cell in cells}
        if len(metrics) > 1 or (self.metric and self.metric not in where):
            raise AuditError(f"{name}: 'where' must name the metric: {self.metric}: ...")
        for cell in cells:
            found.setdefault(cell.key, {})[cell.method] = cell
        return {place: [own[m] for m in methods] for place, own in found.items() if all(m in own for m in methods)}
