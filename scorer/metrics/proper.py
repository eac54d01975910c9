"""Scores that are means over cases: Brier, negative log-likelihood, accuracy.

Shapes, everywhere in this package: ``p`` of shape (N,) is P(positive) with ``y`` in {0, 1}; ``p`` of shape (N, K), K >=
2, holds one column a declared class with ``y`` in {0 .. K-1}. The class list is the column list, never the labels
present. ``weights`` (N,) are non-negative case weights; None means one each; a row of weight zero changes nothing. All
arithmetic is float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NLL_FLOOR = 1e-12
NO_WEIGHT = "no images (or none of positive weight)"


class Value(NamedTuple):
    """A metric's value; NaN comes with the reason why it is undefined, a number with None."""

    value: float
    reason: str | None = None


class Nll(NamedTuple):
    """Negative log-likelihood, and the number of rows of positive weight whose probability was raised to the floor."""

    value: float
    floored: int
    reason: str | None = None


def checked(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> tuple[Floats, Ints, Floats]:
    """Return (p, y, weights) as float64, int64, float64 arrays of the shapes above.

    Raises ValueError, naming the first bad row, for a NaN or a number outside [0, 1] in ``p``, a label that is no class
    index, a negative or non-finite weight, or shapes that do not fit. Whether rows of ``p`` sum to one is not looked
    at.
    """
    probabilities = np.asarray(p, dtype=np.float64)
    labels = np.asarray(y)
    if probabilities.ndim not in (1, 2) or (probabilities.ndim == 2 and probabilities.shape[1] < 2):
        raise ValueError(f"p must have shape (N,) or (N, K) with K >= 2, not {probabilities.shape}")
    n = len(probabilities)
    if labels.shape != (n,):
        raise ValueError(f"y must have shape ({n},), not {labels.shape}")
    inside = (probabilities >= 0.0) & (probabilities <= 1.0)  # False for NaN
    _first_bad(~(inside if inside.ndim == 1 else inside.all(axis=1)), "p is NaN or outside [0, 1]")
    classes = 2 if probabilities.ndim == 1 else probabilities.shape[1]
    _first_bad(~np.isin(labels, np.arange(classes)), f"y is no class index in 0..{classes - 1}")
    case_weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if case_weights.shape != (n,):
        raise ValueError(f"weights must have shape ({n},), not {case_weights.shape}")
    _first_bad(~(np.isfinite(case_weights) & (case_weights >= 0.0)), "weight is negative or not finite")
    return probabilities, labels.astype(np.int64), case_weights


def squared_errors(p: Floats, y: Ints) -> Floats:
    """Per case, shape (N,): (p - y)^2 of (N,) probabilities, in [0, 1]; sum_k (p_k - 1[y = k])^2 of (N, K), in [0,
    2]."""
    if p.ndim == 1:
        return (p - y) ** 2
    gap = p.copy()
    gap[np.arange(len(y)), y] -= 1.0
    return np.asarray((gap**2).sum(axis=1), dtype=np.float64)


def log_losses(p: Floats, y: Ints) -> tuple[Floats, NDArray[np.bool_]]:
    """Per case: -ln max(p_y, 1e-12) in nats, and whether the floor was used. In [0, 27.64]."""
    own = np.where(y == 1, p, 1.0 - p) if p.ndim == 1 else p[np.arange(len(y)), y]
    # adding 0.0 turns the -0.0 of a certain and right case into 0.0
    return -np.log(np.maximum(own, NLL_FLOOR)) + 0.0, own < NLL_FLOOR


def hits(p: Floats, y: Ints) -> Floats:
    """Per case credit for the arg-max: 1 if right, 0 if wrong, 1/m if the label is among m classes tied at the maximum.

    For (N,) probabilities the classes are (1 - p, p), so p > 0.5 predicts the positive class and p = 0.5 gets 1/2.
    """
    if p.ndim == 1:
        return np.where(p == 0.5, 0.5, (p > 0.5) == (y == 1)).astype(np.float64)
    top = p == p.max(axis=1, keepdims=True)
    return np.asarray(top[np.arange(len(y)), y] / top.sum(axis=1), dtype=np.float64)


def brier(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Multiclass Brier score: weighted mean of sum_k (p_k - 1[y = k])^2, summed over classes and not halved.

    ``p`` (N, K). Range [0, 2], lower is better, no unit. For K = 2 it is twice :func:`brier_binary` of p_1. NaN when no
    row has positive weight. Raises ValueError on bad input (:func:`checked`). Source: Brier 1950,
    doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    if probabilities.ndim != 2:
        raise ValueError("brier takes (N, K) probabilities; brier_binary takes (N,)")
    return _weighted_mean(squared_errors(probabilities, labels), case_weights)


def brier_binary(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Brier score of one probability: weighted mean of (p - y)^2.

    ``p`` (N,), P(positive). Range [0, 1], lower is better, no unit. NaN when no row has positive weight. Raises
    ValueError on bad input (:func:`checked`). Source: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2,
    halved form.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    if probabilities.ndim != 1:
        raise ValueError("brier_binary takes (N,) probabilities; brier takes (N, K)")
    return _weighted_mean(squared_errors(probabilities, labels), case_weights)


def nll(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Nll:
    """Negative log-likelihood (log loss): weighted mean of -ln max(p_y, 1e-12).

    ``p`` (N,) or (N, K). Unit nats, range [0, 27.64], lower is better. The floor is the same whatever the stored
    precision, and the rows of positive weight that needed it are counted in ``floored``. Rows are not renormalised. NaN
    with a reason when no row has positive weight. Raises ValueError on bad input (:func:`checked`). Source: Good 1952,
    doi:10.1111/j.2517-6161.1952.tb00104.x.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    losses, floored = log_losses(probabilities, labels)
    value = _weighted_mean(losses, case_weights)
    return Nll(value, int((floored & (case_weights > 0.0)).sum()), NO_WEIGHT if np.isnan(value) else None)


def accuracy(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Accuracy of the arg-max: weighted mean of the credit 1[y in T] / |T|, T the classes tied at the largest
    probability.

    ``p`` (N,) or (N, K); (N,) predicts the positive class for p > 0.5, half credit at 0.5. Range [0, 1], higher is
    better, no unit. Ties get the expected credit of a random choice among them, so that the order of the classes can't
    change the value. NaN when no row has positive weight. Raises ValueError on bad input (:func:`checked`).
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    return _weighted_mean(hits(probabilities, labels), case_weights)


def _weighted_mean(values: Floats, weights: Floats) -> float:
    total = float(weights.sum())
    return float((weights * values).sum()) / total if total > 0.0 else float("nan")


def _first_bad(bad: NDArray[np.bool_] | np.bool_, what: str) -> None:
    if np.any(bad):
        raise ValueError(f"row {int(np.argmax(bad))}: {what} ({int(np.sum(bad))} row(s) in all)")
