"""Camelyon17-WILDS: tumour or not in patches of lymph node slides from five hospitals."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import check_maps, labels_from, missing_labels, one_row_an_image, the_files
from splits.datasets.lists import crossing, some_rows
from splits.errors import SplitError
from splits.reading import need_columns, read_table

COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "slide", "center", "split")
VAL_CENTER, TEST_CENTER = "1", "2"  # the hospitals that the WILDS loader sets aside, whatever ``split`` says
CLASSES = ("normal", "tumor")


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The patches of ``metadata.csv``, named as WILDS names their files.

    ``published`` is the split as the WILDS loader makes it: hospital 1 is val, hospital 2 test, and of the others the
    column ``split`` says train (0) or id_val (1).
    """
    check_maps(maps, ())
    path = the_files(files, ("metadata.csv",))[0]
    frame = read_table(path).frame
    need_columns(frame, COLUMNS, path)
    some_rows(frame, path)
    for column in COLUMNS:
        if column != "tumor" and frame[column].null_count():
            row = int(frame[column].is_null().arg_true()[0])
            raise SplitError(f"{path}, row {row + 1}: {column} is empty; metadata.csv as published has no empty cell")
    unpadded = int((frame["patient"].str.len_chars() < 3).sum())
    label = labels_from(frame, "tumor", ("0", "1"), path)
    patient = pl.col("patient").str.zfill(3)
    frame = frame.with_columns(patient, label).with_columns(_image().alias("image"), _published(frame, path))
    own = frame.select(
        "image",
        "patient",
        ("center_" + pl.col("center")).alias("site"),
        "label",
        ("slide_" + pl.col("slide")).alias("group"),
        "published",
    )
    own, notes = one_row_an_image(own, path)
    if unpadded:
        notes += (f"{unpadded:,} patients had lost their leading zeros ('4' is '004') and got them back",)
    notes += missing_labels(own["label"])
    return Images(own, notes + crossing(own, "patient", "patients"), CAMELYON17.unit, "")


def _image() -> pl.Expr:
    slide = pl.format("patient_{}_node_{}", "patient", "node")
    return pl.format("patches/{}/patch_{}_x_{}_y_{}.png", slide, slide, "x_coord", "y_coord")


def _published(frame: pl.DataFrame, path: Path) -> pl.Expr:
    wrong = frame.filter(~pl.col("split").is_in(["0", "1", "2", "3"]))
    if wrong.height:
        raise SplitError(f"{path}: split {wrong['split'][0]!r} is none of 0 (train), 1 (id_val), 2 (test), 3 (val)")
    center = pl.col("center")
    names = pl.col("split").replace_strict({"0": "train", "1": "id_val", "2": "test", "3": "val"})
    return (
        pl.when(center == VAL_CENTER)
        .then(pl.lit("val"))
        .when(center == TEST_CENTER)
        .then(pl.lit("test"))
        .otherwise(names)
        .alias("published")
    )


CAMELYON17 = DataSet(
    key="camelyon17-wilds",
    title="Camelyon17-WILDS",
    modality="histopathology (H&E patches)",
    licence="CC0 1.0",
    source="https://wilds.stanford.edu/datasets/#camelyon17",
    citation="10.1109/TMI.2018.2867350; 10.48550/arXiv.2012.07421",
    files="metadata.csv",
    kind="binary",
    classes=CLASSES,
    prompt_classes=CLASSES,
    ordinal=False,
    unit="patient",
    unavailable="",
    guarantees=(
        "patient, slide and hospital of every patch are known",
        "image names are the file names of the release",
    ),
    limits=(
        "train and id_val are patches of the same slides: id_val is no held-out set of patients",
        "hospital and split are bound: val and test are one hospital each",
    ),
    read=read,
)
