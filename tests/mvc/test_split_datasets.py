"""`mvc split datasets` lists what is known, says all about one, and names the near ones."""

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


def test_every_data_set_is_listed_with_its_licence() -> None:
    lines = said().splitlines()
    assert lines[0].split()[:2] == ["name", "modality"]
    firsts = [line.split()[0] for line in lines if line.strip()]
    assert [first for first in firsts if first in DATASETS] == list(DATASETS)
    line = next(line for line in lines if line.startswith("ham10000 "))
    assert words(line) == "ham10000 dermatoscopy 7 no, lesions isic CC BY-NC 4.0"
    assert max(map(len, lines)) <= 110


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
