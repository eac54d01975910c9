"""Which values could have been printed as a claim, and how many would be by chance."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.audit.claims.claim import NOISE_DIGITS, UNBOUNDED, Claim
from scorer.audit.shapes import Floats

Mask = NDArray[np.bool_]
TIE = 1e-9  # of a unit: a float may sit beside the exact half (as MVC407 has it)
NEAR = 0.25
FRACTION, PERCENT = "fraction", "percent"
ROUNDED, CUT = "rounded", "cut off"


class Reading(NamedTuple):
    """A printed number as a fraction: ``value``, the ``unit`` of its last digit, and ``scale``: how it is printed."""

    value: float
    unit: float
    scale: str

    @property
    def noisy(self) -> bool:
        """Whether more digits are printed than single precision has."""
        return self.unit < self.noise

    @property
    def noise(self) -> float:
        """One unit of the 7th significant digit."""
        digits = math.floor(math.log10(abs(self.value))) if self.value else -1
        return float(10.0 ** (digits + 1 - NOISE_DIGITS))

    @property
    def half(self) -> float:
        """How far a value may be from the printed one and be rounded to it, half up or half even."""
        return self.noise if self.noisy else self.unit * (0.5 + TIE)

    def rounded(self, values: Floats) -> Mask:
        """Which ``values`` are printed so when rounded."""
        with np.errstate(invalid="ignore"):
            return np.asarray(np.abs(values - self.value) <= self.half)

    def cut(self, values: Floats) -> Mask:
        """Which ``values`` are printed so only when digits are cut off."""
        if self.noisy:
            return np.zeros(values.shape, dtype=np.bool_)
        with np.errstate(invalid="ignore"):
            size, least = np.abs(values), abs(self.value) - self.unit * TIE
            same = (np.sign(values) == np.sign(self.value)) | (self.value == 0.0)
            return np.asarray(same & (size >= least) & (size < abs(self.value) + self.unit) & ~self.rounded(values))


def readings(claim: Claim) -> tuple[Reading, ...]:
    """The likeliest reading first: with a percent sign, or above what the metric reaches, in percent; else a fraction,
    and in percent after that."""
    percent = Reading(claim.value / 100.0, claim.unit / 100.0, PERCENT)
    fraction = Reading(claim.value, claim.unit, FRACTION)
    if claim.percent:
        return (percent,)
    if claim.metric in UNBOUNDED:
        return (fraction,)
    return (percent,) if abs(claim.value) > (2.0 if claim.metric == "brier" else 1.0) else (fraction, percent)


def distinct(values: Floats) -> Floats:
    """The distinct finite values, ascending; those within 1e-12 of each other are one."""
    known = np.unique(values[np.isfinite(values)])
    if not len(known):
        return known
    return known[np.concatenate(([True], np.diff(known) > 1e-12))]


def chance(reading: Reading, apart: Floats) -> float:
    """Share of the numbers near the claim (a quarter of it either way, at least 20 units) that a value of ``apart``
    (ascending) would be rounded to: how likely a number picked there is reproduced for no reason."""
    reach = max(NEAR * abs(reading.value), 20.0 * reading.unit, 4.0 * reading.half)
    low, high = reading.value - reach, reading.value + reach
    low = max(low, 0.0) if reading.value >= 0.0 else low
    starts, ends = np.clip(apart - reading.half, low, high), np.clip(apart + reading.half, low, high)
    before = np.concatenate(([low], np.maximum.accumulate(ends)[:-1])) if len(ends) else ends
    covered = float(np.sum(np.maximum(ends - np.maximum(starts, before), 0.0)))
    return min(covered / (high - low), 1.0)
