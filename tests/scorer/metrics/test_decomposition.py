"""Murphy's and CORP decompositions: hand-worked values, a slow reference, scikit-learn's isotonic regression, sums."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from scorer.metrics import brier_binary, corp, murphy
from scorer.metrics.arrays import Floats, Ints
from tests.scorer.metrics import reference
from tests.scorer.metrics.registry import about, sample


def test_murphy_by_hand() -> None:
    # two bins {.1 .15} rate 1/2, {.8 .9} rate 1; prevalence 3/4
    result = murphy([0.1, 0.15, 0.8, 0.9], [0, 1, 1, 1], bins=2)
    assert result.rel == pytest.approx((0.375**2 + 0.15**2) / 2, abs=1e-15)
    assert result.res == pytest.approx(0.25**2, abs=1e-15)
    assert result.unc == pytest.approx(0.75 * 0.25, abs=1e-15)
    # deviations .025 and .05 about the bins' means, of which only the first bin's go with the outcome
    assert result.wbv == pytest.approx((2 * 0.025**2 + 2 * 0.05**2) / 4, abs=1e-15)
    assert result.wbc == pytest.approx(2 * (0.025 * 0.5 + 0.025 * 0.5) / 4, abs=1e-15)
    assert result.reason is None


def test_rel_less_res_plus_unc_is_not_the_brier_score() -> None:
    # (.01 + .7225 + .04 + .01) / 4 = .195625, which the three parts alone miss: .2065625
    p, y = [0.1, 0.15, 0.8, 0.9], [0, 1, 1, 1]
    found = murphy(p, y, bins=2)
    assert brier_binary(p, y) == pytest.approx(0.195625, abs=1e-15)
    assert found.rel - found.res + found.unc == pytest.approx(0.2065625, abs=1e-15)
    assert found.rel - found.res + found.unc + found.wbv - found.wbc == pytest.approx(0.195625, abs=1e-15)


def test_murphy_of_one_value_a_bin_has_no_terms_within() -> None:
    # .2 rate 1/2, .7 rate 1
    found = murphy([0.2, 0.2, 0.7, 0.7], [0, 1, 1, 1], bins=2)
    assert (found.wbv, found.wbc) == (0.0, about(0.0, 1e-16))
    assert found.rel == pytest.approx((0.3**2 + 0.3**2) / 2, abs=1e-15)


def test_corp_by_hand() -> None:
    # .2 (rate 2/3), .6 (0), .8 (1): the first two are pooled to 2/4. S(p) = (.04 + .64 + .64 + .36 + .04) / 5,
    # S(c) = 4 * .25 / 5, S(prevalence) = .6 * .4
    p, y = [0.2, 0.2, 0.2, 0.6, 0.8], [0, 1, 1, 0, 1]
    result = corp(p, y)
    assert result.mcb == pytest.approx(1.72 / 5 - 0.2, abs=1e-15)
    assert result.dsc == pytest.approx(0.24 - 0.2, abs=1e-15)
    assert result.unc == pytest.approx(0.24, abs=1e-15)
    assert result.reason is None


def test_corp_of_reversed_ranks_has_no_discrimination() -> None:
    # all is pooled to the prevalence: S(p) = (.81 + .81) / 2, S(c) = 1/4
    assert corp([0.1, 0.9], [1, 0]) == (about(0.81 - 0.25, 1e-15), 0.0, 0.25, None)


def test_corp_under_weights_by_hand() -> None:
    # rates 1/4 at .2 and 1 at .5, rising: S(p) = (.04 * 3 + .64 + .25) / 5, S(c) = (3/16 * 4) / 5, unc = .4 * .6
    result = corp([0.2, 0.2, 0.5], [0, 1, 1], [3, 1, 1])
    assert result.mcb == pytest.approx(1.01 / 5 - 0.15, abs=1e-15)
    assert result.dsc == pytest.approx(0.24 - 0.15, abs=1e-15)


def test_corp_of_one_class() -> None:
    # isotonic regression is the constant 1
    assert corp([0.2, 0.6], [1, 1]) == (about((0.64 + 0.16) / 2, 1e-15), 0.0, 0.0, None)


def test_without_weight_all_parts_are_undefined() -> None:
    for result in (murphy([], []), murphy([0.2], [1], [0]), corp([], []), corp([0.2], [1], [0])):
        assert all(math.isnan(part) for part in result[:-1])
        assert result.reason == "no images (or none of positive weight)"


def test_decompositions_are_of_one_probability() -> None:
    for metric in (murphy, corp):
        with pytest.raises(ValueError, match="one class at a time"):
            metric([[0.2, 0.8]], [1])
    with pytest.raises(ValueError, match="bins must be at least 1"):
        murphy([0.2], [1], bins=0)


def isotonic_parts(p: Floats, y: Ints, w: Floats | Ints) -> list[float]:
    fitted = IsotonicRegression().fit(p, y, sample_weight=w).predict(p)
    rate = float(np.average(y, weights=w))
    own, best, constant = (float(np.average((q - y) ** 2, weights=w)) for q in (p, fitted, np.full(len(y), rate)))
    return [own - best, constant - best, constant]


@pytest.mark.parametrize("levels", [7, 10**9])
def test_isotonic_regression_of_scikit_learn_agrees(levels: int) -> None:
    rng = np.random.default_rng(levels)
    p = rng.integers(0, levels + 1, 400) / levels
    y, w = (rng.random(400) < p**2).astype(np.int64), 0.1 + rng.random(400)
    assert list(corp(p, y)[:3]) == pytest.approx(isotonic_parts(p, y, np.ones(400)), abs=1e-12)
    assert list(corp(p, y, w)[:3]) == pytest.approx(isotonic_parts(p, y, w), abs=1e-12)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_small_sets_agree_with_scikit_learn(seed: int) -> None:
    p, y, w = sample(seed).repeated()
    assert list(corp(p, y)[:3]) == pytest.approx(isotonic_parts(p, y, w), abs=1e-12)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 17))
def test_murphy_against_exact_fractions(seed: int, bins: int) -> None:
    p, y, w = sample(seed)
    wanted = reference.murphy(reference.mass_bins(p, y, w, bins))
    assert list(murphy(p, y, w, bins=bins)[:5]) == pytest.approx(wanted, abs=1e-13)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 17))
def test_both_add_up_to_the_brier_score(seed: int, bins: int) -> None:
    p, y, w = sample(seed)
    brier = brier_binary(p, y, w)
    found, parts = murphy(p, y, w, bins=bins), corp(p, y, w)
    assert found.rel - found.res + found.unc + found.wbv - found.wbc == pytest.approx(brier, abs=1e-13)
    assert parts.mcb - parts.dsc + parts.unc == pytest.approx(brier, abs=1e-13)
    assert parts.unc == pytest.approx(found.unc, abs=1e-14)
    assert 0.0 <= parts.mcb <= 1.0
    assert 0.0 <= parts.dsc <= parts.unc + 1e-15
    assert parts.unc <= 0.25 + 1e-15
    assert min(found[:4]) >= 0.0


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1))
def test_a_rising_transform_leaves_discrimination_alone(seed: int) -> None:
    p, y, w = sample(seed)
    before, after = corp(p, y, w), corp(p**3, y, w)
    assert after.dsc == pytest.approx(before.dsc, abs=1e-14)
    assert after.unc == before.unc


@pytest.mark.parametrize("n", [1, 2, 5])
def test_probabilities_that_are_the_rates_are_not_miscalibrated(n: int) -> None:
    # in the middle as many of each outcome: p is the isotonic fit itself
    p = np.repeat([0.0, 0.5, 1.0], 2 * n)
    y = np.concatenate((np.zeros(2 * n), np.tile([0, 1], n), np.ones(2 * n))).astype(np.int64)
    assert corp(p, y).mcb == 0.0
    assert murphy(p, y).rel == 0.0
