"""EyePACS (Kaggle 2015): fundus photographs of both eyes, graded 0 to 4; the patient is in the name."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import (
    DR_CLASSES,
    DR_PROMPTS,
    check_maps,
    column_of,
    in_order,
    labels_from,
    missing_labels,
    one_row_an_image,
    stem,
    the_files,
)
from splits.errors import SplitError
from splits.reading import read_table

FILES = ("trainLabels.csv", "testLabels.csv", "retinopathy_solution.csv", "train_labels.csv", "test_labels.csv")
NAME = r"^(.+?)_(left|right)(.*)$"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of the train and the test list, or of one of them; copies of an eye are kept and grouped."""
    check_maps(maps, ())
    paths = the_files(files, FILES)
    frame, notes = one_row_an_image(pl.concat([_listed(path) for path in paths]), paths[0])
    names = stem("image").str.to_lowercase()
    frame = frame.with_columns(
        patient=names.str.extract(NAME, 1), eye=names.str.extract(NAME, 2), mark=names.str.extract(NAME, 3)
    )
    odd = frame.filter(pl.col("patient").is_null())
    if odd.height:
        raise SplitError(
            f"{paths[0]}: {odd['image'][0]!r} is no EyePACS name ({odd.height} such); wanted a patient's number with "
            "_left or _right, such as 10_left"
        )
    notes += missing_labels(frame["label"])
    copies = int((frame["mark"] != "").sum())
    if copies:
        frame = frame.with_columns(group=pl.concat_str("patient", "eye", separator="_"))
        notes += (
            f"{copies} of {frame.height} images are mirrored or turned copies of an eye: they share the patient and "
            "the group of that eye; a split by row would leak them",
        )
    if frame["published"].null_count() == frame.height:
        frame = frame.drop("published")
    return Images(in_order(frame.drop("mark").with_columns(site=pl.lit("eyepacs"))), notes, "patient", "")


def _listed(path: Path) -> pl.DataFrame:
    table = read_table(path).frame
    # trainLabels_master_256 names the eye in image and the copy in train_image_name.
    image = column_of(table, ("train_image_name", "image", "id_code"), path)
    level = column_of(table, ("level", "diagnosis"), path)
    usage = next((pl.col(name) for name in table.columns if name.casefold() == "usage"), None)
    which = re.match("train|test", path.name.casefold())
    return table.select(
        image=image,
        label=labels_from(table, level, ("0", "1", "2", "3", "4"), path),
        published=pl.lit(which[0] if which else None, pl.String) if usage is None else usage,
    )


EYEPACS = DataSet(
    key="eyepacs",
    title="EyePACS (Kaggle Diabetic Retinopathy Detection, 2015)",
    modality="fundus photograph",
    licence="rules of the Kaggle competition; read them there",
    source="https://www.kaggle.com/competitions/diabetic-retinopathy-detection",
    citation="10.1177/193229680900300315",
    files="trainLabels.csv (image, level), testLabels.csv or retinopathy_solution.csv (image, level, Usage)",
    kind="multiclass",
    classes=DR_CLASSES,
    prompt_classes=DR_PROMPTS,
    ordinal=True,
    unit="patient",
    unavailable="",
    guarantees=(
        "both eyes of a patient, and all mirrored or turned copies of an eye, share the patient",
        "no patient is in both the published train and test lists, nor in both Usage Public and Private",
    ),
    limits=(
        "one person who was photographed twice under two numbers can't be told",
        "sort patients as text or as numbers, but say which: 10 comes before 2 in one of them",
        "a part of the images can't be graded; graders disagree on how many",
    ),
    read=read,
)
