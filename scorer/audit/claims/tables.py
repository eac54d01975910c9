"""Claims out of a table: one claim a row (metric, value), or one column a metric."""

import re
from collections.abc import Iterator

import polars as pl

from protocol.findings import plain
from scorer.audit.claims.claim import Claim, checked, metric_named, number_of
from scorer.audit.shapes import AuditError, Loaded

MAX_CLAIMS = 10_000
METRIC = frozenset({"metric", "measure", "metrics", "score", "statistic", "name"})
VALUE = frozenset({"value", "result", "reported", "claimed", "claim", "score"})
NO_CLAIM = frozenset(
    {"lo", "hi", "low", "high", "lower", "upper", "std", "sd", "se", "sem", "var", "ci", "pvalue", "p", "delta", "diff"}
    | {"change", "n", "bins", "rank", "drop", "gain", "min", "max", "below", "above", "permutation", "perm", "null"}
    | {"err", "error"}
)
NUMBERED = frozenset({"seed", "fold", "class", "label", "grade", "model", "set", "task", "finding"})
NONE = frozenset({"", "-", "–", "—", "na", "n/a", "nan", "none", "null", "nr", "?"})
_START = re.compile(r"\s*([+\-−]?[0-9.]+(?:[eE][+-]?[0-9]+)?\s*%?)\s*(?:[(\[±].*|\+/-.*)?\s*", re.DOTALL)


def read_claims(table: Loaded) -> tuple[Claim, ...]:
    """The claims of ``table``; AuditError where none is found or a cell can't be read.

    Tidy: a column named metric (measure ...) and one named value. Else every column whose name is or holds a metric
    ('auc', 'ece_pre') is one, and what is left of its name, with the other columns, says what its values are of.
    Columns of intervals, deviations, p-values and differences are no claims. Decimals are those printed; where the
    file holds binary numbers, the most that a value of the column needs.
    """
    frame, shown = table.frame, plain(table.name)
    if not table.header:
        raise AuditError(f"{shown}: claims need a header: columns named after metrics, or columns metric and value")
    lower = {name.strip().casefold(): name for name in reversed(frame.columns)}
    value = next((lower[name] for name in lower if name in VALUE), None)
    metric = next((lower[name] for name in lower if name in METRIC and lower[name] != value), None)
    if value is not None and metric is not None and frame.schema[metric] == pl.String:
        found = _tidy(table, metric, value)
    else:
        found = _wide(table)
    claims = []
    for claim in found:
        claims.append(claim)
        if len(claims) > MAX_CLAIMS:
            raise AuditError(f"{shown} holds more than {MAX_CLAIMS:,} claims; give a table of those in question")
    if not claims:
        columns = plain(", ".join(frame.columns), 200)
        raise AuditError(
            f"{shown}: no claim found in the columns {columns}; wanted: columns metric and value, or one named after a"
            " metric (ece, auroc, brier ...)"
        )
    return tuple(claims)


def _tidy(table: Loaded, metric: str, value: str) -> Iterator[Claim]:
    rest = [name for name in table.frame.columns if name not in (metric, value)]
    cells = _cells(table, value)
    for row, (word, cell) in enumerate(zip(table.frame[metric].to_list(), cells, strict=True)):
        found = _named(word or "")
        if found is None:
            if cell is not None:
                where = f"{plain(table.name)}, row {row + 1}"
                raise AuditError(
                    f"{where}: no metric is called {plain(word, 60)!r}; write a known name or drop the row"
                )
            continue
        if cell is not None:
            yield _claim(table, row, found[0], cell, value, _target(table, rest, row, found[1]))


def _wide(table: Loaded) -> Iterator[Claim]:
    named = {name: found for name in table.frame.columns if (found := _named(name)) is not None}
    rest = [name for name in table.frame.columns if name not in named]
    for name, (metric, variant) in named.items():
        for row, cell in enumerate(_cells(table, name)):
            if cell is not None:
                yield _claim(table, row, metric, cell, name, _target(table, rest, row, variant))


def _named(text: str) -> tuple[str, str] | None:
    """(metric, what is left) of 'ece', 'ece_pre', 'test AUROC'; None where no metric is named, or a spread of one."""
    parts = [part for part in re.split(r"[\s_\-.()\[\]%]+", text) if part]
    if NO_CLAIM & {part.casefold() for part in parts}:
        return None
    whole = metric_named(text)
    if whole is not None:
        return whole, ""
    for size in range(len(parts) - 1, 0, -1):
        for start in (0, len(parts) - size):
            word = " ".join(parts[start : start + size])
            metric = metric_named(word) if len(word) > 2 else None
            if metric is not None:
                return metric, " ".join(parts[:start] + parts[start + size :])
    return None


def _cells(table: Loaded, name: str) -> list[str | None]:
    """The cells as printed, None for empty ones."""
    column = table.frame[name]
    sign = "%" if f"percent:{name}" in table.facts else ""
    if column.dtype.is_float():
        values = [value if value is not None and value == value else None for value in column.to_list()]
        stored = table.precision.get(name, "")
        digits = stored.removeprefix("decimals:")
        if digits != stored and digits.isdigit():
            decimals = int(digits)
        else:
            short = (lambda v: f"{v:.6g}") if stored in ("float16", "float32") else repr
            printed = [number_of(short(value)) for value in values if value is not None]
            decimals = max((one[1] for one in printed if one is not None), default=0)
        return [None if value is None else f"{value:.{max(decimals, 0)}f}{sign}" for value in values]
    out: list[str | None] = []
    for value in column.cast(pl.String, strict=False).to_list():
        bare = (value or "").strip().strip("*").strip()
        out.append(None if bare.casefold() in NONE else bare + (sign if not bare.endswith("%") else ""))
    return out


def _claim(table: Loaded, row: int, metric: str, cell: str, column: str, target: dict[str, str]) -> Claim:
    start = _START.fullmatch(cell)
    number = number_of(start[1]) if start is not None else None
    where = f"{plain(table.name)}, row {row + 1}, column {plain(column, 60)}"
    if number is None:
        raise AuditError(f"{where}: {plain(cell, 60)!r} is no number; empty it, or write digits with a decimal point")
    try:
        return checked(Claim(metric, *number, cell, target, table.name, column))
    except AuditError as error:
        raise AuditError(f"{where}: {error}") from None


def _target(table: Loaded, rest: list[str], row: int, variant: str) -> dict[str, str]:
    """What the cells beside say that a claim is of; numbers only where they can be names."""
    out: dict[str, str] = {}
    for name in rest:
        column = table.frame[name]
        cell = column[row]
        if cell is None or not (column.dtype == pl.String or column.dtype.is_integer()):
            continue
        text = str(cell)
        named = number_of(text) is None and text.casefold() not in ("true", "false")
        if named or name.strip().casefold() in NUMBERED:
            out[name] = text
    return out | ({"variant": variant} if variant else {})
