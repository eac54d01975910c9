"""Writing bundles: the files of one submission, each whole or not at all."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from pydantic import TypeAdapter

from protocol.calibrators import FittedCalibrator
from protocol.canonical import canonical_json
from protocol.declaration import Declaration, declare
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import CANONICAL_FILE
from submission.bundle import LOCK_FILE, RECORD_FILE, TASK_FILE, Bundle
from submission.files import replacing, write_atomic
from submission.recalibration import write_calibrators
from submission.yaml_io import parse_record

if TYPE_CHECKING:
    import polars as pl

STEPS = {
    "task": "Step 1. The task that this answers, and how the splits were made.",
    "recipe": "Step 2. The training recipe and the models; write none where something was not used.",
    "calibration": "Step 3. Calibrators, fitted on the calibration split only.",
    "metrics": "Step 4. Further rows wanted, and claims: values as your paper prints them.",
    "uncertainty": "Step 5. The bootstrap: patients are resampled, not images.",
    "shift": "Step 6. External sites and subgroups, named before the analysis.",
    "release": "Step 7. Licence, and where code, splits and predictions lie.",
    "waivers": "Rules that can't be met, each with its reason.",
}


@dataclass(frozen=True)
class Parts:
    """The parts of a bundle before they are files: documents as plain data, tables as data frames."""

    task: Mapping[str, Any]
    record: Mapping[str, Any]
    splits: "pl.DataFrame"
    predictions: "pl.DataFrame"
    calibrators: Sequence[FittedCalibrator] = ()


class _Dumper(yaml.SafeDumper):
    """Writes shared values out: our reader refuses aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def to_yaml(document: Mapping[str, Any], comments: Mapping[str, str] | None = None) -> bytes:
    """``document`` as YAML in its own order, with a comment line before each key that ``comments`` names."""
    blocks = []
    for key, value in document.items():
        block = yaml.dump({key: value}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
        comment = (comments or {}).get(key)
        blocks.append(f"\n# {comment}\n{block}" if comment else block)
    return "".join(blocks).lstrip("\n").encode()


def write_bundle(folder: Path, parts: Parts) -> None:
    """Write everything but the lock into ``folder``, which must exist; predictions go into Parquet."""
    write_atomic(folder / TASK_FILE, to_yaml(parts.task))
    write_atomic(folder / RECORD_FILE, to_yaml(parts.record, STEPS))
    for name, table in (("splits.parquet", parts.splits), ("predictions.parquet", parts.predictions)):
        with replacing(folder / name) as sink:
            table.write_parquet(sink)
    if parts.calibrators:
        write_calibrators(folder / "calibrators.json", parts.calibrators)


def make_lock(bundle: Bundle, declared_at: str) -> Declaration:
    """The declaration of ``bundle``; ValueError when task, record or splits can't be read."""
    if bundle.task is None or bundle.record is None or "splits" in bundle.missing:
        said = (
            "; ".join(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in bundle.problems) or "the record is incomplete"
        )
        raise ValueError(said)
    return declare(bundle.task, bundle.record, bundle.files[bundle.record.splits.file], declared_at)


def write_lock(folder: Path, lock: Declaration) -> Path:
    """Write ``declaration.lock`` into ``folder``."""
    path = folder / LOCK_FILE
    write_atomic(path, json.dumps(lock.model_dump(mode="json"), indent=2, ensure_ascii=False).encode() + b"\n")
    return path


def write_canonical_record(folder: Path, record: Submission) -> Path:
    """Write the record as canonical JSON (RFC 8785), ``submission.json``."""
    path = folder / CANONICAL_FILE
    write_atomic(path, canonical_json(record.model_dump(mode="json", by_alias=True)))
    return path


def task_from(document: Mapping[str, Any]) -> Task:
    """A task from plain data; ValueError with every problem."""
    task: Task = _from(TypeAdapter(Task), document, TASK_FILE)
    return task


def record_from(document: Mapping[str, Any]) -> Submission:
    """A record from plain data; ValueError with every problem."""
    record: Submission = _from(TypeAdapter(Submission), document, RECORD_FILE)
    return record


def _from(adapter: TypeAdapter[Any], document: Mapping[str, Any], file: str) -> Any:
    found, problems = parse_record(adapter, to_yaml(document), file)
    if found is None:
        raise ValueError("; ".join(f"{p.where}: {p.saw}, wanted {p.wanted}" for p in problems))
    return found
