"""What scoring an accepted bundle leaves behind: metrics, replicates, curves and the scorecard, below ``results/``."""

import importlib.metadata
import json
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path
from typing import Any

from protocol import EDITION
from protocol.catalogue import headline_metrics, primary_metric
from protocol.findings import Outcome
from protocol.types import RESULTS_FOLDER
from scorer.check import Examination
from scorer.claims import draw_key, task_set
from scorer.cohort import clustering_unit, cohort_of, predictions_of
from scorer.intervals import Method
from scorer.metrics.sets import FAMILIES
from scorer.receipts import declared_words
from scorer.results import SideFiles, scorecard_metrics, write_metrics
from scorer.rows import MEAN, Run, Scores, Sinks, Spread
from scorer.scoring import score
from submission.files import sha256_file, write_atomic

Progress = Callable[[str], None]
METRICS_FILE = f"{RESULTS_FOLDER}/metrics.parquet"
SCORECARD_FILE = f"{RESULTS_FOLDER}/scorecard.json"
REPLICATES_FILE = f"{RESULTS_FOLDER}/replicates.parquet"
CURVES_FILE = f"{RESULTS_FOLDER}/curves.parquet"
# The intervals of the edition: a submission can't make its own wider or narrower.
LEVEL = 0.95
METHOD: Method = "percentile"
PACKAGES = ("duckdb", "numba", "numpy", "pyarrow", "scipy")  # on which numbers can hang


RESULTS = (METRICS_FILE, REPLICATES_FILE, CURVES_FILE, SCORECARD_FILE)


def write_results(examination: Examination, stage: Path, progress: Progress) -> Scores:
    """Score an accepted bundle and write :data:`RESULTS` below the folder ``stage``."""
    task, record = examination.records
    (stage / RESULTS_FOLDER).mkdir(exist_ok=True)
    with SideFiles(
        stage / REPLICATES_FILE,
        stage / CURVES_FILE,
        submission=record.submission_id,
        headline=headline_metrics(task.kind),
        key=draw_key(task),
    ) as sinks:
        scores = score_examined(examination, progress, sinks)
    write_metrics(scores, stage / METRICS_FILE)
    write_atomic(stage / SCORECARD_FILE, _json(scorecard(examination, scores, sha256_file(stage / METRICS_FILE))))
    return scores


def score_examined(
    examination: Examination,
    progress: Progress,
    sinks: Sinks | None = None,
    families: Collection[str] = FAMILIES,
) -> Scores:
    """Score an accepted bundle: every declared run on test, every external site and every declared subgroup.

    ``families`` of metrics are computed, all of them unless said. Level and method of the intervals are the edition's,
    the same for all; what the record declares is for its claims.
    """
    task, record = examination.records
    assert examination.intake.splits is not None
    assert examination.intake.predictions is not None
    runs = [Run(*run) for run in record.runs]
    done = iter(range(1, len(runs) + 1))
    return score(
        submission=record.submission_id,
        task=task_set(task, examination.intake.predictions.table.precision, families),
        cohort=cohort_of(task, record, examination.intake.splits.table.extras, examination.warehouse),
        runs=runs,
        predictions=predictions_of(task, examination.warehouse),
        key=draw_key(task),
        resamples=task.resamples,
        level=LEVEL,
        method=METHOD,
        sinks=sinks,
        progress=lambda run: progress(f"scoring run {next(done)} of {len(runs)}"),
    )


def scorecard(examination: Examination, scores: Scores, metrics_sha256: str) -> dict[str, Any]:
    """The scorecard: versions, digests, verdict, how intervals were made, and the numbers that people read first.

    These are, per model and calibrator (seed mean where there are several): all metrics on the test split, and the
    headline ones per external site and subgroup. Single seeds and classes are in ``metrics.parquet``, whose digest
    is here.
    """
    task, record = examination.records
    verdict = examination.verdict
    single = {model.name for model in record.models if len(model.run_seeds) == 1}
    overall = set(headline_metrics(task.kind))
    kept = [row for row in scores.rows if row.seed == MEAN or row.model in single]
    tested = [row for row in kept if row.slice_kind == "test"]
    sliced = [row for row in kept if row.slice_kind != "test" and row.class_ is None and row.metric in overall]
    return {
        "edition": EDITION,
        "scorer": importlib.metadata.version("mvc-kit"),
        "packages": {name: importlib.metadata.version(name) for name in PACKAGES},
        "submission": record.submission_id,
        "title": record.title,
        "team": record.team,
        "task": {"name": task.name, "kind": task.kind, "sha256": task.digest, "classes": list(task.classes)},
        "status": verdict.status.value,
        "waivers": {r.rule: r.reason for r in verdict.of(Outcome.WAIVED)},
        "unverified": {r.rule: r.reason for r in verdict.of(Outcome.UNVERIFIED)},
        "calibrators": {name: reason or "verified" for name, reason in sorted(verdict.calibrators.items())},
        "declared": declared_words(examination.bundle),
        "primary_metric": primary_metric(task.kind, task.primary_metric),
        "intervals": {
            "unit": clustering_unit(task, record),
            "resamples": task.resamples,
            "level": LEVEL,
            "method": METHOD,
            "key": draw_key(task),
        },
        "digests": dict(sorted(verdict.digests.items())),
        "metrics_sha256": metrics_sha256,
        "runs": [[model.name, method.name] for model in record.models for method in record.calibration.methods],
        "headline": list(headline_metrics(task.kind)),
        "test": scorecard_metrics(tested),
        "slices": scorecard_metrics(sliced),
        "seed_spread": [_spread(s) for s in scores.seed_spread if s.slice_kind == "test" and s.n > 1],
        "counts": [{("class" if k == "class_" else k): v for k, v in asdict(c).items()} for c in scores.counts],
    }


def _spread(spread: Spread) -> dict[str, Any]:
    document = {("class" if k == "class_" else k): v for k, v in asdict(spread).items()}
    return {k: None if isinstance(v, float) and v != v else v for k, v in document.items()}


def _json(document: Any) -> bytes:
    return json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False).encode() + b"\n"
