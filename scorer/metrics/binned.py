"""Binned calibration errors.

Equal mass: sort by probability; a group of equal values lies at its midpoint h = (weight below + weight up to and with
it) / 2 of the total weight T and goes, whole, to bin ceil(M h / T). Ties and the order of the rows can't change a
value; constant values fill one bin. Equal width: M bins (k/M, (k+1)/M], zero in the first; a probability within half a
unit of its stored precision of an edge counts as that edge. The value of a bin is its weighted mean; empty bins count
nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from scorer.metrics.arrays import NO_WEIGHT, Floats, Ints, checked, ratio, reading, summed, top_label
from scorer.metrics.column import Bins, column_of, single

BINS = 15
WIDTH_BINS = 20  # of seed 000


class Binned(NamedTuple):
    """A binned value, the number of bins that hold weight, and the reason when it is undefined (NaN, 0 bins)."""

    value: float
    bins_used: int
    reason: str | None = None


class ClasswiseEce(NamedTuple):
    """Mean over the declared classes, and one :class:`Binned` a class."""

    value: float
    per_class: tuple[Binned, ...]
    reason: str | None = None


class Debiased(NamedTuple):
    """``value`` is the root of ``squared`` floored at 0; ``squared`` keeps its sign: average and subtract that one."""

    value: float
    squared: float
    bins_used: int
    reason: str | None = None


# Values of each resample, (D,), from its bins.


def used(bins: Bins) -> Ints:
    """Number of bins that hold weight."""
    return np.asarray((bins.weight > 0.0).sum(axis=0), dtype=np.int64)


def ece_of(bins: Bins) -> Floats:
    """Weighted mean of the gaps."""
    return ratio(summed(np.abs(bins.y - bins.p)), summed(bins.weight))


def ace_of(bins: Bins) -> Floats:
    """Plain mean of the gaps over non-empty bins."""
    gaps = ratio(np.abs(bins.y - bins.p), bins.weight)
    return ratio(summed(np.where(np.isnan(gaps), 0.0, gaps)), used(bins).astype(np.float64))


def mce_of(bins: Bins) -> Floats:
    """Largest gap of the non-empty bins."""
    gaps = ratio(np.abs(bins.y - bins.p), bins.weight)
    return np.asarray(np.fmax.reduce(gaps, axis=0), dtype=np.float64)


def mce_weighted_of(bins: Bins) -> Floats:
    """Largest term of the ECE: gap times the bin's share of the weight."""
    return ratio(np.abs(bins.y - bins.p).max(axis=0), summed(bins.weight))


def debiased_of(bins: Bins) -> Floats:
    """Squared L2 error less what chance adds to it; bins of weight 1 or less add nothing."""
    enough = bins.weight > 1.0
    weight = np.where(enough, bins.weight, 2.0)
    rate = bins.y / weight
    chance = rate * (1.0 - rate) / (weight - 1.0)
    terms = np.where(enough, weight * (((bins.p - bins.y) / weight) ** 2 - chance), 0.0)
    return ratio(summed(terms), summed(bins.weight))


# Equal-width bins.


def half_unit(precision: str, edges: Floats) -> Floats:
    """Half a unit of a stored ``precision`` at ``edges``, but at least 1e-12.

    ``float16`` and ``float32``: half their spacing there; ``decimals:<n>`` (printed, n >= 1): half of the last one.
    """
    if precision in ("float16", "float32"):
        kind = np.float16 if precision == "float16" else np.float32
        spacing = np.asarray(np.spacing(edges.astype(kind)), dtype=np.float64)
        return np.maximum(spacing / 2.0, 1e-12)
    digits = precision.removeprefix("decimals:")
    half = 0.5 * 10.0 ** -int(digits) if digits != precision and int(digits) > 0 else 0.0
    return np.full(edges.shape, max(half * (1.0 + 1e-9), 1e-12))


def width_bins(p: Floats, bins: int, precision: str = "float64") -> Ints:
    """The equal-width bin, 0 .. bins - 1, of each probability."""
    edge = np.rint(p * bins)
    snapped = np.abs(p - edge / bins) <= half_unit(precision, np.arange(bins + 1) / bins)[edge.astype(np.int64)]
    return np.clip(np.where(snapped, edge, np.ceil(p * bins)), 1, bins).astype(np.int64) - 1


def _width(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, bins: int, precision: str) -> Bins:
    probabilities, labels, case_weights = checked(p, y, weights)
    probability, outcome = reading(probabilities, labels)
    return _summed(width_bins(probability, _positive(bins), precision), bins, probability, outcome, case_weights)


def _summed(cell: Ints, n: int, probability: Floats, outcome: Floats, weights: Floats) -> Bins:
    """``n`` bins of which each case has one, squares left out."""
    weight, p, y = (
        np.bincount(cell, weights=weights * x, minlength=n).astype(np.float64)[:, None]
        for x in (np.float64(1.0), probability, outcome)
    )
    return Bins(weight, p, y, np.zeros_like(p), np.zeros_like(p))


def _mass(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, bins: int) -> Bins:
    probabilities, labels, case_weights = checked(p, y, weights)
    return _mass_of(*reading(probabilities, labels), case_weights, bins)


def _mass_of(probability: Floats, outcome: Floats, weights: Floats, bins: int) -> Bins:
    found = column_of(probability, outcome).scan(single(weights), bins=_positive(bins)).bins
    assert found is not None
    return found


def _positive(bins: int) -> int:
    if bins < 1:
        raise ValueError(f"bins must be at least 1, not {bins}")
    return bins


def _binned(bins: Bins, of: Callable[[Bins], Floats]) -> Binned:
    value = float(of(bins)[0])
    return Binned(value, int(used(bins)[0]), NO_WEIGHT if np.isnan(value) else None)


def ece(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> Binned:
    """Expected calibration error: sum_b (w_b / T) abs(mean outcome in b - mean probability in b), equal-mass bins
    (module docstring).

    ``p`` (N,): positive-class reading, outcome y. ``p`` (N, K): top-label reading, probability max_k p_k, outcome the
    arg-max credit of :func:`scorer.metrics.arrays.hits` (1/m under an m-way tie). Range [0, 1], lower is better, no
    unit; biased upwards, the more the more bins and the fewer images. NaN with a reason when no row has positive
    weight. Raises ValueError on bad input or bins < 1. Source: Naeini et al. 2015, doi:10.1609/aaai.v29i1.9602; equal
    mass: Nguyen and O'Connor 2015, doi:10.18653/v1/D15-1182.
    """
    return _binned(_mass(p, y, weights, bins), ece_of)


def ece_top(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> Binned:
    """:func:`ece` in the top-label reading for one probability ``p`` (N,): confidence max(p, 1 - p), outcome whether
    the likelier side was right."""
    probabilities, labels, case_weights = checked(p, y, weights)
    return _binned(_mass_of(*top_label(probabilities, labels), case_weights, bins), ece_of)


def ace(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> Binned:
    """Adaptive calibration error as in seed 000, appendix A: plain mean of the gaps over non-empty equal-mass bins.

    Readings, range and errors as :func:`ece`. Three other things go by this name; Nixon's is :func:`ace_nixon`.
    """
    return _binned(_mass(p, y, weights, bins), ace_of)


def ace_nixon(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> ClasswiseEce:
    """Adaptive calibration error of Nixon et al. 2019, arXiv:1904.01685, section 4.2: mean over classes and equal-mass
    bins of the class-wise gaps.

    Shapes and errors as :func:`classwise_ece`. Bins that ties leave empty are not counted among a class's bins.
    """
    return _classwise(p, y, weights, bins, ace_of)


def classwise_ece(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> ClasswiseEce:
    """Class-wise ECE: mean over the K declared classes of the equal-mass ECE of p_k against 1[y = k].

    ``p`` (N, K); ``p`` (N,) stands for the two classes (1 - p, p). Range [0, 1], lower is better, no unit. A class
    absent from ``y`` counts: its ECE is its mean probability. NaN with a reason when no row has positive weight. Raises
    ValueError on bad input or bins < 1. Source: Kull et al. 2019, arXiv:1910.12656, section 2, with equal-mass bins.
    """
    return _classwise(p, y, weights, bins, ece_of)


def _classwise(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None, bins: int, of: Callable[[Bins], Floats]
) -> ClasswiseEce:
    probabilities, labels, case_weights = checked(p, y, weights)
    columns = [1.0 - probabilities, probabilities] if probabilities.ndim == 1 else list(probabilities.T)
    per_class = tuple(
        _binned(_mass_of(column, (labels == k).astype(np.float64), case_weights, bins), of)
        for k, column in enumerate(columns)
    )
    return ClasswiseEce(float(np.mean([one.value for one in per_class])), per_class, per_class[0].reason)


def ece_debiased(p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS) -> Debiased:
    """Debiased L2 calibration error: sum_b (w_b / T) [gap_b^2 - q_b (1 - q_b) / (w_b - 1)], q_b the mean outcome.

    Equal-mass bins and readings of :func:`ece`; bins of weight one or less add 0. ``squared`` may be negative (with
    whole weights not below -1/4), ``value`` is its root, floored at 0. Weights stand for repetitions. NaN with a reason
    when no row has positive weight. Raises ValueError on bad input or bins < 1. Source: Kumar, Liang and Ma 2019,
    arXiv:1909.10155, section 4; Broecker 2012, doi:10.1007/s00382-011-1191-1.
    """
    found = _mass(p, y, weights, bins)
    squared = float(debiased_of(found)[0])
    reason = NO_WEIGHT if np.isnan(squared) else None
    return Debiased(
        float(np.sqrt(max(squared, 0.0))) if reason is None else squared, squared, int(used(found)[0]), reason
    )


def ece_width(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = BINS, precision: str = "float64"
) -> Binned:
    """ECE in equal-width bins (k/M, (k+1)/M], zero in the first (module docstring); readings as :func:`ece`.

    ``precision`` is how the probabilities were stored: ``float64``, ``float32``, ``float16`` or ``decimals:<n>``.
    Libraries that close bins on the left, or keep p = 1 apart, differ where probabilities lie on edges. Range [0, 1],
    lower is better. Raises ValueError on bad input or bins < 1. Source: Guo et al. 2017, arXiv:1706.04599, section 2.
    """
    return _binned(_width(p, y, weights, bins, precision), ece_of)


def mce(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = WIDTH_BINS, precision: str = "float64"
) -> Binned:
    """Maximum calibration error: the largest gap of the non-empty equal-width bins, never below the ECE on the same
    bins.

    Otherwise as :func:`ece_width`. Source: Naeini et al. 2015, doi:10.1609/aaai.v29i1.9602.
    """
    return _binned(_width(p, y, weights, bins, precision), mce_of)


def mce_weighted(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = WIDTH_BINS, precision: str = "float64"
) -> Binned:
    """The largest term of the equal-width ECE, max_b (w_b / T) gap_b: printed as "MCE" by several implementations.

    Only to reproduce published numbers: it can't exceed the ECE on the same bins. Otherwise as :func:`ece_width`.
    """
    return _binned(_width(p, y, weights, bins, precision), mce_weighted_of)


def wsece(
    p: ArrayLike, y: ArrayLike, weights: ArrayLike | None = None, *, bins: int = WIDTH_BINS, precision: str = "float64"
) -> Binned:
    """Weighted subset ECE: sum_c (W_c / T) ECE over the images whose true class is c; top label, equal width.

    ``p`` (N,) stands for the two classes (1 - p, p). ``bins_used`` is the largest number over the classes. Range [0,
    1], lower is better; not proper, since splitting by truth makes even a perfect model miscalibrated. Raises
    ValueError on bad input or bins < 1. Source: seed 000, appendix M, after Obadinma et al. 2021.
    """
    probabilities, labels, case_weights = checked(p, y, weights)
    confidence, hit = top_label(probabilities, labels, precision)
    cell = width_bins(confidence, _positive(bins), precision)
    classes = 2 if probabilities.ndim == 1 else probabilities.shape[1]
    found = _summed(labels * bins + cell, classes * bins, confidence, hit, case_weights)
    most = int((found.weight.reshape(classes, bins) > 0.0).sum(axis=1).max())
    return _binned(found, ece_of)._replace(bins_used=most)
