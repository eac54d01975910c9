"""Read a file of any form that lists images: tables, path lists without a header, side-by-side splits, JSON."""

import contextlib
import csv
import gzip
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from splits.checking import words
from splits.checking.ids import HAS_SUFFIX, SUFFIX
from splits.errors import SplitError
from splits.files import no_pipe
from splits.reading import read_lines, read_table

LOOKED_AT = 1 << 16
TEXT_LISTS = {".txt", ".lst", ".list", ".csv", ".tsv", ".data", ""}
NUMBER = re.compile(r"[-+]?\d+(?:\.\d*)?")
TRUE, FALSE = ("true", "1", "1.0", "yes", "t"), ("false", "0", "0.0", "no", "f")


@dataclass(frozen=True)
class Listing:
    """The rows of one file as text. ``name`` is the name the user gave (or ''), ``form`` how it was read.

    ``split`` and ``run`` name columns of ``frame`` that the form itself gives, or are ''. ``bare`` marks a file without
    header, whose columns have no names of their own.
    """

    path: Path
    frame: pl.DataFrame
    form: str
    name: str = ""
    split: str = ""
    run: str = ""
    bare: bool = False
    notes: tuple[str, ...] = field(default=())


def load(path: Path, *, name: str = "", encoding: str = "utf-8") -> Listing:
    """The listing in ``path``. Raises SplitError for what can't be read as one."""
    with contextlib.suppress(OSError):  # what isn't there is said by the readers
        no_pipe(path)
    suffixes = [suffix.lower() for suffix in path.suffixes if suffix.lower() != ".gz"]
    last = suffixes[-1] if suffixes else ""
    if last in (".json", ".jsonl", ".ndjson"):
        from splits.checking.json_lists import read_json

        frame, split, run, notes = read_json(path, encoding)
        return Listing(path, frame, "JSON", name, split, run, notes=notes)
    rows = _first_lines(path, encoding) if last in TEXT_LISTS else []
    if rows and not _has_header(rows):
        listing = _without_header(path, rows, name, encoding)
    else:
        table = read_table(path, encoding=encoding)
        listing = Listing(path, table.frame, "table", name, notes=table.notes)
    if listing.frame.height == 0:
        raise SplitError(f"{path} has a header and no rows")
    return _side_by_side(listing)


def _first_lines(path: Path, encoding: str) -> list[str]:
    try:
        with path.open("rb") as file:
            start = file.read(2)
            file.seek(0)
            source = gzip.GzipFile(fileobj=file) if start == b"\x1f\x8b" else file
            raw = source.read(LOOKED_AT)
    except (OSError, EOFError):
        return []  # read_table says what is wrong
    if raw[:4] in (b"PAR1", b"PK\x03\x04", b"\xd0\xcf\x11\xe0") or b"\x00" in raw:
        return []
    try:
        lines = [
            line for line in raw.decode(encoding, errors="ignore").removeprefix("\ufeff").splitlines() if line.strip()
        ]
    except LookupError:
        return []
    return lines[:200] if len(raw) < LOOKED_AT else lines[:-1][:200]


def _cells(line: str) -> list[str]:
    for mark in (",", "\t", ";", "|"):
        if mark in line:
            return [cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=mark), [])]
    return [line.strip()]


def _has_header(lines: Sequence[str]) -> bool:
    """Whether the first line names columns: it holds no image name, no bare number, and is no name like the second."""
    cells = _cells(lines[0])
    if len(cells) == 1:
        if words.key(cells[0]) in (*words.IMAGE, *words.WEAK_IMAGE, *words.PATIENT, *words.GROUP):
            return True
        cells = lines[0].split()
    if any(SUFFIX.search(cell) or NUMBER.fullmatch(cell) for cell in cells):
        return False
    if len(lines) > 1 and len(_cells(lines[0])) == 1:
        first, second = (re.sub(r"\d", "0", line.strip()) for line in lines[:2])
        return not (first == second and "0" in first) and not ("/" in first and "/" in second)
    return True


def _without_header(path: Path, lines: Sequence[str], name: str, encoding: str) -> Listing:
    if any(mark in line for line in lines[:5] for mark in ",\t;|"):
        table = read_table(path, encoding=encoding, header=False)
        return Listing(path, table.frame, "table without header", name, bare=True, notes=table.notes)
    text = pl.Series("line", read_lines(path, encoding)).str.strip_chars()
    frame, form = _by_blanks(text)
    if frame is None:
        table = read_table(path, encoding=encoding, header=False, separator=" ")
        return Listing(path, table.frame, "table without header, by blanks", name, bare=True, notes=table.notes)
    return Listing(path, frame, form, name, bare=True)


def _by_blanks(text: pl.Series) -> tuple[pl.DataFrame | None, str]:
    """Lines of names with blanks inside: 'path', 'path label' or 'patient path label [source]'."""
    suffix = HAS_SUFFIX.removeprefix("(?i)").removesuffix("$")
    lines = pl.DataFrame({"line": text})
    of_patient = rf"^(?P<patient>[^\s/\\]+)\s+(?P<image>.*{suffix})\s+(?P<label>\S+)(?:\s+(?P<site>\S+))?$"
    shapes = (
        ("path list", rf"(?i)^(?P<image>.*{suffix})$", 1.0),
        ("patient, path, label by blanks", f"(?i){of_patient}", 0.98),
        ("path, label by blanks", rf"(?i)^(?P<image>.*{suffix})(?:\s+(?P<label>\S+))?(?:\s+(?P<more>.*))?$", 1.0),
    )
    for form, shape, share in shapes:
        parts = lines.select(pl.col("line").str.extract_groups(shape)).unnest("line")
        found = parts["image"].is_not_null()
        if found.sum() >= share * len(text) and not (form.startswith("patient") and _patients_are_paths(parts)):
            missed = len(text) - int(found.sum())
            parts = parts.with_columns(image=pl.coalesce("image", text)) if missed else parts
            kept = [column for column in parts.columns if parts[column].null_count() < parts.height]
            return parts.select(kept), form
    if text.str.contains(r"\s").any():
        return None, ""
    return lines.rename({"line": "image"}), "path list"


def _patients_are_paths(parts: pl.DataFrame) -> bool:
    return bool(parts["patient"].drop_nulls().str.contains(HAS_SUFFIX).any())


def _side_by_side(listing: Listing) -> Listing:
    """Columns train, val, test beside each other (names, or yes and no) become one column ``split``."""
    frame = listing.frame
    sides = [column for column in frame.columns if words.key(column) in words.KINDS]
    if len(sides) < 2 or any(words.key(column) in words.SPLIT for column in frame.columns):
        return listing
    values = {v.casefold() for column in sides for v in frame[column].drop_nulls().unique().head(50).to_list()}
    others = [column for column in frame.columns if column not in sides]
    if values <= {*TRUE, *FALSE}:
        long = frame.unpivot(sides, index=others, variable_name="split", value_name="is_in")
        long = long.filter(pl.col("is_in").str.to_lowercase().is_in(list(TRUE))).drop("is_in")
        if others and others[0].startswith("unnamed") and "image" not in others:
            long = long.rename({others[0]: "image"})
        return replace(listing, frame=long, form="splits side by side, yes and no", split="split")
    if values and all(NUMBER.fullmatch(value) for value in values) and frame.height <= 50:
        raise SplitError(
            f"{listing.path} holds counts by split ({', '.join(sides)}) and no names of images; leave it out"
        )
    long = frame.select(sides).unpivot(sides, variable_name="split", value_name="image").drop_nulls("image")
    return replace(listing, frame=long.select("image", "split"), form="splits side by side", split="split")
