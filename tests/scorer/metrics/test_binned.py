"""Binned errors: hand-worked values, a slow exact reference, and what holds between them."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.metrics import (
    Binned,
    ace,
    ace_nixon,
    classwise_ece,
    ece,
    ece_debiased,
    ece_top,
    ece_width,
    mce,
    mce_weighted,
    wsece,
)
from scorer.metrics.arrays import Floats, top_label
from scorer.metrics.binned import width_bins
from tests.scorer.metrics import reference
from tests.scorer.metrics.registry import about, sample

P3 = [[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]]
MASS: list[Callable[..., Any]] = [ece, ace, ece_debiased, ece_top, classwise_ece, ace_nixon]
WIDTH: list[Callable[..., Any]] = [ece_width, mce, mce_weighted, wsece]


def near(value: float, used: int) -> Binned:
    return Binned(about(value), used, None)


# Equal mass.


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
def test_ece_by_hand(p: list[float], y: list[int], bins: int, value: float, used: int) -> None:
    assert ece(p, y, bins=bins) == near(value, used)


def test_a_midpoint_on_the_cut_belongs_to_the_lower_bin() -> None:
    # groups .2 (1 row), .4 (2 rows, midpoint 2 of 4 = the cut), .9 (1 row): bins {.2, .4, .4} and {.9}
    # (|1 + 1 - 1.0| + |0 - .9|) / 4; the other way round it would be (|1 - .2| + |1 - 1.7|) / 4
    assert ece([0.2, 0.4, 0.4, 0.9], [1, 1, 0, 0], bins=2) == near(1.9 / 4, 2)


def test_ece_under_weights_by_hand() -> None:
    # the bin's rate is 1/4 against .2
    assert ece([0.2, 0.2], [0, 1], weights=[3, 1]) == near(0.05, 1)


def test_weights_move_the_cuts() -> None:
    p, y = [0.1, 0.2, 0.3, 0.4], [1, 0, 0, 0]
    # {.1 .2} and {.3 .4}: (|1 - .3| + .7) / 4; with weight 3 on the last, midpoint 4.5 of 6, its bin is its own:
    # {.1 .2 .3} and {.4}: (|1 - .6| + 3 * .4) / 6
    assert ece(p, y, bins=2) == near(1.4 / 4, 2)
    assert ece(p, y, [1, 1, 1, 3], bins=2) == near(1.6 / 6, 2)


def test_top_label_with_absent_classes() -> None:
    # all right with confidence .9 .8 .6: (.1 + .2 + .4) / 3
    assert ece([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4]], [0, 0, 0], bins=10) == near(0.7 / 3, 3)
    # confidences .7 right, .5 right, .6 wrong, .6 right: (.3 + .5 + |1 - 1.2|) / 4
    assert ece(P3, [0, 1, 0, 0], bins=5) == near(0.25, 3)


def test_top_label_tie_gets_half_credit() -> None:
    # confidence .5, outcome 1/2
    assert ece([[0.5, 0.5], [0.5, 0.5]], [0, 0]).value == 0.0


def test_readings_differ_on_the_same_two_class_data() -> None:
    # one bin. positive class: 2 events, sum of p 1.17; top label: .95 is wrong, .88 .93 .93 are right, sum 3.69
    p, y = np.array([0.05, 0.12, 0.93, 0.07]), [1, 0, 1, 0]
    assert ece(p, y, bins=1) == near(abs(2 - 1.17) / 4, 1)
    assert ece(np.stack([1 - p, p], axis=1), y, bins=1) == near(abs(3 - 3.69) / 4, 1)
    assert ece_top(p, y, bins=1) == near(abs(3 - 3.69) / 4, 1)


def test_ace_is_the_plain_mean_of_the_gaps() -> None:
    # bins of the first case above: gaps .2/4, .4/2, .2/2; the ECE weighs them 4, 2, 2
    p, y = [0.2] * 4 + [0.7, 0.7, 0.9, 0.9], [1, 0, 0, 0, 1, 0, 1, 1]
    assert ace(p, y, bins=4) == near((0.05 + 0.2 + 0.1) / 3, 3)


def test_classwise_keeps_absent_classes() -> None:
    result = classwise_ece(P3, [0, 1, 1, 0], bins=1)
    # class 0: |2 - 2| / 4, class 1: |2 - 1.6| / 4, class 2 (absent): its mean probability
    assert [one.value for one in result.per_class] == pytest.approx([0.0, 0.1, 0.1], abs=1e-15)
    assert result.value == pytest.approx(0.2 / 3, abs=1e-15)
    assert result.reason is None


def test_ace_nixon_is_the_mean_over_classes_and_bins() -> None:
    # class 0: .3 .4 | .6 .7 against 0 0 and 1 1: gaps .35, .35; class 1: .2 .3 | .5 .6 against 0 0 and 1 1: .25, .45;
    # class 2: one group of four, .1 against 0
    result = ace_nixon(P3, [0, 1, 1, 0], bins=2)
    assert [one.value for one in result.per_class] == pytest.approx(
        [(0.35 + 0.35) / 2, (0.25 + 0.45) / 2, 0.1], abs=1e-15
    )
    assert [one.bins_used for one in result.per_class] == [2, 2, 1]
    assert result.value == pytest.approx((0.35 + 0.35 + 0.1) / 3, abs=1e-15)


def test_classwise_of_one_probability_is_over_both_classes() -> None:
    p, y = np.array([0.1, 0.4, 0.4, 0.9]), np.array([0, 1, 0, 1])
    result = classwise_ece(p, y, bins=2)
    assert result.per_class[1] == ece(p, y, bins=2)
    assert result.per_class[0] == ece(1 - p, 1 - y, bins=2)
    # the tie group lies on the cut and goes to the lower bin of each order: {.1 .4 .4}, {.9} and {.1 .6 .6}, {.9}
    assert result.per_class[1].value == pytest.approx((0.1 + 0.1) / 4, abs=1e-15)
    assert result.per_class[0].value == pytest.approx((0.3 + 0.1) / 4, abs=1e-15)


def test_debiased_by_hand() -> None:
    # one bin of 4: gap .5 - .4 = .1, rate 1/2: .01 - (1/4) / 3
    result = ece_debiased([0.4] * 4, [1, 1, 0, 0])
    assert result.squared == pytest.approx(0.01 - 0.25 / 3, abs=1e-15)
    assert result.value == 0.0
    # one bin of 4, gap .8 - 0: nothing to take off
    assert ece_debiased([0.8] * 4, [0, 0, 0, 0]) == (about(0.8), about(0.64), 1, None)


def test_debiased_leaves_out_bins_of_one_case() -> None:
    # {.1}: one case, adds 0 but keeps its weight; {.5 .5}: gap 1/2, rate 1
    assert ece_debiased([0.1, 0.5, 0.5], [1, 1, 1], bins=3).squared == pytest.approx(2 / 3 * 0.25, abs=1e-15)


def test_weights_stand_for_repetitions_in_the_debiased_error() -> None:
    p, y = [0.4, 0.4, 0.4, 0.4], [1, 1, 0, 0]
    # eight cases: .01 - (1/4) / 7; doubling a data set takes off less, unlike in plug-in errors
    assert ece_debiased(p, y, [2] * 4).squared == pytest.approx(0.01 - 0.25 / 7, abs=1e-15)
    assert ece_debiased(p * 2, y * 2).squared == pytest.approx(0.01 - 0.25 / 7, abs=1e-15)


def test_debiased_is_unbiased_on_calibrated_data() -> None:
    # the plug-in square is about (bins / n) mean of p (1 - p) too large; 2,000 sets of 100, standard error about 2e-4
    rng = np.random.default_rng(5)
    p = np.repeat([0.1, 0.3, 0.5, 0.9], 25)
    squares = [ece_debiased(p, (rng.random(100) < p).astype(int), bins=4).squared for _ in range(2000)]
    assert float(np.mean(squares)) == pytest.approx(0.0, abs=4 * float(np.std(squares)) / 2000**0.5)
    assert float(np.std(squares)) < 0.01


# Equal width.


def test_width_is_closed_on_the_right() -> None:
    # 10 bins: .1 is in the first, .2 in the second, 0 in the first: {0 .1}: |1 - .1|, {.2}: .2, {.95}: .05
    assert ece_width([0.0, 0.1, 0.2, 0.95], [1, 0, 0, 1], bins=10) == near((0.9 + 0.2 + 0.05) / 4, 3)
    # just above the edge is the next bin
    assert ece_width([0.1, 0.1 + 1e-9], [1, 0], bins=10) == near((0.9 + 0.1 + 1e-9) / 2, 2)


def test_mce_by_hand() -> None:
    # bins of the case above: gaps .9/2, .2, .05; weighted .9/4, .2/4, .05/4
    p, y = [0.0, 0.1, 0.2, 0.95], [1, 0, 0, 1]
    assert mce(p, y, bins=10) == near(0.45, 3)
    assert mce_weighted(p, y, bins=10) == near(0.9 / 4, 3)
    # weight 9 on .95 makes the first bin's share 2/12
    assert mce(p, y, [1, 1, 1, 9], bins=10) == near(0.45, 3)
    assert mce_weighted(p, y, [1, 1, 1, 9], bins=10) == near(0.9 / 12, 3)


def test_wsece_by_hand() -> None:
    # truth 0: confidences .9 right, .8 wrong: bins apart, (.1 + .8) / 2; truth 1: .9 wrong, .9 right: |1 - 1.8| / 2
    p, y = [[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.1, 0.9]], [0, 0, 1, 1]
    assert wsece(p, y, bins=10) == near((2 * 0.45 + 2 * 0.4) / 4, 2)
    # all in one: {.9 .9 .9} right, wrong, right, and {.8}: (|2 - 2.7| + .8) / 4
    assert ece_width(p, y, bins=10) == near(1.5 / 4, 2)


def test_wsece_counts_the_bins_of_the_class_that_uses_most() -> None:
    assert wsece([0.9, 0.9, 0.7, 0.55], [0, 1, 1, 1], bins=10).bins_used == 3


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]))
def test_wsece_is_the_mean_by_size_of_each_classs_error(seed: int, k: int) -> None:
    p, y, w = sample(seed, k)
    columns = np.stack((1 - p, p), axis=1) if p.ndim == 1 else p
    parts = [(int(w[y == c].sum()), ece_width(columns[y == c], y[y == c], w[y == c], bins=20)) for c in set(y.tolist())]
    wanted = sum(size * part.value for size, part in parts if size) / w.sum()
    found = wsece(p, y, w)
    assert found.value == pytest.approx(wanted, abs=1e-13)
    assert found.bins_used == max(part.bins_used for _, part in parts)


@pytest.mark.parametrize("bins", [10, 15, 20])
@pytest.mark.parametrize(
    ("precision", "stored"),
    [
        ("float64", lambda x: x),
        ("float32", lambda x: x.astype(np.float32)),
        ("float16", lambda x: x.astype(np.float16)),
        *((f"decimals:{n}", lambda x, n=n: np.array([float(f"{one:.{n}f}") for one in x])) for n in (2, 3, 4, 6, 9)),
    ],
)
def test_an_edge_stays_in_its_bin_however_it_is_stored(
    bins: int, precision: str, stored: Callable[[Floats], Any]
) -> None:
    edges = stored(np.arange(bins + 1) / bins)
    wanted = np.maximum(np.arange(bins + 1), 1) - 1
    assert width_bins(edges.astype(np.float64), bins, precision).tolist() == wanted.tolist()
    # through the metric: a bin each, zero with the first edge
    result = ece_width(edges, np.zeros(bins + 1, dtype=int), bins=bins, precision=precision)
    assert result.bins_used == bins
    # top label, whose confidence may be the rest to one
    upper = np.arange(bins // 2 + 1, bins + 1) / bins
    lower = stored(1 - upper).astype(np.float64)
    assert width_bins(1.0 - lower, bins, precision).tolist() == list(range(bins // 2, bins))


@pytest.mark.parametrize("bins", [10, 15, 20])
def test_computed_edges_stay_in_their_bin(bins: int) -> None:
    # sums of rounded parts, as from np.linspace, cumulative sums, or 1 - p
    step = np.concatenate(([0.0], np.cumsum(np.full(bins, 1 / bins))))[: bins + 1]
    for edges in (np.linspace(0, 1, bins + 1), np.minimum(step, 1.0), 1 - np.linspace(0, 1, bins + 1)[::-1]):
        assert width_bins(edges, bins).tolist() == (np.maximum(np.arange(bins + 1), 1) - 1).tolist()


@pytest.mark.parametrize(
    ("precision", "half"), [("float64", 1e-12), ("float32", 2.0**-26), ("float16", 2.0**-13), ("decimals:3", 5e-4)]
)
def test_only_half_a_unit_is_snapped(precision: str, half: float) -> None:
    # .3 is the end of the third of ten bins; float32 and float16 have spacings 2^-25 and 2^-12 there
    inside, outside = 0.3 + half * (1 - 1e-3), 0.3 + half * (1 + 1e-3)
    assert width_bins(np.array([inside, outside]), 10, precision).tolist() == [2, 3]
    # below the edge nothing is to be snapped
    assert width_bins(np.array([0.3 - half, 0.3 - 2 * half]), 10, precision).tolist() == [2, 2]


def test_the_type_of_a_submitted_value_does_not_move_it() -> None:
    # .3 as float32 is above 3/10, as float64 below it
    y = [1, 0, 0]
    exact = ece_width([0.25, 0.3, 0.35], y, bins=10)
    assert exact == near((abs(1 - 0.55) + 0.35) / 3, 2)
    single = ece_width(np.array([0.25, 0.3, 0.35], dtype=np.float32), y, bins=10, precision="float32")
    assert single.bins_used == exact.bins_used
    assert single.value == pytest.approx(exact.value, abs=1e-7)


# Undefined, bad arguments.


@pytest.mark.parametrize("metric", MASS + WIDTH)
def test_without_weight_all_are_undefined(metric: Callable[..., Any]) -> None:
    for result in (metric([], []), metric([0.3], [1], weights=[0.0])):
        assert math.isnan(result.value)
        assert result.reason == "no images (or none of positive weight)"
        assert getattr(result, "bins_used", 0) == 0
    if metric is not ece_top:
        assert math.isnan(metric(np.zeros((0, 3)), []).value)


@pytest.mark.parametrize("metric", MASS + WIDTH)
def test_the_number_of_bins_is_at_least_one(metric: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="bins must be at least 1"):
        metric([0.3], [1], bins=0)


# Against the slow reference, and what holds between the errors.


@settings(deadline=None, max_examples=150)
@given(st.integers(0, 2**32 - 1), st.integers(1, 17))
def test_equal_mass_against_exact_fractions(seed: int, bins: int) -> None:
    p, y, w = sample(seed)
    wanted = reference.mass_bins(p, y, w, bins)
    found = ece(p, y, w, bins=bins)
    assert found.value == pytest.approx(reference.ece(wanted), abs=1e-13)
    assert found.bins_used == len(wanted)
    assert ace(p, y, w, bins=bins) == near(reference.ace(wanted), len(wanted))
    assert ece_debiased(p, y, w, bins=bins).squared == pytest.approx(reference.debiased(wanted), abs=1e-13)
    top = reference.mass_bins(*top_label(p, y), w, bins)
    assert ece_top(p, y, w, bins=bins) == near(reference.ece(top), len(top))


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.sampled_from([3, 7, 10, 15, 20]))
def test_equal_width_against_exact_fractions(seed: int, bins: int) -> None:
    p, y, w = sample(seed)
    wanted = reference.width_bins(p, y, w, bins)
    assert ece_width(p, y, w, bins=bins) == near(reference.ece(wanted), len(wanted))
    assert mce(p, y, w, bins=bins) == near(reference.mce(wanted), len(wanted))
    assert mce_weighted(p, y, w, bins=bins) == near(reference.mce_weighted(wanted), len(wanted))


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.integers(1, 16))
def test_several_classes_against_exact_fractions(seed: int, k: int, bins: int) -> None:
    p, y, w = sample(seed, k)
    top = reference.mass_bins(*top_label(p, y), w, bins)
    assert ece(p, y, w, bins=bins) == near(reference.ece(top), len(top))
    assert ace(p, y, w, bins=bins) == near(reference.ace(top), len(top))
    columns = [reference.mass_bins(p[:, j], y == j, w, bins) for j in range(k)]
    per_class = classwise_ece(p, y, w, bins=bins)
    assert [one.value for one in per_class.per_class] == pytest.approx(
        [reference.ece(one) for one in columns], abs=1e-13
    )
    assert per_class.value == pytest.approx(np.mean([reference.ece(one) for one in columns]), abs=1e-13)
    nixon = ace_nixon(p, y, w, bins=bins)
    assert nixon.value == pytest.approx(np.mean([reference.ace(one) for one in columns]), abs=1e-13)
    assert [one.bins_used for one in nixon.per_class] == [len(one) for one in columns]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 3]), st.sampled_from([10, 15, 20]))
def test_order_of_the_errors_on_the_same_bins(seed: int, k: int, bins: int) -> None:
    p, y, w = sample(seed, k)
    average, most, weighted = (metric(p, y, w, bins=bins) for metric in (ece_width, mce, mce_weighted))
    assert 0.0 <= weighted.value <= average.value + 1e-15
    assert average.value <= most.value + 1e-15
    assert most.value <= 1.0
    assert average.value <= bins * weighted.value + 1e-15
    assert average.bins_used == most.bins_used == weighted.bins_used
    # one bin is the gap of the means, below which no binning can be
    assert ece(p, y, w, bins=1).value <= ece(p, y, w, bins=bins).value + 1e-15


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 20))
def test_as_many_bins_as_weight_part_all_values(seed: int, bins: int) -> None:
    # with twice as many bins as weight each distinct value has one, and finer bins change nothing
    p, y, w = sample(seed)
    fine = 2 * int(w.sum())
    assert ece(p, y, w, bins=fine).bins_used == len(np.unique(p[w > 0]))
    assert ece(p, y, w, bins=fine * bins) == pytest.approx(ece(p, y, w, bins=fine), abs=1e-15)


def test_only_the_shares_of_weights_count() -> None:
    p, y, w = sample(11, n=20)
    for metric in (ece, ace, ece_width, mce, wsece):
        assert metric(p, y, w / 7.0).value == pytest.approx(metric(p, y, w).value, abs=1e-14)
