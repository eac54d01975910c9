"""Rows of runs as the referee reads them."""

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from protocol.submission import Submission
from scorer.intake.decode import Decoded, decode_predictions, decode_splits
from scorer.intake.jail import Arrays
from scorer.verify.rows import CALIBRATION, EXTERNAL, TEST, RunRows, Tables, common, tables_of
from scorer.warehouse import Warehouse
from submission.recalibration.maps import Outputs
from tests.builders import Draft, good_submission
from tests.mutations.bases import cross_fitted
from tests.recalibrating import columns_of
from tests.scorer.intake.tables import CAP, parquet, task_of

RUN = ("densenet121", 1, "none")


@contextmanager
def tables(draft: Draft, folder: Path) -> Iterator[Tables]:
    """The tables of a draft, out of a warehouse."""
    task, record = task_of(draft.task["kind"]), Submission.model_validate_json(json.dumps(draft.record))
    splits = decode_splits(_file(draft.splits), "splits.parquet", task, True, CAP)
    predictions = decode_predictions(_file(draft.predictions), "predictions.parquet", task, CAP)
    with Warehouse(folder) as warehouse:
        read = _on_disk(splits, folder, "splits"), _on_disk(predictions, folder, "predictions")
        warehouse.load(task, record, *read)
        precision = dict.fromkeys(draft.predictions.columns, "float64")
        yield tables_of(task, record, read[0].table.extras, warehouse, precision)[0]


def _on_disk(table: Decoded, folder: Path, name: str) -> Arrays:
    assert table.table is not None
    for column, array in table.arrays.items():
        np.save(folder / f"{name}.{column}.npy", array)
    for column, values in table.values.items():
        (folder / f"{name}.{column}.json").write_text(json.dumps(list(values)))
    return Arrays(table.table, folder, name, tuple(table.arrays), tuple(table.values))


def _file(frame: pl.DataFrame) -> io.BytesIO:
    return parquet(frame.to_arrow())


def test_common_images_and_the_outputs_of_both() -> None:
    first = RunRows(np.array([1, 4, 6]), Outputs(np.array([[0.1], [0.4], [0.6]])))
    second = RunRows(np.array([0, 4, 6, 9]), Outputs(np.array([[0.0], [0.2], [0.3], [0.9]])))
    image, a, b = common(first, second)
    assert (image.tolist(), a.p.ravel().tolist(), b.p.ravel().tolist()) == ([4, 6], [0.4, 0.6], [0.2, 0.3])


def test_parts_and_rows_of_a_run(tmp_path: Path) -> None:
    draft = good_submission("multiclass")
    parts = dict(zip(draft.splits["image_id"], draft.splits["split"], strict=True))
    rows = draft.predictions.filter(model=RUN[0], seed=RUN[1], calibrator=RUN[2])
    with tables(draft, tmp_path) as read:
        run = read.run(*RUN)
        assert len(run.image) == len(rows)
        assert (np.diff(run.image) > 0).all()
        fitted, evaluated = read.calibration(run), read.evaluated(run)
        counts = {
            name: sum(parts[image] == name for image in rows["image_id"]) for name in ("calib", "test", "external")
        }
        assert (len(fitted.y), len(evaluated.image)) == (counts["calib"], counts["test"] + counts["external"])
        found = np.bincount(read.images.part[evaluated.image], minlength=4)
        assert (found[TEST], found[EXTERNAL], found[CALIBRATION]) == (counts["test"], counts["external"], 0)
        assert sorted(map(tuple, run.outputs.p)) == sorted(rows.select(columns_of(draft)).rows())
        assert not len(read.run("densenet121", 99, "none").image)


def test_rows_are_read_as_they_are_stored(tmp_path: Path) -> None:
    """Not divided by a sum that is off by rounding, which would move them by more than a unit."""
    draft = good_submission("multiclass")
    draft.predictions = draft.predictions.with_columns(pl.col("p_0") * 1.001)
    with tables(draft, tmp_path) as read:
        total = read.run(*RUN).outputs.p.sum(axis=1)
        assert np.abs(total - 1).max() > 1e-4


def test_out_of_fold_train_rows_are_those_fitted_on(tmp_path: Path) -> None:
    draft = cross_fitted("binary")
    with tables(draft, tmp_path) as read:
        assert len(read.calibration(read.run(*RUN)).y) == len(draft.splits.filter(pl.col("fold").is_not_null()))


def test_logits_count_where_they_are_known_well_enough(tmp_path: Path) -> None:
    for place, (offset, read_them) in enumerate(((0.0, True), (1000.0, True), (1e6, False))):
        draft = good_submission("multiclass")
        draft.predictions = draft.predictions.with_columns(
            (pl.col(f"p_{k}").clip(1e-6, 1).log() + offset).alias(f"z_{k}") for k in range(3)
        )
        folder = tmp_path / str(place)
        folder.mkdir()
        with tables(draft, folder) as read:
            assert (read.run(*RUN).outputs.z is not None) == read_them
