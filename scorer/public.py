"""What participants of a hosted task may see of the numbers: rounded aggregates of cells that are large enough."""

import math
from typing import Any

from protocol.catalogue import headline_metrics, primary_metric
from protocol.findings import Verdict
from protocol.hosting import PublicScore
from protocol.submission import Submission
from protocol.task import Task
from scorer.cohort import clustering_unit
from scorer.disclosure import Disclosure
from scorer.rows import MEAN, Row, Scores

UNDEFINED = "a null that is not withheld is undefined in this slice; the host knows why"
_KEYS = ("model", "seed", "calibrator", "slice_kind", "slice", "n_images", "n_patients")


def public_scores(task: Task, scores: Scores, shown: Disclosure) -> tuple[PublicScore, ...]:
    """The headline metrics of every model with every calibrator (mean over seeds) in every slice of ``shown``.

    Which rows there are does not depend on labels: a number that is withheld or undefined is None. Values and limits
    have the decimals that the task allows; counts of images are those of the slice, labelled or not.
    """
    found = {
        (row.model, row.seed, row.calibrator, row.slice_kind, row.slice, row.metric): row
        for row in scores.rows
        if row.class_ is None
    }
    decimals = task.participant_view.decimals
    made = []
    for group in shown.groups:
        model, calibrator = group[0].model, group[0].calibrator
        seed = MEAN if len(group) > 1 else str(group[0].seed)
        for s in shown.slices:
            for metric in headline_metrics(task.kind):
                hidden = (model, calibrator, s.kind, s.name, metric) in shown.withheld
                row = None if hidden else found[(model, seed, calibrator, s.kind, s.name, metric)]
                value, lo, hi = _numbers(row, decimals)
                made.append(
                    PublicScore(
                        model=model,
                        seed=seed,
                        calibrator=calibrator,
                        slice_kind=s.kind,
                        slice=s.name,
                        metric=metric,
                        value=value,
                        lo=lo,
                        hi=hi,
                        n_images=s.n_images,
                        n_patients=s.n_patients,
                    )
                )
    return tuple(made)


def _numbers(row: Row | None, decimals: int) -> tuple[float | None, float | None, float | None]:
    """Value and limits, rounded; None where undefined or withheld."""
    if row is None:
        return None, None, None
    value, lo, hi = (
        None if math.isnan(number) else round(number, decimals) + 0.0 for number in (row.value, row.lo, row.hi)
    )
    return value, lo, hi


def entry_of(record: Submission) -> tuple[str, str]:
    """Model and calibrator that stand for a submission where one number is ranked: the first that are declared.

    They stand in the declaration and in the content digest: to put forward another one after the scores were seen is
    another lock and another content.
    """
    methods = [method.name for method in record.calibration.methods if method.name != "none"]
    return record.models[0].name, methods[0] if methods else "none"


def scores_document(
    task: Task,
    record: Submission,
    verdict: Verdict,
    scores: tuple[PublicScore, ...],
    shown: Disclosure,
    intervals: dict[str, Any],
) -> dict[str, Any]:
    """``scores.json``: the public scores as people and platforms read them, and what is withheld with the reason."""
    tables: dict[tuple[Any, ...], dict[str, Any]] = {}
    for score in scores:
        key = tuple(getattr(score, name) for name in _KEYS)
        row = tables.setdefault(key, {**dict(zip(_KEYS, key, strict=True)), "metrics": {}})
        reason = shown.withheld.get((score.model, score.calibrator, score.slice_kind, score.slice, score.metric))
        numbers = {"value": score.value, "lo": score.lo, "hi": score.hi}
        row["metrics"][score.metric] = numbers if reason is None else {**numbers, "withheld": reason}
    return {
        "edition": verdict.edition,
        "task": {"name": task.name, "kind": task.kind, "sha256": task.digest, "classes": list(task.classes)},
        "submission": record.submission_id,
        "title": record.title,
        "team": record.team,
        "status": verdict.status.value,
        "primary_metric": primary_metric(task.kind, task.primary_metric),
        "headline": list(headline_metrics(task.kind)),
        "entry": dict(zip(("model", "calibrator"), entry_of(record), strict=True)),
        "intervals": {"unit": clustering_unit(task, record), **intervals},
        "shown": {**task.participant_view.model_dump(), "null": UNDEFINED},
        "scores": list(tables.values()),
    }
