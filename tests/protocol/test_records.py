"""The record models: strict, frozen, and what they derive."""

import copy
import json
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from protocol.calibrators import CALIBRATORS
from protocol.canonical import canonical_json, digest_of
from protocol.declaration import Declaration, changed_sections, declare
from protocol.submission import Submission
from protocol.task import Task
from protocol.types import FileName, Kind
from tests.builders import DECLARED_AT, good_submission

SPLITS = "a" * 64


def task_of(base: Kind = "binary", **changes: Any) -> Task:
    return Task.model_validate_json(json.dumps(good_submission(base).task | changes))


def record_of(**changes: Any) -> Submission:
    document = copy.deepcopy(good_submission().record)
    for path, value in changes.items():
        place: Any = document
        *parents, last = path.split("__")
        for part in parents:
            place = place[int(part) if part.isdigit() else part]
        place[last] = value
    return Submission.model_validate_json(json.dumps(document))


@pytest.mark.parametrize(
    "changes",
    [
        {"edition": 2026.1},
        {"submission_id": "no blanks"},
        {"submission_id": "../up"},
        {"unknown": 1},
        {"models": []},
        {"models__0__seeds": []},
        {"models__0__seeds": [1, 1]},
        {"models__0__seeds": [-1]},
        {"models__0__seeds": ["1"]},
        {"models__0__seeds": [2**31]},
        {"models__0__deterministic": True},
        {"models__0__kind": "ensemble"},
        {"models": [{"name": "a", "seeds": [1]}, {"name": "a", "seeds": [2]}]},
        {"calibration__methods": []},
        {"calibration__methods": [{"name": "none", "family": "none"}] * 2},
        {"calibration__methods": [{"name": "x", "family": "magic"}]},
        {"calibration__methods": [{"name": "none", "family": "temperature"}]},
        {"calibration__methods": [{"name": "raw", "family": "none"}]},
        {"shift__subgroups": [{"column": "external", "levels": ["a"]}]},
        {"shift__subgroups": [{"column": "label_0", "levels": ["a"]}]},
        {"calibration__fitted_on": "everything"},
        {"calibration__cross_fit": {"folds": 1}},
        {"uncertainty__resamples": 0},
        {"uncertainty__resamples": "2000"},
        {"uncertainty__level": 95},
        {"uncertainty__method": "magic"},
        {"splits__file": "../splits.parquet"},
        {"splits__file": "/etc/passwd"},
        {"splits__sha256": "A" * 64},
        {"splits__images_per_patient": 0.5},
        {"splits__hash": {"scheme": "md5", "namespace": "a", "salt_custody": "b"}},
        {"shift__external": [{"name": "a", "differs_in": []}]},
        {"shift__external": [{"name": "a", "differs_in": ["device"]}] * 2},
        {"shift__subgroups": [{"column": "sex", "levels": []}]},
        {"shift__subgroups": [{"column": "sex; DROP TABLE runs", "levels": ["a"]}]},
        {"shift__subgroups": [{"column": "sex", "levels": ["a"]}] * 2},
        {"release__code": {"url": "https://example.org", "file": "code.zip"}},
        {"release__code": {}},
        {"waivers": [{"rule": "MVC109"}]},
        {"waivers": [{"rule": "MVC109", "reason": ""}]},
        {"waivers": [{"rule": "109", "reason": "x"}]},
        {"waivers": [{"rule": "MVC109", "reason": "x"}] * 2},
        {"metrics__claims": [{"metric": "auroc", "model": "a", "value": 0.9}]},
        {"metrics__claims": [{"metric": "auroc", "model": "a", "value": "about 0.9"}]},
        {"metrics__claims": [{"metric": "auroc", "model": "a", "value": "0.9", "interval": ["0.8"]}]},
        {"metrics__claims": [{"metric": "auroc", "model": "a", "value": "0.9", "interval": ["0.8", "high"]}]},
    ],
)
def test_a_record_that_does_not_fit_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        record_of(**changes)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("binary", {"classes": ["one"]}),
        ("binary", {"classes": ["a", "b", "c"]}),
        ("multiclass", {"classes": ["a", "b"]}),
        ("multiclass", {"classes": ["a", "b", "A"]}),
        ("binary", {"classes": ["1", "0"]}),
        ("multiclass", {"classes": ["1", "2", "3"]}),
        ("binary", {"clustering_unit": "lesion"}),
        ("binary", {"kind": "regression"}),
        ("binary", {"primary_metric": "ece"}),
        ("binary", {"resamples": 999}),
        ("binary", {"thresholds": [0.0]}),
        ("binary", {"thresholds": [0.5, 0.5]}),
        ("binary", {"truth_sha256": "abc"}),
        ("binary", {"extra": 1}),
    ],
)
def test_a_task_that_does_not_fit_is_refused(kind: Kind, changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        task_of(kind, **changes)


def test_classes_named_by_their_own_place_are_fine() -> None:
    assert task_of("multiclass", classes=["0", "1", "2"]).classes == ("0", "1", "2")


def test_records_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        record_of().title = "another"


@pytest.mark.parametrize("name", ["a.csv", "sub/a.csv", "_a"])
def test_a_file_lies_inside_the_bundle(name: str) -> None:
    assert TypeAdapter(FileName).validate_python(name) == name


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "a/../b", "./a", ".a", "a\\b", "C:a", "a\x00b", "a\n"])
def test_a_file_outside_is_refused(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(FileName).validate_python(name)


@pytest.mark.parametrize("name", ["results/a.csv", "submission.json", "ro-crate-metadata.json"])
def test_what_the_kit_writes_is_no_name_for_a_record(name: str) -> None:
    with pytest.raises(ValidationError, match="mvc submit writes"):
        TypeAdapter(FileName).validate_python(name)


@pytest.mark.parametrize(
    ("kind", "probabilities", "labels"),
    [
        ("binary", ("p_1",), ("label",)),
        ("multiclass", ("p_0", "p_1", "p_2"), ("label",)),
        ("multilabel", ("p_0", "p_1", "p_2"), ("label_0", "label_1", "label_2")),
    ],
)
def test_columns_follow_from_the_task(kind: Kind, probabilities: tuple[str, ...], labels: tuple[str, ...]) -> None:
    task = task_of(kind)
    assert task.probability_columns == probabilities
    assert task.label_columns == labels
    assert not task.hosted
    assert task_of(kind, truth_sha256="0" * 64).hosted


def test_runs_are_models_times_seeds_times_methods() -> None:
    record = record_of(
        models=[{"name": "a", "seeds": [1, 2]}, {"name": "clip", "kind": "zero-shot", "deterministic": True}],
        calibration__methods=[{"name": "none", "family": "none"}, {"name": "t", "family": "temperature"}],
    )
    assert record.runs == (
        ("a", 1, "none"),
        ("a", 1, "t"),
        ("a", 2, "none"),
        ("a", 2, "t"),
        ("clip", 0, "none"),
        ("clip", 0, "t"),
    )


def test_a_models_own_recipe_goes_over_the_shared_one() -> None:
    record = record_of(models=[{"name": "a", "seeds": [1], "recipe": {"architecture": "ViT", "optimiser": None}}])
    recipe = record.recipe_of(record.models[0])
    assert (recipe.architecture, recipe.optimiser, recipe.epochs) == ("ViT", None, 30)


def test_a_digest_knows_content_not_layout() -> None:
    document = good_submission().task
    turned = dict(reversed(document.items()))
    assert task_of().digest == Task.model_validate_json(json.dumps(turned, indent=4)).digest
    assert task_of().digest != task_of(target="another").digest
    assert canonical_json({"b": 1.0, "a": "ü"}) == '{"a":"ü","b":1}'.encode()
    assert len(digest_of([])) == 64


@pytest.mark.parametrize(
    ("path", "value", "told"),
    [
        ("splits__how", "by image", "splits.how"),
        ("recipe__epochs", 31, "recipe.epochs: 30 -> 31"),
        ("models__0__seeds", [1, 2, 4], "models"),
        ("calibration__fitted_on", "val", 'calibration.fitted_on: "calib" -> "val"'),
        ("metrics__extra", ["auroc"], "metrics"),
        ("uncertainty__resamples", 3000, "uncertainty.resamples: 2000 -> 3000"),
        ("shift__external", [], "external"),
        ("shift__subgroups", [], "subgroups"),
        ("submission_id", "other", "submission_id"),
    ],
)
def test_a_lock_tells_what_changed(path: str, value: Any, told: str) -> None:
    lock = declare(task_of(), record_of(), SPLITS, DECLARED_AT)
    (found,) = changed_sections(lock, task_of(), record_of(**{path: value}), SPLITS)
    assert found == told or found.startswith(f"{told}: ")


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("title", "another"),
        ("release__licence", "MIT"),
        ("waivers", [{"rule": "MVC109", "reason": "x"}]),
        ("calibration__parameters", "other.json"),
        ("splits__sha256", SPLITS),
        ("metrics__claims", [{"metric": "auroc", "model": "a", "value": "0.9"}]),
    ],
)
def test_a_lock_leaves_claims_waivers_and_release_open(path: str, value: Any) -> None:
    lock = declare(task_of(), record_of(), SPLITS, DECLARED_AT)
    assert changed_sections(lock, task_of(), record_of(**{path: value}), SPLITS) == ()


def test_a_lock_knows_task_splits_and_itself() -> None:
    lock = declare(task_of(), record_of(), SPLITS, DECLARED_AT)
    again = Declaration.model_validate_json(lock.model_dump_json())
    assert again == lock
    assert lock.digest == lock.recomputed_digest
    assert changed_sections(lock, task_of(target="x"), record_of(), SPLITS) == ("task",)
    assert changed_sections(lock, task_of(), record_of(), "b" * 64) == ("splits file",)
    assert changed_sections(lock, task_of(), record_of(), None) == ()
    forged = lock.model_copy(update={"declared_at": "2020-01-01T00:00:00Z"})
    assert changed_sections(forged, task_of(), record_of(), SPLITS) == ("the lock itself",)


def test_parameters_are_finite_numbers() -> None:
    entry = good_submission().calibrators[0].model_dump(mode="json", by_alias=True)
    assert CALIBRATORS.validate_json(json.dumps([entry]))
    for bad in ({"temperature": "1"}, {"temperature": None}, {"x": [1, "a"]}, {"x": [[[1]]]}):
        with pytest.raises(ValidationError):
            CALIBRATORS.validate_json(json.dumps([{**entry, "parameters": bad}]))
