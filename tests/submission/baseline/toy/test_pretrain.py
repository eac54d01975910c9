"""Pre-training: keyed by step, resumable, on patients of no world, from a start that can learn."""

from pathlib import Path

import numpy as np
import pytest
import torch

from submission.baseline.backbones.base import unit
from submission.baseline.toy import clip, images, pretrain
from submission.baseline.toy.captions import CLASSES
from submission.baseline.toy.pretrain import CHECKPOINT, PRESETS, Preset, normalised, tokens
from submission.baseline.toy.start import prepare

SMALL = clip.Size(pixels=32, patch=16, vision_width=32, vision_layers=2, vision_heads=2, text_width=32, text_heads=2)
PRESET = Preset(SMALL, patients=40, steps=6, batch=16)


class Stopped(Exception):
    """What a kill looks like from inside."""


def trained(folder: Path, *, seed: int = 1, stop: int | None = None) -> bytes:
    def watch(stage: str, done: int, total: int, note: str) -> None:
        if stage == "pre-training" and done == stop:
            raise Stopped

    pretrain.pretrain(folder / "clip", PRESET, seed=seed, aside=folder, progress=watch, pause=0)
    return (folder / "clip" / clip.WEIGHTS).read_bytes()


def test_a_stopped_training_ends_in_the_same_weights(tmp_path: Path) -> None:
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    whole.mkdir()
    stopped.mkdir()
    wanted = trained(whole)
    for stop in (2, 5):
        with pytest.raises(Stopped):
            trained(stopped, stop=stop)
        assert (stopped / CHECKPOINT).is_file()
        assert not (stopped / "clip").exists()
    assert trained(stopped) == wanted
    assert not (stopped / CHECKPOINT).exists()


def test_a_checkpoint_of_another_training_or_a_damaged_one_is_not_used(tmp_path: Path) -> None:
    other, plain = tmp_path / "other", tmp_path / "plain"
    other.mkdir()
    plain.mkdir()
    wanted = trained(plain)
    with pytest.raises(Stopped):
        trained(other, seed=2, stop=4)
    assert trained(other) == wanted
    (other / CHECKPOINT).write_bytes(b"no tensors")
    assert trained(other) == wanted
    assert trained(plain, seed=2) != wanted


def test_the_rate_warms_up_and_falls() -> None:
    preset = PRESETS["quick"]
    rates = [pretrain.rate(step, preset) for step in range(preset.steps)]
    top = round(preset.warmup * preset.steps)
    assert rates[0] == pytest.approx(preset.rate / top)
    assert max(rates) == pytest.approx(preset.rate)
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 0.01 * preset.rate


def test_equal_captions_are_each_others_positives() -> None:
    model = clip.built_aside(SMALL, 1).eval()
    pictures = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    texts = ["no dark dots.", "many dark dots.", "no dark dots.", "a few dark dots."]
    with torch.no_grad():
        loss = float(pretrain.contrast(model, pictures, texts))
        seen = torch.nn.functional.normalize(model.encode_image(pictures), dim=-1)
        padded = torch.nn.functional.pad(ids := tokens(texts), (0, 77 - ids.shape[1]))
        read = torch.nn.functional.normalize(model.encode_text(padded), dim=-1)
        z = (model.logit_scale.exp() * seen @ read.T).double()
    same = torch.tensor([[a == b for b in texts] for a in texts])
    to_text = -torch.log((z.softmax(1) * same).sum(1)).mean()
    to_picture = -z.log_softmax(0).diagonal().mean()
    assert loss == pytest.approx(float(to_text + to_picture) / 2, abs=1e-5)


def test_from_the_start_pictures_and_texts_lie_apart() -> None:
    model = clip.built_aside(clip.SIZES["quick"], 1).eval()
    pictures = normalised(images.draw(images.subjects(1, range(60))))
    ids = tokens([f"a photo of {name}." for name in CLASSES])

    def closeness() -> list[float]:
        with torch.no_grad():
            found = unit(model.visual(pictures)), unit(clip.text_features(model, ids))
        return [float((x @ x.T).mean()) for x in found]

    before = closeness()
    prepare(model, pictures, ids)
    after = closeness()
    assert before[0] > 0.9
    assert before[1] > 0.5
    assert after[0] < 0.1
    assert after[1] < before[1] - 0.3


def test_the_patients_are_in_no_world() -> None:
    of_worlds = images.subjects(1, [1, 719, images.MOST_PATIENTS - 1])
    assert of_worlds.patient.max() < images.MOST_PATIENTS
    first = images.subjects(1, np.arange(2) + images.MOST_PATIENTS)
    assert not set(first.keys.tolist()) & set(images.subjects(1, range(2)).keys.tolist())
