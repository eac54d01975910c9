"""A small made-up submission in each kind: what ``mvc init`` writes, so that a new bundle is valid from the start."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol import EDITION
from protocol.calibrators import FittedCalibrator
from protocol.submission import Family
from protocol.types import Kind
from splits.hashing import hash_identifier
from submission import recalibration
from submission.recalibration import METHOD_WORDS
from submission.writing import Parts

CLASSES: Mapping[str, tuple[str, ...]] = {
    "binary": ("benign", "malignant"),
    "multiclass": ("none", "mild", "severe"),
    "multilabel": ("atelectasis", "effusion", "pneumonia"),
}
PATIENTS = {"train": 24, "val": 12, "calib": 60, "test": 80, "external": 40}
IMAGES_PER_PATIENT = 2
FAMILIES: tuple[Family, ...] = ("temperature", "isotonic")
NAME = "example-1"
EXAMPLE_SALT = b"a published salt: these patients are made up"


def example(kind: Kind, classes: Sequence[str] | None = None, seeds: Sequence[int] = (1, 2, 3)) -> Parts:
    """A made-up submission for a task of ``kind``: 216 patients, two images each, one external site.

    The numbers come from a fixed generator and mean nothing. Raises ValueError for a kind without an example.
    """
    if kind not in CLASSES:
        raise ValueError(f"there is no example for a task of kind {kind}")
    names = tuple(classes or CLASSES[kind])
    splits, labels, signal = _splits(kind, names)
    runs = {seed: _probabilities(kind, signal, seed) for seed in seeds}
    predictions, fitted = _predictions(kind, names, splits, labels, runs)
    return Parts(_task(kind, names), _record(kind, seeds), splits, predictions, fitted)


def _splits(kind: Kind, names: Sequence[str]) -> tuple[pl.DataFrame, NDArray[np.int64], NDArray[np.float64]]:
    rng = np.random.default_rng(20261)
    split = [name for name, count in PATIENTS.items() for _ in range(count * IMAGES_PER_PATIENT)]
    patients = np.repeat(np.arange(sum(PATIENTS.values())), IMAGES_PER_PATIENT)
    images = len(split)
    if kind == "multilabel":
        labels = (rng.random((images, len(names))) < 0.35).astype(np.int64)
    else:
        labels = rng.integers(0, len(names), images)
    signal = rng.normal(size=(images, len(names)))
    if kind == "multilabel":
        signal += 1.5 * (labels - 0.5)
    else:
        signal[np.arange(images), labels] += 1.2
    columns: dict[str, Any] = {
        "image_id": [hash_identifier(EXAMPLE_SALT, "image", str(i)) for i in range(images)],
        "patient_id": [hash_identifier(EXAMPLE_SALT, "patient", str(p)) for p in patients],
        "split": split,
        "site": ["second hospital" if name == "external" else "first hospital" for name in split],
        "sex": np.where(patients % 2 == 0, "female", "male"),
    }
    if kind == "multilabel":
        for k in range(len(names)):
            # Every eleventh image was not read for this finding.
            read = (np.arange(images) + k) % 11 != 0
            columns[f"label_{k}"] = pl.Series([int(y) if r else None for y, r in zip(labels[:, k], read, strict=True)])
            labels[~read, k] = -1
    else:
        columns["label"] = labels
    return pl.DataFrame(columns), labels, signal


def _probabilities(kind: Kind, signal: NDArray[np.float64], seed: int) -> NDArray[np.float64]:
    noise = np.random.default_rng((20262, seed)).normal(scale=0.4, size=signal.shape)
    logits = 2.0 * (signal + noise)  # twice too sure of itself, as deep networks are
    if kind == "multilabel":
        return np.asarray(1.0 / (1.0 + np.exp(-logits)))
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    p = odds / odds.sum(axis=1, keepdims=True)
    return np.asarray(p[:, 1:] if kind == "binary" else p)


def _predictions(
    kind: Kind,
    names: Sequence[str],
    splits: pl.DataFrame,
    labels: NDArray[np.int64],
    runs: Mapping[int, NDArray[np.float64]],
) -> tuple[pl.DataFrame, tuple[FittedCalibrator, ...]]:
    split = splits["split"].to_numpy()
    calib, evaluated = split == "calib", np.isin(split, ("test", "external"))
    frames: list[pl.DataFrame] = []
    fitted: list[FittedCalibrator] = []
    for seed, p in runs.items():
        frames.append(table(splits, calib | evaluated, p, "densenet121", seed, "none", kind))
        for family in FAMILIES:
            maps = recalibration.fit(
                family, p[calib], labels[calib], kind=kind, model="densenet121", seed=seed, calibrator=family
            )
            fitted += maps
            frames.append(
                table(splits, evaluated, recalibration.apply(maps, p, kind=kind), "densenet121", seed, family, kind)
            )
    return pl.concat(frames), tuple(fitted)


def table(
    splits: pl.DataFrame,
    rows: NDArray[np.bool_],
    p: NDArray[np.float64],
    model: str,
    seed: int,
    calibrator: str,
    kind: Kind,
) -> pl.DataFrame:
    """Rows of ``predictions.parquet``: the images of ``splits`` where ``rows`` holds; ``p`` has shape (N, K)."""
    first = 1 if kind == "binary" else 0
    return splits.filter(rows).select(
        "image_id",
        model=pl.lit(model),
        seed=pl.lit(seed, dtype=pl.Int64),
        calibrator=pl.lit(calibrator),
        **{f"p_{k + first}": pl.Series(p[rows, k]) for k in range(p.shape[1])},
    )


def _task(kind: Kind, names: Sequence[str]) -> dict[str, Any]:
    return {
        "edition": EDITION,
        "name": f"example-{kind}",
        "kind": kind,
        "target": "EXAMPLE: what is to be predicted, in a sentence",
        "label_source": "EXAMPLE: who or what gave the labels",
        "label_definition": "EXAMPLE: when an image counts as positive, or how the classes are told apart",
        "classes": list(names),
        "primary_metric": "brier",
        "clustering_unit": "patient",
        "resamples": 2000,
    }


def _record(kind: Kind, seeds: Sequence[int]) -> dict[str, Any]:
    return {
        "edition": EDITION,
        "submission_id": NAME,
        "title": "EXAMPLE: a made-up submission",
        "team": "EXAMPLE: your team",
        "contact": "EXAMPLE: you@example.org",
        "task": {"name": f"example-{kind}"},
        "splits": {
            "file": "splits.parquet",
            "unit": "patient",
            "how": "EXAMPLE: by patient, stratified by label",
            "seed": 0,
            "hash": {
                "scheme": "hmac-sha256",
                "namespace": "EXAMPLE: first hospital",
                "salt_custody": "EXAMPLE: held by the data steward",
            },
            "patient_ids": "available",
            "images_per_patient": float(IMAGES_PER_PATIENT),
        },
        "recipe": {
            "architecture": "EXAMPLE: DenseNet-121",
            "pretrained_weights": "EXAMPLE: ImageNet-1k",
            "pretrained_on": "EXAMPLE: ImageNet-1k, natural images",
            "pretraining_test_overlap": "none",
            "preprocessing": "EXAMPLE: resized to 224 x 224, ImageNet mean and standard deviation",
            "augmentation": "EXAMPLE: horizontal flips",
            "optimiser": "EXAMPLE: SGD, momentum 0.9",
            "learning_rate": 0.001,
            "weight_decay": 0.0001,
            "batch_size": 32,
            "epochs": 30,
            "stopping_rule": "EXAMPLE: lowest validation negative log-likelihood",
            "selected_on": "val",
        },
        "models": [{"name": "densenet121", "kind": "base", "seeds": list(seeds)}],
        "calibration": {
            "methods": [
                {"name": "none", "family": "none"},
                *({"name": name, "family": name, **METHOD_WORDS[name]} for name in FAMILIES),
            ],
            "fitted_on": "calib",
            "parameters": "calibrators.json",
        },
        "metrics": {"extra": [], "claims": []},
        "uncertainty": {"unit": "patient", "resamples": 2000, "level": 0.95, "method": "percentile"},
        "shift": {
            "external": [{"name": "second hospital", "differs_in": ["institution", "device"]}],
            "subgroups": [{"column": "sex", "levels": ["female", "male"]}],
        },
        "release": {
            "licence": "CC-BY-4.0",
            "code": {"url": "https://example.org/code"},
            "splits": {"file": "splits.parquet"},
            "predictions": {"file": "predictions.parquet"},
            "parameters": {"file": "calibrators.json"},
        },
        "waivers": [],
    }
