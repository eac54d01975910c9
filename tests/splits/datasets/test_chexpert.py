"""CheXpert: patients from paths; uncertain and blank labels are never negative."""

from pathlib import Path

import polars as pl
import pytest

from splits.datasets.chexpert import CHEXPERT, CLASSES
from splits.errors import SplitError

HEADER = "Path,Sex,Age,Frontal/Lateral,AP/PA," + ",".join(CLASSES) + "\n"
TRAIN = (
    "CheXpert-v1.0-small/train/patient99901/study1/view1_frontal.jpg,Female,61,Frontal,AP,1.0,,,,,0.0,,,,,,,1.0,\n"
    "CheXpert-v1.0-small/train/patient99902/study2/view1_frontal.jpg,Male,82,Frontal,PA,,,-1.0,1.0,,-1.0,,,,,,,1.0,\n"
    "CheXpert-v1.0-small/train/patient99902/study2/view2_lateral.jpg,Unknown,82,Lateral,,,,-1.0,1.0,,-1.0,,,,,,,1.0,\n"
)
VALID = "CheXpert-v1.0/valid/patient99941/study1/view1_frontal.jpg,Male,33,Frontal,AP" + ",0" * 14 + "\n"


def test_train_and_valid(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text(HEADER + TRAIN)
    (tmp_path / "valid.csv").write_text(HEADER + VALID)
    images = CHEXPERT.read([tmp_path], {})
    frame = images.frame
    assert frame["image"][0] == "train/patient99901/study1/view1_frontal.jpg"
    assert frame["patient"].to_list() == ["patient99901", "patient99902", "patient99902", "patient99941"]
    assert frame["group"].to_list() == [
        "patient99901/study1",
        "patient99902/study2",
        "patient99902/study2",
        "patient99941/study1",
    ]
    assert frame["published"].to_list() == ["train", "train", "train", "valid"]
    assert frame["sex"].to_list() == ["female", "male", None, "male"]
    assert frame["age_group"].to_list() == ["60-79", ">=80", ">=80", "20-39"]
    assert frame["view"].to_list() == ["AP", "PA", "lateral", "AP"]
    labels = frame.select(pl.col(r"^label_\d+$"))
    assert labels.row(0) == (1, *(None,) * 4, 0, *(None,) * 6, 1, None)
    assert labels.row(1) == (None, None, None, 1, *(None,) * 8, 1, None)
    assert labels.row(3) == (0,) * 14
    assert set(labels.dtypes) == {pl.Int8}
    assert images.notes == (
        "train.csv: of 42 labels 4 are uncertain (-1) and 31 are not mentioned (blank); both are no label here, and "
        "neither is taken as negative",
        "4 images of 3 patients, up to 2 images a patient",
    )


def test_labels_without_what_is_known_of_the_person(tmp_path: Path) -> None:
    file = tmp_path / "test_labels.csv"
    file.write_text("Path," + ",".join(CLASSES) + "\ntest/patient99951/study1/view1_frontal.jpg" + ",1.0" * 14 + "\n")
    frame = CHEXPERT.read([file], {}).frame
    assert frame.select("published", "sex", "age_group", "view").row(0) == ("test", None, None, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + TRAIN.replace("patient99901", "p1"), "row 1: .* is no path of this data set"),
        (HEADER + TRAIN.replace("1.0,,,,,0.0", "2.0,,,,,0.0"), "row 1, column 'No Finding': '2' is no label"),
        (HEADER.replace("Edema", "Oedema") + TRAIN, "did you mean 'Oedema'"),
        (HEADER, "no row below"),
        (HEADER + TRAIN + TRAIN.replace(",61,", ",18,"), "different age_group"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "train.csv"
    file.write_text(text)
    with pytest.raises(SplitError, match=said):
        CHEXPERT.read([file], {})
