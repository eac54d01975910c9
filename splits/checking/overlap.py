"""What two splits share: names, names without marks, groups, contents; and what only looks shared."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from splits.checking import words
from splits.checking.findings import Finding
from splits.checking.ids import as_path, stem
from splits.checking.keys import hashed, mixed, shared
from splits.checking.parts import Layout
from splits.checking.wording import CONTENT, NEAR, PATH, Comparison, Known, finding

LOOKED_AT = 1_000  # keys whose text is looked up
MOST_PAIRS = 6  # reported one by one; more are one finding
MOST = 0.8  # of the smaller split's names are shared, or its numbers were not counted anew from one
FEW = 20  # shared names below which agreement by chance is not told from agreement
PLAIN_NUMBER = r"^[A-Za-z_\- ]*\d{1,5}(?:\.0+)?$"


@dataclass(frozen=True)
class Overlap:
    """What a level gave: findings, rows whose key lies in several splits (or None), pairs where names collide."""

    findings: tuple[Finding, ...]
    rows: pl.Series | None
    collided: frozenset[tuple[int, int]]


NOTHING = Overlap((), None, frozenset())


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

    ``seen`` marks the rows that a level before has told of. ``collided`` are pairs of splits whose equal names were
    told to be different images: what follows from names collides there too.
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
    entries = _entries(frame, layout, level, in_run, chosen, seen)
    pairs = entries.join(entries.drop("run", strict=False), on="key", suffix="_2").filter(
        pl.col("part") < pl.col("part_2")
    )
    del entries
    if seen is not None:
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
    texts = _Texts(frame, layout, in_run, shown)
    for some in [present] if together else [[pair] for pair in present]:
        of = pairs if together else pairs.filter((pl.col("part") == some[0][0]) & (pl.col("part_2") == some[0][1]))
        leaks, fooled = _sorted_out(of, level, texts, known, all(pair in collided for pair in some))
        if fooled.height:
            collisions.update(some)
            why = _why(fooled, level)
            told = finding(
                fooled, texts.of(fooled), known, layout, level, some, why=why, groups=texts.groups(fooled, level)
            )
            findings.append(told)
        if leaks.height:
            groups = texts.groups(leaks, level)
            findings.append(finding(leaks, texts.of(leaks), known, layout, level, some, groups=groups))
    return Overlap(tuple(findings), chosen, frozenset(collisions))


@dataclass(frozen=True)
class _Texts:
    """What some of the keys are in the table: looked up for a thousand at most."""

    frame: pl.DataFrame
    layout: Layout
    in_run: pl.Series
    shown: str

    def of(self, pairs: pl.DataFrame) -> pl.DataFrame:
        """``shown`` and ``shown_2``: the text of a key in each of the two parts."""
        some = pairs.sort("key").head(LOOKED_AT).select("key", "part", "part_2")
        at = self.in_run.is_in(some["key"].implode()).arg_true()
        found = self.frame.select(self.shown, self.layout.part)[at].with_columns(key=self.in_run.gather(at))
        found = found.rename({self.shown: "shown", self.layout.part: "part"}).drop_nulls()
        found = found.group_by("key", "part").agg(pl.col("shown").min())
        second = found.rename({"part": "part_2", "shown": "shown_2"})
        return some.join(found, on=["key", "part"]).join(second, on=["key", "part_2"]).select("shown", "shown_2")

    def groups(self, pairs: pl.DataFrame, level: Comparison) -> tuple[dict[str, tuple[str, ...]], ...]:
        """Every image of each key, by split, where the level compares images themselves and their names are known."""
        if level not in (CONTENT, NEAR) or self.shown != "image":
            return ()
        parts = pl.concat([pairs.select("key", part="part"), pairs.select("key", part="part_2")]).unique()
        at = self.in_run.is_in(parts["key"].unique().implode()).arg_true()
        found = self.frame.select(shown=pl.col("image"), part=pl.col(self.layout.part))[at]
        found = found.with_columns(key=self.in_run.gather(at)).drop_nulls().join(parts, on=["key", "part"], how="semi")
        one = found.group_by("key", "part").agg(pl.col("shown").unique().sort()).sort("part", "key")
        groups: dict[int, dict[str, tuple[str, ...]]] = {}
        for key, part, names in one.rows():
            groups.setdefault(key, {})[self.layout.names[part]] = tuple(names)
        return tuple(sorted(groups.values(), key=lambda group: next(iter(group.values()))))


def _entries(
    frame: pl.DataFrame,
    layout: Layout,
    level: Comparison,
    in_run: pl.Series,
    chosen: pl.Series,
    seen: pl.Series | None,
) -> pl.DataFrame:
    """One row a key and part: how many rows, and the least and the greatest of what can tell equal keys apart."""
    apart: tuple[str, ...] = ("label", "hash") if level.by_name else ("site",)
    if "question" in frame.columns:  # then a label answers the question and does not describe the image
        apart = tuple(name for name in apart if name != "label")
    wanted = [name for name in apart if name in frame.columns]
    columns: dict[str, pl.Expr] = {
        "key": pl.lit(in_run),
        "part": pl.col(layout.part),
        **{name: pl.col(name) for name in wanted},
    }
    if layout.runs > 1:
        columns["run"] = pl.col(layout.run)
    if seen is not None:
        columns["new"] = ~pl.lit(seen)
    ends: dict[str, pl.Expr] = {
        f"{name}_{end}": getattr(hashed(pl.col(name)), end)() for name in wanted for end in ("min", "max")
    }
    more: dict[str, pl.Expr] = {"run": pl.col("run").first()} if layout.runs > 1 else {}
    if seen is not None:
        more["new"] = pl.col("new").any()
    return frame.select(**columns).filter(chosen).group_by("key", "part").agg(rows=pl.len(), **more, **ends)


def _equal(name: str) -> pl.Expr:
    return (pl.col(f"{name}_min") == pl.col(f"{name}_min_2")) & (pl.col(f"{name}_max") == pl.col(f"{name}_max_2"))


def _apart(pairs: pl.DataFrame, name: str) -> pl.Expr:
    """True where both sides are known and share no value (as far as the ends tell), null where one is unknown."""
    if f"{name}_min" not in pairs.columns:
        return pl.lit(None, pl.Boolean)
    lower = pl.col(f"{name}_max") < pl.col(f"{name}_min_2")
    return lower | (pl.col(f"{name}_max_2") < pl.col(f"{name}_min"))


def _sorted_out(
    pairs: pl.DataFrame, level: Comparison, texts: _Texts, known: Known, followed: bool
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The keys that are shared, and those that only have the same name."""
    nothing = pairs.clear()
    if level.by_name:
        pairs = pairs.with_columns(content=_apart(pairs, "hash"))
        different, unknown = pairs.filter(pl.col("content")), pairs.filter(pl.col("content").is_null())
        same = pairs.filter(~pl.col("content"))
        if unknown.height and (
            _labels_tell_apart(unknown)
            or (level is not PATH and _covers(unknown, known) and _two_numberings(texts.of(unknown)))
        ):
            return same, pl.concat([different, unknown])
        return pl.concat([same, unknown]), different
    if level.one_image:  # equal bytes are equal images, whatever the site
        return pairs, nothing
    if followed:
        return nothing, pairs
    elsewhere = "site_min" in pairs.columns and bool(pairs.select(_apart(pairs, "site").fill_null(False).all()).item())
    if elsewhere and bool(texts.of(pairs)["shown"].str.contains(PLAIN_NUMBER).all()):
        return nothing, pairs  # patient 7 of two hospitals
    return pairs, nothing


def _covers(pairs: pl.DataFrame, known: Known) -> bool:
    """Whether nearly all names of the smaller split are shared: two that count from one share all, copies are few."""
    of = pairs.group_by("part", "part_2").agg(count=pl.col("key").n_unique()).rows()
    return all(count >= MOST * min(known.keys[a], known.keys[b]) for a, b, count in of)


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
    if "label_min" not in pairs.columns:
        return False
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


def _why(pairs: pl.DataFrame, level: Comparison) -> str:
    if not level.by_name:
        return "; the same numbers may stand for different ones"
    differ = pairs.select(_apart(pairs, "hash").sum()).item()
    if differ and differ == pairs.height:
        return "; but their contents differ: other images under the same names"
    if not _labels_tell_apart(pairs):
        return "; but both count their images from one, each in its own folders: other images under the same names?"
    known = pairs.filter(pl.col("label_min").is_not_null() & pl.col("label_min_2").is_not_null())
    equal = int(known.select(_equal("label").sum()).item() or 0)
    verb = "has" if known.height == 1 else "have"
    return f"; but {equal:,} of {known.height:,} {verb} the same label: other images under the same names?"
