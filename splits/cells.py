"""Cells that aren't what they seem: words for no value, numbers that were rounded, characters that nobody sees."""

from collections.abc import Collection, Iterable, Mapping

import polars as pl

from protocol.findings import plain
from splits.checking.words import NO_VALUE
from splits.errors import SplitError

# What stands for "no patient" or "no group" beside an empty cell; all in lower case.
NO_ID = NO_VALUE | {"<na>", "nat", "#na", "n.a.", "not known"}
# Of a site only what no site is called: images of an 'unknown' one may well be named so.
NO_SITE_NAME = frozenset(
    ["na", "n/a", "n.a.", "#n/a", "#na", "<na>", "nan", "nat", "null", "none", "?", "-", "--", "."]
)
HIDDEN = r"[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]"
TRUTH = r"^(?i:true|false)$"
DECIMAL = r"^(-?(?:0|[1-9]\d{0,15}))\.0+$"  # a whole number as a column of floats is saved
EXPONENT = r"^[+-]?\d(?:\.\d+)?[eE]\+\d+$"
EXACT = 2**53  # from here on two whole numbers can be one float


def image_name(names: pl.Expr) -> pl.Expr:
    """The name of an image as it is hashed: with / between folders on every system."""
    return names.str.replace_all("\\", "/", literal=True)


def without_words(rows: pl.DataFrame, words: Mapping[str, Collection[str]]) -> tuple[pl.DataFrame, dict[str, str]]:
    """``rows`` with null where a cell of a column says one of its ``words``, and the first such cell of each column."""
    missing = rows.select(
        pl.col(name).str.to_lowercase().is_in(list(said)).fill_null(False) for name, said in words.items()
    )
    seen = {name: str(rows[name][missing[name].arg_max() or 0]) for name in words if missing[name].any()}
    return rows.with_columns(
        pl.when(~missing[name]).then(pl.col(name)).otherwise(None).alias(name) for name in seen
    ), seen


def no_hidden_characters(rows: pl.DataFrame, columns: Mapping[str, str]) -> None:
    """SplitError where a name holds a character that can't be seen: with and without it would be two patients."""
    found = rows.select(pl.col(name).str.contains(HIDDEN).fill_null(False) for name in columns)
    for name, column in columns.items():
        if found[name].any():
            at = found[name].arg_max() or 0
            raise SplitError(
                f"column {column!r} holds {shown(rows[name][at])} (row {at + 1}; {found[name].sum()} such cells): a "
                "character that can't be seen would make two names of one; take it out"
            )


def shown(text: str) -> str:
    """``text`` in quotes with every character that can't be seen escaped, in at most 60 characters."""
    return f"'{plain(''.join(char if char.isprintable() else plain(ascii(char)[1:-1]) for char in text), 60)}'"


def exact(cells: pl.Series, column: str, rounded: Collection[str] = ()) -> None:
    """SplitError where names are numbers that lost digits: several people can have become one.

    ``rounded`` are the columns of floats that hold more than their type tells apart (:class:`splits.reading.Table`).
    """
    seen = None
    if column in rounded:
        seen = "floats that are too large to tell whole numbers apart"
    elif (marked := cells.filter(cells.str.contains("+", literal=True).fill_null(False))).len():
        lost = marked.filter(marked.str.contains(EXPONENT))
        seen = f"{plain(lost[0], 60)!r} ({len(lost)} such cells)" if len(lost) else None
    if seen is None and (real := cells.filter(cells.str.ends_with(".0").fill_null(False))).len():
        lost = real.filter(real.cast(pl.Float64, strict=False).abs().fill_null(0) >= EXACT)
        seen = f"{plain(lost[0], 60)!r} ({len(lost)} such cells)" if len(lost) else None
    if seen is not None:
        raise SplitError(
            f"column {column!r} holds {seen}: numbers that lost digits, so that two names can have become one; "
            "save the column as text (or whole numbers) from its source"
        )


def spelled(cells: pl.Series) -> pl.Series:
    """7.0 as 7, True and FALSE as true and false, any other cell as it is.

    So a table has the same names as CSV, Parquet and Excel sheet, and a name the same spelling in any table.
    """
    if cells.str.contains(".0", literal=True).any():
        cells = cells.str.replace(DECIMAL, "$1")
    if not cells.str.len_bytes().is_between(4, 5).any():  # no cell is as long as true or false
        return cells
    truth = cells.str.contains(TRUTH).fill_null(False)
    return cells.zip_with(~truth, cells.str.to_lowercase()) if truth.any() else cells


def to_hash(cells: pl.Series, column: str, words: Collection[str], rounded: Collection[str]) -> pl.Series:
    """Names of a table as those of a split were taken before they were hashed; null for one of ``words``.

    Raises :class:`SplitError` as :func:`exact` and :func:`no_hidden_characters` do.
    """
    rows, _ = without_words(cells.alias("name").to_frame(), {"name": words})
    no_hidden_characters(rows, {"name": column})
    exact(rows["name"], column, rounded)
    return spelled(rows["name"])


def all_spelled(
    rows: pl.DataFrame, columns: Mapping[str, str], notes: list[str], ids: Collection[str] = ()
) -> pl.DataFrame:
    """``rows`` with each of ``columns`` as :func:`spelled`; what was changed is added to ``notes``.

    Raises :class:`SplitError` where that makes one of two of the ``ids`` of a column: '7' and '7.0'.
    """
    for name, column in columns.items():
        cells = spelled(rows[name])
        if cells is rows[name] or cells.equals(rows[name]):
            continue
        if name in ids and cells.n_unique() < rows[name].n_unique():
            both = (
                rows.select(one=cells, own=rows[name]).unique().filter(pl.col("one").is_duplicated()).sort("one", "own")
            )
            pair = both.filter(both["one"] == both["one"][0])["own"].to_list()
            raise SplitError(
                f"column {column!r} holds {plain(pair[0], 60)!r} and {plain(pair[1], 60)!r}: one name or two? "
                "Write one spelling"
            )
        if rows[name].str.contains(DECIMAL).any():
            notes.append(f"column {column!r} holds whole numbers written with .0; they are read without it (7.0 as 7)")
        rows = rows.with_columns(cells.alias(name))
    return rows


def names_nobody(levels: int, ids: Iterable[pl.Series]) -> bool:
    """Whether a column of so many levels can be published: it has at most half as many as any of ``ids``.

    Up to 20 levels it may have more, but hardly as many as those: then they would be other names of them. Five are no
    names. A null of ``ids`` is one of its own: an image in no group.
    """
    most = min(column.drop_nulls().n_unique() + column.null_count() for column in ids)
    return levels <= 5 or (10 * levels < 9 * most if levels <= 20 else 2 * levels <= most)
