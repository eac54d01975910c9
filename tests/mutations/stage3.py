"""Step 3: recalibration. Rules that need a refit of the calibrators say that they could not check."""

from copy import deepcopy

import polars as pl

from protocol.findings import Outcome
from tests.builders import Draft, rows_of
from tests.mutations.bases import cross_fitted
from tests.mutations.registry import mutates

REFIT = ("MVC303", "MVC304", "MVC305", "MVC306", "MVC307", "MVC311")


def without(draft: Draft, *names: str) -> None:
    """Take calibration methods out of record, predictions and parameters."""
    calibration = draft.record["calibration"]
    calibration["methods"] = [m for m in calibration["methods"] if m["name"] not in names]
    draft.predictions = draft.predictions.filter(~pl.col("calibrator").is_in(names))
    draft.calibrators = [c for c in draft.calibrators if c.calibrator not in names]


@mutates("MVC301")
def no_isotonic(draft: Draft) -> None:
    without(draft, "isotonic")


@mutates("MVC301", "multiclass")
def no_temperature(draft: Draft) -> None:
    without(draft, "temperature")


@mutates("MVC301")
def no_uncalibrated(draft: Draft) -> None:
    without(draft, "none")


@mutates("MVC301", "multilabel")
def only_uncalibrated(draft: Draft) -> None:
    without(draft, "temperature", "isotonic")


@mutates("MVC302")
def fitted_on_val(draft: Draft) -> None:
    draft.record["calibration"]["fitted_on"] = "val"


@mutates("MVC302")
def fitted_on_test(draft: Draft) -> None:
    draft.record["calibration"]["fitted_on"] = "test"


@mutates("MVC302", base=cross_fitted)
def cross_fit_fitted_on_calib(draft: Draft) -> None:
    draft.record["calibration"]["fitted_on"] = "calib"


for rule in REFIT:

    def needs_a_refit(draft: Draft) -> None:
        """Parameters that nothing gave: a refit would tell."""
        draft.calibrators = [
            c.model_copy(update={"parameters": {"temperature": 19.0}}) if c.family == "temperature" else c
            for c in draft.calibrators
        ]

    mutates(rule, outcome=Outcome.UNVERIFIED, good=Outcome.UNVERIFIED)(needs_a_refit)


@mutates("MVC309", base=cross_fitted, outcome=Outcome.UNVERIFIED, good=Outcome.UNVERIFIED)
def patient_in_two_folds(draft: Draft) -> None:
    train = (pl.col("split") == "train") & (pl.int_range(pl.len()) % 2 == 0)
    draft.splits = draft.splits.with_columns(fold=pl.when(train).then((pl.col("fold") + 1) % 5).otherwise("fold"))


@mutates("MVC308")
def calib_row_missing(draft: Draft) -> None:
    calib = draft.splits.filter(pl.col("split") == "calib")["image_id"][0]
    draft.predictions = draft.predictions.filter(~rows_of(draft.predictions, image_id=calib, seed=1))


@mutates("MVC308", "multiclass")
def calib_image_missing(draft: Draft) -> None:
    calib = draft.splits.filter(pl.col("split") == "calib")["image_id"][0]
    draft.predictions = draft.predictions.filter(pl.col("image_id") != calib)


@mutates("MVC308", base=cross_fitted)
def out_of_fold_row_missing(draft: Draft) -> None:
    train = draft.splits.filter(pl.col("split") == "train")["image_id"][0]
    draft.predictions = draft.predictions.filter(~rows_of(draft.predictions, image_id=train, seed=2))


@mutates("MVC310")
def entry_missing(draft: Draft) -> None:
    draft.calibrators = deepcopy(draft.calibrators[1:])


@mutates("MVC310", "multilabel")
def finding_without_entry(draft: Draft) -> None:
    draft.calibrators = [c for c in draft.calibrators if (c.seed, c.calibrator, c.class_index) != (2, "isotonic", 1)]


@mutates("MVC308", base=cross_fitted)
def cross_fit_without_folds(draft: Draft) -> None:
    train = draft.splits.filter(pl.col("split") == "train").select("image_id")
    draft.splits = draft.splits.drop("fold")
    draft.predictions = draft.predictions.drop("fold").join(train, on="image_id", how="anti")
