"""Which column of a listing holds images, patients, labels, sites, splits: told by name and by content."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import polars as pl

from splits.checking import words
from splits.checking.ids import HAS_SUFFIX
from splits.checking.loading import FALSE, TRUE, Listing
from splits.errors import SplitError
from splits.reading import need_columns

SAMPLE = 5_000  # rows in which the content of a column is looked at
MOST_CLASSES = 200
MOST_SPLITS = 400
UUID = r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
PAIRED = frozenset({"istrain", "istest", "isval", "isvalid", "isvalidation", "isexternal"})
NO_DIAGNOSIS = frozenset({"male", "female", "sex", "gender", "age", "left", "right", "frontal", "smoker", "black"})


@dataclass(frozen=True)
class Chosen:
    """The columns that the user named; None or () leaves the choice to the content."""

    image: str | None = None
    patient: str | None = None
    group: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    site: str | None = None
    split: str | None = None
    fold: tuple[str, ...] = ()
    run: str | None = None


@dataclass(frozen=True)
class Roles:
    """Column names by role; '' or () where there is none. Several ``label`` columns hold one finding each."""

    image: str = ""
    patient: str = ""
    group: tuple[str, ...] = ()
    label: tuple[str, ...] = ()
    site: str = ""
    split: str = ""
    fold: tuple[str, ...] = ()
    run: str = ""
    hash: str = ""
    question: str = ""  # of visual question answering: an image has several, each with a label of its own

    def shown(self) -> dict[str, str]:
        """Role -> column, for people."""
        names = ("image", "patient", "group", "label", "site", "split", "fold", "run", "hash")
        parts = {name: getattr(self, name) for name in names}
        return {name: _listed(part) if isinstance(part, tuple) else part for name, part in parts.items() if part}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{names[0]}, {names[1]} … ({len(names)} columns)"


def find_roles(listing: Listing, chosen: Chosen, *, alone: bool = True) -> Roles:
    """The roles of the columns of ``listing``. ``alone``: the only file, so that what the user named must be in it.

    Raises SplitError for a column that was named and is not there, and where nothing names images or patients.
    """
    frame = listing.frame
    _named_exist(listing, chosen, alone)
    roles = _given(frame, chosen, Roles(split=listing.split, run=listing.run))
    taken = {*roles.fold, *roles.group, *roles.label, roles.image, roles.patient, roles.site, roles.split, roles.run}
    free = [column for column in frame.columns if column not in taken]
    head = frame.head(SAMPLE)
    if listing.bare:
        return _of_bare(listing, roles, free, head)
    if not roles.split and not roles.fold:
        roles = _split_columns(frame, roles, free, head)
    roles = replace(roles, hash=_first(free, words.HASH))
    if not roles.run and (roles.split or roles.fold):
        roles = replace(roles, run=_run_column(head, free))
    free = [c for c in free if c not in (*roles.fold, roles.split, roles.hash, roles.run)]
    if not roles.patient:
        roles = replace(roles, patient=_first(free, words.PATIENT))
    free = [c for c in free if c != roles.patient]
    if not roles.image:
        roles = replace(roles, image=_image_column(head, free))
    free = [c for c in free if c != roles.image]
    if not roles.group:
        roles = replace(roles, group=tuple(c for c in free if words.key(c) in words.GROUP))
    free = [c for c in free if c not in roles.group]
    if not roles.label:
        roles = replace(roles, label=_label_columns(head, free))
    roles = replace(roles, question=_first(free, words.QUESTION))
    if not roles.site:
        roles = replace(roles, site=_site_column(frame, [c for c in free if c not in roles.label]))
    if not (roles.image or roles.patient or roles.group or roles.hash):
        raise SplitError(
            f"{listing.path}: no column names images or patients; it has "
            f"{', '.join(map(repr, frame.columns[:12]))}; say which with --image or --patient"
        )
    return roles


def _named_exist(listing: Listing, chosen: Chosen, alone: bool) -> None:
    if not alone:
        return
    singles = (chosen.image, chosen.patient, chosen.site, chosen.split, chosen.run)
    need_columns(
        listing.frame,
        [c for c in (*singles, *chosen.group, *chosen.label, *chosen.fold) if c is not None],
        listing.path,
    )


def _given(frame: pl.DataFrame, chosen: Chosen, roles: Roles) -> Roles:
    """``roles`` with the columns that the user named and this table has."""
    there = set(frame.columns)

    def one(name: str | None, otherwise: str) -> str:
        return name if name is not None and name in there else otherwise

    def several(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if name in there)

    return replace(
        roles,
        image=one(chosen.image, ""),
        patient=one(chosen.patient, ""),
        site=one(chosen.site, ""),
        split=one(chosen.split, roles.split),
        run=one(chosen.run, roles.run),
        group=several(chosen.group),
        label=several(chosen.label),
        fold=several(chosen.fold),
    )


def _first(columns: Sequence[str], wanted: Sequence[str]) -> str:
    """The column whose name comes first in ``wanted``."""
    ranked = sorted((wanted.index(words.key(c)), i) for i, c in enumerate(columns) if words.key(c) in wanted)
    return columns[ranked[0][1]] if ranked else ""


def values_of(frame: pl.DataFrame, column: str, most: int) -> list[str] | None:
    """The distinct values of a column, or None where there are more than ``most``."""
    if frame[column].head(SAMPLE).n_unique() > most:
        return None
    values = frame[column].drop_nulls().unique()
    return values.to_list() if len(values) <= most else None


def _split_columns(frame: pl.DataFrame, roles: Roles, free: Sequence[str], head: pl.DataFrame) -> Roles:
    named = [c for c in free if words.key(c) in words.SPLIT]
    few = [c for c in free if head[c].n_unique() <= (MOST_SPLITS if c in named or words.is_fold(c) else _few(head))]
    words_in = {c: _split_words(frame, c) for c in few}
    split = next(
        (c for c in sorted(named, key=lambda c: words.SPLIT.index(words.key(c))) if words_in.get(c, 0) > 0), ""
    )
    if not split:
        full = [c for c, share in words_in.items() if share == 1.0]
        split = next((c for c in full if words.is_fold(c)), full[0] if full else "")
    if not split:
        paired = [
            c for c in free if words.key(c) in PAIRED and set(values_of(frame, c, 5) or ("-",)) <= _yes_no(frame, c)
        ]
        split = paired[0] if len(paired) == 1 else ""
    folds = tuple(c for c in free if c != split and words.is_fold(c) and values_of(frame, c, MOST_SPLITS) is not None)
    if not split and not folds and len(named) == 1 and values_of(frame, named[0], MOST_SPLITS) is not None:
        split = named[0]
    return replace(roles, split=split, fold=folds)


def _few(head: pl.DataFrame) -> int:
    """How many values a column without a telling name may have to be a split: a path with 'train' in it is none."""
    return min(12, head.height // 2)


def _yes_no(frame: pl.DataFrame, column: str) -> set[str]:
    return {v for v in frame[column].drop_nulls().unique().to_list() if v.casefold() in (*TRUE, *FALSE)}


def _split_words(frame: pl.DataFrame, column: str) -> float:
    """The share of a column's distinct values that are words for splits; at least two kinds, else 0."""
    values = values_of(frame, column, MOST_SPLITS)
    if not values:
        return 0.0
    kinds = [words.kind_of(value) for value in values]
    known = sum(bool(kind) or words.key(v) in words.NO_SPLIT for kind, v in zip(kinds, values, strict=True))
    if len(values) < 2 and words.key(column) not in words.SPLIT:
        return 0.0
    return known / len(values)


def _run_column(head: pl.DataFrame, free: Sequence[str]) -> str:
    column = _first(free, words.RUN)
    return column if column and head[column].n_unique() <= MOST_SPLITS else ""


def _is_image(column: pl.Series) -> float:
    filled = column.drop_nulls()
    return int(filled.str.contains(HAS_SUFFIX).sum()) / len(filled) if len(filled) else 0.0


def _image_column(head: pl.DataFrame, free: Sequence[str]) -> str:
    """Names of files first, of these the one with most values; else by name."""
    files = [c for c in free if _is_image(head[c]) > 0.9]
    if files:
        return max(files, key=lambda c: (head[c].n_unique(), words.key(c) in words.IMAGE, -free.index(c)))
    return _first(free, words.IMAGE) or _first(free, words.WEAK_IMAGE)


def _label_columns(head: pl.DataFrame, free: Sequence[str]) -> tuple[str, ...]:
    named = _first([c for c in free if head[c].n_unique() <= MOST_CLASSES or _is_text(head[c])], words.LABEL)
    if named:
        return (named,)
    marks = {"0", "1", "0.0", "1.0", "-1", "-1.0"}
    hot = [
        c
        for c in free
        if not words.key(c).startswith("unnamed")
        and words.key(c) not in NO_DIAGNOSIS
        and 0 < head[c].drop_nulls().n_unique() <= 3
        and set(head[c].drop_nulls().unique().to_list()) <= marks
    ]
    return tuple(hot) if len(hot) >= 2 else ()


def _is_text(column: pl.Series) -> bool:
    numbers = column.drop_nulls().cast(pl.Float64, strict=False)
    return numbers.null_count() > len(numbers) / 2


def _site_column(frame: pl.DataFrame, free: Sequence[str]) -> str:
    for column in sorted(
        free, key=lambda c: words.SITE.index(words.key(c)) if words.key(c) in words.SITE else math.inf
    ):
        if words.key(column) not in words.SITE:
            return ""
        if 1 <= frame[column].drop_nulls().n_unique() <= max(MOST_CLASSES, frame.height // 20):
            return column
    return ""


def _of_bare(listing: Listing, roles: Roles, free: Sequence[str], head: pl.DataFrame) -> Roles:
    """Roles in a file without header: by the names that the form gave, else by content."""
    frame = listing.frame
    roles = replace(
        roles,
        image=roles.image or ("image" if "image" in free else ""),
        patient=roles.patient or ("patient" if "patient" in free else ""),
        site=roles.site or ("site" if "site" in free else ""),
    )
    if "label" in free and not roles.label:
        roles = replace(roles, label=("label",))
    free = [c for c in free if c not in (roles.image, roles.patient, roles.site, *roles.label)]
    if not roles.image:
        files = [c for c in free if _is_image(head[c]) > 0.5]
        roles = replace(roles, image=files[0] if files else free[0] if free else "")
        free = [c for c in free if c != roles.image]
    if not roles.split:
        split = next((c for c in free if values_of(frame, c, _few(head)) and _split_words(frame, c) == 1.0), "")
        roles = replace(roles, split=split)
        free = [c for c in free if c != split]
    if not roles.label:
        few = [c for c in free if 1 < (head[c].n_unique()) <= min(MOST_CLASSES, max(2, head.height // 2))]
        roles = replace(roles, label=tuple(few[-1:]))
    return roles


def looks_like_uuids(column: pl.Series) -> bool:
    """Whether every value is a UUID, as RSNA's image ids are."""
    filled = column.drop_nulls()
    return bool(len(filled)) and bool(filled.head(SAMPLE).str.contains(UUID).all())
