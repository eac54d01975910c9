"""Bootstrap of the test set by patient: shared, reproducible draws, and what metrics come to under them.

A draw of P patients out of P, with replacement, is the vector of how often each patient was taken; a metric of the
drawn set is the metric with these numbers as case weights. Source: Efron and Tibshirani 1993, section 6.2; by cluster:
Field and Welsh 2007, doi:10.1111/j.1467-9868.2007.00593.x.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.metrics.kernels import count
from scorer.metrics.plan import Plan

Floats = NDArray[np.float64]

BLOCK = 1024  # draws at a time, at most ...
BLOCK_BYTES = 4_000_000  # ... and of so many bytes of weights
COSTLY_DRAWS = 200  # for fits and smoothers
GROUPS, COSTLY_GROUPS = 2000, 200  # of patients that are left out in turn
SMALL = 1_000_000  # draws x patients
MAX_THREADS = 16  # a container has few processes to give, whatever processors its machine has


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
        words = np.random.Philox(key=self.key, counter=first * steps).random_raw(n * steps * 4)
        counts = np.zeros((n, self.patients))
        count(words, steps * 4, counts)
        return counts


def blocks(n: int, patients: int) -> Iterator[tuple[int, int]]:
    """(first, last) of blocks that cover 0 .. n - 1, of at most BLOCK and of BLOCK_BYTES of weights of ``patients``."""
    size = max(1, min(BLOCK, BLOCK_BYTES // (8 * max(patients, 1))))
    for first in range(0, n, size):
        yield first, min(first + size, n)


def draws_for(key: str, slice_kind: str, slice_name: str, *, patients: int, resamples: int) -> Draws:
    """The draws of one slice. ``key`` names edition and task, so every submission to a task gets the same draws for a
    slice.

    Raises ValueError when ``resamples`` < 1 or ``patients`` < 0.
    """
    if resamples < 1 or patients < 0:
        raise ValueError(f"resamples must be at least 1 and patients at least 0, not {resamples} and {patients}")
    digest = hashlib.sha256(json.dumps([key, slice_kind, slice_name]).encode()).digest()
    return Draws(int.from_bytes(digest[:16], "big"), patients, resamples)


def replicates(
    plans: Sequence[Plan], draws: Draws, *, costly: int = COSTLY_DRAWS, workers: int | None = None
) -> Floats:
    """Values of ``plans`` in every draw, shape (plans, resamples, metrics), NaN where undefined.

    Plans are over the same patients and have the same metrics. Costly metrics are evaluated in the first ``costly``
    draws and NaN after. ``workers`` threads (one a core if None) share the blocks; their number can't
    change a bit.
    """
    return _evaluated(plans, draws.resamples, draws.patients, draws.block, costly, workers)


def left_out(plans: Sequence[Plan], patients: int, *, workers: int | None = None) -> Floats:
    """Values of ``plans`` with each patient left out in turn, shape (plans, patients, metrics).

    Beyond GROUPS patients, and COSTLY_GROUPS for costly metrics, groups of patients are left out instead (those whose
    numbers are equal modulo the number of groups): the acceleration of BCa needs no more, and the work would grow with
    the square of the patients. Costly metrics are NaN after their groups.
    """
    out = _evaluated(plans, min(patients, GROUPS), patients, _without(patients, GROUPS), 0, workers)
    mask = plans[0].costly
    if mask.any():
        few = min(patients, COSTLY_GROUPS)
        costly = _evaluated(plans, few, patients, _without(patients, few), few, workers, cheap=False)
        out[:, :few, mask] = costly[:, :, mask]
    return out


def _without(patients: int, most: int) -> Callable[[int, int], Floats]:
    """Weights of one with a group of patients left out, groups first..last-1 of ``most`` at most."""
    groups = max(1, min(patients, most))

    def block(first: int, last: int) -> Floats:
        kept = np.arange(patients) % groups != np.arange(first, last)[:, None]
        return np.asarray(kept, dtype=np.float64)

    return block


def _evaluated(
    plans: Sequence[Plan],
    n: int,
    patients: int,
    block: Callable[[int, int], Floats],
    costly: int,
    workers: int | None,
    cheap: bool = True,
) -> Floats:
    out = np.full((len(plans), n, len(plans[0].headings)), np.nan)
    mask = plans[0].costly

    def one(span: tuple[int, int]) -> None:
        first, last = span
        weights = block(first, last)
        enough = min(last, costly) - first  # of this block's draws the costly metrics get these
        for values, plan in zip(out, plans, strict=True):
            if cheap:
                values[first:last] = plan.evaluate(weights, costly=False)[0]
            if enough > 0 and mask.any():
                values[first : first + enough, mask] = plan.evaluate(weights[:enough], cheap=False)[0][:, mask]

    spans = list(blocks(n, max(patients, plans[0].cells.n, plans[0].costly_cells.n)))
    # on small sets the interpreter works more than the kernels do, and threads would wait for each other
    threads = workers or (1 if n * patients < SMALL else min(MAX_THREADS, os.cpu_count() or 1))
    if threads == 1:
        for span in spans:
            one(span)
        return out
    for plan in plans:
        plan.prepare()  # what is made once is made before threads can ask for it twice
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(one, spans):
            pass
    return out
