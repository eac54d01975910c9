"""The many things that accuracy, F1, kappa, sensitivity, specificity and precision stand for."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from scorer.audit.claims.definition import Batch, Definition, batch
from scorer.audit.claims.ranking import steps
from scorer.audit.claims.subject import Subject
from scorer.audit.shapes import Codes, Floats

NAN = float("nan")
Table = Floats  # (K true, K predicted) numbers of rows
Named = Iterator[tuple[str, float]]


class Decided(NamedTuple):
    """One way to decide, in words, and the table that it gives."""

    words: str
    table: Table


def decisions(metric: str, subject: Subject) -> Batch:
    """The definitions of ``metric``, a key of OF."""
    of = OF[metric]
    return batch((Definition(form, words), value) for words, table in _tables(subject) for form, value in of(table))


def _tables(subject: Subject) -> Iterator[Decided]:
    if subject.kind == "multilabel":
        yield from _findings(subject)
        return
    k = subject.classes
    if not subject.binary:
        yield Decided("likeliest class, the first of ties", _table(subject.y, subject.predicted, k))
        if subject.p is not None:
            last = k - 1 - np.argmax(subject.p[:, ::-1], axis=1)
            yield Decided("likeliest class, the last of ties", _table(subject.y, last, k))
        return
    if subject.p is not None:
        yield Decided("positive from p = 0.5 on", _table(subject.y, (subject.p >= 0.5).astype(np.int64), 2))
        yield Decided("positive above p = 0.5", _table(subject.y, (subject.p > 0.5).astype(np.int64), 2))
    true, false = steps(subject.columns[0])
    if true[-1] > 0 and false[-1] > 0:
        every = np.stack([false[-1] - false, false, true[-1] - true, true])  # tn, fp, fn, tp
        with np.errstate(invalid="ignore", divide="ignore"):
            youden = int(np.argmax(true / true[-1] - false / false[-1]))
            best = int(np.argmax(every[0] + every[3]))
            f1 = int(np.nanargmax(2 * true / (2 * true + false + every[2])))
        for words, at in (("Youden's", youden), ("the most accurate", best), ("the best F1's", f1)):
            yield Decided(f"at {words} threshold of these rows", every[:, at].reshape(2, 2))


def _findings(subject: Subject) -> Iterator[Decided]:
    """One table of all findings pooled; a mean over findings is made by :func:`_over_findings`."""
    if subject.p is None:
        return
    pooled = np.zeros((2, 2))
    for score, hit in subject.problems:
        pooled += _table(hit.astype(np.int64), (score >= 0.5).astype(np.int64), 2)
    yield Decided("all findings pooled, positive from p = 0.5 on", pooled)


def over_findings(metric: str, subject: Subject) -> Batch:
    """Means over findings of the two-class definitions of ``metric``."""
    of, found = OF[metric], dict[Definition, list[float]]()
    labelled = [(score, hit) for score, hit in subject.problems if len(score)]
    for score, hit in labelled:
        one = Subject("", "binary", score, None if subject.p is None else score, hit.astype(np.int64), "float64")
        for words, table in _tables(one):
            for form, value in of(table):
                found.setdefault(Definition(form, f"mean over findings, {words}"), []).append(value)
    return batch(
        (one, float(np.mean(values)) if len(values) == len(labelled) else NAN) for one, values in found.items()
    )


def _table(true: Codes, predicted: Codes, k: int) -> Table:
    return np.bincount(true * k + predicted, minlength=k * k).astype(np.float64).reshape(k, k)


def _per_class(table: Table) -> tuple[Floats, Floats, Floats, Floats]:
    """(recall, specificity, precision, F1) of each class; NaN where nothing is there to divide by."""
    own, said, right, n = table.sum(axis=1), table.sum(axis=0), np.diag(table), table.sum()
    with np.errstate(invalid="ignore", divide="ignore"):
        return right / own, (n - own - said + right) / (n - own), right / said, 2.0 * right / (own + said)


def _means(each: Floats, table: Table, what: str) -> Named:
    """Positive class of two, and means over classes: declared (undefined as 0), present in the labels, by size."""
    if len(each) == 2:
        yield f"{what} of the positive class", float(each[1])
    own = table.sum(axis=1)
    filled = np.where(np.isnan(each), 0.0, each)
    yield f"mean {what} over classes, undefined as 0", float(np.mean(filled))
    yield f"mean {what} over the classes present", float(np.mean(filled[own > 0]))
    yield f"mean {what} by class size", float(np.sum(filled * own) / own.sum())
    with np.errstate(invalid="ignore", divide="ignore"):
        yield f"{what} of all classes pooled", _pooled(table, what)


def _pooled(table: Table, what: str) -> float:
    right, n, k = float(np.trace(table)), float(table.sum()), len(table)
    return (n * (k - 2) + right) / (n * (k - 1)) if what == "specificity" else right / n


def _accuracy(table: Table) -> Named:
    yield "share of right decisions", float(np.trace(table) / table.sum())


def _balanced(table: Table) -> Named:
    recall = _per_class(table)[0]
    yield "mean recall over classes", float(np.mean(recall))
    yield "mean recall over the classes present", float(np.mean(recall[~np.isnan(recall)]))


def _accuracies(table: Table) -> Named:
    yield from _accuracy(table)
    yield from _balanced(table)


def _kappa(table: Table) -> Named:
    k, n = len(table), table.sum()
    chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / n
    apart = np.abs(np.arange(k)[:, None] - np.arange(k)[None, :]).astype(np.float64)
    for words, weight in (
        ("unweighted", (apart > 0) * 1.0),
        ("linear weights", apart),
        ("quadratic weights", apart**2),
    ):
        expected = float(np.sum(weight * chance))
        yield f"Cohen's kappa, {words}", 1.0 - float(np.sum(weight * table)) / expected if expected > 0 else NAN


def _which(index: int, what: str) -> Callable[[Table], Named]:
    return lambda table: _means(_per_class(table)[index], table, what)


OF: dict[str, Callable[[Table], Named]] = {
    "accuracy": _accuracies,
    "balanced_accuracy": _balanced,
    "f1": _which(3, "F1"),
    "kappa": _kappa,
    "sensitivity": _which(0, "sensitivity"),
    "specificity": _which(1, "specificity"),
    "precision": _which(2, "precision"),
}
