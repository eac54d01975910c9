"""Participants who recalibrate with other means than the kit: single precision and general optimisers."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_softmax, logsumexp

Floats = NDArray[Any]  # of single and of double precision
Ints = NDArray[np.int64]
CLASSES = 4
BINS = 15


def world(kind: str, n: int, rng: np.random.Generator) -> tuple[Floats, Ints]:
    """Logits as a network in single precision gives them, too sure of themselves, and labels: ``n`` rows."""
    if kind == "binary":
        true = rng.normal(rng.normal(), 1.5, n)
        sure, shift = np.exp(rng.normal(0.5, 0.4)), rng.normal(0, 0.3)
        z = (sure * true + shift + rng.normal(0, 0.3, n)).astype(np.float32)
        return z.astype(np.float64)[:, None], (rng.random(n) < expit(true)).astype(np.int64)
    true = rng.normal(0, 1.5, (n, CLASSES)) + rng.normal(0, 0.5, CLASSES)
    share = np.exp(true - logsumexp(true, axis=1, keepdims=True))
    y = (rng.random((n, 1)) > share.cumsum(axis=1)).sum(axis=1).clip(max=CLASSES - 1)
    z = (np.exp(rng.normal(0.5, 0.4)) * true + rng.normal(0, 0.3, true.shape) + rng.normal(0, 5)).astype(np.float32)
    return z.astype(np.float64), y.astype(np.int64)


def single(z: Floats) -> Floats:
    """Probabilities as computed in single precision: softmax of several columns, sigmoid of one."""
    z32 = z.astype(np.float32)
    if z.shape[1] == 1:
        return np.asarray(np.float32(1) / (np.float32(1) + np.exp(-z32)))
    weights = np.exp(z32 - z32.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def stored(p: Floats, how: str) -> Floats:
    """What a reader of the released file sees."""
    if how.startswith("decimals:"):
        return np.round(p.astype(np.float64), int(how.removeprefix("decimals:")))
    return p.astype(np.float64)


def _nll(logits: Floats, y: Ints) -> float:
    return float(-log_softmax(logits, axis=1)[np.arange(len(y)), y].mean())


def _line(u: Floats, t: Floats, start: Floats, method: Any) -> Floats:
    """Logistic regression of targets on the columns of ``u`` by a general optimiser."""

    def loss(w: Floats) -> tuple[float, Floats]:
        odds = u @ w
        return float((np.logaddexp(0, odds) - t * odds).mean()), np.asarray(u.T @ (expit(odds) - t) / len(t))

    found: Any = minimize(loss, start, jac=True, method=method)
    return np.asarray(found.x)


Fitted = tuple[dict[str, Any], Callable[[Floats], Floats]]


def temperature(z: Floats, y: Ints, rng: np.random.Generator, grid: bool = False) -> Fitted:
    """By Brent's method over T, or L-BFGS from 1.5 in single precision, or the best of a grid."""
    both = np.column_stack((np.zeros(len(z)), z)) if z.shape[1] == 1 else z
    if grid:
        points = 0.5 + 0.05 * np.arange(91)
        t = float(points[np.argmin([_nll(both / point, y) for point in points])])
    elif rng.random() < 0.5:
        t = float(minimize_scalar(lambda t: _nll(both / t, y), bounds=(0.05, 20), method="bounded").x)
    else:
        low = both.astype(np.float32)

        def slope(t: Floats) -> tuple[float, Floats]:
            logits = (low / np.float32(t[0])).astype(np.float64)
            q = np.exp(log_softmax(logits, axis=1))
            gap = (both[np.arange(len(y)), y] - (q * both).sum(axis=1)).mean()
            return _nll(logits, y), np.array([gap / t[0] ** 2])

        found: Any = minimize(slope, np.array([1.5]), jac=True, method="L-BFGS-B", bounds=[(0.01, None)])
        t = float(found.x[0])
    return {"temperature": t}, lambda x: single(x.astype(np.float32) / np.float32(t))


def linear(z: Floats, y: Ints, rng: np.random.Generator, family: str) -> Fitted:
    """Vector, matrix or Dirichlet scaling of log-probabilities, by BFGS or L-BFGS."""
    x, k = log_softmax(z, axis=1), z.shape[1]
    hot = np.eye(k)[y]

    def parts(w: Floats) -> tuple[Floats, Floats]:
        return (np.diag(w[:k]), w[k:]) if family == "vector" else (w[: k * k].reshape(k, k), w[k * k :])

    def loss(w: Floats) -> tuple[float, Floats]:
        weights, bias = parts(w)
        logits = x @ weights.T + bias
        value = _nll(logits, y)
        off = (np.exp(log_softmax(logits, axis=1)) - hot) / len(y)
        slope, drift = off.T @ x, off.sum(axis=0)
        if family == "dirichlet":
            outside = weights - np.diag(np.diag(weights))
            value += 0.01 * (outside**2).sum() / (k * (k - 1)) + 0.01 * (bias**2).mean()
            slope, drift = slope + 0.02 * outside / (k * (k - 1)), drift + 0.02 * bias / k
        return value, np.concatenate((np.diag(slope) if family == "vector" else slope.ravel(), drift))

    start = np.concatenate((np.ones(k) if family == "vector" else np.eye(k).ravel(), np.zeros(k)))
    method: Any = "BFGS" if rng.random() < 0.5 else "L-BFGS-B"
    found: Any = minimize(loss, start, jac=True, method=method, options={"maxiter": 2000})
    weights, bias = parts(np.asarray(found.x))
    given = {"weights": (np.diag(weights) if family == "vector" else weights).tolist(), "bias": bias.tolist()}

    def apply(logits: Floats) -> Floats:
        shown = log_softmax(logits.astype(np.float32), axis=1)
        return single(shown @ weights.astype(np.float32).T + bias.astype(np.float32))

    return given, apply


def _smoothed(y: Ints) -> Floats:
    return np.asarray(np.where(y == 1, (y.sum() + 1) / (y.sum() + 2), 1 / ((1 - y).sum() + 2)))


def platt(z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """Logistic regression on the log odds with Platt's targets."""
    design = np.column_stack((z[:, 0], np.ones(len(z))))
    a, b = _line(design, _smoothed(y), np.array([1.0, 0.0]), "BFGS" if rng.random() < 0.5 else "L-BFGS-B")
    low = np.array([a, b], dtype=np.float32)
    return {"slope": float(a), "intercept": float(b)}, lambda x: single(low[0] * x.astype(np.float32) + low[1])


def beta(z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """Logistic regression on log p and -log(1 - p), a factor below 0 set to 0 and the rest fitted again."""
    u = np.column_stack((-np.logaddexp(0, -z[:, 0]), np.logaddexp(0, z[:, 0]), np.ones(len(z))))
    kept = [0, 1, 2]
    while True:
        found = _line(u[:, kept], y.astype(np.float64), np.ones(len(kept)), "BFGS")
        low = [i for i in kept if i < 2 and found[kept.index(i)] < 0]
        if not low:
            break
        kept.remove(min(low, key=lambda i: float(found[kept.index(i)])))
    w = np.zeros(3)
    w[kept] = found

    def apply(x: Floats) -> Floats:
        low = x[:, 0].astype(np.float32)
        odds = -np.float32(w[0]) * np.logaddexp(np.float32(0), -low) + np.float32(w[1]) * np.logaddexp(
            np.float32(0), low
        )
        return single((odds + np.float32(w[2]))[:, None])

    return {"a": float(w[0]), "b": float(w[1]), "c": float(w[2])}, apply


def isotonic(z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """scikit-learn's, on probabilities in single precision."""
    from sklearn.isotonic import IsotonicRegression

    p = single(z)[:, 0]
    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(p, y)
    x = model.X_thresholds_.astype(np.float64)
    kept = np.concatenate(([True], np.diff(x) > 0))
    given = {"x": x[kept].tolist(), "y": model.y_thresholds_.astype(np.float64)[kept].tolist()}
    return given, lambda x: np.asarray(model.predict(single(x)[:, 0]))[:, None]


def _edges(at: Floats, rng: np.random.Generator) -> Floats:
    """Fifteen bins of equal mass as numpy's quantiles or as an even split of the sorted values has them."""
    if rng.random() < 0.5:
        inner = np.quantile(at, np.arange(1, BINS) / BINS)
    else:
        parts = np.array_split(np.sort(at), BINS)
        inner = np.array([(a[-1] + b[0]) / 2 for a, b in pairwise(parts)])
    return np.unique(np.concatenate(([0.0], inner, [1.0])))


def _steps(at: Floats, goal: Floats, edges: Floats) -> Floats:
    place = np.searchsorted(edges[1:-1], at, side="left")
    weight = np.bincount(place, minlength=len(edges) - 1)
    return np.asarray(np.bincount(place, weights=goal, minlength=len(edges) - 1) / np.maximum(weight, 1))


def histogram(z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """Means of the labels in bins of equal mass."""
    p = single(z)[:, 0].astype(np.float64)
    edges = _edges(p, rng)
    values = _steps(p, y.astype(np.float64), edges)
    return {"edges": edges.tolist(), "values": values.tolist()}, lambda x: values[
        np.searchsorted(edges[1:-1], single(x)[:, 0].astype(np.float64), side="left")
    ][:, None]


def scaling_binning(z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """Logistic regression on the log odds, then means of what it gives in bins of equal mass."""
    design = np.column_stack((z[:, 0], np.ones(len(z))))
    a, b = _line(design, y.astype(np.float64), np.array([1.0, 0.0]), "BFGS")
    scaled = expit(a * z[:, 0] + b)
    edges = _edges(scaled, rng)
    values = _steps(scaled, scaled, edges)
    given = {"slope": float(a), "intercept": float(b), "edges": edges.tolist(), "values": values.tolist()}
    return given, lambda x: values[np.searchsorted(edges[1:-1], expit(a * x[:, 0] + b), side="left")][:, None]


def fit(name: str, z: Floats, y: Ints, rng: np.random.Generator) -> Fitted:
    """An honest (or, on test rows, dishonest) fit of the family."""
    if name.startswith("temperature"):
        return temperature(z, y, rng, grid=name.endswith("grid"))
    if name in ("vector", "matrix", "dirichlet"):
        return linear(z, y, rng, name)
    own = {
        "platt": platt,
        "beta": beta,
        "isotonic": isotonic,
        "histogram": histogram,
        "scaling-binning": scaling_binning,
    }
    return own[name](z, y, rng)
