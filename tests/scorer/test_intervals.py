"""Intervals and paired differences: by hand, against other implementations, and what must always hold."""

import math
from itertools import pairwise
from statistics import NormalDist
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from scorer.intervals import Difference, Interval, Method, difference, interval

Floats = NDArray[np.float64]
METHODS: tuple[Method, ...] = get_args(Method)

numbers = st.integers(-50, 50).map(lambda n: n / 8)  # exact sums, frequent ties
perhaps = numbers | st.just(math.nan)
replicates = arrays(np.float64, st.integers(1, 40), elements=perhaps)
pairs = st.integers(1, 40).flatmap(lambda n: st.tuples(*[arrays(np.float64, n, elements=perhaps)] * 2))


def assert_undefined(found: Interval, n_undefined: int, reason: str) -> None:
    assert math.isnan(found.lo)
    assert math.isnan(found.hi)
    assert found.n_undefined == n_undefined
    assert found.reason is not None
    assert reason in found.reason


def test_percentile_by_hand() -> None:
    # 0 .. 100: the 2.5 % and 97.5 % points of 101 equally spaced values
    assert interval(np.arange(101.0)[::-1], 30.0) == pytest.approx((2.5, 97.5, 0, None))
    assert interval(np.arange(101.0), 30.0, level=0.8) == pytest.approx((10.0, 90.0, 0, None))


def test_basic_reflects_the_quantiles_about_the_value() -> None:
    assert interval(np.arange(101.0), 30.0, method="basic") == pytest.approx((60.0 - 97.5, 60.0 - 2.5, 0, None))


@pytest.mark.parametrize("method", METHODS)
def test_levels_are_nested(method: Method) -> None:
    rng = np.random.default_rng(0)
    made, without = rng.normal(size=500), rng.exponential(size=30)
    limits = [interval(made, 0.1, level=level, method=method, left_out=without)[:2] for level in (0.5, 0.8, 0.95, 0.99)]
    for (lo, hi), (wider_lo, wider_hi) in pairwise(limits):
        assert wider_lo < lo < hi < wider_hi


def test_undefined_resamples_are_counted_and_left_out() -> None:
    made = np.concatenate((np.arange(101.0), [math.nan] * 9))
    assert interval(made, 50.0) == pytest.approx((2.5, 97.5, 9, None))
    without = np.arange(20.0)
    assert interval(made, 50.0, method="bca", left_out=without) == pytest.approx((2.5, 97.5, 9, None))


@pytest.mark.parametrize("method", METHODS)
def test_limits_are_undefined_with_a_reason(method: Method) -> None:
    without = np.arange(5.0)
    found = interval(np.full(4, math.nan), 0.5, method=method, left_out=without)
    assert_undefined(found, 4, "undefined in every resample")
    found = interval(np.array([math.nan, 0.5]), math.nan, method=method, left_out=without)
    assert_undefined(found, 1, "value undefined")


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, -0.1, math.nan])
def test_bad_level(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        interval(np.arange(5.0), 1.0, level=level)
    with pytest.raises(ValueError, match="level"):
        difference(np.arange(5.0), np.ones(5), 1.0, 2.0, level=level)


def test_bad_method() -> None:
    with pytest.raises(ValueError, match="method"):
        interval(np.arange(5.0), 1.0, method="studentised")  # type: ignore[arg-type]


# BCa


def bca(made: Floats, point: float, without: Floats, level: float) -> tuple[float, float]:
    """Efron and Tibshirani 1993, equations 14.9, 14.10, 14.14 and 14.15, line by line."""
    normal = NormalDist()
    z0 = normal.inv_cdf(float(np.mean((made < point) + 0.5 * (made == point))))
    centred = [float(without.mean() - one) for one in without]
    a = sum(one**3 for one in centred) / (6.0 * sum(one**2 for one in centred) ** 1.5)

    def share(alpha: float) -> float:
        z = z0 + normal.inv_cdf(alpha)
        return normal.cdf(z0 + z / (1.0 - a * z))

    ends = [share((1.0 - level) / 2.0), share((1.0 + level) / 2.0)]
    lo, hi = np.quantile(made, ends)
    return float(lo), float(hi)


def skewed(seed: int, n: int, resamples: int) -> tuple[Floats, Floats, Floats]:
    """Data, the bootstrap means of them, and their means with each left out."""
    rng = np.random.default_rng(seed)
    data = rng.exponential(size=n)
    means = data[rng.integers(0, n, (resamples, n))].mean(axis=1)
    return data, means, (data.sum() - data) / (n - 1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_bca_is_the_textbooks(seed: int, level: float) -> None:
    data, means, without = skewed(seed, n=12 + 7 * seed, resamples=300 + seed)
    found = interval(means, float(data.mean()), level=level, method="bca", left_out=without)
    assert found.reason is None
    assert (found.lo, found.hi) == pytest.approx(bca(means, float(data.mean()), without, level), abs=1e-12)


def test_bca_is_scipys() -> None:
    rng = np.random.default_rng(4)
    data = rng.exponential(size=25)
    theirs = stats.bootstrap((data,), np.mean, n_resamples=999, method="BCa", confidence_level=0.9, rng=rng)
    without = (data.sum() - data) / (len(data) - 1)
    found = interval(theirs.bootstrap_distribution, float(data.mean()), level=0.9, method="bca", left_out=without)
    assert (found.lo, found.hi) == pytest.approx(tuple(theirs.confidence_interval), abs=1e-12)


def test_bca_moves_with_the_skew() -> None:
    data, means, without = skewed(1, n=30, resamples=2000)
    plain = interval(means, float(data.mean()))
    moved = interval(means, float(data.mean()), method="bca", left_out=without)
    # the mean of a right-skewed sample has more room above it
    assert moved.lo > plain.lo
    assert moved.hi > plain.hi


@pytest.mark.parametrize("without", [np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.full(5, 2.0)])
def test_bca_of_a_symmetric_unbiased_case_is_the_percentile_interval(without: Floats) -> None:
    # as many replicates below the value as above, and left-out values without skew (or without any spread)
    made = np.arange(-50.0, 51.0)
    plain = interval(made, 0.0)
    assert interval(made, 0.0, method="bca", left_out=without) == pytest.approx(plain, abs=1e-12)


def test_bca_counts_ties_one_half() -> None:
    # a metric with three values: 30 below, 40 equal, 30 above is not biased
    made = np.repeat([0.0, 1.0, 2.0], [30, 40, 30])
    assert interval(made, 1.0, method="bca", left_out=np.array([1.0, 2.0, 3.0])) == pytest.approx((0.0, 2.0, 0, None))


def test_bca_needs_the_left_out_values() -> None:
    with pytest.raises(ValueError, match="left out"):
        interval(np.arange(5.0), 1.0, method="bca")


def test_bca_is_undefined_where_a_left_out_value_is() -> None:
    without = np.array([1.0, math.nan, 2.0, math.nan])
    found = interval(np.arange(9.0), 4.0, method="bca", left_out=without)
    assert_undefined(found, 0, "bca: undefined without one of 2 patients")


@pytest.mark.parametrize("point", [-1.0, 9.0])
def test_bca_is_undefined_where_all_replicates_lie_on_one_side(point: float) -> None:
    made = np.append(np.arange(9.0), math.nan)
    found = interval(made, point, method="bca", left_out=np.arange(4.0))
    assert_undefined(found, 1, "one side")


def test_bca_of_replicates_that_are_all_the_value() -> None:
    assert interval(np.full(9, 0.5), 0.5, method="bca", left_out=np.full(4, 0.5)) == (0.5, 0.5, 0, None)


@given(replicates, numbers, st.sampled_from(METHODS), st.sampled_from([0.5, 0.9, 0.95]))
def test_limits_are_in_order_or_have_a_reason(made: Floats, point: float, method: Method, level: float) -> None:
    found = interval(made, point, level=level, method=method, left_out=np.linspace(-1.0, 1.0, 7) ** 3)
    assert found.n_undefined == np.isnan(made).sum()
    if found.reason is None:
        assert found.lo <= found.hi
        if method != "basic":
            assert np.nanmin(made) <= found.lo
            assert found.hi <= np.nanmax(made)
    else:
        assert math.isnan(found.lo)
        assert math.isnan(found.hi)


@given(replicates, numbers, numbers)
def test_percentile_and_basic_move_with_a_shift(made: Floats, point: float, shift: float) -> None:
    methods: tuple[Method, ...] = ("percentile", "basic")
    for method in methods:
        before = interval(made, point, method=method)
        after = interval(made + shift, point + shift, method=method)
        expected = (before.lo + shift, before.hi + shift)
        assert (after.lo, after.hi) == pytest.approx(expected, abs=1e-9, nan_ok=True)


# Differences


def test_difference_by_hand() -> None:
    first = np.array([1.0, 5.0, 3.0, 4.0, 0.0])
    second = np.array([0.0, 1.0, 1.0, 1.0, 4.0])
    # differences 1, 4, 2, 3, -4: quartiles 1 and 3; one is below zero, so p = 2 (1 + 1) / (5 + 1)
    found = difference(first, second, 2.5, 1.0, level=0.5)
    assert found == pytest.approx((1.5, 1.0, 3.0, 4 / 6, 5, 0, None))


def test_the_least_p_value_is_two_in_draws_plus_one() -> None:
    found = difference(np.arange(1.0, 100.0), np.zeros(99), 50.0, 0.0)
    assert found.p_value == 2 / 100


def test_zero_counts_on_both_sides() -> None:
    assert difference(np.ones(9), np.ones(9), 1.0, 1.0) == (0.0, 0.0, 0.0, 1.0, 9, 0, None)
    # -1, 0, 1, 1, 1: two at or below zero, four at or above
    found = difference(np.array([-1.0, 0.0, 1.0, 1.0, 1.0]), np.zeros(5), 0.4, 0.0)
    assert found.p_value == 1.0
    assert difference(np.array([0.0, *np.ones(8)]), np.zeros(9), 0.9, 0.0).p_value == 2 * 2 / 10


def test_draws_undefined_in_either_are_counted_and_left_out() -> None:
    first = np.array([1.0, math.nan, 3.0, math.nan, 5.0])
    second = np.array([0.0, 0.0, math.nan, math.nan, 1.0])
    found = difference(first, second, 3.0, 1.0, level=0.5)
    assert found == pytest.approx((2.0, 1.75, 3.25, 2 / 3, 5, 3, None))


@pytest.mark.parametrize(
    ("first", "value", "n_undefined"),
    [(np.full(4, math.nan), 1.0, 4), (np.array([1.0, 2.0, math.nan, 3.0]), math.nan, 1)],
)
def test_an_undefined_difference_has_a_reason(first: Floats, value: float, n_undefined: int) -> None:
    for found in (difference(first, np.ones(4), value, 1.0), difference(np.ones(4), first, 1.0, value)):
        assert math.isnan(found.lo)
        assert math.isnan(found.hi)
        assert math.isnan(found.p_value)
        assert (found.n_draws, found.n_undefined) == (4, n_undefined)
        assert found.reason is not None


def test_replicates_of_unequal_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        difference(np.ones(4), np.ones(5), 1.0, 1.0)


@given(pairs, numbers, numbers)
def test_difference_is_antisymmetric(made: tuple[Floats, Floats], first: float, second: float) -> None:
    one = difference(made[0], made[1], first, second)
    other = difference(made[1], made[0], second, first)
    assert other == pytest.approx(
        Difference(-one.value, -one.hi, -one.lo, one.p_value, one.n_draws, one.n_undefined, one.reason),
        abs=1e-12,
        nan_ok=True,
    )


@given(pairs)
def test_p_value_lies_above_zero_and_up_to_one(made: tuple[Floats, Floats]) -> None:
    found = difference(*made, 1.0, 0.0)
    kept = found.n_draws - found.n_undefined
    assert kept == (~np.isnan(made[0] - made[1])).sum()
    if kept == 0:
        assert math.isnan(found.p_value)
    else:
        assert min(1.0, 2.0 / (kept + 1)) <= found.p_value <= 1.0


@given(st.integers(0, 10_000), st.floats(-4.0, 4.0), st.sampled_from([19, 99, 200, 999]))
def test_a_small_p_value_goes_with_an_interval_that_excludes_zero(seed: int, shift: float, draws: int) -> None:
    made = np.random.default_rng(seed).normal(shift, 1.0, draws)
    found = difference(made, np.zeros(draws), shift, 0.0, level=0.9)
    excluded = found.lo > 0.0 or found.hi < 0.0
    if found.p_value <= 0.1 - 1e-9:
        assert excluded
    if excluded:  # the quantile lies between two replicates, and p counts one more than there are
        assert found.p_value <= 0.1 + 4.0 / (draws + 1)


def test_paired_draws_make_the_interval_narrower() -> None:
    rng = np.random.default_rng(2)
    shared = rng.normal(size=2000)
    first, second = (shared + rng.normal(scale=0.2, size=2000) for _ in range(2))
    paired = difference(first, second, 0.1, 0.0)
    unpaired = difference(first, rng.permutation(second), 0.1, 0.0)
    # variances 2 (0.2)^2 and 2 (1 + 0.2^2): a ratio of widths of 0.2 / sqrt 1.04
    ratio = (paired.hi - paired.lo) / (unpaired.hi - unpaired.lo)
    assert ratio == pytest.approx(0.2 / math.sqrt(1.04), rel=0.1)


def test_paired_difference_of_models_that_differ_by_a_constant_is_sure() -> None:
    made = np.random.default_rng(3).normal(size=500)
    found = difference(made + 0.25, made, 0.25, 0.0)
    assert (found.lo, found.hi) == pytest.approx((0.25, 0.25), abs=1e-12)
    assert found.p_value == 2 / 501


def test_bca_limits_never_change_places() -> None:
    left = np.zeros(50)
    left[0] = -1.0
    found = interval(np.arange(2000.0), 1998.0, level=0.999, method="bca", left_out=left)
    assert math.isnan(found.lo)
    assert found.reason == "bca: too skewed for this level"
