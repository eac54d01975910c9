"""Intervals, paired differences and p-values out of bootstrap replicates.

Source: Efron and Tibshirani 1993, sections 13.3 (percentile), 13.4 (basic), 14.3 (BCa).
"""

import math
from statistics import NormalDist
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Method = Literal["percentile", "basic", "bca"]

UNDEFINED = "value undefined"


class Interval(NamedTuple):
    """Limits, the number of resamples in which the metric was undefined, and why the limits are NaN if they are."""

    lo: float
    hi: float
    n_undefined: int
    reason: str | None = None


class Difference(NamedTuple):
    """``value`` with its interval, and the two-sided bootstrap p-value of no difference, 1/(B + 1) at least."""

    value: float
    lo: float
    hi: float
    p_value: float
    n_draws: int
    n_undefined: int
    reason: str | None = None


def interval(
    replicates: Floats,
    point: float,
    *,
    level: float = 0.95,
    method: Method = "percentile",
    left_out: Floats | None = None,
) -> Interval:
    """Bootstrap interval of one metric from its ``replicates`` (B,), NaN where undefined.

    ``percentile``: the (1 - level) / 2 and (1 + level) / 2 quantiles (linear interpolation) of the defined replicates.
    ``basic``: these reflected about ``point``, (2 point - upper, 2 point - lower), which moves the upward bias of
    binned errors the right way and may leave the metric's range. ``bca``: bias-corrected and accelerated, which takes
    the values with each patient left out, ``left_out`` (P,). Undefined replicates are counted and left out; if all are,
    or ``point`` is NaN, the limits are NaN. Raises ValueError for a level outside (0, 1), an unknown method, or bca
    without ``left_out``.
    """
    check_interval(level, method)
    kept = replicates[~np.isnan(replicates)]
    undefined = len(replicates) - len(kept)
    if math.isnan(point):
        return Interval(math.nan, math.nan, undefined, UNDEFINED)
    if len(kept) == 0:
        return Interval(math.nan, math.nan, undefined, "undefined in every resample")
    shares = np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    if method == "bca":
        if left_out is None:
            raise ValueError("bca needs the values with each patient left out")
        corrected = _corrected(kept, point, left_out, shares)
        if isinstance(corrected, str):
            return Interval(math.nan, math.nan, undefined, corrected)
        shares = corrected
    lo, hi = (float(q) for q in np.quantile(kept, shares))
    if method == "basic":
        lo, hi = 2.0 * point - hi, 2.0 * point - lo
    return Interval(lo, hi, undefined)


def check_interval(level: float, method: str) -> None:
    """Raise ValueError for a level outside (0, 1) or a method that is not known."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if method not in ("percentile", "basic", "bca"):
        raise ValueError(f"method must be 'percentile', 'basic' or 'bca', not {method!r}")


def _corrected(kept: Floats, point: float, left_out: Floats, shares: Floats) -> Floats | str:
    """The shares of the replicates at which BCa reads its limits, or why there are none."""
    if np.isnan(left_out).any():
        return f"bca: undefined without one of {int(np.isnan(left_out).sum())} patients"
    # ties count one half, so that a metric with few values is not called biased
    below = (float((kept < point).sum()) + 0.5 * float((kept == point).sum())) / len(kept)
    if not 0.0 < below < 1.0:
        return "bca: every resample lies on one side of the value"
    gaps = left_out.mean() - left_out
    spread = float((gaps**2).sum())
    acceleration = float((gaps**3).sum()) / (6.0 * spread**1.5) if spread > 0.0 else 0.0
    normal = NormalDist()
    at = normal.inv_cdf(below)
    bias = [at + normal.inv_cdf(share) for share in shares]
    if not all(1.0 - acceleration * one > 0.0 for one in bias):  # beyond it the limits would change places
        return "bca: too skewed for this level"
    return np.array([normal.cdf(at + one / (1.0 - acceleration * one)) for one in bias])


def difference(
    first: Floats, second: Floats, point_first: float, point_second: float, *, level: float = 0.95
) -> Difference:
    """``first`` minus ``second`` from their replicates (B,) under the SAME draws, percentile interval.

    The p-value is twice the smaller share of differences on one side of zero, (count + 1) / (B + 1), zero itself on
    both, at most 1. Draws in which either is undefined are counted and left out. NaN with a reason when a value is
    undefined or no draw is left. Raises ValueError when the numbers of draws differ or for a level outside (0, 1).
    Source: Efron and Tibshirani 1993, section 15.4 (achieved level by inverting the interval); paired draws: Davison
    and Hinkley 1997, section 4.4.
    """
    if first.shape != second.shape:
        raise ValueError(f"paired replicates must have one shape, not {first.shape} and {second.shape}")
    gap = first - second
    found = interval(gap, point_first - point_second, level=level)
    if found.reason is not None:
        return Difference(point_first - point_second, math.nan, math.nan, math.nan, len(gap), found.n_undefined,
                          found.reason)  # fmt: skip
    kept = gap[~np.isnan(gap)]
    side = min(int((kept <= 0.0).sum()), int((kept >= 0.0).sum()))
    p_value = min(1.0, 2.0 * (side + 1) / (len(kept) + 1))
    return Difference(point_first - point_second, found.lo, found.hi, p_value, len(gap), found.n_undefined)
