"""Claims beside what the scorer makes of them."""

from protocol import EDITION
from protocol.facts import ClaimCheck
from protocol.submission import Claim, Submission
from protocol.task import Task
from scorer.bootstrap import Method
from scorer.cohort import cohort_of, predictions_of
from scorer.scoring import Run, Slice, claim_value
from scorer.warehouse import Warehouse


def draw_key(task: Task) -> str:
    """The key of the bootstrap draws: all submissions to a task share them."""
    return f"{EDITION}/{task.digest}"


def check_claims(
    task: Task, record: Submission, extras: tuple[str, ...], warehouse: Warehouse
) -> tuple[ClaimCheck, ...]:
    """Recompute every claim of ``record``, each with its interval by the declared method and level."""
    if not record.metrics.claims:
        return ()
    cohort = cohort_of(task, record, extras, warehouse)
    predictions = predictions_of(task, warehouse)
    method: Method = "basic" if record.uncertainty.method == "basic" else "percentile"
    models = {model.name: model for model in record.models}
    checks = []
    for index, claim in enumerate(record.metrics.claims):
        seeds = models[claim.model].run_seeds if claim.seed == "mean" else (claim.seed,)
        row = claim_value(
            task.kind,
            task.classes,
            cohort,
            [predictions(Run(claim.model, seed, claim.calibrator)) for seed in seeds],
            claim.metric,
            claim.class_,
            _slice(claim),
            draw_key(task),
            task.resamples if claim.interval is not None else 1,
            record.uncertainty.level,
            method,
        )
        value, lo, hi = (None if number != number else number for number in (row.value, row.lo, row.hi))
        checks.append(ClaimCheck(index, claim, value, lo, hi, row.n_draws, row.reason or ""))
    return tuple(checks)


def _slice(claim: Claim) -> Slice:
    text = claim.slice or "test"
    if text == "test":
        return ("test", "all")
    kind, _, name = text.partition("=")
    return ("external", name) if kind == "external" else ("subgroup", text)
