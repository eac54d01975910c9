"""How score columns go together: classes of one model, findings, or several models side by side."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from protocol.types import Kind
from scorer.audit.shapes import Floats, Scale
from scorer.audit.understanding.labels import NEGATIVE, POSITIVE, Truth, bare, findings_of
from scorer.audit.understanding.scale import of_classes
from splits.checking import words

PREFIX = re.compile(
    r"(?i)^(?:prob|probs|proba|probability|p|score|scores|pred|preds|logit|logits|softmax|y_prob)[_ .:-]+"
)
EXCLUSIVE = (Scale.PROBABILITIES, Scale.PERCENT, Scale.LOG_PROBABILITIES, Scale.LOG_UNNORMALISED)


@dataclass(frozen=True)
class Block:
    """Score columns of one set: ``classes`` are their names without what they share; ``named`` where these are words
    or numbers of the file. ``model`` names the set among its sisters, ``finding`` the one that a binary set is of."""

    kind: Kind | None
    columns: tuple[str, ...]
    classes: tuple[str, ...]
    named: bool
    model: str = ""
    finding: str = ""
    note: str = ""


def stems(columns: Sequence[str]) -> tuple[str, ...]:
    """Names without the words that all share: prob_A, prob_B are A, B; p0, p1 are 0, 1."""
    names = [PREFIX.sub("", name) or name for name in columns]
    if len(names) < 2:
        return tuple(names)
    cut = _cut(names, _shared(names))
    back = [name[::-1] for name in cut]
    cut = [name[::-1] for name in _cut(back, _shared(back))]
    return tuple(cut) if len(set(cut)) == len(cut) else tuple(columns)


def _shared(names: Sequence[str]) -> str:
    """What all ``names`` start with, letter by letter."""
    first, last = min(names), max(names)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:same]


def _cut(names: Sequence[str], shared: str) -> list[str]:
    """``names`` without ``shared``, up to its last mark; without all of it where only numbers are left."""
    if shared and all(name[len(shared) :].isdigit() for name in names):
        return [name[len(shared) :] for name in names]
    marks = [k + 1 for k, char in enumerate(shared) if char in "_ .:-/"]
    return [name[marks[-1] :] for name in names] if marks and all(name[marks[-1] :] for name in names) else list(names)


def _form(name: str) -> str:
    return words.key(name) or name.casefold()


def numbered(names: Sequence[str]) -> bool:
    """Whether ``names`` are 0 to K - 1 or 1 to K, in order."""
    if not all(name.isdigit() for name in names):
        return False
    numbers = [int(name) for name in names]
    return numbers in (list(range(len(names))), list(range(1, len(names) + 1)))


def blocks(
    columns: Sequence[str],
    sample: Floats,
    precision: Sequence[str],
    truths: Sequence[Truth],
    kind: Kind | None = None,
    *,
    header: bool = True,
    told: str = "",
    chosen: Sequence[str] = (),
) -> tuple[Block, ...]:
    """The sets that ``columns`` make; ``sample`` (n, K) are some of their rows, ``truths`` the labels, if any."""
    k = len(columns)
    known = stems(columns) if header else tuple(str(i) for i in range(k))
    named = header
    listed = len(truths) > 1 or (len(truths) == 1 and _lists(truths[0]))
    findings = {_form(bare(one.column)) for one in truths} if len(truths) > 1 else _listed(truths)
    labels = truths[0].names if len(truths) == 1 and not listed else ()
    if kind == "multilabel":
        return (Block("multilabel", tuple(columns), known, named, note="told by the user"),)
    if kind == "multiclass":
        return (Block("multiclass", tuple(columns), tuple(chosen) or known, named, note="told by the user"),)
    if k == 1:
        finding = known[0] if listed and _form(known[0]) in findings else ""
        several = kind is None and len(labels) > 2 and not chosen
        return (Block(None if several else "binary", tuple(columns), known, named, finding=finding),)
    apart = _several_models(columns)
    if apart and kind is None:
        return apart
    apart = _several_distributions(columns, sample, precision)
    if apart and kind is None:
        return apart
    scale = of_classes(sample, columns, precision, told)[0].scale if len(sample) else Scale.UNKNOWN
    exclusive = scale in EXCLUSIVE
    if kind == "binary" or (k == 2 and exclusive and len(labels) <= 2 and not listed):
        if k == 2 and exclusive:
            first, second = _form(known[0]), _form(known[1])
            swap = not chosen and first in POSITIVE and (second in NEGATIVE or second not in POSITIVE)
            at = (1, 0) if swap else (0, 1)
            own, names = tuple(columns[i] for i in at), tuple(known[i] for i in at)
            note = f"two columns that sum to one: {own[1]!r} is the probability of the positive class"
            return (Block("binary", own, names, named, note=note),)
        return _side_by_side(columns, known)
    if listed and sum(_form(name) in findings for name in known) * 2 >= k:
        return (Block("multilabel", tuple(columns), known, named, note="names are those of the labels' findings"),)
    if exclusive:
        return (Block("multiclass", tuple(columns), known, named, note="rows are distributions over the columns"),)
    among = {_form(name) for name in labels} <= {_form(name) for name in (*known, *chosen)}
    # readers r0, r1, r2 are no classes 0, 1, 2
    numbers = numbered(known) and (scale is not Scale.ONE_VS_REST or not header or all(map(PREFIX.match, columns)))
    if labels and among and (len(labels) > 2 or numbers):
        return (Block("multiclass", tuple(columns), known, named, note="names are those of the labels"),)
    if len(truths) == 1 and not listed and 1 <= len(labels) <= 2:
        return _side_by_side(columns, known)
    if labels or numbered(known):
        return (Block("multiclass", tuple(columns), known, named, note="one column a class, by number"),)
    if scale is Scale.ONE_VS_REST and any(PREFIX.match(name) for name in columns) and k > 2:
        return (
            Block("multilabel", tuple(columns), known, named, note="several findings in [0, 1], rows do not sum to 1"),
        )
    if scale is Scale.ONE_VS_REST and k > 4 and not any(any(c.isdigit() for c in name) for name in known):
        return (
            Block("multilabel", tuple(columns), known, named, note="several columns in [0, 1], rows do not sum to 1"),
        )
    return _side_by_side(columns, known)


def _side_by_side(columns: Sequence[str], known: Sequence[str]) -> tuple[Block, ...]:
    return tuple(
        Block("binary", (column,), (name,), True, model=column, note="one of several models side by side")
        for column, name in zip(columns, known, strict=True)
    )


def _several_models(columns: Sequence[str]) -> tuple[Block, ...]:
    """Blocks of columns such as a_0, a_1, a_2, b_0, b_1, b_2; () where they are none."""
    groups: dict[str, dict[int, str]] = {}
    for name in columns:
        found = re.fullmatch(r"(.*?\D)(\d{1,3})", name)
        if not found:
            return ()
        groups.setdefault(found[1], {})[int(found[2])] = name
    sizes = {tuple(sorted(group)) for group in groups.values()}
    if len(groups) < 2 or len(sizes) != 1 or len(next(iter(sizes))) < 2:
        return ()
    numbers = next(iter(sizes))
    if numbers not in (tuple(range(len(numbers))), tuple(range(1, len(numbers) + 1))):
        return ()
    kind: Kind = "multiclass" if len(numbers) > 2 else "binary"
    return tuple(
        Block(kind, tuple(group[n] for n in numbers), tuple(map(str, numbers)), True, re.sub(r"[_ .:-]+$", "", prefix))
        for prefix, group in groups.items()
    )


def _several_distributions(columns: Sequence[str], sample: Floats, precision: Sequence[str]) -> tuple[Block, ...]:
    """Blocks of columns such as vit_mel, vit_nv, cnn_mel, cnn_nv, each a distribution; () where they are none."""
    for cut, first in ((str.partition, True), (str.rpartition, True), (str.partition, False), (str.rpartition, False)):
        groups: dict[str, dict[str, int]] = {}
        for k, name in enumerate(columns):
            left, _, right = cut(name, "_")
            model, class_ = (left, right) if first else (right, left)
            groups.setdefault(model, {})[class_] = k
        sizes = {frozenset(group) for group in groups.values()}
        if len(groups) < 2 or len(sizes) != 1 or len(next(iter(sizes))) < 2 or "" in groups:
            continue
        order = list(next(iter(groups.values())))
        parts = {model: [group[name] for name in order] for model, group in groups.items()}
        scales = [
            of_classes(sample[:, at], [columns[k] for k in at], [precision[k] for k in at])[0].scale
            for at in parts.values()
        ]
        if (
            not len(sample)
            or scales[0] not in EXCLUSIVE
            or any(scale not in (*EXCLUSIVE, Scale.LOGITS) for scale in scales)
        ):
            continue
        kind: Kind = "multiclass" if len(order) > 2 else "binary"
        return tuple(
            Block(kind, tuple(columns[k] for k in at), tuple(order), True, model) for model, at in parts.items()
        )
    return ()


def _lists(truth: Truth) -> bool:
    return any(mark in name for name in truth.names for mark in ("|", ";"))


def _listed(truths: Sequence[Truth]) -> set[str]:
    if len(truths) != 1:
        return set()
    import polars as pl

    return {_form(name) for name in findings_of(pl.Series(list(truths[0].names), dtype=pl.String))}


def sampled(scores: Floats, most: int = 20_000) -> Floats:
    """Some rows of ``scores`` from all over it."""
    return scores if len(scores) <= most else scores[:: -(-len(scores) // most)]


def argmax(scores: Floats) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """(N,) the column of the largest score, -1 where one is missing."""
    kept = ~np.isnan(scores).any(axis=1)
    best = np.full(len(scores), -1, dtype=np.int64)
    best[kept] = scores[kept].argmax(axis=1)
    return best
