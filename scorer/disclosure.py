"""Which numbers of a hosted submission may be shown: decided before a label is seen, from who differs from whom.

Two numbers that rest on nearly the same predictions give a third by subtraction: that of the few patients in whom they
differ. So slices and runs that a few patients tell apart are not shown side by side.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from protocol.catalogue import headline_metrics
from protocol.task import Task
from protocol.types import Kind
from scorer.metrics.binned import BINS
from scorer.metrics.proper import NLL_FLOOR
from scorer.rows import Run
from scorer.scoring import Cohort, slices_of

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Place = tuple[str, str, str, str, str]  # model, calibrator, kind and name of the slice, metric

LEAST_SHARE = 0.25  # of the largest change, that the smallest_cell-th patient must reach


@dataclass(frozen=True)
class Slice:
    """A slice as it is seen without labels; ``withheld`` says why no number of it is shown, '' if they are."""

    kind: str
    name: str
    n_images: int
    n_patients: int
    withheld: str


@dataclass(frozen=True)
class Disclosure:
    """Every slice, and why a number is withheld by its place (also those of the slices that are withheld whole)."""

    slices: tuple[Slice, ...]
    groups: tuple[tuple[Run, ...], ...]
    withheld: Mapping[Place, str]


def disclosure(
    task: Task, people: Cohort, groups: Sequence[Sequence[Run]], predictions: Callable[[Run], Floats]
) -> Disclosure:
    """What may be shown of the runs in ``groups`` (a model with a calibrator each, in the order in which they count).

    ``people`` are the evaluated images by patient, ``predictions`` as for :func:`scorer.scoring.score`. Labels are not
    read.
    """
    cell = task.participant_view.smallest_cell
    metrics = headline_metrics(task.kind)
    slices = _slices(people, cell)
    names = [(group[0].model, group[0].calibrator) for group in groups]
    withheld = {(*name, s.kind, s.name, m): s.withheld for s in slices if s.withheld for name in names for m in metrics}
    tables = [[predictions(run) for run in group] for group in groups]
    kept: dict[str, set[int]] = {}
    for unit in _units(slices):
        near = [_too_near(task.kind, tables, people, s, cell) for s in unit]
        for metric in metrics:
            blocked = np.logical_or.reduce([own[reading] for own in near for reading in _read_by(task.kind, metric)])
            shown: list[int] = []
            for g in range(len(groups)):
                # a subgroup without its whole would give the whole, and the other way round
                whole = unit[0].kind != "subgroup" or g in kept[metric]
                other = next((h for h in shown if blocked[g, h]), None)
                if whole and other is None:
                    shown.append(g)
                    continue
                reason = "withheld for the whole test"
                if other is not None:
                    reason = f"its difference from {'/'.join(names[other])} rests on fewer than {cell} patients"
                for s in unit:
                    withheld[(*names[g], s.kind, s.name, metric)] = reason
            if unit[0].kind == "test":
                kept[metric] = set(shown)
    return Disclosure(tuple(slices), tuple(tuple(group) for group in groups), withheld)


def _units(slices: Sequence[Slice]) -> list[list[Slice]]:
    """Slices that are shown or withheld together: test, each external site, the levels of each subgroup column."""
    units: dict[tuple[str, str], list[Slice]] = {}
    for s in slices:
        if not s.withheld:
            own = s.name.partition("=")[0] if s.kind == "subgroup" else s.name
            units.setdefault((s.kind, own), []).append(s)
    return [unit for (kind, _), unit in units.items() if kind != "subgroup" or ("test", "all") in units]


# Slices


def _slices(people: Cohort, cell: int) -> list[Slice]:
    """All slices, those withheld that are too small or that give a small one away by subtraction."""
    rows = {chosen: _rows(people, *chosen) for chosen in slices_of(people)}
    patients = {chosen: _patients(people, own) for chosen, own in rows.items()}
    few = f"fewer than {cell} patients"
    why = {chosen: few if n < cell else "" for chosen, n in patients.items()}
    inside = [chosen for chosen in rows if chosen[0] != "external"]
    for place, chosen in enumerate(inside):
        for earlier in inside[:place]:
            if not why[chosen] and not why[earlier]:
                apart = _patients(people, rows[chosen] ^ rows[earlier])
                if 0 < apart < cell:
                    why[chosen] = f"{few} tell it from {'the whole test' if earlier[0] == 'test' else earlier[1]}"
    for column in people.subgroups:
        levels = [c for c in inside if c[0] == "subgroup" and c[1].startswith(f"{column}=")]
        shown = sorted((c for c in levels if not why[c]), key=lambda c: (patients[c], c[1]))
        while shown:
            rest = rows.get(("test", "all"), np.zeros(len(people.split), dtype=np.bool_)).copy()
            for chosen in shown:
                rest &= ~rows[chosen]
            if not 0 < _patients(people, rest) < cell:
                break
            why[shown.pop(0)] = f"with it, the others of {column} and the whole test, {few} would stand alone"
    return [Slice(*chosen, int(rows[chosen].sum()), patients[chosen], why[chosen]) for chosen in rows]


def _rows(people: Cohort, kind: str, name: str) -> Bools:
    test = people.split == "test"
    if kind == "external":
        return np.asarray((people.split == "external") & (people.site == name))
    if kind == "subgroup":
        column, _, level = name.partition("=")
        return np.asarray(test & (people.subgroups[column] == level))
    return np.asarray(test)


def _patients(people: Cohort, rows: Bools) -> int:
    return len(np.unique(people.patient[rows]))


# Runs


def _read_by(kind: Kind, metric: str) -> tuple[str, ...]:
    """What a metric reads of the predictions: where none of it changes, nor does the metric."""
    stem = metric.removesuffix("_macro")
    if stem in ("ece", "classwise_ece"):  # bins of equal mass go by rank, top labels by the decision
        return ("probability", "rank", "bin", "decision") if kind == "multiclass" else ("probability", "rank", "bin")
    return ({"nll": "logarithm", "accuracy": "decision", "auroc": "rank"}.get(stem, "probability"),)


def _too_near(
    kind: Kind, tables: Sequence[Sequence[Floats]], people: Cohort, chosen: Slice, cell: int
) -> dict[str, Bools]:
    """By reading, (G, G): whether a few patients alone tell two groups of runs apart in a slice."""
    rows = np.flatnonzero(_rows(people, chosen.kind, chosen.name))
    order = np.argsort(people.patient[rows], kind="stable")
    _, starts = np.unique(people.patient[rows][order], return_index=True)
    found = {}
    for reading, read in READINGS.items():
        # seeds are averaged, as their metrics are; patient by patient from here on
        own = [
            np.mean([read(kind, table[rows[order]]) for table in seeds], axis=0).astype(np.float32) for seeds in tables
        ]
        near = np.zeros((len(own), len(own)), dtype=np.bool_)
        for g in range(len(own)):
            for h in range(g):
                changed = np.maximum.reduceat(np.abs(own[g] - own[h]).max(axis=1), starts)
                near[g, h] = _rests_on_few(changed, cell)
        found[reading] = near
    return found


def _rests_on_few(changed: NDArray[np.float32], cell: int) -> bool:
    """Whether fewer than ``cell`` patients carry a difference: the ``cell``-th changes less than a quarter as much as
    the first. No difference at all rests on nobody."""
    most = float(changed.max())
    if most == 0.0:
        return False
    place = len(changed) - cell
    return place < 0 or float(np.partition(changed, place)[place]) < LEAST_SHARE * most


def _decision(kind: Kind, p: Floats) -> Floats:
    """The share of the decision that each column gets: 1, 0, or ties shared."""
    if kind != "multiclass":
        return np.where(p == 0.5, 0.5, p > 0.5).astype(np.float64)
    top = p == p.max(axis=1, keepdims=True)
    return np.asarray(top / top.sum(axis=1, keepdims=True))


def _logarithm(kind: Kind, p: Floats) -> Floats:
    """What a label is worth in the log-likelihood: log-odds, or the logarithm of each class."""
    own = np.log(np.maximum(p, NLL_FLOOR))
    return own if kind == "multiclass" else own - np.log(np.maximum(1.0 - p, NLL_FLOOR))


def _bin(kind: Kind, p: Floats) -> Floats:
    """The bin of equal mass of each column, and of the largest: ranks that change inside a bin would hide one that
    crosses its edge."""
    read = np.column_stack([p, p.max(axis=1)]) if kind == "multiclass" else p
    return np.asarray(np.ceil(BINS * (rankdata(read, axis=0) - 0.5) / len(read)))


READINGS: Mapping[str, Callable[[Kind, Floats], Floats]] = {
    "probability": lambda kind, p: p,
    "logarithm": _logarithm,
    "decision": _decision,
    "rank": lambda kind, p: np.asarray(rankdata(p, axis=0)),
    "bin": _bin,
}
