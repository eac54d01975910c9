"""Scoring: slices, seed means, undefined values and counts by hand; draws against gathered rows; order of the input."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from scorer import bootstrap, metrics
from scorer.bootstrap import draws_for
from scorer.metrics import Kind, plan_for
from scorer.scoring import Cohort, Row, Run, Scores, point_values, score, slices_of

Floats = NDArray[np.float64]
NAMES = {"binary": ["no", "yes"], "multiclass": ["a", "b", "c"], "multilabel": ["a", "b", "c"]}
KINDS: list[Kind] = ["binary", "multiclass", "multilabel"]
RUNS = [Run("m", 1, "none"), Run("m", 2, "none"), Run("m", 1, "ts"), Run("zs", 0, "none")]


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


def run_all(kind: Kind, cohort: Cohort, tables: dict[Run, Floats], resamples: int = 50) -> Scores:
    return score(
        submission="s",
        kind=kind,
        classes=NAMES[kind],
        cohort=cohort,
        runs=list(tables),
        predictions=tables.__getitem__,
        key="k",
        resamples=resamples,
    )


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


def library(kind: Kind, p: Floats, y: NDArray[np.int64]) -> list[float]:
    """The whole set, in order, by the public metric functions alone."""
    if kind == "multiclass":
        binned, ranked = metrics.classwise_ece(p, y), metrics.auroc_classwise(p, y)
        per_class = [v for e, a in zip(binned.per_class, ranked.per_class, strict=True) for v in (e.value, a.value)]
        head = [metrics.brier(p, y), metrics.nll(p, y).value, metrics.accuracy(p, y), metrics.ece(p, y).value]
        return [*head, *per_class, binned.value, ranked.macro.value, ranked.macro_present.value]
    if kind == "binary":
        binned = metrics.classwise_ece(p[:, 0], y)
        return [*finding(p[:, 0], y), *(one.value for one in binned.per_class), binned.value]
    each = np.array([finding(p[y[:, k] >= 0, k], y[y[:, k] >= 0, k]) for k in range(3)])
    return [*each.ravel(), *np.repeat(each.mean(axis=0), 2)]


def finding(p: Floats, y: NDArray[np.int64]) -> list[float]:
    proper = [metrics.brier_binary(p, y), metrics.nll(p, y).value, metrics.accuracy(p, y)]
    return [*proper, metrics.ece(p, y).value, metrics.auroc(p, y).value]


@pytest.mark.parametrize("kind", KINDS)
def test_a_draw_equals_the_gathered_rows(kind: Kind) -> None:
    cohort, tables = make(kind)
    p, y = tables[RUNS[0]], cohort.labels
    units, patient = np.unique(cohort.patient, return_inverse=True)
    weights = draws_for("k", "test", "all", patients=len(units), resamples=25).block(0, 25)
    values, _ = plan_for(kind, NAMES[kind], p, y, patient, len(units)).evaluate(weights)
    for draw, own in zip(weights, values, strict=True):
        rows = np.concatenate(
            [np.flatnonzero(patient == i) for i in np.repeat(np.arange(len(units)), draw.astype(int))]
        )
        assert own == pytest.approx(np.array(library(kind, p[rows], y[rows])), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_point_values_are_the_library_functions(kind: Kind) -> None:
    cohort, tables = make(kind)
    p = tables[RUNS[0]]
    points = point_values(kind, NAMES[kind], p, cohort.labels)
    assert [one.value for one in points] == pytest.approx(library(kind, p, cohort.labels), abs=1e-12)
    test = cohort.split == "test"
    rows = [r for r in run_all(kind, cohort, tables, 2).rows if (r.model, r.slice_kind) == ("zs", "test")]
    expected = point_values(kind, NAMES[kind], tables[RUNS[3]][test], cohort.labels[test])
    assert [r.value for r in rows] == pytest.approx([one.value for one in expected], abs=1e-12)
    for row, one in zip(rows, expected, strict=True):
        assert (row.metric, row.class_, row.reading) == (one.metric, one.class_, one.reading)
        assert (row.bins_used, row.n_images, row.n_events) == (one.bins_used, one.n_images, one.n_events)


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_rows_runs_and_blocks_changes_no_bit(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    cohort, tables = make(kind)
    expected = run_all(kind, cohort, tables)
    again = np.random.default_rng(5).permutation(len(cohort.image_id))
    shuffled = Cohort(
        cohort.image_id[again],
        cohort.patient[again],
        cohort.split[again],
        cohort.site[again],
        cohort.labels[again],
        {"sex": cohort.subgroups["sex"][again]},
    )
    monkeypatch.setattr(bootstrap, "BLOCK_BYTES", 8 * 150 * 7)
    other = run_all(kind, shuffled, {run: tables[run][again] for run in reversed(RUNS)})
    # repr tells every bit of a float apart and holds NaN equal to NaN
    assert repr(other) == repr(expected)


def test_slices_and_order_of_rows() -> None:
    cohort, tables = make("binary")
    slices = [("test", "all"), ("external", "north"), ("subgroup", "sex=f"), ("subgroup", "sex=m")]
    assert slices_of(cohort) == slices
    scores = run_all("binary", cohort, tables, 2)
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


def test_interval_comes_from_the_slice_draws() -> None:
    cohort, tables = make("multiclass")
    row = pick(run_all("multiclass", cohort, tables, 200), model="zs", slice_kind="external", metric="brier")
    kept = np.flatnonzero(cohort.split == "external")
    units, patient = np.unique(cohort.patient[kept], return_inverse=True)
    weights = draws_for("k", "external", "north", patients=len(units), resamples=200).block(0, 200)
    p, y = tables[RUNS[3]][kept], cohort.labels[kept]
    values = [metrics.brier(p, y, draw[patient]) for draw in weights]
    assert (row.lo, row.hi) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])), abs=1e-12)
    assert (row.method, row.n_draws, row.n_undefined) == ("percentile", 200, 0)


def test_submissions_share_the_draws_of_a_slice() -> None:
    # the same predictions give the same interval beside other models, seeds and slices, under another submission's name
    cohort, tables = make("binary")
    alone = score(
        submission="other",
        kind="binary",
        classes=NAMES["binary"],
        cohort=cohort,
        runs=[Run("x", 9, "iso")],
        predictions=lambda run: tables[RUNS[3]],
        key="k",
        resamples=50,
        slices=[("subgroup", "sex=m")],
    )
    mine = [r for r in run_all("binary", cohort, tables).rows if (r.model, r.slice) == ("zs", "sex=m")]
    assert [(r.metric, r.value, r.lo, r.hi) for r in alone.rows] == [(r.metric, r.value, r.lo, r.hi) for r in mine]


def test_seed_mean_and_spread() -> None:
    cohort, tables = make("multiclass")
    scores = run_all("multiclass", cohort, tables, 100)
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


def test_absent_class_is_undefined_with_a_reason_and_never_dropped() -> None:
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1]])
    scores = run_all("multiclass", tiny([0, 1, 1, 0], "abcd"), {RUNS[0]: p})
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


def test_null_labels_are_left_out_and_counted() -> None:
    y = np.array([[1, -1, -1], [0, 1, -1], [-1, 0, -1]], dtype=np.int64)
    cohort = replace(tiny([0, 0, 0], "aab"), labels=y)
    p = np.array([[0.0, 0.9, 0.3], [0.25, 0.5, 0.3], [0.9, 0.5, 0.3]])
    scores = run_all("multilabel", cohort, {RUNS[0]: p})
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


def test_one_patient_has_no_interval() -> None:
    row = pick(run_all("binary", tiny([0, 1, 1], "aaa"), {RUNS[0]: np.array([[0.2], [0.7], [0.9]])}), metric="ece")
    assert math.isfinite(row.value)
    assert math.isnan(row.lo)
    assert math.isnan(row.hi)
    assert row.reason == "an interval needs at least two patients"


def test_an_empty_slice_is_undefined_throughout() -> None:
    for kind in KINDS:
        cohort, tables = make(kind)
        scores = score(
            submission="s",
            kind=kind,
            classes=NAMES[kind],
            cohort=cohort,
            runs=[RUNS[0]],
            predictions=tables.__getitem__,
            key="k",
            resamples=5,
            slices=[("external", "nowhere")],
        )
        assert scores.rows
        for row in scores.rows:
            assert math.isnan(row.value)
            assert row.reason is not None
            assert (row.n_images, row.n_patients, row.n_undefined) == (0, 0, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_reason_stands_beside_every_nan_and_only_there(kind: Kind) -> None:
    cohort, tables = make(kind, n=12, seed=4)
    for row in run_all(kind, cohort, tables, 10).rows:
        assert any(math.isnan(v) for v in (row.value, row.lo, row.hi)) == (row.reason is not None), row


def test_each_run_is_read_once_and_told_once() -> None:
    cohort, tables = make("binary")
    read: list[Run] = []
    told: list[Run] = []

    def predictions(run: Run) -> Floats:
        read.append(run)
        return tables[run]

    score(
        submission="s",
        kind="binary",
        classes=NAMES["binary"],
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
        run_all("binary", change(cohort), tables, 2)


def test_bad_calls() -> None:
    cohort, tables = make("binary")
    p = tables[RUNS[0]]

    def call(table: Floats, **other: object) -> None:
        given: dict[str, object] = {"runs": RUNS[:1], "predictions": lambda run: table, "resamples": 2, **other}
        score(submission="s", kind="binary", classes=NAMES["binary"], cohort=cohort, key="k", **given)  # type: ignore[arg-type]

    call(p)
    for table, message in ((p[:-1], "must have shape"), (p[:, 0], "must have shape"), (np.c_[p, p], "do not fit")):
        with pytest.raises(ValueError, match=message):
            call(table)
    with pytest.raises(ValueError, match="NaN"):
        call(np.full_like(p, np.nan))
    for other, message in (
        ({"runs": RUNS[:1] * 2}, "twice"),
        ({"slices": [("subgroup", "age=old")]}, "unknown slice"),
        ({"slices": [("test", "some")]}, "unknown slice"),
        ({"level": 95.0}, "level"),
        ({"method": "bca"}, "method"),
        ({"resamples": 0}, "resamples"),
    ):
        with pytest.raises(ValueError, match=message):
            call(p, **other)
