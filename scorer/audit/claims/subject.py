"""What a claim is computed from: the labelled rows of a prediction set, of all its classes or of one."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from protocol.findings import plain
from protocol.types import Kind
from scorer.audit.claims.binning import Sorted, sort
from scorer.audit.shapes import Codes, Floats, PredictionSet
from scorer.metrics.arrays import largest

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Subject:
    """Labelled rows. ``scores`` (N,) for binary, else (N, K), only their order is used; ``p`` of the same shape, or
    None where no calibration is defined; ``y`` (N,) class indices, or (N, K) of 0, 1 and -1 (no label) for
    multilabel. ``precision`` is how ``p`` was stored; ``why`` says why there is no ``p``."""

    title: str
    kind: Kind
    scores: Floats
    p: Floats | None
    y: Codes
    precision: str
    why: str = ""

    @property
    def binary(self) -> bool:
        """Whether there is one score a row."""
        return self.scores.ndim == 1

    @property
    def classes(self) -> int:
        """Number of classes or findings."""
        return 2 if self.binary else self.scores.shape[1]

    @cached_property
    def columns(self) -> tuple[Sorted, ...]:
        """One a class or finding, by ``scores``, against 'is of the class'; binary: of the positive class alone."""
        return tuple(sort(score, outcome) for score, outcome in self.problems)

    @cached_property
    def problems(self) -> tuple[tuple[Floats, Mask], ...]:
        """(score, outcome) of each class or finding over the rows that have a label for it; binary: one."""
        if self.binary:
            return ((self.scores, self.y == 1),)
        if self.kind == "multilabel":
            out = []
            for k in range(self.classes):
                known = self.y[:, k] >= 0
                out.append((self.scores[known, k], self.y[known, k] == 1))
            return tuple(out)
        return tuple((np.ascontiguousarray(self.scores[:, k]), self.y == k) for k in range(self.classes))

    @cached_property
    def top(self) -> tuple[Floats, Mask, Floats]:
        """(confidence of the likeliest class, whether the first of the likeliest is right, that credit shared among
        ties); p = 0.5 of two classes counts as positive in the middle one. Not for multilabel."""
        assert self.p is not None
        most = largest(self.p, self.precision)
        if self.p.ndim == 1:
            right = (self.p >= 0.5) == (self.y == 1)
            return most, right, np.where(self.p == 0.5, 0.5, right)
        tied, own = np.zeros(len(most)), np.zeros(len(most), dtype=np.bool_)
        for k in range(self.p.shape[1]):
            at_top = self.p[:, k] == most
            tied += at_top
            own |= at_top & (self.y == k)
        return most, self.predicted == self.y, own / tied

    @cached_property
    def predicted(self) -> Codes:
        """The likeliest class, the first of ties; binary: 1 from 0.5 on. For probabilities, and scores of classes."""
        if self.binary:
            return ((self.scores if self.p is None else self.p) >= 0.5).astype(np.int64)
        return np.asarray(np.argmax(self.scores if self.p is None else self.p, axis=1), dtype=np.int64)


def subject_of(one: PredictionSet, class_: int | None = None) -> Subject | str:
    """The subject of all classes, or of class (finding) ``class_`` against the rest; else why there is none."""
    title = plain(one.title)
    if one.y is None:
        return f"{title} has no labels"
    if one.kind is None:
        return f"whether {title} is binary, multiclass or multilabel can't be told"
    if not (one.scale.usable or one.scale.ranked):
        return f"{title} has no score to compute it from: {one.scale.why}"
    scores = one.p if one.scale.usable and one.p is not None else one.scores
    p = one.p if one.scale.usable else None
    if scores.ndim == 1:
        scores, p = scores[:, None], None if p is None else p[:, None]
    y = one.y if one.kind == "multilabel" or one.y.ndim == 1 else one.y[:, 0]
    present = np.isfinite(scores).all(axis=1)
    if one.kind == "multiclass" and scores.shape[1] < 2:
        return f"{title} has one score a row for several classes"
    if one.kind != "multilabel" and y.max(initial=0) > max(scores.shape[1] - 1, 1):
        return f"{title} has labels beyond its {max(scores.shape[1], 2)} classes"
    if class_ is not None and class_ >= (2 if one.kind == "binary" else scores.shape[1]):
        return f"{title} has no score for class {plain(one.classes[class_])}"
    if class_ is not None and one.kind != "binary":
        scores, p, present = scores[:, [class_]], None if p is None else p[:, [class_]], np.isfinite(scores[:, class_])
        y = y[:, class_] if y.ndim == 2 else np.where(y < 0, -1, y == class_)
    elif class_ == 0:
        p = None if p is None else 1.0 - p
        scores = -scores if p is None else p
        y = np.where(y < 0, -1, 1 - y)
    kept = present & ((y >= 0) if y.ndim == 1 else (y >= 0).any(axis=1))
    if not kept.any():
        return f"{title} has no row with a label and a score"
    if not kept.all():
        scores, p, y = scores[kept], None if p is None else p[kept], y[kept]
    kind: Kind = one.kind
    if scores.shape[1] == 1:
        kind = "binary"
        scores, p, y = scores[:, 0], None if p is None else p[:, 0], y if y.ndim == 1 else y[:, 0]
    stored = set(one.precision if class_ is None or len(one.precision) <= class_ else [one.precision[class_]])
    why = "" if p is not None else f"{title}: {one.scale.why}"
    return Subject(title, kind, scores, p, y.astype(np.int64), stored.pop() if len(stored) == 1 else "float64", why)
