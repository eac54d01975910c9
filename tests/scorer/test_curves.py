"""Curves by hand, against the metrics that they show, and the bands by simulation."""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from protocol.types import Kind as TaskKind
from scorer import metrics
from scorer.curves import Curve, Kind, curves_of, decision, reliability, risk_coverage
from scorer.metrics import plan_for
from scorer.metrics.arrays import top_label
from scorer.metrics.binned import BINS, width_bins

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAMES = {"binary": ("no", "yes"), "multiclass": ("a", "b", "c"), "multilabel": ("a", "b", "c")}


def curves(p: Floats, y: NDArray[np.generic], key: str = "k", precision: str = "float64") -> dict[str, Curve]:
    """The reliability curves by kind, after the checks that hold for all of them."""
    outcome = y.astype(np.float64)
    found = reliability(p, outcome, class_="c", reading="positive class", key=key, cell=width_bins(p, BINS, precision))
    assert [curve.kind for curve in found] == ["equal-width", "equal-mass", "corp"]
    for curve in found:
        assert (curve.class_, curve.reading) == ("c", "positive class")
        assert_sound(curve)
    return {curve.kind: curve for curve in found}


def assert_sound(curve: Curve) -> None:
    assert curve.kind in get_args(Kind)
    assert {len(getattr(curve, name)) for name in ("x", "y", "lo", "hi", "n_images", "left", "right")} == {len(curve.x)}
    assert (np.diff(curve.x) > 0.0).all()
    assert curve.n_images.dtype == np.int64
    assert not np.isnan(np.concatenate((curve.x, curve.y))).any()
    if curve.kind in ("equal-width", "equal-mass", "corp"):
        rounding = 1e-12
        assert (curve.left <= curve.x + rounding).all()
        assert (curve.x <= curve.right + rounding).all()
        assert (curve.lo <= curve.hi).all()
        assert (curve.lo >= 0.0).all()
        assert (curve.hi <= 1.0).all()


def binary(seed: int, n: int = 300, levels: int = 40) -> tuple[Floats, Ints]:
    """Probabilities on a grid, so that ties are frequent, and labels that they do not fit."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, levels + 1, n) / levels
    return p, (rng.random(n) < 0.2 + 0.6 * p**2).astype(np.int64)


# Reliability


def test_equal_width_by_hand() -> None:
    # edges at k/15; 3/15 itself belongs to the third bin with 0.14, 0 to the first
    p = np.array([0.0, 0.05, 0.14, 0.2, 0.21, 1.0])
    found = curves(p, np.array([0, 1, 1, 0, 1, 1]))["equal-width"]
    assert found.x.tolist() == pytest.approx([0.025, 0.17, 0.21, 1.0])
    assert found.y.tolist() == [0.5, 0.5, 1.0, 1.0]
    assert found.n_images.tolist() == [2, 2, 1, 1]
    assert found.left.tolist() == [0.0, 0.14, 0.21, 1.0]
    assert found.right.tolist() == [0.05, 0.2, 0.21, 1.0]


def test_equal_mass_by_hand() -> None:
    # 30 distinct probabilities, two a bin
    p = np.arange(30) / 30
    y = np.arange(30) % 4 == 0
    found = curves(p, y)["equal-mass"]
    assert found.x.tolist() == pytest.approx([(2 * b + 0.5) / 30 for b in range(15)])
    assert found.y.tolist() == [0.5, 0.0] * 7 + [0.5]
    assert found.n_images.tolist() == [2] * 15
    assert found.left.tolist() == pytest.approx(p[::2])
    assert found.right.tolist() == pytest.approx(p[1::2])


def test_ties_go_whole_to_the_bin_of_their_midpoint() -> None:
    # 5 of 0.1, 20 of 0.3, 5 of 0.9: midpoints 2.5, 15, 27.5 of 30 are in bins 2, 8 and 14 of 15
    p = np.repeat([0.1, 0.3, 0.9], [5, 20, 5])
    y = np.concatenate(([1, 0, 0, 0, 0], [1] * 5 + [0] * 15, [1] * 4 + [0]))
    found = curves(p, y)["equal-mass"]
    assert found.x.tolist() == pytest.approx([0.1, 0.3, 0.9])
    assert found.y.tolist() == [0.2, 0.25, 0.8]
    assert found.n_images.tolist() == [5, 20, 5]


def test_a_midpoint_on_an_edge_belongs_to_the_bin_below() -> None:
    # bins of 30 images end at 2, 4, ...: midpoints 2 and 4.5 are in bins 1 and 3, 0.5 and 2 both in bin 1
    for sizes, expected in (((4, 1, 25), [4, 1, 25]), ((1, 2, 27), [3, 27]), ((3, 1, 26), [3, 1, 26])):
        p = np.repeat([0.1, 0.2, 0.3], sizes)
        assert curves(p, np.zeros(30))["equal-mass"].n_images.tolist() == expected


def test_corp_by_hand() -> None:
    # 1 before 0 is pooled to one half; a step of one probability has one point
    p = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    found = curves(p, np.array([0, 1, 0, 1, 1]))["corp"]
    assert found.x.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert found.y.tolist() == [0.0, 0.5, 0.5, 1.0, 1.0]
    assert found.n_images.tolist() == [1, 2, 2, 2, 2]
    assert found.left.tolist() == [0.1, 0.2, 0.2, 0.4, 0.4]
    assert found.right.tolist() == [0.1, 0.3, 0.3, 0.5, 0.5]


def test_one_probability_is_one_point() -> None:
    for curve in curves(np.full(8, 0.25), np.arange(8) < 3).values():
        assert (curve.x.tolist(), curve.y.tolist(), curve.n_images.tolist()) == ([0.25], [0.375], [8])
        assert (curve.left.tolist(), curve.right.tolist()) == ([0.25], [0.25])


def test_no_images_give_no_curves() -> None:
    none = np.empty(0)
    assert reliability(none, none, class_=None, reading="top-label", key="k", cell=none.astype(np.int64)) == []
    assert decision(none, none.astype(np.int64), class_=None, reading="positive class") == []
    assert risk_coverage(none, none, class_=None) == []
    assert curves_of("binary", NAMES["binary"], np.empty((0, 1)), np.empty(0, np.int64), key="k") == []
    assert curves_of("multiclass", NAMES["multiclass"], np.empty((0, 3)), np.empty(0, np.int64), key="k") == []


@pytest.mark.parametrize("seed", range(6))
def test_corp_is_the_isotonic_regression(seed: int) -> None:
    p, y = binary(seed)
    found = curves(p, y)["corp"]
    fitted = IsotonicRegression().fit(p, y)
    assert found.y == pytest.approx(fitted.predict(found.x), abs=1e-12)
    # between the ends of its steps it is constant, so the points say all
    inside = np.interp(p, found.x, found.y)
    assert inside == pytest.approx(fitted.predict(p), abs=1e-12)
    steps = {(left, right): n for left, right, n in zip(found.left, found.right, found.n_images, strict=True)}
    assert sum(steps.values()) == len(p)
    for (left, right), n in steps.items():
        assert n == ((left <= p) & (p <= right)).sum()


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.integers(1, 120), st.sampled_from([3, 15, 60, 1000]))
def test_curves_show_the_metrics(seed: int, n: int, levels: int) -> None:
    p, y = binary(seed, n, levels)
    found = curves(p, y)
    for kind, value in (("equal-mass", metrics.ece(p, y)), ("equal-width", metrics.ece_width(p, y, bins=15))):
        curve = found[kind]
        assert curve.n_images.sum() == n
        assert len(curve.x) == value.bins_used
        assert (curve.n_images / n * np.abs(curve.y - curve.x)).sum() == pytest.approx(value.value, abs=1e-12)
    corp = found["corp"]
    recalibrated = np.interp(p, corp.x, corp.y)
    parts = metrics.corp(p, y)
    assert ((p - y) ** 2).mean() - ((recalibrated - y) ** 2).mean() == pytest.approx(parts.mcb, abs=1e-12)
    # the regression is the mean outcome in each of its steps, so mcb is also a mean squared distance and a rest
    assert ((recalibrated - y) ** 2).mean() == pytest.approx(parts.unc - parts.dsc, abs=1e-12)


def test_a_printed_precision_keeps_a_probability_in_its_bin() -> None:
    # 0.07 was printed with two decimals: it may have been 1/15 = 0.0667, the end of the first bin
    p, y = np.array([0.03, 0.07, 0.1]), np.array([0, 1, 0])
    assert curves(p, y)["equal-width"].n_images.tolist() == [1, 2]
    assert curves(p, y, precision="decimals:2")["equal-width"].n_images.tolist() == [2, 1]
    value = metrics.ece_width(p, y, bins=15, precision="decimals:2").value
    found = curves(p, y, precision="decimals:2")["equal-width"]
    assert (found.n_images / 3 * np.abs(found.y - found.x)).sum() == pytest.approx(value, abs=1e-15)


@pytest.mark.parametrize("precision", ["float16", "float32", "float64"])
def test_an_edge_stays_in_its_bin_whatever_its_type(precision: str) -> None:
    edges = (np.arange(1, 16) / 15).astype(precision).astype(np.float64)
    found = curves(edges, np.zeros(15), precision=precision)["equal-width"]
    assert found.n_images.tolist() == [1] * 15
    assert found.x == pytest.approx(edges, abs=0.0)


# Consistency bands


def test_bands_are_made_by_key_and_not_by_the_order_of_rows() -> None:
    p, y = binary(0)
    outcome = np.where(p > 0.5, y / 3, y)  # shared credit: sums depend on their order
    first = curves(p, outcome)
    again = np.random.default_rng(1).permutation(len(p))
    for kind, other in curves(p[again], outcome[again]).items():
        assert (other.lo.tobytes(), other.hi.tobytes()) == (first[kind].lo.tobytes(), first[kind].hi.tobytes())
        for name in ("x", "y", "n_images", "left", "right"):
            assert getattr(other, name) == pytest.approx(getattr(first[kind], name), abs=1e-12)
    for kind, other in curves(p, outcome, key="another").items():
        assert (other.lo != first[kind].lo).any()
        assert other.lo == pytest.approx(first[kind].lo, abs=0.2)


def test_bands_do_not_look_at_the_outcomes() -> None:
    p, y = binary(0)
    for kind in ("equal-width", "equal-mass"):
        one, other = curves(p, y)[kind], curves(p, 1 - y)[kind]
        assert (one.lo == other.lo).all()
        assert (one.hi == other.hi).all()


def test_a_band_is_binomial() -> None:
    # 2,000 images of probability 0.3: rate 0.3, standard error sqrt(0.3 x 0.7 / 2000) = 0.0102
    for curve in curves(np.full(2000, 0.3), np.zeros(2000)).values():
        assert curve.lo[0] == pytest.approx(0.3 - 1.96 * 0.01025, abs=0.006)
        assert curve.hi[0] == pytest.approx(0.3 + 1.96 * 0.01025, abs=0.006)


def test_bands_of_certain_probabilities_have_no_width() -> None:
    for curve in curves(np.repeat([0.0, 1.0], 5), np.repeat([1, 0], 5)).values():
        if curve.kind != "corp":
            assert (curve.lo.tolist(), curve.hi.tolist()) == ([0.0, 1.0], [0.0, 1.0])


def test_bands_hold_calibrated_outcomes_and_the_diagonal() -> None:
    held: dict[str, list[bool]] = {"equal-width": [], "equal-mass": [], "corp": []}
    diagonal: dict[str, list[bool]] = {"equal-width": [], "equal-mass": [], "corp": []}
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.beta(0.8, 1.2, 1500)
        for kind, curve in curves(p, rng.random(1500) < p, key=str(seed)).items():
            held[kind] += ((curve.lo <= curve.y) & (curve.y <= curve.hi)).tolist()
            diagonal[kind] += ((curve.lo <= curve.x) & (curve.x <= curve.hi)).tolist()
    for kind in ("equal-width", "equal-mass"):
        assert 0.92 <= np.mean(held[kind]) <= 0.97, kind
        assert np.mean(diagonal[kind]) >= 0.999, kind
    # the steps are chosen by the outcomes, so theirs is a looser promise
    assert 0.88 <= np.mean(held["corp"]) <= 0.99
    assert np.mean(diagonal["corp"]) >= 0.95


def test_bands_do_not_hold_what_is_not_calibrated() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(3000)
    for curve in curves(p, rng.random(3000) < 0.25 + p / 2).values():
        out = (curve.y < curve.lo) | (curve.y > curve.hi)
        ends = (curve.x < 0.3) | (curve.x > 0.7)
        assert out[ends].mean() >= 0.9, curve.kind
        assert (curve.y > curve.hi)[curve.x < 0.3].mean() >= 0.9
        assert (curve.y < curve.lo)[curve.x > 0.7].mean() >= 0.9


# Decisions and selection


@pytest.mark.parametrize("seed", range(3))
def test_decision_curves_are_net_benefits(seed: int) -> None:
    p, y = binary(seed, levels=100)  # probabilities lie on the thresholds
    (found,) = decision(p, y, class_="c", reading="positive class")
    assert (found.kind, found.class_, found.reading) == ("decision", "c", "positive class")
    assert_sound(found)
    assert found.x.tolist() == [t / 100 for t in range(1, 100)]
    for t, model, everyone, nobody in zip(found.x, found.y, found.lo, found.hi, strict=True):
        wanted = metrics.net_benefit(p, y, threshold=float(t))
        assert (model, everyone, nobody) == pytest.approx(wanted[:3], abs=1e-12)
    assert (found.n_images == len(p)).all()
    assert np.isnan([found.left, found.right]).all()


def test_decision_curves_by_hand() -> None:
    (found,) = decision(np.array([0.2, 0.5, 0.5, 0.9]), np.array([0, 0, 1, 1]), class_=None, reading="positive class")
    at = {t: i for i, t in enumerate(found.x.tolist())}
    # at one half odds are 1: two right, one wrong of four; just above it one right; treating all: two for two
    assert found.y[at[0.5]] == 0.25
    assert found.y[at[0.51]] == 0.25
    assert found.lo[at[0.5]] == 0.0
    assert found.y[at[0.2]] == pytest.approx((2 - 0.25 * 2) / 4)
    assert found.y[at[0.91]] == 0.0
    assert (found.hi == 0.0).all()


@pytest.mark.parametrize("seed", range(3))
def test_risk_coverage_curves_are_risks_at_coverages(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), 150).round(1 + seed)
    p[:, 0] += 1.0 - p.sum(axis=1)
    p = np.clip(p, 0.0, 1.0)
    y = rng.integers(0, 3, 150)
    (found,) = risk_coverage(*top_label(p, y), class_=None)
    assert (found.kind, found.reading) == ("risk-coverage", "top-label")
    assert_sound(found)
    assert found.x.tolist() == [c / 100 for c in range(1, 101)]
    wanted = metrics.risk_at_coverage(p, y, coverages=found.x.tolist())
    assert found.y == pytest.approx(np.array(wanted.risks), abs=1e-15)
    assert found.y[-1] == pytest.approx(1.0 - metrics.accuracy(p, y), abs=1e-15)
    assert (found.n_images == 150).all()
    assert np.isnan([found.lo, found.hi, found.left, found.right]).all()


def test_equal_confidence_enters_together() -> None:
    # one sure and right, then three tied of which one is right
    (found,) = risk_coverage(np.array([0.9, 0.6, 0.6, 0.6]), np.array([1.0, 0.0, 1.0, 0.0]), class_=None)
    assert found.y[:25].tolist() == [0.0] * 25
    assert found.y[25:].tolist() == [0.5] * 75


# All curves of a run


def what(found: list[Curve]) -> list[tuple[str, str | None, str]]:
    return [(curve.kind, curve.class_, curve.reading) for curve in found]


def three(class_: str | None, reading: str) -> list[tuple[str, str | None, str]]:
    return [(kind, class_, reading) for kind in ("equal-width", "equal-mass", "corp")]


def test_curves_of_a_binary_task() -> None:
    p, y = binary(0)
    found = curves_of("binary", NAMES["binary"], p[:, None], y, key="k")
    positive = "positive class"
    assert what(found) == [*three(None, positive), ("decision", None, positive), ("risk-coverage", None, "top-label")]
    assert repr(found[:3]) == repr(
        reliability(p, y.astype(np.float64), class_=None, reading=positive, key="k", cell=width_bins(p, BINS))
    )
    assert found[-1].y[-1] == pytest.approx(1.0 - metrics.accuracy(p, y), abs=1e-15)


def test_curves_of_a_multiclass_task_also_of_an_absent_class() -> None:
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(3), 80), rng.integers(0, 2, 80)
    found = curves_of("multiclass", NAMES["multiclass"], p, y, key="k")
    classes = [one for name in "abc" for one in three(name, "class-wise")]
    assert what(found) == [*three(None, "top-label"), ("risk-coverage", None, "top-label"), *classes]
    for curve in found:
        assert_sound(curve)
    top, absent = found[1], found[-3:]
    gap = (top.n_images / 80 * np.abs(top.y - top.x)).sum()
    assert gap == pytest.approx(metrics.ece(p, y).value, abs=1e-12)
    for curve in absent:
        assert curve.class_ == "c"
        assert (curve.y == 0.0).all()
        assert (curve.hi > 0.0).any()
    for k, name in enumerate("abc"):
        own = next(curve for curve in found if (curve.kind, curve.class_) == ("equal-mass", name))
        wanted = metrics.classwise_ece(p, y).per_class[k].value
        assert (own.n_images / 80 * np.abs(own.y - own.x)).sum() == pytest.approx(wanted, abs=1e-12)


def test_curves_of_a_multilabel_task_leave_out_what_is_not_labelled() -> None:
    rng = np.random.default_rng(0)
    p, y = rng.random((90, 3)), rng.integers(-1, 2, (90, 3))
    y[:, 2] = -1
    found = curves_of("multilabel", NAMES["multilabel"], p, y, key="k")
    expected = [
        one
        for name in "ab"
        for one in (
            *three(name, "positive class"),
            ("decision", name, "positive class"),
            ("risk-coverage", name, "top-label"),
        )
    ]
    assert what(found) == expected
    labelled = y[:, 1] != -1
    own = {curve.kind: curve for curve in found if curve.class_ == "b"}
    assert own["equal-mass"].n_images.sum() == labelled.sum()
    gap = (own["equal-mass"].n_images / labelled.sum() * np.abs(own["equal-mass"].y - own["equal-mass"].x)).sum()
    assert gap == pytest.approx(metrics.ece(p[labelled, 1], y[labelled, 1]).value, abs=1e-12)
    assert own["decision"].y[49] == pytest.approx(
        metrics.net_benefit(p[labelled, 1], y[labelled, 1], threshold=0.5).model, abs=1e-12
    )


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_each_column_has_its_own_precision(kind: TaskKind) -> None:
    columns = 1 if kind == "binary" else 3
    p = np.tile(np.array([[0.03], [0.07], [0.1]]), (1, columns))
    y = np.zeros(3 if kind == "binary" else (3, 3), dtype=np.int64)
    stored = ("decimals:2", "float64", "float32")[:columns]
    found = curves_of(kind, NAMES[kind], p, y, key="k", precision=stored)
    widths = [curve.n_images.tolist() for curve in found if curve.kind == "equal-width"]
    assert widths == [[2, 1], [1, 2], [1, 2]][:columns]


def test_each_class_has_its_own_precision() -> None:
    # 0.07, printed with two decimals, may have been 1/15: the end of the first bin, where 0.03 is
    p = np.array([[0.03, 0.07, 0.9], [0.07, 0.03, 0.9], [0.86, 0.07, 0.07]])
    stored = ("float64", "decimals:2", "float64")
    found = curves_of("multiclass", NAMES["multiclass"], p, np.array([2, 2, 0]), key="k", precision=stored)
    widths = {curve.class_: curve.n_images.tolist() for curve in found[4:] if curve.kind == "equal-width"}
    assert widths == {"a": [1, 1, 1], "b": [3], "c": [1, 2]}


def test_precision_of_a_multiclass_task() -> None:
    p = np.array([[0.47, 0.43, 0.1], [0.45, 0.5, 0.05]])
    y = np.array([0, 1])
    # 0.47 with two decimals may be 7/15 = 0.4667, the end of the seventh bin; 0.5 is inside the eighth
    exact, printed = (
        curves_of("multiclass", NAMES["multiclass"], p, y, key="k", precision=(stored,) * 3)[0]
        for stored in ("float64", "decimals:2")
    )
    assert exact.n_images.tolist() == [2]
    assert printed.n_images.tolist() == [1, 1]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_curves_check_what_they_are_given(kind: TaskKind) -> None:
    columns = 1 if kind == "binary" else 3
    y = np.zeros((2, 3) if kind == "multilabel" else 2, dtype=np.int64)
    for bad in (np.nan, 1.5, -0.1):
        with pytest.raises(ValueError, match="outside"):
            curves_of(kind, NAMES[kind], np.full((2, columns), bad), y, key="k")


def test_top_label_curve_and_metric_share_the_precision_of_the_winning_column() -> None:
    p = np.array([[0.47, 0.43, 0.1], [0.45, 0.5, 0.05], [0.44, 0.36, 0.2]])
    stored = ("float64", "decimals:2", "float64")
    y = np.array([0, 1, 1])
    curve = curves_of("multiclass", ("a", "b", "c"), p, y, key="k", precision=stored)[0]
    plan = plan_for("multiclass", ("a", "b", "c"), p, y, np.arange(3), 3, precision=stored, families=("width",))
    value = next(one.value for one in plan.points() if one.metric == "ece_width15")
    assert np.sum(curve.n_images / 3 * np.abs(curve.y - curve.x)) == pytest.approx(value, abs=1e-12)
