"""All metrics behind one signature, and what several tests do with them: make cases, flatten results, compare them."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from scorer import metrics as m
from scorer.metrics.arrays import Floats, Ints

Metric = Callable[..., Any]  # (p, y, weights) -> a number or a named tuple

THRESHOLDS = (0.2, 0.5)


def nll(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> m.Value:
    """The value alone: the number of floored rows counts rows, not weights."""
    found = m.nll(p, y, weights)
    return m.Value(found.value, found.reason)


# of one probability or of one column a class
EITHER: dict[str, Metric] = {
    "nll": nll,
    "accuracy": m.accuracy,
    "balanced_accuracy": m.balanced_accuracy,
    "f1_macro": m.f1_macro,
    "kappa_quadratic": m.kappa_quadratic,
    "ece": m.ece,
    "ece_5": partial(m.ece, bins=5),
    "ace": m.ace,
    "ace_nixon": m.ace_nixon,
    "classwise_ece": m.classwise_ece,
    "ece_debiased": m.ece_debiased,
    "ece_debiased_3": partial(m.ece_debiased, bins=3),
    **{f"ece_width{bins}": partial(m.ece_width, bins=bins) for bins in (10, 15, 20)},
    "mce": m.mce,
    "mce_10": partial(m.mce, bins=10),
    "mce_weighted": m.mce_weighted,
    "mce_weighted_10": partial(m.mce_weighted, bins=10),
    "wsece": m.wsece,
    "aurc": m.aurc,
    "risk_at_coverage": m.risk_at_coverage,
    "smooth_ece": m.smooth_ece,
}
# of one probability
ONE: dict[str, Metric] = {
    **EITHER,
    "brier_binary": m.brier_binary,
    "ece_top": m.ece_top,
    "murphy": m.murphy,
    "murphy_3": partial(m.murphy, bins=3),
    "corp": m.corp,
    "citl": m.citl,
    "recalibration_line": m.recalibration_line,
    "ici": m.ici,
    "auroc": m.auroc,
    "auprc": m.auprc,
    **{f"sensitivity_{t}": partial(m.sensitivity, threshold=t) for t in THRESHOLDS},
    **{f"specificity_{t}": partial(m.specificity, threshold=t) for t in THRESHOLDS},
    **{f"net_benefit_{t}": partial(m.net_benefit, threshold=t) for t in THRESHOLDS},
}
# of one column a class
MANY: dict[str, Metric] = {
    **EITHER,
    "brier": m.brier,
    "auroc_classwise": m.auroc_classwise,
    "auprc_classwise": m.auprc_classwise,
}
ALL = [*((name, 1) for name in ONE), *((name, 3) for name in MANY)]  # (name, number of columns)


def metric(name: str, k: int) -> Metric:
    return ONE[name] if k == 1 else MANY[name]


class Sample(NamedTuple):
    """Probabilities (n,) or (n, k), labels, and whole weights, one at least positive."""

    p: Floats
    y: Ints
    w: Ints

    def taken(self, rows: NDArray[np.intp] | NDArray[np.bool_]) -> "Sample":
        return Sample(self.p[rows], self.y[rows], self.w[rows])

    def repeated(self) -> "Sample":
        """As many copies of a row as its weight says, each of weight one."""
        rows = np.repeat(np.arange(len(self.y)), self.w)
        return Sample(self.p[rows], self.y[rows], np.ones(len(rows), dtype=np.int64))


def sample(seed: int, k: int = 1, n: int | None = None, levels: int | None = None) -> Sample:
    """Random cases of one probability (k = 1) or of k classes, most often on a coarse grid, so that ties, 0 and 1
    occur."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 26)) if n is None else n
    levels = int(rng.choice([2, 4, 8, 1024])) if levels is None else levels
    w = rng.integers(0, 4, n)
    w[rng.integers(n)] = 1 + rng.integers(3)
    if k == 1:
        return Sample(rng.integers(0, levels + 1, n) / levels, rng.integers(0, 2, n), w)
    raw = rng.integers(0, levels, (n, k)).astype(np.float64)
    raw[raw.sum(axis=1) == 0.0] = 1.0
    return Sample(raw / raw.sum(axis=1, keepdims=True), rng.integers(0, k, n), w)


def numbers(result: Any) -> list[float]:
    """The numbers of a result, in order."""
    if isinstance(result, tuple):
        return [number for part in result for number in numbers(part)]
    return [] if result is None or isinstance(result, str) else [float(result)]


def values(result: Any) -> list[float]:
    """:func:`numbers` without the bins used."""
    if isinstance(result, tuple):
        fields = getattr(result, "_fields", range(len(result)))
        return [v for name, one in zip(fields, result, strict=True) if name != "bins_used" for v in values(one)]
    return [] if result is None or isinstance(result, str) else [float(result)]


def about(wanted: Any, tolerance: float = 1e-14) -> Any:
    """``pytest.approx`` that type checkers let into tuples."""
    return pytest.approx(wanted, abs=tolerance)


def close(result: Any, wanted: Any, tolerance: float = 1e-10) -> bool:
    """Whether two results have the same numbers, NaN in the same places."""
    return numbers(result) == pytest.approx(numbers(wanted), abs=tolerance, rel=tolerance, nan_ok=True)


def with_reasons(result: Any) -> Iterator[Any]:
    """Every named tuple in a result that has a reason."""
    if isinstance(result, tuple):
        if hasattr(result, "reason"):
            yield result
        for part in result:
            yield from with_reasons(part)


def consistent(result: Any) -> bool:
    """Whether a result has a reason exactly when it is NaN, and all of its own numbers are NaN then."""
    own = [number != number for number in result if isinstance(number, float)]
    return any(value != value for value in values(result)) == (result.reason is not None) and len(set(own)) <= 1
