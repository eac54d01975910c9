"""The evaluated images out of the warehouse, as the arrays that scoring takes."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.submission import Submission
from protocol.task import Task
from protocol.types import ClusteringUnit
from scorer.rows import Run
from scorer.scoring import Cohort
from scorer.warehouse import Warehouse

UNIT_COLUMNS: dict[ClusteringUnit, str] = {"patient": "patient_id", "image": "image_id", "site": "site"}
SUM_SLACK = 1e-6  # rows that sum to one within this are left as they are


def clustering_unit(task: Task, record: Submission) -> ClusteringUnit:
    """What the bootstrap resamples: the task's unit, but images where patients are unavailable (MVC109)."""
    if task.clustering_unit == "patient" and record.splits.patient_ids == "unavailable":
        return "image"
    return task.clustering_unit


def cohort_of(task: Task, record: Submission, extras: tuple[str, ...], warehouse: Warehouse) -> Cohort:
    """Test and external images in the order of their ids; clustered by the task's unit."""
    groups = [group.column for group in record.shift.subgroups]
    chosen = ", ".join([*task.label_columns, *(f"g_{extras.index(column)}" for column in groups)])
    found = warehouse.arrays(
        f"""SELECT image_id, patient_id, split, site, {chosen}
        FROM splits JOIN images USING (image) LEFT JOIN patients USING (patient)
        WHERE split IN ('test', 'external') ORDER BY image_id"""
    )
    labels = np.column_stack([_filled(found[name], -1).astype(np.int64) for name in task.label_columns])
    subgroups = {column: _words(_filled(found[f"g_{extras.index(column)}"], "")) for column in groups}
    return Cohort(
        image_id=_words(found["image_id"]),
        patient=_words(_filled(found[UNIT_COLUMNS[clustering_unit(task, record)]], "")),
        split=_words(found["split"]),
        site=_words(found["site"]),
        labels=labels if task.kind == "multilabel" else labels[:, 0],
        subgroups=subgroups,
    )


def predictions_of(task: Task, warehouse: Warehouse) -> Callable[[Run], NDArray[np.float64]]:
    """A function from a run to its probabilities (N, K), rows in the order of the cohort."""
    columns = task.probability_columns
    numbers = {run: code for code, run in enumerate(warehouse.runs)}

    def predictions(run: Run) -> NDArray[np.float64]:
        found = warehouse.arrays(
            f"""SELECT {", ".join(columns)} FROM predictions JOIN images USING (image)
            WHERE run = ? AND image IN (SELECT image FROM splits WHERE split IN ('test', 'external'))
            ORDER BY image_id""",
            (numbers[(run.model, run.seed, run.calibrator)],),
        )
        p = np.column_stack([np.asarray(found[name], dtype=np.float64) for name in columns])
        if task.kind == "multiclass":
            total = p.sum(axis=1, keepdims=True)
            p = np.where(np.abs(total - 1.0) > SUM_SLACK, p / total, p)
        return p

    return predictions


def _filled(column: Any, null: Any) -> NDArray[Any]:
    return np.ma.filled(column, null) if np.ma.isMaskedArray(column) else np.asarray(column)


def _words(column: Any) -> NDArray[np.str_]:
    return np.asarray(column).astype(np.str_)
