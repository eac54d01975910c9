"""The tiny CLIP: of the real architecture, saved and loaded whole, refused when altered."""

import json
from pathlib import Path

import pytest
import torch

from submission.baseline.backbones.base import unit
from submission.baseline.backbones.clip import ClipBackbone
from submission.baseline.errors import BaselineError
from submission.baseline.toy import clip
from submission.baseline.toy.pretrain import tokens

META = clip.Meta("not at all", {"seed": 1})


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    clip.save(clip.built_aside(clip.SIZES["quick"], 3), clip.SIZES["quick"], folder, META)
    return folder


def copied(saved: Path, folder: Path) -> Path:
    for name in (clip.CONFIG, clip.WEIGHTS):
        (folder / name).write_bytes((saved / name).read_bytes())
    return folder


@pytest.mark.parametrize("name", clip.SIZES)
def test_sizes_leave_room_for_deep_prompts(name: str) -> None:
    size = clip.SIZES[name]
    model = clip.built_aside(size, 0)
    assert 3_000_000 < sum(p.numel() for p in model.parameters()) < 8_000_000
    assert min(size.vision_layers, size.text_layers) >= 4
    assert min(size.vision_width // size.vision_heads, size.text_width // size.text_heads) >= 16
    assert model.context_length == 77


def test_what_is_saved_comes_back(saved: Path) -> None:
    model, loaded = clip.built_aside(clip.SIZES["quick"], 3).eval(), clip.load(saved)
    assert not loaded.training
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, loaded.state_dict()[name]), name
    config = json.loads((saved / clip.CONFIG).read_text())
    assert "NO MEDICAL FINDING" in config["notice"]
    assert config["trained"] == "not at all"
    assert clip.pixels(saved) == clip.pixels_of(clip.SIZES["quick"])


def test_the_global_stream_of_torch_is_left_alone(saved: Path) -> None:
    before = torch.random.get_rng_state()
    clip.load(saved)
    assert torch.equal(before, torch.random.get_rng_state())


def test_it_runs_on_the_code_path_of_the_real_ones(saved: Path) -> None:
    model = clip.load(saved)
    backbone = ClipBackbone(model, "toy", clip.pixels(saved))
    texts = ["a photo of mild retinopathy.", "no dark dots"]
    ids, images = tokens(texts), torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    padded = torch.nn.functional.pad(ids, (0, 77 - ids.shape[1]))
    with torch.no_grad():
        torch.testing.assert_close(clip.text_features(model, ids), model.encode_text(padded))
        torch.testing.assert_close(backbone.encode_text(texts), unit(model.encode_text(padded)))
        torch.testing.assert_close(backbone.encode_images(images), unit(model.encode_image(images)))


def test_changed_weights_are_refused(saved: Path, tmp_path: Path) -> None:
    folder = copied(saved, tmp_path)
    raw = bytearray((folder / clip.WEIGHTS).read_bytes())
    raw[-1] ^= 1
    (folder / clip.WEIGHTS).write_bytes(raw)
    with pytest.raises(BaselineError, match=r"has SHA-256 .*wants .*mvc baseline toy"):
        clip.load(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, r"config.json: format: .*mvc baseline toy"),
        ({"architecture": {"pixels": 1}}, r"config.json: architecture.pixels: .*mvc baseline toy"),
        ({"architecture": {"patch": 8}}, "the weights of another architecture"),
    ],
)
def test_a_changed_description_is_refused(saved: Path, tmp_path: Path, change: dict[str, object], message: str) -> None:
    folder = copied(saved, tmp_path)
    path = folder / clip.CONFIG
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(BaselineError, match=message):
        clip.load(folder)


def test_missing_files_and_no_json_are_refused(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"config.json can't be read \(No such file"):
        clip.load(tmp_path)
    folder = copied(saved, tmp_path)
    (folder / clip.WEIGHTS).unlink()
    with pytest.raises(BaselineError, match=r"weights.safetensors can't be read"):
        clip.load(folder)
    (folder / clip.CONFIG).write_text("{")
    with pytest.raises(BaselineError, match="the file: Invalid JSON"):
        clip.load(folder)
