"""k-shot draws: a few training images of each class, for each seed (as few-shot studies of prompt tuning do)."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from splits.errors import SplitError

VAL_SHOTS = 4


def few_shot(
    frame: pl.DataFrame, shots: int, seeds: Sequence[int], classes: Sequence[str], *, by_image: bool = False
) -> tuple[pl.DataFrame, list[str]]:
    """For each seed the images of a ``shots``-shot draw, and notes on classes that have fewer.

    ``frame`` has one row an image: ``image``, ``unit``, ``split`` (text) and ``label`` (index of ``classes`` or null).
    From the train split ``shots`` images of each class are drawn without replacement, from val ``min(shots, 4)``; a
    class with fewer gives what it has, none twice. Every unit of a class gives one image before any gives a second one,
    so that 16 shots are 16 patients where there are so many; ``by_image`` draws among images as if each were its own
    patient. The result, columns ``image, seed, split, label`` in order of seed, split, label and image, depends on
    neither the order of rows nor on ``shots`` but for its size: 8 shots are among the 16 of the same seed.

    Raises :class:`SplitError` for no train images, fewer than one shot, or seeds that repeat or are negative.

    Source: 16-shot draws for seeds 1 to 3, MVC-Bench, section 3; val of min(shots, 4): CoOp
    (https://doi.org/10.1007/s11263-022-01653-1), its released code.
    """
    if shots < 1:
        raise SplitError(f"{shots} shots; at least 1 image a class is needed")
    if not seeds or min(seeds) < 0 or len(set(seeds)) < len(seeds):
        raise SplitError("the seeds of few-shot draws are different whole numbers from 0 on, such as 1,2,3")
    pool = frame.filter(pl.col("split").is_in(["train", "val"]) & pl.col("label").is_not_null()).sort("image")
    if not (pool["split"] == "train").any():
        raise SplitError("there is no train split to draw shots from; give it a share")
    wanted = {"train": shots, "val": min(shots, VAL_SHOTS)}
    draws = []
    for seed in seeds:
        # a second word keeps this stream apart from the one that drew the splits under the same seed
        keys = np.asarray(np.random.PCG64([seed, 1]).random_raw(pool.height), dtype=np.uint64)
        ranked = pool.with_columns(key=pl.Series(keys))
        turn = pl.lit(0, pl.UInt32) if by_image else pl.col("key").rank("ordinal").over("split", "label", "unit")
        ranked = ranked.with_columns(turn=turn).sort("turn", "key")
        ranked = ranked.with_columns(place=pl.int_range(pl.len()).over("split", "label"))
        chosen = ranked.filter(pl.col("place") < pl.col("split").replace_strict(wanted, return_dtype=pl.Int64))
        draws.append(chosen.select("image", pl.lit(seed, pl.Int64).alias("seed"), "split", "label"))
    short = pool.filter(pl.col("split") == "train").group_by("label").len().filter(pl.col("len") < shots).sort("label")
    notes = [
        f"class {classes[label]} has {count} train images, fewer than {shots} shots: all are drawn"
        for label, count in short.rows()
    ]
    return pl.concat(draws).sort("seed", "split", "label", "image"), notes
