"""Fits in a line, records by hand, and rows to fit on."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.submission import Family
from protocol.types import Kind
from submission.recalibration import DEFAULTS, fit

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
FAMILIES: tuple[Family, ...] = tuple(DEFAULTS)
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
RUN: dict[str, Any] = {"model": "resnet", "seed": 7, "calibrator": "c"}


def fitted(family: Family, p: Any, y: Any, kind: Kind, **more: Any) -> tuple[FittedCalibrator, ...]:
    """The records of one run."""
    return fit(family, p, y, **{"kind": kind, **RUN, **more})


def parameter(record: FittedCalibrator, name: str) -> Floats:
    """One of its parameters as an array."""
    return np.asarray(record.parameters[name], dtype=np.float64)


def record(family: Family, parameters: dict[str, Any], input: str, **fields: Any) -> FittedCalibrator:
    """A record by hand."""
    document = {
        **RUN,
        "class": None,
        "family": family,
        "input": input,
        "parameters": parameters,
        "objective": "by hand",
        "n": 1,
        "software": "none",
    }
    return FittedCalibrator.model_validate_json(json.dumps(document | fields))


def changed(old: FittedCalibrator, **fields: Any) -> FittedCalibrator:
    """``old`` with other fields."""
    return FittedCalibrator.model_validate_json(json.dumps(old.model_dump(mode="json", by_alias=True) | fields))


def drawn(kind: Kind, rows: int = 90, seed: int = 3, classes: int = 4) -> tuple[Floats, Ints, Floats]:
    """Over-confident probabilities, labels and logits; a finding in five is not labelled."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(rows, {"binary": 1, "multiclass": classes, "multilabel": 3}[kind])) * 2.0
    if kind == "multiclass":
        odds, truth = np.exp(z), np.exp(0.5 * z)
        y = (np.cumsum(truth, axis=1) > rng.random((rows, 1)) * truth.sum(axis=1, keepdims=True)).argmax(axis=1)
        return odds / odds.sum(axis=1, keepdims=True), y, z
    event = (rng.random(z.shape) < 1.0 / (1.0 + np.exp(-0.5 * z))).astype(np.int64)
    if kind == "multilabel":
        event[rng.random(z.shape) < 0.2] = -1
    return 1.0 / (1.0 + np.exp(-z)), event if kind == "multilabel" else event[:, 0], z
