"""Where the images of a split come from: a metadata table, the files of a known data set, or those of a recipe."""

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import polars as pl

from protocol.findings import plain
from protocol.task import no_subgroup
from protocol.types import Kind
from splits.datasets.base import DataSet, Images
from splits.datasets.common import readable
from splits.errors import SplitError
from splits.labels import unlabelled
from splits.metadata import Columns, Gathered, Reading, gather
from splits.plan import Plan, Source
from splits.reading import digest_of_file, need_columns, read_table
from splits.units import coded, units_of

if TYPE_CHECKING:
    from splits.recipes import Recipe

OWN = ("image", "patient", "group", "site", "label", "published")
LABEL_FILES = (".csv", ".tsv", ".txt", ".xls", ".xlsx", ".json", ".npy", ".npz", ".gz", ".parquet")
LARGEST_LABEL_FILE = 64 << 20  # bytes; what is larger holds images
Files = Mapping[str, Sequence[Path]]  # by data set of a recipe; otherwise all under ""


def load(plan: Plan, files: Files, maps: Mapping[str, Path]) -> tuple[Gathered, tuple[Source, ...]]:
    """The images that ``plan`` is about, read from ``files``, and the digests of all that was read.

    ``maps`` are files by the names that a data set's ``maps`` lists; in a recipe after its key and a colon
    ('messidor-2:pairs'). Raises :class:`SplitError`.
    """
    sources = tuple(_source(path, role or "metadata") for role, paths in files.items() for path in paths)
    sources += tuple(_source(path, role) for role, path in maps.items())
    if plan.recipe is not None:
        return _of_recipe(plan, files, maps), sources
    if plan.dataset is not None:
        from splits.datasets import DATASETS

        if plan.dataset not in DATASETS:
            raise SplitError(f"there is no data set {plan.dataset!r}; there are {', '.join(DATASETS)}")
        return _of_dataset(DATASETS[plan.dataset], plan, files[""], maps), sources
    if len(files[""]) != 1:
        raise SplitError(f"{len(files[''])} metadata files; give one table, or name the data set (--dataset)")
    names, path = plan.columns, files[""][0]
    columns = Columns(
        patient=names.patient,
        labels=names.labels,
        image=names.image,
        site=names.site,
        groups=names.groups,
        stratify=names.stratify,
        subgroups=names.subgroups,
        separator=names.label_separator,
    )
    reading = Reading(plan.classes, plan.drop_unlabelled, plan.unit, plan.unavailable)
    return gather(read_table(path, encoding=plan.encoding), columns, reading), sources


def settled(plan: Plan, gathered: Gathered) -> Plan:
    """``plan`` with what reading the files told: the images' column, the unit, why patients are unavailable."""
    own = plan.dataset is None and plan.recipe is None
    columns = plan.columns.model_copy(update={"image": gathered.image_column}) if own else plan.columns
    images = gathered.images
    return plan.model_copy(update={"columns": columns, "unit": images.unit, "unavailable": images.unavailable})


def _source(path: Path, role: str) -> Source:
    """The file and its digest; of a folder that of its list of files, with the content of those that may hold labels.

    Images are not read: each file counts by its name, and a label file by its digest too.
    """
    name = os.fsencode(path.name).decode(errors="backslashreplace")
    with readable(path):
        if not path.is_dir():
            return Source(name=name, sha256=digest_of_file(path), role=role)
        digest = hashlib.sha256()
        for place, file in sorted((os.fsencode(file.relative_to(path)), file) for file in _below(path)):
            digest.update(b"%s\0%s\0" % (place, digest_of_file(file).encode() if _may_hold_labels(file) else b""))
    return Source(name=name, sha256=digest.hexdigest(), role=role)


def _below(folder: Path) -> Iterator[Path]:
    """Every file below ``folder``; OSError for a folder among them that can't be read."""

    def refuse(error: OSError) -> NoReturn:
        raise error

    for place, _, names in os.walk(folder, onerror=refuse):
        yield from (file for file in (Path(place, name) for name in names) if file.is_file())


def _may_hold_labels(file: Path) -> bool:
    return file.suffix.lower() in LABEL_FILES and file.stat().st_size <= LARGEST_LABEL_FILE


def _of_dataset(dataset: DataSet, plan: Plan, files: Sequence[Path], maps: Mapping[str, Path]) -> Gathered:
    images = _read(dataset, files, maps)
    notes = list(images.notes)
    frame = _with_patients(images, notes)
    labels = [name for name in frame.columns if name == "label" or name.startswith("label_")]
    without = frame.select(pl.all_horizontal(pl.col(labels).is_null()))[labels[0]]
    frame = unlabelled(frame, without, dataset.key, plan.drop_unlabelled, notes)
    subgroups = _subgroups(plan, frame, dataset.key)
    need_columns(frame, plan.columns.stratify, Path(dataset.key))
    frame = _stratified(plan, frame)
    frame = frame.rename({"group": "group_0"}) if "group" in frame.columns else frame
    kept = Images(frame.drop("published", strict=False), tuple(notes), images.unit, images.unavailable)
    return Gathered(kept, dataset.kind, dataset.classes, "image", subgroups)


def _read(dataset: DataSet, files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    """The images of ``dataset``; what it knows of lesions or exams in place of patients is ``group_1``."""
    unknown = sorted(set(maps) - set(dataset.maps))
    if unknown:
        known = ", ".join(dataset.maps) or "none"
        raise SplitError(f"{dataset.key} takes no map {unknown[0]!r}; its maps: {known}")
    with readable(*files[:1]):
        images = dataset.read(files, maps)
    images = replace(images, notes=tuple(plain(note, 2000) for note in images.notes))  # which may name a file
    if images.unavailable or images.unit == "patient":
        return images
    # a person may have several lesions, or come for several exams: these are no patients
    frame = images.frame.with_columns(group_1=pl.col("patient"), patient=pl.lit(None, pl.String))
    return replace(images, frame=frame, unavailable=f"{dataset.title} names {images.unit}s, no patients")


def _subgroups(plan: Plan, frame: pl.DataFrame, key: str) -> tuple[str, ...]:
    """The columns that the plan publishes as subgroups: those of the data set that it names, and no other."""
    known = [name for name in frame.columns if name not in OWN and not name.startswith(("label_", "group_"))]
    for name in plan.columns.subgroups:
        if name not in known:
            there = f"there are {', '.join(known)}" if known else "it has none"
            raise SplitError(f"{key} has no subgroup {plain(name, 60)!r}; {there}")
        why = no_subgroup(name, frame[name].drop_nulls().unique().sort())
        if why:
            raise SplitError(f"{key}: {name!r} can't be a subgroup: {why}")
    return plan.columns.subgroups


def _stratified(plan: Plan, frame: pl.DataFrame) -> pl.DataFrame:
    return frame.with_columns(pl.col(name).alias(f"stratify_{i}") for i, name in enumerate(plan.columns.stratify))


def _with_patients(images: Images, notes: list[str]) -> pl.DataFrame:
    """Where patients are known of some images only, each other image counts as a patient of its own."""
    frame = images.frame
    unknown = frame["patient"].null_count()
    if images.unavailable or not unknown:
        return frame
    notes.append(f"{unknown} images have no known {images.unit}; each counts as one of its own")
    return frame.with_columns(pl.coalesce("patient", pl.concat_str(pl.lit("image "), pl.col("image"))).alias("patient"))


def _of_recipe(plan: Plan, files: Files, maps: Mapping[str, Path]) -> Gathered:
    """The images of all data sets of a recipe under its classes; the data set is the site."""
    from splits.datasets import DATASETS
    from splits.recipes import RECIPES

    if plan.recipe not in RECIPES:
        raise SplitError(f"there is no recipe {plan.recipe!r}; there are {', '.join(RECIPES)}")
    recipe = RECIPES[plan.recipe]
    keys = (recipe.development, *recipe.external)
    _fitting(recipe, keys, files, maps)
    frames, notes, unavailable, unit = [], [], [], DATASETS[recipe.development].unit
    for key in keys:
        own = {name.partition(":")[2]: path for name, path in maps.items() if name.partition(":")[0] == key}
        images = _read(DATASETS[key], files[key], own)
        said = list(images.notes)
        frame = _with_patients(images, said)
        unlabelled(frame, frame["label"].is_null(), key, plan.drop_unlabelled, said)
        answers = dict(enumerate(recipe.label_maps[key]))
        answer = pl.col("label").replace_strict(answers, default=None, return_dtype=pl.Int64)
        left = int(frame.select(pl.col("label").is_not_null() & answer.is_null()).to_series().sum())
        if left:
            said.append(f"{left} images of classes that the task has not are left out")
        frames.append(_renamed(frame.with_columns(answer), key, recipe.shared, bool(recipe.external)))
        notes += [f"{key}: {note}" for note in said]
        if images.unavailable:
            unavailable.append(f"{key}: {images.unavailable}")
        if key == recipe.development:
            unit = images.unit
    _overlapping(recipe, dict(zip(keys, frames, strict=True)))
    frame = _tied(pl.concat(frames, how="diagonal")).filter(pl.col("label").is_not_null())
    subgroups = _subgroups(plan, frame, recipe.key)
    dealt = frame.select(name for name in frame.columns if name in frames[0].columns)  # external images are not
    need_columns(dealt, plan.columns.stratify, Path(recipe.development))
    frame = _stratified(plan, frame)
    kind: Kind = "binary" if len(recipe.classes) == 2 else "multiclass"
    notes += [f"warning: {text}" for text in recipe.warnings if recipe.mended.get(text) not in maps]
    images = Images(frame, tuple(notes), unit, "; ".join(unavailable))
    return Gathered(images, kind, recipe.classes, "image", subgroups)


def _fitting(recipe: "Recipe", keys: Sequence[str], files: Files, maps: Mapping[str, Path]) -> None:
    """SplitError where files or maps are missing, or belong to no data set of the recipe."""
    missing, extra = [key for key in keys if not files.get(key)], sorted(set(files) - set(keys))
    if missing or extra:
        wrong = (
            f"no file of {', '.join(missing)}"
            if missing
            else f"{extra[0] or 'a file without a name'} is not part of it"
        )
        raise SplitError(f"{recipe.key}: {wrong}; give {' '.join(f'{key}=FILE' for key in keys)}")
    stray = sorted(name for name in maps if name.partition(":")[0] not in keys)
    if stray:
        raise SplitError(f"{stray[0]!r} names no data set of {recipe.key}; write --map DATASET:NAME=FILE")
    without = [name for name in recipe.patient_maps if name not in maps]
    if without and len(without) < len(recipe.patient_maps):
        given = ", ".join(name for name in recipe.patient_maps if name in maps)
        raise SplitError(
            f"{recipe.key}: with {given} alone, patients of one data set are not known as those of the other, so a "
            f"patient could be on both sides; add {' '.join(f'--map {name}=FILE' for name in without)}"
        )


def _overlapping(recipe: "Recipe", frames: Mapping[str, pl.DataFrame]) -> None:
    """SplitError where the sets that are known to share images share no file name: under other names nothing ties."""
    for key in recipe.shared[1:]:
        first = recipe.shared[0]
        if not frames[key]["group_2"].is_in(frames[first]["group_2"].unique().to_list()).any():
            raise SplitError(
                f"{recipe.key}: {first} and {key} share images, and no file name of these files is the same, so "
                f"nothing keeps them apart; wanted the names of the release in both, of the form {recipe.shared_name}"
            )


def _renamed(frame: pl.DataFrame, key: str, shared: Sequence[str], several: bool) -> pl.DataFrame:
    """Names that several data sets can have side by side; images of ``shared`` sets are tied by their file names."""
    prefix, nothing = pl.lit(f"{key}/"), pl.lit(None, pl.String)
    patient = pl.col("patient") if key in shared else pl.concat_str(prefix, "patient")
    stem = pl.col("image").str.split("/").list.last().str.replace(r"\.[A-Za-z]+$", "").str.to_lowercase()
    ties = {"group_0": pl.concat_str(prefix, "group") if "group" in frame.columns else nothing}
    ties["group_1"] = pl.concat_str(prefix, "group_1") if "group_1" in frame.columns else nothing
    ties["group_2"] = stem if key in shared else nothing
    ties["group_3"] = patient  # they tie also where another set's patients are unavailable
    site = pl.lit(key) if several else pl.col("site")
    return frame.with_columns(patient=patient, image=pl.concat_str(prefix, "image"), site=site, **ties).drop(
        "group", "published", strict=False
    )


def _tied(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with ``group_0``, whatever its groups tie together, in place of them.

    It is made before images without a label are left out: they tie others (one eye of an exam is graded, the other,
    which is in two data sets, is not).
    """
    groups = [f"group_{place}" for place in range(4)]
    units = units_of(frame["image"], [coded(frame[name]) for name in groups])
    return frame.drop(groups).with_columns(group_0=pl.Series(units).cast(pl.String))
