"""Messidor-2: 874 exams of two eyes, with the adjudicated grades that Google published."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from protocol.types import Unit
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
    read_groups,
    stem,
    the_files,
)
from splits.errors import SplitError
from splits.reading import read_table

UNAVAILABLE = (
    "the grades don't say which two images are one exam; ADCIS's messidor-2.csv does: give it as the map pairs"
)
_OLD_NAME = r"^(im\d{4})\.\d{3}$"  # the first release named images by exam: IMNNNN.000, IMNNNN.001


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ``messidor_data.csv``; exams from the map ``pairs`` or from names of the first release."""
    check_maps(maps, ("pairs",))
    path = the_files(files, ("messidor_data.csv",))[0]
    if len(files) > 1:
        raise SplitError(
            f"one list of grades is read, {len(files)} files are given; give the exam list as the map pairs"
        )
    table = read_table(path).frame
    if "examid" in (name.casefold() for name in table.columns):
        raise SplitError(
            f"{path} lists exams, not images; wanted messidor_data.csv (image_id, adjudicated_dr_grade ...)"
        )
    image = column_of(table, ("image_id", "id_code", "image", "ImageName"), path)
    grade = column_of(table, ("adjudicated_dr_grade", "diagnosis", "level"), path)
    edema = {"macular_edema": _yes_no("adjudicated_dme")} if "adjudicated_dme" in table.columns else {}
    label = labels_from(table, grade, ("0", "1", "2", "3", "4"), path)
    frame, notes = one_row_an_image(table.select(image=image, label=label, **edema), path)
    notes += missing_labels(frame["label"])
    key = stem("image").str.to_lowercase()
    brest = pl.col("image").str.starts_with("IM")
    frame = frame.with_columns(
        key=key,
        patient=key.str.extract(_OLD_NAME, 1),
        site=pl.when(brest).then(pl.lit("brest")).otherwise(pl.lit("messidor")),
    )
    unit: Unit = "exam"
    unavailable = ""
    if "pairs" in maps:
        frame = _paired(frame, maps["pairs"])
    elif frame["patient"].null_count():
        frame, unit, unavailable = frame.with_columns(patient=pl.lit(None, pl.String)), "image", UNAVAILABLE
    else:
        frame = frame.with_columns(site=pl.lit("messidor-2"))
    return Images(in_order(frame.drop("key")), notes, unit, unavailable)


def _yes_no(column: str) -> pl.Expr:
    return pl.col(column).str.replace(r"\.0$", "").replace({"0": "no", "1": "yes"})


def _paired(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    joined = frame.drop("patient").join(read_groups(path), on="key", how="left", maintain_order="left")
    alone = joined.filter(pl.col("group").is_null())
    if alone.height:
        raise SplitError(
            f"{path}: {alone.height} of {frame.height} images are in no exam, such as {alone['image'][0]!r}; wanted "
            "ADCIS's messidor-2.csv, two image names a row"
        )
    return joined.rename({"group": "patient"})


MESSIDOR2 = DataSet(
    key="messidor-2",
    title="Messidor-2, adjudicated grades",
    modality="fundus photograph",
    licence="images: terms of ADCIS, on request; grades: terms of the Kaggle page; check both",
    source="https://www.adcis.net/en/third-party/messidor2/ (images, exam list) and "
    "https://www.kaggle.com/datasets/google-brain/messidor2-dr-grades (grades)",
    citation="10.5566/ias.1155; 10.1016/j.ophtha.2018.01.034",
    files="messidor_data.csv (image_id, adjudicated_dr_grade, adjudicated_dme, adjudicated_gradable)",
    kind="multiclass",
    classes=DR_CLASSES,
    prompt_classes=DR_PROMPTS,
    ordinal=True,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=("with the map pairs, both eyes of an exam stay together",),
    limits=(
        "without the map pairs two eyes of one exam can lie on both sides",
        "it is no external test set for Messidor, nor the other way round: 1,052 of Messidor's 1,187 file names are in "
        "both",
        "four images can't be graded: their grade is empty, and is not grade 0",
        "names IM... (690) are the extension from Brest, the others (1,058) are Messidor's: the site tells much of the "
        "grade (grade 0: 80 % against 44 %)",
    ),
    read=read,
    maps={"pairs": "ADCIS's messidor-2.csv (left;right): the two image names of an exam in a row"},
)
