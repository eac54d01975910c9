"""The example for EvalAI: labels are the keys that are reported, and the file has what EvalAI's reader asks for."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from mvc.cli import app
from protocol.catalogue import headline_metrics
from protocol.task import ParticipantView

FOLDER = Path(__file__).resolve().parents[2] / "docker" / "hosts" / "evalai"
HIGHER_IS_BETTER = ("accuracy", "auroc")
COUNTS = ("n_images", "n_patients")


@pytest.fixture(scope="module")
def config() -> dict[str, Any]:
    """The example."""
    return dict(yaml.safe_load((FOLDER / "challenge_config.yaml").read_text(encoding="utf-8")))


def test_labels_are_the_keys_of_a_binary_result(config: dict[str, Any]) -> None:
    (board,) = config["leaderboard"]
    numbers = [f"{name}{end}" for name in headline_metrics("binary") for end in ("", "_lo", "_hi")]
    assert board["schema"]["labels"] == [*numbers, *COUNTS]
    assert board["schema"]["default_order_by"] == numbers[0] == "brier_binary"


def test_what_is_less_ranks_first(config: dict[str, Any]) -> None:
    """EvalAI takes a column's own direction where metadata has one, else that of the phase's split."""
    schema, (split,) = config["leaderboard"][0]["schema"], config["challenge_phase_splits"]
    assert set(schema["metadata"]) <= set(schema["labels"])
    usual = not split["is_leaderboard_order_descending"]
    for label in schema["labels"]:
        ascending = schema["metadata"].get(label, {}).get("sort_ascending", usual)
        assert label in COUNTS or ascending is not label.startswith(HIGHER_IS_BETTER), label
    assert split["leaderboard_decimal_precision"] == ParticipantView().decimals


def test_the_reader_finds_what_it_asks_for(config: dict[str, Any]) -> None:
    """As ``validate_challenge_config_util`` of Cloud-CV/EvalAI, apps/challenges/challenge_config_utils.py."""
    for key in ("description", "evaluation_details", "terms_and_conditions", "submission_guidelines"):
        assert config[key].endswith(".html")
    assert config["title"]
    assert config["evaluation_script"].endswith(".zip")
    assert config["image"].endswith((".jpg", ".jpeg", ".png"))
    assert config["start_date"] < config["end_date"]
    assert len(config["tags"]) <= 4
    assert config["domain"] in ("CV", "NLP", "RL", "MM", "AUD", "TAB")
    assert (config["remote_evaluation"], config["is_docker_based"]) == (True, False)
    parts = ("challenge_phases", "dataset_splits", "challenge_phase_splits")
    (phase,), (data,), (split,) = (config[name] for name in parts)
    assert {"id", "name", "codename", "description"} <= set(phase)
    assert phase["description"].endswith(".html")
    assert config["start_date"] <= phase["start_date"] < phase["end_date"] <= config["end_date"]
    assert not (phase["is_submission_public"] and phase["is_restricted_to_select_one_submission"])
    assert data["name"]
    assert re.fullmatch(r"\w+", data["codename"])
    ids = (split["challenge_phase_id"], split["dataset_split_id"], split["leaderboard_id"])
    assert ids == (phase["id"], data["id"], config["leaderboard"][0]["id"])
    assert split["visibility"] in (1, 2, 3)


def test_labels_never_leave_and_reasons_are_shown(config: dict[str, Any]) -> None:
    (phase,) = config["challenge_phases"]
    assert "test_annotation_file" not in phase
    assert phase["disable_logs"] is False
    assert phase["allowed_submission_file_types"] == ".zip"
    assert phase["max_submissions_per_day"] <= phase["max_submissions_per_month"] <= phase["max_submissions"]


def test_the_readme_names_options_that_there_are() -> None:
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    shown = CliRunner().invoke(app, ["evalai-worker", "--help"], env={"COLUMNS": "200"}).stdout
    named = set(re.findall(r"--[a-z-]+", text)) - {"--task"}
    assert named
    assert {option for option in named if f"{option} " not in shown} == set()
    for variable in ("AUTH_TOKEN", "API_SERVER", "QUEUE_NAME", "CHALLENGE_PK", "SAVE_DIR"):
        assert variable in text
        assert variable in shown
