"""Compiled logistic fits of outcomes on the logit of one score column: intercept, line, restricted cubic spline.

Arguments as in :mod:`scorer.metrics.kernels`; ``x`` (groups,) is the logit of each group's score, ascending. Source of
the fits: maximum likelihood by Newton's method with step halving.
"""

import numpy as np
from numpy.typing import NDArray

from scorer.metrics.compiled import compiled
from scorer.metrics.kernels import Places, gather

Floats = NDArray[np.float64]

# why a fit has no value
FINE, NO_WEIGHT, ONE_CLASS, CONSTANT, SEPARATED, NOT_CONVERGED = range(6)
KNOTS = 4
STEPS = 100


@compiled
def expit(t: float) -> float:
    """1 / (1 + exp(-t)) without overflow."""
    e: float = np.exp(-abs(t))
    return 1.0 / (1.0 + e) if t >= 0.0 else e / (1.0 + e)


@compiled
def fit_intercept(x: Floats, g: Floats, v: Floats, total: float, events: float, a: float) -> tuple[float, int]:
    """Intercept a of logit P(event) = a + x, and its status; by Newton's method within a bracket, from ``a`` on."""
    if not 0.0 < events < total:
        return np.nan, ONE_CLASS
    lo, hi = -100.0, 100.0  # |x| <= 28, so the root lies well inside for any positive counts
    for _ in range(STEPS):
        excess = 0.0
        slope = 0.0
        for i in range(len(g)):
            if g[i] == 0.0:
                continue
            t = a + x[i]
            e = np.exp(-abs(t))
            near, far = 1.0 / (1.0 + e), e / (1.0 + e)
            p, q = (near, far) if t >= 0.0 else (far, near)
            excess += (g[i] - v[i]) * p - v[i] * q  # keeps its digits where p is all but 0 or 1
            slope += g[i] * p * q
        if excess > 0.0:
            hi = a
        else:
            lo = a
        step = excess / slope if slope > 0.0 else np.inf
        new = a - step
        if not lo < new < hi:
            new = 0.5 * (lo + hi) if hi - lo > 1e-6 else a - step
        if abs(new - a) <= 1e-9 * max(1.0, abs(a)):  # steps shrink by squares: this one is exact
            return new, FINE
        a = new
    return a, FINE if hi - lo < 1e-9 or abs(excess) <= 1e-9 * total else NOT_CONVERGED


@compiled
def overlap(x: Floats, g: Floats, v: Floats) -> int:
    """FINE where a finite line exists: scores of events and of others overlap (Albert and Anderson 1984)."""
    low_event = low_other = np.inf
    high_event = high_other = -np.inf
    for i in range(len(g)):
        if v[i] > 0.0:
            low_event = min(low_event, x[i])
            high_event = max(high_event, x[i])
        if g[i] - v[i] > 0.0:
            low_other = min(low_other, x[i])
            high_other = max(high_other, x[i])
    if min(low_event, low_other) == max(high_event, high_other):
        return CONSTANT
    if low_event >= high_other or high_event <= low_other:
        return SEPARATED
    return FINE


@compiled
def solve(h: Floats, b: Floats, k: int, out: Floats) -> bool:
    """``out[:k]`` = inverse of the positive definite ``h[:k, :k]`` times ``b[:k]``, in place; False if singular."""
    for j in range(k):
        top = h[j, j]
        for q in range(j):
            h[j, j] -= h[j, q] * h[j, q]
        if not h[j, j] > 1e-14 * top:
            return False
        h[j, j] = np.sqrt(h[j, j])
        for i in range(j + 1, k):
            for q in range(j):
                h[i, j] -= h[i, q] * h[j, q]
            h[i, j] /= h[j, j]
    for i in range(k):
        out[i] = b[i]
        for q in range(i):
            out[i] -= h[i, q] * out[q]
        out[i] /= h[i, i]
    for i in range(k - 1, -1, -1):
        for q in range(i + 1, k):
            out[i] -= h[q, i] * out[q]
        out[i] /= h[i, i]
    return True


@compiled
def climb(basis: Floats, k: int, g: Floats, v: Floats, total: float, beta: Floats, careful: bool) -> int:
    """Maximise the likelihood over ``beta[:k]``, from the values that it has; ``basis`` (groups, 4), the first column
    1, those from k on 0.

    Steps are halved where the likelihood falls (``careful``), else NOT_CONVERGED says that they did not shrink. Where
    the classes separate the likelihood has no maximum: the fitted probabilities converge all the same.
    """
    h = np.empty((KNOTS, KNOTS))
    score = np.empty(KNOTS)
    step = np.zeros(KNOTS)
    trial = np.zeros(KNOTS)
    for j in range(k):
        trial[j] = beta[j]
    best = -np.inf
    last = np.inf
    for _ in range(STEPS):
        b0, b1, b2, b3 = trial[0], trial[1], trial[2], trial[3]
        s0 = s1 = s2 = s3 = 0.0
        h00 = h10 = h11 = h20 = h21 = h22 = h30 = h31 = h32 = h33 = 0.0
        likelihood = 0.0
        for i in range(len(g)):
            if g[i] == 0.0:
                continue
            x1, x2, x3 = basis[i, 1], basis[i, 2], basis[i, 3]
            eta = b0 + b1 * x1 + b2 * x2 + b3 * x3
            e = np.exp(-abs(eta))
            p = 1.0 / (1.0 + e)
            c = g[i] * p * p * e
            r = v[i] - g[i] * (p if eta >= 0.0 else p * e)
            if careful:
                likelihood += v[i] * eta - g[i] * (max(eta, 0.0) + np.log1p(e))
            s0 += r
            s1 += r * x1
            s2 += r * x2
            s3 += r * x3
            c1, c2, c3 = c * x1, c * x2, c * x3
            h00 += c
            h10 += c1
            h11 += c1 * x1
            h20 += c2
            h21 += c2 * x1
            h22 += c2 * x2
            h30 += c3
            h31 += c3 * x1
            h32 += c3 * x2
            h33 += c3 * x3
        if careful and likelihood < best - 1e-11 * (abs(best) + 1.0):  # too far: half the way back
            for j in range(k):
                step[j] *= 0.5
                trial[j] = beta[j] + step[j]
            continue
        best = max(best, likelihood)
        score[0], score[1], score[2], score[3] = s0, s1, s2, s3
        for j in range(k):
            beta[j] = trial[j]
        ridge = 0.0
        solved = False
        for _ in range(4):  # where it is singular, with a little on the diagonal: still a way up
            h[0, 0] = h00 + ridge
            h[1, 0], h[1, 1] = h10, h11 + ridge
            h[2, 0], h[2, 1], h[2, 2] = h20, h21, h22 + ridge
            h[3, 0], h[3, 1], h[3, 2], h[3, 3] = h30, h31, h32, h33 + ridge
            solved = solve(h, score, k, step)
            if solved:
                break
            ridge = max(1e-10 * (h00 + h11 + h22 + h33), 1e3 * ridge)
        if not solved:
            left = 0.0
            for j in range(k):
                left = max(left, abs(score[j]))
            return FINE if left <= 1e-7 * total else NOT_CONVERGED
        gain = 0.0
        for j in range(k):
            gain += step[j] * score[j]
            trial[j] = beta[j] + step[j]
        if gain <= 1e-17 * total:
            for j in range(k):
                beta[j] = trial[j]
            return FINE
        if not careful and not gain < last:
            return NOT_CONVERGED
        last = gain
    # on the way to a limit a step gains about what the probabilities still miss
    return FINE if careful and last <= 1e-8 * total else NOT_CONVERGED


@compiled
def fit(basis: Floats, k: int, g: Floats, v: Floats, total: float, warm: Floats, beta: Floats) -> int:
    """:func:`climb` from ``warm``, and, should its steps not shrink, with care from the fit of the prevalence alone."""
    for j in range(KNOTS):
        beta[j] = warm[j]
    if climb(basis, k, g, v, total, beta, False) == FINE:
        return FINE
    for j in range(KNOTS):
        beta[j] = 0.0
    events = 0.0
    for i in range(len(v)):
        events += v[i]
    beta[0] = np.log(events / (total - events))
    return climb(basis, k, g, v, total, beta, True)


@compiled
def quantile(x: Floats, g: Floats, total: float, share: float) -> float:
    """The smallest of the ascending ``x`` up to which at least ``share`` of the weight lies (inverted distribution)."""
    below = 0.0
    for i in range(len(x)):
        below += g[i]
        if below >= share * total * (1.0 - 1e-12):
            break
    return float(x[i])


@compiled
def spline_basis(x: Floats, g: Floats, total: float, basis: Floats) -> int:
    """Fill ``basis`` (groups, 4) with 1, x and the restricted cubic spline of x; the number of columns in use.

    Knots at the 5, 35, 65 and 95 % quantiles; knots that coincide are one, and two or fewer leave a line.
    """
    t = np.empty(KNOTS)
    n = 0
    for share in (0.05, 0.35, 0.65, 0.95):
        knot = quantile(x, g, total, share)
        if n == 0 or knot > t[n - 1]:
            t[n] = knot
            n += 1
    last, before = t[n - 1], t[max(n - 2, 0)]
    width = (last - t[0]) ** 2
    low = high = np.nan
    for i in range(len(x)):
        if g[i] > 0.0:
            low = x[i] if np.isnan(low) else low
            high = x[i]
        basis[i, 0] = 1.0
        basis[i, 1] = x[i]
        for j in range(KNOTS - 2):
            basis[i, 2 + j] = 0.0
        for j in range(n - 2):
            a = max(x[i] - t[j], 0.0) ** 3
            b = max(x[i] - before, 0.0) ** 3 * (last - t[j])
            c = max(x[i] - last, 0.0) ** 3 * (before - t[j])
            basis[i, 2 + j] = (a - (b - c) / (last - before)) / width
    return 1 if low == high else max(2, n)


@compiled
def fit_all(
    patient: Places,
    group: Places,
    score: Floats,
    x: Floats,
    outcome: Floats,
    weights: Floats,
    warm: Floats,
    lines: Floats,
    curves: Floats,
    mass: Floats,
    gaps: Floats,
    status: NDArray[np.int64],
) -> None:
    """Fits of each resample, begun at ``warm`` (3, 4): intercept, line, spline; outputs of length 0 are not wanted.

    ``lines`` (D, 3): intercept at slope one, joint intercept, slope. ``curves`` (D, 4): coefficients of the spline;
    ``mass`` and ``gaps`` (D, groups): weight and abs(score - spline) of each group. ``status`` (D, 3): of the
    intercept, the line, the spline.
    """
    n = len(score)
    g = np.empty(n)
    v = np.empty(n)
    basis = np.empty((n, KNOTS))
    beta = np.empty(KNOTS)
    for d in range(len(weights)):
        gather(patient, group, outcome, weights[d], g, v)
        total = 0.0
        events = 0.0
        for i in range(n):
            total += g[i]
            events += v[i]
        if not total > 0.0:
            for j in range(3):
                status[d, j] = NO_WEIGHT
            continue
        mixed = 0.0 < events < total
        if len(lines):
            lines[d, 0], status[d, 0] = fit_intercept(x, g, v, total, events, warm[0, 0])
            status[d, 1] = overlap(x, g, v) if mixed else ONE_CLASS
            if status[d, 1] == FINE:
                for i in range(n):
                    basis[i, 0] = 1.0
                    basis[i, 1] = x[i]
                    basis[i, 2] = 0.0
                    basis[i, 3] = 0.0
                status[d, 1] = fit(basis, 2, g, v, total, warm[1], beta)
                if status[d, 1] == FINE:
                    lines[d, 1], lines[d, 2] = beta[0], beta[1]
        if len(gaps):
            k = spline_basis(x, g, total, basis) if mixed else 0
            if k == 1:
                beta[0] = np.log(events / (total - events))
            elif k > 1:
                status[d, 2] = fit(basis, k, g, v, total, warm[2], beta)
            if status[d, 2] != FINE:
                continue
            for j in range(k):
                curves[d, j] = beta[j]
            for i in range(n):
                mass[d, i] = g[i]
                eta = 0.0
                for j in range(k):
                    eta += beta[j] * basis[i, j]
                gaps[d, i] = abs(score[i] - (expit(eta) if k else events / total))
