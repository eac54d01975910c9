"""Curves as data: reliability with consistency bands, decision curve, risk-coverage. Nothing here draws.

A consistency band says where a bin's outcome rate would lie if the model were calibrated: outcomes are drawn anew from
the probabilities themselves, image by image, with the binning (or isotonic regression) done again. Images of one
patient are drawn apart, so with many images a patient bands are too narrow; intervals of the metrics are not. Source:
Broecker and Smith 2007, doi:10.1175/WAF993.1; CORP: Dimitriadis, Gneiting and Jordan 2021,
doi:10.1073/pnas.2016191118.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Literal

import numpy as np

from protocol.catalogue import CLASSWISE, POSITIVE, TOP
from protocol.types import Kind as TaskKind
from scorer.metrics import kernels
from scorer.metrics.arrays import Floats, Ints, checked, top_label
from scorer.metrics.binned import BINS, width_bins
from scorer.metrics.column import Column, column_of
from scorer.metrics.decisions import slack
from scorer.metrics.families import top_bins

Kind = Literal["equal-width", "equal-mass", "corp", "decision", "risk-coverage"]

SIMULATIONS = 200
BLOCK_WORDS = 1_000_000  # random words that are held at a time
LEVEL = 0.95
THRESHOLDS = np.arange(1, 100) / 100.0
COVERAGES = np.arange(100, 0, -1) / 100.0


@dataclass(frozen=True)
class Curve:
    """One curve of one run in one slice, points by rising ``x``; all arrays (n,).

    Reliability (``equal-width``, ``equal-mass``): a point a non-empty bin, ``x`` mean probability, ``y`` mean outcome,
    ``lo``, ``hi`` the consistency band, ``n_images`` in the bin, ``left``, ``right`` the smallest and largest
    probability in it. ``corp``: two points a step of the isotonic regression, at its ends; ``y`` its value.
    ``decision``: ``x`` threshold, ``y`` net benefit, ``lo`` that of treating all, ``hi`` that of treating none (0).
    ``risk-coverage``: ``x`` coverage, ``y`` error rate among the most confident images; bands NaN.
    """

    kind: Kind
    class_: str | None
    reading: str
    x: Floats
    y: Floats
    lo: Floats
    hi: Floats
    n_images: Ints
    left: Floats
    right: Floats


def reliability(p: Floats, outcome: Floats, *, class_: str | None, reading: str, key: str, cell: Ints) -> list[Curve]:
    """Equal-width, equal-mass (15 bins each) and CORP reliability curves of ``p`` (n,) against ``outcome`` in [0, 1].

    ``cell`` (n,) is the equal-width bin of each image (:func:`scorer.metrics.binned.width_bins`), which depends on the
    stored precision. ``key`` seeds the simulations of the bands: the same key, the same band, whatever the order of the
    rows. Empty list without images.
    """
    if not len(p):
        return []
    column = column_of(p, outcome)
    size, total = _by_group(column)
    wide = np.zeros(len(size), dtype=np.int64)
    wide[np.searchsorted(column.score, p)] = cell
    middle = np.cumsum(size) - 0.5 * size
    mass = np.clip(np.ceil(BINS * middle / len(p)).astype(np.int64), 1, BINS) - 1
    g, v = np.empty(len(size)), np.empty(len(size))
    steps = kernels.pool(size, total, g, v)
    ends = np.cumsum(g[:steps]).astype(np.int64)  # images up to the end of each step
    last = np.searchsorted(np.cumsum(size), ends)  # its last group
    first = np.concatenate(([0], last[:-1] + 1))
    at = np.stack((first, last), axis=1).ravel()
    rates = (np.zeros((SIMULATIONS, BINS)), np.zeros((SIMULATIONS, BINS)), np.zeros((SIMULATIONS, len(at))))
    generator = _generator(key)
    size_of_block = max(1, BLOCK_WORDS // len(p))
    for begin in range(0, SIMULATIONS, size_of_block):
        part = slice(begin, min(begin + size_of_block, SIMULATIONS))
        words = generator.random_raw((part.stop - begin) * len(p))
        kernels.consistent(column.score, size, words, wide, mass, at, *(rate[part] for rate in rates))
    curves = [
        _binned("equal-width", column, size, total, wide, rates[0], class_, reading),
        _binned("equal-mass", column, size, total, mass, rates[1], class_, reading),
    ]
    lo, hi = np.quantile(rates[2], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    kept = np.ones(len(at), dtype=np.bool_)
    kept[1::2] = last != first  # a step of one probability has one end
    step = np.repeat(np.arange(steps), 2)[kept]
    corp = Curve(
        kind="corp",
        class_=class_,
        reading=reading,
        x=column.score[at][kept],
        y=(v[:steps] / g[:steps])[step],
        lo=lo[kept],
        hi=hi[kept],
        n_images=g[step].astype(np.int64),
        left=column.score[first][step],
        right=column.score[last][step],
    )
    return [*curves, corp]


def _by_group(column: Column) -> tuple[Floats, Floats]:
    """Images and summed outcome of each distinct probability."""
    if not len(column.group):
        return np.ones(len(column.score)), column.outcome.copy()
    size = np.bincount(column.group).astype(np.float64)
    return size, np.bincount(column.group, weights=column.outcome).astype(np.float64)


def _binned(
    kind: Kind,
    column: Column,
    size: Floats,
    total: Floats,
    cell: Ints,
    rate: Floats,
    class_: str | None,
    reading: str,
) -> Curve:
    images = np.bincount(cell, weights=size, minlength=BINS)
    used = np.flatnonzero(images > 0.0)
    mean, outcome = (
        np.bincount(cell, weights=x, minlength=BINS)[used] / images[used] for x in (size * column.score, total)
    )
    lo, hi = np.quantile(rate[:, used], [(1 - LEVEL) / 2, (1 + LEVEL) / 2], axis=0)
    left, right = column.score[np.searchsorted(cell, used)], column.score[np.searchsorted(cell, used, "right") - 1]
    return Curve(kind, class_, reading, mean, outcome, lo, hi, images[used].astype(np.int64), left, right)


def decision(p: Floats, y: Ints, *, class_: str | None, reading: str, precision: str = "float64") -> list[Curve]:
    """Net benefit at thresholds 0.01 to 0.99 of ``p`` (n,) with labels ``y`` in {0, 1}; empty without images."""
    n = len(p)
    if not n:
        return []
    order = np.sort(p)
    events = np.sort(p[y == 1])
    reached = THRESHOLDS - np.array([slack(precision, t) for t in THRESHOLDS])
    called = n - np.searchsorted(order, reached)
    found = len(events) - np.searchsorted(events, reached)
    odds = THRESHOLDS / (1.0 - THRESHOLDS)
    benefit = (found - odds * (called - found)) / n
    everyone = (len(events) - odds * (n - len(events))) / n
    none, blank = np.zeros(len(odds)), np.full(len(odds), np.nan)
    images = np.full(len(odds), n)
    return [Curve("decision", class_, reading, THRESHOLDS, benefit, everyone, none, images, blank, blank)]


def risk_coverage(confidence: Floats, hit: Floats, *, class_: str | None) -> list[Curve]:
    """Error rate of the most confident images at coverages 0.01 to 1; images of equal confidence enter together."""
    n = len(confidence)
    if not n:
        return []
    risks = column_of(confidence, hit).scan(np.ones((1, n)), risks=list(COVERAGES)).risks
    assert risks is not None
    blank = np.full(len(COVERAGES), np.nan)
    images = np.full(len(COVERAGES), n)
    x, y = COVERAGES[::-1], risks[1:, 0][::-1].copy()
    return [Curve("risk-coverage", class_, TOP, x, y, blank, blank, images, blank, blank)]


def curves_of(
    kind: TaskKind,
    classes: tuple[str, ...],
    p: Floats,
    y: Ints,
    *,
    key: str,
    precision: tuple[str, ...] = (),
) -> list[Curve]:
    """All curves of one run's images; shapes as :func:`scorer.metrics.plan_for`.

    Reliability in the headline reading, and for each class (multiclass against the rest); decision curves of the
    positive class of a binary task or of each finding; risk-coverage of the arg-max. ``key`` as for
    :func:`reliability`.
    """
    stored = precision or ("float64",) * p.shape[1]
    curves: list[Curve] = []
    if kind == "multiclass":
        scores, labels, _ = checked(p, y)
        confidence, hit = top_label(scores, labels)
        cell = top_bins(scores, BINS, stored)
        curves += reliability(confidence, hit, class_=None, reading=TOP, key=key, cell=cell)
        curves += risk_coverage(confidence, hit, class_=None)
        for k, name in enumerate(classes):
            own = (labels == k).astype(np.float64)
            cell = width_bins(scores[:, k], BINS, stored[k])
            curves += reliability(scores[:, k], own, class_=name, reading=CLASSWISE, key=key, cell=cell)
        return curves
    for k in range(p.shape[1]):
        labelled = np.ones(len(p), dtype=np.bool_) if kind == "binary" else y[:, k] != -1
        scores, labels, _ = checked(p[labelled, k], (y if kind == "binary" else y[:, k])[labelled])
        class_ = None if kind == "binary" else classes[k]
        cell = width_bins(scores, BINS, stored[k])
        curves += reliability(scores, labels.astype(np.float64), class_=class_, reading=POSITIVE, key=key, cell=cell)
        curves += decision(scores, labels, class_=class_, reading=POSITIVE, precision=stored[k])
        curves += risk_coverage(*top_label(scores, labels, stored[k]), class_=class_)
    return curves


def _generator(key: str) -> np.random.Philox:
    digest = hashlib.sha256(json.dumps([key, "consistency"]).encode()).digest()
    return np.random.Philox(key=int.from_bytes(digest[:16], "big"))
