"""The rows of a run out of the warehouse, as arrays: one query a run, in the order of the images' codes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.submission import Submission
from protocol.task import Task
from scorer.verify.boxes import VAGUE, logit_slack
from scorer.verify.refit import CalibrationRows
from scorer.warehouse import Warehouse
from submission.recalibration.maps import Floats, Outputs

CALIBRATION, TEST, EXTERNAL = 1, 2, 3


@dataclass(frozen=True)
class Images:
    """What the split file says of each image, by its code: ``part`` is 1 for the rows that calibrators are fitted on,
    2 for test, 3 for external, else 0; ``labels`` (N, columns) with -1 for null; subgroup levels as codes, -1 null."""

    part: NDArray[np.int8]
    patient: NDArray[np.int64]
    site: NDArray[np.int32]
    sites: Sequence[str]
    labels: NDArray[np.int64]
    subgroups: Mapping[str, tuple[NDArray[np.int32], Sequence[str]]]


@dataclass(frozen=True)
class RunRows:
    """Rows of one run: image codes, increasing, and outputs."""

    image: NDArray[np.int64]
    outputs: Outputs


class Tables:
    """Reads the warehouse for the referee of calibrators; ``logits`` is the precision of their columns, if stored."""

    def __init__(
        self, task: Task, record: Submission, extras: tuple[str, ...], logits: Sequence[str], warehouse: Warehouse
    ) -> None:
        self._task, self._warehouse, self._logits = task, warehouse, logits
        self._codes = {run: code for code, run in enumerate(warehouse.runs)}
        self.images = _images(task, record, extras, warehouse)

    def run(self, model: str, seed: int, calibrator: str) -> RunRows:
        """The rows of a run; without any where predictions hold none of it.

        As they are stored: rows whose sum is off by their rounding are not divided by it, which would move them by more
        than a unit. Logits count where every calibration, test and external row has them, known to 0.02 or better:
        far from 0 their rounding could hide anything.
        """
        columns = self._task.probability_columns
        logits = tuple(f"z_{name.removeprefix('p_')}" for name in columns) if self._logits else ()
        found = self._warehouse.arrays(
            f"SELECT image, {', '.join((*columns, *logits))} FROM predictions WHERE run = ? ORDER BY image",
            (self._codes.get((model, seed, calibrator), -1),),
        )
        p = np.column_stack([np.asarray(found[name], dtype=np.float64) for name in columns])
        image = np.asarray(found["image"], dtype=np.int64)
        z = np.column_stack([_numbers(found[name]) for name in logits]) if logits else None
        if z is not None:
            slack = logit_slack(self._logits, z[self.images.part[image] > 0])
            if not (slack <= VAGUE).all():
                z = None
        return RunRows(image, Outputs(p, z))

    def calibration(self, rows: RunRows) -> CalibrationRows:
        """The uncalibrated rows that calibrators are fitted on, with their labels."""
        chosen = np.flatnonzero(self.images.part[rows.image] == CALIBRATION)
        y = self.images.labels[rows.image[chosen]]
        return CalibrationRows(rows.outputs.rows(chosen), y if self._task.kind == "multilabel" else y[:, 0])

    def evaluated(self, rows: RunRows) -> RunRows:
        """Test and external rows."""
        chosen = np.flatnonzero(self.images.part[rows.image] >= TEST)
        return RunRows(rows.image[chosen], rows.outputs.rows(chosen))


def tables_of(
    task: Task, record: Submission, extras: tuple[str, ...], warehouse: Warehouse, precision: Mapping[str, str]
) -> tuple[Tables, Mapping[str, Sequence[str]]]:
    """The tables of a bundle, and the precision of its probability and logit columns, in order."""
    logits = [f"z_{name.removeprefix('p_')}" for name in task.probability_columns]
    stored = all(name in precision for name in logits)
    units = {"p": [precision[name] for name in task.probability_columns]}
    units["z"] = [precision[name] for name in logits] if stored else []
    return Tables(task, record, extras, units["z"], warehouse), units


def common(first: RunRows, second: RunRows) -> tuple[NDArray[np.int64], Outputs, Outputs]:
    """The images that both have, and the outputs of each on them."""
    image, a, b = np.intersect1d(first.image, second.image, assume_unique=True, return_indices=True)
    return image, first.outputs.rows(a), second.outputs.rows(b)


def _images(task: Task, record: Submission, extras: tuple[str, ...], warehouse: Warehouse) -> Images:
    groups = [group.column for group in record.shift.subgroups if group.column in extras]
    chosen = ", ".join([*task.label_columns, *(f"g_{extras.index(column)}" for column in groups)])
    fitted = "split = 'train' AND fold IS NOT NULL" if record.calibration.cross_fit is not None else "split = 'calib'"
    found = warehouse.arrays(
        f"""SELECT image, patient, site, {chosen},
        CASE WHEN {fitted} THEN {CALIBRATION} WHEN split = 'test' THEN {TEST}
             WHEN split = 'external' THEN {EXTERNAL} ELSE 0 END AS part
        FROM splits ORDER BY image"""
    )
    n = len(warehouse.images)
    place = np.asarray(found["image"], dtype=np.int64)

    def spread(values: NDArray[np.int64], null: int) -> NDArray[np.int64]:
        whole = np.full(n, null, dtype=np.int64)
        whole[place] = values
        return whole

    site, sites = _levels(found["site"])
    subgroups = {}
    for column in groups:
        codes, levels = _levels(found[f"g_{extras.index(column)}"])
        subgroups[column] = (spread(codes, -1).astype(np.int32), levels)
    patient = np.asarray(np.ma.filled(found["patient"], -1), dtype=np.int64)
    patient = np.where(patient < 0, -1 - place, patient)  # without a patient an image stands for itself
    return Images(
        part=spread(np.asarray(found["part"], dtype=np.int64), 0).astype(np.int8),
        patient=spread(patient, -1),
        site=spread(site, -1).astype(np.int32),
        sites=sites,
        labels=np.column_stack([spread(_whole(found[name]), -1) for name in task.label_columns]),
        subgroups=subgroups,
    )


def _levels(column: NDArray[np.object_]) -> tuple[NDArray[np.int64], list[str]]:
    """Codes of a text column, -1 where it is null, and its values."""
    texts = np.ma.filled(np.ma.asarray(column, dtype=object), None) if np.ma.isMaskedArray(column) else column
    words = np.array(["" if text is None else str(text) for text in texts], dtype=np.str_)
    levels, codes = np.unique(words, return_inverse=True)
    codes = np.where(words == "", -1, codes)
    return codes.astype(np.int64), [str(level) for level in levels]


def _whole(column: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.asarray(np.ma.filled(column, -1)).astype(np.int64)


def _numbers(column: NDArray[np.float64]) -> Floats:
    return np.asarray(np.ma.filled(np.ma.asarray(column, dtype=np.float64), np.nan))
