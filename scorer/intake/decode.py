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
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pandera.errors import SchemaErrors

from protocol.facts import Problem, Table
from protocol.findings import MAX_SAMPLES, counted
from protocol.tables import PREDICTIONS_TEXT, offence_of, predictions_schema, splits_schema
from protocol.task import Task
from scorer.intake import NULL
from scorer.intake.columns import Columns, colliding, predictions_columns, splits_columns

MAX_TEXT = 200
TYPES = {
    "String": "text",
    "Categorical": "text",
    "Int64": "whole numbers",
    "Float64": "numbers",
    "Boolean": "true or false",
}


@dataclass(frozen=True)
class Decoded:
    """One table: its facts (None if it can't be used), arrays by column, distinct values of text columns, problems."""

    table: Table | None
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    notes: tuple[str, ...] = ()


class _Refused(Exception):
    """The table can't be used; carries the problems that say why."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__()
        self.problems = problems


def decode_splits(source: BinaryIO, file: str, task: Task, patient_ids: bool, max_rows: int) -> Decoded:
    """Decode ``splits.parquet``."""
    return _guarded(lambda: _splits(source, file, task, patient_ids, max_rows), file)


def decode_predictions(source: BinaryIO, file: str, task: Task, max_rows: int) -> Decoded:
    """Decode ``predictions.parquet`` (or CSV, by the file's name)."""
    return _guarded(lambda: _predictions(source, file, task, max_rows), file)


def _guarded(work: Callable[[], Decoded], file: str) -> Decoded:
    try:
        return work()
    except _Refused as refused:
        return Decoded(None, problems=refused.problems)
    except MemoryError:  # Arrow's own is one of these too
        return Decoded(
            None, problems=(Problem("decoding-stopped", file, "more memory than allowed", "a smaller table"),)
        )
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError) as error:
        first = (str(error).splitlines() or ["unreadable"])[0][:160]
        return Decoded(None, problems=(Problem("unreadable-file", file, first, "a whole, readable table"),))


def _splits(source: BinaryIO, file: str, task: Task, patient_ids: bool, max_rows: int) -> Decoded:
    names, read = _open(source, file, max_rows)
    columns = splits_columns(names, task, file, patient_ids)
    if columns.problems:
        raise _Refused(*columns.problems)
    extras = columns.extras
    text = {"image_id", "patient_id", "split", "site", "content_hash", *extras}
    table = read([*columns.source, *extras], text & {*names})
    frame = _frame({name: _plain(table[name], name in text) for name in table.column_names}, text=pl.String)
    if "patient_id" not in frame.columns:
        frame = frame.with_columns(patient_id=pl.lit(None, dtype=pl.String))
    problems = _validate(frame, splits_schema(task, extras, patient_ids), file)
    arrays, values, bad = _arrays(frame, file)
    problems += bad
    facts = Table(file, frame.height, tuple(names), extras)
    return Decoded(None if problems else facts, arrays, values, tuple(problems))


def _predictions(source: BinaryIO, file: str, task: Task, max_rows: int) -> Decoded:
    names, read = _open(source, file, max_rows)
    columns = predictions_columns(names, task, file)
    if columns.problems:
        raise _Refused(*columns.problems)
    table = read([*columns.source.values(), *([columns.spread] if columns.spread else [])], set(PREDICTIONS_TEXT))
    raw = {ours: table[theirs] for ours, theirs in columns.source.items()}
    if columns.spread is not None:
        raw |= _spread(table[columns.spread], columns.spread, task, file)
    precision = {name: _precision(raw[name]) for name in raw if name.startswith(("p_", "z_"))}
    frame = _frame({name: _plain(raw[name], name in PREDICTIONS_TEXT) for name in raw}, text=pl.Categorical)
    logits = tuple(name for name in raw if name.startswith("z_"))
    problems = _validate(frame, predictions_schema(task, logits, "fold" in raw), file)
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


def _open(source: BinaryIO, file: str, max_rows: int) -> tuple[list[str], Callable[[list[str], set[str]], pa.Table]]:
    """Column names and a function that reads columns; raises _Refused before anything large is read."""
    head = source.read(4)
    source.seek(0)
    if not head:
        raise _Refused(Problem("unreadable-file", file, "an empty file", "a table"))
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        raise _Refused(Problem("pickle-refused", file, "a pickle", "Parquet or CSV"))
    if file.lower().endswith(".csv"):
        names, rows, reader = _open_csv(source, file)
    elif head != b"PAR1":
        raise _Refused(Problem("unreadable-file", file, f"no Parquet (it starts with {head!r})", "a Parquet file"))
    else:
        names, rows, reader = _open_parquet(source, file)
    problems = colliding(names, file)
    if problems:
        raise _Refused(*problems)
    if rows == 0:
        raise _Refused(Problem("no-rows", file, "0 rows", "one row or more"))
    if rows > max_rows:
        raise _Refused(Problem("row-count-bomb", file, f"{rows} rows", f"at most {max_rows}, from the record"))
    return names, reader


def _open_parquet(source: BinaryIO, file: str) -> tuple[list[str], int, Callable[[list[str], set[str]], pa.Table]]:
    opened = pq.ParquetFile(source)
    names = list(opened.schema_arrow.names)

    def read(wanted: list[str], text: set[str]) -> pa.Table:
        nested = [field for name in wanted if pa.types.is_struct((field := opened.schema_arrow.field(name)).type)]
        if nested:
            raise _Refused(*(Problem("wrong-dtype", f"{file}: {f.name}", str(f.type), "a flat column") for f in nested))
        # Text is kept as a dictionary: an identifier repeated in a thousand runs is stored once.
        strings = [n for n in wanted if n in text and pa.types.is_string(opened.schema_arrow.field(n).type)]
        source.seek(0)
        table = pq.ParquetFile(source, read_dictionary=strings).read(columns=wanted, use_threads=False)
        table.validate(full=True)
        return table

    return names, opened.metadata.num_rows, read


def _open_csv(source: BinaryIO, file: str) -> tuple[list[str], int, Callable[[list[str], set[str]], pa.Table]]:
    header = source.readline(1 << 20)
    source.seek(0)
    first = pa.csv.read_csv(pa.BufferReader(header), read_options=_csv_names()).to_pylist()
    listed = [str(name) for name in (first[0].values() if first else ())]
    if colliding(listed, file):
        return listed, 1, lambda wanted, text: pa.table({})
    options = pa.csv.ConvertOptions(column_types=dict.fromkeys(listed, pa.string()), strings_can_be_null=False)
    table = pa.csv.read_csv(source, convert_options=options)

    def read(wanted: list[str], text: set[str]) -> pa.Table:
        columns = {name: table[name] if name in text else _numbers(table[name], name, file) for name in wanted}
        return pa.table(columns)

    return listed, table.num_rows, read


def _csv_names() -> pa.csv.ReadOptions:
    return pa.csv.ReadOptions(autogenerate_column_names=True)


def _numbers(column: pa.ChunkedArray, name: str, file: str) -> pa.ChunkedArray:
    """A CSV text column as numbers; probability columns carry the printed decimals in a struct beside the value."""
    frame = pl.DataFrame({"text": pl.from_arrow(column)})
    whole = name in ("seed", "fold") or name.startswith("label")
    empty = pl.col("text") == ""
    value = pl.col("text").cast(pl.Int64 if whole else pl.Float64, strict=False)
    frame = frame.with_columns(value=pl.when(empty).then(None).otherwise(value), row=pl.int_range(1, pl.len() + 1))
    bad = frame.filter(pl.col("value").is_null() & ~empty)
    if bad.height:
        samples = tuple(f"row {row}: {text[:40]!r}" for text, row in bad.select("text", "row").head(MAX_SAMPLES).rows())
        kind = "whole numbers" if whole else "numbers"
        raise _Refused(
            Problem("wrong-dtype", f"{file}: {name}", f"text such as {samples[0]}", kind, bad.height, samples)
        )
    if whole:
        return pa.chunked_array([frame["value"].to_arrow()])
    field_ = pa.field("value", pa.float64(), metadata={b"decimals": str(_decimals(frame)).encode()})
    return pa.chunked_array([pa.StructArray.from_arrays([frame["value"].to_arrow()], fields=[field_])])


def _decimals(frame: pl.DataFrame) -> int:
    """The most decimals printed in a column of numbers (1.2e-05 has six).

    Exact 0 and 1 tell nothing, and of numbers printed to some significant digits the large ones have the fewest
    decimals: those count where there are any.
    """
    inside = frame.filter((pl.col("value") > 0) & (pl.col("value") < 1))
    large = inside.filter(pl.col("value") >= 0.1)
    parts = (large if large.height else inside).select(
        fraction=pl.col("text").str.extract(r"\.(\d+)", 1).str.len_bytes().fill_null(0).cast(pl.Int64),
        exponent=pl.col("text").str.extract(r"[eE]([+-]?\d+)", 1).cast(pl.Int64, strict=False).fill_null(0),
    )
    most = parts.select((pl.col("fraction") - pl.col("exponent")).max()).item()
    return max(0, int(most or 0))


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
    return frame.with_columns(*casts, *whole)


def _spread(column: pa.ChunkedArray, name: str, task: Task, file: str) -> dict[str, pa.ChunkedArray]:
    wanted = len(task.probability_columns)
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise _Refused(Problem("wrong-dtype", f"{file}: {name}", str(kind), "a list of numbers"))
    lengths = pc.unique(pc.fill_null(pc.list_value_length(column), -1)).to_pylist()
    if lengths != [wanted]:
        saw = f"lists of {', '.join(str(n) for n in sorted(lengths)[:3])}"
        raise _Refused(Problem("class-count-differs", f"{file}: {name}", saw, f"lists of {wanted}"))
    return {ours: pc.list_element(column, k) for k, ours in enumerate(task.probability_columns)}


def _validate(frame: pl.DataFrame, schema: Any, file: str) -> list[Problem]:
    """All that pandera finds, as problems with rows and counts."""
    try:
        schema.validate(frame, lazy=True)
    except SchemaErrors as errors:
        return _problems(errors, frame, file)
    return []


def _problems(errors: SchemaErrors, frame: pl.DataFrame, file: str) -> list[Problem]:
    cases: dict[tuple[str, str, str], list[str]] = {}
    counts: dict[tuple[str, str, str], set[Any]] = {}
    reasons = {
        (str(getattr(e.schema, "name", "") or ""), _check_name(e)): e.reason_code.name
        for e in errors.schema_errors
        if e.reason_code is not None
    }
    for value, column, check, index in errors.failure_cases.select("failure_case", "column", "check", "index").rows():
        reason = reasons.get((column or "", check), _by_check(check))
        offence = offence_of(reason, column or value, check)
        if offence is None:
            continue
        where = f"{file}: {column or value}"
        key = (offence, where, _wanted(check, offence, column or ""))
        shown = _shown(frame, column, index, value)
        if index not in counts.setdefault(key, set()):
            counts[key].add(index)
            if len(cases.setdefault(key, [])) < MAX_SAMPLES:
                cases[key].append(shown)
    return [
        Problem(offence, where, _saw(offence, samples), wanted, len(counts[key]), tuple(samples))
        for key, samples in cases.items()
        for offence, where, wanted in [key]
    ]


def _saw(offence: str, samples: Sequence[str]) -> str:
    if offence == "wrong-dtype":
        return TYPES.get(samples[0], samples[0])
    return {"wrong-columns": "no such column, or one too many"}.get(offence, samples[0])


def _check_name(error: Any) -> str:
    return str(getattr(error.check, "name", None) or error.check)


def _by_check(check: str) -> str:
    if check == "not_nullable":
        return "SERIES_CONTAINS_NULLS"
    if check.startswith("dtype"):
        return "WRONG_DATATYPE"
    return {"column_in_dataframe": "COLUMN_NOT_IN_DATAFRAME", "column_in_schema": "COLUMN_NOT_IN_SCHEMA"}.get(
        check, "DATAFRAME_CHECK"
    )


def _wanted(check: str, offence: str, column: str) -> str:
    if offence == "wrong-dtype":
        return TYPES.get(check.removeprefix("dtype('").removesuffix("')"), check)
    if offence == "value-out-of-range":
        return {"split": "train, val, calib, test or external", "seed": "0 to 2147483647"}.get(
            column, "a finite number"
        )
    return {
        "probability-not-finite": "a finite number from 0 to 1, no negative zero",
        "value-missing": "a value in every row",
    }.get(offence, offence)


def _shown(frame: pl.DataFrame, column: str | None, index: Any, value: Any) -> str:
    if index is None or column not in frame.columns:
        return f"{value}"
    return f"row {int(index) + 1}: {frame[column][int(index)]!r}".replace("None", "null")


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
    samples = tuple(f"row {row + 1}: {total[row]:.9g}" for row in bad[:MAX_SAMPLES])
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
            np.save(folder / f"{name}.{column}.npy", array, allow_pickle=False)
        for column, distinct in decoded.values.items():
            (folder / f"{name}.{column}.json").write_text(json.dumps(list(distinct)), encoding="utf-8")
    return {
        "table": None if decoded.table is None else vars(decoded.table),
        "columns": list(decoded.arrays),
        "text": list(decoded.values),
        "problems": [vars(problem) for problem in decoded.problems],
        "notes": list(decoded.notes),
    }
