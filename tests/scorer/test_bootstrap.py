"""Draws and intervals: what they must be, whatever numpy's version, the block size and the order of files."""

import math

import numpy as np
import pytest

from scorer import bootstrap
from scorer.bootstrap import Draws, draws_for, interval


def test_a_draw_takes_as_many_patients_as_there_are() -> None:
    weights = Draws(7, 13, 400).block(0, 400)
    assert weights.shape == (400, 13)
    assert weights.dtype == np.float64
    assert (weights.sum(axis=1) == 13).all()
    assert (weights == np.floor(weights)).all()


def test_draws_are_multinomial() -> None:
    weights = Draws(3, 50, 20_000).block(0, 20_000)
    # mean 1, variance 1 - 1/P, covariance -1/P; the bounds are five standard errors or more
    assert weights.mean(axis=0) == pytest.approx(np.ones(50), abs=0.04)
    assert weights.var(axis=0) == pytest.approx(np.full(50, 1 - 1 / 50), abs=0.07)
    assert np.cov(weights[:, 0], weights[:, 1])[0, 1] == pytest.approx(-1 / 50, abs=0.04)
    assert (weights == 0).mean() == pytest.approx((1 - 1 / 50) ** 50, abs=0.003)


@pytest.mark.parametrize("patients", [1, 2, 3, 4, 5, 8, 31])
def test_blocks_do_not_matter(patients: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draws = Draws(2**127 + 5, patients, 23)
    whole = draws.block(0, 23)
    assert (np.concatenate([draws.block(i, i + 1) for i in range(23)]) == whole).all()
    monkeypatch.setattr(bootstrap, "BLOCK_BYTES", 8 * 10 * 4)
    blocks = list(draws.blocks(rows=10))
    assert [(first, last) for first, last, _ in blocks] == [(0, 4), (4, 8), (8, 12), (12, 16), (16, 20), (20, 23)]
    assert (np.concatenate([weights for _, _, weights in blocks]) == whole).all()


def test_draws_are_fixed_for_good() -> None:
    # published intervals hang on these: a change here needs a new edition
    assert draws_for("2026.1 abc", "test", "all", patients=5, resamples=3).block(0, 3).tolist() == [
        [2, 1, 1, 0, 1],
        [2, 0, 2, 1, 0],
        [2, 0, 2, 1, 0],
    ]


def test_every_slice_and_task_has_its_own_draws() -> None:
    named = [
        ("k", "test", "all"),
        ("k", "external", "all"),
        ("k", "test", "b"),
        ("k2", "test", "all"),
        ("kt", "est", "all"),
    ]
    keys = {draws_for(*names, patients=9, resamples=1).key for names in named}
    assert len(keys) == len(named)
    assert draws_for(*named[0], patients=9, resamples=1) == draws_for(*named[0], patients=9, resamples=1)


def test_fewer_resamples_are_the_first_of_more() -> None:
    few, many = (draws_for("k", "test", "all", patients=6, resamples=n) for n in (3, 50))
    assert (few.block(0, 3) == many.block(0, 50)[:3]).all()


def test_no_patients_and_bad_counts() -> None:
    assert draws_for("k", "test", "all", patients=0, resamples=4).block(0, 4).shape == (4, 0)
    with pytest.raises(ValueError, match="resamples"):
        draws_for("k", "test", "all", patients=3, resamples=0)


def test_percentile_by_hand() -> None:
    # 0 .. 100: the 2.5 % and 97.5 % points of 101 equally spaced values
    assert interval(np.arange(101.0)[::-1], 30.0) == pytest.approx((2.5, 97.5, 0, None))
    assert interval(np.arange(101.0), 30.0, level=0.8) == pytest.approx((10.0, 90.0, 0, None))


def test_basic_reflects_the_quantiles_about_the_value() -> None:
    assert interval(np.arange(101.0), 30.0, method="basic") == pytest.approx((60.0 - 97.5, 60.0 - 2.5, 0, None))


def test_levels_are_nested() -> None:
    replicates = np.random.default_rng(0).normal(size=500)
    limits = [interval(replicates, 0.0, level=level)[:2] for level in (0.8, 0.95, 0.99)]
    assert limits[2][0] < limits[1][0] < limits[0][0] < limits[0][1] < limits[1][1] < limits[2][1]


def test_undefined_resamples_are_counted_and_left_out() -> None:
    replicates = np.concatenate((np.arange(101.0), [math.nan] * 9))
    assert interval(replicates, 50.0) == pytest.approx((2.5, 97.5, 9, None))
    lo, hi, undefined, reason = interval(np.full(4, math.nan), 0.5)
    assert math.isnan(lo)
    assert math.isnan(hi)
    assert (undefined, reason) == (4, "undefined in every resample")
    lo, hi, undefined, reason = interval(np.array([math.nan, 0.5]), math.nan)
    assert math.isnan(lo)
    assert math.isnan(hi)
    assert undefined == 1
    assert reason is not None


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_bad_level(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        interval(np.arange(5.0), 1.0, level=level)


def test_bad_method() -> None:
    with pytest.raises(ValueError, match="method"):
        interval(np.arange(5.0), 1.0, method="bca")  # type: ignore[arg-type]
