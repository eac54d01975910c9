"""Turn a metadata table of any columns into images with patient, label, site: what the draw needs, nothing guessed."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from protocol.findings import plain
from protocol.task import no_subgroup
from protocol.types import Kind, Unit
from splits.cells import (
    NO_ID,
    NO_SITE_NAME,
    all_spelled,
    exact,
    image_name,
    names_nobody,
    no_hidden_characters,
    without_words,
)
from splits.datasets.base import Images
from splits.errors import SplitError
from splits.labels import MAX_TEXT, labelled
from splits.reading import Table, need_columns

IMAGE_NAMES = (
    "image_id", "image", "images", "image index", "image_name", "imagename", "image name", "id_code", "filename",
    "file_name", "file", "path", "filepath", "file_path", "image_path", "img", "isic_id",
)  # fmt: skip
MAX_LEVELS = 200  # of a subgroup: more is a number or a name
NO_SITE = "unstated"


@dataclass(frozen=True)
class Columns:
    """Names of a metadata table's columns.

    Several ``labels`` are findings of 1, 0 and empty, a column each; ``separator`` parts the findings of one column.
    """

    patient: str | None
    labels: tuple[str, ...]
    image: str | None = None
    site: str | None = None
    groups: tuple[str, ...] = ()
    stratify: tuple[str, ...] = ()
    subgroups: tuple[str, ...] = ()
    separator: str | None = None


@dataclass(frozen=True)
class Reading:
    """How cells are taken: class order, what to do with images without a label, ids that look like one."""

    classes: tuple[str, ...] = ()
    drop_unlabelled: bool = False
    unit: Unit = "patient"
    unavailable: str = ""


@dataclass(frozen=True)
class Gathered:
    """``images.frame`` also holds ``group_0 ...`` and ``stratify_0 ...`` (text or null), one for each column named."""

    images: Images
    kind: Kind
    classes: tuple[str, ...]
    image_column: str
    subgroups: tuple[str, ...]


def gather(table: Table, columns: Columns, reading: Reading) -> Gathered:
    """The images of ``table``.

    Raises :class:`SplitError` for a column that is missing, named twice or (the image's) ambiguous; an image, patient
    or site without a name (an empty cell, or NA, nan, unknown ...), with characters that can't be seen, or made of
    numbers that lost digits; a site or subgroup that has a value for nearly each patient; an image with two labels,
    patients or sites; and what :func:`splits.labels.labelled` refuses.
    """
    frame, path = table.frame, table.path
    if not columns.labels:
        raise SplitError(f"{path}: no column is named for the labels")
    if frame.height == 0:
        raise SplitError(f"{path} has a header and no row")
    image = columns.image or image_column(
        frame, {columns.patient, columns.site, *columns.labels, *columns.groups}, str(path)
    )
    named = [image, columns.patient, columns.site, *columns.labels, *columns.groups]
    once = [name for name in named if name is not None]
    need_columns(frame, [*once, *columns.stratify, *columns.subgroups], path)
    twice = sorted({name for name in once if once.count(name) > 1})
    if twice:
        raise SplitError(
            f"column {twice[0]!r} is named for two things; image, patient, label, site and groups need a column each"
        )
    notes = list(table.notes)
    picked = {"image": image_name(pl.col(image))}
    picked["patient"] = pl.col(columns.patient) if columns.patient is not None else pl.lit(None, pl.String)
    picked["site"] = pl.col(columns.site) if columns.site else pl.lit(NO_SITE)
    picked |= {f"label_{index}": pl.col(name) for index, name in enumerate(columns.labels)}
    picked |= {f"group_{index}": pl.col(name) for index, name in enumerate(columns.groups)}
    picked |= {f"stratify_{index}": pl.col(name) for index, name in enumerate(columns.stratify)}
    picked |= {name: pl.col(name) for name in _subgroups(frame, columns.subgroups, set(named) - {columns.site})}
    slashes = int(frame[image].str.contains("\\", literal=True).sum())
    if slashes:
        notes.append(f"{slashes} image names hold a backslash; it is taken as / (the same name on every system)")
    rows = _names(frame.select(**picked), columns, image, table, notes)
    rows, merged = _one_row_an_image(rows)
    if merged:
        notes.append(f"{merged} rows repeat an image with the same content; each image is kept once")
    found = labelled(rows, columns.labels, columns.separator, reading.classes, drop=reading.drop_unlabelled)
    images = Images(found.rows, (*notes, *found.notes), reading.unit, reading.unavailable)
    return Gathered(images, found.kind, found.classes, image, columns.subgroups)


def _names(rows: pl.DataFrame, columns: Columns, image: str, table: Table, notes: list[str]) -> pl.DataFrame:
    """``rows`` with names that can be told apart and, where they are published, tell nobody; SplitError otherwise."""
    groups = {f"group_{index}": name for index, name in enumerate(columns.groups)}
    patients = {"patient": columns.patient} if columns.patient is not None else {}
    sites = {"site": columns.site} if columns.site is not None else {}
    words = dict.fromkeys([*patients, *groups], NO_ID) | dict.fromkeys(sites, NO_SITE_NAME)
    empty = {name: rows[name].null_count() for name in groups}
    rows, seen = without_words(rows, words)
    _no_blanks(rows, {"image": image} | patients | sites, seen, str(table.path))
    for name in groups.keys() & seen.keys():
        count = rows[name].null_count() - empty[name]
        notes.append(f"{count} cells of column {groups[name]!r} say that there is none (NA, unknown); they tie nothing")
    ids = {"image": image} | patients | groups
    no_hidden_characters(rows, ids)
    for name, column in ids.items():
        exact(rows[name], column, table.rounded)
    others = {f"stratify_{index}": name for index, name in enumerate(columns.stratify)}
    shown = sites | {name: name for name in columns.subgroups}
    rows = all_spelled(rows, ids | others | shown, notes, ids)
    whose = patients or groups or {"image": image}
    for name, column in shown.items():
        levels = rows[name].drop_nulls().n_unique()
        if not names_nobody(levels, (rows[own] for own in whose)):
            raise SplitError(
                f"column {column!r} can't be a {'site' if name == 'site' else 'subgroup'}: its {levels} values are "
                f"nearly as many as those of {', '.join(map(repr, whose.values()))} and would name people in what is "
                "published; write fewer levels"
            )
    if columns.site:
        _publishable(rows["site"], columns.site)
    return rows


def image_column(frame: pl.DataFrame, taken: Collection[str | None], path: str) -> str:
    """The one column of ``frame`` that is called as images are; SplitError where there is none or more than one."""
    fits = [name for name in frame.columns if name.casefold() in IMAGE_NAMES and name not in taken]
    if len(fits) == 1:
        return fits[0]
    why = f"{' and '.join(repr(name) for name in fits)} could each be the images" if fits else "none is named like one"
    raise SplitError(f"{path}: which column holds the images? {why}; say --image COLUMN")


def _subgroups(frame: pl.DataFrame, names: Sequence[str], hidden: Collection[str | None]) -> Sequence[str]:
    """``names``, where each can be published; ``hidden`` are the columns of images, patients, groups and labels."""
    for name in names:
        values = frame[name].drop_nulls().unique()
        why = no_subgroup(name, values.sort().head(MAX_LEVELS).to_list())
        if name in hidden:
            why = "subgroups are published as they are, and it holds the images, patients, groups or labels"
        elif name in ("image", "patient") or re.fullmatch(r"(group|stratify)_\d+", name):
            why = "this name is used for something else here; rename it in the table"
        elif sum(other.casefold() == name.casefold() for other in names) > 1:
            why = "it is named twice (case makes no difference)"
        elif len(values) > MAX_LEVELS:
            why = f"it holds {len(values)} different values; write bands of a number, or fewer levels"
        if why:
            raise SplitError(f"column {name!r} can't be a subgroup: {why}")
        _publishable(values, name)
    return names


def _publishable(values: pl.Series, column: str) -> None:
    """SplitError where a text of ``values`` can't stand in a split file."""
    for value in values.drop_nulls().unique().sort().to_list():
        if len(value) > MAX_TEXT or not value.isprintable():
            raise SplitError(
                f"column {column!r} holds {plain(value, 60)!r}; what is published has at most {MAX_TEXT} characters "
                "and no line break or control character"
            )


def _no_blanks(rows: pl.DataFrame, columns: Mapping[str, str], words: Mapping[str, str], path: str) -> None:
    """SplitError for rows without a name; ``words`` are what stood for none where the cell was not empty."""
    for name, column in columns.items():
        blank = int(rows[name].null_count())
        if blank:
            empty = f"empty or {plain(words[name], 20)!r}" if name in words else "empty"
            first = int(np.flatnonzero(rows[name].is_null().to_numpy())[0]) + 1
            what = {
                "image": "an image without a name can't be found again; leave these rows out, or name them",
                "patient": "images without a patient can't be kept together; name the patient or leave these rows out",
                "site": "write the site of each image",
            }[name]
            raise SplitError(
                f"{path}: column {column!r} is {empty} in {blank} of {rows.height} rows (first: row {first}); {what}"
            )


def _one_row_an_image(rows: pl.DataFrame) -> tuple[pl.DataFrame, int]:
    """Rows that repeat an image are merged where they agree; SplitError where they don't."""
    hashes = np.sort(rows["image"].hash().to_numpy())
    if not np.any(hashes[1:] == hashes[:-1]):  # no two hashes alike, so no two names
        return rows, 0
    distinct = rows.unique(maintain_order=True)
    if distinct["image"].n_unique() == distinct.height:
        return distinct, rows.height - distinct.height
    several = distinct.filter(distinct["image"].is_duplicated())
    one = several.filter(several["image"] == several["image"][0])
    differs = next(name for name in one.columns if name != "image" and one[name].n_unique() > 1)
    seen = " and ".join(repr(value) for value in one[differs].unique().sort().to_list()[:3])
    count = several["image"].n_unique()
    more = f" ({count} such images)" if count > 1 else ""
    raise SplitError(
        f"image {plain(several['image'][0], 80)!r} comes with {differs.partition('_')[0]} {plain(seen, 120)}{more}; "
        "an image has one row: mend the rows, or name the column that tells the images apart"
    )
