"""Which rows belong to which split of which run: all files as one table."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from splits.checking import words
from splits.checking.loading import FALSE, TRUE, Listing
from splits.checking.roles import PAIRED, Roles
from splits.errors import SplitError

GROUP = "group:"
RUN_WORD = re.compile(r"(?i)(?:fold|split|run|rep|repeat|repetition|cv|seed|iter|iteration|trial)s?[-_ ]*$")


@dataclass(frozen=True)
class Layout:
    """One way in which rows are split: column ``part`` holds codes into ``names``, column ``run`` codes of runs.

    Rows of one run are compared with each other and with no others. ``kinds`` has the kind of split of each name
    ('' where the name is a fold or tells nothing).
    """

    title: str
    part: str
    run: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    runs: int


@dataclass(frozen=True)
class Rows:
    """All rows: image, patient, ``group:<name>`` ..., label, site, hash (text or null), and the codes of ``layouts``.

    ``sizes`` has the number of rows of each split of the first layout, by name. Rows that no layout takes are gone.
    """

    frame: pl.DataFrame
    layouts: tuple[Layout, ...]
    sizes: dict[str, int]
    notes: tuple[str, ...]

    @property
    def runs(self) -> int:
        """The number of runs, or of columns where each is a run of its own (split_0 ... split_4)."""
        wide = len(self.layouts) if all(words.is_fold(layout.title) for layout in self.layouts) else 1
        return max([wide, *(layout.runs for layout in self.layouts)])


def rows_of(listings: Sequence[Listing], roles: Sequence[Roles]) -> Rows:
    """Every row of every file with its split. Raises SplitError where the files' splits can't be told apart."""
    frames, notes = [], []
    splits = _splits_of(listings, roles)
    for listing, role, (split, run) in zip(listings, roles, splits, strict=True):
        frame = _plain(listing.frame, role).with_columns(
            split=split,
            run=run,
            **{f"fold:{number}": pl.Series(listing.frame[c]) for number, c in enumerate(role.fold)},
        )
        frames.append(frame)
    frame = pl.concat(frames, how="diagonal") if len(frames) > 1 else frames[0]
    del frames
    left_out = pl.col("split").str.to_lowercase().is_in(sorted(words.NO_SPLIT))
    folds = [c for c in frame.columns if c.startswith("fold:")]
    whole = frame.height
    if frame["split"].null_count() < whole:
        frame = frame.filter(pl.col("split").is_not_null() & ~left_out)
    elif folds:
        frame = frame.filter(pl.any_horizontal(pl.col(folds).is_not_null()))
    if frame.height < whole:
        lost = whole - frame.height
        verbs = ("belongs", "is") if lost == 1 else ("belong", "are")
        notes.append(f"{lost:,} of {whole:,} rows {verbs[0]} to no split and {verbs[1]} left out")
    layouts = []
    if frame["split"].null_count() < frame.height:
        called = {role.split for role in roles}
        title = called.pop() if len(called) == 1 and folds else ""
        frame, layout = _coded(frame, "split", title or "the splits", "split")
        layouts.append(layout)
    for number, column in enumerate(folds):
        title = next((r.fold[number] for r in roles if len(r.fold) > number), column)
        frame, layout = _coded(frame, column, title, f"fold{number}")
        if len(layout.names) > 1 and not (layouts and _only_finer(frame, layout, layouts[0])):
            layouts.append(layout)
    sizes = _sizes(frame, layouts[0]) if layouts else {}
    return Rows(frame.drop("split", *folds), tuple(layouts), sizes, tuple(notes))


def _only_finer(frame: pl.DataFrame, layout: Layout, coarse: Layout) -> bool:
    """Whether ``layout`` says the same in smaller parts: train_0, train_1, test_0 beside train and test."""
    inside = frame.group_by(layout.part).agg(low=pl.col(coarse.part).min(), high=pl.col(coarse.part).max())
    return all(
        low == high and low is not None and layout.kinds[code] and layout.kinds[code] == coarse.kinds[low]
        for code, low, high in inside.drop_nulls(layout.part).rows()
    )


def _sizes(frame: pl.DataFrame, layout: Layout) -> dict[str, int]:
    counts = dict(frame.group_by(layout.part).len().rows())
    return {name: counts.get(code, 0) for code, name in enumerate(layout.names) if counts.get(code, 0)}


def _plain(frame: pl.DataFrame, roles: Roles) -> pl.DataFrame:
    """The columns that a check needs, under their own names."""
    single = {
        "image": roles.image,
        "patient": roles.patient,
        "site": roles.site,
        "hash": roles.hash,
        "question": roles.question,
    }
    columns = {name: pl.col(column) for name, column in single.items() if column}
    columns |= {GROUP + column: pl.col(column) for column in roles.group}
    if roles.label:
        columns["label"] = _label(frame, roles.label)
    return frame.select(**columns)


def _label(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Expr:
    """One label a row: '1.0' is '1'; of several columns of 0 and 1 the names of those that are 1."""
    if len(columns) == 1:
        return pl.col(columns[0]).str.replace(r"^([-+]?\d+)\.0+$", "${1}")
    hot = [pl.when(pl.col(c).is_in(["1", "1.0"])).then(pl.lit(c)) for c in columns]
    said = pl.any_horizontal(pl.col(list(columns)).is_not_null())
    return pl.when(said).then(pl.concat_str(hot, separator="|", ignore_nulls=True))


def _coded(frame: pl.DataFrame, column: str, title: str, short: str) -> tuple[pl.DataFrame, Layout]:
    """``frame`` with the codes of one layout in place of its text."""
    names = frame[column].drop_nulls().unique().to_list()
    kinds = {name: words.kind_of(name) for name in names}
    names.sort(key=lambda name: (words.RANK.index(kinds[name]), _natural(name)))
    runs = frame["run"].drop_nulls().unique().sort().to_list() if "run" in frame.columns else []
    part, run = f"part:{short}", f"run:{short}"
    codes = frame[column].replace_strict(names, list(range(len(names))), default=None, return_dtype=pl.UInt16)
    run_codes = (
        frame["run"].replace_strict(runs, list(range(len(runs))), default=0, return_dtype=pl.UInt16) if runs else None
    )
    frame = frame.with_columns(
        codes.alias(part), pl.lit(0, pl.UInt16).alias(run) if run_codes is None else run_codes.alias(run)
    )
    layout = Layout(title, part, run, tuple(names), tuple(kinds[n] for n in names), max(1, len(runs)))
    return frame, layout


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(piece)) if piece.isdigit() else (1, piece) for piece in re.split(r"(\d+)", name) if piece]


def _splits_of(listings: Sequence[Listing], roles: Sequence[Roles]) -> list[tuple[pl.Series, pl.Series]]:
    """Split and run of each row of each file, as text or null."""
    own = [_own_split(listing, role) for listing, role in zip(listings, roles, strict=True)]
    plain = stems = [listing.name or _stem(listing) for listing in listings]
    if len(set(stems)) < len(stems):
        stems = [listing.name or str(listing.path) for listing in listings]
    in_folders = len(set(plain)) < len(plain) and not any(listing.name for listing in listings)
    names, runs = stems, list[str | None]([None] * len(listings))
    has_own = [split is not None or bool(role.fold) for split, role in zip(own, roles, strict=True)]
    numbered = _runs_by_name([listing.path.name for listing in listings]) if len(listings) > 1 else None
    if numbered is None and in_folders:  # fold0/train.csv, fold1/train.csv
        numbered, stems = _runs_by_name([listing.path.as_posix() for listing in listings]), plain
    several_kinds = False
    if numbered is not None and not any(has_own):
        kinds_by_run: dict[str, set[str]] = {}
        for stem, run in zip(stems, numbered, strict=True):
            kinds_by_run.setdefault(run, set()).add(words.kind_of(stem))
        several_kinds = len(kinds_by_run) > 1 and all(len(kinds - {""}) > 1 for kinds in kinds_by_run.values())
    if several_kinds and numbered is not None:
        runs, names = list(numbered), [words.kind_of(stem) for stem in stems]
    elif numbered is not None and all(has_own):
        runs, names = list(numbered), [""] * len(listings)
    elif len(listings) > 1:
        kinds = [words.kind_of(stem) for stem in stems]
        unnamed = [i for i, listing in enumerate(listings) if not listing.name]
        if all(kinds) and len(set(kinds)) == len(kinds):
            names = [kinds[i] if i in unnamed else stems[i] for i in range(len(stems))]
    result = []
    for listing, role, split, name, run_of in zip(listings, roles, own, names, runs, strict=True):
        height = listing.frame.height
        called = split
        if len(listings) > 1 and name:
            constant = pl.Series("split", [name], dtype=pl.String).new_from_index(0, height)
            called = constant if split is None or _says_the_same(name, split) else _joined(name, split)
        if called is None:
            called = pl.Series("split", [None], dtype=pl.String).new_from_index(0, height)
        in_run = (
            listing.frame[role.run] if role.run else pl.Series("run", [None], dtype=pl.String).new_from_index(0, height)
        )
        if run_of is not None:
            in_run = (
                pl.Series("run", [run_of], dtype=pl.String).new_from_index(0, height)
                if not role.run
                else _joined(run_of, in_run)
            )
        result.append((called, in_run))
    return result


def _says_the_same(name: str, split: pl.Series) -> bool:
    """Whether a column of one value adds nothing to the name of its file: 'train' in x_train.csv."""
    values = split.drop_nulls().unique().to_list()
    return len(values) <= 1 and all(words.kind_of(value) in ("", words.kind_of(name)) for value in values)


def _joined(name: str, column: pl.Series) -> pl.Series:
    return column.to_frame("own").select(pl.lit(f"{name}/") + pl.col("own")).to_series()


def _own_split(listing: Listing, role: Roles) -> pl.Series | None:
    if not role.split:
        return None
    column = listing.frame[role.split]
    if words.key(role.split) in PAIRED:
        yes = role.split.casefold().removeprefix("is").strip("_- ")
        no = words.TEST if words.kind_of(yes) == words.TRAIN else words.TRAIN
        low = column.str.to_lowercase()
        frame = pl.DataFrame({"is": low})
        chosen = (
            pl.when(pl.col("is").is_in(list(TRUE)))
            .then(pl.lit(yes))
            .when(pl.col("is").is_in(list(FALSE)))
            .then(pl.lit(no))
        )
        return frame.select(chosen).to_series()
    if column.n_unique() > 2_000:
        raise SplitError(
            f"{listing.path}: column {role.split!r} has {column.n_unique():,} values; a split has few; "
            "name the right column with --split"
        )
    return column


def _stem(listing: Listing) -> str:
    name = listing.path.name
    for suffix in (".gz", listing.path.with_suffix("").suffix if listing.path.suffix == ".gz" else listing.path.suffix):
        name = name.removesuffix(suffix) if suffix else name
    return name


def _runs_by_name(names: Sequence[str]) -> list[str] | None:
    """The number in each file name, where names differ in one number (and a word for the split) alone."""
    pieces = [re.split(r"(\d+)", name) for name in names]
    shapes = Counter(
        tuple(re.sub(r"[a-z]+", "", part.lower()) if _is_kind(part) else part for part in p[::2]) for p in pieces
    )
    lengths = {len(p) for p in pieces}
    if len(lengths) > 1 or len(shapes) > len(names) // 2 + 1:
        return None
    differing = [k for k in range(1, lengths.pop(), 2) if len({p[k] for p in pieces}) > 1]
    if len(differing) != 1 or not all(RUN_WORD.search(p[differing[0] - 1]) for p in pieces):
        return None  # ISIC-2017 and ISIC-2019 are two data sets, no two runs
    return [p[differing[0]] for p in pieces]


def _is_kind(part: str) -> bool:
    return bool(words.kind_of(part))
