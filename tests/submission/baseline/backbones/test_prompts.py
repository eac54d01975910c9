"""Soft prompts that hold the embeddings of words are those words."""

from typing import Any, Literal

import pytest
import torch

from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.errors import BaselineError
from tests.submission.baseline.tiny import tiny_bert, tiny_medclip, tiny_plip, tiny_resnet, tiny_vit

NAMES = ("cat", "lung_opacity", "normal lung")


@pytest.mark.parametrize("make", [tiny_vit, tiny_resnet, tiny_plip, tiny_bert, tiny_medclip])
def test_a_prompt_of_the_embeddings_of_a_phrase_is_the_phrase(make: Any) -> None:
    backbone = make()
    prompts = ClassPrompts(backbone, NAMES, "a photo of a")
    wanted = backbone.encode_text([f"a photo of a {name.replace('_', ' ')}." for name in NAMES])
    assert prompts.count == 4
    assert torch.allclose(prompts.read(prompts.phrase), wanted, atol=1e-6)
    assert torch.allclose(prompts.read(prompts.phrase.expand(3, -1, -1)), wanted, atol=1e-6)


@pytest.mark.parametrize(
    ("position", "template"),
    [("end", "a photo of a {}."), ("middle", "a photo {} of a ."), ("front", "{} a photo of a .")],
)
@pytest.mark.parametrize("make", [tiny_vit, tiny_bert])
def test_a_name_stands_where_it_is_put(make: Any, position: Literal["end", "middle", "front"], template: str) -> None:
    backbone, names = make(), ("cat", "normal lung (left)")
    prompts = ClassPrompts(backbone, names, "a photo of a", position)
    read = prompts.read(prompts.phrase)
    assert torch.allclose(read, backbone.encode_text([template.format(name) for name in names]), atol=1e-6)


def test_context_goes_into_its_places_and_nowhere_else() -> None:
    backbone = tiny_vit()
    prompts = ClassPrompts(backbone, NAMES, 5, "middle")
    context = torch.arange(3 * 5 * 32.0).reshape(3, 5, 32)
    filled = prompts.filled(context)
    for row in range(3):
        assert torch.equal(filled[row, prompts.slots[row]], context[row])
        kept = [place for place in range(filled.shape[1]) if place not in prompts.slots[row].tolist()]
        assert torch.equal(filled[row, kept], prompts.embedded[row, kept])
    assert prompts.slots.tolist() == [[1, 2, 4, 5, 6], [1, 2, 6, 7, 8], [1, 2, 5, 6, 7]]
    assert torch.equal(prompts.filled(context[0])[2, prompts.slots[2]], context[0])


def test_a_number_holds_places_with_x() -> None:
    backbone = tiny_vit()
    prompts = ClassPrompts(backbone, ["cat"], 3)
    assert torch.equal(prompts.tokens.ids, backbone.tokenize(["X X X cat."]).ids)
    assert torch.equal(prompts.phrase, backbone.embed(backbone.tokenize(["X X X"]).ids)[0, 1:4])


def test_gradients_reach_the_context_and_deep_prompts() -> None:
    prompts = ClassPrompts(tiny_vit(), NAMES, 2)
    context, deep = prompts.phrase.clone().requires_grad_(), torch.zeros(2, 32, requires_grad=True)
    prompts.read(context, (deep,))[:, 0].sum().backward()  # type: ignore[no-untyped-call]
    assert context.grad is not None
    assert deep.grad is not None
    assert context.grad.abs().sum() > 0
    assert deep.grad.abs().sum() > 0


def test_nothing_of_it_is_trained_or_stored() -> None:
    prompts = ClassPrompts(tiny_vit(), NAMES, 2)
    assert list(prompts.parameters()) == []
    assert prompts.state_dict() == {}


def test_medclip_reads_every_prompt_at_one_length() -> None:
    prompts = ClassPrompts(tiny_medclip(), ["cat"], 16)
    assert prompts.ids.shape == (1, 25)


def test_prompts_that_do_not_fit_are_errors() -> None:
    with pytest.raises(BaselineError, match=r"MedCLIP: 'X X .* takes 26 tokens with its marks, there is room for 25"):
        ClassPrompts(tiny_medclip(), ["cat", "cat cat cat cat cat cat cat"], 16)
    with pytest.raises(BaselineError, match="holds no word"):
        ClassPrompts(tiny_vit(), NAMES, " ")
    with pytest.raises(BaselineError, match="holds no word"):
        ClassPrompts(tiny_vit(), NAMES, 0)
