"""The calibration rows: checked, grouped and given their targets.

Rows with equal inputs become one case whose classes carry the summed weights, in lexical order of the inputs. So a
weight of three is a row three times over, a weight of zero an absent one, and the order of rows changes no bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from protocol.types import Kind

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Probabilities = NDArray[np.floating[Any]]
Labels = NDArray[np.integer[Any]]
# What a caller may hand in as a loss: probabilities (n,) of the event or (n, K), labels, weights; smaller is better.
Metric = Callable[[Floats, Ints, Floats], float]


@dataclass(frozen=True)
class Cases:
    """Distinct inputs ``x`` (n, d), and ``counts`` (n, K): the weight of the rows of each class there."""

    x: Floats
    counts: Floats

    @property
    def total(self) -> float:
        """Weight of all rows."""
        return float(self.counts.sum())


def gather(x: Floats, y: Ints, weights: Floats, classes: int) -> Cases:
    """Group the rows ``x`` (N, d) by inputs; class numbers ``y`` (N,), ``weights`` (N,) >= 0, those of 0 left out.

    Raises ``ValueError`` when no row has weight.
    """
    kept = weights > 0
    if not kept.any():
        raise ValueError("there are no rows of positive weight")
    x, y, weights = x[kept] + 0.0, y[kept], weights[kept]
    order = np.lexsort((weights, y, *x.T[::-1]))
    x, y, weights = x[order], y[order], weights[order]
    starts = np.concatenate([[True], (x[1:] != x[:-1]).any(axis=1)])
    group = np.cumsum(starts) - 1
    counts: Floats = np.zeros((int(group[-1]) + 1, classes))
    np.add.at(counts, (group, y), weights)  # one after the other: in the order of the sort
    return Cases(x[starts], counts)


def targets(cases: Cases, smoothing: Literal["none", "platt"] | float) -> Floats:
    """The weighted targets (n, K) after ``smoothing``; each row sums to the weight of its case.

    ``platt`` (two classes): (n1 + 1)/(n1 + 2) for class 1 and 1/(n0 + 2) for class 0, where n1 and n0 are the weights
    of the two; a number e: (1 - e) times the one-hot target plus e/K.
    """
    counts = cases.counts
    if smoothing == "none":
        return counts
    if smoothing == "platt":
        n0, n1 = counts.sum(axis=0).tolist()
        event = counts[:, 1] * ((n1 + 1) / (n1 + 2)) + counts[:, 0] / (n0 + 2)
        other = counts[:, 1] / (n1 + 2) + counts[:, 0] * ((n0 + 1) / (n0 + 2))
        return np.column_stack((other, event))
    return np.asarray((1.0 - smoothing) * counts + smoothing / counts.shape[1] * counts.sum(axis=1, keepdims=True))


def checked(p: Probabilities, kind: Kind) -> Floats:
    """``p`` in float64, if it is a table of probabilities of a task of this kind.

    Raises ``ValueError`` for no rows, a wrong number of columns, and values that are not finite or
    lie outside [0, 1]. Row sums are not looked at.
    """
    table: Floats = np.asarray(p, dtype=np.float64)
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


def checked_labels(y: Labels, p: Floats, kind: Kind) -> Ints:
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


def checked_logits(logits: ArrayLike | None, p: Floats) -> Floats | None:
    """``logits`` in float64, one beside each probability; None stays None. Raises ``ValueError``."""
    if logits is None:
        return None
    z = np.asarray(logits, dtype=np.float64)
    if z.shape != p.shape:
        raise ValueError(f"logits must have the shape of the probabilities, {p.shape}, not {z.shape}")
    if not np.isfinite(z).all():
        raise ValueError(f"{int((~np.isfinite(z)).sum())} logits are not finite")
    return z


def checked_weights(weights: ArrayLike | None, rows: int) -> Floats:
    """``weights`` in float64, one a row, ones where None. Raises ``ValueError`` for negative or non-finite ones."""
    if weights is None:
        return np.ones(rows)
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != (rows,):
        raise ValueError(f"weights must have shape ({rows},), not {w.shape}")
    if not np.isfinite(w).all() or w.min() < 0:
        raise ValueError("weights must be finite and at least 0")
    return w
