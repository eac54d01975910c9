"""Claims of one metric on several targets: which one definition reproduces most of them?"""

from collections.abc import Sequence

import numpy as np

from protocol.findings import plain
from scorer.audit.claims.claim import Claim
from scorer.audit.claims.definition import Batch, Definition, merged
from scorer.audit.claims.matching import CUT, ROUNDED, Mask, Reading, readings
from scorer.audit.claims.results import Joint, Ranked
from scorer.audit.claims.targets import Place
from scorer.audit.shapes import Codes, Floats

BEST = 5
USUAL = (10, 15, 20)
MAX_MISSED = 10
MAX_VALUES = 20_000_000  # claims times definitions; the first claims speak for the rest


def jointly(single: Sequence[tuple[Claim, Place, Batch]]) -> tuple[Joint, ...]:
    """One :class:`Joint` a metric (and column of a table) with claims on two places or more; ``single`` has each claim
    with the one place that it is about and the values there."""
    groups: dict[tuple[str, str, tuple[Definition, ...]], list[tuple[Claim, Place, Batch]]] = {}
    for claim, place, one in single:
        groups.setdefault((claim.metric, claim.column, one.definitions), []).append((claim, place, one))
    several = [group for group in groups.values() if len({place for _, place, _ in group}) > 1]
    return tuple(_joint([(claim, one) for claim, _, one in group]) for group in several)


def _joint(group: list[tuple[Claim, Batch]]) -> Joint:
    definitions = group[0][1].definitions
    group = group[: max(MAX_VALUES // len(definitions), 2)]
    claims = [claim for claim, _ in group]
    values = np.stack([one.values for _, one in group])
    ways = [readings(claim) for claim in claims]
    scales = [way[0] for way in ways], [way[-1] for way in ways]  # as printed; all in percent where that may be
    fits = [(scale, how, _fits(scale, how, values)) for scale in scales for how in (ROUNDED, CUT)]
    scale, how, fit = max(fits, key=lambda one: int(one[2].sum(axis=0).max(initial=0)))
    counts = fit.sum(axis=0)
    first, same = _equal(values)
    order = first[np.lexsort((first, -counts[first]))]

    def ranked(at: int) -> Ranked:
        members = [definitions[i] for i in np.flatnonzero(same == same[at])]
        return Ranked(tuple(words for words, _ in merged(members)), len(members), int(counts[at]), how)

    winner = int(order[0])
    top = [int(at) for at in order[:BEST] if counts[at] > 0 or at == winner]
    shown = {int(same[at]) for at in top}
    beside = []
    for bins in USUAL:
        other = definitions[winner]._replace(bins=bins)
        if definitions[winner].bins and other in definitions and int(same[definitions.index(other)]) not in shown:
            beside.append(ranked(definitions.index(other)))
    missed = [claim for claim, ok in zip(claims, fit[:, winner], strict=True) if not ok]
    return Joint(
        claims[0].metric,
        claims[0].column,
        scale[0].scale,
        len(claims),
        tuple(ranked(at) for at in top),
        tuple(beside),
        len(definitions),
        len(order),
        float(counts[first].mean()),
        tuple(f"{one.where} = {plain(one.text.split('=')[-1], 40)}" for one in missed[:MAX_MISSED]),
    )


def _fits(scale: Sequence[Reading], how: str, values: Floats) -> Mask:
    tests = [(one.rounded if how == ROUNDED else one.cut)(row) for one, row in zip(scale, values, strict=True)]
    return np.stack(tests)


def _equal(values: Floats) -> tuple[Codes, Codes]:
    """(the first definition of each group of equal ones, the group of each); equal is within about 1e-11 on every
    target."""
    keys: dict[bytes, int] = {}
    rounded = np.ascontiguousarray(np.where(np.isfinite(values), np.round(values, 11) + 0.0, np.inf).T)
    same = np.array([keys.setdefault(row.tobytes(), len(keys)) for row in rounded], dtype=np.int64)
    _, first = np.unique(same, return_index=True)
    return first.astype(np.int64), same
