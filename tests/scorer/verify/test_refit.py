"""The refit of calibrators: what it refuses, what it lets pass, what it can't tell (MVC303)."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest

from benchmarks.honest import WORDS, trial
from protocol.objective import Objective, objective_of
from protocol.submission import Family, Method
from protocol.types import Kind
from scorer.metrics import ece
from scorer.verify.refit import CalibrationRows, Excess, Unverifiable, excesses
from submission import recalibration
from submission.recalibration.maps import Floats, Outputs
from tests.scorer.verify.made import columns_of, entry, logits_and_labels, outputs_of, probabilities, task_of, units_of

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
fit = partial(recalibration.fit, model="m", seed=0, calibrator="c")


def rows_of(kind: Kind, n: int = 300, seed: int = 0, logits: bool = False) -> CalibrationRows:
    z, y = logits_and_labels(kind, n, seed)
    return CalibrationRows(outputs_of(kind, z, logits), y)


def judged(
    kind: Kind, records: Any, rows: CalibrationRows, objective: Objective | None = None, how: str = "float64"
) -> list[Excess]:
    """What the referee says of records."""
    units = units_of(how, columns_of(kind), "float32" if rows.outputs.z is not None else "")
    return excesses(task_of(kind), records, objective or Objective("nll"), rows, units)


def temperatures(kind: Kind, t: float, source: str = "log-probabilities") -> list[Any]:
    classes = range(2) if kind == "multilabel" else [None]
    return [entry("temperature", {"temperature": t}, k=k, source=source) for k in classes]


def nll(p: Floats, y: np.ndarray[Any, Any]) -> float:
    """Total, literally."""
    return -math.fsum(math.log(row[label]) for row, label in zip(p.tolist(), y.tolist(), strict=True))


@pytest.mark.parametrize("factor", [0.9, 1.0, 1.001, 1.1])
def test_the_excess_is_the_loss_of_all_rows_above_that_of_the_best(factor: float) -> None:
    z, y = logits_and_labels("multiclass", 400)
    rows = CalibrationRows(outputs_of("multiclass", z), y)
    best = fit("temperature", rows.outputs.p, y, kind="multiclass")[0].parameters["temperature"]
    assert isinstance(best, float)
    total = [nll(probabilities("multiclass", z / t), y) for t in (best * factor, best)]
    found = judged("multiclass", temperatures("multiclass", best * factor), rows)
    if total[0] - total[1] <= 0.01:
        assert found == []
        assert factor in (1.0, 1.001)
    else:
        assert found[0].submitted * 400 == pytest.approx(total[0], rel=1e-9)
        assert found[0].best * 400 == pytest.approx(total[1], rel=1e-9)
        # what single precision leaves open is taken off
        assert found[0].excess == pytest.approx(total[0] - total[1], rel=0.01)
        assert found[0].excess < total[0] - total[1]
        assert found[0].refit == f"temperature {best:.6g}"


@pytest.mark.parametrize("name", list(WORDS))
def test_honest_fits_by_other_means_pass(name: str) -> None:
    """Single precision, other optimisers; stored as float64, float32, 6 and 4 decimals."""
    assert [trial(name, 200, seed) for seed in range(3)] == [""] * 3


def test_isotonic_regression_of_single_precision_in_many_rows_passes() -> None:
    """It takes inputs within 1e-6 for one."""
    assert trial("isotonic", 2000, 1) == ""


def test_temperatures_of_the_test_set_are_refused() -> None:
    said = [trial("temperature", 2000, seed, peeking=True) for seed in range(8)]
    assert said.count("MVC303") >= 7


REFERENCES: list[tuple[Family, Kind]] = [
    (family, kind)
    for family in ("temperature", "vector", "matrix", "dirichlet", "platt", "beta", "isotonic")
    for kind in KINDS
]


@pytest.mark.parametrize(("family", "kind"), REFERENCES)
def test_the_kit_s_own_fit_passes_and_one_on_other_rows_does_not(family: Family, kind: Kind) -> None:
    objective = recalibration_default(family)
    rows, others = rows_of(kind), rows_of(kind, seed=9)
    own = fit(family, rows.outputs.p, rows.y, kind=kind, objective=objective)
    other = fit(family, others.outputs.p, others.y, kind=kind, objective=objective)
    assert judged(kind, own, rows, objective) == []
    found = judged(kind, other, rows, objective)
    assert found
    assert all(math.isfinite(excess.excess) and excess.excess > 0.01 for excess in found)
    if kind == "multilabel" or (kind == "multiclass" and len(own) > 1):
        assert {excess.part for excess in found} <= {f", class {k}" for k in range(3)}


def recalibration_default(family: Family) -> Objective:
    from submission.recalibration.words import DEFAULTS

    return DEFAULTS[family]


def test_rows_without_a_label_of_the_finding_do_not_count() -> None:
    rows = rows_of("multilabel")
    y = rows.y.copy()
    y[:100, 0] = -1
    rows = CalibrationRows(rows.outputs, y)
    own = fit("temperature", rows.outputs.p, y, kind="multilabel")
    assert judged("multilabel", own, rows) == []
    found = judged("multilabel", temperatures("multilabel", 9.0), rows)
    assert [(excess.part, excess.n) for excess in found] == [(", class 0", 200), (", class 1", 300)]


def test_a_pooled_isotonic_map_is_judged_as_one_fit() -> None:
    rows = rows_of("multiclass")
    own = fit("isotonic", rows.outputs.p, rows.y, kind="multiclass", pooled=True)
    assert judged("multiclass", own, rows, Objective("squared")) == []
    flat = entry("isotonic", {"x": [0.5], "y": [0.3]}, interpolation="linear", outside="clip", normalise=True)
    assert judged("multiclass", [flat], rows, Objective("squared"))[0].n == 900


def test_platt_scaling_of_the_probability_is_refitted_as_such() -> None:
    rows = rows_of("binary")
    objective = Objective("nll", smoothing="platt")
    own = fit("platt", rows.outputs.p, rows.y, kind="binary", on="probabilities", objective=objective)
    assert own[0].input == "probabilities"
    assert judged("binary", own, rows, objective) == []
    assert judged("binary", [own[0].model_copy(update={"input": "log-probabilities"})], rows, objective)


@pytest.mark.parametrize(
    ("family", "declared", "done"),
    [
        ("platt", Objective("nll"), Objective("nll", smoothing=0.02)),
        ("platt", Objective("nll", smoothing="platt"), Objective("nll", smoothing=0.1)),
        ("platt", Objective("nll", ridge=0.05), Objective("nll")),
        ("platt", Objective("nll", ridge_c=1.0), Objective("nll", ridge=1.0)),
        ("beta", Objective("nll", ridge=0.05), Objective("nll", ridge=0.1)),
        ("temperature", Objective("nll", smoothing=0.1), Objective("nll")),
        ("temperature", Objective("squared"), Objective("nll")),
        ("temperature", Objective("nll", bounds=(1.0, 1.2)), Objective("nll")),
        ("temperature", Objective("nll", bounds=(1.9, 3.0)), Objective("nll")),
        ("temperature", Objective("nll", grid=(1.0, 1.02, 1.04)), Objective("nll")),
        ("isotonic", Objective("squared", smoothing=0.2), Objective("squared")),
    ],
)
def test_a_fit_by_another_objective_than_declared_is_refused(
    family: Family, declared: Objective, done: Objective
) -> None:
    rows = rows_of("binary", 2000)
    records = fit(family, rows.outputs.p, rows.y, kind="binary", objective=done)
    assert judged("binary", records, rows, done) == []
    assert judged("binary", records, rows, declared)


@pytest.mark.parametrize("odir", [(0.5, 0.5), (1e-4, 1e-4)])
def test_another_strength_of_the_penalty_is_refused(odir: tuple[float, float]) -> None:
    rows = rows_of("multiclass", 1000)
    records = fit("dirichlet", rows.outputs.p, rows.y, kind="multiclass", objective=Objective("nll", odir=odir))
    assert judged("multiclass", records, rows, Objective("nll", odir=(0.01, 0.01)))


def test_a_temperature_outside_of_the_declared_bounds_is_named() -> None:
    rows = rows_of("binary", 1000)
    best = fit("temperature", rows.outputs.p, rows.y, kind="binary")
    found = judged("binary", best, rows, Objective("nll", bounds=(1.9, 3.0)))
    assert found[0].saw == f"temperature {best[0].parameters['temperature']:.6g}"
    assert found[0].refit == "1.9 to 3, as declared"


GRID = tuple(0.5 + 0.1 * i for i in range(46))


def at_step(steps: float) -> list[Excess]:
    rows = rows_of("multiclass", 3000)
    objective = Objective("nll", grid=GRID)
    best = fit("temperature", rows.outputs.p, rows.y, kind="multiclass", objective=objective)
    t = best[0].parameters["temperature"]
    assert isinstance(t, float)
    return judged("multiclass", temperatures("multiclass", t + 0.1 * steps), rows, objective)


@pytest.mark.parametrize(
    ("steps", "refused"), [(0, False), (0.5, False), (1, False), (-1, False), (3, True), (-3, True)]
)
def test_a_step_of_the_grid_aside_is_forgiven(steps: float, refused: bool) -> None:
    assert bool(at_step(steps)) == refused


def test_a_coarse_grid_leaves_nothing_open_between_its_points() -> None:
    """Else any temperature from 1 to 5 would pass for the best of 1, 1.5 and 5."""
    rows = rows_of("multiclass", 3000)
    objective = Objective("nll", grid=(1.0, 1.5, 5.0))
    assert judged("multiclass", temperatures("multiclass", 1.5), rows, objective) == []
    for t in (1.0, 1.2, 2.0, 5.0):
        assert judged("multiclass", temperatures("multiclass", t), rows, objective)


@pytest.mark.parametrize(
    "objective",
    [Objective("nll", bounds=(1.9, 1.95)), Objective("nll", bounds=(1.9, 20.0)), Objective("nll", bounds=(0.2, 1.1)),
     Objective("nll", grid=(1.9, 1.95)), Objective("nll", grid=(1.1, 9.0)), Objective("squared", bounds=(1.9, 20.0))],
)  # fmt: skip
def test_a_temperature_that_its_bounds_or_grid_decide_is_not_verified(objective: Objective) -> None:
    rows = rows_of("multiclass", 3000)
    records = fit("temperature", rows.outputs.p, rows.y, kind="multiclass", objective=objective)
    with pytest.raises(Unverifiable, match="decide the temperature"):
        judged("multiclass", records, rows, objective)


def separated(kind: Kind = "binary") -> CalibrationRows:
    z, _ = logits_and_labels(kind, 60)
    return CalibrationRows(outputs_of(kind, z), (z[:, 0] > 0).astype(np.int64))


def test_separated_classes_are_judged_by_bounds_alone() -> None:
    rows = separated()
    assert judged("binary", temperatures("binary", 1e-4), rows) == []
    with pytest.raises(Unverifiable, match="no finite optimum"):
        judged("binary", temperatures("binary", 1.0), rows)
    bounded = Objective("nll", bounds=(0.05, 20.0))
    assert judged("binary", temperatures("binary", 0.05), rows, bounded) == []
    assert judged("binary", temperatures("binary", 1.0), rows, bounded)
    with pytest.raises(Unverifiable, match="decide"):  # a bound chosen for its value
        judged("binary", temperatures("binary", 1.4), rows, Objective("nll", bounds=(1.4, 20.0)))
    penalised = Objective("nll", ridge=0.01)
    platt = fit("platt", rows.outputs.p, rows.y, kind="binary", objective=penalised)
    assert judged("binary", platt, rows, penalised) == []


def metric(q: Floats, y: Any) -> float:
    return float(ece(q[:, 0] if q.shape[1] == 1 else q, y, bins=10).value)


@pytest.mark.parametrize("kind", KINDS)
def test_calibration_error_over_a_grid(kind: Kind) -> None:
    grid = tuple(0.5 + 0.25 * i for i in range(14))
    objective = Objective("ece", grid=grid, binning=("equal-mass", 10))
    rows = rows_of(kind, 1500)
    by = [(None, rows.outputs, rows.y)]
    if kind == "multilabel":
        by = [(k, Outputs(rows.outputs.p[:, k : k + 1]), rows.y[:, k]) for k in range(2)]  # type: ignore[misc]
    own, off = [], []
    for k, outputs, y in by:
        values = []
        for t in grid:
            z = np.log(outputs.p) / t if kind == "multiclass" else np.log(outputs.p / (1 - outputs.p)) / t
            values.append(metric(probabilities(kind, z), y))
        place = int(np.argmin(values))
        own.append(entry("temperature", {"temperature": grid[place]}, k=k))
        off.append(entry("temperature", {"temperature": grid[place + 4]}, k=k))
    judge = partial(excesses, task_of(kind))
    units = units_of("float64", columns_of(kind))
    assert judge(own, objective, rows, units, metric) == []
    found = judge(off, objective, rows, units, metric)
    assert len(found) == len(off)
    assert found[0].excess > 0.01
    outside = judge([record.model_copy(update={"parameters": {"temperature": 9.0}}) for record in own],
                    objective, rows, units, metric)  # fmt: skip
    assert [excess.saw for excess in outside] == ["temperature 9"] * len(own)
    with pytest.raises(Unverifiable, match="no unique optimum"):
        judge(own, Objective("ece", binning=("equal-mass", 10)), rows, units, metric)


def test_saturated_rows_excuse_a_fit_only_as_unverified() -> None:
    """A wrong row at 0 may stand for any logit, and so for any high temperature."""
    z, y = logits_and_labels("binary", 400, 3)
    z[:3], y[:3] = -15.0, 1
    p = np.round(probabilities("binary", z), 4)
    rows = CalibrationRows(Outputs(p), y)
    true = fit("temperature", probabilities("binary", z), y, kind="binary")
    assert judged("binary", true, rows, how="decimals:4") == []
    with pytest.raises(Unverifiable, match="saturated calibration rows without logits may excuse another fit"):
        judged("binary", temperatures("binary", 6.0), rows, how="decimals:4")
    assert judged("binary", temperatures("binary", 0.8), rows, how="decimals:4")


def test_logits_close_what_saturated_rows_leave_open() -> None:
    z, y = logits_and_labels("binary", 400, 3)
    z[:3], y[:3] = -15.0, 1
    rows = CalibrationRows(Outputs(np.round(probabilities("binary", z), 4), z), y)
    true = fit("temperature", rows.outputs.p, y, kind="binary", logits=z)
    assert true[0].input == "logits"
    assert judged("binary", true, rows, how="decimals:4") == []
    assert judged("binary", temperatures("binary", 6.0, "logits"), rows, how="decimals:4")


@pytest.mark.parametrize("family", ["vector", "matrix"])
def test_maps_of_logits_with_an_offset_of_a_thousand_and_a_scale_of_thirty(family: Family) -> None:
    z, y = logits_and_labels("multiclass", 300)
    z = (30.0 * z).astype(np.float32).astype(np.float64) + 1000.0
    z = z.astype(np.float32).astype(np.float64)
    rows = CalibrationRows(outputs_of("multiclass", z, logits=True), y)
    own = fit(family, rows.outputs.p, y, kind="multiclass", logits=z)
    assert judged("multiclass", own, rows) == []


def test_one_row_and_one_class_are_no_crash() -> None:
    one = CalibrationRows(Outputs(np.array([[0.3]])), np.array([1]))
    with pytest.raises(Unverifiable, match="no finite optimum"):
        judged("binary", temperatures("binary", 2.0), one)
    with pytest.raises(Unverifiable, match=r"must lie in 0\.\.1"):
        judged("binary", temperatures("binary", 2.0), CalibrationRows(Outputs(np.array([[0.3]])), np.array([7])))


@pytest.mark.parametrize(("family", "classes"), [("dirichlet", 5), ("vector", 15), ("temperature", 15)])
def test_many_classes(family: Family, classes: int) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(0, 2, (120, classes))
    y = rng.integers(0, classes, 120)
    rows = CalibrationRows(outputs_of("multiclass", z), y)
    objective = recalibration_default(family)
    own = fit(family, rows.outputs.p, y, kind="multiclass", objective=objective)
    units = units_of("float64", classes)
    assert excesses(task_of("multiclass", classes), own, objective, rows, units) == []


@pytest.mark.parametrize(
    ("penalty", "understood"),
    [("l2 1", True), ("l2 1e12", True), ("l2 1e400", False), ("l2 1e13", False), ("l2 with C = 1e-400", False),
     ("l2 with C=1e300", True), ("odir 1e400 0", False), ("odir 0.1 0.2", True)],
)  # fmt: skip
def test_penalties_that_overflow_are_not_understood(penalty: str, understood: bool) -> None:
    method = Method(name="c", family="matrix", penalty=penalty)
    assert isinstance(objective_of(method), Objective) == understood
