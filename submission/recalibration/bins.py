"""Histogram binning and scaling-binning: a constant in each bin."""

import numpy as np

from protocol.objective import Binning
from submission.recalibration.rows import Cases, Floats

DEFAULT: Binning = ("equal-mass", 15)


def fit_histogram(cases: Cases, goal: Floats, binning: Binning) -> tuple[Floats, Floats]:
    """Edges (B + 1,) and values (B,) of the step map of one column: ``cases.x`` (n, 1), targets ``goal`` (n, 2).

    Formula: in bin (e_j, e_j+1] (the first also holds 0) the value is the weighted mean of the targets, which minimises
    the mean squared error given the edges, and the negative log-likelihood too. Edges: :func:`edges_of`.

    Source: Zadrozny and Elkan (2001), Obtaining calibrated probability estimates from decision trees and naive Bayesian
    classifiers, ICML 2001: 609-616; binning by equal mass as in the edition's calibration errors.
    """
    return _averaged(cases.x[:, 0], goal.sum(axis=1), goal[:, 1], binning)


def fit_scaled_bins(scaled: Floats, weight: Floats, binning: Binning) -> tuple[Floats, Floats]:
    """Edges and values of the step map of ``scaled`` (n,), a probability already scaled: its weighted mean in each bin.

    Scaling and binning both use all calibration rows.

    Source: Kumar, Liang and Ma (2019), Verified uncertainty calibration, NeurIPS 32, section 4,
    https://doi.org/10.48550/arXiv.1909.10155.
    """
    return _averaged(scaled, weight, weight * scaled, binning)


def edges_of(x: Floats, weight: Floats, binning: Binning) -> Floats:
    """Edges of the bins of ``x`` (n,), from 0 to 1, strictly increasing.

    Equal width: k/M. Equal mass: a group of equal values is never split and goes to bin ceil(M x midpoint / total), its
    midpoint being (weight below + weight up to and with it) / 2; an edge lies halfway between the last value of a bin
    and the first of the next, and bins that no row falls into are not there.
    """
    mode, bins = binning
    if mode == "equal-width":
        return np.asarray(np.arange(bins + 1) / bins)
    values, group = np.unique(x, return_inverse=True)
    mass = np.bincount(group, weight)
    upto = np.cumsum(mass)
    cell = np.ceil(bins * (upto - 0.5 * mass) / upto[-1])
    last = np.flatnonzero(cell[1:] != cell[:-1])
    low, high = values[last], values[last + 1]
    halfway = low + (high - low) / 2.0
    inner = np.where(halfway >= high, low, halfway)  # neighbouring floats: the bin is closed on the right
    return np.concatenate(([0.0], inner[(inner > 0.0) & (inner < 1.0)], [1.0]))


def _averaged(x: Floats, weight: Floats, summed: Floats, binning: Binning) -> tuple[Floats, Floats]:
    """Edges, and in each bin ``summed`` over ``weight``; an empty bin (of equal width) has its middle."""
    edges = edges_of(x, weight, binning)
    bins = len(edges) - 1
    cell = np.searchsorted(edges[1:-1], x, side="left")
    total, top = (np.bincount(cell, values, minlength=bins) for values in (weight, summed))
    middle = (edges[:-1] + edges[1:]) / 2.0
    values = np.where(total > 0, top / np.where(total > 0, total, 1.0), middle)
    return edges, np.clip(values, 0.0, 1.0) + 0.0
