"""What several adapters share: finding the label file, one row an image, groups, labels and age bands from text."""

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.errors import SplitError
from splits.reading import need_columns, read_table

MISSING = ("-100", "-1", "?", "nan", "na", "n/a", "none", "null", "unknown")  # text that means: not labelled
AGE_BANDS = ("<20", "20-39", "40-59", "60-79", ">=80")
OLDEST = 120  # an age above it is an error of entry, not an age
# The international (ICDR) scale of diabetic retinopathy.
DR_CLASSES = ("no DR", "mild DR", "moderate DR", "severe DR", "proliferative DR")
DR_PROMPTS = tuple(f"{word} diabetic retinopathy" for word in ("no", "mild", "moderate", "severe", "proliferative"))

_GROUP_COLUMNS = ("group", "hash", "cluster", "examid", "exam", "lesion_id")
_IMAGE_COLUMNS = ("image", "image_id", "id_code", "path", "file", "filename", "image_name", "name")
_FILE_NAME = r"(?i)\.(png|jpe?g|tiff?|bmp)$"


@contextlib.contextmanager
def readable(path: Path | str = "a file") -> Iterator[None]:
    """SplitError that names the file or folder in place of an OSError; ``path`` where the error names none."""
    try:
        yield
    except OSError as error:
        raise SplitError(f"{error.filename or path} can't be read ({error.strerror or error})") from None


def the_files(files: Sequence[Path], names: Sequence[str]) -> list[Path]:
    """``files`` as given, or, where one folder is given, those of ``names`` that lie in it, in the order of ``names``.

    A name is found whatever its case and also with .gz behind it. Raises :class:`SplitError` where no file is given, or
    the folder has none of ``names`` or can't be read.
    """
    if not files:
        raise SplitError(f"no file is given; wanted {' or '.join(names)}, or the folder that holds it")
    with readable(files[0]):
        if not (len(files) == 1 and files[0].is_dir()):
            return list(files)
        there = {path.name.casefold(): path for path in sorted(files[0].iterdir()) if path.is_file()}
    found = [
        there[spelled] for name in names for spelled in (name.casefold(), f"{name.casefold()}.gz") if spelled in there
    ]
    if not found:
        near = difflib.get_close_matches(names[0].casefold(), list(there), n=1, cutoff=0.6)
        hint = f"; did you mean {there[near[0]].name!r}? Name it as the file" if near else ""
        raise SplitError(f"{files[0]}: the folder has no {' or '.join(names)}{hint}")
    return found


def whole(column: str) -> pl.Expr:
    """The text of ``column`` with '3.0' as '3': columns with an empty cell are often saved as floats."""
    return pl.col(column).str.replace(r"^(-?\d+)\.0+$", "$1")


def labels_from(frame: pl.DataFrame, column: str, classes: Sequence[str] | Mapping[str, int], path: Path) -> pl.Series:
    """The class index (Int64) of each row of the text column ``column``; null where it is empty or in ``MISSING``.

    ``classes`` are the values as the file writes them: in class order, or mapped to the index. Case doesn't matter, and
    '3.0' is '3'. Raises :class:`SplitError` for a value that is none of them, with the first such row.
    """
    index = classes if isinstance(classes, Mapping) else {name: place for place, name in enumerate(classes)}
    known = {name.casefold(): place for name, place in index.items()}
    text = frame.select(whole(column).str.to_lowercase())[column]
    missing = [token for token in MISSING if token not in known]
    text = text.set(text.is_in(missing).fill_null(False), None)
    label = text.replace_strict(list(known), list(known.values()), default=None, return_dtype=pl.Int64)
    wrong = label.is_null() & text.is_not_null()
    if wrong.any():
        row = int(wrong.arg_true()[0])
        values = text.filter(wrong).n_unique()
        more = f" ({int(wrong.sum())} rows, {values} such values)" if wrong.sum() > 1 else ""
        raise SplitError(
            f"{path}, row {row + 1}, column {column!r}: {frame[column][row]!r} is no label of this data set{more}; "
            f"wanted {', '.join(index)}, or an empty cell"
        )
    return label.alias("label")


def missing_labels(label: pl.Series) -> tuple[str, ...]:
    """A note on how many labels are null; none where all are there."""
    count = label.null_count()
    return (f"{count} of {len(label)} images have no label",) if count else ()


def one_row_an_image(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """``frame`` without rows that repeat another in every column, and a note that counts them.

    Raises :class:`SplitError` for an empty ``image``, and for an image whose rows differ.
    """
    if frame["image"].null_count():
        row = int(frame["image"].is_null().arg_true()[0])
        raise SplitError(f"{path}, row {row + 1}: the image has no name")
    once = frame.unique(maintain_order=True)
    twice = once.filter(pl.col("image").is_duplicated())
    if twice.height:
        name = twice["image"][0]
        own = twice.filter(pl.col("image") == name)
        differ = [c for c in own.columns if own[c].n_unique() > 1]
        raise SplitError(
            f"{path}: image {name!r} comes {own.height} times with different {' and '.join(differ)} "
            f"({twice['image'].n_unique()} such images); keep the row that holds"
        )
    gone = frame.height - once.height
    return once, (f"{gone} rows repeat another row and were left out",) if gone else ()


def age_group(column: str) -> pl.Expr:
    """The age in years in the text column ``column`` as one of ``AGE_BANDS``; null where it is no age in [0, 120]."""
    years = pl.col(column).cast(pl.Float64, strict=False)
    band = pl.lit(None, pl.String)
    for low, name in reversed(list(zip((0, 20, 40, 60, 80), AGE_BANDS, strict=True))):
        band = pl.when(years.is_between(low, low + 20, closed="left")).then(pl.lit(name)).otherwise(band)
    oldest = years.is_between(100, OLDEST)
    return pl.when(oldest).then(pl.lit(AGE_BANDS[-1])).otherwise(band).alias("age_group")


def in_order(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with the columns of :class:`Images` first, in their order, and the subgroups behind."""
    first = [name for name in ("image", "patient", "group", "site", "published") if name in frame.columns]
    labels = [name for name in frame.columns if name == "label" or name.startswith("label_")]
    return frame.select(*first, *labels, pl.exclude(*first, *labels))


def check_maps(maps: Mapping[str, Path], known: Sequence[str]) -> None:
    """SplitError where ``maps`` has a name that is none of ``known``."""
    for name in maps:
        if name not in known:
            raise SplitError(f"there is no map {name!r} for this data set; it takes {', '.join(known) or 'none'}")


def column_of(frame: pl.DataFrame, names: Sequence[str], path: Path) -> str:
    """The column of ``frame`` that is called as one of ``names``, whatever the case; SplitError where none is."""
    called = {column.casefold(): column for column in frame.columns}
    for name in names:
        if name.casefold() in called:
            return called[name.casefold()]
    need_columns(frame, names[:1], path)
    raise AssertionError("unreachable: need_columns refuses")


def stem(column: str) -> pl.Expr:
    """File names without folder (of either kind of slash) and extension of an image."""
    return pl.col(column).str.replace(r"^.*[/\\]", "").str.replace(_FILE_NAME, "")


def read_groups(path: Path) -> pl.DataFrame:
    """Which images belong together: columns ``key`` (file name without folder and extension, lower case), ``group``.

    ``path`` has either a column of groups (``group``, ``hash`` ...) and one of images, or the names of images that
    belong together in each row, with or without a header. Raises :class:`SplitError` for neither, and for an image in
    two groups.
    """
    frame = read_table(path).frame
    if any(re.search(_FILE_NAME, column) for column in frame.columns):
        frame = read_table(path, header=False).frame
    lower = {column.casefold(): column for column in frame.columns}
    group = next((lower[name] for name in _GROUP_COLUMNS if name in lower), None)
    image = next((lower[name] for name in _IMAGE_COLUMNS if name in lower), None)
    if group and image:
        named = frame.select(name=image, group=group)
    elif frame.width > 1:
        first = frame.columns[0]
        named = frame.with_columns(group=stem(first)).unpivot(index="group", value_name="name").drop("variable")
    else:
        raise SplitError(
            f"{path}: one column, {frame.columns[0]!r}, groups no images; wanted two image names a row, or the columns "
            f"group and image"
        )
    keyed = named.drop_nulls().select("group", key=stem("name").str.to_lowercase()).unique(maintain_order=True)
    twice = keyed.filter(pl.col("key").is_duplicated())
    if twice.height:
        name = twice["key"][0]
        raise SplitError(
            f"{path}: image {name!r} is in {twice.filter(pl.col('key') == name).height} groups; "
            "put all names that belong together into one row, or under one group"
        )
    return keyed


def grouped(frame: pl.DataFrame, path: Path, what: str) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """``frame`` with the column ``group`` from the map in ``path`` (null: in no group), and notes with counts.

    ``what`` names the groups in the notes ("duplicate groups"). Groups of one image are left out. Raises
    :class:`SplitError` where the map names no image of ``frame``.
    """
    groups = read_groups(path)
    joined = frame.with_columns(key=stem("image").str.to_lowercase()).join(
        groups, on="key", how="left", maintain_order="left"
    )
    known = joined["group"].drop_nulls()
    if not len(known):
        raise SplitError(f"{path} names no image of the label file, such as {frame['image'][0]!r}; wrong list?")
    joined = joined.with_columns(group=pl.when(pl.len().over("group") > 1).then("group")).drop("key")
    sizes = joined.drop_nulls("group").group_by("group").agg(labels=pl.col("label").drop_nulls().n_unique())
    images = joined.height - joined["group"].null_count()
    differ = int((sizes["labels"] > 1).sum())
    notes = [f"{differ} of {sizes.height} {what} ({images} images) carry different labels"]
    if groups.height > len(known):
        notes.append(f"{groups.height - len(known)} images of {path.name} are not in the label file")
    return joined, tuple(notes)
