"""Keys of 64 bits for what is compared, and which of them lie in several splits: sorting in place of grouping."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits.checking import conflicts
from splits.checking.findings import Finding
from splits.checking.ids import HAS_SUFFIX, as_path, bare_names, base_name, lower_stem
from splits.checking.parts import GROUP, Layout
from splits.units import one_form

Keys = NDArray[np.uint64]
SPREAD = 0x9E3779B97F4A7C15  # odd and without a pattern: run and split are mixed into a key by it
IDENTIFYING = 0.8  # of the base names stand for one path in their split, or they are no names (view1_frontal.jpg)
MANY_PARTS = 32
DIGEST = r"^(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40}|[0-9a-fA-F]{32})$"
NO_HASH = ("0", "none", "unknown", "nan", "null")


def hashed(text: pl.Expr) -> pl.Expr:
    """64 bits of a text; null stays null. Two of ten million texts meet by chance once in 400,000 checks."""
    return pl.when(text.is_not_null()).then(text.hash())


def spelt_alike(column: pl.Series) -> pl.Series | None:
    """64 bits of each id's :func:`splits.units.one_form`; None where no two ids share one."""
    ids = column.drop_nulls().unique().alias("id")
    form = ids.str.to_lowercase() if are_digests(ids) else one_form(ids)
    forms = pl.DataFrame({"id": ids, "one": form.hash()})
    if not len(repeated_in(forms["one"].to_numpy())):
        return None
    return column.to_frame("id").join(forms, on="id", how="left", maintain_order="left")["one"]


def are_digests(column: pl.Series) -> bool:
    """Whether every value is the hex of an MD5, SHA-1 or SHA-256."""
    filled = column.drop_nulls()
    return (
        bool(len(filled))
        and bool(filled.head(100).str.contains(DIGEST).all())
        and bool(filled.str.contains(DIGEST).all())
    )


@dataclass(frozen=True)
class Shared:
    """The keys that lie in several parts of one run (mixed with the run), and the number of distinct keys by part."""

    keys: Keys
    distinct: dict[int, int]
    whole: int


def mixed(key: Keys, other: NDArray[np.uint16]) -> Keys:
    """``key`` told apart by ``other``; unchanged where that is 0."""
    return key ^ (other.astype(np.uint64) * np.uint64(SPREAD))


def distinct_sorted(key: Keys) -> Keys:
    """The distinct values in order."""
    ordered = np.sort(key)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if len(ordered) else ordered


def repeated_in(key: Keys) -> Keys:
    """The values that come more than once, in order."""
    ordered = np.sort(key)
    return distinct_sorted(ordered[1:][ordered[1:] == ordered[:-1]])


def shared(key: Keys, part: NDArray[np.uint16]) -> Shared:
    """Which of the keys (mixed with the run) lie in more than one part."""
    parts = np.flatnonzero(np.bincount(part)) if len(part) else np.zeros(0, dtype=np.int64)
    if len(parts) <= MANY_PARTS:
        by_part = {int(code): distinct_sorted(key[part == code]) for code in parts}
    else:
        order = np.argsort(part, kind="stable")
        ends = np.cumsum(np.bincount(part))
        by_part = {int(c): distinct_sorted(key[order[(ends[c - 1] if c else 0) : ends[c]]]) for c in parts}
    together = np.concatenate([np.zeros(0, dtype=np.uint64), *by_part.values()])
    several = repeated_in(together)
    whole = len(distinct_sorted(together))
    return Shared(several, {code: len(keys) for code, keys in by_part.items()}, whole)


def keyed(frame: pl.DataFrame, layouts: tuple[Layout, ...]) -> tuple[pl.DataFrame, list[Finding]]:
    """``frame`` with ``path``, ``name`` and ``bare`` (names) and ``k:<column>`` (groups, content), one row an image."""
    ids = [name for name in frame.columns if name == "patient" or name.startswith(GROUP)]
    keys = {f"k:{name}": hashed(pl.col(name)) for name in ids}
    alike = {f"s:{name}": form for name in ids if (form := spelt_alike(frame[name])) is not None}
    frame = frame.with_columns(**alike)
    if "hash" in frame.columns:
        text = pl.col("hash").str.to_lowercase()
        keys["k:hash"] = pl.when(~text.is_in(NO_HASH)).then(hashed(text))
    if "near" in frame.columns:
        keys["k:near"] = hashed(pl.col("near"))
    if "image" not in frame.columns:
        return frame.with_columns(**keys), []
    frame = frame.with_columns(path=hashed(as_path(pl.col("image"))), **keys)
    frame, found = _once(frame, layouts, list(keys))
    return _named(frame, layouts), list(found)


def _once(
    frame: pl.DataFrame, layouts: tuple[Layout, ...], keys: list[str]
) -> tuple[pl.DataFrame, tuple[Finding, ...]]:
    """One row for rows that are alike in image, split and all that counts."""
    named = frame["path"].is_not_null()
    if not len(repeated_in(_in_its_part(frame.filter(named), layouts, "path"))):
        return frame, ()
    same = ["path", *keys, *(c for layout in layouts for c in (layout.part, layout.run))]
    same += [name for name in ("label", "site", "question") if name in frame.columns]
    whole = frame.height
    frame = frame.filter(pl.col("path").is_null() | pl.struct(same).hash().is_first_distinct())
    return frame, conflicts.repeated(frame, whole)


def _in_its_part(frame: pl.DataFrame, layouts: tuple[Layout, ...], column: str) -> Keys:
    key = frame[column].fill_null(0).to_numpy()
    for layout in layouts[:1]:
        part, run = (frame[name].fill_null(0).to_numpy() for name in (layout.part, layout.run))
        key = mixed(key, part * np.uint16(251) + run + np.uint16(1))
    return key


def _named(frame: pl.DataFrame, layouts: tuple[Layout, ...]) -> pl.DataFrame:
    """Keys of base names and of names without marks, null where a base name stands for several paths in its split."""
    image = pl.col("image")
    folders = bool(frame["image"].str.contains(r"[/\\]").any())
    base = frame.select(base_name(image)).to_series() if folders else frame["image"]
    whole_path = False
    if folders:
        frame = frame.with_columns(name=hashed(pl.lit(base)))
        in_part = _in_its_part(frame, layouts, "name")
        paths = frame.select("path", at=pl.lit(in_part)).drop_nulls("path")
        if len(repeated_in(_in_its_part(frame.filter(pl.col("path").is_not_null()), layouts, "path"))):
            paths = paths.unique(["path", "at"])
        several = pl.Series(repeated_in(paths["at"].to_numpy()))
        clear = ~pl.Series(in_part).is_in(several.implode()) | frame["name"].is_null()
        whole_path = int(clear.sum()) < IDENTIFYING * frame.height
        frame = frame.drop("name") if whole_path else frame.with_columns(name=pl.when(clear).then("name"))
    if are_digests(frame["image"]):
        return frame
    stems = frame.select(
        as_path(image).str.replace(HAS_SUFFIX, "") if whole_path else lower_stem(pl.lit(base))
    ).to_series()
    del base
    marked = bare_names(stems)
    bare = hashed(pl.lit(stems if marked is None else marked.zip_with(marked.is_not_null(), stems)))
    return frame.with_columns(
        bare=pl.when(pl.col("name").is_not_null()).then(bare) if "name" in frame.columns else bare
    )
