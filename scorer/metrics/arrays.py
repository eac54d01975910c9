"""Shapes and checks that all metrics share.

``p`` of shape (N,) is P(positive) with ``y`` in {0, 1}; ``p`` of shape (N, K), K >= 2, holds one column a declared
class with ``y`` in {0 .. K-1}. The class list is the column list, never the labels present. ``weights`` (N,) are
non-negative case weights; None means one each; a row of weight zero changes nothing. All arithmetic is float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.intp]

NO_WEIGHT = "no images (or none of positive weight)"
NO_EVENTS = "no image of the class"
NO_NON_EVENTS = "every image is of the class"


class Value(NamedTuple):
    """A metric's value; NaN comes with the reason why it is undefined, a number with None."""

    value: float
    reason: str | None = None


class Classwise(NamedTuple):
    """One value a declared class, their mean (undefined if one is), and the mean over the classes where it is
    defined."""

    per_class: tuple[Value, ...]
    macro: Value
    macro_present: Value


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
    if n and not (probabilities.min() >= 0.0 and probabilities.max() <= 1.0):  # also where one is NaN
        inside = (probabilities >= 0.0) & (probabilities <= 1.0)
        _first_bad(~(inside if inside.ndim == 1 else inside.all(axis=1)), "p is NaN or outside [0, 1]")
    classes = 2 if probabilities.ndim == 1 else probabilities.shape[1]
    wanted = f"y is no class index in 0..{classes - 1}"
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"{wanted}: y must be numbers, not {labels.dtype}")
    _first_bad(~((labels >= 0) & (labels < classes) & (labels == np.floor(labels))), wanted)  # also where one is NaN
    whole = labels.astype(np.int64)
    case_weights = np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64)
    if case_weights.shape != (n,):
        raise ValueError(f"weights must have shape ({n},), not {case_weights.shape}")
    if weights is not None:
        _first_bad(~(np.isfinite(case_weights) & (case_weights >= 0.0)), "weight is negative or not finite")
    return probabilities, whole, case_weights


def one_score(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, name: str) -> tuple[Floats, Ints, Floats]:
    """:func:`checked`, for a metric of one probability a case; ValueError for (N, K)."""
    probabilities, labels, case_weights = checked(p, y, weights)
    if probabilities.ndim != 1:
        raise ValueError(f"{name} takes (N,) probabilities, one class at a time")
    return probabilities, labels, case_weights


def largest(p: Floats, precision: str = "float64") -> Floats:
    """The largest probability of each case, (N,): max(p, 1 - p) of (N,), max_k p_k of (N, K).

    max(p, 1 - p) is rounded to how ``p`` was stored (``float16``, ``float32``; else 12 decimals), so that .07 and .93
    are equally confident: 1 - .07 is not the float of .93.
    """
    if p.ndim == 1:
        most: Floats = np.maximum(p, 1.0 - p)
        if precision in ("float16", "float32"):
            return np.asarray(most.astype(precision), dtype=np.float64)
        return np.round(most, 12)
    most = p[:, 0].copy()
    for k in range(1, p.shape[1]):  # column by column: numpy is slow along a short axis
        np.maximum(most, p[:, k], out=most)
    return most


def hits(p: Floats, y: Ints, most: Floats | None = None) -> Floats:
    """Per case credit for the arg-max: 1 if right, 0 if wrong, 1/m if the label is among m classes tied at the maximum.

    For (N,) probabilities the classes are (1 - p, p), so p > 0.5 predicts the positive class and p = 0.5 gets 1/2.
    ``most`` is :func:`largest` where it is known.
    """
    if p.ndim == 1:
        return np.where(p == 0.5, 0.5, (p > 0.5) == (y == 1)).astype(np.float64)
    most = largest(p) if most is None else most
    own = np.zeros(len(p), dtype=np.bool_)
    tied = np.zeros(len(p))
    for k in range(p.shape[1]):
        top = p[:, k] == most
        own |= top & (y == k)
        tied += top
    return own / tied


def top_label(p: Floats, y: Ints, precision: str = "float64") -> tuple[Floats, Floats]:
    """(confidence, credit) of the arg-max: the largest probability (:func:`largest`), (N,), and :func:`hits`."""
    most = largest(p, precision)
    return most, hits(p, y, most)


def reading(p: Floats, y: Ints) -> tuple[Floats, Floats]:
    """(probability, outcome) of the headline reading: positive class for (N,), top label for (N, K)."""
    return (p, y.astype(np.float64)) if p.ndim == 1 else top_label(p, y)


def summed(rows: Floats) -> Floats:
    """Sum over the first axis, one row after the other: the same bits for any number of columns."""
    total: Floats = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


def ratio(top: Floats, bottom: Floats) -> Floats:
    """``top`` / ``bottom``, NaN where ``bottom`` is not positive."""
    out = np.full(np.broadcast_shapes(top.shape, bottom.shape), np.nan)
    np.divide(top, bottom, out=out, where=bottom > 0.0)
    return out


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Mean of ``values`` by ``weights``, NaN where there is no weight."""
    total = float(weights.sum())
    return float((weights * values).sum()) / total if total > 0.0 else float("nan")


def undefined_class(n_images: int, n_events: int) -> str | None:
    """Why a metric that needs images of the class and others has no value, or None."""
    if n_images == 0:
        return NO_WEIGHT
    return NO_EVENTS if n_events == 0 else NO_NON_EVENTS if n_events == n_images else None


def macro(names: list[str], values: tuple[Value, ...]) -> tuple[Value, Value]:
    """(mean over all classes, mean over the classes where the value is defined); NaN with a reason that names the
    classes."""
    missing = [name for name, one in zip(names, values, strict=True) if one.reason is not None]
    present = [one.value for one in values if one.reason is None]
    over_present = Value(float(np.mean(present))) if present else Value(float("nan"), "undefined for every class")
    if missing:
        return Value(float("nan"), "undefined for class " + ", ".join(missing)), over_present
    return over_present, over_present


def classwise(values: tuple[Value, ...]) -> Classwise:
    """``values`` of the classes 0 .. K-1 with their two means."""
    return Classwise(values, *macro([str(k) for k in range(len(values))], values))


def _first_bad(bad: NDArray[np.bool_] | np.bool_, what: str) -> None:
    if np.any(bad):
        raise ValueError(f"row {int(np.argmax(bad))}: {what} ({int(np.sum(bad))} row(s) in all)")
