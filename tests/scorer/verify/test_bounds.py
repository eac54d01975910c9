"""How far rounding can go: the bound that holds for honest rows, and how tight it is."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from protocol.objective import Objective
from protocol.types import Kind
from scorer.verify.bounds import column_bound, softmax_bound
from scorer.verify.boxes import box_of, effective
from scorer.verify.losses import column_losses, softmax_losses
from scorer.verify.refit import CalibrationRows, excesses
from submission import recalibration
from submission.recalibration.maps import Floats, Outputs, map_of
from tests.scorer.verify.made import columns_of, entry, logits_and_labels, probabilities, task_of, units_of

KINDS: tuple[Kind, ...] = ("binary", "multiclass")
ROUNDINGS: dict[str, Callable[[Floats], Floats]] = {"down": np.floor, "nearest": np.round, "up": np.ceil}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rounding", list(ROUNDINGS))
@pytest.mark.parametrize("decimals", [3, 4])
def test_what_was_lost_by_rounding_is_never_more_than_the_bound(kind: Kind, rounding: str, decimals: int) -> None:
    for seed in range(20):
        z, y = logits_and_labels(kind, 200, seed)
        p = probabilities(kind, z)
        shown = (ROUNDINGS[rounding](p * 10**decimals) / 10**decimals).clip(0.0, 1.0)
        maps = [map_of([entry("temperature", {"temperature": t})], kind, columns_of(kind)) for t in (1.0, 1.6)]
        box = box_of(maps[0], Outputs(shown), units_of(f"decimals:{decimals}", columns_of(kind)))
        objective = Objective("nll")
        if kind == "binary":
            target = y.astype(np.float64)
            true = [column_losses(m.columns[0], m.pair(Outputs(p), 0), target, objective) for m in maps]
            bound = column_bound(maps[0].columns[0], maps[1].columns[0], 0, box, target, objective)
        else:
            hot, scalings = np.eye(3)[y], [m.softmax for m in maps]
            assert scalings[0] is not None
            assert scalings[1] is not None
            x = maps[0].inputs(Outputs(p))
            true = [softmax_losses(s, x, hot, objective) for s in scalings if s is not None]
            bound = softmax_bound(scalings[0], scalings[1], maps[0].inputs(Outputs(shown)), box, hot, objective)
        assert math.fsum(true[0] - true[1]) >= bound - 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("factor", "refused"), [(1.0, False), (1.15, True), (0.87, True)])
def test_four_decimals_do_not_excuse_another_temperature(kind: Kind, factor: float, refused: bool) -> None:
    z, y = logits_and_labels(kind, 500, 3)
    p = probabilities(kind, z)
    fitted = recalibration.fit("temperature", p, y, kind=kind, model="m", seed=0, calibrator="c")
    best = fitted[0].parameters["temperature"]
    assert isinstance(best, float)
    rows = CalibrationRows(Outputs(np.round(p, 4)), y)
    records = [entry("temperature", {"temperature": best * factor})]
    units = units_of("decimals:4", columns_of(kind))
    assert bool(excesses(task_of(kind), records, Objective("nll"), rows, units)) is refused


def test_numbers_rounded_before_they_were_stored_count_as_printed() -> None:
    p = np.random.default_rng(0).random((1000, 2))
    assert effective(["float64", "float32"], p) == ["float64", "float32"]
    assert effective(["float64", "float64"], np.round(p, 5)) == ["decimals:5"] * 2
    assert effective(["float32"], np.round(p[:, :1], 4).astype(np.float32).astype(np.float64)) == ["decimals:4"]
    assert effective(["float64"], np.round(p[:, :1], 2)) == ["decimals:4"]  # no column looks coarser than four
    assert effective(["decimals:6", "float16"], np.round(p, 3)) == ["decimals:6", "float16"]
    late = np.round(p[:, :1], 4)
    late[900] += 1e-7
    assert effective(["float64"], late) == ["float64"]


def test_a_clip_of_an_isotonic_map_has_to_be_declared() -> None:
    z, y = logits_and_labels("binary", 400, 5)
    p = probabilities("binary", z)
    (found,) = recalibration.fit("isotonic", p, y, kind="binary", model="m", seed=0, calibrator="c")
    clipped = np.clip(np.asarray(found.parameters["y"], dtype=np.float64), 0.005, 0.995).tolist()
    record = entry("isotonic", {"x": found.parameters["x"], "y": clipped}, interpolation="linear", outside="clip")
    rows, units = CalibrationRows(Outputs(p), y), units_of("float64", 1)
    assert excesses(task_of("binary"), [record], Objective("squared"), rows, units)
    declared = Objective("squared", bounds=(0.005, 0.995))
    assert not excesses(task_of("binary"), [record], declared, rows, units)
    assert not excesses(task_of("binary"), [found], Objective("squared"), rows, units)
