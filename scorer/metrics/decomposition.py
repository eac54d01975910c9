"""The Brier score of one probability in parts that add up: in bins (Murphy), and without bins (CORP)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.arrays import NO_WEIGHT, Floats, one_score, ratio, summed
from scorer.metrics.binned import BINS
from scorer.metrics.column import Bins, column_of, single

NONE = float("nan")


class Murphy(NamedTuple):
    """Brier score = rel - res + unc + wbv - wbc: reliability, resolution, uncertainty, within-bin variance and
    covariance."""

    rel: float
    res: float
    unc: float
    wbv: float
    wbc: float
    reason: str | None = None


class Corp(NamedTuple):
    """Brier score = mcb - dsc + unc: miscalibration, discrimination, uncertainty."""

    mcb: float
    dsc: float
    unc: float
    reason: str | None = None


def murphy_of(bins: Bins) -> Floats:
    """The five parts of each resample, (5, D)."""
    total = summed(bins.weight)
    weight = np.where(bins.weight > 0.0, bins.weight, 1.0)
    p, y = bins.p / weight, bins.y / weight
    rate = ratio(summed(bins.y), total)
    return np.stack(
        [
            ratio(summed(bins.weight * (p - y) ** 2), total),
            ratio(summed(bins.weight * (y - rate) ** 2), total),
            rate * (1.0 - rate),
            ratio(summed(np.maximum(bins.pp - bins.p * p, 0.0)), total),
            ratio(2.0 * summed(bins.py - bins.p * y), total),
        ]
    )


def murphy(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> Murphy:
    """Murphy's decomposition in equal-mass bins (:mod:`scorer.metrics.binned`), with both within-bin terms.

    ``p`` (N,), P(positive). rel = sum w_b (P_b - Y_b)^2 / T, res = sum w_b (Y_b - Y)^2 / T, unc = Y (1 - Y), wbv = sum
    w (p - P_b)^2 / T, wbc = 2 sum w (y - Y_b)(p - P_b) / T. rel, res, wbv in [0, 1], unc in [0, 1/4]; rel: lower is
    better, res: higher. Without wbv and wbc the parts do not add up to the Brier score unless p is constant in each
    bin. NaN with a reason when no row has positive weight. Raises ValueError on bad input or bins < 1. Source: Murphy
    1973, doi:10.1175/1520-0450(1973)012<0595:ANVPOT>2.0.CO;2; Stephenson et al. 2008, doi:10.1175/2007WAF2006116.1.
    """
    probabilities, labels, case_weights = one_score(p, y, weights, "murphy")
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    if not case_weights.sum() > 0.0:
        return Murphy(NONE, NONE, NONE, NONE, NONE, NO_WEIGHT)
    found = column_of(probabilities, labels.astype(np.float64)).scan(single(case_weights), bins=bins).bins
    assert found is not None
    rel, res, unc, wbv, wbc = murphy_of(found)[:, 0].tolist()
    return Murphy(rel, res, unc, wbv, wbc)


def corp(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None) -> Corp:
    """CORP decomposition of the Brier score by isotonic regression c of y on p (pool adjacent violators).

    ``p`` (N,), P(positive). mcb = S(p) - S(c), dsc = S(Y) - S(c), unc = S(Y), S the mean squared error and Y the
    prevalence. All in [0, 1], unc at most 1/4; mcb: lower is better, dsc: higher. No bins to choose; mcb is biased
    upwards, since isotonic regression fits noise. NaN with a reason when no row has positive weight. Raises ValueError
    on bad input. Source: Dimitriadis, Gneiting and Jordan 2021, doi:10.1073/pnas.2016191118.
    """
    probabilities, labels, case_weights = one_score(p, y, weights, "corp")
    if not case_weights.sum() > 0.0:
        return Corp(NONE, NONE, NONE, NO_WEIGHT)
    found = column_of(probabilities, labels.astype(np.float64)).scan(single(case_weights), corp=True).corp
    assert found is not None
    mcb, dsc, unc = found[:, 0].tolist()
    return Corp(mcb, dsc, unc)
