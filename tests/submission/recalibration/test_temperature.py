import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, logit, softmax

from protocol.types import Kind
from submission.recalibration.temperature import apply_temperature, fit_temperature, two_classes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def drawn(rows: int, classes: int, seed: int, sharpen: float = 1.0) -> tuple[Floats, Ints]:
    """Labels drawn from softmax(z); probabilities softmax(sharpen * z)."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, classes)) * 2
    y = np.array([rng.choice(classes, p=row) for row in softmax(z, axis=1)])
    return softmax(sharpen * z, axis=1), y


def slope_of_loss(t: float, p: Floats, y: Ints) -> float:
    """Derivative of the mean NLL in 1/T: mean of E_q[z] - z_y, where q = softmax(z / T)."""
    z = np.log(p)
    return float(np.mean((softmax(z / t, axis=1) * z).sum(axis=1) - z[np.arange(len(y)), y]))


def loss(t: float, p: Floats, y: Ints) -> float:
    return float(-np.mean(log_softmax(np.log(p) / t, axis=1)[np.arange(len(y)), y]))


def test_worked_by_hand_binary() -> None:
    # p = 0.9 throughout, 3 events in 4: the best constant is 3/4, so logit(.9) / T = logit(.75), log 9 / T = log 3
    p, y = np.full((4, 1), 0.9), np.array([1, 1, 1, 0])
    assert fit_temperature(p, y, "binary") == pytest.approx((2.0,), rel=1e-7)


def test_worked_by_hand_multiclass() -> None:
    # p = (4, 1, 1) / 6 throughout, label 0 in 2 of 4, 1 and 2 once each. With w = 4^(1/T): q_0 = w / (w + 2) = 1/2, so
    # w = 2 and T = 2
    p, y = np.tile([4 / 6, 1 / 6, 1 / 6], (4, 1)), np.array([0, 0, 1, 2])
    assert fit_temperature(p, y, "multiclass") == pytest.approx((2.0,), rel=1e-7)
    np.testing.assert_allclose(apply_temperature(2.0, p), np.tile([0.5, 0.25, 0.25], (4, 1)), rtol=1e-15)


@pytest.mark.parametrize(("sharpen", "seed"), [(0.5, 1), (1.0, 2), (2.5, 3)])
def test_the_root_of_the_derivative_is_found(sharpen: float, seed: int) -> None:
    p, y = drawn(600, 4, seed, sharpen)
    (t,) = fit_temperature(p, y, "multiclass")
    assert t == pytest.approx(brentq(slope_of_loss, 0.05, 20, args=(p, y), xtol=1e-13), rel=1e-6)
    assert t == pytest.approx(sharpen, rel=0.15)  # labels were drawn at T = sharpen


def test_no_temperature_of_a_grid_is_better() -> None:
    p, y = drawn(200, 3, 5, 1.7)
    (t,) = fit_temperature(p, y, "multiclass")
    assert loss(t, p, y) <= min(loss(s, p, y) for s in np.geomspace(0.05, 20, 2001)) + 1e-12


def test_binary_is_the_logistic_form_of_two_classes() -> None:
    p, y = drawn(300, 2, 7, 2.0)
    (t,) = fit_temperature(p[:, 1:], y, "binary")
    assert t == pytest.approx(fit_temperature(p, y, "multiclass")[0], rel=1e-6)
    applied = apply_temperature(t, two_classes(p[:, 1]))[:, 1]
    np.testing.assert_allclose(applied, expit(logit(p[:, 1]) / t), rtol=1e-10)


def test_each_finding_is_its_own_binary_problem_on_its_labelled_rows() -> None:
    rng = np.random.default_rng(11)
    p, y = rng.random((120, 3)), rng.integers(0, 2, (120, 3))
    y[rng.random(y.shape) < 0.3] = -1
    expected = tuple(fit_temperature(p[y[:, k] >= 0, k : k + 1], y[y[:, k] >= 0, k], "binary")[0] for k in range(3))
    assert fit_temperature(p, y, "multilabel") == expected
    moved = np.where(y == -1, rng.random(p.shape), p)  # unlabelled values do not matter
    assert fit_temperature(moved, y, "multilabel") == expected


def test_float32_is_fitted_in_float64() -> None:
    # a fit in float32 is known to stay at its start (netcal issues 48 and 61)
    p, y = drawn(400, 3, 13, 2.5)
    single = p.astype(np.float32)
    fitted = fit_temperature(single, y, "multiclass")
    assert fitted == fit_temperature(single.astype(np.float64), y, "multiclass")
    assert fitted == pytest.approx(fit_temperature(p, y, "multiclass"), rel=1e-4)


def test_labels_against_the_scores_meet_the_upper_bound() -> None:
    # unbounded solvers return a negative temperature here, which reverses the ranks
    p = softmax(np.array([[2.0, 0], [0, 2], [2, 0], [0, 2]]), axis=1)
    (t,) = fit_temperature(p, np.array([1, 0, 1, 0]), "multiclass")
    assert t == 20.0
    # every row loses log(1 + exp(2 / T)), which falls in T
    assert loss(t, p, np.array([1, 0, 1, 0])) == pytest.approx(math.log(1 + math.exp(2 / 20)), rel=1e-12)


def test_separable_labels_meet_the_lower_bound() -> None:
    p = softmax(np.array([[1.0, 0], [0, 1], [3, 0]]), axis=1)
    assert fit_temperature(p, np.array([0, 1, 0]), "multiclass") == (0.05,)


SATURATED = np.array([[0.0], [0.0], [1.0], [1.0]])


@pytest.mark.parametrize(
    ("p", "y", "expected"),
    [
        (SATURATED, [0, 0, 1, 1], 0.05),  # right throughout: sharper is better
        (SATURATED, [1, 1, 0, 0], 20.0),  # wrong throughout: flatter is better
        # 3 of 4 right: sigmoid(log(1e12) / T) = 3/4 wants T = 12 log 10 / log 3 = 25.2, above the bound
        (SATURATED, [0, 1, 1, 1], 20.0),
        (np.full((4, 1), 0.5), [0, 1, 1, 1], 1.0),  # nothing to scale
        (np.full((4, 1), 0.7), [1, 1, 1, 1], 0.05),  # one class, on the side of the score
        (np.full((4, 1), 0.7), [0, 0, 0, 0], 20.0),  # one class, against the score
        (np.array([[0.3]]), [0], 0.05),
    ],
)
def test_hard_inputs_give_a_bounded_temperature(p: Floats, y: list[int], expected: float) -> None:
    assert fit_temperature(p, np.array(y), "binary") == (expected,)


def test_nineteen_of_twenty_right_at_saturation_is_solved_by_the_floor() -> None:
    # sigmoid(log((1 - 1e-12) / 1e-12) / T) = 19/20: T = 27.631 / log 19
    p, y = np.ones((20, 1)), np.array([0] + [1] * 19)
    assert fit_temperature(p, y, "binary") == pytest.approx((12 * math.log(10) / math.log(19),), rel=1e-7)


def test_uniform_rows_keep_temperature_one() -> None:
    assert fit_temperature(np.full((5, 4), 0.25), np.array([0, 0, 0, 1, 2]), "multiclass") == (1.0,)
    assert fit_temperature(np.zeros((2, 3)), np.array([0, 1]), "multiclass") == (1.0,)


UNIT = st.floats(0, 1, allow_subnormal=True)


@given(arrays(np.float64, (5, 3), elements=UNIT), st.floats(1e-3, 1e3))
def test_application_keeps_the_arg_max_and_is_valid(p: Floats, t: float) -> None:
    q = apply_temperature(t, p)
    assert np.isfinite(q).all()
    assert (q >= 0).all()
    assert not np.signbit(q).any()
    np.testing.assert_allclose(q.sum(axis=1), 1, rtol=0, atol=1e-12)
    top = p.argmax(axis=1)
    assert (q[np.arange(5), top] == q.max(axis=1)).all()


@given(arrays(np.float64, (6, 1), elements=UNIT), arrays(np.int64, 6, elements=st.integers(0, 1)))
def test_every_fit_is_positive_bounded_and_no_worse_than_none(p: Floats, y: Ints) -> None:
    (t,) = fit_temperature(p, y, "binary")
    assert 0.05 <= t <= 20.0
    floored = np.maximum(two_classes(p[:, 0]), 1e-12)
    assert loss(t, floored, y) <= loss(1.0, floored, y) + 1e-12


def test_a_row_that_does_not_sum_to_one_counts_by_its_ratios() -> None:
    p, y = drawn(100, 3, 17, 1.5)
    assert fit_temperature(p * 0.5, y, "multiclass") == pytest.approx(fit_temperature(p, y, "multiclass"), rel=1e-6)


def test_extreme_temperatures_are_applied_without_overflow() -> None:
    p = np.array([[0.2, 0.3, 0.5], [0.5, 0.5, 0.0]])
    np.testing.assert_array_equal(apply_temperature(1e-320, p), [[0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_allclose(apply_temperature(1e300, p), np.full((2, 3), 1 / 3))


GOOD = np.array([[0.2, 0.8], [0.6, 0.4]])
BAD_INPUT: list[tuple[Floats, object, Kind, str]] = [
    (np.empty((0, 1)), np.empty(0, int), "binary", "no rows"),
    (np.array([0.2, 0.8]), [0, 1], "binary", r"table \(rows, columns\), not of shape \(2,\)"),
    (np.empty((2, 0)), [0, 1], "multilabel", "table"),
    (GOOD, [0, 1], "binary", "one probability column, p_1, not 2"),
    (GOOD[:, :1], [0, 1], "multiclass", "two or more probability columns"),
    (np.array([[np.nan], [0.1]]), [0, 1], "binary", "1 probabilities are not finite"),
    (np.array([[np.inf], [np.nan]]), [0, 1], "binary", "2 probabilities are not finite"),
    (np.array([[1.5], [0.1]]), [0, 1], "binary", r"lie in \[0, 1\]; they range from 0\.1 to 1\.5"),
    (np.array([[-0.1], [0.1]]), [0, 1], "binary", r"range from -0\.1 to 0\.1"),
    (GOOD, [0, 1, 0], "multiclass", r"shape \(2,\) here, not \(3,\)"),
    (GOOD, [0, 1], "multilabel", r"shape \(2, 2\) here, not \(2,\)"),
    (GOOD, [0.0, 1.0], "multiclass", "labels must be integers, not float64"),
    (GOOD, [0, 2], "multiclass", r"labels must lie in 0\.\.1; they range from 0 to 2"),
    (GOOD, [-1, 1], "multiclass", r"labels must lie in 0\.\.1; they range from -1"),
    (GOOD, [[0, 1], [2, 0]], "multilabel", r"labels must lie in -1\.\.1"),
    (GOOD, [[0, -1], [1, -1]], "multilabel", "finding 1 has no labelled row"),
]


@pytest.mark.parametrize(("p", "y", "kind", "message"), BAD_INPUT)
def test_bad_input_is_refused(p: Floats, y: object, kind: Kind, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fit_temperature(p, np.asarray(y), kind)
