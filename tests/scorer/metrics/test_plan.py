"""Plans: the metrics of each kind of task in order, and that they are the public functions under patients' weights."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pytest

from protocol.catalogue import COVERAGES, catalogue
from protocol.types import Kind
from scorer import metrics as m
from scorer.bootstrap import BLOCK, draws_for, left_out, replicates
from scorer.metrics.arrays import Floats, Indices, Ints
from scorer.metrics.binned import WIDTH_BINS
from scorer.metrics.plan import Plan, Point
from scorer.metrics.sets import FAMILIES, family_of

THRESHOLDS = (0.2, 0.5)
NONE = float("nan")
PRESENT = "_present"

Key = tuple[str, str | None, int | None, float | None]  # metric, class, bins, threshold or coverage
Row = tuple[float, int | None]  # value, bins used


class Task(NamedTuple):
    """A set of images of ``patients`` patients."""

    kind: Kind
    p: Floats
    y: Ints
    patient: Indices
    patients: int

    @property
    def classes(self) -> list[str]:
        return ["no", "yes"] if self.kind == "binary" else list("abcdefghijklmnopqrstuvwxyz")[: self.p.shape[1]]

    def plan(self, *, families: tuple[str, ...] = FAMILIES, precision: tuple[str, ...] = ()) -> Plan:
        return m.plan_for(
            self.kind, self.classes, self.p, self.y, self.patient, self.patients,
            thresholds=THRESHOLDS, ordinal=True, families=families, precision=precision,
        )  # fmt: skip

    def gathered(self, weights: Floats) -> "Task":
        """The images of the patients drawn, as often as they were drawn."""
        rows = np.repeat(np.arange(len(self.p)), weights[self.patient].astype(np.int64))
        return self._replace(p=self.p[rows], y=self.y[rows], patient=self.patient[rows])


def task(kind: Kind, seed: int, *, n: int = 40, k: int = 3, levels: int = 8, patients: int = 12) -> Task:
    rng = np.random.default_rng(seed)
    patient = rng.integers(0, patients, n)
    if kind == "binary":
        return Task(kind, rng.integers(0, levels + 1, (n, 1)) / levels, rng.integers(0, 2, n), patient, patients)
    if kind == "multilabel":
        return Task(kind, rng.integers(0, levels + 1, (n, k)) / levels, rng.integers(-1, 2, (n, k)), patient, patients)
    raw = rng.integers(0, levels, (n, k)).astype(np.float64)
    raw[raw.sum(axis=1) == 0] = 1.0
    return Task(kind, raw / raw.sum(axis=1, keepdims=True), rng.integers(0, k, n), patient, patients)


# What a plan must hold, from the public functions.


def errors(p: Floats, y: Ints) -> Iterator[tuple[str, int | None, float | None, Row]]:
    """Binned and smooth errors in the headline reading, and selective risks."""
    for name, of in (("ece", m.ece), ("ace", m.ace)):
        yield name, 15, None, of(p, y)[:2]
    debiased = m.ece_debiased(p, y)
    yield "ece_debiased", 15, None, (debiased.value, debiased.bins_used)
    yield "ece_debiased_squared", 15, None, (debiased.squared, debiased.bins_used)
    for bins in (10, 15, 20):
        yield f"ece_width{bins}", bins, None, m.ece_width(p, y, bins=bins)[:2]
    for bins in (10, 20):
        yield "mce_weighted", bins, None, m.mce_weighted(p, y, bins=bins)[:2]
    yield "mce", 20, None, m.mce(p, y)[:2]
    yield "wsece", 20, None, m.wsece(p, y)[:2]
    yield "smooth_ece", None, None, (m.smooth_ece(p, y).value, None)
    yield "aurc", None, None, (m.aurc(p, y).value, None)
    for coverage, risk in zip(COVERAGES, m.risk_at_coverage(p, y).risks, strict=True):
        yield "risk_at_coverage", None, coverage, (risk, None)


def of_one_class(p: Floats, y: Ints) -> Iterator[tuple[str, int | None, float | None, Row]]:
    used = m.ece(p, y).bins_used
    for part, value in m.murphy(p, y)._asdict().items():
        if part != "reason":
            yield f"murphy_{part}", 15, None, (value, used)
    line = m.recalibration_line(p, y)
    unbinned = {
        **m.corp(p, y)._asdict(),
        **m.ici(p, y)._asdict(),
        "citl": m.citl(p, y).value,
        "cal_intercept": line.intercept,
        "cal_slope": line.slope,
        "auroc": m.auroc(p, y).value,
        "auprc": m.auprc(p, y).value,
    }
    for name, value in unbinned.items():
        if name != "reason":
            yield name, None, None, (value, None)


def one_probability(p: Floats, y: Ints) -> Iterator[tuple[str, int | None, float | None, Row]]:
    yield "brier_binary", None, None, (m.brier_binary(p, y), None)
    yield "nll", None, None, (m.nll(p, y).value, None)
    yield "accuracy", None, None, (m.accuracy(p, y), None)
    yield "balanced_accuracy", None, None, (m.balanced_accuracy(p, y).macro.value, None)
    yield "f1", None, None, (m.f1_macro(p, y).per_class[1].value, None)
    yield "kappa_quadratic", None, None, (m.kappa_quadratic(p, y).value, None)
    for t in THRESHOLDS:
        benefit = m.net_benefit(p, y, threshold=t)
        yield "sensitivity", None, t, (m.sensitivity(p, y, threshold=t).value, None)
        yield "specificity", None, t, (m.specificity(p, y, threshold=t).value, None)
        yield "net_benefit", None, t, (benefit.model, None)
        yield "net_benefit_treat_all", None, t, (benefit.treat_all, None)
        yield "net_benefit_treat_none", None, t, (benefit.treat_none, None)
    yield from errors(p, y)
    yield from of_one_class(p, y)
    yield "ece_top", 15, None, m.ece_top(p, y)[:2]
    both = np.stack((1 - p, p), axis=1)
    yield "ece_width20_top", 20, None, m.ece_width(both, y, bins=WIDTH_BINS)[:2]
    yield "mce_top", 20, None, m.mce(both, y)[:2]


def public(case: Task) -> dict[Key, Row]:
    """Every metric of the task but the means over present classes."""
    found: dict[Key, Row] = {}
    if case.kind == "multilabel":
        for k, name in enumerate(case.classes):
            labelled = case.y[:, k] != -1
            for metric, bins, cutoff, row in one_probability(case.p[labelled, k], case.y[labelled, k]):
                found[metric, name, bins, cutoff] = row
        return found | macros(found, frozenset())
    if case.kind == "binary":
        p = case.p[:, 0]
        for metric, bins, cutoff, row in one_probability(p, case.y):
            found[metric, None, bins, cutoff] = row
        found["f1_macro", None, None, None] = (m.f1_macro(p, case.y).macro.value, None)
        return found | classwise(p, case)
    p, y = case.p, case.y
    found["brier", None, None, None] = (m.brier(p, y), None)
    found["nll", None, None, None] = (m.nll(p, y).value, None)
    found["accuracy", None, None, None] = (m.accuracy(p, y), None)
    found["kappa_quadratic", None, None, None] = (m.kappa_quadratic(p, y).value, None)
    for metric, bins, cutoff, row in errors(p, y):
        found[metric, None, bins, cutoff] = row
    for k, name in enumerate(case.classes):
        found["recall", name, None, None] = (m.balanced_accuracy(p, y).per_class[k].value, None)
        found["f1", name, None, None] = (m.f1_macro(p, y).per_class[k].value, None)
        found["brier_binary", name, None, None] = (m.brier_binary(p[:, k], y == k), None)
        for metric, bins, cutoff, row in of_one_class(p[:, k], (y == k).astype(np.int64)):
            found[metric, name, bins, cutoff] = row
    found |= macros(found, frozenset({"brier_binary"})) | classwise(p, case)
    found["balanced_accuracy", None, None, None] = found.pop(("recall_macro", None, None, None))
    return found


def classwise(p: Floats, case: Task) -> dict[Key, Row]:
    found: dict[Key, Row] = {}
    for metric, of in (("classwise_ece", m.classwise_ece), ("ace_nixon", m.ace_nixon)):
        result = of(p, case.y)
        found[metric, None, 15, None] = (result.value, None)
        for name, one in zip(case.classes, result.per_class, strict=True):
            found[metric, name, 15, None] = (one.value, one.bins_used)
    return found


def macros(found: dict[Key, Row], but: frozenset[str]) -> dict[Key, Row]:
    groups: dict[tuple[str, int | None, float | None], list[float]] = {}
    for (metric, name, bins, cutoff), (value, _) in found.items():
        if name is not None and metric not in but:
            groups.setdefault((metric, bins, cutoff), []).append(value)
    return {(f"{metric}_macro", None, bins, at): (float(np.mean(v)), None) for (metric, bins, at), v in groups.items()}


def key(point: Point) -> Key:
    return point.metric, point.class_, point.bins_asked, point.cutoff


SETS = [
    task("binary", 1),
    task("binary", 2, levels=1000, patients=40),
    task("binary", 3, n=6, patients=3),
    task("multiclass", 4),
    task("multiclass", 5, k=2),
    task("multiclass", 6, n=30, k=9, levels=1000),
    task("multiclass", 7, n=5, k=3, patients=2),
    task("multilabel", 8),
    task("multilabel", 9, n=8, k=2, patients=4),
]
NAMES = [f"{one.kind}, {len(one.p)} images, {one.p.shape[1]} columns" for one in SETS]
each_set = pytest.mark.parametrize("case", SETS, ids=NAMES)


@each_set
def test_point_values_are_those_of_the_public_functions(case: Task) -> None:
    points = [one for one in case.plan().points() if not one.metric.endswith(PRESENT)]
    wanted = public(case)
    assert {key(one) for one in points} == set(wanted)
    assert len(points) == len(wanted)
    for one in points:
        value, used = wanted[key(one)]
        assert one.value == pytest.approx(value, abs=1e-10, nan_ok=True), one
        assert one.bins_used == used, one


def draws(case: Task, seed: int, n: int) -> Floats:
    """Multinomial weights, the last ones with one patient, or with half of them, drawn over and over."""
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(case.patients, np.ones(case.patients) / case.patients, n).astype(np.float64)
    weights[-1] = 0.0
    weights[-1, case.patient[0]] = case.patients
    weights[-2, ::2] = 0.0
    return weights


@each_set
def test_weights_of_patients_are_gathered_rows(case: Task) -> None:
    # what the bootstrap relies on, for every metric, undefined ones too
    plan, weights = case.plan(), draws(case, 3, 8)
    points = plan.points()
    values, used = plan.evaluate(weights)
    assert values.shape == used.shape == (8, len(points))
    for d in range(8):
        wanted = public(case.gathered(weights[d]))
        for i, one in enumerate(points):
            if one.metric.endswith(PRESENT):
                continue
            value, bins = wanted[key(one)]
            # where classes separate the smooth curve of the ICI is a limit, reached up to 1e-7
            tolerance = 1e-6 if family_of(one.metric) == "spline" else 1e-9
            assert values[d, i] == pytest.approx(value, abs=tolerance, rel=tolerance, nan_ok=True), (d, one)
            if bins is not None:
                assert used[d, i] == bins, (d, one)


@each_set
def test_means_over_present_classes_keep_their_classes_in_every_resample(case: Task) -> None:
    plan, weights = case.plan(), draws(case, 4, 8)
    points = plan.points()
    values, _ = plan.evaluate(weights)
    for i, one in enumerate(points):
        if not one.metric.endswith(PRESENT):
            continue
        stem = one.metric.removesuffix(PRESENT).removesuffix("_macro").replace("balanced_accuracy", "recall")
        stem = "balanced_accuracy" if stem == "recall" and case.kind == "multilabel" else stem
        members = [
            j
            for j, part in enumerate(points)
            if key(part)[2:] == key(one)[2:] and part.metric == stem and part.class_ and part.reason is None
        ]
        wanted = values[:, members].mean(axis=1) if members else np.full(8, NONE)
        assert values[:, i] == pytest.approx(wanted, abs=1e-13, nan_ok=True), one
        assert one.value == pytest.approx(
            float(np.mean([points[j].value for j in members])) if members else NONE, abs=1e-13, nan_ok=True
        )


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_patient_with_most_of_the_images(kind: Kind, share: float) -> None:
    case = task(kind, 11, n=100, patients=3)
    own = int(100 * share)
    case = case._replace(patient=np.array([0] * own + [1 + i % 2 for i in range(100 - own)]))
    plan = case.plan()
    points = plan.points()
    for weights in ([0.0, 3.0, 0.0], [1.0, 0.0, 2.0], [3.0, 0.0, 0.0]):
        values = plan.evaluate(np.array([weights]))[0][0]
        wanted = public(case.gathered(np.array(weights)))
        for i, one in enumerate(points):
            if not one.metric.endswith(PRESENT):
                tolerance = 1e-6 if family_of(one.metric) == "spline" else 1e-9
                assert values[i] == pytest.approx(wanted[key(one)][0], abs=tolerance, rel=tolerance, nan_ok=True), one


@each_set
def test_undefined_has_a_reason_and_a_number_has_none(case: Task) -> None:
    for one in case.plan().points():
        assert np.isnan(one.value) == (one.reason is not None), one


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("patients", [0, 2])
def test_no_images(kind: Kind, patients: int) -> None:
    plan = task(kind, 0, n=0, patients=max(patients, 1))._replace(patients=patients).plan()
    points = plan.points()
    assert len(points) > 50
    for one in points:
        assert np.isnan(one.value), one
        assert one.reason is not None, one
        assert (one.n_images, one.n_patients) == (0, 0)
        assert one.bins_used in (None, 0)
    assert np.isnan(plan.evaluate(np.ones((3, patients)))[0]).all()


@each_set
def test_a_resample_without_images_is_undefined_throughout(case: Task) -> None:
    values, used = case.plan().evaluate(np.zeros((2, case.patients)))
    assert np.isnan(values).all()
    assert not used.any()


# Bits.


@pytest.mark.parametrize("case", [*SETS, task("multiclass", 21, n=60, k=17, levels=1000)])
def test_a_resample_has_the_same_bits_in_any_company(case: Task) -> None:
    plan, weights = case.plan(), draws(case, 5, 40)
    weights[0] = 1.0
    together, used = plan.evaluate(weights)
    for d in range(40):
        alone, own = plan.evaluate(weights[d : d + 1])
        assert np.array_equal(alone[0], together[d], equal_nan=True)
        assert np.array_equal(own[0], used[d])
    assert np.array_equal(together[0], [one.value for one in plan.points()], equal_nan=True)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_threads_change_no_bit(kind: Kind) -> None:
    # blocks of draws are shared out; several plans at once, as for several seeds
    cases = [task(kind, seed, n=80, patients=20) for seed in (1, 2)]
    cases[1] = cases[1]._replace(y=cases[0].y, patient=cases[0].patient)
    shared = draws_for("key", "split", "test", patients=20, resamples=2 * BLOCK + 6)
    one, two, again = (replicates([case.plan() for case in cases], shared, workers=n) for n in (1, 2, 2))
    assert one.shape[:2] == (2, 2 * BLOCK + 6)
    assert np.array_equal(one, two, equal_nan=True)
    assert np.array_equal(two, again, equal_nan=True)
    left = [left_out([case.plan() for case in cases], 20, workers=n) for n in (1, 2)]
    assert np.array_equal(left[0], left[1], equal_nan=True)


@each_set
def test_a_family_alone_has_the_same_values(case: Task) -> None:
    full = {(one.metric, *key(one), one.reading): one for one in case.plan().points()}
    seen = 0
    for family in FAMILIES:
        part = case.plan(families=(family,))
        for one in part.points():
            assert family_of(one.metric) == family
            assert str(one) == str(full[(one.metric, *key(one), one.reading)])
            seen += 1
    assert seen == len(full)


@each_set
def test_costly_and_cheap_metrics_can_be_evaluated_apart(case: Task) -> None:
    plan, weights = case.plan(), draws(case, 6, 5)
    both, (cheap, _), (costly, _) = (
        plan.evaluate(weights)[0], plan.evaluate(weights, costly=False), plan.evaluate(weights, cheap=False),
    )  # fmt: skip
    mask = plan.costly
    assert np.array_equal(cheap[:, ~mask], both[:, ~mask], equal_nan=True)
    assert np.array_equal(costly[:, mask], both[:, mask], equal_nan=True)
    assert np.isnan(cheap[:, mask]).all()
    assert {one.metric.partition("_macro")[0] for one in plan.points() if one.costly} == {
        "smooth_ece", "citl", "cal_intercept", "cal_slope", "ici", "e50", "e90", "emax",
    }  # fmt: skip


# Names, classes and readings, in order.

POSITIVE, PER_CLASS, TOP = "positive class", "class-wise", "top-label"
Name = tuple[str, str | None, str | None, int | None, float | None]  # metric, class, reading, bins, cutoff


def headline(reading: str) -> list[tuple[str, str, int]]:
    """Equal-width errors."""
    names = (
        ("ece_width10", 10), ("mce_weighted", 10), ("ece_width15", 15), ("ece_width20", 20), ("mce", 20),
        ("mce_weighted", 20),
    )  # fmt: skip
    return [*((name, reading, bins) for name, bins in names), ("wsece", TOP, 20)]


def problem(name: str | None) -> list[Name]:
    """The metrics of one probability."""
    rates = ("sensitivity", "specificity", "net_benefit", "net_benefit_treat_all", "net_benefit_treat_none")
    mass = (
        "ece", "ace", "ece_debiased", "ece_debiased_squared",
        "murphy_rel", "murphy_res", "murphy_unc", "murphy_wbv", "murphy_wbc",
    )  # fmt: skip
    fits = ("smooth_ece", "citl", "cal_intercept", "cal_slope", "ici", "e50", "e90", "emax")
    return [
        *((metric, name, None, None, None) for metric in ("brier_binary", "nll", "accuracy", "balanced_accuracy")),
        ("f1", name, POSITIVE, None, None),
        ("kappa_quadratic", name, None, None, None),
        *((metric, name, POSITIVE, None, t) for t in THRESHOLDS for metric in rates),
        *((metric, name, POSITIVE, 15, None) for metric in mass),
        ("ece_top", name, TOP, 15, None),
        *((metric, name, reading, bins, None) for metric, reading, bins in headline(POSITIVE)),
        ("ece_width20_top", name, TOP, 20, None),
        ("mce_top", name, TOP, 20, None),
        *((metric, name, POSITIVE, None, None) for metric in ("mcb", "dsc", "unc", "auroc", "auprc")),
        ("aurc", name, TOP, None, None),
        *(("risk_at_coverage", name, TOP, None, coverage) for coverage in (0.9, 0.8, 0.5)),
        *((metric, name, POSITIVE, None, None) for metric in fits),
    ]


def means(rows: list[Name]) -> list[Name]:
    ends = ("_macro", "_macro_present")
    return [(metric + end, None, reading, bins, at) for metric, _, reading, bins, at in rows for end in ends]


def names(plan: Plan) -> list[Name]:
    return [(one.metric, one.class_, one.reading, one.bins_asked, one.cutoff) for one in plan.points()]


def test_names_of_a_binary_task() -> None:
    sides = [
        (metric, name, PER_CLASS, 15, None) for name in ("no", "yes", None) for metric in ("classwise_ece", "ace_nixon")
    ]
    assert names(task("binary", 1).plan()) == [*problem(None), ("f1_macro", None, PER_CLASS, None, None), *sides]


def test_names_of_a_multilabel_task() -> None:
    assert names(task("multilabel", 1).plan()) == [*problem("a"), *problem("b"), *problem("c"), *means(problem(None))]


def test_names_of_a_multiclass_task() -> None:
    mass = ("classwise_ece", "ace_nixon", "murphy_rel", "murphy_res", "murphy_unc", "murphy_wbv", "murphy_wbc")
    plain = (
        "mcb", "dsc", "unc", "auroc", "auprc", "citl", "cal_intercept", "cal_slope", "ici", "e50", "e90", "emax",
    )  # fmt: skip

    def of_class(name: str | None) -> list[Name]:
        return [
            *((metric, name, PER_CLASS, 15, None) for metric in mass),
            *((metric, name, PER_CLASS, None, None) for metric in plain),
        ]

    assert names(task("multiclass", 1).plan()) == [
        *((metric, None, None, None, None) for metric in ("brier", "nll", "accuracy", "kappa_quadratic")),
        *((metric, None, TOP, 15, None) for metric in ("ece", "ace", "ece_debiased", "ece_debiased_squared")),
        *((metric, None, reading, bins, None) for metric, reading, bins in headline(TOP)),
        ("aurc", None, TOP, None, None),
        *(("risk_at_coverage", None, TOP, None, coverage) for coverage in (0.9, 0.8, 0.5)),
        ("smooth_ece", None, TOP, None, None),
        *((metric, name, PER_CLASS, None, None) for metric in ("recall", "f1") for name in "abc"),
        *(row for name in "abc" for row in [("brier_binary", name, PER_CLASS, None, None), *of_class(name)]),
        ("balanced_accuracy", None, PER_CLASS, None, None),
        ("balanced_accuracy_present", None, PER_CLASS, None, None),
        *means([("f1", None, PER_CLASS, None, None)]),
        # means by definition, which keep their name
        ("classwise_ece", None, PER_CLASS, 15, None),
        ("ace_nixon", None, PER_CLASS, 15, None),
        *means(of_class(None)[2:]),
    ]


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_the_catalogue_has_these_metrics(kind: Kind) -> None:
    plan = task(kind, 1).plan()
    found = {one.metric for one in plan.points() if not one.metric.endswith(PRESENT)}
    known = catalogue(kind)
    assert found == set(known)
    for one in plan.points():
        if one.metric in known:
            assert one.reading == known[one.metric].reading, one
            assert one.bins_asked in (known[one.metric].bins or (None,)), one
            assert (one.cutoff is not None) == (known[one.metric].cutoff is not None), one


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_task_that_is_not_ordinal_and_has_no_threshold(kind: Kind) -> None:
    case = task(kind, 1)
    plan = m.plan_for(kind, case.classes, case.p, case.y, case.patient, case.patients)
    left = [
        row
        for row in names(case.plan())
        if not row[0].startswith(("kappa", "sensitivity", "specificity", "net_benefit"))
    ]
    assert names(plan) == left


# What a point tells beside its value.


def test_counts_of_a_point() -> None:
    # four images of three patients, one event
    p, y, patient = np.array([[0.1], [0.2], [0.9], [0.0]]), np.array([0, 0, 1, 0]), np.array([0, 0, 1, 2])
    plan = m.plan_for("binary", ["no", "yes"], p, y, patient, 3)
    points = {(one.metric, one.class_): one for one in plan.points()}
    whole = points["brier_binary", None]
    assert (whole.n_images, whole.n_patients, whole.n_events, whole.resamplable) == (4, 3, 1, True)
    assert points["classwise_ece", "no"].n_events == 3
    assert points["classwise_ece", None].n_events is None
    assert plan.floored == [(None, 0)]
    assert plan.clipped == [(None, 1)]


def test_findings_count_their_own_labels() -> None:
    p = np.array([[0.1, 0.0], [1.0, 0.5], [0.3, 0.5]])
    y = np.array([[1, -1], [0, 1], [-1, -1]])
    plan = m.plan_for("multilabel", ["a", "b"], p, y, np.array([0, 1, 1]), 2)
    points = {(one.metric, one.class_): one for one in plan.points()}
    a, b, mean = points["nll", "a"], points["nll", "b"], points["nll_macro", None]
    assert (a.n_images, a.n_patients, a.n_events, a.resamplable) == (2, 2, 1, True)
    assert (b.n_images, b.n_patients, b.n_events, b.resamplable) == (1, 1, 1, False)
    # the mean cannot be resampled where a part cannot
    assert (mean.n_images, mean.n_patients, mean.n_events, mean.resamplable) == (3, 2, None, False)
    assert mean.value == pytest.approx((a.value + b.value) / 2, abs=1e-15)
    # 1.0 against label 0 is at the floor and at the clip of the logit
    assert plan.floored == [("a", 1), ("b", 0)]
    assert plan.clipped == [("a", 1), ("b", 0)]


def test_a_finding_that_nobody_labelled() -> None:
    p, y = np.array([[0.1, 0.2], [0.7, 0.6]]), np.array([[0, -1], [1, -1]])
    points = {
        (one.metric, one.class_): one for one in m.plan_for("multilabel", ["a", "b"], p, y, np.arange(2), 2).points()
    }
    assert points["ece", "b"].reason == "no images (or none of positive weight)"
    assert points["ece_macro", None].reason == "undefined for class b"
    assert points["ece_macro_present", None].value == points["ece", "a"].value


def test_reasons_name_the_classes() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]])
    points = {
        (one.metric, one.class_): one
        for one in m.plan_for("multiclass", list("abc"), p, np.array([0, 1, 1, 0]), np.arange(4), 4).points()
    }
    separated = "no finite fit: the probability separates the class from the rest"
    assert points["auroc", "c"].reason == "no image of the class"
    assert points["auroc_macro", None].reason == "undefined for class c"
    assert points["auroc_macro_present", None].value == 1.0
    assert points["cal_slope", "a"].reason == separated
    assert points["cal_slope_macro", None].reason == "undefined for class a, b, c"
    assert points["cal_slope_macro_present", None].reason == "undefined for every class"
    assert points["balanced_accuracy", None].reason == "undefined for class c"
    assert points["classwise_ece", None].reason is None


def test_each_column_is_snapped_by_its_own_precision() -> None:
    # .3 in single precision lies above 3/10, beyond the reach of float64's 1e-12
    single = float(np.float32(0.3))
    p = np.array([[single], [0.25]])
    y, classes = np.array([1, 0]), ["no", "yes"]

    def used(precision: tuple[str, ...]) -> int | None:
        plan = m.plan_for("binary", classes, p, y, np.arange(2), 2, precision=precision, families=["width"])
        return next(one.bins_used for one in plan.points() if one.metric == "ece_width10")

    assert used(("float32",)) == 1
    assert used(()) == used(("float64",)) == 2
    assert used(("decimals:2",)) == 1
    # multiclass: the column of the largest probability decides
    wide = np.array([[float(np.float32(0.6)), 0.4, 0.0], [0.55, 0.45, 0.0], [0.4, float(np.float32(0.6)), 0.0]])
    for precision, wanted in ((("float32",) * 3, 1), (("float64",) * 3, 2), (("float32", "float64", "float64"), 2)):
        plan = m.plan_for(
            "multiclass", list("abc"), wide, np.array([0, 0, 1]), np.arange(3), 3, precision=precision,
            families=["width"],
        )  # fmt: skip
        rows = {one.metric: one for one in plan.points()}
        assert rows["ece_width10"].bins_used == wanted


@pytest.mark.parametrize(
    ("kind", "p", "y"),
    [
        ("binary", (4, 2), (4,)),
        ("multiclass", (4, 2), (4,)),
        ("multiclass", (4, 3), (4, 3)),
        ("multilabel", (4, 3), (4,)),
        ("multilabel", (4, 3), (3, 3)),
    ],
)
def test_shapes_that_do_not_fit(kind: Kind, p: tuple[int, ...], y: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="do not fit"):
        m.plan_for(kind, list("abc"), np.full(p, 0.25), np.zeros(y, dtype=np.int64), np.arange(4), 4)


def test_one_class_is_no_task_unless_multilabel() -> None:
    p, y = np.full((4, 1), 0.25), np.zeros(4, dtype=np.int64)
    for kind in ("binary", "multiclass"):
        with pytest.raises(ValueError, match="do not fit"):
            m.plan_for("binary" if kind == "binary" else "multiclass", ["a"], p, y, np.arange(4), 4)
    assert m.plan_for("multilabel", ["a"], p, y[:, None], np.arange(4), 4).points()


def test_unknown_families_and_bad_values_are_refused() -> None:
    p, y = np.full((4, 1), 0.25), np.zeros(4, dtype=np.int64)
    with pytest.raises(ValueError, match="unknown families of metrics: bogus"):
        m.plan_for("binary", ["no", "yes"], p, y, np.arange(4), 4, families=["proper", "bogus"])
    p[2] = np.nan
    with pytest.raises(ValueError, match="row 2: p is NaN"):
        m.plan_for("binary", ["no", "yes"], p, y, np.arange(4), 4)
    with pytest.raises(ValueError, match="row 2: p is NaN"):
        m.plan_for("multilabel", ["a"], p, y[:, None], np.arange(4), 4)


def test_families_cover_all_metrics_and_no_others() -> None:
    assert family_of("ece_debiased_squared_macro_present") == family_of("ece_debiased_squared") == "mass"
    assert family_of("balanced_accuracy_present") == "decisions"
    with pytest.raises(KeyError):
        family_of("ece_sweep")
