"""What pandera finds in a decoded table, as problems with rows and counts."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from pandera.errors import SchemaErrors

from protocol.facts import Problem
from protocol.findings import MAX_SAMPLES, counted
from protocol.tables import offence_of
from protocol.types import SPLIT_NAMES
from scorer.intake.columns import at, kind_wanted

TYPES = {"String": "text", "Categorical": "text", "Int64": "whole numbers", "Float64": "numbers"}


def validate(frame: pl.DataFrame, schema: Any, file: str) -> list[Problem]:
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
        if offence is None or (offence == "value-out-of-range" and column == "split"):
            continue  # names of splits are counted below
        where = f"{file}: {column or value}"
        key = (offence, where, _wanted(check, offence, column or ""))
        shown = _shown(frame, column, index, value, file)
        if index not in counts.setdefault(key, set()):
            counts[key].add(index)
            if len(cases.setdefault(key, [])) < MAX_SAMPLES:
                cases[key].append(shown)
    problems = [
        Problem(offence, where, _saw(offence, samples), wanted, len(counts[key]), tuple(samples))
        if offence != "wrong-dtype"
        else Problem(offence, where, _held(frame[where.removeprefix(f"{file}: ")]), wanted)
        for key, samples in cases.items()
        for offence, where, wanted in [key]
    ]
    return [*_splits(frame, file), *problems]


def _splits(frame: pl.DataFrame, file: str) -> list[Problem]:
    """Names of splits that are none: each with the number of its rows."""
    if "split" not in frame.columns or frame["split"].dtype != pl.String:
        return []
    odd = frame["split"].drop_nulls().value_counts(sort=True, name="n").filter(~pl.col("split").is_in(SPLIT_NAMES))
    if not odd.height:
        return []
    odd = odd.sort(["n", "split"], descending=[True, False])
    samples = tuple(f"{name!r} in {counted(n, 'row')}" for name, n in odd.head(MAX_SAMPLES).rows())
    wanted = _wanted("", "value-out-of-range", "split")
    return [Problem("value-out-of-range", f"{file}: split", samples[0], wanted, int(odd["n"].sum()), samples)]


def _held(column: pl.Series) -> str:
    """What a column of the wrong type holds, in words, with its first value."""
    kind = column.dtype
    words = (
        ("text", kind in (pl.String, pl.Categorical)),
        ("true or false", kind == pl.Boolean),
        ("whole numbers", kind.is_integer()),
        ("numbers", kind.is_numeric()),
        ("dates or times", kind.is_temporal()),
        ("bytes", kind == pl.Binary),
    )
    said = next((word for word, fits in words if fits), str(kind))
    values = column.drop_nulls()
    if not len(values) or kind == pl.Boolean or kind.is_nested():
        return said
    return f"{said} such as {str(values[0])[:40]!r}" if said == "text" else f"{said} such as {str(values[0])[:40]}"


def _saw(offence: str, samples: Sequence[str]) -> str:
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
        return kind_wanted(column, TYPES.get(check.removeprefix("dtype('").removesuffix("')"), check))
    if offence == "value-out-of-range":
        return {"split": "train, val, calib, test or external", "seed": "0 to 2147483647"}.get(
            column, "a finite number"
        )
    return {
        "probability-not-finite": "a finite number from 0 to 1, no negative zero",
        "value-missing": "a value in every row",
    }.get(offence, offence)


def _shown(frame: pl.DataFrame, column: str | None, index: Any, value: Any, file: str) -> str:
    if index is None or column not in frame.columns:
        return f"{value}"
    found = frame[column][int(index)]
    return f"{at(file, int(index))}: {'null' if found is None else repr(found)}"
