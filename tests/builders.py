"""The one builder of submissions for tests: a good one, and functions that change one thing in it."""

import copy
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import polars as pl

from protocol.calibrators import FittedCalibrator
from protocol.canonical import sha256_hex
from protocol.types import Kind
from submission.bundle import open_bundle
from submission.example import example
from submission.recalibration import write_calibrators
from submission.writing import STEPS, Parts, make_lock, to_yaml, write_lock

DECLARED_AT = "2026-01-01T00:00:00Z"
CONFIG = b"learning_rate: 0.001\n"


@dataclass
class Draft:
    """A submission before it is written: change what you like, then ``write`` it.

    ``declared`` is the record as it was declared (None: as it is when written); ``files`` are further files by name;
    ``after`` are changes to the folder once it is sealed; ``lock`` false leaves the declaration out.
    """

    task: dict[str, Any]
    record: dict[str, Any]
    splits: pl.DataFrame
    predictions: pl.DataFrame
    calibrators: list[FittedCalibrator]
    files: dict[str, bytes] = field(default_factory=dict)
    declared: dict[str, Any] | None = None
    lock: bool = True
    after: list[Callable[[Path], None]] = field(default_factory=list)

    @property
    def first(self) -> str:
        """Name of the first probability column."""
        return "p_1" if self.task["kind"] == "binary" else "p_0"

    def claim(self, **fields: Any) -> None:
        """Add a claim to the record."""
        self.record["metrics"]["claims"].append(fields)


@lru_cache(maxsize=8)
def _example(kind: Kind) -> Parts:
    return example(kind)


def _own(document: Any) -> Any:
    """``document`` with the example's texts made ours."""
    if isinstance(document, str):
        return document.removeprefix("EXAMPLE: ")
    if isinstance(document, dict):
        return {key: _own(value) for key, value in document.items()}
    return [_own(item) for item in document] if isinstance(document, list) else document


def good_submission(kind: Kind = "binary") -> Draft:
    """A submission that passes every rule: three seeds, three calibrators, an external site, a subgroup."""
    parts = _example(kind)
    record = _own(copy.deepcopy(dict(parts.record)))
    record["recipe"]["configs"] = [{"file": "configs/train.yaml", "sha256": sha256_hex(CONFIG)}]
    return Draft(
        task=_own(copy.deepcopy(dict(parts.task))),
        record=record,
        splits=parts.splits,
        predictions=parts.predictions,
        calibrators=list(parts.calibrators),
        files={"configs/train.yaml": CONFIG},
    )


def write(draft: Draft, folder: Path) -> Path:
    """Write ``draft`` into the new folder ``folder``, sealing it: the lock carries the digests of what was written."""
    folder.mkdir(parents=True)
    (folder / "task.yaml").write_bytes(to_yaml(draft.task))
    draft.splits.write_parquet(folder / "splits.parquet")
    draft.predictions.write_parquet(folder / "predictions.parquet")
    write_calibrators(folder / "calibrators.json", draft.calibrators)
    for name, data in draft.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    if draft.lock:
        (folder / "submission.yaml").write_bytes(to_yaml(draft.declared or draft.record, STEPS))
        scratch = folder / "scratch"
        scratch.mkdir()
        write_lock(folder, make_lock(open_bundle(folder, scratch), DECLARED_AT))
        scratch.rmdir()
    (folder / "submission.yaml").write_bytes(to_yaml(draft.record, STEPS))
    for change in draft.after:
        change(folder)
    return folder


def set_cell(frame: pl.DataFrame, row: int, values: Mapping[str, Any]) -> pl.DataFrame:
    """``frame`` with the cells of one row (from 0) replaced."""
    return frame.with_columns(
        pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value)).otherwise(pl.col(name)).alias(name)
        for name, value in values.items()
    )


def rows_of(frame: pl.DataFrame, **values: Any) -> pl.Expr:
    """Rows where every named column has the given value."""
    expression = pl.lit(True)
    for name, value in values.items():
        expression = expression & (pl.col(name) == value)
    return expression


def edit_json(path: Path, change: Callable[[Any], None]) -> None:
    """Change a JSON file in place."""
    document = json.loads(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(json.dumps(document), encoding="utf-8")


def copy_of(folder: Path, target: Path) -> Path:
    """A copy of a written bundle."""
    return Path(shutil.copytree(folder, target))
