"""Entries, tasks and rows for the tests of the referee of calibrators."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.submission import Family
from protocol.task import Task
from protocol.types import Kind
from scorer.verify.rows import TEST, Images
from submission.recalibration.maps import Floats, Outputs

CLASSES = {"binary": ("no", "yes"), "multiclass": ("a", "b", "c"), "multilabel": ("x", "y")}
STEPS: dict[str, Any] = {"interpolation": "step", "outside": "clip"}


def task_of(kind: Kind, classes: int = 0) -> Task:
    """A task with two classes or findings, or three classes."""
    names = tuple(f"c{k}" for k in range(classes)) if classes else CLASSES[kind]
    return Task(edition="", name="t", kind=kind, classes=names)


def columns_of(kind: Kind) -> int:
    """Probability columns of :func:`task_of`."""
    return 1 if kind == "binary" else len(CLASSES[kind])


def entry(family: Family, parameters: Any, *, source: str = "", k: int | None = None, **more: Any) -> FittedCalibrator:
    """An entry as ``calibrators.json`` has it."""
    if not source:
        source = "probabilities" if family in ("isotonic", "histogram") else "log-probabilities"
    document = {"model": "m", "seed": 0, "calibrator": "c", "class": k, "family": family, "input": source,
                "parameters": parameters, "objective": "", "n": 1, "software": ""}  # fmt: skip
    return FittedCalibrator.model_validate_json(json.dumps({**document, **more}))


def units_of(how: str, columns: int, z: str = "") -> dict[str, list[str]]:
    """Precision of every column."""
    return {"p": [how] * columns, "z": [z] * columns if z else []}


def probabilities(kind: Kind, z: Any) -> Floats:
    """Softmax of rows, or sigmoid of columns, in the precision of ``z``."""
    if kind != "multiclass":
        return np.asarray(1 / (1 + np.exp(-z)))
    weights = np.exp(z - z.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def logits_and_labels(kind: Kind, n: int, seed: int = 0) -> tuple[Floats, NDArray[np.int64]]:
    """Logits (n, columns) that are too sure of themselves by a factor of 1.5, and labels."""
    rng = np.random.default_rng(seed)
    true = rng.normal(0.0, 1.2, (n, columns_of(kind)))
    p = probabilities(kind, true)
    if kind == "multiclass":
        y = (rng.random((n, 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=p.shape[1] - 1)
    else:
        y = (rng.random(p.shape) < p).astype(np.int64)
    return 1.5 * true, y[:, 0] if kind == "binary" else y


def images_of(n: int) -> Images:
    """Test images of one site, a patient each."""
    code = np.arange(n)
    none = np.full((n, 1), -1)
    return Images(np.full(n, TEST, np.int8), code, np.zeros(n, np.int32), ["a"], none, {})


def outputs_of(kind: Kind, z: Floats, logits: bool = False) -> Outputs:
    """Probabilities of the logits, and those too where asked for."""
    return Outputs(probabilities(kind, z), z if logits else None)
