"""MedMNIST: labels out of an .npz without its images, no identifiers."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.task import Task
from splits.datasets.medmnist import MEDMNIST
from splits.errors import SplitError
from tests.splits.datasets.real import released

SETS = {data_set.key: data_set for data_set in MEDMNIST}
SPLITS = ("train", "val", "test")


def packed(path: Path, labels: Mapping[str, NDArray[np.generic]], size: int = 2) -> Path:
    """An .npz as released: uint8 images (n, size, size) and uint8 labels (n, values) of each split."""
    arrays: dict[str, Any] = {f"{split}_labels": values for split, values in labels.items()}
    arrays |= {f"{split}_images": np.zeros((len(values), size, size), np.uint8) for split, values in labels.items()}
    np.savez_compressed(path, **arrays)
    return path


def some(*values: int) -> NDArray[np.uint8]:
    return np.array(values, np.uint8).reshape(-1, 1)


def test_there_are_twelve_and_each_makes_a_task() -> None:
    assert len(SETS) == 12
    assert {key: SETS[key].kind for key in SETS if SETS[key].kind != "multiclass"} == {
        "chestmnist": "multilabel",
        "pneumoniamnist": "binary",
        "breastmnist": "binary",
    }
    for key, data_set in SETS.items():
        Task(edition="e", name=key, kind=data_set.kind, classes=data_set.classes, ordinal=data_set.ordinal)
    assert SETS["dermamnist"].licence == "CC BY-NC 4.0"
    assert len(SETS["organamnist"].classes) == len(SETS["organsmnist"].classes) == 11


def test_labels_and_published_split(tmp_path: Path) -> None:
    packed(tmp_path / "pneumoniamnist.npz", {"train": some(1, 0), "val": some(1), "test": some(0)})
    images = SETS["pneumoniamnist"].read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["train_0", "train_1", "val_0", "test_0"],
        "patient": [None] * 4,
        "site": ["pneumoniamnist"] * 4,
        "published": ["train", "train", "val", "test"],
        "label": [1, 0, 1, 0],
    }
    assert images.unit == "image"
    assert "no identifiers" in images.unavailable
    assert images.notes[1] == ("train, val and test have 2, 1, 1 images, in the release 4,708, 524, 624: altered")


def test_several_findings(tmp_path: Path) -> None:
    labels = np.zeros((2, 14), np.uint8)
    labels[1, [0, 13]] = 1
    file = packed(tmp_path / "chestmnist_64.npz", {"train": labels, "val": labels[:1], "test": labels[1:]})
    frame = SETS["chestmnist"].read([file], {}).frame
    assert [frame[f"label_{k}"].to_list() for k in (0, 1, 13)] == [[0, 1, 0, 1], [0] * 4, [0, 1, 0, 1]]
    assert "label" not in frame.columns


def test_the_released_sizes_pass_without_a_note(tmp_path: Path) -> None:
    labels = {split: some(*[0, 1] * (n // 2)) for split, n in zip(SPLITS, (546, 78, 156), strict=True)}
    images = SETS["breastmnist"].read([packed(tmp_path / "breastmnist.npz", labels, 1)], {})
    assert images.frame.height == 780
    assert len(images.notes) == 1


@pytest.mark.parametrize(
    ("train", "said"),
    [
        (some(0, 8), "train_labels holds values outside 0 to 7; it is no BloodMNIST"),
        (np.zeros((1, 2), np.uint8), r"train_labels has the shape \(1, 2\), train_images has 1 images"),
        (np.zeros((1, 1)), "train_labels is no table of whole numbers"),
        (np.array([["a"]], object), "train_labels is no table of whole numbers"),
        (np.asfortranarray(np.zeros((2, 2), np.uint8)), "stored by columns"),
    ],
)
def test_what_is_refused(tmp_path: Path, train: NDArray[np.generic], said: str) -> None:
    file = packed(tmp_path / "set.npz", {"train": train, "val": some(0), "test": some(0)})
    with pytest.raises(SplitError, match=said):
        SETS["bloodmnist"].read([file], {})


def test_files_that_are_no_medmnist(tmp_path: Path) -> None:
    read = SETS["bloodmnist"].read
    with pytest.raises(SplitError, match="no such file"):
        read([tmp_path / "bloodmnist.npz"], {})
    file = tmp_path / "bloodmnist.npz"
    file.write_bytes(b"PK\x03\x04 not a zip")
    with pytest.raises(SplitError, match="can't be read"):
        read([file], {})
    packed(file, {"train": some(0), "val": some(0)})
    with pytest.raises(SplitError, match=r"an array is missing; wanted a MedMNIST \.npz with test_images"):
        read([file], {})
    with pytest.raises(SplitError, match=r"pathmnist\.npz is PathMNIST by its name; wanted bloodmnist\.npz"):
        read([tmp_path / "pathmnist.npz"], {})


def test_a_member_that_is_cut_off(tmp_path: Path) -> None:
    file = packed(tmp_path / "bloodmnist.npz", {split: some(*range(8)) for split in SPLITS})
    whole = bytearray(file.read_bytes())
    start = whole.index(b"train_labels.npy") + len("train_labels.npy")
    whole[start + 20 : start + 60] = bytes(40)
    file.write_bytes(whole)
    with pytest.raises(SplitError, match=r"bloodmnist\.npz can't be read"):
        SETS["bloodmnist"].read([file], {})


def test_labels_beyond_the_limit_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("splits.datasets.medmnist.LARGEST", 7)
    file = packed(tmp_path / "bloodmnist.npz", {split: some(*range(8)) for split in SPLITS})
    with pytest.raises(SplitError, match=r"train_labels\.npy has more than 7 bytes"):
        SETS["bloodmnist"].read([file], {})


def test_a_header_that_does_not_end(tmp_path: Path) -> None:
    file = packed(tmp_path / "bloodmnist.npz", {split: some(*range(8)) for split in SPLITS})
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["train_labels.npy"] = members["train_labels.npy"].replace(b"  \n", b" [\n")
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    with pytest.raises(SplitError, match=r"the header of train_labels\.npy is damaged"):
        SETS["bloodmnist"].read([file], {})


def test_a_header_that_promises_too_much(tmp_path: Path) -> None:
    file = tmp_path / "bloodmnist.npz"
    with zipfile.ZipFile(file, "w") as archive, archive.open("train_labels.npy", "w") as member:
        header = {"descr": "|u1", "fortran_order": False, "shape": (10**15, 1)}
        np.lib.format.write_array_header_1_0(member, header)
    with zipfile.ZipFile(file, "a") as archive, archive.open("train_images.npy", "w") as member:
        np.save(member, np.zeros((1, 2, 2), np.uint8))
    with pytest.raises(SplitError, match="train_labels is no table of whole numbers"):
        SETS["bloodmnist"].read([file], {})


def test_released_file_with_fewer_images() -> None:
    images = SETS["pneumoniamnist"].read([released("aksufatih+snn-medmnist", "pneumoniamnist.npz")], {})
    assert images.frame["label"].value_counts().sort("label")["count"].to_list() == [1583, 1583]
    assert "have 2,428, 270, 468 images" in images.notes[1]
