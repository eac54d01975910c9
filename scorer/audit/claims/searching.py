"""The search: every definition of a claimed metric on the predictions that the claim is about."""

from collections.abc import Callable, Sequence

import numpy as np

from protocol.findings import plain
from scorer.audit.claims.claim import Claim
from scorer.audit.claims.definition import Batch, merged
from scorer.audit.claims.evaluating import Evaluated
from scorer.audit.claims.jointly import jointly
from scorer.audit.claims.matching import CUT, ROUNDED, Reading, chance, distinct, readings
from scorer.audit.claims.results import ClaimSearch, Match, Searched
from scorer.audit.claims.subject import subject_of
from scorer.audit.claims.targets import Place, places
from scorer.audit.shapes import PredictionSet

Found = dict[tuple[Place, str], Batch | str]
Placed = tuple[str, Batch]  # title of the predictions, definitions with their values


def search(
    claims: Sequence[Claim], sets: Sequence[PredictionSet], progress: Callable[[str], None] = lambda step: None
) -> ClaimSearch:
    """Which definitions reproduce each of ``claims`` on ``sets``.

    A claim that names no predictions is tried on all of them, and on the mean over them. ``progress`` is told each
    step by name. A claim that can't be checked says why; nothing is raised.
    """
    placings = places(claims, sets)
    claims, targets = [claim for claim, _ in placings], [target for _, target in placings]
    found = _evaluate(claims, targets, sets, progress)
    progress("comparing claims")
    searched: list[Searched] = []
    single: list[tuple[Claim, Place, Batch]] = []  # claims that are about one place
    for claim, target in zip(claims, targets, strict=True):
        if isinstance(target, str):
            searched.append(Searched(claim, problem=target))
            continue
        results = [(_title(sets, place), found[place, claim.metric]) for place in target]
        placed = [(title, one) for title, one in results if not isinstance(one, str)]
        if not placed:
            reasons = list(dict.fromkeys(one for _, one in results if isinstance(one, str)))
            more = f"; and {len(reasons) - 3} more reasons" if len(reasons) > 3 else ""
            searched.append(Searched(claim, problem="; ".join(reasons[:3]) + more))
            continue
        searched.append(_searched(claim, placed))
        if len(target) == 1:
            single.append((claim, target[0], placed[0][1]))
    return ClaimSearch(tuple(searched), jointly(single))


def _title(sets: Sequence[PredictionSet], place: Place) -> str:
    one, class_ = sets[place[0]], place[1]
    return plain(one.title if class_ is None else f"{one.title}: {one.classes[class_]}")


def _evaluate(
    claims: Sequence[Claim],
    targets: Sequence[list[Place] | str],
    sets: Sequence[PredictionSet],
    progress: Callable[[str], None],
) -> Found:
    """Every metric that is wanted of a place; one place after the other, so that one sort is held at a time."""
    wanted: dict[Place, dict[str, None]] = {}
    for claim, target in zip(claims, targets, strict=True):
        for place in () if isinstance(target, str) else target:
            wanted.setdefault(place, {})[claim.metric] = None
    out: Found = {}
    for place, metrics in sorted(
        wanted.items(), key=lambda item: (item[0][0], -1 if item[0][1] is None else item[0][1])
    ):
        progress(f"definitions on {_title(sets, place)}")
        subject = subject_of(sets[place[0]], place[1])
        evaluated = None if isinstance(subject, str) else Evaluated(subject)
        for metric in metrics:
            out[place, metric] = str(subject) if evaluated is None else evaluated.of(metric)
    return out


def _searched(claim: Claim, placed: list[Placed]) -> Searched:
    first = placed[0][1].definitions
    if len(placed) > 1 and all(one.definitions == first for _, one in placed):
        mean = np.mean([one.values for _, one in placed], axis=0)
        placed = [*placed, (f"mean over {len(placed)} predictions", Batch(first, mean))]
    values = np.concatenate([one.values for _, one in placed])
    apart = distinct(values)
    ways = readings(claim)
    reading, tried = ways[0], int(np.isfinite(values).sum())
    if len(ways) > 1 and not reading.rounded(values).any():  # a number below one may be one of percent all the same
        if ways[1].rounded(values).any():
            reading = ways[1]
        tried *= 2
    if not len(apart):
        return Searched(claim, problem=f"{claim.metric} is undefined there: no class has rows of both kinds")
    matches, counts = _matches(reading, placed)
    nearest = _nearest(reading, placed)
    return Searched(
        claim,
        where=placed[0][0] if len(placed) == 1 else "",
        matches=tuple(matches),
        reproduced=counts[0],
        cut=counts[1],
        nearest=nearest,
        distance=float("nan") if nearest is None else abs(nearest.low - reading.value),
        tried=tried,
        distinct=len(apart),
        chance=chance(reading, apart),
        left_out=placed[0][1].left_out,
    )


def _matches(reading: Reading, placed: list[Placed]) -> tuple[list[Match], tuple[int, int]]:
    out, counts = [], []
    for how, test in ((ROUNDED, reading.rounded), (CUT, reading.cut)):
        total = 0
        for title, (definitions, values, _) in placed:
            hit = np.flatnonzero(test(values))
            total += len(hit)
            value = {definitions[at]: float(values[at]) for at in hit}
            for words, members in merged(list(value)):
                own = [value[one] for one in members]
                out.append(Match(words, min(own), max(own), len(own), title, how, reading.scale))
        counts.append(total)
    return out, (counts[0], counts[1])


def _nearest(reading: Reading, placed: list[Placed]) -> Match | None:
    """The nearest value that is no match by rounding, with all definitions that give it."""
    best: tuple[float, str, Batch, int] | None = None
    for title, one in placed:
        distance = np.abs(one.values - reading.value)
        distance[~np.isfinite(distance) | reading.rounded(one.values)] = np.inf
        at = int(np.argmin(distance)) if len(distance) else 0
        if len(distance) and distance[at] < (np.inf if best is None else best[0]):
            best = float(distance[at]), title, one, at
    if best is None:
        return None
    _, title, (definitions, values, _), at = best
    same = [definitions[i] for i in np.flatnonzero(np.abs(values - values[at]) <= 1e-12)]
    value = float(values[at])
    how = CUT if reading.cut(values[at : at + 1])[0] else ROUNDED
    return Match(merged(same)[0][0], value, value, len(same), title, how, reading.scale)
