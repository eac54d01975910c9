"""Stored logits against the probabilities beside them."""

import numpy as np
import pytest

from protocol.types import Kind
from scorer.verify.logits import stray_logits
from submission.recalibration.maps import Outputs
from tests.scorer.verify.made import logits_and_labels, probabilities, units_of

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["float64", "float32", "float16", "decimals:4"])
@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (30.0, 0.0), (1.0, 1000.0), (30.0, -1000.0)])
def test_honest_logits_pass(kind: Kind, how: str, scale: float, offset: float) -> None:
    z = scale * logits_and_labels(kind, 300)[0]
    if kind == "multiclass":  # log odds have no offset
        z = z + offset
    z32 = z.astype(np.float32)
    with np.errstate(over="ignore", under="ignore"):
        p = probabilities(kind, z32)  # in single precision
    p = np.round(p, 4) if how.startswith("decimals") else p.astype(how)
    outputs = Outputs(p.astype(np.float64), z32.astype(np.float64))
    rows, made, column = stray_logits(kind, outputs, units_of(how, p.shape[1], "float32"))
    assert (len(rows), len(made), len(column)) == (0, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_of_other_probabilities_are_named_worst_first(kind: Kind) -> None:
    z = logits_and_labels(kind, 50)[0]
    p = probabilities(kind, z)
    z = z.copy()
    z[9, 0] += 0.1
    z[30, 0] += 1.0
    rows, made, column = stray_logits(kind, Outputs(p, z), units_of("float32", p.shape[1], "float32"))
    assert rows.tolist() == [30, 9]
    assert made.tolist() == [probabilities(kind, z)[row, k] for row, k in zip(rows, column, strict=True)]


@pytest.mark.parametrize("kind", KINDS)
def test_a_logit_milder_than_a_small_probability_is_refused(kind: Kind) -> None:
    """In absolute terms exp(-17) and exp(-12.6) are close, and a wrong row at the latter costs 4 nats less."""
    z = np.zeros((2, 3 if kind == "multiclass" else 2 if kind == "multilabel" else 1))
    z[:, 0] = -17.0
    p = probabilities(kind, z)
    z[1, 0] = -12.6
    rows, _, _ = stray_logits(kind, Outputs(p, z), units_of("float64", p.shape[1], "float32"))
    assert rows.tolist() == [1]
    rows, _, _ = stray_logits(kind, Outputs(1.0 - p, -z), units_of("float64", p.shape[1], "float32"))
    if kind != "multiclass":
        assert rows.tolist() == [1]


@pytest.mark.parametrize("floor", [1e-7, 1e-6])
def test_clipped_probabilities_pass(floor: float) -> None:
    z = np.array([[-40.0], [-20.0], [0.3], [25.0]])
    p = probabilities("binary", z).clip(floor, 1.0 - floor)
    assert not len(stray_logits("binary", Outputs(p, z), units_of("float64", 1, "float64"))[0])


def test_rows_without_logits_and_no_logits_pass() -> None:
    p = np.array([[0.3], [0.6]])
    assert not len(stray_logits("binary", Outputs(p), units_of("float64", 1))[0])
    some = Outputs(p, np.array([[np.nan], [5.0]]))
    assert stray_logits("binary", some, units_of("float64", 1, "float64"))[0].tolist() == [1]
    none = Outputs(np.empty((0, 1)), np.empty((0, 1)))
    assert not len(stray_logits("binary", none, units_of("float64", 1, "float64"))[0])
