"""Findings about the scores of each set: saturated, coarse, never positive, below chance, few events, folds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from protocol.findings import counted
from scorer.audit.judging.measure import Measures, Problem, certain_misses, problem_of, reason
from scorer.audit.judging.rows import MetricRow, labelled
from scorer.audit.shapes import Evidence, Finding, Floats, Level, PredictionSet

FEW_VALUES, ENOUGH_ROWS = 30, 100
FEW_EVENTS = 100
SAMPLE = 2000  # rows that mostly tell
SATURATED = 1e-6  # nearer to 0 or 1 than this
RARE, LOW = 0.02, 0.25  # prevalence and largest score of a class that is never predicted
HALF = 0.5


@dataclass(frozen=True)
class Seen:
    """One column of one set with its labels, as a probability of its own: ``p`` and ``y`` (n,), 0 or 1."""

    title: str
    p: Floats
    y: Floats | None


def columns(one: PredictionSet) -> Iterator[Seen]:
    """The columns of a set whose scale is usable, each with the outcome of its class where there are labels."""
    if not one.scale.usable or one.p is None:
        return
    measured = reason(one) == ""
    names = one.classes if one.p.shape[1] > 1 or one.kind == "multilabel" else ("",)
    for k in range(one.p.shape[1]):
        p, y = one.p[:, k], None
        kept = ~np.isnan(p)
        if measured and one.y is not None:
            own = one.y[:, k] if one.y.ndim == 2 else one.y
            kept &= own != -1
            y = np.asarray(own == (1 if one.kind != "multiclass" else k), dtype=np.float64)[kept]
        name = names[k] if k < len(names) else str(k)
        yield Seen(f"{one.title}: {name}" if name else one.title, p[kept], y)


def of_scores(evidence: Evidence, measures: Measures) -> list[Finding]:
    """All findings of this file, each over all sets at once."""
    tests: tuple[Callable[[Evidence, Measures], Iterator[Finding]], ...] = (
        certain_and_wrong, degenerate, coarse, never_predicted, below_chance, few_events, folds,
    )  # fmt: skip
    return [finding for test in tests for finding in test(evidence, measures)]


def certain_and_wrong(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Observed outcomes that were given a probability of exactly 0."""
    said, total = [], 0
    for one in evidence.sets:
        if reason(one) or one.title in measures.unmeasured:
            continue
        problem: Problem = problem_of(one)
        missed = sum(certain_misses(problem, np.flatnonzero(labelled(one))).values())
        if missed:
            total += missed
            said.append(f"{one.title}: {missed:,}")
    if said:
        yield Finding(
            Level.WARNING,
            "certain-and-wrong",
            f"{total:,} observed outcomes were given a probability of exactly 0, in {counted(len(said), 'set')}: "
            "the log loss is infinite; shown with a floor of 1e-12",
            count=len(said),
            samples=tuple(said),
            rule="MVC410",
            explanation="rounded when printed, saturated in single precision, or a reader's 'certainly not'",
        )


def degenerate(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Columns of one value, or with half of their values at 0 or 1."""
    constant, saturated = [], []
    for one in evidence.sets:
        for seen in columns(one):
            if not len(seen.p):
                continue
            if len(seen.p) > 1 and seen.p.min() == seen.p.max():
                constant.append(f"{seen.title}: {seen.p[0]:.6g} in all {len(seen.p):,} rows")
                continue
            ends = int((seen.p <= SATURATED).sum()), int((seen.p >= 1.0 - SATURATED).sum())
            exact = int((seen.p == 0.0).sum()), int((seen.p == 1.0).sum())
            if any(exact) or sum(ends) >= HALF * len(seen.p):
                share = sum(ends) / len(seen.p)
                saturated.append(
                    f"{seen.title}: {share:.1%} within 1e-6 of 0 or 1; "
                    f"exactly 0 in {exact[0]:,}, exactly 1 in {exact[1]:,}"
                )
    if constant:
        yield Finding(
            Level.WARNING, "constant-score", f"{counted(len(constant), 'column')} with one value in every row",
            len(constant), tuple(constant), rule="MVC410",
        )  # fmt: skip
    if saturated:
        yield Finding(
            Level.NOTE,
            "saturated-scores",
            f"{counted(len(saturated), 'column')} with exact zeros or ones, or half of it that near",
            len(saturated),
            tuple(saturated),
            rule="MVC410",
            explanation="what was rounded away can't be calibrated again; logits would tell",
        )


def coarse(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Columns with few distinct values."""
    said = []
    for one in evidence.sets:
        for seen in columns(one):
            if len(seen.p) < ENOUGH_ROWS or len(np.unique(seen.p[:SAMPLE])) > FEW_VALUES:
                continue
            distinct = len(np.unique(seen.p))
            if 1 < distinct <= FEW_VALUES:
                said.append(f"{seen.title}: {distinct} distinct values in {len(seen.p):,} rows")
    if said:
        yield Finding(
            Level.NOTE,
            "few-distinct-values",
            f"{counted(len(said), 'column')} with {FEW_VALUES} distinct values or fewer: "
            "bins stay empty and ties are many",
            len(said),
            tuple(said),
            explanation="scores of people, a vote, a coarse scale, or rounding",
        )


def never_predicted(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Rare outcomes whose calibration error is small because nothing is ever predicted."""
    said = []
    for one in evidence.sets:
        for seen in columns(one):
            if seen.y is None or len(seen.y) < ENOUGH_ROWS or (one.kind == "multiclass" and one.scale.usable):
                continue
            rate = float(seen.y.mean())
            if 0.0 < rate < RARE and seen.p.max() < LOW:
                own = next((row for row in measures.rows if row.metric == "ece" and row.slice_kind == "pooled"
                            and title_of(row) == seen.title), None)  # fmt: skip
                error = f", ECE {own.value:.5f}" if own is not None else ""
                said.append(
                    f"{seen.title}: prevalence {rate:.5f}, largest score {seen.p.max():.3f}, "
                    f"mean score {seen.p.mean():.5f}{error}"
                )
    if said:
        yield Finding(
            Level.NOTE,
            "never-predicted",
            f"{counted(len(said), 'column')} of a rare outcome that never exceed {LOW}: a small calibration error says "
            "little here",
            len(said),
            tuple(said),
            assumption=f"prevalence below {RARE:.0%} and no score of {LOW} or more",
            explanation="the prevalence itself, given to every row, has a calibration error of 0 and no use; "
            "look at AUROC and Brier score",
        )


def below_chance(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """AUROC below one half."""
    sure: list[str] = []
    unsure: list[str] = []
    for row in measures.rows:
        if row.metric == "auroc" and row.slice_kind == "pooled" and row.value < HALF:
            limits = f" ({row.lo:.3f} to {row.hi:.3f})" if row.lo == row.lo else ""
            (sure if row.hi < HALF else unsure).append(f"{title_of(row)}: {row.value:.3f}{limits}")
    if sure:
        yield Finding(
            Level.WARNING, "below-chance", f"AUROC below one half, its interval too, in {len(sure)}",
            len(sure), tuple(sure), assumption="the positive class is the one named",
            chance="2.5 % of scores without any information, each",
            explanation="classes exchanged, rows out of order, or a model that is worse than none",
        )  # fmt: skip
    if unsure:
        yield Finding(
            Level.NOTE, "not-above-chance",
            f"AUROC below one half, with an interval that holds one half, in {len(unsure)}",
            len(unsure), tuple(unsure), chance="about every second score without any information",
        )  # fmt: skip


def few_events(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Fewer than 100 events or non-events."""
    said = {}
    for row in measures.rows:
        if row.metric == "auroc" and row.slice_kind == "pooled" and row.n_events is not None:
            fewest = min(row.n_events, row.n_units - row.n_events)
            if fewest < FEW_EVENTS:
                said[title_of(row)] = (fewest, f"{title_of(row)}: {row.n_events:,} of {row.n_units:,}")
    if said:
        ordered = [text for _, text in sorted(said.values())]
        yield Finding(
            Level.NOTE,
            "few-events",
            f"{len(said)} of the sets and classes have fewer than {FEW_EVENTS} events or non-events: slopes and binned "
            "errors are unstable",
            len(said),
            tuple(ordered),
            rule="MVC411",
        )


def folds(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Out-of-fold scores that are pooled over folds, and sets that lack folds others have."""
    seen = {
        one.title: {int(code) for code in np.unique(one.fold[labelled(one)]) if code >= 0}
        for one in evidence.sets
        if one.fold is not None and one.y is not None
    }
    most = max((len(own) for own in seen.values()), default=0)
    if most < 2:
        return
    several = sum(len(own) > 1 for own in seen.values())
    yield Finding(
        Level.NOTE,
        "folds-pooled",
        f"scores of up to {most} folds are pooled in {counted(several, 'set')}: they come from as many models",
        count=several,
        explanation="a pooled calibration error mixes models; ranks across folds compare scores of different models",
    )
    every = set().union(*seen.values())
    names = evidence.names.fold
    short = []
    for name, own in seen.items():
        if own and own != every:
            missing = ", ".join(names[code] if code < len(names) else str(code) for code in sorted(every - own))
            short.append(f"{name}: {len(own)} of {len(every)} folds, without {missing}")
    if short:
        yield Finding(
            Level.WARNING, "folds-missing", f"{counted(len(short), 'set')} without rows of some folds",
            len(short), tuple(short),
            explanation="a fold without events may have been dropped: the rest is not the whole cohort",
        )  # fmt: skip


def title_of(row: MetricRow) -> str:
    """The set and class of a row."""
    name = f"{row.set} [{row.task}]" if row.task else row.set
    return f"{name}: {row.class_}" if row.class_ else name


def first(items: Sequence[str], n: int = 3) -> str:
    """The first few, and how many more."""
    return ", ".join(items[:n]) + (f" and {len(items) - n} more" if len(items) > n else "")
