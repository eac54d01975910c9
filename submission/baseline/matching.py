"""Which file holds which image: the names in a split file are keyed hashes, so files are hashed and compared."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits.checking.images import locate
from splits.errors import SplitError
from splits.hashing import digests, hash_column, hex_column, read_salt, salt_check
from splits.writing import IMAGES_FILE
from submission.baseline.errors import BaselineError

PARQUET_LIST = "images.parquet"  # what mvc split make writes in place of images.csv where there are many


@dataclass(frozen=True)
class Found:
    """``paths`` maps image ids onto files; ``several`` those that more than one file fits, which are in no ``paths``.

    ``names`` maps ids onto image names where the private list of the split is there. ``seen`` is the number of files
    that were looked at, ``salted`` whether their names could be hashed.
    """

    paths: Mapping[str, Path]
    several: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    seen: int = 0
    salted: bool = False


def images_namespace(namespace: str) -> str:
    """Where the names of images are hashed in, of a split made in ``namespace``."""
    return f"{namespace}/image"


def find_files(
    image_ids: pl.Series, folder: Path, *, salt: Path | None, namespace: str | None, check: str | None = None
) -> Found:
    """The file of each of ``image_ids`` below ``folder``.

    A file fits an id that is its name or stem; else one that is the hash, under the salt in the file ``salt`` and
    ``namespace``, of its path below ``folder``, the end of that path or its base name, each with or without the ending.
    The longest name that fits wins. Where the list of images lies beside the salt, files of what is left are looked for
    under the names there. ``check`` is what :func:`splits.hashing.salt_check` gave when the split was made.

    Raises BaselineError for a salt that can't be read or is another one.
    """
    files = list(_below(folder))
    wanted = set(image_ids.to_list())
    key = None if salt is None else _salt(salt, check)
    candidates: dict[str, list[Path]] = {}
    for file, _ in files:
        for name in (file.name, file.stem):
            if name in wanted:
                candidates.setdefault(name, []).append(file)
                break
    if key is not None and namespace is not None:
        for tails in _levels([place for _, place in files]):
            left = wanted.difference(candidates)
            if not left:
                break
            for image, rows in _hits(tails, key, namespace, left).items():
                candidates[image] = [files[row][0] for row in rows]
    names: dict[str, str] = {}
    if salt is not None and key is not None and namespace is not None:
        listed = _listed(salt.parent, key, namespace)
        names = {image: name for image, name in listed.items() if image in wanted}
    for image, paths in _by_name(names, wanted.difference(candidates), folder if files else None):
        candidates[image] = paths
    return Found(
        {image: paths[0] for image, paths in candidates.items() if len(paths) == 1},
        {image: tuple(paths) for image, paths in candidates.items() if len(paths) > 1},
        names,
        len(files),
        key is not None and namespace is not None,
    )


def _salt(path: Path, check: str | None) -> bytes:
    try:
        salt = read_salt(path)
    except FileNotFoundError:
        raise BaselineError(f"--salt-file {path}: no such file; mvc split make keeps it in private/salt") from None
    except OSError as error:
        raise BaselineError(f"--salt-file {path} can't be read ({error.strerror})") from None
    except ValueError as error:
        raise BaselineError(str(error)) from None
    if check is not None and salt_check(salt) != check:
        raise BaselineError(
            f"--salt-file {path} is another salt than that of the split (salt_check of split.json: {check}, of this "
            f"one: {salt_check(salt)}); give the salt of this split"
        )
    return salt


def _below(folder: Path) -> Iterator[tuple[Path, str]]:
    """Every file below ``folder`` whose name has a UTF-8 form, and its path from there with / between folders."""
    for root, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            file = Path(root, name)
            place = file.relative_to(folder).as_posix()
            try:
                place.encode()
            except UnicodeEncodeError:
                continue  # a name like that can't have been hashed
            yield file, place


def _levels(places: Sequence[str]) -> Iterator[pl.Series]:
    """The names that each file can have had, longest first: a column a level, null where a path is not so deep."""
    parts = [place.split("/") for place in places]
    for level in range(max(map(len, parts), default=0)):
        tails = ["/".join(part[level:]) if level < len(part) else None for part in parts]
        yield pl.Series(tails, dtype=pl.String)
        yield pl.Series([None if tail is None else _bare(tail) for tail in tails], dtype=pl.String)


def _bare(place: str) -> str | None:
    """``place`` without the ending of its file; None where there is none."""
    folder, slash, name = place.rpartition("/")
    stem = Path(name).stem
    return None if stem == name else f"{folder}{slash}{stem}"


def _hits(names: pl.Series, salt: bytes, namespace: str, wanted: set[str]) -> dict[str, list[int]]:
    """By image id of ``wanted`` the rows of ``names`` that hash to it."""
    rows: NDArray[np.int64] = np.flatnonzero(names.is_not_null().to_numpy())
    if not len(rows):
        return {}
    hashed = hex_column(digests(salt, namespace, names.drop_nulls()))
    found: dict[str, list[int]] = {}
    for row, image in zip(rows.tolist(), hashed.to_list(), strict=True):
        if image in wanted:
            found.setdefault(image, []).append(row)
    return found


def _listed(private: Path, salt: bytes, namespace: str) -> dict[str, str]:
    """Names by image id, from the private list that ``mvc split make`` wrote beside the salt, if there is one."""
    try:
        if (private / IMAGES_FILE).is_file():
            names = pl.read_csv(private / IMAGES_FILE, glob=False, columns=["image"], infer_schema_length=0)["image"]
        elif (private / PARQUET_LIST).is_file():
            names = pl.read_parquet(private / PARQUET_LIST, columns=["image"], glob=False)["image"]
        else:
            return {}
    except (OSError, pl.exceptions.PolarsError):
        return {}  # only a help: what is not found without it is said
    names = names.cast(pl.String).drop_nulls().unique()
    return dict(zip(hash_column(salt, namespace, names).to_list(), names.to_list(), strict=True))


def _by_name(names: Mapping[str, str], left: set[str], folder: Path | None) -> Iterator[tuple[str, list[Path]]]:
    """The files of the images ``left`` whose names are known: by the end of the name's path, base name or stem."""
    known = sorted(left.intersection(names))
    if not known or folder is None:
        return
    try:
        located = locate([names[image] for image in known], folder)
    except SplitError:
        return
    for image, path in zip(known, located.paths, strict=True):
        if path:
            yield image, [Path(path)]
