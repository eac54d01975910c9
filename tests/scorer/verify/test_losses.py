"""Losses of a declared objective, at a point and over a box."""

import math

import numpy as np
import pytest

from protocol.objective import Objective
from scorer.verify.boxes import box_of
from scorer.verify.losses import column_loss_ends, column_losses, penalty, softmax_losses, targets
from submission.recalibration.maps import FLOOR, Outputs, SoftmaxMap, map_of
from tests.scorer.verify.made import STEPS, entry, units_of

LINES = {"isotonic": {"interpolation": "linear", "outside": "clip"}, "histogram": STEPS}
VALUES = {
    "platt": {"slope": 0.7, "intercept": -0.2},
    "beta": {"a": 0.7, "b": 1.4, "c": 0.1},
    "isotonic": {"x": [0.1, 0.5, 0.9], "y": [0.0, 0.4, 1.0]},
    "histogram": {"edges": [0.0, 0.4, 1.0], "values": [0.1, 0.8]},
}


def test_targets() -> None:
    y = np.array([1, 0, 0])
    assert targets(y, None, Objective("nll")).tolist() == [1.0, 0.0, 0.0]
    assert targets(y, None, Objective("nll", smoothing="platt")).tolist() == [2 / 3, 1 / 4, 1 / 4]
    np.testing.assert_allclose(targets(y, None, Objective("nll", smoothing=0.2)), [0.9, 0.1, 0.1])
    assert targets(y, 3, Objective("nll")).tolist() == [[0, 1, 0], [1, 0, 0], [1, 0, 0]]
    np.testing.assert_allclose(targets(y, 3, Objective("nll", smoothing=0.3))[0], [0.1, 0.8, 0.1])


@pytest.mark.parametrize("loss", ["nll", "squared"])
@pytest.mark.parametrize("family", list(VALUES))
def test_column_losses_are_those_of_the_map_s_value(family: str, loss: str) -> None:
    run_map = map_of([entry(family, VALUES[family], **LINES.get(family, {}))], "binary", 1)  # type: ignore[arg-type]
    p = np.linspace(0.01, 0.99, 50)[:, None]
    target = np.tile([1.0, 0.0, 0.25, 0.9, 0.5], 10)
    q = run_map.apply(Outputs(p))[:, 0]
    found = column_losses(run_map.columns[0], run_map.pair(Outputs(p), 0), target, Objective(loss))  # type: ignore[arg-type]
    for value, t, own in zip(q, target, found, strict=True):
        floored = [max(end, FLOOR) for end in (value, 1 - value)]
        nll = -t * math.log(floored[0]) - (1 - t) * math.log(floored[1])
        assert own == pytest.approx(nll if loss == "nll" else (value - t) ** 2, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("loss", ["nll", "squared"])
def test_softmax_losses_are_those_of_the_map_s_value(loss: str) -> None:
    rng = np.random.default_rng(0)
    scaling = SoftmaxMap(rng.normal(size=(3, 3)), rng.normal(size=3))
    x, target = rng.normal(0, 3, (20, 3)), np.eye(3)[rng.integers(0, 3, 20)] * 0.9 + 0.1 / 3
    logits = x @ scaling.weights.T + scaling.bias
    q = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    wanted = -(target * np.log(q)).sum(axis=1) if loss == "nll" else ((q - target) ** 2).sum(axis=1)
    np.testing.assert_allclose(softmax_losses(scaling, x, target, Objective(loss)), wanted, rtol=1e-9)  # type: ignore[arg-type]


def test_losses_at_the_largest_parameters_are_finite() -> None:
    scaling = SoftmaxMap(np.full((2, 2), 1e100), np.array([1e100, -1e100]))
    losses = softmax_losses(scaling, np.array([[-700.0, 1e100]]), np.array([[0.5, 0.5]]), Objective("nll"))
    assert np.isfinite(losses).all()


@pytest.mark.parametrize("loss", ["nll", "squared"])
@pytest.mark.parametrize("family", list(VALUES))
def test_a_loss_anywhere_in_the_box_lies_between_its_ends(family: str, loss: str) -> None:
    rng = np.random.default_rng(1)
    run_map = map_of([entry(family, VALUES[family], **LINES.get(family, {}))], "binary", 1)  # type: ignore[arg-type]
    p = np.round(rng.random((40, 1)), 1)
    target = rng.random(40).round()
    objective = Objective(loss)  # type: ignore[arg-type]
    box = box_of(run_map, Outputs(p), units_of("decimals:1", 1))
    least, greatest = column_loss_ends(run_map.columns[0], 0, box, target, objective)
    for _ in range(30):
        near = Outputs((p + rng.uniform(-0.1, 0.1, p.shape)).clip(0, 1))
        value = column_losses(run_map.columns[0], run_map.pair(near, 0), target, objective)
        assert (least - 1e-12 <= value).all()
        assert (value <= greatest + 1e-12).all()


def test_penalties() -> None:
    platt = entry("platt", {"slope": 2.0, "intercept": 5.0})
    assert penalty(platt, Objective("nll", ridge=0.1), 10) == pytest.approx(10 * 0.1 * 4)
    assert penalty(platt, Objective("nll", ridge_c=0.5), 10) == pytest.approx(4.0)
    assert penalty(entry("beta", {"a": 1.0, "b": 2.0, "c": 9.0}), Objective("nll", ridge=1.0), 1) == 5.0
    matrix = entry("matrix", {"weights": [[9.0, 1.0], [2.0, 9.0]], "bias": [3.0, 1.0]})
    assert penalty(matrix, Objective("nll", odir=(0.5, 0.25)), 8) == pytest.approx(8 * (0.5 * 5 / 2 + 0.25 * 10 / 2))
    vector = entry("vector", {"weights": [9.0, 9.0], "bias": [3.0, 1.0]})
    assert penalty(vector, Objective("nll", odir=(0.5, 0.25)), 8) == pytest.approx(8 * 0.25 * 10 / 2)
