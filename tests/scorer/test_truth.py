"""The host's side of a hosted task: every fault in it is named to the host before a submission is looked at."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from protocol import EDITION
from protocol.canonical import sha256_hex
from protocol.task import Task
from protocol.types import Kind
from scorer.host_task import HostError
from scorer.intake import NULL
from scorer.truth import hosted_task, read_truth
from submission.writing import to_yaml
from tests.hosted import publish, small

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


def task_of(kind: Kind = "binary", **changes: object) -> Task:
    """A hosted task."""
    classes = ("a", "b") if kind == "binary" else ("a", "b", "c")
    digest = "0" * 64
    fields = {"edition": EDITION, "name": "t", "kind": kind, "classes": classes, "truth_sha256": digest}
    return Task(**{**fields, "splits_sha256": digest, **changes})  # type: ignore[arg-type]


def kept(frame: pl.DataFrame, folder: Path, kind: Kind = "binary") -> tuple[Path, Task]:
    """``frame`` as the truth of a task that names its digest."""
    path = folder / "truth.parquet"
    frame.write_parquet(path)
    return path, task_of(kind, truth_sha256=sha256_hex(path.read_bytes()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_truth_of_host_init_is_read_back(kind: Kind, tmp_path: Path) -> None:
    draft = small(kind)
    made = publish(draft, tmp_path / "host")
    task = hosted_task(made.truth)
    assert task == made.task
    truth = read_truth(made.truth, task)
    hidden = draft.splits.filter(pl.col("split").is_in(["test", "external"])).sort("image_id")
    assert truth.image_id.tolist() == hidden["image_id"].to_list()
    assert truth.labels.tolist() == [list(row) for row in hidden.select(task.label_columns).fill_null(NULL).rows()]


def test_further_columns_are_subgroups(tmp_path: Path) -> None:
    frame = pl.DataFrame({"image_id": ["b", "a"], "label": [0, 1], "scar": ["yes", None]})
    truth = read_truth(*kept(frame, tmp_path))
    assert truth.subgroups["scar"].tolist() == ["", "yes"]
    assert truth.labels.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("name", "levels", "said"),
    [
        ("site", ["a", "b"], "site is a name of the protocol's own"),
        ("label_1", ["0", "1"], "label_1 is a name of the protocol's own"),
        ("../scar", ["yes", "no"], "String should match pattern"),
        ("scar", ["", None], "it holds no level"),
        ("scar", ["yes", "x" * 101], "String should have at most 100 characters"),
    ],
)
def test_a_further_column_that_can_not_be_a_subgroup(
    name: str, levels: list[str | None], said: str, tmp_path: Path
) -> None:
    """It would stop every submission after the labels were joined, and none before."""
    frame = pl.DataFrame({"image_id": ["b", "a"], "label": [0, 1], name: levels})
    with pytest.raises(HostError, match=re.escape(f"{name} can't be a subgroup, as further columns are: {said}")):
        read_truth(*kept(frame, tmp_path))


ROWS = {"image_id": ["a", "b", "c"], "label": [0, 1, 1]}


@pytest.mark.parametrize(
    ("frame", "kind", "said"),
    [
        (ROWS | {"label": [0, 1, None]}, "binary", "label: 1 labels are null"),
        (ROWS | {"label": [0, 2, -1]}, "binary", "label: 2 labels outside 0 to 1"),
        (ROWS | {"label": [0.0, 1.0, 0.5]}, "binary", "label: double, wanted whole numbers"),
        (ROWS | {"label": ["x", "y", "z"]}, "binary", "wanted whole numbers"),
        (ROWS | {"image_id": ["a", "b", "a"]}, "binary", "1 image ids stand twice"),
        (ROWS | {"image_id": ["a", "b", None]}, "binary", "wanted text without nulls"),
        (ROWS | {"image_id": [1, 2, 3]}, "binary", "wanted text without nulls"),
        ({"image_id": ["a"]}, "binary", "wanted one column each of label"),
        ({"image_id": [], "label": []}, "binary", "0 rows"),
        (ROWS, "multilabel", "wanted one column each of label_0, label_1, label_2"),
        (
            {"image_id": ["a"], "label_0": [None], "label_1": [2], "label_2": [0]},
            "multilabel",
            "label_1: 1 labels",
        ),
    ],
)
def test_a_bad_truth_is_named(frame: dict[str, list[object]], kind: Kind, said: str, tmp_path: Path) -> None:
    with pytest.raises(HostError, match=said):
        read_truth(*kept(pl.DataFrame(frame), tmp_path, kind))


def test_another_truth_than_the_published_one(tmp_path: Path) -> None:
    path, task = kept(pl.DataFrame(ROWS), tmp_path)
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(HostError, match="the task names"):
        read_truth(path, task)


def test_no_parquet_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "truth.parquet"
    path.write_bytes(b"image_id,label\n")
    with pytest.raises(HostError, match="no readable Parquet"):
        read_truth(path, task_of(truth_sha256=sha256_hex(b"image_id,label\n")))
    with pytest.raises(HostError, match="can't be read"):
        read_truth(tmp_path / "gone.parquet", task_of())
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(HostError, match="no plain file"):
        read_truth(tmp_path / "pipe", task_of())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda task: task.update(truth_sha256=None), "not hosted"),
        (lambda task: task.update(splits_sha256=None), "anyone could bring a split file"),
        (lambda task: task.update(edition="2020.1"), "edition 2020.1"),
        (lambda task: task.update(kind="ternary"), "task.yaml: kind"),
    ],
)
def test_a_task_that_is_not_a_hosts(change: Callable[[dict[str, object]], None], said: str, tmp_path: Path) -> None:
    document = task_of().model_dump(mode="json")
    change(document)
    (tmp_path / "task.yaml").write_bytes(to_yaml(document))
    with pytest.raises(HostError, match=said):
        hosted_task(tmp_path / "truth.parquet")


def test_no_task_is_found(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="give --task"):
        hosted_task(tmp_path / "private" / "truth.parquet")
