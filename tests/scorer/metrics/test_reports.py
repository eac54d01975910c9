"""Defects that users reported in other libraries, as inputs with the value that these definitions give.

Bins here are closed on the right and equal-mass groups are never split; where the report's value is of other bins and
differs, the comment says so. Names of the libraries say where the report was made.
"""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import softmax

from scorer.metrics import (
    ace,
    auprc_classwise,
    auroc,
    auroc_classwise,
    brier,
    brier_binary,
    citl,
    corp,
    ece,
    ece_debiased,
    ece_width,
    ici,
    mce,
    murphy,
    net_benefit,
    nll,
    plan_for,
    recalibration_line,
    wsece,
)
from scorer.metrics.logistic import clipped
from tests.scorer.metrics.registry import about

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]
EIGHT = ([0, 0.1, 0.1, 0.4, 0.4, 0.9, 1, 1], [0, 0, 1, 0, 1, 1, 1, 0])


def two(p: list[float]) -> list[list[float]]:
    return [[1 - one, one] for one in p]


def test_one_input_many_answers() -> None:
    # 4 bins; .2625 where p = 1 has a bin of its own, .2714 where p = 0 is dropped
    assert ece_width(*EIGHT, bins=4).value == pytest.approx(0.2375, abs=1e-15)
    # .3 where the lowest value is dropped, .2875 or .2375 where ties are split by row order
    assert ece(*EIGHT, bins=4).value == pytest.approx(0.2625, abs=1e-15)
    # .5 or .4 with those bins
    assert mce(*EIGHT, bins=4).value == pytest.approx(0.3, abs=1e-15)
    # floored to 0 elsewhere before anyone can average it
    assert ece_debiased(*EIGHT, bins=4).squared == pytest.approx(-0.075, abs=1e-15)
    # .2222 is the mean gap over equal-width bins. Equal mass: midpoints .5 2 4 5.5 7 of 8, cut at 2 4 6, give the bins
    # {0 .1 .1}, {.4 .4}, {.9}, {1 1}
    assert ace(*EIGHT, bins=4).value == pytest.approx((0.8 / 3 + 0.1 + 0.1 + 0.5) / 4, abs=1e-15)


def test_one_is_in_the_last_bin() -> None:
    # torchmetrics 3510: .41 and 1.0 where p = 1 has a hidden bin; {.97 1} together: |1 - 1.97| / 3 + .2 / 3
    p, y = [0.97, 1.0, 0.2], [1, 0, 0]
    assert ece_width(p, y, bins=5).value == pytest.approx(0.39, abs=1e-15)
    assert mce(p, y, bins=5).value == pytest.approx(0.485, abs=1e-15)


def test_zero_is_in_the_first_bin() -> None:
    # torchmetrics 1646 (bin -1); calzone, MetricsReloaded (dropped: .175 of four rows)
    assert ece_width([0.0, 0.0, 1.0, 1.0], [0, 1, 1, 1], bins=2).value == 0.25
    # .2 is in the first bin here, with the zeros: (|2 - .4| + |2 - 1.9|) / 6; closed on the left (1 + .6 + .1) / 6
    found = ece_width([0, 0, 0.2, 0.2, 0.9, 1], [1, 0, 0, 1, 1, 1], bins=5)
    assert found.value == pytest.approx(1.7 / 6, abs=1e-15)
    assert found.bins_used == 2


def test_positive_class_and_top_label_are_two_readings() -> None:
    # torchmetrics 1105 and 2519, netcal 25
    p, y = [0.05, 0.12, 0.93], [1, 0, 1]
    assert ece_width(p, y, bins=10).value == pytest.approx(0.38, abs=1e-15)
    assert ece_width(two(p), y, bins=10).value == pytest.approx(1 / 3, abs=1e-15)


def test_bins_asked_is_the_number_of_bins() -> None:
    # torchmetrics 1907: two bins are two, {.1 .4} and {.6 .7 .9 .9}
    found = ece_width([0.1, 0.4, 0.6, 0.7, 0.9, 0.9], [0, 1, 1, 0, 1, 1], bins=2)
    assert found == (about(0.1, 1e-15), 2, None)


def test_saturated_probabilities_are_ties() -> None:
    # torchmetrics 2819: logits 40 .. 43 all become 1, and what is lost cannot be ranked again
    p = 1 / (1 + np.exp(-np.array([40.0, 41.0, 42.0, 43.0])))
    assert auroc(p, [0, 0, 1, 1]).value == 0.5


def test_an_absent_class_has_no_auroc() -> None:
    # torchmetrics 348, lightning 8246: counted as 0, which made the macro .6667
    for found in (auroc_classwise(P3, [0, 1, 1, 0]), auprc_classwise(P3, [0, 1, 1, 0])):
        assert math.isnan(found.per_class[2].value)
        assert math.isnan(found.macro.value)
        assert found.macro_present.value == 1.0


def test_a_nan_is_an_error_that_names_its_row() -> None:
    # torchmetrics scores it (.6189), netcal drops the row
    with pytest.raises(ValueError, match="row 1: p is NaN"):
        ece_width([0.1, float("nan"), 0.7], [0, 1, 1], bins=10)


def test_the_columns_are_the_classes() -> None:
    # netcal 37: three columns with labels 0 and 1 is a task of three classes
    assert ece(P3[:3], [0, 1, 0]).reason is None
    # verified_calibration 2: a class missing from the labels; .9 .8 .6 all right in bins of their own
    found = ece_width([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 0], bins=10)
    assert found == (about(0.7 / 3, 1e-15), 3, None)
    # probmetrics dropped the absent column and scored another task: .4167. .7 alone, {.5 .6 .6} with two right; closed
    # on the left .5 is alone, with the same sum by chance
    assert ece_width(P3, [0, 1, 0, 0], bins=5).value == pytest.approx((0.3 + 0.3) / 4, abs=1e-15)


def test_ties_make_fewer_bins_and_the_number_is_told() -> None:
    # verified_calibration 19
    found = ece([0.2] * 4 + [0.7, 0.7, 0.9, 0.9], [1, 0, 0, 0, 1, 0, 1, 1], bins=4)
    assert found.bins_used == 3


def test_the_value_of_a_bin_is_its_mean_not_its_centre() -> None:
    # pycalib 4: .05 for a perfect model
    assert ece_width([1.0] * 3, [1, 1, 1], bins=10).value == 0.0


def test_one_value_is_one_bin() -> None:
    # TrustLens 144 and 163: 0 or a crash where quantiles collapse; .65 where ties are split
    assert ece([0.8] * 4, [1, 0, 0, 0], bins=4) == (about(0.55, 1e-15), 1, None)


@pytest.mark.parametrize("y", [[1, 1, 0, 0], [1, 0, 1, 0]])
def test_the_order_of_tied_rows_does_not_matter(y: list[int]) -> None:
    # torch-uncertainty, eval-toolkit: .5 and 0
    assert ece([0.5] * 4, y, bins=2).value == 0.0


def test_fewer_rows_than_bins() -> None:
    # torch-uncertainty: NaN
    for metric in (ece, ece_width):
        assert metric([0.1, 0.4, 0.9], [0, 1, 1], bins=5).value == pytest.approx(0.8 / 3, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_of_low_precision_need_not_sum_to_one(dtype: type) -> None:
    # calibre: refused by the tolerance of float64
    p: NDArray[np.floating] = softmax(np.random.default_rng(0).normal(size=(50, 5)), axis=1).astype(dtype)
    y = p.argmax(axis=1)
    assert (p.astype(np.float64).sum(axis=1) != 1.0).any()
    assert brier(p, y) == pytest.approx(brier(p.astype(np.float64), y), abs=0)
    assert ece(p, y).reason is None


def test_the_binary_brier_score_is_not_summed_over_both_classes() -> None:
    # probmetrics: .30
    assert brier_binary([0.8, 0.3, 0.6, 0.1], [1, 0, 1, 0]) == pytest.approx(0.075, abs=1e-15)


def test_both_brier_conventions_by_name() -> None:
    # scikit-learn PR 22046: halved for two classes alone
    p, y = [[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], [0, 1, 1]
    assert brier(p, y) == pytest.approx(0.1933, abs=5e-5)
    assert brier_binary([0.2, 0.7, 0.6], y) == pytest.approx(0.0967, abs=5e-5)


def test_each_class_is_fitted_on_its_own_column() -> None:
    # calzone: the slope of any class was that of column 1. Forecasts weighted by what they say are calibrated
    p = np.repeat([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.5, 0.4]], 3, axis=0)
    y = np.tile([0, 1, 2], 3)
    line = recalibration_line(p[:, 2], y == 2, p[np.arange(9), y])
    assert line[:2] == pytest.approx((0.0, 1.0), abs=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_certain_and_wrong_costs_the_same_in_every_type(dtype: type) -> None:
    # scikit-learn 24315 and 17399: 36.04, 15.94, 6.93
    found = nll(np.array([1.0], dtype=dtype), [0])
    assert found == (about(12 * math.log(10), 1e-12), 1, None)


def test_log_loss_with_a_class_that_is_missing() -> None:
    # scikit-learn 4033, 4546, 6703: an error, or columns that no longer fit
    assert nll(P3, [0, 1, 0, 0]).value == pytest.approx(0.69116, abs=5e-6)


def test_auroc_of_one_class_is_neither_zero_nor_an_error() -> None:
    # scikit-learn 24636, 20186, 30079
    value, reason = auroc([0.1, 0.7], [1, 1])
    assert math.isnan(value)
    assert reason == "every image is of the class"


def test_weights_in_the_curve() -> None:
    # scikit-learn 11352: the rate at .2 is 1/4
    for metric in (ece, ece_width, mce):
        assert metric([0.2, 0.2], [0, 1], [3, 1]).value == pytest.approx(0.05, abs=1e-15)


def test_sums_are_in_double_precision() -> None:
    # duckdb 7045: sums of a million singles drift
    p = np.full(1_000_000, 0.1, dtype=np.float32)
    assert brier_binary(p, np.zeros(1_000_000, dtype=int)) == pytest.approx(float(np.float32(0.1)) ** 2, rel=1e-12)
    assert brier_binary(p[:3], [0, 0, 0]) == pytest.approx(float(np.float32(0.1)) ** 2, rel=1e-15)


def test_both_intercepts() -> None:
    # CalibrationCurves 3
    p, y = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9], [0, 0, 1, 0, 0, 0, 1, 0, 1, 1]
    assert recalibration_line(p, y)[:2] == pytest.approx((-0.3183, 0.8898), abs=5e-5)
    assert citl(p, y).value == pytest.approx(-0.3264, abs=5e-5)


def test_probabilities_of_zero_and_one_stay_in_the_fit() -> None:
    # CalibrationCurves 7, rms: dropped. An event at 0 stands against any positive slope
    p, y = np.array([0.0, 0.2, 0.5, 0.8, 1.0]), [1, 0, 1, 1, 1]
    assert clipped(p) == 2
    assert recalibration_line(p, y).reason is None
    assert abs(recalibration_line(p, y).slope) < 0.05
    # without the two, .2 is apart from .5 and .8
    assert recalibration_line(p[1:-1], y[1:-1]).reason is not None


def test_separation_has_no_slope() -> None:
    # statsmodels 39, 659, 2282: 22.3, not converged
    found = recalibration_line([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1])
    assert math.isnan(found.slope)
    assert found.reason == "no finite fit: the probability separates the class from the rest"


def test_isotonic_ties_are_one_value() -> None:
    # scikit-learn 9432: fit .5 .5 1, was .333; 4184: NaN at a tied minimum, where the fit is .5
    assert corp([0.2, 0.2, 0.2, 0.6, 0.8], [0, 1, 1, 0, 1]).dsc == pytest.approx(0.24 - 4 * 0.25 / 5, abs=1e-15)
    assert corp([0.0, 0.0, 0.5, 1.0], [0, 1, 1, 1]).dsc == pytest.approx(3 / 16 - 0.5 / 4, abs=1e-15)


def test_many_pairs_and_a_single_event() -> None:
    # confidenceinterval 14, pROC 19 and 27
    assert auroc([0.9, 0.1, 0.2, 0.3], [1, 0, 0, 0]) == (1.0, None)
    assert auroc(np.repeat([0.1, 0.9], 60_000), np.repeat([0, 1], 60_000)) == (1.0, None)


@pytest.mark.parametrize(
    ("threshold", "model", "everyone"), [(1e-12, 0.375, 0.375), (0.25, 1 / 3, 1 / 6), (0.5, 0.125, -0.25)]
)
def test_decision_curves_at_their_ends(threshold: float, model: float, everyone: float) -> None:
    # dcurves (R) 21 and 3, rtichoke 43. At 0 the net benefit is the prevalence; 0 and 1 themselves are no thresholds
    p, y = [0, 0.3, 0.8, 0.1, 1, 0.2, 0.6, 0], [0, 1, 1, 0, 1, 0, 0, 0]
    found = net_benefit(p, y, threshold=threshold)
    assert found == (about(model, 1e-10), about(everyone, 1e-10), 0.0, None)


def test_murphy_adds_up() -> None:
    # calibstats: .20656 called Brier, which is .195625
    found = murphy([0.1, 0.15, 0.8, 0.9], [0, 1, 1, 1], bins=2)
    assert found.rel - found.res + found.unc + found.wbv - found.wbc == pytest.approx(0.195625, abs=1e-15)


def test_bins_by_predicted_class_are_weighted() -> None:
    # MAPIE: .15, the plain mean over predicted classes
    p, y = [[0.9, 0.1]] * 9 + [[0.2, 0.8]], [0] * 9 + [1]
    assert wsece(p, y).value == pytest.approx(0.11, abs=1e-15)
    assert ece(p, y).value == pytest.approx(0.11, abs=1e-15)


def test_rare_outcomes_are_not_thrown_out_of_the_smooth_curve() -> None:
    # statsmodels lowess with its default robust steps gives .154 on data where other curves give .032
    rng = np.random.default_rng(0)
    p = rng.beta(0.5, 4.0, 5000)
    y = (rng.random(5000) < p).astype(int)
    assert ici(p, y).ici < 0.02


@pytest.mark.parametrize("owned", [1, 90])
def test_one_patient_with_most_images(owned: int) -> None:
    # sizes all 1, and 90 beside ten of 1: a resample takes whole patients
    sizes = np.array([owned] + [1] * 10)
    patient = np.repeat(np.arange(11), sizes)
    rng = np.random.default_rng(owned)
    p, y = rng.random((len(patient), 1)), rng.integers(0, 2, len(patient))
    plan = plan_for("binary", ["no", "yes"], p, y, patient, 11, families=["proper"])
    without = np.array([[0.0] + [1.1] * 10])
    assert plan.evaluate(without)[0][0, 0] == pytest.approx(brier_binary(p[owned:, 0], y[owned:]), abs=1e-14)
    twice = np.array([[2.0] + [0.0] * 8 + [1.0] * 2])
    rows = np.concatenate([np.arange(owned), np.arange(owned), [owned + 8, owned + 9]])
    assert plan.evaluate(twice)[0][0, 0] == pytest.approx(brier_binary(p[rows, 0], y[rows]), abs=1e-14)
