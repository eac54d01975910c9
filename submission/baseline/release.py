"""The bundle of a run: predictions, calibrators fitted on calib, record, task, configuration and logs, and its lock."""

import io
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.canonical import sha256_hex
from protocol.findings import counted
from protocol.types import Kind
from splits.writing import SPLITS_FILE
from submission import recalibration
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool
from submission.baseline.errors import BaselineError
from submission.baseline.public import without_paths
from submission.baseline.recipe import Told
from submission.baseline.record import PREDICTIONS_FILE, record_of
from submission.bundle import CALIBRATORS_FILE, RECORD_FILE, TASK_FILE
from submission.files import write_atomic
from submission.recalibration import write_calibrators
from submission.recalibration.maps import FLOOR, Floats, sigmoid, softmax
from submission.recalibration.smooth import two_class_inputs
from submission.skeleton import declare_folder, placeholders
from submission.writing import STEPS, record_from, to_yaml

ODD = re.compile(r"[^A-Za-z0-9._-]+")  # in the name of a file of a bundle
LONGEST = 150
RAN = b"# What ran, every value of it: the given configuration and what the command line changed.\n"


@dataclass(frozen=True)
class Predicted:
    """One trained model: ``logits`` (N, K) of the rows of ``pool.evaluated``, in their order.

    ``seed`` is 0 for zero-shot.
    """

    seed: int
    logits: NDArray[np.float64]


@dataclass(frozen=True)
class Released:
    """The folder, and what its owner should look at: texts of the example that are left, rules waived."""

    folder: Path
    notes: tuple[str, ...]


def write_release(
    folder: Path,
    config: RunConfig,
    told: Told,
    pool: Pool,
    runs: Sequence[Predicted],
    files: Mapping[str, bytes],
) -> Released:
    """Write the bundle into ``folder``, new or empty: all of it or nothing; ``mvc submit`` takes it as it is.

    ``files`` are the configuration as given and the logs, by name in the bundle (``configs/coop.yaml``,
    ``logs/coop-seed1.jsonl``); the configuration in full is added. Calibrators are fitted on the logits of calib rows
    alone. Raises BaselineError, OSError.
    """
    if folder.is_symlink() or folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise BaselineError(f"{folder} exists and is not an empty folder; name a new one")
    _check(config, pool, runs)
    predictions, fitted = _predictions(config, pool, runs)
    kept = {_named(name): data for name, data in files.items()}
    whole = RAN + to_yaml(without_paths(config).model_dump(mode="json"))
    kept[_named(f"configs/{config.model}-in-full.yaml")] = whole
    record = record_of(config, told, pool, {name: sha256_hex(data) for name, data in kept.items()})
    try:
        record_from(record)
    except ValueError as error:
        raise BaselineError(f"the record would not be valid: {error}") from None
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".mvc-", ignore_cleanup_errors=True) as name:
        stage = Path(name, "bundle")
        stage.mkdir()
        _write(stage, pool, record, predictions, fitted, kept)
        declare_folder(stage)
        notes = tuple(_notes(stage, record))
        os.replace(stage, folder)
    return Released(folder, notes)


def _named(name: str) -> str:
    """``name`` (folder/file) as a bundle may hold it: other letters are dashes, a long one keeps its end."""
    folder, _, file = name.rpartition("/")
    return f"{folder}/{ODD.sub('-', file)[-LONGEST:].lstrip('.-') or 'file'}"


def _check(config: RunConfig, pool: Pool, runs: Sequence[Predicted]) -> None:
    seeds = (0,) if config.learner.name == "zeroshot" else config.seeds
    if tuple(run.seed for run in runs) != seeds:
        raise BaselineError(f"runs of seeds {[run.seed for run in runs]}; the configuration has {list(seeds)}")
    shape = (pool.evaluated.height, len(pool.task.classes))
    for run in runs:
        if run.logits.shape != shape or not np.isfinite(run.logits).all():
            raise BaselineError(f"seed {run.seed}: logits of shape {run.logits.shape}; wanted {shape}, all finite")


def _predictions(
    config: RunConfig, pool: Pool, runs: Sequence[Predicted]
) -> tuple[pl.DataFrame, list[FittedCalibrator]]:
    """The rows of every run and calibrator, and the calibrators."""
    rows, kind = pool.evaluated, pool.task.kind
    calib = (rows["split"] == "calib").to_numpy()
    y = pool.labels(rows.filter(pl.Series(calib))["image_id"].to_list())
    frames: list[pl.DataFrame] = []
    fitted: list[FittedCalibrator] = []
    for run in runs:
        z, p = outputs(run.logits, kind)
        frames.append(_table(rows["image_id"], config.model, run.seed, "none", p, z, kind))
        tested = rows.filter(pl.Series(~calib))["image_id"]
        for name in dict.fromkeys(config.calibrators):
            try:
                maps = recalibration.fit(
                    name, p[calib], y, kind=kind, model=config.model, seed=run.seed, calibrator=name, logits=z[calib]
                )
                q = recalibration.apply(maps, p[~calib], kind=kind, logits=z[~calib])
            except ValueError as error:
                raise BaselineError(
                    f"calibrator {name} of seed {run.seed} can't be fitted: {error}; take it out of calibrators: with "
                    "others the same command needs no new training"
                ) from None
            fitted += maps
            frames.append(_table(tested, config.model, run.seed, name, q, _logits(q, kind), kind))
    return pl.concat(frames), fitted


def outputs(logits: Floats, kind: Kind) -> tuple[Floats, Floats]:
    """Logits and probabilities as the tables hold them, float64, of scaled logits (N, K).

    Multiclass: (N, K) both, a softmax. Binary: (N, 1) both, the log odds of the second class and its probability.
    """
    logits = np.asarray(logits, dtype=np.float64)
    if kind == "binary":
        z = logits[:, 1:] - logits[:, :1]
        return z, sigmoid(z)
    return logits, softmax(logits)


def _logits(q: Floats, kind: Kind) -> Floats:
    """Logits beside calibrated probabilities: their logs, or log odds, floored as the referee floors them."""
    if kind == "multiclass":
        return np.log(np.maximum(q, FLOOR))
    both = two_class_inputs(q[:, 0], None)
    return both[:, 1:] - both[:, :1]


def _table(images: pl.Series, model: str, seed: int, calibrator: str, p: Floats, z: Floats, kind: Kind) -> pl.DataFrame:
    first = 1 if kind == "binary" else 0
    return images.to_frame("image_id").with_columns(
        model=pl.lit(model),
        seed=pl.lit(seed, dtype=pl.Int64),
        calibrator=pl.lit(calibrator),
        **{f"p_{k + first}": pl.Series(p[:, k] + 0.0) for k in range(p.shape[1])},
        **{f"z_{k + first}": pl.Series(z[:, k]) for k in range(z.shape[1])},
    )


def _write(
    stage: Path,
    pool: Pool,
    record: Mapping[str, object],
    predictions: pl.DataFrame,
    fitted: Sequence[FittedCalibrator],
    files: Mapping[str, bytes],
) -> None:
    task = to_yaml(pool.task.model_dump(mode="json", exclude_unset=True)) if pool.task_file is None else pool.task_file
    write_atomic(stage / TASK_FILE, task)
    write_atomic(stage / RECORD_FILE, to_yaml(record, STEPS))
    shutil.copyfile(pool.file, stage / SPLITS_FILE)  # byte for byte: its digest is the task's
    table = io.BytesIO()  # polars has errors of its own for a disk that is full
    predictions.write_parquet(table)
    write_atomic(stage / PREDICTIONS_FILE, table.getvalue())
    if fitted:
        write_calibrators(stage / CALIBRATORS_FILE, fitted)
    for name, data in files.items():
        (stage / name).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(stage / name, data)


def _notes(folder: Path, record: Mapping[str, object]) -> Iterator[str]:
    left = [f"{file}: {key}" for file, keys in placeholders(folder).items() for key in keys]
    if left:
        yield f"{counted(len(left), 'text')} of the example left, to be replaced by your own: {', '.join(left)}"
    waived = record["waivers"]
    assert isinstance(waived, list)
    for waiver in waived:
        yield f"{waiver['rule']} is waived: {waiver['reason']}"
