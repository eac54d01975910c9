"""RSNA Pneumonia Detection Challenge 2018: chest X-rays of NIH patients, whose ``patientId`` is an image."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from protocol.types import Unit
from splits.datasets.base import DataSet, Images
from splits.datasets.common import check_maps, labels_from, missing_labels, one_row_an_image, the_files
from splits.datasets.lists import some_rows
from splits.errors import SplitError
from splits.reading import need_columns, read_table

CLASS_FILE, BOX_FILE = "stage_2_detailed_class_info.csv", "stage_2_train_labels.csv"
CLASSES = ("Normal", "No Lung Opacity / Not Normal", "Lung Opacity")
OPACITY = 2
TWO = ("no lung opacity", "lung opacity")
MAP = (
    "pneumonia-challenge-dataset-mappings_2018.json of the RSNA, or a CSV of patientId and NIH image (NNNNNNNN_NNN.png)"
)
UNAVAILABLE = (
    "patientId is the id of an image, not of a patient; the patients are those of NIH ChestX-ray14: give the map nih"
)
IDS = ("patientId", "subset_img_id", "rsna_id", "rsna")
NIH_NAMES = ("img_id", "nih_image_id", "nih_image", "Image Index", "nih", "nih_name")
NIH_NAME = r"^(?:.*[/\\])?(\d{8})_\d{3}(?:\.\w+)?$"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """Three classes, from ``stage_2_detailed_class_info.csv``; ``stage_2_train_labels.csv`` beside it is compared."""
    return _read(files, maps, binary=False)


def read_binary(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """Lung opacity or not, from either file: what the column Target of ``stage_2_train_labels.csv`` says."""
    return _read(files, maps, binary=True)


def _read(files: Sequence[Path], maps: Mapping[str, Path], binary: bool) -> Images:
    check_maps(maps, ("nih",))
    classes, boxes, notes = _tables(the_files(files, (CLASS_FILE, BOX_FILE)))
    if classes is None and not binary:
        raise SplitError(
            f"{BOX_FILE} tells lung opacity or not, and not which of the others are normal: add {CLASS_FILE}, or take "
            "the "
            f"data set {RSNA_BINARY.key}"
        )
    if classes is not None and boxes is not None:
        _compare(classes, boxes)
    own = boxes if classes is None else classes
    assert own is not None
    if binary and classes is not None:
        own = own.with_columns((pl.col("label") == OPACITY).cast(pl.Int64))
    notes += missing_labels(own["label"])
    own = own.with_columns(pl.lit(None, pl.String).alias("patient"), pl.lit("nih").alias("site"))
    unit: Unit = "image"
    unavailable = UNAVAILABLE
    if "nih" in maps:
        own, more = add_nih_patients(own, nih_patients(maps["nih"]), maps["nih"])
        notes += more
        unit, unavailable = "patient", ""
    return Images(own.select("image", "patient", "site", "label"), notes, unit, unavailable)


def _tables(paths: Sequence[Path]) -> tuple[pl.DataFrame | None, pl.DataFrame | None, tuple[str, ...]]:
    """Image and label from the class file and from the file of boxes, whichever are given."""
    classes = boxes = None
    notes: tuple[str, ...] = ()
    for path in paths:
        frame = read_table(path).frame
        need_columns(frame, ("patientId",), path)
        some_rows(frame, path)
        by_class = "class" in frame.columns
        if not by_class:
            need_columns(frame, ("Target",), path)
        if (classes if by_class else boxes) is not None:
            raise SplitError(
                f"{path}: a second file with the column {'class' if by_class else 'Target'}; give one of each"
            )
        label = (
            labels_from(frame, "class", CLASSES, path) if by_class else labels_from(frame, "Target", ("0", "1"), path)
        )
        made, _ = one_row_an_image(frame.select(pl.col("patientId").alias("image"), label), path)
        repeated = int(frame["patientId"].value_counts().filter(pl.col("count") > 1).height)
        if repeated:
            notes += (
                f"{path.name}: {frame.height:,} rows are {made.height:,} images; {repeated:,} of them have more than "
                "one row, "
                "one a box, and were merged: splitting the rows puts the same image on both sides",
            )
        if by_class:
            classes = made
        else:
            boxes = made
    return classes, boxes, notes


def _compare(classes: pl.DataFrame, boxes: pl.DataFrame) -> None:
    alone = pl.concat([classes.join(boxes, on="image", how="anti"), boxes.join(classes, on="image", how="anti")])
    if alone.height:
        raise SplitError(
            f"{CLASS_FILE} and {BOX_FILE} don't belong together: {alone.height:,} images are in one of them only, such "
            "as "
            f"{alone['image'][0]!r}; take both from the same stage"
        )
    both = classes.join(boxes, on="image", suffix="_box")
    wrong = both.filter((pl.col("label") == OPACITY).cast(pl.Int64) != pl.col("label_box"))
    if wrong.height:
        raise SplitError(
            f"{CLASS_FILE} and {BOX_FILE} disagree on {wrong.height:,} images, such as {wrong['image'][0]!r}: Target "
            "is 1 "
            "where the class is Lung Opacity, and nowhere else"
        )


def nih_patients(path: Path) -> pl.DataFrame:
    """RSNA image ``image`` and NIH ``patient`` (8 digits) from a map; images without a match are left out.

    Raises :class:`SplitError` for a pickle, which is never opened, and for a map of another form.
    """
    frame = _map_table(path).drop_nulls()
    patient = pl.col("nih").str.extract(NIH_NAME)
    frame = frame.with_columns(patient.alias("patient"))
    wrong = frame.filter(pl.col("patient").is_null())
    if wrong.height:
        raise SplitError(
            f"{path}: {wrong['nih'][0]!r} is no image of NIH ChestX-ray14 ({wrong.height:,} such); wanted names such "
            "as "
            "NNNNNNNN_NNN.png"
        )
    frame = frame.select(pl.col("image").str.to_lowercase(), "patient").unique(maintain_order=True)
    twice = frame.filter(pl.col("image").is_duplicated())
    if twice.height:
        raise SplitError(f"{path}: image {twice['image'][0]!r} has more than one NIH patient")
    return frame


def _map_table(path: Path) -> pl.DataFrame:
    """Columns ``image`` (RSNA) and ``nih`` (name of the NIH image)."""
    try:
        with path.open("rb") as file:
            start = file.read(64)
    except OSError as error:
        raise SplitError(f"{path} can't be read ({error.strerror})") from None
    if start[:1] == b"\x80":
        raise SplitError(f"{path} is a pickle, which can run code and is not opened; wanted {MAP}")
    if start.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"[", b"{"):
        return _from_json(path)
    frame = read_table(path).frame
    own = {name.casefold(): name for name in frame.columns}
    image = next((own[name.casefold()] for name in IDS if name.casefold() in own), None)
    nih = next((own[name.casefold()] for name in NIH_NAMES if name.casefold() in own), None)
    if image is None or nih is None:
        raise SplitError(
            f"{path}: wanted a column of RSNA ids ({', '.join(IDS)}) and one of NIH images ({', '.join(NIH_NAMES)}); "
            "it has "
            f"{', '.join(map(repr, frame.columns[:20]))}"
        )
    return frame.select(pl.col(image).alias("image"), pl.col(nih).alias("nih"))


def _from_json(path: Path) -> pl.DataFrame:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8-sig"))
        pairs = [(entry["subset_img_id"], entry["img_id"]) for entry in content]
    except (ValueError, RecursionError) as error:
        raise SplitError(f"{path} can't be read as JSON ({str(error)[:200]})") from None
    except (TypeError, KeyError):
        pairs = []
    if not pairs or not all(isinstance(text, str) for pair in pairs for text in pair):
        raise SplitError(f"{path}: wanted a JSON list of entries with the texts subset_img_id and img_id ({MAP})")
    try:
        return pl.DataFrame(pairs, schema={"image": pl.String, "nih": pl.String}, orient="row")
    except UnicodeEncodeError:
        raise SplitError(f"{path}: an id holds half a character (a lone surrogate), which is no text") from None


def add_nih_patients(own: pl.DataFrame, known: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """``own`` with the NIH patient of each image in place of ``patient``, and notes with counts.

    An image is matched by its name without extension. Raises :class:`SplitError` where none is matched.
    """
    key = pl.col("image").str.to_lowercase().str.replace(r"\.[a-z]+$", "").alias("key")
    found = (
        own.drop("patient")
        .with_columns(key)
        .join(known, left_on="key", right_on="image", how="left", maintain_order="left")
    )
    matched = found["patient"].drop_nulls()
    if not len(matched):
        raise SplitError(f"{path}: the map has none of the {own.height:,} RSNA images; wanted {MAP}")
    most = int(matched.value_counts()["count"].to_numpy().max())
    notes: tuple[str, ...] = (
        f"{len(matched):,} RSNA images come from {matched.n_unique():,} NIH patients, up to {most} images a patient",
    )
    lost = own.height - len(matched)
    if lost:
        notes += (f"{lost:,} RSNA images have no NIH image in the map: their patient is not known",)
    return found.drop("key"), notes


RSNA = DataSet(
    key="rsna-2018",
    title="RSNA Pneumonia Detection Challenge 2018",
    modality="chest X-ray",
    licence="free use, commercial use included, with attribution under the terms of the RSNA (stated by the source; "
    "check it); the copy on Kaggle is under the rules of the competition",
    source="https://www.rsna.org/education/ai-resources-and-training/ai-image-challenge/"
    "rsna-pneumonia-detection-challenge-2018",
    citation="10.1148/ryai.2019180041",
    files=f"{CLASS_FILE} (patientId, class), with or without {BOX_FILE} (patientId, x, y, width, height, Target)",
    kind="multiclass",
    classes=CLASSES,
    prompt_classes=("normal", "no lung opacity, not normal", "lung opacity"),
    ordinal=False,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=(
        "one row an image, however many boxes it has",
        "with the map nih, images of one NIH patient stay together",
    ),
    limits=(
        "patientId is an image: 26,684 of them come from about 11,400 patients, one with 65; a random split by it "
        "leaves "
        "about 70 % of the test images with a patient who is also in training",
        "without the map nih no split is by patient",
        "site is nih: with NIH ChestX-ray14 it shares hospital and patients, so neither is external to the other",
    ),
    read=read,
    maps={"nih": MAP},
)

RSNA_BINARY = DataSet(
    key="rsna-2018-binary",
    title=f"{RSNA.title}, lung opacity or not",
    modality=RSNA.modality,
    licence=RSNA.licence,
    source=RSNA.source,
    citation=RSNA.citation,
    files=f"{BOX_FILE} (patientId, x, y, width, height, Target), or {CLASS_FILE}, or both",
    kind="binary",
    classes=TWO,
    prompt_classes=TWO,
    ordinal=False,
    unit=RSNA.unit,
    unavailable=UNAVAILABLE,
    guarantees=RSNA.guarantees,
    limits=RSNA.limits,
    read=read_binary,
    maps=RSNA.maps,
)
