"""Messidor: twelve sheets, departments, corrected lists, copies."""

from pathlib import Path

import pytest
import xlwt

from splits.datasets.messidor import MESSIDOR
from splits.errors import SplitError
from tests.splits.datasets.real import released

# As ADCIS writes it: a blank behind the last name, numbers as floats.
HEADER = ("Image name", "Ophthalmologic department", "Retinopathy grade", "Risk of macular edema ")


def sheet(path: Path, *rows: tuple[str, str, int, int]) -> Path:
    book = xlwt.Workbook()
    page = book.add_sheet("Feuil1")
    for line, row in enumerate([HEADER, *rows]):
        for column, cell in enumerate(row):
            page.write(line, column, cell)
    book.save(str(path))
    return path


def test_a_folder_of_sheets(tmp_path: Path) -> None:
    sheet(tmp_path / "Annotation_Base11_update20161024.xls", ("19990101_00001_0100_PP.tif", "Lariboisière", 3, 1))
    (tmp_path / "Base31").mkdir()
    sheet(tmp_path / "Base31" / "Annotation Base31.xls", ("19990102_00001_0400_PP.tif", "CHU de BREST", 0, 0))
    images = MESSIDOR.read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["19990101_00001_0100_PP.tif", "19990102_00001_0400_PP.tif"],
        "patient": [None, None],
        "site": ["Lariboisière", "CHU de BREST"],
        "label": [3, 0],
        "edema_risk": ["1", "0"],
    }
    assert images.notes == ("only 2 of the 12 lists are there: Base11, Base31",)
    assert images.unit == "image"


def test_the_corrected_list_is_read_instead_of_the_old_one(tmp_path: Path) -> None:
    name = "19990101_00003_0100_PP.tif"
    sheet(tmp_path / "Annotation_Base11.xls", (name, "A", 1, 0))
    old = MESSIDOR.read([tmp_path], {})
    assert old.frame["label"].to_list() == [1]
    assert "the list of Base11 may be the one before the corrections of 2016" in old.notes[1]
    # A name that sorts before the old one's.
    sheet(tmp_path / "Annotation Base11_update20161024.xls", (name, "A", 3, 0))
    new = MESSIDOR.read([tmp_path], {})
    assert new.frame["label"].to_list() == [3]
    assert len(new.notes) == 1


def test_a_table_without_departments_tells_the_site_by_name(tmp_path: Path) -> None:
    file = tmp_path / "train_labels.csv"
    rows = ["19990101_00001_0100_PP.tif,3,a", "19990102_00001_0400_PP.tif,0,b", "other.tif,1,c"]
    file.write_text("\n".join(["image_fname,diagnosis,id_code", *rows, ""]), encoding="utf-8")
    images = MESSIDOR.read([file], {})
    assert images.frame["site"].to_list() == ["department 0100", "department 0400", "messidor"]
    assert images.notes[0].startswith("the list has no department")


def test_copies(tmp_path: Path) -> None:
    file = tmp_path / "labels.csv"
    file.write_text("image_fname,diagnosis\na.tif,2\nb.tif,3\nc.tif,0\n", encoding="utf-8")
    pairs = tmp_path / "copies.txt"
    pairs.write_text("a.tif b.tif\n", encoding="utf-8")
    images = MESSIDOR.read([file], {"duplicates": pairs})
    assert images.frame["group"].to_list() == ["a", "a", None]
    assert images.notes[-1] == "1 of 1 duplicate groups (2 images) carry different labels"


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SplitError, match=r"the folder has no Annotation_BaseNN\.xls"):
        MESSIDOR.read([tmp_path], {})
    with pytest.raises(SplitError, match="'4' is no label of this data set; wanted 0, 1, 2, 3"):
        MESSIDOR.read([sheet(tmp_path / "Annotation_Base12.xls", ("a.tif", "A", 4, 0))], {})


def test_released_list() -> None:
    images = MESSIDOR.read([released("BloodAxe+Kaggle-2019-Blindness-Detection", "data/messidor/train_labels.csv")], {})
    assert images.frame["label"].value_counts().sort("label")["count"].to_list() == [547, 149, 240, 251]
    sites = dict(images.frame["site"].value_counts().iter_rows())
    assert sites == {"department 0100": 400, "department 0200": 400, "department 0400": 387}
