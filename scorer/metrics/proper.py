"""Scores that are means over cases: Brier and negative log-likelihood. Shapes: :mod:`scorer.metrics.arrays`."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scorer.metrics.arrays import NO_WEIGHT, Floats, Ints, checked, one_score, weighted_mean

NLL_FLOOR = 1e-12


class Nll(NamedTuple):
    """Negative log-likelihood, and the number of rows of positive weight whose probability was raised to the floor."""

    value: float
    floored: int
    reason: str | None = None


def squared_errors(p: Floats, y: Ints) -> Floats:
    """Per case, shape (N,): (p - y)^2 of (N,) probabilities, in [0, 1]; sum_k (p_k - 1[y = k])^2 of (N, K), in [0,
    2]."""
    if p.ndim == 1:
        return (p - y) ** 2
    gap = p.copy()
    gap[np.arange(len(y)), y] -= 1.0
    return np.asarray(np.einsum("nk,nk->n", gap, gap), dtype=np.float64)


def log_losses(p: Floats, y: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Per case: -ln max(p_y, 1e-12) in nats, and whether the floor was used. In [0, 27.64]."""
    own = np.where(y == 1, p, 1.0 - p) if p.ndim == 1 else p[np.arange(len(y)), y]
    # adding 0.0 turns the -0.0 of a certain and right case into 0.0
    return -np.log(np.maximum(own, NLL_FLOOR)) + 0.0, own < NLL_FLOOR


def brier(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Multiclass Brier score: weighted mean of sum_k (p_k - 1[y = k])^2, summed over classes and not halved.

    ``p`` (N, K). Range [0, 2], lower is better, no unit. For K = 2 it is twice :func:`brier_binary` of p_1. NaN when no
    row has positive weight. Raises ValueError on bad input (:func:`checked`). Source: Brier 1950,
    doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    if probabilities.ndim != 2:
        raise ValueError("brier takes (N, K) probabilities; brier_binary takes (N,)")
    return weighted_mean(squared_errors(probabilities, labels), case_weights)


def brier_binary(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Brier score of one probability: weighted mean of (p - y)^2.

    ``p`` (N,), P(positive). Range [0, 1], lower is better, no unit. NaN when no row has positive weight. Raises
    ValueError on bad input (:func:`checked`). Source: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2,
    halved form.
    """
    probabilities, labels, case_weights = one_score(p, y, weights, "brier_binary")
    return weighted_mean(squared_errors(probabilities, labels), case_weights)


def nll(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Nll:
    """Negative log-likelihood (log loss): weighted mean of -ln max(p_y, 1e-12).

    ``p`` (N,) or (N, K). Unit nats, range [0, 27.64], lower is better. The floor is the same whatever the stored
    precision, and the rows of positive weight that needed it are counted in ``floored``. Rows are not renormalised. NaN
    with a reason when no row has positive weight. Raises ValueError on bad input (:func:`checked`). Source: Good 1952,
    doi:10.1111/j.2517-6161.1952.tb00104.x.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    losses, floored = log_losses(probabilities, labels)
    value = weighted_mean(losses, case_weights)
    return Nll(value, int((floored & (case_weights > 0.0)).sum()), NO_WEIGHT if np.isnan(value) else None)
