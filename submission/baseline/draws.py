"""The training images of each seed: k-shot draws by patient, or all of train."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from protocol.findings import plain
from splits.errors import SplitError
from splits.few_shot import VAL_SHOTS, few_shot
from splits.writing import SHOTS_FILE
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool, parquet
from submission.baseline.errors import BaselineError

COLUMNS = ("image_id", "seed", "split", "label")


@dataclass(frozen=True)
class Draws:
    """By seed the image ids to train on and those of val to watch, each in order of image_id.

    ``words`` say how they were drawn, for the recipe; ``notes`` what a user should know.
    """

    train: Mapping[int, tuple[str, ...]]
    val: Mapping[int, tuple[str, ...]]
    words: str
    notes: tuple[str, ...] = ()


def draw(pool: Pool, config: RunConfig) -> Draws:
    """The draws of every seed of ``config``; of a zero-shot learner there are none, and ``train`` is empty.

    The draws of the few_shot.parquet beside the split file are used where they are of these shots and seeds. Raises
    BaselineError where train is empty, a class has no training image, or that file doesn't fit the split.
    """
    if config.learner.name == "zeroshot":
        return Draws({}, {}, "no training images")
    labelled = pool.part("train", "val").filter(pl.col("label").is_not_null())
    train = labelled.filter(pl.col("split") == "train")
    _every_class(pool, train)
    if config.shots is None:
        ids = {name: tuple(labelled.filter(pl.col("split") == name)["image_id"]) for name in ("train", "val")}
        words = f"all {train.height} labelled images of train"
        return Draws(dict.fromkeys(config.seeds, ids["train"]), dict.fromkeys(config.seeds, ids["val"]), words)
    notes: list[str] = []
    kept = _kept(pool, labelled, config.shots, config.seeds)
    if kept is not None:
        shots, how = kept, f"those of {SHOTS_FILE} beside the split file"
    else:
        unit = pl.coalesce("patient_id", "image_id").alias("unit")
        frame = labelled.select(pl.col("image_id").alias("image"), unit, "split", "label")
        try:
            shots, notes = few_shot(frame, config.shots, config.seeds, pool.task.classes)
        except SplitError as error:
            raise BaselineError(str(error)) from None
        one = "; a patient gives a second image of a class only when each has given one" if _patients(labelled) else ""
        shots, how = shots.rename({"image": "image_id"}), f"drawn for each seed anew{one}"
    by = {
        name: {
            seed: tuple(shots.filter((pl.col("seed") == seed) & (pl.col("split") == name))["image_id"].sort())
            for seed in config.seeds
        }
        for name in ("train", "val")
    }
    words = f"{config.shots} images a class from train ({how})"
    return Draws(by["train"], by["val"], words, tuple(plain(note, 300) for note in notes))


def _every_class(pool: Pool, train: pl.DataFrame) -> None:
    if not train.height:
        raise BaselineError(f"{pool.file}: no labelled row of split train, so there is nothing to train on")
    there = set(train["label"])
    absent = [name for k, name in enumerate(pool.task.classes) if k not in there]
    if absent:
        raise BaselineError(
            f"{pool.file}: no image of class {plain(', '.join(absent), 120)} in train; make the split anew, stratified "
            "by label, or take the learner zeroshot"
        )


def _patients(labelled: pl.DataFrame) -> bool:
    return labelled["patient_id"].null_count() < labelled.height


def _kept(pool: Pool, labelled: pl.DataFrame, shots: int, seeds: Sequence[int]) -> pl.DataFrame | None:
    """The draws beside the split file where they are of ``shots`` and all ``seeds``; else None."""
    path = pool.file.parent / SHOTS_FILE
    if not path.is_file():
        return None
    found = _read(path).filter(pl.col("seed").is_in(seeds))
    own = labelled.select("image_id", "split", "label")
    stray = found.join(own, on=["image_id", "split", "label"], how="anti")
    if stray.height:
        raise BaselineError(
            f"{path}: {stray.height} draws are not in {pool.file.name} with this split and label, such as image "
            f"{plain(stray['image_id'][0], 80)}; it belongs to another split: remove it"
        )
    for name, most in (("train", shots), ("val", min(shots, VAL_SHOTS))):
        there = labelled.filter(pl.col("split") == name).group_by("label").len()
        wanted = {(seed, label): min(most, count) for seed in seeds for label, count in there.iter_rows()}
        drawn = found.filter(pl.col("split") == name).unique().group_by("seed", "label").len()
        if {(seed, label): count for seed, label, count in drawn.iter_rows()} != wanted:
            return None
    return found


def _read(path: Path) -> pl.DataFrame:
    try:
        found = parquet(path)
        return found.select(
            pl.col("image_id", "split").cast(pl.String), pl.col("seed", "label").cast(pl.Int64)
        ).unique()
    except (OSError, ValueError, pl.exceptions.PolarsError) as error:
        said = plain(str(error).partition("\n")[0], 120)
        raise BaselineError(
            f"{path} can't be read ({said}); take the one that mvc split make wrote, or remove it"
        ) from None
