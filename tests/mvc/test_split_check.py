"""``mvc split check``: what it prints, and its exit codes."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from mvc.cli import app

runner = CliRunner()
LEAKY = "image,patient,label,split\na1.png,p1,0,train\na2.png,p2,1,train\na3.png,p1,1,test\n"


def check(*arguments: object) -> Result:
    return runner.invoke(app, ["split", "check", *map(str, arguments)])


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    path = tmp_path / "leaky.csv"
    path.write_text(LEAKY)
    return path


def test_a_leak_is_told_with_counts_samples_and_mend(leaky: Path) -> None:
    result = check(leaky)
    assert result.exit_code == 1
    lines = result.output.splitlines()
    assert "image, patient, label, split" in result.output  # what was understood
    assert "splits: train 2, test 1" in lines
    assert "leak patient-overlap" in lines
    assert "1 of 1 patient of test is in train too, 1 of 1 rows (100 %)" in result.output
    assert "such as p1" in result.output
    assert "mend: Give all images of one patient the same split" in result.output
    assert lines[-1] == "MVC SPLITS LEAK 1 leak; 2 splits, 3 rows"


def test_clean_splits_end_with_zero(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(LEAKY.replace("a3.png,p1", "a3.png,p3"))
    result = check(path)
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, "MVC SPLITS CLEAN nothing found; 2 splits, 3 rows")


def test_one_document_says_the_same(leaky: Path) -> None:
    result = check(leaky, "--json")
    document = json.loads(result.stdout)
    assert result.exit_code == document["exit_code"] == 1
    assert document["verdict"] == "leak"
    assert document["last_line"] == check(leaky).output.splitlines()[-1]
    assert document["findings"][0] == {
        "level": "leak",
        "code": "patient-overlap",
        "title": "1 of 1 patient of test is in train too, 1 of 1 rows (100 %)",
        "splits": ["train", "test"],
        "count": 1,
        "share": 1.0,
        "samples": ["p1"],
        "mend": "Give all images of one patient the same split: mvc split make does.",
    }


def test_collisions_are_no_acquittal(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("image,patient,site,split\na.png,1,A,train\nb.png,1,B,test\n")
    result = check(path)
    last = "MVC SPLITS UNDECIDED 1 collision to look at; 2 splits, 2 rows"
    assert (result.exit_code, result.output.splitlines()[-1]) == (0, last)
    document = json.loads(check(path, "--json").stdout)
    assert (document["verdict"], document["exit_code"]) == ("undecided", 0)


def test_a_file_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text("image,label\na.png,0\n")
    result = check(path)
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")
    assert "--split" in result.stderr
    result = check(path, "--json")
    assert (result.exit_code, json.loads(result.stdout)["verdict"]) == (1, "error")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--patient", "Patient"), "no file has a column 'Patient'"),
        (("--pattern", r"\d+"), "needs one"),
        (("--map", "none.csv"), "no such file"),
        (("--images", "none"), "is no folder"),
        (("--dataset", "imagenet"), "is none of"),
        (("--encoding", "klingon"), "klingon"),
    ],
)
def test_options_that_do_not_fit(leaky: Path, options: tuple[str, str], said: str) -> None:
    result = check(leaky, *options)
    assert result.exit_code == 1
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_usage_errors(leaky: Path) -> None:
    assert check().exit_code == 2
    assert check(leaky, "--distance", 99).exit_code == 2


def test_files_named_on_the_command_line_and_a_pattern(tmp_path: Path) -> None:
    for name, rows in (("one", "s1-a 0\ns1-b 1\n"), ("two", "s1-c 0\ns2-a 1\n")):
        (tmp_path / f"{name}.txt").write_text(rows)
    result = check(f"train={tmp_path / 'one.txt'}", f"test={tmp_path / 'two.txt'}", "--pattern", r"^(s\d)-")
    assert result.exit_code == 1
    assert "1 of 2 patients of test is in train too" in result.output


def test_a_data_set_is_read_by_its_adapter(tmp_path: Path) -> None:
    path = tmp_path / "testLabels.csv"
    path.write_text("image,level,Usage\n1_left,0,Public\n1_right,0,Private\n2_left,1,Public\n2_right,1,Public\n")
    result = check(path, "--dataset", "eyepacs")
    assert result.exit_code == 1
    assert "1 of 1 patient of Private is in Public too" in result.output or "in Private too" in result.output


def test_text_of_files_is_no_markup(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("image,patient,split\n[red]x[/red],p1,train\n[red]x[/red],p1,test\n")
    assert "[red]x[/red]" in check(path).output


def test_many_alike_files_take_one_line(tmp_path: Path) -> None:
    for k in range(6):
        (tmp_path / f"fold{k}.csv").write_text(f"image,patient\ni{k}.png,p{k % 5}\n")
    result = check(*(tmp_path / f"fold{k}.csv" for k in range(6)))
    assert "6 files: table, 6 rows" in result.output
    assert result.exit_code == 1
