import re
from itertools import islice

import pytest

from splits import spellings
from splits.attack import PLACE
from splits.spellings import TRIED, Family, Pattern, Spellings, numbered


def texts(*patterns: Pattern) -> list[bytes]:
    return [text for pattern in patterns for chunk in pattern.chunks() for text in chunk]


def test_a_pattern_counts_from_its_first_number() -> None:
    assert texts(Pattern("fold1_", ".png", 9, 3)) == [b"fold1_9.png", b"fold1_10.png", b"fold1_11.png"]
    assert texts(Pattern("", "_000", 1, 2, 8)) == [b"00000001_000", b"00000002_000"]
    assert Pattern("%d%", "%", 5, 20, 3).texts(7, 9) == [b"%d%012%", b"%d%013%"]


def test_numbers_are_plain_and_padded_and_none_comes_twice() -> None:
    found = texts(*numbered("p", "x", 200, 120, (2, 3, 4)))
    expected = {f"p{n}x".encode() for n in range(200)}
    expected |= {f"p{n:0{width}d}x".encode() for width in (2, 3, 4) for n in range(120)}
    assert set(found) == expected
    assert len(found) == len(expected)


@pytest.fixture(scope="module")
def everything() -> frozenset[bytes]:
    return frozenset(text for chunk in TRIED.chunks() for text in chunk)


def test_every_text_is_tried_once_and_found_by_its_place(everything: frozenset[bytes]) -> None:
    place = 0
    for chunk in TRIED.chunks():
        assert TRIED.text(place) == chunk[0]
        assert TRIED.text(place + len(chunk) // 2) == chunk[len(chunk) // 2]
        place += len(chunk)
        assert TRIED.text(place - 1) == chunk[-1]
    assert len(everything) == place == TRIED.count
    for outside in (-1, TRIED.count):
        with pytest.raises(IndexError):
            TRIED.text(outside)


def test_the_table_stays_small() -> None:
    """An image ships it, and whoever submits waits for it: twenty megabytes, some two seconds."""
    assert 2_500_000 < TRIED.count <= 2_600_000
    assert TRIED.count <= int(PLACE) + 1 <= 1 << 22


@pytest.mark.parametrize(
    "name",
    [
        "0", "999999", "00099999", "7\n", "7.0",
        "1_left", "44351_right", "10_left.jpeg", "10_right.jpeg", "10_left.png", "10_left.jpg",
        "IM000012.jpg", "IM004832.JPG", "IM000012", "IM0001.000.tif",
        "00000001_000.png", "00030805_000", "patient00001", "patient65240",
        "CheXpert-v1.0-small/train/patient00001/study1/view1_frontal.jpg", "patient00002/study1/view1_frontal.jpg",
        "CheXpert-v1.0/valid/patient64541/study1/view1_frontal.jpg",
        "ANON191", "S03044", "419639-000082", "MIDRC-RICORD-1C-SITE2-000001", "COVID(100).png", "COVID (1).png",
        "COVID-1.png", "Normal-10192.png", "COVID-00001.jpg",
        "ISIC_0024306", "ISIC_0034320.jpg", "HAM_0000001", "BCN_0003884", "PAT_1516",
        "fold1_0", "fold1_000000", "fold_3_2721.png", "Breast_malignant_0007.png",
        "patient_004_node_4", "patient_199_node_0.tif", "tumor_111.tif", "test_049", "train0_5.png",
        "train_17", "val/3",
        "patient1", "patient_1", "patient_004", "p001", "img_0001.png", "image1.jpg", "case_1", "sub-01", "Patient 12",
        "nih:7", "nih/patient7", "aptos:123", "eyepacs_10",
    ],
)  # fmt: skip
def test_names_that_are_tried(name: str, everything: frozenset[bytes]) -> None:
    assert name.encode() in everything


@pytest.mark.parametrize("name", ["1000000", "0100000", "000000000", "-1", " 1", "", "patient", "0_left", "44352_left"])
def test_names_that_are_not_tried(name: str, everything: frozenset[bytes]) -> None:
    assert name.encode() not in everything


def test_families_are_told_by_the_place() -> None:
    dogs, cats = (
        Family("dogs", (Pattern("d", "", 0, 5), Pattern("D", "", 0, 5))),
        Family("cats", (Pattern("c", "", 0, 2),)),
    )
    listed = Spellings([dogs, cats])
    assert listed.families([0, 9, 3]) == [dogs]
    assert listed.families([11, 4]) == [dogs, cats]
    assert listed.families([]) == []
    assert [listed.text(place) for place in (4, 5, 11)] == [b"d4", b"D0", b"c1"]


def test_another_list_is_another_version() -> None:
    versions = {
        Spellings([Family("", (Pattern("a", "", first, count, width),))]).version
        for first, count, width in ((0, 5, 0), (1, 5, 0), (0, 6, 0), (0, 5, 2))
    }
    assert len(versions) == 4


def test_long_searches_hold_the_names_that_they_are_for() -> None:
    days = {pattern.before for pattern in spellings.messidor()}
    assert {"20051019_", "20060530_"} <= days
    assert len(days) == 224
    first = next(islice(spellings.messidor(".tif"), 0, 1))
    assert re.fullmatch(rb"\d{8}_\d{5}_0100_PP\.tif", first.texts(43_808 - first.first, 43_809 - first.first)[0])
    patterns = list(spellings.isic(".jpg"))
    assert patterns[9].texts(999_999, 1_000_000) == [b"ISIC_9999999.jpg"]
    assert patterns[10].texts(0, 1) == [b"IP_0000000"]
