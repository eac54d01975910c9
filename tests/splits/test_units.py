"""What must stay together, and ids that are one but for their spelling."""

import random

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from splits.errors import SplitError
from splits.units import Coded, coded, one_spelling, units_of

KEY = st.one_of(st.none(), st.sampled_from(["1", "2", "3", "10", "é", "", "z" * 40]))
TEXT = st.one_of(st.none(), st.text(st.characters(codec="utf-8"), max_size=4))
Rows = list[tuple[str | None, str | None, str | None]]


def series(texts: list[str | None]) -> pl.Series:
    return pl.Series("id", texts, pl.String)


def united(rows: Rows) -> list[int]:
    """The component of each row, by merging sets one by one: rows that share a text in a column are one."""
    parent = list(range(len(rows)))

    def root(place: int) -> int:
        while parent[place] != place:
            place = parent[place]
        return place

    for one in range(len(rows)):
        for other in range(one):
            if any(a is not None and a == b for a, b in zip(rows[one], rows[other], strict=True)):
                parent[root(one)] = root(other)
    return [root(place) for place in range(len(rows))]


@given(st.lists(TEXT, max_size=40))
def test_codes_are_places_among_the_sorted_texts(texts: list[str | None]) -> None:
    found = coded(series(texts))
    names = sorted({text for text in texts if text is not None}, key=lambda text: text.encode())
    assert found.names.to_list() == names
    assert found.codes.tolist() == [-1 if text is None else names.index(text) for text in texts]


@settings(max_examples=80)
@given(st.lists(st.tuples(KEY, KEY, KEY), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_units_are_the_components(rows: Rows, shuffle: random.Random) -> None:
    images = series([f"image {place}" for place in range(len(rows))])

    def units(order: list[int]) -> list[int]:
        keys = [coded(series([rows[place][column] for place in order])) for column in range(3)]
        return [int(unit) for unit in units_of(images.gather(order), keys)]

    order = list(range(len(rows)))
    found, wanted = units(order), united(rows)
    pairs = set(zip(found, wanted, strict=True))
    assert len(pairs) == len(set(found)) == len(set(wanted))  # one to one
    assert set(found) == set(range(len(set(found))))  # without a gap
    shuffle.shuffle(order)
    turned = units(order)
    assert turned == [found[place] for place in order]


def test_units_are_numbered_by_their_first_value_and_lone_images_come_last() -> None:
    patient = coded(series(["b", "a", None, None, "b"]))
    lesion = coded(series([None, None, None, "l", "l"]))
    assert units_of(series(["v", "w", "x", "y", "z"]), [patient, lesion]).tolist() == [1, 0, 2, 1, 1]
    assert units_of(series(["v", "w", "x", "y", "z"]), [patient]).tolist() == [1, 0, 2, 3, 1]
    assert units_of(series(["y", "x"]), []).tolist() == [1, 0]


def test_a_chain_of_groups_is_one_unit() -> None:
    # image k shares its patient with k + 1 and its lesion with k - 1
    many = 20_000
    patient = coded(series([str(place // 2) for place in range(many)]))
    lesion = coded(series([str((place + 1) // 2) for place in range(many)]))
    assert not units_of(series([str(place) for place in range(many)]), [patient, lesion]).any()


def test_values_that_no_row_has_make_no_gap() -> None:
    left = Coded(series(["a", "b", "c"]), np.array([2, 0, 2]))
    right = Coded(series(["x", "y"]), np.array([-1, 1, -1]))
    assert units_of(series(["1", "2", "3"]), [left, right]).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("ids", "said"),
    [
        (["7", "007", "8"], "holds '007' and '7': one patient or two"),
        (["7", "7.0"], "holds '7' and '7.0'"),
        (["7.00", "07"], "holds '07' and '7.00'"),
        (["0", "000"], "holds '0' and '000'"),
        (["P1", "p1"], "holds 'P1' and 'p1'"),
        (["P1", "P001"], "holds 'P001' and 'P1'"),
        (["P-03", "p003"], "holds 'P-03' and 'p003'"),
        (["\u00e9", "e\u0301"], "one patient or two"),
        (["\u00c9", "e\u0301"], "one patient or two"),
        (["10.0", "0010"], "holds '0010' and '10.0'"),
        (["5.0", "005", "123"], "holds '005' and '5.0'"),
        (["St. Mary", "St.  mary"], "holds 'St.  mary' and 'St. Mary'"),
        ([" a b", "a\u00a0b "], "one patient or two"),
        (["a\x1f7", "a\x1f007", "b\x1f7"], r"holds 'a\\\\x1f007' and 'a\\\\x1f7'"),
        (["7", "07", "8", "08", "9"], r"'07' and '7' \(2 such ids\)"),
        (["\x1b[1mA", "\x1b[1ma"], r"'\\\\x1b\[1mA' and"),
    ],
)
def test_spellings_of_one_id_are_refused(ids: list[str | None], said: str) -> None:
    with pytest.raises(SplitError, match=f"^column 'pid' .*{said}") as error:
        one_spelling(coded(series(ids)), "pid")
    assert "--ids-as-written" in str(error.value)


def test_sites_are_named_as_such() -> None:
    with pytest.raises(SplitError, match=r"^column 'ward' holds 'B' and 'b': one site or two\?"):
        one_spelling(coded(series(["B", "b"])), "ward", "site")


@pytest.mark.parametrize(
    "ids",
    [
        ["7", "8", None],
        ["7.5", "7.50"],
        ["p7", "q7"],
        ["1-12", "11-2"],
        ["a", "b", "ab"],
        ["07", "08"],
        ["1.0.0", "1.0"],
        ["1.0.0", "0.1.0", "10.00"],
        ["a b", "ab"],
        ["a\x1f7", "b\x1f7", "b\x1f8"],
        ["", "0"],
        [],
    ],
)
def test_other_ids_are_different(ids: list[str | None]) -> None:
    one_spelling(coded(series(ids)), "pid")
