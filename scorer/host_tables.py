"""The host's tables: the full split file and the truth, read and checked before anything is published.

The host's files are its own, but the same decoder reads them: what a participant could not use is found here.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from protocol.facts import Problem
from protocol.findings import counted, plain
from protocol.tables import PERSONAL_NAMES, bare
from protocol.task import Task, no_subgroup
from protocol.types import DEVELOPMENT, EVALUATED
from scorer.intake import NULL
from scorer.intake.child import SPLITS_CAP
from scorer.intake.decode import Decoded, decode_splits
from scorer.intake.opening import Refused, open_table
from splits import attack

IDENTIFIER = r"^[0-9a-f]{64}$"


@dataclass(frozen=True)
class Read:
    """A table in canonical columns, in the order of its ``image_id``, or the problems that kept it from being read."""

    table: pl.DataFrame | None
    problems: tuple[str, ...] = ()


def read_splits(path: Path, task: Task) -> Read:
    """The full split file (Parquet or CSV), labels as far as it has them; raises OSError."""
    name = path.name
    with path.open("rb") as source:
        decoded = decode_splits(source, name, task, True, SPLITS_CAP)
        if decoded.table is None:  # a host without patient identifiers leaves the column out, or blank
            source.seek(0)
            blank = decode_splits(source, name, task, False, SPLITS_CAP)
            if blank.table is not None and set(blank.arrays["patient_id"].tolist()) == {-1}:
                decoded = blank
    if decoded.table is None:
        return Read(None, _words(decoded.problems))
    frame = _frame(decoded)
    if not decoded.values["patient_id"]:
        frame = frame.drop("patient_id")
    optional = [column for column in ("fold", "content_hash") if column in frame.columns]
    first = [c for c in ("image_id", "patient_id", "split", "site", *task.label_columns) if c in frame.columns]
    return Read(frame.select(*first, *optional, *decoded.table.extras).sort("image_id"))


def read_truth(path: Path, task: Task) -> Read:
    """The truth: ``image_id``, the task's label columns, further columns as text; raises OSError."""
    name = path.name
    with path.open("rb") as source:
        try:
            names, read = open_table(source, name, task, SPLITS_CAP)
            missing = [column for column in ("image_id", *task.label_columns) if column not in names]
            if missing:
                found = ", ".join(plain(column, 40) for column in names[:20])
                return Read(None, tuple(f"{name}: no column {column}; it has {found}" for column in missing))
            text = {column for column in names if column not in task.label_columns}
            table = read(names, text)
        except Refused as refused:
            return Read(None, _words(refused.problems))
        except (pa.ArrowException, OSError, MemoryError, EOFError, UnicodeDecodeError) as error:
            return Read(None, (f"{name}: {plain((str(error).splitlines() or ['unreadable'])[0])}",))
    columns: dict[str, pl.Series] = {}
    problems = []
    for column in ("image_id", *task.label_columns, *sorted(text - {"image_id"})):
        wanted: Any = pl.String if column in text else pl.Int64
        series = _cast(pl.Series(column, pl.from_arrow(table[column])), wanted)
        if series is None:
            kind = "text" if column in text else "whole numbers"
            problems.append(f"{name}: {plain(column, 40)} holds {table[column].type}, wanted {kind}")
        else:
            columns[column] = series
    for column in sorted(text - {"image_id"} & columns.keys()):
        levels = columns[column].drop_nulls().unique().sort()
        if wrong := no_subgroup(column, levels.filter(levels != "").to_list()):
            problems.append(f"{name}: {plain(column, 40)} can't be a subgroup, as further columns are: {plain(wrong)}")
    return Read(None, tuple(problems)) if problems else Read(pl.DataFrame(columns).sort("image_id"))


def _cast(series: pl.Series, wanted: Any) -> pl.Series | None:
    """``series`` as text or whole numbers without loss, or None."""
    kind = series.dtype
    if wanted == pl.String:
        return series.cast(pl.String) if kind in (pl.String, pl.Categorical, pl.Null) else None
    if kind.is_float():  # pandas makes labels beside nulls real numbers
        series = series.fill_nan(None)
        known = series.drop_nulls()
        return series.cast(pl.Int64) if ((known == known.floor()) & (known.abs() < 2**53)).all() else None
    return series.cast(pl.Int64) if kind.is_integer() or kind in (pl.Boolean, pl.Null) else None


def _frame(decoded: Decoded) -> pl.DataFrame:
    columns: dict[str, pl.Series] = {}
    for name, array in decoded.arrays.items():
        if name in decoded.values:
            values = pl.Series(list(decoded.values[name]), dtype=pl.String)
            columns[name] = values.gather(pl.Series(array, dtype=pl.Int64).replace(-1, None))
        else:
            columns[name] = pl.Series(array, dtype=pl.Int64).replace(NULL, None)
    return pl.DataFrame(columns)


def _words(problems: tuple[Problem, ...]) -> tuple[str, ...]:
    return tuple(plain(f"{p.where}: {p.saw}, wanted {p.wanted}", 400) for p in problems)


def splits_problems(splits: pl.DataFrame, task: Task) -> tuple[str, ...]:
    """What would have every submission to these splits rejected, each with the rule that would say so."""
    return tuple(_splits_problems(splits, task))


def _splits_problems(splits: pl.DataFrame, task: Task) -> Iterator[str]:
    present = set(splits["split"])
    if "test" not in present:
        yield "splits: no row with test (MVC106)"
    twice = splits.filter(pl.col("image_id").is_duplicated())["image_id"].unique(maintain_order=True)
    if len(twice):
        yield f"splits: {counted(len(twice), 'image')} listed twice (MVC102, MVC114): {_some(twice)}"
    identifiers = [name for name in ("image_id", "patient_id") if name in splits.columns]
    for name in identifiers:
        raw = splits.filter(~pl.col(name).str.contains(IDENTIFIER))[name].unique(maintain_order=True)
        if len(raw):
            yield f"splits: {counted(len(raw), 'identifier')} in {name} not hashed (MVC103): {_some(raw)}"
        plain_ones = [f"{digest} = {text}" for digest, text in attack.reverse_plain_digests(splits[name]).items()]
        if plain_ones:
            what = f"{counted(len(plain_ones), 'identifier')} in {name} can be reversed (MVC104)"
            yield f"splits: {what}: {_some(plain_ones, 120)}"
    personal = [name for name in splits.columns if bare(name) in PERSONAL_NAMES]
    if personal:
        yield f"splits: {counted(len(personal), 'column')} of personal data (MVC704): {_some(personal)}"
    if "patient_id" in splits.columns:
        shared = splits.group_by("patient_id", maintain_order=True).agg(pl.col("split").n_unique().alias("n"))
        shared = shared.filter(pl.col("n") > 1)
        if shared.height:
            found = f"{counted(shared.height, 'patient')} in two splits (MVC101, MVC602): {_some(shared['patient_id'])}"
            yield f"splits: {found}"
    development = set(splits.filter(pl.col("split").is_in(DEVELOPMENT))["site"])
    both = sorted(development & set(splits.filter(pl.col("split") == "external")["site"]))
    if both:
        yield f"splits: external sites that are development sites too (MVC605): {_some(both)}"
    for group in task.subgroups:
        if group.column not in splits.columns:
            yield f"splits: no column {group.column}, which the task names as a subgroup (MVC603)"
            continue
        here = splits.filter(pl.col("split").is_in(EVALUATED)).select("split", group.column).drop_nulls()
        unknown = sorted(set(here[group.column]) - set(group.levels))
        absent = [level for level in group.levels if level not in set(here.filter(split="test")[group.column])]
        for levels, what in (
            (unknown, "that the task does not name"),
            (absent, "of the task without an image in test"),
        ):
            if levels:
                yield f"splits: {group.column}: {counted(len(levels), 'level')} {what} (MVC603): {_some(levels)}"


def truth_problems(truth: pl.DataFrame, splits: pl.DataFrame, task: Task) -> tuple[str, ...]:
    """Where ``truth`` is not exactly the labels of the test and external images of ``splits``."""
    return tuple(_truth_problems(truth, splits, task))


def _truth_problems(truth: pl.DataFrame, splits: pl.DataFrame, task: Task) -> Iterator[str]:
    hidden = splits.filter(pl.col("split").is_in(EVALUATED))
    blank = truth["image_id"].null_count()
    if blank:
        yield f"truth: {counted(blank, 'row')} without image_id"
    truth = truth.drop_nulls("image_id")
    twice = truth.filter(pl.col("image_id").is_duplicated())["image_id"].unique(maintain_order=True)
    unknown = truth.join(hidden, on="image_id", how="anti")["image_id"].unique(maintain_order=True)
    missing = hidden.join(truth, on="image_id", how="anti")["image_id"].unique(maintain_order=True)
    for images, what in (
        (twice, "listed twice"),
        (unknown, "that the splits don't have in test or external"),
        (missing, "of test or external missing"),
    ):
        if len(images):
            yield f"truth: {counted(len(images), 'image')} {what}: {_some(images)}"
    # where the split file has a label too, both must be the same one
    joined = truth.join(hidden.select("image_id", *task.label_columns), on="image_id", how="inner", suffix="_listed")
    for name in task.label_columns:
        other = joined.filter(pl.col(name) != pl.col(f"{name}_listed"))["image_id"]
        if len(other):
            count = counted(len(other), "image")
            yield f"truth: {name} differs from the split file's for {count}: {_some(other)}"


def label_problems(labels: pl.DataFrame, task: Task) -> tuple[str, ...]:
    """Labels of calib, test and external outside the classes, or missing (MVC108).

    ``labels`` has ``image_id``, ``split`` and the label columns.
    """
    top = 1 if task.kind == "multilabel" else len(task.classes) - 1
    scored = labels.filter(pl.col("split").is_in(("calib", *EVALUATED)))
    found = []
    for name in task.label_columns:
        outside = scored.filter(~pl.col(name).is_between(0, top))
        if outside.height:
            samples = [f"{row[0]}: {row[1]}" for row in outside.select("image_id", name).rows()]
            found.append(f"{name}: {counted(outside.height, 'label')} outside 0 to {top} (MVC108): {_some(samples)}")
        null = scored.filter(pl.col(name).is_null()) if task.kind != "multilabel" else scored.clear()
        if null.height:
            found.append(f"{name}: {counted(null.height, 'label')} missing (MVC108): {_some(null['image_id'])}")
    return tuple(found)


def absent_classes(labels: pl.DataFrame, task: Task) -> tuple[str, ...]:
    """Classes without an image in test, or in calib where there is a calib split (MVC107)."""
    found = []
    for split in ("calib", "test"):
        rows = labels.filter(pl.col("split") == split)
        if not rows.height:
            continue  # cross-fitting replaces calib; a test split that is missing is said elsewhere
        for k, name in enumerate(task.label_columns):
            present = set(rows[name])
            if task.kind == "multilabel":
                absent = [f"{task.classes[k]} = {value}" for value in (0, 1) if value not in present]
            else:
                absent = [f"class {label}" for k, label in enumerate(task.classes) if k not in present]
            found += [f"{split}: no image of {plain(what, 80)} (MVC107)" for what in absent]
    return tuple(found)


def _some(values: Any, width: int = 80) -> str:
    listed = [plain(value, width) for value in list(values)[:3]]
    return ", ".join(listed) + (", …" if len(values) > len(listed) else "")
