"""AUROC and AUPRC: hand-worked values, absent classes, properties, and scikit-learn as a second implementation."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from scorer.metrics import Classwise, Value, auprc, auprc_classwise, auroc, auroc_classwise
from tests.scorer.metrics.registry import about, sample

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]
BOTH: list[Callable[..., Value]] = [auroc, auprc]


def test_auroc_by_hand() -> None:
    # events .3, .9; non-events .1, .5: pairs (.3 > .1), (.3 < .5), (.9 > both) -> 3 of 4
    assert auroc([0.3, 0.9, 0.1, 0.5], [1, 1, 0, 0]) == (0.75, None)
    assert auroc([0.9, 0.1, 0.2], [1, 0, 0]) == (1.0, None)
    assert auroc([0.1, 0.9, 0.8], [1, 0, 0]) == (0.0, None)


def test_auroc_ties_count_one_half() -> None:
    # event .2 against .1 (1) and .2 (1/2); event .9 against both (2): 3.5 of 4
    assert auroc([0.1, 0.2, 0.2, 0.9], [0, 1, 0, 1]).value == 3.5 / 4
    assert auroc([0.4] * 5, [1, 0, 1, 1, 0]).value == 0.5


def test_auroc_weights_by_hand() -> None:
    # events .3 (w 3), .9 (w 1); non-events .1 (w 1), .5 (w 2): (3*1 + 1*1 + 1*2) / (4 * 3)
    assert auroc([0.3, 0.9, 0.1, 0.5], [1, 1, 0, 0], [3, 1, 1, 2]).value == pytest.approx(0.5, abs=1e-15)


def test_auprc_by_hand() -> None:
    # falling: .9 event (precision 1), .5 non-event, .3 event (precision 2/3): half the recall each
    assert auprc([0.3, 0.9, 0.1, 0.5], [1, 1, 0, 0]) == (about((1 + 2 / 3) / 2, 1e-15), None)
    # .9 and .9 enter together: precision 1/2 for half the recall, then 2/3
    assert auprc([0.9, 0.9, 0.3], [1, 0, 1]).value == pytest.approx((1 / 2 + 2 / 3) / 2, abs=1e-15)
    # weights: .9 event (w 2): 2/2 for 2/3 of the recall; .3 (w 1 of 2 + 3 + 1): 3/6 for the rest
    assert auprc([0.9, 0.5, 0.3], [1, 0, 1], [2, 3, 1]).value == pytest.approx(2 / 3 + 1 / 3 * 3 / 6, abs=1e-15)


def test_auprc_of_a_constant_is_the_prevalence() -> None:
    assert auprc([0.4] * 5, [1, 0, 0, 1, 0]).value == 0.4


def test_auprc_is_not_interpolated() -> None:
    # worst ranks of one event among four: 1/4, where trapezoids would give less
    assert auprc([0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]).value == 0.25


@pytest.mark.parametrize("metric", BOTH)
@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_undefined_with_a_reason(metric: Callable[..., Value], label: int) -> None:
    value, reason = metric([0.1, 0.7], [label, label])
    assert math.isnan(value)
    assert reason == ("no image of the class" if label == 0 else "every image is of the class")


@pytest.mark.parametrize("metric", BOTH)
def test_a_class_of_weight_zero_is_absent(metric: Callable[..., Value]) -> None:
    # a third is no dyadic fraction: the weights of the other class must not leave a rounding residue behind
    value, reason = metric([0.1, 0.7, 0.3], [1, 1, 0], [1 / 3, 0.1, 0.0])
    assert math.isnan(value)
    assert reason == "every image is of the class"
    assert metric([0.1, 0.7], [0, 1], [0, 0]).reason == "no images (or none of positive weight)"


@pytest.mark.parametrize("metric", [auroc_classwise, auprc_classwise])
def test_absent_class_makes_the_macro_undefined_and_leaves_the_present_ones(
    metric: Callable[..., Classwise],
) -> None:
    result = metric(P3, [0, 1, 1, 0])
    assert [one.value for one in result.per_class[:2]] == [1.0, 1.0]
    assert math.isnan(result.per_class[2].value)
    assert math.isnan(result.macro.value)
    assert result.macro.reason == "undefined for class 2"
    assert result.macro_present == (1.0, None)


def test_macro_of_no_rows() -> None:
    result = auroc_classwise(np.zeros((0, 3)), [])
    assert math.isnan(result.macro.value)
    assert result.macro.reason == "undefined for class 0, 1, 2"
    assert math.isnan(result.macro_present.value)
    assert result.macro_present.reason == "undefined for every class"


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="auroc takes"):
        auroc(P3, [0, 1, 0, 0])
    with pytest.raises(ValueError, match="auprc takes"):
        auprc(P3, [0, 1, 0, 0])
    for metric in (auroc_classwise, auprc_classwise):
        with pytest.raises(ValueError, match="one column a class"):
            metric([0.1, 0.2], [0, 1])


@pytest.mark.parametrize("share", [0.02, 0.1, 0.9])
@pytest.mark.parametrize("levels", [2, 5, 10**6])
def test_scikit_learn_agrees(share: float, levels: int) -> None:
    rng = np.random.default_rng(3)
    y = (rng.random(400) < share).astype(int)
    p, w = rng.integers(0, levels, 400) / levels, rng.random(400)
    assert auroc(p, y).value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert auroc(p, y, w).value == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-12)
    assert auprc(p, y).value == pytest.approx(average_precision_score(y, p), abs=1e-12)
    assert auprc(p, y, w).value == pytest.approx(average_precision_score(y, p, sample_weight=w), abs=1e-12)


def test_scikit_learn_agrees_class_by_class() -> None:
    rng = np.random.default_rng(4)
    p, y, w = rng.dirichlet(np.ones(4), 200), rng.integers(0, 4, 200), rng.random(200)
    hot = np.eye(4)[y]
    area = roc_auc_score(hot, p, average="macro", sample_weight=w)
    precision = average_precision_score(hot, p, average="macro", sample_weight=w)
    assert auroc_classwise(p, y, w).macro.value == pytest.approx(area, abs=1e-12)
    assert auprc_classwise(p, y, w).macro.value == pytest.approx(precision, abs=1e-12)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_auroc_counts_pairs(seed: int) -> None:
    p, y, w = sample(seed)
    mass = (w * y)[:, None] * (w * (1 - y))[None, :]
    if not mass.any():
        return
    won = (p[:, None] > p[None, :]) + 0.5 * (p[:, None] == p[None, :])
    assert auroc(p, y, w).value == pytest.approx(float((mass * won).sum() / mass.sum()), abs=1e-14)
    assert auroc(1 - p, y, w).value == pytest.approx(1 - auroc(p, y, w).value, abs=1e-14)
    assert auroc(p, 1 - y, w).value == pytest.approx(1 - auroc(p, y, w).value, abs=1e-14)


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1))
def test_rising_transforms_change_nothing(seed: int) -> None:
    p, y, w = sample(seed)
    for metric in BOTH:
        value = metric(p, y, w).value
        for moved in (p / 3 + 0.1, p**3, p / (2 - p)):
            assert metric(moved, y, w).value == pytest.approx(value, abs=1e-14, nan_ok=True)


def test_many_pairs_do_not_overflow() -> None:
    # 60,000 x 60,000 pairs
    p, y = np.repeat([0.2, 0.8], 60_000), np.repeat([0, 1], 60_000)
    assert auroc(p, y) == (1.0, None)
    assert auprc(p, y) == (1.0, None)
