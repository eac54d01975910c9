"""EyePACS: the patient before _left and _right, copies of an eye, two lists and a Usage."""

from pathlib import Path

import pytest

from splits.datasets.eyepacs import EYEPACS
from splits.errors import SplitError
from tests.splits.datasets.real import released

BLOODAXE = "BloodAxe+Kaggle-2019-Blindness-Detection"


def test_both_lists(tmp_path: Path) -> None:
    (tmp_path / "trainLabels.csv").write_text("image,level\n99010_left,0\n99010_right,3\n", encoding="utf-8")
    (tmp_path / "testLabels.csv").write_bytes(b"image,level,Usage\r\n99001_left,0,Private\r\n99001_right,4,Private\r\n")
    images = EYEPACS.read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["99010_left", "99010_right", "99001_left", "99001_right"],
        "patient": ["99010", "99010", "99001", "99001"],
        "site": ["eyepacs"] * 4,
        "published": ["train", "train", "Private", "Private"],
        "label": [0, 3, 0, 4],
        "eye": ["left", "right", "left", "right"],
    }
    assert (images.unit, images.unavailable, images.notes) == ("patient", "", ())


def test_other_column_names_and_a_name_that_tells_no_split(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("id_code,diagnosis\n99010_left,0\n", encoding="utf-8")
    assert EYEPACS.read([file], {}).frame.columns == ["image", "patient", "site", "label", "eye"]


def test_copies_share_the_patient_and_the_group_of_the_eye(tmp_path: Path) -> None:
    file = tmp_path / "trainLabels_master_256.csv"
    rows = [
        "99010_left.jpeg,0.0,99010_left.jpeg",
        "99010_left.jpeg,0.0,99010_left_mir.jpeg",
        "99010_right.jpeg,1.0,99010_right_90.jpeg",
    ]
    file.write_text("\n".join(["image,level,train_image_name", *rows, ""]), encoding="utf-8")
    images = EYEPACS.read([file], {})
    assert images.frame["image"].to_list() == ["99010_left.jpeg", "99010_left_mir.jpeg", "99010_right_90.jpeg"]
    assert images.frame["patient"].to_list() == ["99010", "99010", "99010"]
    assert images.frame["group"].to_list() == ["99010_left", "99010_left", "99010_right"]
    assert images.frame["label"].to_list() == [0, 0, 1]
    assert images.notes[0].startswith("2 of 3 images are mirrored or turned copies of an eye")


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("99010_left,0\n99010,1\n", r"'99010' is no EyePACS name \(1 such\)"),
        ("99010_left,0\n99010_left,1\n", "image '99010_left' comes 2 times with different label"),
        ("99010_left,no\n", "'no' is no label"),
    ],
)
def test_what_is_refused(tmp_path: Path, rows: str, said: str) -> None:
    file = tmp_path / "trainLabels.csv"
    file.write_text(f"image,level\n{rows}", encoding="utf-8")
    with pytest.raises(SplitError, match=said):
        EYEPACS.read([file], {})


def test_released_lists() -> None:
    files = [released(BLOODAXE, f"data/aptos-2015/{name}_labels.csv") for name in ("train", "test")]
    frame = EYEPACS.read(files, {}).frame
    parts = {str(name): part for (name,), part in frame.group_by("published")}
    assert {name: part.height for name, part in parts.items()} == {"train": 35126, "Public": 10906, "Private": 42670}
    assert frame["patient"].n_unique() == 17563 + 26788
    assert sum(part["patient"].n_unique() for part in parts.values()) == frame["patient"].n_unique()
    counts = parts["train"]["label"].value_counts().sort("label")["count"]
    assert counts.to_list() == [25810, 2443, 5292, 873, 708]


def test_released_list_with_copies() -> None:
    images = EYEPACS.read([released("gregwchase+eyenet", "labels/trainLabels_master_256_v2.csv")], {})
    assert (images.frame.height, images.frame["patient"].n_unique()) == (106386, 17383)
    assert images.notes[0].startswith("71663 of 106386 images are mirrored or turned copies")


def test_released_names_hold_a_patient(tmp_path: Path) -> None:
    grades = released("mikevoets+jama16-retina-replication", "vendor/eyepacs/eyepacs_gradability_grades.csv")
    names = [line.split()[0] for line in grades.read_text(encoding="utf-8").splitlines()[1:]]
    file = tmp_path / "labels.csv"
    file.write_text("image,level\n" + "".join(f"{name},\n" for name in names), encoding="utf-8")
    frame = EYEPACS.read([file], {}).frame
    assert (frame.height, frame["patient"].n_unique()) == (88702, 44351)
