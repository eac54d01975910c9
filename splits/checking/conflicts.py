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
    title = f"{count:,} of {whole:,} rows repeat an image of the same split and label ({why}) and count once"
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
        title = f"{one.height:,} groups of {what}: {int(one['rows'].sum()):,} images in all"
        samples = tuple(one["shown"].head(MAX_SAMPLES).to_list())
        found.append(
            Finding(
                Level.NOTE, f"{level.code.removesuffix('-overlap')}-groups", title, count=one.height, samples=samples
            )
        )
    differ = one.filter(pl.col("labels") > 1)
    if differ.height:
        samples = tuple(f"{shown}: {said}" for shown, said in differ.select("shown", "said").head(MAX_SAMPLES).rows())
        title = f"{differ.height:,} of {one.height:,} groups of {what} have different labels"
        mend = "Settle the label, or leave these images out: one of two equal images is graded wrongly."
        found.append(Finding(Level.WARNING, "labels-disagree", title, count=differ.height, samples=samples, mend=mend))
    return tuple(found)
