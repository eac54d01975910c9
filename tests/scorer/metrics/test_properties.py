"""What holds for every metric: order, repetition, absence, duplication, class names, perfect forecasts, ranges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.metrics import Classwise, ClasswiseEce
from tests.scorer.metrics.registry import (
    ALL,
    MANY,
    ONE,
    close,
    consistent,
    metric,
    numbers,
    sample,
    values,
    with_reasons,
)

few = settings(deadline=None, max_examples=10, derandomize=True)
seeds = st.integers(0, 2**32 - 1)

# The same for P(positive) and for P(negative). The others prefer a side: bins are closed on the right and a midpoint on
# a cut goes down, thresholds belong to the positives, knots are quantiles from below.
SAME_FOR_BOTH_SIDES = (
    "nll", "accuracy", "kappa_quadratic", "ece_top", "wsece", "aurc", "risk_at_coverage", "smooth_ece", "brier_binary",
    "corp", "auroc",
)  # fmt: skip

RANGES: dict[str, tuple[float, float]] = {
    "nll": (0.0, 27.64),
    "kappa_quadratic": (-1.0, 1.0),
    "brier": (0.0, 2.0),
    "ece_debiased": (-0.25, 1.0),
    "ece_debiased_3": (-0.25, 1.0),
    "murphy": (-1.0, 1.0),
    "murphy_3": (-1.0, 1.0),
    "net_benefit_0.2": (-0.25, 1.0),
    "net_benefit_0.5": (-1.0, 1.0),
    "citl": (-60.0, 60.0),
    "recalibration_line": (-np.inf, np.inf),
}


@pytest.mark.parametrize(("name", "k"), ALL)
@few
@given(seeds)
def test_the_order_of_rows_does_not_matter(name: str, k: int, seed: int) -> None:
    cases, of = sample(seed, k), metric(name, k)
    again = cases.taken(np.random.default_rng(seed).permutation(len(cases.y)))
    assert close(of(*again), of(*cases))


@pytest.mark.parametrize(("name", "k"), ALL)
@few
@given(seeds)
def test_whole_weights_are_repetitions(name: str, k: int, seed: int) -> None:
    cases, of = sample(seed, k), metric(name, k)
    repeated = cases.repeated()
    assert close(of(*cases), of(repeated.p, repeated.y))


@pytest.mark.parametrize(("name", "k"), ALL)
@few
@given(seeds)
def test_rows_of_weight_zero_are_nowhere(name: str, k: int, seed: int) -> None:
    cases, of = sample(seed, k), metric(name, k)
    assert close(of(*cases), of(*cases.taken(cases.w > 0)))


@pytest.mark.parametrize(("name", "k"), [one for one in ALL if not one[0].startswith("ece_debiased")])
@few
@given(seeds, st.sampled_from([2.0, 3.0, 0.25]))
def test_only_shares_count_in_plug_in_metrics(name: str, k: int, seed: int, factor: float) -> None:
    # also duplicating the data set; the debiased error takes off less, the more cases there are
    p, y, w = sample(seed, k)
    of = metric(name, k)
    # where classes separate the smooth curve of the ICI is a limit, reached up to 1e-7
    assert close(of(p, y, factor * w), of(p, y, w), 1e-6 if name == "ici" else 1e-9)


@pytest.mark.parametrize(("name", "k"), ALL)
@few
@given(seeds)
def test_undefined_has_a_reason_and_a_number_has_none(name: str, k: int, seed: int) -> None:
    found = list(with_reasons(metric(name, k)(*sample(seed, k))))
    assert all(consistent(one) for one in found)
    assert found or name in ("accuracy", "brier", "brier_binary")


@pytest.mark.parametrize(("name", "k"), ALL)
@few
@given(seeds)
def test_values_are_in_their_range(name: str, k: int, seed: int) -> None:
    low, high = RANGES.get(name, (0.0, 1.0))
    for value in values(metric(name, k)(*sample(seed, k))):
        assert value != value or low - 1e-12 <= value <= high + 1e-12


@pytest.mark.parametrize("name", MANY)
@few
@given(seeds, st.integers(2, 5))
def test_names_of_classes_do_not_matter(name: str, seed: int, k: int) -> None:
    p, y, w = sample(seed, k)
    # of ordinal classes only the reverse is the same
    renamed = np.arange(k)[::-1] if name == "kappa_quadratic" else np.random.default_rng(seed).permutation(k)
    before, after = MANY[name](p, y, w), MANY[name](p[:, renamed], np.argsort(renamed)[y], w)
    if isinstance(before, Classwise | ClasswiseEce):
        assert close(after.per_class, tuple(before.per_class[i] for i in renamed))
        before, after = before._replace(per_class=()), after._replace(per_class=())
    assert close(after, before)


@pytest.mark.parametrize("name", SAME_FOR_BOTH_SIDES)
@few
@given(seeds)
def test_both_sides_of_one_probability(name: str, seed: int) -> None:
    p, y, w = sample(seed)  # on grids where 1 - p is exact
    assert close(ONE[name](1.0 - p, 1 - y, w), ONE[name](p, y, w), 1e-9)


@pytest.mark.parametrize("name", ["balanced_accuracy", "f1_macro"])
@few
@given(seeds)
def test_the_other_side_has_its_classes_in_reverse(name: str, seed: int) -> None:
    p, y, w = sample(seed)
    before, after = ONE[name](p, y, w), ONE[name](1.0 - p, 1 - y, w)
    assert close(after.per_class, before.per_class[::-1])


BEST: dict[str, float] = {
    "accuracy": 1.0,
    "balanced_accuracy": 1.0,
    "f1_macro": 1.0,
    "kappa_quadratic": 1.0,
    "auroc": 1.0,
    "auprc": 1.0,
    "auroc_classwise": 1.0,
    "auprc_classwise": 1.0,
    **{f"{rate}_{t}": 1.0 for rate in ("sensitivity", "specificity") for t in (0.2, 0.5)},
}
OTHER_THAN_BEST = (
    "murphy",
    "murphy_3",
    "corp",
    "recalibration_line",
    "net_benefit_0.2",
    "net_benefit_0.5",
    "citl",
    "ici",
)


@pytest.mark.parametrize(("name", "k"), [one for one in ALL if one[0] not in OTHER_THAN_BEST])
def test_a_perfect_forecaster(name: str, k: int) -> None:
    # sure of what happens: the best value of every metric, errors being 0
    y = np.array([0, 1, 1, 0, 1, 1, 0]) if k == 1 else np.array([0, 1, 2, 2, 1, 0, 1])
    p = y.astype(np.float64) if k == 1 else np.eye(3)[y]
    found = values(metric(name, k)(p, y))
    assert found
    coverages = 3 if name == "risk_at_coverage" else 0
    assert found[coverages:] == pytest.approx([BEST.get(name, 0.0)] * len(found[coverages:]), abs=1e-15)


def test_a_perfect_forecaster_where_best_is_not_one_number() -> None:
    y = np.array([0, 1, 1, 0, 1])
    p = y.astype(np.float64)
    rate, uncertainty = 3 / 5, 6 / 25
    assert numbers(ONE["murphy"](p, y)) == pytest.approx([0.0, uncertainty, uncertainty, 0.0, 0.0], abs=1e-15)
    assert numbers(ONE["corp"](p, y)) == pytest.approx([0.0, uncertainty, uncertainty], abs=1e-15)
    assert ONE["net_benefit_0.2"](p, y).model == pytest.approx(rate, abs=1e-15)
    assert ONE["recalibration_line"](p, y).reason is not None
    assert numbers(ONE["ici"](p, y)) == pytest.approx([0.0] * 4, abs=1e-6)
    # as many right at both ends: nothing to shift
    assert ONE["citl"]([0.0, 1.0], [0, 1]).value == pytest.approx(0.0, abs=1e-4)
