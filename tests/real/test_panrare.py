"""33 published calibration errors of out-of-fold predictions: one definition gives them all, other bins do not.

Data: hayden-farquhar/PanRareWSI (CC-BY-4.0), looked for as in ``tests/real/chest.py``.
"""

import json

import polars as pl
import pytest

from scorer import metrics
from tests.real.chest import ROOT

RESULTS = ROOT / "hayden-farquhar+PanRareWSI" / "results"
PREDICTIONS, PUBLISHED = RESULTS / "oof_predictions.csv", RESULTS / "calibration.json"

pytestmark = pytest.mark.skipif(
    not (PREDICTIONS.is_file() and PUBLISHED.is_file()), reason="the released predictions are not on this machine"
)


def misses(bins: int) -> dict[str, float]:
    """Distance of the equal-width ECE on P(1) from the published one, by task."""
    table = pl.read_csv(PREDICTIONS)
    found = {}
    for task in json.loads(PUBLISHED.read_text(encoding="utf-8")):
        rows = table.filter(cohort=task["cohort"], biomarker=task["biomarker"])
        p, y = rows["oof_proba"].to_numpy(), rows["y_true"].to_numpy()
        value = metrics.ece_width(p, y, bins=bins, precision="decimals:6").value
        found[task["cell"]] = abs(value - task["ece_pre"])
    return found


def test_fifteen_equal_width_bins_give_all_published_values() -> None:
    found = misses(15)
    assert len(found) == 33
    assert {name: miss for name, miss in found.items() if miss > 5e-5 + 1e-9} == {}


def test_ten_bins_give_few_of_them() -> None:
    assert sum(miss <= 5e-5 + 1e-9 for miss in misses(10).values()) == 5
    assert sum(miss <= 5e-4 for miss in misses(10).values()) == 6
