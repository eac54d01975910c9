"""Calibrators of a draft fitted again: after its uncalibrated rows were changed, or on rows they should not see."""

from collections.abc import Collection
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.objective import objective_of
from protocol.submission import Method
from protocol.types import EVALUATED, Kind
from submission import recalibration
from tests.builders import Draft


def columns_of(draft: Draft) -> list[str]:
    """Names of the probability columns."""
    return [name for name in draft.predictions.columns if name.startswith("p_")]


def labels_of(draft: Draft, rows: pl.DataFrame) -> NDArray[np.int64]:
    """Labels of the images of ``rows``, in their order; -1 where there is none."""
    names = [name for name in draft.splits.columns if name.startswith("label")]
    joined = rows.select("image_id").join(draft.splits, on="image_id", how="left", maintain_order="left")
    table = joined.select(pl.col(names).fill_null(-1)).to_numpy().astype(np.int64)
    return table if draft.task["kind"] == "multilabel" else table[:, 0]


def uncalibrated(draft: Draft, **run: Any) -> pl.DataFrame:
    """Rows of calibrator none of one run, with the split, site and subgroup columns of their images."""
    rows = draft.predictions.filter(calibrator="none", **run).drop("calibrator")
    return rows.join(draft.splits.drop("fold", strict=False), on="image_id", how="left", maintain_order="left")


def fitted(draft: Draft, name: str, rows: pl.DataFrame) -> tuple[FittedCalibrator, ...]:
    """The method ``name`` of the record fitted on uncalibrated ``rows`` of one model and seed."""
    method = Method(**next(m for m in draft.record["calibration"]["methods"] if m["name"] == name))
    objective = objective_of(method)
    assert not isinstance(objective, str), objective
    kind: Kind = draft.task["kind"]
    run = {"model": rows["model"][0], "seed": rows["seed"][0], "calibrator": name}
    p = rows.select(columns_of(draft)).to_numpy()
    return recalibration.fit(method.family, p, labels_of(draft, rows), kind=kind, objective=objective, **run)


def applied(draft: Draft, records: tuple[FittedCalibrator, ...], rows: pl.DataFrame) -> pl.DataFrame:
    """``rows`` as the map of ``records`` gives them, in the columns of predictions."""
    columns = columns_of(draft)
    q = recalibration.apply(records, rows.select(columns).to_numpy(), kind=draft.task["kind"])
    made = rows.with_columns(pl.Series(name, q[:, k]) for k, name in enumerate(columns))
    return made.with_columns(calibrator=pl.lit(records[0].calibrator)).select(draft.predictions.columns)


def recalibrate(
    draft: Draft, names: Collection[str] | None = None, *, on: pl.Expr | None = None, own: pl.Expr | None = None
) -> None:
    """Fit the methods ``names`` (all declared) anew, on the rows where ``on`` holds, and map test and external rows.

    ``on`` defaults to what the record says: split calib, or out-of-fold train rows. Where ``own`` holds, rows are
    mapped by a calibrator fitted on themselves instead, which is not written down.
    """
    cross = "cross_fit" in draft.record["calibration"]
    on = on if on is not None else pl.col("split") == ("train" if cross else "calib")
    methods = [m["name"] for m in draft.record["calibration"]["methods"] if m["family"] not in ("none", "custom")]
    chosen = [name for name in methods if names is None or name in names]
    kept = draft.predictions.filter(~pl.col("calibrator").is_in(chosen))
    records = [record for record in draft.calibrators if record.calibrator not in chosen]
    frames = [kept]
    runs = draft.predictions.select("model", "seed").unique(maintain_order=True)
    for model, seed in runs.rows():
        rows = uncalibrated(draft, model=model, seed=seed)
        evaluated = rows.filter(pl.col("split").is_in(EVALUATED))
        for name in chosen:
            maps = fitted(draft, name, rows.filter(on))
            records += maps
            aside = evaluated.filter(own) if own is not None else evaluated.clear()
            frames.append(applied(draft, maps, evaluated.join(aside, on="image_id", how="anti", maintain_order="left")))
            if len(aside):
                frames.append(applied(draft, fitted(draft, name, aside), aside))
    draft.predictions = pl.concat(frames)
    draft.calibrators = records
