"""Scoring: slices, seed means, undefined values and counts by hand; intervals from replicates; order of the input."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.types import Kind
from scorer import bootstrap, metrics
from scorer.bootstrap import COSTLY_DRAWS, draws_for
from scorer.intervals import Method, interval
from scorer.rows import Count, Curves, Replicates, Row, Run, Scores, Sinks
from scorer.scoring import Cohort, TaskSet, point_values, score, slices_of

Floats = NDArray[np.float64]
NAMES = {"binary": ["no", "yes"], "multiclass": ["a", "b", "c"], "multilabel": ["a", "b", "c"]}
KINDS: list[Kind] = ["binary", "multiclass", "multilabel"]
RUNS = [Run("m", 1, "none"), Run("m", 2, "none"), Run("m", 1, "ts"), Run("zs", 0, "none")]
COSTLY = {"citl", "cal_intercept", "cal_slope", "ici", "e50", "e90", "emax", "smooth_ece"}
SIMPLE = ("proper", "mass", "rank")  # families, where a few make the point


def full(kind: Kind) -> TaskSet:
    return TaskSet(kind, NAMES[kind], thresholds=(0.2, 0.5), ordinal=True)


def simple(kind: Kind, *families: str) -> TaskSet:
    return TaskSet(kind, NAMES[kind], families=families or SIMPLE)


def make(kind: Kind, n: int = 150, seed: int = 0) -> tuple[Cohort, dict[Run, Floats]]:
    """A cohort with ties in the probabilities, unequal patients, one external site and one subgroup column."""
    rng = np.random.default_rng(seed)
    external = rng.random(n) < 0.3
    if kind == "binary":
        labels = rng.integers(0, 2, n)
    elif kind == "multiclass":
        labels = rng.integers(0, 3, n)
    else:
        labels = rng.integers(-1, 2, (n, 3))
    cohort = Cohort(
        image_id=np.array([f"i{i:04d}" for i in rng.permutation(n)]),
        patient=np.array([f"p{i}" for i in (rng.integers(0, 40, n) ** 2) // 20]),
        split=np.where(external, "external", "test"),
        site=np.where(external, "north", "home"),
        labels=labels.astype(np.int64),
        subgroups={"sex": rng.choice(np.array(["f", "m", ""]), n)},
    )
    return cohort, {run: probabilities(kind, n, rng) for run in RUNS}


def probabilities(kind: Kind, n: int, rng: np.random.Generator) -> Floats:
    if kind == "multiclass":
        raw = rng.integers(1, 9, (n, 3)).astype(float)
        return np.asarray(raw / raw.sum(axis=1, keepdims=True))
    return rng.integers(0, 31, (n, 1 if kind == "binary" else 3)) / 30


def shuffled(cohort: Cohort, order: NDArray[np.intp]) -> Cohort:
    return Cohort(
        cohort.image_id[order],
        cohort.patient[order],
        cohort.split[order],
        cohort.site[order],
        cohort.labels[order],
        {name: levels[order] for name, levels in cohort.subgroups.items()},
    )


def run_all(
    task: TaskSet,
    cohort: Cohort,
    tables: dict[Run, Floats],
    resamples: int = 50,
    *,
    submission: str = "s",
    key: str = "k",
    level: float = 0.95,
    method: Method = "percentile",
    slices: list[tuple[str, str]] | None = None,
    sinks: Sinks | None = None,
    workers: int | None = None,
) -> Scores:
    return score(
        submission=submission,
        task=task,
        cohort=cohort,
        runs=list(tables),
        predictions=tables.__getitem__,
        key=key,
        resamples=resamples,
        level=level,
        method=method,
        slices=slices,
        sinks=sinks,
        workers=workers,
    )


class Kept:
    """Sinks that keep what they are given."""

    def __init__(self) -> None:
        self.replicates: list[Replicates] = []
        self.curves: list[Curves] = []
        self.sinks = Sinks(self.replicates.append, self.curves.append)


def tiny(y: list[int], patient: str, split: str = "test") -> Cohort:
    n = len(y)
    return Cohort(
        image_id=np.array([f"i{i}" for i in range(n)]),
        patient=np.array(list(patient)),
        split=np.full(n, split),
        site=np.full(n, "home"),
        labels=np.array(y, dtype=np.int64),
        subgroups={},
    )


def pick(scores: Scores, **wanted: object) -> Row:
    found = [row for row in scores.rows if all(getattr(row, name) == value for name, value in wanted.items())]
    assert len(found) == 1, found
    return found[0]


def stem(metric: str) -> str:
    """The metric that a row is, or is a mean of."""
    return metric.removesuffix("_present").removesuffix("_macro")


def assert_explained(rows: tuple[Row, ...]) -> None:
    """A number, or a reason beside it, and a reason only there; limits in order; counts that can be."""
    assert rows
    for row in rows:
        undefined = [math.isnan(number) for number in (row.value, row.lo, row.hi)]
        assert any(undefined) == (row.reason is not None), row
        assert undefined[1] == undefined[2], row
        assert undefined[1] or not undefined[0], row
        assert undefined[1] or row.lo <= row.hi, row
        assert 0 <= row.n_undefined <= row.n_draws
        assert row.n_patients <= row.n_images
        assert row.n_events is None or 0 <= row.n_events <= row.n_images
        assert (row.bins_used is None) or (row.bins_asked is not None and 0 <= row.bins_used <= row.bins_asked)


def library(kind: Kind, p: Floats, y: NDArray[np.int64]) -> dict[tuple[str, str | None], float]:
    """Values by the public metric functions alone, by metric and class."""
    named: dict[tuple[str, str | None], float] = {}
    if kind == "multilabel":
        own = {name: finding(p[y[:, k] >= 0, k], y[y[:, k] >= 0, k]) for k, name in enumerate("abc")}
        for metric in own["a"]:
            named |= {(metric, name): values[metric] for name, values in own.items()}
            named[f"{metric}_macro", None] = float(np.mean([values[metric] for values in own.values()]))
        return named
    if kind == "binary":
        binned = metrics.classwise_ece(p[:, 0], y)
        named |= {(metric, None): value for metric, value in finding(p[:, 0], y).items()}
        named |= {("classwise_ece", name): one.value for name, one in zip(("no", "yes"), binned.per_class, strict=True)}
        return named | {("classwise_ece", None): binned.value}
    binned, ranked = metrics.classwise_ece(p, y), metrics.auroc_classwise(p, y)
    return {
        ("brier", None): metrics.brier(p, y),
        ("nll", None): metrics.nll(p, y).value,
        ("ece", None): metrics.ece(p, y).value,
        ("classwise_ece", None): binned.value,
        ("auroc_macro", None): ranked.macro.value,
        ("auroc_macro_present", None): ranked.macro_present.value,
        **{("classwise_ece", name): one.value for name, one in zip("abc", binned.per_class, strict=True)},
        **{("auroc", name): one.value for name, one in zip("abc", ranked.per_class, strict=True)},
        **{("brier_binary", name): metrics.brier_binary(p[:, k], y == k) for k, name in enumerate("abc")},
    }


def finding(p: Floats, y: NDArray[np.int64]) -> dict[str, float]:
    return {
        "brier_binary": metrics.brier_binary(p, y),
        "nll": metrics.nll(p, y).value,
        "ece": metrics.ece(p, y).value,
        "ece_top": metrics.ece_top(p, y).value,
        "auroc": metrics.auroc(p, y).value,
    }


# Values


@pytest.mark.parametrize("kind", KINDS)
def test_values_are_the_library_functions(kind: Kind) -> None:
    cohort, tables = make(kind)
    test = cohort.split == "test"
    p, y = tables[RUNS[3]][test], cohort.labels[test]
    rows = [r for r in run_all(simple(kind), cohort, tables, 2).rows if (r.model, r.slice_kind) == ("zs", "test")]
    found = {(row.metric, row.class_): row.value for row in rows}
    wanted = library(kind, p, y)
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_point_values_are_the_values_of_rows(kind: Kind) -> None:
    cohort, tables = make(kind)
    test = cohort.split == "test"
    rows = run_all(TaskSet(kind, NAMES[kind]), cohort, {RUNS[3]: tables[RUNS[3]]}, 2, slices=[("test", "all")]).rows
    points = point_values(kind, NAMES[kind], tables[RUNS[3]][test], cohort.labels[test])
    assert [row.value for row in rows] == pytest.approx([one.value for one in points], abs=1e-8, nan_ok=True)
    for row, one in zip(rows, points, strict=True):
        assert (row.metric, row.class_, row.reading) == (one.metric, one.class_, one.reading)
        assert (row.bins_asked, row.bins_used, row.cutoff) == (one.bins_asked, one.bins_used, one.cutoff)
        assert (row.n_images, row.n_events) == (one.n_images, one.n_events)


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_alone_gives_the_same_rows(kind: Kind) -> None:
    cohort, tables = make(kind, n=60)
    every, alone = full(kind), {RUNS[0]: tables[RUNS[0]]}
    whole = {repr(row) for row in run_all(every, cohort, alone, slices=[("test", "all")]).rows}
    parts: set[str] = set()
    for family in metrics.FAMILIES:
        task = replace(every, families=(family,))
        part = {repr(row) for row in run_all(task, cohort, alone, slices=[("test", "all")]).rows}
        assert part
        assert not part & parts
        parts |= part
    assert parts == whole


@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_thresholds_and_coverages_are_the_rows_cutoffs(kind: Kind) -> None:
    cohort, tables = make(kind)
    rows = run_all(full(kind), cohort, {RUNS[0]: tables[RUNS[0]]}, 5, slices=[("test", "all")]).rows
    cutoffs: dict[str, set[float | None]] = {}
    for row in rows:
        cutoffs.setdefault(stem(row.metric), set()).add(row.cutoff)
    benefits = ("net_benefit", "net_benefit_treat_all", "net_benefit_treat_none")
    with_cutoff = {name: {0.2, 0.5} for name in ("sensitivity", "specificity", *benefits)}
    assert {name: found for name, found in cutoffs.items() if found != {None}} == {
        **with_cutoff,
        "risk_at_coverage": {0.9, 0.8, 0.5},
    }
    test = cohort.split == "test"
    p, y = tables[RUNS[0]][test], cohort.labels[test]
    class_, labelled = (None, np.ones(len(p), bool)) if kind == "binary" else ("c", y[:, 2] != -1)
    own_p, own_y = (p[:, 0], y) if kind == "binary" else (p[labelled, 2], y[labelled, 2])
    for row in rows:
        if row.metric == "sensitivity" and row.class_ == class_:
            assert row.cutoff is not None
            wanted = metrics.sensitivity(own_p, own_y, threshold=row.cutoff)
            assert row.value == pytest.approx(wanted.value, abs=1e-15)
    without = run_all(TaskSet(kind, NAMES[kind]), cohort, {RUNS[0]: tables[RUNS[0]]}, 5).rows
    assert not {stem(row.metric) for row in without} & set(with_cutoff)


@pytest.mark.parametrize("kind", KINDS)
def test_kappa_is_for_ordinal_classes(kind: Kind) -> None:
    cohort, tables = make(kind)
    one = {RUNS[0]: tables[RUNS[0]]}
    for ordinal in (True, False):
        task = TaskSet(kind, NAMES[kind], ordinal=ordinal, families=("decisions",))
        named = {row.metric for row in run_all(task, cohort, one, 5).rows if "kappa" in row.metric}
        assert bool(named) == ordinal
    if kind == "multiclass":
        test = cohort.split == "test"
        row = pick(run_all(full(kind), cohort, one, 5), metric="kappa_quadratic", slice="all")
        wanted = metrics.kappa_quadratic(one[RUNS[0]][test], cohort.labels[test]).value
        assert row.value == pytest.approx(wanted, abs=1e-14)


def test_precision_is_that_of_the_column() -> None:
    # 0.304, printed with two decimals, may have been 0.3: the end of the third of ten bins, where 0.29 is
    cohort = tiny([0, 1, 1], "abc")
    p = np.array([[0.304], [0.29], [0.9]])
    for stored, bins in (("float64", 3), ("decimals:2", 2)):
        task = TaskSet("binary", NAMES["binary"], precision=(stored,), families=("width",))
        row = pick(run_all(task, cohort, {RUNS[0]: p}, 5), metric="ece_width10")
        assert row.bins_used == bins


# Order, threads and keys change nothing


@pytest.mark.parametrize(
    ("kind", "method"),
    [("binary", "bca"), ("binary", "percentile"), ("multiclass", "percentile"), ("multilabel", "percentile")],
)
def test_order_of_rows_runs_and_blocks_changes_no_bit(
    kind: Kind, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    cohort, tables = make(kind, n=60)
    del tables[RUNS[2]]
    first, second = Kept(), Kept()
    expected = run_all(full(kind), cohort, tables, 23, method=method, sinks=first.sinks, workers=1)
    again = np.random.default_rng(5).permutation(len(cohort.image_id))
    other_tables = {run: tables[run][again] for run in reversed(tables)}
    monkeypatch.setattr(bootstrap, "BLOCK", 10)
    other = run_all(full(kind), shuffled(cohort, again), other_tables, 23, method=method, sinks=second.sinks, workers=3)
    # repr tells every bit of a float apart and holds NaN equal to NaN
    assert repr(other) == repr(expected)
    assert [one.values.tobytes() for one in second.replicates] == [one.values.tobytes() for one in first.replicates]
    for one, two in zip(first.curves, second.curves, strict=True):
        assert repr(replace(one, curves=())) == repr(replace(two, curves=()))
        for a, b in zip(one.curves, two.curves, strict=True):
            assert [getattr(a, name).tobytes() for name in ("x", "y", "lo", "hi", "n_images")] == [
                getattr(b, name).tobytes() for name in ("x", "y", "lo", "hi", "n_images")
            ]


def test_the_number_of_threads_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "BLOCK", 4)
    cohort, tables = make("multiclass", n=60)
    runs = {RUNS[0]: tables[RUNS[0]], RUNS[1]: tables[RUNS[1]]}
    found = {
        repr(run_all(full("multiclass"), cohort, runs, 23, slices=[("test", "all")], workers=workers))
        for workers in (1, 2, 7, None)
    }
    assert len(found) == 1


def test_submissions_share_the_draws_of_a_slice() -> None:
    # the same predictions give the same interval beside other models, seeds and slices, under another submission's name
    cohort, tables = make("binary")
    mine, theirs, others = Kept(), Kept(), Kept()
    scores = run_all(full("binary"), cohort, tables, sinks=mine.sinks)
    alone = {Run("x", 9, "iso"): tables[RUNS[3]]}
    chosen = [("subgroup", "sex=m")]
    found = run_all(full("binary"), cohort, alone, submission="other", slices=chosen, sinks=theirs.sinks)
    rows = [r for r in scores.rows if (r.model, r.slice) == ("zs", "sex=m")]
    assert [repr((r.metric, r.value, r.lo, r.hi)) for r in found.rows] == [
        repr((r.metric, r.value, r.lo, r.hi)) for r in rows
    ]
    own = next(one for one in mine.replicates if (one.model, one.slice) == ("zs", "sex=m"))
    assert theirs.replicates[0].values.tobytes() == own.values.tobytes()
    run_all(full("binary"), cohort, alone, key="another", slices=chosen, sinks=others.sinks)
    assert others.replicates[0].values.tobytes() != own.values.tobytes()


# Slices


def test_slices_and_order_of_rows() -> None:
    cohort, tables = make("binary")
    slices = [("test", "all"), ("external", "north"), ("subgroup", "sex=f"), ("subgroup", "sex=m")]
    assert slices_of(cohort) == slices
    scores = run_all(simple("binary"), cohort, tables, 2)
    blocks = list(dict.fromkeys((r.model, r.calibrator, r.slice_kind, r.slice, r.seed) for r in scores.rows))
    assert blocks == [
        (model, calibrator, *one, seed)
        for model, calibrator, seeds in (("m", "none", "1 2 mean"), ("m", "ts", "1"), ("zs", "none", "0"))
        for one in slices
        for seed in seeds.split()
    ]
    women = pick(scores, slice="sex=f", model="zs", metric="brier_binary")
    kept = (cohort.split == "test") & (cohort.subgroups["sex"] == "f")
    assert women.value == pytest.approx(metrics.brier_binary(tables[RUNS[3]][kept, 0], cohort.labels[kept]), abs=1e-14)
    assert women.n_images == kept.sum()
    assert women.n_patients == len(set(cohort.patient[kept]))
    assert women.n_events == cohort.labels[kept].sum()


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_slice_is_undefined_throughout(kind: Kind) -> None:
    cohort, tables = make(kind)
    kept = Kept()
    methods: tuple[Method, ...] = ("percentile", "bca")
    for method in methods:
        scores = run_all(
            full(kind), cohort, tables, 5, method=method, slices=[("external", "nowhere")], sinks=kept.sinks
        )
        assert_explained(scores.rows)
        for row in scores.rows:
            assert math.isnan(row.value)
            assert (row.n_images, row.n_patients, row.n_undefined, row.n_draws) == (0, 0, 5, 5)
        assert not any(one.curves for one in kept.curves)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_a_slice_with_one_patient_has_values_but_no_intervals(kind: Kind, method: Method) -> None:
    cohort, tables = make(kind, n=60)
    alone = np.flatnonzero((cohort.patient == cohort.patient[cohort.split == "test"][0]) & (cohort.split == "test"))
    group = np.full(len(cohort.patient), "many")
    group[alone] = "one"
    slices = [("subgroup", "group=many"), ("subgroup", "group=one")]
    tables = {run: tables[run] for run in RUNS[:2]}
    found = run_all(full(kind), replace(cohort, subgroups={"group": group}), tables, 20, method=method, slices=slices)
    assert_explained(found.rows)
    rows = [row for row in found.rows if row.slice == "group=one"]
    assert {row.n_patients for row in rows if row.n_images} == {1}
    for row in rows:
        assert math.isnan(row.lo)
        assert math.isnan(row.value) or row.reason == "an interval needs at least two patients"
    assert any(math.isfinite(row.value) for row in rows)
    assert any(math.isfinite(row.lo) for row in found.rows if row.slice == "group=many")


def test_one_patient_has_no_interval() -> None:
    p = np.array([[0.2], [0.7], [0.9]])
    row = pick(run_all(simple("binary"), tiny([0, 1, 1], "aaa"), {RUNS[0]: p}), metric="ece")
    assert math.isfinite(row.value)
    assert math.isnan(row.lo)
    assert math.isnan(row.hi)
    assert row.reason == "an interval needs at least two patients"


@pytest.mark.parametrize("kind", KINDS)
def test_one_patient_who_owns_nearly_all_images(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    n = 400
    labels = rng.integers(0, 2, n) if kind == "binary" else rng.integers(0, 3, n)
    if kind == "multilabel":
        labels = rng.integers(-1, 2, (n, 3))
    cohort = replace(
        tiny([0] * n, "a" * n),
        image_id=np.array([f"i{i:03d}" for i in range(n)]),
        patient=np.array(["big"] * (n - 4) + list("bcde")),
        labels=labels.astype(np.int64),
    )
    p = probabilities(kind, n, rng)
    kept = Kept()
    found = run_all(full(kind), cohort, {RUNS[0]: p}, 300, sinks=kept.sinks)
    assert_explained(found.rows)
    brier = pick(
        found,
        metric="brier" if kind == "multiclass" else "brier_binary_macro" if kind == "multilabel" else "brier_binary",
    )
    assert brier.n_patients == 5
    assert brier.lo <= brier.value <= brier.hi
    if kind != "multilabel":
        # (4/5)^5 of the draws lack the big patient: those are of one to four images and far from the value
        values = kept.replicates[0].values[:, 0]
        near = np.abs(values - brier.value) < 0.02
        assert 1.0 - near.mean() == pytest.approx(0.8**5, abs=0.08)


# Intervals


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
@pytest.mark.parametrize("n", [6, 24])
def test_a_reason_stands_beside_every_nan_and_only_there(kind: Kind, method: Method, n: int) -> None:
    cohort, tables = make(kind, n=n, seed=4)
    slices = [("test", "all"), ("subgroup", "sex=f")]
    scores = run_all(full(kind), cohort, {run: tables[run] for run in RUNS[:2]}, 10, method=method, slices=slices)
    assert_explained(scores.rows)
    assert {row.method for row in scores.rows} == {method}


def test_interval_comes_from_the_slice_draws() -> None:
    cohort, tables = make("multiclass")
    found = run_all(simple("multiclass"), cohort, tables, 200)
    row = pick(found, model="zs", slice_kind="external", metric="brier")
    kept = np.flatnonzero(cohort.split == "external")
    units, patient = np.unique(cohort.patient[kept], return_inverse=True)
    weights = draws_for("k", "external", "north", patients=len(units), resamples=200).block(0, 200)
    p, y = tables[RUNS[3]][kept], cohort.labels[kept]
    values = [metrics.brier(p, y, draw[patient]) for draw in weights]
    assert (row.lo, row.hi) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=1e-12)
    assert (row.method, row.n_draws, row.n_undefined) == ("percentile", 200, 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("resamples", [30, 230])
def test_replicates_reproduce_every_interval(kind: Kind, resamples: int) -> None:
    cohort, tables = make(kind, n=60)
    kept = Kept()
    slices = slices_of(cohort)[:2]
    given = {run: tables[run] for run in RUNS[:2]}
    scores = run_all(full(kind), cohort, given, resamples, level=0.9, slices=slices, sinks=kept.sinks)
    assert scores.level == 0.9
    rows = iter(scores.rows)
    for made in kept.replicates:
        assert made.values.shape == (resamples, len(made.points))
        for point, values in zip(made.points, made.values.T, strict=True):
            row = next(rows)
            where = (row.model, row.seed, row.calibrator, row.slice_kind, row.slice)
            assert (made.model, made.seed, made.calibrator, made.slice_kind, made.slice) == where
            assert repr((row.metric, row.class_, row.value)) == repr((point.metric, point.class_, point.value))
            assert row.n_draws == (min(COSTLY_DRAWS, resamples) if stem(row.metric) in COSTLY else resamples)
            drawn = values[: row.n_draws]
            assert np.isnan(values[row.n_draws :]).all()
            assert row.n_undefined == np.isnan(drawn).sum()
            if row.reason is None:
                limits = np.quantile(drawn[~np.isnan(drawn)], [(1.0 - 0.9) / 2.0, (1.0 + 0.9) / 2.0])
                assert [row.lo, row.hi] == limits.tolist()
    assert next(rows, None) is None


@pytest.mark.parametrize("kind", KINDS)
def test_basic_and_bca_end_to_end(kind: Kind) -> None:
    cohort, tables = make(kind, n=80)
    one = {RUNS[0]: tables[RUNS[0]], RUNS[1]: tables[RUNS[1]]}
    everything = [("test", "all")]
    kept = Kept()
    plain = run_all(full(kind), cohort, one, 60, slices=everything, sinks=kept.sinks).rows
    basic, bca = (run_all(full(kind), cohort, one, 60, method=m, slices=everything).rows for m in ("basic", "bca"))
    drawn = np.concatenate([made.values.T for made in kept.replicates])
    moved = 0
    for row, reflected, corrected, values in zip(plain, basic, bca, drawn, strict=True):
        assert repr(row.value) == repr(reflected.value) == repr(corrected.value)
        assert (reflected.method, corrected.method) == ("basic", "bca")
        if row.reason is None:
            assert (reflected.lo, reflected.hi) == pytest.approx((2 * row.value - row.hi, 2 * row.value - row.lo))
        if corrected.reason is None:
            assert np.nanmin(values) <= corrected.lo <= corrected.hi <= np.nanmax(values)
            moved += (corrected.lo, corrected.hi) != (row.lo, row.hi)
        else:
            assert row.reason is not None or corrected.reason.startswith("bca: ")
    assert moved > len(plain) / 2


def test_bca_takes_the_values_with_each_patient_left_out() -> None:
    cohort, tables = make("binary", n=90)
    kept = Kept()
    everything = [("test", "all")]
    given = {run: tables[run] for run in RUNS[:2]}
    found = run_all(simple("binary"), cohort, given, 80, method="bca", slices=everything, sinks=kept.sinks)
    test = cohort.split == "test"
    y, patient = cohort.labels[test], cohort.patient[test]
    without = np.array(
        [
            [
                metrics.brier_binary(tables[run][test][patient != one, 0], y[patient != one])
                for one in np.unique(patient)
            ]
            for run in RUNS[:2]
        ]
    )
    for seed, left in (("1", without[0]), ("2", without[1]), ("mean", without.mean(axis=0))):
        row = pick(found, seed=seed, metric="brier_binary")
        (made,) = [one for one in kept.replicates if one.seed == seed]
        wanted = interval(made.values[:, 0], row.value, method="bca", left_out=left)
        assert wanted.reason is None
        assert (row.lo, row.hi) == pytest.approx((wanted.lo, wanted.hi), abs=1e-12)


@pytest.mark.parametrize("resamples", [3, 199, 201])
def test_costly_metrics_get_the_first_draws(resamples: int) -> None:
    cohort, tables = make("binary", n=60)
    task = simple("binary", "proper", "logistic", "spline", "smooth")
    rows = run_all(task, cohort, {RUNS[0]: tables[RUNS[0]]}, resamples, slices=[("test", "all")]).rows
    assert {row.metric: row.n_draws for row in rows} == {
        **dict.fromkeys(("brier_binary", "nll"), resamples),
        **dict.fromkeys(COSTLY, min(200, resamples)),
    }


# Seeds


def test_seed_mean_and_spread() -> None:
    cohort, tables = make("multiclass")
    scores = run_all(simple("multiclass"), cohort, tables, 100)
    where = {"model": "m", "calibrator": "none", "slice": "all", "metric": "ece"}
    one, two, mean = (pick(scores, seed=seed, **where) for seed in ("1", "2", "mean"))
    assert mean.value == (one.value + two.value) / 2
    units, patient = np.unique(cohort.patient[cohort.split == "test"], return_inverse=True)
    weights = draws_for("k", "test", "all", patients=len(units), resamples=100).block(0, 100)
    y = cohort.labels[cohort.split == "test"]
    seeds = [tables[run][cohort.split == "test"] for run in RUNS[:2]]
    values = [np.mean([metrics.ece(p, y, weights=draw[patient]).value for p in seeds]) for draw in weights]
    assert (mean.lo, mean.hi) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=1e-12)
    spread = {(s.model, s.calibrator): s for s in scores.seed_spread if s.slice == "all" and s.metric == "ece"}
    found = spread["m", "none"]
    assert (found.n, found.mean) == (2, mean.value)
    assert (found.min, found.max) == (min(one.value, two.value), max(one.value, two.value))
    # two values lie half their distance from the mean: sd = distance / sqrt 2
    assert found.sd == pytest.approx(abs(one.value - two.value) / math.sqrt(2), rel=1e-12)
    assert spread["zs", "none"].n == 1
    assert math.isnan(spread["zs", "none"].sd)


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_has_a_spread_with_its_bins_and_cutoff(kind: Kind) -> None:
    cohort, tables = make(kind, n=60)
    scores = run_all(full(kind), cohort, {run: tables[run] for run in RUNS[:2]}, 2, slices=[("test", "all")])
    first, second = ([row for row in scores.rows if row.seed == seed] for seed in "12")
    for one, two, spread in zip(first, second, scores.seed_spread, strict=True):
        for name in ("model", "calibrator", "slice_kind", "slice", "class_", "metric", "bins_asked", "cutoff"):
            assert getattr(one, name) == getattr(two, name) == getattr(spread, name)
        assert spread.n == 2
        assert spread.mean == pytest.approx((one.value + two.value) / 2, nan_ok=True)
        assert spread.sd == pytest.approx(abs(one.value - two.value) / math.sqrt(2), nan_ok=True)
        limits = sorted((one.value, two.value))
        assert (spread.min, spread.max) == pytest.approx(tuple(limits), nan_ok=True)


def test_a_seed_mean_is_undefined_where_one_seed_is() -> None:
    # the first seed separates the classes, so that its slope has no value; the second does not
    first, second = np.array([[0.1], [0.2], [0.8], [0.9]]), np.array([[0.1], [0.8], [0.2], [0.9]])
    given = dict(zip(RUNS[:2], (first, second), strict=True))
    scores = run_all(simple("binary", "logistic"), tiny([0, 0, 1, 1], "abcd"), given, 20)
    one, two, mean = (pick(scores, metric="cal_slope", seed=seed) for seed in ("1", "2", "mean"))
    assert math.isnan(one.value)
    assert math.isfinite(two.value)
    assert math.isnan(mean.value)
    assert mean.reason == one.reason is not None
    spread = next(s for s in scores.seed_spread if s.metric == "cal_slope")
    assert np.isnan([spread.mean, spread.sd, spread.min, spread.max]).all()


def test_bins_used_of_a_seed_mean_are_given_where_the_seeds_agree() -> None:
    few, many = np.full((4, 1), 0.5), np.array([[0.1], [0.3], [0.7], [0.9]])
    for tables, used in (((few, many), None), ((many, 1.0 - many), 4)):
        given = dict(zip(RUNS[:2], tables, strict=True))
        scores = run_all(simple("binary", "mass"), tiny([0, 1, 0, 1], "abcd"), given, 5)
        assert pick(scores, metric="ece", seed="mean").bins_used == used


# Undefined values and counts


def test_absent_class_is_undefined_with_a_reason_and_never_dropped() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]])
    scores = run_all(simple("multiclass"), tiny([0, 1, 1, 0], "abcd"), {RUNS[0]: p})
    area = pick(scores, metric="auroc", class_="c")
    assert math.isnan(area.value)
    assert math.isnan(area.lo)
    assert (area.reason, area.n_undefined, area.n_events) == ("no image of the class", 50, 0)
    macro = pick(scores, metric="auroc_macro")
    assert math.isnan(macro.value)
    assert macro.reason == "undefined for class c"
    present = pick(scores, metric="auroc_macro_present")
    assert (present.value, present.lo, present.hi, present.reason) == (1.0, 1.0, 1.0, None)
    # draws of one class only: 2 (1/2)^4 of them, and the same ones for every class
    assert 0 < present.n_undefined < 20
    assert present.n_undefined == pick(scores, metric="auroc", class_="a").n_undefined
    assert pick(scores, metric="classwise_ece", class_="c").value == pytest.approx(0.1, abs=1e-15)
    assert math.isnan(next(s for s in scores.seed_spread if s.metric == "auroc_macro").mean)


@pytest.mark.parametrize("kind", KINDS)
def test_one_class_alone_leaves_no_number_unexplained(kind: Kind) -> None:
    cohort, tables = make(kind, n=40)
    one = {RUNS[0]: tables[RUNS[0]]}
    scores = run_all(full(kind), replace(cohort, labels=np.zeros_like(cohort.labels)), one, 10)
    assert_explained(scores.rows)
    for metric in ("auroc", "cal_slope", "balanced_accuracy"):
        rows = [row for row in scores.rows if stem(row.metric) == metric and not row.metric.endswith("_present")]
        assert rows
        assert all(math.isnan(row.value) for row in rows)


def test_null_labels_are_left_out_and_counted() -> None:
    y = np.array([[1, -1, -1], [0, 1, -1], [-1, 0, -1]], dtype=np.int64)
    cohort = replace(tiny([0, 0, 0], "aab"), labels=y)
    p = np.array([[0.0, 0.9, 0.3], [0.25, 0.5, 0.3], [0.9, 0.5, 0.3]])
    scores = run_all(simple("multilabel"), cohort, {RUNS[0]: p})
    first, last = (pick(scores, metric="brier_binary", class_=k) for k in "ac")
    assert first.value == (1 + 0.0625) / 2
    assert (first.n_images, first.n_patients, first.n_events) == (2, 1, 1)
    assert math.isnan(last.value)
    assert last.n_images == 0
    assert last.reason is not None
    macro = pick(scores, metric="brier_binary_macro")
    assert (math.isnan(macro.value), macro.reason) == (True, "undefined for class c")
    assert pick(scores, metric="brier_binary_macro_present").value == (first.value + 0.25) / 2
    counts = {(c.what, c.class_): c.n_images for c in scores.counts}
    assert counts == {("unlabelled", "a"): 1, ("unlabelled", "b"): 1, ("unlabelled", "c"): 3, ("nll_floored", "a"): 1}


def test_floored_and_clipped_probabilities_are_counted_by_run_slice_and_class() -> None:
    # certain and right is no loss, but its logit is infinite all the same
    cohort = replace(tiny([0, 1, 1, 0], "abcd"), split=np.array(["test", "test", "external", "test"]))
    p, q = np.array([[1.0], [0.0], [1.0], [0.5]]), np.array([[0.5], [0.5], [1e-13], [0.5]])
    scores = run_all(simple("binary", "proper", "logistic"), cohort, dict(zip(RUNS[:2], (p, q), strict=True)), 5)
    everything, home = ("test", "all"), ("external", "home")
    assert set(scores.counts) == {
        Count("nll_floored", "m", "1", "none", *everything, None, 2),
        Count("logit_clipped", "m", "1", "none", *everything, None, 2),
        Count("logit_clipped", "m", "1", "none", *home, None, 1),
        Count("nll_floored", "m", "2", "none", *home, None, 1),
        Count("logit_clipped", "m", "2", "none", *home, None, 1),
    }
    assert len(scores.counts) == 5


def test_counts_of_a_multiclass_run() -> None:
    p = np.array([[1.0, 0.0, 0.0], [0.6, 0.4, 0.0], [0.2, 0.3, 0.5]])
    scores = run_all(simple("multiclass", "proper", "logistic"), tiny([1, 0, 2], "abc"), {RUNS[0]: p}, 5)
    counts = {(c.what, c.class_): c.n_images for c in scores.counts}
    assert counts == {
        ("nll_floored", None): 1,
        ("logit_clipped", "a"): 1,
        ("logit_clipped", "b"): 1,
        ("logit_clipped", "c"): 2,
    }


# Sinks and calls


@pytest.mark.parametrize("kind", KINDS)
def test_sinks_are_given_every_run_and_slice(kind: Kind) -> None:
    cohort, tables = make(kind)
    kept = Kept()
    with_sinks = run_all(simple(kind), cohort, tables, 7, sinks=kept.sinks)
    assert repr(with_sinks) == repr(run_all(simple(kind), cohort, tables, 7))
    runs = [("m", "none", ("1", "2", "mean")), ("m", "ts", ("1",)), ("zs", "none", ("0",))]
    assert [(one.model, one.calibrator, one.slice_kind, one.slice, one.seed) for one in kept.replicates] == [
        (model, calibrator, *slice_, seed)
        for model, calibrator, seeds in runs
        for slice_ in slices_of(cohort)
        for seed in seeds
    ]
    # no curves of subgroups, nor of a mean over seeds
    assert [(one.model, one.calibrator, one.slice_kind, one.slice, one.seed) for one in kept.curves] == [
        (model, calibrator, *slice_, seed)
        for model, calibrator, seeds in runs
        for slice_ in slices_of(cohort)[:2]
        for seed in seeds
        if seed != "mean"
    ]
    for one in kept.curves:
        kept_rows = (cohort.split == one.slice_kind).sum()
        risk = next(curve for curve in one.curves if curve.kind == "risk-coverage")
        assert risk.n_images[0] == kept_rows or kind == "multilabel"


def test_bands_of_a_slice_are_the_same_for_every_submission() -> None:
    cohort, tables = make("binary")
    mine, theirs = Kept(), Kept()
    run_all(simple("binary"), cohort, tables, 2, sinks=mine.sinks)
    run_all(simple("binary"), cohort, {Run("x", 9, "iso"): tables[RUNS[3]]}, 2, sinks=theirs.sinks, submission="other")
    own = [one.curves for one in mine.curves if one.model == "zs"]
    assert [repr(one.curves) for one in theirs.curves] == [repr(one) for one in own]


def test_each_run_is_read_once_and_told_once() -> None:
    cohort, tables = make("binary")
    read: list[Run] = []
    told: list[Run] = []

    def predictions(run: Run) -> Floats:
        read.append(run)
        return tables[run]

    score(
        submission="s",
        task=simple("binary"),
        cohort=cohort,
        runs=RUNS,
        predictions=predictions,
        key="k",
        resamples=2,
        progress=told.append,
    )
    assert sorted(read, key=repr) == sorted(told, key=repr) == sorted(RUNS, key=repr)


def _twice(cohort: Cohort) -> Cohort:
    return replace(cohort, image_id=np.full(len(cohort.image_id), "same"))


def _short(cohort: Cohort) -> Cohort:
    return replace(cohort, site=cohort.site[:-1])


def _train(cohort: Cohort) -> Cohort:
    return replace(cohort, split=np.full(len(cohort.split), "train"))


@pytest.mark.parametrize(
    ("change", "message"), [(_twice, "image id occurs twice"), (_short, "differ in length"), (_train, "split must be")]
)
def test_bad_cohorts(change: Callable[[Cohort], Cohort], message: str) -> None:
    cohort, tables = make("binary")
    with pytest.raises(ValueError, match=message):
        run_all(simple("binary"), change(cohort), tables, 2)


def test_bad_calls() -> None:
    cohort, tables = make("binary")
    p = tables[RUNS[0]]

    def call(table: Floats, **other: object) -> None:
        given: dict[str, object] = {"runs": RUNS[:1], "predictions": lambda run: table, "resamples": 2, **other}
        given = {"task": simple("binary"), **given}
        score(submission="s", cohort=cohort, key="k", **given)  # type: ignore[arg-type]

    call(p)
    for table, message in ((p[:-1], "must have shape"), (p[:, 0], "must have shape"), (np.c_[p, p], "do not fit")):
        with pytest.raises(ValueError, match=message):
            call(table)
    for bad in (np.nan, 1.1):
        with pytest.raises(ValueError, match="NaN or outside"):
            call(np.full_like(p, bad))
    for other, message in (
        ({"runs": RUNS[:1] * 2}, "twice"),
        ({"slices": [("subgroup", "age=old")]}, "unknown slice"),
        ({"slices": [("test", "some")]}, "unknown slice"),
        ({"level": 95.0}, "level"),
        ({"method": "studentised"}, "method"),
        ({"resamples": 0}, "resamples"),
        ({"task": simple("binary", "no such")}, "unknown families"),
        ({"task": TaskSet("multiclass", ["a", "b", "c"])}, "do not fit"),
    ):
        with pytest.raises(ValueError, match=message):
            call(p, **other)


def test_a_seed_mean_over_different_classes_is_undefined() -> None:
    # seed 1 separates the second finding and so has no slope there; seed 2 has one for both
    y = np.array([[0, 0], [0, 0], [1, 1], [0, 1], [1, 0], [1, 1]])
    apart = np.array([[0.2, 0.1], [0.6, 0.2], [0.4, 0.8], [0.5, 0.7], [0.7, 0.3], [0.8, 0.9]])
    mixed = apart.copy()
    mixed[:, 1] = [0.3, 0.8, 0.4, 0.7, 0.6, 0.9]
    cohort = Cohort(
        image_id=np.array(list("abcdef")),
        patient=np.array(list("abcdef")),
        split=np.full(6, "test"),
        site=np.full(6, "home"),
        labels=y,
        subgroups={},
    )
    tables = {Run("m", 1, "none"): apart, Run("m", 2, "none"): mixed}
    found = score(
        submission="s",
        task=TaskSet("multilabel", ("x", "z"), families=("logistic",)),
        cohort=cohort,
        runs=list(tables),
        predictions=tables.__getitem__,
        key="k",
        resamples=20,
    )
    rows = {row.seed: row for row in found.rows if row.metric == "cal_slope_macro_present"}
    assert not math.isnan(rows["1"].value)
    assert not math.isnan(rows["2"].value)
    assert math.isnan(rows["mean"].value)
    assert rows["mean"].reason == "the seeds differ in the classes for which it is defined"
