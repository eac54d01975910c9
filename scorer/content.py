"""What of a submission is scored, seen without labels: the evaluated images, the runs, and a digest of both."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from protocol.canonical import canonical_json
from scorer.check import Examination
from scorer.cohort import clustering_unit, cohort_of, predictions_of
from scorer.public import entry_of
from scorer.rows import Run
from scorer.scoring import Cohort

Predictions = Callable[[Run], NDArray[np.float64]]


def people_of(examination: Examination) -> Cohort:
    """The evaluated images in the order of their ids, by patient (by image where the split file has none).

    Whatever the task resamples and the record says of patients, those who must not be told apart are the patients of
    the split file. Subgroups are in the order of their names: what is withheld follows from content alone, since the
    same content in another arrangement is scored for free. Labels are those of the split file.
    """
    task, record = examination.records
    assert examination.intake.splits is not None
    by_patient = task.model_copy(update={"clustering_unit": "patient"})
    listed = record.splits.model_copy(update={"patient_ids": "available"})
    extras = examination.intake.splits.table.extras
    found = cohort_of(by_patient, record.model_copy(update={"splits": listed}), extras, examination.warehouse)
    patient = np.where(found.patient == "", found.image_id, found.patient)
    return replace(found, patient=patient, subgroups=dict(sorted(found.subgroups.items())))


def groups_of(examination: Examination) -> list[list[Run]]:
    """The runs of each model with each calibrator: what gets one set of public numbers.

    The entry first, then by model, the uncalibrated runs first, then by calibrator: the order decides which of two near
    runs is shown, so the record has no say in it but for the entry, which is part of the content.
    """
    entry = entry_of(examination.records[1])
    groups: dict[tuple[bool, str, bool, str], list[Run]] = {}
    for run in _sorted([Run(*run) for run in examination.records[1].runs]):
        place = ((run.model, run.calibrator) != entry, run.model, run.calibrator != "none", run.calibrator)
        groups.setdefault(place, []).append(run)
    return [groups[place] for place in sorted(groups)]


def content_digest(examination: Examination) -> str:
    """SHA-256 of what is scored: the same however the file is written and whatever the order of its rows.

    Over the canonical JSON of the clustering unit, the sorted image ids and the entry, then, for every run by model,
    seed and calibrator, the canonical JSON of these and the probabilities of the images in that order, as they are
    scored (little-endian float64, image by image).
    """
    task, record = examination.records
    images = people_of(examination).image_id
    predictions = predictions_of(task, examination.warehouse)
    digest = hashlib.sha256(canonical_json([clustering_unit(task, record), images.tolist(), entry_of(record)]))
    for run in _sorted([Run(*run) for run in record.runs]):
        digest.update(canonical_json([run.model, run.seed, run.calibrator]))
        digest.update(np.ascontiguousarray(predictions(run), dtype="<f8").tobytes())
    return digest.hexdigest()


def _sorted(runs: Sequence[Run]) -> list[Run]:
    return sorted(runs, key=lambda run: (run.model, run.seed, run.calibrator))
