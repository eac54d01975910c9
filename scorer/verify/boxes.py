"""How far a stored output may be from the one that was computed: the box that a calibrator's input lies in.

A stored number stands for everything within one unit of its precision; networks compute in single precision, so that no
box is narrower than that arithmetic. A probability within a unit of 0 (or of 1, in a single column) may have been
anything beyond: the box is open there, the row *saturated*, unless its logits were stored too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from submission.recalibration.maps import FLOOR, LARGEST, Floats, Outputs, RunMap

SINGLE = 2.0**-20  # relative error of softmax in single precision, and of logits
NEAR_ONE = 2.0**-24  # spacing of float32 below 1
COMPLEMENT = 2.0**-22  # error of 1 - p where p is a sigmoid in single precision
HALF = 2.0**-24  # spacing of the least float16
OUTPUT = 2.0**-18  # error of a calibrated probability computed in single precision
SHARE = 2.0**-10  # the same as a share of a small one, and of the distance to 1
TINY = 1e-12  # below which no score tells probabilities apart
VAGUE = 0.02  # error of a logit above which it is as good as not stored
COARSEST = 1e-4  # unit of printed probabilities above which a fit can hardly be told from another
DECIMALS = (4, 5, 6)  # to which people round
LOWEST = -700.0  # stands for the logarithm of a probability that may be as small as one likes


@dataclass(frozen=True)
class Box:
    """Lower and upper ends of a map's inputs, each (N, K): probabilities ``p``; ``u0`` and ``u1`` as in the maps
    (softmax maps: ``u1`` alone); ``open`` (N,) marks saturated rows."""

    p: tuple[Floats, Floats]
    u0: tuple[Floats, Floats]
    u1: tuple[Floats, Floats]
    open: NDArray[np.bool_]

    def rows(self, chosen: NDArray[np.intp]) -> "Box":
        """The chosen rows."""
        p, u0, u1 = ((low[chosen], high[chosen]) for low, high in (self.p, self.u0, self.u1))
        return Box(p, u0, u1, self.open[chosen])

    def likely(self, precision: Sequence[str]) -> "Box":
        """The box with its open ends cut off below what networks give: a 400th of a unit, or the least float32."""
        ends = [(float(np.log(_least_of(kind))), float(np.log(_least_of(kind, near_one=True)))) for kind in precision]
        least, rest = (np.array(side) for side in zip(*ends, strict=True))
        low, under = (np.where(end > LOWEST, end, floor) for end, floor in ((self.u1[0], least), (self.u0[0], rest)))
        return Box(
            self.p, (np.minimum(under, self.u0[1]), self.u0[1]), (np.minimum(low, self.u1[1]), self.u1[1]), self.open
        )


def unit_of(precision: str) -> float:
    """Absolute unit of a stored column: of its printed decimals; 0 for a float type, whose error is relative."""
    return float(10.0 ** -int(precision.removeprefix("decimals:"))) if precision.startswith("decimals:") else 0.0


def effective(precision: Sequence[str], p: Floats) -> list[str]:
    """The precision of columns ``p`` (N, K) as they were written: numbers rounded before they were stored as floats
    count as printed, to 4 to 6 decimals (a column of few values may look coarser than it is)."""
    return [_rounded(kind, p[:, k]) for k, kind in enumerate(precision)]


def _rounded(kind: str, p: Floats) -> str:
    if kind not in ("float32", "float64") or not len(p):
        return kind
    error = NEAR_ONE if kind == "float32" else 1e-15
    for some in (p[:256], p):
        fits = [d for d in DECIMALS if (np.abs(some - np.round(some, d)) <= error).all()]
        if not fits:
            return kind
    return f"decimals:{fits[0]}"


def near_zero(precision: str) -> float:
    """Absolute unit of a stored column next to 0, where the least float16 are spaced evenly too."""
    return HALF if precision == "float16" else unit_of(precision)


def error_near_one(precision: str) -> float:
    """What 1 - p is known to, where a single column holds p."""
    return max(unit_of(precision), 2.0**-11 if precision == "float16" else COMPLEMENT)


def _least_of(precision: str, near_one: bool = False) -> float:
    unit = max(near_zero(precision), error_near_one(precision)) if near_one else near_zero(precision)
    return unit / 400.0 if unit else 2.0**-149


def relative_of(precision: str) -> float:
    """Relative error of a stored column."""
    return 2.0**-10 if precision == "float16" else SINGLE


def output_slack(precision: Sequence[str]) -> float:
    """How far a stored calibrated probability may be from its map's value: the coarsest column counts."""
    return max(2.0**-10 if kind == "float16" else max(unit_of(kind), OUTPUT) for kind in precision)


def slack_of(precision: Sequence[str], q: Floats) -> Floats:
    """The same for each value ``q`` (N, K) of the map, in its own column: a small value, and one close to 1, are known
    better than in absolute terms (a certain error costs 27 nats, one of 4e-6 half of that)."""
    near_one = SHARE * (1.0 - q) + 4.0 * NEAR_ONE
    single = np.minimum(OUTPUT, np.where(q < 0.5, SHARE * q + TINY, near_one))
    half = 2.0 * SHARE * q + 2.0**-23
    columns = [
        np.minimum(SHARE, half[:, k]) if kind == "float16" else np.maximum(unit_of(kind), single[:, k])
        for k, kind in enumerate(precision)
    ]
    return np.column_stack(columns)


def logit_slack(precision: Sequence[str], z: Floats) -> Floats:
    """How far stored logits (N, K) may be from those that were computed."""
    units = np.array([unit_of(kind) for kind in precision])
    shares = np.array([relative_of(kind) for kind in precision])
    return np.asarray(np.maximum(units, shares * np.maximum(np.abs(z), 1.0)))


def box_of(run_map: RunMap, outputs: Outputs, precision: Mapping[str, Sequence[str]]) -> Box:
    """The box of each row's inputs; ``precision`` of the columns ``p`` and ``z``, in order."""
    lows, highs = zip(*(_around(outputs.p[:, k], kind) for k, kind in enumerate(precision["p"])), strict=True)
    low, high = np.column_stack(lows), np.column_stack(highs)
    if run_map.source == "logits" and outputs.z is not None:
        slack = logit_slack(precision["z"], outputs.z)
        zero = np.zeros_like(outputs.z)
        ends = [end.clip(-LARGEST, LARGEST) for end in (outputs.z - slack, outputs.z + slack)]
        return Box((low, high), (zero, zero), (ends[0], ends[1]), np.zeros(len(outputs.p), dtype=bool))
    u1 = (_log(low), np.log(np.maximum(high, FLOOR)))
    opened = np.asarray(((low <= 0) | (outputs.p < FLOOR)).any(axis=1))
    if run_map.kind == "multiclass":
        # the small ones are known to their own precision: nothing is lost by a p close to 1
        complement = (np.maximum(1.0 - high, 0.0), np.minimum(1.0 - low, 1.0))
        u0 = (_log(complement[0]), np.log(np.maximum(complement[1], FLOOR)))
        if run_map.softmax is None:
            opened |= (complement[0] <= 0).any(axis=1)
        return Box((low, high), u0, u1, opened)
    near = np.array([error_near_one(kind) for kind in precision["p"]])
    rest = 1.0 - outputs.p
    slack = np.maximum(near, rest * SINGLE)
    u0 = (_log(np.maximum(rest - slack, 0.0)), np.log(np.maximum(rest + slack, FLOOR)))
    opened |= (rest - slack <= 0).any(axis=1)
    return Box((low, high), u0, u1, opened)


def _around(p: Floats, precision: str) -> tuple[Floats, Floats]:
    slack = np.maximum(near_zero(precision), p * relative_of(precision))
    return np.maximum(p - slack, 0.0), np.minimum(p + slack, 1.0)


def _log(p: Floats) -> Floats:
    """Logarithm of a lower end: where it may be 0, as low as one likes."""
    logs: Floats = np.where(p > 0, np.log(np.where(p > 0, p, 1.0)), LOWEST)
    return logs
