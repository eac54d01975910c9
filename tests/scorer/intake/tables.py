"""Small tables for the tests of the decoder, decoded in this process."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from protocol.task import Task
from protocol.types import Kind
from scorer.intake.decode import Decoded, decode_predictions, decode_splits
from tests.builders import good_submission

CAP = 20_000


def task_of(kind: Kind) -> Task:
    return Task.model_validate_json(json.dumps(good_submission(kind).task))


def parquet(table: pa.Table, **options: Any) -> io.BytesIO:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    sink.seek(0)
    return sink


def predictions(kind: Kind = "binary", rows: int = 20) -> pa.Table:
    table = good_submission(kind).predictions.head(rows).to_arrow()
    return table.cast(
        pa.schema([(f.name, pa.string() if f.type == pa.large_string() else f.type) for f in table.schema])
    )


def decoded(table: pa.Table, kind: Kind = "binary", **options: Any) -> Decoded:
    return decode_predictions(parquet(table, **options), "predictions.parquet", task_of(kind), CAP)


def csv(text: str, kind: Kind = "binary") -> Decoded:
    return decode_predictions(io.BytesIO(text.encode()), "predictions.csv", task_of(kind), CAP)


def with_column(table: pa.Table, name: str, column: Any) -> pa.Table:
    return table.set_column(table.column_names.index(name), name, column)


def splits_with(name: str, column: Any, kind: Kind = "binary", file: str = "splits.parquet") -> Decoded:
    table = good_submission(kind).splits.head(20).to_arrow()
    known = name in table.column_names
    table = with_column(table, name, column) if known else table.append_column(name, column)
    if file.endswith(".csv"):
        sink = io.BytesIO()
        pa.csv.write_csv(table, sink)
        sink.seek(0)
        return decode_splits(sink, file, task_of(kind), True, CAP)
    return decode_splits(parquet(table), file, task_of(kind), True, CAP)
