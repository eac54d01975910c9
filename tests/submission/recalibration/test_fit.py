"""What every family promises, whatever the rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.objective import Objective, objective_of
from protocol.submission import Family, Method
from protocol.types import Kind
from submission.recalibration import DEFAULTS, METHOD_WORDS, apply
from tests.submission.recalibration.helpers import FAMILIES, KINDS, Floats, Ints, drawn, fitted

EVERY = pytest.mark.parametrize(("family", "kind"), list(itertools.product(FAMILIES, KINDS)))
SMOOTH: tuple[Family, ...] = ("temperature", "vector", "matrix", "dirichlet")


@pytest.mark.parametrize("family", FAMILIES)
def test_the_words_of_a_default_are_read_back_as_it(family: Family) -> None:
    assert objective_of(Method(name="m", family=family, **METHOD_WORDS[family])) == DEFAULTS[family]


@EVERY
def test_weights_are_repetitions_and_the_order_of_rows_changes_no_bit(family: Family, kind: Kind) -> None:
    p, y, z = drawn(kind, 60)
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 4, len(p))
    rows = rng.permutation(np.repeat(np.arange(len(p)), weights))
    for logits in (None, z):
        weighted = fitted(family, p, y, kind, logits=logits, weights=weights.astype(np.float64))
        repeated = fitted(family, p[rows], y[rows], kind, logits=None if logits is None else logits[rows])
        assert [r.parameters for r in weighted] == [r.parameters for r in repeated]
        assert [r.objective for r in weighted] == [r.objective for r in repeated]


@pytest.mark.parametrize("family", [name for name in FAMILIES if name != "histogram"])
def test_renamed_classes_rename_the_outputs(family: Family) -> None:
    p, y, _ = drawn("multiclass", 150)
    order = np.array([2, 0, 3, 1])
    q = apply(fitted(family, p, y, "multiclass"), p, kind="multiclass")
    renamed = apply(fitted(family, p[:, order], np.argsort(order)[y], "multiclass"), p[:, order], kind="multiclass")
    np.testing.assert_allclose(renamed, q[:, order], atol=1e-7)


@EVERY
def test_the_fit_is_no_worse_than_no_map(family: Family, kind: Kind) -> None:
    p, y, _ = drawn(kind, 200)
    q = apply(fitted(family, p, y, kind, objective=Objective("nll")), p, kind=kind)
    if kind == "multiclass":
        if family in SMOOTH:
            rows = np.arange(len(y))
            assert np.log(q[rows, y]).sum() >= np.log(p[rows, y]).sum()
        return
    labels = y.reshape(len(p), -1)
    if family in ("histogram", "scaling-binning"):  # a step map gives up resolution
        return
    for k in range(p.shape[1]):
        own, base = (np.where(labels[:, k] == 1, v[:, k], 1 - v[:, k])[labels[:, k] >= 0].clip(1e-12) for v in (q, p))
        assert np.log(own).sum() >= np.log(base).sum() - 1e-9


@pytest.mark.parametrize("family", ["temperature", "beta", "isotonic", "platt"])
def test_monotone_families_keep_the_order(family: Family) -> None:
    p, y, _ = drawn("binary", 120)
    at = np.linspace(0, 1, 301)[:, None]
    assert (np.diff(apply(fitted(family, p, y, "binary"), at, kind="binary")[:, 0]) >= 0).all()


HARD: dict[str, tuple[Floats, Ints]] = {
    "one row": (np.array([[0.2, 0.5, 0.3]]), np.array([1])),
    "saturated": (np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 1])),
    "saturated and right": (np.eye(3)[[0, 1, 2, 0]], np.array([0, 1, 2, 0])),
    "one class": (np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2]]), np.array([1, 1])),
    "a class absent": (np.array([[0.2, 0.5, 0.3], [0.6, 0.2, 0.2], [0.3, 0.4, 0.3]]), np.array([1, 0, 1])),
    "constant": (np.full((6, 3), 1 / 3), np.array([0, 1, 2, 0, 0, 1])),
    "duplicated": (np.repeat([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]], 4, axis=0), np.array([0, 0, 1, 0, 2, 2, 0, 2])),
    "zero rows": (np.zeros((3, 3)), np.array([0, 1, 2])),
}


@EVERY
@pytest.mark.parametrize("name", HARD)
def test_hard_rows_give_finite_maps(family: Family, kind: Kind, name: str) -> None:
    p, y = HARD[name]
    tables = {"binary": p[:, :1], "multiclass": p, "multilabel": p}
    labels = {"binary": (y > 0).astype(np.int64), "multiclass": y, "multilabel": np.eye(3, dtype=np.int64)[y]}
    new = np.random.default_rng(0).dirichlet(np.full(3, 0.1), 30)
    new = np.concatenate((new, np.eye(3), np.zeros((1, 3))))[:, : tables[kind].shape[1]]
    for scale in (None, 1.0, 1e4):
        z = None if scale is None else scale * (tables[kind] - 0.4)
        records = fitted(family, tables[kind], labels[kind], kind, logits=z)
        q = apply(records, new, kind=kind, logits=None if scale is None else scale * (new - 0.4))
        assert np.isfinite(q).all()
        assert ((q >= 0) & (q <= 1)).all()
        assert not np.signbit(q).any()
        if kind == "multiclass":
            np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=1e-12)


@settings(max_examples=25, deadline=None)
@given(
    arrays(np.float64, (7, 3), elements=st.floats(0, 1) | st.sampled_from([0.0, 1e-16, 1.0])),
    arrays(np.int64, 7, elements=st.integers(0, 2)),
    st.sampled_from(FAMILIES),
)
def test_any_rows_give_probabilities(p: Floats, y: Ints, family: Family) -> None:
    q = apply(fitted(family, p, y, "multiclass"), p, kind="multiclass")
    assert ((q >= 0) & (q <= 1)).all()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_bad_weights_and_logits_are_refused() -> None:
    p, y, z = drawn("binary", 10)
    for more, message in [
        ({"weights": np.ones(3)}, r"weights must have shape \(10,\), not \(3,\)"),
        ({"weights": -np.ones(10)}, "finite and at least 0"),
        ({"weights": np.full(10, np.nan)}, "finite and at least 0"),
        ({"weights": np.zeros(10)}, "no rows of positive weight"),
        ({"logits": z[:4]}, r"shape of the probabilities, \(10, 1\), not \(4, 1\)"),
        ({"logits": np.full((10, 1), np.inf)}, "10 logits are not finite"),
    ]:
        with pytest.raises(ValueError, match=message):
            fitted("temperature", p, y, "binary", **more)
