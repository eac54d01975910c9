"""Kather: NCT-CRC-HE-100K and CRC-VAL-HE-7K, nine tissue classes in patches of colorectal slides."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import check_maps
from splits.datasets.lists import Listed, listed_images
from splits.errors import SplitError

CLASSES = ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")
PROMPTS = (
    "adipose tissue",
    "background",
    "debris",
    "lymphocytes",
    "mucus",
    "smooth muscle",
    "normal colon mucosa",
    "cancer-associated stroma",
    "colorectal adenocarcinoma epithelium",
)
INDEX = {name: index for index, name in enumerate(CLASSES)}
NAMES = INDEX | {name.upper(): index for index, name in enumerate(PROMPTS)}
UNAVAILABLE = "86 patients (100K) and 50 patients (7K) by the source, but no list says which patch is whose"
TWIN = "NCT-CRC-HE-100K-NONORM"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The patches of a folder of class folders, a text list of paths, or a table of path (and label).

    The class is the name of the folder and the letters before the first '-' of the file name; where both tell a class,
    and a label is given, all must agree. A file name that comes twice is refused, and so is the copy without colour
    normalisation where its file names are equal.
    """
    check_maps(maps, ())
    listed = listed_images(files)
    frame = listed.frame.with_columns(
        _class(pl.col("path").str.split("/").list.get(-2, null_on_oob=True)).alias("by_folder"),
        _class(pl.col("name").str.extract(r"^([A-Za-z]+)-")).alias("by_name"),
        _class(pl.col("label"), NAMES).alias("by_label"),
        _published().alias("published"),
    )
    _refuse_twins(listed, frame)
    _refuse_unknown(listed, frame)
    label = pl.coalesce("by_folder", "by_name", "by_label").cast(pl.Int64).alias("label")
    image, patient = pl.col("name").alias("image"), pl.lit(None, pl.String).alias("patient")
    own = frame.select(image, patient, pl.lit("kather").alias("site"), label, "published")
    return Images(own, _notes(frame), KATHER.unit, UNAVAILABLE)


def _class(text: pl.Expr, known: Mapping[str, int] = INDEX) -> pl.Expr:
    return text.str.to_uppercase().replace_strict(dict(known), default=None, return_dtype=pl.Int64)


def _published() -> pl.Expr:
    upper = pl.col("path").str.to_uppercase()
    return (
        pl.when(upper.str.contains("CRC-VAL-HE-7K", literal=True))
        .then(pl.lit("test"))
        .when(upper.str.contains("NCT-CRC-HE-100K", literal=True))
        .then(pl.lit("train"))
    )


def _refuse_twins(listed: Listed, frame: pl.DataFrame) -> None:
    twice = frame.filter(pl.col("name").is_duplicated())
    if twice.height == 0:
        return
    first = twice.filter(pl.col("name") == twice["name"][0])["path"].to_list()
    why = ""
    if any(TWIN in path.upper() for path in first):
        why = f"; {TWIN} holds the same patches without colour normalisation: give one of the two"
    raise SplitError(
        f"{listed.origin}: {twice['name'].n_unique():,} file names come more than once, such as {first[0]!r} and "
        f"{first[1]!r}{why or '; each patch must be listed once'}"
    )


def _refuse_unknown(listed: Listed, frame: pl.DataFrame) -> None:
    told = pl.concat_list("by_folder", "by_name", "by_label").list.drop_nulls().list.n_unique()
    written = pl.col("label").is_not_null() & pl.col("by_label").is_null()
    for bad, what in (
        (told > 1, "folder, file name and label name different classes"),
        (told == 0, "neither the folder nor the file name tells the class"),
        (written, "the label is no class of this data set"),
    ):
        rows = frame.filter(bad)
        if rows.height:
            shown = rows["path"][0] + (f" with label {rows['label'][0]!r}" if rows["label"][0] is not None else "")
            raise SplitError(
                f"{listed.origin}: {shown}: {what} ({rows.height:,} such rows); wanted a folder and a name that begin "
                f"with one of {', '.join(CLASSES)}, as in ADI/ADI-XXXXXXXX.tif"
            )


def _notes(frame: pl.DataFrame) -> tuple[str, ...]:
    counts = frame["published"].value_counts().sort("published")
    told = {split: int(count) for split, count in counts.iter_rows() if split is not None}
    notes = []
    if told:
        parts = ", ".join(f"{split} {count:,}" for split, count in told.items())
        notes.append(f"published split by the folder: {parts} (NCT-CRC-HE-100K trains, CRC-VAL-HE-7K tests)")
    if told.get("train", 0):
        notes.append(
            "a split of the 100,000 training patches can't be made by patient: patches of one patient cross it"
        )
    barcode = int(frame["name"].str.contains("-TCGA-", literal=True).sum())
    if barcode:
        notes.append(
            f"{barcode:,} names hold 'TCGA'; what follows is no TCGA barcode and tells neither patient nor site"
        )
    return tuple(notes)


KATHER = DataSet(
    key="kather",
    title="Kather colorectal tissue (NCT-CRC-HE-100K, CRC-VAL-HE-7K)",
    modality="histopathology (H&E patches)",
    licence="CC BY 4.0",
    source="https://zenodo.org/records/1214456",
    citation="10.5281/zenodo.1214456; 10.1371/journal.pmed.1002730",
    files="the folder of class folders (NCT-CRC-HE-100K/ADI/*.tif, CRC-VAL-HE-7K/ADI/*.tif), a text list of their "
    "paths, or a CSV of path(,label)",
    kind="multiclass",
    classes=CLASSES,
    prompt_classes=PROMPTS,
    ordinal=False,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=(
        "folder, file name and label agree on the class of every patch",
        "no file name comes twice: the copy without colour normalisation is refused where file names are equal",
    ),
    limits=(
        "patients are not published: only the split into 100K and 7K is by patient, by the source's word",
        "intervals can't be resampled by patient, so they are too narrow",
        "JPEG and colour artefacts may tell the class",
    ),
    read=read,
)
