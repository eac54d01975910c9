"""Definitions of metrics in words, and several of them merged into one line."""

from collections.abc import Iterable, Sequence
from itertools import product
from typing import NamedTuple

import numpy as np

from scorer.audit.claims.binning import LEFT, RIGHT
from scorer.audit.shapes import Floats


class Definition(NamedTuple):
    """One way to compute a metric: what is done (``form``), of what (``reading``), and for binned metrics the
    ``rule`` of the bins, which ``side`` they are closed on, and their number."""

    form: str
    reading: str = ""
    rule: str = ""
    side: str = ""
    bins: int = 0

    @property
    def words(self) -> str:
        """The definition in words."""
        return merged([self])[0][0]


class Batch(NamedTuple):
    """The values (D,) of ``definitions``, NaN where one is undefined; the usual definitions come first. ``left_out``
    says what was not tried for want of time, '' for nothing."""

    definitions: tuple[Definition, ...]
    values: Floats
    left_out: str = ""


def batch(pairs: Iterable[tuple[Definition, float]]) -> Batch:
    """A batch of single values."""
    found = tuple(pairs)
    return Batch(tuple(one for one, _ in found), np.array([value for _, value in found], dtype=np.float64))


Sets = tuple[tuple[object, ...], ...]
MERGE_ORDER = (3, 4, 2, 1, 0)  # sides, then numbers of bins, rules, readings, forms


def merged(definitions: Sequence[Definition]) -> list[tuple[str, tuple[Definition, ...]]]:
    """``definitions`` in as few lines as a plain merge gives, each with its members: those that differ in one thing
    alone share a line."""
    groups: list[Sets] = [tuple((part,) for part in one) for one in dict.fromkeys(definitions)]
    for aspect in MERGE_ORDER:
        joined: dict[Sets, list[object]] = {}
        for group in groups:
            rest = (*group[:aspect], *group[aspect + 1 :])
            joined.setdefault(rest, []).extend(group[aspect])
        groups = [(*rest[:aspect], tuple(parts), *rest[aspect:]) for rest, parts in joined.items()]
    return [(_line(group), tuple(Definition(*parts) for parts in product(*group))) for group in groups]  # type: ignore[arg-type]


def _line(group: Sets) -> str:
    form, reading, rule, side, bins = group
    words = [_or(form)]
    if any(reading):
        words.append(_or(reading))
    if any(bins):
        words.append(f"{numbers([int(str(one)) for one in bins])} {_or(rule)} bins")
        if any(side):
            both = RIGHT in side and LEFT in side
            words.append("either side closed" if both else _or([one for one in side if one]))
    return ", ".join(words)


def _or(parts: Iterable[object]) -> str:
    """Words joined by 'or': a variant ('top label, ties ...') beside its own ('top label') goes without saying, and a
    beginning that all share is said once."""
    words = [str(part) for part in parts]
    kept = [word for word in words if not any(word.startswith(f"{other}, ") for other in words)]
    heads = {word.partition(", ")[0] for word in kept}
    if len(kept) > 1 and len(heads) == 1:
        return f"{heads.pop()}, {' or '.join(word.partition(', ')[2] for word in kept)}"
    return " or ".join(kept)


def numbers(values: Iterable[int]) -> str:
    """Whole numbers as ranges: '5-8, 10'."""
    runs: list[list[int]] = []
    for value in sorted(set(values)):
        if runs and value == runs[-1][1] + 1:
            runs[-1][1] = value
        else:
            runs.append([value, value])
    parts: list[str] = []
    for a, b in runs:
        parts += [f"{a}-{b}"] if b > a + 1 else [str(a)] if a == b else [str(a), str(b)]
    return " or ".join(parts) if len(parts) < 3 else ", ".join(parts)
