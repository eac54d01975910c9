"""Metrics of decisions: the arg-max class, and p >= threshold."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.arrays import (
    NO_EVENTS,
    NO_NON_EVENTS,
    NO_WEIGHT,
    Classwise,
    Floats,
    Ints,
    Value,
    checked,
    classwise,
    hits,
    one_score,
    ratio,
    summed,
    weighted_mean,
)
from scorer.metrics.binned import half_unit

NO_DISAGREEMENT = "labels and predictions are all of one class"


class NetBenefit(NamedTuple):
    """Net benefit of the model, of treating all, and of treating none (always 0)."""

    model: float
    treat_all: float
    treat_none: float
    reason: str | None = None


def slack(precision: str, threshold: float) -> float:
    """How far below ``threshold`` a probability still reaches it: what storing it in ``precision`` can have cost.

    Half the spacing of ``float16`` or ``float32`` there, else 1e-12: a stored 0.7 reaches 0.7 whatever its type.
    """
    stored = precision if precision in ("float16", "float32") else "float64"
    return float(half_unit(stored, np.array([threshold]))[0])


def confusion_shares(p: Floats, y: Ints) -> tuple[Ints, Ints, Floats]:
    """(case, predicted class, credit): one entry a class tied at the maximum, credits of a case sum to one."""
    both = np.stack((1.0 - p, p), axis=1) if p.ndim == 1 else p
    top = both == both.max(axis=1, keepdims=True)
    case, predicted = np.nonzero(top)
    return case, predicted, 1.0 / top.sum(axis=1)[case]


# Values of each resample from its confusion table (K true, K predicted, D).


def recall_of(table: Floats) -> Floats:
    """Recall of each class, (K, D); NaN where it has no case."""
    return np.stack([ratio(row[k], summed(row)) for k, row in enumerate(table)])


def f1_of(table: Floats) -> Floats:
    """F1 of each class, (K, D); NaN where it has no case."""
    scores = []
    for k, row in enumerate(table):
        own = summed(row)
        both = own + summed(table[:, k])
        scores.append(np.where(own > 0.0, ratio(2.0 * row[k], both), np.nan))
    return np.stack(scores)


def kappa_of(table: Floats) -> Floats:
    """Quadratic kappa, (D,); NaN where no disagreement is to be expected."""
    k = len(table)
    true, predicted = [summed(row) for row in table], [summed(table[:, j]) for j in range(k)]
    seen, chance = np.zeros(table.shape[2]), np.zeros(table.shape[2])
    for i in range(k):
        for j in range(k):
            seen += (i - j) ** 2 * table[i, j]
            chance += (i - j) ** 2 * true[i] * predicted[j]
    return 1.0 - ratio(seen * summed(np.stack(true)), chance)


def accuracy(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Accuracy of the arg-max: weighted mean of the credit 1[y in T] / |T|, T the classes tied at the largest
    probability.

    ``p`` (N,) or (N, K); (N,) predicts the positive class for p > 0.5, half credit at 0.5. Range [0, 1], higher is
    better, no unit. Ties get the expected credit of a random choice among them, so that the order of the classes can't
    change the value. NaN when no row has positive weight. Raises ValueError on bad input (:func:`checked`).
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    return weighted_mean(hits(probabilities, labels), case_weights)


def balanced_accuracy(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Classwise:
    """Recall of each declared class under the arg-max (ties share credit), and its means over classes.

    ``p`` (N,) stands for the classes (1 - p, p). ``macro`` is the balanced accuracy; NaN with a reason when a declared
    class has no row of positive weight (``macro_present`` leaves such classes out). Range [0, 1], higher is better.
    Raises ValueError on bad input. Source: Brodersen et al. 2010, doi:10.1109/ICPR.2010.764.
    """
    return _per_class(recall_of(_table(p, y, weights))[:, 0])


def f1_macro(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Classwise:
    """F1 = 2 TP / (2 TP + FP + FN) of each declared class under the arg-max (ties share credit), and its means.

    ``p`` (N,) stands for the classes (1 - p, p). A class without a row of positive weight has no recall, so no F1 (NaN
    with a reason), where scikit-learn counts 0. Range [0, 1], higher is better. Raises ValueError on bad input.
    """
    return _per_class(f1_of(_table(p, y, weights))[:, 0])


def kappa_quadratic(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Cohen's kappa of the arg-max with quadratic weights (i - j)^2 over the classes in their order.

    ``p`` (N, K), or (N,) for (1 - p, p); for ordinal classes only. Ties share credit. Range [-1, 1], higher is better.
    NaN with a reason when labels and predictions are all of one class. Raises ValueError on bad input. Source: Cohen
    1968, doi:10.1037/h0026256.
    """
    table = _table(p, y, weights)
    value = float(kappa_of(table)[0])
    reason = NO_WEIGHT if not table.sum() > 0.0 else NO_DISAGREEMENT
    return Value(value, reason if np.isnan(value) else None)


def sensitivity(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, threshold: float, precision: str = "float64"
) -> Value:
    """Share of events with p >= ``threshold`` (up to :func:`slack` of ``precision``). ``p`` (N,).

    Range [0, 1], higher is better. NaN with a reason without an event. Raises ValueError on bad input or a threshold
    outside (0, 1).
    """
    called, labels, w = _called(p, y, weights, threshold, precision)
    value = weighted_mean(called, w * labels)
    return Value(value, _none_of(w, NO_EVENTS) if np.isnan(value) else None)


def specificity(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, threshold: float, precision: str = "float64"
) -> Value:
    """Share of non-events with p < ``threshold``; otherwise as :func:`sensitivity`."""
    called, labels, w = _called(p, y, weights, threshold, precision)
    value = weighted_mean(1.0 - called, w * (1 - labels))
    return Value(value, _none_of(w, NO_NON_EVENTS) if np.isnan(value) else None)


def net_benefit(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, threshold: float, precision: str = "float64"
) -> NetBenefit:
    """Net benefit TP / N - FP / N x t / (1 - t) of treating p >= t, beside that of treating all and none.

    ``p`` (N,), P(positive). In true positives per patient: at most the prevalence, no lower bound near t = 1; higher is
    better. NaN with a reason when no row has positive weight. Raises ValueError on bad input or a threshold outside (0,
    1). Source: Vickers and Elkin 2006, doi:10.1177/0272989X06295361.
    """
    called, labels, w = _called(p, y, weights, threshold, precision)
    if not w.sum() > 0.0:
        return NetBenefit(float("nan"), float("nan"), float("nan"), NO_WEIGHT)
    worth = np.where(labels == 1, 1.0, -threshold / (1.0 - threshold))
    return NetBenefit(weighted_mean(called * worth, w), weighted_mean(worth, w), 0.0)


def _none_of(weights: Floats, reason: str) -> str:
    return reason if weights.sum() > 0.0 else NO_WEIGHT


def _called(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, threshold: float, precision: str
) -> tuple[Floats, Ints, Floats]:
    if not 0.0 < threshold < 1.0:
        raise ValueError(f"threshold must lie between 0 and 1, not {threshold}")
    probabilities, labels, case_weights = one_score(p, y, weights, "a metric at a threshold")
    return (probabilities >= threshold - slack(precision, threshold)).astype(np.float64), labels, case_weights


def _table(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None) -> Floats:
    probabilities, labels, case_weights = checked(p, y, weights)
    k = 2 if probabilities.ndim == 1 else probabilities.shape[1]
    case, predicted, credit = confusion_shares(probabilities, labels)
    cells = np.bincount(labels[case] * k + predicted, weights=credit * case_weights[case], minlength=k * k)
    return cells.reshape(k, k, 1).astype(np.float64)


def _per_class(values: Floats) -> Classwise:
    return classwise(tuple(Value(float(v), NO_EVENTS if np.isnan(v) else None) for v in values))
