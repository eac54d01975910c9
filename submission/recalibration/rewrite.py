"""The predictions file and ``calibrators.json`` with what new calibrators add, each file whole or not at all."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from protocol.calibrators import FittedCalibrator
from protocol.types import Kind
from submission.files import replacing
from submission.recalibration.maps import FLOOR, Floats
from submission.recalibration.records import as_json
from submission.recalibration.refit import Recalibrated
from submission.recalibration.smooth import two_class_inputs

LEAST_DECIMALS = 6


@dataclass(frozen=True)
class Shape:
    """How the predictions file is laid out.

    ``source`` maps our column names onto those of the file, ``spread`` is its list column of probabilities,
    ``precision`` says how each of our number columns is stored (``float32``, ``decimals:4``).
    """

    names: Sequence[str]
    kind: Kind
    source: Mapping[str, str]
    spread: str | None
    precision: Mapping[str, str]


def rewrite(
    predictions: Path,
    out: Path,
    parameters: Path,
    shape: Shape,
    runs: Sequence[Recalibrated],
    others: Iterable[FittedCalibrator],
) -> int:
    """Write ``out``: ``predictions`` with the rows of ``runs`` in place of those of their methods; and ``parameters``.

    ``others`` are the records that are kept. Both files are written before either takes its name. Returns the number of
    rows added. Text, number types, other columns and the order of the other rows stay; a CSV gets as many decimals as
    it has, at least 6. Logits of the new rows, where the file has logits, are those of the new probabilities (floored
    at 1e-12). Raises OSError where a file can't be read or written.
    """
    replaced = {run.calibrator for run in runs}
    records = [record for run in runs for record in run.records]
    data = as_json([*(record for record in others if record.calibrator not in replaced), *records])
    parameters.parent.mkdir(parents=True, exist_ok=True)
    with replacing(parameters) as records_sink, replacing(out) as sink:
        records_sink.write(data)
        if predictions.suffix.lower() == ".csv":
            _write_csv(predictions, sink, shape, runs, replaced)
        else:
            _write_parquet(predictions, sink, shape, runs, replaced)
    return sum(len(run.images) for run in runs)


def _write_parquet(
    path: Path, sink: BinaryIO, shape: Shape, runs: Sequence[Recalibrated], replaced: Collection[str]
) -> None:
    with pq.ParquetFile(path) as opened:
        codec = opened.metadata.row_group(0).column(0).compression.lower()
        old = _without(opened.read(use_threads=False), replaced)
    schema = old.schema
    for name in [shape.source[ours] for ours in shape.precision if ours in shape.source]:
        if pa.types.is_integer(schema.field(name).type):  # 0 and 1 written as whole numbers
            schema = schema.set(schema.get_field_index(name), pa.field(name, pa.float64()))
    tables = [old.cast(schema)]
    for run in runs:
        columns = [
            pa.nulls(len(run.images), field.type) if values is None else _typed(values, field.type)
            for values, field in zip(_values(shape, run), schema, strict=True)
        ]
        tables.append(pa.Table.from_arrays(columns, schema=schema))
    table = pa.concat_tables(tables)
    pq.write_table(table, sink, compression="none" if codec == "uncompressed" else codec)


def _write_csv(
    path: Path, sink: BinaryIO, shape: Shape, runs: Sequence[Recalibrated], replaced: Collection[str]
) -> None:
    import polars as pl

    text = pa.csv.ConvertOptions(column_types=dict.fromkeys(shape.names, pa.string()), strings_can_be_null=False)
    old = _without(pa.csv.read_csv(path, convert_options=text), replaced)
    decimals = {ours: _decimals(shape, ours[:2]) for ours in shape.precision}
    ours_of = {theirs: ours for ours, theirs in shape.source.items()}
    tables = [old]
    for run in runs:
        columns = []
        for name, values in zip(shape.names, _values(shape, run), strict=True):
            digits = decimals.get(ours_of[name])
            if values is None:
                columns.append(pa.array([""] * len(run.images)))
            elif digits is None:
                columns.append(pa.array([str(value) for value in values]))
            else:
                columns.append(pa.array([f"{value:.{digits}f}" for value in np.asarray(values).tolist()]))
        tables.append(pa.Table.from_arrays(columns, names=list(shape.names)))
    frame = pl.DataFrame(pl.from_arrow(pa.concat_tables(tables)))
    frame.with_columns(pl.when(pl.all() != "").then(pl.all()).name.keep()).write_csv(sink)  # an empty text is unquoted


def _without(table: pa.Table, calibrators: Collection[str]) -> pa.Table:
    """The rows of other methods."""
    name = table["calibrator"]
    return table.filter(pc.invert(pc.is_in(name.cast(pa.string()), value_set=pa.array(sorted(calibrators)))))


def _values(shape: Shape, run: Recalibrated) -> list[Sequence[str] | Floats | None]:
    """The values of each column of the file for one run: text, numbers, (N, K) for a list; None for nulls."""
    rows = len(run.images)
    z = _logits(shape.kind, run.q)
    found: dict[str, Sequence[str] | Floats | None] = {
        "image_id": run.images,
        "model": [run.model] * rows,
        "seed": np.full(rows, run.seed),
        "calibrator": [run.calibrator] * rows,
        "fold": None,
    }
    first = 1 if shape.kind == "binary" else 0
    for k in range(run.q.shape[1]):
        found[f"p_{k + first}"], found[f"z_{k + first}"] = run.q[:, k], z[:, k]
    by_name = {theirs: found[ours] for ours, theirs in shape.source.items()}
    if shape.spread is not None:
        by_name[shape.spread] = run.q
    return [by_name[name] for name in shape.names]


def _logits(kind: Kind, q: Floats) -> Floats:
    """Logits of calibrated probabilities: log q, or the log odds of each column."""
    if kind == "multiclass":
        return np.log(np.maximum(q, FLOOR))
    both = [two_class_inputs(column, None) for column in q.T]
    return np.column_stack([pair[:, 1] - pair[:, 0] for pair in both])


def _typed(values: Sequence[str] | Floats, kind: pa.DataType) -> pa.Array:
    """``values`` in the type of a column."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        flat = _floats(values.ravel(), kind.value_type)
        return pa.FixedSizeListArray.from_arrays(flat, values.shape[1]).cast(kind)
    if pa.types.is_floating(kind):
        return _floats(np.asarray(values, dtype=np.float64), kind)
    return pa.array(values).cast(kind)


def _floats(values: Floats, kind: pa.DataType) -> pa.Array:
    return pa.array(values.astype(kind.to_pandas_dtype()), kind)


def _decimals(shape: Shape, start: str) -> int:
    """Decimals to print in the columns ``p_`` or ``z_``: the most that the file has, at least 6."""
    printed = [int(kind.removeprefix("decimals:")) for name, kind in shape.precision.items() if name.startswith(start)]
    return max(LEAST_DECIMALS, *printed)
