"""Brier and NLL: hand-worked values, bad input, identities, and scikit-learn as a second implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from scorer.metrics import brier, brier_binary, nll
from tests.scorer.metrics.registry import about, sample

# three declared classes, the last one never a label
P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]


def test_brier_binary_by_hand() -> None:
    # gaps .2 .3 .4 .1: (.04 + .09 + .16 + .01) / 4
    assert brier_binary([0.8, 0.3, 0.6, 0.1], [1, 0, 1, 0]) == pytest.approx(0.075, abs=1e-15)


def test_brier_sums_over_classes_and_is_not_halved() -> None:
    p, y = [[0.8, 0.2], [0.3, 0.7], [0.4, 0.6]], [0, 1, 1]
    # 2 (.04 + .09 + .16) / 3
    assert brier(p, y) == pytest.approx(0.58 / 3, abs=1e-15)
    assert brier(p, y) == pytest.approx(2 * brier_binary([0.2, 0.7, 0.6], y), abs=1e-15)


def test_brier_of_three_classes_by_hand() -> None:
    # (.09 + .04 + .01) and (.16 + .25 + .01): the absent class counts as any other
    assert brier(P3[:2], [0, 1]) == pytest.approx((0.14 + 0.42) / 2, abs=1e-15)


def test_brier_takes_columns_and_brier_binary_one_column() -> None:
    with pytest.raises(ValueError, match="brier_binary takes"):
        brier_binary(P3, [0, 1, 0, 0])
    with pytest.raises(ValueError, match="brier takes"):
        brier([0.1, 0.2], [0, 1])


def test_nll_by_hand() -> None:
    # -(ln .8 + ln .7 + ln .5) / 3 of one probability, and under weights 2, 1, 1
    p, y = [0.8, 0.3, 0.5], [1, 0, 1]
    assert nll(p, y) == (about(-math.log(0.8 * 0.7 * 0.5) / 3, 1e-15), 0, None)
    assert nll(p, y, [2, 1, 1]).value == pytest.approx(-math.log(0.8 * 0.8 * 0.7 * 0.5) / 4, abs=1e-15)


def test_nll_with_an_absent_class_keeps_the_declared_classes() -> None:
    # -(ln .7 + ln .5 + ln .3 + ln .6) / 4
    assert nll(P3, [0, 1, 0, 0]).value == pytest.approx(0.69116, abs=5e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_nll_floor_does_not_depend_on_the_stored_precision(dtype: type) -> None:
    result = nll(np.array([1.0, 0.5], dtype=dtype), [0, 1])
    assert result.value == pytest.approx((-math.log(1e-12) + math.log(2)) / 2, rel=1e-15)
    assert result.floored == 1


def test_nll_of_certain_and_right_is_plain_zero() -> None:
    value = nll([1.0, 0.0], [1, 0]).value
    assert value == 0.0
    assert math.copysign(1.0, value) == 1.0


def test_nll_at_the_floor_itself_is_not_counted() -> None:
    assert nll([[1e-12, 1 - 1e-12]], [0]).floored == 0
    assert nll([[1e-13, 1 - 1e-13]], [0]).floored == 1


def test_floored_rows_are_counted_once_each_whatever_their_weight() -> None:
    assert nll([0.0, 0.0, 0.0, 0.5], [1, 1, 0, 1], [5, 0, 3, 1]).floored == 1


def test_no_weight_is_undefined() -> None:
    assert math.isnan(brier(np.zeros((0, 3)), []))
    assert math.isnan(brier_binary([0.2], [1], weights=[0.0]))
    result = nll([0.0], [1], weights=[0.0])
    assert math.isnan(result.value)
    assert result.reason == "no images (or none of positive weight)"
    assert result.floored == 0


@pytest.mark.parametrize(
    ("p", "y", "weights", "message"),
    [
        ([0.1, float("nan"), 0.7], [0, 1, 1], None, "row 1: p is NaN"),
        ([0.1, None, 0.7], [0, 1, 1], None, "row 1: p is NaN"),
        ([0.1, 0.2, 1.0000001], [0, 1, 1], None, "row 2: p is NaN or outside"),
        ([0.1, float("-inf")], [0, 1], None, "row 1: p is NaN or outside"),
        ([[0.5, 0.5], [-0.1, 1.1]], [0, 1], None, "row 1: p"),
        ([[0.5, 0.5], [0.5, float("nan")]], [0, 1], None, "row 1: p is NaN"),
        ([0.1, 0.2], [0, 2], None, "row 1: y is no class"),
        ([0.1, 0.2], [0, 0.5], None, "row 1: y is no class"),
        ([0.1, 0.2], ["0", "1"], None, "y is no class"),
        ([[0.5, 0.5]], [-1], None, "row 0: y is no class"),
        ([0.1, 0.2], [0], None, "y must have shape"),
        ([[0.1], [0.2]], [0, 1], None, "p must have shape"),
        (0.1, [0], None, "p must have shape"),
        ([0.1, 0.2], [0, 1], [1.0, -1.0], "row 1: weight"),
        ([0.1, 0.2], [0, 1], [float("inf"), 1.0], "row 0: weight"),
        ([0.1, 0.2], [0, 1], [1.0, float("nan")], "row 1: weight"),
        ([0.1, 0.2], [0, 1], [1.0], "weights must have shape"),
    ],
)
def test_bad_input_is_refused_by_row(p: list[float], y: list[int], weights: list[float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nll(p, y, weights)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_label_that_is_no_number_is_refused_by_row(bad: float) -> None:
    with np.errstate(invalid="ignore"), pytest.raises(ValueError, match="row 1: y is no class"):
        nll([0.1, 0.2], [0.0, bad])


def test_the_number_of_bad_rows_is_told() -> None:
    with pytest.raises(ValueError, match=r"row 1: .*\(2 row\(s\) in all\)"):
        brier_binary([0.1, 1.5, 0.2, -0.5], [0, 0, 0, 0])


def test_truth_values_and_whole_floats_are_labels() -> None:
    assert (
        brier_binary([0.8, 0.3], [True, False])
        == brier_binary([0.8, 0.3], [1.0, 0.0])
        == pytest.approx(0.065, abs=1e-15)
    )


def test_scikit_learn_agrees_under_weights() -> None:
    rng = np.random.default_rng(1)
    p, y, w = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300), rng.random(300)
    p = 0.9 * p + 0.025
    one, label = p[:, 0], (y == 0).astype(int)
    assert brier(p, y, w) == pytest.approx(brier_score_loss(y, p, sample_weight=w, scale_by_half=False), rel=1e-12)
    assert brier_binary(one, label, w) == pytest.approx(brier_score_loss(label, one, sample_weight=w), rel=1e-12)
    assert nll(p, y, w).value == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)
    assert nll(one, label, w).value == pytest.approx(log_loss(label, one, sample_weight=w), rel=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
def test_brier_is_the_sum_over_classes_of_the_binary_form(seed: int, k: int) -> None:
    p, y, w = sample(seed, k)
    one_vs_rest = [brier_binary(p[:, j], (y == j).astype(int), w) for j in range(k)]
    assert brier(p, y, w) == pytest.approx(k * float(np.mean(one_vs_rest)), abs=1e-13)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_two_columns_say_the_same_as_one(seed: int) -> None:
    p, y, w = sample(seed)
    both = np.stack((1.0 - p, p), axis=1)
    assert brier(both, y, w) == pytest.approx(2 * brier_binary(p, y, w), abs=1e-13)
    assert nll(both, y, w) == nll(p, y, w)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0))
def test_scores_are_proper(seed: int, q: float) -> None:
    # no constant forecast beats the prevalence
    _, y, w = sample(seed)
    rate = float((w * y).sum() / w.sum())
    n = len(y)
    assert brier_binary(np.full(n, rate), y, w) <= brier_binary(np.full(n, q), y, w) + 1e-12
    assert nll(np.full(n, rate), y, w).value <= nll(np.full(n, q), y, w).value + 1e-9
