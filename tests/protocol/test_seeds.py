"""MVC205 compares seeds row by row: runs that only share their values as a heap are not copies."""

from pathlib import Path

import polars as pl

from tests.builders import good_submission, write
from tests.referee import quick_check


def fired(folder: Path, none: pl.Expr) -> bool:
    """Whether MVC205 fires when the uncalibrated rows hold ``none``."""
    draft = good_submission()
    uncalibrated = pl.col("calibrator") == "none"
    draft.predictions = draft.predictions.with_columns(
        p_1=pl.when(uncalibrated).then(none.over("seed", "calibrator")).otherwise("p_1")
    )
    return any(finding.rule == "MVC205" for finding in quick_check(write(draft, folder)).rejecting)


def test_constants_that_differ_by_seed_are_not_equal(tmp_path: Path) -> None:
    assert not fired(tmp_path / "apart", 0.3 + pl.col("seed") / 100.0)
    assert fired(tmp_path / "equal", 0.3 + 0.0 * pl.col("seed"))


def test_the_same_values_on_other_images_are_not_equal(tmp_path: Path) -> None:
    place = pl.int_range(pl.len())
    turned = ((place + pl.col("seed").first()) % pl.len()) / (2.0 * pl.len())
    assert not fired(tmp_path / "turned", turned)
