"""The many things that AUROC and AUPRC stand for."""

from collections.abc import Iterator

import numpy as np

from scorer.audit.claims.binning import Sorted, sort
from scorer.audit.claims.definition import Batch, Definition, batch
from scorer.audit.claims.subject import Subject
from scorer.audit.shapes import Floats

MOST_PAIRED = 40  # classes: there are K (K - 1) / 2 pairs
MOST_SORTED = 10_000_000  # rows times classes, for what needs a sort of its own
NAN = float("nan")


def steps(column: Sorted) -> tuple[Floats, Floats]:
    """(true positives, false positives) of 'positive at or above s' over the distinct scores s, falling, from 0, 0."""
    ends = np.concatenate(([0], np.flatnonzero(column.score[1:] != column.score[:-1]) + 1))
    hits, n = column.outcomes, float(column.n)
    true = np.concatenate(([0.0], (hits[-1] - hits[ends])[::-1]))
    return true, np.concatenate(([0.0], (n - ends)[::-1])) - true


def area(column: Sorted) -> float:
    """AUROC, ties count one half; NaN where one side is empty."""
    true, false = steps(column)
    if true[-1] == 0.0 or false[-1] == 0.0:
        return NAN
    return float(np.sum(np.diff(false) * (true[1:] + true[:-1]))) / 2.0 / float(true[-1] * false[-1])


def precision_areas(column: Sorted) -> tuple[float, float]:
    """(average precision, area under the precision-recall points by trapezoids from precision 1); NaN without
    events."""
    true, false = steps(column)
    if true[-1] == 0.0:
        return NAN, NAN
    share = true[1:] / (true[1:] + false[1:])
    gained = np.diff(true) / true[-1]
    before = np.concatenate(([1.0], share[:-1]))
    return float(np.sum(gained * share)), float(np.sum(gained * (share + before))) / 2.0


def auroc(subject: Subject) -> Batch:
    """Areas under ROC curves."""
    left_out = "" if _pools(subject) else "micro average"
    if subject.kind == "multiclass" and not _pairs(subject):
        left_out += " and averages over pairs of classes" if left_out else "averages over pairs of classes"
    return batch(_areas(subject))._replace(left_out=left_out)


def _pools(subject: Subject) -> bool:
    return subject.binary or subject.scores.size <= MOST_SORTED


def _pairs(subject: Subject) -> bool:
    return subject.scores.size <= MOST_SORTED and subject.classes <= MOST_PAIRED


def _areas(subject: Subject) -> Iterator[tuple[Definition, float]]:
    if subject.binary:
        yield Definition("area under the ROC curve"), area(subject.columns[0])
        if subject.p is not None:
            outcome = subject.y == 1
            yield Definition("of the decisions p >= 0.5"), area(sort((subject.p >= 0.5).astype(np.float64), outcome))
            yield Definition("of the decisions p > 0.5"), area(sort((subject.p > 0.5).astype(np.float64), outcome))
        return
    each = np.array([area(column) for column in subject.columns])
    events = np.array([column.outcomes[-1] for column in subject.columns])
    yield from _means(each, events, "one against rest")
    if _pools(subject):
        yield Definition("micro: all classes pooled"), area(_pooled(subject))
    if subject.kind == "multiclass" and _pairs(subject):
        yield from _paired(subject, events)


def _means(each: Floats, events: Floats, what: str) -> Iterator[tuple[Definition, float]]:
    known = ~np.isnan(each)
    yield Definition(f"macro: mean over classes, {what}"), float(np.mean(each))
    yield Definition(f"macro over the classes present, {what}"), float(np.mean(each[known])) if known.any() else NAN
    weight = float(events[known].sum())
    by_events = float(np.sum(each[known] * events[known])) / weight if weight else NAN
    yield Definition(f"mean by number of images of the class, {what}"), by_events


def _pooled(subject: Subject) -> Sorted:
    return sort(*(np.concatenate(parts) for parts in zip(*subject.problems, strict=True)))


def _paired(subject: Subject, events: Floats) -> Iterator[tuple[Definition, float]]:
    """Mean over the pairs of classes (Hand and Till 2001), plain and by size of the pair."""
    values, sizes = [], []
    rows = [np.flatnonzero(subject.y == k) for k in range(subject.classes)]
    for i in range(subject.classes):
        for j in range(i):
            pair = np.concatenate((rows[i], rows[j]))
            of_i = np.arange(len(pair)) < len(rows[i])
            one = area(sort(subject.scores[pair, i], of_i))
            two = area(sort(subject.scores[pair, j], ~of_i))
            values.append((one + two) / 2.0)
            sizes.append(float(events[i] + events[j]))
    each, size = np.array(values), np.array(sizes)
    known = ~np.isnan(each)
    plain_mean = float(np.mean(each[known])) if known.any() else NAN
    weighted = float(np.sum(each[known] * size[known]) / np.sum(size[known])) if known.any() else NAN
    yield Definition("one against one, mean over pairs (Hand and Till)"), plain_mean
    yield Definition("one against one, mean by size of the pair"), weighted


def auprc(subject: Subject) -> Batch:
    """Areas under precision-recall curves."""
    return batch(_precision_areas(subject))._replace(left_out="" if _pools(subject) else "micro average")


def _precision_areas(subject: Subject) -> Iterator[tuple[Definition, float]]:
    forms = ("average precision", "trapezoids under the precision-recall points")
    pairs = [precision_areas(column) for column in subject.columns]
    events = np.array([column.outcomes[-1] for column in subject.columns])
    for which, form in enumerate(forms):
        each = np.array([pair[which] for pair in pairs])
        if subject.binary:
            yield Definition(form), float(each[0])
        else:
            yield from ((Definition(form, one.form), value) for one, value in _means(each, events, "one against rest"))
    if not subject.binary and _pools(subject):
        for form, value in zip(forms, precision_areas(_pooled(subject)), strict=True):
            yield Definition(form, "micro: all classes pooled"), value
