import re
from typing import get_args

import pytest

from protocol.types import DEVELOPMENT
from splits.assign import check_proportions
from splits.datasets import DATASETS
from splits.recipes import RECIPES, Recipe

each = pytest.mark.parametrize("recipe", RECIPES.values(), ids=lambda recipe: recipe.key)
SHIFTED = {
    "retinopathy-domain-shift": ("messidor", ("aptos-2019", "eyepacs", "messidor-2")),
    "chest-x-ray-domain-shift": ("rsna-2018", ("covidx",)),
    "histopathology-domain-shift": ("pannuke", ("digestpath", "kather")),
}


def test_the_settings_are_those_of_the_paper() -> None:
    in_domain = [recipe.development for recipe in RECIPES.values() if recipe.setting == "in-domain"]
    assert sorted(in_domain) == [
        "aptos-2019", "covidx", "digestpath", "eyepacs", "kather", "messidor", "messidor-2", "pannuke", "rsna-2018",
    ]  # fmt: skip
    shifted = {key: recipe for key, recipe in RECIPES.items() if recipe.setting == "domain-shift"}
    assert {key: (recipe.development, recipe.external) for key, recipe in shifted.items()} == SHIFTED


def test_they_add_up_to_the_runs_that_the_paper_counts() -> None:
    """Appendix J: eight methods in domain, seven under shift (no zero-shot), three seeds; 1,008 and 630 runs."""

    def runs(recipe: Recipe) -> int:
        methods, sets = (8, 1) if recipe.setting == "in-domain" else (7, len(recipe.external))
        return len(recipe.backbones) * sets * methods * len(recipe.seeds)

    counted = dict.fromkeys(get_args(Recipe.__annotations__["setting"]), 0)
    for recipe in RECIPES.values():
        counted[recipe.setting] += runs(recipe)
    assert counted == {"in-domain": 1008, "domain-shift": 630}


@each
def test_keys_are_data_sets_and_no_development_set_is_external(recipe: Recipe) -> None:
    assert RECIPES[recipe.key] is recipe
    assert {recipe.development, *recipe.external} <= DATASETS.keys()
    assert recipe.development not in recipe.external
    assert len(set(recipe.external)) == len(recipe.external)
    assert bool(recipe.external) == (recipe.setting == "domain-shift")


@each
def test_every_class_of_a_data_set_has_an_answer_inside_the_task(recipe: Recipe) -> None:
    assert list(recipe.label_maps) == [recipe.development, *recipe.external]
    for key, answers in recipe.label_maps.items():
        assert len(answers) == len(DATASETS[key].classes)
        assert {answer for answer in answers if answer is not None} <= set(range(len(recipe.classes)))
    trained = {answer for answer in recipe.label_maps[recipe.development] if answer is not None}
    assert trained == set(range(len(recipe.classes)))  # the task has no class that is never trained


@each
def test_splits_can_be_drawn_from_it(recipe: Recipe) -> None:
    check_proportions(recipe.proportions)
    assert tuple(recipe.proportions) == DEVELOPMENT
    assert (recipe.shots, recipe.seeds) == (16, (1, 2, 3))


@each
def test_what_is_stated_is_kept_apart_from_what_is_decided(recipe: Recipe) -> None:
    for sentences in (recipe.stated, recipe.decided, recipe.warnings):
        assert sentences
        assert all(sentence == sentence.strip() and not sentence.endswith(".") for sentence in sentences)
    assert not {*recipe.stated} & {*recipe.decided}
    assert len(set(recipe.warnings)) == len(recipe.warnings)


def test_classes_that_are_left_out_or_merged_are_named() -> None:
    answers = {(key, name): recipe for recipe in RECIPES.values() for key, name in _unlike(recipe)}
    wanted = {(key, DATASETS[key].classes[4]) for key in ("aptos-2019", "eyepacs", "messidor-2")}
    wanted |= {("kather", name) for name in ("ADI", "BACK", "DEB", "LYM", "MUC", "MUS", "NORM", "STR", "TUM")}
    wanted |= {("covidx", "pneumonia"), ("covidx", "COVID-19")}
    assert answers.keys() == wanted
    for (key, name), recipe in answers.items():
        assert (name if key in ("kather", "covidx") else "grade 4") in " ".join(recipe.decided)


def _unlike(recipe: Recipe) -> list[tuple[str, str]]:
    """Classes of external sets that don't stand at a place of their own in the task."""
    found = []
    for key in recipe.external:
        answers = recipe.label_maps[key]
        names = DATASETS[key].classes
        merged = {a for a in answers if answers.count(a) > 1} | {None}
        found += [(key, names[k]) for k, a in enumerate(answers) if a in merged or key == "kather"]
    return found


def test_a_set_inside_another_is_warned_of() -> None:
    assert any(
        "Messidor-2" in warning and "1,052" in warning for warning in RECIPES["retinopathy-domain-shift"].warnings
    )
    assert any("NIH" in warning for warning in RECIPES["chest-x-ray-domain-shift"].warnings)


@each
def test_it_is_said_where_patients_are_not_known(recipe: Recipe) -> None:
    reason = DATASETS[recipe.development].unavailable
    assert any("are not known: " in warning for warning in recipe.warnings) == bool(reason)
    assert any(reason in warning for warning in recipe.warnings)


@each
def test_maps_that_it_names_are_those_of_its_data_sets(recipe: Recipe) -> None:
    keys = (recipe.development, *recipe.external)
    maps = {f"{key}:{name}" for key in keys for name in DATASETS[key].maps}
    assert {*recipe.patient_maps, *recipe.mended.values()} <= maps
    assert {*recipe.mended} <= {*recipe.warnings}
    assert len(recipe.patient_maps) != 1  # one without another is what they are there to refuse


@each
def test_a_warning_that_asks_for_a_map_is_void_where_the_map_is_given(recipe: Recipe) -> None:
    asking = {text for text in recipe.warnings if re.search(r"give (it as )?the map|without the map", text)}
    assert asking == {*recipe.mended}


@each
def test_sets_that_share_images_are_named_with_a_name_that_they_share(recipe: Recipe) -> None:
    assert {*recipe.shared} <= {recipe.development, *recipe.external}
    assert bool(recipe.shared) == bool(recipe.shared_name)
