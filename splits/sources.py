"""Where the images of a split come from: a metadata table, the files of a known data set, or those of a recipe."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import polars as pl

from protocol.types import Kind
from splits.datasets.base import DataSet, Images
from splits.errors import SplitError
from splits.metadata import Columns, Gathered, Reading, gather, unlabelled
from splits.plan import Plan, Source
from splits.reading import digest_of_file, need_columns, read_table

OWN = ("image", "patient", "group", "site", "label", "published")
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
    """The file and its digest; of a folder that of its list of files, since its content is the images."""
    if path.is_dir():
        names = sorted(str(file.relative_to(path).as_posix()) for file in path.rglob("*") if file.is_file())
        return Source(name=path.name, sha256=hashlib.sha256("\n".join(names).encode()).hexdigest(), role=role)
    return Source(name=path.name, sha256=digest_of_file(path), role=role)


def _of_dataset(dataset: DataSet, plan: Plan, files: Sequence[Path], maps: Mapping[str, Path]) -> Gathered:
    images = _read(dataset, files, maps)
    notes = list(images.notes)
    frame = _with_patients(images, notes)
    labels = [name for name in frame.columns if name == "label" or name.startswith("label_")]
    without = frame.select(pl.all_horizontal(pl.col(labels).is_null()))[labels[0]]
    frame = unlabelled(frame, without, dataset.key, plan.drop_unlabelled, notes)
    need_columns(frame, plan.columns.stratify, Path(dataset.key))
    subgroups = tuple(name for name in frame.columns if name not in OWN and not name.startswith("label_"))
    frame = frame.with_columns(pl.col(name).alias(f"stratify_{i}") for i, name in enumerate(plan.columns.stratify))
    frame = frame.rename({"group": "group_0"}) if "group" in frame.columns else frame
    kept = Images(frame.drop("published", strict=False), tuple(notes), images.unit, images.unavailable)
    return Gathered(kept, dataset.kind, dataset.classes, "image", subgroups)


def _read(dataset: DataSet, files: Sequence[Path], maps: Mapping[str, Path]) -> Images:
    unknown = sorted(set(maps) - set(dataset.maps))
    if unknown:
        known = ", ".join(dataset.maps) or "none"
        raise SplitError(f"{dataset.key} takes no map {unknown[0]!r}; its maps: {known}")
    return dataset.read(files, maps)


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
    frames, notes, unavailable, unit = [], [], [], DATASETS[recipe.development].unit
    for key in keys:
        own = {name.partition(":")[2]: path for name, path in maps.items() if name.partition(":")[0] == key}
        images = _read(DATASETS[key], files[key], own)
        said = list(images.notes)
        frame = _with_patients(images, said)
        frame = unlabelled(frame, frame["label"].is_null(), key, plan.drop_unlabelled, said)
        answers = dict(enumerate(recipe.label_maps[key]))
        frame = frame.with_columns(pl.col("label").replace_strict(answers, return_dtype=pl.Int64))
        left = frame["label"].null_count()
        if left:
            said.append(f"{left} images of classes that the task has not are left out")
        frames.append(_renamed(frame.filter(pl.col("label").is_not_null()), key, recipe.shared, bool(recipe.external)))
        notes += [f"{key}: {note}" for note in said]
        if images.unavailable:
            unavailable.append(f"{key}: {images.unavailable}")
        elif key == recipe.development:
            unit = images.unit
    frame = pl.concat(frames, how="diagonal")
    subgroups = tuple(name for name in frame.columns if name not in OWN and not name.startswith("group_"))
    kind: Kind = "binary" if len(recipe.classes) == 2 else "multiclass"
    notes += [f"warning: {text}" for text in recipe.warnings]
    images = Images(frame, tuple(notes), unit, "; ".join(unavailable))
    return Gathered(images, kind, recipe.classes, "image", subgroups)


def _renamed(frame: pl.DataFrame, key: str, shared: Sequence[str], several: bool) -> pl.DataFrame:
    """Names that several data sets can have side by side; images of ``shared`` sets are tied by their file names."""
    prefix = pl.lit(f"{key}/")
    patient = pl.col("patient") if key in shared else pl.concat_str(prefix, "patient")
    stem = pl.col("image").str.split("/").list.last().str.replace(r"\.[A-Za-z]+$", "").str.to_lowercase()
    ties = {"group_0": pl.concat_str(prefix, "group") if "group" in frame.columns else pl.lit(None, pl.String)}
    ties["group_1"] = stem if key in shared else pl.lit(None, pl.String)
    ties["group_2"] = patient  # they tie also where another set's patients are unavailable
    site = pl.lit(key) if several else pl.col("site")
    return frame.with_columns(patient=patient, image=pl.concat_str(prefix, "image"), site=site, **ties).drop(
        "group", "published", strict=False
    )
