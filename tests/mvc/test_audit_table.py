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
