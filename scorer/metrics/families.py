"""How each family of metrics gets into a plan: headings for the values, and what they are computed from."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.catalogue import CLASSWISE, COVERAGES, POSITIVE, TOP
from scorer.metrics.arrays import (
    NO_EVENTS,
    NO_NON_EVENTS,
    NO_WEIGHT,
    Floats,
    Indices,
    Ints,
    hits,
    largest,
    ratio,
    undefined_class,
)
from scorer.metrics.binned import (
    BINS,
    WIDTH_BINS,
    ace_of,
    debiased_of,
    ece_of,
    mce_of,
    mce_weighted_of,
    used,
    width_bins,
)
from scorer.metrics.cells import Cells, Read
from scorer.metrics.column import Bins
from scorer.metrics.decisions import NO_DISAGREEMENT, confusion_shares, f1_of, kappa_of, recall_of, slack
from scorer.metrics.decomposition import murphy_of
from scorer.metrics.plan import Cases, Places, Plan
from scorer.metrics.proper import log_losses, squared_errors
from scorer.metrics.smooth import CELLS, on_grid, smooth_ece_of

THRESHOLD = ("sensitivity", "specificity", "net_benefit", "net_benefit_treat_all", "net_benefit_treat_none")


def add_proper(plan: Plan, p: Floats, y: Ints, cases: Cases, name: str) -> None:
    losses, floored = log_losses(p, y)
    plan.floored.append((cases.class_, int(floored.sum())))
    reason = None if len(y) else NO_WEIGHT
    values = ((name, squared_errors(p, y)), ("nll", losses))
    add_means(plan, cases.patient, [(plan.add(metric, None, cases, reason), case) for metric, case in values])


def add_means(plan: Plan, patient: Indices, values: list[tuple[int, Floats]]) -> None:
    """Metrics that are means over images, as (place, value of each image)."""
    entries: list[tuple[Indices, int, Any]] = [(patient, 0, 1.0)]
    entries += [(patient, 1 + i, value) for i, (_, value) in enumerate(values)]
    plan.cells.add(1 + len(values), entries, tuple(place for place, _ in values), lambda c: Read(ratio(c[1:], c[0])))


def add_table(plan: Plan, p: Floats, y: Ints, patient: Indices, places: Places, of: Callable[[Floats], Read]) -> None:
    """Metrics made from the confusion table (K, K, D) of the arg-max."""
    k = 2 if p.ndim == 1 else p.shape[1]
    case, predicted, credit = confusion_shares(p, y)
    entries = [(patient[case], y[case] * k + predicted, credit)]
    plan.cells.add(k * k, entries, places, lambda c: of(c.reshape(k, k, -1)))


def add_decisions(
    plan: Plan, p: Floats, y: Ints, cases: Cases, precision: str, thresholds: Sequence[float], ordinal: bool
) -> None:
    undefined = undefined_class(len(y), cases.events or 0)
    empty = None if len(y) else NO_WEIGHT
    accuracy = plan.add("accuracy", None, cases, empty)
    add_means(plan, cases.patient, [(accuracy, hits(p, y))])
    places = [plan.add("balanced_accuracy", None, cases, undefined)]
    places.append(plan.add("f1", POSITIVE, cases, empty or (None if cases.events else NO_EVENTS)))
    add_table(
        plan, p, y, cases.patient, tuple(places),
        lambda table: Read(np.stack((recall_of(table).mean(axis=0), f1_of(table)[1]))),
    )  # fmt: skip
    if ordinal:
        kappa = plan.add("kappa_quadratic", None, cases, no_kappa(p, y))
        add_table(plan, p, y, cases.patient, (kappa,), lambda table: Read(kappa_of(table)[None, :]))
    for t in thresholds:
        add_threshold(plan, p >= t - slack(precision, t), y, cases, t)


def add_threshold(plan: Plan, called: NDArray[np.bool_], y: Ints, cases: Cases, t: float) -> None:
    events = cases.events or 0
    empty = None if len(y) else NO_WEIGHT
    no_events, no_others = (None if events else NO_EVENTS), (None if events < len(y) else NO_NON_EVENTS)
    reasons = (empty or no_events, empty or no_others, empty, empty, empty)
    places = tuple(
        plan.add(name, POSITIVE, cases, reason, cutoff=t) for name, reason in zip(THRESHOLD, reasons, strict=True)
    )
    cell = 2 * y + called  # true and false negatives and positives

    def of(c: Floats) -> Read:
        tn, fp, fn, tp = c
        others, own, odds = tn + fp, fn + tp, t / (1.0 - t)
        rates = [ratio(tp, own), ratio(tn, others)]
        benefits = [ratio(tp - odds * fp, own + others), ratio(own - odds * others, own + others)]
        return Read(np.stack((*rates, *benefits, ratio(0.0 * own, own + others))))

    plan.cells.add(4, [(cases.patient, cell, 1.0)], places, of)


def add_mass(plan: Plan, reading: str, cases: Cases) -> Places:
    return add_all(plan, ("ece", "ace", "ece_debiased", "ece_debiased_squared"), reading, cases, BINS)


def errors(bins: Bins) -> Read:
    squared = debiased_of(bins)
    values = (ece_of(bins), ace_of(bins), np.sqrt(np.maximum(squared, 0.0)), squared)
    return Read(np.stack(values), used(bins))


def first_error(bins: Bins) -> Read:
    return Read(ece_of(bins)[None, :], used(bins))


def add_classwise(plan: Plan, cases: Cases) -> Places:
    return add_all(plan, ("classwise_ece", "ace_nixon"), CLASSWISE, cases, BINS)


def classwise_errors(bins: Bins) -> Read:
    return Read(np.stack((ece_of(bins), ace_of(bins))), used(bins))


def parts(bins: Bins) -> Read:
    return Read(murphy_of(bins), used(bins))


def add_binned(plan: Plan, metric: str, reading: str, cases: Cases, bins: int) -> int:
    return plan.add(metric, reading, cases, None if len(cases.patient) else NO_WEIGHT, bins=bins)


def add_all(
    plan: Plan, metrics: Sequence[str], reading: str, cases: Cases, bins: int | None = None, *, costly: bool = False
) -> Places:
    """Add metrics that are undefined only without images, or when a fit fails."""
    reason = None if len(cases.patient) else NO_WEIGHT
    return tuple(plan.add(metric, reading, cases, reason, bins=bins, costly=costly) for metric in metrics)


def add_ranks(plan: Plan, reading: str, cases: Cases) -> Places:
    reason = undefined_class(len(cases.patient), cases.events or 0)
    return tuple(plan.add(metric, reading, cases, reason) for metric in ("auroc", "auprc"))


def add_selective(plan: Plan, cases: Cases) -> Places:
    reason = None if len(cases.patient) else NO_WEIGHT
    area = plan.add("aurc", TOP, cases, reason)
    return (area, *(plan.add("risk_at_coverage", TOP, cases, reason, cutoff=cutoff) for cutoff in COVERAGES))


def top_bins(p: Floats, bins: int, precision: tuple[str, ...]) -> Ints:
    """Equal-width bins of the largest probability, by the stored precision of its own column."""
    confidence = largest(p)
    if len(set(precision)) == 1:
        return width_bins(confidence, bins, precision[0])
    own = p.argmax(axis=1)
    cells = np.zeros(len(p), dtype=np.int64)
    for k, stored in enumerate(precision):
        cells[own == k] = width_bins(confidence[own == k], bins, stored)
    return cells


def add_width(plan: Plan, bins: dict[int, Ints], p: Floats, outcome: Floats, reading: str, cases: Cases) -> None:
    """The equal-width errors, ``bins`` giving the bin of each image for 10, 15 and 20 bins."""
    for m, cell in bins.items():
        names = [f"ece_width{m}"] + (["mce"] if m == WIDTH_BINS else []) + (["mce_weighted"] if m != BINS else [])
        functions = {"mce": mce_of, "mce_weighted": mce_weighted_of}
        places = tuple(add_binned(plan, name, reading, cases, m) for name in names)
        add_bins(plan, cell, outcome - p, cases, places, tuple(functions.get(name, ece_of) for name in names))


def add_wsece(plan: Plan, cell: Ints, confidence: Floats, hit: Floats, y: Ints, classes: int, cases: Cases) -> None:
    place = add_binned(plan, "wsece", TOP, cases, WIDTH_BINS)
    residual, by_class = hit - confidence, y * WIDTH_BINS + cell

    def of(c: Floats) -> Read:
        bins = as_bins(c)
        most = (bins.weight.reshape(classes, WIDTH_BINS, -1) > 0.0).sum(axis=1).max(axis=0)
        return Read(ece_of(bins)[None, :], np.asarray(most, dtype=np.int64))

    add_pairs(plan.cells, by_class, classes * WIDTH_BINS, residual, cases, (place,), of)


def add_bins(
    plan: Plan,
    cell: Ints,
    residual: Floats,
    cases: Cases,
    places: Places,
    functions: Sequence[Callable[[Bins], Floats]],
) -> None:
    n = plan.headings[places[0]].bins or 0

    def of(c: Floats) -> Read:
        bins = as_bins(c)
        return Read(np.stack([function(bins) for function in functions]), used(bins))

    add_pairs(plan.cells, cell, n, residual, cases, places, of)


def add_pairs(
    cells: Cells, cell: Ints, n: int, residual: Floats, cases: Cases, places: Places, of: Callable[[Floats], Read]
) -> None:
    """Weight and residual of each of ``n`` bins."""
    cells.add(2 * n, [(cases.patient, cell, 1.0), (cases.patient, n + cell, residual)], places, of)


def as_bins(c: Floats) -> Bins:
    """Cells of :func:`add_pairs` as bins whose mean outcome is the residual and whose mean probability is 0."""
    weight, residual = c[: len(c) // 2], c[len(c) // 2 :]
    zero = np.zeros_like(weight)
    return Bins(weight, zero, residual, zero, zero)


def add_smooth(plan: Plan, p: Floats, outcome: Floats, reading: str, cases: Cases) -> None:
    place = plan.add("smooth_ece", reading, cases, None if len(p) else NO_WEIGHT, costly=True)
    below, share = on_grid(p)
    residual = outcome - p
    entries: list[tuple[Indices, Any, Any]] = [
        (cases.patient, below, residual * (1.0 - share)),
        (cases.patient, below + 1, residual * share),
        (cases.patient, CELLS + 1, 1.0),
    ]
    plan.costly_cells.add(
        CELLS + 2, entries, (place,), lambda c: Read(smooth_ece_of(np.ascontiguousarray(c[:-1].T), c[-1])[None, :])
    )


def no_kappa(p: Floats, y: Ints) -> str | None:
    if not len(y):
        return NO_WEIGHT
    _, predicted, _ = confusion_shares(p, y)
    one = (y == y[0]).all() and (predicted == y[0]).all()
    return NO_DISAGREEMENT if one else None
