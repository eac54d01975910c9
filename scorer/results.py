"""Results on disk: the tables of metrics, replicates and curves (Parquet), and rows for the scorecard (JSON).

An undefined number is NaN in memory and null outside, always with its reason beside it: a bare NaN is never written.
"""

import contextlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from scorer.rows import Curves, Replicates, Row, Scores, Sinks
from submission.files import replacing

FLOATS = ("value", "lo", "hi")
ROWS = 10_000  # of a row group: what is held as Python objects at a time
LEVEL = b"interval_level"  # key of the schema's metadata

# the fields of Row in their order; class_ is the column class
SCHEMA = pa.schema(
    [
        pa.field("submission", pa.string(), nullable=False),
        pa.field("model", pa.string(), nullable=False),
        pa.field("seed", pa.string(), nullable=False),
        pa.field("calibrator", pa.string(), nullable=False),
        pa.field("slice_kind", pa.string(), nullable=False),
        pa.field("slice", pa.string(), nullable=False),
        pa.field("class", pa.string()),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("reading", pa.string()),
        pa.field("bins_asked", pa.int64()),
        pa.field("bins_used", pa.int64()),
        pa.field("cutoff", pa.float64()),
        pa.field("value", pa.float64()),
        pa.field("lo", pa.float64()),
        pa.field("hi", pa.float64()),
        pa.field("method", pa.string(), nullable=False),
        pa.field("n_draws", pa.int64(), nullable=False),
        pa.field("n_undefined", pa.int64(), nullable=False),
        pa.field("n_images", pa.int64(), nullable=False),
        pa.field("n_patients", pa.int64(), nullable=False),
        pa.field("n_events", pa.int64()),
        pa.field("reason", pa.string()),
    ]
)

RUN = ("model", "seed", "calibrator", "slice_kind", "slice")
POINTS = ("x", "y", "lo", "hi", "n_images", "left", "right")
DRAW_KEY = b"draw_key"  # key of the schema's metadata
_RUN_FIELDS = [pa.field(name, pa.string(), nullable=False) for name in ("submission", *RUN)]
REPLICATES = pa.schema(
    [
        *_RUN_FIELDS,
        pa.field("class", pa.string()),
        pa.field("metric", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("draws", pa.list_(pa.float64()), nullable=False),
    ]
)
CURVES = pa.schema(
    [
        *_RUN_FIELDS,
        pa.field("class", pa.string()),
        pa.field("reading", pa.string(), nullable=False),
        pa.field("curve", pa.string(), nullable=False),
        pa.field("point", pa.int64(), nullable=False),
        *(pa.field(name, pa.int64() if name == "n_images" else pa.float64()) for name in POINTS),
    ]
)


@dataclass(frozen=True)
class ReplicateRow:
    """The replicates of one metric: ``draws`` (B,), NaN where it was undefined; rows of one task, slice and B share
    their draws of patients."""

    submission: str
    model: str
    seed: str
    calibrator: str
    slice_kind: str
    slice: str
    class_: str | None
    metric: str
    value: float
    draws: NDArray[np.float64]


def write_metrics(scores: Scores, path: Path) -> None:
    """Write the rows of ``scores`` to the Parquet file ``path``: whole or not at all, the same bytes for the same rows.

    Columns are the fields of :class:`scorer.scoring.Row` in their order, class_ as ``class``; NaN is stored as null;
    the interval level is in the schema's metadata under ``interval_level``. Raises ValueError for an undefined number
    without a reason, OSError as the file system does.
    """
    schema = SCHEMA.with_metadata({LEVEL: repr(scores.level).encode()})
    with replacing(path) as sink, pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for first in range(0, len(scores.rows), ROWS):
            records = [_record(row) for row in scores.rows[first : first + ROWS]]
            writer.write_table(pa.Table.from_pylist(records, schema=schema))


class SideFiles:
    """``replicates.parquet`` and ``curves.parquet``, written as they are made; a context manager.

    Replicates are kept of the ``headline`` metrics: a row a metric, with its draws in order (NaN where undefined), so
    that any two submissions to a task can be compared in pairs. Curves have a row a point. Each file is whole or not
    there, the same bytes for the same numbers.
    """

    def __init__(self, replicates: Path, curves: Path, *, submission: str, headline: Sequence[str], key: str) -> None:
        self._paths = (replicates, curves)
        self._submission, self._headline, self._key = submission, frozenset(headline), key

    def __enter__(self) -> Sinks:
        metadata = {DRAW_KEY: self._key.encode()}
        with contextlib.ExitStack() as stack:  # closes the first file if the second can't be opened
            self._replicates, self._curves = (
                stack.enter_context(
                    pq.ParquetWriter(
                        stack.enter_context(replacing(path)), schema.with_metadata(metadata), compression="zstd"
                    )
                )
                for path, schema in zip(self._paths, (REPLICATES, CURVES), strict=True)
            )
            self._stack = stack.pop_all()
        return Sinks(self._keep_replicates, self._keep_curves)

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def _keep_replicates(self, made: Replicates) -> None:
        rows = [
            {
                **self._run(made),
                "class": point.class_,
                "metric": point.metric,
                "value": None if math.isnan(point.value) else point.value,
                "draws": made.values[:, i],
            }
            for i, point in enumerate(made.points)
            if point.metric in self._headline and point.class_ is None
        ]
        self._replicates.write_table(pa.Table.from_pylist(rows, schema=self._replicates.schema))

    def _keep_curves(self, made: Curves) -> None:
        for curve in made.curves:
            n = len(curve.x)
            shared = {**self._run(made), "class": curve.class_, "reading": curve.reading, "curve": curve.kind}
            columns = {name: pa.array([value] * n, pa.string()) for name, value in shared.items()}
            columns["point"] = pa.array(range(n), pa.int64())
            columns |= {name: pa.array(getattr(curve, name), from_pandas=True) for name in POINTS}
            self._curves.write_table(pa.Table.from_pydict(columns, schema=self._curves.schema))

    def _run(self, made: Replicates | Curves) -> dict[str, Any]:
        return {"submission": self._submission, **{name: getattr(made, name) for name in RUN}}


def read_replicates(path: Path) -> tuple[ReplicateRow, ...]:
    """Read back what :class:`SideFiles` wrote of replicates.

    Raises ValueError when the columns are not those of the table, and as pyarrow for a file that is not Parquet.
    """
    table = pq.read_table(path, partitioning=None)
    if not table.schema.equals(REPLICATES):
        raise ValueError(f"{path.name} does not have the columns of a table of replicates")
    return tuple(
        ReplicateRow(
            **{("class_" if name == "class" else name): record[name] for name in REPLICATES.names[:-2]},
            value=math.nan if record["value"] is None else record["value"],
            draws=np.array(record["draws"], dtype=np.float64),
        )
        for record in table.to_pylist()
    )


def read_metrics(path: Path) -> tuple[Row, ...]:
    """Read back what :func:`write_metrics` wrote, null numbers as NaN.

    Raises ValueError when the columns are not those of the table, and as pyarrow for a file that is not Parquet.
    """
    table = pq.read_table(path, partitioning=None)
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path.name} does not have the columns of a metrics table")
    return tuple(_row(record) for record in table.to_pylist())


def scorecard_metrics(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """``rows`` as JSON-ready objects with the table's column names, NaN as None beside its reason.

    Raises ValueError for an undefined number without a reason or an infinite one.
    """
    return [_record(row) for row in rows]


def _record(row: Row) -> dict[str, Any]:
    record: dict[str, Any] = {name: getattr(row, "class_" if name == "class" else name) for name in SCHEMA.names}
    for name in FLOATS:
        if math.isinf(record[name]) or (math.isnan(record[name]) and row.reason is None):
            raise ValueError(f"{row.metric}: {name} is {record[name]} without a reason")
        record[name] = None if math.isnan(record[name]) else record[name]
    return record


def _row(record: dict[str, Any]) -> Row:
    values: dict[str, Any] = {
        name: math.nan if value is None and name in FLOATS else value for name, value in record.items()
    }
    values["class_"] = values.pop("class")
    return Row(**values)
