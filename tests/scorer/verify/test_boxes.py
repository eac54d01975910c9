"""Boxes of stored outputs, and what a stored calibrated value may be off by."""

import numpy as np
import pytest

from scorer.verify.boxes import LOWEST, box_of, output_slack, relative_of, slack_of, unit_of
from submission.recalibration.maps import Outputs, RunMap, map_of
from tests.scorer.verify.made import entry, units_of

LINEAR = {"interpolation": "linear", "outside": "clip"}


def temperature(kind: str = "binary", source: str = "log-probabilities") -> RunMap:
    columns = 1 if kind == "binary" else 3
    return map_of([entry("temperature", {"temperature": 2.0}, source=source)], kind, columns)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("precision", "unit", "relative"),
    [("decimals:4", 1e-4, 2.0**-20), ("decimals:0", 1.0, 2.0**-20), ("float16", 0.0, 2.0**-10),
     ("float32", 0.0, 2.0**-20), ("float64", 0.0, 2.0**-20)],
)  # fmt: skip
def test_units(precision: str, unit: float, relative: float) -> None:
    assert unit_of(precision) == pytest.approx(unit)
    assert relative_of(precision) == relative


@pytest.mark.parametrize("how", ["float32", "float16", "decimals:4"])
def test_a_stored_value_stands_for_all_that_are_stored_as_it(how: str) -> None:
    p = np.array([[0.3], [0.02], [3e-4], [0.97]])
    low, high = box_of(temperature(), Outputs(p), units_of(how, 1)).p
    wide = {"float32": 2.0**-20 * p, "float16": 2.0**-10 * p, "decimals:4": np.full_like(p, 1e-4)}[how]
    np.testing.assert_allclose(high - low, 2 * wide, rtol=1e-9)


@pytest.mark.parametrize(
    ("p", "how", "opened"),
    [(0.5, "float32", False), (0.0, "float32", True), (1e-13, "float64", True), (1e-9, "float64", False),
     (1.0, "float32", True), (1.0 - 2.0**-24, "float32", True), (1.0 - 1e-6, "float32", False),
     (0.0001, "decimals:4", True), (0.0002, "decimals:4", False), (0.9999, "decimals:4", True)],
)  # fmt: skip
def test_saturated_rows_are_open(p: float, how: str, opened: bool) -> None:
    box = box_of(temperature(), Outputs(np.array([[p]])), units_of(how, 1))
    assert box.open.tolist() == [opened]
    ends = (box.u1[0] if p < 0.5 else box.u0[0])[0, 0]
    if opened and p not in (1e-13,):
        assert ends == LOWEST


def test_a_probability_close_to_one_costs_a_softmax_map_nothing() -> None:
    p = np.array([[1.0 - 2e-9, 1e-9, 1e-9]])
    assert not box_of(temperature("multiclass"), Outputs(p), units_of("float32", 3)).open.any()
    values = {"a": 1.0, "b": 1.0, "c": 0.0}
    beta = map_of([entry("beta", values, k=k) for k in range(3)], "multiclass", 3)
    assert box_of(beta, Outputs(p), units_of("float32", 3)).open.all()


def test_stored_logits_close_the_box() -> None:
    run_map = temperature(source="logits")
    z = np.array([[40.0], [-3.0]])
    box = box_of(run_map, Outputs(np.array([[1.0], [0.05]]), z), units_of("decimals:2", 1, "float32"))
    assert not box.open.any()
    np.testing.assert_allclose(box.u1[1] - box.u1[0], 2.0**-19 * np.abs(z))


def test_the_likely_box_ends_below_what_networks_give() -> None:
    run_map = temperature()
    for how, floor in (("decimals:4", np.log(1e-4 / 400)), ("float32", np.log(2.0**-149))):
        p = np.array([[0.0], [0.3]])
        box = box_of(run_map, Outputs(p), units_of(how, 1))
        likely = box.likely([how])
        assert likely.u1[0][0, 0] == pytest.approx(floor)
        assert likely.u1[0][1, 0] == box.u1[0][1, 0]
        assert (likely.u0[0] == box.u0[0]).all()


def test_rows_of_a_box() -> None:
    box = box_of(temperature(), Outputs(np.array([[0.0], [0.3], [0.6]])), units_of("float32", 1))
    part = box.rows(np.array([2, 0]))
    assert part.open.tolist() == [False, True]
    assert part.u1[1].tolist() == box.u1[1][[2, 0]].tolist()


@pytest.mark.parametrize("how", ["float64", "float32", "float16", "decimals:4", "decimals:8"])
def test_a_small_output_is_held_to_its_own_precision(how: str) -> None:
    q = np.array([[0.0, 1e-9, 1e-5, 0.3, 0.7, 1.0]]).T
    slack = slack_of([how], q)[:, 0]
    assert (slack <= output_slack([how])).all()
    if how.startswith("decimals:4"):
        assert (slack == 1e-4).all()
    elif how != "float16":
        assert slack[0] <= 1e-8  # so that a certain error stays one
        assert slack[5] < 3e-7
        assert slack[3] == 2.0**-18
    stored = q.astype(how) if how.startswith("float") else np.round(q, int(how[9:]))
    assert (np.abs(stored.astype(np.float64) - q)[:, 0] <= slack).all()
