"""The layout file of a printed table: what its columns mean, and the figures of the text that follow from it."""

from pathlib import Path
from typing import Literal

from pydantic import Field, TypeAdapter

from protocol.findings import plain
from protocol.types import Record
from scorer.audit.shapes import AuditError
from splits.errors import SplitError
from splits.files import no_pipe
from submission.yaml_io import MAX_BYTES, parse_record

Where = dict[str, str]


class Average(Record):
    """Cells that are means: those with ``value`` in ``column``, over the other values of that column."""

    column: str
    value: str


class RankPair(Record):
    """Two places of the table whose rankings of methods are compared."""

    first: Where
    second: Where


class KendallClaim(Record):
    """Printed figures on Kendall's tau-b between rankings of ``methods``, one test a pair; figures as printed text."""

    name: str
    metric: str
    methods: list[str] = Field(min_length=2)
    pairs: list[RankPair] = Field(min_length=1)
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
    where: Where
    first: str
    second: str
    p: str | None = None
    stated: Literal["two-sided", "greater", "less"] | None = None
    mean: str | None = None
    median: str | None = None
    wins: int | None = None
    losses: int | None = None
    decimals: int | None = Field(default=None, ge=0, le=12)


class Layout(Record):
    """What the columns of a tidy table hold. ``metric`` maps the table's names of metrics to ours.

    ``scale`` is that of all values. ``mce`` says how the source defines it: ``max`` can't be below the ECE on the same
    bins, ``weighted`` can't be above.
    """

    value: str = "value"
    metric: str = "metric"
    method: str = "method"
    names: dict[str, Literal["accuracy", "ece", "mce", "ace"]] = Field(default_factory=dict)
    scale: Literal["percent", "fraction"] = "percent"
    mce: Literal["max", "weighted"] = "max"
    average: Average | None = None
    kendall: list[KendallClaim] = Field(default_factory=list)
    paired: list[PairedClaim] = Field(default_factory=list)


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
