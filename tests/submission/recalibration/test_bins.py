"""Histogram binning: edges, ties, values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.objective import Binning, Objective
from submission.recalibration import apply
from tests.submission.recalibration.helpers import Floats, fitted, parameter


def histogram(p: Floats, y: object, binning: Binning) -> tuple[list[float], list[float]]:
    (found,) = fitted("histogram", p[:, None], np.asarray(y), "binary", objective=Objective("squared", binning=binning))
    return parameter(found, "edges").tolist(), parameter(found, "values").tolist()


def test_equal_mass_worked_by_hand() -> None:
    # two bins of three; the edge lies halfway between 0.3 and 0.5
    edges, values = histogram(np.array([0.9, 0.1, 0.3, 0.2, 0.5, 0.8]), [1, 0, 1, 0, 0, 1], ("equal-mass", 2))
    assert edges == [0.0, 0.4, 1.0]
    assert values == pytest.approx([1 / 3, 2 / 3])


def test_ties_are_never_split() -> None:
    # midpoints of 0.2, 0.4, 0.6 are 0.5, 3, 5.5 of 6: bins ceil(3 h / 6) = 1, 2, 3
    edges, values = histogram(np.array([0.2, 0.4, 0.4, 0.4, 0.4, 0.6]), [0, 0, 1, 1, 1, 1], ("equal-mass", 3))
    assert edges == pytest.approx([0.0, 0.3, 0.5, 1.0])
    assert values == [0.0, 0.75, 1.0]
    assert histogram(np.full(5, 0.4), [0, 1, 1, 1, 0], ("equal-mass", 15)) == ([0.0, 1.0], [0.6])


def test_equal_width_is_closed_on_the_right_and_an_empty_bin_has_its_middle() -> None:
    edges, values = histogram(np.array([0.0, 0.25, 0.3, 1.0]), [0, 1, 1, 1], ("equal-width", 4))
    assert edges == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert values == [0.5, 1.0, 0.625, 1.0]


def test_neighbouring_floats_are_kept_apart() -> None:
    low = 0.5
    high = np.nextafter(low, 1.0)
    edges, values = histogram(np.array([low, low, high, high]), [0, 0, 1, 1], ("equal-mass", 2))
    assert (edges, values) == ([0.0, low, 1.0], [0.0, 1.0])


def test_smoothed_targets_are_averaged() -> None:
    p = np.array([[0.1], [0.2], [0.8], [0.9]])
    objective = Objective("squared", binning=("equal-mass", 2), smoothing=0.2)
    (found,) = fitted("histogram", p, np.array([0, 0, 1, 1]), "binary", objective=objective)
    assert parameter(found, "values").tolist() == pytest.approx([0.1, 0.9])


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, 12, elements=st.floats(0, 1) | st.sampled_from([0.0, 5e-324, 0.5, 1 - 2.0**-53, 1.0])),
    arrays(np.int64, 12, elements=st.integers(0, 1)),
    st.integers(1, 20),
)
def test_bins_are_those_of_the_edition_and_values_their_means(p: Floats, y: Floats, bins: int) -> None:
    (found,) = fitted(
        "histogram", p[:, None], y, "binary", objective=Objective("squared", binning=("equal-mass", bins))
    )
    edges = parameter(found, "edges")
    assert edges[0] == 0.0
    assert edges[-1] == 1.0
    assert (np.diff(edges) > 0).all()
    q = apply([found], p[:, None], kind="binary")[:, 0]
    if not ((p > 0) & (p < 1e-300)).any():  # no edge fits between 0 and the smallest of floats
        midpoint = np.array([((p < v).sum() + (p <= v).sum()) / 2 for v in p])
        cell = np.ceil(bins * midpoint / 12)
        np.testing.assert_allclose(q, [y[cell == c].mean() for c in cell], rtol=1e-12)
