"""Logistic calibration: hand-worked and published values, statsmodels, plain Newton steps, and where no fit exists."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit
from scipy.special import logit as scipy_logit

from scorer.metrics import citl, ici, recalibration_line
from scorer.metrics.arrays import Floats, Ints
from scorer.metrics.logistic import clipped, logit
from tests.scorer.metrics.registry import Sample, about, sample

P = [0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
Y = [0, 0, 1, 0, 0, 0, 1, 0, 1, 1]
GRID = (np.arange(200) + 0.5) / 200
CURVED = ((np.arange(200) * 73 % 200 + 0.5) / 200 < 0.1 + 0.7 * GRID**1.5).astype(np.int64)  # 78 events
THREES = 1 + np.arange(200) % 3


def newton(design: Floats, y: Floats | Ints, w: Floats | Ints) -> Floats:
    """Coefficients of the logistic regression by plain Newton steps."""
    beta = np.zeros(design.shape[1])
    beta[0] = math.log((w * y).sum() / (w * (1 - y)).sum())
    for _ in range(60):
        q = expit(design @ beta)
        step = np.linalg.solve((design.T * (w * q * (1 - q))) @ design, design.T @ (w * (y - q)))
        beta = beta + step
        if np.abs(step).max() < 1e-13:
            break
    return beta


def spline(x: Floats, w: Ints) -> Floats:
    """Restricted cubic spline by its definition: cubic between four knots, linear outside."""
    t = np.quantile(np.repeat(x, w), [0.05, 0.35, 0.65, 0.95], method="inverted_cdf")

    def cube(knot: float) -> Floats:
        return np.asarray(np.maximum(x - knot, 0.0) ** 3)

    curved = [
        cube(t[j]) - cube(t[2]) * (t[3] - t[j]) / (t[3] - t[2]) + cube(t[3]) * (t[2] - t[j]) / (t[3] - t[2])
        for j in range(2)
    ]
    return np.stack([np.ones(len(x)), x, *(one / (t[3] - t[0]) ** 2 for one in curved)], axis=1)


def test_citl_by_hand() -> None:
    # constant p: the intercept moves it to the rate, logit(3/4) - logit(1/2) = ln 3
    assert citl([0.5] * 4, [1, 1, 1, 0]) == (about(math.log(3), 1e-12), None)
    # logit(1/4) - logit(1/5) = ln(1/3) - ln(1/4)
    assert citl([0.2] * 4, [0, 0, 0, 1]).value == pytest.approx(math.log(4 / 3), abs=1e-12)
    assert citl([0.2, 0.2], [0, 1], [3, 1]).value == pytest.approx(math.log(4 / 3), abs=1e-12)


def test_line_by_hand() -> None:
    # two values: the line goes through both rates, logit(1/4) at logit(1/5) and logit(3/4) at logit(4/5)
    p, y = [0.2] * 4 + [0.8] * 4, [0, 0, 0, 1, 0, 1, 1, 1]
    found = recalibration_line(p, y)
    assert found.slope == pytest.approx(math.log(3) / math.log(4), abs=1e-12)
    assert found.intercept == pytest.approx(0.0, abs=1e-12)
    assert found.reason is None


def test_ici_by_hand() -> None:
    # two values leave a line, which goes through both rates: gaps .05 (3 rows of .2) and .3 (2 rows of .8: rate 1/2)
    found = ici([0.2] * 4 + [0.8] * 2, [0, 0, 0, 1, 0, 1])
    assert found[:4] == pytest.approx(((4 * 0.05 + 2 * 0.3) / 6, 0.05, 0.3, 0.3), abs=1e-12)
    # the 90 % quantile moves with the weights
    weighted = ici([0.2] * 4 + [0.8] * 2, [0, 0, 0, 1, 0, 1], [20, 20, 20, 20, 1, 1])
    assert weighted[:4] == pytest.approx(((80 * 0.05 + 2 * 0.3) / 82, 0.05, 0.05, 0.3), abs=1e-12)


def test_ici_with_one_class_is_the_distance_to_it() -> None:
    # the curve is the constant 1
    assert ici([0.2, 0.6, 0.9], [1, 1, 1])[:4] == pytest.approx(((0.8 + 0.4 + 0.1) / 3, 0.4, 0.8, 0.8), abs=1e-15)
    assert ici([0.2, 0.6, 0.9], [0, 0, 0])[:4] == pytest.approx((1.7 / 3, 0.6, 0.9, 0.9), abs=1e-15)


def test_ici_of_a_constant_is_the_gap_to_the_rate() -> None:
    assert ici([0.3] * 4, [1, 0, 0, 0])[:4] == pytest.approx((0.05,) * 4, abs=1e-12)


def test_ici_where_the_classes_separate_is_that_of_the_limit() -> None:
    # the fits tend to 0 0 1 1
    assert ici([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1])[:4] == pytest.approx((0.7 / 4, 0.1, 0.3, 0.3), abs=1e-6)


def test_both_intercepts_as_published() -> None:
    # two intercepts go by one name: joint with the slope, and at slope one, "in the large"
    line = recalibration_line(P, Y)
    assert line.intercept == pytest.approx(-0.3183, abs=5e-5)
    assert line.slope == pytest.approx(0.8898, abs=5e-5)
    assert citl(P, Y).value == pytest.approx(-0.3264, abs=5e-5)


@pytest.mark.parametrize(
    ("weights", "wanted"),
    [
        (
            None,
            (
                *(-0.6698515750793679, -0.5084984776997064, 0.45135009167758144),
                *(0.15269587587262579, 0.16780182147062095, 0.22671004777676507, 0.4408023025509196),
            ),
        ),
        (
            THREES,
            (
                *(-0.6489918164182991, -0.499658651882803, 0.4805487912413535),
                *(0.1417512594489806, 0.15232609859866791, 0.228150594109646, 0.30849297536640374),
            ),
        ),
    ],
)
def test_statsmodels_agrees(weights: Ints | None, wanted: tuple[float, ...]) -> None:
    # statsmodels 0.15.0: GLM(CURVED, design, Binomial(), freq_weights=weights).fit(tol=1e-14), the design being ones
    # with offset logit(GRID); ones and logit(GRID); spline(logit(GRID), weights) below, whose fitted values give the
    # mean, median, 90 % and largest distance to GRID
    line, gaps = recalibration_line(GRID, CURVED, weights), ici(GRID, CURVED, weights)
    found = (citl(GRID, CURVED, weights).value, line.intercept, line.slope, *gaps[:4])
    assert found == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_plain_newton_steps_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.beta(0.7, 0.9, 400).clip(1e-6, 1 - 1e-6)
    y, w = (rng.random(400) < expit(0.3 + 0.7 * scipy_logit(p))).astype(np.int64), rng.integers(0, 4, 400)
    x = scipy_logit(p)
    line = recalibration_line(p, y, w)
    assert [line.intercept, line.slope] == pytest.approx(
        newton(np.stack([np.ones(400), x], axis=1), y, w).tolist(), abs=1e-9
    )
    root = brentq(lambda a: float((w * (expit(a + x) - y)).sum()), -30, 30, xtol=1e-14, rtol=1e-14)
    assert citl(p, y, w).value == pytest.approx(root, abs=1e-10)
    curve = spline(x, w)
    distance = np.sort(np.repeat(np.abs(p - expit(curve @ newton(curve, y, w))), w))
    quantiles = np.quantile(distance, [0.5, 0.9, 1.0], method="inverted_cdf")
    assert ici(p, y, w)[:4] == pytest.approx((distance.mean(), *quantiles), abs=1e-9)


def test_a_calibrated_class_has_intercept_zero_and_slope_one() -> None:
    # every forecast three times, once with each outcome, weighted by what it says: the score equations hold at (0, 1)
    rng = np.random.default_rng(2)
    p = np.repeat(rng.dirichlet(np.ones(3), 30), 3, axis=0)
    y = np.tile(np.arange(3), 30)
    w = p[np.arange(90), y]
    for k in range(3):
        line = recalibration_line(p[:, k], y == k, w)
        assert (line.intercept, line.slope) == pytest.approx((0.0, 1.0), abs=1e-9)
        assert citl(p[:, k], y == k, w).value == pytest.approx(0.0, abs=1e-10)
        assert ici(p[:, k], y == k, w).emax < 1e-9


@pytest.mark.parametrize("slope", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("intercept", [-1.0, 0.5])
def test_a_known_distortion_is_found(slope: float, intercept: float) -> None:
    # outcomes weighted by the true probability, forecasts distorted on the logit scale
    truth = np.repeat(np.linspace(0.03, 0.97, 40), 2)
    y = np.tile([0, 1], 40)
    p = expit((scipy_logit(truth) - intercept) / slope)
    line = recalibration_line(p, y, np.where(y == 1, truth, 1 - truth))
    assert (line.intercept, line.slope) == pytest.approx((intercept, slope), abs=1e-9)


def test_zero_and_one_are_clipped_and_counted() -> None:
    assert clipped(np.array([0.0, 1e-13, 1e-12, 0.5, 1.0])) == 3
    assert logit(np.array([0.0, 1e-13])).tolist() == [logit(np.array([1e-12]))[0]] * 2
    assert logit(np.array([0.5]))[0] == 0.0
    # none is dropped: an event at probability 0 flattens the line
    p, y = [0.0, 0.2, 0.5, 0.8, 1.0], [1, 0, 1, 1, 1]
    limit = math.log1p(-1e-12) - math.log(1e-12)
    x = np.array([-limit, -math.log(4), 0.0, math.log(4), limit])
    wanted = newton(np.stack([np.ones(5), x], axis=1), np.array(y), np.ones(5))
    assert recalibration_line(p, y)[:2] == pytest.approx(wanted.tolist(), abs=1e-9)


@pytest.mark.parametrize(
    ("p", "y"), [([0.0, 0.0, 1.0], [0, 1, 0]), ([0.0, 0.0, 0.5, 1.0], [1, 1, 0, 1]), ([0.0, 0.0, 0.75], [1, 1, 0])]
)
def test_certain_and_wrong_forecasts_have_fits(p: list[float], y: list[int]) -> None:
    # logits of -28 and 28 are far from the fitted ones: plain steps from slope one would overshoot
    assert ici(p, y).reason is None
    line = recalibration_line(p, y)
    assert line.reason is None or "separates" in line.reason


def test_intercepts_at_certain_forecasts_keep_their_digits() -> None:
    # one event of two at p = 0: a - L = 0 up to terms of e^-L, L = logit(1e-12)
    assert citl([0.0, 0.0], [0, 1]).value == pytest.approx(-math.log(1e-12), abs=1e-9)
    # certain and right, twice as many at 0: e^a (e^-L) 2 = e^-a (e^-L), a = -ln(2) / 2
    assert citl([0.0, 0.0, 1.0], [0, 0, 1]).value == pytest.approx(-math.log(2) / 2, abs=1e-11)
    assert citl([0.0, 0.0, 1.0], [0, 0, 1], [3, 3, 3]).value == pytest.approx(-math.log(2) / 2, abs=1e-11)
    # the two sides of a forecast mirror each other, also at the clip
    assert citl([0.0, 0.2, 1.0], [1, 0, 1]).value == pytest.approx(-citl([1.0, 0.8, 0.0], [0, 1, 0]).value, abs=1e-9)


@pytest.mark.parametrize(
    ("p", "y", "reason"),
    [
        ([0.1, 0.2, 0.7, 0.9], [0, 0, 1, 1], "no finite fit: the probability separates the class from the rest"),
        ([0.1, 0.2, 0.7, 0.9], [1, 1, 0, 0], "no finite fit: the probability separates the class from the rest"),
        # also where a tie is all that they share
        ([0.1, 0.5, 0.5, 0.9], [0, 0, 1, 1], "no finite fit: the probability separates the class from the rest"),
        ([0.3, 0.3, 0.3], [0, 1, 1], "the probability is the same for every image"),
        ([0.3, 0.6], [1, 1], "every image is of the class"),
        ([0.3, 0.6], [0, 0], "no image of the class"),
        ([], [], "no images (or none of positive weight)"),
    ],
)
def test_no_line_and_why(p: list[float], y: list[int], reason: str) -> None:
    found = recalibration_line(p, y)
    assert math.isnan(found.intercept)
    assert math.isnan(found.slope)
    assert found.reason == reason


def test_one_case_that_overlaps_makes_a_line() -> None:
    assert recalibration_line([0.1, 0.5, 0.45, 0.9], [0, 0, 1, 1]).reason is None


def test_an_intercept_needs_both_classes() -> None:
    for y, reason in (([1, 1], "every image is of the class"), ([0, 0], "no image of the class")):
        value, why = citl([0.3, 0.6], y)
        assert math.isnan(value)
        assert why == reason
    # separation does not matter with the slope fixed
    assert citl([0.1, 0.9], [0, 1]).reason is None
    assert citl([0.3, 0.6, 0.9], [1, 0, 0], [0, 1, 1]).reason == "no image of the class"


def test_ici_needs_images() -> None:
    found = ici([0.3], [1], [0])
    assert all(math.isnan(one) for one in found[:4])
    assert found.reason == "no images (or none of positive weight)"


def test_fits_are_of_one_probability() -> None:
    for metric in (citl, recalibration_line, ici):
        with pytest.raises(ValueError, match="one class at a time"):
            metric([[0.2, 0.8]], [1])


def inner(seed: int) -> Sample:
    """Cases without 0 and 1."""
    p, y, w = sample(seed)
    return Sample(0.01 + 0.98 * p, y, w)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_the_other_class_has_the_same_slope(seed: int) -> None:
    p, y, w = inner(seed)
    line, other = recalibration_line(p, y, w), recalibration_line(1 - p, 1 - y, w)
    assert other.slope == pytest.approx(line.slope, abs=1e-8, rel=1e-8, nan_ok=True)
    assert other.intercept == pytest.approx(-line.intercept, abs=1e-8, rel=1e-8, nan_ok=True)
    assert citl(1 - p, 1 - y, w).value == pytest.approx(-citl(p, y, w).value, abs=1e-9, nan_ok=True)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_the_fits_solve_the_score_equations(seed: int) -> None:
    p, y, w = inner(seed)
    x = scipy_logit(p)
    a = citl(p, y, w)
    if a.reason is None:
        assert float((w * (expit(a.value + x) - y)).sum()) == pytest.approx(0.0, abs=1e-9)
    line = recalibration_line(p, y, w)
    if line.reason is None:
        residual = w * (expit(line.intercept + line.slope * x) - y)
        assert [float(residual.sum()), float((residual * x).sum())] == pytest.approx([0.0, 0.0], abs=1e-7)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_gaps_are_in_order(seed: int) -> None:
    found = ici(*inner(seed))
    if found.reason is not None:
        assert found.reason == "the fit did not converge"
        return
    assert 0.0 <= found.e50 <= found.e90 <= found.emax <= 1.0
    assert found.ici <= found.emax + 1e-14


def test_a_singular_step_is_not_the_end() -> None:
    # four parameters on five distinct probabilities, two of them certain: the curvature vanishes on the way
    found = ici([0.75, 0.25, 0.5, 0.0, 1.0, 0.25, 0.75], [1, 1, 0, 1, 1, 1, 0])
    assert found.reason is None
    assert 0.0 <= found.e50 <= found.e90 <= found.emax <= 1.0
