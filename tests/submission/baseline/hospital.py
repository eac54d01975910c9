"""A small made-up hospital for tests: images on disk, and a split of them that ``mvc split make`` would write."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from PIL import Image

from protocol.types import SplitName
from splits.making import make
from splits.plan import ColumnNames
from splits.writing import write
from tests.splits.test_making import Cells, gathered, plan_of

SHARES: dict[SplitName, float] = {"train": 0.4, "val": 0.1, "calib": 0.25, "test": 0.25}


@dataclass(frozen=True)
class Hospital:
    """``folder`` holds ``images/`` and ``split/public`` and ``split/private``; ``table`` has a row an image."""

    folder: Path
    table: pl.DataFrame

    @property
    def images(self) -> Path:
        return self.folder / "images"

    @property
    def public(self) -> Path:
        return self.folder / "split" / "public"

    @property
    def private(self) -> Path:
        return self.folder / "split" / "private"

    @property
    def splits(self) -> Path:
        return self.public / "splits.parquet"


def hospital(
    folder: Path,
    *,
    classes: tuple[str, ...] = ("healthy", "sick"),
    patients: int = 60,
    external: bool = True,
    sex: bool = True,
    name: str = "scans/{:03}.png",
    ending: str = "",
    **plan: Any,
) -> Hospital:
    """Two images a patient, of 20 x 16 pixels; a third of the patients from elsewhere where ``external``.

    ``name`` is that in the table, of an image by its number; ``ending`` what its file has beyond it.
    """
    rng = np.random.default_rng(7)
    person = np.repeat(np.arange(patients), 2)
    outside = external & (person % 3 == 2)
    grade = rng.permutation(np.arange(patients) % len(classes))[person]
    cells: dict[str, Cells] = {
        "image": [name.format(number) for number in range(len(person))],
        "patient": [f"P{number:03}" for number in person],
        "hospital": ["second clinic" if out else "first clinic" for out in outside],
        "sex": [("female", "male")[number % 2] for number in person],
        "grade": [classes[k] for k in grade],
    }
    columns = ColumnNames(
        image="image", patient="patient", labels=("grade",), site="hospital", subgroups=("sex",) if sex else ()
    )
    fields: dict[str, Any] = {
        "classes": classes,
        "proportions": SHARES,
        "external": ("second clinic",) if external else (),
        "namespace": "clinic",
    }
    made = plan_of(columns, **fields | plan)
    write(folder / "split", make(gathered(cells, made), made), made, ())
    for number, path in enumerate(cells["image"]):
        assert path is not None
        picture(folder / "images" / f"{path}{ending}", number)
    return Hospital(folder, pl.DataFrame(cells))


def picture(path: Path, number: int, size: tuple[int, int] = (20, 16)) -> Path:
    """A random image that ``number`` fixes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(number).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path
