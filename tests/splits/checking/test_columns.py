"""Patient columns that are none, and sites that tell the label."""

from collections.abc import Sequence

import polars as pl
import pytest

from splits.checking.columns import is_attribute, labels_by_site, real_patients


def seen(patients: Sequence[str | None], **more: list[str]) -> tuple[bool, list[str], list[str | None]]:
    found = real_patients(pl.DataFrame({"patient": pl.Series(list(patients), dtype=pl.String), **more}), "pid")
    return found.usable, [finding.code for finding in found.findings], found.column.to_list()


def test_true_patients_pass() -> None:
    patients: list[str | None] = [f"p{k // 2}" for k in range(40)]
    assert seen(patients, image=[f"i{k}.png" for k in range(40)]) == (True, [], patients)


@pytest.mark.parametrize("word", ["unknown", "NaN", "N/A", "?", "-1", "COVID", "normal", "Malignant"])
def test_placeholders_and_words_are_no_patients(word: str) -> None:
    usable, codes, column = seen([f"p{k // 2}" for k in range(20)] + [word] * 30)
    assert (usable, codes) == (True, ["patient-is-a-word"])
    assert column[20:] == [None] * 30


def test_a_word_of_the_label_is_no_patient() -> None:
    _, codes, column = seen(["nevus", "p1", "p1"], label=["Blue nevus", "x", "x"])
    assert codes == ["patient-is-a-word"]
    assert column == [None, "p1", "p1"]
    assert seen(["7", "p1", "p1"], label=["7", "x", "x"])[1] == []  # a number may be both


def test_a_column_of_one_value_is_not_used() -> None:
    assert seen(["p1"] * 25)[:2] == (False, ["patient-constant"])
    assert seen(["unknown"] * 25)[:2] == (False, ["patient-is-a-word"])
    assert seen([None] * 25)[:2] == (False, [])


def test_one_value_for_a_large_share() -> None:
    patients: list[str | None] = [*(f"p{k // 2}" for k in range(1000)), *["x"] * 150]
    assert seen(patients)[:2] == (True, ["patient-large"])
    assert seen([f"p{k % 3}" for k in range(600)])[1] == []  # few patients, all large


def test_ids_of_images_under_the_name_of_patients() -> None:
    names = [f"img{k}" for k in range(30)]
    assert seen(list(names), image=[f"a/{name}.png" for name in names])[:2] == (False, ["patient-equals-image"])
    assert seen([f"x{k}" for k in range(30)], image=names)[:2] == (True, ["patient-unique"])
    assert seen([f"x{k}" for k in range(30)])[:2] == (True, [])  # a list of patients, no images


def test_left_and_right_group_nothing() -> None:
    assert is_attribute(pl.Series(["left", "right"] * 20))
    assert not is_attribute(pl.Series([f"lesion{k // 3}" for k in range(60)]))


def sites(rows: list[tuple[str, str, int]], column: str = "site") -> list[str]:
    frame = pl.DataFrame([(a, b) for a, b, n in rows for _ in range(n)], schema=[column, "label"], orient="row")
    return [finding.title for finding in labels_by_site(frame, None, "column site")]


def test_a_site_tells_the_label_only_when_it_has_no_other() -> None:
    assert len(sites([("rsna", "0", 50), ("ricord", "1", 50)])) == 1
    assert sites([("rsna", "0", 50), ("ricord", "1", 48), ("ricord", "0", 2)]) == []
    assert len(sites([("rsna", "0", 500), ("ricord", "1", 499), ("ricord", "0", 1)])) == 1
    assert sites([("rsna", "0", 50), ("rsna", "1", 50), ("ricord", "1", 50)]) == []
    assert sites([("rsna", "0", 50), ("ricord", "1", 19)]) == []  # too few to tell
    assert sites([("a", "0", 50), ("b", "0", 50)]) == []  # one label


def test_names_tell_the_label_unless_they_are_made_from_it() -> None:
    told = sites([("MIDRC-RICORD-1C-1.png", "1", 30), ("99990001-1111-4222-8333-444444444444.png", "0", 30)], "image")
    assert "the style of file names" in told[0]
    assert sites([("ADI-TCGA-1.tif", "Adipose", 30), ("MUC-TCGA-1.tif", "Mucus", 30)], "image") == []
