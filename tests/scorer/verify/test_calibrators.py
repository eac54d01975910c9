"""The referee of calibrators on whole submissions: what it refuses, what it lets pass, what it can't tell."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from protocol.findings import Outcome, RuleResult
from protocol.types import Kind
from tests.builders import Draft, edit_json, good_submission, set_cell, write
from tests.mutations.bases import customised
from tests.mutations.tables import as_csv
from tests.recalibrating import columns_of, labels_of, recalibrate, uncalibrated
from tests.referee import quick_check, result_of

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
OURS = ("MVC303", "MVC304", "MVC305", "MVC306", "MVC307", "MVC310")
TEST = pl.col("split") == "test"


def said(draft: Draft, folder: Path) -> dict[str, RuleResult]:
    """What the rules of this step say."""
    verdict = quick_check(write(draft, folder))
    return {rule: result_of(verdict, rule) for rule in OURS}


def failing(results: dict[str, RuleResult]) -> list[str]:
    return [rule for rule, result in results.items() if result.outcome is Outcome.FAILED]


def with_logits(draft: Draft, change: Callable[[np.ndarray[Any, Any], pl.DataFrame], np.ndarray[Any, Any]]) -> None:
    """Logits beside every row; ``change`` sees the true ones and the rows, and makes those of none."""
    names = columns_of(draft)
    p = draft.predictions.select(names).to_numpy()
    z = np.log(np.maximum(p, 1e-300))
    if draft.task["kind"] != "multiclass":
        z = z - np.log(np.maximum(1 - p, 1e-300))
    rows = draft.predictions.join(draft.splits, on="image_id", how="left", maintain_order="left")
    none = (draft.predictions["calibrator"] == "none").to_numpy()[:, None]
    z = np.where(none, change(z, rows), z)
    draft.predictions = draft.predictions.with_columns(
        pl.Series(f"z_{name[2:]}", z[:, k]) for k, name in enumerate(names)
    )


def on_logits(draft: Draft, name: str) -> None:
    draft.calibrators = [
        c.model_copy(update={"input": "logits"}) if c.calibrator == name else c for c in draft.calibrators
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_logits_beside_the_rows_of_none_serve_maps_of_logits(kind: Kind, tmp_path: Path) -> None:
    draft = good_submission(kind)
    shift = 1000.0 if kind == "multiclass" else 0.0
    with_logits(draft, lambda z, rows: z + shift)
    on_logits(draft, "temperature")
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    assert results["MVC303"].outcome is Outcome.PASSED
    assert results["MVC305"].outcome is Outcome.PASSED


def test_logits_that_do_not_give_the_probabilities_are_refused(tmp_path: Path) -> None:
    """Else a temperature tuned on test passes for one of calib by logits that are chosen for it."""
    draft = good_submission()
    with_logits(draft, lambda z, rows: z * 1.3)
    on_logits(draft, "temperature")
    results = said(draft, tmp_path / "s")
    assert "MVC305" in failing(results)
    finding = next(f for f in results["MVC305"].findings if "logits of calibrator none" in f.where)
    assert "as the stored logits give it" in finding.wanted


def test_logits_that_float_arithmetic_can_t_hold_count_as_none(tmp_path: Path) -> None:
    """An offset of 1e9 would hide any difference in its rounding."""
    draft = good_submission("multiclass")
    recalibrate(draft, ["temperature"], on=TEST)
    with_logits(draft, lambda z, rows: 1.7 * z + 1e9)
    on_logits(draft, "temperature")
    assert failing(said(draft, tmp_path / "s")) == ["MVC303"]


def test_maps_of_logits_without_logits_are_not_verified(tmp_path: Path) -> None:
    draft = good_submission("multiclass")
    method = next(m for m in draft.record["calibration"]["methods"] if m["name"] == "temperature")
    draft.record["calibration"]["methods"].append({**method, "name": "vector", "family": "vector", "bounds": "none"})
    recalibrate(draft, ["vector"])
    on_logits(draft, "vector")
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    for rule in ("MVC303", "MVC305", "MVC306"):
        assert results[rule].outcome is Outcome.UNVERIFIED
        assert "vector reads logits, and the predictions hold none" in results[rule].reason
    assert results["MVC304"].outcome is Outcome.PASSED


def test_the_worst_row_comes_first_with_its_image_and_both_values(tmp_path: Path) -> None:
    draft = good_submission()
    tested = draft.splits.filter(TEST)["image_id"].implode()
    chosen = (pl.col("calibrator") == "temperature") & pl.col("image_id").is_in(tested)
    rows = draft.predictions.with_row_index("n").filter(chosen)["n"].to_list()
    for row, by in ((rows[0], 0.01), (rows[5], 0.2), (rows[9], 0.05)):
        value = draft.predictions["p_1"][row]
        draft.predictions = set_cell(draft.predictions, row, {"p_1": value + (by if value < 0.5 else -by)})
    results = said(draft, tmp_path / "s")
    assert failing(results) == ["MVC305"]
    finding = results["MVC305"].findings[0]
    assert (finding.count, finding.where) == (3, "predictions.parquet: calibrator temperature")
    assert draft.predictions["image_id"][rows[5]] in finding.samples[0]
    assert draft.predictions["image_id"][rows[5]][:8] in finding.saw
    assert f"p_1 {draft.predictions['p_1'][rows[5]]:.6g}" in finding.saw
    assert draft.predictions["image_id"][rows[9]] in finding.samples[1]


@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_in_single_precision_pass(kind: Kind, tmp_path: Path) -> None:
    draft = good_submission(kind)
    draft.predictions = draft.predictions.with_columns(pl.col(columns_of(draft)).cast(pl.Float32))
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    assert results["MVC303"].outcome is results["MVC305"].outcome is Outcome.PASSED


def test_a_temperature_that_its_bounds_choose_is_not_verified(tmp_path: Path) -> None:
    """Bounds of 1.9 to 20 make 1.9 of any smaller optimum: declared after a look at test, they tune by it."""
    draft = good_submission("multiclass")
    method = next(m for m in draft.record["calibration"]["methods"] if m["name"] == "temperature")
    method["bounds"] = "temperature from 4.5 to 20"
    recalibrate(draft, ["temperature"])
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    assert results["MVC303"].outcome is Outcome.UNVERIFIED
    assert "the declared bounds or grid decide the temperature" in results["MVC303"].reason


def test_words_that_are_not_understood_are_not_verified(tmp_path: Path) -> None:
    draft = good_submission()
    method = next(m for m in draft.record["calibration"]["methods"] if m["name"] == "temperature")
    method["penalty"] = "whatever worked"
    results = said(draft, tmp_path / "s")
    assert results["MVC303"].outcome is Outcome.UNVERIFIED
    assert results["MVC305"].outcome is Outcome.PASSED


@pytest.mark.parametrize("change", ["class of a binary task", "class out of range", "other input"])
def test_entries_that_are_no_map_of_their_run(change: str, tmp_path: Path) -> None:
    draft = good_submission("multilabel" if change == "class out of range" else "binary")
    first = next(c for c in draft.calibrators if c.family == "temperature")
    added = {
        "class of a binary task": first.model_copy(update={"class_index": 1}),
        "class out of range": first.model_copy(update={"class_index": 7}),
        "other input": first.model_copy(update={"input": "probabilities"}),
    }[change]
    if change == "other input":
        draft.calibrators = [added if c is first else c for c in draft.calibrators]
    else:
        draft.calibrators.append(added)
    assert failing(said(draft, tmp_path / "s")) == ["MVC310"]


def test_two_entries_for_one_run(tmp_path: Path) -> None:
    """The second says another temperature: which one was applied?"""
    draft = good_submission()

    def doubled(folder: Path) -> None:
        edit_json(folder / "calibrators.json", lambda entries: entries.append({**entries[0], "objective": "again"}))

    draft.after.append(doubled)
    assert "MVC310" in failing(said(draft, tmp_path / "s"))


def test_an_entry_of_an_undeclared_run_is_not_read(tmp_path: Path) -> None:
    draft = good_submission()
    draft.calibrators.append(draft.calibrators[0].model_copy(update={"seed": 99}))
    assert failing(said(draft, tmp_path / "s")) == []


def test_a_custom_map_without_rows_is_no_crash(tmp_path: Path) -> None:
    draft = customised("binary")
    draft.predictions = draft.predictions.filter(pl.col("calibrator") != "house")
    results = said(draft, tmp_path / "s")
    assert Outcome.CRASHED not in {result.outcome for result in results.values()}


def test_labels_of_test_change_nothing_but_what_the_host_sees(tmp_path: Path) -> None:
    draft, other = good_submission(), good_submission()
    other.splits = other.splits.with_columns(
        label=pl.when(TEST).then(pl.col("label").reverse()).otherwise(pl.col("label"))
    )
    assert (
        labels_of(draft, uncalibrated(draft, seed=1)).tolist() != labels_of(other, uncalibrated(other, seed=1)).tolist()
    )
    first, second = said(draft, tmp_path / "a"), said(other, tmp_path / "b")
    for rule in ("MVC303", "MVC305", "MVC306", "MVC307"):
        assert first[rule] == second[rule]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("decimals", "outcome"), [(6, Outcome.PASSED), (4, Outcome.PASSED), (2, Outcome.UNVERIFIED)])
def test_printed_probabilities_pass_but_of_few_decimals_nothing_can_be_told(
    kind: Kind, decimals: int, outcome: Outcome, tmp_path: Path
) -> None:
    draft = good_submission(kind)
    rounded = draft.predictions.with_columns(pl.col(columns_of(draft)).round(decimals))
    as_csv(draft, rounded.write_csv(float_precision=decimals))
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    for rule in ("MVC303", "MVC305", "MVC306"):
        assert results[rule].outcome is outcome
    if decimals == 2:
        assert "probabilities are known to 0.01 only, 0.0001 is wanted" in results["MVC303"].reason


def test_half_precision_passes(tmp_path: Path) -> None:
    draft = good_submission("binary")
    draft.predictions = draft.predictions.with_columns(pl.col("p_1").cast(pl.Float32))
    half = draft.predictions["p_1"].to_numpy().astype(np.float16)

    def pack(folder: Path) -> None:
        table = pq.read_table(folder / "predictions.parquet")
        place = table.schema.get_field_index("p_1")
        pq.write_table(table.set_column(place, "p_1", pa.array(half)), folder / "predictions.parquet")

    draft.after.append(pack)
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    assert results["MVC305"].outcome is Outcome.PASSED


def test_a_run_of_saturated_rows_is_not_verified(tmp_path: Path) -> None:
    """Of a third of the rows four decimals say 0 or 1, and nothing of what lies behind them."""
    draft = good_submission()
    odds = 6.0 * (pl.col("p_1") / (1 - pl.col("p_1"))).log()
    draft.predictions = draft.predictions.with_columns(
        pl.when(pl.col("calibrator") == "none").then(1 / (1 + (-odds).exp())).otherwise("p_1").alias("p_1")
    )
    recalibrate(draft)
    as_csv(draft, draft.predictions.write_csv(float_precision=4))
    results = said(draft, tmp_path / "s")
    assert failing(results) == []
    assert results["MVC305"].outcome is Outcome.UNVERIFIED
    assert "are saturated, without logits" in results["MVC305"].reason
