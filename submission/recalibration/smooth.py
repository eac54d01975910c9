"""The smooth families: softmax models that are linear in their parameters, so that each has one convex objective.

All minimise ``mean loss + penalty`` over the rows, the loss being the negative log-likelihood (natural log) of the
targets. Where the rows can be separated and neither penalty nor smoothing stops it, there is no optimum: the loss falls
as parameters grow. A finite map is returned then from which nothing that counts (1e-9 of the total loss) is to be
gained, and ``finite`` is False.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from protocol.objective import Objective
from submission.recalibration.maps import FLOOR
from submission.recalibration.rows import Cases, Floats, targets
from submission.recalibration.solver import Problem, Solution, below_top, minimise

STARTS = 4.0 ** np.arange(-12, 2)  # inverse temperatures of the identity from which the best is the start


@dataclass(frozen=True)
class Softmax:
    """``q = softmax(weights x + bias)``: ``weights`` (K, K) or, of vector scaling, its diagonal; ``bias`` (K,)."""

    weights: Floats
    bias: Floats
    finite: bool


@dataclass(frozen=True)
class Line:
    """``logit q = slopes x + intercept``."""

    slopes: tuple[float, ...]
    intercept: float
    finite: bool


def fit_softmax(cases: Cases, objective: Objective, diagonal: bool) -> Softmax:
    """Vector (``diagonal``), matrix or Dirichlet scaling of the inputs (n, K): logits or log-probabilities.

    Formula: ``q = softmax(W x + b)``; minimises the mean NLL, plus ``ridge sum W_kj^2`` or ``lambda / (K (K - 1))
    sum_{k != j} W_kj^2 + mu / K sum_k b_k^2`` (ODIR) where the objective says so. Of maps with equal outputs, that
    with biases of sum 0 (where no penalty decides: and with columns of W of sum 1) is given.

    Source: vector and matrix scaling, Guo et al. (2017), PMLR 70: 1321-1330, section 4.2; Dirichlet calibration and
    ODIR, Kull et al. (2019), https://doi.org/10.48550/arXiv.1910.12656.
    """
    x, (n, classes) = cases.x, cases.x.shape
    middle, scale = centre_and_scale(cases)
    z = np.where(scale > 0, (x - middle) / np.where(scale > 0, scale, 1.0), 0.0)
    scale = np.where(scale > 0, scale, 1.0)
    inputs = 2 if diagonal else classes + 1
    design = np.empty((n, classes, inputs)) if diagonal else np.empty((n, 1, inputs))
    design[:, :, :-1] = z[:, :, None] if diagonal else z[:, None, :]
    design[:, :, -1] = 1.0
    # theta = back phi: from the centred and scaled parameters to the map's own
    back = np.zeros((classes, inputs, classes, inputs))
    penalty = np.zeros((classes, inputs))
    for k in range(classes):
        own = [k] if diagonal else list(range(classes))
        for place, j in enumerate(own):
            back[k, place, k, place] = 1.0 / scale[j]
            back[k, -1, k, place] = -middle[j] / scale[j]
            if objective.odir is not None and j != k:
                penalty[k, place] = objective.odir[0] / (classes * (classes - 1))
            penalty[k, place] += _ridge(objective, cases)
        back[k, -1, k, -1] = 1.0
        if objective.odir is not None:
            penalty[k, -1] = objective.odir[1] / classes
    size = classes * inputs
    back_, penalty_ = back.reshape(size, size), penalty.ravel() * cases.total
    problem = Problem(
        np.broadcast_to(design, (n, classes, inputs)),
        targets(cases, objective.smoothing),
        back_.T @ (back_ * penalty_[:, None]),
    )
    identity = np.zeros((classes, inputs))
    for k in range(classes):
        identity[k, 0 if diagonal else k], identity[k, -1] = scale[k], middle[k]
    found = minimise(problem, [identity.ravel(), *(b * identity.ravel() for b in STARTS)])
    theta = (back_ @ found.phi).reshape(classes, inputs)
    weights, bias = theta[:, :-1], theta[:, -1] - theta[:, -1].mean()
    if diagonal:
        weights = weights[:, 0]
    elif not penalty[:, :-1].any():
        weights = weights - weights.mean(axis=0) + 1.0 / classes
    return Softmax(weights, bias, found.finite)


def fit_line(cases: Cases, objective: Objective, positive: bool = False) -> Line:
    """Platt scaling, or beta calibration (``positive`` slopes), of the inputs (n, d) of two classes.

    Formula: ``logit q = slopes . x + intercept``; minimises the mean NLL, plus ``ridge sum slopes^2`` where the
    objective says so. The inputs of Platt scaling are the logit or the log odds of p; those of beta calibration log p
    and -log(1 - p), whose slopes a and b are at least 0.

    Source: Platt (1999), Advances in large margin classifiers, 61-74, with his targets as in Lin, Lin and Weng (2007),
    https://doi.org/10.1007/s10994-007-5018-6; Kull, Silva Filho and Flach (2017), PMLR 54: 623-631,
    https://doi.org/10.1214/17-EJS1338SI.
    """
    n, d = cases.x.shape
    middle, scale = centre_and_scale(cases)
    flat = scale == 0
    scale = np.where(flat, 1.0, scale)
    design = np.zeros((n, 2, d + 1))  # class 0 has logit 0
    design[:, 1, :d] = np.where(flat, 0.0, (cases.x - middle) / scale)
    design[:, 1, d] = 1.0
    goal = targets(cases, objective.smoothing)
    start = np.append(scale, middle.sum())  # slopes of 1, intercept 0
    ridge = np.append(_ridge(objective, cases) * cases.total / scale**2, 0.0)
    best: Solution | None = None
    for zeros in sorted(product((False, True) if positive else (False,), repeat=d), key=sum):
        free = [j for j in range(d + 1) if j == d or not zeros[j]]
        tie = np.zeros((2 * (d + 1), len(free)))
        tie[d + 1 + np.array(free), np.arange(len(free))] = 1.0
        problem = Problem(design, goal, np.diag(ridge[free]), tie)
        found = minimise(problem, [b * start[free] for b in (1.0, *STARTS)])
        phi = np.zeros(d + 1)
        phi[free] = found.phi
        if positive and (phi[:d] < 0).any():
            continue  # the optimum lies on a face where a slope is 0: by convexity the best of the faces is it
        if best is None or found.value < best.value:
            best = Solution(phi, found.value, found.finite)
        if not any(zeros):
            break
    assert best is not None  # the face of zero slopes is always allowed
    slopes = best.phi[:d] / scale
    return Line(tuple(slopes.tolist()), float(best.phi[d] - slopes @ middle), best.finite)


def fit_inverse(cases: Cases, objective: Objective) -> tuple[float, bool]:
    """1/T in [-inf, inf] that minimises the mean NLL of ``softmax(x / T)``, and whether it is finite.

    NaN where no temperature changes anything (the logits of each row are equal).
    """
    x = below_top(cases.x)
    scale = float(-x.min())
    if scale == 0.0:
        return float("nan"), True
    problem = Problem(
        (x / scale)[:, :, None],
        targets(cases, objective.smoothing),
        np.zeros((1, 1)),
        np.ones((x.shape[1], 1)),
    )
    found = minimise(problem, [np.array([scale * b]) for b in (1.0, *STARTS)])
    inverse = float(found.phi[0]) / scale
    return (inverse if found.finite else np.copysign(np.inf, inverse)), found.finite


def centre_and_scale(cases: Cases) -> tuple[Floats, Floats]:
    """Weighted mean and standard deviation of each input; a constant input has its value and 0."""
    x, weight = cases.x, cases.counts.sum(axis=1, keepdims=True)
    constant = x.min(axis=0) == x.max(axis=0)
    middle = np.where(constant, x[0], (x * weight).sum(axis=0) / cases.total)
    scale = np.sqrt(((x - middle) ** 2 * weight).sum(axis=0) / cases.total)
    return middle, np.where(constant, 0.0, scale)


def _ridge(objective: Objective, cases: Cases) -> float:
    """Weight of the sum of squared slopes beside the mean loss."""
    if objective.ridge_c is not None:
        return 1.0 / (2.0 * objective.ridge_c * cases.total)
    return objective.ridge


def two_class_inputs(p: Floats, z: Floats | None) -> Floats:
    """What a two-class softmax map reads (N, 2): log(1 - p) and log p, or 0 and the logit."""
    if z is not None:
        return np.column_stack((np.zeros(len(z)), z))
    return np.column_stack((np.log(np.maximum(1.0 - p, FLOOR)), np.log(np.maximum(p, FLOOR))))


def as_lists(values: Sequence[float] | Floats) -> list[float]:
    """Plain numbers without negative zeros."""
    return [float(value) + 0.0 for value in values]
