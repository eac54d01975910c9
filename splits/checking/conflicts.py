"""One image under several labels, and images listed more than once."""

import polars as pl

from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.wording import Comparison


def repeated(rows: pl.DataFrame, whole: int) -> tuple[Finding, ...]:
    """The rows that only repeated another (image, split and label alike): ``whole`` rows came down to ``rows``."""
    if rows.height == whole:
        return ()
    count = whole - rows.height
    why = "boxes of one image, or one list twice?"
    verbs = ("repeats", "counts") if count == 1 else ("repeat", "count")
    said = f"{count:,} of {whole:,} rows {verbs[0]} an image of the same split and label"
    title = f"{said} ({why}) and {verbs[1]} once"
    return (Finding(Level.NOTE, "rows-repeated", title, count=count, mend="List each image once."),)


def conflicts(rows: pl.DataFrame, level: Comparison, what: str) -> tuple[Finding, ...]:
    """Keys under several labels, and how many keys several images share.

    ``rows`` has ``key``, ``shown``, ``label_text``; one row an image.
    """
    groups = rows.filter(pl.col("key").is_not_null()).group_by("key").len().filter(pl.col("len") > 1)
    if not groups.height:
        return ()
    members = rows.join(groups.select("key"), on="key", how="semi").group_by("key")
    one = members.agg(
        rows=pl.len(),
        labels=pl.col("label_text").drop_nulls().n_unique(),
        shown=pl.col("shown").unique().sort().head(2).str.join(" = "),
        said=pl.col("label_text").drop_nulls().unique().sort().head(3).str.join(" / "),
    ).sort("shown")
    found = []
    if not level.by_name:
        images = int(one["rows"].sum())
        title = f"{one.height:,} {'group' if one.height == 1 else 'groups'} of {what}: {images:,} images in all"
        samples = tuple(one["shown"].head(MAX_SAMPLES).to_list())
        every = members.agg(pl.col("shown").drop_nulls().unique().sort())["shown"].to_list()
        named = tuple({"": tuple(names)} for names in sorted(every))
        code = f"{level.code.removesuffix('-overlap')}-groups"
        found.append(Finding(Level.NOTE, code, title, count=images, samples=samples, groups=named))
    differ = one.filter(pl.col("labels") > 1)
    if differ.height:
        samples = tuple(f"{shown}: {said}" for shown, said in differ.select("shown", "said").head(MAX_SAMPLES).rows())
        verb = "has" if differ.height == 1 else "have"
        title = (
            f"{differ.height:,} of {one.height:,} {'group' if one.height == 1 else 'groups'} of {what} {verb} "
            "different labels"
        )
        mend = "Settle the label, or leave these images out: one of two equal images is graded wrongly."
        found.append(Finding(Level.WARNING, "labels-disagree", title, count=differ.height, samples=samples, mend=mend))
    return tuple(found)
