"""Which prediction sets, and which of their classes, a claim is about."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from protocol.findings import plain
from scorer.audit.claims.claim import Claim
from scorer.audit.shapes import PredictionSet

Place = tuple[int, int | None]  # number of a set, and of a class, None for all (binary: for the positive one)

ALL = frozenset({"", "all", "average", "avg", "macro", "mean", "overall", "total"})
OWN = {"model": "model", "seed": "seed", "calibrator": "calibrator", "task": "task"}
RAW = frozenset({"pre", "raw", "base", "baseline", "before", "uncal", "uncalibrated", "none", "nocalibration"})
CALIBRATED = frozenset(
    {"after", "beta", "calibrated", "dirichlet", "histogram", "iso", "isotonic", "platt", "post", "temp", "temperature"}
    | {"temperaturescaling", "ts", "vectorscaling"}
)
CLASS_KEYS = frozenset({"class", "label", "finding", "disease", "pathology", "target", "outcome"})
MAX_NAMED = 8


def places(claims: Sequence[Claim], sets: Sequence[PredictionSet]) -> list[tuple[Claim, list[Place] | str]]:
    """Each claim with the places that its target names, else why there is none.

    Names are compared without case, blanks, dashes and underscores. A key of a table whose values name nothing in any
    row ('n', 'tier') is left out of the target, unless one is a calibrator ('platt'): its numbers are not those of
    scores as released. What a person typed must fit.
    """
    names = [_names(one) for one in sets]
    classes = [_classes(one) for one in sets]
    useful = {
        (claim.source, key)
        for claim in claims
        for key, value in claim.target.items()
        if _bare(value) in CALIBRATED
        or any(_fit(key, value, a, b) is not None for a, b in zip(names, classes, strict=True))
    }
    out: list[tuple[Claim, list[Place] | str]] = []
    for claim in claims:
        wanted = {
            key: value for key, value in claim.target.items() if not claim.source or (claim.source, key) in useful
        }
        found = [
            (number, place[0])
            for number, (a, b) in enumerate(zip(names, classes, strict=True))
            if (place := _place(wanted, a, b)) is not None
        ]
        reduced = replace(claim, target=wanted)
        out.append((reduced, found or _missing(reduced, sets)))
    return out


def _place(
    wanted: Mapping[str, str], names: Mapping[str, frozenset[str]], classes: Mapping[str, int | None]
) -> tuple[int | None] | None:
    """The class that ``wanted`` names, in a tuple, or None where a part of it fits nothing."""
    class_: int | None = None
    for key, value in wanted.items():
        fit = _fit(key, value, names, classes)
        if fit is None:
            return None
        class_ = fit[0] if fit[0] is not None else class_
    return (class_,)


def _fit(
    key: str, value: str, names: Mapping[str, frozenset[str]], classes: Mapping[str, int | None]
) -> tuple[int | None] | None:
    bare, own = _bare(value), key.casefold().strip()
    if own in CLASS_KEYS and bare in classes:
        return (classes[bare],)
    if bare in names[OWN.get(own, "")] or (own in CLASS_KEYS and bare in ALL):
        return (None,)
    return (classes[bare],) if own not in OWN and bare in classes else None


def _names(one: PredictionSet) -> dict[str, frozenset[str]]:
    """The bare names of a set by field, '' for all of them."""
    out = {
        "model": _parts(one.model) | _parts(one.name),
        "seed": _parts(one.seed),
        "calibrator": RAW if _bare(one.calibrator) in RAW | {""} else _parts(one.calibrator),
        "task": _parts(one.task),
    }
    return out | {"": frozenset().union(*out.values(), {_bare(one.title), _bare(one.source)}) - {""}}


def _parts(text: str) -> frozenset[str]:
    pieces = re.split(r"[,/|;=\[\]()·:]|\s-\s|\s+", text)
    return frozenset(_bare(piece) for piece in (text, *pieces, *re.split(r"[,/|;=]", text))) - {""}


def _classes(one: PredictionSet) -> dict[str, int | None]:
    """Class numbers by bare name; of two classes the positive one has none."""
    names: dict[str, int | None] = {}
    binary = one.kind == "binary" or len(one.classes) < 2
    many = not binary and len(one.columns) == len(one.classes)
    for number, name in enumerate(one.classes):
        for alias in (name, *((one.columns[number],) if many else ())):
            short = re.sub(r"^(prob|probs|p|score|pred|logit)[_ .]+", "", alias, flags=re.IGNORECASE)
            names.setdefault(_bare(alias), None if binary and number else number)
            names.setdefault(_bare(short), None if binary and number else number)
    names.pop("", None)
    return names


def _bare(text: str) -> str:
    return re.sub(r"[\s_\-/,|;=]+", "", text.casefold())


def _missing(claim: Claim, sets: Sequence[PredictionSet]) -> str:
    titles = [one.title for one in sets]
    known = ", ".join(titles[:MAX_NAMED]) + (f" and {len(titles) - MAX_NAMED} more" if len(titles) > MAX_NAMED else "")
    classes = list(dict.fromkeys(name for one in sets for name in one.classes))
    of = ", ".join(classes[:MAX_NAMED]) + (f" and {len(classes) - MAX_NAMED} more" if len(classes) > MAX_NAMED else "")
    if not sets:
        return "there are no predictions"
    return plain(f"no predictions are called {claim.where}; predictions: {known}; classes: {of or 'unknown'}", 600)
