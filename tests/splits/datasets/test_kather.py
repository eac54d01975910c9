"""Kather: the class from folder and name, the two published sets, and the twin without colour normalisation."""

from pathlib import Path

import pytest

from splits.datasets.kather import KATHER
from splits.errors import SplitError
from tests.splits.datasets.real import released

TRAIN, VAL, TWIN = "NCT-CRC-HE-100K", "CRC-VAL-HE-7K", "NCT-CRC-HE-100K-NONORM"


def patches(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def test_folders_tell_class_and_split(tmp_path: Path) -> None:
    root = patches(
        tmp_path, f"{TRAIN}/ADI/ADI-XXXXXXXA.tif", f"{TRAIN}/TUM/TUM-XXXXXXXB.tif", f"{VAL}/STR/STR-TCGA-XXXXXXXC.tif"
    )
    images = KATHER.read([root], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["STR-TCGA-XXXXXXXC.tif", "ADI-XXXXXXXA.tif", "TUM-XXXXXXXB.tif"],
        "patient": [None] * 3,
        "site": ["kather"] * 3,
        "label": [7, 0, 8],
        "published": ["test", "train", "train"],
    }
    assert (images.unit, images.unavailable) == ("image", KATHER.unavailable)
    assert images.notes[0].startswith("published split by the folder: test 1, train 2")
    assert images.notes[2].startswith("1 names hold 'TCGA'; what follows is no TCGA barcode")


def test_a_list_and_a_table(tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text("NORM-AAAA.tif\nx/LYM/LYM-BBBB.tif\n")
    table = tmp_path / "list.csv"
    table.write_text("path,label\np/1.tif,mucus\np/2.tif,BACK\n")
    assert KATHER.read([listed], {}).frame.select("label", "published").rows() == [(6, None), (3, None)]
    assert KATHER.read([table], {}).frame["label"].to_list() == [4, 1]


def test_the_twin_is_refused(tmp_path: Path) -> None:
    patches(tmp_path, f"{TRAIN}/ADI/ADI-XXXXXXXA.tif", f"{TWIN}/ADI/ADI-XXXXXXXA.tif", f"{TRAIN}/ADI/ADI-B.tif")
    with pytest.raises(
        SplitError, match=r"1 file names come more than once.*NONORM holds the same patches.*one of the two"
    ):
        KATHER.read([tmp_path], {})
    assert KATHER.read([tmp_path / TWIN], {}).frame["published"].to_list() == ["train"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("TUM/ADI-AAAA.tif\n", "folder, file name and label name different classes"),
        ("path,label\nADI/ADI-A.tif,TUM\n", "ADI/ADI-A.tif with label 'TUM'.*different classes"),
        ("path,label\nADI/ADI-A.tif,tissue\n", "the label is no class"),
        ("x/1.tif\n", "neither the folder nor the file name tells the class"),
        ("a/ADI-A.tif\nb/ADI-A.tif\n", "each patch must be listed once"),
    ],
)
def test_what_disagrees_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "list.csv"
    file.write_text(text)
    with pytest.raises(SplitError, match=said):
        KATHER.read([file], {})


def test_the_released_list() -> None:
    images = KATHER.read([released("jusiro+SS-Text", "local_data/dataframes/histology/NCTCRC_test.csv")], {})
    counts = images.frame["label"].value_counts().sort("label")["count"].to_list()
    assert counts == [1338, 847, 339, 634, 1035, 592, 741, 421, 1233]
