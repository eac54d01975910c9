"""Which metrics a task has: the full set of each kind, built into a plan family by family."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.catalogue import CLASSWISE, POSITIVE, TOP
from protocol.types import Kind
from scorer.metrics.arrays import NO_EVENTS, NO_WEIGHT, Floats, Indices, Ints, checked, hits, top_label, undefined_class
from scorer.metrics.binned import BINS, WIDTH_BINS, ece_of, mce_of, width_bins
from scorer.metrics.cells import Read
from scorer.metrics.column import Column, column_of
from scorer.metrics.decisions import f1_of, kappa_of, recall_of
from scorer.metrics.families import (
    add_all,
    add_binned,
    add_bins,
    add_classwise,
    add_decisions,
    add_mass,
    add_means,
    add_proper,
    add_ranks,
    add_selective,
    add_smooth,
    add_table,
    add_width,
    add_wsece,
    classwise_errors,
    errors,
    first_error,
    no_kappa,
    parts,
    top_bins,
)
from scorer.metrics.logistic import clipped
from scorer.metrics.plan import Cases, Fitted, Mass, Plan, Scanned
from scorer.metrics.proper import squared_errors

FAMILIES = (
    "proper", "decisions", "mass", "width", "corp", "rank", "selective", "logistic", "spline", "smooth",
)  # fmt: skip
MURPHY = ("murphy_rel", "murphy_res", "murphy_unc", "murphy_wbv", "murphy_wbc")
CORP = ("mcb", "dsc", "unc")
LINE = ("citl", "cal_intercept", "cal_slope")
GAPS = ("ici", "e50", "e90", "emax")

_MEMBERS = {
    "proper": ("brier", "brier_binary", "nll"),
    "decisions": (
        "accuracy", "balanced_accuracy", "recall", "f1", "kappa_quadratic", "sensitivity", "specificity",
        "net_benefit", "net_benefit_treat_all", "net_benefit_treat_none",
    ),
    "mass": (
        "ece", "ece_top", "ace", "ace_nixon", "classwise_ece", "ece_debiased", "ece_debiased_squared", *MURPHY,
    ),
    "width": (
        "ece_width10", "ece_width15", "ece_width20", "ece_width20_top", "mce", "mce_top", "mce_weighted", "wsece",
    ),
    "corp": CORP,
    "rank": ("auroc", "auprc"),
    "selective": ("aurc", "risk_at_coverage"),
    "logistic": LINE,
    "spline": GAPS,
    "smooth": ("smooth_ece",),
}  # fmt: skip
_FAMILY = {metric: family for family, metrics in _MEMBERS.items() for metric in metrics}


def family_of(metric: str) -> str:
    """The family of a metric or of its mean over classes; KeyError for an unknown one."""
    return _FAMILY[metric.removesuffix("_present").removesuffix("_macro")]


@dataclass(frozen=True)
class Options:
    """What the task fixes beyond its classes, the stored precision of each column, and the families wanted."""

    thresholds: tuple[float, ...] = ()
    ordinal: bool = False
    precision: tuple[str, ...] = ()
    families: Collection[str] = FAMILIES


def plan_for(
    kind: Kind,
    classes: Sequence[str],
    p: Floats,
    y: Ints,
    patient: Indices,
    patients: int,
    *,
    thresholds: Sequence[float] = (),
    ordinal: bool = False,
    precision: Sequence[str] = (),
    families: Collection[str] = FAMILIES,
) -> Plan:
    """Prepare the set of metrics of a task ``kind`` for one run's images.

    ``p`` (N, K), columns in the order of ``classes``; binary: (N, 1), P(second class). ``y`` (N,) class indices;
    multilabel: (N, K) of 0, 1, or -1 for not labelled. ``patient`` (N,) numbers in 0 .. patients - 1. ``thresholds``
    and ``ordinal`` are the task's, ``precision`` is how each column was stored (float64 if not given; see
    :func:`scorer.metrics.binned.half_unit`). Sums run in the order of the rows. A multilabel task has the binary set
    for each finding over the images labelled for it, then the means ``<metric>_macro`` over findings and
    ``<metric>_macro_present`` over those where it is defined. Raises ValueError on shapes that do not fit, an unknown
    family, and as :func:`checked`.
    """
    columns = 1 if kind == "binary" else len(classes)
    shape = (len(p), columns) if kind == "multilabel" else (len(p),)
    if p.shape != (len(p), columns) or y.shape != shape or (kind != "multilabel" and len(classes) < 2):
        raise ValueError(
            f"{kind} with {len(classes)} classes: p of shape {p.shape} and y of shape {y.shape} do not fit"
        )
    unknown = set(families) - set(FAMILIES)
    if unknown:
        raise ValueError(f"unknown families of metrics: {', '.join(sorted(unknown))}")
    stored = tuple(precision) or ("float64",) * columns
    options = Options(tuple(thresholds), ordinal, stored, frozenset(families))
    plan = Plan(patients)
    if kind == "multilabel":
        _add_findings(plan, classes, p, y, patient, options)
    elif kind == "binary":
        _add_binary(plan, classes, p[:, 0], y, patient, options)
    else:
        _add_multiclass(plan, classes, p, y, patient, options)
    return plan


def _add_binary(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices, options: Options) -> None:
    p, y, _ = checked(p, y)
    events = int(y.sum())
    _add_problem(plan, p, y, Cases(None, patient, events), options.precision[0], options)
    if "decisions" in options.families:
        whole = Cases(None, patient, None)
        reason = undefined_class(len(y), events)
        place = plan.add("f1_macro", CLASSWISE, whole, reason)
        add_table(plan, p, y, patient, (place,), lambda table: Read(f1_of(table).mean(axis=0, keepdims=True)))
    if "mass" in options.families:
        negative, positive = Cases(classes[0], patient, len(y) - events), Cases(classes[1], patient, events)
        sides = [add_classwise(plan, cases) for cases in (negative, positive)]
        for cases, side, (score, outcome) in zip((negative, positive), sides, ((1.0 - p, 1 - y), (p, y)), strict=True):
            column = column_of(score, outcome.astype(np.float64), cases.patient, plan.patients)
            plan.scanned.append(Scanned(column, ((side, classwise_errors),)))
        for metric, members in zip(("classwise_ece", "ace_nixon"), zip(*sides, strict=True), strict=True):
            plan.add_mean(metric, Cases(None, patient, None), list(members))


def _add_findings(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices, options: Options) -> None:
    for k, name in enumerate(classes):
        labelled = y[:, k] != -1
        own, label, _ = checked(p[labelled, k], y[labelled, k])
        _add_problem(plan, own, label, Cases(name, patient[labelled], int(label.sum())), options.precision[k], options)
    _add_macros(plan, Cases(None, patient, None), frozenset())


def _add_multiclass(plan: Plan, classes: Sequence[str], p: Floats, y: Ints, patient: Indices, options: Options) -> None:
    p, y, _ = checked(p, y)
    whole = Cases(None, patient, None)
    counts = np.bincount(y, minlength=len(classes))
    cases = [Cases(name, patient, int(n)) for name, n in zip(classes, counts, strict=True)]
    empty = None if len(y) else NO_WEIGHT
    families = options.families
    if "proper" in families:
        add_proper(plan, p, y, whole, "brier")
    if "decisions" in families:
        add_means(plan, patient, [(plan.add("accuracy", None, whole, empty), hits(p, y))])
        if options.ordinal:
            place = plan.add("kappa_quadratic", None, whole, no_kappa(p, y))
            add_table(plan, p, y, patient, (place,), lambda table: Read(kappa_of(table)[None, :]))
    confidence, hit = top_label(p, y)
    mass: tuple[Mass, ...] = ((add_mass(plan, TOP, whole), errors),) if "mass" in families else ()
    if "width" in families:
        precision = tuple(options.precision[k] for k in range(p.shape[1]))
        bins = {m: top_bins(p, m, precision) for m in (10, 15, WIDTH_BINS)}
        add_width(plan, bins, confidence, hit, TOP, whole)
        add_wsece(plan, bins[WIDTH_BINS], confidence, hit, y, len(classes), whole)
    risks = add_selective(plan, whole) if "selective" in families else ()
    if mass or risks:
        plan.scanned.append(Scanned(column_of(confidence, hit, patient, plan.patients), mass, risks=risks))
    if "smooth" in families:
        add_smooth(plan, confidence, hit, TOP, whole)
    if "decisions" in families:
        rows = [(metric, own) for metric in ("recall", "f1") for own in cases]
        places = tuple(
            plan.add(metric, CLASSWISE, own, empty or (None if own.events else NO_EVENTS)) for metric, own in rows
        )
        add_table(
            plan, p, y, patient, places,
            lambda table: Read(np.concatenate((recall_of(table), f1_of(table)))),
        )  # fmt: skip
    for k, own in enumerate(cases):
        _add_class(plan, p[:, k], (y == k).astype(np.int64), own, options)
    _add_macros(plan, whole, frozenset({"brier_binary"}))


def _add_problem(plan: Plan, p: Floats, y: Ints, cases: Cases, precision: str, options: Options) -> None:
    """All metrics of one probability ``p`` (n,) of a class of its own: a binary task, or a finding."""
    families, outcome = options.families, y.astype(np.float64)
    if "proper" in families:
        add_proper(plan, p, y, cases, "brier_binary")
    if "decisions" in families:
        add_decisions(plan, p, y, cases, precision, options.thresholds, options.ordinal)
    confidence, hit = top_label(p, y, precision)
    column = column_of(p, outcome, cases.patient, plan.patients)
    binned: list[Mass] = []
    top: tuple[Mass, ...] = ()
    if "mass" in families:
        binned = [(add_mass(plan, POSITIVE, cases), errors), (add_all(plan, MURPHY, POSITIVE, cases, BINS), parts)]
        top = (((add_binned(plan, "ece_top", TOP, cases, BINS),), first_error),)
    if "width" in families:
        bins = {m: width_bins(p, m, precision) for m in (10, 15, WIDTH_BINS)}
        add_width(plan, bins, p, outcome, POSITIVE, cases)
        tops = width_bins(confidence, WIDTH_BINS, precision)
        add_wsece(plan, tops, confidence, hit, y, 2, cases)
        places = tuple(add_binned(plan, name, TOP, cases, WIDTH_BINS) for name in ("ece_width20_top", "mce_top"))
        add_bins(plan, tops, hit - confidence, cases, places, (ece_of, mce_of))
    corp = add_all(plan, CORP, POSITIVE, cases) if "corp" in families else ()
    ranks = add_ranks(plan, POSITIVE, cases) if "rank" in families else ()
    if binned or corp or ranks:
        plan.scanned.append(Scanned(column, tuple(binned), ranks=ranks, corp=corp))
    risks = add_selective(plan, cases) if "selective" in families else ()
    if top or risks:
        plan.scanned.append(Scanned(column_of(confidence, hit, cases.patient, plan.patients), top, risks=risks))
    if "smooth" in families:
        add_smooth(plan, p, outcome, POSITIVE, cases)
    _add_fits(plan, column, p, POSITIVE, cases, options)


def _add_class(plan: Plan, p: Floats, y: Ints, cases: Cases, options: Options) -> None:
    """The metrics of one class of a multiclass task against the rest."""
    families = options.families
    column = column_of(p, y.astype(np.float64), cases.patient, plan.patients)
    if "proper" in families:
        place = plan.add("brier_binary", CLASSWISE, cases, None if len(p) else NO_WEIGHT)
        add_means(plan, cases.patient, [(place, squared_errors(p, y))])
    binned: tuple[Mass, ...] = ()
    if "mass" in families:
        binned = (
            (add_classwise(plan, cases), classwise_errors),
            (add_all(plan, MURPHY, CLASSWISE, cases, BINS), parts),
        )
    corp = add_all(plan, CORP, CLASSWISE, cases) if "corp" in families else ()
    ranks = add_ranks(plan, CLASSWISE, cases) if "rank" in families else ()
    if binned or corp or ranks:
        plan.scanned.append(Scanned(column, binned, ranks=ranks, corp=corp))
    _add_fits(plan, column, p, CLASSWISE, cases, options)


def _add_macros(plan: Plan, whole: Cases, left_out: frozenset[str]) -> None:
    """Means over classes of every metric that has a value a class, in the order of the metrics.

    ``classwise_ece`` and ``ace_nixon`` are means by definition and keep their name. The mean over present classes keeps
    its classes in every resample: a resample that lacks one is undefined, it does not average fewer.
    """
    points = {(one.metric, one.bins_asked, one.cutoff, one.class_): one for one in plan.points()}
    groups: dict[tuple[str, int | None, float | None], list[int]] = {}
    for i, one in enumerate(plan.headings):
        if one.cases.class_ is not None and one.metric not in left_out:
            groups.setdefault((one.metric, one.bins, one.cutoff), []).append(i)
    for (metric, bins, cutoff), places in groups.items():
        if metric in ("classwise_ece", "ace_nixon"):
            plan.add_mean(metric, whole, places)
            continue
        present = [i for i in places if points[(metric, bins, cutoff, plan.headings[i].cases.class_)].reason is None]
        missing = ", ".join(str(plan.headings[i].cases.class_) for i in places if i not in present)
        stem = MACRO_NAMES.get(metric, f"{metric}_macro")
        plan.add_mean(stem, whole, places, f"undefined for class {missing}" if missing else None)
        reason = None if present else "undefined for every class"
        plan.add_mean(f"{stem}_present", whole, present or places, reason)


MACRO_NAMES = {"recall": "balanced_accuracy"}


def _add_fits(plan: Plan, column: Column, p: Floats, reading: str, cases: Cases, options: Options) -> None:
    lines = add_all(plan, LINE, reading, cases, costly=True) if "logistic" in options.families else ()
    gaps = add_all(plan, GAPS, reading, cases, costly=True) if "spline" in options.families else ()
    if lines or gaps:
        plan.fitted.append(Fitted(column, plan.patients, cases.events or 0, lines, gaps))
        plan.clipped.append((cases.class_, clipped(p)))
