"""The DuckDB side: decoded arrays become tables with fixed names, and then the door is locked.

DuckDB never opens a submitted file and never sees a submitted name as SQL; texts arrive as values only.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from protocol.submission import Submission
from protocol.task import Task
from scorer.intake import NULL
from scorer.intake.jail import Arrays
from scorer.interrupts import interruptible
from scorer.machine import memory

MEMORY = 3 << 30  # bytes at most, and of a smaller machine or container half; what is more goes to disk


class Warehouse:
    """An in-memory DuckDB with the tables that ``protocol.facts`` describes; a context manager."""

    def __init__(self, scratch: Path, threads: int = 2) -> None:
        self._db = duckdb.connect(
            ":memory:",
            config={
                "threads": threads,
                "memory_limit": f"{min(MEMORY, memory() // 2) >> 20}MiB",
                "temp_directory": str(scratch),
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "allow_community_extensions": "false",
            },
        )
        self._db.execute("SET enable_progress_bar = false")  # it would be printed between our lines
        self.images: list[str] = []
        self.patients: list[str] = []
        self.runs: list[tuple[str, int, str]] = []

    def __enter__(self) -> "Warehouse":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    def sql(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Rows of one query with positional parameters."""
        with interruptible():
            return self._db.execute(query, parameters).fetchall()

    def arrays(self, query: str, parameters: Sequence[Any] = ()) -> dict[str, NDArray[Any]]:
        """Columns of one query as numpy arrays."""
        with interruptible():
            found: dict[str, NDArray[Any]] = self._db.execute(query, parameters).fetchnumpy()
        return found

    def load(self, task: Task, record: Submission, splits: Arrays | None, predictions: Arrays | None) -> None:
        """Create all tables, then lock the configuration: no file and no network can be reached any more."""
        if splits is not None:
            self._splits(task, splits)
        if predictions is not None:
            self._predictions(task, predictions)
        declared = record.runs
        self._create(
            "declared_runs",
            {
                "model": pa.array([run[0] for run in declared], pa.string()),
                "seed": pa.array([run[1] for run in declared], pa.int64()),
                "calibrator": pa.array([run[2] for run in declared], pa.string()),
            },
        )
        self._create("images", _coded("image", "image_id", self.images))
        self._create("patients", _coded("patient", "patient_id", self.patients))
        self._db.execute("SET enable_external_access = false")
        self._db.execute("SET lock_configuration = true")

    def _create(self, name: str, columns: dict[str, pa.Array]) -> None:
        self._db.register("incoming", pa.table(columns))
        with interruptible():
            self._db.execute(f"CREATE TABLE {name} AS SELECT * FROM incoming")
        self._db.unregister("incoming")

    def _splits(self, task: Task, splits: Arrays) -> None:
        self.images = splits.values("image_id")
        self.patients = splits.values("patient_id")
        columns = {
            "row": pa.array(np.arange(1, splits.table.rows + 1)),
            "image": pa.array(np.asarray(splits.column("image_id"))),
            "patient": _nullable(splits.column("patient_id"), -1),
            "split": _text(splits, "split"),
            "site": _text(splits, "site"),
        }
        for name in task.label_columns:
            columns[name] = _nullable(splits.column(name), NULL)
        for index, name in enumerate(splits.table.extras):
            columns[f"g_{index}"] = _text(splits, name)
        rows = splits.table.rows
        has_fold, has_hash = "fold" in splits.columns, "content_hash" in splits.columns
        columns["fold"] = _nullable(splits.column("fold"), NULL) if has_fold else pa.nulls(rows, pa.int64())
        columns["content_hash"] = _text(splits, "content_hash") if has_hash else pa.nulls(rows, pa.string())
        self._create("splits", columns)

    def _predictions(self, task: Task, predictions: Arrays) -> None:
        known = {image: code for code, image in enumerate(self.images)}
        codes = np.empty(len(predictions.values("image_id")), dtype=np.int32)
        for index, image in enumerate(predictions.values("image_id")):
            if image not in known:
                known[image] = len(self.images)
                self.images.append(image)
            codes[index] = known[image]
        models, calibrators = predictions.values("model"), predictions.values("calibrator")
        seed = np.asarray(predictions.column("seed"))
        pair = np.asarray(predictions.column("model")).astype(np.int64) * len(calibrators)
        pair += np.asarray(predictions.column("calibrator"))
        pairs, pair = np.unique(pair, return_inverse=True)
        marks, run = np.unique((pair << 31) + seed, return_inverse=True)  # seeds are below 2**31 (MVC016)
        self.runs = []
        for mark in marks.tolist():
            model, calibrator = divmod(int(pairs[mark >> 31]), len(calibrators))
            self.runs.append((models[model], mark & 0x7FFFFFFF, calibrators[calibrator]))
        self._create(
            "runs",
            {
                "run": pa.array(np.arange(len(self.runs), dtype=np.int32)),
                "model": pa.array([r[0] for r in self.runs], pa.string()),
                "seed": pa.array([r[1] for r in self.runs], pa.int64()),
                "calibrator": pa.array([r[2] for r in self.runs], pa.string()),
            },
        )
        rows = predictions.table.rows
        columns = {
            "row": pa.array(np.arange(1, rows + 1)),
            "image": pa.array(codes[np.asarray(predictions.column("image_id"))]),
            "run": pa.array(run.astype(np.int32)),
        }
        has_fold = "fold" in predictions.columns
        columns["fold"] = _nullable(predictions.column("fold"), NULL) if has_fold else pa.nulls(rows, pa.int64())
        logits = [name for name in predictions.columns if name.startswith("z_")]
        for name in (*task.probability_columns, *logits):
            columns[name] = pa.array(np.asarray(predictions.column(name)))
        self._create("predictions", columns)


def _nullable(array: NDArray[Any], null: int) -> pa.Array:
    values = np.asarray(array)
    return pa.array(values, mask=values == null)


def _text(table: Arrays, name: str) -> pa.Array:
    codes = np.asarray(table.column(name))
    encoded = pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), pa.array(table.values(name), pa.string()))
    return encoded.cast(pa.string())


def _coded(code: str, text: str, values: Sequence[str]) -> dict[str, pa.Array]:
    return {code: pa.array(np.arange(len(values), dtype=np.int32)), text: pa.array(list(values), pa.string())}
