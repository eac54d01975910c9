"""Isotonic regression: the best non-decreasing map from probability to observed frequency."""

import numpy as np
from numpy.typing import NDArray

from submission.recalibration.rows import Cases, Floats


def fit_isotonic(cases: Cases, goal: Floats, bounds: tuple[float, float] = (0.0, 1.0)) -> tuple[Floats, Floats]:
    """Thresholds (x, y) of the non-decreasing map of one column: ``cases.x`` (n, 1), targets ``goal`` (n, 2).

    Formula: the map ``f`` minimises ``sum_i w_i (f(p_i) - t_i)^2`` over non-decreasing functions into ``bounds``, where
    t is 1 for the class and 0 for the rest (or the smoothed target); equal inputs are averaged. The same map minimises
    the negative log-likelihood. ``x`` increases strictly, ``y`` weakly; between thresholds ``f`` is linear, outside
    it is clipped to the first or last ``y`` (:func:`apply_isotonic`). One class in the labels gives a constant map.

    Source: Zadrozny and Elkan (2002), https://doi.org/10.1145/775047.775151; one map for all classes, on all pairs
    (p_ik, [y_i = k]): Zhang, Kailkhura and Han (2020), PMLR 119: 11117-11128; computed by scikit-learn's
    ``IsotonicRegression(y_min, y_max, out_of_bounds="clip")``.
    """
    from sklearn.isotonic import IsotonicRegression

    weight = goal.sum(axis=1)
    regression = IsotonicRegression(y_min=bounds[0], y_max=bounds[1], out_of_bounds="clip")
    regression.fit(cases.x[:, 0], goal[:, 1] / weight, sample_weight=weight)
    return regression.X_thresholds_ + 0.0, np.clip(regression.y_thresholds_, *bounds) + 0.0


def apply_isotonic(x: NDArray[np.float64], y: NDArray[np.float64], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """The map through the points (``x``, ``y``) at ``p`` (N,): linear between them, clipped outside; in [0, 1]."""
    return np.asarray(np.interp(p, x, y).clip(0.0, 1.0) + 0.0)  # + 0.0 makes -0.0 a plain zero
