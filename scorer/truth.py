"""The host's side of a hosted task: its task file, its hidden labels, and joining these to an accepted bundle.

Everything here is read and checked before a submission is looked at; what is wrong is the host's to mend.
"""

import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from protocol import EDITION
from protocol.canonical import sha256_hex
from protocol.findings import plain
from protocol.task import Subgroup, Task, no_subgroup
from protocol.types import EVALUATED
from scorer.check import Examination
from scorer.host_task import HostError, read_task
from scorer.intake import NULL
from scorer.intake.jail import Arrays
from scorer.warehouse import Warehouse
from submission.bundle import TASK_FILE

MAX_TRUTH = 4 << 30


@dataclass(frozen=True)
class Truth:
    """The hidden labels: ``labels`` (N, label columns), :data:`scorer.intake.NULL` where a finding is not labelled.

    ``image_id`` (N,) is sorted; ``subgroups`` maps a further column to the level of each image, '' where it is not
    known.
    """

    image_id: NDArray[np.str_]
    labels: NDArray[np.int64]
    subgroups: Mapping[str, NDArray[np.str_]]


def hosted_task(truth: Path, task: Path | None = None) -> Task:
    """The host's task: ``task``, else task.yaml beside ``truth``, else that of the folder ``public`` beside its folder.

    Raises HostError where there is none, where it is no hosted task of this edition, or names no split file.
    """
    home = truth.resolve().parent
    places = [task] if task is not None else [home / TASK_FILE, home.parent / "public" / TASK_FILE]
    place = next((path for path in places if path.is_file()), None)
    if place is None:
        raise HostError(f"no task file at {' or '.join(map(str, places))}; give --task task.yaml")
    try:
        found = read_task(place)
    except OSError as error:
        raise HostError(f"{place} can't be read ({error.strerror})") from None
    wrong = []
    if found.edition != EDITION:
        wrong.append(f"{place}: edition {found.edition}, this scorer knows {EDITION}")
    if found.truth_sha256 is None:
        wrong.append(f"{place}: no truth_sha256, so the task is not hosted; mvc host init writes one that is")
    if found.splits_sha256 is None:
        wrong.append(f"{place}: no splits_sha256, so that anyone could bring a split file; mvc host init writes it")
    if wrong:
        raise HostError(*wrong)
    return found


def read_truth(path: Path, task: Task) -> Truth:
    """The hidden labels of ``task``, read once and compared with the digest that the task names.

    Raises HostError with every problem: another digest, no Parquet, missing columns, doubled images, labels that are
    null (but of a multilabel task), no whole numbers or outside the classes.
    """
    data = _bytes(path)
    if sha256_hex(data) != task.truth_sha256:
        mend = "truth and task must come from the same mvc host init: copy both again"
        raise HostError(f"{path}: digest {sha256_hex(data)}, the task names {task.truth_sha256}; {mend}")
    try:
        table = pq.ParquetFile(io.BytesIO(data)).read()
        table.validate(full=True)
    except (pa.ArrowException, OSError) as error:
        raise HostError(f"{path}: no readable Parquet ({plain((str(error).splitlines() or ['damaged'])[0])})") from None
    asked = dict.fromkeys(("image_id", *task.label_columns, *table.column_names))
    missing = [name for name in asked if table.column_names.count(name) != 1]
    if missing or table.num_rows == 0:
        wanted = plain(", ".join(missing)) or "all"
        raise HostError(f"{path}: {table.num_rows} rows; wanted one column each of {wanted}")
    problems: list[str] = []
    ids = table.column("image_id").to_pylist()
    if not all(isinstance(value, str) for value in ids):
        raise HostError(f"{path}: image_id is {table.schema.field('image_id').type}, wanted text without nulls")
    if len(set(ids)) != len(ids):
        problems.append(f"{path}: {len(ids) - len(set(ids))} image ids stand twice")
    labels = np.empty((len(ids), len(task.label_columns)), dtype=np.int64)
    for place, name in enumerate(task.label_columns):
        labels[:, place], wrong = _labels(table.column(name), task)
        problems += [f"{path}: {name}: {text}" for text in wrong]
    order = np.argsort(np.array(ids), kind="stable")
    subgroups = {}
    for name in table.column_names:
        if name in ("image_id", *task.label_columns):
            continue
        levels = np.array(["" if value is None else str(value) for value in table.column(name).to_pylist()])
        if unfit := no_subgroup(name, _levels(levels)):
            problems.append(f"{path}: {plain(name, 40)} can't be a subgroup, as further columns are: {plain(unfit)}")
        subgroups[name] = levels[order]
    if problems:
        raise HostError(*problems)
    return Truth(np.array(ids)[order], labels[order], subgroups)


def _levels(column: NDArray[np.str_]) -> tuple[str, ...]:
    """The known levels of a subgroup column, in order."""
    return tuple(sorted(set(column.tolist()) - {""}))


def _labels(column: pa.ChunkedArray, task: Task) -> tuple[NDArray[np.int64], list[str]]:
    """A label column as integers, NULL where null, and what is wrong with it."""
    nothing = np.full(len(column), NULL, dtype=np.int64)
    try:
        whole = column.cast(pa.int64())
    except (pa.ArrowException, NotImplementedError):
        return nothing, [f"{column.type}, wanted whole numbers"]
    null = np.asarray(whole.is_null().to_numpy())
    values = np.asarray(whole.fill_null(NULL).to_numpy())
    top = 1 if task.kind == "multilabel" else len(task.classes) - 1
    wrong = []
    if null.any() and task.kind != "multilabel":
        wrong.append(f"{int(null.sum())} labels are null")
    outside = ~null & ((values < 0) | (values > top))
    if outside.any():
        wrong.append(f"{int(outside.sum())} labels outside 0 to {top}")
    return values, wrong


def not_covered(examination: Examination, truth: Truth) -> tuple[str, ...]:
    """What speaks against the truth's being that of the split file: missing and unknown images, by number.

    An accepted bundle has the host's own split file, so this is the host's fault whatever was submitted.
    """
    assert examination.intake.splits is not None
    evaluated = set(_ids(examination.intake.splits)[_evaluated(examination.intake.splits)].tolist())
    have = set(truth.image_id.tolist())
    counts = (
        (len(evaluated - have), "test and external images of the split file are not in the truth"),
        (len(have - evaluated), "images of the truth are not test or external images of the split file"),
    )
    return tuple(f"{n} {text}" for n, text in counts if n)


@contextlib.contextmanager
def joined(examination: Examination, truth: Truth) -> Iterator[Examination]:
    """An accepted bundle as if its split file carried the hidden labels and subgroups; for the host's eyes only.

    It has a warehouse of its own: the tables in which the bundle was judged never see a label.
    """
    task, record = examination.records
    intake = examination.intake
    assert intake.splits is not None
    with tempfile.TemporaryDirectory(prefix="mvc-") as scratch:
        folders = [Path(scratch, name) for name in ("arrays", "spill")]
        for folder in folders:
            folder.mkdir()
        rest = {name: levels for name, levels in truth.subgroups.items() if name not in intake.splits.table.extras}
        splits = _with_labels(intake.splits, replace(truth, subgroups=rest), task, folders[0])
        hidden = tuple(Subgroup(column=name, levels=_levels(levels)) for name, levels in rest.items())
        shift = record.shift.model_copy(update={"subgroups": (*record.shift.subgroups, *hidden)})
        bundle = replace(examination.bundle, record=record.model_copy(update={"shift": shift}))
        with Warehouse(folders[1]) as warehouse:
            assert bundle.record is not None
            warehouse.load(task, bundle.record, splits, intake.predictions)
            yield replace(examination, bundle=bundle, intake=replace(intake, splits=splits), warehouse=warehouse)


def _with_labels(splits: Arrays, truth: Truth, task: Task, folder: Path) -> Arrays:
    """``splits`` again, in ``folder``, with labels and subgroups of ``truth`` in the rows of test and external."""
    changed = {f"{splits.name}.{name}.npy" for name in task.label_columns}
    for path in splits.folder.glob(f"{splits.name}.*"):
        if path.name not in changed:
            os.link(path, folder / path.name)
    rows = np.flatnonzero(_evaluated(splits))
    place = np.searchsorted(truth.image_id, _ids(splits)[rows])
    for k, name in enumerate(task.label_columns):
        labels = np.array(splits.column(name))
        labels[rows] = truth.labels[place, k]
        np.save(folder / f"{splits.name}.{name}.npy", labels, allow_pickle=False)
    for name, levels in truth.subgroups.items():
        distinct = _levels(levels)
        codes = np.full(splits.table.rows, -1, dtype=np.int32)
        known = levels[place] != ""
        codes[rows[known]] = np.searchsorted(np.array(distinct), levels[place][known])
        np.save(folder / f"{splits.name}.{name}.npy", codes, allow_pickle=False)
        (folder / f"{splits.name}.{name}.json").write_text(json.dumps(distinct), encoding="utf-8")
    table = replace(splits.table, extras=(*splits.table.extras, *truth.subgroups))
    return replace(splits, table=table, folder=folder, columns=(*splits.columns, *truth.subgroups))


def _ids(splits: Arrays) -> NDArray[np.str_]:
    ids: NDArray[np.str_] = np.array(splits.values("image_id"))[np.asarray(splits.column("image_id"))]
    return ids


def _evaluated(splits: Arrays) -> NDArray[np.bool_]:
    """The rows of test and external."""
    wanted = [code for code, name in enumerate(splits.values("split")) if name in EVALUATED]
    return np.isin(np.asarray(splits.column("split")), wanted)


def _bytes(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise HostError(f"{path} is no plain file")  # a pipe would keep us waiting
        if path.stat().st_size > MAX_TRUTH:
            raise HostError(f"{path}: more than {MAX_TRUTH} bytes")
        return path.read_bytes()
    except OSError as error:
        raise HostError(f"{path} can't be read ({error.strerror})") from None
