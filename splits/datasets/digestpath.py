"""DigestPath 2019, colonoscopy tissue: benign or malignant, whole tissue images or patches cut from them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import check_maps
from splits.datasets.lists import Listed, crossing, listed_images
from splits.errors import SplitError

CLASSES = ("benign", "malignant")
WORDS = {
    "benign": 0, "negative": 0, "neg": 0, "tissue-train-neg": 0, "0": 0,
    "malignant": 1, "positive": 1, "pos": 1, "tissue-train-pos-v1": 1, "tissue-train-pos": 1, "1": 1,
}  # fmt: skip
SPLITS = {"train": "train", "test": "test", "val": "val"}
UNAVAILABLE = "324 patients for the 660 tissue images by the source, but no list says which image is whose"
PATCH = r"_downsample=\d+_\d+$"
SCAN = r"^(.+?)_\d{4}-\d{2}-\d{2} \d{2}_\d{2}_\d{2}-lv\d+-\d+-\d+-\d+-\d+$"
SLIDE_OF_CASE = r"(?:[A-Z]|_\d+-\d+|-\d{1,2})$"


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """Tissue images or patches from a folder, a text list of paths, or a table of path and label; masks are left out.

    The class is the label given, or else that of the innermost folder called benign, negative, malignant, positive or
    as in the release. ``group`` is the case: a tissue image is called after its slide, the time of the scan and the
    place on it (``18-00530B_2019-05-07 23_56_22-lv1-...``), and slides of one case (``18-00530``) stay together; where
    a name has another form, it is the tissue image itself, all its patches at all scales.
    """
    check_maps(maps, ())
    listed = listed_images(files, skip="_mask")
    folders = pl.col("path").str.to_lowercase().str.split("/").list.head(pl.col("path").str.count_matches("/"))
    frame = listed.frame.with_columns(
        _word(folders, WORDS, pl.Int64).alias("by_folder"),
        pl.col("label").str.to_lowercase().replace_strict(WORDS, default=None, return_dtype=pl.Int64).alias("by_label"),
        _word(folders, SPLITS, pl.String).alias("published"),
        pl.col("name").str.replace(r"\.[^.]*$", "").alias("stem"),
    )
    _refuse_labels(listed, frame)
    tissue = pl.col("stem").str.replace(PATCH, "")
    frame = frame.with_columns(tissue.alias("tissue"), pl.col("stem").str.contains(PATCH).alias("is_patch"))
    numbered = pl.col("stem").str.contains(r"^\d{1,6}$")
    case = pl.col("tissue").str.extract(SCAN).str.replace(SLIDE_OF_CASE, "")
    group = pl.when(~numbered).then(pl.coalesce(case, "tissue")).alias("group")
    frame = frame.with_columns(
        _names(frame), group, case.alias("case"), pl.coalesce("by_label", "by_folder").alias("label")
    )
    notes = _notes(frame) + crossing(frame, "group", "cases or tissue images")
    own = frame.select(
        "image",
        pl.lit(None, pl.String).alias("patient"),
        pl.lit("digestpath").alias("site"),
        "label",
        "group",
        "published",
    )
    return Images(own, notes, DIGESTPATH.unit, UNAVAILABLE)


def _word(folders: pl.Expr, words: Mapping[str, int] | Mapping[str, str], kind: type[pl.DataType]) -> pl.Expr:
    """What the innermost folder with one of ``words`` means."""
    meant = pl.element().replace_strict(dict(words), default=None, return_dtype=kind)
    return folders.list.eval(meant).list.drop_nulls().list.last()


def _names(frame: pl.DataFrame) -> pl.Expr:
    """File names; where one comes twice, the path instead, without the folders that all paths share."""
    if not frame["name"].is_duplicated().any():
        return pl.col("name").alias("image")
    parts = [path.split("/")[:-1] for path in (str(frame["path"].min()), str(frame["path"].max()))]
    shared = next((i for i, (a, b) in enumerate(zip(*parts, strict=False)) if a != b), min(map(len, parts)))
    inside = pl.col("path").str.split("/").list.slice(shared).list.join("/")
    return pl.when(pl.col("name").is_duplicated()).then(inside).otherwise("name").alias("image")


def _refuse_labels(listed: Listed, frame: pl.DataFrame) -> None:
    written = pl.col("label").is_not_null()
    for bad, what in (
        (written & pl.col("by_label").is_null(), "is no label of this data set"),
        (pl.col("by_label") != pl.col("by_folder"), "and the folder name different classes"),
    ):
        rows = frame.filter(bad)
        if rows.height:
            raise SplitError(
                f"{listed.origin}: {rows['path'][0]}: label {rows['label'][0]!r} {what} ({rows.height:,} such rows); "
                f"wanted {' or '.join(CLASSES)} (0 or 1)"
            )
    rows = frame.filter(pl.coalesce("by_label", "by_folder").is_null())
    if rows.height:
        raise SplitError(
            f"{listed.origin}: {rows['path'][0]}: no folder tells the class ({rows.height:,} such images); wanted a "
            "folder "
            "benign or malignant (tissue-train-neg, tissue-train-pos-v1), or a table of path, label"
        )
    twice = frame.filter(pl.col("path").is_duplicated())
    if twice.height:
        raise SplitError(f"{listed.origin}: {twice['path'][0]} is listed more than once; list each image once")


def _notes(frame: pl.DataFrame) -> tuple[str, ...]:
    notes = []
    patches = int(frame["is_patch"].sum())
    if patches:
        tissues = frame.filter("is_patch")["tissue"].n_unique()
        notes.append(
            f"{patches:,} patches were cut from {tissues:,} tissue images; patches of one tissue image overlap within "
            "a scale and "
            "show the same tissue at several scales, so they stay together"
        )
    cases, tissues = frame["case"].n_unique() - bool(frame["case"].null_count()), frame["tissue"].n_unique()
    if cases:
        notes.append(f"{tissues:,} tissue images are kept together by case: {cases:,} cases by their names")
    unknown = frame["group"].null_count()
    if unknown:
        notes.append(
            f"{unknown:,} images have a bare number as name, which tells no tissue image: nothing keeps patches of one "
            "tissue image together; cut the patches again with the name of the image in theirs"
        )
    mixed = frame.filter(pl.col("group").is_not_null()).group_by("group").agg(pl.col("label").n_unique())
    both = int((mixed["label"] > 1).sum())
    if both:
        notes.append(f"{both:,} groups hold benign and malignant images: parts of a malignant tissue image are benign")
    twice = frame.filter(pl.col("name").is_duplicated())
    if twice.height:
        notes.append(
            f"{twice['name'].n_unique():,} file names lie in more than one folder and are named with their folders"
        )
    return tuple(notes)


DIGESTPATH = DataSet(
    key="digestpath",
    title="DigestPath 2019, colonoscopy tissue segmentation",
    modality="histopathology (H&E)",
    licence="database use agreement of the challenge, to be signed; stated by the source; check it",
    source="https://digestpath2019.grand-challenge.org/Dataset/",
    citation="10.1016/j.media.2022.102485",
    files="the folder of tissue-train-neg and tissue-train-pos-v1, a folder of patches cut from them, a text list of "
    "their paths, or a CSV of path,label",
    kind="binary",
    classes=CLASSES,
    prompt_classes=CLASSES,
    ordinal=False,
    unit="image",
    unavailable=UNAVAILABLE,
    guarantees=(
        "images of one case, as far as names tell it, and all patches of one tissue image form a group",
        "folder and label agree on the class",
    ),
    limits=(
        "patients are not published; the case in a name is read from its form, which no document explains",
        "the widely used preparation cuts patches at five scales with 10 % overlap, splits tissue images, and then "
        "replaces "
        "that split by a random one of patches: the same tissue is trained on and tested on",
        "a patch of a malignant tissue image may be benign, so folder names of patches and of tissue images differ in "
        "meaning",
    ),
    read=read,
)
