"""Labels, ages, groups and files, as several adapters read them."""

from pathlib import Path

import polars as pl
import pytest

from splits.datasets import common
from splits.errors import SplitError

HERE = Path("labels.csv")


def texts(**columns: list[str | None]) -> pl.DataFrame:
    return pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))


@pytest.mark.parametrize(
    ("age", "band"),
    [
        ("0", "<20"), ("19.9", "<20"), ("20", "20-39"), ("39", "20-39"), ("40", "40-59"), ("60", "60-79"),
        ("79", "60-79"), ("80", ">=80"), ("85.0", ">=80"), ("100", ">=80"), ("120", ">=80"), ("121", None),
        ("414", None), ("-1", None), ("nan", None), ("unknown", None), (None, None),
    ],
)  # fmt: skip
def test_age_group(age: str | None, band: str | None) -> None:
    frame = texts(age=[age]).select(common.age_group("age"))
    assert frame["age_group"].to_list() == [band]
    assert band is None or band in common.AGE_BANDS


def test_labels_in_class_order_and_absent_ones_are_null() -> None:
    frame = texts(dx=["NV", "mel", None, "-100", "?", "NaN", "unknown", "nv"])
    label = common.labels_from(frame, "dx", ("mel", "nv"), HERE)
    assert label.to_list() == [1, 0, None, None, None, None, None, 1]
    assert label.name == "label"
    assert label.dtype == pl.Int64


def test_labels_of_a_column_of_floats() -> None:
    frame = texts(grade=["0.0", "3", None, "4.0"])
    assert common.labels_from(frame, "grade", ("0", "1", "2", "3", "4"), HERE).to_list() == [0, 3, None, 4]


def test_a_class_wins_over_a_word_for_missing() -> None:
    frame = texts(view=["unknown", "none", "-1"])
    assert common.labels_from(frame, "view", {"unknown": 7, "-1": 2}, HERE).to_list() == [7, None, 2]


def test_an_unknown_label_is_shown_with_its_row() -> None:
    frame = texts(grade=["0", "5", "2.5", "5"])
    with pytest.raises(SplitError) as caught:
        common.labels_from(frame, "grade", ("0", "1"), HERE)
    assert str(caught.value) == (
        "labels.csv, row 2, column 'grade': '5' is no label of this data set (3 rows, 2 such values); "
        "wanted 0, 1, or an empty cell"
    )


def test_rows_that_repeat_are_left_out_and_counted() -> None:
    frame = texts(image=["a", "b", "a", "a"], site=["x", None, "x", "x"])
    once, notes = common.one_row_an_image(frame, HERE)
    assert once["image"].to_list() == ["a", "b"]
    assert notes == ("2 rows repeat another row and were left out",)


def test_an_image_with_two_rows_that_differ_is_refused() -> None:
    frame = texts(image=["a", "b", "b"], site=["x", "x", "y"], sex=["f", "m", "m"])
    with pytest.raises(SplitError, match=r"image 'b' comes 2 times with different site \(1 such images\)"):
        common.one_row_an_image(frame, HERE)


def test_an_image_without_a_name_is_refused() -> None:
    with pytest.raises(SplitError, match=r"labels\.csv, row 2: the image has no name"):
        common.one_row_an_image(texts(image=["a", None]), HERE)


def test_files_of_a_folder_in_the_order_of_the_names(tmp_path: Path) -> None:
    for name in ("Test.csv", "train.csv.gz", "other.csv"):
        (tmp_path / name).touch()
    found = common.the_files([tmp_path], ("train.csv", "test.csv"))
    assert [path.name for path in found] == ["train.csv.gz", "Test.csv"]
    assert common.the_files([Path("a"), Path("b")], ("train.csv",)) == [Path("a"), Path("b")]


def test_a_folder_without_the_file_is_refused_with_the_near_name(tmp_path: Path) -> None:
    (tmp_path / "train_1.csv").touch()
    with pytest.raises(SplitError, match=r"the folder has no train\.csv; did you mean 'train_1\.csv'"):
        common.the_files([tmp_path], ("train.csv",))
    with pytest.raises(SplitError, match=r"no file is given; wanted train\.csv"):
        common.the_files([], ("train.csv",))
    with pytest.raises(SplitError, match=r"n{300} can't be read"):
        common.the_files([tmp_path / ("n" * 300)], ("train.csv",))


@pytest.mark.parametrize(
    "text",
    [
        "left;right\nA.png;b.JPG\nc.png;d.png\n",
        "A.png;b.JPG\nc.png;d.png\n",
        "group,path\n1,../input/A.png\n1,D:\\images\\b.JPG\n2,c.png\n2,d.png\n",
        "hash,image_id,diagnosis\n1,a,0\n1,b,2\n2,c,1\n2,d,1\n",
    ],
)
def test_groups_by_pairs_or_by_a_column(tmp_path: Path, text: str) -> None:
    file = tmp_path / "groups.csv"
    file.write_text(text, encoding="utf-8")
    groups = common.read_groups(file).group_by("group").agg(pl.col("key").sort())
    assert sorted(groups["key"].to_list()) == [["a", "b"], ["c", "d"]]


def test_groups_of_one_column_and_an_image_in_two_groups_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "groups.csv"
    file.write_text("image\na\nb\n", encoding="utf-8")
    with pytest.raises(SplitError, match="one column, 'image', groups no images"):
        common.read_groups(file)
    file.write_text("left;right\na.png;b.png\nb.png;c.png\n", encoding="utf-8")
    with pytest.raises(SplitError, match="image 'b' is in 2 groups"):
        common.read_groups(file)


def test_grouped_counts_conflicts_strangers_and_leaves_single_images(tmp_path: Path) -> None:
    file = tmp_path / "copies.csv"
    file.write_text("group,image\n1,a\n1,b\n2,c\n2,z\n3,d\n3,e\n", encoding="utf-8")
    frame = texts(image=["e.png", "d.png", "a.png", "b.png", "c.png"]).with_columns(label=pl.Series([1, None, 0, 2, 0]))
    joined, notes = common.grouped(frame, file, "duplicate groups")
    assert joined["image"].to_list() == frame["image"].to_list()
    assert joined["group"].to_list() == ["3", "3", "1", "1", None]
    assert notes == (
        "1 of 2 duplicate groups (4 images) carry different labels",
        "1 images of copies.csv are not in the label file",
    )


def test_a_list_of_groups_of_another_data_set_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "copies.csv"
    file.write_text("group,image\n1,x\n1,y\n", encoding="utf-8")
    with pytest.raises(SplitError, match="names no image of the label file, such as 'a'"):
        common.grouped(texts(image=["a"]).with_columns(label=pl.lit(0)), file, "groups")


def test_columns_come_in_one_order() -> None:
    frame = texts(sex=[], label_1=[], label_0=[], image=[], site=[], patient=[])
    assert common.in_order(frame).columns == ["image", "patient", "site", "label_1", "label_0", "sex"]
