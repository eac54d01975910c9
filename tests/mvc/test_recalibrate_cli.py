"""``mvc recalibrate``: what it reads, what it writes, what it refuses."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from mvc.cli import app
from protocol.calibrators import CALIBRATORS
from protocol.submission import Family
from protocol.types import Kind
from submission.recalibration import METHOD_WORDS
from tests.builders import Draft, good_submission, rows_of, write
from tests.referee import decoding_here, quick_check, rejecting

NEW: tuple[Family, ...] = ("vector", "matrix", "dirichlet", "platt", "beta", "histogram", "scaling-binning")


def recalibrate(*arguments: str | Path) -> Result:
    with decoding_here():
        return CliRunner().invoke(app, ["recalibrate", *map(str, arguments)])


def uncalibrated(kind: Kind = "binary", more: tuple[Family, ...] = ()) -> Draft:
    """A submission before its calibrators are fitted."""
    draft = good_submission(kind)
    draft.predictions = draft.predictions.filter(calibrator="none")
    draft.calibrators = []
    draft.record["calibration"]["methods"] += [{"name": n, "family": n, **METHOD_WORDS[n]} for n in more]
    return draft


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_bundle_with_every_family_is_accepted_afterwards(kind: Kind, tmp_path: Path) -> None:
    folder = write(uncalibrated(kind, NEW), tmp_path / "b")
    done = recalibrate(folder, "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["runs"] == dict.fromkeys(("temperature", "isotonic", *NEW), 3)
    assert said["rows"] == 9 * 3 * 240
    assert rejecting(quick_check(folder)) == []


def test_the_result_is_that_of_the_library(tmp_path: Path) -> None:
    good = good_submission("multiclass")
    folder = write(uncalibrated("multiclass"), tmp_path / "b")
    assert recalibrate(folder / "predictions.parquet").exit_code == 0
    keys = ["model", "seed", "calibrator", "image_id"]
    made = pl.read_parquet(folder / "predictions.parquet")
    assert made.sort(keys).equals(good.predictions.sort(keys))
    records = CALIBRATORS.validate_json((folder / "calibrators.json").read_bytes())
    assert sorted(records, key=repr) == sorted(good.calibrators, key=repr)


@pytest.mark.parametrize("change", ["permuted", "null"])
def test_test_labels_are_never_read(change: str, tmp_path: Path) -> None:
    draft = uncalibrated("multiclass", ("platt",))
    first = write(draft, tmp_path / "one")
    hidden = pl.col("split").is_in(["test", "external"])
    other = pl.lit(None, pl.Int64) if change == "null" else pl.col("label").reverse()
    draft.splits = draft.splits.with_columns(label=pl.when(hidden).then(other).otherwise("label"))
    second = write(draft, tmp_path / "two")
    said = [recalibrate(folder).stdout.replace(str(folder), "") for folder in (first, second)]
    assert said[0] == said[1] != ""
    for name in ("predictions.parquet", "calibrators.json"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_only_the_named_method_and_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "b")
    before = files(folder)
    refused = recalibrate(folder, "--method", "temperature")
    assert refused.exit_code == 2
    assert "rows or parameters of temperature are there already; --force replaces them" in refused.stderr
    assert files(folder) == before
    frame = pl.read_parquet(folder / "predictions.parquet")
    kept = pl.col("calibrator") != "temperature"
    frame.with_columns(p_1=pl.when(kept).then("p_1").otherwise(0.5)).write_parquet(folder / "predictions.parquet")
    assert recalibrate(folder, "--method", "temperature", "--force").exit_code == 0
    made = pl.read_parquet(folder / "predictions.parquet")
    keys = ["seed", "calibrator", "image_id"]
    assert made.sort(keys).equals(frame.sort(keys))
    assert made.filter(kept).equals(frame.filter(kept))
    assert json.loads(before["calibrators.json"]) == json.loads((folder / "calibrators.json").read_text())


def test_another_file_is_written_instead(tmp_path: Path) -> None:
    folder = write(uncalibrated(), tmp_path / "b")
    before, out = files(folder), tmp_path / "new" / "p.parquet"
    assert "make it first" in recalibrate(folder, "--out", out).stderr
    out.parent.mkdir()
    assert recalibrate(folder, "--out", out).exit_code == 0
    assert sorted(files(out.parent)) == ["calibrators.json", "p.parquet"]
    assert files(folder) == before
    again = recalibrate(folder, "--out", out)
    assert (again.exit_code, "is there already; --force" in again.stderr) == (2, True)
    assert "must end in .parquet" in recalibrate(folder, "--out", tmp_path / "p.csv").stderr


@pytest.mark.parametrize("precision", [pl.Float32, pl.Float64])
def test_types_columns_and_logits_stay(precision: Any, tmp_path: Path) -> None:
    draft = uncalibrated("multiclass", ("vector",))
    p = [pl.col(f"p_{k}").cast(precision) for k in range(3)]
    z = [pl.col(f"p_{k}").log().cast(pl.Float32).alias(f"z_{k}") for k in range(3)]
    draft.predictions = draft.predictions.with_columns(*p, *z, pl.col("seed").cast(pl.Int16)).with_columns(
        pl.col("model").cast(pl.Categorical)
    )
    folder = write(draft, tmp_path / "b")
    assert recalibrate(folder).exit_code == 0
    made = pl.read_parquet(folder / "predictions.parquet")
    assert made.schema == draft.predictions.schema
    assert made.head(draft.predictions.height).equals(draft.predictions)
    new = made.tail(-draft.predictions.height)
    sums = new.select(pl.sum_horizontal(pl.col("z_0", "z_1", "z_2").exp())).to_series()
    assert (sums - 1.0).abs().max() < 1e-5  # type: ignore[operator]
    records = CALIBRATORS.validate_json((folder / "calibrators.json").read_bytes())
    inputs = {"temperature": "logits", "vector": "log-probabilities", "isotonic": "probabilities"}
    assert {r.family: r.input for r in records} == inputs
    assert rejecting(quick_check(folder)) == []


def test_a_list_column_gets_lists(tmp_path: Path) -> None:
    draft = uncalibrated("multiclass")
    spread = pl.concat_list("p_0", "p_1", "p_2").alias("probs")
    draft.predictions = draft.predictions.select("image_id", "model", "seed", "calibrator", spread)
    folder = write(draft, tmp_path / "b")
    done = recalibrate(folder)
    assert done.exit_code == 0, done.output
    assert pl.read_parquet(folder / "predictions.parquet").schema == draft.predictions.schema
    assert rejecting(quick_check(folder)) == []


@pytest.mark.parametrize(("printed", "wanted"), [(3, 6), (9, 9)])
def test_a_csv_keeps_its_decimals(printed: int, wanted: int, tmp_path: Path) -> None:
    draft = uncalibrated()
    draft.record["release"]["predictions"]["file"] = "predictions.csv"
    folder = write(draft, tmp_path / "b")
    frame = draft.predictions.with_columns(fold=pl.lit(None, pl.Int64)).rename({"p_1": "p_malignant"})
    (folder / "predictions.parquet").unlink()
    frame.write_csv(folder / "predictions.csv", float_precision=printed)
    before = (folder / "predictions.csv").read_text()
    assert recalibrate(folder / "predictions.csv").exit_code == 0
    after = (folder / "predictions.csv").read_text()
    assert after.startswith(before)
    assert {len(line.split(",")[4].partition(".")[2]) for line in after[len(before) :].splitlines()} == {wanted}
    assert rejecting(quick_check(folder / "predictions.csv")) == []


def cross_fit(kind: Kind = "binary") -> Draft:
    """The calib images become train images with folds by patient."""
    draft = uncalibrated(kind)
    fold = pl.when(pl.col("split") == "calib").then(pl.col("patient_id").rank("dense").cast(pl.Int64) % 4)
    split = pl.when(pl.col("split") == "calib").then(pl.lit("train")).otherwise("split")
    draft.splits = draft.splits.with_columns(fold=fold, split=split)
    draft.predictions = draft.predictions.join(draft.splits.select("image_id", "fold"), on="image_id", how="left")
    draft.record["calibration"] |= {"fitted_on": "train", "cross_fit": {"folds": 4}}
    return draft


def test_cross_fit_pools_the_out_of_fold_rows(tmp_path: Path) -> None:
    plain = write(uncalibrated(), tmp_path / "plain")
    crossed = write(cross_fit(), tmp_path / "crossed")
    for folder in (plain, crossed):
        assert recalibrate(folder).exit_code == 0
    # the same rows under another name: the same maps
    assert (plain / "calibrators.json").read_bytes() == (crossed / "calibrators.json").read_bytes()
    made = pl.read_parquet(crossed / "predictions.parquet").filter(pl.col("calibrator") != "none")
    assert made["fold"].null_count() == made.height == 2 * 3 * 240
    assert rejecting(quick_check(crossed)) == []


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("splits", "add the column fold to splits.parquet: the fold of every out-of-fold train image"),
        ("predictions", "the predictions have no column fold, and the record declares cross_fit (MVC309): add it"),
    ],
)
def test_cross_fit_without_folds_is_said(table: str, said: str, tmp_path: Path) -> None:
    draft = cross_fit()
    setattr(draft, table, getattr(draft, table).drop("fold"))
    folder = write(draft, tmp_path / "b")
    before = files(folder)
    done = recalibrate(folder)
    assert (done.exit_code, files(folder)) == (2, before)
    assert said in done.stderr


def no_calib(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(split=pl.col("split").replace("calib", "val"))


def no_label(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(label=pl.when(pl.col("split") != "calib").then("label"))


def a_row_missing(draft: Draft) -> None:
    image = draft.splits.filter(split="calib")["image_id"][0]
    draft.predictions = draft.predictions.filter(~rows_of(draft.predictions, image_id=image, seed=2))


def a_test_row_missing(draft: Draft) -> None:
    image = draft.splits.filter(split="test")["image_id"][0]
    draft.predictions = draft.predictions.filter(pl.col("image_id") != image)


def a_row_twice(draft: Draft) -> None:
    draft.predictions = pl.concat([draft.predictions, draft.predictions.head(1)])


def broken(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(p_1=pl.lit(1.5))


def unknown_words(draft: Draft) -> None:
    draft.record["calibration"]["methods"][1]["loss"] = "focal [bold]loss"


def no_grid(draft: Draft) -> None:
    draft.record["calibration"]["methods"][1] |= {"loss": "ece", "bounds": "none"}


def fitted_elsewhere(draft: Draft) -> None:
    draft.record["calibration"]["fitted_on"] = "val"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (no_calib, "there is no image in calib: reserve patients as split calib, or declare calibration.cross_fit"),
        (no_label, "120 images that the calibrators are fitted on have no label (MVC108): give the labels of calib"),
        (a_row_missing, "model densenet121, seed 2: no row of calibrator none for images of calib: "),
        (a_test_row_missing, "no row of calibrator none for images of test or external: "),
        (a_row_twice, "two rows of calibrator none for one image (MVC405): "),
        (broken, "wanted a finite number from 0 to 1, no negative zero; mend it first, mvc check shows everything"),
        (unknown_words, "loss of method temperature is not in words that the referee knows"),
        (no_grid, "method temperature can't be fitted: the loss ece is fitted over a declared grid"),
        (fitted_elsewhere, "the record says fitted_on: val, but fits are on calib alone (MVC302)"),
    ],
)
def test_what_can_not_be_fitted_is_said_and_nothing_is_written(change: Any, said: str, tmp_path: Path) -> None:
    draft = uncalibrated()
    change(draft)
    folder = write(draft, tmp_path / "b")
    before = files(folder)
    done = recalibrate(folder)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stdout == ""
    assert files(folder) == before


def test_methods_are_chosen_among_the_declared(tmp_path: Path) -> None:
    draft = uncalibrated()
    draft.record["calibration"]["methods"].append({"name": "mine", "family": "custom"})
    folder = write(draft, tmp_path / "b")
    for name, said in (
        ("platt", "no declared method; declared and fitted here: temperature, isotonic"),
        ("mine", "nothing to fit"),
    ):
        done = recalibrate(folder, "--method", name)
        assert done.exit_code == 2
        assert said in done.stderr
    assert recalibrate(folder).exit_code == 0
    assert set(pl.read_parquet(folder / "predictions.parquet")["calibrator"]) == {"none", "temperature", "isotonic"}


def test_an_absent_class_is_noted_and_the_rest_fitted(tmp_path: Path) -> None:
    draft = uncalibrated("multiclass", ("matrix",))
    draft.splits = draft.splits.with_columns(
        label=pl.when((pl.col("split") == "calib") & (pl.col("label") == 2)).then(0).otherwise("label")
    )
    done = recalibrate(write(draft, tmp_path / "b"))
    assert done.exit_code == 0
    assert "note: class severe has no image in calib" in done.stdout
    assert "note: 3 fits without a finite optimum" in done.stdout


def test_the_declared_grid_of_a_calibration_error_is_searched(tmp_path: Path) -> None:
    draft = uncalibrated()
    method = draft.record["calibration"]["methods"][1]
    method |= {"loss": "ece with 10 equal-width bins", "bounds": "none", "grid": "0.5 to 4 by 0.5"}
    folder = write(draft, tmp_path / "b")
    assert recalibrate(folder, "--method", "temperature").exit_code == 0
    records = CALIBRATORS.validate_json((folder / "calibrators.json").read_bytes())
    assert {r.parameters["temperature"] for r in records} <= {k / 2 for k in range(1, 9)}
    assert "Expected calibration error with 10 equal-width bins" in records[0].objective


def test_an_archive_and_a_missing_bundle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"PK\x05\x06" + bytes(18))
    assert recalibrate(tmp_path / "a.zip").exit_code == 2
    assert recalibrate(tmp_path / "nothing").exit_code == 2
