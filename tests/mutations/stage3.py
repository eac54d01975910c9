"""Step 3: recalibration."""

from copy import deepcopy
from typing import Any

import numpy as np
import polars as pl

from protocol.findings import Outcome
from tests.builders import Draft, rows_of, set_cell
from tests.mutations.bases import cross_fitted, customised
from tests.mutations.registry import mutates
from tests.recalibrating import applied, columns_of, recalibrate, uncalibrated

TEST, EXTERNAL = pl.col("split") == "test", pl.col("split") == "external"


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


@mutates("MVC303")
def temperature_fitted_on_test(draft: Draft) -> None:
    recalibrate(draft, ["temperature"], on=TEST)


@mutates("MVC303")
def isotonic_fitted_on_calib_and_test(draft: Draft) -> None:
    recalibrate(draft, ["isotonic"], on=TEST | (pl.col("split") == "calib"))


@mutates("MVC303", "multiclass")
def temperature_of_three_classes_fitted_on_test(draft: Draft) -> None:
    recalibrate(draft, ["temperature"], on=TEST)


@mutates("MVC303", "multilabel")
def isotonic_per_finding_fitted_on_test(draft: Draft) -> None:
    recalibrate(draft, ["isotonic"], on=TEST)


@mutates("MVC303", base=cross_fitted)
def cross_fit_fitted_on_test(draft: Draft) -> None:
    recalibrate(draft, ["temperature"], on=TEST)


@mutates("MVC304", base=customised, outcome=Outcome.FAILED)
def custom_map_tuned_on_test(draft: Draft) -> None:
    """Test labels unlike those of calib, and a map of our own that fits them."""
    tested = (pl.col("split") == "test") & (pl.int_range(pl.len()) % 4 == 0)
    draft.splits = draft.splits.with_columns(label=pl.when(tested).then(1 - pl.col("label")).otherwise("label"))
    house = next(m for m in draft.record["calibration"]["methods"] if m["name"] == "house")
    house |= {"family": "temperature", "loss": "mean negative log-likelihood"}
    entries = [c for c in draft.calibrators if c.calibrator == "house"]
    recalibrate(draft, ["house"], on=TEST)
    house["family"] = "custom"
    draft.calibrators = [c for c in draft.calibrators if c.calibrator != "house"] + entries


def first_row(draft: Draft, calibrator: str, **image: Any) -> int:
    """Number of the first row of a calibrator on an image of the split."""
    images = draft.splits.filter(**image)["image_id"]
    found = (pl.col("calibrator") == calibrator) & pl.col("image_id").is_in(images.implode())
    return int(draft.predictions.with_row_index("n").filter(found)["n"][0])


@mutates("MVC305")
def one_test_row_nudged(draft: Draft) -> None:
    row = first_row(draft, "temperature", split="test")
    value = draft.predictions["p_1"][row]
    draft.predictions = set_cell(draft.predictions, row, {"p_1": value + (0.01 if value < 0.5 else -0.01)})


@mutates("MVC305", "multiclass")
def two_classes_exchanged(draft: Draft) -> None:
    row = first_row(draft, "isotonic", split="external")
    given = draft.predictions.row(row, named=True)
    draft.predictions = set_cell(draft.predictions, row, {"p_0": given["p_1"], "p_1": given["p_0"]})


@mutates("MVC305", "multilabel")
def uncalibrated_rows_passed_off(draft: Draft) -> None:
    """The rows of temperature are those of none, on every image of one seed."""
    columns = columns_of(draft)
    none = draft.predictions.filter(calibrator="none").select("image_id", "model", "seed", *columns)
    joined = draft.predictions.join(
        none, on=["image_id", "model", "seed"], how="left", suffix="_none", maintain_order="left"
    )
    off = rows_of(draft.predictions, calibrator="temperature", seed=2)
    draft.predictions = joined.with_columns(
        pl.when(off).then(f"{name}_none").otherwise(name).alias(name) for name in columns
    ).select(draft.predictions.columns)


@mutates("MVC306")
def refitted_at_the_external_site(draft: Draft) -> None:
    recalibrate(draft, ["temperature"], own=EXTERNAL)


@mutates("MVC306", "multiclass")
def three_classes_refitted_at_the_external_site(draft: Draft) -> None:
    recalibrate(draft, ["isotonic"], own=EXTERNAL)


@mutates("MVC306", "multilabel")
def refitted_for_a_subgroup(draft: Draft) -> None:
    recalibrate(draft, ["temperature"], own=pl.col("sex") == "female")


@mutates("MVC307")
def isotonic_map_that_falls(draft: Draft) -> None:
    """By so little that nothing else is wrong."""
    changed = []
    for record in draft.calibrators:
        if record.family == "isotonic":
            y = np.asarray(record.parameters["y"], dtype=np.float64)
            middle = int(np.flatnonzero(np.diff(y) == 0)[0])
            y[middle] += 1e-5
            record = record.model_copy(update={"parameters": {**record.parameters, "y": tuple(y.tolist())}})
        changed.append(record)
    draft.calibrators = changed
    reapply(draft, "isotonic")


def reapply(draft: Draft, name: str) -> None:
    """Map the rows of a calibrator by its entries as they now stand."""
    frames = [draft.predictions.filter(pl.col("calibrator") != name)]
    runs = draft.predictions.select("model", "seed").unique(maintain_order=True)
    for model, seed in runs.rows():
        maps = tuple(c for c in draft.calibrators if (c.model, c.seed, c.calibrator) == (model, seed, name))
        rows = uncalibrated(draft, model=model, seed=seed).filter(TEST | EXTERNAL)
        frames.append(applied(draft, maps, rows))
    draft.predictions = pl.concat(frames)


@mutates("MVC311", outcome=Outcome.FAILED)
def calib_patients_unlike_test(draft: Draft) -> None:
    calib = draft.splits.filter(pl.col("split") == "calib")["image_id"]
    sharp = pl.col("p_1") ** 3 / (pl.col("p_1") ** 3 + (1 - pl.col("p_1")) ** 3) * 0.2
    draft.predictions = draft.predictions.with_columns(
        p_1=pl.when(pl.col("image_id").is_in(calib.implode())).then(sharp).otherwise("p_1")
    )
    recalibrate(draft)


@mutates("MVC309", base=cross_fitted)
def patient_in_two_folds(draft: Draft) -> None:
    train = (pl.col("split") == "train") & (pl.int_range(pl.len()) % 2 == 0)
    draft.splits = draft.splits.with_columns(fold=pl.when(train).then((pl.col("fold") + 1) % 5).otherwise("fold"))
    draft.predictions = draft.predictions.drop("fold").join(
        draft.splits.select("image_id", "fold"), on="image_id", how="left", maintain_order="left"
    )


@mutates("MVC309", base=cross_fitted)
def out_of_fold_row_without_fold(draft: Draft) -> None:
    draft.predictions = set_cell(draft.predictions, first_row(draft, "none", split="train"), {"fold": None})


@mutates("MVC309", "multiclass", base=cross_fitted)
def fewer_folds_than_declared(draft: Draft) -> None:
    draft.record["calibration"]["cross_fit"]["folds"] = 10


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


@mutates("MVC310")
def entry_of_another_family(draft: Draft) -> None:
    draft.calibrators = [
        c.model_copy(update={"family": "platt"}) if (c.family, c.seed) == ("temperature", 2) else c
        for c in draft.calibrators
    ]


@mutates("MVC310", "multiclass")
def temperature_that_is_no_number(draft: Draft) -> None:
    draft.calibrators = [
        c.model_copy(update={"parameters": {"t": 1.5}}) if (c.family, c.seed) == ("temperature", 2) else c
        for c in draft.calibrators
    ]
