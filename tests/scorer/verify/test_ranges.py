"""Ranges of maps over boxes of stored inputs."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.types import Kind
from scorer.verify.boxes import box_of
from scorer.verify.ranges import range_of
from submission.recalibration.maps import Floats, Outputs, RunMap, map_of
from tests.scorer.verify.made import STEPS, columns_of, entry, probabilities, units_of

Rng = np.random.Generator
STORES = ("float64", "float32", "float16", "decimals:6", "decimals:4", "decimals:2")


def _thresholds(rng: Rng, many: int) -> dict[str, list[float]]:
    x = np.unique(rng.random(many))
    return {"x": x.tolist(), "y": np.sort(rng.random(len(x))).tolist()}


def _edges(rng: Rng, many: int) -> dict[str, list[float]]:
    inner = np.unique(rng.uniform(0.001, 0.999, many))
    return {"edges": [0.0, *inner.tolist(), 1.0], "values": rng.random(len(inner) + 1).tolist()}


def parameters(family: str, kind: Kind, rng: Rng) -> tuple[Any, dict[str, Any]]:
    """Parameters of a random map of the family, and what else its entry says."""
    k, many = columns_of(kind) if kind == "multiclass" else 2, int(rng.integers(1, 40))
    line = {"slope": rng.normal(1, 1), "intercept": rng.normal()}
    smooth: dict[str, Any] = {
        "temperature": {"temperature": float(np.exp(rng.normal()))},
        "vector": {"weights": rng.normal(1, 0.7, k).tolist(), "bias": rng.normal(size=k).tolist()},
        "matrix": {"weights": rng.normal(0, 1, (k, k)).tolist(), "bias": rng.normal(size=k).tolist()},
        "platt": line,
        "beta": dict(zip("abc", (*np.abs(rng.normal(1, 1, 2)), rng.normal()), strict=True)),
    }
    smooth["dirichlet"] = smooth["matrix"]
    if family in smooth:
        return smooth[family], {}
    again = {"normalise": kind == "multiclass"}
    if family == "histogram":
        return _edges(rng, many), {**STEPS, **again}
    if family == "scaling-binning":
        return {**line, **_edges(rng, many)}, {**STEPS, **again}
    how = "step" if rng.random() < 0.5 else "linear"
    return _thresholds(rng, many), {"interpolation": how, "outside": "clip", **again}


def random_map(family: Any, kind: Kind, source: str, rng: Rng, pooled: bool = False) -> RunMap:
    """A map with random parameters."""
    alone = kind == "binary" or pooled or (kind == "multiclass" and family in SOFTMAX)
    records: list[FittedCalibrator] = []
    extra: dict[str, Any] = {}
    for k in [None] if alone else range(columns_of(kind)):
        values, own = parameters(family, kind, rng)
        extra = extra or own  # the entries of a run agree in form
        records.append(entry(family, values, source=source, k=k, **extra))
    return map_of(records, kind, columns_of(kind))


SOFTMAX = ("temperature", "vector", "matrix", "dirichlet")
FAMILIES = [
    *((family, source) for family in ("temperature", "vector", "matrix", "platt", "scaling-binning")
      for source in ("logits", "log-probabilities")),
    ("dirichlet", "log-probabilities"), ("beta", "log-probabilities"), ("platt", "probabilities"),
    ("isotonic", "probabilities"), ("histogram", "probabilities"),
]  # fmt: skip
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


def _stored(values: Floats, how: str) -> Floats:
    if how.startswith("decimals:"):
        return np.round(values, int(how.removeprefix("decimals:")))
    return values.astype(how).astype(np.float64)


def truths(kind: Kind, rng: Rng, n: int) -> tuple[Floats, Floats]:
    """Logits and probabilities as computed: some mild, some nearly or wholly saturated."""
    z = rng.normal(0, np.exp(rng.uniform(-1, 3)), (n, columns_of(kind))) + rng.normal(0, 3)
    return z, probabilities(kind, z)


def _within(value: Floats, ends: tuple[Floats, Floats]) -> NDArray[np.bool_]:
    return (ends[0] - 1e-12 <= value) & (value <= ends[1] + 1e-12)


@pytest.mark.parametrize(("family", "source"), FAMILIES)
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=6, deadline=None)
def test_what_was_computed_lies_in_the_range_of_what_was_stored(
    family: str, source: str, kind: Kind, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    for pooled in (False, True) if (family, kind) == ("isotonic", "multiclass") else (False,):
        run_map = random_map(family, kind, source, rng, pooled)
        z, p = truths(kind, rng, 12)
        how = STORES[int(rng.integers(len(STORES)))]
        zs = _stored(z, "float32")
        seen = Outputs(_stored(p, how), zs)
        box = box_of(run_map, seen, units_of(how, p.shape[1], "float32"))
        ends = range_of(run_map, box)
        # a map of probabilities below the floor reads the floor: only the logits say more, and those are another map
        true = Outputs(np.maximum(p, 0.0), z)
        assert _within(run_map.apply(true), ends).all()
        assert _within(run_map.apply(seen), ends).all()
        assert (ends[0] <= ends[1] + 1e-15).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["isotonic", "histogram", "scaling-binning", "beta", "vector"])
def test_any_point_of_a_wide_box(family: str, kind: Kind) -> None:
    rng = np.random.default_rng(5)
    source = "probabilities" if family in ("isotonic", "histogram") else "log-probabilities"
    for _ in range(10):
        run_map = random_map(family, kind, source, rng)
        _, p = truths(kind, rng, 6)
        seen = Outputs(np.round(p, 1))
        ends = range_of(run_map, box_of(run_map, seen, units_of("decimals:1", p.shape[1])))
        for _ in range(20):
            near = (seen.p + rng.uniform(-0.1, 0.1, p.shape)).clip(0.0, 1.0)
            assert _within(run_map.apply(Outputs(near)), ends).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["temperature", "vector", "dirichlet", "beta", "platt"])
def test_the_range_of_a_smooth_map_is_as_narrow_as_its_box(family: str, kind: Kind) -> None:
    """A relative error e of p moves log p by e, and a softmax by half of the sum of what its logits move by."""
    rng = np.random.default_rng(7)
    z = rng.normal(0, 1.5, (50, columns_of(kind)))
    p = probabilities(kind, z)
    run_map = random_map(family, kind, "log-probabilities", rng)
    box = box_of(run_map, Outputs(p), units_of("float32", p.shape[1]))
    low, high = range_of(run_map, box)
    steepest = 0.0
    if run_map.softmax is not None:
        steepest = float(np.abs(run_map.softmax.weights).sum()) * 2
    else:
        steepest = max(abs(c.first) + abs(c.second) for c in run_map.columns)  # type: ignore[union-attr]
    width = 2.0**-20 * (1.0 / (1.0 - p.max()) if kind != "multiclass" else 1.0)
    assert (high - low).max() <= steepest * width
    assert not box.open.any()


def test_a_range_over_many_thresholds_is_that_of_the_literal_loop() -> None:
    rng = np.random.default_rng(3)
    y = rng.random(200)
    x = np.sort(rng.random(199))
    values = {"edges": [0.0, *x.tolist(), 1.0], "values": y.tolist()}
    run_map = map_of([entry("histogram", values, **STEPS)], "binary", 1)
    p = np.round(rng.random((80, 1)), 1)
    low, high = range_of(run_map, box_of(run_map, Outputs(p), units_of("decimals:1", 1)))
    for i, value in enumerate(p[:, 0]):
        first, last = np.searchsorted(x, [max(value - 0.1, 0.0), min(value + 0.1, 1.0)])
        assert low[i, 0] == y[first : last + 1].min()
        assert high[i, 0] == y[first : last + 1].max()


def test_normalised_rows_of_zeros_are_uniform_or_anything_the_box_allows() -> None:
    flat = {"x": [0.0, 0.2, 1.0], "y": [0.0, 0.0, 0.4]}
    records = [entry("isotonic", flat, k=k, interpolation="linear", outside="clip", normalise=True) for k in range(3)]
    run_map = map_of(records, "multiclass", 3)
    p = np.array([[0.2, 0.2, 0.2], [0.1, 0.1, 0.8]])
    low, high = range_of(run_map, box_of(run_map, Outputs(p), units_of("float64", 3)))
    assert (low[0] <= 1 / 3).all()
    assert (high[0] == 1.0).all()
    assert low[1].tolist() == [0.0, 0.0, 1.0]
    assert high[1].tolist() == [0.0, 0.0, 1.0]


def test_the_range_at_the_largest_parameters_and_logits_is_finite() -> None:
    values = {"weights": [[1e100, -1e100, 0.0]] * 3, "bias": [1e100, 0.0, -1e100]}
    run_map = map_of([entry("matrix", values, source="logits")], "multiclass", 3)
    seen = Outputs(np.array([[1.0, 0.0, 0.0]]), np.array([[1.7e308, 0.0, -1.7e308]]))
    low, high = range_of(run_map, box_of(run_map, seen, units_of("float64", 3, "float64")))
    assert np.isfinite(low).all()
    assert np.isfinite(high).all()
    assert (low <= high).all()
