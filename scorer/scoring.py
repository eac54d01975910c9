"""From predictions and labels to tidy rows: every metric with its interval, per run, seed mean and slice.

The evaluated images are put in the order of their ids and patients are numbered in the order of theirs before anything
is summed, so the same numbers come out, bit for bit, whatever the order of the rows given.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from protocol.types import Kind
from scorer.bootstrap import COSTLY_DRAWS, COSTLY_GROUPS, draws_for, left_out, replicates
from scorer.curves import curves_of
from scorer.intervals import Interval, Method, check_interval, interval
from scorer.metrics.plan import Plan, Point
from scorer.metrics.sets import FAMILIES, plan_for
from scorer.rows import MEAN, Count, Curves, Replicates, Row, Run, Scores, Sinks, Spread

Floats = NDArray[np.float64]
Slice = tuple[str, str]

ONE_PATIENT = "an interval needs at least two patients"


@dataclass(frozen=True)
class Cohort:
    """The evaluated images (split 'test' or 'external'), one entry an image, in any order.

    ``patient`` is the id of the clustering unit. ``labels`` (N,) are class indices; for multilabel (N, K) of 0, 1 or -1
    (not labelled). ``subgroups`` maps a declared column to the level of each image, '' where it is not known.
    """

    image_id: NDArray[np.str_]
    patient: NDArray[np.str_]
    split: NDArray[np.str_]
    site: NDArray[np.str_]
    labels: NDArray[np.int64]
    subgroups: Mapping[str, NDArray[np.str_]]


@dataclass(frozen=True)
class TaskSet:
    """What a task fixes for its metrics: kind, classes in order, thresholds, whether classes are ordinal.

    ``precision`` is how each probability column was stored (float64 if empty), ``families`` those that are computed.
    """

    kind: Kind
    classes: Sequence[str]
    thresholds: Sequence[float] = ()
    ordinal: bool = False
    precision: Sequence[str] = ()
    families: Collection[str] = FAMILIES

    def plan(self, p: Floats, y: NDArray[np.int64], patient: NDArray[np.intp], patients: int) -> Plan:
        """The metrics of one run's images; arguments and errors as :func:`scorer.metrics.plan_for`."""
        return plan_for(
            self.kind,
            self.classes,
            p,
            y,
            patient,
            patients,
            thresholds=self.thresholds,
            ordinal=self.ordinal,
            precision=self.precision,
            families=self.families,
        )


@dataclass(frozen=True)
class _View:
    """A slice of the sorted cohort: the rows, each one's patient number, and how many patients there are."""

    kind: str
    name: str
    rows: NDArray[np.intp]
    patient: NDArray[np.intp]
    patients: int


@dataclass(frozen=True)
class _Settings:
    submission: str
    task: TaskSet
    key: str
    resamples: int
    level: float
    method: Method
    workers: int | None
    sinks: Sinks | None


def point_values(kind: Kind, classes: Sequence[str], p: Floats, y: NDArray[np.int64]) -> list[Point]:
    """The metrics of one set of images, without intervals; shapes and errors as :func:`scorer.metrics.plan_for`.

    Every image counts as a patient of its own. Equal to the values of :func:`score` up to the rounding of the sums.
    """
    images = np.arange(len(p))
    return plan_for(kind, classes, np.asarray(p, dtype=np.float64), y, images, len(p)).points()


def score(
    *,
    submission: str,
    task: TaskSet,
    cohort: Cohort,
    runs: Sequence[Run],
    predictions: Callable[[Run], Floats],
    key: str,
    resamples: int = 2000,
    level: float = 0.95,
    method: Method = "percentile",
    progress: Callable[[Run], None] | None = None,
    slices: Sequence[Slice] | None = None,
    sinks: Sinks | None = None,
    workers: int | None = None,
) -> Scores:
    """Score ``runs`` on every slice, with bootstrap intervals by patient.

    ``predictions(run)`` gives probabilities (N, K) (binary: (N, 1), P(second class)) in the cohort's own row order; it
    is called once a run. ``key`` names edition and task: with the same key a slice has the same draws whoever submits.
    ``slices`` defaults to :func:`slices_of`. Rows come by model, calibrator, slice, seed (then 'mean', if there are two
    or more), whatever the order of ``runs``; one model with one calibrator is held in memory at a time. The value of a
    seed mean is the mean over seeds, its interval that of the mean of the seeds' replicates; both are undefined where
    one seed is. Fits and smoothers get the first :data:`scorer.bootstrap.COSTLY_DRAWS` of the resamples. ``sinks`` are
    given replicates and curves, ``progress(run)`` is called when a run is scored; ``workers`` threads can't change a
    bit. Raises ValueError for duplicate images or runs, arrays that do not fit, an unknown slice, a
    probability that is NaN or outside [0, 1], or a label that is no class.
    """
    check_interval(level, method)
    if len(set(runs)) != len(runs):
        raise ValueError("the same run is given twice")
    order = _order(cohort)
    ordered = Cohort(
        image_id=cohort.image_id[order],
        patient=cohort.patient[order],
        split=cohort.split[order],
        site=cohort.site[order],
        labels=cohort.labels[order],
        subgroups={name: levels[order] for name, levels in cohort.subgroups.items()},
    )
    views = [_view(ordered, one) for one in (slices_of(cohort) if slices is None else slices)]
    settings = _Settings(submission, task, key, resamples, level, method, workers, sinks)
    rows: list[Row] = []
    spread: list[Spread] = []
    counts = _unlabelled(task.classes, ordered, views) if task.kind == "multilabel" else []
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in sorted(runs, key=lambda run: (run.model, run.calibrator, run.seed)):
        groups.setdefault((run.model, run.calibrator), []).append(run)
    for group in groups.values():
        tables = [_table(predictions(run), order) for run in group]
        for view in views:
            plans = [
                task.plan(table[view.rows], ordered.labels[view.rows], view.patient, view.patients) for table in tables
            ]
            rows += _score_view(group, view, plans, settings, spread)
            if sinks is not None and view.kind != "subgroup":
                for run, table in zip(group, tables, strict=True):
                    sinks.curves(_curves(run, view, table[view.rows], ordered.labels[view.rows], settings))
            for run, plan in zip(group, plans, strict=True):
                for what, found in (("nll_floored", plan.floored), ("logit_clipped", plan.clipped)):
                    counts += [
                        Count(what, run.model, str(run.seed), run.calibrator, view.kind, view.name, class_, n)
                        for class_, n in found
                        if n
                    ]
        if progress is not None:
            for run in group:
                progress(run)
    return Scores(tuple(rows), tuple(spread), tuple(counts), level)


def slices_of(cohort: Cohort) -> list[Slice]:
    """All slices: ('test', 'all'), each external site by name, then each subgroup level within test, columns in
    order."""
    external = np.unique(cohort.site[cohort.split == "external"])
    found = [("test", "all")] if (cohort.split == "test").any() else []
    found += [("external", str(site)) for site in external]
    for column, levels in cohort.subgroups.items():
        found += [("subgroup", f"{column}={level}") for level in np.unique(levels[cohort.split == "test"]) if level]
    return found


def _order(cohort: Cohort) -> NDArray[np.intp]:
    """Rows in the order of their image ids, after checking that the cohort's arrays fit together."""
    n = len(cohort.image_id)
    columns = [cohort.patient, cohort.split, cohort.site, cohort.labels, *cohort.subgroups.values()]
    if any(len(column) != n for column in columns):
        raise ValueError("the columns of the cohort differ in length")
    if not np.isin(cohort.split, ["test", "external"]).all():
        raise ValueError("split must be 'test' or 'external' for every evaluated image")
    order = np.argsort(cohort.image_id, kind="stable")
    ids = cohort.image_id[order]
    if (ids[1:] == ids[:-1]).any():
        raise ValueError("an image id occurs twice")
    return order


def _table(p: Floats, order: NDArray[np.intp]) -> Floats:
    table = np.asarray(p, dtype=np.float64)
    if table.ndim != 2 or len(table) != len(order):
        raise ValueError(f"predictions must have shape ({len(order)}, K), not {table.shape}")
    return table[order]


def _view(cohort: Cohort, chosen: Slice) -> _View:
    kind, name = chosen
    test = cohort.split == "test"
    if chosen == ("test", "all"):
        kept = test
    elif kind == "external":
        kept = (cohort.split == "external") & (cohort.site == name)
    else:
        column = next((c for c in cohort.subgroups if kind == "subgroup" and name.startswith(f"{c}=")), None)
        if column is None:
            raise ValueError(f"unknown slice {chosen}")
        kept = test & (cohort.subgroups[column] == name.removeprefix(f"{column}="))
    rows = np.flatnonzero(kept)
    units, patient = np.unique(cohort.patient[rows], return_inverse=True)
    return _View(kind, name, rows, patient, len(units))


def _unlabelled(classes: Sequence[str], cohort: Cohort, views: Sequence[_View]) -> list[Count]:
    missing = [(view, (cohort.labels[view.rows] == -1).sum(axis=0)) for view in views]
    return [
        Count("unlabelled", None, None, None, view.kind, view.name, name, int(n))
        for view, per_class in missing
        for name, n in zip(classes, per_class, strict=True)
        if n
    ]


def _score_view(
    group: Sequence[Run], view: _View, plans: Sequence[Plan], settings: _Settings, spread: list[Spread]
) -> list[Row]:
    """Rows of one model with one calibrator in one slice, seed by seed, then of their mean; adds to ``spread``."""
    points = [plan.points() for plan in plans]
    draws = draws_for(settings.key, view.kind, view.name, patients=view.patients, resamples=settings.resamples)
    few = min(settings.resamples, COSTLY_DRAWS)
    drawn = replicates(plans, draws, costly=few, workers=settings.workers)
    without = left_out(plans, view.patients, workers=settings.workers) if settings.method == "bca" else None
    seeds = [str(run.seed) for run in group]
    if len(group) > 1:
        seeds.append(MEAN)
        points.append([_over_seeds(column) for column in zip(*points, strict=True)])
        drawn = np.concatenate((drawn, drawn.mean(axis=0, keepdims=True)))
        without = None if without is None else np.concatenate((without, without.mean(axis=0, keepdims=True)))
    rows: list[Row] = []
    for i, (seed, own) in enumerate(zip(seeds, points, strict=True)):
        run = group[min(i, len(group) - 1)]
        rows += _rows(run, seed, view, own, drawn[i], None if without is None else without[i], few, settings)
        if settings.sinks is not None:
            settings.sinks.replicates(
                Replicates(run.model, seed, run.calibrator, view.kind, view.name, own, drawn[i], few)
            )
    spread += _spreads(group, view, points[: len(group)])
    return rows


def _curves(run: Run, view: _View, p: Floats, y: NDArray[np.int64], settings: _Settings) -> Curves:
    task = settings.task
    key = json.dumps([settings.key, view.kind, view.name])
    found = curves_of(task.kind, tuple(task.classes), p, y, key=key, precision=tuple(task.precision))
    return Curves(run.model, str(run.seed), run.calibrator, view.kind, view.name, found)


def _spreads(group: Sequence[Run], view: _View, points: Sequence[Sequence[Point]]) -> list[Spread]:
    """Each metric over the seeds of one model with one calibrator in one slice."""
    values = np.array([[point.value for point in own] for own in points])
    return [
        Spread(
            model=group[0].model,
            calibrator=group[0].calibrator,
            slice_kind=view.kind,
            slice=view.name,
            class_=point.class_,
            metric=point.metric,
            bins_asked=point.bins_asked,
            cutoff=point.cutoff,
            n=len(over),
            mean=float(over.mean()),
            sd=float(over.std(ddof=1)) if len(over) > 1 else float("nan"),
            min=float(over.min()),
            max=float(over.max()),
        )
        for point, over in zip(points[0], values.T, strict=True)
    ]


def _over_seeds(points: Sequence[Point]) -> Point:
    """The mean of one metric over seeds; bins used are given only if all seeds agree."""
    used = {point.bins_used for point in points}
    value = float(np.mean([point.value for point in points]))
    reason = next((point.reason for point in points if point.reason is not None), None)
    if len({point.parts for point in points}) > 1:
        value, reason = float("nan"), "the seeds differ in the classes for which it is defined"
    return replace(points[0], value=value, reason=reason, bins_used=used.pop() if len(used) == 1 else None)


def _rows(
    run: Run,
    seed: str,
    view: _View,
    points: Sequence[Point],
    drawn: Floats,
    without: Floats | None,
    few: int,
    settings: _Settings,
) -> list[Row]:
    rows = []
    for i, point in enumerate(points):
        n_draws = few if point.costly else settings.resamples
        left = None if without is None else without[: COSTLY_GROUPS if point.costly else None, i]
        limits = interval(drawn[:n_draws, i], point.value, level=settings.level, method=settings.method, left_out=left)
        # every draw is the same: a width of zero would be a false claim
        if point.reason is None and not point.resamplable:
            limits = Interval(float("nan"), float("nan"), limits.n_undefined, ONE_PATIENT)
        rows.append(
            Row(
                submission=settings.submission,
                model=run.model,
                seed=seed,
                calibrator=run.calibrator,
                slice_kind=view.kind,
                slice=view.name,
                class_=point.class_,
                metric=point.metric,
                reading=point.reading,
                bins_asked=point.bins_asked,
                bins_used=point.bins_used,
                cutoff=point.cutoff,
                value=point.value,
                lo=limits.lo,
                hi=limits.hi,
                method=settings.method,
                n_draws=n_draws,
                n_undefined=limits.n_undefined,
                n_images=point.n_images,
                n_patients=point.n_patients,
                n_events=point.n_events,
                reason=point.reason if point.reason is not None else limits.reason,
            )
        )
    return rows
