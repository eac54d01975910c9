"""Smooth ECE: closed forms, published values, and quadrature of the definition as a second implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from scorer.metrics import ece, smooth_ece
from scorer.metrics.arrays import Floats, Ints
from scorer.metrics.smooth import CELLS, on_grid, smooth_ece_of
from tests.scorer.metrics.registry import about, sample

GRID_ERROR = 1e-5  # as documented for 1,024 cells


def quadrature(p: Floats, outcome: Floats | Ints, w: Floats | Ints, points: int = 2001) -> float:
    """The integral of abs(sum w (y - p) K_s(t, p)) / T where it equals s, K_s summed over mirror images."""
    t = np.linspace(0.0, 1.0, points)[:, None]
    values, at = np.unique(p, return_inverse=True)
    residual = np.bincount(at, weights=w * (outcome - p))

    def error(s: float) -> float:
        images = [2.0 * k + sign * values for k in range(-3, 4) for sign in (1.0, -1.0)]
        kernel = sum(np.exp(-0.5 * ((t - one) / s) ** 2) for one in images) / (s * math.sqrt(2 * math.pi))
        height = np.abs(kernel @ residual)
        return float((height[1:] + height[:-1]).sum() / 2 / (points - 1) / w.sum())

    if error(1e-3) <= 1e-3:
        return error(1e-3)
    return error(brentq(lambda s: error(s) - s, 1e-3, 1.0, xtol=1e-12))


def test_residuals_of_one_sign_are_only_spread() -> None:
    # smoothing keeps the integral: the mean residual at any width
    assert smooth_ece([0.1, 0.4, 0.8], [1, 1, 1]) == (about(1.7 / 3, 1e-12), None)
    assert smooth_ece([0.1, 0.4, 0.8], [0, 0, 0]).value == pytest.approx(1.3 / 3, abs=1e-12)
    # the same of one value: |.25 - .8|
    assert smooth_ece([0.8] * 4, [1, 0, 0, 0]).value == pytest.approx(0.55, abs=1e-12)
    assert smooth_ece([0.2, 0.2], [0, 1], [3, 1]).value == pytest.approx(0.05, abs=1e-12)


def test_opposite_residuals_far_apart_hardly_meet() -> None:
    # residuals of +.1 at .1 and -.1 at .9, half of each sign: at width .1 they overlap by 4 standard deviations
    p, y = np.repeat([0.1, 0.9], 10), np.concatenate(([1, 1], np.zeros(8), np.ones(8), [0, 0])).astype(np.int64)
    found = smooth_ece(p, y).value
    assert found == pytest.approx(0.1, abs=1e-4)
    assert found < 0.1


def test_perfect_forecasts() -> None:
    assert smooth_ece([0.0, 1.0, 1.0], [0, 1, 1]).value == 0.0
    assert smooth_ece([0.5] * 4, [0, 1, 1, 0]).value == pytest.approx(0.0, abs=1e-12)


def test_as_published() -> None:
    # relplot 1.0.3, whose bisection stops at 1e-3
    p, y = np.array([0.1, 0.2, 0.3, 0.8, 0.9, 0.6]), np.array([0, 1, 0, 1, 1, 0])
    assert smooth_ece(p, y).value == pytest.approx(0.1463, abs=1e-3)
    # folded to the likelier side it is another number, of the top-label reading
    assert smooth_ece(np.stack([1 - p, p], axis=1), y).value == pytest.approx(0.1165, abs=1e-3)


def test_cases_at_zero_and_one_count_whole() -> None:
    # relplot 1.0.3 gives .2026 here and .2202 once 0 and 1 are moved inwards by .001: it treats cases exactly
    # at 0 and 1 otherwise. The definition has no such step, by quadrature .21431 and .21406
    p, y = np.array([0, 0.1, 0.1, 0.4, 0.4, 0.9, 1, 1]), np.array([0, 0, 1, 0, 1, 1, 1, 0])
    assert smooth_ece(p, y).value == pytest.approx(0.21431, abs=1e-5)
    assert smooth_ece(p.clip(0.001, 0.999), y).value == pytest.approx(0.21406, abs=1e-5)
    assert smooth_ece(p, y).value == pytest.approx(quadrature(p, y, np.ones(8)), abs=GRID_ERROR)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1))
def test_quadrature_agrees(seed: int) -> None:
    p, y, w = sample(seed)
    assert smooth_ece(p, y, w).value == pytest.approx(quadrature(p, y, w), abs=GRID_ERROR)


@pytest.mark.parametrize("n", [30, 120])
@pytest.mark.parametrize("power", [1.0, 1.5])
def test_quadrature_agrees_on_larger_sets(n: int, power: float) -> None:
    rng = np.random.default_rng(n)
    p = rng.beta(0.6, 0.6, n)
    y = (rng.random(n) < p**power).astype(np.int64)
    assert smooth_ece(p, y).value == pytest.approx(quadrature(p, y, np.ones(n)), abs=GRID_ERROR)


def test_a_calibrated_model_has_little_and_less_with_more_cases() -> None:
    rng = np.random.default_rng(8)
    found = []
    for n in (200, 20_000):
        p = rng.random(n)
        found.append(smooth_ece(p, (rng.random(n) < p).astype(np.int64)).value)
    assert found[1] < 0.02 < found[0] < 0.1


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_it_lies_between_the_mean_gap_and_the_finest_ece(seed: int) -> None:
    p, y, w = sample(seed)
    value = smooth_ece(p, y, w).value
    assert ece(p, y, w, bins=1).value - 1e-9 <= value
    assert value <= ece(p, y, w, bins=2 * int(w.sum())).value + GRID_ERROR
    # the mirror of the problem has the same error
    assert smooth_ece(1 - p, 1 - y, w).value == pytest.approx(value, abs=1e-9)


def test_on_grid_keeps_mass_and_mean() -> None:
    p = np.array([0.0, 1.0, 0.5, 1 / 3, np.nextafter(1.0, 0.0), 5e-324])
    below, share = on_grid(p)
    assert below.min() == 0
    assert below.max() == CELLS - 1
    assert ((share >= 0.0) & (share <= 1.0)).all()
    assert ((below + share) / CELLS).tolist() == pytest.approx(p.tolist(), abs=1e-16)


@pytest.mark.parametrize("draws", [2, 3, 16, 17, 40])
def test_a_resample_has_the_same_bits_in_any_company(draws: int) -> None:
    rng = np.random.default_rng(1)
    residuals = np.zeros((draws, CELLS + 1))
    at = rng.integers(0, CELLS + 1, 21)
    for row in residuals:
        np.add.at(row, at, rng.normal(0.0, 0.3, 21) * rng.integers(0, 4, 21))
    total = np.full(draws, 21.0)
    together = smooth_ece_of(residuals, total)
    alone = [smooth_ece_of(residuals[d : d + 1], total[:1])[0] for d in range(draws)]
    assert together.tolist() == alone


def test_without_weight_undefined() -> None:
    for value, reason in (smooth_ece([], []), smooth_ece([0.2], [1], [0])):
        assert math.isnan(value)
        assert reason == "no images (or none of positive weight)"
    assert np.isnan(smooth_ece_of(np.zeros((1, CELLS + 1)), np.zeros(1))).tolist() == [True]
