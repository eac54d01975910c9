import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from scipy.special import expit, log_softmax, logit, softmax

from protocol.objective import Objective
from protocol.types import Kind
from submission.recalibration import apply
from tests.submission.recalibration.helpers import Floats, Ints, fitted, parameter, record


def fit_temperature(p: Any, y: Any, kind: Kind, **more: Any) -> tuple[float, ...]:
    return tuple(float(parameter(r, "temperature")) for r in fitted("temperature", p, y, kind, **more))


def apply_temperature(t: float, p: Floats) -> Floats:
    return apply([record("temperature", {"temperature": t}, "log-probabilities")], p, kind="multiclass")


def two_classes(p: Floats) -> Floats:
    return np.column_stack((1.0 - p, p))


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
    np.testing.assert_allclose(apply_temperature(2.0, p), np.tile([0.5, 0.25, 0.25], (4, 1)), rtol=1e-14)


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
    np.testing.assert_array_equal(apply_temperature(1e-90, p), [[0, 0, 1], [0.5, 0.5, 0]])
    np.testing.assert_allclose(apply_temperature(1e90, p), np.full((2, 3), 1 / 3))


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


def test_logits_are_read_where_they_are_given() -> None:
    # three events in four at a logit of log 9 throughout: T = log 9 / log 3; the saturated p tells nothing
    z, y = np.full((4, 1), math.log(9)), np.array([1, 1, 1, 0])
    assert fit_temperature(np.ones((4, 1)), y, "binary", logits=z) == pytest.approx((2.0,), rel=1e-9)
    p, labels = drawn(200, 3, 5, 1.7)
    shifted = np.log(p) + np.arange(200)[:, None]
    assert fit_temperature(p, labels, "multiclass", logits=shifted) == pytest.approx(
        fit_temperature(p, labels, "multiclass"), rel=1e-9
    )


def test_a_huge_logit_is_scaled_down_without_bounds() -> None:
    p, y = drawn(400, 3, 21)
    open_ = Objective("nll")
    (t,) = fit_temperature(p, y, "multiclass", objective=open_, logits=1e4 * np.log(p))
    assert t == pytest.approx(1e4 * fit_temperature(p, y, "multiclass", objective=open_)[0], rel=1e-9)


@pytest.mark.parametrize(("y", "flat"), [([0, 0, 1, 1], False), ([1, 1, 0, 0], True)])
def test_without_bounds_a_fit_without_optimum_is_finite_and_says_so(y: list[int], flat: bool) -> None:
    p = np.array([[0.2], [0.3], [0.8], [0.7]])
    (found,) = fitted("temperature", p, np.array(y), "binary", objective=Objective("nll"))
    t = float(parameter(found, "temperature"))
    assert "no finite optimum" in found.objective
    limit = 4 * math.log(2) if flat else 0.0
    floored = two_classes(p[:, 0])
    assert 4 * loss(t, floored, np.array(y)) == pytest.approx(limit, abs=1e-6)
    bounded = fitted("temperature", p, np.array(y), "binary")[0]
    assert "no finite optimum" not in bounded.objective


def test_squared_error_is_least_on_a_fine_grid() -> None:
    p, y = drawn(150, 3, 8, 1.8)
    (t,) = fit_temperature(p, y, "multiclass", objective=Objective("squared", bounds=(0.05, 20.0)))

    def brier(s: float) -> float:
        return float(((softmax(np.log(p) / s, axis=1) - np.eye(3)[y]) ** 2).sum(axis=1).mean())

    assert brier(t) <= min(brier(s) for s in np.geomspace(0.05, 20, 4001)) + 1e-12


def test_a_grid_gives_its_best_point_and_of_equals_the_one_next_to_one() -> None:
    p, y = drawn(150, 3, 8, 1.8)
    grid = tuple(np.linspace(0.5, 4.0, 36).tolist())
    assert fit_temperature(p, y, "multiclass", objective=Objective("nll", grid=grid)) == (
        min(grid, key=lambda t: loss(t, p, y)),
    )
    flat = np.full((4, 1), 0.5), np.array([0, 1, 1, 1])
    assert fit_temperature(*flat, "binary", objective=Objective("nll", grid=(0.25, 0.8, 3.0))) == (0.8,)
    with pytest.raises(ValueError, match="no temperature of the grid lies within"):
        fit_temperature(*flat, "binary", objective=Objective("nll", grid=(0.25,), bounds=(1.0, 2.0)))


def test_a_calibration_error_is_fitted_on_a_grid_by_the_metric_that_is_passed() -> None:
    p, y = drawn(300, 2, 4, 2.0)
    grid = (0.5, 1.0, 2.0, 4.0)

    def gap(q: Floats, labels: Ints, weights: Floats) -> float:
        return abs(float(np.average(q - labels, weights=weights)))

    objective = Objective("ece", grid=grid, binning=("equal-mass", 15))
    (t,) = fit_temperature(p[:, 1:], y, "binary", objective=objective, metric=gap)
    assert t == min(grid, key=lambda s: abs(float(np.mean(expit(logit(p[:, 1]) / s) - y))))
    for wrong in ({"objective": objective}, {"objective": Objective("ece"), "metric": gap}):
        with pytest.raises(ValueError, match="a declared grid of temperatures alone, with metric="):
            fit_temperature(p[:, 1:], y, "binary", **wrong)
