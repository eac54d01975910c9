"""Temperature scaling: one positive number divides the logits."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.types import Kind

FLOOR = 1e-12  # probabilities are raised to it before their logarithm is taken
BOUNDS = (0.05, 20.0)  # of T; the search runs over log T

Probabilities = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]


def fit_temperature(p: Probabilities, y: Labels, kind: Kind) -> tuple[float, ...]:
    """Temperature(s) of least mean negative log-likelihood on the calibration rows.

    Formula: ``T = argmin -1/n sum_i log q_i[y_i]`` with ``q_i = softmax(log(max(p_i, 1e-12)) / T)``, natural
    logarithm, T in [0.05, 20]. A binary task or a finding is its two-class case ``p_i = (1 - p, p)``, where q is
    ``sigmoid(logit(p) / T)``. The loss is convex in 1/T, so the bounded search over log T finds the one minimum;
    a bound is returned where the loss still falls there (separable or one-class labels), and T = 1 where no T is
    better (equal probabilities carry nothing to scale).

    ``p``: binary (N, 1) holding p_1; multiclass (N, K), any K > 1; multilabel (N, K), one column a finding.
    ``y``: binary and multiclass (N,) class numbers; multilabel (N, K) of 0, 1 and -1 (not labelled: left out).
    Returns one T (binary, multiclass) or K of them (multilabel). Raises ``ValueError`` as :func:`checked` does.

    Source: Guo et al. (2017), On calibration of modern neural networks, PMLR 70: 1321-1330, section 4.2.
    """
    p, y = checked(p, kind), checked_labels(y, p, kind)
    if kind == "multiclass":
        return (_minimise(p, y),)
    columns = y.reshape(len(p), -1)
    return tuple(
        _minimise(two_classes(p[labelled, k]), columns[labelled, k])
        for k, labelled in enumerate(columns.T >= 0)  # a finding at a time
    )


def apply_temperature(temperature: float, p: NDArray[np.float64]) -> NDArray[np.float64]:
    """``softmax(log(max(p, 1e-12)) / temperature)`` of each row of ``p`` (N, K); ``temperature`` > 0.

    Rows of the result sum to 1 within rounding; the class order of each row is kept.
    """
    with np.errstate(over="ignore"):  # a minute temperature makes ratios -inf, whose weight is 0
        weights = np.exp(_log_ratios(p) / temperature)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def two_classes(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """(1 - p, p) of a column ``p`` (N,): shape (N, 2)."""
    return np.column_stack((1.0 - p, p))


def checked(p: Probabilities, kind: Kind) -> NDArray[np.float64]:
    """``p`` in float64, if it is a table of probabilities of a task of this kind.

    Raises ``ValueError`` for no rows, a wrong number of columns, and values that are not finite or
    lie outside [0, 1]. Row sums are not looked at.
    """
    table: NDArray[np.float64] = np.asarray(p, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] == 0:
        raise ValueError(f"probabilities must be a table (rows, columns), not of shape {table.shape}")
    if kind == "binary" and table.shape[1] != 1:
        raise ValueError(f"a binary task has one probability column, p_1, not {table.shape[1]}")
    if kind == "multiclass" and table.shape[1] < 2:
        raise ValueError("a multiclass task has two or more probability columns, not 1")
    if len(table) == 0:
        raise ValueError("there are no rows")
    if not np.isfinite(table).all():
        raise ValueError(f"{int((~np.isfinite(table)).sum())} probabilities are not finite")
    if table.min() < 0 or table.max() > 1:
        raise ValueError(f"probabilities must lie in [0, 1]; they range from {table.min():g} to {table.max():g}")
    return table


def checked_labels(y: Labels, p: NDArray[np.float64], kind: Kind) -> NDArray[np.int64]:
    """``y`` in int64, if it labels the rows of ``p``.

    Raises ``ValueError`` for a wrong shape, values that are no integers or lie outside the classes, and a finding
    without a labelled row.
    """
    y = np.asarray(y)
    shape = p.shape if kind == "multilabel" else p.shape[:1]
    if y.shape != shape:
        raise ValueError(f"labels of a {kind} task must have shape {shape} here, not {y.shape}")
    if not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"labels must be integers, not {y.dtype}")
    lowest = -1 if kind == "multilabel" else 0
    highest = p.shape[1] - 1 if kind == "multiclass" else 1
    if y.min() < lowest or y.max() > highest:
        raise ValueError(f"labels must lie in {lowest}..{highest}; they range from {y.min()} to {y.max()}")
    if kind == "multilabel" and not (y >= 0).any(axis=0).all():
        raise ValueError(f"finding {int((y >= 0).any(axis=0).argmin())} has no labelled row")
    return y.astype(np.int64)


def _log_ratios(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits ``log(max(p, FLOOR))`` minus the largest of their row: at most 0, so that exp never overflows."""
    logits = np.log(np.maximum(p, FLOOR))
    return np.asarray(logits - logits.max(axis=1, keepdims=True))


def _minimise(p: NDArray[np.float64], y: NDArray[np.int64]) -> float:
    from scipy.optimize import minimize_scalar

    logits = _log_ratios(p)
    rows = np.arange(len(y))
    true_logits = logits[rows, y]
    # the largest logit of a row is 0, its weight 1: log1p over the others keeps losses near 0 apart
    others = logits.copy()
    others[rows, logits.argmax(axis=1)] = -np.inf

    def loss(t: float) -> float:
        return float(np.mean(np.log1p(np.exp(others / t).sum(axis=1)) - true_logits / t))

    low, high = map(math.log, BOUNDS)
    inner = minimize_scalar(
        lambda log_t: loss(math.exp(log_t)), bounds=(low, high), method="bounded", options={"xatol": 1e-10}
    )
    # the search never tries its bounds; min() keeps the first of equals, so a flat loss gives T = 1
    return min((1.0, math.exp(inner.x), *BOUNDS), key=loss)
