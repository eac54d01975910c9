"""Who is best, and who is statistically equivalent to the best: by hand, properties, and a simulation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.catalogue import Better
from scorer.bootstrap import Draws
from scorer.comparing import Candidate, Standing, holm, loss, standings
from scorer.intervals import difference

Floats = NDArray[np.float64]

DRAWS = 99
NOISE = np.random.default_rng(0).normal(scale=0.1, size=DRAWS)  # what a draw does to every candidate
p_lists = st.lists(st.floats(0.0, 1.0) | st.just(math.nan), max_size=8)


def candidate(name: str, value: float, above: int | None = None, gap: float = 0.01) -> Candidate:
    """A candidate whose replicates lie ``gap`` above the shared noise in ``above`` of the draws, below in the rest.

    Without ``above`` they are the noise around its value.
    """
    if above is None:
        return Candidate(name, value, value + NOISE)
    return Candidate(name, value, NOISE + np.where(np.arange(DRAWS) < above, gap, -gap))


def names(found: list[Standing]) -> list[str]:
    return [one.name for one in found]


def ranks(found: list[Standing]) -> dict[str, int | None]:
    return {one.name: one.rank for one in found}


def equivalents(found: list[Standing]) -> set[str]:
    return {one.name for one in found if one.equivalent}


# By hand: the best has the noise itself, so a candidate is above it in ``above`` of 99 draws.
BEST = Candidate("best", 0.10, NOISE)
NEAR = candidate("near", 0.11, above=80)  # p = 2 (19 + 1) / 100
CLOSE = candidate("close", 0.12, above=97)  # p = 2 (2 + 1) / 100
FAR = candidate("far", 0.30, above=99)  # p = 2 (0 + 1) / 100


def test_standings_by_hand_where_lower_is_better() -> None:
    found = standings([FAR, NEAR, BEST, CLOSE], "lower")
    assert names(found) == ["best", "near", "close", "far"]
    assert [one.p_value for one in found] == pytest.approx([1.0, 0.40, 0.06, 0.02])
    assert ranks(found) == {"best": 1, "near": 1, "close": 1, "far": 4}
    assert [one.equivalent for one in found] == [True, True, True, False]
    assert [one.best for one in found] == [True, False, False, False]
    assert [one.value for one in found] == [0.10, 0.11, 0.12, 0.30]
    assert {one.method for one in found} == {"paired bootstrap"}
    assert found[0].to_best is None
    for one, given_ in zip(found[1:], (NEAR, CLOSE, FAR), strict=True):
        assert one.to_best == difference(given_.replicates, NOISE, given_.value, 0.10)
        assert one.to_best.value > 0.0


def test_standings_by_hand_where_higher_is_better() -> None:
    mirrored = [Candidate(one.name, -one.value, -one.replicates) for one in (FAR, NEAR, BEST, CLOSE)]
    lower, higher = standings([FAR, NEAR, BEST, CLOSE], "lower"), standings(mirrored, "higher")
    assert [(one.name, one.rank, one.p_value) for one in higher] == [(one.name, one.rank, one.p_value) for one in lower]
    for one in higher[1:]:
        assert one.to_best is not None
        assert one.to_best.value < 0.0  # it has less of what is good


def test_standings_where_zero_is_best_are_of_the_distances() -> None:
    # an intercept of -0.3 in every draw is farther from 0 than one of 0.1 that changes its sign
    given_ = [
        Candidate("low", -0.3, np.full(DRAWS, -0.3)),
        Candidate("small", 0.1, np.where(np.arange(DRAWS) % 2, 0.1, -0.1)),
        Candidate("large", 0.2, np.full(DRAWS, 0.2)),
    ]
    found = standings(given_, "zero")
    assert names(found) == ["small", "large", "low"]
    assert ranks(found) == {"small": 1, "large": 2, "low": 3}
    assert [one.value for one in found] == [0.1, 0.2, -0.3]
    assert found[1].to_best is not None
    assert found[1].to_best[:3] == pytest.approx((0.1, 0.1, 0.1))
    assert found[2].to_best is not None
    assert found[2].to_best[:3] == pytest.approx((0.2, 0.2, 0.2))


def test_standings_where_one_is_best_are_of_the_distances() -> None:
    given_ = [Candidate(str(slope), slope, np.full(DRAWS, slope)) for slope in (0.5, 1.1, 1.25, 0.95)]
    found = standings(given_, "one")
    assert names(found) == ["0.95", "1.1", "1.25", "0.5"]
    assert [one.rank for one in found] == [1, 2, 3, 4]
    # two slopes as far from 1, above and below, are equivalent
    both = standings([Candidate("a", 1.2, 1.2 + NOISE), Candidate("b", 0.8, 0.8 - NOISE)], "one")
    assert equivalents(both) == {"a", "b"}
    assert both[1].to_best is not None
    assert both[1].to_best[:3] == pytest.approx((0.0, 0.0, 0.0), abs=1e-15)


def test_the_worst_of_the_replicates_may_be_the_best_of_the_values() -> None:
    # the order is that of the values; a difference to the best that points the other way is no equivalence
    found = standings([Candidate("a", 0.1, np.full(9, 0.9)), Candidate("b", 0.2, np.full(9, 0.1))], "lower", level=0.75)
    assert names(found) == ["a", "b"]
    assert found[1].p_value == 2 / 10


def test_equal_values_go_by_name() -> None:
    for order in ("cab", "bca"):
        found = standings([candidate(name, 0.25) for name in order], "lower")
        assert names(found) == ["a", "b", "c"]
        assert [one.best for one in found] == [True, False, False]
        assert [one.rank for one in found] == [1, 1, 1]
        assert [one.p_value for one in found] == [1.0, 1.0, 1.0]


def test_ranks_count_all_that_stand_before() -> None:
    # the equivalents share 1, whatever stands between them by value
    sure = Candidate("sure", 0.105, NOISE + 0.005)
    found = standings([BEST, sure, NEAR, FAR], "lower")
    assert names(found) == ["best", "sure", "near", "far"]
    assert ranks(found) == {"best": 1, "sure": 3, "near": 1, "far": 4}


def test_candidates_without_a_value_come_last_with_a_reason() -> None:
    missing = [Candidate(name, math.nan, np.full(DRAWS, math.nan)) for name in ("x", "a")]
    found = standings([missing[0], FAR, missing[1], BEST], "lower", adjust="holm")
    assert names(found) == ["best", "far", "x", "a"]
    for one in found[2:]:
        assert (one.rank, one.best, one.equivalent, one.to_best) == (None, False, False, None)
        assert math.isnan(one.p_value)
        assert one.reason is not None
    assert [one.reason for one in found[:2]] == [None, None]
    assert found[1].p_value == 0.02  # not a comparison more
    alone = standings(missing, "higher")
    assert [(one.rank, one.equivalent) for one in alone] == [(None, False)] * 2


def test_an_undefined_difference_shows_none() -> None:
    # both have values, but no draw in which both are defined
    never = Candidate("never", 0.2, np.full(DRAWS, math.nan))
    found = standings([BEST, never, FAR], "lower", adjust="holm")
    assert ranks(found) == {"best": 1, "never": 1, "far": 3}
    assert math.isnan(found[1].p_value)
    assert found[1].to_best is not None
    assert found[1].to_best.reason is not None
    assert found[2].p_value == 0.02


def test_few_draws_show_no_difference() -> None:
    # the least p-value of B draws is 2 / (B + 1): 38 can't reach 5 %, 39 can
    for draws, same in ((38, True), (39, False)):
        found = standings([Candidate("a", 0.0, np.zeros(draws)), Candidate("b", 1.0, np.ones(draws))], "lower")
        assert found[1].equivalent == same


def test_one_candidate_and_none() -> None:
    found = standings([BEST], "lower")
    assert found == [Standing("best", 0.10, 1, True, True, None, 1.0, "paired bootstrap")]
    assert standings([], "lower") == []


def test_a_metric_of_which_neither_way_is_better_has_no_best() -> None:
    with pytest.raises(ValueError, match="neither"):
        standings([BEST, FAR], "neither")


def test_a_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        standings([BEST, FAR, candidate("best", 0.5)], "lower")


def test_unequal_numbers_of_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        standings([BEST, Candidate("short", 0.2, NOISE[:-1])], "lower")


@pytest.mark.parametrize(
    ("better", "value", "expected"),
    [("lower", 0.3, 0.3), ("higher", 0.3, -0.3), ("zero", -0.3, 0.3), ("one", 0.7, 0.3), ("one", 1.3, 0.3)],
)
def test_loss(better: Better, value: float, expected: float) -> None:
    assert loss(value, better) == pytest.approx(expected)


# Holm


def test_holm_by_hand() -> None:
    # 3 x 0.01, then 2 x 0.03, then 0.04, which may not fall below
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.01, 0.4, 0.02]) == pytest.approx([0.8, 0.04, 0.8, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


def test_holm_of_undefined_p_values() -> None:
    found = holm([math.nan, 0.04, 0.01])
    assert math.isnan(found[0])
    assert found[1:] == pytest.approx([0.04, 0.02])


@given(p_lists)
def test_holm_raises_p_values_and_keeps_their_order(p_values: list[float]) -> None:
    before = list(p_values)
    found = holm(p_values)
    assert repr(p_values) == repr(before)
    known = [(p, q) for p, q in zip(p_values, found, strict=True) if not math.isnan(p)]
    assert len([q for q in found if not math.isnan(q)]) == len(known)
    for p, q in known:
        assert p <= q <= min(1.0, len(known) * p) + 1e-12
        assert all(q <= other_q for other_p, other_q in known if p <= other_p)


@given(p_lists, st.floats(0.01, 0.5))
def test_holm_rejects_as_its_step_down_procedure(p_values: list[float], alpha: float) -> None:
    known = sorted((p, i) for i, p in enumerate(p_values) if not math.isnan(p))
    rejected = set()
    for step, (p, i) in enumerate(known):
        if (len(known) - step) * p > alpha:
            break
        rejected.add(i)
    assert {i for i, p in enumerate(holm(p_values)) if p <= alpha} == rejected


def test_standings_by_hand_with_holm() -> None:
    # 0.02, 0.06 and 0.40 become 0.06, 0.12 and 0.40: nothing is shown any more
    found = standings([FAR, NEAR, BEST, CLOSE], "lower", adjust="holm")
    assert [one.p_value for one in found] == pytest.approx([1.0, 0.40, 0.12, 0.06])
    assert ranks(found) == {"best": 1, "near": 1, "close": 1, "far": 1}
    assert {one.method for one in found} == {"paired bootstrap, Holm"}


@given(st.integers(0, 10_000), st.integers(1, 6), st.sampled_from(["lower", "higher", "zero", "one"]))
def test_holm_can_only_make_more_equivalents(seed: int, n: int, better: Better) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(scale=0.1, size=n)
    given_ = [Candidate(str(i), value, value + rng.normal(scale=0.05, size=200)) for i, value in enumerate(values)]
    plain, adjusted = standings(given_, better), standings(given_, better, adjust="holm")
    assert names(plain) == names(adjusted)
    assert equivalents(plain) <= equivalents(adjusted)
    for found in (plain, adjusted):
        assert [one.best for one in found] == [True] + [False] * (n - 1)
        assert found[0].equivalent
        losses = [loss(one.value, better) for one in found]
        assert losses == sorted(losses)
        shared = len(equivalents(found))
        others = [one.rank for one in found if not one.equivalent]
        assert others == list(range(shared + 1, n + 1))
        assert {one.rank for one in found if one.equivalent} == {1}


def brier(seed: int, draws: Floats, gap: float) -> list[Candidate]:
    """Two models' mean losses over patients, the second worse by ``gap``, and their replicates under ``draws``."""
    rng = np.random.default_rng(seed)
    patients = draws.shape[1]
    shared = rng.random(patients)
    models = {name: shared + rng.normal(scale=0.2, size=patients) for name in "ab"}
    models["b"] += gap
    return [Candidate(name, float(np.mean(own)), draws @ own / patients) for name, own in models.items()]


def test_equally_good_models_are_called_equivalent_and_worse_ones_are_not() -> None:
    draws = Draws(17, 80, 399).block(0, 399)
    alike = [equivalents(standings(brier(seed, draws, 0.0), "lower")) == {"a", "b"} for seed in range(300)]
    assert 0.90 <= np.mean(alike) <= 0.99  # 95 % is what level 0.95 says
    # the difference has a standard error of 0.2 sqrt(2 / 80) = 0.03
    worse = [equivalents(standings(brier(seed, draws, 0.15), "lower")) == {"a"} for seed in range(100)]
    assert np.mean(worse) >= 0.97
