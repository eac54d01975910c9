"""AUROC: hand-worked values, absent classes, properties, and scikit-learn as a second implementation."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from scorer.metrics import auroc, auroc_classwise
from scorer.metrics.rank import rank

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]


def test_by_hand() -> None:
    # events .3, .9; non-events .1, .5: pairs (.3 > .1), (.3 < .5), (.9 > both) -> 3 of 4
    assert auroc([0.3, 0.9, 0.1, 0.5], [1, 1, 0, 0]) == (0.75, None)
    assert auroc([0.9, 0.1, 0.2], [1, 0, 0]) == (1.0, None)
    assert auroc([0.1, 0.9, 0.8], [1, 0, 0]) == (0.0, None)


def test_ties_count_one_half() -> None:
    # event .2 against .1 (1) and .2 (1/2); event .9 against both (2): 3.5 of 4
    assert auroc([0.1, 0.2, 0.2, 0.9], [0, 1, 0, 1]).value == 3.5 / 4
    assert auroc([0.4] * 5, [1, 0, 1, 1, 0]).value == 0.5


def test_weights_by_hand() -> None:
    # events .3 (w 3), .9 (w 1); non-events .1 (w 1), .5 (w 2): (3*1 + 1*1 + 1*2) / (4 * 3)
    assert auroc([0.3, 0.9, 0.1, 0.5], [1, 1, 0, 0], [3, 1, 1, 2]).value == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_is_undefined_with_a_reason(label: int) -> None:
    value, reason = auroc([0.1, 0.7], [label, label])
    assert math.isnan(value)
    assert reason == ("no image of the class" if label == 0 else "every image is of the class")


def test_a_class_of_weight_zero_is_absent() -> None:
    # a third is no dyadic fraction: the weights of the other class must not leave a rounding residue behind
    value, reason = auroc([0.1, 0.7, 0.3], [1, 1, 0], [1 / 3, 0.1, 0.0])
    assert math.isnan(value)
    assert reason is not None


def test_absent_class_makes_the_macro_undefined_and_leaves_the_present_ones() -> None:
    result = auroc_classwise(P3, [0, 1, 1, 0])
    assert [one.value for one in result.per_class[:2]] == [1.0, 1.0]
    assert math.isnan(result.per_class[2].value)
    assert math.isnan(result.macro.value)
    assert result.macro.reason == "undefined for class 2"
    assert result.macro_present == (1.0, None)


def test_macro_of_no_rows() -> None:
    result = auroc_classwise(np.zeros((0, 3)), [])
    assert math.isnan(result.macro.value)
    assert math.isnan(result.macro_present.value)
    assert result.macro_present.reason is not None


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="auroc takes"):
        auroc(P3, [0, 1, 0, 0])
    with pytest.raises(ValueError, match="auroc_classwise takes"):
        auroc_classwise([0.1, 0.2], [0, 1])


def test_ranking_groups_equal_scores() -> None:
    ranking = rank(np.array([0.5, 0.1, 0.5, 0.3]))
    assert ranking.order.tolist() == [1, 3, 0, 2]
    assert ranking.start.tolist() == [0, 1, 2, 2]
    assert ranking.end.tolist() == [1, 2, 4, 4]
    assert rank(np.array([])).order.tolist() == []


@pytest.mark.parametrize("share", [0.1, 0.9])
@pytest.mark.parametrize("levels", [5, 10**6])
def test_scikit_learn_agrees(share: float, levels: int) -> None:
    rng = np.random.default_rng(3)
    y = (rng.random(400) < share).astype(int)
    p, w = rng.integers(0, levels, 400) / levels, rng.random(400)
    assert auroc(p, y).value == pytest.approx(roc_auc_score(y, p), abs=1e-12)
    assert auroc(p, y, w).value == pytest.approx(roc_auc_score(y, p, sample_weight=w), abs=1e-12)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 25))
def test_properties(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    p, y, w = rng.integers(0, 6, n) / 5, rng.integers(0, 2, n), rng.integers(0, 3, n)
    value, reason = auroc(p, y, w)
    assert math.isnan(value) == (reason is not None)
    again = rng.permutation(n)
    assert auroc(p[again], y[again], w[again]).value == pytest.approx(value, abs=0, nan_ok=True)
    repeated = auroc(np.repeat(p, w), np.repeat(y, w)).value
    assert repeated == pytest.approx(value, abs=1e-15, nan_ok=True)
    assert auroc(p**2, y, w).value == pytest.approx(value, abs=1e-15, nan_ok=True)
    assert auroc(p, 1 - y, w).value == pytest.approx(1 - value, abs=1e-15, nan_ok=True)
    assert auroc(p, y, 5 * w).value == pytest.approx(value, abs=1e-15, nan_ok=True)
