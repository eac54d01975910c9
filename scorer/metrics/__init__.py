"""Metrics as pure float64 functions of probabilities, labels and case weights, and the set of them that a task is
scored by.

The functions take plain arrays. :func:`plan_for` prepares the whole set for one run in one slice, ranked and summed
once, so that it can be evaluated under many vectors of patient weights; the point values are the same kernels under
weights of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from scorer.metrics.binned import BINS, Binned, ClasswiseEce, classwise_ece, ece, ece_kernel
from scorer.metrics.proper import (
    NO_WEIGHT,
    Floats,
    Ints,
    Nll,
    Value,
    accuracy,
    brier,
    brier_binary,
    checked,
    hits,
    log_losses,
    nll,
    squared_errors,
)
from scorer.metrics.rank import (
    Classwise,
    Indices,
    Ranking,
    auroc,
    auroc_classwise,
    auroc_kernel,
    auroc_undefined,
    cumulate,
    rank,
)

__all__ = [
    "Binned",
    "Classwise",
    "ClasswiseEce",
    "Kind",
    "Nll",
    "Plan",
    "Point",
    "Value",
    "accuracy",
    "auroc",
    "auroc_classwise",
    "brier",
    "brier_binary",
    "classwise_ece",
    "ece",
    "nll",
    "plan_for",
]

Kind = Literal["binary", "multiclass", "multilabel"]

TOP, CLASSWISE, POSITIVE = "top-label", "class-wise", "positive class"


@dataclass(frozen=True)
class Point:
    """One metric of one set of images. ``value`` is NaN exactly when ``reason`` says why.

    ``class_`` is None where no one class is meant (and for the positive class of a binary task); ``n_events`` counts
    the images of the class, None where no one class is meant. ``bins_used`` is None for metrics without bins and for
    means over classes. ``resamplable`` is false where it, or a class that it is a mean of, has fewer than two patients.
    """

    metric: str
    reading: str | None
    class_: str | None
    bins_asked: int | None
    bins_used: int | None
    value: float
    n_images: int
    n_patients: int
    n_events: int | None
    reason: str | None
    resamplable: bool = True


@dataclass(frozen=True)
class Cases:
    """The images that a metric is over: the number of each one's patient, (n,), and how many are of ``class_``."""

    class_: str | None
    patient: Indices
    events: int | None

    @cached_property
    def n_patients(self) -> int:
        return len(np.unique(self.patient))


@dataclass(frozen=True)
class Heading:
    """What is known of a metric before it is evaluated: its names, its images, and the reason if it is undefined in
    them."""

    metric: str
    reading: str | None
    bins_asked: int | None
    cases: Cases
    reason: str | None


@dataclass(frozen=True)
class Column:
    """One score column, ranked: patient, residual and class of the case at each position, and the places of its
    values."""

    ranking: Ranking
    patient: Indices
    residual: Floats
    positive: NDArray[np.bool_]
    ece: tuple[int, ...]
    auroc: int | None


@dataclass
class Plan:
    """The metrics of one run in one slice, prepared. ``headings`` are in the order of the values.

    ``sums``: metrics that are means over images, as (place, sum per patient, images per patient). ``means``: metrics
    that are plain means of others, as (place, their places). ``floored``: (class, images at the NLL floor).
    """

    patients: int
    headings: list[Heading] = field(default_factory=list)
    sums: list[tuple[int, Floats, Floats]] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    means: list[tuple[int, list[int]]] = field(default_factory=list)
    floored: list[tuple[str | None, int]] = field(default_factory=list)

    def evaluate(self, weights: Floats) -> tuple[Floats, Ints]:
        """Values and bins used, (D, metrics) each, under patient ``weights`` (D, patients); NaN and 0 where
        undefined."""
        values = np.full((len(weights), len(self.headings)), np.nan)
        used = np.zeros(values.shape, dtype=np.int64)
        for place, total, images in self.sums:
            # a product and numpy's own sum, row by row: no BLAS, so neither threads nor block size can change a bit
            count = (weights * images).sum(axis=1)
            np.divide((weights * total).sum(axis=1), count, out=values[:, place], where=count > 0.0)
        for column in self.columns:
            w = np.take(weights, column.patient, axis=1)
            cum = cumulate(w)
            if column.ece:
                error, bins = ece_kernel(column.ranking, column.residual, w, cum, BINS)
                values[:, column.ece], used[:, column.ece] = error[:, None], bins[:, None]
            if column.auroc is not None:
                values[:, column.auroc] = auroc_kernel(column.ranking, column.positive, w, cum)
        for place, members in self.means:
            if members:
                values[:, place] = np.take(values, members, axis=1).mean(axis=1)
        return values, used

    def points(self) -> list[Point]:
        """The metrics under weights of one."""
        values, used = self.evaluate(np.ones((1, self.patients)))
        binned = {place for column in self.columns for place in column.ece}
        parts = dict(self.means)
        return [
            Point(
                metric=heading.metric,
                reading=heading.reading,
                class_=heading.cases.class_,
                bins_asked=heading.bins_asked,
                bins_used=int(used[0, i]) if i in binned else None,
                value=float(values[0, i]),
                n_images=len(heading.cases.patient),
                n_patients=heading.cases.n_patients,
                n_events=heading.cases.events,
                reason=heading.reason,
                resamplable=all(self.headings[part].cases.n_patients > 1 for part in (i, *parts.get(i, ()))),
            )
            for i, heading in enumerate(self.headings)
        ]

    def add(self, metric: str, reading: str | None, cases: Cases, reason: str | None, bins: int | None = None) -> int:
        """Add a metric and return its place."""
        self.headings.append(Heading(metric, reading, bins, cases, reason))
        return len(self.headings) - 1

    def add_proper(self, p: Floats, y: Ints, cases: Cases) -> None:
        """Add Brier score, NLL and accuracy of ``p`` (n,) or (n, K)."""
        losses, floored = log_losses(p, y)
        self.floored.append((cases.class_, int(floored.sum())))
        images = np.bincount(cases.patient, minlength=self.patients).astype(np.float64)
        name = "brier_binary" if p.ndim == 1 else "brier"
        for metric, case in ((name, squared_errors(p, y)), ("nll", losses), ("accuracy", hits(p, y))):
            place = self.add(metric, None, cases, None if len(case) else NO_WEIGHT)
            per_patient = np.bincount(cases.patient, weights=case, minlength=self.patients)
            self.sums.append((place, per_patient.astype(np.float64), images))

    def add_ece(self, metric: str, reading: str, cases: Cases) -> int:
        """Add a binned metric over ``cases``; its values come from a column."""
        return self.add(metric, reading, cases, None if len(cases.patient) else NO_WEIGHT, BINS)

    def add_auroc(self, reading: str, cases: Cases) -> int:
        """Add the AUROC of the class of ``cases``; its values come from a column."""
        return self.add("auroc", reading, cases, auroc_undefined(len(cases.patient), cases.events or 0))

    def add_column(self, score: Floats, outcome: Floats, cases: Cases, ece: tuple[int, ...], auroc: int | None) -> None:
        """Rank ``score`` (n,) with ``outcome`` in [0, 1] (1 for the class) and send its values to these places."""
        ranking = rank(score)
        ordered = outcome[ranking.order]
        residual = ordered - score[ranking.order]
        self.columns.append(Column(ranking, cases.patient[ranking.order], residual, ordered == 1.0, ece, auroc))

    def add_macro(self, metric: str, whole: Cases) -> None:
        """Add the means of a per-class metric over the declared classes and over those in which it is defined.

        The second keeps its classes in every resample: a resample that lacks one is undefined, it does not average
        fewer.
        """
        places = [i for i, one in enumerate(self.headings) if one.metric == metric and one.cases.class_ is not None]
        missing = [i for i in places if self.headings[i].reason is not None]
        reason = "undefined for class " + ", ".join(str(self.headings[i].cases.class_) for i in missing)
        reading, bins = self.headings[places[0]].reading, self.headings[places[0]].bins_asked
        place = self.add(f"{metric}_macro", reading, whole, reason if missing else None, bins)
        self.means.append((place, places))
        present = [i for i in places if i not in missing]
        place = self.add(
            f"{metric}_macro_present", reading, whole, None if present else "undefined for every class", bins
        )
        self.means.append((place, present))


def plan_for(kind: Kind, classes: Sequence[str], p: Floats, y: Ints, patient: Indices, patients: int) -> Plan:
    """Prepare the set of metrics of a task ``kind`` for one run's images.

    ``p`` (N, K), columns in the order of ``classes``; binary: (N, 1), P(second class). ``y`` (N,) class indices;
    multilabel: (N, K) of 0, 1, or -1 for not labelled. ``patient`` (N,) numbers in 0 .. patients - 1. Sums run in the
    order of the rows. binary: brier_binary, nll, accuracy, ece, auroc, classwise_ece. multiclass: brier, nll, accuracy,
    ece (top-label), and per class and over classes classwise_ece, auroc. multilabel: those of binary but the last, for
    each finding over the images labelled for it, then ``<metric>_macro`` and ``<metric>_macro_present``. Raises
    ValueError on shapes that do not fit, and as :func:`checked`.
    """
    columns = 1 if kind == "binary" else len(classes)
    shape = (len(p), columns) if kind == "multilabel" else (len(p),)
    if p.shape != (len(p), columns) or y.shape != shape or (kind != "multilabel" and len(classes) < 2):
        raise ValueError(
            f"{kind} with {len(classes)} classes: p of shape {p.shape} and y of shape {y.shape} do not fit"
        )
    plan = Plan(patients)
    if kind == "multilabel":
        _add_findings(plan, classes, p, y, patient)
    elif kind == "binary":
        _add_binary(plan, classes, p[:, 0], y, patient)
    else:
        _add_multiclass(plan, classes, p, y, patient)
    return plan


def _add_binary(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices) -> None:
    p, y, _ = checked(p, y)
    events = int(y.sum())
    whole = Cases(None, patient, events)
    plan.add_proper(p, y, whole)
    headline, area = plan.add_ece("ece", POSITIVE, whole), plan.add_auroc(POSITIVE, whole)
    negative, positive = Cases(classes[0], patient, len(y) - events), Cases(classes[1], patient, events)
    per_class = [plan.add_ece("classwise_ece", CLASSWISE, cases) for cases in (negative, positive)]
    plan.means.append((plan.add_ece("classwise_ece", CLASSWISE, Cases(None, patient, None)), per_class))
    plan.add_column(p, y.astype(np.float64), whole, (headline, per_class[1]), area)
    plan.add_column(1.0 - p, (1 - y).astype(np.float64), whole, (per_class[0],), None)


def _add_multiclass(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices) -> None:
    p, y, _ = checked(p, y)
    whole = Cases(None, patient, None)
    plan.add_proper(p, y, whole)
    plan.add_column(p.max(axis=1), hits(p, y), whole, (plan.add_ece("ece", TOP, whole),), None)
    per_class = []
    for k, name in enumerate(classes):
        outcome = (y == k).astype(np.float64)
        cases = Cases(name, patient, int(outcome.sum()))
        per_class.append(plan.add_ece("classwise_ece", CLASSWISE, cases))
        plan.add_column(p[:, k], outcome, cases, (per_class[k],), plan.add_auroc(CLASSWISE, cases))
    plan.means.append((plan.add_ece("classwise_ece", CLASSWISE, whole), per_class))
    plan.add_macro("auroc", whole)


def _add_findings(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices) -> None:
    for k, name in enumerate(classes):
        labelled = y[:, k] != -1
        own, label, _ = checked(p[labelled, k], y[labelled, k])
        cases = Cases(name, patient[labelled], int(label.sum()))
        plan.add_proper(own, label, cases)
        places = (plan.add_ece("ece", POSITIVE, cases),)
        plan.add_column(own, label.astype(np.float64), cases, places, plan.add_auroc(POSITIVE, cases))
    for metric in ("brier_binary", "nll", "accuracy", "ece", "auroc"):
        plan.add_macro(metric, Cases(None, patient, None))
