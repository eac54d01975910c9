"""APTOS 2019: fundus photographs graded 0 to 4, without any word on patients."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from protocol.findings import plain
from splits.datasets.base import DataSet, Images
from splits.datasets.common import (
    DR_CLASSES,
    DR_PROMPTS,
    check_maps,
    grouped,
    in_order,
    labels_from,
    missing_labels,
    one_row_an_image,
    stem,
    the_files,
)
from splits.reading import need_columns, read_table

UNAVAILABLE = "APTOS published random image codes; neither patient nor eye can be told from them"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ``train.csv`` (id_code, diagnosis), or of several such files, each then a published split."""
    check_maps(maps, ("duplicates",))
    paths = the_files(files, ("train.csv",))
    parts = []
    for path in paths:
        table = read_table(path).frame
        need_columns(table, ("id_code", "diagnosis"), path)
        label = labels_from(table, "diagnosis", ("0", "1", "2", "3", "4"), path)
        parts.append(table.select(image="id_code", label=label, published=pl.lit(plain(path.name.split(".")[0]))))
    frame, notes = one_row_an_image(pl.concat(parts), paths[0])
    notes += missing_labels(frame["label"])
    if len(paths) == 1:
        frame = frame.drop("published")
    if "duplicates" in maps:
        frame, more = grouped(frame, maps["duplicates"], "duplicate groups")
        notes += more + _own_grades(frame, maps["duplicates"])
    else:
        notes += ("duplicates are not known: give the map duplicates, or let mvc split check compare the image files",)
    frame = frame.with_columns(patient=pl.lit(None, pl.String), site=pl.lit("aptos"))
    return Images(in_order(frame), notes, "image", UNAVAILABLE)


def _own_grades(frame: pl.DataFrame, path: Path) -> tuple[str, ...]:
    """A note where the list of duplicates has grades too, and they are not those of the label file."""
    table = read_table(path).frame
    if not {"path", "diagnosis"} <= set(table.columns):
        return ()
    both = table.select(key=stem("path"), own="diagnosis").join(
        frame.select(key=stem("image"), label="label"), on="key"
    )
    wrong = int((both["own"] != both["label"].cast(pl.String)).sum())
    said = f"{path.name} gives {wrong} of {both.height} images another diagnosis than the label file, which holds"
    return (said,) if wrong else ()


APTOS = DataSet(
    key="aptos-2019",
    title="APTOS 2019 Blindness Detection",
    modality="fundus photograph",
    licence="rules of the Kaggle competition; read them there",
    source="https://www.kaggle.com/competitions/aptos2019-blindness-detection",
    citation="no DOI; cite the competition: Asia Pacific Tele-Ophthalmology Society, Kaggle, 2019",
    files="train.csv (id_code, diagnosis); the test images have no public grades",
    kind="multiclass",
    classes=DR_CLASSES,
    prompt_classes=DR_PROMPTS,
    ordinal=True,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=("with the map duplicates, copies of one image stay together",),
    limits=(
        "no split by patient is possible: two eyes of one person can lie on both sides",
        "297 of the 3,662 training images form 143 groups of equal perceptual hash, and 37 of these groups carry "
        "different grades",
        "the column diagnosis of the list of these groups that is passed around (duplicated_info.csv) belongs to other "
        "images; the label file holds",
        "a grade of -100, as lists of pseudo-labels write it, means not graded",
    ),
    read=read,
    maps={
        "duplicates": "a table of equal pictures: columns hash (or group) and path (or image), "
        "or the names of each group in one row"
    },
)
