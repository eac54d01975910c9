"""The many things that Brier score and log loss stand for."""

import numpy as np

from scorer.audit.claims.definition import Batch, Definition, batch
from scorer.audit.claims.subject import Subject
from scorer.audit.shapes import Floats

FLOORS = (1e-12, 1e-15, float(np.finfo(np.float64).eps), 1e-10, 1e-8, float(np.finfo(np.float32).eps), 1e-7, 1e-6, 1e-5)
ADDED = (1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5)
UNITS = (("nats", 1.0), ("bits", float(np.log(2.0))), ("base 10", float(np.log(10.0))))


def brier(subject: Subject) -> Batch:
    """Means of squared errors."""
    assert subject.p is not None
    base = "mean squared error of P(positive)"
    if subject.kind == "binary":
        value = float(np.mean((subject.p - subject.y) ** 2))
        forms = {base: value, "sum over both classes": 2 * value, "half of it": value / 2}
    elif subject.kind == "multilabel":
        each = [float(np.mean((score - hit) ** 2)) for score, hit in subject.problems if len(score)]
        total, n = 0.0, 0
        for score, hit in subject.problems:
            total, n = total + float(np.sum((score - hit) ** 2)), n + len(score)
        forms = {"mean over findings": float(np.mean(each)), "sum over findings": sum(each), "all pooled": total / n}
    else:
        squares = sum(float(np.mean((score - hit) ** 2)) for score, hit in subject.problems)
        most, right, _ = subject.top
        forms = {
            "sum over classes": squares,
            "mean over classes": squares / subject.classes,
            "half of the sum over classes": squares / 2,
            "squared error of the top label's confidence": float(np.mean((most - right) ** 2)),
        }
    rooted = {f"root of: {name}": float(np.sqrt(value)) for name, value in forms.items()}
    return batch((Definition(name), value) for name, value in (forms | rooted).items())


def nll(subject: Subject) -> Batch:
    """Means of -log of the probability of the truth, by what is done about zeros and by unit."""
    assert subject.p is not None
    if subject.kind == "multiclass":
        own = subject.p[np.arange(len(subject.y)), subject.y]
        sums = subject.p.sum(axis=1)
        sources = {"": [own], "rows renormalised": [own / np.where(sums > 0.0, sums, 1.0)]}
        sources["mean of the two-sided losses over classes"] = [
            np.where(hit, score, 1.0 - score) for score, hit in subject.problems
        ]
    else:
        name = "" if subject.binary else "mean over findings"
        sources = {name: [np.where(hit, score, 1.0 - score) for score, hit in subject.problems]}
    out = []
    for reading, parts in sources.items():
        for words, losses in _losses([part for part in parts if len(part)]):
            for unit, size in UNITS:
                out.append((Definition(f"{unit}, {words}", reading), float(np.mean(losses)) / size))
                if len(losses) > 1:
                    total = Definition(f"{unit}, {words}", reading.replace("mean", "sum", 1))
                    out.append((total, float(np.sum(losses)) / size))
    return batch(out)


def _losses(parts: list[Floats]) -> list[tuple[str, list[float]]]:
    """(what is done about zeros, mean loss in nats of each part)."""
    out = []
    # equal values share one logarithm, and floors change small ones alone
    logs = [np.log(np.where(part > 0.0, part, 1.0)) for part in parts]
    lows = [part[part <= 1e-3] for part in parts]
    rest = [(-float(np.sum(log[part > 1e-3])), len(part)) for part, log in zip(parts, logs, strict=True)]
    with np.errstate(divide="ignore"):
        exact = [-np.log(low) for low in lows]
    for words, changed in (
        ("zeros never given or infinite", exact),
        ("log clamped at -100", [np.minimum(one, 100.0) for one in exact]),
        *((f"floor {floor:.2g}", [-np.log(np.maximum(low, floor)) for low in lows]) for floor in FLOORS),
    ):
        out.append((words, [(total + float(np.sum(c))) / n for (total, n), c in zip(rest, changed, strict=True)]))
    zeros = [float(np.sum(part > 0.0)) for part in parts]
    dropped = [-float(np.sum(log)) / kept if kept else float("nan") for log, kept in zip(logs, zeros, strict=True)]
    out.append(("rows of probability zero left out", dropped))
    for small in ADDED:
        out.append((f"{small:.2g} added", [float(-np.mean(np.log(part + small))) for part in parts]))
    return out
