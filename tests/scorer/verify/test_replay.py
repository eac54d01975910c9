"""The second application of maps: which rows are off, and whose offence it is (MVC305, MVC306)."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from protocol.types import Kind
from scorer.verify.replay import Replay, replay
from scorer.verify.rows import EXTERNAL, TEST, Images
from submission.recalibration.maps import Floats, Outputs, RunMap, map_of
from tests.scorer.verify.made import (
    STEPS,
    columns_of,
    entry,
    images_of,
    logits_and_labels,
    outputs_of,
    probabilities,
    units_of,
)

N = 120
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
LINES: dict[str, Any] = {"interpolation": "linear", "outside": "clip"}


def tempered(kind: Kind, t: float = 2.0, source: str = "log-probabilities") -> RunMap:
    classes = range(2) if kind == "multilabel" else [None]
    records = [entry("temperature", {"temperature": t}, k=k, source=source) for k in classes]
    return map_of(records, kind, columns_of(kind))


def played(
    run_map: RunMap, inputs: Outputs, stored: Floats, images: Images | None = None, how: str = "float64"
) -> Replay:
    units = units_of(how, stored.shape[1], "float32" if inputs.z is not None else "")
    return replay(run_map, inputs, stored, np.arange(len(stored)), images or images_of(len(stored)), units)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_off_where_the_map_was_applied(kind: Kind) -> None:
    run_map, inputs = tempered(kind), outputs_of(kind, logits_and_labels(kind, N)[0])
    found = played(run_map, inputs, run_map.apply(inputs))
    assert (found.off.tolist(), found.unverified, found.slices) == ([], 0, ())


@pytest.mark.parametrize("kind", KINDS)
def test_nudged_rows_are_named_the_worst_first(kind: Kind) -> None:
    run_map, inputs = tempered(kind), outputs_of(kind, logits_and_labels(kind, N)[0])
    stored = run_map.apply(inputs)
    right = stored.copy()
    column = columns_of(kind) - 1
    for row, by in ((7, 0.01), (40, 0.05), (90, 1e-5)):
        stored[row, column] += by
    found = played(run_map, inputs, stored)
    assert found.off.tolist() == [40, 7, 90]
    assert found.column.tolist() == [column] * 3
    np.testing.assert_allclose(found.low[:, column], right[[40, 7, 90], column], atol=1e-5)
    assert not found.of_slices.any()


def test_every_column_is_looked_at() -> None:
    run_map, inputs = tempered("multiclass"), outputs_of("multiclass", logits_and_labels("multiclass", N)[0])
    for k in range(3):
        stored = run_map.apply(inputs)
        stored[3, k] += 0.02
        found = played(run_map, inputs, stored)
        assert (found.off.tolist(), found.column.tolist()) == ([3], [k])


STEPPED: list[tuple[Any, dict[str, Any], dict[str, Any]]] = [
    ("histogram", {"edges": [0.0, 0.3, 0.6, 1.0], "values": [0.1, 0.4, 0.8]}, STEPS),
    ("scaling-binning", {"slope": 0.7, "intercept": 0.0, "edges": [0.0, 0.4, 1.0], "values": [0.2, 0.7]}, STEPS),
    ("isotonic", {"x": [0.1, 0.5, 0.8], "y": [0.0, 0.5, 1.0]}, {**STEPS}),
    ("isotonic", {"x": [0.1, 0.5, 0.8], "y": [0.0, 0.5, 1.0]}, LINES),
]


@pytest.mark.parametrize(("family", "values", "more"), STEPPED)
def test_a_row_off_a_map_by_thresholds_is_found(family: Any, values: Any, more: dict[str, Any]) -> None:
    run_map = map_of([entry(family, values, **more)], "binary", 1)
    inputs = Outputs(np.linspace(0.02, 0.98, 49)[:, None])
    stored = run_map.apply(inputs)
    assert not len(played(run_map, inputs, stored).off)
    stored[20] += 0.05
    found = played(run_map, inputs, stored)
    assert found.off.tolist() == [20]
    assert np.isfinite([found.low, found.high]).all()


def test_a_row_close_to_a_cut_may_fall_on_either_side() -> None:
    run_map = map_of([entry("histogram", {"edges": [0.0, 0.3, 1.0], "values": [0.1, 0.8]}, **STEPS)], "binary", 1)
    inputs = Outputs(np.array([[0.3], [0.3], [0.3], [0.29]]))
    found = played(run_map, inputs, np.array([[0.1], [0.8], [0.5], [0.8]]), how="float32")
    assert found.off.tolist() == [3]  # any value of the range passes, as the values between are not told apart


@pytest.mark.parametrize("how", ["float32", "decimals:6", "decimals:4", "float16"])
@pytest.mark.parametrize("kind", KINDS)
def test_honest_rows_pass_as_they_are_stored(kind: Kind, how: str) -> None:
    z = 2.0 * logits_and_labels(kind, 400)[0]
    z32 = z.astype(np.float32)
    run_map = tempered(kind)

    def stored(p: Any) -> Floats:
        if how.startswith("decimals:"):
            return np.asarray(np.round(p.astype(np.float64), int(how[9:])))
        return np.asarray(p.astype(how).astype(np.float64))

    inputs = Outputs(stored(probabilities(kind, z32)))
    found = played(run_map, inputs, stored(probabilities(kind, z32 / np.float32(2.0))), how=how)
    assert not len(found.off)


@pytest.mark.parametrize("family", ["temperature", "histogram"])
def test_rows_of_many_classes_rounded_to_four_decimals_pass(family: str) -> None:
    """Their sums are off by several units, and they are not divided by them."""
    rng = np.random.default_rng(0)
    z = rng.normal(0, 2.5, (500, 15))
    p = probabilities("multiclass", z)
    if family == "temperature":
        run_map = map_of([entry("temperature", {"temperature": 1.0})], "multiclass", 15)
    else:
        values = {"edges": [0.0, 0.2, 1.0], "values": [0.05, 0.6]}
        run_map = map_of(
            [entry("histogram", values, k=k, normalise=True, **STEPS) for k in range(15)], "multiclass", 15
        )
    stored = np.round(run_map.apply(Outputs(p)), 4)
    units = units_of("decimals:4", 15)
    seen = Outputs(np.round(p, 4))
    found = replay(run_map, seen, stored, np.arange(500), images_of(500), units)
    assert not len(found.off)


def test_a_certain_error_can_t_be_softened() -> None:
    """The zeros of an isotonic map cost 27 nats each where they are wrong: 4e-6 in their place costs 12."""
    run_map = map_of([entry("isotonic", {"x": [0.2, 0.5], "y": [0.0, 1.0]}, **LINES)], "binary", 1)
    inputs = Outputs(np.array([[0.1], [0.1], [0.9], [0.9]]))
    found = played(run_map, inputs, np.array([[0.0], [3e-6], [1.0], [1.0 - 3e-6]]), how="float32")
    assert sorted(found.off.tolist()) == [1, 3]


def test_saturated_rows_are_counted_and_others_are_not() -> None:
    run_map = tempered("binary")
    p = np.array([[1.0], [0.0], [0.3], [1e-9]])
    z = np.array([[30.0], [-200.0], [np.log(0.3 / 0.7)], [np.log(1e-9)]])
    honest = probabilities("binary", z / 2.0)
    found = played(run_map, Outputs(p), honest, how="float32")
    assert not len(found.off)
    # the true logits of the first two were 30 and -200: what the map makes of them is not known, but not 0.5 either
    assert found.unverified == 0
    honest[:2] = [[0.99], [0.0005]]
    found = played(run_map, Outputs(p), honest, how="float32")
    assert sorted(found.off.tolist()) == [0, 1]
    honest = probabilities("binary", z / 3.0)
    honest[:2] = [[0.98], [0.02]]  # the last may have been 1e-4 too
    found = played(tempered("binary", 3.0), Outputs(np.round(p, 4)), honest, how="decimals:4")
    assert (len(found.off), found.unverified) == (0, 3)


def test_saturated_rows_with_logits_are_judged() -> None:
    run_map = tempered("binary", source="logits")
    z = np.array([[30.0], [-25.0], [2.0]])
    inputs = Outputs(np.round(probabilities("binary", z), 4), z)
    honest = probabilities("binary", z / 2.0)
    assert not len(played(run_map, inputs, honest).off)
    honest[1] = 1e-4
    found = played(run_map, inputs, honest)
    assert (found.off.tolist(), found.unverified) == ([1], 0)


def test_a_row_whose_range_is_no_number_is_off() -> None:
    values = {"weights": [[1e100, -1e100, 0.0]] * 3, "bias": [0.0, 0.0, 0.0]}
    run_map = map_of([entry("matrix", values, source="logits")], "multiclass", 3)
    inputs = Outputs(np.array([[1.0, 0.0, 0.0]]), np.array([[1.7e308, 0.0, -1.7e308]]))
    found = played(run_map, inputs, np.array([[0.2, 0.5, 0.3]]))
    assert np.isfinite([found.low, found.high]).all()


def test_no_rows_and_one_row() -> None:
    run_map = tempered("multiclass")
    assert not len(played(run_map, Outputs(np.empty((0, 3))), np.empty((0, 3))).off)
    one = Outputs(np.array([[0.2, 0.3, 0.5]]))
    assert not len(played(run_map, one, run_map.apply(one)).off)
    assert played(run_map, one, one.p).off.tolist() == [0]


# Whose offence is it?


def sliced(n: int, external: float = 0.4) -> Images:
    """Test and two external sites; half of the images of one sex and half of the other."""
    part = np.where(np.arange(n) < (1 - external) * n, TEST, EXTERNAL).astype(np.int8)
    site = np.where(np.arange(n) % 5 == 0, 1, 0).astype(np.int32)
    sex = (np.arange(n) % 2).astype(np.int32)
    return replace(images_of(n), part=part, site=site, sites=["a", "b"], subgroups={"sex": (sex, ["f", "m"])})


def families(kind: Kind) -> list[RunMap]:
    """Two maps of every family that the kind has in this test: the declared one, and another."""
    found = []
    for scale in (1.0, 0.6):
        classes = range(2) if kind == "multilabel" else [None]
        each = range(3) if kind == "multiclass" else classes
        normalise = kind == "multiclass"
        line = {"x": [0.1, 0.5, 0.9], "y": [0.1 * scale**3, 0.5 * scale**2, 0.9]}
        found.append(
            [
                tempered(kind, 2.0 * scale),
                map_of([entry("platt", {"slope": scale, "intercept": 0.3}, k=k) for k in each], kind, columns_of(kind)),
                map_of([entry("beta", {"a": scale, "b": 1.0, "c": 0.2}, k=k) for k in each], kind, columns_of(kind)),
                map_of(
                    [entry("isotonic", line, k=k, normalise=normalise, **LINES) for k in each], kind, columns_of(kind)
                ),
            ]
        )
    return [m for pair in zip(*found, strict=True) for m in pair]


def mixed(maps: tuple[RunMap, RunMap], inputs: Outputs, other: NDArray[np.bool_]) -> Floats:
    return np.where(other[:, None], maps[1].apply(inputs), maps[0].apply(inputs))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", range(4))
def test_a_refit_of_a_slice_is_named(kind: Kind, which: int) -> None:
    own, other = families(kind)[2 * which : 2 * which + 2]
    inputs, images = outputs_of(kind, logits_and_labels(kind, N)[0]), sliced(N)
    external = images.part == EXTERNAL
    for rows, names in (
        (external, {"external site a", "external site b"}),
        (external & (images.site == 1), {"external site b"}),
        (images.subgroups["sex"][0] == 1, {"sex=m"}),
    ):
        found = played(own, inputs, mixed((own, other), inputs, rows), images)
        assert set(found.slices) == names
        assert found.of_slices.all()
        assert set(found.off.tolist()) <= set(np.flatnonzero(rows).tolist())


def test_each_slice_with_a_map_of_its_own_is_named() -> None:
    inputs, images = outputs_of("binary", logits_and_labels("binary", N)[0]), sliced(N)
    stored = np.empty((N, 1))
    for code, t in ((0, 1.2), (1, 3.0)):
        rows = np.flatnonzero(images.subgroups["sex"][0] == code)
        stored[rows] = tempered("binary", t).apply(inputs.rows(rows))
    found = played(tempered("binary"), inputs, stored, images)
    assert found.slices == ("sex=f", "sex=m")
    assert found.of_slices.all()


def test_another_map_everywhere_scattered_rows_and_rows_of_none_are_no_refit() -> None:
    inputs, images = outputs_of("binary", logits_and_labels("binary", N)[0]), sliced(N)
    own, other = tempered("binary"), tempered("binary", 1.2)
    scattered = np.random.default_rng(0).random(N) < 0.3
    for stored in (other.apply(inputs), inputs.p, mixed((own, other), inputs, scattered)):
        found = played(own, inputs, stored, images)
        assert len(found.off) > 20
        assert not found.slices
        assert not found.of_slices.any()


def test_a_slice_that_follows_no_map_is_no_refit() -> None:
    inputs, images = outputs_of("binary", logits_and_labels("binary", N)[0]), sliced(N)
    stored = tempered("binary").apply(inputs)
    external = images.part == EXTERNAL
    stored[external] = np.random.default_rng(1).random((int(external.sum()), 1))
    found = played(tempered("binary"), inputs, stored, images)
    assert len(found.off) > 20
    assert found.slices == ()


def test_without_a_second_slice_it_is_a_map_that_was_not_applied() -> None:
    inputs = outputs_of("binary", logits_and_labels("binary", N)[0])
    found = played(tempered("binary"), inputs, tempered("binary", 1.2).apply(inputs))
    assert found.slices == ()
    assert len(found.off) > 100


def test_a_nudged_row_beside_a_refitted_site_is_told_apart() -> None:
    inputs, images = outputs_of("binary", logits_and_labels("binary", 400)[0]), sliced(400)
    stored = mixed((tempered("binary"), tempered("binary", 1.2)), inputs, images.part == EXTERNAL)
    stored[5] += 0.02 if stored[5] < 0.5 else -0.02
    found = played(tempered("binary"), inputs, stored, images)
    assert set(found.slices) == {"external site a", "external site b"}
    assert found.off[~found.of_slices].tolist() == [5]
