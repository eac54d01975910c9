"""Parquet files with the types that they store."""

from typing import Any

import polars as pl

from scorer.audit.reading.naming import facts_of
from scorer.audit.reading.numbers import typed
from scorer.audit.reading.source import MAX_BYTES, MAX_CELLS, MAX_COLUMNS, Source
from scorer.audit.shapes import AuditError, Loaded

BATCH = 1 << 18


def parquet(source: Source) -> Loaded:
    """A Parquet file: numbers as stored, text, truth values and times as text, lists of numbers as columns."""
    import pyarrow as pa
    from pyarrow import parquet as arrow_parquet

    columns: dict[str, pl.Series] = {}
    precision: dict[str, str] = {}
    notes: list[str] = []
    try:
        with source.content.open("rb") as raw, arrow_parquet.ParquetFile(raw) as file:
            schema = file.schema_arrow
            rows, width = file.metadata.num_rows, len(schema.names)
            if not rows or not width:
                source.refuse("has no rows" if width else "has no columns")
            if rows * width > MAX_CELLS or width > MAX_COLUMNS:
                source.refuse(f"{rows} rows of {width} columns are more than can be audited at once; split it")
            twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
            if twice is not None:
                source.refuse(f"the column name {twice!r} comes {schema.names.count(twice)} times; give each its own")
            for field in schema:
                for column, stored in _column(source, file, field, notes):
                    if column.name in columns:
                        source.refuse(f"two columns would be called {column.name!r}; rename one")
                    columns[column.name] = column
                    if stored:
                        precision[column.name] = stored
    except AuditError:
        raise
    except (
        pa.ArrowException,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        MemoryError,
        pl.exceptions.PolarsError,
    ) as error:
        source.refuse(f"a damaged Parquet file ({(str(error).splitlines() or [''])[0][:200]})")
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic over damaged values is no Exception
        source.refuse(f"a damaged Parquet file ({str(error)[:200]})")
    if not columns:
        source.refuse("has no column of plain values")
    result = typed(pl.DataFrame(list(columns.values())))
    return Loaded(
        name=source.name,
        frame=result.frame,
        form="parquet",
        path=source.origin,
        sha256=source.sha256,
        precision={**precision, **result.precision},
        facts={**facts_of(source.file), **result.facts},
        notes=(*source.notes, *notes, *result.notes),
    )


def _column(source: Source, file: Any, field: Any, notes: list[str]) -> list[tuple[pl.Series, str]]:
    """The column, or several for a list, each with how it is stored ('' but for floats)."""
    import pyarrow as pa
    from pyarrow import types

    name = field.name.strip() or "unnamed"
    kind = field.type
    inner = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_list(inner) or types.is_large_list(inner) or types.is_fixed_size_list(inner):
        return _list(source, file, field, notes)
    if not any(fits(inner) for fits in _plain_types()):
        notes.append(f"column {name!r} of the type {str(inner)[:60]} holds no plain values and is not read")
        return []
    parts: list[pl.Series] = []
    held = 0
    for batch in file.iter_batches(batch_size=BATCH, columns=[field.name]):
        values = batch.column(0)
        held += values.nbytes
        if held > MAX_BYTES:
            source.refuse(f"column {name!r} unpacks to more than {MAX_BYTES >> 30} GiB; take it out")
        values.validate(full=True)
        if types.is_dictionary(values.type):
            values = values.dictionary_decode()
        if types.is_float16(values.type):
            values = values.cast(pa.float32())
        parts.append(_plain(pl.Series(name, values)))
    column = pl.concat(parts, rechunk=True)
    if types.is_floating(inner):
        return [(column, f"float{inner.bit_width}")]
    if types.is_decimal(inner):
        return [(column, f"decimals:{inner.scale}")] if inner.scale > 0 else [(column, "")]
    return [(column, "")]


def _plain_types() -> tuple[Any, ...]:
    from pyarrow import types

    texts = (types.is_string, types.is_large_string, types.is_string_view, types.is_null, types.is_boolean)
    numeric = (types.is_integer, types.is_floating, types.is_decimal128, types.is_decimal256)
    return *texts, *numeric, types.is_date, types.is_time, types.is_timestamp


def _plain(column: pl.Series) -> pl.Series:
    """Floats as Float64, whole numbers as Int64, all else as bare text."""
    kind = column.dtype
    if kind.is_float():
        return column.cast(pl.Float64).fill_nan(None)
    if kind.is_decimal():
        scale = getattr(kind, "scale", 1)
        return column.cast(pl.Float64) if scale else column.cast(pl.Int64, strict=False)
    if kind.is_integer():
        if kind == pl.UInt64 and bool((column >= 2**63).any()):
            return column.cast(pl.String)
        return column.cast(pl.Int64)
    if kind.is_temporal():
        _in_range(column)
    text = column.cast(pl.String).str.strip_chars()
    return text.set(text == "", None)


def _in_range(column: pl.Series) -> None:
    """ValueError for a time that no calendar has, over which the conversion to text would panic."""
    kind = column.dtype
    unit = {"ms": 10**3, "us": 10**6, "ns": 10**9}[getattr(kind, "time_unit", None) or "ns"]
    day = 1 if kind == pl.Date else 86_400 * unit
    low, high = (0, day - 1) if kind == pl.Time else (-719_162 * day, 2_932_897 * day)  # the years 1 to 9999
    stored = column.to_physical()
    if bool(((stored < low) | (stored > high)).any()):
        raise ValueError(f"column {column.name!r} holds times that no calendar has")


def _list(source: Source, file: Any, field: Any, notes: list[str]) -> list[tuple[pl.Series, str]]:
    from pyarrow import types

    name = field.name.strip() or "unnamed"
    inner = field.type.value_type
    if not (types.is_floating(inner) or types.is_integer(inner)):
        notes.append(f"column {name!r} holds lists of {str(inner)[:60]} and is not read")
        return []
    parts: list[pl.DataFrame] = []
    width: int | None = None
    for batch in file.iter_batches(batch_size=BATCH, columns=[field.name]):
        values = batch.column(0)
        values.validate(full=True)
        lists = pl.Series(name, values)
        if lists.dtype.is_nested() and isinstance(lists.dtype, pl.Array):
            lists = lists.arr.to_list()
        lengths = lists.list.len().drop_nulls().unique()
        if lengths.len() > 1 or (width is not None and lengths.len() and lengths[0] != width):
            notes.append(f"column {name!r} holds lists of different lengths and is not read")
            return []
        width = int(lengths[0]) if lengths.len() else width
        if width is not None and (width == 0 or width * file.metadata.num_rows > MAX_CELLS or width > MAX_COLUMNS):
            source.refuse(f"column {name!r} holds lists of {width} values, which are too many or none")
        parts.append(lists.to_frame())
    if width is None:
        return []
    stored = f"float{inner.bit_width}" if types.is_floating(inner) else ""
    found = []
    for place in range(width):
        pieces = [part.to_series().list.get(place, null_on_oob=True) for part in parts]
        found.append((_plain(pl.concat(pieces, rechunk=True).alias(f"{name}_{place}")), stored))
    return found
