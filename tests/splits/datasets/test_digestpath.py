"""DigestPath: tissue images and patches stay together by the case in their names."""

from pathlib import Path

import pytest

from splits.datasets.digestpath import DIGESTPATH
from splits.errors import SplitError

SCAN = "_2019-05-07 23_56_22-lv1-{}-16122-7372-7686"


def release(root: Path, *paths: str) -> Path:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    return root


def test_the_release(tmp_path: Path) -> None:
    one, other = "18-00530A" + SCAN.format(11712), "18-00530B" + SCAN.format(20105)
    release(
        tmp_path,
        f"tissue-train-pos-v1/{one}.jpg",
        f"tissue-train-pos-v1/{one}_mask.jpg",
        f"tissue-train-neg/{other}.jpg",
        f"tissue-train-neg/D201710920{SCAN.format(3)}.jpg",
        f"tissue-train-neg/2018_68099_1-1{SCAN.format(4)}.jpg",
        f"tissue-train-neg/1901940-1{SCAN.format(5)}.jpg",
    )
    images = DIGESTPATH.read([tmp_path], {})
    assert images.frame.columns == ["image", "patient", "site", "label", "group", "published"]
    got = {image[:10]: (label, group) for image, label, group in images.frame.select("image", "label", "group").rows()}
    assert got == {
        "18-00530A_": (1, "18-00530"),
        "18-00530B_": (0, "18-00530"),
        "D201710920": (0, "D201710920"),
        "2018_68099": (0, "2018_68099"),
        "1901940-1_": (0, "1901940"),
    }
    assert images.frame["patient"].null_count() == images.frame["published"].null_count() == 5
    assert images.notes == (
        "5 tissue images are kept together by case: 4 cases by their names",
        "1 groups hold benign and malignant images: parts of a malignant tissue image are benign",
    )


def test_patches_of_a_random_split_are_found_on_both_sides(tmp_path: Path) -> None:
    tissue = "18-00530A" + SCAN.format(11712)
    paths = [
        f"images/train/benign/{tissue}_downsample=2_00001.png",
        f"images/test/malignant/{tissue}_downsample=32_00001.png",
        "images/test/benign/other_downsample=4_00002.png",
        "images/train/benign/other image_downsample=4_00003.png",
    ]
    file = tmp_path / "list.txt"
    file.write_text("\n".join(paths))
    images = DIGESTPATH.read([file], {})
    assert images.frame["group"].to_list() == ["18-00530", "18-00530", "other", "other image"]
    assert images.frame["published"].to_list() == ["train", "test", "test", "train"]
    assert images.frame["label"].to_list() == [0, 1, 0, 0]
    assert images.notes[0].startswith("4 patches were cut from 3 tissue images")
    assert images.notes[-1].startswith(
        "cases or tissue images that lie in more than one published split (test, train): 1 of 3, with 2 images"
    )


def test_names_that_tell_nothing(tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text("path,label\nx/negative/00001.png,benign\nx/positive/00001.png,1\nx/positive/00002.png,malignant\n")
    images = DIGESTPATH.read([file], {})
    assert images.frame["image"].to_list() == ["negative/00001.png", "positive/00001.png", "00002.png"]
    assert images.frame["group"].null_count() == 3
    assert any(note.startswith("3 images have a bare number as name") for note in images.notes)
    assert images.notes[-1] == "1 file names lie in more than one folder and are named with their folders"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("path,label\nbenign/a.png,1\n", "label '1' and the folder name different classes"),
        ("path,label\nbenign/a.png,2\n", "label '2' is no label"),
        ("path\nx/a.png\n", "no folder tells the class"),
        ("path\nbenign/a.png\nbenign/a.png\n", "listed more than once"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "list.csv"
    file.write_text(text)
    with pytest.raises(SplitError, match=said):
        DIGESTPATH.read([file], {})
