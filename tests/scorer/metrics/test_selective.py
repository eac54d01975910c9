"""Selective risk: hand-worked values, ties, and plain loops as a second implementation."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.metrics import accuracy, aurc, plan_for, risk_at_coverage
from scorer.metrics.arrays import top_label
from tests.scorer.metrics.registry import Sample, about, sample


def slow_risks(cases: Sample) -> list[tuple[float, float, float]]:
    """(confidence, coverage, risk) of each set of most confident cases, those of equal confidence together."""
    hit = top_label(cases.p, cases.y)[1]
    if cases.p.ndim == 1:  # exactly, so that 1 - .07 and .93 are one confidence
        printed = [Fraction(str(round(float(one), 12))) for one in cases.p]
        confidence = np.array([float(max(one, 1 - one)) for one in printed])
    else:
        confidence = cases.p.max(axis=1)
    found = []
    for level in np.unique(confidence[cases.w > 0])[::-1]:
        kept = confidence >= level
        mass = cases.w[kept].sum()
        found.append((float(level), mass / cases.w.sum(), float((cases.w * (1 - hit))[kept].sum() / mass)))
    return found


def test_aurc_by_hand() -> None:
    # by falling confidence .9 right, .8 wrong, .6 right, .55 wrong: risks 0, 1/2, 1/3, 1/2
    p, y = [[0.9, 0.1], [0.2, 0.8], [0.4, 0.6], [0.55, 0.45]], [0, 0, 1, 1]
    assert aurc(p, y) == (about((0 + 1 / 2 + 1 / 3 + 1 / 2) / 4, 1e-15), None)


def test_aurc_under_weights_by_hand() -> None:
    # .9 right (w 1), .8 wrong (w 3): risks 0 and 3/4
    assert aurc([0.9, 0.8], [1, 0], [1, 3]).value == pytest.approx((0 + 3 * 3 / 4) / 4, abs=1e-15)


def test_equal_confidences_enter_together() -> None:
    # .9 right and .9 wrong: the risk of both is 1/2, in either order
    assert aurc([0.9, 0.1], [1, 1]).value == 0.5
    assert aurc([0.1, 0.9], [1, 1]).value == 0.5


def test_a_tied_arg_max_is_half_an_error() -> None:
    assert aurc([0.5, 0.5], [1, 0]).value == 0.5


def test_all_right_and_all_wrong() -> None:
    assert aurc([0.9, 0.7, 0.6], [1, 1, 1]).value == 0.0
    assert aurc([0.9, 0.7, 0.6], [0, 0, 0]).value == 1.0


def test_risk_at_coverage_by_hand() -> None:
    p, y = [0.95, 0.9, 0.8, 0.7], [1, 0, 1, 1]
    # one, two, three, four cases: risks 0, 1/2, 1/3, 1/4; the smallest set that covers at least the share
    found = risk_at_coverage(p, y, coverages=(1.0, 0.75, 0.5, 0.26, 0.25, 0.01))
    assert found.risks == pytest.approx((1 / 4, 1 / 3, 1 / 2, 1 / 2, 0.0, 0.0), abs=1e-15)
    assert found.coverages == (1.0, 0.75, 0.5, 0.26, 0.25, 0.01)
    assert found.reason is None


def test_the_order_of_the_coverages_is_kept() -> None:
    p, y = [0.95, 0.9, 0.8, 0.7], [1, 0, 1, 1]
    assert risk_at_coverage(p, y, coverages=(0.25, 1.0, 0.25)).risks == pytest.approx((0.0, 1 / 4, 0.0), abs=1e-15)
    assert risk_at_coverage(p, y, coverages=()).risks == ()


def test_ties_make_the_set_larger_than_asked() -> None:
    # half is asked for, the three tied cases enter together
    assert risk_at_coverage([0.9, 0.9, 0.9, 0.6], [1, 0, 1, 1], coverages=(0.5,)).risks == pytest.approx(
        (1 / 3,), abs=1e-15
    )


def test_coverages_of_the_edition() -> None:
    assert risk_at_coverage([0.9], [1]).coverages == (0.9, 0.8, 0.5)


@pytest.mark.parametrize("coverage", [0.0, 1.01, -0.5, float("nan")])
def test_coverages_lie_above_zero_and_up_to_one(coverage: float) -> None:
    with pytest.raises(ValueError, match="coverages must lie"):
        risk_at_coverage([0.9], [1], coverages=(0.5, coverage))


def test_without_weight_undefined() -> None:
    value, reason = aurc([], [])
    assert math.isnan(value)
    assert reason == "no images (or none of positive weight)"
    found = risk_at_coverage([0.9], [1], [0], coverages=(0.5, 1.0))
    assert all(math.isnan(one) for one in found.risks)
    assert found.reason == "no images (or none of positive weight)"


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 4]), st.floats(0.001, 1.0))
def test_plain_loops_agree(seed: int, k: int, coverage: float) -> None:
    cases = sample(seed, k)
    steps = slow_risks(cases)
    shares = np.diff([0.0, *(share for _, share, _ in steps)])
    area = sum(share * risk for share, (_, _, risk) in zip(shares, steps, strict=True))
    assert aurc(*cases).value == pytest.approx(area, abs=1e-13)
    wanted = next(risk for _, share, risk in steps if share >= coverage * (1 - 1e-12))
    assert risk_at_coverage(*cases, coverages=(coverage,)).risks == pytest.approx((wanted,), abs=1e-13)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))
def test_full_coverage_is_the_error_rate(seed: int, k: int) -> None:
    cases = sample(seed, k)
    full = risk_at_coverage(*cases, coverages=(1.0,)).risks[0]
    assert full == pytest.approx(1.0 - accuracy(*cases), abs=1e-13)
    assert 0.0 <= aurc(*cases).value <= 1.0


def test_both_sides_of_a_binary_forecast_are_equally_confident() -> None:
    # 1 - .07 is not the float of .93; one right and one wrong at one confidence: risk 1/2 at every coverage
    for p, y in (([0.07, 0.93], [1, 1]), ([0.93, 0.07], [0, 0]), ([0.25, 0.75], [1, 1])):
        assert aurc(p, y) == (0.5, None)
        assert risk_at_coverage(p, y, coverages=(0.5,)).risks == (0.5,)


def test_stored_singles_tie_as_well() -> None:
    p = np.array([0.07, 0.93], dtype=np.float32).astype(np.float64)
    plan = plan_for("binary", ("no", "yes"), p[:, None], np.array([1, 1]), np.arange(2), 2, precision=("float32",))
    values = {(one.metric, one.cutoff): one.value for one in plan.points()}
    assert values["aurc", None] == 0.5
    assert values["risk_at_coverage", 0.5] == 0.5
