"""What a recomputed metric is, and which rows of a prediction set it is over."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scorer.audit.shapes import Codes, Evidence, PredictionSet

Indices = NDArray[np.intp]
TESTED = ("test", "testing", "holdout", "hold-out", "held-out", "external", "eval", "evaluation")
PARTS = ("train", "training", "val", "valid", "validation", "dev", "calib", "calibration", *TESTED)


@dataclass(frozen=True)
class MetricRow:
    """One metric of one prediction set in one slice; ``value`` is NaN exactly when ``reason`` says why.

    ``slice_kind`` is pooled, site or split. ``class_`` is '' where no one class is meant. ``bins`` and ``binning``
    (equal-mass, equal-width) are None and '' where nothing is binned. ``lo`` and ``hi`` are NaN without an interval.
    ``n_clusters`` counts what was resampled. ``note`` has what a reader must know of the value.
    """

    set: str
    model: str
    seed: str
    calibrator: str
    task: str
    slice_kind: str
    slice: str
    class_: str
    metric: str
    reading: str
    bins: int | None
    binning: str
    cutoff: float | None
    value: float
    lo: float
    hi: float
    n_draws: int
    n_undefined: int
    n_units: int
    n_clusters: int
    n_events: int | None
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class View:
    """Rows of a set that one slice is over, in an order that does not depend on the file's."""

    kind: Literal["pooled", "site", "split"]
    name: str
    rows: Indices


def labelled(one: PredictionSet) -> NDArray[np.bool_]:
    """(N,) rows with a label (multilabel: one at least) and no missing score among them."""
    if one.y is None:
        return np.zeros(len(one.scores), dtype=np.bool_)
    table = one.p if one.p is not None else one.scores
    given = ~np.isnan(table)
    if one.y.ndim == 2:
        return np.asarray(((one.y != -1) & given).any(axis=1))
    return np.asarray((one.y != -1) & given.all(axis=1))


def tested(names: tuple[str, ...]) -> list[int]:
    """Codes of the splits that by their name are for testing."""
    return [code for code, name in enumerate(names) if name.casefold().strip() in TESTED]


def views(one: PredictionSet, evidence: Evidence) -> list[View]:
    """The pooled rows, each site of two or more, each split of two or more.

    Where a split is named as a test or external one, pooled and sites are over these alone. Rows come by unit where
    units are known.
    """
    usable = np.flatnonzero(labelled(one))
    if one.unit is not None:
        usable = usable[np.argsort(one.unit[usable], kind="stable")]
    found: list[View] = []
    pooled = usable
    splits = _parts(one.split, usable, evidence.names.split)
    if len(splits) > 1:
        found = [View("split", name, rows) for name, rows in splits]
        test = tested(evidence.names.split)
        if one.split is not None and test and np.isin(one.split[usable], test).any():
            pooled = usable[np.isin(one.split[usable], test)]
    sites = _parts(one.site, pooled, evidence.names.site)
    if len(sites) > 1:
        found = [View("site", name, rows) for name, rows in sites] + found
    return [View("pooled", "all", pooled), *found]


def _parts(codes: Codes | None, rows: Indices, names: tuple[str, ...]) -> list[tuple[str, Indices]]:
    if codes is None or not len(rows):
        return []
    own = codes[rows]
    return [(names[code], rows[own == code]) for code in np.unique(own).tolist() if 0 <= code < len(names)]


def resampled(evidence: Evidence, one: PredictionSet) -> str:
    """In a word what the intervals of ``one`` resample: the cluster where it is known, else the unit, else the row."""
    if one.cluster is not None and (one.cluster >= 0).any():
        return evidence.cluster or "cluster"
    return (evidence.unit or "unit") if one.unit is not None else "row"


def clusters(one: PredictionSet, rows: Indices) -> tuple[Indices, int]:
    """Number of each row's cluster, 0 .. n - 1 in the order of their names, and n.

    A row whose cluster is not known is a cluster of its own, after the others.
    """
    codes = one.cluster if one.cluster is not None and (one.cluster >= 0).any() else one.unit
    if codes is None:
        return np.arange(len(rows)), len(rows)
    own = codes[rows].copy()
    unknown = own < 0
    if unknown.any():
        own[unknown] = (own.max() + 1) + np.arange(int(unknown.sum()))
    units, number = np.unique(own, return_inverse=True)
    return np.asarray(number.reshape(-1), dtype=np.intp), len(units)
