"""Claims beside what the scorer makes of them."""

from collections.abc import Collection, Mapping
from typing import Any

from protocol import EDITION
from protocol.catalogue import catalogue
from protocol.facts import ClaimCheck
from protocol.submission import Claim, Submission
from protocol.task import Task
from scorer.cohort import cohort_of, predictions_of
from scorer.metrics.sets import FAMILIES, family_of
from scorer.rows import MEAN, Row, Run
from scorer.scoring import Slice, TaskSet, score
from scorer.warehouse import Warehouse

Group = tuple[str, str, Slice]  # model, calibrator and slice: one evaluation serves all claims on them


def draw_key(task: Task) -> str:
    """The key of the bootstrap draws: all submissions to a task share them."""
    return f"{EDITION}/{task.digest}"


def check_claims(
    task: Task,
    record: Submission,
    extras: tuple[str, ...],
    warehouse: Warehouse,
    precision: Mapping[str, str],
) -> tuple[ClaimCheck, ...]:
    """Recompute every claim of ``record``, each with its interval by the declared method and level.

    Each model and calibrator is evaluated once a slice, and only in the families of metrics that are claimed; without a
    claimed interval there are no draws to wait for. ``precision`` as for :func:`task_set`.
    """
    claims = record.metrics.claims
    if not claims:
        return ()
    cohort = cohort_of(task, record, extras, warehouse)
    predictions = predictions_of(task, warehouse)
    seeds = {model.name: model.run_seeds for model in record.models}
    groups: dict[Group, list[Claim]] = {}
    for claim in claims:
        groups.setdefault(_group(claim), []).append(claim)
    found: dict[tuple[Any, ...], Row] = {}
    for group, members in groups.items():
        model, calibrator, slice_ = group
        drawn = any(claim.interval is not None for claim in members)
        scores = score(
            submission=record.submission_id,
            task=task_set(task, precision, {family_of(claim.metric) for claim in members}),
            cohort=cohort,
            runs=[Run(model, s, calibrator) for s in seeds[model] if any(c.seed in (s, MEAN) for c in members)],
            predictions=predictions,
            key=draw_key(task),
            resamples=task.resamples if drawn else 1,
            level=record.uncertainty.level,
            method=record.uncertainty.method if drawn else "percentile",
            slices=[slice_],
        )
        found |= {(group, row.seed, row.metric, row.class_, row.bins_asked, row.cutoff): row for row in scores.rows}
    return tuple(
        _check(index, claim, found[(_group(claim), _seed(claim, seeds[claim.model]), *_definition(task, claim))])
        for index, claim in enumerate(claims)
    )


def task_set(task: Task, precision: Mapping[str, str], families: Collection[str] = FAMILIES) -> TaskSet:
    """The metrics of ``task``; ``precision`` maps a probability column to how it was stored."""
    return TaskSet(
        kind=task.kind,
        classes=task.classes,
        thresholds=task.thresholds,
        ordinal=task.ordinal,
        precision=tuple(precision.get(column, "float64") for column in task.probability_columns),
        families=families,
    )


def _definition(task: Task, claim: Claim) -> tuple[Any, ...]:
    """What tells one row of a run and slice from another; bins that are stated of an unbinned metric say nothing."""
    bins = claim.bins if catalogue(task.kind)[claim.metric].bins else None
    return claim.metric, claim.class_, bins, claim.cutoff


def _check(index: int, claim: Claim, row: Row) -> ClaimCheck:
    value, lo, hi = (None if number != number else number for number in (row.value, row.lo, row.hi))
    return ClaimCheck(index, claim, value, lo, hi, row.n_draws, row.reason or "")


def _seed(claim: Claim, seeds: tuple[int, ...]) -> str:
    """The seed as the rows have it: the mean of one seed is that seed."""
    if claim.seed == MEAN and len(seeds) == 1:
        return str(seeds[0])
    return str(claim.seed)


def _group(claim: Claim) -> Group:
    text = claim.slice or "test"
    kind, _, name = text.partition("=")
    slice_ = ("test", "all") if text == "test" else ("external", name) if kind == "external" else ("subgroup", text)
    return claim.model, claim.calibrator, slice_
