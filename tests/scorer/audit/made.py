"""Evidence made by hand: prediction sets of known numbers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import Kind
from scorer.audit.shapes import Evidence, Finding, Loaded, Names, PredictionSet, Scale, Scaled

USABLE = {
    "binary": Scaled(Scale.PROBABILITY, True, True, "all in [0, 1]"),
    "multiclass": Scaled(Scale.PROBABILITIES, True, True, "rows sum to one"),
    "multilabel": Scaled(Scale.PROBABILITY, True, True, "all in [0, 1]"),
}


def codes(values: Sequence[object] | NDArray[np.generic]) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Codes of texts in the order of their code points, -1 for ''."""
    texts = [str(value) for value in values]
    names = tuple(sorted({text for text in texts if text}))
    return np.array([names.index(text) if text else -1 for text in texts], dtype=np.int64), names


def prediction_set(
    p: NDArray[np.float64],
    y: NDArray[np.int64] | None,
    *,
    kind: Kind = "binary",
    name: str = "score",
    classes: tuple[str, ...] = (),
    unit: NDArray[np.int64] | None = None,
    **other: object,
) -> PredictionSet:
    """A set with probabilities ``p`` (N, K); units are its rows unless given."""
    table = p[:, None] if p.ndim == 1 else p
    known = classes or (("0", "1") if kind == "binary" else tuple(f"c{k}" for k in range(table.shape[1])))
    fields: dict[str, object] = {
        **{"name": name, "model": name, "seed": "", "calibrator": "", "task": "", "source": "made.csv"},
        **{"kind": kind, "classes": known, "columns": (name,), "scale": USABLE[kind], "scores": table, "p": table},
        **{"y": y, "precision": ("float64",) * table.shape[1], "cluster": None, "site": None, "split": None},
        **{"fold": None, "unit": np.arange(len(table)) if unit is None else unit},
    }
    return PredictionSet(**{**fields, **other})  # type: ignore[arg-type]


def evidence(
    *sets: PredictionSet,
    units: int = 0,
    clusters: Sequence[str] = (),
    site: tuple[str, ...] = (),
    split: tuple[str, ...] = (),
    fold: tuple[str, ...] = (),
    findings: tuple[Finding, ...] = (),
    unit: str = "image",
    has_splits: bool = False,
) -> Evidence:
    """Evidence of ``sets``; the names of units are made up."""
    n = units or max(len(one.scores) for one in sets)
    names = Names(
        pl.Series("unit", [f"im{i:07d}" for i in range(n)], dtype=pl.String),
        pl.Series("cluster", list(clusters), dtype=pl.String),
        site,
        split,
        fold,
    )
    loaded = Loaded("made.csv", pl.DataFrame({"score": [0.5]}), "csv", Path("made.csv"), "0" * 64)
    known = any(one.cluster is not None for one in sets)
    return Evidence(
        sets=sets,
        names=names,
        unit=unit,
        cluster="patient" if known else "",
        mapping={},
        sources=(loaded,),
        findings=findings,
        has_splits=has_splits,
    )


def drawn(n: int, seed: int = 0) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Calibrated probabilities of a binary outcome, and the outcome."""
    rng = np.random.default_rng(seed)
    p = rng.beta(1.0, 2.0, n)
    return p, (rng.random(n) < p).astype(np.int64)
