"""COVIDx: chest X-rays gathered from eight sources, listed by train and test text files in many versions."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from splits.datasets.base import DataSet, Images
from splits.datasets.common import MISSING, check_maps, one_row_an_image
from splits.datasets.lists import crossing
from splits.datasets.rsna import MAP, add_nih_patients, nih_patients
from splits.errors import SplitError
from splits.reading import read_lines

CLASSES = ("normal", "pneumonia", "COVID-19")
TWO = ("negative", "positive")
LABELS = {"normal": 0, "pneumonia": 1, "covid-19": 2}
LABELS_OF_TWO = {"negative": 0, "positive": 1, "normal": 0, "pneumonia": 0, "covid-19": 1}
# patient, file (its name may hold blanks, and ends as an image), label, and in later versions the source
LINE = (
    r"(?i)^\s*(?P<patient>\S+)\s+(?P<image>\S.*\.(?:png|jpe?g|tiff?|bmp|dcm))"
    r"\s+(?P<label>\S+)(?:\s+(?P<source>\S+))?\s*$"
)
NUMBERED = r"^\d+\s+(\S+\(\d+\)\..+)$"  # "COVID N COVID(N).png": the blank is in the id, not in the file name
# what files of each source look like, for lists that don't name the source
PATTERNS = {
    "rsna": r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\.",
    "ricord": r"^MIDRC-RICORD",
    "bimcv": r"^sub-S\d+_",
    "stonybrook": r"^A\d{6}-",
    "actmed": r"^(?:CR|DX)\.1\.2\.840\.",
    "fig1": r"^COVID-\d{5}",
    "sirm": r"^COVID(?:-19)?\s?\(\d+\)\.",
}
COHEN = r"^\d+[a-z]?$"  # the patients of the first source are small numbers
NO_PATIENTS = ("rsna", "sirm")  # their "patient" is the image
MISSPELT = {"rnsa": "rsna"}


def read(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """Normal, pneumonia, COVID-19: the lists of versions 1 to 5, 7A, 8A and 9A."""
    return _read(files, maps, LABELS, "covidx-binary")


def read_binary(files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """COVID-19 negative or positive: the lists 6, 7B, 8B, 9B, CXR-2 and later, or three-class lists taken together."""
    return _read(files, maps, LABELS_OF_TWO, "")


def _read(files: Sequence[Path], maps: Mapping[str, Path], labels: Mapping[str, int], other: str) -> Images:
    check_maps(maps, ("rsna-nih",))
    paths = _lists(files)
    frame = pl.concat([_lines(path) for path in paths])
    frame, notes = _labelled(frame, labels, other, paths[0])
    frame, more = _patients(_sourced(frame))
    notes += more
    frame, more = _merged(frame, paths[0])
    notes += more
    if "rsna-nih" in maps:
        rsna = pl.col("site") == "rsna"
        found, more = add_nih_patients(frame.filter(rsna), nih_patients(maps["rsna-nih"]), maps["rsna-nih"])
        own = frame.join(
            found.select("image", pl.col("patient").alias("nih")), on="image", how="left", maintain_order="left"
        )
        frame = own.with_columns(pl.coalesce("nih", "patient").alias("patient"))
        notes += more
    notes += _patients_known(frame) + crossing(frame, "patient", "patients") + _label_is_source(frame, labels)
    columns = ("image", "patient", "site", "label", "published")
    return Images(frame.select(columns), notes, COVIDX.unit, "")


def _lists(files: Sequence[Path]) -> list[Path]:
    if not files:
        raise SplitError(
            "no file is given; wanted the lists of one version, as train_COVIDx9B.txt and test_COVIDx9B.txt"
        )
    paths = list(files)
    if len(paths) == 1 and paths[0].is_dir():
        paths = sorted(path for path in paths[0].iterdir() if path.suffix == ".txt" and _split_of(path))
        splits = [_split_of(path) for path in paths]
        if not paths or len(set(splits)) != len(splits):
            named = ", ".join(path.name for path in paths[:6]) or "none"
            raise SplitError(f"{files[0]}: wanted the lists of one version, found {named}; name the files")
    return paths


def _split_of(path: Path) -> str | None:
    found = re.match(r"(train|val|test)(?![a-z])", path.name)
    return found[1] if found else None


def _lines(path: Path) -> pl.DataFrame:
    lines = pl.Series("line", read_lines(path))
    found = lines.str.extract_groups(LINE).struct.unnest()
    bad = found["image"].is_null()
    if bad.any():
        row = int(bad.arg_true()[0])
        raise SplitError(
            f"{path}, entry {row + 1}: {lines[row][:120]!r} is no entry of a COVIDx list ({int(bad.sum()):,} such); "
            "wanted "
            "patient, image file, label and, in later versions, source, with blanks between"
        )
    numbered = pl.col("image").str.extract(NUMBERED)
    return found.select(
        pl.col("patient"),
        pl.coalesce(numbered, "image").alias("image"),
        pl.col("label").str.to_lowercase().alias("word"),
        pl.col("source").str.to_lowercase(),
        pl.lit(_split_of(path), pl.String).alias("published"),
    )


def _labelled(
    frame: pl.DataFrame, labels: Mapping[str, int], other: str, path: Path
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    words = set(frame["word"].unique())
    if other and words & {"negative", "positive"}:
        raise SplitError(f"{path}: the lists tell negative or positive only; take the data set {other}")
    known = pl.col("word").replace_strict(dict(labels), default=None, return_dtype=pl.Int64).alias("label")
    frame = frame.with_columns(known)
    wrong = frame.filter(pl.col("label").is_null())
    if wrong.height:
        raise SplitError(
            f"{path}: {wrong['word'][0]!r}, of image {wrong['image'][0]!r}, is no label of this data set "
            f"({wrong.height:,} "
            f"such rows); wanted {', '.join(labels)}"
        )
    if not other and "covid-19" in words:
        return frame, ("the three classes of the lists were taken together: normal and pneumonia are negative",)
    return frame, ()


def _sourced(frame: pl.DataFrame) -> pl.DataFrame:
    guess = pl.lit(None, pl.String)
    for name, pattern in reversed(PATTERNS.items()):
        guess = pl.when(pl.col("image").str.contains(pattern)).then(pl.lit(name)).otherwise(guess)
    cohen = pl.when(pl.col("patient").str.contains(COHEN)).then(pl.lit("cohen"))
    source = pl.col("source").replace(MISSPELT)
    misspelt = pl.col("source").is_in(list(MISSPELT)).fill_null(False).alias("misspelt")
    guessed = pl.col("source").is_null().alias("guessed")
    return frame.with_columns(pl.coalesce(source, guess, cohen, pl.lit("unknown")).alias("site"), misspelt, guessed)


def _patients(frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    misspelt, guessed = int(frame["misspelt"].sum()), int(frame["guessed"].sum())
    if misspelt:
        notes += (f"{misspelt:,} rows name the source 'rnsa', read as rsna",)
    if guessed:
        unknown = int((frame["site"] == "unknown").sum())
        notes += (f"{guessed:,} rows name no source; it was told from names, and of {unknown:,} it stays unknown",)
    word = pl.col("patient").str.to_lowercase()
    none = pl.col("site").is_in(NO_PATIENTS) | word.is_in(["covid", *MISSING])
    for site in NO_PATIENTS:
        count = int((frame["site"] == site).sum())
        if count:
            notes += (f"{count:,} rows from {site} have the image as patient: no patient is known of them",)
    is_word = int((frame["patient"].str.to_uppercase() == "COVID").sum())
    if is_word:
        notes += (f"in {is_word:,} rows the patient column is the word COVID, since the id holds a blank ('COVID N')",)
    # figure 1 images a and b of one person are COVID-00015a and COVID-00015b
    person = pl.when(pl.col("site") == "fig1").then(pl.col("patient").str.extract(r"^(COVID-\d+)")).otherwise("patient")
    return frame.with_columns(pl.when(~none).then(person).alias("patient")), notes


def _merged(frame: pl.DataFrame, path: Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """One row an image. Two patients of one image become one, so that no split parts them."""
    both = frame.group_by("image").agg(pl.col("published").n_unique())
    crossed = both.filter(pl.col("published") > 1).sort("image")
    if crossed.height:
        raise SplitError(
            f"{path}: {crossed.height:,} images are in the lists of different splits, such as {crossed['image'][0]!r}; "
            "give "
            "the lists of one version"
        )
    frame, notes = _one_patient_an_image(frame.select("image", "patient", "site", "label", "published"))
    before = frame.height
    frame, _ = one_row_an_image(frame, path)
    if frame.height < before:
        notes += (
            f"rows that repeat another row and were left out (RSNA boxes in version 1): {before - frame.height:,}",
        )
    return frame, notes


def _one_patient_an_image(frame: pl.DataFrame) -> tuple[pl.DataFrame, tuple[str, ...]]:
    sets = frame.drop_nulls("patient").group_by("image").agg(pl.col("patient").unique().sort())
    shared = sets.filter(pl.col("patient").list.len() > 1)["patient"].unique().to_list()
    if not shared:
        return frame, ()
    groups: list[set[str]] = []
    for patients in shared:
        joined = set(patients)
        for group in [group for group in groups if group & joined]:
            groups.remove(group)
            joined |= group
        groups.append(joined)
    names = {patient: "+".join(sorted(group)) for group in groups for patient in group}
    note = f"{len(names):,} patients that share an image with another are taken as one person: {len(groups):,} persons"
    return frame.with_columns(pl.col("patient").replace(names)), (note,)


def _patients_known(frame: pl.DataFrame) -> tuple[str, ...]:
    known = frame["patient"].drop_nulls()
    return (f"the patient of {len(known):,} of {frame.height:,} images is known: {known.n_unique():,} patients",)


def _label_is_source(frame: pl.DataFrame, labels: Mapping[str, int]) -> tuple[str, ...]:
    """A note for each published split in which every source has one label only."""
    names = dict(zip(range(3), CLASSES if labels is LABELS else TWO, strict=False))
    notes: tuple[str, ...] = ()
    for split in frame["published"].unique().sort().to_list():
        own = frame.filter(pl.col("published").eq_missing(pl.lit(split, pl.String)))
        by_site = own.group_by("site").agg(pl.col("label").unique(), pl.len().alias("images")).sort("site")
        if own["label"].n_unique() > 1 and by_site["label"].list.len().max() == 1:
            told = ", ".join(f"{site}: {count:,} {names[label[0]]}" for site, label, count in by_site.iter_rows())
            notes += (f"label = source in {split or 'the list'}: {told}; who tells the source tells the label",)
        elif by_site.height > 1:
            single = by_site.filter((pl.col("label").list.len() == 1) & (pl.col("images") > 1))
            count, every = int(single["images"].sum()), own.height
            if count:
                sites = ", ".join(single["site"])
                notes += (
                    f"{count:,} of {every:,} images of {split or 'the list'} come from sources with one label only "
                    f"({sites})",
                )
    return notes


COVIDX = DataSet(
    key="covidx",
    title="COVIDx, normal, pneumonia or COVID-19",
    modality="chest X-ray",
    licence="the lists are AGPL-3.0 (COVID-Net); each source of images has its own licence; check them",
    source="https://github.com/lindawangg/COVID-Net/blob/master/docs/COVIDx.md",
    citation="10.1038/s41598-020-76550-z",
    files="train_COVIDx*.txt and test_COVIDx*.txt of one version with three classes (1 to 5, 7A, 8A, 9A)",
    kind="multiclass",
    classes=CLASSES,
    prompt_classes=("normal", "pneumonia", "covid"),
    ordinal=False,
    unit="patient",
    unavailable="",
    guarantees=(
        "file names with blanks and lists with three, four or five words a line are read",
        "an id that is an image, or the word COVID, is never taken as a patient",
        "with the map rsna-nih, RSNA images of one NIH patient stay together",
    ),
    limits=(
        "without the map rsna-nih the patients of the RSNA images, most of the negatives, are not known",
        "in versions 8 and 9 every positive of the test list is from RICORD and every negative from RSNA: label = "
        "source",
        "ids of the source cohen are known to be used twice for different people, and one case occurs under two "
        "spellings",
        "version 6 has one patient in train and test",
    ),
    read=read,
    maps={"rsna-nih": MAP},
)

COVIDX_BINARY = DataSet(
    key="covidx-binary",
    title="COVIDx, COVID-19 negative or positive",
    modality=COVIDX.modality,
    licence=COVIDX.licence,
    source=COVIDX.source,
    citation=COVIDX.citation,
    files="train_COVIDx*.txt and test_COVIDx*.txt of one version (6, 7B, 8B, 9B, CXR-2 to CXR-4, or one with three "
    "classes, which are taken together)",
    kind="binary",
    classes=TWO,
    prompt_classes=("normal", "covid"),
    ordinal=False,
    unit="patient",
    unavailable="",
    guarantees=COVIDX.guarantees,
    limits=COVIDX.limits,
    read=read_binary,
    maps=COVIDX.maps,
)
