"""Findings across sets and rows: equal models, one score for a whole cluster, fake clusters, sites against the pool."""

import hashlib
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from protocol.findings import counted
from scorer.audit.judging.measure import Measures
from scorer.audit.judging.rows import MetricRow
from scorer.audit.judging.scores import first, title_of
from scorer.audit.shapes import Codes, Evidence, Finding, Floats, Level, PredictionSet

EQUAL_SHARE = 0.95  # of clusters with one score
ENOUGH = 10  # clusters of two rows or more
MOST_SORTED = 2_000_000  # scores of a set up to which orders are compared
MOST_PAIRED, MOST_SAMPLED = 300, 500  # sets that are compared pair by pair, and rows looked at first
STEPS = {"float16": 5e-4, "float32": 6e-8}
ORDERED = 10  # distinct values, at least, for two orders to be told apart


def across(evidence: Evidence, measures: Measures) -> list[Finding]:
    """All findings of this file."""
    tests: tuple[Callable[[Evidence, Measures], Iterator[Finding]], ...] = (
        one_score_a_cluster, equal_sets, nearly_equal_sets, same_order, cluster_column, pooled_below_sites,
    )  # fmt: skip
    return [finding for test in tests for finding in test(evidence, measures)]


def one_score_a_cluster(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Clusters whose rows all have the same score: there are fewer independent rows than it seems."""
    said, rows, groups = [], 0, 0
    for one in evidence.sets:
        if one.cluster is None:
            continue
        known = np.flatnonzero(one.cluster >= 0)
        code = one.cluster[known]
        if not len(code):
            continue
        order = np.argsort(code, kind="stable")
        own, start = np.unique(code[order], return_index=True)
        several = np.diff(np.append(start, len(code))) > 1
        if several.sum() < ENOUGH:
            continue
        same = np.ones(len(own), dtype=np.bool_)
        for k in range(one.scores.shape[1]):
            score = one.scores[known, k][order]
            same &= np.fmax.reduceat(score, start) == np.fmin.reduceat(score, start)
        share = float(same[several].mean())
        if share >= EQUAL_SHARE and _varies(one.scores):
            said.append(
                f"{one.title}: {share:.1%} of {int(several.sum()):,}; {len(known):,} rows, {len(own):,} clusters"
            )
            rows, groups = max(rows, len(known)), max(groups, len(own))
    if said:
        word = evidence.cluster or "cluster"
        yield Finding(
            Level.WARNING,
            "one-score-a-cluster",
            f"all rows of a {word} have one score, in {counted(len(said), 'set')}: "
            f"{rows:,} rows are {groups:,} predictions",
            len(said),
            tuple(said),
            assumption=f"{word}s with two rows or more; {EQUAL_SHARE:.0%} of them or more",
            explanation=f"one prediction a {word} was written on each of its rows; an interval by row is too narrow",
        )


def _varies(scores: Floats) -> bool:
    return bool((np.nanmax(scores, axis=0) > np.nanmin(scores, axis=0)).any()) if np.isfinite(scores).any() else False


def _by_unit(one: PredictionSet) -> tuple[Codes | None, Floats]:
    """Units in order and the scores in their order."""
    if one.unit is None:
        return None, one.scores
    if len(one.unit) < 2 or bool((one.unit[1:] > one.unit[:-1]).all()):
        return one.unit, one.scores
    order = np.argsort(one.unit, kind="stable")
    return one.unit[order], one.scores[order]


def _digest(*arrays: Codes | Floats | None) -> str:
    made = hashlib.sha256()
    for array in arrays:
        if array is not None:
            made.update(str(array.shape).encode())
            made.update(np.ascontiguousarray(array).data)
    return made.hexdigest()


def _groups(keys: dict[str, list[PredictionSet]]) -> list[list[PredictionSet]]:
    return [sets for sets in keys.values() if len(sets) > 1]


def _digests(evidence: Evidence) -> dict[str, list[PredictionSet]]:
    found: dict[str, list[PredictionSet]] = {}
    for one in evidence.sets:
        unit, scores = _by_unit(one)
        if len(scores) > 1 and _varies(scores):
            found.setdefault(_digest(unit, scores + 0.0), []).append(one)
    return found


def equal_sets(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Sets with the same score for every unit."""
    seeds: list[str] = []
    others: list[str] = []
    for sets in _groups(_digests(evidence)):
        text = " = ".join(one.title for one in sets[:6]) + (f" = {len(sets) - 6} more" if len(sets) > 6 else "")
        alike = len({(one.model, one.calibrator, one.task) for one in sets}) == 1
        distinct = len({one.seed for one in sets}) == len(sets)
        (seeds if alike and distinct else others).append(text)
    if seeds:
        yield Finding(
            Level.WARNING, "seeds-identical", f"seeds with equal scores for every unit: {counted(len(seeds), 'group')}",
            len(seeds), tuple(seeds), rule="MVC205", assumption="the model is not deterministic",
            chance="practically never for seeds that differ", explanation="one run copied, or a seed that was not used",
        )  # fmt: skip
    if others:
        yield Finding(
            Level.WARNING, "sets-identical", f"sets with equal scores for every unit: {counted(len(others), 'group')}",
            len(others), tuple(others), chance="practically never for models that differ",
            explanation="a file given twice, a copied result, or a calibrator that changes nothing",
        )  # fmt: skip


def nearly_equal_sets(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Sets over the same units that differ by no more than the coarser of their two precisions."""
    groups: dict[str, list[PredictionSet]] = {}
    for key, sets in itertools.islice(_digests(evidence).items(), MOST_PAIRED):
        one = sets[0]
        distinct = len(np.unique(one.scores[:MOST_SAMPLED]))
        if one.scores.size <= MOST_SORTED and distinct >= ORDERED and key:
            groups.setdefault(f"{_digest(_by_unit(one)[0])} {one.scores.shape}", []).append(one)
    said = []
    for sets in groups.values():
        tables = {one.title: _by_unit(one)[1] for one in sets}
        for first_set, second in itertools.combinations(sets, 2):
            a, b = tables[first_set.title], tables[second.title]
            most = max(_step(first_set), _step(second))
            if _within(a[:MOST_SAMPLED], b[:MOST_SAMPLED], most) and _within(a, b, most):
                said.append(
                    f"{first_set.title} and {second.title}: nowhere more than {np.nanmax(np.abs(a - b)):.2g} apart"
                )
    if said:
        yield Finding(
            Level.WARNING, "sets-equal-but-for-rounding",
            f"{counted(len(said), 'pair')} of sets that differ by rounding alone",
            len(said), tuple(said), chance="practically never for models that differ",
            explanation="one result written in two precisions",
        )  # fmt: skip


def _within(a: Floats, b: Floats, most: float) -> bool:
    return bool((np.isnan(a) == np.isnan(b)).all() and (np.nan_to_num(np.abs(a - b)) <= most).all())


def _step(one: PredictionSet) -> float:
    """The largest rounding of a set's columns."""
    steps = []
    for stored in one.precision or ("float64",):
        digits = stored.removeprefix("decimals:")
        steps.append(0.51 * 10.0 ** -int(digits) if digits != stored else STEPS.get(stored, 1e-12))
    return max(steps)


def same_order(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Sets of one column that differ but rank every unit alike: recalibrated or rounded copies."""
    exact = {one.title: key for key, sets in _digests(evidence).items() for one in sets}
    found: dict[str, list[PredictionSet]] = {}
    for one in evidence.sets:
        if one.title not in exact or one.scores.shape[1] != 1 or one.scores.size > MOST_SORTED:
            continue
        unit, scores = _by_unit(one)
        values, rank = np.unique(scores[:, 0], return_inverse=True)
        if len(values) >= ORDERED:
            found.setdefault(_digest(unit, rank.reshape(-1).astype(np.int64)), []).append(one)
    said = []
    for sets in _groups(found):
        unlike: dict[str, PredictionSet] = {}
        for one in sets:
            unlike.setdefault(exact[one.title], one)
        kept = list(unlike.values())
        if len(kept) > 1 and len({(one.model, one.seed) for one in kept}) > 1:
            said.append(" ~ ".join(one.title for one in kept[:6]))
    if said:
        yield Finding(
            Level.NOTE, "same-order", f"sets that rank every unit alike: {counted(len(said), 'group')}",
            len(said), tuple(said), chance="practically never for models that differ",
            explanation="one model before and after a monotone calibrator, or in two precisions",
        )  # fmt: skip


def cluster_column(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """Clusters that are one a unit, or one in all."""
    if any(finding.rule == "MVC110" for finding in evidence.findings):
        return  # understanding has said it
    if evidence.unit and evidence.unit == evidence.cluster:
        return  # a row is about a patient
    known = [one for one in evidence.sets if one.cluster is not None and (one.cluster >= 0).sum() > 1]
    if not known:
        return
    counts = [(len(np.unique(one.cluster[one.cluster >= 0])), int((one.cluster >= 0).sum())) for one in known
              if one.cluster is not None]  # fmt: skip
    word = evidence.cluster or "cluster"
    if all(groups == 1 for groups, _ in counts):
        yield Finding(
            Level.WARNING, "cluster-constant", f"every row has the same {word}: no interval can be made", rule="MVC110"
        )
    elif all(groups == rows for groups, rows in counts):
        yield Finding(
            Level.NOTE, "cluster-unique", f"every row has a {word} of its own", rule="MVC110",
            explanation=f"one row a {word}, or an id of the row that is called {word}",
        )  # fmt: skip


def pooled_below_sites(evidence: Evidence, measures: Measures) -> Iterator[Finding]:
    """A pooled calibration error that is smaller than that of every site."""
    pooled: dict[tuple[str, ...], MetricRow] = {}
    sites: dict[tuple[str, ...], list[MetricRow]] = {}
    for row in measures.rows:
        if row.metric in ("ece", "ece_macro") and (not row.class_ or row.metric == "ece") and row.value == row.value:
            key: tuple[str, ...] = (row.set, row.task, row.class_, row.metric)
            if row.slice_kind == "pooled":
                pooled[key] = row
            elif row.slice_kind == "site":
                sites.setdefault(key, []).append(row)
    said = []
    for place, whole in pooled.items():
        own = sites.get(place, [])
        if len(own) > 1 and whole.value < min(row.value for row in own):
            each = first([f"{row.slice} {row.value:.3f}" for row in own])
            said.append(f"{title_of(whole)}: pooled {whole.value:.3f}; {each}")
    if said:
        yield Finding(
            Level.NOTE,
            "pooled-below-sites",
            f"the pooled calibration error is below that of every site, in {len(said)}",
            len(said),
            tuple(said),
            explanation="errors of opposite sign cancel in the pool; and a binned error is biased upwards the more, "
            "the fewer the rows, so that part of it is the size of the sites: compare the intervals",
        )
