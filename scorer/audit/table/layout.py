"""The layout file of a printed table: what its columns mean, and the figures of the text that follow from it."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from protocol.findings import plain
from protocol.types import Record
from scorer.audit.shapes import AuditError
from splits.errors import SplitError
from splits.files import no_pipe
from submission.yaml_io import MAX_BYTES, parse_record

Where = dict[str, str]
Choice = dict[str, str | list[str]]  # one value of a column, or several
Known = Literal["accuracy", "ece", "mce", "ace"]
Alternative = Literal["two-sided", "greater", "less"]
Names = Annotated[list[str], Field(min_length=1, max_length=20)]


class Average(Record):
    """Cells that are means: those with ``value`` in ``column``, over the other values of that column."""

    column: str
    value: str


class Images(Record):
    """How many test images each value of ``column`` has; an accuracy is the mean of ``seeds`` runs on them.

    ``run_decimals``: each run was rounded so before the mean was taken; None where it was not.
    """

    column: str
    n: dict[str, Annotated[int, Field(ge=1, le=10**9)]] = Field(min_length=1)
    seeds: int = Field(default=1, ge=1, le=1000)
    run_decimals: int | None = Field(default=None, ge=0, le=12)


class Wide(Record):
    """A table as printed: ``header`` says what its first rows hold, ``index`` what its first columns hold.

    'metric | method' takes a header cell such as 'ECE | Base' apart at ``split``; rows of the same name are joined, ''
    passes a row or a column over. An empty cell of the index stands for the one above it, an empty cell of any row
    of the header but the last for the one to its left. ``fixed`` names what the whole table shares: {metric: ECE}.
    """

    header: Names
    index: list[str] = Field(max_length=20)
    split: str = Field(default="|", min_length=1, max_length=5)
    fixed: Where = Field(default_factory=dict)


class RankPair(Record):
    """Two places of the table whose rankings of methods are compared."""

    first: Where
    second: Where


class KendallClaim(Record):
    """Printed figures on Kendall's tau-b between rankings of ``methods``, one test a pair; figures as printed text."""

    name: str
    metric: str
    methods: list[str] = Field(min_length=2)
    pairs: list[RankPair] = Field(min_length=1, max_length=1000)
    tests: int | None = None
    mean: str | None = None
    median: str | None = None
    negative: int | None = None
    positive: int | None = None


class PairedClaim(Record):
    """Printed figures on ``first`` minus ``second`` (methods) over the cells that ``where`` chooses, as printed text.

    ``decimals``: values are rounded so before they are subtracted; None takes them as printed.
    """

    name: str
    where: Choice
    first: str
    second: str
    p: str | None = None
    stated: Alternative | None = None
    mean: str | None = None
    median: str | None = None
    wins: int | None = None
    losses: int | None = None
    decimals: int | None = Field(default=None, ge=0, le=12)


class FigureClaim(Record):
    """A number of the text, as printed: that of one cell, or a statistic of all cells that ``where`` chooses."""

    name: str
    of: Literal["value", "mean", "median", "min", "max"] = "value"
    where: Choice
    printed: str


class RankClaim(Record):
    """How often ``method`` is best, or its mean rank, over the places that ``where`` chooses.

    ``among``: the methods that are compared, all where None. ``best`` of ``of`` places; ties with the best are told
    apart. ``decimals``: values are rounded so before. The lowest is best but for accuracy; ``lowest`` says otherwise.
    """

    name: str
    where: Choice
    method: str
    among: list[str] | None = None
    best: int | None = None
    of: int | None = None
    mean_rank: str | None = None
    lowest: bool | None = None
    decimals: int | None = Field(default=None, ge=0, le=12)


class CorrelationClaim(Record):
    """A printed correlation of the cells that ``x`` chooses with those that ``y`` chooses, both within ``where``.

    Cells are paired by the columns that ``x`` and ``y`` don't name.
    """

    name: str
    kind: Literal["pearson", "spearman", "kendall"]
    x: Where = Field(min_length=1)
    y: Where = Field(min_length=1)
    where: Choice = Field(default_factory=dict)
    r: str | None = None
    p: str | None = None
    stated: Alternative | None = None


class Layout(Record):
    """What the columns of a table hold; what is None is guessed. ``names`` maps its names of metrics to ours.

    ``scale`` is that of all values. ``mce`` says how the source defines it: ``max`` can't be below the ECE on the same
    bins, ``weighted`` can't be above.
    """

    value: str | None = None
    metric: str | None = None
    method: str | None = None
    wide: Wide | None = None
    names: dict[str, Known] = Field(default_factory=dict)
    scale: Literal["percent", "fraction"] | None = None
    mce: Literal["max", "weighted"] = "max"
    average: Average | None = None
    images: Images | None = None
    kendall: list[KendallClaim] = Field(default_factory=list, max_length=200)
    paired: list[PairedClaim] = Field(default_factory=list, max_length=200)
    figures: list[FigureClaim] = Field(default_factory=list, max_length=500)
    ranks: list[RankClaim] = Field(default_factory=list, max_length=200)
    correlations: list[CorrelationClaim] = Field(default_factory=list, max_length=200)


def read_layout(path: Path) -> Layout:
    """The layout in a YAML (or JSON) file. Raises AuditError with every problem that it has."""
    try:
        no_pipe(path, "the layout")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except SplitError as error:
        raise AuditError(str(error)) from None
    except OSError as error:
        raise AuditError(f"{path} can't be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise AuditError(f"{path} has more than {MAX_BYTES:,} bytes; a layout is a small file")
    found, problems = parse_record(TypeAdapter(Layout), data, path.name)
    if found is None:
        said = "; ".join(plain(f"{p.where}: {p.saw}, wanted {p.wanted}", 300) for p in problems[:5])
        raise AuditError(f"{path} is no layout: {said}")
    return found
