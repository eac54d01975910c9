"""The metrics table: columns, nulls with reasons, round trip, the same bytes for shuffled rows, whole or not at all."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scorer.results import read_metrics, scorecard_metrics, write_metrics
from scorer.scoring import Cohort, Run, Scores, score

COLUMNS = [
    "submission",
    "model",
    "seed",
    "calibrator",
    "slice_kind",
    "slice",
    "class",
    "metric",
    "reading",
    "bins_asked",
    "bins_used",
    "value",
    "lo",
    "hi",
    "method",
    "n_draws",
    "n_undefined",
    "n_images",
    "n_patients",
    "n_events",
    "reason",
]


def scored(order: list[int]) -> Scores:
    """Three classes, the last never a label, so that some values are undefined; rows given in ``order``."""
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1], [0.5, 0.2, 0.3]])
    cohort = Cohort(
        image_id=np.array(list("vwxyz"))[order],
        patient=np.array(list("aabbc"))[order],
        split=np.full(5, "test"),
        site=np.full(5, "home"),
        labels=np.array([0, 1, 1, 0, 0])[order],
        subgroups={},
    )
    return score(
        submission="s",
        kind="multiclass",
        classes=["k", "l", "m"],
        cohort=cohort,
        runs=[Run("net", 1, "none"), Run("net", 2, "none")],
        predictions=lambda run: (p if run.seed == 1 else p[:, [1, 0, 2]])[order],
        key="key",
        resamples=40,
    )


def test_columns_and_nulls(tmp_path: Path) -> None:
    scores = scored([0, 1, 2, 3, 4])
    write_metrics(scores, tmp_path / "metrics.parquet")
    table = pq.read_table(tmp_path / "metrics.parquet")
    assert table.column_names == COLUMNS
    assert table.schema.metadata[b"interval_level"] == b"0.95"
    records = table.to_pylist()
    assert len(records) == len(scores.rows)
    undefined = [r for r in records if r["value"] is None]
    assert {(r["metric"], r["class"]) for r in undefined} == {("auroc", "m"), ("auroc_macro", None)}
    assert all(r["reason"] and r["lo"] is None and r["hi"] is None for r in undefined)
    assert not any(math.isnan(r[name]) for r in records for name in ("value", "lo", "hi") if r[name] is not None)


def test_round_trip(tmp_path: Path) -> None:
    scores = scored([0, 1, 2, 3, 4])
    write_metrics(scores, tmp_path / "m.parquet")
    assert repr(read_metrics(tmp_path / "m.parquet")) == repr(scores.rows)


def test_no_rows(tmp_path: Path) -> None:
    write_metrics(Scores((), (), (), 0.95), tmp_path / "m.parquet")
    assert read_metrics(tmp_path / "m.parquet") == ()


def test_same_bytes_for_shuffled_rows(tmp_path: Path) -> None:
    for name, order in (("a", [0, 1, 2, 3, 4]), ("b", [3, 0, 4, 2, 1])):
        write_metrics(scored(order), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    write_metrics(replace(scored([0, 1, 2, 3, 4]), level=0.9), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_scorecard_is_strict_json() -> None:
    scores = scored([0, 1, 2, 3, 4])
    records = scorecard_metrics(scores)
    assert [list(record) for record in records] == [COLUMNS] * len(scores.rows)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    for record in records:
        assert (record["value"] is None) == (
            record["metric"] == "auroc_macro" or (record["class"] == "m" and record["metric"] == "auroc")
        )
        assert record["value"] is not None or record["reason"]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_unexplained_number_is_refused_and_the_old_file_stays(tmp_path: Path, bad: float) -> None:
    path = tmp_path / "m.parquet"
    scores = scored([0, 1, 2, 3, 4])
    write_metrics(scores, path)
    before = path.read_bytes()
    broken = replace(scores, rows=(replace(scores.rows[0], lo=bad),))
    with pytest.raises(ValueError, match="brier: lo is"):
        write_metrics(broken, path)
    with pytest.raises(ValueError, match="brier: lo is"):
        scorecard_metrics(broken)
    assert path.read_bytes() == before


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    path = tmp_path / "m.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr("scorer.results.pq.write_table", fail)
    with pytest.raises(OSError, match="disk full"):
        write_metrics(scored([0, 1, 2, 3, 4]), path)
    assert [one.name for one in tmp_path.iterdir()] == ["m.parquet"]
    assert path.read_bytes() == b"old"


def test_another_table_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"value": [0.1]}), tmp_path / "m.parquet")
    with pytest.raises(ValueError, match="columns of a metrics table"):
        read_metrics(tmp_path / "m.parquet")
