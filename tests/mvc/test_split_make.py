"""``mvc split make``: options that have no effect, names that are no text, what is published of a known data set."""

import os
from pathlib import Path

import polars as pl
import pytest
import yaml

from tests.mvc.test_split import OPTIONS, SITES, metadata, run

LIST = "image,level\n" + "".join(f"{k}_{side},{k % 5}\n" for k in range(1, 61) for side in ("left", "right"))
REASON = ("--patients-unavailable", "none is known")
ALONE = ("--label", "grade")
BOTH = ("--label", "grade", "--label", "sex", "--patient", "patient")


@pytest.fixture
def eyepacs(tmp_path: Path) -> Path:
    path = tmp_path / "trainLabels.csv"
    path.write_text(LIST)
    return path


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--classes", "a,b"),
        ("--label-separator", "|"),
        ("--encoding", "latin-1"),
        ("--unit", "patient"),
        ("--patients-unavailable", "why"),
        ("--patients-per-site", None),
        ("--ids-as-written", None),
        ("--group", "eye"),
        ("--drop-shared", None),
    ],
)
@pytest.mark.parametrize("known", ["dataset", "recipe"])
def test_what_has_no_effect_on_a_known_data_set_is_refused(
    tmp_path: Path, eyepacs: Path, known: str, option: str, value: str | None
) -> None:
    files = [eyepacs] if known == "dataset" else [f"eyepacs={eyepacs}"]
    name = "eyepacs" if known == "dataset" else "eyepacs-in-domain"
    given = [option] if value is None else [option, value]
    done = run("make", *files, f"--{known}", name, *given, "--out", tmp_path / "out")
    assert (done.exit_code, option in done.stderr, "leave it out" in done.stderr) == (2, True, True), done.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "named", "said"),
    [
        ((*OPTIONS, "--shot-seeds", "1,2"), "--shot-seeds", "there are no --shots"),
        ((*OPTIONS, "--shots-by-image"), "--shots-by-image", "there are no --shots"),
        ((*OPTIONS, "--map", "nih=map.csv"), "--map", "it belongs to --dataset or --recipe"),
        ((*OPTIONS, "--patients-per-site"), "--patients-per-site", "there is no --site"),
        ((*OPTIONS, "--external", "south"), "--external", "there is no --site"),
        ((*OPTIONS, "--drop-shared"), "--drop-shared", "there is no external site"),
        ((*BOTH, "--classes", "a,b"), "--classes", "it is for one --label column"),
        ((*BOTH, "--label-separator", "|"), "--label-separator", "it is for one --label column"),
        ((*OPTIONS, "--unit", "lesion"), "--unit", "say --group patient --patients-unavailable"),
        ((*ALONE, *REASON, "--unit", "lesion"), "--unit", "name the column of the lesions: --group COL"),
        ((*OPTIONS, "--namespace", " "), "--namespace", "name one of printable characters"),
        ((*OPTIONS, "--namespace", "a\nb"), "--namespace", "this is 'a\\nb'"),
        ((*ALONE, "--patients-unavailable", "h\udcff"), "--patients-unavailable", "'h\\udcff' has characters"),
    ],
)
def test_what_has_no_effect_on_a_table_is_refused(
    tmp_path: Path, options: tuple[str, ...], named: str, said: str
) -> None:
    done = run("make", metadata(tmp_path), *options, "--out", tmp_path / "out")
    words = " ".join(done.stderr.replace("│", " ").split())
    assert (done.exit_code, named in words, said in words) == (2, True, True), done.output
    assert not (tmp_path / "out").exists()


def test_a_recipe_takes_its_external_sites_and_other_seeds(tmp_path: Path, eyepacs: Path) -> None:
    arguments = ("make", f"eyepacs={eyepacs}", "--recipe", "eyepacs-in-domain")
    done = run(*arguments, "--external", "eyepacs", "--out", tmp_path / "out")
    assert (done.exit_code, "--external" in done.stderr) == (2, True)
    done = run(*arguments, "--shot-seeds", "7,8", "--stratify", "eye", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert set(pl.read_parquet(tmp_path / "out" / "public" / "few_shot.parquet")["seed"]) == {7, 8}


def test_subgroups_of_a_data_set_are_published_when_they_are_named(tmp_path: Path, eyepacs: Path) -> None:
    arguments = ("make", eyepacs, "--dataset", "eyepacs")
    for name, more, columns in (("a", (), []), ("b", ("--subgroup", "eye"), ["eye"]), ("c", ("--stratify", "eye"), [])):
        done = run(*arguments, *more, "--out", tmp_path / name)
        assert done.exit_code == 0, done.output
        table = pl.read_parquet(tmp_path / name / "public" / "splits.parquet")
        assert table.columns[5:] == columns
        blocks = yaml.safe_load((tmp_path / name / "public" / "submission-splits.yaml").read_text())
        levels = {"subgroups": [{"column": "eye", "levels": ["left", "right"]}]}
        assert blocks.get("shift") == (levels if columns else None)
    done = run(*arguments, "--subgroup", "sex", "--out", tmp_path / "d")
    assert (done.exit_code, done.stderr) == (1, "error: eyepacs has no subgroup 'sex'; there are eye\n")


@pytest.mark.parametrize("name", [".m.csv", "a\nb.csv", "m\udcff.csv"])
def test_the_name_of_the_file_is_the_namespace_where_it_can_be(tmp_path: Path, name: str) -> None:
    table = metadata(tmp_path).rename(tmp_path / name)
    done = run("make", table, *OPTIONS, "--out", tmp_path / "out")
    assert (done.exit_code, "--namespace" in done.stderr) == (2, True), done.output
    done = run("make", table, *OPTIONS, "--namespace", "study", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    salt = tmp_path / "out" / "private" / "salt"
    assert run("verify", tmp_path / "out/public/splits.parquet", table, "--salt-file", salt).exit_code == 0


def test_a_folder_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    table = metadata(tmp_path)
    done = run("make", table, *OPTIONS, *SITES, "--out", Path(os.fsdecode(os.fsencode(tmp_path) + b"/out\xff")))
    said = "".join(done.stderr.replace("│", "").split())  # the panel breaks lines where the path is long
    assert (done.exit_code, "hascharactersthatcan'tbeprinted" in said) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.csv"]


def test_units_and_patients_are_counted_apart_where_groups_tie_patients(tmp_path: Path) -> None:
    table = metadata(tmp_path, slide=[f"S{index // 6}" for index in range(240)])
    done = run("make", table, *OPTIONS, "--group", "slide", "--out", tmp_path / "a")
    rows = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in done.stdout.splitlines()[1:4]}
    assert list(rows) == ["images", "units", "patients"]
    assert (sum(rows["units"]), sum(rows["patients"])) == (40, 80)
    block = yaml.safe_load((tmp_path / "a" / "public" / "submission-splits.yaml").read_text())["splits"]
    assert (block["patient_ids"], block["images_per_patient"]) == ("available", 3.0)
