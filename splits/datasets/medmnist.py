"""The twelve flat sets of MedMNIST: small images, labels and a published split in one .npz, no identifiers."""

import math
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.lib import format as npy
from numpy.typing import NDArray

from protocol.types import Kind
from splits.datasets.base import DataSet, Images
from splits.datasets.common import DR_CLASSES, DR_PROMPTS, check_maps, in_order, the_files
from splits.errors import SplitError

LARGEST = 1 << 26  # bytes of labels; the largest set has 14 bytes for each of 112,120 images
UNAVAILABLE = "MedMNIST carries no identifiers: neither patient, slide, scan nor lesion can be told"


@dataclass(frozen=True)
class Member:
    """A set of MedMNIST: what it is made of, what its published split leaks, and the sizes of that split."""

    name: str
    modality: str
    made_of: str
    split: str
    sizes: tuple[int, int, int]
    classes: tuple[str, ...]
    prompts: tuple[str, ...] = ()
    kind: Kind = "multiclass"
    ordinal: bool = False
    licence: str = "CC BY 4.0"


_ORGANS = (
    "bladder", "left femur", "right femur", "heart", "left kidney", "right kidney", "liver", "left lung", "right lung",
    "pancreas", "spleen",
)  # fmt: skip
_SCANS = "the split is by CT scan: the three sets of organs cut the same scans in three planes and share them"
_RANDOM = "train, val and test are drawn by image: what a patient or donor gave lies on all sides"
_NINTH = "train and val are drawn by image from the source's training set; test is the source's validation set"

MEMBERS = (
    Member(
        "PathMNIST",
        "histology (H&E)",
        "NCT-CRC-HE-100K (train and val) and CRC-VAL-HE-7K (test): no external set for Kather's",
        "train and val share patients; test comes from another centre by the source's word",
        (89_996, 10_004, 7_180),
        (
            "adipose", "background", "debris", "lymphocytes", "mucus", "smooth muscle", "normal colon mucosa",
            "cancer-associated stroma", "colorectal adenocarcinoma epithelium",
        ),
    ),
    Member(
        "ChestMNIST",
        "chest X-ray",
        "NIH ChestX-ray14: no external set for it, for RSNA 2018 or for COVIDx",
        "it is called official, but its test has the 22,433 images of the CheXNet lists, not the 25,596 of NIH's list",
        (78_468, 11_219, 22_433),
        (
            "atelectasis", "cardiomegaly", "effusion", "infiltration", "mass", "nodule", "pneumonia", "pneumothorax",
            "consolidation", "edema", "emphysema", "fibrosis", "pleural thickening", "hernia",
        ),
        kind="multilabel",
    ),
    Member(
        "DermaMNIST",
        "dermatoscopy",
        "HAM10000: no external set for it or for ISIC 2018 and 2019",
        "drawn by image: pictures of one lesion lie in train, val and test (doi:10.1038/s41597-025-04382-5)",
        (7_007, 1_003, 2_005),
        (
            "actinic keratosis or intraepithelial carcinoma", "basal cell carcinoma", "benign keratosis-like lesion",
            "dermatofibroma", "melanoma", "melanocytic nevus", "vascular lesion",
        ),
        licence="CC BY-NC 4.0",
    ),
    Member(
        "OCTMNIST",
        "retinal OCT",
        "109,309 OCT images of Kermany et al. 2018 (doi:10.1016/j.cell.2018.02.010)",
        _NINTH,
        (97_477, 10_832, 1_000),
        ("choroidal neovascularization", "diabetic macular edema", "drusen", "normal"),
    ),
    Member(
        "PneumoniaMNIST",
        "chest X-ray of children",
        "5,856 chest X-rays of Kermany et al. 2018 (doi:10.1016/j.cell.2018.02.010)",
        _NINTH,
        (4_708, 524, 624),
        ("normal", "pneumonia"),
        kind="binary",
    ),
    Member(
        "RetinaMNIST",
        "fundus photograph",
        "1,600 images of DeepDRiD, several an eye",
        _NINTH,
        (1_080, 120, 400),
        DR_CLASSES,
        DR_PROMPTS,
        ordinal=True,
    ),
    Member(
        "BreastMNIST",
        "breast ultrasound",
        "780 images of BUSI; malignant is class 0 there, normal and benign together are class 1",
        _RANDOM,
        (546, 78, 156),
        ("malignant", "normal or benign"),
        kind="binary",
    ),
    Member(
        "BloodMNIST",
        "blood smear",
        "17,092 single cells of healthy donors (doi:10.1016/j.dib.2020.105474)",
        _RANDOM,
        (11_959, 1_712, 3_421),
        (
            "basophil", "eosinophil", "erythroblast", "immature granulocyte", "lymphocyte", "monocyte", "neutrophil",
            "platelet",
        ),
    ),
    Member(
        "TissueMNIST",
        "fluorescence microscopy of kidney cortex",
        "236,386 cells of three tissue specimens (BBBC051)",
        "train, val and test are drawn by cell: all three specimens lie on all sides",
        (165_466, 23_640, 47_280),
        (
            "collecting duct or connecting tubule", "distal convoluted tubule", "glomerular endothelial cells",
            "interstitial endothelial cells", "leukocytes", "podocytes", "proximal tubule segments",
            "thick ascending limb",
        ),
    ),
    *(
        Member(f"Organ{plane[0].upper()}MNIST", "abdominal CT", f"{plane} slices of LiTS scans", _SCANS, sizes, _ORGANS)
        for plane, sizes in (
            ("axial", (34_561, 6_491, 17_778)),
            ("coronal", (12_975, 2_392, 8_216)),
            ("sagittal", (13_932, 2_452, 8_827)),
        )
    ),
)  # fmt: skip


def read(member: Member, files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The labels of an .npz as released, of any size (28, 64, 128, 224); the images themselves are not read."""
    check_maps(maps, ())
    key = member.name.casefold()
    path = the_files(files, [f"{key}{size}.npz" for size in ("", "_64", "_128", "_224")])[0]
    other = next((m.name for m in MEMBERS if path.name.casefold().startswith(m.name.casefold())), member.name)
    if other != member.name:
        raise SplitError(f"{path} is {other} by its name; wanted {key}.npz")
    parts = []
    for split in ("train", "val", "test"):
        labels, images = _labels(path, split)
        width = len(member.classes) if member.kind == "multilabel" else 1
        if labels.shape != (images, width):
            raise SplitError(
                f"{path}: {split}_labels has the shape {labels.shape}, {split}_images has {images} images; "
                f"{member.name} wants ({images}, {width})"
            )
        top = 1 if member.kind == "multilabel" else len(member.classes) - 1
        if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) <= top:
            raise SplitError(f"{path}: {split}_labels holds values outside 0 to {top}; it is no {member.name}")
        names = [f"{split}_{row}" for row in range(images)]
        values = (
            {f"label_{k}": labels[:, k] for k in range(width)}
            if member.kind == "multilabel"
            else {"label": labels[:, 0]}
        )
        parts.append(
            pl.DataFrame(
                {
                    "image": names,
                    **{name: pl.Series(v, dtype=pl.Int64) for name, v in values.items()},
                    "published": [split] * images,
                }
            )
        )
    frame = pl.concat(parts).with_columns(patient=pl.lit(None, pl.String), site=pl.lit(key))
    notes = ["images are named by their split and place in the file (train_0 ...): the release has no names"]
    sizes = tuple(len(part) for part in parts)
    if sizes != member.sizes:
        notes.append(
            f"train, val and test have {_listed(sizes)} images, in the release {_listed(member.sizes)}: altered"
        )
    return Images(in_order(frame), tuple(notes), "image", UNAVAILABLE)


def _listed(sizes: Sequence[int]) -> str:
    return ", ".join(f"{size:,}" for size in sizes)


def _labels(path: Path, split: str) -> tuple[NDArray[np.int64], int]:
    """Labels (images, values) of a split, and the number of its images as the header of their array says."""
    wanted = f"wanted a MedMNIST .npz with {split}_images and {split}_labels"
    try:
        with zipfile.ZipFile(path) as packed:
            shape, dtype, raw = _array(packed, f"{split}_labels.npy", content=True)
            images, _, _ = _array(packed, f"{split}_images.npy", content=False)
    except FileNotFoundError:
        raise SplitError(f"{path}: no such file") from None
    except KeyError:
        raise SplitError(f"{path}: an array is missing; {wanted}") from None
    except (zipfile.BadZipFile, zlib.error, ValueError, OSError, EOFError, RuntimeError) as error:
        raise SplitError(f"{path} can't be read ({str(error)[:200]}); {wanted}") from None
    if dtype.kind not in "iu" or len(shape) != 2 or not images or len(raw) != dtype.itemsize * math.prod(shape):
        raise SplitError(f"{path}: {split}_labels is no table of whole numbers; {wanted}")
    return np.frombuffer(raw, dtype).reshape(shape).astype(np.int64), images[0]


def _array(packed: zipfile.ZipFile, name: str, content: bool) -> tuple[tuple[int, ...], np.dtype[Any], bytes]:
    """Shape, type and bytes of an array in row order; the header promises nothing, so the bytes are counted."""
    with packed.open(name) as member:
        version = npy.read_magic(member)
        reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        with warnings.catch_warnings(action="ignore"):  # a header of Python 2 is read all the same
            try:
                shape, columns_first, dtype = reader(member)
            except tokenize.TokenError as error:
                raise ValueError(f"the header of {name} is damaged: {error}") from None
        if columns_first and content:
            raise ValueError(f"{name} is stored by columns")
        raw = member.read(LARGEST + 1) if content else b""
        if len(raw) > LARGEST:
            raise ValueError(f"{name} has more than {LARGEST:,} bytes")
        return shape, dtype, raw


def _data_set(member: Member) -> DataSet:
    key = member.name.casefold()
    return DataSet(
        key=key,
        title=f"{member.name} (MedMNIST v2)",
        modality=member.modality,
        licence=member.licence,
        source="https://doi.org/10.5281/zenodo.10519652",
        citation="10.1038/s41597-022-01721-8",
        files=f"{key}.npz, or {key}_64.npz, {key}_128.npz, {key}_224.npz",
        kind=member.kind,
        classes=member.classes,
        prompt_classes=member.prompts or member.classes,
        ordinal=member.ordinal,
        unit="image",
        unavailable=UNAVAILABLE,
        guarantees=("labels and published split are read as released; the images are not needed",),
        limits=(f"made of {member.made_of}", member.split, "no split by patient can be made or checked"),
        read=partial(read, member),
    )


MEDMNIST = tuple(_data_set(member) for member in MEMBERS)
