"""The least by which one fit can be worse than another, summed over rows that are known within their boxes.

Every row at its worst at once is a bound, and a loose one: errors of rounding do not conspire. Where a box is closed,
the true input lies anywhere in the half of it that the writer's rounding leaves (down, to nearest or up, the same for
all rows), so by Hoeffding's inequality the sum falls below its mean by more than sqrt(ln(1 / alpha) / 2) times the root
of the summed squared ranges with probability alpha at most; alpha is 1e-9. The better of the two bounds counts.
Source: Hoeffding (1963), https://doi.org/10.1080/01621459.1963.10500830.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from protocol.objective import Objective
from scorer.verify.boxes import Box
from scorer.verify.losses import column_loss_ends, column_losses, softmax_losses
from submission.recalibration.maps import Column, Floats, Piecewise, SoftmaxMap

MERGED = 1e-6  # scikit-learn's isotonic regression takes inputs in single precision for one within it
SPREAD = math.sqrt(math.log(1e9) / 2.0)
POINTS = 8  # parts of an open box at whose ends a difference of losses is looked at
ROUNDINGS = ((0, 4), (2, 6), (4, 8))  # halves of a box: rounded up, to nearest, down
SAFE = 1.1  # what a range seen at five points may be more


def column_bound(own: Column, best: Column, k: int, box: Box, target: Floats, objective: Objective) -> float:
    """The least sum of differences of the losses of two maps of column ``k``."""
    if isinstance(own, Piecewise) or isinstance(best, Piecewise):
        p = np.maximum(box.p[0] - MERGED, 0.0), np.minimum(box.p[1] + MERGED, 1.0)
        box = replace(box, p=p)
        least, _ = column_loss_ends(own, k, box, target, objective)
        _, greatest = column_loss_ends(best, k, box, target, objective)
        return math.fsum(least - greatest)

    def difference(share: float) -> Floats:
        down = _between(box.u0[1][:, k], box.u0[0][:, k], share)  # log(1 - p) falls where log p rises
        pair = (
            box.p[0][:, k] + share * (box.p[1] - box.p[0])[:, k],
            down,
            _between(box.u1[0][:, k], box.u1[1][:, k], share),
        )
        return column_losses(own, pair, target, objective) - column_losses(best, pair, target, objective)

    return _bound([_along(difference)], np.zeros(len(target)), box.open)


def softmax_bound(
    own: SoftmaxMap, best: SoftmaxMap, x: Floats, box: Box, target: Floats, objective: Objective
) -> float:
    """The same of two softmax maps at inputs ``x``: one input of a row is moved at a time, to first order the effect
    of all together."""

    def difference(at: Floats) -> Floats:
        return softmax_losses(own, at, target, objective) - softmax_losses(best, at, target, objective)

    here = difference(x)

    def moved(k: int) -> Callable[[float], Floats]:
        def at(share: float) -> Floats:
            there = x.copy()
            there[:, k] = _between(box.u1[0][:, k], box.u1[1][:, k], share)
            return difference(there) - here

        return at

    return _bound([_along(moved(k)) for k in range(x.shape[1])], here, box.open)


def _along(difference: Callable[[float], Floats]) -> Floats:
    """Differences (points, N) from one end of the box to the other."""
    return np.array([difference(point / POINTS) for point in range(POINTS + 1)])


def _between(low: Floats, high: Floats, share: float) -> Floats:
    """Between two logarithms, evenly in what they are logarithms of; in an open box evenly in the logarithm."""
    wide = high - low > 5.0
    even = high + np.log(np.exp(np.maximum(low - high, -5.0)) * (1.0 - share) + share)
    return np.where(wide, low + share * (high - low), even)


def _bound(moves: Sequence[Floats], base: Floats, open_: NDArray[np.bool_]) -> float:
    """The better bound on the sum of ``base`` plus all ``moves``, each (points, N)."""
    least = base + np.sum([np.minimum(move.min(axis=0), 0.0) if len(moves) > 1 else move.min(axis=0) for move in moves], axis=0)  # fmt: skip  # noqa: E501
    worst = math.fsum(least)
    closed = ~open_
    likely = []
    for first, last in ROUNDINGS:
        middle = (first + last) // 2
        means = [(move[first] + 4.0 * move[middle] + move[last]) / 6.0 for move in moves]  # Simpson's rule
        ranges = [np.ptp(move[first : last + 1], axis=0)[closed] for move in moves]
        spread = SPREAD * SAFE * math.sqrt(math.fsum(float((width**2).sum()) for width in ranges))
        centre = base + np.sum(means, axis=0)
        likely.append(math.fsum(np.where(closed, centre, least)) - spread)
    return max(worst, min(likely))
