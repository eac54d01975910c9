"""Good bundles with a few changes made at random, each described by plain values so that a failure can be repeated."""

import copy
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from protocol.types import Kind
from submission.bundle import open_bundle
from submission.writing import make_lock, to_yaml, write_lock
from tests.builders import DECLARED_AT, good_submission

HOSTILE = (
    "",
    " ",
    "=cmd|'/c calc'!A1",
    "<b>x</b>",
    "\x1b[31m",
    "\u202egnp",
    "'; drop table x; --",
    "../x",
    "\x00",
    "é" * 999,
)
NUMBERS = (0, -1, 1, 2**31, 2**53, 10**15, 1e-320, 1e308, -0.0, float("nan"), float("inf"))
VALUES = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(), st.floats(), st.sampled_from(HOSTILE), st.text(),
    st.sampled_from(([], {}, [None], {"x": 1}, [[[]]], ["x"] * 300)),
)  # fmt: skip
DOCUMENTS = ("task.yaml", "submission.yaml", "declaration.lock", "calibrators.json")
TABLES = ("splits.parquet", "predictions.parquet")


@dataclass(frozen=True)
class Change:
    """One change: ``how`` to ``file``, at the place and with the second place that the numbers choose."""

    file: str
    how: str
    at: int
    other: int
    value: Any


@dataclass
class Files:
    """A bundle as plain data: documents and tables by file name; ``raw`` are changes to the files when written."""

    documents: dict[str, Any]
    tables: dict[str, pl.DataFrame]
    raw: list[Change] = field(default_factory=list)


@lru_cache(maxsize=3)
def _good(kind: Kind) -> Files:
    draft = good_submission(kind)
    fitted = [record.model_dump(mode="json") for record in draft.calibrators]
    documents = {"task.yaml": draft.task, "submission.yaml": draft.record, "calibrators.json": fitted}
    return Files(documents, {"splits.parquet": draft.splits, "predictions.parquet": draft.predictions})


def changed(kind: Kind, changes: tuple[Change, ...], declared: bool, folder: Path) -> Path:
    """Write the good bundle of ``kind`` with ``changes`` into ``folder``; ``declared``: before them, else after."""
    files = copy.deepcopy(_good(kind))
    folder.mkdir()
    if declared:
        _write(files, folder)
        _lock(folder)
        files.documents["declaration.lock"] = json.loads((folder / "declaration.lock").read_text(encoding="utf-8"))
    for change in changes:
        if change.how in FILE_CHANGES:
            files.raw.append(change)
        elif change.file in files.documents:
            files.documents[change.file] = _changed_document(files.documents[change.file], change)
        elif change.file in files.tables:
            files.tables[change.file] = TABLE_CHANGES[change.how](files.tables[change.file], change)
    _write(files, folder)
    if not declared:
        _lock(folder)
    for change in files.raw:
        FILE_CHANGES[change.how](folder / change.file, change)
    return folder


def _write(files: Files, folder: Path) -> None:
    for name, document in files.documents.items():
        text = to_yaml({"x": document})[2:] if not isinstance(document, dict) else to_yaml(document)
        (folder / name).write_bytes(text if name.endswith(".yaml") else json.dumps(document).encode())
    for name, table in files.tables.items():
        table.write_parquet(folder / name)
    (folder / "configs").mkdir(exist_ok=True)
    for name, data in good_submission("binary").files.items():
        (folder / name).write_bytes(data)


def _lock(folder: Path) -> None:
    """Declare the bundle if it can be."""
    scratch = folder.parent / "scratch"
    scratch.mkdir(exist_ok=True)
    try:
        write_lock(folder, make_lock(open_bundle(folder, scratch), DECLARED_AT))
    except ValueError:
        (folder / "declaration.lock").unlink(missing_ok=True)


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every container in ``document`` with a key or index of it."""
    if isinstance(document, dict):
        inner: list[Any] = list(document.items())
    elif isinstance(document, list):
        inner = list(enumerate(document))
    else:
        return []
    return [(document, key) for key, _ in inner] + [place for _, item in inner for place in _places(item)]


def _changed_document(document: Any, change: Change) -> Any:
    places = _places(document)
    if not places:
        return change.value
    holder, key = places[change.at % len(places)]
    if change.how == "remove":
        del holder[key]
    elif change.how == "add":
        holder["unknown" if isinstance(holder, dict) else slice(0, 0)] = (
            change.value if isinstance(holder, dict) else [change.value]
        )
    elif change.how == "swap":
        there, other = places[change.other % len(places)]
        holder[key], there[other] = copy.deepcopy(there[other]), copy.deepcopy(holder[key])
    elif change.how == "repeat" and isinstance(holder[key], list):
        holder[key] = holder[key] * 2
    else:
        holder[key] = change.value
    return document


def _column(table: pl.DataFrame, change: Change) -> str:
    return table.columns[change.at % max(1, table.width)]


def _cell(table: pl.DataFrame, change: Change) -> pl.DataFrame:
    """One cell replaced, where its column can hold the value; else the whole column."""
    name = _column(table, change)
    values = table[name].to_list()
    values[change.other % len(values)] = change.value
    try:
        column = pl.Series(name, values, dtype=table.schema[name], strict=True)
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        column = pl.Series(name, [str(value) for value in values])
    return table.with_columns(column)


def _retyped(table: pl.DataFrame, change: Change) -> pl.DataFrame:
    kinds = (
        pl.String,
        pl.Int8,
        pl.Int64,
        pl.UInt64,
        pl.Float32,
        pl.Float64,
        pl.Boolean,
        pl.Binary,
        pl.Date,
        pl.Categorical,
    )
    name = _column(table, change)
    try:
        return table.with_columns(pl.col(name).cast(kinds[change.other % len(kinds)], strict=False))
    except pl.exceptions.PolarsError:
        return table


def _renamed(table: pl.DataFrame, change: Change) -> pl.DataFrame:
    name = (*HOSTILE, "label", "p_1", "p_0", "patient", "Unnamed: 0")[change.other % (len(HOSTILE) + 5)]
    return table if name in table.columns else table.rename({_column(table, change): name})


def _from_other_row(table: pl.DataFrame, change: Change) -> pl.DataFrame:
    name = _column(table, change)
    values = table[name].to_list()
    values[change.at % len(values)] = values[change.other % len(values)]
    return table.with_columns(pl.Series(name, values, dtype=table.schema[name]))


TABLE_CHANGES: dict[str, Callable[[pl.DataFrame, Change], pl.DataFrame]] = {
    "cell": _cell,
    "from another row": _from_other_row,
    "retype": _retyped,
    "rename": _renamed,
    "drop column": lambda table, change: table.drop(_column(table, change)),
    "nulls": lambda table, change: table.with_columns(
        pl.lit(None).cast(table.schema[(n := _column(table, change))]).alias(n)
    ),
    "constant": lambda table, change: table.with_columns(pl.col(n := _column(table, change)).first().alias(n)),
    "nest": lambda table, change: table.with_columns(pl.concat_list(_column(table, change))),
    "drop rows": lambda table, change: table.gather_every(1 + change.other % 5, change.at % max(1, table.height)),
    "cut": lambda table, change: table.head(change.other % (table.height + 1)),
    "repeat rows": lambda table, change: pl.concat([table, table.head(1 + change.other % 50)]),
    "shuffle": lambda table, change: table.sample(fraction=1.0, shuffle=True, seed=change.other % 1000),
    "shift": lambda table, change: table.with_columns(pl.col(_column(table, change)).shift(1 + change.other % 7)),
}


def _truncated(path: Path, change: Change) -> None:
    if path.exists():
        os.truncate(path, change.at % (path.stat().st_size + 1))


def _flipped(path: Path, change: Change) -> None:
    if path.exists():
        data = bytearray(path.read_bytes())
        data[change.at % len(data)] ^= 1 + change.other % 255
        path.write_bytes(data)


def _replaced(path: Path, change: Change) -> None:
    other = path.with_name((*DOCUMENTS, *TABLES)[change.other % 6])
    if other.exists() and other != path:
        path.write_bytes(other.read_bytes())


FILE_CHANGES: dict[str, Callable[[Path, Change], None]] = {
    "delete": lambda path, change: path.unlink(missing_ok=True),
    "truncate": _truncated,
    "flip": _flipped,
    "replace": _replaced,
}
DOCUMENT_CHANGES = ("set", "remove", "add", "swap", "repeat")
BIG = st.integers(0, 10**6)


def _changes(files: tuple[str, ...], hows: Iterable[str], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Change]:
    return st.builds(Change, st.sampled_from(files), st.sampled_from(sorted(hows)), BIG, BIG, values)


CHANGES = st.one_of(
    _changes(DOCUMENTS, DOCUMENT_CHANGES, VALUES),
    _changes(TABLES, TABLE_CHANGES, VALUES),
    _changes((*DOCUMENTS, *TABLES), FILE_CHANGES, st.none()),
)
