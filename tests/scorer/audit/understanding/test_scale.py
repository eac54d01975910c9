"""The scale of scores: each kind told by its values, and nothing scored that has no calibration."""

import numpy as np
import pytest
from numpy.typing import NDArray

from scorer.audit.shapes import Scale
from scorer.audit.understanding.scale import of_classes, of_findings, of_one

RNG = np.random.default_rng(7)
BETA = RNG.beta(1, 3, 400)
LOGITS = RNG.normal(0, 2, (300, 4))


def softmax(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.exp(z) / np.exp(z).sum(axis=1, keepdims=True))


P = softmax(LOGITS)
SINGLE = ("float64",) * 4


@pytest.mark.parametrize(
    ("values", "name", "scale", "usable", "ranked"),
    [
        (BETA, "score", Scale.PROBABILITY, True, True),
        (np.where(BETA < 0.3, 0.0, BETA), "reader01", Scale.PROBABILITY, True, True),
        (np.round(np.arange(101) / 100, 2)[RNG.integers(0, 101, 500)], "reader", Scale.PROBABILITY, True, True),
        (BETA * 100, "score", Scale.PERCENT, True, True),
        (np.round(BETA * 40), "risk_percent", Scale.PERCENT, True, True),
        (BETA * 5, "prob", Scale.REGRESSION, False, True),
        (BETA * 4.4 - 0.05, "probs", Scale.REGRESSION, False, True),
        (BETA * 30, "prob", Scale.REGRESSION, False, True),
        (np.argsort(np.argsort(BETA)) / 400.0, "prob", Scale.RANKS, False, True),
        ((np.argsort(np.argsort(BETA)) + 1.0) / 400.0, "prob", Scale.RANKS, False, True),
        (np.argsort(np.argsort(BETA)) * 1.0, "prob", Scale.RANKS, False, True),
        (np.round(np.argsort(np.argsort(BETA)) / 399.0, 4), "prob", Scale.RANKS, False, True),
        ((BETA > 0.5) * 1.0, "prob", Scale.HARD_LABELS, False, False),
        (np.round(BETA * 4), "pred", Scale.HARD_LABELS, False, False),
        (np.round(BETA * 90), "score", Scale.UNKNOWN, False, True),
        (np.full(50, 0.5), "prob", Scale.CONSTANT, False, False),
        (LOGITS[:, 0], "score", Scale.LOGITS, False, True),
        (LOGITS[:, 0], "logit_1", Scale.LOGITS, True, True),
        (np.log(BETA), "log_prob", Scale.LOG_PROBABILITIES, True, True),
        (np.log(BETA), "score", Scale.UNKNOWN, False, True),
        (BETA, "logit", Scale.UNKNOWN, False, True),
        (np.full(9, np.nan), "prob", Scale.NONE, False, False),
        (np.append(BETA, np.inf), "prob", Scale.UNKNOWN, False, False),
    ],
)
def test_one_column(values: NDArray[np.float64], name: str, scale: Scale, usable: bool, ranked: bool) -> None:
    precision = "decimals:4" if np.array_equal(np.round(values, 4), values) else "float64"
    scaled, p = of_one(values, name, precision)
    assert (scaled.scale, scaled.usable, scaled.ranked) == (scale, usable, ranked), scaled.why
    assert scaled.why
    assert (p is not None) == usable
    if p is not None:
        assert np.nanmin(p) >= 0
        assert np.nanmax(p) <= 1
        assert bool(scaled.changed) == (scale is not Scale.PROBABILITY)


def test_ties_and_missing_values_do_not_hide_ranks() -> None:
    values = np.repeat(np.arange(50.0), 3)
    middle = (np.arange(50) * 3 + 2.0) / 150
    scaled, _ = of_one(np.append(np.repeat(middle, 3), np.nan))
    assert scaled.scale is Scale.RANKS
    assert len(values) == 150


def test_noise_beyond_one_is_mended_and_said() -> None:
    scaled, p = of_one(np.append(BETA, 1 + 1e-7))
    assert scaled.changed.startswith("1 values beyond")
    assert p is not None
    assert p.max() == 1.0


def test_what_the_user_says_is_checked() -> None:
    assert of_one(BETA * 5, told="probabilities")[0].why.startswith("told by the user")
    assert not of_one(BETA * 5, told="probabilities")[0].usable
    scaled, p = of_one(np.full(50, 0.5), told="probabilities")
    assert (scaled.usable, scaled.ranked) == (True, False)
    assert p is not None
    scaled, p = of_one(LOGITS[:, 0], told="logits")
    assert p is not None
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-LOGITS[:, 0])))
    scaled, p = of_one(np.round(BETA * 100), told="percent")
    assert p is not None
    np.testing.assert_allclose(p, np.round(BETA * 100) / 100)
    assert of_one(BETA, told="ranks")[1] is None
    assert not of_one(LOGITS[:, 0], told="log-probabilities")[0].usable
    scaled, p = of_one(np.append(np.log(BETA), -np.inf), told="log-probabilities")
    assert p is not None
    assert p[-1] == 0


@pytest.mark.parametrize(
    ("scores", "names", "scale", "usable"),
    [
        (P, "abcd", Scale.PROBABILITIES, True),
        (P.astype(np.float32).astype(np.float64), "abcd", Scale.PROBABILITIES, True),
        (P * 100, "abcd", Scale.PERCENT, True),
        (np.log(P), "abcd", Scale.LOG_PROBABILITIES, True),
        (LOGITS, ("logit_0", "logit_1", "logit_2", "logit_3"), Scale.LOGITS, True),
        (LOGITS, "abcd", Scale.LOGITS, False),
        (RNG.random((300, 4)), "abcd", Scale.ONE_VS_REST, True),
        (np.eye(4)[RNG.integers(0, 4, 99)], "abcd", Scale.HARD_LABELS, False),
        (np.tile(P[:1], (50, 1)), "abcd", Scale.CONSTANT, False),
        (RNG.integers(-3, 9, (300, 4)) * 1.0, "abcd", Scale.UNKNOWN, False),
        (RNG.random((300, 4)) * 7, "abcd", Scale.UNKNOWN, False),
        (np.full((5, 4), np.nan), "abcd", Scale.NONE, False),
    ],
)
def test_several_classes(scores: NDArray[np.float64], names: tuple[str, ...], scale: Scale, usable: bool) -> None:
    single = np.array_equal(scores, scores.astype(np.float32))
    before = scores.copy()
    scaled, p = of_classes(scores, tuple(names), ("float32",) * 4 if single else SINGLE)
    assert (scaled.scale, scaled.usable) == (scale, usable), scaled.why
    np.testing.assert_array_equal(scores, before)
    assert (p is not None) == usable
    if scale in (Scale.PROBABILITIES, Scale.PERCENT, Scale.LOG_PROBABILITIES, Scale.LOGITS) and p is not None:
        np.testing.assert_allclose(p, P, rtol=1e-6)
        np.testing.assert_allclose(p.sum(axis=1), 1, atol=1e-6)


def test_rounded_rows_are_renormalised_and_counted_and_a_missing_row_stays_missing() -> None:
    rows = np.round(P, 2)
    rows[3] = np.nan
    scaled, p = of_classes(rows, tuple("abcd"), ("decimals:2",) * 4)
    off = int((np.abs(np.nansum(rows, axis=1) - 1) > 1e-6).sum()) - 1
    assert scaled.scale is Scale.PROBABILITIES
    assert scaled.changed.startswith(f"{off} rows")
    assert p is not None
    assert np.isnan(p[3]).all()
    assert int(np.isnan(p).any(axis=1).sum()) == 1
    # the same rows as doubles are off by far more than doubles are
    assert of_classes(np.round(P, 2), tuple("abcd"), SINGLE)[0].scale is Scale.ONE_VS_REST


def test_means_of_logarithms_are_neither_log_probabilities_nor_logits() -> None:
    views = np.stack([np.log(1e-5 + softmax(LOGITS * 2 + RNG.normal(0, 1, LOGITS.shape))) for _ in range(4)])
    scores = views.mean(axis=0)
    scores[0] = np.log(1e-5)
    scores[1, 0] = 3.32
    scaled, p = of_classes(scores, tuple("01234")[:4], ("float32",) * 4)
    assert (scaled.scale, scaled.usable, scaled.ranked) == (Scale.LOG_UNNORMALISED, False, False)
    assert "log(1e-05)" in scaled.why
    assert "27.6" in scaled.why or "exp of rows sums to" in scaled.why
    assert p is None
    scaled, p = of_classes(scores, tuple("0123"), SINGLE, "log-probabilities")
    assert p is not None
    np.testing.assert_allclose(p, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))


def test_findings_have_one_scale_and_name_the_odd_column() -> None:
    scores = RNG.beta(1, 5, (200, 3))
    scaled, p = of_findings(scores, tuple("abc"), SINGLE[:3])
    assert scaled.scale is Scale.PROBABILITY
    assert p is scores
    scores[:, 1] = 0.25
    scaled, p = of_findings(scores, tuple("abc"), SINGLE[:3])
    assert scaled.usable
    assert "'b' is constant" in scaled.why
    scores[:, 1] = RNG.normal(0, 3, 200)
    scaled, p = of_findings(scores, tuple("abc"), SINGLE[:3])
    assert (scaled.usable, p) == (False, None)
    assert scaled.why.startswith("column 'b'")
    z = RNG.normal(-2, 2, (200, 3))
    scaled, p = of_findings(z, ("logit_a", "logit_b", "logit_c"), SINGLE[:3])
    assert p is not None
    np.testing.assert_allclose(p, 1 / (1 + np.exp(-z)))
