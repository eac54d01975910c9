"""Labels from cells: which class is which, and what is no label."""

from collections.abc import Sequence

import polars as pl
import pytest

from splits.errors import SplitError
from splits.labels import PAIRS, Labelled, labelled

Cells = Sequence[str | None]


def of(*columns: Cells, named: tuple[str, ...] = (), separator: str | None = None, drop: bool = False) -> Labelled:
    frame = pl.DataFrame(
        [pl.Series(f"label_{index}", cells, pl.String) for index, cells in enumerate(columns)]
    ).with_row_index("row")
    return labelled(frame, tuple(f"c{index}" for index in range(len(columns))), separator, named, drop=drop)


@pytest.mark.parametrize(("negative", "positive"), PAIRS)
def test_known_pairs_have_their_order_whatever_the_alphabet(negative: str, positive: str) -> None:
    cells = [positive.capitalize(), negative.capitalize(), negative.capitalize()]
    found = of(cells)
    assert found.rows["label"].to_list() == [1, 0, 0]
    if (negative, positive) != ("false", "true"):  # read in lower case
        assert found.classes == (negative.capitalize(), positive.capitalize())
    assert (found.kind, found.notes[0].partition(" (")[0]) == ("binary", "class order is that of these words")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            ["melanoma", "nevus"],
            r"'melanoma' and 'nevus': which is the positive class\? Say --classes NEGATIVE,POSITIVE",
        ),
        (["tumour", "no tumour"], '--classes "no tumour,tumour" or "tumour,no tumour"'),
        (["normal", "malignant"], "--classes malignant,normal or normal,malignant"),
        (["0.5", "1.5"], "which is the positive class"),
        (["0", "x"], "which is the positive class"),
        (["a\x1b[1m", "b"], r"'a\\\\x1b\[1m' and 'b'"),
    ],
)
def test_two_other_words_need_their_order(cells: Cells, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        of(cells)


def test_the_order_that_is_named_is_taken() -> None:
    assert of(["melanoma", "nevus"], named=("nevus", "melanoma")).rows["label"].to_list() == [1, 0]
    assert of(["Yes", "No"], named=("Yes", "No")).rows["label"].to_list() == [0, 1]
    assert of(["b", "a", "c"]).notes == ("class order is alphabetical (0 a, 1 b, 2 c); --classes sets another",)


@pytest.mark.parametrize("named", [("False", "True"), ("false", "true"), ("FALSE", "True")])
@pytest.mark.parametrize("cells", [["True", "False"], ["true", "false"], ["TRUE", "FALSE"], ["true", "FALSE"]])
def test_truth_values_have_one_spelling(cells: Cells, named: tuple[str, ...]) -> None:
    assert of(cells, named=named).rows["label"].to_list() == [1, 0]
    assert of(cells, named=named[::-1]).rows["label"].to_list() == [0, 1]
    assert of([*cells, "nan"], drop=True).classes == ("false", "true")


@pytest.mark.parametrize("cells", [["-1", "0", "1"], ["-1.0", "0.0"], ["-9", "1", "2"], ["-1", "a", "b"], ["-2", "2"]])
def test_negative_numbers_are_no_class_unless_named(cells: Cells) -> None:
    with pytest.raises(SplitError, match=r"column 'c0' holds -\d, which often says that there is no label"):
        of(cells)


def test_negative_numbers_that_are_classes() -> None:
    signs = of(["-1", "1.0", "-1"])
    assert (signs.rows["label"].to_list(), signs.classes) == ([0, 1, 0], ("-1", "1"))
    assert signs.notes == ("classes -1, 1 become 0 to 1",)
    named = of(["-1", "0", "1"], named=("-1", "0", "1"))
    assert (named.rows["label"].to_list(), named.classes) == ([0, 1, 2], ("-1", "0", "1"))


@pytest.mark.parametrize(
    ("cells", "named"),
    [(["1", "2", "3"], ("a", "b", "c", "d")), (["1", "2", "3"], ("a", "b", "c")), (["2.0", "3"], ("a", "b", "c", "d"))],
)
def test_names_for_numbers_that_count_from_one_are_refused(cells: Cells, named: tuple[str, ...]) -> None:
    with pytest.raises(SplitError, match=r"column 'c0' counts from \d: is that the first of --classes a, b, c"):
        of(cells, named=named)


def test_names_for_numbers_that_count_from_zero() -> None:
    found = of(["0", "2", "3"], named=("a", "b", "c", "d"))
    assert (found.rows["label"].to_list(), found.notes) == ([0, 2, 3], ("no image of class b",))
    found = of(["1", "2", "3"], named=("0", "1", "2", "3"))
    assert (found.rows["label"].to_list(), found.notes) == ([1, 2, 3], ("no image of class 0",))


def test_findings_in_columns_may_be_true_and_false() -> None:
    found = of(["True", "FALSE", "nan"], ["1", "0", "true"])
    assert found.rows.select("label_0", "label_1").rows() == [(1, 1), (0, 0), (None, 1)]
    with pytest.raises(SplitError, match="'c0' holds 'no'; with several --label columns"):
        of(["yes", "no"], ["1", "0"])


def test_findings_in_one_column_and_marks_at_the_end() -> None:
    found = of(["mass|", "|edema| mass", "none"], separator="|")
    assert found.rows.select("row", "label_0", "label_1").rows() == [(0, 0, 1), (1, 1, 1), (2, 0, 0)]
    assert found.notes == ("'none' means that no finding is present",)


@pytest.mark.parametrize("cell", ["", "|", " | ", "nan", "NA|nan", "?|", None])
def test_cells_without_a_finding_or_a_word_for_none_are_no_label(cell: str | None) -> None:
    with pytest.raises(SplitError, match="no label of 1 of 3 images"):
        of(["mass", cell or None, "edema"], separator="|")
    found = of(["mass", cell or None, "edema"], separator="|", drop=True)
    assert found.rows.select("row", "label_0", "label_1").rows() == [(0, 0, 1), (2, 1, 0)]
    assert found.classes == ("edema", "mass")


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (
            ["mass", "mass|nan", "edema"],
            r"holds 'mass\|nan' \(1 such values\): a finding and, beside it, a word for no label",
        ),
        (["mass", "edema|?|mass", "NA|mass"], r"'NA\|mass' \(2 such values\)"),
        (["mass", "edema", "Normal|mass"], r"'Normal\|mass' .* a word for no finding"),
        (["mass", "edema", "mass|No Finding"], r"'mass\|No Finding' .* a word for no finding"),
        (["mass", "edema", "none|nan"], r"'none\|nan' .* a word for no label"),
    ],
)
def test_findings_that_contradict_themselves_are_refused(cells: Cells, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        of(cells, separator="|")


def test_a_word_that_is_named_is_a_finding() -> None:
    found = of(["mass", "No Finding", "mass|na"], separator="|", named=("mass", "No Finding", "na"))
    assert found.rows.select("label_0", "label_1", "label_2").rows() == [(1, 0, 0), (0, 1, 0), (1, 0, 1)]
