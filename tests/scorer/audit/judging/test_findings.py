"""Findings: each seen where it is, and not where it is not."""

from dataclasses import replace

import numpy as np
import pytest

from scorer.audit.judging.findings import findings_of
from scorer.audit.judging.measure import measure
from scorer.audit.shapes import Evidence, Finding, Level
from tests.scorer.audit.made import codes, drawn, evidence, prediction_set


def found(made: Evidence) -> dict[str, Finding]:
    return {finding.code: finding for finding in findings_of(made, measure(made, most=200))}


def test_a_good_release_has_no_findings() -> None:
    p, y = drawn(1500)
    assert found(evidence(prediction_set(p, y, cluster=np.arange(1500) // 2))) == {}


def test_certain_and_wrong() -> None:
    p, y = drawn(1500)
    p[:3], y[:3] = 0.0, (1, 1, 0)
    seen = found(evidence(prediction_set(p, y)))
    assert seen["certain-and-wrong"].title.startswith("2 observed outcomes")
    assert "exactly 0 in 3" in seen["saturated-scores"].samples[0]


def test_constant_and_coarse_scores() -> None:
    _, y = drawn(1500)
    seen = found(evidence(prediction_set(np.full(1500, 0.25), y)))
    assert seen["constant-score"].level is Level.WARNING
    assert "few-distinct-values" not in seen
    seen = found(evidence(prediction_set(np.round(drawn(1500)[0], 1) * 0.8 + 0.1, y)))
    assert "11 distinct values" in seen["few-distinct-values"].samples[0]


def test_never_predicted() -> None:
    rng = np.random.default_rng(5)
    y = (rng.random(9000) < 0.004).astype(np.int64)
    p = 0.008 * rng.random(9000)
    assert "largest score 0.008" in found(evidence(prediction_set(p, y)))["never-predicted"].samples[0]
    p[0] = 0.9
    assert "never-predicted" not in found(evidence(prediction_set(p, y)))


def test_below_chance_is_a_warning_only_with_its_interval() -> None:
    p, y = drawn(1500)
    assert "below-chance" in found(evidence(prediction_set(1.0 - p, y)))
    rng = np.random.default_rng(6)
    seen = [found(evidence(prediction_set(rng.random(400), drawn(400, i)[1]))) for i in range(4)]
    assert not any("below-chance" in one for one in seen)
    assert any("not-above-chance" in one for one in seen)


def test_few_events_and_folds() -> None:
    p, y = drawn(120)
    fold, folds = codes([str(i % 5) for i in range(120)])
    other = prediction_set(p[:96], y[:96], name="other", fold=np.sort(fold)[:96])
    seen = found(evidence(prediction_set(p, y, fold=fold), other, fold=folds))
    assert seen["few-events"].rule == "MVC411"
    assert seen["folds-pooled"].count == 2
    assert seen["folds-missing"].samples == ("other: 4 of 5 folds, without 4",)


def test_one_score_a_cluster() -> None:
    p, y = drawn(400)
    twice = prediction_set(np.repeat(p, 2), np.repeat(y, 2), cluster=np.repeat(np.arange(400), 2))
    assert "800 rows are 400 predictions" in found(evidence(twice))["one-score-a-cluster"].title
    assert "one-score-a-cluster" not in found(evidence(prediction_set(p, y, cluster=np.arange(400) // 2)))


def test_equal_sets_whatever_the_order_of_rows() -> None:
    p, y = drawn(300)
    order = np.random.default_rng(7).permutation(300)
    one = prediction_set(p, y)
    same = prediction_set(p[order], y[order], name="same", unit=order)
    curved = prediction_set(p**2, y, name="curved")
    seen = found(evidence(one, same, curved, prediction_set(drawn(300, 9)[0], y, name="other")))
    assert seen["sets-identical"].samples == ("score = same",)
    assert seen["same-order"].samples == ("score ~ curved",)
    printed = prediction_set(np.round(p, 4), y, name="printed", precision=("decimals:4",))
    assert "score and printed" in found(evidence(one, printed))["sets-equal-but-for-rounding"].samples[0]
    assert "sets-equal-but-for-rounding" not in found(evidence(one, curved))
    seeds = [replace(one, name=f"s{seed}", model="m", seed=str(seed)) for seed in (1, 2)]
    assert found(evidence(*seeds))["seeds-identical"].rule == "MVC205"
    assert "sets-identical" not in found(evidence(*seeds))


def test_fake_clusters() -> None:
    p, y = drawn(300)
    assert "cluster-unique" in found(evidence(prediction_set(p, y, cluster=np.arange(300))))
    assert "cluster-constant" in found(evidence(prediction_set(p, y, cluster=np.zeros(300, dtype=np.int64))))
    assert "cluster-unique" not in found(
        replace(evidence(prediction_set(p, y, cluster=np.arange(300))), unit="patient")
    )
    said = Finding(Level.WARNING, "cluster-words", "already said", rule="MVC110")
    assert "cluster-unique" not in found(evidence(prediction_set(p, y, cluster=np.arange(300)), findings=(said,)))


def test_pooled_below_sites() -> None:
    p, y = drawn(2000)
    site, names = codes(["a", "b"] * 1000)
    shifted = np.clip(p + np.where(site == 0, 0.15, -0.15), 0.001, 0.999)
    made = evidence(prediction_set(shifted, y, site=site), site=names)
    assert "pooled-below-sites" in found(made)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_hardly_any_rows(n: int) -> None:
    p, y = drawn(n)
    made = evidence(prediction_set(p, y, cluster=np.arange(n), fold=np.zeros(n, dtype=np.int64)), fold=("a",))
    assert all(finding.title for finding in found(made).values())
