"""Whether labels belong to the rows they stand at: what shuffled labels would give, against what these give."""

import math

import numpy as np
from scipy import stats

from scorer.audit.shapes import Codes, Finding, Floats, Level, PredictionSet

LEVEL = 0.01
DRAWS = 200
MOST_ROWS = 20_000  # of the drawn permutations; the exact formulas take all rows
SEED = 20_240_229
CHANCE = 0.55
ASSUMPTION = "rows are exchangeable under shuffled labels; rows of one patient are taken as independent"


def order_test(one: PredictionSet) -> Finding:
    """The permutation test of the order of labels of ``one``: a note where it beats chance, else a warning."""
    result = _tested(one)
    if result is None:
        title = f"{one.title}: the row order of labels can't be tested: too few labels, or no ranking in the scores"
        return Finding(Level.WARNING, "order-not-verified", title, assumption=ASSUMPTION)
    what, value, chance, z, p, how = result
    said = f"{one.title}: {what} {value:.4f} in this order, {chance:.4f} by chance (z = {z:.1f}, p = {_p(p)}, {how})"
    if p > LEVEL:
        title = f"{said}: chance level, the order is probably wrong"
        return Finding(Level.WARNING, "order-not-verified", title, assumption=ASSUMPTION, chance=f"p = {_p(p)}")
    title = f"{said}: above chance, but rows out of place here and there would not show; ids would settle it"
    return Finding(Level.NOTE, "order-not-verified", title, assumption=ASSUMPTION, chance=f"p = {_p(p)}")


def chance_level(one: PredictionSet) -> Finding | None:
    """A note where scores joined to labels by id do no better than shuffled labels would."""
    result = _tested(one)
    if result is None:
        return None
    what, value, chance, z, p, how = result
    low = value < CHANCE if what != "accuracy" else p > LEVEL
    if not low:
        return None
    title = f"{one.title}: {what} {value:.4f}, by chance {chance:.4f} (z = {z:.1f}, p = {_p(p)}, {how})"
    why = "a weak model, scores of the other class, or labels of other rows"
    return Finding(Level.NOTE, "chance-level", title, assumption=ASSUMPTION, chance=f"p = {_p(p)}", explanation=why)


def _p(p: float) -> str:
    return f"{p:.2g}" if p >= 1e-300 else "0"


Tested = tuple[str, float, float, float, float, str]


def _tested(one: PredictionSet) -> Tested | None:
    """Metric, its value, its mean by chance, z, one-sided p, and how these were got."""
    if one.y is None:
        return None
    scores = one.p if one.p is not None else one.scores
    if one.y.ndim == 2:
        return _findings(scores, one.y)
    rows = (one.y != -1) & ~np.isnan(scores).any(axis=1)
    y, kept = one.y[rows], scores[rows]
    if scores.shape[1] == 1:
        return _binary(kept[:, 0], y)
    return _classes(kept.argmax(axis=1), y)


def _binary(score: Floats, y: Codes) -> Tested | None:
    """AUROC against its null by the exact mean and variance of mid-ranks."""
    n, events = len(y), int((y == 1).sum())
    if events == 0 or events == n or n < 3:
        return None
    ranks = stats.rankdata(score)
    variance = float(ranks.var(ddof=1)) * events * (n - events) / n
    if variance <= 0:
        return None
    z = (float(ranks[y == 1].sum()) - events * (n + 1) / 2) / math.sqrt(variance)
    area = (float(ranks[y == 1].sum()) - events * (events + 1) / 2) / (events * (n - events))
    return "AUROC", area, 0.5, z, float(stats.norm.sf(z)), "normal approximation of all permutations"


def _classes(predicted: Codes, y: Codes) -> Tested | None:
    """Accuracy of the top class against its null: mean and variance over all permutations (Hoeffding)."""
    n = len(y)
    if n < 3:
        return None
    k = int(max(predicted.max(), y.max())) + 1
    r, c = np.bincount(predicted, minlength=k).astype(float), np.bincount(y, minlength=k).astype(float)
    total = float((r * c).sum())
    spread = total - float((r * c * c).sum()) / n - float((c * r * r).sum()) / n + total * total / n**2
    if spread <= 1e-9 * n:
        return None
    hits = int((predicted == y).sum())
    z = (hits - total / n) / math.sqrt(spread / (n - 1))
    how = "normal approximation of all permutations"
    return "accuracy", hits / n, total / n**2, z, float(stats.norm.sf(z)), how


def _findings(scores: Floats, y: Codes) -> Tested | None:
    """Mean AUROC over findings against rows of labels shuffled together, which keeps how findings go together."""
    rng = np.random.default_rng(SEED)
    rows = ((y != -1) & ~np.isnan(scores)).any(axis=1).nonzero()[0]
    if len(rows) > MOST_ROWS:
        rows = np.sort(rng.choice(rows, MOST_ROWS, replace=False))
    scores, y = scores[rows], y[rows]
    known = (y != -1) & ~np.isnan(scores)
    full = [k for k in range(y.shape[1]) if known[:, k].all() and 0 < int(y[:, k].sum()) < len(rows)]
    if not full:
        parts = [_binary(scores[known[:, k], k], y[known[:, k], k]) for k in range(y.shape[1])]
        good = [part for part in parts if part is not None]
        if not good:
            return None
        least = min(good, key=lambda part: part[4])
        p = min(1.0, least[4] * len(good))
        return "AUROC of the best finding", least[1], 0.5, least[3], p, f"Bonferroni over {len(good)} findings"
    ranks = stats.rankdata(scores[:, full], axis=0)
    labels = y[:, full].astype(np.float64)
    events = labels.sum(axis=0)
    weight = 1.0 / (events * (len(rows) - events))
    base = float((weight * events * (events + 1) / 2).sum())
    ranks *= weight
    value = float((ranks * labels).sum()) - base
    drawn = np.array([float((ranks * labels[rng.permutation(len(rows))]).sum()) - base for _ in range(DRAWS)])
    spread = float(drawn.std(ddof=1))
    if spread <= 0:
        return None
    z = (value - 0.5 * len(full)) / spread
    p = max(float(stats.norm.sf(z)), 0.0)
    said = f"{DRAWS} permutations of rows, normal approximation"
    return "mean AUROC", value / len(full), 0.5, z, p, said
