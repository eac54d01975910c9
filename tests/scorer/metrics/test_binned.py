"""Equal-mass ECE: hand-worked values, a slow exact reference, and properties."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from scorer.metrics import classwise_ece, ece

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]


def slow_ece(
    p: NDArray[np.float64], outcome: NDArray[np.float64], w: NDArray[np.int64], bins: int
) -> tuple[float, int]:
    """The definition, group by group, in exact fractions."""
    total, below = int(w.sum()), 0
    sums: dict[int, Fraction] = {}
    for value in np.unique(p):
        group = np.flatnonzero((p == value) & (w > 0))
        mass = int(w[group].sum())
        if mass:
            place = math.ceil(Fraction(bins) * (2 * below + mass) / (2 * total))
            gap = sum((int(w[i]) * (Fraction(float(outcome[i])) - Fraction(float(value))) for i in group), Fraction(0))
            sums[place] = sums.get(place, Fraction(0)) + gap
            below += mass
    return float(sum(abs(gap) for gap in sums.values()) / total), len(sums)


@pytest.mark.parametrize(
    ("p", "y", "bins", "value", "used"),
    [
        # each in its own bin: (.2 + .03 + 1) / 3; p = 1 has no bin of its own and is not lost
        ([0.97, 1.0, 0.2], [1, 0, 0], 5, 0.41, 3),
        # p = 0 is in the first bin: 2 |.5 - 0| / 4 + 0
        ([0.0, 0.0, 1.0, 1.0], [0, 1, 1, 1], 2, 0.25, 2),
        # groups at midpoints 2, 5, 7 of 8 -> bins 1, 3, 4: (|1 - .8| + |1 - 1.4| + |2 - 1.8|) / 8
        ([0.2] * 4 + [0.7, 0.7, 0.9, 0.9], [1, 0, 0, 0, 1, 0, 1, 1], 4, 0.1, 3),
        # the mean probability in the bin, not the bin's centre
        ([1.0] * 3, [1, 1, 1], 10, 0.0, 1),
        # one value: one bin, |.25 - .8|
        ([0.8] * 4, [1, 0, 0, 0], 4, 0.55, 1),
        # (|1 - 0| + |1 - .4| + .1 + 0) / 6
        ([0.0, 0.0, 0.2, 0.2, 0.9, 1.0], [1, 0, 0, 1, 1, 1], 5, 1.7 / 6, 4),
        # ties are never split, whatever the order of the rows
        ([0.5] * 4, [1, 1, 0, 0], 2, 0.0, 1),
        ([0.5] * 4, [1, 0, 1, 0], 2, 0.0, 1),
        # fewer rows than bins: (.1 + .6 + .1) / 3
        ([0.1, 0.4, 0.9], [0, 1, 1], 5, 0.8 / 3, 3),
        # midpoints .5 1.5 2.5 | 3.5 5 of 6, cut at 3: (|2 - 1.1| + |2 - 2.5|) / 6
        ([0.1, 0.4, 0.6, 0.7, 0.9, 0.9], [0, 1, 1, 0, 1, 1], 2, 1.4 / 6, 2),
        # one bin is the gap of the means
        ([0.1, 0.4, 0.9], [0, 1, 1], 1, (2 - 1.4) / 3, 1),
    ],
)
def test_by_hand(p: list[float], y: list[int], bins: int, value: float, used: int) -> None:
    result = ece(p, y, bins=bins)
    assert result.value == pytest.approx(value, abs=1e-15)
    assert result.bins_used == used
    assert result.reason is None


def test_a_midpoint_on_the_cut_belongs_to_the_lower_bin() -> None:
    # groups .2 (1 row), .4 (2 rows, midpoint 2 of 4 = the cut), .9 (1 row): bins {.2, .4, .4} and {.9}
    # (|1 + 1 - 1.0| + |0 - .9|) / 4; the other way round it would be (|1 - .2| + |1 - 1.7|) / 4
    assert ece([0.2, 0.4, 0.4, 0.9], [1, 1, 0, 0], bins=2).value == pytest.approx(1.9 / 4, abs=1e-15)


def test_weights_by_hand() -> None:
    # the bin's rate is 1/4 against .2
    assert ece([0.2, 0.2], [0, 1], weights=[3, 1]).value == pytest.approx(0.05, abs=1e-15)


def test_top_label_with_absent_classes() -> None:
    # all right with confidence .9 .8 .6: (.1 + .2 + .4) / 3
    assert ece([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 0], bins=10).value == pytest.approx(0.7 / 3, abs=1e-15)
    # confidences .7 right, .5 right, .6 wrong, .6 right: (.3 + .5 + |1 - 1.2|) / 4
    assert ece(P3, [0, 1, 0, 0], bins=5).value == pytest.approx(0.25, abs=1e-15)


def test_top_label_tie_gets_half_credit() -> None:
    # confidence .5, outcome 1/2
    assert ece([[0.5, 0.5], [0.5, 0.5]], [0, 0]).value == 0.0


def test_readings_differ_on_the_same_two_class_data() -> None:
    # one bin. positive class: 2 events, sum of p 1.17; top label: .95 is wrong, .88 .93 .93 are right, sum 3.69
    p, y = np.array([0.05, 0.12, 0.93, 0.07]), [1, 0, 1, 0]
    assert ece(p, y, bins=1).value == pytest.approx(abs(2 - 1.17) / 4, abs=1e-15)
    assert ece(np.stack([1 - p, p], axis=1), y, bins=1).value == pytest.approx(abs(3 - 3.69) / 4, abs=1e-15)


def test_classwise_keeps_absent_classes() -> None:
    result = classwise_ece(P3, [0, 1, 1, 0], bins=1)
    # class 0: |2 - 2| / 4, class 1: |2 - 1.6| / 4, class 2 (absent): its mean probability
    assert [one.value for one in result.per_class] == pytest.approx([0.0, 0.1, 0.1], abs=1e-15)
    assert result.value == pytest.approx(0.2 / 3, abs=1e-15)


def test_classwise_of_one_probability_is_over_both_classes() -> None:
    p, y = np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 1, 0, 1])
    result = classwise_ece(p, y, bins=2)
    assert result.per_class[1] == ece(p, y, bins=2)
    assert result.per_class[0] == ece(1 - p, 1 - y, bins=2)
    # the tie group lies on the cut and goes to the lower bin of each order: {.1 .4 .4}, {.9} and {.1 .6 .6}, {.9}
    assert result.per_class[1].value == pytest.approx((0.1 + 0.1) / 4, abs=1e-15)
    assert result.per_class[0].value == pytest.approx((0.3 + 0.1) / 4, abs=1e-15)


def test_undefined_and_bad_bins() -> None:
    for result in (ece([], []), ece([0.3], [1], weights=[0.0]), ece(np.zeros((0, 3)), [])):
        assert math.isnan(result.value)
        assert result.bins_used == 0
        assert result.reason is not None
    empty = classwise_ece(np.zeros((0, 3)), [])
    assert math.isnan(empty.value)
    assert empty.reason is not None
    with pytest.raises(ValueError, match="bins"):
        ece([0.3], [1], bins=0)


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 17), st.sampled_from([3, 10, 1000]))
def test_exact_reference(seed: int, n: int, bins: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    p, y, w = rng.integers(0, levels + 1, n) / levels, rng.integers(0, 2, n), rng.integers(0, 4, n)
    if not w.sum():
        w[0] = 1
    value, used = slow_ece(p, y.astype(np.float64), w, bins)
    result = ece(p, y, bins=bins, weights=w)
    assert result.value == pytest.approx(value, abs=1e-13)
    assert result.bins_used == used
    # whole weights are repetitions, rows of weight zero are nowhere, and doubling all changes nothing
    assert ece(np.repeat(p, w), np.repeat(y, w), bins=bins).value == pytest.approx(value, abs=1e-13)
    assert ece(p, y, bins=bins, weights=2 * w) == pytest.approx(result, abs=1e-15)
    again = rng.permutation(n)
    shuffled = ece(p[again], y[again], bins=bins, weights=w[again])
    assert shuffled.value == pytest.approx(value, abs=1e-13)
    assert shuffled.bins_used == used


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(2, 4))
def test_class_names_do_not_matter(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    raw = rng.integers(1, 5, (n, k)).astype(float)
    p, y = raw / raw.sum(axis=1, keepdims=True), rng.integers(0, k, n)
    renamed = rng.permutation(k)
    q, z = p[:, renamed], np.argsort(renamed)[y]
    assert ece(q, z).value == pytest.approx(ece(p, y).value, abs=1e-13)
    assert classwise_ece(q, z).value == pytest.approx(classwise_ece(p, y).value, abs=1e-13)
    assert [one.value for one in classwise_ece(q, z).per_class] == pytest.approx(
        [classwise_ece(p, y).per_class[i].value for i in renamed], abs=1e-13
    )
