"""Turn a metadata table of any columns into images with patient, label, site: what the draw needs, nothing guessed."""

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from protocol.findings import plain
from protocol.task import no_subgroup
from protocol.types import Kind, Unit
from splits.datasets.base import Images
from splits.errors import SplitError
from splits.reading import Table, need_columns

# What stands for "no label" in released files (beside an empty cell), unless it is named as a class.
NO_LABEL = ("nan", "na", "n/a", "null", "?", "-100", "-100.0")
IMAGE_NAMES = (
    "image_id", "image", "images", "image index", "image_name", "imagename", "image name", "id_code", "filename",
    "file_name", "file", "path", "filepath", "file_path", "image_path", "img", "isic_id",
)  # fmt: skip
MAX_CLASSES = 200
MAX_LEVELS = 200  # of a subgroup: more is a number or a name
MAX_TEXT = 200  # characters of what is published as text
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
    or site without a name; an image with two labels, patients or sites; labels that are no class; images without a
    label unless they are to be dropped.
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
    picked = {"image": pl.col(image).str.replace_all("\\", "/", literal=True)}
    picked["patient"] = pl.col(columns.patient) if columns.patient is not None else pl.lit(None, pl.String)
    picked["site"] = pl.col(columns.site) if columns.site else pl.lit(NO_SITE)
    picked |= {f"label_{index}": pl.col(name) for index, name in enumerate(columns.labels)}
    picked |= {f"group_{index}": pl.col(name) for index, name in enumerate(columns.groups)}
    picked |= {f"stratify_{index}": pl.col(name) for index, name in enumerate(columns.stratify)}
    picked |= {name: pl.col(name) for name in _subgroups(frame, columns.subgroups, set(named) - {columns.site})}
    slashes = int(frame[image].str.contains("\\", literal=True).sum())
    if slashes:
        notes.append(f"{slashes} image names hold a backslash; it is taken as / (the same name on every system)")
    rows = frame.select(**picked)
    _no_blanks(rows, {"image": image, "patient": columns.patient, "site": columns.site}, str(path))
    if columns.site:
        _publishable(rows["site"], columns.site)
    rows, merged = _one_row_an_image(rows)
    if merged:
        notes.append(f"{merged} rows repeat an image with the same content; each image is kept once")
    rows, kind, classes, said = _labels(rows, columns, reading)
    _class_names(classes)
    return Gathered(
        Images(rows, (*notes, *said), reading.unit, reading.unavailable), kind, classes, image, columns.subgroups
    )


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


def _no_blanks(rows: pl.DataFrame, columns: dict[str, str | None], path: str) -> None:
    for name, column in columns.items():
        blank = int(rows[name].null_count()) if column else 0
        if blank:
            first = int(np.flatnonzero(rows[name].is_null().to_numpy())[0]) + 1
            what = {
                "image": "an image without a name can't be found again; leave these rows out, or name them",
                "patient": "images without a patient can't be kept together; name the patient or leave these rows out",
                "site": "write the site of each image",
            }[name]
            raise SplitError(
                f"{path}: column {column!r} is empty in {blank} of {rows.height} rows (first: row {first}); {what}"
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


def _labels(
    rows: pl.DataFrame, columns: Columns, reading: Reading
) -> tuple[pl.DataFrame, Kind, tuple[str, ...], list[str]]:
    if len(columns.labels) > 1:
        return _findings_in_columns(rows, columns, reading)
    if columns.separator is not None:
        return _findings_in_one(rows, columns, reading)
    notes: list[str] = []
    column = columns.labels[0]
    rows = _without_tokens(rows, reading)
    values = rows["label_0"].drop_nulls().unique().sort().to_list()
    rows = unlabelled(rows, rows["label_0"].is_null(), f"column {column!r}", reading.drop_unlabelled, notes)
    places, classes, said = _classes(values, column, reading.classes)
    label = pl.col("label_0").replace_strict(places, default=None, return_dtype=pl.Int64).alias("label")
    kind: Kind = "binary" if len(classes) == 2 else "multiclass"
    return rows.with_columns(label).drop("label_0"), kind, classes, [*notes, *said]


def _without_tokens(rows: pl.DataFrame, reading: Reading) -> pl.DataFrame:
    """Cells that say that there is no label are null, unless a class is called so."""
    missing = tuple(token for token in NO_LABEL if token not in {name.casefold() for name in reading.classes})
    text = pl.col("label_0")
    return rows.with_columns(
        pl.when(text.str.to_lowercase().is_in(missing)).then(None).otherwise(text).alias("label_0")
    )


def unlabelled(rows: pl.DataFrame, without: pl.Series, where: str, drop: bool, notes: list[str]) -> pl.DataFrame:
    """``rows`` but for those ``without`` a label, which are refused unless they are to be dropped."""
    count = int(without.sum())
    if count == rows.height:
        raise SplitError(f"{where} holds no label at all; name the column or the file with the classes")
    if count and not drop:
        raise SplitError(
            f"{where} holds no label of {count} of {rows.height} images (empty, nan, NA, ? or -100); "
            "say --drop-unlabelled to leave them out, or mend the rows"
        )
    if count:
        notes.append(f"{count} images without a label are left out")
    return rows.filter(~without)


def _classes(
    values: list[str], column: str, named: tuple[str, ...]
) -> tuple[dict[str, int], tuple[str, ...], list[str]]:
    """The class index of each value, the class names, and what is to be said."""
    numbers = {value: _whole(value) for value in values}
    whole = all(number is not None for number in numbers.values())
    if named:
        by_number = {_whole(name): index for index, name in enumerate(named)}
        if set(values) <= set(named):
            places = {name: index for index, name in enumerate(named)}
        elif None not in by_number:  # classes called 1, 2, 3 and cells of 1.0: the same numbers
            places = {value: by_number[number] for value, number in numbers.items() if number in by_number}
        elif set(by_number) == {None} and whole:  # names in the order of the numbers
            places = {
                value: number for value, number in numbers.items() if number is not None and 0 <= number < len(named)
            }
        else:
            places = {name: index for index, name in enumerate(named)}
        wrong = [value for value in values if value not in places]
        if wrong:
            raise SplitError(
                f"column {column!r} holds {plain(wrong[0], 60)!r}, which is not among --classes {', '.join(named)}; "
                "name every class in its order, or mend the rows"
            )
        present = {places[value] for value in values}
        absent = [name for index, name in enumerate(named) if index not in present]
        return places, named, [f"no image of class {name}" for name in absent]
    if len(values) < 2:
        raise SplitError(
            f"column {column!r} holds one class only ({plain(values[0], 60)!r}); there is nothing to classify"
        )
    if len(values) > MAX_CLASSES:
        raise SplitError(
            f"column {column!r} holds {len(values)} different values ({plain(values[0], 60)!r} ...): is that the label?"
        )
    if whole:
        ordered = sorted(set(numbers.values()), key=lambda number: number or 0)
        places = {value: ordered.index(number) for value, number in numbers.items()}
        contiguous = ordered == list(range(len(ordered)))
        said = [] if contiguous else [f"classes {', '.join(map(str, ordered))} become 0 to {len(ordered) - 1}"]
        return places, tuple(map(str, ordered)), said
    places = {value: index for index, value in enumerate(values)}
    order = ", ".join(f"{index} {plain(value, 40)}" for value, index in places.items())
    return places, tuple(values), [f"class order is alphabetical ({order}); --classes sets another"]


def _class_names(names: Sequence[str]) -> None:
    """SplitError for names that a task can't have: two alike, or none at all."""
    if len(names) < 2:
        raise SplitError(f"one class only ({plain(names[0], 60)!r}); there is nothing to classify")
    seen: dict[str, str] = {}
    for name in names:
        if not name or len(name) > MAX_TEXT or not name.isprintable():
            raise SplitError(
                f"a class is called {plain(name, 60)!r}; a name has 1 to {MAX_TEXT} characters, no control character"
            )
        form = unicodedata.normalize("NFC", name).casefold()
        if form in seen:
            raise SplitError(
                f"classes {plain(seen[form], 60)!r} and {plain(name, 60)!r} are one name but for case or the form of a "
                "letter; write one spelling"
            )
        seen[form] = name


def _whole(value: str) -> int | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 and "_" not in value else None


def _findings_in_columns(
    rows: pl.DataFrame, columns: Columns, reading: Reading
) -> tuple[pl.DataFrame, Kind, tuple[str, ...], list[str]]:
    """One column a finding: 1, 0, and empty (or -1, uncertain) for not labelled."""
    names = [f"label_{index}" for index in range(len(columns.labels))]
    notes = []
    for name, column in zip(names, columns.labels, strict=True):
        values = rows[name].drop_nulls().unique().to_list()
        known = {value: _whole(value) for value in values if value.casefold() not in NO_LABEL}
        wrong = [value for value, number in known.items() if number not in (0, 1, -1)]
        if wrong:
            raise SplitError(
                f"column {column!r} holds {plain(wrong[0], 60)!r}; with several --label columns each is a finding "
                "of 1, 0 or empty (for classes name one column, for findings in one column say --label-separator)"
            )
        uncertain = [value for value, number in known.items() if number == -1]
        count = int(rows[name].is_in(uncertain).sum()) if uncertain else 0
        if count:
            notes.append(f"{count} images are uncertain (-1) for {column}; they count as not labelled")
        places = {value: number for value, number in known.items() if number in (0, 1)}
        rows = rows.with_columns(pl.col(name).replace_strict(places, default=None, return_dtype=pl.Int8))
    without = rows.select(pl.all_horizontal(pl.col(names).is_null()))[names[0]]
    rows = unlabelled(rows, without, f"columns {', '.join(columns.labels[:3])} ...", reading.drop_unlabelled, notes)
    return rows, "multilabel", columns.labels, notes


def _findings_in_one(
    rows: pl.DataFrame, columns: Columns, reading: Reading
) -> tuple[pl.DataFrame, Kind, tuple[str, ...], list[str]]:
    """Findings of an image in one cell, parted by the separator; a value that names no finding means none."""
    notes: list[str] = []
    column, mark = columns.labels[0], columns.separator or "|"
    rows = _without_tokens(rows, reading)
    rows = unlabelled(rows, rows["label_0"].is_null(), f"column {column!r}", reading.drop_unlabelled, notes)
    cells = rows["label_0"].str.split(mark).list.eval(pl.element().str.strip_chars())
    values = cells.explode().drop_nulls().unique().sort().to_list()
    none = [value for value in values if value.casefold() in ("no finding", "no findings", "none", "normal", "")]
    classes = reading.classes or tuple(value for value in values if value not in none)
    wrong = [value for value in values if value not in classes and value not in none]
    if wrong:
        raise SplitError(
            f"column {column!r} holds {plain(wrong[0], 60)!r}, which is not among --classes {', '.join(classes)}"
        )
    if len(classes) < 2 or len(classes) > MAX_CLASSES:
        raise SplitError(f"column {column!r} holds {len(classes)} findings parted by {mark!r}; is that its separator?")
    frame = rows.drop("label_0").with_columns(
        *(cells.list.contains(value).cast(pl.Int8).alias(f"label_{index}") for index, value in enumerate(classes))
    )
    if none and not reading.classes:
        notes.append(f"{', '.join(repr(value) for value in none)} means that no finding is present")
    return frame, "multilabel", tuple(classes), notes
