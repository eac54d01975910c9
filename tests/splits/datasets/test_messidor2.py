"""Messidor-2: empty grades, sites in names, exams from a list or from old names."""

from pathlib import Path

import pytest

from splits.datasets.messidor import MESSIDOR
from splits.datasets.messidor2 import MESSIDOR2
from splits.errors import SplitError
from tests.splits.datasets.real import released

BLOODAXE = "BloodAxe+Kaggle-2019-Blindness-Detection"
GRADES = """image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable
19990101_00001_0100_PP.png,0,0,1
19990101_00002_0100_PP.png,4,1,1
IM990001.jpg,1.0,0.0,1
IM990002.jpg,,,0
"""
PAIRS = "left;right\n19990101_00001_0100_PP.png;19990101_00002_0100_PP.png\nIM990001.JPG;IM990002.JPG\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "messidor_data.csv").write_text(GRADES, encoding="utf-8")
    (tmp_path / "messidor-2.csv").write_text(PAIRS, encoding="utf-8")
    return tmp_path


def test_without_pairs_nothing_is_known_of_exams(folder: Path) -> None:
    images = MESSIDOR2.read([folder], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["19990101_00001_0100_PP.png", "19990101_00002_0100_PP.png", "IM990001.jpg", "IM990002.jpg"],
        "patient": [None] * 4,
        "site": ["messidor", "messidor", "brest", "brest"],
        "label": [0, 4, 1, None],
        "macular_edema": ["no", "yes", "no", None],
    }
    assert images.unit == "image"
    assert "messidor-2.csv" in images.unavailable
    assert images.notes == ("1 of 4 images have no label",)


def test_pairs_give_the_exam(folder: Path) -> None:
    images = MESSIDOR2.read([folder / "messidor_data.csv"], {"pairs": folder / "messidor-2.csv"})
    assert images.frame["patient"].to_list() == ["19990101_00001_0100_PP"] * 2 + ["IM990001"] * 2
    assert (images.unit, images.unavailable) == ("exam", "")


def test_pairs_that_miss_an_image_are_refused(folder: Path) -> None:
    (folder / "messidor-2.csv").write_text("\n".join(PAIRS.splitlines()[:2]), encoding="utf-8")
    with pytest.raises(SplitError, match=r"2 of 4 images are in no exam, such as 'IM990001\.jpg'"):
        MESSIDOR2.read([folder], {"pairs": folder / "messidor-2.csv"})


def test_names_of_the_first_release_hold_the_exam(tmp_path: Path) -> None:
    file = tmp_path / "train_labels.csv"
    file.write_text("id_code,diagnosis\nIM9901.000,0\nIM9901.001,2\nIM9902.000.tif,-100\n", encoding="utf-8")
    images = MESSIDOR2.read([file], {})
    assert images.frame["patient"].to_list() == ["im9901", "im9901", "im9902"]
    assert images.frame["label"].to_list() == [0, 2, None]
    assert set(images.frame["site"]) == {"messidor-2"}
    assert (images.unit, images.unavailable) == ("exam", "")


def test_what_is_refused(folder: Path) -> None:
    exams = folder / "refstandard.csv"
    exams.write_text("examid,rDR\nIM9901,0\n", encoding="utf-8")
    with pytest.raises(SplitError, match="lists exams, not images"):
        MESSIDOR2.read([exams], {})
    with pytest.raises(SplitError, match="give the exam list as the map pairs"):
        MESSIDOR2.read([folder / "messidor_data.csv", folder / "messidor-2.csv"], {})


def test_released_list_holds_most_of_messidor() -> None:
    images = MESSIDOR2.read([released(BLOODAXE, "data/messidor_2/messidor_data.csv")], {})
    counts = images.frame["label"].value_counts().sort("label", nulls_last=True)["count"]
    assert counts.to_list() == [1017, 270, 347, 75, 35, 4]
    assert dict(images.frame["site"].value_counts().iter_rows()) == {"brest": 690, "messidor": 1058}
    assert images.frame["macular_edema"].value_counts().sort("macular_edema", nulls_last=True)["count"].to_list() == [
        1593,
        151,
        4,
    ]
    first = MESSIDOR.read([released(BLOODAXE, "data/messidor/train_labels.csv")], {}).frame
    shared = {name[:-4] for name in first["image"]} & {name[:-4] for name in images.frame["image"]}
    assert len(shared) == 1052
