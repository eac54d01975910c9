"""Selective prediction: the risk among the most confident cases."""

from collections.abc import Sequence
from typing import NamedTuple

from numpy.typing import ArrayLike

from protocol.catalogue import COVERAGES
from scorer.metrics.arrays import NO_WEIGHT, Floats, Value, checked, top_label
from scorer.metrics.column import column_of, single


class RiskAtCoverage(NamedTuple):
    """The risk at each coverage asked for; NaN with a reason when there is no weight."""

    coverages: tuple[float, ...]
    risks: tuple[float, ...]
    reason: str | None = None


def aurc(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Area under the risk-coverage curve: the mean over cases i of the error rate among cases at least as confident.

    ``p`` (N, K), or (N,) for (1 - p, p); confidence is the largest probability, error one less the arg-max credit.
    Cases of equal confidence enter together, so ties and row order can't change the value. Range [0, 1], lower is
    better, no unit. Libraries that integrate by trapezoids or order ties by row differ. NaN with a reason when no row
    has positive weight. Raises ValueError on bad input. Source: Geifman and El-Yaniv 2017, arXiv:1705.08500; Geifman,
    Uziel and El-Yaniv 2019, arXiv:1805.08206.
    """
    risks = _risks(p, y, weights, ())
    return Value(float("nan"), NO_WEIGHT) if risks is None else Value(float(risks[0]))


def risk_at_coverage(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, coverages: Sequence[float] = COVERAGES
) -> RiskAtCoverage:
    """Error rate of the smallest set of most confident cases that covers at least each share of the weight.

    ``coverages`` in (0, 1]; otherwise as :func:`aurc`. Cases of equal confidence enter together, so a set may be larger
    than asked. Raises ValueError on bad input or a coverage outside (0, 1].
    """
    if not all(0.0 < one <= 1.0 for one in coverages):
        raise ValueError(f"coverages must lie in (0, 1], not {tuple(coverages)}")
    falling = tuple(sorted(set(coverages), reverse=True))
    risks = _risks(p, y, weights, falling)
    if risks is None:
        return RiskAtCoverage(tuple(coverages), (float("nan"),) * len(coverages), NO_WEIGHT)
    found = dict(zip(falling, risks[1:], strict=True))
    return RiskAtCoverage(tuple(coverages), tuple(float(found[one]) for one in coverages))


def _risks(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, coverages: tuple[float, ...]) -> Floats | None:
    probabilities, labels, case_weights = checked(p, y, weights)
    if not case_weights.sum() > 0.0:
        return None
    risks = column_of(*top_label(probabilities, labels)).scan(single(case_weights), risks=coverages).risks
    assert risks is not None
    return risks[:, 0]
