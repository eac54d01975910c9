"""What two splits share: names, names without marks, groups, contents; and what only looks shared."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from splits.checking import words
from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.ids import as_path, stem
from splits.checking.keys import hashed, mixed, shared
from splits.checking.parts import Layout

MOST_PAIRS = 6  # reported one by one; more are one finding
FEW = 20  # shared names below which agreement by chance is not told from agreement
PLAIN_NUMBER = r"^[A-Za-z_\- ]*\d{1,5}$"


@dataclass(frozen=True)
class Comparison:
    """One of the levels of comparison: its slug, what a key is called, and how to mend an overlap."""

    code: str
    noun: str
    plural: str
    mend: str
    by_name: bool = False
    one_image: bool = True


PATH = Comparison(
    "path-overlap", "image", "images", "Take the images out of one of the splits; split by patient, not by row.", True
)
NAME = Comparison(
    "name-overlap", "file name", "file names", "Check whether these are the same images; keep each in one split.", True
)
BARE = Comparison(
    "copy-overlap",
    "name without marks",
    "names without suffix and marks",
    "One image under two suffixes, or an augmented copy: all versions belong to the split of the original.",
    True,
)
CONTENT = Comparison(
    "content-overlap", "image content", "image contents", "Keep one copy of each, or give all copies one split."
)
NEAR = Comparison(
    "near-duplicates",
    "near-duplicate image",
    "near-duplicate images",
    "Look at the pairs; keep one of each, or give all versions one split (--group with a cluster id).",
)


def group_level(column: str) -> Comparison:
    """The level of a patient or group column of that name."""
    patient = words.key(column) in words.PATIENT
    noun = "patient" if patient else f"{column} value"
    mend = f"Give all images of one {noun.removesuffix(' value')} the same split: mvc split make does."
    return Comparison("patient-overlap" if patient else "group-overlap", noun, f"{noun}s", mend, one_image=False)


@dataclass(frozen=True)
class Overlap:
    """What a level gave: findings, which rows have a key of several splits (None: none), pairs whose names only collide."""

    findings: tuple[Finding, ...]
    rows: pl.Series | None
    collided: frozenset[tuple[int, int]]


NOTHING = Overlap((), None, frozenset())


@dataclass(frozen=True)
class Known:
    """Rows and distinct keys of each part, and distinct keys in all."""

    rows: dict[int, int]
    keys: dict[int, int]
    whole: int


def overlap(
    frame: pl.DataFrame,
    layout: Layout,
    level: Comparison,
    key: str,
    shown: str,
    *,
    seen: pl.Series | None = None,
    collided: frozenset[tuple[int, int]] = frozenset(),
) -> Overlap:
    """What the splits of ``layout`` share by column ``key`` (uint64, null = unknown), whose text is column ``shown``.

    ``seen`` marks the rows that a level before has told of. ``collided`` are pairs of splits whose equal names were told
    to be different images: what follows from names collides there too.
    """
    filled = pl.col(key).is_not_null() & pl.col(layout.part).is_not_null()
    lean = frame.select(key=pl.when(filled).then(key), part=layout.part, run=layout.run).drop_nulls("key")
    part = lean["part"].to_numpy()
    common = shared(mixed(lean["key"].to_numpy(), lean["run"].to_numpy()), part)
    if not len(common.keys):
        return NOTHING
    known = Known(dict(enumerate(np.bincount(part).tolist())), common.distinct, common.whole)
    del lean, part
    in_run = pl.Series(mixed(frame[key].fill_null(0).to_numpy(), frame[layout.run].fill_null(0).to_numpy()))
    chosen = frame.select(filled).to_series() & in_run.is_in(pl.Series(common.keys).implode())
    entries = _entries(frame, layout, in_run, chosen, shown, seen)
    pairs = entries.join(entries, on="key", suffix="_2").filter(pl.col("part") < pl.col("part_2"))
    pairs = pairs.filter(pl.col("new") | pl.col("new_2"))
    if not pairs.height:
        return Overlap((), chosen, frozenset())
    present = pairs.select("part", "part_2").unique().sort("part", "part_2").rows()
    findings: list[Finding] = []
    collisions: set[tuple[int, int]] = set()
    if len(present) > MOST_PAIRS:  # parts of the training set (train_0, train_1) may share: only the rest is a leak
        kinds = layout.kinds
        present = [(a, b) for a, b in present if not kinds[a] == kinds[b] == words.TRAIN] or present
        chosen_parts = pl.DataFrame(present, schema={"part": pl.UInt16, "part_2": pl.UInt16}, orient="row")
        pairs = pairs.join(chosen_parts, on=["part", "part_2"], how="semi")
    together = len(present) > MOST_PAIRS
    for some in [present] if together else [[pair] for pair in present]:
        of = pairs if together else pairs.filter((pl.col("part") == some[0][0]) & (pl.col("part_2") == some[0][1]))
        leaks, fooled = _sorted_out(of, level, all(pair in collided for pair in some))
        if fooled.height:
            collisions.update(some)
            findings.append(_finding(fooled, known, layout, level, some, True))
        if leaks.height:
            findings.append(_finding(leaks, known, layout, level, some, False))
    return Overlap(tuple(findings), chosen, frozenset(collisions))


def _entries(
    frame: pl.DataFrame, layout: Layout, in_run: pl.Series, chosen: pl.Series, shown: str, seen: pl.Series | None
) -> pl.DataFrame:
    """One row a key, run and part: how many rows, and the least and the greatest of label, content and site (hashed)."""
    some = frame.select(
        key=pl.lit(in_run),
        part=pl.col(layout.part),
        run=pl.col(layout.run),
        shown=pl.col(shown),
        new=pl.lit(True) if seen is None else ~pl.lit(seen),
        **{
            name: pl.col(name) if name in frame.columns else pl.lit(None, pl.String)
            for name in ("label", "hash", "site")
        },
    ).filter(chosen)
    ends = {
        f"{name}_{end}": getattr(hashed(pl.col(name)), end)()
        for name in ("label", "hash", "site")
        for end in ("min", "max")
    }
    return some.group_by("key", "run", "part").agg(
        rows=pl.len(), new=pl.col("new").any(), shown=pl.col("shown").first(), **ends
    )


def _equal(name: str) -> pl.Expr:
    return (pl.col(f"{name}_min") == pl.col(f"{name}_min_2")) & (pl.col(f"{name}_max") == pl.col(f"{name}_max_2"))


def _apart(name: str) -> pl.Expr:
    """True where both sides are known and share no value (as far as the ends tell), null where one is unknown."""
    lower = pl.col(f"{name}_max") < pl.col(f"{name}_min_2")
    return lower | (pl.col(f"{name}_max_2") < pl.col(f"{name}_min"))


def _sorted_out(pairs: pl.DataFrame, level: Comparison, followed: bool) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The keys that are shared, and those that only have the same name."""
    nothing = pairs.clear()
    if level.by_name:
        pairs = pairs.with_columns(content=_apart("hash"))
        different, unknown = pairs.filter(pl.col("content")), pairs.filter(pl.col("content").is_null())
        same = pairs.filter(~pl.col("content"))
        if unknown.height and (_labels_tell_apart(unknown) or (level is not PATH and _two_numberings(unknown))):
            return same, pl.concat([different, unknown])
        return pl.concat([same, unknown]), different
    if followed:
        return nothing, pairs
    sites = pairs.select(_apart("site")).to_series()
    if len(sites) and sites.null_count() == 0 and sites.all() and pairs["shown"].str.contains(PLAIN_NUMBER).all():
        return nothing, pairs  # patient 7 of two hospitals
    return pairs, nothing


def _two_numberings(pairs: pl.DataFrame) -> bool:
    """Whether equal names are short numbers in folders for training and for testing, each counted from one."""
    one, other = as_path(pl.col("shown")), as_path(pl.col("shown_2"))
    short = (stem(pl.col("shown")).str.count_matches(r"\d") <= 5) & ~stem(pl.col("shown")).str.contains(r"[0-9a-f]{8}")
    learnt, judged = (rf"(?i)(?:^|[/_-])(?:{words})[^/]*/" for words in ("train", "test|val|dev|external"))
    apart = (one.str.contains(learnt) & other.str.contains(judged)) | (
        one.str.contains(judged) & other.str.contains(learnt)
    )
    return float(pairs.select((short & apart).mean()).item()) > 0.9


def _labels_tell_apart(pairs: pl.DataFrame) -> bool:
    """Whether the labels of equal names differ in most, or agree no better than by chance: two numberings."""
    known = pairs.filter(pl.col("label_min").is_not_null() & pl.col("label_min_2").is_not_null())
    if not known.height:
        return False
    agreed = float(known.select(_equal("label").mean()).item())
    if agreed < 0.5:
        return True
    first = known.group_by("label_min").len().rename({"len": "a"})
    second = known.group_by("label_min_2").len().rename({"label_min_2": "label_min", "len": "b"})
    both = first.join(second, on="label_min")
    chance = float((both["a"] * both["b"]).sum()) / known.height**2
    return known.height >= FEW and chance < 1 and (agreed - chance) / (1 - chance) < 0.3


def _finding(
    pairs: pl.DataFrame,
    known: Known,
    layout: Layout,
    level: Comparison,
    some: Sequence[tuple[int, int]],
    collision: bool,
) -> Finding:
    count = pairs["key"].n_unique()
    shown = _samples(pairs, both=level is not PATH and level.one_image)
    weight, share = Level.COLLISION if collision else Level.LEAK, None
    if len(some) > 1:
        names = tuple(layout.names[code] for code in sorted({code for pair in some for code in pair}))
        title = _of_many(pairs, known.whole, layout, level, len(names), count)
    else:
        names = (layout.names[some[0][0]], layout.names[some[0][1]])
        title, share = _of_pair(pairs, known, layout, level, some[0], count)
        if _both_train(layout, *some[0]):
            weight = Level.COLLISION if collision else Level.WARNING
            title += "; both are for training"
    code, mend = level.code, level.mend
    if collision:
        code = f"{code.removesuffix('-overlap')}-collision"
        title += _why(pairs, level)
        mend = "Look at some, or give --images DIR or a content_hash column; nothing to mend where the images differ."
    return Finding(weight, code, title, names, count, share, tuple(shown), mend)


def _samples(pairs: pl.DataFrame, both: bool) -> list[str]:
    """Some of the keys as they are written; ``both``: as each of the two splits writes them."""
    text = pl.col("shown")
    if both:
        text = pl.when(text == pl.col("shown_2")).then(text).otherwise(text + " ~ " + pl.col("shown_2"))
    return pairs.select(text.alias("shown"))["shown"].drop_nulls().unique().sort().head(MAX_SAMPLES).to_list()


def _of_many(pairs: pl.DataFrame, whole: int, layout: Layout, level: Comparison, parts: int, count: int) -> str:
    noun = level.noun if whole == 1 else level.plural
    runs = f", inside {pairs['run'].n_unique()} of {layout.runs} runs" if layout.runs > 1 else ""
    return f"{count:,} of {whole:,} {noun} {'is' if count == 1 else 'are'} in more than one of {parts} parts of {layout.title}{runs}"


def _of_pair(
    pairs: pl.DataFrame, known: Known, layout: Layout, level: Comparison, pair: tuple[int, int], count: int
) -> tuple[str, float]:
    """The sentence on two splits, and the share of the evaluated one's images that are concerned."""
    rank = {code: words.RANK.index(layout.kinds[code]) for code in pair}
    judged = max(pair, key=lambda code: (rank[code], -known.rows[code]))
    other = pair[0] if judged == pair[1] else pair[1]
    rows, keys = known.rows[judged], known.keys[judged]
    touched = int(pairs["rows" if judged == pair[0] else "rows_2"].sum())
    of_images = "" if level.one_image and touched == count else f", {touched:,} of {rows:,} rows"
    runs = f" (in {pairs['run'].n_unique()} of {layout.runs} runs)" if layout.runs > 1 else ""
    subject = f"{count:,} of {keys:,} {level.noun if keys == 1 else level.plural} of {layout.names[judged]}"
    verb = "is" if count == 1 else "are"
    return (
        f"{subject} {verb} in {layout.names[other]} too{runs}{of_images} ({_percent(touched / rows)})",
        touched / rows,
    )


def _percent(share: float) -> str:
    return (
        f"{100 * share:.0f} %"
        if share >= 0.095 or share == 0
        else f"{100 * share:.1f} %"
        if share >= 0.001
        else "< 0.1 %"
    )


def _both_train(layout: Layout, a: int, b: int) -> bool:
    """Two training lists may share images: of two data sets, or train_0 and train_1 of one."""
    return layout.kinds[a] == layout.kinds[b] == words.TRAIN


def _why(pairs: pl.DataFrame, level: Comparison) -> str:
    if not level.by_name:
        return "; the same numbers may stand for different ones"
    differ = pairs.select(_apart("hash").sum()).item()
    if differ and differ == pairs.height:
        return "; but their contents differ: other images under the same names"
    known = pairs.filter(pl.col("label_min").is_not_null() & pl.col("label_min_2").is_not_null())
    if not _labels_tell_apart(pairs):
        return "; but they are short numbers in folders of their own: other images under the same names?"
    equal = int(known.select(_equal("label").sum()).item() or 0)
    return f"; but {equal} of {known.height} have the same label: other images under the same names?"
