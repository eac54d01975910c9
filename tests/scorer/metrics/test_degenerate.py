"""Degenerate sets, as a grid: every metric either has a value in its range or says why it has none."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from scorer.metrics import accuracy, aurc, brier_binary, ece, ece_width, mce, smooth_ece, wsece
from scorer.metrics.arrays import Floats, Ints
from tests.scorer.metrics.registry import ALL, close, consistent, metric, values, with_reasons

UNDEFINED_FOR_ONE_CLASS = {
    "balanced_accuracy", "f1_macro", "auroc", "auprc", "auroc_classwise", "auprc_classwise", "citl",
    "recalibration_line",
}  # fmt: skip
NEEDS_EVENTS = ("sensitivity_0.2", "sensitivity_0.5")
NEEDS_OTHERS = ("specificity_0.2", "specificity_0.5")
WITHOUT_REASON = ("accuracy", "brier", "brier_binary")  # plain numbers


def columns(p: Floats, k: int) -> Floats:
    """P(positive), or k = 3 columns of which the last is never likely."""
    return p if k == 1 else np.stack([0.9 * (1 - p), 0.9 * p, np.full(len(p), 0.1)], axis=1)


def check(name: str, k: int, p: Floats, y: Ints, w: Floats | None = None) -> list[float]:
    """The values of a metric, whose results must be consistent."""
    found = metric(name, k)(p, y, w)
    assert all(consistent(one) for one in with_reasons(found))
    return values(found)


# Confidence all, some, or none against correct all, some, or none.

CORRECT = {"all": [1, 1, 1, 1], "some": [1, 0, 1, 0], "none": [0, 0, 0, 0]}
CONFIDENCE = {
    "all 0": [0.0, 0.0, 0.0, 0.0],
    "some 0": [0.0, 0.0, 0.6, 0.7],
    "some 1": [1.0, 1.0, 0.6, 0.7],
    "all 1": [1.0, 1.0, 1.0, 1.0],
    "0 and 1": [0.0, 1.0, 0.0, 1.0],
    "all equal": [0.6, 0.6, 0.6, 0.6],
    "all one half": [0.5, 0.5, 0.5, 0.5],
}


@pytest.mark.parametrize("correct", CORRECT)
@pytest.mark.parametrize("confidence", CONFIDENCE)
def test_confidence_against_correct(correct: str, confidence: str) -> None:
    y = np.array(CORRECT[correct])
    for name, k in ALL:
        p = columns(np.array(CONFIDENCE[confidence]), k)
        undefined = any(math.isnan(value) for value in check(name, k, p, y))
        assert undefined == is_undefined(name, k, p, y), name


def is_undefined(name: str, k: int, p: Floats, y: Ints) -> bool:
    """Whether a metric can have no value for these cases."""
    if 0 < y.sum() < len(y):
        if k == 1:
            return name == "recalibration_line" and (p.max() == p.min() or separates(p, y))
        return name in UNDEFINED_FOR_ONE_CLASS  # class 2 is absent
    return (
        name in UNDEFINED_FOR_ONE_CLASS
        or (name in NEEDS_EVENTS and y.max() == 0)
        or (name in NEEDS_OTHERS and y.min() == 1)
        or (name == "kappa_quadratic" and one_class_predicted(p, y))
    )


def separates(p: Floats, y: Ints) -> bool:
    own, other = p[y == 1], p[y == 0]
    return bool(own.min() >= other.max() or other.min() >= own.max())


def one_class_predicted(p: Floats, y: Ints) -> bool:
    if p.ndim == 1:
        return bool(((p > 0.5) == y).all() and (p != 0.5).all())
    return bool((p == p.max(axis=1, keepdims=True)).sum() == len(y) and (p.argmax(axis=1) == y).all())


@pytest.mark.parametrize(("name", "k"), ALL)
def test_a_confidence_of_nan_is_an_error_that_names_its_row(name: str, k: int) -> None:
    p = columns(np.array([0.1, 0.9, 0.4, 0.6]), k)
    p[2] = np.nan
    with pytest.raises(ValueError, match=r"row 2: p is NaN or outside \[0, 1\] \(1 row\(s\) in all\)"):
        metric(name, k)(p, [0, 1, 1, 0])
    p[:] = np.nan
    with pytest.raises(ValueError, match=r"row 0: p is NaN or outside \[0, 1\] \(4 row\(s\) in all\)"):
        metric(name, k)(p, [0, 1, 1, 0])


@pytest.mark.parametrize(("name", "k"), ALL)
def test_a_row_of_weight_zero_is_checked_all_the_same(name: str, k: int) -> None:
    p = columns(np.array([0.1, 0.9]), k)
    p[1] = np.nan
    with pytest.raises(ValueError, match="row 1"):
        metric(name, k)(p, [0, 1], [1.0, 0.0])


# Few images, or none.


@pytest.mark.parametrize("y", [0, 1])
@pytest.mark.parametrize("p", [0.0, 0.2, 0.5, 1.0])
def test_one_image(y: int, p: float) -> None:
    for name, k in ALL:
        one, label = columns(np.array([p]), k), np.array([y])
        undefined = any(math.isnan(value) for value in check(name, k, one, label))
        assert undefined == is_undefined(name, k, one, label), name


@pytest.mark.parametrize("p", [0.0, 0.2, 0.7, 1.0])
@pytest.mark.parametrize("y", [0, 1])
def test_values_of_one_image(p: float, y: int) -> None:
    gap = abs(y - p)
    for error in (ece, ece_width, mce, smooth_ece):
        assert error([p], [y]).value == pytest.approx(gap, abs=1e-12)
    assert brier_binary([p], [y]) == pytest.approx(gap**2, abs=1e-15)
    right = (p > 0.5) == (y == 1)
    assert accuracy([p], [y]) == float(right)
    assert aurc([p], [y]).value == float(not right)


@pytest.mark.parametrize(("name", "k"), ALL)
@pytest.mark.parametrize("weights", [None, [0.0, 0.0, 0.0]])
def test_no_image_or_none_of_positive_weight(name: str, k: int, weights: list[float] | None) -> None:
    n = 0 if weights is None else 3
    p, y = columns(np.linspace(0.2, 0.8, n), k), np.arange(n) % 2
    found = metric(name, k)(p, y, weights)
    numbers = [value for value in values(found) if name != "risk_at_coverage" or value not in (0.9, 0.8, 0.5)]
    assert all(math.isnan(value) for value in numbers)
    reasons = [one.reason for one in with_reasons(found)]
    assert all(reasons)
    assert reasons or name in WITHOUT_REASON


# Classes.


@pytest.mark.parametrize(("name", "k"), [one for one in ALL if one[1] == 3])
def test_two_columns_are_the_fewest(name: str, k: int) -> None:
    y = np.array([0, 1, 1, 0])
    p = np.array([[0.9, 0.1], [0.3, 0.7], [0.6, 0.4], [0.8, 0.2]])
    assert not any(math.isnan(value) for value in check(name, k, p, y))
    with pytest.raises(ValueError, match="p must have shape"):
        metric(name, k)(p[:, :1], y)


@pytest.mark.parametrize(("name", "k"), [one for one in ALL if one[1] == 3])
def test_an_absent_class_leaves_what_is_not_its_own(name: str, k: int) -> None:
    # as a fourth column that is all but never predicted
    y = np.array([0, 1, 2, 2, 1, 0])
    p = np.random.default_rng(0).dirichlet(np.ones(3), 6)
    wider = np.concatenate((p, np.zeros((6, 1))), axis=1)
    before, after = metric(name, k)(p, y), metric(name, k)(wider, y)
    if hasattr(before, "per_class"):
        assert close(before.per_class, after.per_class[:3])
        own = after.per_class[3]
        assert math.isnan(own.value) if name in UNDEFINED_FOR_ONE_CLASS else own.value == 0.0
        assert consistent(own)
    else:
        assert close(before, after, 1e-12)


@pytest.mark.parametrize("rate", [0.25, 0.5, 0.75])
@pytest.mark.parametrize("constant", [0.0, 0.25, 0.5, 1.0])
def test_ties_everywhere(rate: float, constant: float) -> None:
    y = (np.arange(8) < 8 * rate).astype(np.int64)
    for name, k in ALL:
        p = columns(np.full(8, constant), k)
        assert check(name, k, p, y) == pytest.approx(check(name, k, p, y[::-1]), abs=1e-14, nan_ok=True), name


def test_values_under_ties_everywhere() -> None:
    y = np.array([1, 0, 0, 0])
    for error in (ece, ece_width, mce, smooth_ece):
        assert error(np.full(4, 0.75), y).value == pytest.approx(0.5, abs=1e-12)
    # the event: confidence .75, right; the others: .75, wrong
    assert wsece(np.full(4, 0.75), y).value == pytest.approx((0.25 + 3 * 0.75) / 4, abs=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_low_precision_is_read_as_the_number_that_it_is(dtype: type) -> None:
    y = np.array([0, 1, 0, 1, 1])
    for name, k in ALL:
        p: NDArray[np.floating] = columns(np.array([0.1, 0.35, 0.35, 0.6, 0.95]), k).astype(dtype)
        wanted = values(metric(name, k)(p.astype(np.float64), y))
        assert values(metric(name, k)(p, y)) == pytest.approx(wanted, abs=0, nan_ok=True), name


@pytest.mark.parametrize("convert", [np.asarray, list, np.asfortranarray, lambda x: np.repeat(x, 2, axis=0)[::2]])
def test_layout_in_memory_does_not_matter(convert: Callable[..., Floats]) -> None:
    y, w = np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 0.5, 1.0])
    for name, k in ALL:
        p = columns(np.array([0.1, 0.35, 0.6, 0.95]), k)
        wanted = values(metric(name, k)(p, y, w))
        found = values(metric(name, k)(convert(p), convert(y), convert(w)))
        assert found == pytest.approx(wanted, abs=1e-14, nan_ok=True), name


@pytest.mark.parametrize(("name", "k"), ALL)
def test_what_comes_in_is_not_changed(name: str, k: int) -> None:
    p, y, w = columns(np.array([0.1, 0.35, 0.6, 0.95]), k), np.array([0, 1, 1, 0]), np.array([1.0, 2.0, 0.5, 1.0])
    kept = p.copy(), y.copy(), w.copy()
    metric(name, k)(p, y, w)
    assert all((one == before).all() for one, before in zip((p, y, w), kept, strict=True))
