"""The metrics table on disk (Parquet) and in the scorecard (JSON).

An undefined number is NaN in memory and null outside, always with its reason beside it: a bare NaN is never written.
"""

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from scorer.scoring import Row, Scores
from submission.files import replacing

FLOATS = ("value", "lo", "hi")
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


def write_metrics(scores: Scores, path: Path) -> None:
    """Write the rows of ``scores`` to the Parquet file ``path``: whole or not at all, the same bytes for the same rows.

    Columns are the fields of :class:`scorer.scoring.Row` in their order, class_ as ``class``; NaN is stored as null;
    the interval level is in the schema's metadata under ``interval_level``. Raises ValueError for an undefined number
    without a reason, OSError as the file system does.
    """
    records = [_record(row) for row in scores.rows]
    schema = SCHEMA.with_metadata({LEVEL: repr(scores.level).encode()})
    table = pa.Table.from_pylist(records, schema=schema)
    with replacing(path) as sink:
        pq.write_table(table, sink, compression="zstd")


def read_metrics(path: Path) -> tuple[Row, ...]:
    """Read back what :func:`write_metrics` wrote, null numbers as NaN.

    Raises ValueError when the columns are not those of the table, and as pyarrow for a file that is not Parquet.
    """
    table = pq.read_table(path, partitioning=None)
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path.name} does not have the columns of a metrics table")
    return tuple(_row(record) for record in table.to_pylist())


def scorecard_metrics(scores: Scores) -> list[dict[str, Any]]:
    """The rows as JSON-ready objects with the table's column names, NaN as None beside its reason.

    Raises ValueError for an undefined number without a reason or an infinite one.
    """
    return [_record(row) for row in scores.rows]


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
