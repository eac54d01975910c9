"""The demonstration: a whole submission made from real data, and named ways to break it.

Data: Wisconsin diagnostic breast cancer (Street, Wolberg and Mangasarian 1993, 10.1117/12.148698), shipped with
scikit-learn: 569 patients, 30 features measured on one fine-needle-aspirate image each.
"""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from protocol import EDITION
from protocol.calibrators import FittedCalibrator
from protocol.canonical import sha256_hex
from protocol.types import SplitName
from splits.assign import assign_splits
from splits.hashing import hash_identifiers
from submission import recalibration
from submission.bundle import LOCK_FILE, RECORD_FILE
from submission.example import FAMILIES, table
from submission.files import write_atomic
from submission.recalibration import METHOD_WORDS
from submission.skeleton import declare_folder
from submission.writing import STEPS, Parts, to_yaml, write_bundle

# The data are public, so this salt hides nothing; it is fixed so that everyone gets the same numbers.
SALT = b"the demonstration's salt is public, as its data are"
PROPORTIONS: dict[SplitName, float] = {"train": 0.4, "val": 0.1, "calib": 0.25, "test": 0.25}
SEEDS = (1, 2, 3)
SPLIT_SEED = 2027
MODEL = "mlp16"
RECIPE: dict[str, Any] = {
    "architecture": "multilayer perceptron on 30 image features, one hidden layer of 16 units, ReLU",
    "pretrained_weights": "none",
    "preprocessing": "each feature standardised by mean and standard deviation of the train split",
    "augmentation": "none",
    "optimiser": "Adam",
    "learning_rate": 0.01,
    "weight_decay": 0.0001,
    "batch_size": 32,
    "epochs": 80,
    "stopping_rule": "the epoch with the lowest validation negative log-likelihood",
    "selected_on": "val",
}


@dataclass(frozen=True)
class Violation:
    """A named way to break the rules; ``fires`` is the rule that must reject it. ``redeclared`` seals it anew."""

    name: str
    story: str
    fires: str
    change: Callable[[Path], None]
    redeclared: bool = True


def make_demo(folder: Path, say: Callable[[str], None] = lambda line: None) -> Path:
    """Write the demonstration's bundle into the new folder ``folder``; takes a few seconds."""
    from sklearn.datasets import load_breast_cancer

    data = load_breast_cancer()
    x, malignant = np.asarray(data.data, dtype=np.float64), 1 - np.asarray(data.target, dtype=np.int64)
    patients = hash_identifiers(SALT, "wdbc/patient", [str(number) for number in range(len(x))])
    split = np.array(assign_splits(patients, malignant.tolist(), PROPORTIONS, SPLIT_SEED))
    counts = ", ".join(f"{(split == name).sum()} {name}" for name in PROPORTIONS)
    say(f"step 1  {len(x)} patients hashed and split by patient: {counts}")
    splits = pl.DataFrame(
        {
            "image_id": hash_identifiers(SALT, "wdbc/image", [str(number) for number in range(len(x))]),
            "patient_id": patients,
            "split": split,
            "site": "University of Wisconsin",
            "label": malignant,
            "texture": np.where(x[:, 1] < 19.0, "fine", "coarse"),
        }
    )
    folder.mkdir(parents=True)
    parts = _train_and_recalibrate(splits, x, malignant, split, say)
    write_bundle(folder, parts)
    _write_extra(folder)
    declare_folder(folder)
    say(f"step 6  plan frozen in {LOCK_FILE}: one subgroup, no external site (waived, with the reason)")
    say(f"step 7  bundle written to {folder}")
    return folder


def _train_and_recalibrate(
    splits: pl.DataFrame,
    x: NDArray[np.float64],
    y: NDArray[np.int64],
    split: NDArray[np.str_],
    say: Callable[[str], None],
) -> Parts:
    calib, test = split == "calib", split == "test"
    frames: list[pl.DataFrame] = []
    fitted: list[FittedCalibrator] = []
    for seed in SEEDS:
        p, epoch = train(x, y, split, seed)
        say(f"step 2  {MODEL} trained, seed {seed}: epoch {epoch} chosen on val")
        frames.append(table(splits, calib | test, p, MODEL, seed, "none", "binary"))
        for family in FAMILIES:
            maps = recalibration.fit(
                family, p[calib], y[calib], kind="binary", model=MODEL, seed=seed, calibrator=family
            )
            fitted += maps
            frames.append(
                table(splits, test, recalibration.apply(maps, p, kind="binary"), MODEL, seed, family, "binary")
            )
    say("step 3  temperature and isotonic fitted on calib only, frozen, applied to test")
    return Parts(_task(), _record(), splits, pl.concat(frames), fitted)


def train(
    x: NDArray[np.float64], y: NDArray[np.int64], split: NDArray[np.str_], seed: int
) -> tuple[NDArray[np.float64], int]:
    """Train by the recipe with one seed; P(malignant) of every image (N, 1), and the epoch chosen on val."""
    from sklearn.metrics import log_loss
    from sklearn.neural_network import MLPClassifier
    from sklearn.preprocessing import StandardScaler

    fit, val = split == "train", split == "val"
    z = StandardScaler().fit(x[fit]).transform(x)
    model = MLPClassifier(
        hidden_layer_sizes=(16,),
        alpha=RECIPE["weight_decay"],
        learning_rate_init=RECIPE["learning_rate"],
        batch_size=RECIPE["batch_size"],
        random_state=seed,
    )
    best, epoch, chosen = np.inf, 0, np.zeros(len(x))
    for number in range(1, int(RECIPE["epochs"]) + 1):
        model.partial_fit(z[fit], y[fit], classes=[0, 1])
        p = model.predict_proba(z)[:, 1]
        loss = log_loss(y[val], p[val], labels=[0, 1])
        if loss < best:
            best, epoch, chosen = loss, number, p
    return np.asarray(chosen, dtype=np.float64)[:, None], epoch


def _write_extra(folder: Path) -> None:
    (folder / "configs").mkdir()
    (folder / "code").mkdir()
    write_atomic(folder / "configs" / "train.yaml", _config())
    shutil.copyfile(__file__, folder / "code" / "demo.py")


def _config() -> bytes:
    return to_yaml({"model": MODEL, "seeds": list(SEEDS), "split_seed": SPLIT_SEED, "recipe": RECIPE})


def _task() -> dict[str, Any]:
    return {
        "edition": EDITION,
        "name": "wdbc-demo",
        "kind": "binary",
        "target": "malignancy of a breast mass, from a fine-needle aspirate",
        "label_source": "University of Wisconsin, histology or follow-up as published with the data set",
        "label_definition": "malignant (1) or benign (0) as published",
        "classes": ["benign", "malignant"],
        "primary_metric": "brier",
        "clustering_unit": "patient",
        "resamples": 2000,
    }


def _record() -> dict[str, Any]:
    return {
        "edition": EDITION,
        "submission_id": "wdbc-demo-1",
        "title": "Demonstration on the Wisconsin diagnostic breast-cancer data",
        "team": "mvc kit",
        "contact": "the kit's issue tracker",
        "task": {"name": "wdbc-demo"},
        "splits": {
            "file": "splits.parquet",
            "unit": "patient",
            "how": "by patient, stratified by label: 40 % train, 10 % val, 25 % calib, 25 % test",
            "seed": SPLIT_SEED,
            "hash": {"scheme": "hmac-sha256", "namespace": "wdbc", "salt_custody": "public, as the data are"},
            "patient_ids": "available",
            "images_per_patient": 1.0,
        },
        "recipe": {**RECIPE, "configs": [{"file": "configs/train.yaml", "sha256": sha256_hex(_config())}]},
        "models": [{"name": MODEL, "kind": "base", "seeds": list(SEEDS)}],
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
        "shift": {"external": [], "subgroups": [{"column": "texture", "levels": ["coarse", "fine"]}]},
        "release": {
            "licence": "CC-BY-4.0",
            "code": {"file": "code/demo.py"},
            "splits": {"file": "splits.parquet"},
            "predictions": {"file": "predictions.parquet"},
            "parameters": {"file": "calibrators.json"},
        },
        "waivers": [{"rule": "MVC601", "reason": "The data set comes from one hospital; there is no second site."}],
    }


def break_bundle(source: Path, target: Path, violation: Violation) -> Path:
    """A copy of the bundle ``source`` in ``target`` with one thing changed, sealed anew where the story says so."""
    ignore = shutil.ignore_patterns("results", "ro-crate-metadata.json", "submission.json")
    shutil.copytree(source, target, ignore=ignore)
    violation.change(target)
    if violation.redeclared:
        declare_folder(target, force=True)
    return target


def _patient_in_two_splits(folder: Path) -> None:
    splits = pl.read_parquet(folder / "splits.parquet")
    tested = splits.filter(pl.col("split") == "test")["patient_id"][0]
    first = pl.col("image_id") == splits.filter(pl.col("split") == "train")["image_id"][0]
    splits.with_columns(patient_id=pl.when(first).then(pl.lit(tested)).otherwise("patient_id")).write_parquet(
        folder / "splits.parquet"
    )


def _missing_test_image(folder: Path) -> None:
    splits = pl.read_parquet(folder / "splits.parquet")
    image = splits.filter(pl.col("split") == "test")["image_id"][0]
    predictions = pl.read_parquet(folder / "predictions.parquet").filter(pl.col("image_id") != image)
    predictions.write_parquet(folder / "predictions.parquet")


def _late_subgroup(folder: Path) -> None:
    splits = pl.read_parquet(folder / "splits.parquet")
    band = pl.when(pl.int_range(pl.len()) % 2 == 0).then(pl.lit("even")).otherwise(pl.lit("odd"))
    splits.with_columns(row_parity=band).write_parquet(folder / "splits.parquet")
    record = yaml.safe_load((folder / RECORD_FILE).read_text(encoding="utf-8"))
    record["shift"]["subgroups"].append({"column": "row_parity", "levels": ["even", "odd"]})
    write_atomic(folder / RECORD_FILE, to_yaml(record, STEPS))


def _raw_patient_number(folder: Path) -> None:
    splits = pl.read_parquet(folder / "splits.parquet")
    first = pl.int_range(pl.len()) == 0
    splits.with_columns(patient_id=pl.when(first).then(pl.lit("842302")).otherwise("patient_id")).write_parquet(
        folder / "splits.parquet"
    )


VIOLATIONS = (
    Violation("patient-in-two-splits", "a test patient also stands in train", "MVC101", _patient_in_two_splits),
    Violation("missing-test-image", "a test image is left out of every run", "MVC403", _missing_test_image),
    Violation("late-subgroup", "a subgroup is added after the declaration", "MVC604", _late_subgroup, redeclared=False),
    Violation("raw-patient-number", "a patient number stands there unhashed", "MVC103", _raw_patient_number),
)
