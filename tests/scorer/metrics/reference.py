"""The binned definitions again, slowly: one group of equal values after the other, in exact fractions."""

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from scorer.metrics.arrays import Floats, Ints


class Bin(NamedTuple):
    """Weight, and weighted sums of probability, outcome, squared probability, probability times outcome."""

    w: Fraction
    p: Fraction
    y: Fraction
    pp: Fraction
    py: Fraction

    @property
    def gap(self) -> Fraction:
        return abs(self.y - self.p) / self.w


def mass_bins(p: Floats, outcome: Floats | Ints, w: Ints, bins: int) -> list[Bin]:
    """The non-empty equal-mass bins: a group at midpoint h of T is in bin ceil(M h / T)."""
    total, below = int(w.sum()), 0
    rows: dict[int, list[int]] = {}
    for value in np.unique(p):
        group = np.flatnonzero((p == value) & (w > 0))
        mass = int(w[group].sum())
        if mass:
            rows.setdefault(math.ceil(Fraction(bins) * (2 * below + mass) / (2 * total)), []).extend(map(int, group))
            below += mass
    return [_sums(p, outcome, w, members) for members in rows.values()]


def width_bins(p: Floats, outcome: Floats | Ints, w: Ints, bins: int) -> list[Bin]:
    """The non-empty equal-width bins (k/M, (k+1)/M], zero in the first; within 1e-12 of an edge is on it."""
    rows: dict[int, list[int]] = {}
    for i in np.flatnonzero(w > 0):
        scaled = Fraction(float(p[i])) * bins
        edge = round(scaled)
        place = edge if abs(scaled - edge) <= Fraction(1, 10**12) * bins else math.ceil(scaled)
        rows.setdefault(max(place, 1), []).append(int(i))
    return [_sums(p, outcome, w, members) for members in rows.values()]


def _sums(p: Floats, outcome: Floats | Ints, w: Ints, members: Iterable[int]) -> Bin:
    each = [(Fraction(int(w[i])), Fraction(float(p[i])), Fraction(float(outcome[i]))) for i in members]
    return Bin(
        sum((a for a, _, _ in each), Fraction(0)),
        sum((a * b for a, b, _ in each), Fraction(0)),
        sum((a * c for a, _, c in each), Fraction(0)),
        sum((a * b * b for a, b, _ in each), Fraction(0)),
        sum((a * b * c for a, b, c in each), Fraction(0)),
    )


def total(bins: list[Bin]) -> Fraction:
    return sum((one.w for one in bins), Fraction(0))


def ece(bins: list[Bin]) -> float:
    return float(sum(one.w * one.gap for one in bins) / total(bins))


def ace(bins: list[Bin]) -> float:
    return float(sum(one.gap for one in bins) / len(bins))


def mce(bins: list[Bin]) -> float:
    return float(max(one.gap for one in bins))


def mce_weighted(bins: list[Bin]) -> float:
    return float(max(one.w * one.gap for one in bins) / total(bins))


def debiased(bins: list[Bin]) -> float:
    terms = [one.w * (one.gap**2 - (one.y / one.w) * (1 - one.y / one.w) / (one.w - 1)) for one in bins if one.w > 1]
    return float(sum(terms, Fraction(0)) / total(bins))


def murphy(bins: list[Bin]) -> tuple[float, float, float, float, float]:
    """rel, res, unc, wbv, wbc."""
    n = total(bins)
    rate = sum((one.y for one in bins), Fraction(0)) / n
    return (
        float(sum(one.w * (one.p / one.w - one.y / one.w) ** 2 for one in bins) / n),
        float(sum(one.w * (one.y / one.w - rate) ** 2 for one in bins) / n),
        float(rate * (1 - rate)),
        float(sum(one.pp - one.p**2 / one.w for one in bins) / n),
        float(2 * sum(one.py - one.p * one.y / one.w for one in bins) / n),
    )
