"""The words of an overlap: which level of comparison, how many of which split, and the mend."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from splits.checking import words
from splits.checking.findings import MAX_SAMPLES, Finding, Level
from splits.checking.parts import Layout

BY_MAP = "patient by the map"  # beside the list's own patients


@dataclass(frozen=True)
class Comparison:
    """One of the levels of comparison: its slug, what a key is called, and how to mend an overlap."""

    code: str
    noun: str
    plural: str
    mend: str
    by_name: bool = False
    one_image: bool = True
    by_spelling: bool = False


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
    by_map = column == BY_MAP
    patient = by_map or words.key(column) in words.PATIENT
    noun, plural = ("patient", "patients") if patient else (f"{column} value", f"{column} values")
    more = " by the map" if by_map else ""
    mend = f"Give all images of one {'patient' if patient else column} the same split: mvc split make does."
    code = "patient-overlap" if patient else "group-overlap"
    return Comparison(code, noun + more, plural + more, mend, one_image=False)


def spelling_level(column: str) -> Comparison:
    """The level of ids of that column which differ only in how they are written: '050' and '50'."""
    of = group_level(column)
    code = f"{of.code.removesuffix('-overlap')}-spelling"
    mend = f"Write each {of.noun} in one way, and give all images of one the same split; rename ids that are different."
    return Comparison(code, of.noun, of.plural, mend, one_image=False, by_spelling=True)


@dataclass(frozen=True)
class Known:
    """Rows and distinct keys of each part, and distinct keys in all."""

    rows: dict[int, int]
    keys: dict[int, int]
    whole: int


def finding(
    pairs: pl.DataFrame,
    texts: pl.DataFrame,
    known: Known,
    layout: Layout,
    level: Comparison,
    some: Sequence[tuple[int, int]],
    *,
    why: str = "",
    groups: tuple[Mapping[str, tuple[str, ...]], ...] = (),
) -> Finding:
    """The finding on what the pairs of parts in ``some`` share; ``why`` says why it is a collision and no leak.

    ``groups`` has the images of each group of equal or nearly equal ones, by split.
    ``pairs`` has one row a key and pair (``key``, ``part``, ``part_2``, ``rows``, ``rows_2``); ``texts`` has some keys.
    """
    collision = bool(why)
    count = pairs["key"].n_unique()
    shown = _samples(texts, both=level.by_spelling or (level is not PATH and level.one_image))
    weight, share = Level.COLLISION if collision else Level.LEAK, None
    if len(some) > 1:
        names = tuple(layout.names[code] for code in sorted({code for pair in some for code in pair}))
        if level is NEAR:
            count = sum(len(images) for group in groups for images in group.values())
            title = f"{count:,} images look like images of another of {len(names)} parts of {layout.title}"
        else:
            title = _of_many(pairs, known.whole, layout, level, len(names), count)
    else:
        names = (layout.names[some[0][0]], layout.names[some[0][1]])
        title, share, touched = _of_pair(pairs, known, layout, level, some[0], count)
        count = touched if level is NEAR else count
        if _both_train(layout, *some[0]):
            weight = Level.COLLISION if collision else Level.WARNING
            title += "; both are for training"
    code, mend = level.code, level.mend
    if collision:
        code = f"{code.removesuffix('-overlap')}-collision"
        title += why
        mend = SAME_NAMES if level.by_name else same_ids(level.noun)
    if level is NEAR:
        shown = _pairs(groups)
    return Finding(weight, code, title, names, count, share, tuple(shown), mend, groups)


SAME_NAMES = "Look at some, or give --images DIR or a content_hash column; nothing to mend where the images differ."


def same_ids(noun: str) -> str:
    """The mend for ids that two sites may have given to different patients (or groups)."""
    return (
        f"Nothing to mend if each site numbers its own {noun}s (say --site COL); else give all images of one "
        f"{noun} one split."
    )


def _samples(texts: pl.DataFrame, both: bool) -> list[str]:
    """Some of the keys as they are written; ``both``: as each of the two splits writes them."""
    text = pl.col("shown")
    if both:
        text = pl.when(text == pl.col("shown_2")).then(text).otherwise(text + " ~ " + pl.col("shown_2"))
    return texts.select(text.alias("shown"))["shown"].drop_nulls().unique().sort().head(MAX_SAMPLES).to_list()


def _pairs(groups: Sequence[Mapping[str, Sequence[str]]]) -> list[str]:
    """Some pairs across splits: the first of each group, then what else the groups hold."""
    first, more = [], []
    for group in groups:
        one, *others = group.values()
        found = [f"{one[0]} ~ {name}" for names in others for name in names]
        first += found[:1]
        more += found[1:]
    return [*first, *more][:MAX_SAMPLES]


def _of_many(pairs: pl.DataFrame, whole: int, layout: Layout, level: Comparison, parts: int, count: int) -> str:
    noun = level.noun if whole == 1 else level.plural
    runs = f", inside {pairs['run'].n_unique()} of {layout.runs} runs" if layout.runs > 1 else ""
    verb = "is" if count == 1 else "are"
    written = ", written differently" if level.by_spelling else ""
    return f"{count:,} of {whole:,} {noun} {verb} in more than one of {parts} parts of {layout.title}{written}{runs}"


def _of_pair(
    pairs: pl.DataFrame, known: Known, layout: Layout, level: Comparison, pair: tuple[int, int], count: int
) -> tuple[str, float, int]:
    """The sentence on two splits, and the share and the number of the evaluated one's images that are concerned."""
    rank = {code: words.RANK.index(layout.kinds[code]) for code in pair}
    judged = max(pair, key=lambda code: (rank[code], -known.rows[code]))
    other = pair[0] if judged == pair[1] else pair[1]
    rows, keys = known.rows[judged], known.keys[judged]
    touched = int(pairs["rows" if judged == pair[0] else "rows_2"].sum())
    of_images = "" if level.one_image and touched == count else f", {touched:,} of {rows:,} rows"
    runs = f" (in {pairs['run'].n_unique()} of {layout.runs} runs)" if layout.runs > 1 else ""
    subject = f"{count:,} of {keys:,} {level.noun if keys == 1 else level.plural} of {layout.names[judged]}"
    verb = "is" if count == 1 else "are"
    share = touched / rows
    if level is NEAR:
        looks = "looks" if touched == 1 else "look"
        said = f"{touched:,} of {rows:,} images of {layout.names[judged]} {looks} like images of {layout.names[other]}"
        return f"{said}{runs}", share, touched
    written = ", written differently" if level.by_spelling else ""
    return (
        f"{subject} {verb} in {layout.names[other]} too{written}{runs}{of_images} ({_percent(share)})",
        share,
        touched,
    )


def _percent(share: float) -> str:
    if 0 < share < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.{0 if share >= 0.095 else 1}f} %"


def _both_train(layout: Layout, a: int, b: int) -> bool:
    """Two training lists may share images: of two data sets, or train_0 and train_1 of one."""
    return layout.kinds[a] == layout.kinds[b] == words.TRAIN
