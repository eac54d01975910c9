import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from protocol.calibrators import CALIBRATORS, FittedCalibrator
from protocol.types import Kind
from submission.recalibration import apply, fit, write_calibrators
from submission.recalibration.isotonic import apply_isotonic, fit_isotonic, normalise_rows
from submission.recalibration.temperature import apply_temperature, fit_temperature

Floats = NDArray[np.float64]
FamilyFitted = Literal["temperature", "isotonic"]
FAMILIES: tuple[FamilyFitted, ...] = get_args(FamilyFitted)
KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")
BOTH = pytest.mark.parametrize(("family", "kind"), [(family, kind) for family in FAMILIES for kind in KINDS])


def example(kind: Kind, rows: int = 90) -> tuple[Floats, NDArray[np.int64]]:
    rng = np.random.default_rng(3)
    if kind == "multiclass":
        p = rng.dirichlet([1, 1, 1, 0.2], rows)
        return p, np.array([rng.choice(4, p=row) for row in p])
    if kind == "binary":
        p = rng.random((rows, 1))
        return p, (rng.random(rows) < p[:, 0] ** 2).astype(np.int64)
    p = rng.random((rows, 3))
    return p, np.where(rng.random(p.shape) < 0.2, -1, rng.random(p.shape) < p**2).astype(np.int64)


def fitted(family: FamilyFitted, kind: Kind, **run: Any) -> tuple[FittedCalibrator, ...]:
    p, y = example(kind)
    return fit(family, p, y, kind=kind, **{"model": "resnet", "seed": 7, "calibrator": family, **run})


def changed(record: FittedCalibrator, **fields: Any) -> FittedCalibrator:
    return FittedCalibrator.model_validate_json(json.dumps(record.model_dump(mode="json", by_alias=True) | fields))


@BOTH
def test_what_comes_back_from_the_file_maps_every_bit_the_same(
    family: FamilyFitted, kind: Kind, tmp_path: Path
) -> None:
    records = fitted(family, kind)
    write_calibrators(tmp_path / "calibrators.json", records)
    read = CALIBRATORS.validate_json((tmp_path / "calibrators.json").read_bytes())
    assert read == records
    p, _ = example(kind, 200)
    np.testing.assert_array_equal(apply(read, p, kind=kind), apply(records, p, kind=kind))
    np.testing.assert_array_equal(apply(read[::-1], p, kind=kind), apply(records, p, kind=kind))


@pytest.mark.parametrize(
    ("family", "kind", "classes"),
    [
        ("temperature", "binary", [None]),
        ("temperature", "multiclass", [None]),
        ("temperature", "multilabel", [0, 1, 2]),
        ("isotonic", "binary", [None]),
        ("isotonic", "multiclass", [0, 1, 2, 3]),
        ("isotonic", "multilabel", [0, 1, 2]),
    ],
)
def test_records_say_what_was_fitted(family: FamilyFitted, kind: Kind, classes: list[int | None]) -> None:
    records = fitted(family, kind)
    _, y = example(kind)
    assert [record.class_index for record in records] == classes
    assert {(r.model, r.seed, r.calibrator, r.family) for r in records} == {("resnet", 7, family, family)}
    labelled = (y >= 0).sum(axis=0).tolist() if kind == "multilabel" else [90] * len(classes)
    assert [record.n for record in records] == labelled
    for record in records:
        assert all(word in record.objective for word in ("penalty none", "target smoothing none", "bounds"))
        assert record.objective.endswith(".")
        assert record.software.split()[0] == {"temperature": "scipy", "isotonic": "scikit-learn"}[family]
        assert record.normalise == (family == "isotonic" and kind == "multiclass")


def test_application_is_the_map_of_the_fitted_numbers() -> None:
    p, y = example("multiclass")
    (t,) = fit_temperature(p, y, "multiclass")
    np.testing.assert_array_equal(
        apply(fitted("temperature", "multiclass"), p, kind="multiclass"), apply_temperature(t, p)
    )
    maps = fit_isotonic(p, y, "multiclass")
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
def test_each_finding_gets_its_own_map(family: FamilyFitted) -> None:
    records = fitted(family, "multilabel")
    p, _ = example("multilabel")
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
    p, _ = example("multiclass")
    iso, temperature = CACHE["isotonic", "multiclass"], CACHE["temperature", "multiclass"]
    for records, message in [
        ((), "exactly one model"),
        (iso + temperature, "exactly one model, seed, calibrator and family"),
        ((changed(temperature[0], seed=8), *temperature), "exactly one model"),
        (iso[:3], "one record for each class: 0, 1, 2, 3"),
        ((*iso, iso[0]), "one record for each class"),
        (temperature * 2, "one record for each class: null"),
        (tuple(changed(r, **{"class": k}) for k, r in enumerate(temperature)), "each class: null"),
        ([changed(temperature[0], family="platt")], "family platt is not a reference calibrator"),
    ]:
        with pytest.raises(ValueError, match=message):
            apply(records, p, kind="multiclass")


@pytest.mark.parametrize(
    ("family", "fields", "message"),
    [
        ("temperature", {"parameters": {"temperature": 0}}, "one number above 0"),
        ("temperature", {"parameters": {"temperature": -2.0}}, "one number above 0"),
        ("temperature", {"parameters": {"temperature": [1.0]}}, "one number above 0"),
        ("temperature", {"parameters": {}}, "one number above 0"),
        ("temperature", {"input": "logits"}, "input log-probabilities"),
        ("isotonic", {"input": "logits"}, "input probabilities"),
        ("isotonic", {"interpolation": "step"}, "interpolation linear"),
        ("isotonic", {"outside": None}, "outside clip"),
        ("isotonic", {"normalise": True}, "normalise true for a multiclass task alone"),
        ("isotonic", {"parameters": {}}, "two lists of one length"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [0.5]}}, "two lists of one length"),
        ("isotonic", {"parameters": {"x": [0.2, 0.2], "y": [0.1, 0.5]}}, "x increasing"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [0.5, 0.4]}}, "y not decreasing"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [0.5, 1.1]}}, r"y must lie in \[0, 1\]"),
        ("isotonic", {"parameters": {"x": [0.1, 0.2], "y": [-0.1, 1.0]}}, r"y must lie in \[0, 1\]"),
        ("isotonic", {"parameters": {"x": [[0.1, 0.2]], "y": [[0.1, 0.2]]}}, "two lists of one length"),
    ],
)
def test_records_that_hold_no_such_map_are_refused(family: FamilyFitted, fields: dict[str, Any], message: str) -> None:
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


def test_another_family_is_not_fitted() -> None:
    p, y = example("binary")
    with pytest.raises(ValueError, match="family platt is not a reference calibrator"):
        fit("platt", p, y, kind="binary", model="m", seed=0, calibrator="c")  # type: ignore[arg-type]


def test_neither_input_is_changed() -> None:
    p, y = example("multiclass")
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
