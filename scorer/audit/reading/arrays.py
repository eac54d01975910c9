"""NumPy files: arrays without objects, one or several, as tables."""

import io
import math
import warnings
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
import polars as pl

from scorer.audit.reading.forms import pickled
from scorer.audit.reading.naming import facts_of
from scorer.audit.reading.source import FREE_BYTES, MAX_BYTES, MAX_CELLS, MAX_COLUMNS, MAX_RATIO, Source
from scorer.audit.shapes import AuditError, Loaded

MAX_HEADER = 100_000
MAX_ARRAYS = 1000
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
Array = np.ndarray[Any, np.dtype[Any]]


def npy(source: Source) -> Loaded:
    """One array: a column, or one column for each of the second axis."""
    with source.content.open("rb") as file:
        array = _array(source, file, source.size(), "")
    notes: list[str] = []
    columns = _columns(source, "", array, notes)
    return _loaded(source, columns, not array.dtype.names, notes)


def npz(source: Source) -> tuple[Loaded, ...]:
    """Arrays by name: those of equal length are one table."""
    arrays, notes = _members(source)
    tables: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        if array.ndim == 0:
            notes.append(f"{name!r} is a single value and is not read")
        else:
            tables.setdefault(len(_flat(source, name, array, [])), {})[name] = array
    tables.pop(0, None)
    if not tables:
        source.refuse("has no array with rows")
    loaded = []
    for held in tables.values():
        own = source if len(tables) == 1 else replace(source, name=f"{source.name}: {', '.join(held)}")
        said = list(notes)
        columns: dict[str, Array] = {}
        for name, array in held.items():
            for column, values in _columns(own, name, array, said).items():
                if column in columns:
                    own.refuse(f"two arrays give a column {column!r}; rename one")
                columns[column] = values
        loaded.append(_loaded(own, columns, False, said))
    if len(loaded) > 1:
        first = f"arrays of {len(loaded)} lengths ({', '.join(map(str, list(tables)[:5]))}), so as many tables"
        loaded = [replace(one, notes=(*one.notes, first)) for one in loaded]
    return tuple(loaded)


def _members(source: Source) -> tuple[dict[str, Array], list[str]]:
    arrays: dict[str, Array] = {}
    notes: list[str] = []
    try:
        with zipfile.ZipFile(source.content) as packed:
            infos = [info for info in packed.infolist() if not info.is_dir()]
            total = sum(info.file_size for info in infos)
            if len(infos) > MAX_ARRAYS or total > MAX_BYTES or total > max(FREE_BYTES, MAX_RATIO * source.size()):
                source.refuse(f"{len(infos)} arrays of {total >> 20} MiB together are too many; save fewer")
            for info in infos:
                if not info.filename.endswith(".npy"):
                    notes.append(f"{info.filename!r} is no array and is not read")
                    continue
                with packed.open(info) as file:
                    content = file.read(info.file_size + 1)
                name = info.filename.removesuffix(".npy")
                arrays[name] = _array(source, io.BytesIO(content), len(content), name)
    except AuditError:
        raise
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        source.refuse(f"a damaged NPZ file ({error})")
    return arrays, notes


def _array(source: Source, file: IO[bytes], size: int, name: str) -> Array:
    """The array; nothing is allocated that the bytes do not hold, and no object is made of them."""
    what = f"array {name!r}" if name else "the array"
    try:
        version = np.lib.format.read_magic(file)
        header = HEADERS.get(version)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Python 2, whose headers are as good
            shape, fortran, dtype = header(file, MAX_HEADER) if header else ((), False, np.dtype(np.int8))
    except Exception as error:  # the parser of headers lets any error of Python's own parser through
        source.refuse(f"{what} has a damaged header ({(str(error).splitlines() or ['cut off'])[0][:120]})")
    if header is None:
        source.refuse(f"{what} is of NPY version {version[0]}.{version[1]}; save it again with numpy.save")
    if dtype.hasobject:
        pickled(source, f"{what} holds Python objects, which NumPy stores as a pickle")
    count = math.prod(int(one) for one in shape)
    left = size - file.tell()
    if min(shape, default=0) < 0 or not dtype.itemsize or count * dtype.itemsize != left:
        source.refuse(
            f"{what} should have {count * dtype.itemsize} bytes by its header {tuple(shape)} {dtype}, but has {left}; "
            "the file is cut off or damaged"
        )
    if count > MAX_CELLS:
        source.refuse(f"{what} has {count} values, more than can be audited at once; split it")
    try:
        flat = np.frombuffer(file.read(left), dtype=dtype)
        return flat.reshape(shape, order="F" if fortran else "C")
    except (ValueError, TypeError) as error:
        source.refuse(f"{what} can't be read ({error})")


def _flat(source: Source, name: str, array: Array, notes: list[str]) -> Array:
    """The array with one or two axes."""
    what = f"array {name!r}" if name else "the array"
    if array.ndim > 2:
        kept = [size for size in array.shape[1:] if size != 1]
        if len(kept) > 1 and array.shape[0] == 1:
            kept = [size for size in array.shape if size != 1]
            kept = kept[1:] if len(kept) == 2 else kept
        if len(kept) > 1:
            source.refuse(
                f"{what} has the axes {array.shape}; wanted are (rows,) or (rows, classes): save one array for each "
                "model (or slice), such as numpy.savez('FILE.npz', model_a=x[0], model_b=x[1])"
            )
        rows = array.size // (kept[0] if kept else 1)
        notes.append(f"{what} of the axes {array.shape} is read as {rows} rows of {kept[0] if kept else 1}")
        array = array.reshape(rows, kept[0]) if kept else array.reshape(rows)
    return array


def _columns(source: Source, name: str, array: Array, notes: list[str]) -> dict[str, Array]:
    what = f"array {name!r}" if name else "the array"
    if array.ndim == 0 or not array.size:
        source.refuse(f"{what} of the axes {array.shape} has no rows")
    array = _flat(source, name, array, notes)
    if array.dtype.names:
        if array.ndim > 1:
            array = array.reshape(-1)
        start = f"{name}_" if name else ""
        fields = {f"{start}{field}": array[field] for field in array.dtype.names or ()}
        if any(values.ndim > 1 for values in fields.values()):
            source.refuse(f"{what} has fields that are arrays themselves; save each as an array of its own")
        return fields
    if array.ndim == 1:
        return {name or "column_1": array}
    rows, width = array.shape
    if width > MAX_COLUMNS or (width > 1000 and width > 20 * rows):
        source.refuse(f"{what} has {rows} rows and {width} columns; is it turned? save its transpose: x.T")
    if width > 50 and width > rows:
        notes.append(f"{what} has more columns ({width}) than rows ({rows}); is it turned?")
    if width == 1:
        return {name or "column_1": array[:, 0]}
    if not name:
        return {f"column_{place + 1}": array[:, place] for place in range(width)}
    return {f"{name}_{place}": array[:, place] for place in range(width)}


def _loaded(source: Source, columns: Mapping[str, Array], bare: bool, notes: Sequence[str]) -> Loaded:
    precision: dict[str, str] = {}
    series = []
    for name, values in columns.items():
        series.append(_series(source, name, values))
        if values.dtype.kind == "f":
            precision[name] = f"float{8 * min(values.dtype.itemsize, 8)}"
    header = not bare or "column_1" not in columns
    return Loaded(
        name=source.name,
        frame=pl.DataFrame(series),
        form="npz" if not bare and source.suffix == ".npz" else "npy",
        path=source.origin,
        sha256=source.sha256,
        precision=precision,
        header=header,
        facts=facts_of(source.file),
        notes=(*source.notes, *notes),
    )


def _series(source: Source, name: str, values: Array) -> pl.Series:
    kind = values.dtype.kind
    if kind == "f":
        return pl.Series(name, values.astype(np.float64), pl.Float64).fill_nan(None)
    if kind == "b":
        return pl.Series(name, values.astype(np.int8)).cast(pl.String).replace({"1": "true", "0": "false"})
    if kind == "i" or (kind == "u" and (values.dtype.itemsize < 8 or int(values.max()) < 2**63)):
        return pl.Series(name, values.astype(np.int64), pl.Int64)
    try:
        if kind == "S":
            texts = np.char.decode(values, "utf-8")
        elif kind in "UMu":
            texts = values.astype(np.str_)
        else:
            source.refuse(f"column {name!r} is of the type {values.dtype}, no numbers or text; save it as float64")
        cells = pl.Series(name, texts.tolist(), pl.String).str.strip_chars()
    except AuditError:
        raise
    except (UnicodeError, ValueError, TypeError) as error:
        source.refuse(f"column {name!r} holds text that can't be read ({str(error)[:120]})")
    return cells.set(cells.is_in(["", "NaT"]), None)
