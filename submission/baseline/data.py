"""What a run reads: a split file with hashed identifiers, and for each of its images the file that holds it."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import TypeAdapter, ValidationError

from protocol import EDITION
from protocol.findings import plain
from protocol.submission import SplitsRecord
from protocol.tables import SPLITS_OPTIONAL, SPLITS_TEXT
from protocol.task import Task
from protocol.types import EVALUATED, SPLIT_NAMES, SplitName
from splits.plan import SplitRecord
from splits.writing import BLOCK_FILE, PRIVATE, RECORD_FILE, SALT_FILE
from submission.baseline.errors import BaselineError
from submission.baseline.matching import Found, find_files, images_namespace
from submission.bundle import TASK_FILE
from submission.files import sha256_file
from submission.yaml_io import MAX_BYTES, RecordError, load_yaml, parse_record

EXAMPLES = 3  # of missing images, in a message
KNOWN = frozenset({*SPLITS_TEXT, *SPLITS_OPTIONAL, "label"})  # columns that are no subgroup
PREDICTED: tuple[SplitName, ...] = ("calib", "test", "external")


@dataclass(frozen=True)
class Picture:
    """An image of the split file, and the file that holds it."""

    image_id: str
    path: Path


@dataclass(frozen=True)
class Pool:
    """A split, its task and its images.

    ``splits`` has one row an image in order of ``image_id``: the columns of the split file, ``label`` as Int64 (null
    where unknown). ``task`` is the given one (``task_file`` its bytes) or a draft for an open task (None). ``record``
    is the ``split.json`` beside the file, ``described`` and ``shift`` the blocks of the ``submission-splits.yaml``
    there, where there are any. ``images`` is the folder, ``found`` what lies in it.
    """

    file: Path
    sha256: str
    splits: pl.DataFrame
    task: Task
    task_file: bytes | None
    record: SplitRecord | None
    described: SplitsRecord | None
    shift: Mapping[str, Any]
    images: Path
    found: Found

    def part(self, *splits: SplitName) -> pl.DataFrame:
        """The rows of ``splits``, in order of image_id."""
        return self.splits.filter(pl.col("split").is_in(splits))

    @property
    def evaluated(self) -> pl.DataFrame:
        """The rows that get predictions: calib, test and external, in order of image_id."""
        return self.part(*PREDICTED)

    @property
    def subgroups(self) -> list[dict[str, Any]]:
        """Each subgroup column with its levels: the task's, else those of test."""
        fixed = {group.column: list(group.levels) for group in self.task.subgroups}
        test = self.part("test")
        return [
            {"column": name, "levels": fixed.get(name) or _levels(test, name)}
            for name in self.splits.columns
            if name not in KNOWN
        ]

    def pictures(self, image_ids: Iterable[str]) -> tuple[Picture, ...]:
        """The files of ``image_ids``, in their order.

        Raises BaselineError: how many of which split have no file or several, with examples.
        """
        wanted = list(image_ids)
        missing = [image for image in wanted if image not in self.found.paths]
        if missing:
            raise BaselineError(self._lacking(missing, len(wanted)))
        return tuple(Picture(image, self.found.paths[image]) for image in wanted)

    def labels(self, image_ids: Sequence[str]) -> NDArray[np.int64]:
        """Labels (N,) of ``image_ids``, in their order; BaselineError where one is not known."""
        known = dict(self.splits.select("image_id", "label").iter_rows())
        labels = [known[image] for image in image_ids]
        if None in labels:
            raise BaselineError(f"{self.file.name}: image {image_ids[labels.index(None)]} has no label")
        return np.array(labels, dtype=np.int64)

    def _lacking(self, missing: Sequence[str], wanted: int) -> str:
        """How many of which split are missing, which, and what to do."""
        of = dict(self.splits.select("image_id", "split").iter_rows())
        counts = {name: sum(of[image] == name for image in missing) for name in SPLIT_NAMES}
        by_split = ", ".join(f"{count} of {name}" for name, count in counts.items() if count)
        several = [image for image in missing if image in self.found.several]
        if several:
            first = several[0]
            places = " and ".join(
                plain(path.relative_to(self.images).as_posix(), 80) for path in self.found.several[first]
            )
            return (
                f"--images {self.images}: {len(several)} of {wanted} images lie in more than one file, such as "
                f"{self._called(first)} in {places}; keep one file an image"
            )
        shown = ", ".join(self._called(image) for image in missing[:EXAMPLES])
        lacking = f"{len(missing)} of {wanted} images have no file there ({by_split})"
        said = f"--images {self.images}: {lacking}, such as {shown}"
        if self.found.names and len(missing) == wanted:
            return f"{said}; {self.found.seen} files were looked at: is it another folder?"
        if self.found.names:
            return f"{said}; put them there under these names, in the same folders or in one"
        if self.found.salted:
            return (
                f"{said}; each file must have the name that the image had in the table of the split (with its folders "
                f"or without, with or without its ending), or that image_id; {self.found.seen} files were looked at"
            )
        if not self.found.seen:
            return f"{said}; no file lies there at all (links to folders are not followed)"
        return (
            f"{said}; without the salt and namespace of the split only files named by image_id can be found: give "
            f"--salt-file FILE (of private/), with split.json beside {self.file.name}, or rename the files"
        )

    def _called(self, image: str) -> str:
        return f"{plain(self.found.names[image], 80)!r}" if image in self.found.names else f"{image[:12]}…"


def read_pool(
    splits: Path, images: Path, *, task: Path | None = None, salt: Path | None = None, classes: Sequence[str] = ()
) -> Pool:
    """The split in the file ``splits`` and its images below the folder ``images``.

    ``task`` None: the task.yaml beside the split file, else a draft of an open task with the classes of split.json, or
    ``classes``. ``salt`` None: the salt in ``../private`` beside the folder of the split file, where there is one.
    Raises BaselineError for what is missing or doesn't fit, an empty calib or test split among it.
    """
    if not images.is_dir():
        raise BaselineError(f"--images {images} is no folder; give the one that holds the image files")
    frame = _read_splits(splits)
    record = _read_record(splits.parent / RECORD_FILE)
    described, shift = _read_blocks(splits.parent / BLOCK_FILE)
    digest = sha256_file(splits)
    beside = splits.parent / TASK_FILE
    chosen = task or (beside if beside.is_file() else None)
    made, task_file = _read_task(chosen) if chosen else (_draft(record, classes), None)
    if made.kind == "multilabel":
        raise BaselineError(f"the task {made.name} is multilabel; the baseline is for one class an image")
    if made.splits_sha256 not in (None, digest):
        raise BaselineError(
            f"{splits}: its SHA-256 is {digest}, the task {made.name} names {made.splits_sha256}; take the split file "
            "that the task was published with"
        )
    _same_order(classes, made, "the configuration")
    _same_order(record.classes if record else (), made, RECORD_FILE)
    _labels_fit(frame, made, splits)
    _parts_there(frame, made, splits)
    _levels_tested(frame, splits)
    kept = splits.resolve().parent.parent / PRIVATE / SALT_FILE
    hashing = described.hash if described else None
    namespace = record.plan.namespace if record else hashing.namespace if hashing else None
    found = find_files(
        frame["image_id"],
        images,
        salt=salt or (kept if kept.is_file() else None),
        namespace=None if namespace is None else images_namespace(namespace),
        check=record.salt_check if record else None,
    )
    return Pool(splits, digest, frame, made, task_file, record, described, shift, images, found)


def _read_splits(path: Path) -> pl.DataFrame:
    """The split file, checked for what the baseline needs, sorted by image_id."""
    if not path.is_file():
        raise BaselineError(f"--splits {path}: no such file; mvc split make writes one")
    try:
        frame = parquet(path)
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        said = plain(str(error).partition("\n")[0], 120)
        raise BaselineError(f"--splits {path} can't be read as Parquet ({said}); mvc split make writes one") from None
    if any(re.fullmatch(r"label_\d+", name) for name in frame.columns):
        raise BaselineError(f"{path} holds findings (label_0 ...); the baseline is for one class an image")
    missing = [name for name in ("image_id", "patient_id", "split", "site", "label") if name not in frame.columns]
    if missing:
        raise BaselineError(f"{path} has no column {', '.join(missing)}; wanted the splits.parquet of mvc split make")
    nested = [name for name, kind in frame.schema.items() if kind.is_nested() or kind == pl.Binary]
    if nested:
        raise BaselineError(
            f"{path}: column {plain(nested[0], 60)} holds {frame.schema[nested[0]]}; wanted the splits.parquet of mvc "
            "split make"
        )
    label = frame["label"].cast(pl.Int64, strict=False)
    if label.null_count() > frame["label"].null_count() or frame["label"].dtype.is_float():
        raise BaselineError(
            f"{path}: column label holds {frame['label'].dtype}; wanted the class index from 0, or null"
        )
    frame = frame.with_columns(
        label, *(pl.col(name).cast(pl.String) for name in ("image_id", "patient_id", "split", "site"))
    )
    for name in ("image_id", "split", "site"):
        if frame[name].null_count():
            raise BaselineError(f"{path}: column {name} is empty in {frame[name].null_count()} rows")
    odd = sorted(set(frame["split"].unique()) - set(SPLIT_NAMES))
    if odd:
        raise BaselineError(f"{path}: split {plain(odd[0], 60)!r}; there are {', '.join(SPLIT_NAMES)}")
    twice = frame.filter(frame["image_id"].is_duplicated())["image_id"]
    if len(twice):
        raise BaselineError(
            f"{path}: {twice.n_unique()} images are listed twice, such as {plain(twice[0], 80)}; keep one row an image"
        )
    return frame.sort("image_id")


def parquet(path: Path) -> pl.DataFrame:
    """The table in ``path``, whose name may hold any letters; OSError, ValueError or PolarsError where it is none."""
    try:
        return pl.read_parquet(path, glob=False, hive_partitioning=False)
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what polars makes of some damaged files is no Exception
            raise
        raise ValueError("damaged") from None


def _same_order(names: Sequence[str], task: Task, where: str) -> None:
    """BaselineError where ``names`` are the task's classes in another order: labels would mean other classes."""
    own, given = ([plain(name.casefold(), 60) for name in some] for some in (task.classes, names))
    if own != given and sorted(own) == sorted(given):
        raise BaselineError(
            f"classes of {where}: {', '.join(given)}; the task {task.name} has them in the order {', '.join(own)}, and "
            "labels count in that order: write them so"
        )


def _labels_fit(frame: pl.DataFrame, task: Task, path: Path) -> None:
    outside = frame.filter(~pl.col("label").is_between(0, len(task.classes) - 1))
    if outside.height:
        raise BaselineError(
            f"{path}: {outside.height} labels such as {outside['label'][0]} are none of the {len(task.classes)} "
            f"classes ({plain(', '.join(task.classes), 120)}); classes are counted from 0"
        )


def _parts_there(frame: pl.DataFrame, task: Task, path: Path) -> None:
    """BaselineError where calib or test is empty, or a label unknown that is needed: said before hours of training."""
    counts = dict(frame["split"].value_counts().iter_rows())
    if not counts.get("calib"):
        folds = " (folds for cross-fitting are not used by the baseline)" if "fold" in frame.columns else ""
        raise BaselineError(
            f"{path}: no row of split calib, and calibrators are fitted on it{folds}; make the split anew with a share "
            "for it (mvc split make --proportions)"
        )
    if not counts.get("test"):
        raise BaselineError(f"{path}: no row of split test, so there is nothing to evaluate; give it a share")
    unknown = frame.filter((pl.col("split") == "calib") & pl.col("label").is_null()).height
    if unknown:
        raise BaselineError(f"{path}: {unknown} rows of calib have no label; calibrators can't be fitted without")
    hidden = frame.filter(pl.col("split").is_in(EVALUATED) & pl.col("label").is_null()).height
    if hidden and not task.hosted:
        raise BaselineError(
            f"{path}: {hidden} rows of test and external have no label, and the task {task.name} is not hosted; give "
            "the host's --task task.yaml, or a split file with labels"
        )


def _levels_tested(frame: pl.DataFrame, path: Path) -> None:
    """BaselineError where a subgroup of an external site is none of test: no record can declare it (MVC603)."""
    for name in [column for column in frame.columns if column not in KNOWN]:
        tested = _levels(frame.filter(pl.col("split") == "test"), name)
        outside = _levels(frame.filter(pl.col("split") == "external"), name)
        only = [repr(plain(level, 60)) for level in outside if level not in tested]
        if only or not tested:
            raise BaselineError(
                f"{path}: subgroup {plain(name, 60)}: test has not {only[0] if only else 'one level'}, and then a "
                "submission is refused (MVC603); make the split without this subgroup, or with broader levels"
            )


def _levels(frame: pl.DataFrame, column: str) -> list[str]:
    """The levels of a subgroup column, sorted."""
    return list(frame[column].cast(pl.String).drop_nulls().unique().sort())


def _read_task(path: Path) -> tuple[Task, bytes]:
    data = _bytes(path)
    found, problems = parse_record(TypeAdapter(Task), data, str(path))
    if found is None:
        raise BaselineError("; ".join(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems))
    return found, data


def _draft(record: SplitRecord | None, classes: Sequence[str]) -> Task:
    """A task for a split that has none; what nobody wrote down is left to be replaced, as ``mvc init`` leaves it."""
    names = tuple(record.classes if record else classes)
    if len(names) < 2:
        raise BaselineError(
            "the names of the classes are not known: give --task task.yaml, keep split.json beside the split file, or "
            "write classes into the configuration"
        )
    plan = record.plan if record else None
    name = re.sub(r"[^A-Za-z0-9._+-]+", "-", (plan.recipe or plan.dataset or plan.namespace) if plan else "").strip(
        "-._+"
    )
    document = {
        "edition": EDITION,
        "name": name[:100] or "baseline-task",
        "kind": record.kind if record else "binary" if len(names) == 2 else "multiclass",
        "target": "EXAMPLE: what is to be predicted, in a sentence",
        "label_source": "EXAMPLE: who or what gave the labels",
        "label_definition": "EXAMPLE: when an image counts as positive, or how the classes are told apart",
        "classes": names,
    }
    try:
        return Task.model_validate(document)
    except ValidationError as error:
        said = error.errors()[0]["msg"].removeprefix("Value error, ")
        raise BaselineError(f"classes {plain(', '.join(names), 120)}: {said}; give --task task.yaml") from None


def _read_record(path: Path) -> SplitRecord | None:
    if not path.is_file():
        return None
    try:
        return SplitRecord.model_validate_json(_bytes(path))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise BaselineError(
            f"{path}: {plain(where, 80)}: {plain(first['msg'], 120)}; take the split.json that mvc split make wrote"
        ) from None


def _read_blocks(path: Path) -> tuple[SplitsRecord | None, Mapping[str, Any]]:
    """The blocks ``splits`` and ``shift`` of a submission.yaml that the split fixes; the second as it was written."""
    if not path.is_file():
        return None, {}
    try:
        document = load_yaml(_bytes(path).decode())
        if not isinstance(document, dict) or not set(document) <= {"splits", "shift"} or "splits" not in document:
            raise BaselineError(f"{path}: wanted the blocks splits and shift that mvc split make wrote")
        splits = SplitsRecord.model_validate_json(json.dumps(document["splits"]))
    except (RecordError, ValidationError, UnicodeDecodeError) as error:
        said = plain(str(error).partition("\n")[0], 200)
        raise BaselineError(f"{path}: {said}; take the file that mvc split make wrote, or remove it") from None
    shift = document.get("shift", {})
    if not isinstance(shift, dict) or not set(shift) <= {"external", "subgroups"}:
        raise BaselineError(f"{path}: shift holds {plain(str(shift), 80)}; wanted external and subgroups")
    return splits, shift


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as source:
            data = source.read(MAX_BYTES + 1)
    except OSError as error:
        raise BaselineError(f"{path} can't be read ({error.strerror})") from None
    if len(data) > MAX_BYTES:
        raise BaselineError(f"{path} has more than {MAX_BYTES} bytes; it should be a short text")
    return data
