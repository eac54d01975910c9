"""Which columns of text hold numbers, and how many decimals were printed."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

MISSING = frozenset(("", "nan", "-nan", "na", "n/a", "#n/a", "<na>", "null", "none", "?", "-", "\u2013", "\u2014"))
PERCENT = r"^([+-]?\d+(?:[.,]\d+)?)\s*%$"
COMMA = r"^[+-]?\d*,\d+(?:[eE][+-]?\d+)?$"
COMMA_OR_WHOLE = r"^[+-]?\d*,?\d+(?:[eE][+-]?\d+)?$"
THOUSANDS = r"^[+-]?[1-9]\d{0,2},\d{3}$"
LISTED = r"^\[[\d\s.,eE+-]+\]$"
SAMPLE = 200
MAX_LISTED = 2000
Tiers = tuple[int, int, int]
NO_TIERS: Tiers = (-1, -1, -1)


@dataclass(frozen=True)
class Typed:
    """A frame whose columns are text or numbers, and what ``Loaded`` says of them."""

    frame: pl.DataFrame
    precision: Mapping[str, str]
    facts: Mapping[str, str]
    notes: tuple[str, ...]


def typed(frame: pl.DataFrame, *, commas: bool = False) -> Typed:
    """``frame`` with its bare text as ``pl.Float64`` where ``Loaded`` wants it; nulls where a number is missing.

    A column of which every number ends in '%' stays in percent, with a fact ``percent:<column>``. With ``commas``,
    which a file with other separators earns, decimal commas are understood unless all could mark thousands.
    """
    columns: list[pl.Series] = []
    precision, facts, notes = {}, {}, []
    for column in frame.iter_columns():
        name = column.name
        if column.dtype != pl.String:
            columns.append(column)
            continue
        values, tiers = numbers(column)
        if values is None:
            spread = listed(column)
            if spread and not {part.name for part, _ in spread} & set(frame.columns):
                for part, decimals_ in spread:
                    columns.append(part)
                    precision[part.name] = decimals_
                notes.append(f"column {name!r} prints lists; they are read as {len(spread)} columns")
                continue
            values, tiers, note, percent = _printed_otherwise(column, commas)
            if note:
                notes.append(note)
            if percent:
                facts[f"percent:{name}"] = "1"
        if values is None:
            columns.append(column)
        else:
            columns.append(values)
            precision[name] = decimals_of(tiers)
    return Typed(pl.DataFrame(columns), precision, facts, tuple(notes))


def numbers(cells: pl.Series) -> tuple[pl.Series | None, Tiers]:
    """A column of text as floats, with what is needed for its decimals; None where it is to stay text."""
    values = as_floats(cells)
    if values is None or not pointed(cells, values):
        return None, NO_TIERS
    return values, decimals(cells, values)


def as_floats(cells: pl.Series) -> pl.Series | None:
    """The cells as floats, null where missing; None where one is neither a number nor a word for none."""
    for part in (cells.head(SAMPLE), cells):
        values = part.cast(pl.Float64, strict=False)
        odd = part.filter(values.is_null() & part.is_not_null())
        if odd.len() and not odd.str.to_lowercase().unique().is_in(list(MISSING)).all():
            return None
    return values.fill_nan(None)


def pointed(cells: pl.Series, values: pl.Series) -> bool:
    """Whether one of the finite numbers at least has a decimal point or an exponent."""
    finite = cells.filter(values.is_finite().fill_null(False))
    first = finite.head(SAMPLE).str.contains(r"[.eE]").any()
    return bool(first or finite.str.contains(r"[.eE]").any())


def decimals(cells: pl.Series, values: pl.Series) -> Tiers:
    """Printed decimals of the numbers of a size in [0.1, 1), of those nearer to 0, of all others; -1 for none such.

    Of numbers printed to some significant digits the large ones have the fewest decimals, and exact 0 and 1 tell
    nothing: :func:`decimals_of` takes the first there is, as the intake of submissions does.
    """
    size = values.abs()
    inside = (size > 0) & (size < 1)
    tiers = list(NO_TIERS)
    for place, chosen in enumerate((inside & (size >= 0.1), inside, values.is_finite())):
        text = cells.filter(chosen.fill_null(False))
        if text.len():
            tiers[place] = _most(text)
            break
    return tiers[0], tiers[1], tiers[2]


def merged(one: Tiers, two: Tiers) -> Tiers:
    """The tiers of two parts of a column together."""
    return max(one[0], two[0]), max(one[1], two[1]), max(one[2], two[2])


def decimals_of(tiers: Tiers) -> str:
    """``decimals:<n>`` of a whole column."""
    return f"decimals:{next((one for one in tiers if one >= 0), 0)}"


def _most(text: pl.Series) -> int:
    plain = text.filter(~text.str.contains_any(["e", "E"])) if text.str.contains_any(["e", "E"]).any() else text
    most = 0
    if plain.len():
        after = plain.str.len_bytes().cast(pl.Int64) - plain.str.find(".", literal=True).cast(pl.Int64) - 1
        most = int(after.max() or 0)  # type: ignore[arg-type]  # of whole numbers: none
    if plain.len() < text.len():
        frame = text.filter(text.str.contains_any(["e", "E"])).alias("text").to_frame()
        exponent = pl.col("text").str.extract(r"[eE]([+-]?\d+)", 1).cast(pl.Int64, strict=False)
        fraction = pl.col("text").str.extract(r"\.(\d+)", 1).str.len_bytes().cast(pl.Int64)
        most = max(most, int(frame.select((fraction.fill_null(0) - exponent.fill_null(0)).max()).item() or 0))
    return max(0, most)


def listed(cells: pl.Series) -> list[tuple[pl.Series, str]]:
    """Columns, with their precision, of cells that are printed lists of equally many numbers; none where they aren't.

    A list that NumPy cut short ('[0.1 ... 0.9]') is none.
    """
    first = cells.head(SAMPLE).drop_nulls()
    if not first.len() or not first.str.contains(LISTED).all() or not cells.str.contains(LISTED).fill_null(True).all():
        return []
    text = cells.str.strip_chars("[]").str.replace_all(r"\s*,\s*|\s+", " ").str.strip_chars()
    widths = (text.str.count_matches(" ", literal=True) + 1).drop_nulls().unique()
    if widths.len() != 1 or not 1 <= (width := int(widths[0])) <= MAX_LISTED:
        return []
    parts = text.str.split(" ")
    found = []
    for place in range(width):
        column = parts.list.get(place, null_on_oob=True).alias(f"{cells.name}_{place}")
        values = as_floats(column)
        if values is None:
            return []
        found.append((values.alias(column.name), decimals_of(decimals(column, values))))
    return found


def _printed_otherwise(cells: pl.Series, commas: bool) -> tuple[pl.Series | None, Tiers, str, bool]:
    """Percent signs and decimal commas: floats, tiers, a note, whether it is percent."""
    lowered = cells.head(SAMPLE).str.to_lowercase()
    first = cells.head(SAMPLE).filter(~lowered.is_in(list(MISSING)).fill_null(True))
    shown = repr(cells.name)
    if first.len() and first.str.contains(PERCENT).all():
        text = cells.str.replace(r"\s*%$", "")
        if bool((cells.str.ends_with("%") | cells.str.to_lowercase().is_in(list(MISSING))).fill_null(True).all()):
            text = text.str.replace(",", ".", literal=True) if commas else text
            values = as_floats(text)
            if values is not None:
                note = f"column {shown} is printed in percent ('{first[0]}'); its numbers are kept in percent"
                return values, decimals(text, values), note, True
    if not (first.len() and first.str.contains(COMMA).any()):
        return None, NO_TIERS, "", False
    kept = cells.filter(~cells.str.to_lowercase().is_in(list(MISSING)).fill_null(True))
    if not kept.str.contains(COMMA_OR_WHOLE).all():
        return None, NO_TIERS, "", False
    with_comma = kept.filter(kept.str.contains(",", literal=True))
    if not commas or with_comma.str.contains(THOUSANDS).all():
        note = f"column {shown} has commas in its numbers ('{first[0]}'), for decimals or thousands; it is kept as text"
        return None, NO_TIERS, note, False
    text = cells.str.replace(",", ".", literal=True)
    values = as_floats(text)
    if values is None:
        return None, NO_TIERS, "", False
    return values, decimals(text, values), f"column {shown}: decimal commas read as points", False
