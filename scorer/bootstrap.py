"""Bootstrap of the test set by patient: shared, reproducible draws, and the intervals made from them.

A draw of P patients out of P, with replacement, is the vector of how often each patient was taken; a metric of the
drawn set is the metric with these numbers as case weights. Source: Efron and Tibshirani 1993, sections 6.2 and 13.3
(percentile), 13.4 (basic); by cluster: Field and Welsh 2007, doi:10.1111/j.1467-9868.2007.00593.x.
"""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Method = Literal["percentile", "basic"]

BLOCK_BYTES = 1_000_000  # of float64 weights at a time: a few such arrays stay in the second-level cache


@dataclass(frozen=True)
class Draws:
    """``resamples`` draws of ``patients`` patients, a pure function of ``key`` (128 bits), patients and the draw's
    number.

    Patients are known by their place in the sorted list of ids, so the order of rows in a file can't matter. Draw b
    reads Philox words from counter b * ceil(patients / 4) on: any block can be made without those before it, and only
    the raw stream, which numpy keeps fixed across versions, is used.
    """

    key: int
    patients: int
    resamples: int

    def block(self, first: int, last: int) -> Floats:
        """Weights of draws first..last-1, shape (last - first, patients): whole numbers, each row summing to
        ``patients``."""
        n, steps = last - first, -(-self.patients // 4)
        if self.patients == 0:
            return np.zeros((n, 0))
        words = np.random.Philox(key=self.key, counter=first * steps).random_raw(n * steps * 4)
        uniform = (words >> np.uint64(11)).reshape(n, -1)[:, : self.patients] * 2.0**-53
        cells = (uniform * self.patients).astype(np.int64) + self.patients * np.arange(n)[:, None]
        counts = np.bincount(cells.ravel(), minlength=n * self.patients)
        return counts.reshape(n, self.patients).astype(np.float64)

    def blocks(self, rows: int) -> Iterator[tuple[int, int, Floats]]:
        """(first, last, weights) over all draws, in blocks for which an array (draws, rows) stays near BLOCK_BYTES."""
        size = max(1, BLOCK_BYTES // (8 * max(rows, 1)))
        for first in range(0, self.resamples, size):
            last = min(first + size, self.resamples)
            yield first, last, self.block(first, last)


def draws_for(key: str, slice_kind: str, slice_name: str, *, patients: int, resamples: int) -> Draws:
    """The draws of one slice. ``key`` names edition and task, so every submission to a task gets the same draws for a
    slice.

    Raises ValueError when ``resamples`` < 1 or ``patients`` < 0.
    """
    if resamples < 1 or patients < 0:
        raise ValueError(f"resamples must be at least 1 and patients at least 0, not {resamples} and {patients}")
    digest = hashlib.sha256(json.dumps([key, slice_kind, slice_name]).encode()).digest()
    return Draws(int.from_bytes(digest[:16], "big"), patients, resamples)


class Interval(NamedTuple):
    """Limits, the number of resamples in which the metric was undefined, and why the limits are NaN if they are."""

    lo: float
    hi: float
    n_undefined: int
    reason: str | None = None


def interval(replicates: Floats, point: float, *, level: float = 0.95, method: Method = "percentile") -> Interval:
    """Bootstrap interval of one metric from its ``replicates`` (B,), NaN where undefined.

    ``percentile``: the (1 - level) / 2 and (1 + level) / 2 quantiles (linear interpolation) of the defined replicates.
    ``basic``: these reflected about ``point``, (2 point - upper, 2 point - lower), which moves the upward bias of
    binned errors the right way and may leave the metric's range. Undefined replicates are counted and left out; if all
    are, or ``point`` is NaN, the limits are NaN. Raises ValueError for a level outside (0, 1) or an unknown method.
    """
    check_interval(level, method)
    kept = replicates[~np.isnan(replicates)]
    undefined = len(replicates) - len(kept)
    if np.isnan(point):
        return Interval(float("nan"), float("nan"), undefined, "value undefined")
    if len(kept) == 0:
        return Interval(float("nan"), float("nan"), undefined, "undefined in every resample")
    lo, hi = (float(q) for q in np.quantile(kept, [(1.0 - level) / 2.0, (1.0 + level) / 2.0]))
    if method == "basic":
        lo, hi = 2.0 * point - hi, 2.0 * point - lo
    return Interval(lo, hi, undefined)


def check_interval(level: float, method: str) -> None:
    """Raise ValueError for a level outside (0, 1) or a method that is not known."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level}")
    if method not in ("percentile", "basic"):
        raise ValueError(f"method must be 'percentile' or 'basic', not {method!r}")
