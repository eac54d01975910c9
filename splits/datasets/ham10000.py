"""HAM10000 and ISIC 2019: dermatoscopic images that share lesions; no patient is published."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import (
    age_group,
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
from splits.reading import need_columns, read_table

CODES = ("akiec", "bcc", "bkl", "df", "mel", "nv", "vasc")
NAMES = (
    "actinic keratosis or intraepithelial carcinoma",
    "basal cell carcinoma",
    "benign keratosis-like lesion",
    "dermatofibroma",
    "melanoma",
    "melanocytic nevus",
    "vascular lesion",
)
CODES_2019 = ("MEL", "NV", "BCC", "AK", "BKL", "DF", "VASC", "SCC")
NAMES_2019 = (
    "melanoma",
    "melanocytic nevus",
    "basal cell carcinoma",
    "actinic keratosis",
    "benign keratosis",
    "dermatofibroma",
    "vascular lesion",
    "squamous cell carcinoma",
)
_LESION = "a lesion keeps its images together, a person with several lesions can still lie on both sides"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ``HAM10000_metadata``; the map ``isic`` is compared with it, image by image."""
    check_maps(maps, ("isic",))
    path = the_files(files, ("HAM10000_metadata.csv", "HAM10000_metadata", "HAM10000_metadata.tab"))[0]
    table = read_table(path).frame
    need_columns(table, ("lesion_id", "image_id", "dx", "age", "sex", "localization"), path)
    table = table.with_columns(label=labels_from(table, "dx", CODES, path))
    source = pl.col("dataset") if "dataset" in table.columns else pl.lit("ham10000")
    frame = table.select(
        age_group("age"),
        _known("sex"),
        _known("localization"),
        image="image_id",
        patient="lesion_id",
        label="label",
        site=source,
    )
    frame, notes = one_row_an_image(frame, path)
    if frame["patient"].null_count():
        raise SplitError(f"{path}: {frame['patient'].null_count()} images have no lesion_id; wanted one for each")
    notes += missing_labels(frame["label"])
    siblings = int(frame.select(pl.len().over("patient") > 1)["len"].sum())
    notes += (f"{siblings} of {frame.height} images show a lesion that has more images",)
    if "isic" in maps:
        notes += _compared(frame, maps["isic"])
    return Images(in_order(frame), notes, "lesion", "")


def _known(column: str) -> pl.Expr:
    return pl.when(pl.col(column).str.to_lowercase() != "unknown").then(pl.col(column))


def _compared(frame: pl.DataFrame, path: Path) -> tuple[str, ...]:
    """Notes on the images that ISIC 2019's training list has too; SplitError where their lesions differ."""
    table = read_table(path).frame
    need_columns(table, ("image", "lesion_id"), path)
    mine = frame.select(key=stem("image"), mine="patient")
    both = mine.join(table.select(key=_undone("image"), theirs="lesion_id"), on="key")
    other = both.filter(pl.col("mine") != pl.col("theirs"))
    if other.height:
        raise SplitError(
            f"{path}: image {other['key'][0]!r} shows lesion {other['theirs'][0]!r}, but {other['mine'][0]!r} in the "
            f"label file ({other.height} such images); one of the two lists is altered"
        )
    return (f"{both.height} of {frame.height} images are in ISIC 2019's training list too: it is no external test set",)


def _undone(column: str) -> pl.Expr:
    return stem(column).str.replace("_downsampled$", "")


def read_2019(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ISIC 2019's ground truth (one column a class) and metadata (lesion, age, sex, body site)."""
    check_maps(maps, ())
    paths = the_files(files, ("ISIC_2019_Training_GroundTruth.csv", "ISIC_2019_Training_Metadata.csv"))
    tables = [(path, read_table(path).frame) for path in paths]
    truth = next(((path, table) for path, table in tables if "MEL" in table.columns), None)
    about = next(((path, table) for path, table in tables if "lesion_id" in table.columns), None)
    if truth is None or about is None:
        raise SplitError(
            f"{paths[0].parent}: wanted both ISIC_2019_Training_GroundTruth.csv (image, MEL ... UNK) and "
            "ISIC_2019_Training_Metadata.csv (image, lesion_id ...)"
        )
    sex = column_of(about[1], ("sex", "gender"), about[0])
    need_columns(about[1], ("image", "lesion_id", "age_approx", "anatom_site_general"), about[0])
    facts = about[1].select(
        age_group("age_approx"), image="image", lesion="lesion_id", sex=sex, localization="anatom_site_general"
    )
    facts, _ = one_row_an_image(facts, about[0])
    frame, notes = one_row_an_image(_one_class(*truth), truth[0])
    frame = frame.join(facts, on="image", how="left", maintain_order="left")
    missing = frame.height - int(frame["image"].is_in(facts["image"].to_list()).sum())
    if missing:
        raise SplitError(f"{about[0]}: {missing} images of {truth[0].name} are not listed; the two files don't fit")
    notes += missing_labels(frame["label"])
    bare, small = frame["lesion"].null_count(), int(frame["image"].str.ends_with("_downsampled").sum())
    if bare:
        notes += (f"{bare} of {frame.height} images have no lesion id: each counts as a lesion of its own, unchecked",)
    if small:
        notes += (f"{small} names end in _downsampled: other years of ISIC have the same pictures without it",)
    # The letters before the number name the source: HAM (Vienna, Queensland), BCN (Barcelona), MSK (New York).
    site = pl.col("lesion").str.extract("^([A-Z]+)").fill_null("no lesion id")
    frame = frame.with_columns(site=site, patient=pl.coalesce("lesion", _undone("image"))).drop("lesion")
    return Images(in_order(frame), notes, "lesion", "")


def _one_class(path: Path, table: pl.DataFrame) -> pl.DataFrame:
    """Image and class index of a table with a 1.0 in the column of the class; null where UNK is set."""
    need_columns(table, ("image", *CODES_2019), path)
    codes = [*CODES_2019, "UNK"] if "UNK" in table.columns else list(CODES_2019)
    marks = table.select((pl.col(code).cast(pl.Float64, strict=False) == 1.0).fill_null(False) for code in codes)
    count = marks.select(pl.sum_horizontal(pl.all().cast(pl.Int64)))["MEL"]
    if (count != 1).any():
        row = int((count != 1).arg_true()[0])
        raise SplitError(f"{path}, row {row + 1}: {count[row]} classes for image {table['image'][row]!r}; wanted one")
    index = pl.coalesce(pl.when(pl.col(code)).then(pl.lit(k, pl.Int64)) for k, code in enumerate(CODES_2019))
    return pl.DataFrame({"image": table["image"], "label": marks.select(label=index)["label"]})


HAM10000 = DataSet(
    key="ham10000",
    title="HAM10000",
    modality="dermatoscopy",
    licence="CC BY-NC 4.0",
    source="https://doi.org/10.7910/DVN/DBW86T",
    citation="10.1038/sdata.2018.161",
    files="HAM10000_metadata (lesion_id, image_id, dx, dx_type, age, sex, localization, dataset)",
    kind="multiclass",
    classes=NAMES,
    prompt_classes=NAMES,
    ordinal=False,
    unit="lesion",
    unavailable="",
    guarantees=("all images of a lesion stay together", "the source (dataset) is known in the Dataverse's release"),
    limits=(
        f"no patient is published: {_LESION}",
        "10,015 images show 7,470 lesions: a random split by image puts 39 % of the test images beside one of the same "
        "lesion",
        "some pictures of one lesion carry two lesion ids (doi:10.1038/s41597-025-04382-5)",
        "Kaggle's copy of the list has no column dataset: its site is one",
        "the images are in ISIC 2018, ISIC 2019 and DermaMNIST too: none of them is external",
    ),
    read=read,
    maps={"isic": "ISIC_2019_Training_Metadata.csv, to compare the lesions of the images that both have"},
)

ISIC2019 = DataSet(
    key="isic-2019",
    title="ISIC 2019 challenge, training set",
    modality="dermatoscopy",
    licence="stated by the ISIC archive as CC BY-NC 4.0; check it",
    source="https://challenge.isic-archive.com/data/#2019",
    citation="10.1038/sdata.2018.161; 10.1038/s41597-024-03387-w; 10.1109/ISBI.2018.8363547",
    files="ISIC_2019_Training_GroundTruth.csv and ISIC_2019_Training_Metadata.csv",
    kind="multiclass",
    classes=NAMES_2019,
    prompt_classes=NAMES_2019,
    ordinal=False,
    unit="lesion",
    unavailable="",
    guarantees=("all images of a lesion stay together, where the list names the lesion",),
    limits=(
        f"no patient is published: {_LESION}",
        "2,084 of the 25,331 images have no lesion id: copies among them can't be told",
        "10,015 of the images are HAM10000's: it is no external test set",
        "names with _downsampled are pictures of earlier years: 594 of the 600 test images of ISIC 2017 are among them",
    ),
    read=read_2019,
)
