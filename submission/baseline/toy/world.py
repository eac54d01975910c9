"""A world to run the baseline in: pictures, metadata and a split by patient, made by the kit's own functions."""

import csv
import hashlib
import io
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from protocol import EDITION
from protocol.types import SplitName
from splits.errors import SplitError
from splits.hashing import write_salt
from splits.making import make
from splits.plan import ColumnNames, Plan
from splits.sources import load, settled
from splits.writing import BLOCK_FILE, PRIVATE, PUBLIC, SALT_FILE, SPLITS_FILE, need_free, write
from submission.baseline.errors import BaselineError
from submission.baseline.toy import images
from submission.baseline.toy.images import NOTICE
from submission.baseline.toy.pretrain import Progress, nothing
from submission.bundle import TASK_FILE

NAMESPACE = "toy-fundus"
COLUMNS = ("image", "patient", "site", "grade", "age_group", "sex", "eye")
SHARES: dict[SplitName, float] = {"train": 0.5, "val": 0.1, "calib": 0.2, "test": 0.2}
SHOTS, SHOT_SEEDS = 16, (1, 2, 3)
FEWEST = 60  # patients: with fewer a split may lack a grade
DRAWN_AT_ONCE = 128
README = f"""# A made-up world

**{images.NOTICE}**

- `images/`: synthetic pictures, two eyes a made-up patient, by four made-up cameras.
- `metadata.csv`: what the generator says of each. `split/public/task.yaml`: the task.
- `split/`: the split, as `mvc split make` writes it. Its salt follows from the seed and keeps nothing secret.
"""


@dataclass(frozen=True)
class World:
    """Where its parts are."""

    folder: Path
    images: Path
    splits: Path
    metadata: Path
    task: Path
    notice: str = NOTICE


def make_world(folder: Path, *, patients: int = 720, seed: int = 1, progress: Progress = nothing) -> World:
    """Write a world of ``patients`` into ``folder``, which is new or empty: whole or not at all.

    The same seed gives the same pictures, metadata and hashed split. Raises :class:`BaselineError` for a folder that
    holds something, too few or too many patients; ``OSError`` where nothing can be written.
    """
    check(folder, patients, seed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".mvc-toy-", ignore_cleanup_errors=True) as name:
        stage = Path(name, "world")
        stage.mkdir()
        eyes = images.subjects(seed, range(1, patients + 1))
        names = [f"p{p:06d}_{images.EYES[e]}.png" for p, e in zip(eyes.patient, eyes.eye, strict=True)]
        _write_images(stage / "images", eyes, names, progress)
        (stage / "metadata.csv").write_text(_metadata(eyes, names), encoding="utf-8")
        (stage / "README.md").write_text(README, encoding="utf-8")
        progress("split", 0, 1, "")
        _split(stage, Path(name, SALT_FILE), seed)
        (stage / "split" / PUBLIC / TASK_FILE).write_text(_task(), encoding="utf-8")
        progress("split", 1, 1, "")
        os.replace(stage, folder)
    return world_in(folder)


def world_in(folder: Path) -> World:
    """The places of a world that lies in ``folder``."""
    splits = folder / "split" / PUBLIC / SPLITS_FILE
    return World(folder, folder / "images", splits, folder / "metadata.csv", splits.parent / TASK_FILE)


def check(folder: Path, patients: int, seed: int) -> None:
    """BaselineError where a world can't be made as asked."""
    if not FEWEST <= patients < images.MOST_PATIENTS:
        raise BaselineError(
            f"{patients} patients; wanted {FEWEST} to {images.MOST_PATIENTS - 1}, so that each split has every grade"
        )
    if seed < 0 or seed >= 2**31:
        raise BaselineError(f"seed {seed}; wanted 0 to {2**31 - 1}")
    try:
        need_free(folder)
    except SplitError as error:
        raise BaselineError(f"{error}; name a new folder, or empty this one") from None


def _write_images(folder: Path, eyes: images.Subjects, names: list[str], progress: Progress) -> None:
    folder.mkdir()
    for start in range(0, len(eyes), DRAWN_AT_ONCE):
        rows = np.arange(start, min(start + DRAWN_AT_ONCE, len(eyes)))
        for row, picture in zip(rows, images.draw(eyes.take(rows)), strict=True):
            Image.fromarray(picture).save(folder / names[row], format="PNG")
        progress("images", int(rows[-1]) + 1, len(eyes), "")


def _metadata(eyes: images.Subjects, names: list[str]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row, name in enumerate(names):
        site = images.CAMERAS[eyes.camera[row]].name
        told = images.GRADES[eyes.label[row]], images.AGES[eyes.age[row]], images.SEXES[eyes.sex[row]]
        writer.writerow([name, f"p{eyes.patient[row]:06d}", site, *told, images.EYES[eyes.eye[row]]])
    return out.getvalue()


def _task() -> str:
    document: dict[str, Any] = {
        "edition": EDITION,
        "name": "toy-fundus-grade",
        "kind": "multiclass",
        "classes": list(images.GRADES),
        "ordinal": True,
        "target": f"how many lesions were drawn into a synthetic picture. {images.NOTICE}",
        "label_source": f"the generator; {images.LABEL_NOISE:.0%} of the labels are one grade off",
        "label_definition": "the number of dark dots, blots and bright spots, which rises with the grade",
    }
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)


def _split(stage: Path, salt_file: Path, seed: int) -> None:
    """The split of the metadata in ``stage``: its salt follows from the seed, as do the pictures."""
    names = ColumnNames(
        image="image", patient="patient", labels=("grade",), site="site", subgroups=("age_group", "sex")
    )
    plan = Plan(
        columns=names,
        classes=images.GRADES,
        external=(images.EXTERNAL,),
        proportions=SHARES,
        seed=seed,
        shots=SHOTS,
        shot_seeds=SHOT_SEEDS,
        namespace=NAMESPACE,
    )
    write_salt(salt_file, hashlib.sha256(f"the salt of the made-up world {seed} is no secret".encode()).digest())
    gathered, sources = load(plan, {"": [stage / "metadata.csv"]}, {})
    plan = settled(plan, gathered)
    write(stage / "split", make(gathered, plan), plan, sources, salt_file)
    shutil.move(salt_file, stage / "split" / PRIVATE / SALT_FILE)
    block = stage / "split" / PUBLIC / BLOCK_FILE
    document = yaml.safe_load(block.read_text(encoding="utf-8"))
    document["splits"]["hash"]["salt_custody"] = "nobody: it follows from the seed of a made-up world"
    document["shift"]["external"][0]["differs_in"] = ["device", "population"]
    block.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100), encoding="utf-8")
