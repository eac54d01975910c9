"""Tables on disk: columns, nulls with reasons, round trips, the same bytes for shuffled rows, whole or not at all."""

import json
import math
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from scorer.metrics import FAMILIES
from scorer.results import SideFiles, read_metrics, read_replicates, scorecard_metrics, write_metrics
from scorer.rows import Curves, Replicates, Row, Run, Scores, Sinks
from scorer.scoring import Cohort, TaskSet, score

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
    "cutoff",
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
RUN_COLUMNS = ["submission", "model", "seed", "calibrator", "slice_kind", "slice"]
HEADLINE = ("brier", "ece", "auroc_macro", "auroc", "auroc_macro_present")
ORDER = [0, 1, 2, 3, 4]


def scored(
    order: list[int], families: tuple[str, ...] = ("proper", "mass", "rank", "selective"), sinks: Sinks | None = None
) -> Scores:
    """Three classes, the last never a label, so that some values are undefined; rows given in ``order``."""
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.5, 0.1], [0.3, 0.6, 0.1], [0.6, 0.3, 0.1], [0.5, 0.2, 0.3]])
    cohort = Cohort(
        image_id=np.array(list("vwxyz"))[order],
        patient=np.array(list("aabbc"))[order],
        split=np.full(5, "test"),
        site=np.full(5, "home"),
        labels=np.array([0, 1, 1, 0, 0])[order],
        subgroups={"sex": np.array(list("fffmm"))[order]},
    )
    return score(
        submission="s",
        task=TaskSet("multiclass", ["k", "l", "m"], families=families),
        cohort=cohort,
        runs=[Run("net", 1, "none"), Run("net", 2, "none")],
        predictions=lambda run: (p if run.seed == 1 else p[:, [1, 0, 2]])[order],
        key="key",
        resamples=40,
        sinks=sinks,
    )


# metrics.parquet


def test_columns_and_nulls(tmp_path: Path) -> None:
    scores = scored(ORDER)
    write_metrics(scores, tmp_path / "metrics.parquet")
    table = pq.read_table(tmp_path / "metrics.parquet")
    assert table.column_names == COLUMNS
    assert table.schema.metadata[b"interval_level"] == b"0.95"
    records = table.to_pylist()
    assert len(records) == len(scores.rows)
    undefined = [r for r in records if r["value"] is None and r["slice"] == "all"]
    areas = {(metric, class_) for metric in ("auroc", "auprc") for class_ in ("m",)}
    assert {(r["metric"], r["class"]) for r in undefined} == areas | {("auroc_macro", None), ("auprc_macro", None)}
    for record in records:
        numbers = [record[name] for name in ("value", "lo", "hi")]
        assert not any(math.isnan(number) for number in numbers if number is not None)
        assert (None in numbers) == (record["reason"] is not None)
    assert {r["cutoff"] for r in records if r["metric"] == "risk_at_coverage"} == {0.9, 0.8, 0.5}
    assert {r["cutoff"] for r in records if r["metric"] != "risk_at_coverage"} == {None}


def test_columns_are_the_fields_of_a_row() -> None:
    assert [field.name.removesuffix("_") for field in fields(Row)] == COLUMNS


def test_round_trip_of_the_full_set(tmp_path: Path) -> None:
    scores = scored(ORDER, FAMILIES)
    write_metrics(scores, tmp_path / "m.parquet")
    assert repr(read_metrics(tmp_path / "m.parquet")) == repr(scores.rows)


def test_no_rows(tmp_path: Path) -> None:
    write_metrics(Scores((), (), (), 0.95), tmp_path / "m.parquet")
    assert read_metrics(tmp_path / "m.parquet") == ()


def test_same_bytes_for_shuffled_rows(tmp_path: Path) -> None:
    for name, order in (("a", ORDER), ("b", [3, 0, 4, 2, 1])):
        write_metrics(scored(order), tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    write_metrics(replace(scored(ORDER), level=0.9), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() != (tmp_path / "b").read_bytes()


def test_scorecard_is_strict_json() -> None:
    scores = scored(ORDER, FAMILIES)
    records = scorecard_metrics(scores.rows)
    assert [list(record) for record in records] == [COLUMNS] * len(scores.rows)
    assert json.loads(json.dumps(records, allow_nan=False)) == records
    for record, row in zip(records, scores.rows, strict=True):
        assert (record["value"] is None) == math.isnan(row.value)
        assert record["value"] is not None or record["reason"]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_an_unexplained_number_is_refused_and_the_old_file_stays(tmp_path: Path, bad: float) -> None:
    path = tmp_path / "m.parquet"
    scores = scored(ORDER)
    write_metrics(scores, path)
    before = path.read_bytes()
    broken = replace(scores, rows=(replace(scores.rows[0], lo=bad),))
    with pytest.raises(ValueError, match="brier: lo is"):
        write_metrics(broken, path)
    with pytest.raises(ValueError, match="brier: lo is"):
        scorecard_metrics(broken.rows)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["m.parquet"]


def test_infinity_is_refused_even_with_a_reason() -> None:
    scores = scored(ORDER)
    with pytest.raises(ValueError, match="hi is inf"):
        scorecard_metrics([replace(scores.rows[0], hi=math.inf, reason="large")])


def failing(*_: object, **__: object) -> None:
    raise OSError("disk full")


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.parquet"
    path.write_bytes(b"old")
    monkeypatch.setattr("scorer.results.pq.ParquetWriter.write_table", failing)
    with pytest.raises(OSError, match="disk full"):
        write_metrics(scored(ORDER), path)
    assert [one.name for one in tmp_path.iterdir()] == ["m.parquet"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("read", [read_metrics, read_replicates])
def test_another_table_is_refused(tmp_path: Path, read: Callable[[Path], Any]) -> None:
    pq.write_table(pa.table({"value": [0.1]}), tmp_path / "m.parquet")
    with pytest.raises(ValueError, match="columns of a"):
        read(tmp_path / "m.parquet")


# replicates.parquet and curves.parquet


def side_files(folder: Path, headline: tuple[str, ...] = HEADLINE, key: str = "task's key") -> SideFiles:
    folder.mkdir(exist_ok=True)
    return SideFiles(
        folder / "replicates.parquet", folder / "curves.parquet", submission="s", headline=headline, key=key
    )


def written(folder: Path, order: list[int] = ORDER, key: str = "task's key") -> tuple[list[Replicates], list[Curves]]:
    """Write side files, and return what they were given."""
    replicates: list[Replicates] = []
    curves: list[Curves] = []
    with side_files(folder, key=key) as sinks:

        def keep_replicates(made: Replicates) -> None:
            replicates.append(made)
            sinks.replicates(made)

        def keep_curves(made: Curves) -> None:
            curves.append(made)
            sinks.curves(made)

        scored(order, sinks=Sinks(keep_replicates, keep_curves))
    return replicates, curves


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_replicates_are_those_of_the_headline(tmp_path: Path) -> None:
    made, _ = written(tmp_path)
    found = read_replicates(tmp_path / "replicates.parquet")
    slices = [("test", "all"), ("subgroup", "sex=f"), ("subgroup", "sex=m")]
    named = ["brier", "ece", "auroc_macro", "auroc_macro_present"]
    assert [(one.slice_kind, one.slice, one.seed) for one in found] == [
        (*slice_, seed) for slice_ in slices for seed in ("1", "2", "mean") for _ in named
    ]
    assert [one.metric for one in found] == named * 9
    assert {(one.submission, one.model, one.calibrator, one.class_) for one in found} == {("s", "net", "none", None)}
    wanted = {
        (one.slice, one.seed, point.metric): (point.value, one.values[:, i])
        for one in made
        for i, point in enumerate(one.points)
        if point.class_ is None
    }
    for one in found:
        value, draws = wanted[one.slice, one.seed, one.metric]
        assert one.value == pytest.approx(value, abs=0.0, nan_ok=True)
        assert one.draws.dtype == np.float64
        assert one.draws.tobytes() == draws.tobytes()


def test_undefined_replicates_are_nan_and_an_undefined_value_is_null(tmp_path: Path) -> None:
    written(tmp_path)
    table = pq.read_table(tmp_path / "replicates.parquet")
    records = [one for one in table.to_pylist() if one["slice"] == "all"]
    by_name = {(one["seed"], one["metric"]): one for one in records}
    assert by_name["1", "auroc_macro"]["value"] is None
    assert all(math.isnan(draw) for draw in by_name["1", "auroc_macro"]["draws"])
    present = by_name["1", "auroc_macro_present"]
    assert present["value"] is not None
    assert 0 < sum(math.isnan(draw) for draw in present["draws"]) < 40
    assert not any(draw is None for record in records for draw in record["draws"])
    assert table["draws"].combine_chunks().values.null_count == 0


def test_columns_of_replicates(tmp_path: Path) -> None:
    written(tmp_path)
    table = pq.read_table(tmp_path / "replicates.parquet")
    assert table.column_names == [*RUN_COLUMNS, "class", "metric", "value", "draws"]
    assert table.schema.metadata[b"draw_key"] == b"task's key"


def test_curves_have_a_row_a_point(tmp_path: Path) -> None:
    _, made = written(tmp_path)
    table = pq.read_table(tmp_path / "curves.parquet")
    numbers = ["x", "y", "lo", "hi", "n_images", "left", "right"]
    assert table.column_names == [*RUN_COLUMNS, "class", "reading", "curve", "point", *numbers]
    assert table.schema.metadata[b"draw_key"] == b"task's key"
    records = iter(table.to_pylist())
    for one in made:
        assert one.slice_kind == "test"
        for curve in one.curves:
            for i in range(len(curve.x)):
                record = next(records)
                assert [record[name] for name in RUN_COLUMNS] == ["s", "net", one.seed, "none", "test", "all"]
                names = [record[name] for name in ("class", "reading", "curve", "point")]
                assert names == [curve.class_, curve.reading, curve.kind, i]
                for name in numbers:
                    number = getattr(curve, name)[i].item()
                    assert record[name] == (None if math.isnan(number) else number)
    assert next(records, None) is None
    kinds = {(one["curve"], one["class"]) for one in table.to_pylist()}
    reliability = ("equal-width", "equal-mass", "corp")
    assert kinds == {("risk-coverage", None), *((kind, class_) for kind in reliability for class_ in (None, *"klm"))}


def test_ece_can_be_read_off_its_curve(tmp_path: Path) -> None:
    written(tmp_path)
    table = pq.read_table(tmp_path / "curves.parquet").to_pylist()
    for row in scored(ORDER).rows:
        if row.metric in ("ece", "classwise_ece") and row.slice == "all" and row.seed != "mean":
            points = [
                one
                for one in table
                if (one["curve"], one["class"], one["seed"]) == ("equal-mass", row.class_, row.seed)
            ]
            if row.metric == "classwise_ece" and row.class_ is None:
                continue  # a mean over classes
            gaps = sum(one["n_images"] * abs(one["y"] - one["x"]) for one in points) / row.n_images
            assert gaps == pytest.approx(row.value, abs=1e-12)


def test_side_files_are_the_same_bytes_for_shuffled_rows(tmp_path: Path) -> None:
    written(tmp_path / "a")
    written(tmp_path / "b", [3, 0, 4, 2, 1])
    assert files(tmp_path / "a") == files(tmp_path / "b")
    assert set(files(tmp_path / "a")) == {"replicates.parquet", "curves.parquet"}
    written(tmp_path / "c", key="another key")
    assert not set(files(tmp_path / "a").values()) & set(files(tmp_path / "c").values())


def test_side_files_may_stay_empty(tmp_path: Path) -> None:
    with side_files(tmp_path):
        pass
    assert read_replicates(tmp_path / "replicates.parquet") == ()
    assert pq.read_table(tmp_path / "curves.parquet").num_rows == 0


def test_metrics_that_are_no_headline_leave_no_replicates(tmp_path: Path) -> None:
    with side_files(tmp_path, headline=()) as sinks:
        scored(ORDER, sinks=sinks)
    assert read_replicates(tmp_path / "replicates.parquet") == ()
    assert pq.read_table(tmp_path / "curves.parquet").num_rows > 0


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_interrupted_scoring_leaves_no_side_files(tmp_path: Path, error: type[BaseException]) -> None:
    (tmp_path / "curves.parquet").write_bytes(b"old")

    def interrupted() -> None:
        with side_files(tmp_path) as sinks:
            scored(ORDER, sinks=sinks)
            raise error("stop")

    with pytest.raises(error, match="stop"):
        interrupted()
    assert files(tmp_path) == {"curves.parquet": b"old"}


def test_nothing_is_there_before_the_end(tmp_path: Path) -> None:
    with side_files(tmp_path) as sinks:
        scored(ORDER, sinks=sinks)
        assert not {"replicates.parquet", "curves.parquet"} & set(files(tmp_path))
    assert set(files(tmp_path)) == {"replicates.parquet", "curves.parquet"}


def test_replicates_of_runs_are_paired_draw_by_draw(tmp_path: Path) -> None:
    written(tmp_path)
    rows = {
        (row.seed, row.metric): row for row in read_replicates(tmp_path / "replicates.parquet") if row.slice == "all"
    }
    one, two, mean = (rows[seed, "brier"].draws for seed in ("1", "2", "mean"))
    halves: NDArray[np.float64] = (one + two) / 2
    assert mean == pytest.approx(halves, abs=1e-15)


def test_nothing_is_left_when_one_of_two_files_cannot_be_opened(tmp_path: Path) -> None:
    files = SideFiles(tmp_path / "r.parquet", tmp_path / "no" / "c.parquet", submission="s", headline=(), key="k")
    with pytest.raises(OSError), files:  # noqa: PT011 - the file system's own
        pass
    assert list(tmp_path.iterdir()) == []
