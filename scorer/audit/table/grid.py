"""Which cells of a sheet hold values, and what its columns and header say about each: told by a layout, or guessed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scorer.audit.shapes import AuditError
from scorer.audit.table.cells import UNTESTED, metric_word, no_value, number, ours
from scorer.audit.table.layout import Layout, Wide

VALUE_WORDS = ("value", "score", "result", "results", "number", "estimate")
METRIC_WORDS = ("metric", "metrics", "measure", "measures", "score_name")
METHOD_WORDS = ("method", "methods", "calibration", "calibrator", "approach", "algorithm", "model", "models")
PLACES = re.compile(r"data|set\b|site|cohort|task|seed|fold|domain|setting|hospital|\bn\b")
SPREADS = re.compile(r"(?:^|[ _±.(-])(?:std|sd|se|sem|std_?err|stdev|variance|ci|ci_?lo\w*|ci_?hi\w*|lower|upper)\)?$")
MOSTLY = 0.8  # of the cells that hold something
LOOKED_AT = 5_000  # rows from which a guess is made
Row = Sequence[str]


@dataclass(frozen=True)
class Plan:
    """How rows become cells: ``index`` and ``values`` are columns by position; the former with their names, the latter
    with what the header says of them. ``first`` is the first row of values; ``filled``: empty cells of the index
    repeat those above. ``guessed`` says in words what no layout said."""

    index: tuple[tuple[int, str], ...]
    values: tuple[tuple[int, Mapping[str, str]], ...]
    metric: str
    method: str
    first: int = 0
    filled: bool = False
    guessed: tuple[str, ...] = ()


def tidy(names: Row, rows: Sequence[Row], layout: Layout) -> Plan | None:
    """A row a value, or None where no column of values and metrics can be told."""
    guessed: list[str] = []
    shares = [_share(rows, at) for at in range(len(names))]
    value, why = layout.value, ""
    if value is None:
        named = [name for name in names if name.casefold() in VALUE_WORDS]
        numeric = [
            name
            for at, name in enumerate(names)
            if shares[at] >= MOSTLY and not _is_metric(name) and not is_spread(name)
        ]
        value, why = (
            (named[0], "by its name") if named else (numeric[0] if len(numeric) == 1 else None, "the only numbers")
        )
        if value is None:
            return None
        guessed.append(f"values in column '{value}' ({why})")
    rest = [name for name in names if name != value]
    metric = layout.metric
    if metric is None:
        metric, why = _metric_column(names, rows, rest)
        if not metric:
            return None
        guessed.append(f"metrics in column '{metric}' ({why})")
    method = layout.method
    if method is None:
        method, told = _method([name for name in rest if name != metric and not is_spread(name)])
        guessed.append(told)
    index, passed = _kept([(at, name) for at, name in enumerate(names) if name != value], (metric, method))
    return Plan(index, ((names.index(value), {}),), metric, method, guessed=(*guessed, *passed))


def spread_out(names: Row, rows: Sequence[Row], layout: Layout) -> Plan:
    """A table of one header row with a column a metric, or a column of metrics and several columns of numbers.

    Raises AuditError where neither can be told.
    """
    numeric = [at for at in range(len(names)) if _share(rows, at) >= MOSTLY]
    metrics = [at for at in numeric if _is_metric(names[at])]
    others = [(at, name) for at, name in enumerate(names) if at not in metrics]
    if metrics and layout.metric is None:
        method, of_methods = _method([name for _, name in others if not is_spread(name)], layout)
        said = ", ".join(repr(names[at]) for at in metrics)
        index, passed = _kept(others, (method,))
        told = (f"a column a metric: {said}", of_methods, *passed)
        return Plan(index, tuple((at, {"metric": names[at]}) for at in metrics), "metric", method, guessed=told)
    metric, why = (layout.metric, "layout") if layout.metric else _metric_column(names, rows, names)
    values = [at for at in numeric if names[at] != metric and not is_spread(names[at])]
    if not metric or not values:
        raise AuditError(
            "no column of values and no metrics were found; a layout file names them (value, metric, method, or wide)"
        )
    left = [(at, name) for at, name in enumerate(names) if at not in values]
    method, of_methods = _method([name for _, name in left if name != metric and not is_spread(name)], layout)
    index, passed = _kept(left, (metric, method))
    guessed = (
        f"metrics in column '{metric}' ({why})",
        f"values in the columns {', '.join(repr(names[at]) for at in values)}, whose names are called 'column'",
        of_methods,
        *passed,
    )
    shown = tuple((at, {"column": names[at]}) for at in values)
    return Plan(index, shown, metric, method, filled=True, guessed=guessed)


def printed(grid: Sequence[Row], wide: Wide, layout: Layout) -> Plan:
    """A table as printed, by its layout. Raises AuditError for a header that does not fit it."""
    metric, method = layout.metric or "metric", layout.method or "method"
    deep, left = len(wide.header), len(wide.index)
    width = len(grid[0]) if grid else 0
    if len(grid) <= deep or width <= left:
        raise AuditError(
            f"the layout wants {deep} header rows and {left} index columns, the table has {len(grid)} rows and "
            f"{width} columns"
        )
    said: list[dict[str, str]] = [{} for _ in range(left, width)]
    for row, entry in zip(grid[:deep], wide.header, strict=True):
        if not entry:
            continue
        keys = [key.strip() for key in entry.split("|")]
        last = ""
        for at in range(left, width):
            cell = row[at]
            if entry != wide.header[-1]:
                cell = last = cell or last
            pieces = [piece.strip() for piece in cell.split(wide.split, len(keys) - 1)] if len(keys) > 1 else [cell]
            if len(pieces) != len(keys):
                raise AuditError(
                    f"the header cell {cell!r} has {len(pieces)} pieces between {wide.split!r}, the layout names "
                    f"{len(keys)}: {entry}"
                )
            for key, piece in zip(keys, pieces, strict=True):
                before = said[at - left].get(key, "")
                said[at - left][key] = before + ("" if before.endswith(("_", "-", "/")) else " ") + piece
    names = [name for name in wide.index if name]
    keys = [*names, *dict.fromkeys(key for own in said for key in own), *wide.fixed]
    twice = next((key for key in keys if keys.count(key) > 1), None)
    if twice is not None:
        raise AuditError(f"the layout names {twice!r} twice among index, header and fixed")
    if metric not in keys:
        raise AuditError(f"the layout's index, header and fixed don't name {metric!r}: they have {', '.join(keys)}")
    values = tuple(
        (at, {key: text.strip() for key, text in own.items()} | dict(wide.fixed))
        for at, own in enumerate(said, start=left)
    )
    index = tuple((at, name) for at, name in enumerate(wide.index) if name)
    return Plan(index, values, metric, method if method in keys else "", deep, filled=True)


def is_spread(name: str) -> bool:
    """Whether a column is called as one that says how far a value varies."""
    return SPREADS.search(name.casefold()) is not None


def _kept(
    columns: Sequence[tuple[int, str]], roles: Sequence[str]
) -> tuple[tuple[tuple[int, str], ...], tuple[str, ...]]:
    """The columns that tell cells apart, and a word on spreads, which don't."""
    passed = [name for _, name in columns if name not in roles and is_spread(name)]
    said = ", ".join(repr(name) for name in passed)
    kept = tuple((at, name) for at, name in columns if name not in passed)
    return kept, (f"passed over, as spreads of values: {said}",) if passed else ()


def _is_metric(name: str) -> bool:
    return ours(name) is not None or metric_word(name) in UNTESTED


def _named(names: Sequence[str], words: Sequence[str]) -> str:
    """The first of ``names`` that is one of ``words``, in the order of these."""
    return next((name for word in words for name in names if name.casefold() == word), "")


def _method(among: Sequence[str], layout: Layout | None = None) -> tuple[str, str]:
    """The column of methods: by the layout, by its name, or the only one that is left; and how it was told."""
    if layout is not None and layout.method:
        return layout.method, f"methods in column '{layout.method}' (layout)"
    named = _named(among, METHOD_WORDS)
    if named:
        return named, f"methods in column '{named}' (by its name)"
    if len(among) == 1 and not PLACES.search(among[0].casefold()):
        return among[0], f"methods in column '{among[0]}' (the only other)"
    return "", "no column of methods"


def _metric_column(names: Row, rows: Sequence[Row], among: Sequence[str]) -> tuple[str, str]:
    named = _named(among, METRIC_WORDS)
    if named:
        return named, "by its name"
    for at, name in enumerate(names):
        if name in among:
            texts = {row[at] for row in rows[:LOOKED_AT] if row[at]}
            if texts and 2 * sum(_is_metric(text) for text in texts) >= len(texts):
                return name, "by its content"
    return "", ""


def _share(rows: Sequence[Row], at: int) -> float:
    """The share of numbers among the cells of a column that hold something."""
    held = [row[at] for row in rows[:LOOKED_AT] if not no_value(row[at])]
    return sum(number(text) is not None for text in held) / len(held) if held else 0.0
