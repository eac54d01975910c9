"""Recomputed metrics: equal to the functions of the edition, by cluster, in any order of rows."""

import math
from dataclasses import replace

import numpy as np
import pytest

from scorer.audit.judging import large
from scorer.audit.judging.measure import LEAST, MOST, NO_LABELS, budget, measure
from scorer.audit.judging.rows import MetricRow
from scorer.audit.shapes import Scale, Scaled
from scorer.bootstrap import draws_for, replicates
from scorer.metrics import auroc, brier_binary, ece, ece_width, nll, plan_for
from tests.scorer.audit.made import codes, drawn, evidence, prediction_set


def only(rows: tuple[MetricRow, ...], metric: str, class_: str = "", slice_: str = "all") -> MetricRow:
    (found,) = [row for row in rows if (row.metric, row.class_, row.slice) == (metric, class_, slice_)]
    return found


def test_values_are_those_of_the_edition_and_bins_are_named() -> None:
    p, y = drawn(300)
    found = measure(evidence(prediction_set(p, y)))
    assert found.draws == MOST
    for metric, value in (
        ("auroc", auroc(p, y).value),
        ("brier_binary", brier_binary(p, y)),
        ("ece", ece(p, y).value),
        ("ece_width15", ece_width(p, y, bins=15).value),
        ("nll", nll(p, y).value),
    ):
        row = only(found.rows, metric)
        assert row.value == pytest.approx(value, abs=1e-12)
        assert row.lo < row.hi
        assert (row.n_units, row.n_clusters, row.n_draws) == (300, 300, MOST)
    assert (only(found.rows, "ece").bins, only(found.rows, "ece").binning) == (15, "equal-mass")
    assert only(found.rows, "mce").binning == "equal-width"
    assert only(found.rows, "auroc").n_events == int(y.sum())


def test_missing_labels_and_scores_are_no_class() -> None:
    p, y = drawn(200)
    gaps, holes = y.copy(), p.copy()
    gaps[:50] = -1
    holes[50:60] = np.nan
    found = measure(evidence(prediction_set(holes, gaps)))
    assert only(found.rows, "brier_binary").value == pytest.approx(brier_binary(p[60:], y[60:]), abs=1e-12)
    assert only(found.rows, "brier_binary").n_units == 140
    assert measure(evidence(prediction_set(p, None))).unmeasured == {"score": NO_LABELS}
    assert measure(evidence(prediction_set(p, np.full(200, -1)))).rows == ()


def test_order_of_rows_changes_no_bit() -> None:
    p, y = drawn(150)
    patient = np.arange(150) // 3
    order = np.random.default_rng(1).permutation(150)
    first = measure(evidence(prediction_set(p, y, cluster=patient)))
    second = measure(evidence(prediction_set(p[order], y[order], unit=order, cluster=patient[order]), units=150))
    assert first.rows == second.rows
    assert only(first.rows, "ece").n_clusters == 50


def test_interval_is_by_cluster() -> None:
    p, y = drawn(200)
    twice, labels = np.repeat(p, 2), np.repeat(y, 2)
    rows = only(measure(evidence(prediction_set(twice, labels))).rows, "brier_binary")
    grouped = measure(evidence(prediction_set(twice, labels, cluster=np.repeat(np.arange(200), 2))))
    wide = only(grouped.rows, "brier_binary")
    assert (wide.hi - wide.lo) / (rows.hi - rows.lo) == pytest.approx(math.sqrt(2.0), rel=0.1)
    assert "by patient" in grouped.limits[0]


def test_sites_and_splits() -> None:
    p, y = drawn(240)
    site, sites = codes(["a", "b"] * 120)
    split, splits = codes(["test"] * 160 + ["train"] * 80)
    made = evidence(prediction_set(p, y, site=site, split=split), site=sites, split=splits)
    rows = measure(made).rows
    assert only(rows, "ece").n_units == 160
    assert only(rows, "brier_binary", slice_="a").value == pytest.approx(brier_binary(p[:160:2], y[:160:2]), abs=1e-12)
    assert only(rows, "brier_binary", slice_="train").n_units == 80


def test_multilabel_leaves_null_labels_out() -> None:
    rng = np.random.default_rng(2)
    p = rng.random((120, 2))
    y = (rng.random((120, 2)) < p).astype(np.int64)
    y[:40, 1] = -1
    found = measure(evidence(prediction_set(p, y, kind="multilabel", classes=("a", "b"))))
    assert only(found.rows, "brier_binary", "b").value == pytest.approx(brier_binary(p[40:, 1], y[40:, 1]), abs=1e-12)
    assert only(found.rows, "brier_binary", "b").n_units == 80


def test_ranks_have_an_auroc_and_no_calibration_error() -> None:
    p, y = drawn(100)
    scores = 3.0 * p - 7.0
    ranked = Scaled(Scale.REGRESSION, False, True, "values below 0")
    one = replace(prediction_set(scores, y), p=None, scale=ranked)
    found = measure(evidence(one))
    assert {row.metric for row in found.rows} == {"auroc", "auprc"}
    assert only(found.rows, "auroc").value == pytest.approx(auroc(p, y).value, abs=1e-12)
    none = replace(one, scale=Scaled(Scale.CONSTANT, False, False, "one value"))
    assert measure(evidence(none)).unmeasured == {"score": "one value"}


def test_one_against_the_rest_is_never_top_label() -> None:
    rng = np.random.default_rng(3)
    p, y = rng.random((90, 3)), rng.integers(0, 3, 90)
    one = prediction_set(p, y, kind="multiclass", scale=Scaled(Scale.ONE_VS_REST, True, True, "rows sum to 1.5"))
    rows = measure(evidence(one)).rows
    assert "brier" not in {row.metric for row in rows}
    assert only(rows, "ece", "c1").value == pytest.approx(ece(p[:, 1], (y == 1).astype(int)).value, abs=1e-12)


def test_what_does_not_fit_is_not_measured() -> None:
    p, y = drawn(30)
    beyond = prediction_set(p + 0.5, y, name="beyond")
    third = prediction_set(p, y + 1, name="third class")
    wide = prediction_set(np.stack((p, p, p), axis=1), y, kind="multiclass", classes=("a", "b"), name="wide")
    found = measure(evidence(beyond, third, wide))
    assert found.rows == ()
    assert set(found.unmeasured) == {"beyond", "third class", "wide"}


def test_certain_and_wrong_is_said() -> None:
    p, y = drawn(100)
    p[:4], y[:4] = (0.0, 0.0, 1.0, 0.0), (1, 1, 0, 0)
    assert only(measure(evidence(prediction_set(p, y))).rows, "nll").note.endswith(
        "3 observed outcomes were given exactly 0"
    )


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_the_way_for_large_sets_gives_the_same_numbers(kind: str) -> None:
    rng = np.random.default_rng(4)
    n, k = 400, 1 if kind == "binary" else 3
    p = rng.dirichlet(np.ones(3), n) if kind == "multiclass" else rng.random((n, k))
    y = rng.integers(0, 3, n) if kind == "multiclass" else rng.integers(0, 2, (n, k))
    y = y[:, 0] if kind == "binary" else y
    if kind == "multilabel":
        y[:30, 0] = -1
    classes = ("0", "1") if kind == "binary" else ("a", "b", "c")
    cluster = np.arange(n) // 4
    draws = draws_for("k", "pooled", "all", patients=100, resamples=20)
    points, values = large.measured(kind, classes, p, y, cluster, draws, ("float64",) * k)  # type: ignore[arg-type]
    plan = plan_for(kind, classes, p, y, cluster, 100)  # type: ignore[arg-type]
    known = {(q.metric, q.class_): (q, i) for i, q in enumerate(plan.points())}
    expected = replicates([plan], draws, workers=1)[0]
    assert {"nll", "mce", "ece", "ece_width15"} <= {point.metric for point in points}
    for i, point in enumerate(points):
        like, place = known[(point.metric, point.class_)]
        for field in ("reading", "bins_asked", "bins_used", "n_images", "n_patients", "n_events"):
            assert getattr(point, field) == getattr(like, field), (point, like)
        assert point.value == pytest.approx(like.value, abs=1e-9)
        np.testing.assert_allclose(values[:, i], expected[:, place], atol=1e-9)


def test_budget() -> None:
    assert budget([(1000, 1)], True) == MOST
    assert budget([(5_000_000, 5)] * 2, False) == LEAST
    assert LEAST < budget([(300_000, 1)] * 4, False) < MOST
