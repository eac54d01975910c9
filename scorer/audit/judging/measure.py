"""The metrics of the evidence, recomputed by the definitions of the edition, with intervals by cluster.

Draws are a pure function of the number of clusters and the slice, so the order of rows in a file can't change a bit
where units are known, and sets over the same clusters share them.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from protocol.types import Kind
from scorer.audit.judging import large
from scorer.audit.judging.rows import Indices, MetricRow, View, clusters, resampled, views
from scorer.audit.shapes import Codes, Evidence, Floats, PredictionSet, Scale
from scorer.bootstrap import COSTLY_DRAWS, draws_for, replicates
from scorer.intervals import interval
from scorer.metrics.plan import Point
from scorer.metrics.sets import plan_for

KEY = "mvc audit"
MOST, LEAST = 2000, 50  # draws
SECONDS = 15.0  # of resampling an audit, by the costs below
COST, COST_LARGE, COST_FITS = 15e-9, 60e-9, 50e-9  # seconds a draw and score: small sets, large ones, fits
VIEW_COST = 0.05e-3  # a draw, whatever the rows
ALSO = 2  # readings of a row beside its columns
LARGE = 500_000  # scores of a view from which rows are summed draw by draw
FITS = 400_000  # scores of an audit up to which slopes are fitted
USUAL = ("proper", "decisions", "mass", "width", "rank", "selective")
MASS = frozenset({"ece", "ece_top", "ace", "ace_nixon", "classwise_ece", "ece_debiased", "ece_debiased_squared"})
ONE_CLUSTER = "an interval needs at least two clusters"
NO_LABELS = "no labels"
NO_KIND = "whether one or several classes can be true at once is not known"
UNLIKE = "scores and labels do not fit each other"


@dataclass(frozen=True)
class Measures:
    """Rows of all sets, and what was left out of them, in words.

    ``unmeasured``: why, by title of the sets that have no metrics. ``draws`` is the number of resamples.
    """

    rows: tuple[MetricRow, ...]
    unmeasured: dict[str, str]
    draws: int
    limits: tuple[str, ...]


class Problem(NamedTuple):
    """What of a set can be measured, and with which families; ``note`` says what the values are of."""

    kind: Kind
    classes: tuple[str, ...]
    p: Floats
    y: Codes
    precision: tuple[str, ...]
    families: tuple[str, ...]
    note: str = ""


def measure(evidence: Evidence, *, most: int = MOST, progress: Callable[[str], None] | None = None) -> Measures:
    """All metrics of all sets that have labels and a scale on which they are defined.

    The number of draws is ``most`` and falls, never below 50 (or ``most``), where the rows are too many for the time;
    it is in every row.
    """
    unmeasured: dict[str, str] = {}
    work: list[tuple[PredictionSet, list[View]]] = []
    for one in evidence.sets:
        why = reason(one)
        found = [] if why else views(one, evidence)
        if not why and not len(found[0].rows):
            why = NO_LABELS
        if why:
            unmeasured[one.title] = why
        else:
            work.append((one, found))
    sizes = [(len(view.rows), one.scores.shape[1]) for one, found in work for view in found]
    fits = 0 < sum(rows * columns for rows, columns in sizes) <= FITS
    draws = min(most, budget(sizes, fits))
    rows: list[MetricRow] = []
    for one, found in work:
        problem = problem_of(one)
        for view in found:
            rows += _measured(one, problem, view, draws, fits)
        if progress is not None:
            progress(one.title)
    return Measures(tuple(rows), unmeasured, draws if work else 0, tuple(_limits(work, draws, most, fits, evidence)))


def budget(sizes: Sequence[tuple[int, int]], fits: bool) -> int:
    """Draws for views of so many (rows, columns), two digits of it, from 50 to 2,000."""
    fitted = sum(rows * columns for rows, columns in sizes) * COST_FITS * COSTLY_DRAWS if fits else 0.0
    each = sum(
        VIEW_COST + rows * (columns + ALSO) * (COST_LARGE if rows * columns > LARGE else COST)
        for rows, columns in sizes
    )
    room = max(SECONDS - fitted, SECONDS / 4.0) / max(each, 1e-12)
    if room >= MOST:
        return MOST
    whole = max(int(room), LEAST)
    step: int = 10 ** max(len(str(whole)) - 2, 0)
    return max(whole // step * step, LEAST)


def reason(one: PredictionSet) -> str:
    """Why nothing can be measured of a set, or ''."""
    if not (one.scale.usable and one.p is not None) and not one.scale.ranked:
        return one.scale.why or one.scale.scale.value
    if one.y is None or not (one.y >= 0).any():
        return NO_LABELS
    if one.kind is None:
        return NO_KIND
    table = one.p if one.p is not None else one.scores
    columns = 1 if one.kind == "binary" else len(one.classes)
    shape = table.shape if one.kind == "multilabel" else table.shape[:1]
    least = 1 if one.kind == "multilabel" else 2
    if table.shape[1] != columns or one.y.shape != shape or len(one.classes) < least:
        return UNLIKE
    if one.y.max() >= (2 if one.kind == "multilabel" else len(one.classes)):
        return UNLIKE
    if one.scale.usable and one.p is not None and not _within(one.p):
        return "values outside [0, 1]"
    return ""


def _within(p: Floats) -> bool:
    given = p[~np.isnan(p)] if np.isnan(p).any() else p
    return not given.size or bool(given.min() >= 0.0 and given.max() <= 1.0)


def problem_of(one: PredictionSet) -> Problem:
    """A set as :func:`scorer.metrics.plan_for` takes it; :func:`reason` must be ''."""
    kind, y = one.kind, one.y
    if kind is None or y is None:
        raise ValueError("a set without kind or labels has no metrics")
    precision = one.precision if len(one.precision) == one.scores.shape[1] else ("float64",) * one.scores.shape[1]
    if one.scale.changed:  # what was computed from the stored numbers has not their grid
        precision = ("float64",) * len(precision)
    usable = one.scale.usable and one.p is not None
    apart = kind == "multiclass" and (not usable or one.scale.scale is Scale.ONE_VS_REST)
    p = one.p if usable and one.p is not None else _order_of(one.scores)
    families = USUAL if usable else ("rank",)
    note = "" if usable else "order of the scores alone"
    if apart:
        y = np.where(y[:, None] < 0, -1, np.asarray(y[:, None] == np.arange(p.shape[1]), dtype=np.int64))
        kind = "multilabel"
        note = note or "each class against the rest: the scores of a row are not shares of one"
    if kind == "multilabel":
        y = np.where(np.isnan(p), -1, y)
        p = np.where(np.isnan(p), 0.0, p) if np.isnan(p).any() else p
    return Problem(kind, one.classes, p, y, precision, families, note)


def _order_of(scores: Floats) -> Floats:
    """Each column as its dense ranks in [0, 1], ties kept and NaN left."""
    out = np.full(scores.shape, np.nan)
    for k in range(scores.shape[1]):
        given = ~np.isnan(scores[:, k])
        values, place = np.unique(scores[given, k], return_inverse=True)
        out[given, k] = place.reshape(-1) / max(len(values) - 1, 1)
    return out


def _measured(one: PredictionSet, problem: Problem, view: View, draws: int, fits: bool) -> Iterator[MetricRow]:
    number, n = clusters(one, view.rows)
    p, y = problem.p[view.rows], problem.y[view.rows]
    drawn = draws_for(KEY, view.kind, view.name, patients=n, resamples=draws)
    few = min(draws, COSTLY_DRAWS)
    points: Sequence[Point]
    if p.size > LARGE and problem.families == USUAL:
        points, values = large.measured(problem.kind, problem.classes, p, y, number, drawn, problem.precision)
    else:
        families = (*problem.families, "logistic") if fits and problem.families == USUAL else problem.families
        plan = plan_for(problem.kind, problem.classes, p, y, number, n, precision=problem.precision, families=families)
        points, values = plan.points(), replicates([plan], drawn, costly=few)[0]
    zeros = certain_misses(problem, view.rows)
    for i, point in enumerate(points):
        own = values[: few if point.costly else draws, i]
        limits = interval(own, point.value)
        alone = point.reason is None and not point.resamplable
        note = problem.note
        if point.metric.startswith("nll") and (missed := zeros.get(point.class_ or "", sum(zeros.values()))):
            note = f"infinite without the floor of 1e-12: {missed:,} observed outcomes were given exactly 0"
        yield MetricRow(
            set=one.name,
            model=one.model,
            seed=one.seed,
            calibrator=one.calibrator,
            task=one.task,
            slice_kind=view.kind,
            slice=view.name,
            class_=point.class_ or "",
            metric=point.metric,
            reading=point.reading or "",
            bins=point.bins_asked,
            binning="" if point.bins_asked is None else _binning(point.metric),
            cutoff=point.cutoff,
            value=point.value,
            lo=float("nan") if alone else limits.lo,
            hi=float("nan") if alone else limits.hi,
            n_draws=len(own),
            n_undefined=limits.n_undefined,
            n_units=point.n_images,
            n_clusters=point.n_patients,
            n_events=point.n_events,
            reason=point.reason or (ONE_CLUSTER if alone else limits.reason or ""),
            note=note,
        )


def _binning(metric: str) -> str:
    stem = metric.removesuffix("_present").removesuffix("_macro")
    return "equal-mass" if stem in MASS else "equal-width"


def certain_misses(problem: Problem, rows: Indices) -> dict[str, int]:
    """By class ('' where none is meant): outcomes that were observed and given a probability of exactly 0."""
    if problem.families != USUAL:
        return {}
    p, y = problem.p[rows], problem.y[rows]
    if problem.kind == "multilabel":
        missed = ((p == 0.0) & (y == 1)) | ((p == 1.0) & (y == 0))
        return {name: int(n) for name, n in zip(problem.classes, missed.sum(axis=0), strict=True) if n}
    if problem.kind == "binary":
        n = int((((p[:, 0] == 0.0) & (y == 1)) | ((p[:, 0] == 1.0) & (y == 0))).sum())
    else:
        n = int((p[np.arange(len(p)), y] == 0.0).sum())
    return {"": n} if n else {}


def _limits(
    work: Sequence[tuple[PredictionSet, list[View]]], draws: int, most: int, fits: bool, evidence: Evidence
) -> Iterator[str]:
    if not work:
        return
    words = sorted({resampled(evidence, one) for one, _ in work})
    yield f"intervals: 95 %, percentile, {draws:,} resamples by {' or '.join(words)}"
    if draws < MOST:
        why = "there are many rows" if draws < most else "as asked"
        yield f"{draws:,} resamples in place of {MOST:,}, {why}: the limits are rougher (MVC502 asks for 1,000)"
    if not fits:
        yield f"calibration slopes left out: more than {FITS:,} scores"
    if any(one.scores.size > LARGE for one, _ in work):
        yield f"selective risk and class-wise decisions left out of sets of more than {LARGE:,} scores"
