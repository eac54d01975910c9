"""Lists of image files as people keep them, what a published split leaves on both sides, and sex from text."""

import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from splits.cells import image_name
from splits.errors import SplitError
from splits.reading import read_table

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".dcm")
PATH_COLUMNS = ("path", "image", "image_path", "filename", "file", "file_name", "image_name", "name")
LABEL_COLUMNS = ("label", "class", "target", "label_text", "class_name")
FIRST_BYTES = 1 << 16


@dataclass(frozen=True)
class Listed:
    """Image files by path, with '/' between folders; ``label`` is null where the list has none.

    ``frame`` has ``path``, ``label`` (text as written) and ``name``, the file name. ``origin`` is the (first) file or
    folder that they come from.
    """

    frame: pl.DataFrame
    origin: Path


def listed_images(files: Sequence[Path], skip: str = "") -> Listed:
    """The images of one or more folders, text lists of paths, or tables of path and label.

    Files whose stem ends in ``skip`` (masks) are left out. Raises :class:`SplitError` where there is no image, and for
    a table without a column of paths.
    """
    if not files:
        raise SplitError("no file is given; wanted a folder of images, a text list of paths, or a table of path, label")
    parts = [_walked(path) if path.is_dir() else _read(path) for path in files]
    path = image_name(pl.col("path")).str.strip_prefix("./")
    frame = pl.concat(parts).with_columns(path).with_columns(pl.col("path").str.split("/").list.last().alias("name"))
    if skip:
        frame = frame.filter(~pl.col("name").str.replace(r"\.[^.]*$", "").str.ends_with(skip))
    if frame.height == 0:
        raise SplitError(f"{files[0]}: there is no image; wanted files that end in {', '.join(IMAGE_ENDINGS)}")
    return Listed(frame, files[0])


def _walked(folder: Path) -> pl.DataFrame:
    """Images below ``folder`` in order, named from the folder's own name on: it often tells the split or the class."""

    def refused(error: OSError) -> None:
        raise SplitError(f"{error.filename}: the folder can't be read ({error.strerror})")

    def found() -> Iterator[str]:
        top = folder.resolve()
        for at, below, names in os.walk(top, onerror=refused):
            below[:] = sorted(name for name in below if not name.startswith("."))
            inside = Path(at).relative_to(top.parent).as_posix()
            for name in sorted(names):
                if name.lower().endswith(IMAGE_ENDINGS) and not name.startswith("."):
                    yield _text(f"{inside}/{name}")

    return pl.DataFrame({"path": list(found())}, schema={"path": pl.String}).with_columns(_no_label())


def _text(path: str) -> str:
    """``path``; SplitError where its bytes are no text, so that no table could name it."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise SplitError(f"{path}: the name of this file or folder is no UTF-8; rename it") from None
    return path


def _no_label() -> pl.Expr:
    return pl.lit(None, pl.String).alias("label")


def _read(path: Path) -> pl.DataFrame:
    first = _first_line(path)
    # file names may hold blanks: a list of them is never split at one
    separator = next((mark for mark in (",", "\t", ";") if mark in first), "\t")
    bare = any(ending in first.lower() for ending in IMAGE_ENDINGS)
    frame = read_table(path, header=not bare, separator=separator).frame
    paths = _path_column(frame, path) if not bare else _column_of_images(frame)
    labels = next((c for c in frame.columns if c.casefold() in LABEL_COLUMNS), None)
    if bare and len(frame.columns) == 2:
        labels = next(c for c in frame.columns if c != paths)
    if frame[paths].null_count():
        row = int(frame[paths].is_null().arg_true()[0])
        raise SplitError(f"{path}, row {row + 1}: the path of the image is empty")
    label = _no_label() if labels is None else pl.col(labels).alias("label")
    return frame.select(pl.col(paths).alias("path"), label)


def _first_line(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(FIRST_BYTES)
        if raw[:2] == b"\x1f\x8b":
            raw = zlib.decompressobj(31).decompress(raw)
    except (OSError, zlib.error):
        return ""  # read_table says what is wrong
    return raw.decode(errors="replace").lstrip("\ufeff\r\n").split("\n", 1)[0]


def _path_column(frame: pl.DataFrame, path: Path) -> str:
    own = {name.casefold(): name for name in reversed(frame.columns)}
    found = next((own[name] for name in PATH_COLUMNS if name in own), None)
    if found is None and len(frame.columns) == 1:
        found = frame.columns[0]
    if found is None:
        raise SplitError(
            f"{path}: no column holds the path of the image; it has {', '.join(map(repr, frame.columns[:20]))}, "
            f"wanted one called {', '.join(PATH_COLUMNS)}"
        )
    return found


def _column_of_images(frame: pl.DataFrame) -> str:
    ends = [c for c in frame.columns if (frame[c][0] or "").lower().endswith(IMAGE_ENDINGS)]
    return ends[0] if ends else frame.columns[0]


def crossing(frame: pl.DataFrame, column: str, what: str) -> tuple[str, ...]:
    """A note on how many values of ``column`` lie in more than one split of ``published``; none where none does.

    Notes are published, so they count patients and never name one.
    """
    own = frame.filter(pl.col(column).is_not_null() & pl.col("published").is_not_null())
    splits = own.group_by(column).agg(pl.col("published").unique().sort(), pl.len().alias("images"))
    both = splits.filter(pl.col("published").list.len() > 1)
    if both.height == 0:
        return ()
    names = sorted(set(both["published"].explode().to_list()))
    return (
        f"{what} that lie in more than one published split ({', '.join(names)}): {both.height:,} of {splits.height:,}, "
        f"with {int(both['images'].sum()):,} images; the published split leaks",
    )


def some_rows(frame: pl.DataFrame, path: Path) -> None:
    """SplitError where ``frame`` has no row."""
    if frame.height == 0:
        raise SplitError(f"{path} has a header and no row below it; take the file as published")


def sex(column: str) -> pl.Expr:
    """'female', 'male' or null from the text column ``column`` ('F', 'Male', ...)."""
    first = pl.col(column).str.to_lowercase()
    return (
        pl.when(first.is_in(["f", "female"]))
        .then(pl.lit("female"))
        .when(first.is_in(["m", "male"]))
        .then(pl.lit("male"))
        .alias("sex")
    )
