"""Metrics of sets too large for a table of patients by statistics: one pass over the rows a draw.

The definitions are those of :mod:`scorer.metrics`; only the way to the sums differs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from protocol.catalogue import POSITIVE, TOP
from protocol.types import Kind
from scorer.audit.judging.rows import Indices
from scorer.audit.shapes import Codes, Floats
from scorer.bootstrap import Draws, blocks, replicates
from scorer.metrics.arrays import NO_WEIGHT, hits, top_label
from scorer.metrics.binned import BINS, WIDTH_BINS, width_bins
from scorer.metrics.families import top_bins
from scorer.metrics.plan import Point
from scorer.metrics.proper import log_losses, squared_errors
from scorer.metrics.sets import plan_for

WIDTHS = (10, BINS, WIDTH_BINS)


@dataclass(frozen=True)
class _Binned:
    """All equal-width bins at once: ``cell`` (n,) numbers the combinations that occur, ``bins`` (WIDTHS, combinations)
    has the bin of each in each number of bins."""

    cell: Codes
    bins: Codes
    residual: Floats


def _joined(cells: Sequence[Codes], residual: Floats) -> _Binned:
    joint = np.zeros(len(residual), dtype=np.int64)
    for m, cell in zip(WIDTHS, cells, strict=True):
        joint = joint * m + cell
    seen = np.flatnonzero(np.bincount(joint, minlength=1))
    number = np.zeros(int(seen[-1]) + 1 if len(seen) else 0, dtype=np.int64)
    number[seen] = np.arange(len(seen))
    bins, rest = [], seen
    for m in reversed(WIDTHS):
        bins.append(rest % m)
        rest = rest // m
    return _Binned(number[joint], np.array(bins[::-1], dtype=np.int64), residual)


@dataclass(frozen=True)
class _Problem:
    """Means over rows and equal-width bins of one reading, over ``rows`` of the set (None: all)."""

    class_: str | None
    reading: str | None
    rows: Indices | None
    events: int | None
    means: dict[str, Floats]
    binned: _Binned


def measured(
    kind: Kind, classes: Sequence[str], p: Floats, y: Codes, cluster: Indices, draws: Draws, precision: Sequence[str]
) -> tuple[list[Point], Floats]:
    """Points and their replicates (draws, metrics); arguments as :func:`scorer.metrics.plan_for`.

    Proper scores, accuracy, ranks and binned errors; no fits, no thresholds, no selective risk.
    """
    points: list[Point] = []
    columns: list[Floats] = []
    for problem in _problems(kind, classes, p, y, precision):
        own, values = _of_problem(problem, cluster, draws)
        points += own
        columns.append(values)
    if kind == "multilabel":
        means, values = _over_classes(points, np.concatenate(columns, axis=1), len(classes), cluster)
        points += means
        columns.append(values)
    plan = plan_for(kind, classes, p, y, cluster, draws.patients, precision=precision, families=("mass", "rank"))
    points += plan.points()
    columns.append(replicates([plan], draws)[0])
    return points, np.concatenate(columns, axis=1)


def _over_classes(
    points: Sequence[Point], values: Floats, classes: int, cluster: Indices
) -> tuple[list[Point], Floats]:
    """The plain mean of each metric over the classes; ``points`` come class by class with the same metrics."""
    each, seen = len(points) // classes, int(np.count_nonzero(np.bincount(cluster)))
    means = []
    for i in range(each):
        own = [points[i + k * each] for k in range(classes)]
        value = float(np.mean([one.value for one in own]))
        reason = None if value == value else "undefined for a class"
        means.append(
            replace(
                own[0],
                metric=f"{own[0].metric}_macro",
                class_=None,
                bins_used=None,
                value=value,
                n_images=len(cluster),
                n_patients=seen,
                n_events=None,
                reason=reason,
                resamplable=all(one.resamplable for one in own),
            )
        )
    return means, np.asarray(values.reshape(len(values), classes, each).mean(axis=1))


def _problems(kind: Kind, classes: Sequence[str], p: Floats, y: Codes, precision: Sequence[str]) -> Iterator[_Problem]:
    if kind == "multiclass":
        confidence, hit = top_label(p, y)
        means = {"brier": squared_errors(p, y), "nll": log_losses(p, y)[0], "accuracy": hits(p, y)}
        binned = _joined([top_bins(p, m, tuple(precision)) for m in WIDTHS], hit - confidence)
        yield _Problem(None, TOP, None, None, means, binned)
        return
    for k, name in enumerate(classes if kind == "multilabel" else classes[1:]):
        rows, own, labels = None, p[:, k], y
        if kind == "multilabel":
            kept = np.flatnonzero(y[:, k] != -1)
            rows, own, labels = kept, p[kept, k], y[kept, k]
        means = {
            "brier_binary": squared_errors(own, labels),
            "nll": log_losses(own, labels)[0],
            "accuracy": hits(own, labels),
        }
        binned = _joined([width_bins(own, m, precision[k]) for m in WIDTHS], labels - own)
        yield _Problem(name if kind == "multilabel" else None, POSITIVE, rows, int(labels.sum()), means, binned)


def _of_problem(one: _Problem, cluster: Indices, draws: Draws) -> tuple[list[Point], Floats]:
    own = cluster if one.rows is None else cluster[one.rows]
    n, seen = len(own), int(np.count_nonzero(np.bincount(own)))
    whole, used = _values(one, np.ones(n))
    out = np.full((draws.resamples, len(whole)), np.nan)
    for first, last in blocks(draws.resamples, draws.patients):
        for row, weights in zip(range(first, last), draws.block(first, last), strict=True):
            out[row] = _values(one, weights[own])[0]
    names: list[tuple[str, int | None, int | None]] = [(metric, None, None) for metric in one.means]
    names += [(name, m, used[i]) for i, m in enumerate(WIDTHS) for name in _names(m)]
    return [
        Point(
            metric=name,
            reading=one.reading if bins else None,
            class_=one.class_,
            bins_asked=bins,
            bins_used=bins_used,
            cutoff=None,
            value=float(value),
            n_images=n,
            n_patients=seen,
            n_events=one.events,
            reason=None if n else NO_WEIGHT,
            resamplable=seen > 1,
        )
        for (name, bins, bins_used), value in zip(names, whole, strict=True)
    ], out


def _names(bins: int) -> tuple[str, ...]:
    return (f"ece_width{bins}", "mce") if bins == WIDTH_BINS else (f"ece_width{bins}",)


def _values(one: _Problem, weights: Floats) -> tuple[Floats, list[int]]:
    """Means, then the binned errors in the order of :func:`_names`, and the bins used of each number of bins."""
    total = float(weights.sum())
    if total <= 0.0:
        return np.full(len(one.means) + sum(len(_names(m)) for m in WIDTHS), np.nan), [0] * len(WIDTHS)
    values = [float(weights @ case) / total for case in one.means.values()]
    binned, used = one.binned, []
    n = binned.bins.shape[1]
    joint_mass = np.bincount(binned.cell, weights=weights, minlength=n)
    joint_gap = np.bincount(binned.cell, weights=weights * binned.residual, minlength=n)
    for m, cell in zip(WIDTHS, binned.bins, strict=True):
        mass = np.bincount(cell, weights=joint_mass, minlength=m)
        gap = np.abs(np.bincount(cell, weights=joint_gap, minlength=m))
        values.append(float(gap.sum()) / total)
        if m == WIDTH_BINS:
            values.append(float((gap[mass > 0.0] / mass[mass > 0.0]).max()))
        used.append(int((mass > 0.0).sum()))
    return np.array(values), used
