"""Histogram and scaling-binning maps against the calibration rows (MVC303)."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.honest import trial
from protocol.objective import Binning, Objective
from scorer.verify.bins import binned_excesses
from scorer.verify.refit import CalibrationRows, Excess, Unverifiable
from submission import recalibration
from submission.recalibration.maps import Floats, Outputs
from tests.scorer.verify.made import STEPS, entry, logits_and_labels, probabilities, task_of, units_of

MASS: Binning = ("equal-mass", 10)
WIDTH: Binning = ("equal-width", 10)


def data(n: int = 200, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    z, y = logits_and_labels("binary", n, seed)
    return probabilities("binary", z), y


def judged(
    edges: Any, values: Any, p: Floats, y: NDArray[np.int64], binning: Binning | None = MASS, how: str = "float64"
) -> list[Excess]:
    record = entry("histogram", {"edges": list(edges), "values": list(values)}, **STEPS)
    rows = CalibrationRows(Outputs(p), y)
    return binned_excesses(task_of("binary"), [record], Objective("squared", binning=binning), rows, units_of(how, 1))


def means(edges: Floats, p: Floats, y: NDArray[np.int64]) -> list[float]:
    """Literally: the mean label of the rows in each bin."""
    ends = list(pairwise(edges))
    parts = [y[(p[:, 0] > low if low > 0 else p[:, 0] >= 0) & (p[:, 0] <= high)] for low, high in ends]
    return [float(part.mean()) if len(part) else 0.5 for part in parts]


def quantiles(p: Floats, count: int) -> Floats:
    return np.array([0.0, *np.quantile(p, np.arange(1, count) / count), 1.0])


def split(p: Floats, sizes: list[int]) -> Floats:
    """Edges halfway between runs of the sorted values."""
    x, at = np.sort(p[:, 0]), np.cumsum(sizes)[:-1]
    return np.array([0.0, *((x[at - 1] + x[at]) / 2), 1.0])


@pytest.mark.parametrize("n", [200, 207, 1003])
@pytest.mark.parametrize("how", ["quantile", "first larger", "last takes the rest", "full and a short last one"])
def test_bins_of_equal_mass_as_libraries_cut_them(n: int, how: str) -> None:
    p, y = data(n)
    each, rest = divmod(n, 10)
    full = -(-n // 10)
    sizes = {
        "first larger": [each + (j < rest) for j in range(10)],
        "last takes the rest": [each] * 9 + [each + rest],
        "full and a short last one": [full] * 9 + [n - 9 * full],
    }
    edges = quantiles(p, 10) if how == "quantile" else split(p, sizes[how])
    assert judged(edges, means(edges, p, y), p, y) == []


@pytest.mark.parametrize(
    "change", ["one edge too many", "one too few", "a moved edge", "one bin", "all edges elsewhere", "other count"]
)
def test_other_bins_than_declared_are_refused(change: str) -> None:
    """Though the values are the means of the rows in them."""
    p, y = data(400)
    edges = quantiles(p, 10)
    edges = {
        "one edge too many": np.sort(np.append(edges, (edges[3] + edges[4]) / 2)),
        "one too few": np.delete(edges, 4),
        "a moved edge": np.sort(np.append(np.delete(edges, 4), edges[4] * 0.7 + edges[5] * 0.3)),
        "one bin": np.array([0.0, 1.0]),
        "all edges elsewhere": np.array([0.0, *np.quantile(p, np.arange(1, 10) / 10 + 0.04), 1.0]),
        "other count": quantiles(p, 8),
    }[change]
    found = judged(edges, means(edges, p, y), p, y)
    assert len(found) == 1
    assert found[0].excess == math.inf
    assert "10 equal" in found[0].refit


def test_ties_take_bins_away() -> None:
    p, y = data(300)
    p[:120] = 0.4  # four tenths of the rows share a value
    for edges in (quantiles(p, 10), np.array(recalibration_edges(p, y))):
        edges = np.unique(edges)
        assert judged(edges, means(edges, p, y), p, y) == []


def recalibration_edges(p: Floats, y: NDArray[np.int64]) -> Any:
    records = recalibration.fit("histogram", p, y, kind="binary", model="m", seed=0, calibrator="c",
                                objective=Objective("squared", binning=MASS))  # fmt: skip
    return records[0].parameters["edges"]


def test_edges_of_equal_width() -> None:
    p, y = data(400)
    edges = np.arange(11) / 10
    assert judged(edges, means(edges, p, y), p, y, WIDTH) == []
    moved = edges.copy()
    moved[3] += 0.01
    for other in (moved, np.delete(edges, 3)):
        found = judged(other, means(other, p, y), p, y, WIDTH)
        assert found[0].refit == "edges at whole multiples of 1/10"


def test_a_wrong_value_is_named_and_counted() -> None:
    p, y = data(400)
    edges = quantiles(p, 10)
    values = means(edges, p, y)
    right = values[6]
    values[6] += 0.1
    found = judged(edges, values, p, y)
    inside = int(((p[:, 0] > edges[6]) & (p[:, 0] <= edges[7])).sum())
    assert found[0].excess == pytest.approx(inside * 0.01, rel=0.05)
    assert found[0].refit == f"bin 6 at {right:.6g}"
    values[6] = right + 0.01  # 40 rows x 0.0001 in all
    assert judged(edges, values, p, y) == []


@pytest.mark.parametrize("convention", ["middle", "before", "after", "between", "0", "0.5", "1", "mean"])
def test_bins_without_rows_that_follow_a_convention(convention: str) -> None:
    p, y = data(400)
    p = np.where(p < 0.5, 0.2 + p / 5.0, 0.6 + p / 5.0)  # four empty bins on the left, two between, two on the right
    edges = np.arange(11) / 10
    values = np.array(means(edges, p, y))
    empty = np.bincount((p[:, 0] * 10).astype(int), minlength=10) == 0
    assert np.flatnonzero(empty).tolist() == [0, 1, 3, 4, 5, 6, 8, 9]
    middle = (edges[:-1] + edges[1:]) / 2
    left, right = values[2], values[7]
    said = {
        "middle": middle,
        "before": np.array([left] * 7 + [right] * 3),
        "after": np.array([left] * 3 + [right] * 7),
        "between": np.interp(middle, middle[~empty], values[~empty]),
        "mean": np.full(10, y.mean()),
    }.get(convention)
    values[empty] = float(convention) if said is None else said[empty]
    assert judged(edges, values, p, y, WIDTH) == []


def test_bins_without_rows_can_t_hold_the_labels_of_test() -> None:
    """A thousand bins of equal width, most of them empty: what they say would be verified otherwise."""
    p, y = data(200)
    edges = np.arange(1001) / 1000
    values = np.array(means(edges, p, y))
    empty = np.bincount(np.ceil(p[:, 0] * 1000).astype(int) - 1, minlength=1000) == 0
    assert empty.sum() > 800
    values[empty] = np.random.default_rng(0).integers(0, 2, int(empty.sum()))
    with pytest.raises(Unverifiable, match=r"\d+ bins without a calibration row follow no convention"):
        judged(edges, values, p, y, ("equal-width", 1000))


def test_bins_without_a_declared_grid_are_not_judged() -> None:
    p, y = data(100)
    with pytest.raises(Unverifiable, match="15 equal-mass bins"):
        judged([0.0, 1.0], [0.5], p, y, None)


def scaled(slope: float, p: Floats, shift: float = 0.0) -> tuple[Any, Floats]:
    s = 1 / (1 + np.exp(-slope * np.log(p[:, 0] / (1 - p[:, 0])) - 0.1))
    edges = np.array([0.0, *np.quantile(s, np.arange(1, 10) / 10), 1.0])
    place = np.searchsorted(edges[1:-1], s, side="left")
    values = [float(s[place == j].mean()) + shift for j in range(10)]
    return {"slope": slope, "intercept": 0.1, "edges": edges.tolist(), "values": values}, s


def test_scaling_binning_is_judged_in_both_steps() -> None:
    p, y = data(400)
    fitted = recalibration.fit("scaling-binning", p, y, kind="binary", model="m", seed=0, calibrator="c",
                               objective=Objective("nll", binning=MASS))  # fmt: skip
    rows, units, objective = CalibrationRows(Outputs(p), y), units_of("float64", 1), Objective("nll", binning=MASS)
    assert binned_excesses(task_of("binary"), fitted, objective, rows, units) == []
    other, _ = scaled(1.3, p)  # bins and means in order, the slope is not
    found = binned_excesses(task_of("binary"), [entry("scaling-binning", other, **STEPS)], objective, rows, units)
    assert [excess.refit[:5] for excess in found] == ["slope"]
    values = [value + 0.03 for value in fitted[0].parameters["values"]]  # type: ignore[union-attr,operator]
    wrong = fitted[0].model_copy(update={"parameters": {**fitted[0].parameters, "values": tuple(values)}})
    found = binned_excesses(task_of("binary"), [wrong], objective, rows, units)
    assert [excess.refit[:3] for excess in found] == ["bin"]


def test_one_class_of_several_is_named() -> None:
    z, y = logits_and_labels("multiclass", 300)
    p = probabilities("multiclass", z)
    objective = Objective("squared", binning=MASS)
    records = list(recalibration.fit("histogram", p, y, kind="multiclass", model="m", seed=0, calibrator="c",
                                     objective=objective))  # fmt: skip
    flat = {"edges": records[1].parameters["edges"], "values": (0.5,) * 10}
    records[1] = records[1].model_copy(update={"parameters": flat})
    rows = CalibrationRows(Outputs(p), y)
    found = binned_excesses(task_of("multiclass"), records, objective, rows, units_of("float64", 3))
    assert [excess.part for excess in found] == [", class 1"]


@pytest.mark.parametrize("name", ["histogram", "scaling-binning"])
def test_honest_binned_fits_pass(name: str) -> None:
    assert [trial(name, 200, seed) for seed in range(100, 112)] == [""] * 12
