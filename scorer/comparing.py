"""Comparisons of rows by paired bootstrap, and which of them are statistically equivalent to the best.

Two runs are compared under the same draws of patients, so what a draw does to both cancels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from protocol.catalogue import Better
from scorer.intervals import Difference, difference

Floats = NDArray[np.float64]
Adjustment = Literal["none", "holm"]


@dataclass(frozen=True)
class Candidate:
    """A value with its replicates (B,) under draws that all candidates share."""

    name: str
    value: float
    replicates: Floats


@dataclass(frozen=True)
class Standing:
    """A candidate's place. ``to_best`` is its value less that of the best; ``p_value`` is adjusted if that was asked.

    ``equivalent`` says that no difference to the best was shown at ``level``: not that there is none. The best itself
    has no difference and p-value 1. ``rank`` counts from 1; all that are equivalent to the best share 1, the others
    follow by value. A candidate without a value has rank None and the ``reason``.
    """

    name: str
    value: float
    rank: int | None
    best: bool
    equivalent: bool
    to_best: Difference | None
    p_value: float
    method: str
    reason: str | None = None


def loss(value: float, better: Better) -> float:
    """``value`` turned so that less is better; ValueError where neither way is better."""
    if better == "neither":
        raise ValueError("neither way is better for this metric: there is no best")
    return {"lower": value, "higher": -value, "zero": abs(value), "one": abs(value - 1.0)}[better]


def standings(
    candidates: Sequence[Candidate], better: Better, *, level: float = 0.95, adjust: Adjustment = "none"
) -> list[Standing]:
    """Order ``candidates``, best first, and tell which are statistically equivalent to the best.

    Each is compared with the best by paired bootstrap (:func:`scorer.intervals.difference`; for metrics that are best
    at 0 or 1, of the distances from there); equivalent if its p-value, after Holm's adjustment over all comparisons
    where ``adjust`` is ``holm``, is above 1 - ``level``. Equal values go by name. Raises ValueError when replicates
    differ in number, names repeat, or neither way is better. Source: Holm 1979, Scand J Statist 6:65-70.
    """
    if len({one.name for one in candidates}) != len(candidates):
        raise ValueError("a name is given twice")
    method = "paired bootstrap" + (", Holm" if adjust == "holm" else "")
    defined = [one for one in candidates if not math.isnan(one.value)]
    order = sorted(defined, key=lambda one: (loss(one.value, better), one.name))
    if not order:
        return [_without_value(one, method) for one in candidates]
    best, others = order[0], order[1:]
    gaps = [_gap(one, best, better, level) for one in others]
    p_values = [one.p_value for one in gaps]
    if adjust == "holm":
        p_values = holm(p_values)
    # a p-value that is undefined shows no difference
    equivalent = [not p <= 1.0 - level + 1e-12 for p in p_values]
    standing = [Standing(best.name, best.value, 1, True, True, None, 1.0, method)]
    shared = 1 + sum(equivalent)
    for one, gap, p, same in zip(others, gaps, p_values, equivalent, strict=True):
        rank = 1 if same else shared + 1
        shared += 0 if same else 1
        standing.append(Standing(one.name, one.value, rank, False, same, gap, p, method))
    return standing + [_without_value(one, method) for one in candidates if math.isnan(one.value)]


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment, in the order given, at most 1; NaN stays and does not count."""
    known = [i for i, p in enumerate(p_values) if not math.isnan(p)]
    adjusted, most = list(p_values), 0.0
    for step, i in enumerate(sorted(known, key=lambda i: p_values[i])):
        most = max(most, min(1.0, (len(known) - step) * p_values[i]))
        adjusted[i] = most
    return adjusted


def _gap(one: Candidate, best: Candidate, better: Better, level: float) -> Difference:
    if better in ("lower", "higher"):
        return difference(one.replicates, best.replicates, one.value, best.value, level=level)
    aim = 0.0 if better == "zero" else 1.0
    return difference(
        np.abs(one.replicates - aim),
        np.abs(best.replicates - aim),
        abs(one.value - aim),
        abs(best.value - aim),
        level=level,
    )


def _without_value(one: Candidate, method: str) -> Standing:
    return Standing(one.name, one.value, None, False, False, None, math.nan, method, "the value is undefined")
