import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from protocol.calibrators import CALIBRATORS, FittedCalibrator
from protocol.submission import Family
from protocol.types import Kind
from submission.recalibration import apply, fit, write_calibrators
from submission.recalibration.isotonic import apply_isotonic
from submission.recalibration.maps import normalise_rows
from tests.submission.recalibration.helpers import FAMILIES, KINDS, Floats, changed, drawn, parameter

BOTH = pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in FAMILIES for kind in KINDS])


def fitted(family: Family, kind: Kind, **run: Any) -> tuple[FittedCalibrator, ...]:
    p, y, _ = drawn(kind)
    return fit(family, p, y, kind=kind, **{"model": "resnet", "seed": 7, "calibrator": family, **run})


@BOTH
def test_what_comes_back_from_the_file_maps_every_bit_the_same(family: Family, kind: Kind, tmp_path: Path) -> None:
    records = fitted(family, kind)
    write_calibrators(tmp_path / "calibrators.json", records)
    read = CALIBRATORS.validate_json((tmp_path / "calibrators.json").read_bytes())
    assert read == records
    p, _, _ = drawn(kind, 200)
    np.testing.assert_array_equal(apply(read, p, kind=kind), apply(records, p, kind=kind))
    np.testing.assert_array_equal(apply(read[::-1], p, kind=kind), apply(records, p, kind=kind))
    # a row is mapped the same whatever stands beside it
    np.testing.assert_array_equal(apply(read, p[7:8], kind=kind), apply(records, p, kind=kind)[7:8])


@pytest.mark.parametrize(
    ("family", "kind", "classes"),
    [
        ("temperature", "binary", [None]),
        ("temperature", "multiclass", [None]),
        ("temperature", "multilabel", [0, 1, 2]),
        ("isotonic", "binary", [None]),
        ("isotonic", "multiclass", [0, 1, 2, 3]),
        ("isotonic", "multilabel", [0, 1, 2]),
        ("dirichlet", "multiclass", [None]),
        ("matrix", "multilabel", [0, 1, 2]),
        ("platt", "multiclass", [0, 1, 2, 3]),
        ("scaling-binning", "multiclass", [0, 1, 2, 3]),
        ("histogram", "binary", [None]),
    ],
)
def test_records_say_what_was_fitted(family: Family, kind: Kind, classes: list[int | None]) -> None:
    records = fitted(family, kind)
    _, y, _ = drawn(kind)
    assert [record.class_index for record in records] == classes
    assert {(r.model, r.seed, r.calibrator, r.family) for r in records} == {("resnet", 7, family, family)}
    labelled = (y >= 0).sum(axis=0).tolist() if kind == "multilabel" else [90] * len(classes)
    assert [record.n for record in records] == labelled
    for record in records:
        assert all(word in record.objective for word in ("penalty ", "target smoothing ", "bounds "))
        assert record.objective.endswith(".")
        assert record.software.split()[::2] == ["mvc-kit", "scikit-learn" if family == "isotonic" else "numpy"]
        assert record.normalise == (kind == "multiclass" and len(records) > 1)


def test_application_is_the_map_of_the_fitted_numbers() -> None:
    p, _, _ = drawn("multiclass")
    temperature = fitted("temperature", "multiclass")
    powers = p ** (1.0 / float(parameter(temperature[0], "temperature")))
    np.testing.assert_allclose(
        apply(temperature, p, kind="multiclass"), powers / powers.sum(axis=1, keepdims=True), rtol=1e-12
    )
    maps = [(parameter(r, "x"), parameter(r, "y")) for r in fitted("isotonic", "multiclass")]
    columns = np.column_stack([apply_isotonic(xs, ys, p[:, k]) for k, (xs, ys) in enumerate(maps)])
    np.testing.assert_array_equal(
        apply(fitted("isotonic", "multiclass"), p, kind="multiclass"), normalise_rows(columns)
    )
    assert not np.allclose(columns.sum(axis=1), 1)


def test_worked_by_hand_from_a_record_alone() -> None:
    # sqrt of the odds: T = 2 turns odds 9 into 3
    half = changed(fitted("temperature", "binary")[0], parameters={"temperature": 2})
    np.testing.assert_allclose(apply([half], np.array([[0.9], [0.5], [0.1]]), kind="binary"), [[0.75], [0.5], [0.25]])
    line = changed(fitted("isotonic", "binary")[0], parameters={"x": [0.2, 0.6], "y": [0, 1]})
    np.testing.assert_allclose(apply([line], np.array([[0.1], [0.3], [0.9]]), kind="binary"), [[0.0], [0.25], [1.0]])


@pytest.mark.parametrize("family", FAMILIES)
def test_each_finding_gets_its_own_map(family: Family) -> None:
    records = fitted(family, "multilabel")
    p, _, _ = drawn("multilabel")
    out = apply(records, p, kind="multilabel")
    for k, record in enumerate(records):
        alone = apply([changed(record, **{"class": None})], p[:, k : k + 1], kind="binary")
        np.testing.assert_array_equal(out[:, k], alone[:, 0])


def test_a_negative_zero_in_a_record_does_not_come_out() -> None:
    record = changed(CACHE["isotonic", "binary"][0], parameters={"x": [0.2, 0.6], "y": [-0.0, 0.5]})
    assert not np.signbit(apply([record], np.array([[0.0], [0.2]]), kind="binary")).any()


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (4, 4), elements=st.floats(-0.0, 1) | st.sampled_from([-0.0, 5e-324, 1.0])))
def test_outputs_are_probabilities(p: Floats) -> None:
    tables: dict[Kind, Floats] = {"binary": p[:, :1], "multiclass": p, "multilabel": p[:, :3]}
    for kind, table in tables.items():
        for family in FAMILIES:
            q = apply(CACHE[family, kind], table, kind=kind)
            assert q.shape == table.shape
            assert q.dtype == np.float64
            assert ((q >= 0) & (q <= 1)).all()
            assert not np.signbit(q).any()
            if kind == "multiclass":
                np.testing.assert_allclose(q.sum(axis=1), 1, rtol=0, atol=1e-12)


CACHE = {(family, kind): fitted(family, kind) for family in FAMILIES for kind in KINDS}


def test_the_file_is_sorted_and_the_same_whatever_the_order(tmp_path: Path) -> None:
    records = [
        *fitted("isotonic", "multiclass", seed=10),
        *fitted("isotonic", "multiclass", seed=9),
        *fitted("temperature", "multiclass", seed=9),
        *fitted("temperature", "multiclass", model="densenet"),
    ]
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    write_calibrators(one, records)
    write_calibrators(two, iter(records[::-1]))
    assert one.read_bytes() == two.read_bytes()
    documents = json.loads(one.read_text())
    keys = [(d["model"], d["seed"], d["calibrator"], d["class"]) for d in documents]
    iso = [("resnet", seed, "isotonic", k) for seed in (9, 10) for k in range(4)]
    assert keys == [("densenet", 7, "temperature", None), *iso[:4], ("resnet", 9, "temperature", None), *iso[4:]]
    assert all(list(document) == sorted(document) for document in documents)
    assert len(one.read_text().splitlines()) == len(records) + 2


def test_no_records_are_an_empty_list(tmp_path: Path) -> None:
    write_calibrators(tmp_path / "c.json", [])
    assert CALIBRATORS.validate_json((tmp_path / "c.json").read_bytes()) == ()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "c.json"
    path.write_text("old")
    with pytest.raises(ValueError, match="two records for model resnet, seed 7, calibrator temperature"):
        write_calibrators(path, fitted("temperature", "binary") * 2)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_calibrators(path, fitted("temperature", "binary"))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["c.json"]


def test_records_that_do_not_fit_are_refused() -> None:
    p, _, _ = drawn("multiclass")
    iso, temperature = CACHE["isotonic", "multiclass"], CACHE["temperature", "multiclass"]
    for records, message in [
        ((), "must share model"),
        (iso + temperature, "must share model, seed, calibrator, family and input"),
        ((changed(temperature[0], seed=8), *temperature), "must share model"),
        (iso[:3], "one entry for each class: 0, 1, 2, 3"),
        ((*iso, iso[0]), "one entry for each class"),
        (temperature * 2, "one entry, with class null"),
        (tuple(changed(r, **{"class": k}) for k, r in enumerate(temperature)), "one entry, with class null"),
        ([changed(temperature[0], family="platt")], "one entry for each class"),
        ([changed(temperature[0], family="custom")], "family custom is not known"),
    ]:
        with pytest.raises(ValueError, match=message):
            apply(records, p, kind="multiclass")


@pytest.mark.parametrize(
    ("family", "fields", "message"),
    [
        ("temperature", {"parameters": {"temperature": 0}}, "must be above 0"),
        ("temperature", {"parameters": {"temperature": -2.0}}, "must be above 0"),
        ("temperature", {"parameters": {"temperature": 1e-320}}, "must be above 0"),
        ("temperature", {"parameters": {"temperature": 1e200}}, "must lie within"),
        ("temperature", {"parameters": {"temperature": [1.0]}}, "needs the number temperature"),
        ("temperature", {"parameters": {}}, "needs the number temperature"),
        ("temperature", {"input": "probabilities"}, "input logits or log-probabilities"),
        ("temperature", {"input": "logits"}, "reads logits, and the predictions hold none"),
        ("isotonic", {"input": "logits"}, "input probabilities"),
        ("isotonic", {"interpolation": None}, "interpolation linear"),
        ("isotonic", {"outside": None}, "outside clip"),
        ("isotonic", {"normalise": True}, "normalise must be true for a multiclass task"),
        ("isotonic", {"parameters": {}}, "two lists of one length"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [0.5]}}, "two lists of one length"),
        ("isotonic", {"parameters": {"x": [0.2, 0.2], "y": [0.1, 0.5]}}, "x increasing"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [0.5, 1.1]}}, r"y must lie in \[0, 1\]"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [-0.1, 1.0]}}, r"y must lie in \[0, 1\]"),
        ("isotonic", {"parameters": {"x": [[0.1, 0.2]], "y": [[0.1, 0.2]]}}, "two lists of one length"),
        ("matrix", {"parameters": {"weights": [1.0, 0.0], "bias": [0.0, 0.0]}}, "needs weights"),
        ("matrix", {"parameters": {"weights": [[1.0, 0.0], [0.0]], "bias": [0.0, 0.0]}}, "no table of numbers"),
        ("matrix", {"parameters": {"weights": [[1e200, 0.0], [0.0, 1.0]], "bias": [0.0, 0.0]}}, "must lie within"),
        ("dirichlet", {"input": "logits"}, "input log-probabilities"),
        ("beta", {"parameters": {"a": 1.0, "b": 1.0}}, "needs the number c"),
        ("histogram", {"parameters": {"edges": [0.0, 1.0], "values": [0.1, 0.2]}}, "edges, increasing"),
        ("histogram", {"parameters": {"edges": [0.0, 1.0], "values": [1.2]}}, r"values must lie in \[0, 1\]"),
        ("histogram", {"interpolation": "linear"}, "interpolation step"),
    ],
)
def test_records_that_hold_no_such_map_are_refused(family: Family, fields: dict[str, Any], message: str) -> None:
    record = changed(CACHE[family, "binary"][0], **fields)
    with pytest.raises(ValueError, match=message):
        apply([record], np.array([[0.5]]), kind="binary")


def test_application_checks_its_probabilities() -> None:
    for p, message in [
        (np.empty((0, 1)), "no rows"),
        (np.array([[np.nan]]), "not finite"),
        (np.array([[1.2]]), r"lie in \[0, 1\]"),
        (np.array([0.5]), "table"),
    ]:
        with pytest.raises(ValueError, match=message):
            apply(CACHE["isotonic", "binary"], p, kind="binary")


def test_neither_input_is_changed() -> None:
    p, y, _ = drawn("multiclass")
    before = p.copy(), y.copy()
    for family in FAMILIES:
        apply(fit(family, p, y, kind="multiclass", model="m", seed=0, calibrator="c"), p, kind="multiclass")
    np.testing.assert_array_equal(p, before[0])
    np.testing.assert_array_equal(y, before[1])


def test_importing_and_applying_load_neither_scipy_nor_scikit_learn() -> None:
    code = "import sys, submission.recalibration; print(sorted({'scipy', 'sklearn', 'torch'} & set(sys.modules)))"
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
