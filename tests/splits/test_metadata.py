"""A table's columns as images: what is taken, and each way in which it can't be."""

from pathlib import Path

import polars as pl
import pytest

from splits.errors import SplitError
from splits.metadata import Columns, Gathered, Reading, gather
from splits.reading import Table

Cells = list[str | None]
BASE: dict[str, Cells] = {
    "image": ["a", "b", "c", "d"],
    "patient": ["1", "2", "3", "4"],
    "label": ["no", "yes", "no", "yes"],
}
ONE = Columns("patient", ("label",))


def table(**columns: Cells) -> Table:
    frame = pl.DataFrame([pl.Series(name, cells, pl.String) for name, cells in (BASE | columns).items()])
    return Table(frame, Path("t.csv"), "0" * 64)


def gathered(columns: Columns = ONE, reading: Reading | None = None, **cells: Cells) -> Gathered:
    return gather(table(**cells), columns, reading or Reading())


def labels(found: Gathered) -> list[int | None]:
    return found.images.frame["label"].to_list()


def test_a_plain_table() -> None:
    found = gathered()
    assert found.images.frame.to_dict(as_series=False) == {
        "image": ["a", "b", "c", "d"],
        "patient": ["1", "2", "3", "4"],
        "site": ["unstated"] * 4,
        "label": [0, 1, 0, 1],
    }
    assert (found.kind, found.classes, found.image_column) == ("binary", ("no", "yes"), "image")
    assert found.images.notes == ("class order is that of these words (0 no, 1 yes); --classes sets another",)


def test_every_named_column_is_carried() -> None:
    named = Columns("patient", ("label",), "image", "ward", ("lesion",), ("age", "ward"), ("sex",))
    wards: Cells = ["n", "s", "n", "s"]
    found = gathered(
        named, ward=wards, lesion=["l", None, "l", "m"], age=["1", None, "2", "2"], sex=["F", None, "M", "F"]
    )
    frame = found.images.frame
    assert frame.columns == ["image", "patient", "site", "group_0", "stratify_0", "stratify_1", "sex", "label"]
    assert frame["site"].to_list() == frame["stratify_1"].to_list() == wards
    assert frame["group_0"].to_list() == ["l", None, "l", "m"]
    assert found.subgroups == ("sex",)


@pytest.mark.parametrize("name", ["image_id", "Image Index", "FILENAME", "id_code", "Path"])
def test_the_image_column_is_known_by_its_name(name: str) -> None:
    cells = table().frame.rename({"image": name})
    assert gather(Table(cells, Path("t.csv"), "0" * 64), ONE, Reading()).image_column == name


@pytest.mark.parametrize(
    ("cells", "classes", "expected", "names"),
    [
        (["1", "0", "2", "1"], (), [1, 0, 2, 1], ("0", "1", "2")),
        (["1.0", "0", "01", "1"], (), [1, 0, 1, 1], ("0", "1")),
        (["3", "1", "10", "1"], (), [1, 0, 2, 0], ("1", "3", "10")),
        (["10", "9", "x", "x"], (), [0, 1, 2, 2], ("10", "9", "x")),
        (["x", "y", "x", "y"], ("y", "x"), [1, 0, 1, 0], ("y", "x")),
        (["x", "y", "x", "y"], ("y", "z", "x"), [2, 0, 2, 0], ("y", "z", "x")),
        (["0", "1", "2.0", "1"], ("none", "mild", "severe"), [0, 1, 2, 1], ("none", "mild", "severe")),
        (["1.0", "0.0", "1", "0"], ("1", "0"), [0, 1, 0, 1], ("1", "0")),
        (["2.0", "1.0", "2", "1"], ("1", "2"), [1, 0, 1, 0], ("1", "2")),
        (["na", "x", "na", "x"], ("na", "x"), [0, 1, 0, 1], ("na", "x")),
    ],
)
def test_class_indices(cells: Cells, classes: tuple[str, ...], expected: list[int], names: tuple[str, ...]) -> None:
    found = gathered(reading=Reading(classes), label=cells)
    assert labels(found) == expected
    assert found.classes == names
    assert found.kind == ("binary" if len(names) == 2 else "multiclass")


def test_what_is_said_of_class_order_and_absent_classes() -> None:
    assert gathered(label=["1", "4", "2", "4"]).images.notes == ("classes 1, 2, 4 become 0 to 2",)
    assert gathered(label=["1", "0", "1", "0"]).images.notes == ()
    assert gathered(reading=Reading(("yes", "z", "no"))).images.notes == ("no image of class z",)


@pytest.mark.parametrize("token", [None, "nan", "NaN", "NA", "n/a", "null", "?", "-100", "-100.0"])
def test_images_without_a_label_are_refused_or_left_out(token: str | None) -> None:
    cells: Cells = ["no", token, "yes", "no"]
    with pytest.raises(SplitError, match=r"column 'label' holds no label of 1 of 4 images .*--drop-unlabelled"):
        gathered(label=cells)
    found = gathered(reading=Reading(drop_unlabelled=True), label=cells)
    assert found.images.frame["image"].to_list() == ["a", "c", "d"]
    assert found.images.notes[0] == "1 images without a label are left out"


def test_rows_that_repeat_an_image() -> None:
    found = gathered(image=["a", "a", "c", "d"], patient=["1", "1", "3", "4"], label=["no", "no", "no", "yes"])
    assert found.images.frame["image"].to_list() == ["a", "c", "d"]
    assert found.images.notes[0].startswith("1 rows repeat an image with the same content")


def test_windows_paths_are_one_name_with_others() -> None:
    found = gathered(image=["x\\a", "x/b", "c", "d"])
    assert found.images.frame["image"].to_list() == ["x/a", "x/b", "c", "d"]
    assert found.images.notes[0].startswith("1 image names hold a backslash")
    with pytest.raises(SplitError, match="image 'x/a' comes with patient '1' and '2'"):
        gathered(image=["x\\a", "x/a", "c", "d"])


def test_findings_in_columns() -> None:
    named = Columns("patient", ("edema", "mass"))
    found = gathered(
        named, Reading(drop_unlabelled=True), edema=["1", "0.0", None, "-1"], mass=["1.0", "0", "nan", "1"]
    )
    assert (found.kind, found.classes) == ("multilabel", ("edema", "mass"))
    assert found.images.frame.select("image", "label_0", "label_1").rows() == [("a", 1, 1), ("b", 0, 0), ("d", None, 1)]
    assert found.images.notes == (
        "1 images are uncertain (-1) for edema; they count as not labelled",
        "1 images without a label are left out",
    )


def test_findings_in_one_column() -> None:
    named = Columns("patient", ("label",), separator="|")
    found = gathered(named, label=["mass | edema", "No Finding", "mass", "mass|mass"])
    assert (found.kind, found.classes) == ("multilabel", ("edema", "mass"))
    assert found.images.frame.select("label_0", "label_1").rows() == [(1, 1), (0, 0), (0, 1), (0, 1)]
    assert found.images.notes == ("'No Finding' means that no finding is present",)
    ordered = gathered(named, Reading(("mass", "fracture", "edema")), label=["mass|edema", "none", "mass", "edema"])
    assert ordered.images.frame.select("label_0", "label_1", "label_2").rows() == [
        (1, 0, 1), (0, 0, 0), (1, 0, 0), (0, 0, 1),
    ]  # fmt: skip
    with pytest.raises(SplitError, match="no label of 1 of 4 images"):
        gathered(named, label=["mass|edema", "nan", "mass", "edema"])


def subgrouped(*names: str) -> Columns:
    return Columns("patient", ("label",), subgroups=names)


MANY: dict[str, Cells] = {
    "image": [str(index) for index in range(300)],
    "patient": [str(index) for index in range(300)],
}
SEX: Cells = ["F", "M", "F", "M"]
WIDE: Cells = [f"name {index}" for index in range(300)]
REFUSED: list[tuple[Columns, Reading, dict[str, Cells], str]] = [
    (Columns("pat", ("label",)), Reading(), {}, r"^t\.csv: there is no column 'pat'; did you mean 'patient'\? it has"),
    (Columns("patient", ("label",), image="img"), Reading(), {}, r"no column 'img'; did you mean 'image'\?"),
    (Columns("patient", ("label",), stratify=("sex",)), Reading(), {}, "there is no column 'sex'"),
    (subgrouped("sex"), Reading(), {}, "there is no column 'sex'"),
    (Columns("patient", ()), Reading(), {}, "no column is named for the labels"),
    (ONE, Reading(), {"image": [], "patient": [], "label": []}, r"^t\.csv has a header and no row"),
    (ONE, Reading(), {"filename": SEX}, "which column holds the images\\? 'image' and 'filename' could each be"),
    (Columns("image", ("label",)), Reading(), {}, "which column holds the images\\? none is named like one"),
    (Columns("image", ("label",), "image"), Reading(), {}, "column 'image' is named for two things"),
    (Columns("label", ("label",)), Reading(), {}, "column 'label' is named for two things"),
    (Columns("patient", ("label",), groups=("g", "g")), Reading(), {"g": SEX}, "column 'g' is named for two things"),
    (ONE, Reading(), {"image": ["a", None, "c", None]}, r"'image' is empty in 2 of 4 rows \(first: row 2\)"),
    (ONE, Reading(), {"patient": ["1", "2", None, "4"]}, r"'patient' is empty in 1 of 4 rows \(first: row 3\)"),
    (Columns("patient", ("label",), site="s"), Reading(), {"s": ["n", "n", "n", None]}, "'s' is empty in 1 of 4 rows"),
    (Columns("patient", ("label",), site="s"), Reading(), {"s": ["n", "n", "n", "a\nb"]}, r"holds 'a\\\\nb'; what is"),
    (ONE, Reading(), {"patient": ["1", "NA", None, "na"]}, r"is empty or 'NA' in 3 of 4 rows \(first: row 2\); images"),
    (ONE, Reading(), {"patient": ["1", "Unknown", "2", "3"]}, r"'patient' is empty or 'Unknown' in 1 of 4 rows"),
    (ONE, Reading(), {"patient": ["p1", "p1\u200b", "p2", "p3"]}, r"'patient' holds 'p1\\u200b' \(row 2; 1 such"),
    (ONE, Reading(), {"patient": ["1.8e+16", "2", "3", "4"]}, r"'patient' holds '1\.8e\+16' \(1 such cells\): numbers"),
    (ONE, Reading(), {"image": ["1.8E+16", "2", "3", "4"]}, "'image' holds .* numbers that lost digits"),
    (Columns("patient", ("label",), groups=("g",)), Reading(), {"g": ["1.8e+16", None, "3", "4"]}, "'g' holds .* lost"),
    (Columns("patient", ("label",), groups=("g",)), Reading(), {"g": ["a\u200d", None, "3", "4"]}, "can't be seen"),
    (Columns("patient", ("label",), site="s"), Reading(), {"s": ["n", "n", "nan", "n"]}, "'s' is empty or 'nan' in 1"),
    (Columns("patient", ("label",), site="s"), Reading(), {"s": ["n", "n", "?", "n"]}, "'s' is empty or '\\?' in 1 of"),
    (ONE, Reading(), {"image": ["a", "a", "c", "d"], "label": ["x", "y", "x", "x"], "patient": ["1"] * 4},
     "image 'a' comes with label 'x' and 'y'"),
    (ONE, Reading(), {"image": ["a", "a", "c", "c"]}, r"comes with patient '\d' and '\d' \(2 such images\)"),
    (ONE, Reading(), {"image": ["\x1b[31m", "\x1b[31m", "c", "d"]}, r"'image' holds '\\x1b\[31m' \(row 1; 2 such"),
    (ONE, Reading(), {"label": [None] * 4}, "'label' holds no label at all"),
    (ONE, Reading(drop_unlabelled=True), {"label": ["?"] * 4}, "'label' holds no label at all"),
    (ONE, Reading(), {"label": ["a", "b", "a|b", "c"]}, r"'a\|b', a list of other values\? .*--label-separator '\|'"),
    (ONE, Reading(), {"label": ["x"] * 4}, r"'label' holds one class only \('x'\)"),
    (ONE, Reading(("x",)), {"label": ["x"] * 4}, r"one class only \('x'\)"),
    (ONE, Reading(), MANY | {"label": [str(index / 7) for index in range(300)]}, "holds 300 different values"),
    (ONE, Reading(("no", "z")), {}, "'label' holds 'yes', which is not among --classes no, z"),
    (ONE, Reading(("a", "b")), {"label": ["0", "1", "2", "0"]}, "'label' holds '2', which is not among"),
    (ONE, Reading(("1", "2")), {"label": ["1.0", "2.0", "3.0", "1"]}, "'label' holds '3', which is not among"),
    (ONE, Reading(("x", "1")), {"label": ["0", "1", "0", "1"]}, "'label' holds '0', which is not among"),
    (ONE, Reading(("no", "yes", "no")), {}, "classes 'no' and 'no' are one name"),
    (ONE, Reading(("no", "yes", "")), {}, "a class is called ''"),
    (ONE, Reading(), {"label": ["Mild", "mild", "x", "x"]}, "classes 'Mild' and 'mild' are one name but for case"),
    (ONE, Reading(), {"label": ["\u00e9", "e\u0301", "x", "x"]}, "are one name but for case or the form of a letter"),
    (ONE, Reading(), {"label": ["x\ny", "y", "y", "z"]}, "a class is called"),
    (Columns("patient", ("a", "b")), Reading(), {"a": ["1", "0", "0", "2"], "b": ["1"] * 4}, "'a' holds '2'; with"),
    (Columns("patient", ("a", "b")), Reading(), {"a": ["yes"] * 4, "b": ["1"] * 4}, "'a' holds 'yes'; with"),
    (Columns("patient", ("label",), separator="|"), Reading(("no", "z")), {}, "'yes', which is not among --classes no"),
    (Columns("patient", ("label",), separator="|"), Reading(), {"label": ["x"] * 4}, "holds 1 findings parted by"),
    (subgrouped("patient"), Reading(), {}, "'patient' can't be a subgroup: subgroups are"),
    (subgrouped("image"), Reading(), {}, "'image' can't be a subgroup: subgroups are"),
    (Columns("pid", ("label",), subgroups=("patient",)), Reading(), {"pid": SEX}, "is used for something else here"),
    (Columns("patient", ("label",), groups=("g",), subgroups=("g",)), Reading(), {"g": SEX}, "'g' can't be a subgroup"),
    (subgrouped("group_0"), Reading(), {"group_0": SEX}, "is used for something else"),
    (subgrouped("label_0"), Reading(), {"label_0": SEX}, "a name of the protocol's own"),
    (subgrouped("sex", "Sex"), Reading(), {"sex": SEX, "Sex": SEX}, "named twice"),
    (subgrouped("sex"), Reading(), {"sex": [None] * 4}, "it holds no level"),
    (subgrouped("sex"), Reading(), {"sex": ["a\tb", "x", "x", "x"]}, "control character"),
    (subgrouped("who"), Reading(), MANY | {"label": SEX * 75, "who": WIDE},
     "'who' can't be a subgroup: it holds 300 different values"),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "reading", "cells", "said"), REFUSED)
def test_what_cannot_be_taken_is_said(columns: Columns, reading: Reading, cells: dict[str, Cells], said: str) -> None:
    with pytest.raises(SplitError, match=said) as error:
        gathered(columns, reading, **cells)
    assert "\n" not in str(error.value)


def test_a_group_that_is_not_known_ties_nothing() -> None:
    named = Columns("patient", ("label",), groups=("g", "h"))
    found = gathered(named, g=["NA", None, "none", "l"], h=["a", None, "b", "c"])
    assert found.images.frame["group_0"].to_list() == [None, None, None, "l"]
    assert found.images.notes[0] == "2 cells of column 'g' say that there is none (NA, unknown); they tie nothing"
    assert len(found.images.notes) == 2


def test_a_site_may_be_unknown() -> None:
    found = gathered(Columns("patient", ("label",), site="s"), s=["Unknown", "n", "Unknown", "n"])
    assert found.images.frame["site"].to_list() == ["Unknown", "n", "Unknown", "n"]


def test_numbers_and_truth_values_have_one_spelling() -> None:
    named = Columns("patient", ("label",), "image", "s", ("g",), ("age",), ("smoker",))
    found = gathered(
        named,
        image=["1.0", "2.0", "3.0", "4.0"],
        patient=["7.0", "8.0", "9.0", "10.0"],
        s=["1.0", "2.0"] * 2,
        g=["5.0", None, "NA", "6.0"],
        age=["1.5", "2.0", "3.0", "4.0"],
        smoker=["True", "False", None, "TRUE"],
        label=["True", "False"] * 2,
    )
    assert found.images.frame.to_dict(as_series=False) == {
        "image": ["1", "2", "3", "4"],
        "patient": ["7", "8", "9", "10"],
        "site": ["1", "2", "1", "2"],
        "group_0": ["5", None, None, "6"],
        "stratify_0": ["1.5", "2", "3", "4"],
        "smoker": ["true", "false", None, "true"],
        "label": [1, 0, 1, 0],
    }
    assert sum("written with .0" in note for note in found.images.notes) == 5


PEOPLE: dict[str, Cells] = {
    "image": [f"i{place}" for place in range(120)],
    "patient": [f"P{place // 2}" for place in range(120)],
    "label": ["no", "yes"] * 60,
}


@pytest.mark.parametrize("levels", [31, 59, 60])
def test_a_copy_of_the_patients_is_not_published(levels: int) -> None:
    copy: Cells = [f"SMITH {place // 2 % levels}" for place in range(120)]
    cells = PEOPLE | {"case": copy}
    with pytest.raises(
        SplitError, match=f"'case' can't be a subgroup: its {levels} values are nearly as many as those"
    ):
        gathered(subgrouped("case"), None, **cells)
    with pytest.raises(SplitError, match=f"'case' can't be a site: its {levels} values are .* of 'patient' and would"):
        gathered(Columns("patient", ("label",), site="case"), None, **cells)
    lesion = Columns(None, ("label",), groups=("patient",), subgroups=("case",))
    with pytest.raises(SplitError, match="'case' can't be a subgroup"):
        gathered(lesion, None, **cells)


def test_levels_that_name_nobody_are_published() -> None:
    wards: Cells = [f"ward {place // 2 % 30}" for place in range(120)]
    assert gathered(subgrouped("ward"), None, **PEOPLE, ward=wards).subgroups == ("ward",)
    few = {name: cells[:8] for name, cells in PEOPLE.items()}
    sites: Cells = [f"site {place // 2}" for place in range(8)]
    assert gathered(Columns("patient", ("label",), site="s"), None, **few, s=sites).images.frame["site"].n_unique() == 4


def test_columns_called_almost_like_ours_are_subgroups() -> None:
    found = gathered(subgrouped("group_age", "stratify_by"), group_age=SEX, stratify_by=SEX)
    assert found.subgroups == ("group_age", "stratify_by")
