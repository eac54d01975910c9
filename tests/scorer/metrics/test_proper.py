"""Brier, NLL, accuracy: hand-worked values, bad input, properties, and scikit-learn as a second implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

from scorer.metrics import accuracy, brier, brier_binary, nll

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


def test_brier_takes_columns_and_brier_binary_one_column() -> None:
    with pytest.raises(ValueError, match="brier_binary takes"):
        brier_binary(P3, [0, 1, 0, 0])
    with pytest.raises(ValueError, match="brier takes"):
        brier([0.1, 0.2], [0, 1])


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


def test_accuracy_shares_credit_among_ties() -> None:
    # right; wrong; two tied with the label among them; two tied without it; all three tied
    p = [[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]
    assert accuracy(p, [0, 1, 1, 2, 0]) == pytest.approx((1 + 0 + 1 / 2 + 0 + 1 / 3) / 5, abs=1e-15)


def test_accuracy_of_one_probability_is_strict_at_one_half() -> None:
    # .5 gives one half whatever the label; just above predicts the positive class
    assert accuracy([0.5, 0.5, np.nextafter(0.5, 1), 0.2], [1, 0, 1, 0]) == pytest.approx(3 / 4, abs=1e-15)


def test_no_weight_is_undefined() -> None:
    assert math.isnan(brier(np.zeros((0, 3)), []))
    assert math.isnan(brier_binary([0.2], [1], weights=[0.0]))
    assert math.isnan(accuracy([], []))
    result = nll([0.0], [1], weights=[0.0])
    assert math.isnan(result.value)
    assert result.reason is not None
    assert result.floored == 0


@pytest.mark.parametrize(
    ("p", "y", "weights", "message"),
    [
        ([0.1, float("nan"), 0.7], [0, 1, 1], None, "row 1: p is NaN"),
        ([0.1, 0.2, 1.0000001], [0, 1, 1], None, "row 2: p is NaN or outside"),
        ([[0.5, 0.5], [-0.1, 1.1]], [0, 1], None, "row 1: p"),
        ([0.1, 0.2], [0, 2], None, "row 1: y is no class"),
        ([[0.5, 0.5]], [-1], None, "row 0: y is no class"),
        ([0.1, 0.2], [0], None, "y must have shape"),
        ([[0.1], [0.2]], [0, 1], None, "p must have shape"),
        ([0.1, 0.2], [0, 1], [1.0, -1.0], "row 1: weight"),
        ([0.1, 0.2], [0, 1], [float("inf"), 1.0], "row 0: weight"),
        ([0.1, 0.2], [0, 1], [1.0], "weights must have shape"),
    ],
)
def test_bad_input_is_refused_by_row(p: list[float], y: list[int], weights: list[float] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nll(p, y, weights)


def test_scikit_learn_agrees_under_weights() -> None:
    rng = np.random.default_rng(1)
    p, y, w = rng.dirichlet(np.ones(4), 300), rng.integers(0, 4, 300), rng.random(300)
    p = 0.9 * p + 0.025
    one, label = p[:, 0], (y == 0).astype(int)
    assert brier(p, y, w) == pytest.approx(brier_score_loss(y, p, sample_weight=w, scale_by_half=False), rel=1e-12)
    assert brier_binary(one, label, w) == pytest.approx(brier_score_loss(label, one, sample_weight=w), rel=1e-12)
    assert nll(p, y, w).value == pytest.approx(log_loss(y, p, sample_weight=w), rel=1e-12)
    assert nll(one, label, w).value == pytest.approx(log_loss(label, one, sample_weight=w), rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20), st.integers(2, 4))
def test_weights_order_and_class_names(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.integers(1, 5, (n, k)).astype(float)  # few values, so that ties occur
    p, y, w = raw / raw.sum(axis=1, keepdims=True), rng.integers(0, k, n), rng.integers(0, 3, n)
    shuffled, renamed = rng.permutation(n), rng.permutation(k)
    for metric in (brier, accuracy, lambda *a: nll(*a).value):
        value = metric(p, y, w)
        repeated = metric(np.repeat(p, w, axis=0), np.repeat(y, w))
        assert value == pytest.approx(repeated, abs=1e-12, nan_ok=True)
        assert value == pytest.approx(metric(p[shuffled], y[shuffled], w[shuffled]), abs=1e-12, nan_ok=True)
        assert value == pytest.approx(metric(p[:, renamed], np.argsort(renamed)[y], w), abs=1e-12, nan_ok=True)
        assert value == pytest.approx(metric(p, y, 7 * w), abs=1e-12, nan_ok=True)
