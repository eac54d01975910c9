"""CheXpert: 14 observations on chest X-rays, with labels for 'uncertain' and 'not mentioned'."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import age_group, check_maps, one_row_an_image, the_files
from splits.datasets.lists import crossing, sex, some_rows
from splits.errors import SplitError
from splits.reading import need_columns, read_table

CLASSES = (
    "No Finding",
    "Enlarged Cardiomediastinum",
    "Cardiomegaly",
    "Lung Opacity",
    "Lung Lesion",
    "Edema",
    "Consolidation",
    "Pneumonia",
    "Atelectasis",
    "Pneumothorax",
    "Pleural Effusion",
    "Pleural Other",
    "Fracture",
    "Support Devices",
)
VALUES = {"1": 1, "0": 0, "-1": None}
PATH = r"((?:train|valid|test)/(patient\d+)/(study\d+)/[^/]+)$"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ``train.csv`` and ``valid.csv``, together or alone.

    An image is called by its path from ``train/`` or ``valid/`` on, so that the full and the small release agree. Both
    'uncertain' (-1) and 'not mentioned' (blank) are null: whoever takes them as negative or positive says so in a rule
    of their own.
    """
    check_maps(maps, ())
    parts: list[pl.DataFrame] = []
    notes: tuple[str, ...] = ()
    for path in the_files(files, ("train.csv", "valid.csv", "test_labels.csv")):
        frame = read_table(path).frame
        need_columns(frame, ("Path", *CLASSES), path)
        some_rows(frame, path)
        frame, more = _labels(_named(frame, path), path)
        notes += more
        parts.append(frame)
    own, more = one_row_an_image(pl.concat(parts), files[0])
    notes += more
    sizes = own["patient"].value_counts()["count"].to_numpy()
    notes += (f"{own.height:,} images of {len(sizes):,} patients, up to {sizes.max():,} images a patient",)
    return Images(own, notes + crossing(own, "patient", "patients"), CHEXPERT.unit, "")


def _named(frame: pl.DataFrame, path: Path) -> pl.DataFrame:
    found = pl.col("Path").str.replace_all("\\", "/", literal=True)
    frame = frame.with_columns(
        found.str.extract(PATH, 1).alias("image"), found.str.extract(PATH, 2).alias("patient"), *_subgroups(frame)
    )
    wrong = frame["image"].is_null()
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise SplitError(
            f"{path}, row {row + 1}: {frame['Path'][row]!r} is no path of this data set ({int(wrong.sum()):,} such "
            "rows); "
            "wanted .../train/patientNNNNN/studyN/view1_frontal.jpg"
        )
    return frame.with_columns(
        pl.lit("stanford").alias("site"),
        pl.col("image").str.extract(r"^[^/]+/(.+)/").alias("group"),
        pl.col("image").str.extract(r"^([^/]+)/").alias("published"),
    )


def _subgroups(frame: pl.DataFrame) -> list[pl.Expr]:
    nothing = pl.lit(None, pl.String)
    has = frame.columns
    made = [
        sex("Sex") if "Sex" in has else nothing.alias("sex"),
        age_group("Age") if "Age" in has else nothing.alias("age_group"),
    ]
    if "Frontal/Lateral" in has and "AP/PA" in has:
        frontal = pl.col("Frontal/Lateral").str.to_lowercase() == "frontal"
        made.append(pl.when(frontal).then(pl.col("AP/PA")).otherwise(pl.lit("lateral")).alias("view"))
    else:
        made.append(nothing.alias("view"))
    return made


def _labels(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    text = [pl.col(name).str.replace(r"\.0+$", "").alias(f"label_{k}") for k, name in enumerate(CLASSES)]
    frame = frame.select("image", "patient", "site", *text, "group", "published", "sex", "age_group", "view")
    columns = [f"label_{k}" for k in range(len(CLASSES))]
    for name, column in zip(CLASSES, columns, strict=True):
        wrong = frame[column].is_not_null() & ~frame[column].is_in(list(VALUES))
        if wrong.any():
            row = int(wrong.arg_true()[0])
            raise SplitError(
                f"{path}, row {row + 1}, column {name!r}: {frame[column][row]!r} is no label of this data set; wanted "
                "1 "
                "(present), 0 (absent), -1 (uncertain) or an empty cell (not mentioned)"
            )
    cells = frame.height * len(CLASSES)
    uncertain = sum(int((frame[column] == "-1").sum()) for column in columns)
    blank = sum(frame[column].null_count() for column in columns)
    notes: tuple[str, ...] = ()
    if uncertain or blank:
        notes = (
            f"{path.name}: of {cells:,} labels {uncertain:,} are uncertain (-1) and {blank:,} are not mentioned "
            "(blank); "
            "both are no label here, and neither is taken as negative",
        )
    known = {value: number for value, number in VALUES.items() if number is not None}
    values = pl.col(columns).replace_strict(known, default=None, return_dtype=pl.Int8)
    return frame.with_columns(values), notes


CHEXPERT = DataSet(
    key="chexpert",
    title="CheXpert",
    modality="chest X-ray",
    licence="Stanford University Dataset Research Use Agreement: non-commercial research, no passing on; check it",
    source="https://stanfordmlgroup.github.io/competitions/chexpert/",
    citation="10.1609/aaai.v33i01.3301590",
    files="train.csv and/or valid.csv (Path, Sex, Age, Frontal/Lateral, AP/PA, 14 observations)",
    kind="multilabel",
    classes=CLASSES,
    prompt_classes=tuple(name.lower() for name in CLASSES),
    ordinal=False,
    unit="patient",
    unavailable="",
    guarantees=(
        "the patient and the study of every image are known from its path",
        "uncertain and not mentioned are counted and never taken as negative",
    ),
    limits=(
        "training labels were read from reports by a program; only valid.csv and the test set were read by "
        "radiologists",
        "most training labels are blank: work that takes blank as negative has other prevalences",
        "lists of 5 times 200 images made from it share patients between train and test",
    ),
    read=read,
)
