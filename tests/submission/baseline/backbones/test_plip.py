"""transformers' CLIP, converted key by key, gives the same features."""

from typing import Any

import torch

from submission.baseline.backbones.plip import is_hf_clip, to_open_clip
from tests.submission.baseline.tiny import SIZE, hf_clip, tiny_plip

TEXTS = ["a photo of a cat", "an eye with a very long name"]


def tensor(out: Any) -> torch.Tensor:
    """Features, which newer releases of transformers wrap."""
    found: torch.Tensor = getattr(out, "pooler_output", out)
    return found


def test_the_features_are_those_of_transformers() -> None:
    backbone, model = tiny_plip(), hf_clip()
    images = torch.rand(2, 3, SIZE, SIZE)
    tokens = backbone.tokenize(TEXTS)
    padded = torch.where(tokens.mask, tokens.ids, 49407)  # transformers pads with the end mark
    with torch.no_grad():
        wanted = tensor(model.get_image_features(images)), tensor(model.get_text_features(padded))
    assert torch.allclose(backbone.read_images(images), wanted[0], atol=2e-6)
    assert torch.allclose(backbone.read_text(backbone.embed(tokens.ids), tokens), wanted[1], atol=2e-6)


def test_every_tensor_has_a_place_and_strangers_keep_their_names() -> None:
    state = hf_clip().state_dict()
    assert is_hf_clip(state)
    converted = to_open_clip({**state, "text_model.encoder.layers.0.adapter.weight": torch.zeros(1)})
    assert set(converted) - set(tiny_plip().model.state_dict()) == {"text_model.encoder.layers.0.adapter.weight"}
    assert set(tiny_plip().model.state_dict()) <= set(converted)
    assert not is_hf_clip(converted)
