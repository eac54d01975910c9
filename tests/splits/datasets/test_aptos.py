"""APTOS 2019: no patients, copies with different grades."""

from pathlib import Path

import pytest

from splits.datasets.aptos import APTOS
from splits.errors import SplitError
from tests.splits.datasets.real import released

TRAIN = "id_code,diagnosis\n99990000000a,2\n99990000000b,4\n99990000000c,-100\n99990000000d,0\n"
COPIES = """,diagnosis,path,Size,Mode,Hash
1,4,../input/train_images/99990000000a.png,"(100, 100)",RGB,h1
2,2,../input/train_images/99990000000b.png,"(100, 100)",RGB,h1
"""


def test_labels_without_patients(tmp_path: Path) -> None:
    file = tmp_path / "train.csv"
    file.write_text(TRAIN, encoding="utf-8")
    images = APTOS.read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["99990000000a", "99990000000b", "99990000000c", "99990000000d"],
        "patient": [None] * 4,
        "site": ["aptos"] * 4,
        "label": [2, 4, None, 0],
    }
    assert images.unit == "image"
    assert "neither patient nor eye" in images.unavailable
    assert images.notes[0] == "1 of 4 images have no label"
    assert "duplicates are not known" in images.notes[1]


def test_copies_are_grouped_and_their_grades_are_the_label_files(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(TRAIN, encoding="utf-8")
    copies = tmp_path / "duplicated_info.csv"
    copies.write_text(COPIES, encoding="utf-8")
    images = APTOS.read([tmp_path], {"duplicates": copies})
    assert images.frame["group"].to_list() == ["h1", "h1", None, None]
    assert images.notes[1:] == (
        "1 of 1 duplicate groups (2 images) carry different labels",
        "duplicated_info.csv gives 2 of 2 images another diagnosis than the label file, which holds",
    )


def test_several_lists_are_published_splits(tmp_path: Path) -> None:
    files = [tmp_path / "train_1.csv", tmp_path / "valid.csv"]
    files[0].write_text("id_code,diagnosis\na,0\n", encoding="utf-8")
    files[1].write_text("id_code,diagnosis\nb,1\n", encoding="utf-8")
    assert APTOS.read(files, {}).frame["published"].to_list() == ["train_1", "valid"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id_code,label\na,0\n", "there is no column 'diagnosis'"),
        ("id_code,diagnosis\na,0\nb,5\n", "row 2, column 'diagnosis': '5' is no label"),
        ("id_code,diagnosis\na,0\na,1\n", "image 'a' comes 2 times with different label"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "train.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(SplitError, match=said):
        APTOS.read([file], {})


def test_an_unknown_map_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="there is no map 'pairs' for this data set; it takes duplicates"):
        APTOS.read([tmp_path], {"pairs": tmp_path})


def test_released_list() -> None:
    folder = "BloodAxe+Kaggle-2019-Blindness-Detection"
    train = released(folder, "data/aptos-2019/train.csv")
    images = APTOS.read([train], {"duplicates": released(folder, "data/aptos-2019/duplicated_info.csv")})
    counts = images.frame["label"].value_counts().sort("label")["count"]
    assert counts.to_list() == [1805, 370, 999, 193, 295]
    assert images.notes == (
        "37 of 143 duplicate groups (297 images) carry different labels",
        "duplicated_info.csv gives 231 of 297 images another diagnosis than the label file, which holds",
    )
