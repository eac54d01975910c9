"""What pandera finds in a decoded table, as problems with rows and counts."""

from collections.abc import Sequence
from typing import Any

import polars as pl
from pandera.errors import SchemaErrors

from protocol.facts import Problem
from protocol.findings import MAX_SAMPLES
from protocol.tables import offence_of

TYPES = {
    "String": "text",
    "Categorical": "text",
    "Int64": "whole numbers",
    "Float64": "numbers",
    "Boolean": "true or false",
}


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
