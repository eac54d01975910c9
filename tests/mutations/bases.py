"""Good submissions beside the plain one: larger, cross-fitted, or with a claim."""

import tempfile
from functools import lru_cache
from pathlib import Path

import polars as pl

from protocol.canonical import sha256_hex
from protocol.types import Kind
from tests.builders import Draft, good_submission, write
from tests.recalibrating import applied, uncalibrated
from tests.referee import quick_check, result_of

FOLDS = 5


def doubled(kind: Kind) -> Draft:
    """Every test image stands beside a second one of another patient: more than 100 events and non-events."""
    draft = good_submission(kind)
    tested = draft.splits.filter(pl.col("split") == "test")
    draft.splits = pl.concat([draft.splits, tested.with_columns(_renamed("image_id"), _renamed("patient_id"))])
    again = draft.predictions.join(tested.select("image_id"), on="image_id", how="semi")
    draft.predictions = pl.concat([draft.predictions, again.with_columns(_renamed("image_id"))])
    return draft


def _renamed(column: str) -> pl.Expr:
    return pl.col(column).map_elements(lambda text: sha256_hex(f"again {text}".encode()), return_dtype=pl.String)


def cross_fitted(kind: Kind) -> Draft:
    """Out-of-fold train rows replace the calibration split (protocol, section 4)."""
    draft = good_submission(kind)
    draft.splits = draft.splits.filter(pl.col("split") != "train")
    fold = (pl.col("patient_id").rank("dense") % FOLDS).cast(pl.Int64)
    calib = pl.col("split") == "calib"
    draft.splits = draft.splits.with_columns(
        fold=pl.when(calib).then(fold), split=pl.col("split").replace("calib", "train")
    )
    draft.predictions = draft.predictions.join(draft.splits.select("image_id", "fold"), on="image_id", how="left")
    draft.record["calibration"] |= {"fitted_on": "train", "cross_fit": {"folds": FOLDS}}
    return draft


def customised(kind: Kind) -> Draft:
    """With one more calibrator, a map of the authors' own: here temperature 1.5, whatever the labels."""
    draft = good_submission(kind)
    draft.record["calibration"]["methods"].append({"name": "house", "family": "custom"})
    template = next(c for c in draft.calibrators if c.family == "temperature")
    for seed in (1, 2, 3):
        own = {"seed": seed, "calibrator": "house"}
        entry = template.model_copy(update={**own, "parameters": {"temperature": 1.5}})
        rows = uncalibrated(draft, model="densenet121", seed=seed).filter(pl.col("split").is_in(["test", "external"]))
        draft.predictions = pl.concat([draft.predictions, applied(draft, (entry,), rows)])
        draft.calibrators.append(entry.model_copy(update={"family": "custom"}))
    return draft


def claimed(kind: Kind) -> Draft:
    """With one claim that holds, value and interval."""
    draft = good_submission(kind)
    value, interval = _recomputed(kind)
    _claim(draft, value, interval)
    return draft


@lru_cache(maxsize=4)
def _recomputed(kind: Kind) -> tuple[str, tuple[str, str]]:
    draft = good_submission(kind)
    _claim(draft, "9.999", ("9.0000", "9.9999"))
    with tempfile.TemporaryDirectory() as scratch:
        verdict = quick_check(write(draft, Path(scratch, "bundle")))
    value, interval = (result_of(verdict, rule).findings[0].wanted for rule in ("MVC407", "MVC503"))
    lo, _, hi = interval.partition(" to ")
    return value, (lo, hi)


def _claim(draft: Draft, value: str, interval: tuple[str, str]) -> None:
    metrics = {"binary": "brier_binary", "multiclass": "brier", "multilabel": "brier_binary_macro"}
    draft.claim(
        metric=metrics[draft.task["kind"]], model="densenet121", slice="test", value=value, interval=list(interval)
    )
