"""Temperature scaling: one positive number divides the logits."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from protocol.objective import Objective
from submission.recalibration.maps import Floats, softmax
from submission.recalibration.rows import Cases, Metric, targets
from submission.recalibration.smooth import fit_inverse
from submission.recalibration.solver import total_loss

WIDEST = (1e-6, 1e6)  # where a squared error without bounds is searched
EQUAL = 1e-12  # relative difference of two losses that count as equal


def fit_temperature(cases: Cases, objective: Objective, metric: Metric | None) -> tuple[float, bool]:
    """The temperature of least loss of ``q = softmax(x / T)``, x (n, K), and whether the optimum is finite.

    Loss ``nll``: mean of ``-sum_k t_k log q_k``, convex in 1/T, solved there. Labels that can be separated want T =
    0, and labels against the scores T = infinity or less: the bound of that side is returned, or without bounds a T
    from which less than 1e-9 of the total loss is to be gained, marked as no finite optimum. T = 1 (or the bound next
    to it) where no T changes anything. Loss ``squared``: mean of ``sum_k (q_k - t_k)^2``, searched from 241 points
    spaced evenly in log T within the bounds (without bounds: 1e-6 to 1e6). A ``grid``: its point of least loss
    (``nll``, ``squared``, or ``ece`` as ``metric`` computes it); of points equal within 1e-12 of their size the one
    next to 1.

    Source: Guo et al. (2017), On calibration of modern neural networks, PMLR 70: 1321-1330, section 4.2.
    """
    goal = targets(cases, objective.smoothing)
    if objective.grid is not None:
        low, high = objective.bounds or (0.0, math.inf)
        grid = [t for t in objective.grid if low <= t <= high]
        if not grid:
            raise ValueError(f"no temperature of the grid lies within the bounds {low:g} to {high:g}")
        return _least(grid, _loss(cases, goal, objective, metric)), True
    if objective.loss == "squared":
        return _search(_loss(cases, goal, objective, metric), objective.bounds or WIDEST), True
    inverse, finite = fit_inverse(cases, objective)
    if objective.bounds is not None:
        low, high = objective.bounds
        wanted = 1.0 if math.isnan(inverse) else high if inverse <= 1.0 / high else 1.0 / inverse
        return min(max(wanted, low), high), True
    if math.isnan(inverse):
        return 1.0, True
    if inverse == math.inf:
        return _far(cases, goal), False
    reach = float((cases.x.max(axis=1) - cases.x.min(axis=1)).max()) * cases.total
    flattest = max(1e9 * reach, 1.0)  # at which T the loss is within 1e-9 of that at infinity
    return (flattest, False) if inverse <= 1.0 / flattest else (1.0 / inverse, finite)


def _far(cases: Cases, goal: Floats) -> float:
    """A small T of separable labels, from which less than 1e-9 of the total loss is to be gained."""
    loss = _loss(cases, goal, Objective("nll"), None)
    t, value = 1.0, loss(1.0) * cases.total
    while True:
        new = loss(t / 2.0) * cases.total
        if value - new <= 1e-9 or t < 1e-90:
            return t
        t, value = t / 2.0, new


def _loss(cases: Cases, goal: Floats, objective: Objective, metric: Metric | None) -> Callable[[float], float]:
    """The mean loss as a function of T."""
    x = cases.x - cases.x.max(axis=1, keepdims=True)
    if objective.loss == "nll":
        return lambda t: total_loss(x / t, goal) / cases.total
    weight = goal.sum(axis=1)
    if objective.loss == "squared":
        mean = goal / weight[:, None]  # the spread of targets around it is the same for every T
        return lambda t: float((weight * ((softmax(x / t) - mean) ** 2).sum(axis=1)).sum()) / cases.total
    if metric is None:
        raise ValueError("the loss ece needs its metric: pass metric=, or declare the loss nll")
    of, (case, y) = metric, np.nonzero(cases.counts)
    weights = cases.counts[case, y]

    def value(t: float) -> float:
        q = softmax(x[case] / t)
        return of(q[:, 1] if q.shape[1] == 2 else q, y.astype(np.int64), weights)

    return value


def _least(grid: Sequence[float], loss: Callable[[float], float]) -> float:
    losses = [loss(t) for t in grid]
    best = min(losses)
    equal = [t for t, value in zip(grid, losses, strict=True) if value <= best + EQUAL * max(1.0, abs(best))]
    return min(equal, key=lambda t: (abs(math.log(t)), t))


def _search(loss: Callable[[float], float], bounds: tuple[float, float]) -> float:
    """Least loss over log T: the best points of a grid, each refined between its neighbours."""
    from scipy.optimize import minimize_scalar

    points = np.linspace(math.log(bounds[0]), math.log(bounds[1]), 241)
    losses = [loss(math.exp(point)) for point in points]
    # of equal losses the one next to T = 1, so that a flat loss gives 1 where it is allowed
    start = min(max(1.0, bounds[0]), bounds[1])
    candidates = [start, *bounds]
    for i in sorted(range(len(points)), key=losses.__getitem__)[:8]:
        between = (points[max(i - 1, 0)], points[min(i + 1, len(points) - 1)])
        found = minimize_scalar(lambda s: loss(math.exp(s)), bounds=between, method="bounded", options={"xatol": 1e-11})
        candidates += [math.exp(found.x), math.exp(points[i])]
    return min((min(max(t, bounds[0]), bounds[1]) for t in candidates), key=loss)
