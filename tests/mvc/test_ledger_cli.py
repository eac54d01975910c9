"""`mvc ledger` prints what the library found and keeps to the exit codes."""

import json
import re
from pathlib import Path

import duckdb
import pytest
import typer
from typer.testing import CliRunner

from mvc.commands.ledger import app
from scorer.ledger import Ledger

runner = CliRunner()
HOSTILE = "s\x1b[31m[bold]\u202e"


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("MVC_LEDGER", raising=False)
    file = tmp_path / "mvc.duckdb"
    with Ledger.open(file) as ledger:
        ledger.append("lock", submission="s1", task="skin", payload={"lock": "ab"})
        ledger.append("accepted", submission=HOSTILE, task="skin", payload={"x": 1})
    monkeypatch.chdir(tmp_path)
    return file


def test_verify_whole(path: Path) -> None:
    result = runner.invoke(app, ["verify", "--ledger", str(path)])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("ledger whole: 2 events, head ")


def test_verify_json_and_noted_head(path: Path) -> None:
    result = runner.invoke(app, ["verify", "--json"])
    document = json.loads(result.stdout)
    assert (result.exit_code, document["whole"], document["events"], document["problems"]) == (0, True, 2, [])
    assert runner.invoke(app, ["verify", "--head", document["head"]]).exit_code == 0
    result = runner.invoke(app, ["verify", "--json", "--head", "f" * 64])
    assert (result.exit_code, json.loads(result.stdout)["whole"]) == (1, False)
    short = runner.invoke(app, ["verify", "--head", document["head"][:12]])
    assert short.exit_code == 2
    assert "is no whole digest" in " ".join(short.output.split())


def test_verify_finds_tampering(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("update events set submission = 'mine' where seq = 2")
    result = runner.invoke(app, ["verify"])
    assert result.exit_code == 1
    assert result.stdout.splitlines()[0] == "problem: event 2 was changed: its digest differs"
    assert result.stdout.splitlines()[-1].startswith("ledger damaged: 2 events")


def test_damaged_file(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])
    result = runner.invoke(app, ["verify", "--json"])
    assert result.exit_code == 1
    assert "is damaged" in json.loads(result.stdout)["problems"][0]
    assert runner.invoke(app, ["list"]).exit_code == 2


def test_another_file_is_no_ledger(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"PAR1 not a ledger at all PAR1")
    for arguments in (["verify"], ["list"], ["export", str(tmp_path / "out")]):
        result = runner.invoke(app, arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr == f"error: {path} is not a ledger: it is no DuckDB file\n"


def test_no_ledger_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MVC_LEDGER", str(tmp_path / "absent.duckdb"))
    for arguments in (["verify"], ["list"], ["export", str(tmp_path / "out")]):
        result = runner.invoke(app, arguments)
        assert result.exit_code == 2
        assert re.fullmatch(r"error: there is no ledger at .*absent.duckdb\n", result.stderr)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.chdir(tmp_path)
    assert runner.invoke(app, ["list", "--ledger", "mine"]).stderr == "error: there is no ledger at mine\n"


def test_busy_ledger(path: Path) -> None:
    with Ledger.open(path):
        result = runner.invoke(app, ["list", "--wait", "0"])
    assert result.exit_code == 2
    assert "is held by another part of this program; waited 0 s" in result.stderr


def test_list(path: Path) -> None:
    result = runner.invoke(app, ["list"])
    assert result.exit_code == 0, result.output
    assert "lock" in result.stdout
    assert "accepted" in result.stdout
    assert "\x1b[31m" not in result.stdout
    assert "\u202e" not in result.stdout


def test_list_is_whole_at_80_columns(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with Ledger.open(path) as ledger:
        event = ledger.append("rejected", submission="mynet-2", task="example-multilabel", payload={})
    shown = runner.invoke(app, ["list"]).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    cells = (event.time, "rejected", "mynet-2", "example-multilabel", event.digest[:12])
    assert all(cell in "\n".join(shown[-2:]) for cell in cells), shown


def test_list_json_of_one_kind(path: Path) -> None:
    (event,) = json.loads(runner.invoke(app, ["list", "--kind", "accepted", "--json"]).stdout)
    assert (event["seq"], event["kind"], event["submission"], event["payload"]) == (2, "accepted", HOSTILE, {"x": 1})
    assert runner.invoke(app, ["list", "--kind", "scored"]).exit_code == 2


def test_export(path: Path, tmp_path: Path) -> None:
    result = runner.invoke(app, ["export", "out", "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == {"written": ["out/events.parquet", "out/metrics.parquet"]}
    assert (tmp_path / "out" / "events.parquet").is_file()
    assert runner.invoke(app, ["export", "out"]).stdout.splitlines()[0] == "wrote out/events.parquet"


def test_every_example_in_the_help_is_true(path: Path) -> None:
    group = typer.main.get_command(app)
    for name in ("verify", "list", "export"):
        text = runner.invoke(app, [name, "--help"]).stdout
        found = re.search(r"Example: mvc ledger (\S+(?: \S+)*)", group.commands[name].help or "")  # type: ignore[attr-defined]
        assert found, text
        assert runner.invoke(app, found[1].split()).exit_code == 0
