"""Claims beside what the scorer makes of them."""

from protocol import EDITION
from protocol.facts import ClaimCheck
from protocol.submission import Claim, Submission
from protocol.task import Task
from scorer.bootstrap import Method
from scorer.cohort import cohort_of, predictions_of
from scorer.scoring import MEAN, Row, Run, Slice, score
from scorer.warehouse import Warehouse

Group = tuple[str, str, Slice]  # model, calibrator and slice: one evaluation serves all claims on them


def draw_key(task: Task) -> str:
    """The key of the bootstrap draws: all submissions to a task share them."""
    return f"{EDITION}/{task.digest}"


def check_claims(
    task: Task, record: Submission, extras: tuple[str, ...], warehouse: Warehouse
) -> tuple[ClaimCheck, ...]:
    """Recompute every claim of ``record``, each with its interval by the declared method and level.

    Each model and calibrator is evaluated once a slice, however many claims are made on them; without a claimed
    interval there are no draws to wait for.
    """
    claims = record.metrics.claims
    if not claims:
        return ()
    cohort = cohort_of(task, record, extras, warehouse)
    predictions = predictions_of(task, warehouse)
    method: Method = "basic" if record.uncertainty.method == "basic" else "percentile"
    seeds = {model.name: model.run_seeds for model in record.models}
    groups: dict[Group, bool] = {}  # whether any claim of the group has an interval
    for claim in claims:
        groups[_group(claim)] = groups.get(_group(claim), False) or claim.interval is not None
    found: dict[tuple[Group, str, str, str | None], Row] = {}
    for group, drawn in groups.items():
        model, calibrator, slice_ = group
        scores = score(
            submission=record.submission_id,
            kind=task.kind,
            classes=task.classes,
            cohort=cohort,
            runs=[Run(model, seed, calibrator) for seed in seeds[model]],
            predictions=predictions,
            key=draw_key(task),
            resamples=task.resamples if drawn else 1,
            level=record.uncertainty.level,
            method=method,
            slices=[slice_],
        )
        found |= {(group, row.seed, row.metric, row.class_): row for row in scores.rows}
    return tuple(
        _check(index, claim, found[(_group(claim), _seed(claim, seeds[claim.model]), claim.metric, claim.class_)])
        for index, claim in enumerate(claims)
    )


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
