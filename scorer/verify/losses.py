"""The declared loss of a calibrator, row by row: at the stored inputs, and its ends over a box of inputs.

A *part* is what one fit has of its own: all classes of a softmax map, or one column (one finding, or one class against
the rest). Its targets are numbers in [0, 1]: (N, K) for a softmax map, (N,) for a column.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from protocol.calibrators import FittedCalibrator
from protocol.objective import Objective
from scorer.verify.boxes import Box
from scorer.verify.ranges import column_range, odds_range
from submission.recalibration.maps import (
    FLOOR,
    Column,
    Floats,
    OfProbability,
    Piecewise,
    SoftmaxMap,
    TwoClass,
    column_value,
)

Inputs = tuple[Floats, Floats, Floats]


def targets(y: NDArray[np.int64], classes: int | None, objective: Objective) -> Floats:
    """Targets as the objective has them: of 0 and 1, or of class numbers (``classes`` given: one-hot rows)."""
    if classes is not None:
        hot: Floats = np.eye(classes)[y]
        share = objective.smoothing
        return hot if not isinstance(share, float) else np.asarray((1.0 - share) * hot + share / classes)
    event: Floats = y.astype(np.float64)
    if objective.smoothing == "platt":
        events, others = event.sum(), (1.0 - event).sum()
        return np.asarray(np.where(event > 0, (events + 1.0) / (events + 2.0), 1.0 / (others + 2.0)))
    if isinstance(objective.smoothing, float):
        return np.asarray((1.0 - objective.smoothing) * event + objective.smoothing / 2.0)
    return event


def penalty(record: FittedCalibrator, objective: Objective, n: int) -> float:
    """The penalty of one record, times ``n``, so that it adds to a sum over rows."""
    given = record.parameters
    slopes = [np.ravel(np.asarray(given[name], dtype=np.float64)) for name in ("slope", "weights") if name in given]
    if record.family == "beta":
        slopes = [np.array([given["a"], given["b"]], dtype=np.float64)]
    square = float(sum((values**2).sum() for values in slopes))
    total = n * objective.ridge * square
    if objective.ridge_c is not None:
        total += square / (2.0 * objective.ridge_c)
    if objective.odir is not None:
        weights = np.asarray(given["weights"], dtype=np.float64)
        bias = np.asarray(given["bias"], dtype=np.float64)
        k = len(bias)
        off = weights - np.diag(np.diag(weights)) if weights.ndim == 2 else np.zeros((k, k))
        total += n * (objective.odir[0] * float((off**2).sum()) / (k * (k - 1)))
        total += n * objective.odir[1] * float((bias**2).mean())
    return total


def softmax_losses(scaling: SoftmaxMap, x: Floats, target: Floats, objective: Objective) -> Floats:
    """Loss (N,) of a softmax map at inputs ``x`` (N, K)."""
    logits = scaling.logits(x)
    logits = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(logits).sum(axis=1)
    if objective.loss == "nll":
        return np.asarray(np.log(total) - (target * logits).sum(axis=1))
    return np.asarray(((np.exp(logits) / total[:, None] - target) ** 2).sum(axis=1))


def column_losses(column: Column, pair: Inputs, target: Floats, objective: Objective) -> Floats:
    """Loss (N,) of one column's map at ``p, u0, u1``."""
    p, u0, u1 = pair
    if isinstance(column, Piecewise):
        return _loss(column_value(column, p, u0, u1), target, objective)
    odds = column.odds(p) if isinstance(column, OfProbability) else column.odds(u0, u1)
    return _odds_loss(odds, target, objective)


def column_loss_ends(column: Column, k: int, box: Box, target: Floats, objective: Objective) -> tuple[Floats, Floats]:
    """Least and greatest loss (N,) of the map of column ``k`` over the box."""
    if isinstance(column, TwoClass):
        low, high = odds_range(column, box, k)
        losses, inner = [_odds_loss(end, target, objective) for end in (low, high)], None
    else:
        low, high = column_range(column, box, k)
        losses = [_loss(end, target, objective) for end in (low, high)]
        inner = target.clip(low, high)  # a loss is least where the map meets its target
    least, greatest = np.minimum(*losses), np.maximum(*losses)
    if inner is not None:
        least = np.minimum(least, _loss(inner, target, objective))
    return least, greatest


def _odds_loss(odds: Floats, target: Floats, objective: Objective) -> Floats:
    if objective.loss == "nll":
        return np.asarray(np.logaddexp(0.0, odds) - target * odds)
    return np.asarray((expit(odds) - target) ** 2)


def _loss(q: Floats, target: Floats, objective: Objective) -> Floats:
    if objective.loss == "nll":
        return np.asarray(-target * np.log(np.maximum(q, FLOOR)) - (1 - target) * np.log(np.maximum(1 - q, FLOOR)))
    return np.asarray((q - target) ** 2)
