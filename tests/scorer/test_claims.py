"""Claims: each metric of the edition can be claimed, and finds its own row."""

import json
import math
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.catalogue import COVERAGES, Metric, catalogue
from protocol.facts import ClaimCheck
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import Kind
from scorer import claims, scoring
from scorer.claims import check_claims, draw_key, task_set
from scorer.intervals import Method
from scorer.metrics import FAMILIES
from scorer.rows import Row, Run
from scorer.scoring import Cohort, Slice, score
from scorer.warehouse import Warehouse
from tests.builders import good_submission

Floats = NDArray[np.float64]
KINDS: list[Kind] = ["binary", "multiclass", "multilabel"]
MODEL = "densenet121"
PROPER = ("proper",)
TEST: list[Slice] = [("test", "all")]
PRECISION = {"p_1": "decimals:2", "p_0": "float32"}


def task_of(kind: Kind) -> Task:
    document = good_submission(kind).task | {"ordinal": True, "thresholds": [0.2, 0.5], "resamples": 1000}
    return Task.model_validate_json(json.dumps(document))


def record_of(kind: Kind, made: list[dict[str, Any]], **uncertainty: Any) -> Submission:
    draft = good_submission(kind)
    draft.record["metrics"]["claims"] = made
    draft.record["uncertainty"] |= uncertainty
    return Submission.model_validate_json(json.dumps(draft.record))


def images(kind: Kind) -> tuple[Cohort, Callable[[Run], Floats]]:
    rng = np.random.default_rng(0)
    n, classes = 90, 1 if kind == "binary" else 3
    external = np.arange(n) % 3 == 0
    shape = (n, 3) if kind == "multilabel" else n
    cohort = Cohort(
        image_id=np.array([f"i{i:02d}" for i in range(n)]),
        patient=np.array([f"p{i}" for i in rng.integers(0, 30, n)]),
        split=np.where(external, "external", "test"),
        site=np.where(external, "north=west", "home"),
        labels=rng.integers(0, 3 if kind == "multiclass" else 2, shape),
        subgroups={"sex": rng.choice(np.array(["f", "m"]), n)},
    )

    def predictions(run: Run) -> Floats:
        own = np.random.default_rng(run.seed)
        p = own.random((n, classes)).round(2)
        return p if kind != "multiclass" else np.asarray((p + 0.1) / (p + 0.1).sum(axis=1, keepdims=True))

    return cohort, predictions


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Task, Submission], tuple[ClaimCheck, ...]]:
    """Check the claims of a record on :func:`images`, without a warehouse."""

    def check(task: Task, record: Submission) -> tuple[ClaimCheck, ...]:
        cohort, predictions = images(task.kind)
        monkeypatch.setattr(claims, "cohort_of", lambda *_: cohort)
        monkeypatch.setattr(claims, "predictions_of", lambda *_: predictions)
        warehouse: Any = None
        return check_claims(task, record, (), warehouse, PRECISION)

    return check


Check = Callable[[Task, Submission], tuple[ClaimCheck, ...]]


def definitions(task: Task) -> Iterator[tuple[Metric, dict[str, Any]]]:
    """Every metric, with every number of bins, cutoff and class that a claim can name."""
    for metric in catalogue(task.kind).values():
        cutoffs: dict[str | None, tuple[float | None, ...]] = {
            None: (None,), "threshold": task.thresholds, "coverage": COVERAGES
        }  # fmt: skip
        for bins in metric.bins or (None,):
            for cutoff in cutoffs[metric.cutoff]:
                for class_ in task.classes if metric.per_class else (None,):
                    yield (
                        metric,
                        {
                            "metric": metric.name,
                            "model": MODEL,
                            "slice": "test",
                            "value": "0.5",
                            "bins": bins,
                            "binning": metric.binning,
                            "reading": metric.reading if bins else None,
                            "cutoff": cutoff,
                            "class": class_,
                        },
                    )


def rows_of(
    task: Task,
    families: Collection[str] = FAMILIES,
    slices: list[Slice] | None = None,
    *,
    level: float = 0.95,
    method: Method = "percentile",
    resamples: int = 2,
) -> tuple[Row, ...]:
    cohort, predictions = images(task.kind)
    return score(
        submission="s",
        task=task_set(task, PRECISION, families),
        cohort=cohort,
        runs=[Run(MODEL, seed, "none") for seed in (1, 2, 3)],
        predictions=predictions,
        key=draw_key(task),
        resamples=resamples,
        level=level,
        method=method,
        slices=slices,
    ).rows


@pytest.mark.parametrize("kind", KINDS)
def test_every_metric_of_the_edition_can_be_claimed(kind: Kind, checked: Check) -> None:
    task = task_of(kind)
    made = list(definitions(task))
    rows = {
        (row.metric, row.bins_asked, row.cutoff, row.class_): row
        for row in rows_of(task, slices=TEST)
        if row.seed == "mean"
    }
    found = checked(task, record_of(kind, [claim for _, claim in made]))
    assert [one.index for one in found] == list(range(len(made)))
    for one, (metric, claim) in zip(found, made, strict=True):
        row = rows[metric.name, claim["bins"], claim["cutoff"], claim["class"]]
        assert row.reading == metric.reading or metric.reading is None
        assert one.value == (None if math.isnan(row.value) else row.value)
        assert one.claim.metric == metric.name


@pytest.mark.parametrize("kind", KINDS)
def test_every_row_without_a_present_mean_is_in_the_catalogue(kind: Kind) -> None:
    task = task_of(kind)
    known = {(metric.name, claim["bins"], claim["cutoff"], claim["class"]) for metric, claim in definitions(task)}
    by_class = ("classwise_ece", "ace_nixon")  # their parts are rows of the classes, which no claim names
    for row in rows_of(task, slices=TEST):
        if row.metric.endswith("_present") or (row.metric in by_class and row.class_ is not None):
            continue
        assert (row.metric, row.bins_asked, row.cutoff, row.class_) in known, row


def brier(kind: Kind) -> dict[str, Any]:
    names = {"binary": "brier_binary", "multiclass": "brier", "multilabel": "brier_binary_macro"}
    return {"metric": names[kind], "model": MODEL, "slice": "test", "value": "0.5"}


@pytest.mark.parametrize("kind", KINDS)
def test_claims_name_a_seed_or_their_mean(kind: Kind, checked: Check) -> None:
    task = task_of(kind)
    made = [brier(kind) | {"seed": seed} for seed in (2, "mean", 1)] + [brier(kind)]
    rows = {row.seed: row.value for row in rows_of(task, PROPER, TEST) if row.metric == made[0]["metric"]}
    found = checked(task, record_of(kind, made))
    assert [one.value for one in found] == [rows["2"], rows["mean"], rows["1"], rows["mean"]]


def test_bins_stated_of_an_unbinned_metric_say_nothing(checked: Check) -> None:
    task = task_of("binary")
    plain, stated = checked(task, record_of("binary", [brier("binary"), brier("binary") | {"bins": 15}]))
    assert plain.value == stated.value is not None


def test_claims_name_slices(checked: Check) -> None:
    task = task_of("binary")
    slices = {"test": "all", "external=north=west": "north=west", "sex=f": "sex=f", "sex=m": "sex=m"}
    rows = {row.slice: row for row in rows_of(task, PROPER) if (row.metric, row.seed) == ("brier_binary", "mean")}
    found = checked(task, record_of("binary", [brier("binary") | {"slice": name} for name in slices]))
    assert [one.value for one in found] == [rows[name].value for name in slices.values()]
    assert len({one.value for one in found}) == 4


@pytest.mark.parametrize("method", ["percentile", "basic", "bca"])
def test_claimed_intervals_are_of_the_declared_method_and_level(method: Method, checked: Check) -> None:
    task = task_of("binary")
    claim = brier("binary") | {"interval": ["0.4", "0.6"]}
    (found,) = checked(task, record_of("binary", [claim], level=0.9, method=method))
    rows = rows_of(task, PROPER, TEST, level=0.9, method=method, resamples=task.resamples)
    (row,) = [one for one in rows if (one.metric, one.seed) == ("brier_binary", "mean")]
    assert (found.value, found.lo, found.hi, found.n_draws) == (row.value, row.lo, row.hi, 1000)
    assert found.reason == ""


def test_claims_are_evaluated_by_run_and_slice_in_the_claimed_families(
    checked: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def counted(**arguments: Any) -> Any:
        calls.append(arguments)
        return scoring.score(**arguments)

    monkeypatch.setattr(claims, "score", counted)
    made = [
        brier("binary"),
        brier("binary") | {"seed": 1},
        {"metric": "auroc", "model": MODEL, "slice": "sex=f", "value": "0.5", "interval": ["0.4", "0.6"]},
        {"metric": "accuracy", "model": MODEL, "slice": "test", "value": "0.5"},
    ]
    checked(task_of("binary"), record_of("binary", made, method="bca"))
    assert [call["slices"] for call in calls] == [[("test", "all")], [("subgroup", "sex=f")]]
    assert [set(call["task"].families) for call in calls] == [{"proper", "decisions"}, {"rank"}]
    # no interval is claimed of the first: nothing is drawn for it, nor left out
    assert [(call["resamples"], call["method"]) for call in calls] == [(1, "percentile"), (1000, "bca")]


def test_no_claims_need_no_images() -> None:
    warehouse: Warehouse | Any = None
    assert check_claims(task_of("binary"), record_of("binary", []), (), warehouse, {}) == ()


def test_an_undefined_claim_says_why(checked: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    task = task_of("binary")
    claim = {"metric": "auroc", "model": MODEL, "slice": "external=nowhere", "value": "0.5"}
    (found,) = checked(task, record_of("binary", [claim | {"interval": ["0.4", "0.6"]}]))
    assert (found.value, found.lo, found.hi) == (None, None, None)
    assert "no images" in found.reason


@pytest.mark.parametrize("kind", KINDS)
def test_the_task_fixes_its_set_of_metrics(kind: Kind) -> None:
    task = task_of(kind)
    found = task_set(task, PRECISION)
    assert (found.kind, tuple(found.classes), found.ordinal) == (kind, task.classes, True)
    assert tuple(found.thresholds) == (0.2, 0.5)
    stored = {"binary": ("decimals:2",), "multiclass": ("float32", "decimals:2", "float64")}
    assert found.precision == stored.get(kind, stored["multiclass"])
    assert draw_key(task) == f"2026.1/{task.digest}"
