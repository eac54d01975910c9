"""NIH ChestX-ray14: 14 findings on 112,120 chest X-rays of 30,805 patients."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import MISSING, OLDEST, age_group, check_maps, column_of, one_row_an_image, the_files
from splits.datasets.lists import crossing, sex, some_rows
from splits.errors import SplitError
from splits.reading import need_columns, read_lines, read_table

CLASSES = (
    "Atelectasis",
    "Cardiomegaly",
    "Effusion",
    "Infiltration",
    "Mass",
    "Nodule",
    "Pneumonia",
    "Pneumothorax",
    "Consolidation",
    "Edema",
    "Emphysema",
    "Fibrosis",
    "Pleural_Thickening",
    "Hernia",
)
NONE = "No Finding"
TABLES = ("Data_Entry_2017_v2020.csv", "Data_Entry_2017.csv")
LISTS = ("train_val_list.txt", "test_list.txt")
NAME = r"^(\d{8})_\d{3}"  # patient and follow-up number, in every file name of the release


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of one ``Data_Entry_2017`` table, with the published split where its lists are given too.

    The patient is 'Patient ID' with zeros in front (8 digits) and must be the one that the file name begins with.
    """
    check_maps(maps, ())
    paths = the_files(files, (*TABLES, *LISTS))
    tables = [path for path in paths if _list_name(path) is None]
    if len(tables) != 1:
        named = ", ".join(str(path) for path in tables) or "none"
        raise SplitError(f"wanted one table ({' or '.join(TABLES)}), got {named}; the labels of the two differ")
    path = tables[0]
    frame = read_table(path).frame
    need_columns(frame, ("Image Index", "Finding Labels", "Patient ID"), path)
    some_rows(frame, path)
    frame, notes = _patients(frame, path)
    frame, more = _findings(frame, path)
    notes += more
    frame, more = _subgroups(frame, path)
    notes += more
    frame = frame.with_columns(pl.lit("nih").alias("site"))
    labels = (f"label_{k}" for k in range(len(CLASSES)))
    own, more = one_row_an_image(frame.select("image", "patient", "site", *labels, "sex", "age_group", "view"), path)
    notes += more
    lists = [other for other in paths if other != path]
    if lists:
        own, more = _published(own, lists)
        notes += more
    return Images(own, notes, NIH.unit, "")


def _list_name(path: Path) -> str | None:
    name = path.name.casefold().removesuffix(".gz")
    return next((split for split in ("train_val", "test") if name == f"{split}_list.txt"), None)


def _patients(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    image = pl.col("Image Index").str.replace(r"^.*[/\\]", "").alias("image")
    own = pl.col("Patient ID").str.replace(r"\.0$", "").str.zfill(8)
    frame = frame.with_columns(image, own.alias("patient"))
    named = frame["image"].str.extract(NAME)
    wrong = (named != frame["patient"]).fill_null(True)
    if wrong.any():
        row = int(wrong.arg_true()[0])
        raise SplitError(
            f"{path}, row {row + 1}: image {frame['image'][row]!r} and Patient ID {frame['Patient ID'][row]!r} don't "
            "agree "
            f"({int(wrong.sum()):,} such rows); a name begins with the patient in 8 digits, as NNNNNNNN_NNN.png"
        )
    sizes = frame["patient"].value_counts()["count"].to_numpy()
    return frame, (f"{frame.height:,} rows, {len(sizes):,} patients, up to {sizes.max():,} images a patient",)


def _findings(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    text = pl.col("Finding Labels")
    text = pl.when(~text.str.to_lowercase().is_in(list(MISSING))).then(text)
    frame = frame.with_columns(text.str.split("|").list.eval(pl.element().str.strip_chars()).alias("found"))
    listed = frame.select("found", pl.int_range(pl.len()).alias("row")).explode("found").drop_nulls()
    unknown = listed.filter(~pl.col("found").is_in([*CLASSES, NONE]))
    if unknown.height:
        raise SplitError(
            f"{path}, row {unknown['row'][0] + 1}: {unknown['found'][0]!r} is no finding of this data set "
            f"({unknown.height:,} such); wanted {NONE}, or some of {', '.join(CLASSES)} with '|' between"
        )
    both = frame.filter(pl.col("found").list.contains(NONE) & (pl.col("found").list.len() > 1))
    if both.height:
        raise SplitError(f"{path}: {both['image'][0]} has {NONE!r} beside a finding ({both.height:,} such rows)")
    frame = frame.with_columns(
        pl.col("found").list.contains(name).cast(pl.Int8).alias(f"label_{k}") for k, name in enumerate(CLASSES)
    )
    empty = frame["found"].null_count()
    return frame, (f"{empty:,} images have no finding labels at all and are not labelled",) if empty else ()


def _subgroups(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    own = {name.casefold(): name for name in frame.columns}
    if "patient age" in own:
        # the first release wrote 058Y, 009M, 012D
        text = pl.col(own["patient age"])
        number = text.str.extract(r"^(\d+(?:\.\d+)?)\s*[YMDymd]?$").cast(pl.Float64, strict=False)
        unit = text.str.to_uppercase().str.tail(1)
        years = pl.when(unit == "M").then(number / 12).when(unit == "D").then(number / 365.25).otherwise(number)
        frame = frame.with_columns(years.cast(pl.String).alias("years"))
        frame = frame.with_columns(age_group("years"))
        lost = int((frame["age_group"].is_null() & frame[own["patient age"]].is_not_null()).sum())
        if lost:
            notes += (f"{lost:,} ages above {OLDEST} years, or no number, are errors of entry and left empty",)
    else:
        frame = frame.with_columns(pl.lit(None, pl.String).alias("age_group"))
    gender = column_of(frame, ("Patient Gender", "Patient Sex"), path)
    view = column_of(frame, ("View Position",), path)
    return frame.with_columns(sex(gender), pl.col(view).alias("view")), notes


def _published(own: pl.DataFrame, lists: Sequence[Path]) -> tuple[pl.DataFrame, tuple[str, ...]]:
    named = pl.concat(
        pl.DataFrame({"image": read_lines(path)}).select(
            pl.col("image").str.strip_chars().str.replace(r"^.*[/\\]", ""), pl.lit(_list_name(path)).alias("published")
        )
        for path in lists
    ).unique()
    twice = named.filter(pl.col("image").is_duplicated())
    if twice.height:
        raise SplitError(f"{lists[0]}: {twice['image'][0]} is in both published lists; take the lists as published")
    joined = own.join(named, on="image", how="left", maintain_order="left")
    notes: tuple[str, ...] = ()
    outside, unlisted = named.height - joined["published"].count(), joined["published"].null_count()
    if outside:
        notes += (f"{outside:,} images of the published lists are not in the table",)
    if unlisted:
        notes += (f"{unlisted:,} images of the table are in none of the lists given",)
    return joined, notes + crossing(joined, "patient", "patients")


NIH = DataSet(
    key="nih-cxr14",
    title="NIH ChestX-ray14",
    modality="chest X-ray",
    licence="no restriction on use, with attribution and a link to the source (stated by the source; check it)",
    source="https://nihcc.app.box.com/v/ChestXray-NIHCC",
    citation="10.1109/CVPR.2017.369",
    files="Data_Entry_2017_v2020.csv or Data_Entry_2017.csv; optionally train_val_list.txt and test_list.txt",
    kind="multilabel",
    classes=CLASSES,
    prompt_classes=tuple(name.replace("_", " ").lower() for name in CLASSES),
    ordinal=False,
    unit="patient",
    unavailable="",
    guarantees=(
        "the patient of every image is known, and the table and the file name agree on it",
        "every finding is one of the 14",
    ),
    limits=(
        "labels were read from reports by a program, and differ between the releases of 2017 and 2020",
        "two test sets are in use: the publisher's list (25,596 images), and random patients as CheXNet drew them "
        "(22,433); "
        "5,597 of the 6,187 test patients of the latter are in the publisher's train_val, so a model trained on one "
        "can't "
        "be tested on the other",
        "the images of RSNA-2018, and with them most negatives of COVIDx, are from these patients",
    ),
    read=read,
)
