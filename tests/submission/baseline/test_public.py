"""What is published of a configuration tells nothing of its author's disk."""

from pathlib import Path

import pytest

from submission.baseline.public import published, shown_weights

CONFIG = "model: m\nbackbone:\n  name: toy\n  weights: {}  # mine\nlearner: {{name: coop}}\n"


@pytest.mark.parametrize(
    ("weights", "shown"),
    [
        (None, None),
        ("/home/someone/models/clip.pt", "clip.pt"),
        ("~/models/clip/", "clip"),
        ("../clip", "clip"),
        (r"C:\Users\someone\clip.pt", "clip.pt"),
        ("models/deep/clip.pt", "clip.pt"),
        ("openai/clip-vit-base-patch16", "openai/clip-vit-base-patch16"),
        ("hf-hub:openai/clip@main", "hf-hub:openai/clip@main"),
        ("https://huggingface.co/openai/clip", "https://huggingface.co/openai/clip"),
    ],
)
def test_a_local_path_is_cut_to_its_last_part(weights: str | None, shown: str | None) -> None:
    assert shown_weights(weights) == shown


def test_a_folder_that_looks_like_a_hub_id_is_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "someone" / "clip").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    assert shown_weights("someone/clip") == "clip"


def test_comments_of_the_file_stay() -> None:
    data = CONFIG.format("/home/someone/clip").encode()
    assert published(data) == CONFIG.format("clip").encode()
    hub = CONFIG.format("openai/clip").encode()
    assert published(hub) == hub


def test_a_path_that_is_written_in_another_way_is_left_out() -> None:
    assert published(CONFIG.format(r'"\x2fhome/someone/clip"').encode()) is None
