"""Towers run by hand against open_clip's own, and prompts against hooks on open_clip's blocks."""

from typing import Any

import open_clip
import pytest
import torch
from torch import Tensor

from submission.baseline.backbones.base import unit
from submission.baseline.backbones.clip import ClipBackbone, clamped
from submission.baseline.errors import BaselineError
from tests.submission.baseline.tiny import EMBED, PIXELS, SIZE, TEXT, VIT, tiny_resnet, tiny_vit

TEXTS = ["a photo of a cat", "an eye", "x " * 40]


def images(count: int = 2) -> Tensor:
    return torch.randn(count, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def noise(*shape: int, seed: int = 2) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("make", [tiny_vit, tiny_resnet])
def test_the_text_tower_cut_at_the_longest_text_is_open_clips(make: Any) -> None:
    backbone = make()
    with torch.no_grad():
        wanted = backbone.model.encode_text(open_clip.tokenize(TEXTS))
        tokens = backbone.tokenize(TEXTS)
        read = backbone.read_text(backbone.embed(tokens.ids), tokens)
    assert tokens.ids.shape[1] == 42 < backbone.room
    assert torch.allclose(read, wanted, atol=1e-6)
    assert torch.allclose(backbone.encode_text(TEXTS), unit(wanted), atol=1e-6)


@pytest.mark.parametrize("make", [tiny_vit, tiny_resnet])
def test_the_image_tower_is_open_clips(make: Any) -> None:
    backbone = make()
    with torch.no_grad():
        wanted = backbone.model.encode_image(images())
    assert torch.allclose(backbone.read_images(images()), wanted, atol=1e-6)
    assert torch.allclose(backbone.encode_images(images()).norm(dim=1), torch.ones(2))


def test_deep_text_prompts_take_the_places_after_the_start_mark() -> None:
    backbone, deep = tiny_vit(), [noise(2, 32, seed=3), noise(2, 32, seed=4)]
    tokens = backbone.tokenize(TEXTS)

    def replaced(fresh: Tensor) -> Any:
        def hook(_: object, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            x = args[0].clone()
            x[:, 1:3] = fresh
            return (x, *args[1:])

        return hook

    handles = [
        backbone.model.transformer.resblocks[1 + j].register_forward_pre_hook(replaced(d)) for j, d in enumerate(deep)
    ]
    with torch.no_grad():
        wanted = backbone.model.encode_text(open_clip.tokenize(TEXTS))
    for handle in handles:
        handle.remove()
    read = backbone.read_text(backbone.embed(tokens.ids), tokens, deep)
    assert torch.allclose(read, wanted, atol=1e-6)
    plain = backbone.read_text(backbone.embed(tokens.ids), tokens)
    assert not torch.allclose(read, plain, atol=1e-3)


def test_vision_prompts_come_last_before_the_norm_and_are_replaced_before_blocks() -> None:
    backbone, prompts = tiny_vit(), [noise(3, 48, seed=seed) for seed in (5, 6, 7)]
    visual = backbone.model.visual

    def appended(_: object, args: tuple[Tensor, ...]) -> tuple[Tensor]:
        return (torch.cat([args[0], prompts[0].expand(len(args[0]), -1, -1)], 1),)

    def replaced(fresh: Tensor) -> Any:
        def hook(_: object, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            x = args[0].clone()
            x[:, -3:] = fresh
            return (x, *args[1:])

        return hook

    handles = [visual.ln_pre.register_forward_pre_hook(appended)]
    handles += [visual.transformer.resblocks[j].register_forward_pre_hook(replaced(prompts[j])) for j in (1, 2)]
    with torch.no_grad():
        wanted = backbone.model.encode_image(images())
    for handle in handles:
        handle.remove()
    assert torch.allclose(backbone.read_images(images(), prompts), wanted, atol=1e-6)
    assert not torch.allclose(backbone.read_images(images(), prompts[:1]), wanted, atol=1e-3)


def test_gradients_reach_every_prompt_and_no_parameter() -> None:
    backbone = tiny_vit()
    tokens = backbone.tokenize(TEXTS)
    embedded = backbone.embed(tokens.ids).requires_grad_()
    deep = [noise(2, 32).requires_grad_() for _ in range(3)]
    prompts = [noise(2, 48).requires_grad_() for _ in range(4)]
    before = {name: value.clone() for name, value in backbone.state_dict().items()}
    total = backbone.read_text(embedded, tokens, deep).sum() + backbone.read_images(images(), prompts).sum()
    total.backward()  # type: ignore[no-untyped-call]
    for leaf in (embedded, *deep, *prompts):
        assert leaf.grad is not None
        assert leaf.grad.abs().sum() > 0
    torch.optim.SGD([embedded, *deep, *prompts], lr=1.0).step()
    assert all(torch.equal(value, before[name]) for name, value in backbone.state_dict().items())


def test_it_is_frozen_and_stays_in_eval() -> None:
    backbone = tiny_resnet()
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    before = backbone.read_images(images())
    backbone.train()
    assert not any(module.training for module in backbone.modules())
    backbone.read_images(images(4))
    assert torch.equal(backbone.read_images(images()), before)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_gives_float32_near_the_full_one(precision: str) -> None:
    backbone = tiny_vit()
    text, image = backbone.encode_text(TEXTS), backbone.encode_images(images())
    backbone.precision = precision
    for full, mixed in ((text, backbone.encode_text(TEXTS)), (image, backbone.encode_images(images()))):
        assert mixed.dtype == torch.float32
        assert 0 < (full - mixed).abs().max() < 0.02


def test_tokens_say_where_a_text_ends() -> None:
    tokens = tiny_vit().tokenize(["a cat", ""])
    assert tokens.ids.tolist() == [[49406, 320, 2368, 49407], [49406, 49407, 0, 0]]
    assert tokens.ends.tolist() == [3, 1]
    assert tokens.mask.tolist() == [[True] * 4, [True, True, False, False]]


def test_the_widths_are_those_of_the_towers() -> None:
    vit, resnet = tiny_vit(layers=3), tiny_resnet()
    assert (vit.text_width, vit.vision_width, vit.embed_width, vit.room) == (32, 48, EMBED, 77)
    assert (vit.text_layers, vit.vision_layers, resnet.text_layers) == (3, 3, 2)
    assert (resnet.vision_layers, resnet.vision_width) == (0, 0)


def test_the_scale_is_at_most_100() -> None:
    assert clamped(torch.tensor(5.0)).item() == 100
    assert clamped(torch.tensor([2.0], dtype=torch.float16)).shape == ()
    assert tiny_vit().scale.item() == pytest.approx(1 / 0.07, rel=1e-5)


def test_what_a_tower_has_no_place_for_is_an_error() -> None:
    vit, resnet = tiny_vit(), tiny_resnet()
    tokens = vit.tokenize(TEXTS)
    with pytest.raises(BaselineError, match=r"takes 82 tokens with its marks, there is room for 77"):
        vit.tokenize(["a cat", "x " * 80])
    with pytest.raises(
        BaselineError, match=r"ViT-B-32: deep prompts of the text tower: 4 sets given, the tower takes 3"
    ):
        vit.read_text(vit.embed(tokens.ids), tokens, [noise(1, 32)] * 4)
    with pytest.raises(BaselineError, match=r"RN50: prompts of the image tower: 1 sets given, the tower takes 0"):
        resnet.read_images(images(), [noise(1, 48)])


def test_a_text_tower_that_is_not_clips_is_refused() -> None:
    text = {**TEXT, "layers": 1, "pool_type": "last"}
    with pytest.raises(BaselineError, match="the text tower is not CLIP's"):
        ClipBackbone(open_clip.CLIP(EMBED, {**VIT, "layers": 1}, text), "PLIP", PIXELS)
