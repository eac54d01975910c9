"""Values as JSON gives them into columns of text or numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from scorer.audit.reading import numbers
from scorer.audit.reading.numbers import Typed
from scorer.audit.reading.source import MAX_CELLS, MAX_COLUMNS, Source


@dataclass(frozen=True)
class Rows:
    """Columns of equal length by name, of any values; ``header`` as in ``Loaded``."""

    columns: Mapping[str, Sequence[Any]]
    header: bool = True
    notes: tuple[str, ...] = ()


def scalar(value: Any) -> bool:
    """Whether ``value`` is no list and no dictionary."""
    return value is None or isinstance(value, str | int | float)


def text_of(value: Any) -> str | None:
    """A value as bare text, lists and dictionaries as JSON; None for nothing."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # a lone surrogate, which JSON can hold, is no text
        return value.encode("utf-8", "replace").decode().strip() or None
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode()


def framed(source: Source, rows: Rows) -> Typed:
    """The columns as text and numbers; lists of scores become a column for each (``name_0`` ...), and so do
    dictionaries of scores (``name_key``)."""
    series: dict[str, pl.Series] = {}
    precision: dict[str, str] = {}
    notes: list[str] = []
    for given, values in _spread(source, rows.columns, notes).items():
        name = text_of(given.strip()) or f"unnamed_{len(series) + 1}"
        if name in series:
            source.refuse(f"two columns would be called {name!r}; rename one")
        column, stored = _column(name, values)
        if stored:
            precision[name] = stored
        series[name] = column
    result = numbers.typed(pl.DataFrame(list(series.values())))
    return Typed(result.frame, {**precision, **result.precision}, result.facts, (*notes, *result.notes))


def _spread(source: Source, columns: Mapping[str, Sequence[Any]], notes: list[str]) -> dict[str, Sequence[Any]]:
    found: dict[str, Sequence[Any]] = {}
    for name, values in columns.items():
        held = [value for value in values if value is not None]
        spread: dict[str, Sequence[Any]] = {name: values}
        if held and all(isinstance(value, list) for value in held):
            widths = {len(value) for value in held}
            if len(widths) == 1 and _scores(v for value in held for v in value):
                width = widths.pop()
                spread = {f"{name}_{k}": [None if v is None else v[k] for v in values] for k in range(width)}
                spread = {name: spread[f"{name}_0"]} if width == 1 else spread
            elif len(widths) > 1 and _scores(v for value in held for v in value):
                notes.append(f"column {name!r} holds lists of different lengths; it is kept as text")
        elif held and all(isinstance(value, Mapping) and value for value in held):
            keys = list(held[0])
            if all(value.keys() == held[0].keys() for value in held) and _scores(
                v for value in held for v in value.values()
            ):
                spread = {f"{name}_{key}": [None if v is None else v[key] for v in values] for key in keys}
        for one, cells in spread.items():
            if one in found:
                source.refuse(f"two columns would be called {one!r}; rename one")
            found[one] = cells
    rows = len(next(iter(found.values()), ()))
    if len(found) > MAX_COLUMNS or len(found) * rows > MAX_CELLS:
        source.refuse(f"{rows} rows of {len(found)} columns are more than can be audited at once; is it turned?")
    return found


def _scores(values: Any) -> bool:
    """Whether there are values and all are numbers (or none), or all texts that are numbers."""
    some = False
    for value in values:
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            return False
        some = True
    return some


def _column(name: str, values: Sequence[Any]) -> tuple[pl.Series, str]:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pl.Series(name, values, pl.Int64), ""
    if float in kinds and kinds <= {int, float}:
        try:
            floats = pl.Series(name, [None if value is None else float(value) for value in values], pl.Float64)
        except OverflowError:
            return pl.Series(name, [text_of(value) for value in values], pl.String), ""
        printed = [value for value in values if isinstance(value, float)]
        text = pl.Series([repr(value) for value in printed], dtype=pl.String)
        return floats.fill_nan(None), numbers.decimals_of(numbers.decimals(text, pl.Series(printed, dtype=pl.Float64)))
    return pl.Series(name, [text_of(value) for value in values], pl.String), ""
