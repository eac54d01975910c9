"""The solver of every smooth family: the loss of a softmax model that is linear in its parameters, minimised.

The loss is convex. Newton steps within a trust region, each from an eigenvalue decomposition, need no step size, pass
flat directions by and go on along directions in which the loss falls for ever until nothing is left to gain.
Source of the method: Nocedal and Wright (2006), Numerical optimization, chapter 4,
https://doi.org/10.1007/978-0-387-40065-5.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
GAIN = 1e-9  # what a step must promise in total loss (n x mean), or the search ends
FAR = (
    0.2  # change of a logit by the last step above which the optimum lies at infinity: there every step changes it by 1
)
USUAL = 30.0  # how far a parameter goes, in standard deviations of its input
LARGEST = 1e4  # radius of trust beyond which nothing is to be had
STEPS = 400
CHUNK = 4_000_000  # numbers of a block of the Hessian's factor


@dataclass(frozen=True)
class Problem:
    """Total loss plus penalty, a convex function of ``phi`` (d,).

    ``logits[i, k] = sum_m design[i, k, m] theta[k, m]`` with ``theta = (tie phi)`` of shape (K, m); ``design`` (n, K,
    m) may be a broadcast view, ``tie`` None is the identity. The loss is ``sum_i sum_k targets[i, k]
    (logsumexp(logits[i]) - logits[i, k])``, in nats; ``penalty`` (d, d) adds ``phi' penalty phi``.
    """

    design: Floats
    targets: Floats
    penalty: Floats
    tie: Floats | None = None

    def logits(self, phi: Floats) -> Floats:
        """Logits (n, K)."""
        theta = (phi if self.tie is None else self.tie @ phi).reshape(-1, self.design.shape[2])
        logits = np.zeros(self.design.shape[:2])
        for m in range(theta.shape[1]):
            logits += self.design[:, :, m] * theta[:, m]
        return logits

    def value(self, phi: Floats) -> float:
        """The objective at ``phi``; every term is at least 0, so that losses near 0 keep their digits."""
        logits = self.logits(phi)
        return total_loss(logits, self.targets) + float(phi @ self.penalty @ phi)

    def slopes(self, phi: Floats) -> tuple[Floats, Floats]:
        """Gradient (d,) and Hessian (d, d) at ``phi``."""
        n, classes, m = len(self.design), self.design.shape[1], self.design.shape[-1]
        p = np.exp(below_top(self.logits(phi)))
        p /= p.sum(axis=1, keepdims=True)
        weight = self.targets.sum(axis=1)
        gradient = np.zeros(classes * m)
        hessian = np.zeros((classes * m, classes * m))
        size = max(1, CHUNK // (classes * m))
        for rows in (slice(start, start + size) for start in range(0, n, size)):
            design, q, w = self.design[rows], p[rows], weight[rows]
            gradient += np.einsum("ik,ikm->km", q * w[:, None] - self.targets[rows], design).ravel()
            factor = (design * (q * np.sqrt(w)[:, None])[:, :, None]).reshape(len(w), -1)
            hessian -= factor.T @ factor
            for k in range(classes):
                own = slice(k * m, (k + 1) * m)
                hessian[own, own] += (design[:, k] * (q[:, k] * w)[:, None]).T @ design[:, k]
        if self.tie is not None:
            gradient, hessian = self.tie.T @ gradient, self.tie.T @ hessian @ self.tie
        return gradient + 2.0 * self.penalty @ phi, hessian + 2.0 * self.penalty


@dataclass(frozen=True)
class Solution:
    """Where the search ended; ``finite`` is False where the loss goes on falling, by less than counts, for ever."""

    phi: Floats
    value: float
    finite: bool


def minimise(problem: Problem, starts: Sequence[Floats]) -> Solution:
    """The minimum of ``problem``, from the best of ``starts``; never worse than any of them.

    The objective is within 1e-6 of its infimum where rounding allows it (weights of 1, inputs of order 1). Directions
    in which nothing changes are not moved in.
    """
    phi = min(starts, key=problem.value)
    value = problem.value(phi)
    weight = float(problem.targets.sum())
    gain, noise = GAIN * min(1.0, weight), 4e-16 * weight * max(1.0, float(np.abs(problem.design).max()))
    radius, ceiling, further = 10.0, LARGEST, 0
    for _ in range(STEPS):
        gradient, hessian = problem.slopes(phi)
        curvature, axes = np.linalg.eigh(hessian)
        curvature = np.maximum(curvature, 0.0)
        slope = axes.T @ gradient
        slope[_idle(slope, curvature, gain, noise)] = 0.0
        along = _step(slope, curvature, radius)
        length = float(np.sqrt(along @ along))
        promised = float(-(slope @ along) - 0.5 * (curvature @ along**2))
        if promised <= gain and length >= 0.99 * radius and radius < ceiling:
            radius = min(8.0 * radius, ceiling)  # it promises little because it is short
            continue
        step = axes @ along
        new = problem.value(phi + step)
        if promised <= gain:
            moved = float(np.abs(problem.logits(step)).max())
            better = new <= value
            if better:
                phi, value = phi + step, new
            further += 1
            if moved <= 1e-7 or further > 3 or not better:
                return Solution(phi, value, moved <= FAR and value > 100.0 * gain)  # a loss of 0 is no map's
        elif new <= value + 1e-14 * abs(value):
            kept = (value - new) / promised
            phi, value, ceiling = phi + step, new, LARGEST
            if kept > 0.75 and length > 0.99 * radius:
                radius = min(4.0 * radius, LARGEST)
            elif kept < 0.25:
                radius = 0.5 * length
        else:
            radius = ceiling = 0.25 * length
            if radius < 1e-12:
                break
    return Solution(phi, value, finite=True)


def _idle(slope: Floats, curvature: Floats, gain: float, noise: float) -> NDArray[np.bool_]:
    """Axes along which there is nothing to gain that counts: no parameter wanders off because of rounding."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        distance = np.where(slope == 0.0, 0.0, np.minimum(np.abs(slope) / curvature, USUAL))
    flat = (curvature <= 1e-13 * curvature.max()) & (np.abs(slope) <= noise)
    return np.asarray(flat | ((distance > 0.1) & (np.abs(slope) * distance <= 1e-4 * gain)))


def _step(slope: Floats, curvature: Floats, radius: float) -> Floats:
    """The step of least model value within ``radius``, in the axes of the Hessian."""
    moving = slope != 0.0
    step = np.zeros_like(slope)
    if not moving.any():
        return step
    g, w = slope[moving], curvature[moving]

    def at(damping: float) -> Floats:
        return np.asarray(-g / (w + damping))

    high = float(np.sqrt(g @ g)) / radius
    low = 0.0
    if w.min() > 0.0:
        newton = at(0.0)
        if np.isfinite(newton).all() and newton @ newton <= radius**2:
            step[moving] = newton
            return step
    for _ in range(100):
        middle = np.sqrt(low * high) if low > 0.0 else high * 1e-3
        within = at(middle)
        if within @ within > radius**2:
            low = middle
        else:
            high = middle
        if high <= low * 1.01 or high < 1e-300:
            break
    step[moving] = at(high)
    return step


def total_loss(logits: Floats, targets: Floats) -> float:
    """``sum_ik targets[i, k] (logsumexp(logits[i]) - logits[i, k])``, of terms not below 0: nothing cancels."""
    below = below_top(logits)
    rest = np.exp(below)
    rest[np.arange(len(rest)), logits.argmax(axis=1)] = (
        0.0  # the largest logit of a row has weight 1: log1p of the others
    )
    return float((targets.sum(axis=1) * np.log1p(rest.sum(axis=1))).sum() - (targets * below).sum())


def below_top(logits: Floats) -> Floats:
    """Logits minus the largest of their row: at most 0, so that exp never overflows."""
    return np.asarray(logits - logits.max(axis=1, keepdims=True))
