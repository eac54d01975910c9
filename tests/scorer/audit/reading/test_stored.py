"""Files that store types: Parquet, NumPy arrays, JSON in the shapes that predictions come in."""

import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scorer.audit.reading import read
from scorer.audit.shapes import AuditError, Loaded
from tests.splits.datasets.real import released

P = np.array([[0.25, 0.75], [0.5, 0.5], [1.0, 0.0]])


def stored(folder: Path, document: Any, name: str = "p.json") -> tuple[Loaded, ...]:
    """The tables of a JSON document."""
    (folder / name).write_text(json.dumps(document), encoding="utf-8")
    return read(folder / name)


def test_parquet_keeps_types(tmp_path: Path) -> None:
    pl.DataFrame(
        {
            "id": pl.Series(["a ", "b", ""]),
            "half": pl.Series([0.5, None, float("nan")], dtype=pl.Float32),
            "full": [0.1, 0.2, 0.3],
            "n": pl.Series([1, 2, None], dtype=pl.UInt8),
            "yes": [True, False, None],
            "kind": pl.Series(["x", "y", "x"], dtype=pl.Categorical),
            "day": [datetime.date(2020, 1, 2)] * 3,
            "money": pl.Series(["1.25", "2.50", "3"]).cast(pl.Decimal(10, 2)),
            "probs": pl.Series(P.tolist(), dtype=pl.List(pl.Float32)),
            "ragged": [[1.0], [1.0, 2.0], []],
            "text": ["0.5", "1", "nan"],
        }
    ).write_parquet(tmp_path / "p.parquet")
    (loaded,) = read(tmp_path / "p.parquet")
    frame = loaded.frame
    assert frame["id"].to_list() == ["a", "b", None]
    assert frame["half"].to_list() == [0.5, None, None]
    assert frame["n"].to_list() == [1, 2, None]
    assert frame["n"].dtype == pl.Int64
    assert frame["yes"].to_list() == ["true", "false", None]
    assert frame["kind"].to_list() == ["x", "y", "x"]
    assert frame["day"][0] == "2020-01-02"
    assert frame["text"].to_list() == [0.5, 1.0, None]
    assert frame.select("probs_0", "probs_1").to_numpy().tolist() == P.tolist()
    assert "ragged" not in frame.columns
    assert any("'ragged'" in note for note in loaded.notes)
    floats = {"half": "float32", "full": "float64", "money": "decimals:2", "text": "decimals:1"}
    assert dict(loaded.precision) == {**floats, "probs_0": "float32", "probs_1": "float32"}


def test_an_array(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(P.astype(np.float16)))
    (loaded,) = read(tmp_path / "a.npy")
    assert loaded.frame.columns == ["column_1", "column_2"]
    assert not loaded.header
    assert loaded.frame.to_numpy().tolist() == P.tolist()
    assert loaded.precision["column_1"] == "float16"
    np.save(tmp_path / "b.npy", P[:, None, :])
    assert read(tmp_path / "b.npy")[0].frame.to_numpy().tolist() == P.tolist()
    np.save(tmp_path / "b.npy", P[None])
    assert read(tmp_path / "b.npy")[0].frame.to_numpy().tolist() == P.tolist()
    fields = np.array([("a", 0.5), ("b", 0.25)], dtype=[("id", "U3"), ("p", "f4")])
    np.save(tmp_path / "c.npy", fields)
    (loaded,) = read(tmp_path / "c.npy")
    assert loaded.frame.to_dict(as_series=False) == {"id": ["a", "b"], "p": [0.5, 0.25]}
    assert loaded.header


def test_arrays_by_name(tmp_path: Path) -> None:
    ids = np.array([b"a", b"b", b"c"])
    np.savez(tmp_path / "a.npz", probs=P, labels=np.array([1, 0, 0]), ids=ids, bools=np.array([True, False, True]))
    (loaded,) = read(tmp_path / "a.npz")
    assert loaded.frame.columns == ["probs_0", "probs_1", "labels", "ids", "bools"]
    assert loaded.header
    assert loaded.frame["ids"].to_list() == ["a", "b", "c"]
    assert loaded.frame["bools"][0] == "true"
    np.savez_compressed(tmp_path / "b.npz", val_p=P, test_p=P[:2], test_y=np.array([1, 0]), n=np.array(3))
    loaded_two = read(tmp_path / "b.npz")
    assert [one.name.split(": ")[1] for one in loaded_two] == ["val_p", "test_p, test_y"]
    assert loaded_two[1].frame.columns == ["test_p_0", "test_p_1", "test_y"]


@pytest.mark.parametrize(
    ("array", "said"),
    [
        (np.zeros((3, 4, 5)), "one array for each model"),
        (np.zeros((3, 50_000)), "transpose"),
        (np.array(3.0), "no rows"),
        (np.zeros((0, 3)), "no rows"),
        (np.array([1j]), "complex128"),
    ],
)
def test_arrays_that_are_no_tables(tmp_path: Path, array: np.ndarray[Any, Any], said: str) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(AuditError, match=said):
        read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("document", "columns"),
    [
        ([{"id": "a", "p": 0.5}, {"id": "b", "p": 1}], {"id": ["a", "b"], "p": [0.5, 1.0]}),
        ({"id": ["a", "b"], "p": [0.5, 1]}, {"id": ["a", "b"], "p": [0.5, 1.0]}),
        ({"a": {"p": 0.5}, "b": {"p": 1}}, {"id": ["a", "b"], "p": [0.5, 1.0]}),
        ({"a": [0.5, 0.5], "b": [0.25, 0.75], "c": [1, 0]}, {"id": ["a", "b", "c"], "score_0": [0.5, 0.25, 1.0]}),
        ({"a": 0.5, "b": 0.25}, {"id": ["a", "b"], "value": [0.5, 0.25]}),
        ({"predictions": [{"id": "a", "probs": [0.5, 0.5]}]}, {"id": ["a"], "probs_0": [0.5], "probs_1": [0.5]}),
        ({"p": {"0": 0.5, "1": 0.25}, "y": {"0": 1, "1": 0}}, {"p": [0.5, 0.25], "y": [1, 0]}),
        ({"columns": ["p"], "index": [7, 9], "data": [[0.5], [1.5]]}, {"index": [7, 9], "p": [0.5, 1.5]}),
        ([[0.5, 1], [0.25, 0]], {"column_1": [0.5, 0.25], "column_2": [1, 0]}),
        ([["id", "p"], ["a", 0.5]], {"id": ["a"], "p": [0.5]}),
        ({"probs": [[0.5, 0.5]], "y": [1], "seed": 3}, {"probs_0": [0.5], "probs_1": [0.5], "y": [1]}),
        ([{"id": 7, "p": {"benign": 0.25, "bad": 0.75}}], {"id": [7], "p_benign": [0.25], "p_bad": [0.75]}),
        ([{"id": 7, "answer": "B", "options": ["x", "y"]}], {"answer": ["B"], "options": ['["x", "y"]']}),
        ([{"p": "0.50", "ok": True}, {"p": "1", "ok": None}], {"p": [0.5, 1.0], "ok": ["true", None]}),
        ([{"p": 0.5}, {"p": float("nan")}], {"p": [0.5, None]}),
        ([{"n": 2**70}], {"n": [str(2**70)]}),
    ],
)
def test_json_shapes(tmp_path: Path, document: Any, columns: dict[str, list[Any]]) -> None:
    (loaded,) = stored(tmp_path, document)
    found = loaded.frame.to_dict(as_series=False)
    assert {name: found[name] for name in columns} == columns


def test_json_facts_parts_and_lines(tmp_path: Path) -> None:
    document = {
        "model": "swin",
        "seed": 3,
        "val": [{"id": "a", "p": 0.5}],
        "results": {"test": [{"id": "b", "p": 0.25}]},
    }
    val, test = stored(tmp_path, document)
    assert val.name.endswith("p.json: val")
    assert test.name.endswith("p.json: results.test")
    assert dict(test.facts) == {"model": "swin", "seed": "3", "split": "test"}
    assert test.precision["p"] == "decimals:2"
    (tmp_path / "l.json").write_text('{"id": 1, "p": 0.5}\n\n{"id": 2, "p": 0.125}\n', encoding="utf-8")
    (lines,) = read(tmp_path / "l.json")
    assert lines.frame["p"].to_list() == [0.5, 0.125]
    assert "one JSON record a line" in lines.notes[0]


def test_json_with_many_parts(tmp_path: Path) -> None:
    scores = {f"i{k}": k / 100 for k in range(30)}
    (models,) = stored(tmp_path, {"vit": scores, "swin": scores})
    assert models.frame.columns == ["id", "vit", "swin"]
    assert models.frame.height == 30
    (both,) = stored(tmp_path, {"y": [1, 0, 1], "p": [0.5, 0.25, 1.0], "classes": ["benign", "malignant"]})
    assert both.frame.columns == ["y", "p"]
    assert both.notes == ("not read: 'classes'",)
    one, two = stored(tmp_path, {"a": {"seed": 1, "rows": [{"p": 0.5}]}, "b": {"seed": 2, "rows": [{"p": 0.25}]}})
    assert [one.facts["seed"], two.facts["seed"]] == ["1", "2"]
    (splits,) = stored(tmp_path, {"train": ["a", "b"], "test": ["c"]})
    assert splits.frame.rows() == [("a", "train"), ("b", "train"), ("c", "test")]
    train, test = stored(tmp_path, {"train": [{"p": 0.5}], "test": [{"p": 0.25}]})
    assert [train.facts["split"], test.facts["split"]] == ["train", "test"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "'a' comes twice"),
        ('[{"p": 0.5}', "no JSON"),
        ("[" * 100_000, "nested too deep|no JSON"),
        ("[[1], [1, 2]]", "different lengths"),
        ('{"a": {"b": {}}}', "no table"),
        ('"text"', "no table"),
        ("[]", "no table"),
        ('{"nbformat": 4, "cells": []}', "notebook"),
    ],
)
def test_json_that_is_no_table(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "p.json").write_text(text, encoding="utf-8")
    with pytest.raises(AuditError, match=said):
        read(tmp_path / "p.json")


def test_released_stored_files() -> None:
    (logs,) = read(released("JeffreyDF+kaggle_diabetic_retinopathy", "preds/2015_07_14_072437_6_log_mean.npy"))
    assert logs.frame.shape == (53576, 5)
    assert set(logs.precision.values()) == {"float32"}
    (answers,) = read(released("MMMU-Benchmark+MMMU", "mmmu-pro/output/gpt-4o_vision_direct.jsonl"))
    assert answers.frame.shape == (1730, 11)
    assert set(answers.frame.dtypes) == {pl.String}
