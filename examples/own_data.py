"""From your own metadata and probabilities to a bundle: ``python examples/own_data.py FOLDER``.

The data here are simulated; put yours where it says so. FOLDER must be new. The secret salt
is written to FOLDER.salt: keep it, but away from the bundle.
"""

import os
import sys
from pathlib import Path

import numpy as np
import polars as pl

from protocol.calibrators import FittedCalibrator
from protocol.types import SplitName
from splits.assign import assign_splits
from splits.hashing import hash_identifiers, new_salt, write_salt
from submission import recalibration
from submission.example import example, table
from submission.writing import Parts, write_bundle

arguments = [Path(argument) for argument in sys.argv[1:]]
if len(arguments) != 1 or any(os.path.lexists(f"{arguments[0]}{end}") for end in ("", ".salt")):
    print("usage: python examples/own_data.py FOLDER (neither it nor FOLDER.salt may exist)", file=sys.stderr)
    sys.exit(2)
folder = arguments[0]
salt_file = folder.with_name(f"{folder.name}.salt")
rng = np.random.default_rng(0)

# Yours: one entry an image. Hospital b is the external site; patients are never shared between hospitals.
patient = np.repeat([f"p{number:03}" for number in range(240)], 2)
image = [f"{name}_{index % 2}.png" for index, name in enumerate(patient)]
hospital = np.where(np.arange(len(image)) < 400, "a", "b")
label = rng.integers(0, 3, len(image))
probabilities = {seed: rng.dirichlet(np.ones(3), len(image)) * 0.7 + 0.3 * np.eye(3)[label] for seed in (1, 2)}

# Step 1: hash identifiers under a secret salt, then split hospital a by patient.
salt = new_salt()
folder.mkdir(parents=True)
write_salt(salt_file, salt)
patient_id = hash_identifiers(salt, "my-study/patient", patient)
inside = np.flatnonzero(hospital == "a")
shares: dict[SplitName, float] = {"train": 0.4, "val": 0.1, "calib": 0.2, "test": 0.3}
drawn = assign_splits([patient_id[i] for i in inside], label[inside].tolist(), shares, seed=7)
split = np.full(len(image), "external", dtype="<U8")
split[inside] = drawn
splits = pl.DataFrame(
    {
        "image_id": hash_identifiers(salt, "my-study/image", image),
        "patient_id": patient_id,
        "split": split,
        "site": [f"hospital {name}" for name in hospital],
        "label": label,
    }
)

# Step 3: fit on calib only. The rows of calibrator none cover calib too, those of the others test and external.
calib, evaluated = split == "calib", np.isin(split, ("test", "external"))
frames: list[pl.DataFrame] = []
fitted: list[FittedCalibrator] = []
for seed, p in probabilities.items():
    frames.append(table(splits, calib | evaluated, p, "mynet", seed, "none", "multiclass"))
    for family in ("temperature", "isotonic"):
        maps = recalibration.fit(
            family,
            p[calib],
            label[calib],
            kind="multiclass",
            model="mynet",
            seed=seed,
            calibrator=family,
        )
        fitted += maps
        mapped = recalibration.apply(maps, p, kind="multiclass")
        frames.append(table(splits, evaluated, mapped, "mynet", seed, family, "multiclass"))

# The records start from the example; edit the YAML files afterwards, every text that begins with EXAMPLE.
start = example("multiclass", ("normal", "mild", "severe"))
record = dict(start.record) | {
    "submission_id": "mynet-1",
    "splits": start.record["splits"]
    | {
        "how": "by patient, stratified by label",
        "seed": 7,
        "hash": {"scheme": "hmac-sha256", "namespace": "my-study", "salt_custody": "EXAMPLE: who keeps the salt"},
    },
    "models": [{"name": "mynet", "seeds": [1, 2]}],
    "shift": {"external": [{"name": "hospital b", "differs_in": ["institution"]}], "subgroups": []},
}
write_bundle(folder, Parts(start.task, record, splits, pl.concat(frames), fitted))
print(f"{salt_file}: the secret salt of the identifiers; keep it, away from the bundle")
print(f"{folder}: edit task.yaml and submission.yaml, then mvc declare, mvc check, mvc submit")
