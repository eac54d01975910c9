"""What of a submission is scored, seen without labels: the evaluated images, the runs, and a digest of both."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from protocol.canonical import canonical_json
from scorer.check import Examination
from scorer.cohort import clustering_unit, cohort_of, predictions_of
from scorer.rows import Run
from scorer.scoring import Cohort

Predictions = Callable[[Run], NDArray[np.float64]]


def people_of(examination: Examination) -> Cohort:
    """The evaluated images in the order of their ids, by patient (by image where patients are unavailable).

    Whatever the task resamples, those who must not be told apart are patients. Labels are those of the split file.
    """
    task, record = examination.records
    assert examination.intake.splits is not None
    by_patient = task.model_copy(update={"clustering_unit": "patient"})
    return cohort_of(by_patient, record, examination.intake.splits.table.extras, examination.warehouse)


def groups_of(examination: Examination) -> list[list[Run]]:
    """The runs of each model with each calibrator, in the order of the record: what gets one set of public numbers."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in examination.records[1].runs:
        groups.setdefault((run[0], run[2]), []).append(Run(*run))
    return list(groups.values())


def content_digest(examination: Examination) -> str:
    """SHA-256 of what is scored: the same however the file is written and whatever the order of its rows.

    Over the canonical JSON of the clustering unit and the sorted image ids, then, for every run by model, seed and
    calibrator, the canonical JSON of these and the probabilities of the images in that order, as they are scored
    (little-endian float64, image by image).
    """
    task, record = examination.records
    images = people_of(examination).image_id
    predictions = predictions_of(task, examination.warehouse)
    digest = hashlib.sha256(canonical_json([clustering_unit(task, record), images.tolist()]))
    for run in _sorted([Run(*run) for run in record.runs]):
        digest.update(canonical_json([run.model, run.seed, run.calibrator]))
        digest.update(np.ascontiguousarray(predictions(run), dtype="<f8").tobytes())
    return digest.hexdigest()


def _sorted(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.model, run.seed, run.calibrator))
