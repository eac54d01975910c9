"""Submitted bytes into fixed-width arrays: runs only inside the decoding process, which knows no test label's use.

Every column leaves as a plain array: text as integer codes into a list of distinct values, numbers as float64 or
int64. What was wrong leaves as problems.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from protocol.facts import Problem, Table
from protocol.findings import MAX_SAMPLES, counted
from protocol.tables import PREDICTIONS_TEXT, predictions_schema, splits_schema
from protocol.task import Task
from scorer.intake import NULL
from scorer.intake.columns import Columns, at, predictions_columns, splits_columns
from scorer.intake.opening import PERCENT, Refused, Room, no_limit, open_table
from scorer.intake.validating import validate

MAX_TEXT = 200


@dataclass(frozen=True)
class Decoded:
    """One table: its facts (None if it can't be used), arrays by column, distinct values of text columns, problems."""

    table: Table | None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


def decode_splits(
    source: BinaryIO, file: str, task: Task, patient_ids: bool, max_rows: int, room: Room = no_limit
) -> Decoded:
    """Decode ``splits.parquet``; ``room`` is told how much is about to be read."""
    return _guarded(lambda: _splits(source, file, task, patient_ids, max_rows, room), file)


def decode_predictions(source: BinaryIO, file: str, task: Task, max_rows: int, room: Room = no_limit) -> Decoded:
    """Decode ``predictions.parquet`` (or CSV, by the file's name); ``room`` is told how much is about to be read."""
    return _guarded(lambda: _predictions(source, file, task, max_rows, room), file)


def _guarded(work: Callable[[], Decoded], file: str) -> Decoded:
    try:
        return work()
    except Refused as refused:
        return Decoded(None, problems=refused.problems)
    except MemoryError:  # Arrow's own is one of these too
        return Decoded(
            None, problems=(Problem("decoding-stopped", file, "more memory than allowed", "a smaller table"),)
        )
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["unreadable"])[0][:160]
        return Decoded(None, problems=(Problem("unreadable-file", file, first, "a whole, readable table"),))


def _splits(source: BinaryIO, file: str, task: Task, patient_ids: bool, max_rows: int, room: Room) -> Decoded:
    names, read = open_table(source, file, task, max_rows, room)
    columns = splits_columns(names, task, file, patient_ids)
    if columns.problems:
        raise Refused(*columns.problems)
    extras = columns.extras
    text = {"image_id", "patient_id", "split", "site", "content_hash", *extras}
    table = read([*columns.source, *extras], text & {*names})
    frame = _frame({name: _plain(table[name], name in text) for name in table.column_names}, text=pl.String)
    if "patient_id" not in frame.columns:
        frame = frame.with_columns(patient_id=pl.lit(None, dtype=pl.String))
    problems = validate(frame, splits_schema(task, extras, patient_ids), file)
    arrays, values, bad = _arrays(frame, file)
    problems += bad
    facts = Table(file, frame.height, tuple(names), extras)
    return Decoded(None if problems else facts, arrays, values, tuple(problems))


def _predictions(source: BinaryIO, file: str, task: Task, max_rows: int, room: Room) -> Decoded:
    names, read = open_table(source, file, task, max_rows, room)
    columns = predictions_columns(names, task, file)
    if columns.problems:
        raise Refused(*columns.problems)
    table = read([*columns.source.values(), *([columns.spread] if columns.spread else [])], set(PREDICTIONS_TEXT))
    raw = {ours: table[theirs] for ours, theirs in columns.source.items()}
    if columns.spread is not None:
        raw |= _spread(table[columns.spread], columns.spread, task, file)
    precision = {name: _precision(raw[name]) for name in raw if name.startswith(("p_", "z_"))}
    frame = _frame({name: _plain(raw[name], name in PREDICTIONS_TEXT) for name in raw}, text=pl.Categorical)
    logits = tuple(name for name in raw if name.startswith("z_"))
    problems, frame = _percent(frame, task, file)
    problems += validate(frame, predictions_schema(task, logits, "fold" in raw), file)
    arrays, values, bad = _arrays(frame, file)
    problems += bad
    usable = not [p for p in problems if p.offence != "probability-not-finite"]
    renormalised = 0
    if usable and not problems and task.kind == "multiclass":
        sums, renormalised = _row_sums(arrays, task, precision, file)
        problems += sums
    facts = Table(file, frame.height, tuple(names), (), precision, renormalised)
    return Decoded(facts if usable else None, arrays, values, tuple(problems), _notes(columns, renormalised))


def _notes(columns: Columns, renormalised: int) -> tuple[str, ...]:
    if not renormalised:
        return columns.notes
    return (*columns.notes, f"{renormalised} rows summed to one only within their stored precision: renormalised")


def _precision(column: pa.ChunkedArray) -> str:
    kind = column.type
    if pa.types.is_struct(kind):
        return f"decimals:{(kind.field(0).metadata or {}).get(b'decimals', b'0').decode()}"
    if pa.types.is_floating(kind):
        return {16: "float16", 32: "float32"}.get(kind.bit_width, "float64")
    return "decimals:0"


def _plain(column: pa.ChunkedArray, text: bool) -> pa.ChunkedArray:
    """Lossless casts to our few types; anything else stays and is refused by the schema."""
    kind = column.type
    if pa.types.is_struct(kind) and kind.num_fields == 1 and kind.field(0).metadata:
        return pc.struct_field(column, [0])
    if text and pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return column.unify_dictionaries()
    if text and (pa.types.is_large_string(kind) or pa.types.is_dictionary(kind) or kind == pa.string_view()):
        return column.cast(pa.string())
    if pa.types.is_decimal(kind) and kind.bit_width > 128:
        narrow = pa.scalar(0, pa.decimal128(38, 0))  # refused like any decimal; polars has no wider ones
        return pa.chunked_array([pa.repeat(narrow, len(column))])
    if pa.types.is_null(kind):
        return column.cast(pa.string() if text else pa.int64())
    if pa.types.is_integer(kind) and not text:
        return column.cast(pa.int64())
    if pa.types.is_floating(kind) and not text:
        return column.cast(pa.float32()).cast(pa.float64()) if kind == pa.float16() else column.cast(pa.float64())
    return column


def _frame(columns: Mapping[str, pa.ChunkedArray], text: Any) -> pl.DataFrame:
    frame = pl.DataFrame({name: pl.from_arrow(column) for name, column in columns.items()})
    casts = [
        pl.col(name).cast(text)
        for name, kind in frame.schema.items()
        if kind in (pl.String, pl.Categorical) and kind != text
    ]
    whole = [
        pl.col(name).cast(pl.Float64)
        for name, kind in frame.schema.items()
        if kind == pl.Int64 and name.startswith(("p_", "z_"))
    ]
    return frame.with_columns(*casts, *whole, *_counts(frame))


def _counts(frame: pl.DataFrame) -> list[pl.Expr]:
    """Labels, folds and seeds that pandas made real numbers (beside nulls) or truth values: whole numbers again."""
    casts = []
    for name, kind in frame.schema.items():
        label = name == "label" or name.startswith("label_")
        if kind == pl.Boolean and label:
            casts.append(pl.col(name).cast(pl.Int64))
        elif kind == pl.Float64 and (label or name in ("fold", "seed")):
            values = frame[name].fill_nan(None).drop_nulls()
            if ((values == values.floor()) & (values.abs() < 2**53)).all():
                casts.append(pl.col(name).fill_nan(None).cast(pl.Int64))
    return casts


def _percent(frame: pl.DataFrame, task: Task, file: str) -> tuple[list[Problem], pl.DataFrame]:
    """Percent for probabilities: said once for the table, which goes on divided so that the rest is still seen."""
    names = list(task.probability_columns)
    if any(frame.schema[name] != pl.Float64 for name in names):
        return [], frame
    columns = frame.lazy().select(pl.col(names).fill_nan(None))
    ends = columns.select(low=pl.min_horizontal(pl.all().min()), top=pl.max_horizontal(pl.all().max())).collect()
    low, top = ends.row(0)
    if top is None or low < 0 or not 1.5 < top <= 100:
        return [], frame
    largest = columns.select(largest=pl.max_horizontal(names)).collect()["largest"]
    above = (largest > 1).fill_null(False)
    if 2 * int(above.sum()) <= frame.height:
        return [], frame
    rows = np.flatnonzero(above.to_numpy())
    samples = tuple(f"{at(file, int(row))}: {largest[int(row)]:.6g}" for row in rows[:MAX_SAMPLES])
    where = f"{file}: {', '.join(names[:10])}{', …' if len(names) > 10 else ''}"
    saw = f"{samples[0]}; {PERCENT}"
    problem = Problem("probability-not-finite", where, saw, "a finite number from 0 to 1", len(rows), samples)
    return [problem], frame.with_columns(pl.col(names) / 100)


def _spread(column: pa.ChunkedArray, name: str, task: Task, file: str) -> dict[str, pa.ChunkedArray]:
    wanted = len(task.probability_columns)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise Refused(Problem("wrong-dtype", f"{file}: {name}", str(kind), "a list of numbers"))
    lengths = pc.unique(pc.fill_null(pc.list_value_length(column), -1)).to_pylist()
    if lengths != [wanted]:
        saw = f"lists of {', '.join(str(n) for n in sorted(lengths)[:3])}"
        raise Refused(Problem("class-count-differs", f"{file}: {name}", saw, f"lists of {wanted}"))
    return {ours: pc.list_element(column, k) for k, ours in enumerate(task.probability_columns)}


def _arrays(frame: pl.DataFrame, file: str) -> tuple[dict[str, NDArray[Any]], dict[str, Sequence[str]], list[Problem]]:
    arrays: dict[str, NDArray[Any]] = {}
    values: dict[str, Sequence[str]] = {}
    problems: list[Problem] = []
    for name, kind in frame.schema.items():
        series = frame[name]
        if kind in (pl.String, pl.Categorical):
            encoded = (
                pc.dictionary_encode(series.cast(pl.String).to_arrow()) if kind == pl.String else series.to_arrow()
            )
            codes = np.asarray(pc.fill_null(encoded.indices.cast(pa.int64()), -1)).astype(np.int32)
            distinct = encoded.dictionary.to_pylist()
            used = np.unique(codes[codes >= 0])
            # An unused dictionary entry was never a value of the table.
            remap = np.full(len(distinct) + 1, -1, dtype=np.int32)
            remap[used] = np.arange(len(used), dtype=np.int32)
            arrays[name], values[name] = remap[codes], [distinct[code] for code in used]
            problems += _malformed(arrays[name], values[name], f"{file}: {name}")
        elif kind == pl.Int64:
            arrays[name] = series.fill_null(NULL).to_numpy()
        elif kind == pl.Float64:
            arrays[name] = series.fill_null(float("nan")).to_numpy()
    return arrays, values, problems


def _malformed(codes: NDArray[np.int32], values: Sequence[str], where: str) -> list[Problem]:
    bad = [k for k, text in enumerate(values) if text != text.strip() or len(text) > MAX_TEXT or not text.isprintable()]
    bad += [k for k, text in enumerate(values) if text == ""]
    if not bad:
        return []
    rows = int(np.isin(codes, bad).sum())
    samples = tuple(_quoted(values[k]) for k in bad[:MAX_SAMPLES])
    wanted = f"printable text of 1 to {MAX_TEXT} characters without blanks at its ends"
    return [Problem("malformed-text", where, samples[0], wanted, rows, samples)]


def _quoted(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:30]}…{text[-30:]}")


def _row_sums(
    arrays: Mapping[str, NDArray[Any]], task: Task, precision: Mapping[str, str], file: str
) -> tuple[list[Problem], int]:
    total = np.zeros(len(arrays[task.probability_columns[0]]))
    for name in task.probability_columns:
        total += arrays[name]
    off = np.abs(total - 1.0)
    allowed = sum_tolerance([precision[name] for name in task.probability_columns])
    bad = np.flatnonzero(off > allowed)
    renormalised = int((off > 1e-6).sum()) - len(bad)
    if not len(bad):
        return [], renormalised
    samples = tuple(f"{at(file, int(row))}: {total[row]:.9g}" for row in bad[:MAX_SAMPLES])
    saw = f"{counted(len(bad), 'row')}: {samples[0]}"
    return [
        Problem("probabilities-do-not-sum-to-one", file, saw, f"1 within {allowed:.1e}", len(bad), samples)
    ], renormalised


def sum_tolerance(precision: Sequence[str]) -> float:
    """How far a row of K columns may sum from one: K units of stored precision, at least 1e-6 (float16: 2e-3).

    A printed column of plain 0 and 1 tells nothing beside others, and no rounding excuses more than a tenth.
    """
    if "float16" in precision:
        return 2e-3
    units = [unit_of(kind) for kind in precision if kind != "decimals:0"] or [1.0]
    return min(0.1, max(1e-6, len(precision) * max(units)))


def unit_of(precision: str) -> float:
    """One unit of a stored precision near 1: the spacing of the float type, or of the printed decimals."""
    if precision.startswith("decimals:"):
        return float(10.0 ** -int(precision.removeprefix("decimals:")))
    return {"float16": 2.0**-11, "float32": 2.0**-24}.get(precision, 2.0**-53)


def write(decoded: Decoded, name: str, folder: Path) -> dict[str, Any]:
    """Write arrays and distinct values of the table ``name`` below ``folder``; return the JSON-ready rest."""
    if decoded.table is not None:
        for column, array in decoded.arrays.items():
            _save(folder / f"{name}.{column}.npy", array)
        for column, distinct in decoded.values.items():
            (folder / f"{name}.{column}.json").write_text(json.dumps(list(distinct)), encoding="utf-8")
    return {
        "table": None if decoded.table is None else vars(decoded.table),
        "columns": list(decoded.arrays),
        "text": list(decoded.values),
        "problems": [vars(problem) for problem in decoded.problems],
        "notes": list(decoded.notes),
    }


def _save(path: Path, array: NDArray[Any]) -> None:
    """Write ``array`` as ``numpy.save`` does, but a full disk keeps its error number, which numpy loses."""
    with path.open("wb") as sink:
        np.lib.format.write_array_header_1_0(sink, np.lib.format.header_data_from_array_1_0(array))
        sink.write(np.ascontiguousarray(array).data)
