"""Calibration by logistic regression: intercept and slope, and the distance to a smooth curve (ICI, E50, E90, Emax)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics import fitting
from scorer.metrics.arrays import (
    NO_EVENTS,
    NO_NON_EVENTS,
    NO_WEIGHT,
    Floats,
    Ints,
    Value,
    one_score,
)
from scorer.metrics.column import Column, column_of, single

BLOCK_CELLS = 250_000  # distances to the spline that are held at a time
CLIP = 1e-12  # probabilities are moved this far off 0 and 1 before the logit
LIMIT = float(np.log1p(-CLIP) - np.log(CLIP))  # the logit there
REASONS = {
    fitting.NO_WEIGHT: NO_WEIGHT,
    fitting.CONSTANT: "the probability is the same for every image",
    fitting.SEPARATED: "no finite fit: the probability separates the class from the rest",
    fitting.NOT_CONVERGED: "the fit did not converge",
}


class Line(NamedTuple):
    """logit P(event) = intercept + slope logit p."""

    intercept: float
    slope: float
    reason: str | None = None


class Gaps(NamedTuple):
    """Mean, median, 90 % quantile and maximum of abs(p - smooth(p)) over cases."""

    ici: float
    e50: float
    e90: float
    emax: float
    reason: str | None = None


def logit(p: Floats) -> Floats:
    """ln(p / (1 - p)) of p clipped to [1e-12, 1 - 1e-12]: the same distance from 0 on both sides."""
    with np.errstate(divide="ignore"):
        logits: Floats = np.log(p) - np.log1p(-p)
    return np.clip(logits, -LIMIT, LIMIT)


def clipped(p: Floats) -> int:
    """Number of probabilities that :func:`logit` clips."""
    return int(((p < CLIP) | (p > 1.0 - CLIP)).sum())


def why(status: int, events: float) -> str | None:
    """A fit's status in words, None where it is fine."""
    if status == fitting.ONE_CLASS:
        return NO_EVENTS if events == 0.0 else NO_NON_EVENTS
    return REASONS.get(status)


CALIBRATED = np.array([[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]])


class Fits(NamedTuple):
    """Logistic fits of D resamples: ``lines`` (3, D) citl, intercept and slope; ``gaps`` (4, D) mean, median, 90 %
    quantile, maximum; NaN where undefined. ``status`` (3, D) of intercept, line and spline; ``curves`` (D, 4)."""

    lines: Floats
    gaps: Floats
    status: Ints
    curves: Floats

    @property
    def warm(self) -> Floats:
        """Where to begin the fits of resamples when these were the fits of all cases, one resample."""
        start = np.array([[self.lines[0, 0], 0, 0, 0], [*self.lines[1:, 0], 0, 0], self.curves[0]])
        return np.where(np.isnan(start), CALIBRATED, start)


def fits_of(column: Column, weights: Floats, *, lines: bool, gaps: bool, warm: Floats = CALIBRATED) -> Fits:
    """Fit ``lines`` and the spline behind ``gaps``, as wanted, under ``weights`` (D, patients), begun at ``warm``."""
    draws, n = len(weights), len(column.score)
    found_lines, curves = np.full((draws if lines else 0, 3), np.nan), np.full((draws, 4), np.nan)
    found = np.full((4, draws), np.nan)
    status = np.zeros((draws, 3), dtype=np.int64)
    x = logit(column.score)
    size = max(1, BLOCK_CELLS // max(n, 1)) if gaps else max(draws, 1)
    for first in range(0, draws, size):
        part = slice(first, min(first + size, draws))
        cells = (part.stop - first, n) if gaps else (0, 0)
        mass, distance = np.zeros(cells), np.zeros(cells)
        fitting.fit_all(
            column.patient, column.group, column.score, x, column.outcome, weights[part], warm,
            found_lines[part], curves[part], mass, distance, status[part],
        )  # fmt: skip
        for d in np.flatnonzero(status[part, 2] == fitting.FINE) if gaps else ():
            order = np.argsort(distance[d])
            gap, g = distance[d][order], mass[d][order]
            upto = np.cumsum(g)
            at = np.searchsorted(upto, np.array([0.5, 0.9, 1.0]) * upto[-1] * (1.0 - 1e-12))
            found[:, first + d] = ((gap * g).sum() / upto[-1], *gap[at])
    return Fits(found_lines.T if lines else np.full((3, draws), np.nan), found, status.T, curves)


def citl(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Value:
    """Calibration in the large: the intercept a of logit P(y = 1) = a + logit p.

    ``p`` (N,), clipped to [1e-12, 1 - 1e-12]. Unit log-odds, any sign, 0 is best; positive when events are more
    frequent than predicted. Not the joint intercept (:func:`recalibration_line`), which goes by the same name
    elsewhere. NaN with a reason when either class has no row of positive weight. Raises ValueError on bad input.
    Source: Cox 1958, doi:10.1093/biomet/45.3-4.562; Van Calster et al. 2019, doi:10.1186/s12916-019-1466-7.
    """
    column, w, events = _prepared(p, y, weights, "citl")
    fits = fits_of(column, w, lines=True, gaps=False)
    return Value(float(fits.lines[0, 0]), why(int(fits.status[0, 0]), events))


def recalibration_line(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Line:
    """Joint logistic recalibration logit P(y = 1) = intercept + slope logit p (``cal_intercept``, ``cal_slope``).

    ``p`` (N,), clipped to [1e-12, 1 - 1e-12]. Best: intercept 0, slope 1; a slope below 1 says that probabilities are
    too extreme. No penalty. NaN with a reason where no finite fit exists: one class, one probability, or probabilities
    that separate the classes, also up to ties (Albert and Anderson 1984, doi:10.1093/biomet/71.1.1). Raises ValueError
    on bad input. Source: Cox 1958, doi:10.1093/biomet/45.3-4.562.
    """
    column, w, events = _prepared(p, y, weights, "recalibration_line")
    fits = fits_of(column, w, lines=True, gaps=False)
    return Line(float(fits.lines[1, 0]), float(fits.lines[2, 0]), why(int(fits.status[1, 0]), events))


def ici(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Gaps:
    """Integrated calibration index and its companions: mean, median, 90 % quantile and maximum of abs(p - c(p)).

    ``p`` (N,). c is the unpenalised logistic regression of y on a restricted cubic spline of logit p (clipped to
    [1e-12, 1 - 1e-12]) with knots at its 5, 35, 65 and 95 % quantiles (knots that coincide are one; two or fewer leave
    a line). Quantiles are of the weighted inverted distribution. With one class c is constant; where the classes
    separate c is the limit of the fits, which exists (values are good to 1e-6 then). Range [0, 1], lower is better.
    Loess-based values differ a little, in emax more. NaN with a reason when no row has positive weight. Raises
    ValueError on bad input. Source: Austin and Steyerberg 2019, doi:10.1002/sim.8281; knots: Harrell 2015,
    doi:10.1007/978-3-319-19425-7, section 2.4.
    """
    column, w, events = _prepared(p, y, weights, "ici")
    fits = fits_of(column, w, lines=False, gaps=True)
    mean, median, ninety, most = fits.gaps[:, 0].tolist()
    return Gaps(mean, median, ninety, most, why(int(fits.status[2, 0]), events))


def _prepared(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, name: str) -> tuple[Column, Floats, float]:
    probabilities, labels, case_weights = one_score(p, y, weights, name)
    events = float((case_weights * labels).sum())
    return column_of(probabilities, labels.astype(np.float64)), single(case_weights), events
