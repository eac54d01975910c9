"""Prediction sets made by hand, for tests of the claim search."""

from typing import Any

import numpy as np

from protocol.types import Kind
from scorer.audit.shapes import PredictionSet, Scale, Scaled

USABLE = Scaled(Scale.PROBABILITIES, True, True, "made so")


def made(
    p: Any,
    y: Any,
    *,
    kind: Kind = "binary",
    name: str = "model",
    task: str = "",
    classes: tuple[str, ...] = (),
    precision: str = "float64",
    scale: Scaled = USABLE,
) -> PredictionSet:
    """A set of scores ``p`` (N,) or (N, K) with labels ``y``."""
    scores = np.asarray(p, dtype=np.float64)
    scores = scores[:, None] if scores.ndim == 1 else scores
    k = scores.shape[1]
    names = classes or (("0", "1") if k == 1 else tuple(str(i) for i in range(k)))
    return PredictionSet(
        name=name,
        model=name,
        seed="",
        calibrator="",
        task=task,
        source="made.csv",
        kind=kind,
        classes=names,
        columns=tuple(f"p_{i}" for i in range(k)),
        scale=scale,
        scores=scores,
        p=scores if scale.usable else None,
        y=None if y is None else np.asarray(y, dtype=np.int64),
        precision=(precision,) * k,
        unit=None,
        cluster=None,
        site=None,
        split=None,
        fold=None,
    )


def binary(n: int = 300, seed: int = 1, **more: Any) -> PredictionSet:
    """Overconfident scores of two classes, without ties."""
    rng = np.random.default_rng(seed)
    logit = rng.normal(size=n)
    return made(1 / (1 + np.exp(-2 * logit)), rng.random(n) < 1 / (1 + np.exp(-logit)), **more)


def multiclass(n: int = 400, k: int = 4, seed: int = 2, **more: Any) -> PredictionSet:
    """Scores of ``k`` classes, without ties."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, k))
    y = np.argmax(logits + rng.gumbel(size=(n, k)), axis=1)
    raised = np.exp(1.5 * logits)
    return made(raised / raised.sum(axis=1, keepdims=True), y, kind="multiclass", **more)
