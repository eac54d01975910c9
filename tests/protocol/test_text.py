"""The law as text: PROTOCOL.md and ``mvc rules`` say what the registry and the models say, and nothing else."""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from mvc.cli import app
from protocol import EDITION
from protocol.calibrators import FittedCalibrator
from protocol.catalogue import catalogue
from protocol.declaration import Declaration
from protocol.findings import Level, Outcome, Status
from protocol.rules import all_rules, title_of
from protocol.stages import STAGES
from protocol.submission import Family, Submission
from protocol.tables import PREDICTIONS_TEXT, SPLITS_OPTIONAL, SPLITS_TEXT
from protocol.task import Task
from protocol.text import BEGIN, END, rule_text, rules_json, rules_text, with_rules
from protocol.types import Kind
from scorer.ledger import EVENT_COLUMNS, EventKind
from scorer.results import SCHEMA

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "PROTOCOL.md").read_text(encoding="utf-8")
PROSE = DOCUMENT.partition(BEGIN)[0]
# `deterministic: true` explains the field deterministic
CODE = {code.partition(": ")[0] for code in re.findall(r"`([^`\n]+)`", PROSE)}
STORED_COLUMNS = (*SPLITS_TEXT, *SPLITS_OPTIONAL, *PREDICTIONS_TEXT, "seed", "label", "p_1", "z_1")


def fields_of(model: type[BaseModel]) -> Iterator[str]:
    """Every field name of ``model`` and of the models within it, as documents write it."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        for inner in models_in(field.annotation):
            yield from fields_of(inner)


def models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from models_in(argument)


def test_tables_of_rules_are_up_to_date() -> None:
    assert with_rules(DOCUMENT) == DOCUMENT, "run: python -m protocol.text < PROTOCOL.md > new && mv new PROTOCOL.md"


def test_a_changed_table_is_drift() -> None:
    assert with_rules(DOCUMENT.replace("patient-in-two-splits", "patient-in-three-splits")) == DOCUMENT


@pytest.mark.parametrize("document", ["", BEGIN, END])
def test_missing_marks_are_said(document: str) -> None:
    with pytest.raises(ValueError, match="marks"):
        with_rules(document)


def test_every_rule_has_one_anchor() -> None:
    anchors = re.findall(r'<a id="([^"]+)"></a>', DOCUMENT)
    assert anchors == [rule_id.lower() for rule_id in all_rules()]


def test_rules_named_in_prose_exist() -> None:
    assert set(re.findall(r"MVC\d{3}", PROSE)) <= set(all_rules())


def test_headings_are_linked() -> None:
    headings = {
        re.sub(r"[^\w\- ]", "", line.lstrip("# ")).strip().lower().replace(" ", "-")
        for line in DOCUMENT.splitlines()
        if line.startswith("#")
    }
    assert set(re.findall(r"\]\(#([^)]+)\)", DOCUMENT)) <= headings


@pytest.mark.parametrize("model", [Task, Submission, FittedCalibrator, Declaration])
def test_every_field_is_explained(model: type[BaseModel]) -> None:
    assert set(fields_of(model)) - CODE == set()


@pytest.mark.parametrize(
    "names",
    [SCHEMA.names, EVENT_COLUMNS, get_args(Family), STORED_COLUMNS],
    ids=["metrics.parquet", "events", "families", "tables"],
)
def test_every_name_is_explained(names: Sequence[str]) -> None:
    assert set(names) - CODE == set()


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_every_metric_is_explained(kind: Kind) -> None:
    assert {name.removesuffix("_macro") for name in catalogue(kind)} - CODE == set()


def test_every_outcome_level_status_and_event_is_explained() -> None:
    words = [*Outcome, *Level, *Status, *EventKind]
    assert [word for word in words if word not in PROSE] == []


def test_rules_are_listed_by_stage() -> None:
    done = CliRunner().invoke(app, ["rules"])
    assert (done.exit_code, done.stdout) == (0, rules_text() + "\n")
    assert EDITION in done.stdout.splitlines()[0]
    listed = re.findall(r"MVC\d{3}", done.stdout)
    assert listed == list(all_rules())
    for stage, name in STAGES.items():
        assert f"\n{stage} {name}\n" in done.stdout


def test_one_rule_is_explained() -> None:
    done = CliRunner().invoke(app, ["rules", "MVC101"])
    assert (done.exit_code, done.stdout) == (0, rule_text("MVC101") + "\n")
    rule = all_rules()["MVC101"]
    for part in ("MVC101 patient-in-two-splits (must)", title_of(rule), rule.why, rule.mend, "Needs: MVC110 first"):
        assert part in done.stdout


def test_case_does_not_matter() -> None:
    assert CliRunner().invoke(app, ["rules", "mvc107"]).stdout == rule_text("MVC107") + "\n"
    assert "Reads test labels" in rule_text("MVC107")


def test_rules_as_json() -> None:
    every = CliRunner().invoke(app, ["rules", "--json"])
    one = CliRunner().invoke(app, ["rules", "MVC407", "--json"])
    assert (every.exit_code, one.exit_code) == (0, 0)
    assert json.loads(every.stdout) == list(rules_json().values())
    assert json.loads(one.stdout) == rules_json()["MVC407"]


@pytest.mark.parametrize("rule", ["MVC999", "101", ""])
def test_an_unknown_rule_is_wrong_usage(rule: str) -> None:
    done = CliRunner().invoke(app, ["rules", rule])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "there is no rule" in done.stderr


def test_contributing_quotes_the_code() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", guide, flags=re.DOTALL)
    assert len(blocks) == guide.count("```python") > 3
    for file, quoted in blocks:
        assert quoted in (ROOT / file).read_text(encoding="utf-8"), file
