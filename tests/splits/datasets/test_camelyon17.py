"""Camelyon17-WILDS: names and splits as the WILDS loader makes them."""

from pathlib import Path

import pytest

from splits.datasets.camelyon17 import CAMELYON17
from splits.errors import SplitError

HEADER = ",patient,node,x_coord,y_coord,tumor,slide,center,split\n"
ROWS = "0,904,4,32,96,1,0,0,0\n1,904,4,64,96,1,0,0,1\n2,920,2,96,0,0,10,1,0\n3,942,3,128,32,0,23,2,0\n"


def table(folder: Path, text: str) -> Path:
    file = folder / "metadata.csv"
    file.write_text(text)
    return file


def test_the_release(tmp_path: Path) -> None:
    table(tmp_path, HEADER + ROWS)
    images = CAMELYON17.read([tmp_path], {})
    assert images.frame["image"][0] == "patches/patient_904_node_4/patch_patient_904_node_4_x_32_y_96.png"
    assert images.frame.drop("image").to_dict(as_series=False) == {
        "patient": ["904", "904", "920", "942"],
        "site": ["center_0", "center_0", "center_1", "center_2"],
        "label": [1, 1, 0, 0],
        "group": ["slide_0", "slide_0", "slide_10", "slide_23"],
        "published": ["train", "id_val", "val", "test"],
    }
    assert images.notes == (
        "patients that lie in more than one published split (id_val, train): 1 of 3, with 2 images; the "
        "published split leaks",
    )


def test_lost_zeros_are_given_back(tmp_path: Path) -> None:
    images = CAMELYON17.read([table(tmp_path, HEADER + "0,4,9,32,96,1,0,0,0\n")], {})
    assert images.frame["patient"].to_list() == ["004"]
    assert images.frame["image"][0].startswith("patches/patient_004_node_9/")
    assert images.notes[0].startswith("1 patients had lost their leading zeros")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER.replace("slide", "wsi") + ROWS, "there is no column 'slide'"),
        (HEADER + "0,,4,1,1,1,0,0,0\n", "row 1: patient is empty"),
        (HEADER + "0,004,4,1,1,2,0,0,0\n", "'2' is no label"),
        (HEADER + "0,004,4,1,1,1,0,0,7\n", "split '7' is none of"),
        (HEADER + "0,004,4,1,1,1,0,0,0\n1,004,4,1,1,0,0,0,0\n", "different label"),
        (HEADER, "no row below"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        CAMELYON17.read([table(tmp_path, text)], {})
