"""One score column in ascending order, its cumulated weights, and the metric that needs only ranks: AUROC.

A kernel takes the weights of D resamples at once as ``w`` (D, n), one row a resample and one column a case in the
ranking's order, with ``cum = cumulate(w)`` (D, n + 1). Each resample is worked on by itself: its result does not depend
on D.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from scorer.metrics.proper import NO_WEIGHT, Floats, Value, checked

Indices = NDArray[np.intp]

NO_EVENTS = "no image of the class"
NO_NON_EVENTS = "every image is of the class"


@dataclass(frozen=True)
class Ranking:
    """Cases sorted by score, ascending; ties keep the order of the rows.

    ``order`` (n,): row at each position. ``start``, ``end`` (n,): first position, and one past the last, of the group
    of equal scores to which a position belongs.
    """

    order: Indices
    start: Indices
    end: Indices


class Classwise(NamedTuple):
    """One value a declared class, their mean (undefined if one is), and the mean over the classes where it is
    defined."""

    per_class: tuple[Value, ...]
    macro: Value
    macro_present: Value


def rank(score: Floats) -> Ranking:
    """Rank ``score`` (n,), finite, n >= 0."""
    order = np.argsort(score, kind="stable")
    ordered = score[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))[: len(score)])
    sizes = np.diff(np.append(first, len(score)))
    start = np.repeat(first, sizes)
    return Ranking(order, start, start + np.repeat(sizes, sizes))


def cumulate(w: Floats) -> Floats:
    """Cumulated weights (D, n + 1) of ``w`` (D, n): entry i is the weight of the first i cases. Exact for whole
    weights."""
    cum = np.zeros((w.shape[0], w.shape[1] + 1))
    np.cumsum(w, axis=1, out=cum[:, 1:])
    return cum


def auroc_kernel(ranking: Ranking, positive: NDArray[np.bool_], w: Floats, cum: Floats) -> Floats:
    """AUROC of each resample, shape (D,), NaN where a class has no weight; ``positive`` (n,) is in the ranking's
    order."""
    # sum_i w_i mid_i over one class, less that class's own pairs W^2 / 2, counts its pairs with the other; the
    # smaller class is cheaper
    events_are_fewer = 2 * int(positive.sum()) <= len(positive)
    few = np.flatnonzero(positive if events_are_fewer else ~positive)
    own = np.take(w, few, axis=1)
    weight = own.sum(axis=1)
    own *= np.take(cum, ranking.start[few], axis=1) + np.take(cum, ranking.end[few], axis=1)
    pairs = 2.0 * weight * (cum[:, -1] - weight)
    share = np.full(len(w), np.nan)
    np.divide(own.sum(axis=1) - weight**2, pairs, out=share, where=pairs > 0.0)
    return np.clip(share if events_are_fewer else 1.0 - share, 0.0, 1.0)


def auroc(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Area under the ROC curve: (sum_ij w_i w_j (1[p_i > p_j] + 1[p_i = p_j] / 2)) / (W_1 W_0), i events, j non-events.

    ``p`` (N,), P(positive) or any score in [0, 1]; ties count one half (mid-ranks). Range [0, 1], higher is better, no
    unit. NaN with a reason when either class has no row of positive weight: never 0 and never 0.5. Raises ValueError on
    bad input. Source: Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747.
    """
    scores, labels, case_weights = checked(p, y, weights)
    if scores.ndim != 1:
        raise ValueError("auroc takes (N,) scores; auroc_classwise takes (N, K)")
    kept = case_weights > 0.0
    scores, events, case_weights = scores[kept], labels[kept] == 1, case_weights[kept]
    reason = auroc_undefined(len(events), int(events.sum()))
    if reason is not None:
        return Value(float("nan"), reason)
    ranking = rank(scores)
    w = case_weights[ranking.order][None, :]
    return Value(float(auroc_kernel(ranking, events[ranking.order], w, cumulate(w))[0]))


def auroc_undefined(n_images: int, n_events: int) -> str | None:
    """The reason why an AUROC over ``n_images`` with ``n_events`` is undefined, or None."""
    if n_images == 0:
        return NO_WEIGHT
    return NO_EVENTS if n_events == 0 else NO_NON_EVENTS if n_events == n_images else None


def auroc_classwise(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Classwise:
    """AUROC of each declared class against the rest, and its two plain means over classes.

    ``p`` (N, K). Class k: :func:`auroc` of p_k against 1[y = k]. ``macro`` is the mean over all K declared classes and
    is undefined when one of them is (a class absent from ``y``); ``macro_present`` is the mean over those that are
    defined. Range [0, 1].
    """
    scores, labels, case_weights = checked(p, y, weights)
    if scores.ndim != 2:
        raise ValueError("auroc_classwise takes (N, K) scores; auroc takes (N,)")
    columns = range(scores.shape[1])
    values = tuple(auroc(scores[:, k], (labels == k).astype(np.int64), case_weights) for k in columns)
    names = [str(k) for k in columns]
    return Classwise(values, *macro(names, values))


def macro(names: list[str], values: tuple[Value, ...]) -> tuple[Value, Value]:
    """(mean over all classes, mean over the classes where the value is defined); NaN with a reason that names the
    classes."""
    missing = [name for name, one in zip(names, values, strict=True) if one.reason is not None]
    present = [one.value for one in values if one.reason is None]
    over_present = Value(float(np.mean(present))) if present else Value(float("nan"), "undefined for every class")
    if missing:
        return Value(float("nan"), "undefined for class " + ", ".join(missing)), over_present
    return over_present, over_present
