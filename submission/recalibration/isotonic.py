"""Isotonic regression: the best non-decreasing map from probability to observed frequency."""

import numpy as np
from numpy.typing import NDArray

from protocol.types import Kind
from submission.recalibration.temperature import Labels, Probabilities, checked, checked_labels


def fit_isotonic(
    p: Probabilities, y: Labels, kind: Kind
) -> tuple[tuple[NDArray[np.float64], NDArray[np.float64]], ...]:
    """Thresholds (x, y) of one non-decreasing map per column of ``p``, class k against the rest.

    Formula: the map ``f`` minimises ``sum_i (f(p_ik) - [y_i = k])^2`` over non-decreasing functions into [0, 1];
    equal inputs are averaged. ``x`` increases strictly, ``y`` weakly; between thresholds ``f`` is linear, outside
    it is clipped to the first or last ``y`` (:func:`apply_isotonic`). One class in the labels gives a constant map.

    Shapes as in ``fit_temperature``; a multilabel -1 (not labelled) is left out. Raises ``ValueError`` as
    ``checked`` does.

    Source: Zadrozny and Elkan (2002), https://doi.org/10.1145/775047.775151; computed by scikit-learn's
    ``IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")``.
    """
    from sklearn.isotonic import IsotonicRegression

    p, y = checked(p, kind), checked_labels(y, p, kind)
    maps = []
    for k in range(p.shape[1]):
        column = y[:, k] if kind == "multilabel" else y
        labelled = column >= 0
        event = column[labelled] == (k if kind == "multiclass" else 1)
        regression = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip")
        regression.fit(p[labelled, k], event.astype(np.float64))
        maps.append((regression.X_thresholds_ + 0.0, regression.y_thresholds_ + 0.0))
    return tuple(maps)


def apply_isotonic(x: NDArray[np.float64], y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The map through the points (``x``, ``y``) at ``p`` (N,): linear between them, clipped outside; in [0, 1]."""
    return np.asarray(np.interp(p, x, y).clip(0.0, 1.0) + 0.0)  # + 0.0 makes -0.0 a plain zero


def normalise_rows(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Rows of ``q`` (N, K), each at least 0, divided by their sum; a row of zeros becomes 1/K throughout."""
    total = q.sum(axis=1, keepdims=True)
    return np.where(total > 0, q / np.where(total > 0, total, 1.0), 1.0 / q.shape[1])
