"""BiomedCLIP and MedCLIP against their own forward passes, written out here."""

from typing import Any

import pytest
import torch
from torch import Tensor

from submission.baseline.backbones.base import Tokens
from submission.baseline.backbones.medclip import MEAN as GREY_MEAN
from submission.baseline.backbones.medclip import STD as GREY_STD
from submission.baseline.errors import BaselineError
from tests.submission.baseline.tiny import EMBED, SIZE, pieces, tiny_bert, tiny_medclip

TEXTS = ["a photo of a cat", "X X X lung opacity, normal."]


def filled(tokens: Tokens, length: int) -> Tensor:
    """The ids padded to ``length``."""
    ids = torch.zeros(len(tokens.ids), length, dtype=torch.int64)
    ids[:, : tokens.ids.shape[1]] = tokens.ids
    return ids


def test_biomedclips_text_tower_cut_at_the_longest_text_is_open_clips() -> None:
    backbone = tiny_bert()
    tokens = backbone.tokenize(TEXTS)
    with torch.no_grad():
        wanted = backbone.model.encode_text(filled(tokens, 256))
        read = backbone.read_text(backbone.embed(tokens.ids), tokens)
    assert tokens.ids.shape[1] < 20
    assert torch.allclose(read, wanted, atol=1e-6)


def test_biomedclips_embeddings_are_those_of_words_alone() -> None:
    backbone = tiny_bert()
    ids = backbone.tokenize(TEXTS).ids
    layer = backbone.model.text.transformer.embeddings
    assert torch.equal(backbone.embed(ids), layer.word_embeddings.weight[ids])
    assert not torch.allclose(backbone.embed(ids), layer(ids), atol=1e-3)


def test_biomedclips_image_tower_is_open_clips() -> None:
    backbone, images = tiny_bert(), torch.rand(2, 3, 160, 160)
    with torch.no_grad():
        wanted = backbone.model.encode_image(images)
    assert torch.equal(backbone.read_images(images), wanted)


def test_medclips_text_feature_is_the_mean_of_three_layers_over_all_positions() -> None:
    backbone = tiny_medclip()
    tokens = backbone.tokenize(TEXTS)
    with torch.no_grad():
        out = backbone.bert(input_ids=tokens.ids, attention_mask=tokens.mask.long(), output_hidden_states=True)
        states = out.hidden_states
        total = sum(states[layer][:, place] for layer in (1, 2, -1) for place in range(25))
        wanted = backbone.model.text_model.projection_head(total / 75)
    assert tokens.ids.shape == (2, 25)
    assert torch.allclose(backbone.read_text(backbone.embed(tokens.ids), tokens), wanted, atol=1e-6)


def test_medclips_padding_enters_the_feature() -> None:
    backbone = tiny_medclip()
    tokens = backbone.tokenize(TEXTS[:1])
    longer = Tokens(filled(tokens, 30), torch.arange(30)[None] < tokens.mask.sum(), tokens.ends)
    read = backbone.read_text(backbone.embed(tokens.ids), tokens)
    assert not torch.allclose(read, backbone.read_text(backbone.embed(longer.ids), longer), atol=1e-3)


def test_medclip_sees_grey() -> None:
    backbone = tiny_medclip()
    colours = torch.rand(1, 3, SIZE, SIZE)
    luma = 0.299 * colours[:, :1] + 0.587 * colours[:, 1:2] + 0.114 * colours[:, 2:]
    images = [(values - GREY_MEAN) / GREY_STD for values in (colours, luma.expand(-1, 3, -1, -1))]
    first, second = (backbone.read_images(values) for values in images)
    assert backbone.pixels.mean == (GREY_MEAN,) * 3
    assert first.shape == (1, EMBED)
    assert torch.allclose(first, second, atol=1e-5)


@pytest.mark.parametrize("make", [tiny_bert, tiny_medclip])
def test_gradients_reach_the_words_and_no_parameter(make: Any) -> None:
    backbone = make()
    assert not any(parameter.requires_grad for parameter in backbone.parameters())
    tokens = backbone.tokenize(TEXTS)
    embedded = backbone.embed(tokens.ids).requires_grad_()
    backbone.read_text(embedded, tokens)[:, 0].sum().backward()
    assert embedded.grad is not None
    assert embedded.grad.abs().sum() > 0


@pytest.mark.parametrize("make", [tiny_bert, tiny_medclip])
def test_dropout_stays_off(make: Any) -> None:
    backbone = make()
    backbone.train()
    assert torch.equal(backbone.encode_text(TEXTS), backbone.encode_text(TEXTS))
    assert not any(module.training for module in backbone.modules())


@pytest.mark.parametrize("make", [tiny_bert, tiny_medclip])
@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision_gives_float32(make: Any, precision: str) -> None:
    backbone = make()
    full = backbone.encode_text(TEXTS)
    backbone.precision = precision
    mixed = backbone.encode_text(TEXTS)
    assert mixed.dtype == torch.float32
    assert 0 < (mixed - full).abs().max() < 0.02


@pytest.mark.parametrize("make", [tiny_bert, tiny_medclip])
def test_deep_prompts_are_refused(make: Any) -> None:
    backbone = make()
    tokens = backbone.tokenize(TEXTS)
    with pytest.raises(BaselineError, match=r"deep prompts of the text tower: 1 sets given, the tower takes 0"):
        backbone.read_text(backbone.embed(tokens.ids), tokens, [torch.zeros(1, 32)])
    with pytest.raises(BaselineError, match=r"prompts of the image tower: 1 sets given, the tower takes 0"):
        backbone.read_images(torch.zeros(1, 3, SIZE, SIZE), [torch.zeros(1, 32)])


def test_tokens_say_where_a_text_ends() -> None:
    tokens = tiny_bert().tokenize(["a cat", "Photo OF photo of cat"])
    assert tokens.ids.tolist() == [[2, 10, 6, 3, 0, 0, 0], [2, 4, 5, 4, 5, 6, 3]]
    assert tokens.ends.tolist() == [3, 6]
    assert tokens.mask.sum(1).tolist() == [4, 7]


def test_biomedclip_reads_marks_of_web_pages_as_open_clip_does() -> None:
    assert torch.equal(tiny_bert().tokenize(["an H&amp;E cat"]).ids, tiny_bert().tokenize(["an H&E cat"]).ids)


def test_texts_beyond_the_room_are_errors() -> None:
    with pytest.raises(BaselineError, match=r"takes 302 tokens with its marks, there is room for 256"):
        tiny_bert().tokenize(["cat " * 300])
    assert pieces().rows(["cat " * 300])[0][-1] == pieces().end
