"""A world of noise for the mechanics of a run: 30 patients, two small images each, and a CLIP of random weights."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch
from PIL import Image

from splits.hashing import hash_identifiers
from submission.baseline.config import RunConfig
from submission.baseline.toy import clip

SALT = b"the salt of a world of noise is no secret"
CLASSES = ("none", "mild", "severe")
SPLITS = ("train",) * 5 + ("val", "calib", "calib", "test", "test")
VISION = {"pixels": 16, "patch": 8, "vision_width": 32, "vision_layers": 3, "vision_heads": 2}
TEXT = {"text_width": 16, "text_layers": 3, "text_heads": 1, "embed": 16}
SIZE = clip.Size.model_validate({**VISION, **TEXT})
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "zeroshot": {},
    "coop": {"context": 4},
    "kgcoop": {},
    "prograd": {"context": 4},
    "maple": {"depth": 2},
    "promptsrc": {"depth": 2},
    "hicropl": {"depth": 3, "switch": 1, "context": 2},
}


@dataclass(frozen=True)
class World:
    """Where things are."""

    splits: Path
    images: Path
    weights: Path


def make_world(folder: Path, *, hosted: bool = False, classes: int = 3, patients: int = 30) -> World:
    """Write it; ``hosted``: test labels are null. Patients have one label, brighter images a higher one."""
    rng = np.random.default_rng(5)
    patient = np.repeat(np.arange(patients), 2)
    label = patient // len(SPLITS) % classes
    split = np.array(SPLITS)[patient % len(SPLITS)]
    names = hash_identifiers(SALT, "noise/image", [str(number) for number in range(len(patient))])
    (folder / "images").mkdir(parents=True)
    for name, own in zip(names, label, strict=True):
        pixels = rng.normal(60.0 + 60.0 * own, 40.0, size=(20, 24, 3)).clip(0, 255)
        Image.fromarray(pixels.astype(np.uint8)).save(folder / "images" / f"{name}.png")
    known = [None if hosted and where == "test" else int(one) for one, where in zip(label, split, strict=True)]
    frame = {
        "image_id": names,
        "patient_id": hash_identifiers(SALT, "noise/patient", patient.astype(str).tolist()),
        "split": split,
        "site": "a made-up clinic",
        "label": pl.Series(known, dtype=pl.Int64),
    }
    pl.DataFrame(frame).write_parquet(folder / "splits.parquet")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        clip.save(clip.build(SIZE), SIZE, folder / "clip", clip.Meta("not at all: random weights", {}))
    return World(folder / "splits.parquet", folder / "images", folder / "clip")


def config(world: World, learner: str, **changes: Any) -> RunConfig:
    """A short run of ``learner`` in ``world``."""
    document: dict[str, Any] = {
        "model": learner,
        "backbone": {"name": "toy", "weights": str(world.weights)},
        "learner": {"name": learner, **LEARNERS[learner]},
        "training": {"epochs": 3, "batch_size": 4, "learning_rate": 0.01},
        "classes": CLASSES,
        "shots": 2,
        "seeds": (1, 2),
    }
    return RunConfig.model_validate({**document, **changes})
