"""The many things that ECE, MCE, ACE and class-wise ECE stand for."""

from functools import lru_cache

import numpy as np

from protocol.types import Kind
from scorer.audit.claims.binning import (
    BINNINGS,
    COUNTS,
    DEBIASED,
    FORMS,
    MASS,
    MAX_GAP,
    MAX_TERM,
    MEAN_GAP,
    PLAIN,
    PLAIN_ALL,
    ROOT_GAP,
    WIDTH,
    errors,
    sort,
)
from scorer.audit.claims.definition import Batch, Definition
from scorer.audit.claims.subject import Subject
from scorer.audit.shapes import Codes, Floats

TOP, TOP_SHARED = "top label", "top label, ties share the hit"
POSITIVE, CLASSWISE, CLASS_SUM = "positive class", "class-wise mean", "class-wise sum"
FINDINGS, POOLED = "mean over findings", "all findings pooled"
READINGS: dict[Kind, tuple[str, ...]] = {
    "binary": (POSITIVE, TOP, TOP_SHARED, CLASSWISE),
    "multiclass": (TOP, TOP_SHARED, CLASSWISE, CLASS_SUM),
    "multilabel": (FINDINGS, POOLED),
}
METRICS: dict[str, tuple[str, ...]] = {
    "ece": (MEAN_GAP, ROOT_GAP, DEBIASED, MAX_GAP),
    "sce": (MEAN_GAP, PLAIN, PLAIN_ALL),
    "mce": (MAX_GAP, MAX_TERM),
    "ace": (MEAN_GAP, PLAIN, PLAIN_ALL),
}


def _fits(metric: str, form: str, reading: str, rule: str) -> bool:
    if metric == "sce":
        return reading in (CLASSWISE, CLASS_SUM, FINDINGS)
    if metric == "ace":  # count-weighted is adaptive only where the bins are
        return form != MEAN_GAP or rule != WIDTH
    return form != DEBIASED or rule in (WIDTH, MASS)


@lru_cache(maxsize=32)
def _selected(metric: str, kind: Kind) -> tuple[tuple[Definition, ...], Codes]:
    """The definitions of ``metric`` and where each lies in the flat (readings, BINNINGS, FORMS, COUNTS) values."""
    definitions, at = [], []
    shape = (len(READINGS[kind]), len(BINNINGS), len(FORMS), len(COUNTS))
    for form in METRICS[metric]:
        for r, reading in enumerate(READINGS[kind]):
            for b, (rule, side) in enumerate(BINNINGS):
                if _fits(metric, form, reading, rule):
                    for c, bins in enumerate(COUNTS):
                        definitions.append(Definition(form, reading, rule, side, bins))
                        at.append(np.ravel_multi_index((r, b, FORMS.index(form), c), shape))
    return tuple(definitions), np.array(at, dtype=np.int64)


def all_errors(subject: Subject) -> Floats:
    """(readings, BINNINGS, FORMS, COUNTS), flat, for all these metrics."""
    p, precision = subject.p, subject.precision
    assert p is not None
    if subject.kind == "multilabel":
        each = [errors(column, precision) for column in subject.columns if column.n]
        pooled = sort(*(np.concatenate(parts) for parts in zip(*subject.problems, strict=True)))
        return np.stack([np.mean(each, axis=0), errors(pooled, precision)]).ravel()
    most, right, shared = subject.top
    top = errors(sort(most, right), precision)
    top_shared = top if np.array_equal(right, shared) else errors(sort(most, shared), precision)
    if subject.binary:
        positive = errors(subject.columns[0], precision)
        other = errors(sort(1.0 - p, subject.y == 0), precision)
        return np.stack([positive, top, top_shared, (positive + other) / 2.0]).ravel()
    total = np.zeros_like(top)
    for column in subject.columns:
        total += errors(column, precision)
    return np.stack([top, top_shared, total / subject.classes, total]).ravel()


def calibration(metric: str, kind: Kind, found: Floats) -> Batch:
    """The definitions of ``metric`` with their values in ``found`` of :func:`all_errors`."""
    definitions, at = _selected(metric, kind)
    return Batch(definitions, found[at])
