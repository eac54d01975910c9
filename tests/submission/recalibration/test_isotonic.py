from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.isotonic import IsotonicRegression

from protocol.types import Kind
from submission.recalibration import apply
from submission.recalibration.isotonic import apply_isotonic
from submission.recalibration.maps import normalise_rows
from tests.submission.recalibration.helpers import Floats, Ints, drawn, fitted, parameter


def fit_isotonic(p: Any, y: Any, kind: Kind, **more: Any) -> tuple[tuple[Floats, Floats], ...]:
    return tuple((parameter(r, "x"), parameter(r, "y")) for r in fitted("isotonic", p, y, kind, **more))


UNIT = st.floats(0, 1)


def pool_adjacent_violators(p: Floats, y: Floats) -> Floats:
    """The textbook fit at each row: merge neighbouring blocks while a mean falls."""
    blocks: list[tuple[float, int]] = []  # sum and size, by rising p
    levels, size_of_level = np.unique(p, return_counts=True)
    for level, size in zip(levels, size_of_level, strict=True):
        blocks.append((float(y[p == level].sum()), int(size)))
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] >= blocks[-1][0] / blocks[-1][1]:
            total, rows = blocks.pop()
            blocks[-1] = (blocks[-1][0] + total, blocks[-1][1] + rows)
    fitted = np.concatenate([np.full(rows, total / rows) for total, rows in blocks])
    return np.asarray(fitted[np.argsort(np.argsort(p, kind="stable"), kind="stable")])


def test_worked_by_hand() -> None:
    # rising p, labels 0 1 0 1: the middle two pool to 1/2
    p, y = np.array([[0.1], [0.4], [0.6], [0.9]]), np.array([0, 1, 0, 1])
    ((xs, ys),) = fit_isotonic(p, y, "binary")
    np.testing.assert_array_equal(xs, [0.1, 0.4, 0.6, 0.9])
    np.testing.assert_array_equal(ys, [0.0, 0.5, 0.5, 1.0])
    # halfway between 0.1 and 0.4 the map is at 1/4; below and above it stays at its ends
    got = apply_isotonic(xs, ys, np.array([0.0, 0.25, 0.5, 0.75, 1.0]))
    np.testing.assert_allclose(got, [0.0, 0.25, 0.5, 0.75, 1.0], rtol=1e-15)


def test_equal_inputs_are_averaged_by_weight() -> None:
    # scikit-learn issue 9432: 1/3 where the mean of the pooled rows is 1/2
    p, y = np.array([[0.2], [0.2], [0.2], [0.6], [0.8]]), np.array([0, 1, 1, 0, 1])
    ((xs, ys),) = fit_isotonic(p, y, "binary")
    np.testing.assert_allclose(apply_isotonic(xs, ys, np.array([0.2, 0.6, 0.8])), [0.5, 0.5, 1.0])


def test_ties_at_the_minimum_are_finite() -> None:
    # scikit-learn issue 4184
    ((xs, ys),) = fit_isotonic(np.array([[0.0], [0.0], [0.5], [1.0]]), np.array([0, 1, 1, 1]), "binary")
    assert apply_isotonic(xs, ys, np.array([0.0])) == [0.5]


def test_the_block_algorithm_gives_the_same_fit() -> None:
    rng = np.random.default_rng(0)
    p = np.round(rng.random(200), 2)  # with ties
    y = (rng.random(200) < p).astype(np.int64)
    ((xs, ys),) = fit_isotonic(p[:, None], y, "binary")
    np.testing.assert_allclose(apply_isotonic(xs, ys, p), pool_adjacent_violators(p, y.astype(float)), atol=1e-12)


@pytest.mark.parametrize("classes", [2, 5])
def test_new_points_follow_the_library_one_class_against_the_rest(classes: int) -> None:
    rng = np.random.default_rng(classes)
    p, new = rng.dirichlet(np.ones(classes), 300), rng.dirichlet(np.full(classes, 0.3), 500)
    y = np.array([rng.choice(classes, p=row) for row in p])
    maps = fit_isotonic(p, y, "multiclass")
    assert len(maps) == classes
    for k, (xs, ys) in enumerate(maps):
        oracle = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p[:, k], y == k)
        np.testing.assert_allclose(apply_isotonic(xs, ys, new[:, k]), oracle.predict(new[:, k]), rtol=0, atol=1e-15)


def test_each_finding_uses_its_labelled_rows() -> None:
    rng = np.random.default_rng(4)
    p, y = rng.random((80, 2)), rng.integers(-1, 2, (80, 2))
    for k, (xs, ys) in enumerate(fit_isotonic(p, y, "multilabel")):
        labelled = y[:, k] >= 0
        ((alone_x, alone_y),) = fit_isotonic(p[labelled, k : k + 1], y[labelled, k], "binary")
        np.testing.assert_array_equal(xs, alone_x)
        np.testing.assert_array_equal(ys, alone_y)


@pytest.mark.parametrize("label", [0, 1])
def test_one_class_gives_a_constant_map(label: int) -> None:
    ((xs, ys),) = fit_isotonic(np.array([[0.2], [0.5], [0.9]]), np.full(3, label), "binary")
    assert (apply_isotonic(xs, ys, np.linspace(0, 1, 7)) == label).all()


def test_a_constant_input_gives_the_rate_of_events() -> None:
    ((xs, ys),) = fit_isotonic(np.full((4, 1), 0.3), np.array([0, 1, 0, 0]), "binary")
    assert (xs.tolist(), ys.tolist()) == ([0.3], [0.25])
    assert (apply_isotonic(xs, ys, np.array([0.0, 0.3, 1.0])) == 0.25).all()


@given(
    arrays(np.float64, 12, elements=UNIT | st.sampled_from([0.0, 5e-324, 1e-16, 0.5, 1 - 1e-16, 1.0])),
    arrays(np.int64, 12, elements=st.integers(0, 1)),
    arrays(np.float64, 20, elements=UNIT),
)
def test_the_map_is_monotone_and_valid(p: Floats, y: Ints, new: Floats) -> None:
    ((xs, ys),) = fit_isotonic(p[:, None], y, "binary")
    assert (np.diff(xs) > 0).all()
    assert (np.diff(ys) >= 0).all()
    q = apply_isotonic(xs, ys, np.sort(new))
    assert (np.diff(q) >= -1e-15).all()
    assert ((q >= ys[0] - 1e-15) & (q <= ys[-1] + 1e-15)).all()
    assert ((q >= 0) & (q <= 1)).all()
    assert not np.signbit(q).any()


def test_rows_are_normalised_and_a_row_of_zeros_becomes_uniform() -> None:
    q = normalise_rows(np.array([[0.2, 0.2, 0.4], [0.0, 0.0, 0.0], [0.0, 0.5, 0.0], [5e-324, 5e-324, 0.0]]))
    expected = [[0.25, 0.25, 0.5], [1 / 3, 1 / 3, 1 / 3], [0.0, 1.0, 0.0], [0.5, 0.5, 0.0]]
    np.testing.assert_allclose(q, expected, rtol=1e-15)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="no rows"):
        fit_isotonic(np.empty((0, 1)), np.empty(0, np.int64), "binary")
    with pytest.raises(ValueError, match="1 probabilities are not finite"):
        fit_isotonic(np.array([[np.nan], [0.5]]), np.array([0, 1]), "binary")
    with pytest.raises(ValueError, match=r"shape \(2,\) here, not \(1,\)"):
        fit_isotonic(np.array([[0.1], [0.5]]), np.array([0]), "binary")


def test_pooled_pairs_give_one_map_that_keeps_the_order_within_rows() -> None:
    p, y, _ = drawn("multiclass", 200)
    records = fitted("isotonic", p, y, "multiclass", pooled=True)
    ((xs, ys),) = [(parameter(r, "x"), parameter(r, "y")) for r in records]
    assert (records[0].class_index, records[0].n, records[0].normalise) == (None, 200, True)
    oracle = IsotonicRegression(out_of_bounds="clip", y_min=0, y_max=1).fit(p.ravel(), np.eye(4)[y].ravel())
    np.testing.assert_allclose(apply_isotonic(xs, ys, p.ravel()), oracle.predict(p.ravel()), rtol=0, atol=1e-12)
    q = apply(records, p, kind="multiclass")
    np.testing.assert_allclose(q, normalise_rows(oracle.predict(p.ravel()).reshape(p.shape)), rtol=0, atol=1e-12)
    rows = np.arange(len(p))[:, None]
    assert (np.diff(q[rows, p.argsort(axis=1)], axis=1) >= -1e-15).all()
