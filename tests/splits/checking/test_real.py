"""Released fold lists, where they are on the machine: ``MVC_REAL_DATA``, else ``shared/real`` beside the checkout."""

import os
from pathlib import Path

import pytest

from splits.checking import Options, check_splits

ROOT = Path(os.environ.get("MVC_REAL_DATA") or Path(__file__).resolve().parents[4] / "shared" / "real")
FOLDS = ROOT / "hayden-farquhar+PanRareWSI" / "data" / "splits"
NIH = ROOT / "mlmed+torchxrayvision" / "torchxrayvision" / "data" / "Data_Entry_2017_v2020.csv.gz"


@pytest.mark.skipif(not FOLDS.is_dir(), reason="the released folds of PanRareWSI are not on this machine")
def test_patients_of_seven_cohorts_lie_in_one_fold_each() -> None:
    report = check_splits(sorted(FOLDS.glob("*_splits.csv")))
    assert report.findings == ()
    assert sum(report.splits.values()) == 596
    assert len(report.splits) == 7


@pytest.mark.skipif(not NIH.is_file(), reason="the released NIH table is not on this machine")
def test_a_split_of_nih_by_image_leaks_patients(tmp_path: Path) -> None:
    import polars as pl

    table = pl.read_csv(NIH, columns=["Image Index", "Finding Labels", "Patient ID"], infer_schema=False)
    table = table.with_columns(
        split=pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("test")).otherwise(pl.lit("train"))
    )
    path = tmp_path / "by_image.csv"
    table.write_csv(path)
    report = check_splits([path])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 9_700)]
    by_name = check_splits([path], Options(pattern="nih"))
    assert [leak.count for leak in by_name.leaks] == [9_700]
