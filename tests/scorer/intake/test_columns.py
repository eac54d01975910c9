"""Which submitted column is which of ours."""

import json

import pytest

from protocol.task import Task
from protocol.types import Kind
from scorer.intake.columns import Columns, colliding, predictions_columns, splits_columns
from tests.builders import good_submission

FIXED = ["image_id", "model", "seed", "calibrator"]
SPLITS = ["image_id", "patient_id", "split", "site"]


def task_of(kind: Kind) -> Task:
    return Task.model_validate_json(json.dumps(good_submission(kind).task))


def predictions(kind: Kind, *names: str) -> Columns:
    return predictions_columns([*FIXED, *names], task_of(kind), "p")


def said(columns: Columns) -> list[tuple[str, str]]:
    return [(problem.offence, problem.where) for problem in columns.problems]


@pytest.mark.parametrize(
    ("kind", "names", "source"),
    [
        ("binary", ["p_1"], {"p_1": "p_1"}),
        ("binary", ["p"], {"p_1": "p"}),
        ("binary", ["p_malignant"], {"p_1": "p_malignant"}),
        ("binary", ["p_1", "z_1", "fold"], {"p_1": "p_1", "z_1": "z_1", "fold": "fold"}),
        ("multiclass", ["p_2", "p_0", "p_1"], {"p_0": "p_0", "p_1": "p_1", "p_2": "p_2"}),
        ("multiclass", ["p_mild", "p_severe", "p_none"], {"p_0": "p_none", "p_1": "p_mild", "p_2": "p_severe"}),
        ("multilabel", ["p_0", "p_1", "p_2"], {"p_0": "p_0", "p_1": "p_1", "p_2": "p_2"}),
    ],
)
def test_accepted_shapes(kind: Kind, names: list[str], source: dict[str, str]) -> None:
    columns = predictions(kind, *names)
    assert columns.problems == ()
    assert {ours: theirs for ours, theirs in columns.source.items() if ours not in FIXED} == source
    assert bool(columns.notes) == (not all(ours == theirs for ours, theirs in columns.source.items()))


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_a_list_column_is_spread(kind: Kind) -> None:
    columns = predictions(kind, "probs")
    assert (columns.problems, columns.spread) == ((), "probs")
    assert columns.notes[0].startswith("the list column probs was read as p_")


@pytest.mark.parametrize(
    ("kind", "names", "offences"),
    [
        ("binary", [], [("class-count-differs", "p")]),
        ("binary", ["P_1"], [("wrong-columns", "p: P_1")]),
        ("binary", ["p_0", "p_1"], [("class-count-differs", "p")]),
        ("binary", ["prob"], [("class-count-differs", "p")]),
        ("multiclass", ["p_0", "p_1"], [("class-count-differs", "p")]),
        ("multiclass", ["p_none", "p_mild"], [("class-count-differs", "p")]),
        ("multiclass", ["p_0", "p_1", "p_2", "p_3"], [("class-count-differs", "p")]),
        ("multiclass", ["p_0", "p_1", "P_2"], [("wrong-columns", "p: P_2")]),
        ("multiclass", ["p"], [("class-count-differs", "p")]),
        ("binary", ["p_1", "comment"], [("wrong-columns", "p: comment")]),
        ("binary", ["p_1", "probs"], [("class-count-differs", "p")]),
        ("multiclass", ["p_0", "p_1", "p_2", "z_0"], [("wrong-columns", "p: z_0")]),
        ("binary", ["p_1", "label"], []),  # owned by MVC409
        ("binary", ["p_1", "Patient Name"], []),  # owned by MVC704
    ],
)
def test_other_columns_are_told_once(kind: Kind, names: list[str], offences: list[tuple[str, str]]) -> None:
    assert said(predictions(kind, *names)) == offences


@pytest.mark.parametrize("name", FIXED)
def test_a_fixed_column_is_missed_by_name(name: str) -> None:
    names = [other for other in (*FIXED, "p_1") if other != name]
    assert said(predictions_columns(names, task_of("binary"), "p")) == [("wrong-columns", f"p: {name}")]
    near = predictions_columns([*names, name.upper()], task_of("binary"), "p")
    assert [problem.saw for problem in near.problems] == [f"no such column, but {name.upper()}"]


@pytest.mark.parametrize(
    ("missing", "near"),
    [("image_id", "image"), ("seed", "seeds"), ("model", "models"), ("calibrator", "calibration")],
)
def test_a_column_that_is_meant_is_named(missing: str, near: str) -> None:
    names = [name for name in (*FIXED, "p_1") if name != missing]
    found = predictions_columns([*names, near], task_of("binary"), "p")
    assert [(p.where, p.saw) for p in found.problems] == [(f"p: {missing}", f"no such column, but {near}")]


def test_another_number_is_another_column() -> None:
    found = splits_columns([*SPLITS, "label_0", "label_1", "label_3"], task_of("multilabel"), "s", True)
    assert [(p.where, p.saw) for p in found.problems] == [("s: label_2", "no such column")]
    found = splits_columns(["image_id", "patient", "split", "site", "label"], task_of("binary"), "s", True)
    assert [(p.where, p.saw) for p in found.problems] == [("s: patient_id", "no such column, but patient")]


@pytest.mark.parametrize(
    ("name", "where", "saw"),
    [
        ("", "column 6", "a column without a name"),
        ("Unnamed: 0", "Unnamed: 0", "an index column"),
        ("__index_level_0__", "__index_level_0__", "an index column"),
    ],
)
def test_an_index_that_was_written_along_is_told(name: str, where: str, saw: str) -> None:
    for found in (
        predictions("binary", "p_1", name),
        splits_columns([*SPLITS, "label", name], task_of("binary"), "p", True),
    ):
        assert [(p.offence, p.where, p.saw) for p in found.problems] == [("wrong-columns", f"p: {where}", saw)]
        assert found.problems[0].wanted.endswith("write with index=False")
        assert found.extras == ()


def test_splits_take_further_columns_for_subgroups() -> None:
    columns = splits_columns([*SPLITS, "label", "sex", "content_hash", "MRN"], task_of("binary"), "s", True)
    assert columns.problems == ()
    assert columns.extras == ("sex", "MRN")
    assert "content_hash" in columns.source


def test_splits_may_lack_patients_where_the_record_says_so() -> None:
    names = [name for name in (*SPLITS, "label") if name != "patient_id"]
    assert said(splits_columns(names, task_of("binary"), "s", True)) == [("wrong-columns", "s: patient_id")]
    assert splits_columns(names, task_of("binary"), "s", False).problems == ()


def test_splits_of_a_multilabel_task_have_a_column_per_finding() -> None:
    names = [*SPLITS, "label_0", "label_1"]
    assert said(splits_columns(names, task_of("multilabel"), "s", True)) == [("wrong-columns", "s: label_2")]


@pytest.mark.parametrize("name", ['a"; DROP TABLE runs; --', " ", "1st", "grüße", "a b", "x" * 65])
def test_a_subgroup_has_a_plain_name(name: str) -> None:
    columns = splits_columns([*SPLITS, "label", name], task_of("binary"), "s", True)
    assert said(columns) == [("wrong-columns", f"s: {name}")]
    assert columns.extras == ()


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["a", "b"], []),
        (["a", "a"], [2]),
        (["p_1", "P_1", "p_1"], [3]),
        (["ﬁeld", "field"], [2]),
        (["Straße", "STRASSE"], [2]),
    ],
)
def test_names_collide_when_case_and_form_are_ignored(names: list[str], found: list[int]) -> None:
    assert [problem.count for problem in colliding(names, "f")] == found
