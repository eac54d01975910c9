"""Lists of image files in the forms that people keep."""

import gzip
import os
from pathlib import Path

import polars as pl
import pytest

from splits.datasets.lists import crossing, listed_images, sex
from splits.errors import SplitError


def paths_of(file: Path) -> list[tuple[str, str | None]]:
    return listed_images([file]).frame.select("path", "label").rows()


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("a/x 1.jpg\nb\\y.jpg\n", [("a/x 1.jpg", None), ("b/y.jpg", None)]),
        ("path\na/x.jpg\n", [("a/x.jpg", None)]),
        ("a/x.jpg,1\nb/y.jpg,0\n", [("a/x.jpg", "1"), ("b/y.jpg", "0")]),
        (",Path,ADI,BACK\n0,a/x.tif,1,0\n", [("a/x.tif", None)]),
        ("\ufeffimage;class\r\n./a/x y.tif;ADI\r\n", [("a/x y.tif", "ADI")]),
        ("0,TUM,a/x.tif\n1,TUM,a/y.tif\n", [("a/x.tif", None), ("a/y.tif", None)]),
    ],
)
def test_forms_of_lists(tmp_path: Path, text: str, rows: list[tuple[str, str | None]]) -> None:
    file = tmp_path / "list.txt"
    file.write_bytes(text.encode())
    assert paths_of(file) == rows
    packed = tmp_path / "list.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert paths_of(packed) == rows


def test_a_folder_gives_its_images_in_order(tmp_path: Path) -> None:
    for name in ("b/2.PNG", "b/1.png", "a/3.tif", "a/notes.txt", "a/.hidden.png", ".git/4.png", "a/3_mask.tif"):
        (tmp_path / "set" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "set" / name).touch()
    listed = listed_images([tmp_path / "set"], skip="_mask")
    assert listed.frame["path"].to_list() == ["set/a/3.tif", "set/b/1.png", "set/b/2.PNG"]
    assert listed.frame["name"].to_list() == ["3.tif", "1.png", "2.PNG"]


def test_a_file_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    Path(os.fsdecode(os.fsencode(tmp_path / "set") + b"/m\xff.png")).touch()
    with pytest.raises(SplitError, match="is no UTF-8; rename it"):
        listed_images([tmp_path / "set"])


def test_what_is_no_list(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    table = tmp_path / "table.csv"
    table.write_text("id,label\n1,2\n")
    gap = tmp_path / "gap.csv"
    gap.write_text("path,label\na.png,1\n,0\n")
    header = tmp_path / "header.csv"
    header.write_text("path,label\n")
    for files, said in (
        ([], "no file is given"),
        ([tmp_path / "empty"], "there is no image"),
        ([table], "no column holds the path"),
        ([gap], "row 2: the path of the image is empty"),
        ([header], "there is no image"),
        ([tmp_path / "absent.txt"], "no such file"),
    ):
        with pytest.raises(SplitError, match=said):
            listed_images(files)


def test_crossing_counts_what_lies_in_two_splits() -> None:
    frame = pl.DataFrame(
        {
            "patient": ["a", "a", "b", None, "b", "c", "c"],
            "published": ["train", "test", "train", "test", "train", "test", None],
        }
    )
    (note,) = crossing(frame, "patient", "patients")
    assert note == (
        "patients that lie in more than one published split (test, train): 1 of 3, with 2 images; the published "
        "split leaks"
    )
    assert crossing(frame.filter(pl.col("patient") != "a"), "patient", "patients") == ()


def test_sex_from_text() -> None:
    frame = pl.DataFrame({"s": ["F", "male", "Female", "M", "Unknown", None]})
    assert frame.select(sex("s"))["sex"].to_list() == ["female", "male", "female", "male", None, None]
