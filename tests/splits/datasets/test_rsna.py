"""RSNA 2018: boxes are rows, patientId is an image, and a map gives the NIH patients."""

import json
import pickle
from pathlib import Path

import pytest

from splits.datasets.rsna import RSNA, RSNA_BINARY
from splits.errors import SplitError

A, B, C = (f"9999000{n}-1111-4222-8333-444444444444" for n in (1, 2, 3))
CLASS_ROWS = f"{A},No Lung Opacity / Not Normal\n{B},Lung Opacity\n{B},Lung Opacity\n{C},Normal\n"
BOX_ROWS = f"{A},,,,,0\n{B},10.0,20.0,30.0,40.0,1\n{B},50.0,60.0,70.0,80.0,1\n{C},,,,,0\n"
CLASS_HEAD, BOX_HEAD = "patientId,class\n", "patientId,x,y,width,height,Target\n"


def files(folder: Path, classes: str | None = CLASS_ROWS, boxes: str | None = BOX_ROWS) -> Path:
    if classes is not None:
        (folder / "stage_2_detailed_class_info.csv").write_text(CLASS_HEAD + classes)
    if boxes is not None:
        (folder / "stage_2_train_labels.csv").write_text(BOX_HEAD + boxes)
    return folder


@pytest.mark.parametrize("boxes", [BOX_ROWS, None])
def test_three_classes_one_row_an_image(tmp_path: Path, boxes: str | None) -> None:
    images = RSNA.read([files(tmp_path, boxes=boxes)], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": [A, B, C],
        "patient": [None] * 3,
        "site": ["nih"] * 3,
        "label": [1, 2, 0],
    }
    assert images.unit == "image"
    assert "patientId is the id of an image" in images.unavailable
    assert images.notes[0].startswith(
        "stage_2_detailed_class_info.csv: 4 rows are 3 images; 1 of them have more than one row, one a box"
    )


def test_boxes_alone_tell_two_classes(tmp_path: Path) -> None:
    files(tmp_path, classes=None)
    with pytest.raises(
        SplitError, match=r"add stage_2_detailed_class_info\.csv, or take the data set rsna-2018-binary"
    ):
        RSNA.read([tmp_path], {})
    assert RSNA_BINARY.read([tmp_path], {}).frame["label"].to_list() == [0, 1, 0]
    files(tmp_path)
    assert RSNA_BINARY.read([tmp_path], {}).frame["label"].to_list() == [0, 1, 0]


PAIRS = {A: "00090013_008.png", B: "00090013_026.png"}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([{"subset_img_id": k, "img_id": v, "orig_labels": ["Mass"]} for k, v in PAIRS.items()]),
        "patientId,img_id\n" + "".join(f"{k},{v}\n" for k, v in PAIRS.items()) + f"{C},\n",
        "patientId,nih_patient_id,nih_image_id\n"
        + "".join(f"{k.upper()},90013,images/{v}\n" for k, v in PAIRS.items()),
    ],
)
def test_the_map_gives_patients(tmp_path: Path, text: str) -> None:
    known = tmp_path / "map"
    known.write_text(text)
    images = RSNA.read([files(tmp_path)], {"nih": known})
    assert images.frame["patient"].to_list() == ["00090013", "00090013", None]
    assert images.frame["image"].to_list() == [A, B, C]
    assert (images.unit, images.unavailable) == ("patient", "")
    assert images.notes[-2:] == (
        "2 RSNA images come from 1 NIH patients, up to 2 images a patient",
        "1 RSNA images have no NIH image in the map: their patient is not known",
    )


class Opened:
    def __reduce__(self) -> tuple[object, ...]:
        return (print, ("opened",))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickle.dumps(Opened()), "is a pickle, which can run code and is not opened"),
        (b"[1, 2]", "wanted a JSON list of entries"),
        (b'{"a": 1}', "wanted a JSON list of entries"),
        (b'[{"subset_img_id": "a", "img_id": 5}]', "wanted a JSON list of entries"),
        (b"[" * 100_000, "can't be read as JSON"),
        (b'[{"subset_img_id": "a", ', "can't be read as JSON"),
        (b'[{"subset_img_id": "\\ud800", "img_id": "00090001_000.png"}]', "half a character"),
        (b"a,b\n1,2\n", "wanted a column of RSNA ids"),
        (b"patientId,img_id\na,1.png\n", r"'1.png' is no image of NIH"),
        (b"patientId,img_id\na,00090001_000.png\na,00090002_000.png\n", "'a' has more than one NIH patient"),
        (b"patientId,img_id\na,00090001_000.png\n", "the map has none of the 3 RSNA images"),
    ],
)
def test_maps_that_are_refused(tmp_path: Path, content: bytes, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    known = tmp_path / "map"
    known.write_bytes(content)
    with pytest.raises(SplitError, match=said):
        RSNA.read([files(tmp_path)], {"nih": known})
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("classes", "boxes", "said"),
    [
        (CLASS_ROWS + f"{C},Lung Opacity\n", BOX_ROWS, f"image '{C}' comes 2 times with different label"),
        (
            CLASS_ROWS.replace("Normal\n", "Pneumonia\n"),
            BOX_ROWS,
            "'Pneumonia' is no label|'No Lung Opacity / Not Pneumonia'",
        ),
        (CLASS_ROWS.replace(f"{C},Normal", f"{C},Lung Opacity"), BOX_ROWS, f"disagree on 1 images, such as '{C}'"),
        (CLASS_ROWS, BOX_ROWS.replace(C, "x"), "don't belong together: 2 images are in one of them only"),
        ("", BOX_ROWS, "no row below"),
        (None, None, "the folder has no"),
    ],
)
def test_files_that_are_refused(tmp_path: Path, classes: str | None, boxes: str | None, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        RSNA.read([files(tmp_path, classes, boxes)], {})


def test_a_second_class_file_and_another_map_are_refused(tmp_path: Path) -> None:
    file = files(tmp_path) / "stage_2_detailed_class_info.csv"
    with pytest.raises(SplitError, match="a second file with the column class"):
        RSNA.read([file, file], {})
    with pytest.raises(SplitError, match="no map 'rsna-nih'"):
        RSNA.read([file], {"rsna-nih": file})
