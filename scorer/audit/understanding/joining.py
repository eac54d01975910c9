"""Rows of two tables brought together by their ids; never by row order where an id is known."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from scorer.audit.shapes import Codes, Finding, Level
from splits.checking.ids import as_path, base_name, stem

SEPARATOR = "\x1f"
LEVELS = ("the id", "the id without folders", "the id without folders, suffix and case")
FEW_ROWS = 0.5


@dataclass(frozen=True)
class Joined:
    """``at`` (N,) the row of the right table of each row of the left one, -1 for none; by which columns and how."""

    at: Codes
    by: str
    matched: int
    unmatched: int  # distinct keys on the left
    unused: int  # distinct keys on the right
    findings: tuple[Finding, ...] = ()
    ordered: bool = False


def key_of(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """The texts of ``columns`` together; null where one of them is."""
    parts = [_text(frame[name]) for name in columns]
    if len(parts) == 1:
        return parts[0].alias("key")
    table = pl.DataFrame([part.alias(str(k)) for k, part in enumerate(parts)])
    return table.select(pl.concat_str(pl.all(), separator=SEPARATOR).alias("key")).to_series()


def _text(column: pl.Series) -> pl.Series:
    if column.dtype.is_float():
        whole = column.fill_nan(None)
        known = whole.drop_nulls()
        if bool((known == known.round()).all()):
            return whole.cast(pl.Int64, strict=False).cast(pl.String)
    return column.cast(pl.String)


def shown(key: object) -> str:
    """A key for people."""
    return str(key).replace(SEPARATOR, " / ")


def _levelled(key: pl.Series, level: int) -> pl.Series:
    names = pl.col("key")
    rule = (names, base_name(as_path(names)), stem(names))[level]
    return key.alias("key").to_frame().select(rule.alias("key")).to_series()


def matches(left: pl.Series, right: pl.Series, level: int) -> int:
    """How many of the distinct keys ``left`` are among ``right`` at ``level`` of :data:`LEVELS`."""
    wanted = _levelled(left, level)
    return int(wanted.is_in(_levelled(right, level).drop_nulls().unique().implode()).sum())


def join(left: pl.Series, right: pl.Series, values: pl.DataFrame, by: str, where: str) -> Joined | None:
    """``left`` keys looked up among ``right`` ones, whose rows hold ``values``; None where none matches.

    Tried exactly, then without folders, then without suffix; the first with most matches counts. A key of several
    rows with equal ``values`` is one; with different ones it matches nothing and is reported.
    """
    best: tuple[int, int] | None = None
    distinct = left.drop_nulls().unique()
    for level in range(len(LEVELS)):
        keys = _levelled(right, level).drop_nulls().unique()
        hits = int(_levelled(distinct, level).is_in(keys.implode()).sum())
        if hits and (best is None or hits > best[0]):
            best = (hits, level)
        if best is not None and best[0] == len(distinct):
            break
    if best is None:
        return None
    level = best[1]
    names = [f"value_{k}" for k in range(values.width)]
    table = pl.DataFrame(
        [
            _levelled(right, level).alias("__key"),
            *(values[n].alias(m) for n, m in zip(values.columns, names, strict=True)),
        ]
    )
    table = table.with_row_index("__row").drop_nulls("__key")
    table = table.group_by("__key").agg(
        pl.col("__row").first(), (pl.struct(names).n_unique() if names else pl.lit(1)).alias("__kinds")
    )
    clash = table.filter(pl.col("__kinds") > 1)["__key"].sort()
    good = table.filter(pl.col("__kinds") == 1)
    keyed = _levelled(left, level).alias("__key").to_frame()
    rows = keyed.join(good, on="__key", how="left", maintain_order="left")["__row"]
    at = rows.cast(pl.Int64).fill_null(-1).to_numpy().astype(np.int64)
    found = []
    if len(clash):
        title = f"{where}: {len(clash):,} ids come several times with different labels; they have none here"
        found.append(Finding(Level.WARNING, "labels-conflict", title, len(clash), tuple(map(shown, clash[:10]))))
    lost = keyed["__key"].filter(pl.Series(at == -1)).drop_nulls().unique().sort()
    used = int(table["__key"].is_in(keyed["__key"].drop_nulls().unique().implode()).sum())
    how = f"{by}, {LEVELS[level]}"
    samples = tuple(shown(one) for one in lost[:10])
    note = f"{where}: joined by {how}: {int((at >= 0).sum()):,} of {len(at):,} rows found; {table.height - used:,} ids"
    weight = Level.NOTE if not len(lost) else Level.WARNING
    title = f"{note} of it have no prediction, {len(lost):,} ids of predictions are not in it"
    found.append(Finding(weight, "labels-joined", title, len(lost), samples))
    return Joined(at, how, int((at >= 0).sum()), len(lost), table.height - used, tuple(found))


def by_order(left: int, right: int, where: str) -> Joined | None:
    """Row i of one table taken for row i of the other, where both have as many; said, and to be tested."""
    if left != right:
        return None
    title = f"{where}: no id in common; labels are joined by the order of {left:,} rows, which nothing vouches for"
    return Joined(
        np.arange(left, dtype=np.int64), "the order of rows", left, 0, 0,
        (Finding(Level.WARNING, "joined-by-order", title, left),), True,
    )  # fmt: skip
