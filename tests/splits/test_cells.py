"""Cells that aren't what they seem."""

import polars as pl
import pytest

from splits.cells import (
    NO_ID,
    NO_SITE_NAME,
    all_spelled,
    exact,
    names_nobody,
    no_hidden_characters,
    shown,
    spelled,
    to_hash,
    without_words,
)
from splits.errors import SplitError

Cells = list[str | None]


def series(cells: Cells, name: str = "id") -> pl.Series:
    return pl.Series(name, cells, pl.String)


@pytest.mark.parametrize(
    "word", ["NA", "nan", "NULL", "None", "?", "Unknown", "-", "N/A", "<NA>", "NaT", "-1", "missing"]
)
def test_words_for_no_patient_are_null(word: str) -> None:
    frame = pl.DataFrame([series(["P1", None, word, "P2", word.lower()])])
    found, seen = without_words(frame, {"id": NO_ID})
    assert found["id"].to_list() == ["P1", None, None, "P2", None]
    assert seen == {"id": word}


def test_words_are_those_of_their_column_and_whole_cells() -> None:
    cells: Cells = ["Nan", "unknown", "NA12", "nanny", "P-"]
    frame = pl.DataFrame([series(cells, "patient"), series(cells, "site"), series(cells, "other")])
    found, seen = without_words(frame, {"patient": NO_ID, "site": NO_SITE_NAME})
    assert found["patient"].to_list() == [None, None, "NA12", "nanny", "P-"]
    assert found["site"].to_list() == [None, "unknown", "NA12", "nanny", "P-"]
    assert found["other"].to_list() == cells
    assert seen == {"patient": "Nan", "site": "Nan"}


@pytest.mark.parametrize(
    ("cell", "escaped"),
    [
        ("p1\u200b", r"p1\u200b"),
        ("p\u00ad1", r"p\xad1"),
        ("\ufeffp1", r"\ufeffp1"),
        ("p\u202e1", r"p\u202e1"),
        ("p1\x07", r"p1\x07"),
        ("p\n1", r"p\n1"),
        ("p\u20281", r"p\u20281"),
        ("p1\ufe0f", "p1\ufe0f"),
    ],
)
def test_characters_that_nobody_sees_are_refused(cell: str, escaped: str) -> None:
    frame = pl.DataFrame([series(["p1", "p2", None, cell])])
    with pytest.raises(SplitError) as error:
        no_hidden_characters(frame, {"id": "pid"})
    assert f"column 'pid' holds '{escaped}' (row 4; 1 such cells)" in str(error.value)


def test_letters_of_all_kinds_are_seen() -> None:
    no_hidden_characters(
        pl.DataFrame([series(["é", "e\u0301", "患者 7", "a b", "ß/ö", None, "a\u00a0b"])]), {"id": "pid"}
    )


def test_what_is_shown_is_in_one_line() -> None:
    assert shown("a\u00a0\u200bb") == r"'a\xa0\u200bb'"
    assert len(shown("x" * 500)) == 62


@pytest.mark.parametrize(
    "cell",
    [
        "1.8e+16",
        "1.8E+16",
        "-1e+20",
        "1.23457E+11",
        "9007199254740992.0",
        "18014398509481984.0",
    ],
)
def test_numbers_that_lost_digits_are_refused(cell: str) -> None:
    with pytest.raises(SplitError, match=r"column 'pid' holds .* \(1 such cells\): numbers that lost digits"):
        exact(series(["7", None, cell]), "pid")


def test_a_column_of_floats_that_are_too_large_is_refused() -> None:
    with pytest.raises(SplitError, match="column 'pid' holds floats that are too large"):
        exact(series(["7"]), "pid", ("pid",))
    exact(series(["7"]), "pid", ("other",))


@pytest.mark.parametrize(
    "cell",
    [
        "9007199254740991.0",
        "18014398509481984",
        "1e5",
        "0012e45",
        "123e+5",
        "a+b",
        "7.0",
        "1.2.0",
        "v18014398509481984.0",
    ],
)
def test_other_names_have_all_their_digits(cell: str) -> None:
    exact(series(["7", None, cell]), "pid")


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["7.0", None, "12.00", "0.0", "-1.0"], ["7", None, "12", "0", "-1"]),
        (["True", "FALSE", None], ["true", "false", None]),
        (["7.0", "7.5"], ["7", "7.5"]),
        (["7.0", "8"], ["7", "8"]),
        (["007.0", "8.0"], ["007.0", "8"]),
        (["7.0", "x"], ["7", "x"]),
        (["True", "maybe", "Trueish"], ["true", "maybe", "Trueish"]),
        (["7", "8"], ["7", "8"]),
        ([None, None], [None, None]),
        ([], []),
    ],
)
def test_one_spelling_for_all_kinds_of_files(cells: Cells, expected: Cells) -> None:
    assert spelled(series(cells)).to_list() == expected


def test_names_are_hashed_as_a_split_takes_them() -> None:
    assert to_hash(series(["7.0", "8.0"]), "pid", NO_ID, ()).to_list() == ["7", "8"]
    assert to_hash(series(["a", "NA"]), "pid", NO_ID, ()).to_list() == ["a", None]
    assert to_hash(series(["a", "NA"]), "image", (), ()).to_list() == ["a", "NA"]
    cases: list[tuple[Cells, tuple[str, ...]]] = [(["a\u200b"], ()), (["1.8e+16"], ()), (["7"], ("pid",))]
    for cells, rounded in cases:
        with pytest.raises(SplitError, match="column 'pid' holds"):
            to_hash(series(cells), "pid", NO_ID, rounded)


def test_changed_numbers_are_noted_and_never_shown() -> None:
    frame = pl.DataFrame(
        [series(["41.0", "42.0"], "patient"), series(["True", "False"], "sick"), series(["5.0"] * 2, "x")]
    )
    notes: list[str] = []
    found = all_spelled(frame, {"patient": "pid", "sick": "sick"}, notes)
    assert found.to_dict(as_series=False) == {"patient": ["41", "42"], "sick": ["true", "false"], "x": ["5.0", "5.0"]}
    assert notes == ["column 'pid' holds whole numbers written with .0; they are read without it (7.0 as 7)"]


def test_few_levels_name_nobody() -> None:
    people = series([str(place) for place in range(100)])
    assert names_nobody(20, [people])
    assert names_nobody(5, [series(["1"])])
    assert not names_nobody(20, [people.head(20)])
    assert names_nobody(50, [people])
    assert names_nobody(21, [series([None] * 40 + ["lesion", "lesion", "other"])])
    assert not names_nobody(51, [people])
    assert not names_nobody(21, [people, series(["1", "2"])])
