"""`mvc split datasets` lists data sets and recipes, says all about one, and names the near ones."""

import json

import pytest
import typer
from typer.testing import CliRunner

from mvc.commands.split_datasets import datasets
from splits.datasets import DATASETS
from splits.recipes import RECIPES

app = typer.Typer()
app.command("datasets")(datasets)
runner = CliRunner()


def said(*arguments: str) -> str:
    result = runner.invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def words(text: str) -> str:
    return " ".join(text.split())


def test_every_data_set_and_recipe_is_listed_in_few_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = said().splitlines()
    assert words(lines[0]) == "data set modality classes patients known maps"
    firsts = [line.split()[0] for line in lines if line.strip()]
    assert [first for first in firsts if first in DATASETS] == list(DATASETS)
    assert [first for first in firsts if first in RECIPES] == list(RECIPES)
    line = next(line for line in lines if line.startswith("ham10000 "))
    assert words(line) == "ham10000 dermatoscopy 7 no, lesions isic"
    assert max(map(len, lines)) <= 80
    assert lines.index(next(line for line in lines if line.startswith("recipe"))) < 1.5 * len(DATASETS)


def test_how_to_call() -> None:
    of_one = "mvc split make FILE... --dataset messidor-2 [--map pairs=FILE] --drop-unlabelled --out my-split"
    assert f"call {of_one}" in words(said("messidor-2"))
    assert json.loads(said("messidor-2", "--json"))["call"] == of_one
    assert "call mvc split make FILE... --dataset eyepacs --out my-split" in words(said("eyepacs"))


@pytest.mark.parametrize("key", list(RECIPES))
def test_all_about_a_recipe(key: str) -> None:
    recipe, text = RECIPES[key], words(said(key))
    for fact in (recipe.title, recipe.source, *recipe.stated, *recipe.decided, *recipe.warnings, *recipe.classes):
        assert "".join(fact.split()) in text.replace(" ", "")
    assert f"trained on {DATASETS[recipe.development].title}" in text
    for external in recipe.external:
        assert f"external {DATASETS[external].title}" in text
    call = json.loads(said(key, "--json"))["call"]
    assert f"call {call}" in text
    assert f"mvc split make {recipe.development}=FILE" in call
    assert ("--drop-shared" in call) == bool(recipe.shared)


def test_what_a_call_of_a_recipe_names() -> None:
    call = json.loads(said("retinopathy-domain-shift", "--json"))["call"]
    for part in ("messidor-2=FILE", "[--map messidor-2:pairs=FILE]", "--drop-unlabelled", "--drop-shared"):
        assert part in call


@pytest.mark.parametrize(("key", "known"), [("eyepacs", "yes"), ("isic-2019", "no, lesions"), ("messidor-2", "no")])
def test_whether_patients_are_known(key: str, known: str) -> None:
    line = next(line for line in said().splitlines() if line.startswith(f"{key} "))
    assert f" {known} " in line


@pytest.mark.parametrize("key", list(DATASETS))
def test_all_about_one(key: str) -> None:
    data_set, text = DATASETS[key], words(said(key))
    facts = (data_set.title, data_set.licence, data_set.source, data_set.citation, data_set.files)
    for fact in (*facts, *data_set.guarantees, *data_set.limits, *data_set.maps.values(), data_set.unavailable):
        assert "".join(fact.split()) in text.replace(" ", "")
    assert data_set.source.split()[0] in said(key)  # the address is not broken
    for index, name in enumerate(data_set.classes):
        assert f"class {index} {name}" in text


def test_prompts_are_shown_where_they_differ() -> None:
    text = words(said("APTOS-2019"))
    assert "class 4 proliferative DR (in prompts: proliferative diabetic retinopathy)" in text
    assert "map duplicates: " in text
    assert "(--map duplicates=FILE)" in text


def test_json_of_all_and_of_one() -> None:
    documents = json.loads(said("--json"))
    assert [document["key"] for document in documents] == list(DATASETS)
    one = json.loads(said("messidor-2", "--json"))
    assert one == documents[3]
    assert one["classes"][0] == "no DR"
    assert list(one["maps"]) == ["pairs"]
    assert "read" not in one


def test_recipes_that_use_a_data_set() -> None:
    used = json.loads(said("messidor", "--json"))["recipes"]
    assert used == [r.key for r in RECIPES.values() if "messidor" in (r.development, *r.external)]
    assert len(used) > 1
    assert used[0] in words(said("messidor"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("messidor2", "did you mean messidor"),
        ("retinopathy", "retinopathy-domain-shift"),
        ("zzz", "mvc split datasets lists them"),
    ],
)
def test_an_unknown_name(name: str, hint: str) -> None:
    result = runner.invoke(app, [name])
    assert result.exit_code == 2
    assert hint in words(result.output)


def test_a_hostile_name_is_escaped() -> None:
    result = runner.invoke(app, ["\x1b[31mx\u202e"])
    assert result.exit_code == 2
    assert "\u202e" not in result.output
    assert "\x1b[31mx" not in result.output
