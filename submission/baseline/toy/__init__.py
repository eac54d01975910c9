"""A small world to run the baseline in. A test bed: no number that comes of it is a medical finding."""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from submission.baseline.errors import BaselineError
from submission.baseline.toy.images import NOTICE

if TYPE_CHECKING:
    from submission.baseline.toy.pretrain import Progress

PATIENTS = {"full": 720, "quick": 300}
CONFIGS = ("coop", "zeroshot", "kgcoop", "prograd", "maple", "promptsrc", "hicropl")
README = """
## The model, and what to run

- `clip/`: a CLIP of a few million parameters, trained on other made-up patients of the same generator.
- `configs/`: one run a learner. They name the folder `clip` by its full path: after a move, say `--weights DIR/clip`.

    mvc baseline run --config DIR/configs/coop.yaml --splits DIR/split/public/splits.parquet --images DIR/images \\
        --out DIR-coop
"""


@dataclass(frozen=True)
class Toy:
    """Where the parts of a test bed are; ``seconds`` it took (of a resumed one: since it was resumed)."""

    folder: Path
    images: Path
    splits: Path
    weights: Path
    configs: tuple[Path, ...]
    task: Path
    seconds: float
    notice: str = NOTICE


def make_toy(
    folder: Path, *, quick: bool = False, seed: int = 1, patients: int | None = None, progress: "Progress | None" = None
) -> Toy:
    """Make a world, a tiny CLIP trained for it, and configurations in ``folder``, which is new or empty.

    It appears whole or not at all. What is not ready lies beside it under a hidden name; a call with the same arguments
    goes on from there after a kill. ``quick`` is smaller and worse. ``progress`` gets stage, done, in all and a note.

    Raises :class:`BaselineError` for a folder that holds something, too few patients, and a folder that another program
    is making; ``OSError`` where nothing can be written.
    """
    from submission.baseline.toy import pretrain, runs, world

    folder = Path(os.path.abspath(folder))  # of "." the stage would lie inside
    began, size = time.monotonic(), "quick" if quick else "full"
    count, told = PATIENTS[size] if patients is None else patients, progress or pretrain.nothing
    world.check(folder, count, seed)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _beside(folder, {"size": size, "seed": seed, "patients": count}) as stage:
        made = stage / "toy"
        if not made.exists():
            world.make_world(made, patients=count, seed=seed, progress=told)
        pretrain.pretrain(made / "clip", pretrain.PRESETS[size], seed=seed, aside=stage, progress=told)
        shutil.rmtree(made / "configs", ignore_errors=True)
        runs.write_configs(made / "configs", Path(os.path.abspath(folder)) / "clip")
        (made / "README.md").write_text(world.README + README.replace("DIR", folder.name), encoding="utf-8")
        try:
            os.replace(made, folder)
        except OSError:
            world.check(folder, count, seed)
            raise
    there = world.world_in(folder)
    configs = tuple(folder / "configs" / f"{name}.yaml" for name in CONFIGS)
    return Toy(folder, there.images, there.splits, folder / "clip", configs, there.task, time.monotonic() - began)


@contextlib.contextmanager
def _beside(folder: Path, wanted: dict[str, object]) -> Iterator[Path]:
    """The hidden folder in which ``folder`` comes about; it stays after an error and goes when all is done.

    One program at a time. What was begun with other arguments is begun anew.
    """
    stage = folder.parent / f".{folder.name}.mvc-toy"
    stage.mkdir(exist_ok=True)
    handle = os.open(stage, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BaselineError(f"another program is making {folder}; wait for it, or name another folder") from None
        text = json.dumps({"notice": NOTICE, **wanted}, sort_keys=True)
        note = stage / "made.json"
        if not note.is_file() or note.read_text(encoding="utf-8") != text:
            for path in stage.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            note.write_text(text, encoding="utf-8")
        yield stage
        shutil.rmtree(stage, ignore_errors=True)
    finally:
        os.close(handle)
