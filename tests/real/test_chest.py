"""The main job on real input at scale: released predictions, published AUROC, a whole submission."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from protocol.findings import Outcome, Status
from scorer import metrics
from scorer.ledger import Ledger
from scorer.results import read_metrics
from scorer.submit import submit
from submission.skeleton import declare_folder
from submission.writing import write_bundle
from tests.real.chest import FINDINGS, RELEASES, TABLE, Release, chest_parts, nih_table, predictions_of, published

needs_table = pytest.mark.skipif(not TABLE.is_file(), reason="the released NIH table is not on this machine")


def released(release: Release) -> Release:
    """``release``, or a skip with the reason."""
    if not release.there:
        pytest.skip(f"the released predictions of {release.name} are not on this machine")
    return release


@needs_table
@pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.name)
def test_published_auroc_is_reproduced(release: Release) -> None:
    table = predictions_of(released(release)).join(nih_table(), on="image", validate="1:1", suffix="_label")
    assert (table.height, table["patient"].n_unique()) == (22_433, 6_187)
    wanted = published(release)
    assert set(wanted) == set(FINDINGS)
    found = {f: metrics.auroc(table[f].to_numpy(), table[f"{f}_label"].to_numpy()).value for f in FINDINGS}
    assert found == pytest.approx(wanted, abs=5e-5)


@needs_table
def test_columns_joined_by_position_would_be_noticed() -> None:
    """The second release has alphabetical columns: read by position, its AUROC are not the published ones."""
    release = released(RELEASES[1])
    by_position = pl.read_csv(release.predictions)
    by_position = by_position.rename(dict(zip(by_position.columns, ["image", *FINDINGS], strict=True)))
    table = by_position.join(nih_table(), on="image", suffix="_label")
    found = [metrics.auroc(table[f].to_numpy(), table[f"{f}_label"].to_numpy()).value for f in FINDINGS]
    assert np.abs(np.array(found) - [published(release)[f] for f in FINDINGS]).max() > 0.05


@needs_table
def test_released_predictions_become_a_submission(tmp_path: Path) -> None:
    there = tuple(release for release in RELEASES if release.there)
    if not there:
        pytest.skip("no released predictions are on this machine")
    folder = tmp_path / "chest"
    folder.mkdir()
    write_bundle(folder, chest_parts(there))
    declare_folder(folder)
    outcome = submit(folder / "predictions.parquet", ledger=tmp_path / "mvc.duckdb")
    verdict = outcome.verdict
    assert verdict.status is Status.ACCEPTED_WITH_WAIVERS, verdict.last_line
    assert [r.rule for r in verdict.of(Outcome.WAIVED)] == ["MVC113", "MVC203", "MVC601"]
    assert [r.rule for r in verdict.of(Outcome.FAILED)] == ["MVC411"]

    rows = read_metrics(folder / "results" / "metrics.parquet")
    runs = {(row.model, row.calibrator) for row in rows}
    assert runs == {(r.name, c) for r in there for c in ("none", "temperature", "isotonic")}
    slices = {row.slice for row in rows}
    assert slices == {
        "all", "sex=female", "sex=male", "age_band=below 40", "age_band=40 to 59", "age_band=60 and over",
        "view=AP", "view=PA",
    }  # fmt: skip
    for row in rows:
        assert np.isfinite([row.value, row.lo, row.hi]).all() or row.reason
    test = {(r.model, r.calibrator, r.class_, r.metric): r for r in rows if r.slice == "all"}
    for release in there:
        for finding, whole in published(release).items():
            half = test[(release.name, "none", finding, "auroc")]
            # Half of the same patients: the published value lies in or near the interval of this half.
            width = half.hi - half.lo
            assert half.lo - width <= whole <= half.hi + width
        # A strictly increasing map keeps the ranking; isotonic regression only ties.
        kept = [test[(release.name, c, None, "auroc_macro")].value for c in ("none", "temperature")]
        assert kept[0] == pytest.approx(kept[1], abs=1e-6)
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        assert ledger.verify() == ()
        assert ledger.metrics().num_rows == len(rows)
