"""Metrics that need ranks alone: area under the ROC curve, and average precision."""

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.arrays import Classwise, Value, checked, classwise, one_score, undefined_class
from scorer.metrics.column import column_of, single


def auroc(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Area under the ROC curve: (sum_ij w_i w_j (1[p_i > p_j] + 1[p_i = p_j] / 2)) / (W_1 W_0), i events, j non-events.

    ``p`` (N,), P(positive) or any score in [0, 1]; ties count one half (mid-ranks). Range [0, 1], higher is better, no
    unit. NaN with a reason when either class has no row of positive weight: never 0 and never 0.5. Raises ValueError on
    bad input. Source: Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747.
    """
    return _ranked(p, y, weights, 0)


def auprc(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Average precision: over distinct scores s, falling, the sum of the precision at p >= s times the recall gained.

    ``p`` (N,); cases of equal score enter together. No interpolation between points. Range [0, 1], higher is better, no
    unit; that of a score without information is the prevalence. With no event NaN with a reason; with nothing but
    events 1 is meaningless, and NaN too. Raises ValueError on bad input. Source: Davis and Goadrich 2006,
    doi:10.1145/1143844.1143874.
    """
    return _ranked(p, y, weights, 1)


def auroc_classwise(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Classwise:
    """AUROC of each declared class against the rest, and its two plain means over classes.

    ``p`` (N, K). Class k: :func:`auroc` of p_k against 1[y = k]. ``macro`` is the mean over all K declared classes and
    is undefined when one of them is (a class absent from ``y``); ``macro_present`` is the mean over those that are
    defined. Range [0, 1].
    """
    return _per_class(p, y, weights, 0)


def auprc_classwise(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Classwise:
    """:func:`auprc` of each declared class against the rest; means as of :func:`auroc_classwise`."""
    return _per_class(p, y, weights, 1)


def _per_class(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, which: int) -> Classwise:
    scores, labels, case_weights = checked(p, y, weights)
    if scores.ndim != 2:
        raise ValueError("one column a class is wanted, (N, K) scores")
    columns = enumerate(scores.T)
    return classwise(tuple(_ranked(one, (labels == k).astype(np.int64), case_weights, which) for k, one in columns))


def _ranked(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, which: int) -> Value:
    scores, labels, case_weights = one_score(p, y, weights, ("auroc", "auprc")[which])
    kept = case_weights > 0.0
    reason = undefined_class(int(kept.sum()), int(labels[kept].sum()))
    if reason is not None:
        return Value(float("nan"), reason)
    ranks = column_of(scores, labels.astype(np.float64)).scan(single(case_weights), ranks=True).ranks
    assert ranks is not None
    return Value(float(ranks[which, 0]))
