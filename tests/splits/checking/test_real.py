"""Released fold lists and tables, where they are on the machine."""

from pathlib import Path

import polars as pl

from splits.checking import Options, check_splits
from tests.splits.datasets.real import released


def test_patients_of_seven_cohorts_lie_in_one_fold_each() -> None:
    folds = released("hayden-farquhar+PanRareWSI", "data/splits")
    report = check_splits(sorted(folds.glob("*_splits.csv")))
    assert report.findings == ()
    assert sum(report.splits.values()) == 596
    assert len(report.splits) == 7


def test_a_split_of_nih_by_image_leaks_patients(tmp_path: Path) -> None:
    nih = released("mlmed+torchxrayvision", "torchxrayvision/data/Data_Entry_2017_v2020.csv.gz")
    table = pl.read_csv(nih, columns=["Image Index", "Finding Labels", "Patient ID"], infer_schema=False)
    table = table.with_columns(
        split=pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("test")).otherwise(pl.lit("train"))
    )
    path = tmp_path / "by_image.csv"
    table.write_csv(path)
    report = check_splits([path])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 9_700)]
    by_name = check_splits([path], Options(pattern="nih"))
    assert [leak.count for leak in by_name.leaks] == [9_700]
