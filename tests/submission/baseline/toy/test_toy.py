"""The whole test bed: what it says of itself, kills, and the proof: every learner's loss falls and beats zero-shot."""

import fcntl
import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
import yaml
from PIL import Image
from torch.nn.functional import cross_entropy

from submission.baseline import toy as toys
from submission.baseline.backbones import load
from submission.baseline.backbones.base import Backbone
from submission.baseline.changes import changed
from submission.baseline.config import BackboneConfig
from submission.baseline.configs import read_config
from submission.baseline.data import read_pool
from submission.baseline.errors import BaselineError
from submission.baseline.learners import ClassTexts, make
from submission.baseline.running import Inputs, run
from submission.baseline.toy import Toy, clip, images, make_toy, pretrain
from submission.baseline.toy.pretrain import Preset, normalised

EPOCHS = 6
Scores = tuple[float, float]
SMALL = clip.Size(pixels=64, patch=32, vision_width=32, vision_layers=4, vision_heads=2, text_width=32, text_heads=2)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return make_toy(tmp_path_factory.mktemp("toy") / "toy", quick=True)


@pytest.fixture(scope="module")
def backbone(toy: Toy) -> Backbone:
    return load(BackboneConfig(name="toy", weights=str(toy.weights))).backbone


Features = dict[str, tuple[torch.Tensor, torch.Tensor]]


@pytest.fixture(scope="module")
def features(toy: Toy, backbone: Backbone) -> Features:
    """Image features and labels of train, and of all that a run predicts."""
    rows = read_pool(toy.splits, toy.images, task=toy.task).splits
    names = pl.read_csv(toy.folder / "split" / "private" / "images.csv")
    made: Features = {}
    for part, splits in {"train": ["train"], "evaluated": ["calib", "test", "external"]}.items():
        own = names.filter(pl.col("split").is_in(splits)).sort("image")
        pictures = np.stack([np.asarray(Image.open(toy.images / name)) for name in own["image"]])
        seen = [backbone.encode_images(normalised(pictures[start : start + 100])) for start in range(0, len(own), 100)]
        made[part] = torch.cat(seen), torch.tensor(own["label"].to_list())
        assert len(own) == rows.filter(pl.col("split").is_in(splits)).height
    return made


def test_every_learner_has_a_configuration_that_fits(toy: Toy, backbone: Backbone) -> None:
    assert len(toy.configs) == 7
    for path in toy.configs:
        config, _ = read_config(str(path))
        assert config.learner.name == path.stem
        assert config.about.title.startswith("TEST BED, no medical finding")
        assert "other made-up patients of the same generator" in config.about.pretraining_test_overlap
        assert images.NOTICE in path.read_text()
        assert config.backbone.weights == str(toy.weights)
        texts = ClassTexts(config.classes, config.templates, config.descriptions)
        make(config.learner, backbone, texts, seed=1, epochs=config.training.epochs)


def test_zero_shot_works_and_prompt_tuning_gains_on_it(toy: Toy, backbone: Backbone, features: Features) -> None:
    config, _ = read_config(str(next(path for path in toy.configs if path.stem == "coop")))
    texts = ClassTexts(config.classes, config.templates, config.descriptions)
    (seen, labels), (test, truth) = features["train"], features["evaluated"]

    def accuracy(weights: torch.Tensor) -> float:
        return float(((test @ weights.T).argmax(1) == truth).float().mean())

    zero = accuracy(backbone.encode_text([config.templates[0].format(name) for name in config.classes]))
    assert zero > 0.45  # chance is 0.25, the largest class holds some 0.4
    draw = torch.Generator().manual_seed(1)
    shuffled = torch.randperm(len(labels), generator=draw)
    chosen = torch.cat([shuffled[labels[shuffled] == k][:16] for k in range(4)])
    learner = make(config.learner, backbone, texts, seed=1, epochs=config.training.epochs)
    optimiser = torch.optim.SGD(learner.parameters(), lr=config.training.learning_rate, momentum=0.9)
    losses = []
    for _ in range(config.training.epochs):
        for rows in chosen[torch.randperm(len(chosen), generator=draw)].view(8, 8):
            loss = cross_entropy(learner(seen[rows], None).logits, labels[rows])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            losses.append(float(loss.detach()))
    assert np.mean(losses[-8:]) < np.mean(losses[:8]) - 0.05
    with torch.no_grad():
        tuned = float((learner(test, None).logits.argmax(1) == truth).float().mean())
    assert tuned > 0.6
    assert tuned > zero + 0.03


def test_everything_says_that_it_is_a_test_bed(toy: Toy) -> None:
    assert toy.notice == images.NOTICE
    for name in ("README.md", "clip/config.json", *(f"configs/{path.name}" for path in toy.configs)):
        assert images.NOTICE in (toy.folder / name).read_text(), name
    assert images.NOTICE.encode() in (toy.weights / clip.WEIGHTS).read_bytes()
    assert "NO MEDICAL FINDING" in yaml.safe_load(toy.task.read_text())["target"]


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(pretrain.PRESETS, "quick", Preset(SMALL, patients=20, steps=4, batch=8))


def test_a_stopped_toy_goes_on_and_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)
    seen: list[str] = []

    def stop(stage: str, done: int, total: int, note: str) -> None:
        seen.append(stage)
        if (stage, done) == ("pre-training", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_toy(tmp_path / "toy", quick=True, patients=60, progress=stop)
    assert not (tmp_path / "toy").exists()
    seen.clear()
    made = make_toy(tmp_path / "toy", quick=True, patients=60, progress=lambda stage, *rest: seen.append(stage))
    assert "images" not in seen
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]
    whole = make_toy(tmp_path / "whole", quick=True, patients=60)
    for name in ("clip/weights.safetensors", "split/public/splits.parquet", "metadata.csv"):
        assert (made.folder / name).read_bytes() == (whole.folder / name).read_bytes()
    assert Path(read_config(str(made.configs[0]))[0].backbone.weights or "") == tmp_path / "toy" / "clip"


def test_what_was_begun_with_other_arguments_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(monkeypatch)

    def stop(stage: str, done: int, total: int, note: str) -> None:
        if stage == "pre-training":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_toy(tmp_path / "toy", quick=True, patients=70, progress=stop)
    made = make_toy(tmp_path / "toy", quick=True, patients=60)
    assert len(list(made.images.iterdir())) == 120


def test_a_folder_that_is_taken_or_being_made_is_refused(toy: Toy, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="not an empty folder"):
        make_toy(toy.folder, quick=True)
    stage = tmp_path / ".toy.mvc-toy"
    stage.mkdir()
    handle = os.open(stage, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(BaselineError, match="another program is making"):
            make_toy(tmp_path / "toy", quick=True)
    finally:
        os.close(handle)


def test_sizes_of_worlds_suffice_for_sixteen_shots(toy: Toy) -> None:
    shots = pl.read_parquet(toy.splits.parent / "few_shot.parquet").filter(pl.col("split") == "train")
    assert set(shots.group_by("seed", "label").len()["len"]) == {16}
    assert toys.PATIENTS["quick"] < toys.PATIENTS["full"]


@pytest.fixture(scope="module")
def outcome(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Path, Scores]]:
    """Folder of the run of a learner with a loss, one seed; its negative log-likelihood and Brier score on test."""
    base = tmp_path_factory.mktemp("proof")
    truth = pl.read_parquet(toy.splits).filter(pl.col("split").is_in(["test", "external"])).select("image_id", "label")

    @cache
    def made(learner: str, loss: str) -> tuple[Path, Scores]:
        given, _ = read_config(str(toy.folder / "configs" / f"{learner}.yaml"))
        config = changed(given, ["seeds=[1]", f"training.epochs={EPOCHS}", f"loss.name={loss}", "calibrators=[]"])
        out = base / f"{learner}-{loss}"
        run(config, Inputs(toy.splits, toy.images, out, task=toy.task, cache=base / "views"), threads=1)
        rows = pl.read_parquet(out / "bundle" / "predictions.parquet").join(truth, on="image_id").sort("image_id")
        p = rows.select("p_0", "p_1", "p_2", "p_3").to_numpy()
        own = p[np.arange(len(p)), rows["label"].to_numpy()]
        brier = (p**2).sum(axis=1) - 2.0 * own + 1.0
        return out, (float(-np.log(own).mean()), float(brier.mean()))

    return made


@pytest.mark.parametrize(
    ("learner", "loss"),
    [
        *((learner, "ce") for learner in ("coop", "kgcoop", "prograd", "maple", "promptsrc", "hicropl")),
        *((learner, "mcm") for learner in ("coop", "prograd", "maple")),
    ],
)
def test_the_loss_falls_and_zero_shot_is_beaten(
    outcome: Callable[[str, str], tuple[Path, Scores]], learner: str, loss: str
) -> None:
    _, (nll, brier) = outcome("zeroshot", "ce")
    out, (own_nll, own_brier) = outcome(learner, loss)
    log = [json.loads(line) for line in (out / "seeds" / "1" / "log.jsonl").read_text().splitlines()]
    losses = [line["supervised"] if loss == "ce" else line["loss"] for line in log]
    assert len(losses) == EPOCHS
    assert losses[-1] < losses[0]
    assert own_nll < nll
    assert own_brier < brier
