"""PanNuke: benign or malignant patches of 19 tissues, derived from the nuclei that the masks hold."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits.datasets.base import DataSet, Images
from splits.datasets.common import check_maps
from splits.errors import SplitError

Numbers = NDArray[np.int64]

NEOPLASTIC = 0  # channels: neoplastic, inflammatory, connective, dead, epithelial, background
CHANNELS = 6
FEWEST, SHARE = 10, 0.3  # malignant: at least so many neoplastic nuclei, and more than this share of all
LARGEST = 1 << 20  # no mask of 256 x 256 pixels holds as many nuclei
UNAVAILABLE = "the release tells neither slide nor patient; images of one slide may lie in several folds"
CLASSES = ("benign", "malignant")


@dataclass(frozen=True)
class Fold:
    """The files of one fold; ``masks`` is None where they are not there."""

    name: str
    types: Path
    masks: Path | None


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of the folds below a folder, or of the ``types.npy`` (and ``masks.npy``) given.

    The release has no names: image 0 of fold 1 is ``fold1_000000``. The label follows the rule of the scripts that made
    a two-class task of PanNuke (PLIP, BAPLe): with the nuclei counted by channel as distinct numbers other than 0, the
    background channel included, an image is malignant with at least 10 neoplastic nuclei that are more than 30 % of
    all, benign with none, and not labelled in between or where it holds no nucleus.
    """
    check_maps(maps, ())
    folds = _folds(files)
    parts, notes = [], []
    for fold in folds:
        tissue = _tissues(fold.types)
        label, empty, between = _labels(fold, len(tissue))
        number = pl.int_range(len(tissue), eager=True).cast(pl.String).str.zfill(6)
        parts.append(
            pl.DataFrame({"image": fold.name + "_" + number, "label": label, "tissue": tissue}).with_columns(
                pl.lit(fold.name).alias("published")
            )
        )
        notes.append(
            f"{fold.name}: {len(tissue):,} images, "
            + (
                f"{empty:,} without a nucleus and {between:,} with too few neoplastic nuclei have no label"
                if fold.masks
                else "no masks.npy, so no label: benign and malignant are derived from the masks"
            )
        )
    frame = pl.concat(parts).with_columns(pl.lit(None, pl.String).alias("patient"), pl.lit("pannuke").alias("site"))
    own = frame.select("image", "patient", "site", "label", "published", "tissue")
    return Images(own, tuple(notes), PANNUKE.unit, UNAVAILABLE)


def _folds(files: Sequence[Path]) -> list[Fold]:
    found = list(_arrays(files))
    types = _by_fold([path for path in found if path.name.casefold() == "types.npy"])
    masks = _by_fold([path for path in found if path.name.casefold() == "masks.npy"])
    if not types:
        where = files[0] if files else "no file is given"
        raise SplitError(
            f"{where}: there is no types.npy; wanted the folder that holds Fold 1/images/fold1/types.npy and "
            "Fold 1/masks/fold1/masks.npy, or these files"
        )
    lost = sorted(masks.keys() - types.keys())
    if lost:
        raise SplitError(f"{masks[lost[0]]}: there is no types.npy of {lost[0]} beside it")
    return [Fold(name, types[name], masks.get(name)) for name in sorted(types)]


def _arrays(files: Sequence[Path]) -> Iterator[Path]:
    for path in files:
        if path.is_dir():
            yield from sorted(path.rglob("*.npy"))
        elif path.name.casefold() in ("types.npy", "masks.npy"):
            yield path
        else:
            raise SplitError(f"{path}: wanted types.npy and masks.npy of a fold, under a folder that names the fold")


def _by_fold(paths: Sequence[Path]) -> dict[str, Path]:
    by_fold: dict[str, Path] = {}
    for path in paths:
        numbers = re.findall(r"fold[ _-]?([1-9])", path.resolve().as_posix(), re.IGNORECASE)
        if not numbers:
            raise SplitError(f"{path}: the path doesn't tell the fold; wanted a folder such as 'Fold 1' or 'fold1'")
        name = f"fold{numbers[-1]}"
        if name in by_fold:
            raise SplitError(f"{by_fold[name]} and {path} are both {name}; give each fold once")
        by_fold[name] = path
    return by_fold


def _load(path: Path) -> NDArray[Any]:
    """The array in ``path`` without reading it whole; nothing in the file is run."""
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
        return array
    except FileNotFoundError:
        raise SplitError(f"{path}: no such file") from None
    except (OSError, ValueError, EOFError, OverflowError) as error:
        raise SplitError(f"{path} is no plain NumPy array ({error})") from None


def _tissues(path: Path) -> pl.Series:
    array = _load(path)
    if array.ndim != 1 or array.dtype.kind != "U" or array.dtype.itemsize == 0 or array.size == 0:
        raise SplitError(
            f"{path}: shape {array.shape} of {array.dtype}; wanted one text an image, the tissue it comes from"
        )
    letters = np.ascontiguousarray(array).view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
    try:
        if letters.max() > sys.maxunicode:  # NumPy would make text of it that no other library may read
            raise ValueError("a number that is no character")
        tissue = pl.Series("tissue", array.tolist(), pl.String).str.strip_chars()
    except ValueError as error:
        raise SplitError(f"{path} holds what is no text ({error})") from None
    return tissue.set(tissue == "", None)


def _labels(fold: Fold, images: int) -> tuple[pl.Series, int, int]:
    """The label of each image; how many hold no nucleus; how many are neither benign nor malignant."""
    if fold.masks is None:
        return pl.Series("label", [None] * images, pl.Int64), 0, 0
    counts = _nuclei(fold.masks, images)
    tumour, every = counts[:, NEOPLASTIC], counts.sum(axis=1)
    empty = counts[:, : CHANNELS - 1].sum(axis=1) == 0
    malignant = (tumour >= FEWEST) & (tumour > SHARE * every)
    benign = (tumour == 0) & ~empty
    label = pl.Series("label", malignant.astype(np.int64))
    neither = ~malignant & ~benign
    label = label.set(pl.Series(neither), None)
    return label, int(empty.sum()), int((neither & ~empty).sum())


def _nuclei(path: Path, images: int) -> Numbers:
    """(images, 6): how many distinct numbers other than 0 each channel of each mask holds."""
    masks = _load(path)
    if masks.ndim != 4 or masks.shape[0] != images or masks.shape[3] != CHANNELS or masks.dtype.kind not in "iuf":
        raise SplitError(
            f"{path}: shape {masks.shape} of {masks.dtype}; wanted numbers of shape ({images}, height, width, "
            f"{CHANNELS}), "
            "a mask for each image of types.npy"
        )
    counts = np.zeros((images, CHANNELS), dtype=np.int64)
    for index in range(images):  # the file takes gigabytes: one image is in memory at a time
        mask = np.asarray(masks[index]).reshape(-1, CHANNELS)
        largest = mask.max(initial=0)
        if not (mask.min(initial=0) >= 0 and largest < LARGEST):
            raise SplitError(f"{path}, image {index}: a value is no number of a nucleus; wanted 0 to {LARGEST - 1}")
        width = int(largest) + 1
        values = mask.astype(np.int64) + np.arange(CHANNELS) * width
        seen = np.bincount(values.ravel(), minlength=CHANNELS * width).reshape(CHANNELS, width)
        counts[index] = np.count_nonzero(seen[:, 1:], axis=1)
    return counts


PANNUKE = DataSet(
    key="pannuke",
    title="PanNuke",
    modality="histopathology (H&E patches)",
    licence="CC BY-NC-SA 4.0",
    source="https://warwick.ac.uk/fac/cross_fac/tia/data/pannuke",
    citation="10.1007/978-3-030-23937-4_2; 10.48550/arXiv.2003.10778",
    files="the folder of the folds (Fold 1/images/fold1/types.npy and Fold 1/masks/fold1/masks.npy, and so on)",
    kind="binary",
    classes=CLASSES,
    prompt_classes=CLASSES,
    ordinal=False,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=(
        "every image has its place in the release as name, its fold and its tissue",
        "the label follows a stated rule on counts of nuclei",
    ),
    limits=(
        "neither slide nor patient is published, so no split is by patient, the published folds included",
        "benign and malignant are derived, not annotated: images with 1 to 9 neoplastic nuclei, or 30 % and fewer, "
        "have "
        "no label",
        "the scripts that first used the rule keep mask numbers in 8 bits, which can merge nuclei above number 255",
        "pooling the folds and splitting by image, as these scripts do, mixes patches of one slide",
    ),
    read=read,
)
