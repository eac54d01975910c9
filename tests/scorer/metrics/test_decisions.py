"""Metrics of decisions: hand-worked values, ties, undefined cases, and scikit-learn as a second implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, cohen_kappa_score, f1_score, recall_score

from scorer.metrics import (
    accuracy,
    balanced_accuracy,
    f1_macro,
    kappa_quadratic,
    net_benefit,
    sensitivity,
    specificity,
)
from scorer.metrics.arrays import Floats, Ints
from tests.scorer.metrics.registry import about, sample

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]


def one_hot(predicted: list[int], k: int) -> Floats:
    """Probabilities whose arg-max is ``predicted``."""
    return 0.1 * np.ones((len(predicted), k)) + 0.5 * np.eye(k)[predicted]


def test_accuracy_shares_credit_among_ties() -> None:
    # right; wrong; two tied with the label among them; two tied without it; all three tied
    p = [[0.6, 0.3, 0.1], [0.6, 0.3, 0.1], [0.4, 0.4, 0.2], [0.4, 0.4, 0.2], [1 / 3, 1 / 3, 1 / 3]]
    assert accuracy(p, [0, 1, 1, 2, 0]) == pytest.approx((1 + 0 + 1 / 2 + 0 + 1 / 3) / 5, abs=1e-15)


def test_accuracy_of_one_probability_is_strict_at_one_half() -> None:
    # .5 gives one half whatever the label; just above predicts the positive class
    assert accuracy([0.5, 0.5, np.nextafter(0.5, 1), 0.2], [1, 0, 1, 0]) == pytest.approx(3 / 4, abs=1e-15)


def test_accuracy_under_weights_by_hand() -> None:
    # right (w 3), wrong (w 1)
    assert accuracy([0.9, 0.8], [1, 0], [3, 1]) == 0.75


def test_recall_and_balanced_accuracy_by_hand() -> None:
    # true 0 0 0 1 1 2, predicted 0 0 1 1 2 2: recalls 2/3, 1/2, 1
    result = balanced_accuracy(one_hot([0, 0, 1, 1, 2, 2], 3), [0, 0, 0, 1, 1, 2])
    assert [one.value for one in result.per_class] == pytest.approx([2 / 3, 1 / 2, 1.0], abs=1e-15)
    assert result.macro.value == result.macro_present.value == pytest.approx((2 / 3 + 1 / 2 + 1) / 3, abs=1e-15)


def test_f1_by_hand() -> None:
    # 2 TP / (rows + columns): 2*2/(3+2), 2*1/(2+2), 2*1/(1+2)
    result = f1_macro(one_hot([0, 0, 1, 1, 2, 2], 3), [0, 0, 0, 1, 1, 2])
    assert [one.value for one in result.per_class] == pytest.approx([4 / 5, 1 / 2, 2 / 3], abs=1e-15)
    assert result.macro.value == pytest.approx((4 / 5 + 1 / 2 + 2 / 3) / 3, abs=1e-15)


def test_ties_share_their_credit_in_the_confusion_table() -> None:
    # one case of each class, both tied between the two: recall 1/2, F1 2 (1/2) / (1 + 1)
    assert [one.value for one in balanced_accuracy([0.5, 0.5], [0, 1]).per_class] == [0.5, 0.5]
    assert [one.value for one in f1_macro([0.5, 0.5], [0, 1]).per_class] == [0.5, 0.5]
    assert kappa_quadratic([0.5, 0.5], [0, 1]).value == 0.0


def test_an_absent_class_makes_the_mean_undefined_and_leaves_the_present_ones() -> None:
    for metric in (balanced_accuracy, f1_macro):
        result = metric(P3, [0, 1, 1, 0])
        assert [one.value for one in result.per_class[:2]] == [1.0, 1.0]
        assert math.isnan(result.per_class[2].value)
        assert result.per_class[2].reason == "no image of the class"
        assert math.isnan(result.macro.value)
        assert result.macro.reason == "undefined for class 2"
        assert result.macro_present == (1.0, None)


def test_an_absent_class_that_is_predicted_has_no_f1() -> None:
    # scikit-learn counts 0; without a case the class has no recall, so it has no F1 here
    result = f1_macro(one_hot([0, 2], 3), [0, 1])
    assert [math.isnan(one.value) for one in result.per_class] == [False, False, True]
    assert [one.value for one in result.per_class[:2]] == [1.0, 0.0]


def test_quadratic_kappa_by_hand() -> None:
    # true 0 0 1 1 2 2, predicted 0 1 1 2 2 0: squares 0 1 0 1 0 4, mean 1; true and predicted shares are 1/3 each:
    # expected (4 * 1 + 2 * 4) / 9 = 4/3; 1 - 1 / (4/3)
    value, reason = kappa_quadratic(one_hot([0, 1, 1, 2, 2, 0], 3), [0, 0, 1, 1, 2, 2])
    assert value == pytest.approx(1 / 4, abs=1e-15)
    assert reason is None


def test_kappa_of_opposite_predictions_is_minus_one() -> None:
    assert kappa_quadratic([0.9, 0.1], [0, 1]).value == -1.0


def test_kappa_depends_on_the_order_of_the_classes() -> None:
    # one error of two steps, or, with classes 1 and 2 swapped, of one step
    y, predicted = [0, 1, 2, 2], [0, 1, 2, 0]
    swapped = np.array([0, 2, 1])
    far, near = (
        kappa_quadratic(one_hot(predicted, 3), y),
        kappa_quadratic(one_hot(swapped[predicted].tolist(), 3), swapped[y]),
    )
    assert far.value < near.value


def test_kappa_is_undefined_where_all_is_of_one_class() -> None:
    value, reason = kappa_quadratic(one_hot([1, 1], 3), [1, 1])
    assert math.isnan(value)
    assert reason == "labels and predictions are all of one class"
    # one class of labels, but not of predictions: chance disagrees as often
    assert kappa_quadratic(one_hot([1, 0], 3), [1, 1]) == (0.0, None)


def test_sensitivity_and_specificity_by_hand() -> None:
    p, y = [0.1, 0.3, 0.3, 0.8], [0, 1, 0, 1]
    # the threshold itself is positive
    assert sensitivity(p, y, threshold=0.3) == (1.0, None)
    assert specificity(p, y, threshold=0.3) == (0.5, None)
    assert sensitivity(p, y, threshold=0.3 + 1e-9) == (0.5, None)
    assert specificity(p, y, threshold=0.3 + 1e-9) == (1.0, None)
    # weights: events 1 and 3, non-events 2 and 1
    assert sensitivity(p, y, [2, 1, 1, 3], threshold=0.5) == (0.75, None)
    assert specificity(p, y, [2, 1, 1, 3], threshold=0.2) == (about(2 / 3, 1e-15), None)


def test_sensitivity_needs_an_event_and_specificity_a_non_event() -> None:
    p = [0.2, 0.7]
    assert sensitivity(p, [0, 0], threshold=0.5).reason == "no image of the class"
    assert specificity(p, [0, 0], threshold=0.5) == (0.5, None)
    assert sensitivity(p, [1, 1], threshold=0.5) == (0.5, None)
    assert specificity(p, [1, 1], threshold=0.5).reason == "every image is of the class"


def test_net_benefit_by_hand() -> None:
    # t = .2, odds 1/4: positives .3 (event), .3, .8 (event): (2 - 1/4) / 4; all: (2 - 2/4) / 4
    result = net_benefit([0.1, 0.3, 0.3, 0.8], [0, 1, 0, 1], threshold=0.2)
    assert result.model == pytest.approx(1.75 / 4, abs=1e-15)
    assert result.treat_all == pytest.approx(1.5 / 4, abs=1e-15)
    assert result.treat_none == 0.0
    # a prevalence of t is where treating all is worth nothing
    assert net_benefit([0.5] * 5, [1, 0, 0, 0, 0], threshold=0.2).treat_all == pytest.approx(0.0, abs=1e-15)
    # weights 1, 2, 4, 1: (3 - 4/4) / 8
    assert net_benefit([0.1, 0.3, 0.3, 0.8], [0, 1, 0, 1], [1, 2, 4, 1], threshold=0.2).model == 0.25


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.1, float("nan")])
def test_thresholds_lie_between_zero_and_one(threshold: float) -> None:
    for metric in (net_benefit, sensitivity, specificity):
        with pytest.raises(ValueError, match="threshold must lie between"):
            metric([0.1, 0.9], [0, 1], threshold=threshold)


def test_thresholds_are_for_one_probability() -> None:
    with pytest.raises(ValueError, match="one class at a time"):
        net_benefit(P3, [0, 1, 0, 0], threshold=0.2)


def untied(seed: int, n: int, k: int) -> tuple[Floats, Ints, Floats]:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(k), n)
    y = np.concatenate((np.arange(k), rng.integers(0, k, n - k)))
    return p, y, 0.1 + rng.random(n)


@pytest.mark.parametrize("k", [2, 3, 5])
def test_scikit_learn_agrees_under_weights(k: int) -> None:
    p, y, w = untied(k, 200, k)
    predicted = p.argmax(axis=1)
    assert accuracy(p, y, w) == pytest.approx(accuracy_score(y, predicted, sample_weight=w), abs=1e-12)
    recalls = recall_score(y, predicted, average=None, sample_weight=w)
    assert [one.value for one in balanced_accuracy(p, y, w).per_class] == pytest.approx(recalls.tolist(), abs=1e-12)
    balanced = balanced_accuracy_score(y, predicted, sample_weight=w)
    assert balanced_accuracy(p, y, w).macro.value == pytest.approx(balanced, abs=1e-12)
    f1 = f1_score(y, predicted, average="macro", sample_weight=w)
    assert f1_macro(p, y, w).macro.value == pytest.approx(f1, abs=1e-12)
    kappa = cohen_kappa_score(y, predicted, weights="quadratic", sample_weight=w)
    assert kappa_quadratic(p, y, w).value == pytest.approx(kappa, abs=1e-12)


def test_scikit_learn_agrees_at_a_threshold() -> None:
    p, y, w = untied(9, 200, 2)
    called = (p[:, 1] >= 0.3).astype(int)
    own = sensitivity(p[:, 1], y, w, threshold=0.3).value
    assert own == pytest.approx(recall_score(y, called, sample_weight=w), abs=1e-12)
    other = specificity(p[:, 1], y, w, threshold=0.3).value
    assert other == pytest.approx(recall_score(1 - y, 1 - called, sample_weight=w), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 0.99))
def test_net_benefit_from_sensitivity_and_specificity(seed: int, t: float) -> None:
    p, y, w = sample(seed)
    found = net_benefit(p, y, w, threshold=t)
    rate = float((w * y).sum() / w.sum())
    own, other = sensitivity(p, y, w, threshold=t).value, specificity(p, y, w, threshold=t).value
    gained = rate * own if rate > 0 else 0.0
    lost = (1 - rate) * (1 - other) * t / (1 - t) if rate < 1 else 0.0
    assert found.model == pytest.approx(gained - lost, abs=1e-12, rel=1e-12)
    assert found.treat_all == pytest.approx(rate - (1 - rate) * t / (1 - t), abs=1e-12, rel=1e-12)
    assert found.model <= rate + 1e-15
    # a threshold that every probability reaches is treating all, one that none reaches treating none
    assert net_benefit(np.ones(len(y)), y, w, threshold=t).model == pytest.approx(found.treat_all, abs=1e-13, rel=1e-13)
    assert net_benefit(np.zeros(len(y)), y, w, threshold=t).model == 0.0


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 2**32 - 1))
def test_two_columns_say_the_same_as_one(seed: int) -> None:
    p, y, w = sample(seed)
    both = np.stack((1.0 - p, p), axis=1)
    assert accuracy(both, y, w) == accuracy(p, y, w)
    for metric in (balanced_accuracy, f1_macro, kappa_quadratic):
        assert str(metric(both, y, w)) == str(metric(p, y, w))


@pytest.mark.parametrize(
    ("precision", "kind"), [("float32", np.float32), ("float16", np.float16), ("float64", np.float64)]
)
def test_a_stored_probability_reaches_its_threshold_whatever_its_type(precision: str, kind: type) -> None:
    # the float32 of 0.7 lies below 0.7
    for threshold in (0.1, 0.3, 0.7, 0.9):
        p: Floats = np.array([threshold, threshold, 0.05]).astype(precision).astype(np.float64)
        assert sensitivity(p, [1, 1, 0], threshold=threshold, precision=precision) == (1.0, None)
        assert net_benefit(p, [1, 1, 0], threshold=threshold, precision=precision).model == pytest.approx(2 / 3)
