"""NIH ChestX-ray14: patients, findings, ages and the published lists."""

from pathlib import Path

import polars as pl
import pytest

from splits.datasets.nih import CLASSES, NIH
from splits.errors import SplitError
from tests.splits.datasets.real import released

HEADER = (
    "Image Index,Finding Labels,Follow-up #,Patient ID,Patient Age,Patient Gender,View Position,"
    "OriginalImage[Width,Height],OriginalImagePixelSpacing[x,y]\n"
)
SIZE = ",2000,2100,0.2,0.2\n"
ROWS = (
    f"00090001_000.png,Cardiomegaly,0,90001,51,M,AP{SIZE}"
    f"00090001_001.png,Hernia|Atelectasis,1,90001,52,M,PA{SIZE}"
    f"00090002_000.png,No Finding,0,90002,424,F,PA{SIZE}"
    f"00099805_000.png,,0,99805,9,F,PA{SIZE}"
)


def table(folder: Path, text: str, name: str = "Data_Entry_2017_v2020.csv") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_the_release(tmp_path: Path) -> None:
    table(tmp_path, HEADER + ROWS)
    images = NIH.read([tmp_path], {})
    frame = images.frame
    assert frame["image"].to_list() == ["00090001_000.png", "00090001_001.png", "00090002_000.png", "00099805_000.png"]
    assert frame["patient"].to_list() == ["00090001", "00090001", "00090002", "00099805"]
    assert frame["site"].unique().to_list() == ["nih"]
    assert frame["sex"].to_list() == ["male", "male", "female", "female"]
    assert frame["age_group"].to_list() == ["40-59", "40-59", None, "<20"]
    assert frame["view"].to_list() == ["AP", "PA", "PA", "PA"]
    labels = frame.select(pl.col(r"^label_\d+$"))
    assert labels.columns == [f"label_{k}" for k in range(14)]
    assert set(labels.dtypes) == {pl.Int8}
    found = [[CLASSES[k] for k, value in enumerate(row) if value] for row in labels.rows()]
    assert found == [["Cardiomegaly"], ["Atelectasis", "Hernia"], [], []]
    assert labels.row(2) == (0,) * 14
    assert labels.row(3) == (None,) * 14
    assert images.notes == (
        "4 rows, 3 patients, up to 2 images a patient",
        "1 images have no finding labels at all and are not labelled",
        "1 ages above 120 years, or no number, are errors of entry and left empty",
    )


def test_the_first_release(tmp_path: Path) -> None:
    """Ages with their unit, patients as floats, and a comma at the end of every line."""
    header = HEADER.rstrip("\n") + ",\n"
    rows = "".join(
        f"0009000{n}_000.png,Mass,0,9000{n}.0,{age},F,AP,1,1,0.1,0.1,\n"
        for n, age in enumerate(("058Y", "009M", "012D", "080Y"), 1)
    )
    frame = NIH.read([table(tmp_path, header + rows, "Data_Entry_2017.csv")], {}).frame
    assert frame["age_group"].to_list() == ["40-59", "<20", "<20", ">=80"]
    assert frame["patient"][0] == "00090001"


def test_published_lists(tmp_path: Path) -> None:
    table(tmp_path, HEADER + ROWS)
    (tmp_path / "train_val_list.txt").write_text("00090001_000.png\n00090002_000.png\n00099999_000.png\n")
    (tmp_path / "test_list.txt").write_text("00090001_001.png\r\n")
    images = NIH.read([tmp_path], {})
    assert images.frame["published"].to_list() == ["train_val", "test", "train_val", None]
    assert images.notes[3:] == (
        "1 images of the published lists are not in the table",
        "1 images of the table are in none of the lists given",
        "patients that lie in more than one published split (test, train_val): 1 of 2, with 2 images; the "
        "published split leaks",
    )
    (tmp_path / "test_list.txt").write_text("00090001_000.png\n")
    with pytest.raises(SplitError, match="in both published lists"):
        NIH.read([tmp_path], {})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            HEADER + ROWS.replace(",0,90002,", ",0,3,"),
            r"row 3: image '00090002_000.png' and Patient ID '3' don't agree",
        ),
        (HEADER + ROWS.replace("Hernia", "Covid"), r"row 2: 'Covid' is no finding"),
        (HEADER + ROWS.replace("Hernia", "No Finding"), "has 'No Finding' beside a finding"),
        (HEADER + ROWS + ROWS.replace("PA", "AP"), "different view"),
        (HEADER.replace("Patient ID", "PatientID") + ROWS, "did you mean 'PatientID'"),
        (HEADER, "no row below"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        NIH.read([table(tmp_path, text)], {})


def test_two_tables_and_maps_are_refused(tmp_path: Path) -> None:
    files = [table(tmp_path, HEADER + ROWS, name) for name in ("Data_Entry_2017.csv", "Data_Entry_2017_v2020.csv")]
    with pytest.raises(SplitError, match="wanted one table"):
        NIH.read([tmp_path], {})
    with pytest.raises(SplitError, match="no map 'nih'"):
        NIH.read(files[:1], {"nih": files[0]})


def test_the_released_table() -> None:
    images = NIH.read([released("mlmed+torchxrayvision", "torchxrayvision/data/Data_Entry_2017_v2020.csv.gz")], {})
    frame = images.frame
    assert (frame.height, frame["patient"].n_unique()) == (112_120, 30_805)
    sums = frame.select(pl.col(r"^label_\d+$").cast(pl.Int64).sum()).row(0)
    assert sums == (11559, 2776, 13317, 19894, 5782, 6331, 1431, 5302, 4667, 2303, 2516, 1686, 3385, 227)
    assert frame.select(pl.col(r"^label_\d+$")).null_count().row(0) == (0,) * 14
    assert images.notes == ("112,120 rows, 30,805 patients, up to 184 images a patient",)
