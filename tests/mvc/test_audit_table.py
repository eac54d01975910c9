"""``mvc audit table`` as a user meets it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from mvc.cli import app

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "mvc-bench-tables"


def test_findings_are_the_product_and_strict_makes_them_exit_1() -> None:
    arguments = ["audit", "table", str(EXAMPLE / "tables.csv"), "--layout", str(EXAMPLE / "layout.yaml")]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert shown.stdout.splitlines()[-1].startswith("MVC AUDIT TABLE 2 contradictions, ")
    strict = CliRunner().invoke(app, [*arguments, "--strict", "--json"])
    document = json.loads(strict.stdout)
    assert (strict.exit_code, document["exit_code"]) == (1, 1)
    assert document["last_line"] == shown.stdout.splitlines()[-1]
    assert {finding["level"] for finding in document["findings"]} == {"contradiction", "warning", "note"}


def test_a_clean_table(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("metric,method,value\nECE,x,1.00\nMCE,x,2.00\n", encoding="utf-8")
    shown = CliRunner().invoke(app, ["audit", "table", str(table), "--strict"])
    assert (shown.exit_code, shown.stdout.splitlines()[-1]) == (0, "MVC AUDIT TABLE nothing found; 2 values read")


def test_what_cannot_be_used_is_exit_2(tmp_path: Path) -> None:
    shown = CliRunner().invoke(app, ["audit", "table", str(tmp_path / "absent.csv"), "--json"])
    assert shown.exit_code == 2
    assert "no such file" in json.loads(shown.stdout)["error"]
    assert shown.stderr.startswith("error: ")


def test_hostile_text_is_escaped(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("metric,method,value\nAcc,[red]x\x1b[2J,101\nAcc,y,1\n", encoding="utf-8")
    shown = CliRunner().invoke(app, ["audit", "table", str(table)])
    assert shown.exit_code == 0
    assert "\x1b" not in shown.stdout
    assert "[red]x\\x1b[2J" in shown.stdout


def test_out_is_whole_and_never_replaced_by_mistake(tmp_path: Path) -> None:
    table, out = tmp_path / "t.csv", tmp_path / "audit.json"
    table.write_text("Method,ECE (%),MCE (%)\nx,2.00,**1.00**\ny,2.00,–\ny2,2.00,1.00 ± 0.1\n", encoding="utf-8")
    arguments = ["audit", "table", str(table), "--out", str(out)]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert "guessed: a column a metric: 'ECE (%)', 'MCE (%)'" in shown.stdout
    assert "1 cells are empty or a dash" in shown.stdout
    assert "1 values have a spread" in shown.stdout
    document = json.loads(out.read_text(encoding="utf-8"))
    assert document["last_line"] == shown.stdout.splitlines()[-1]
    again = CliRunner().invoke(app, arguments)
    assert again.exit_code == 2
    assert "--force" in again.stderr
    assert CliRunner().invoke(app, [*arguments, "--force", "--strict"]).exit_code == 1
    assert json.loads(out.read_text(encoding="utf-8"))["exit_code"] == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.json", "t.csv"]


def test_out_that_cannot_be_written(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("Method,ECE\nx,2.00\n", encoding="utf-8")
    for out, said in ((tmp_path, "is a folder"), (tmp_path / "none" / "a.json", "can't be written")):
        shown = CliRunner().invoke(app, ["audit", "table", str(table), "--out", str(out)])
        assert shown.exit_code == 2
        assert said in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]
