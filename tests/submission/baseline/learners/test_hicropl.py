import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.baseline.backbones.clip import ClipBackbone
from submission.baseline.errors import BaselineError
from submission.baseline.learners import ClassTexts, make
from submission.baseline.learners.attention import Attention, Mapper, Pooler
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.hicropl import HiCroPL
from tests.submission.baseline import tiny
from tests.submission.baseline.learners.bench import (
    TEXTS,
    batch,
    built,
    configured,
    cross_entropy,
    images,
    logits,
    train,
    vit,
)


def as_torch(own: Attention, width: int) -> nn.MultiheadAttention:
    theirs = nn.MultiheadAttention(width, 8)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(own.inward)
        theirs.in_proj_bias.copy_(own.inward_bias)
        theirs.out_proj.weight.copy_(own.outward)
        theirs.out_proj.bias.copy_(own.outward_bias)
    return theirs


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_attention_is_that_of_torch() -> None:
    own = Attention(32, Draws(0, "cpu"), "test")
    with torch.no_grad():
        own.inward_bias.copy_(noise(96))
        own.outward_bias.copy_(noise(32, seed=1))
    q, k, v = noise(3, 32), noise(5, 32, seed=1), noise(5, 32, seed=2)
    torch.testing.assert_close(own(q, k, v), as_torch(own, 32)(q, k, v, need_weights=False)[0])


def test_attention_starts_as_that_of_torch() -> None:
    own, theirs = Attention(64, Draws(0, "cpu"), "test"), nn.MultiheadAttention(64, 8)
    for ours, torchs in ((own.inward, theirs.in_proj_weight), (own.outward, theirs.out_proj.weight)):
        assert ours.std().item() == pytest.approx(torchs.std().item(), rel=0.05)
        assert ours.abs().max().item() == pytest.approx(torchs.abs().max().item(), rel=0.02)
    assert own.inward_bias.abs().sum() == own.outward_bias.abs().sum() == 0


def test_a_pooler_makes_one_token_of_a_layer() -> None:
    own = Pooler(32, Draws(0, "cpu"), "test")
    query, prompts = noise(1, 32), noise(6, 32, seed=1)
    normed = functional.layer_norm(prompts, [32])
    mixed = as_torch(own.attention, 32)(functional.layer_norm(query, [32]), normed, normed, need_weights=False)[0]
    torch.testing.assert_close(own(query, prompts), functional.layer_norm(query + mixed, [32]))


def test_a_mapper_reads_another_width() -> None:
    own = Mapper(48, 32, Draws(0, "cpu"), "test")
    prompts, tokens = noise(6, 48), noise(2, 32, seed=1)

    def normed(x: Tensor) -> Tensor:
        return functional.layer_norm(x, [48])

    query, key, value = own.query(prompts), own.key(tokens), own.value(tokens)
    mixed = query + as_torch(own.attention, 48)(normed(query), normed(key), normed(value), need_weights=False)[0]
    inner = own.wide(normed(mixed))
    torch.testing.assert_close(own(prompts, tokens), mixed + own.narrow(inner * torch.sigmoid(1.702 * inner)))


def test_early_image_prompts_and_late_text_prompts_are_mapped() -> None:
    learner = built("hicropl", switch=1)
    text, vision = learner.mapped()
    assert [prompt.shape for prompt in text] == [(3, vit().text_width)] * 4
    assert [prompt.shape for prompt in vision] == [(3, vit().vision_width)] * 4
    assert [torch.equal(found, own) for found, own in zip(text, learner.text, strict=True)] == [True] + [False] * 3
    assert [torch.equal(found, own) for found, own in zip(vision, learner.vision, strict=True)] == [False] + [True] * 3
    proxy = learner.text_poolers[0](learner.text_proxies[0], learner.text[0])
    torch.testing.assert_close(vision[0], learner.to_vision(learner.vision[0], proxy))
    # queries of a layer do not see those of another, so a layer can be mapped alone
    proxies = [learner.vision_poolers[j](learner.vision_proxies[j], learner.vision[j + 1]) for j in range(3)]
    torch.testing.assert_close(text[2], learner.to_text(learner.text[2], torch.cat(proxies)))


def test_half_of_the_layers_teach_each_side() -> None:
    assert built("hicropl").switch == 2
    assert len(built("hicropl").text_poolers) == len(built("hicropl").vision_poolers) == 2


def test_proxies_start_apart_from_a_unit_normal_and_poolers_alike() -> None:
    learner = built("hicropl")
    for proxies, poolers in (
        (learner.text_proxies, learner.text_poolers),
        (learner.vision_proxies, learner.vision_poolers),
    ):
        first, second = proxies
        assert not torch.equal(first, second)
        assert torch.cat([first, second]).std().item() == pytest.approx(1, abs=0.3)
        states = [pooler.state_dict() for pooler in poolers]
        assert all(torch.equal(value, states[1][key]) for key, value in states[0].items())


def test_frozen_features_are_added() -> None:
    learner, seen = built("hicropl"), batch()
    text_prompts, vision_prompts = learner.mapped()
    text = learner.prompts.read(text_prompts[0], text_prompts[1:])
    image = functional.normalize(vit().read_images(images(), vision_prompts), dim=1)
    output = learner(seen.features, seen.images)
    torch.testing.assert_close(output.text, functional.normalize(text + learner.known, dim=1))
    torch.testing.assert_close(output.image, functional.normalize(image + seen.features, dim=1))


def test_loss_is_held_by_cosines_to_frozen_features() -> None:
    learner, seen = built("hicropl", weight=2.0), batch()
    output = learner(seen.features, seen.images)
    apart = 2 - functional.cosine_similarity(output.text, learner.known).mean()
    apart = apart - functional.cosine_similarity(output.image, seen.features).mean()
    expected = functional.cross_entropy(output.logits, seen.labels) + 2 * apart
    torch.testing.assert_close(learner.loss(output, seen, cross_entropy()), expected)
    assert built("hicropl").weight == 12.0


def test_descriptions_take_the_place_of_templates() -> None:
    about = (("clear lungs", "no opacity"), ("a faint opacity",), ("large opacities", "effusion", "collapse"))
    learner = make(configured("hicropl"), vit(), ClassTexts(TEXTS.names, TEXTS.templates, about), seed=1, epochs=1)
    assert isinstance(learner, HiCroPL)
    expected = torch.stack([functional.normalize(vit().encode_text(texts).mean(0), dim=0) for texts in about])
    torch.testing.assert_close(learner.known, expected)
    torch.testing.assert_close(learner.teacher, built("hicropl").teacher)
    without = built("hicropl")
    assert without.known is without.teacher  # read once


@pytest.mark.parametrize("about", [(("one",), ("two",)), (("one",), (), ("three",))])
def test_descriptions_of_some_classes_only(about: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(BaselineError, match="descriptions for 2 of 3 classes"):
        make(configured("hicropl"), vit(), ClassTexts(TEXTS.names, TEXTS.templates, about), seed=1, epochs=1)


@pytest.mark.parametrize(("depth", "switch"), [(1, None), (4, 4), (3, 5)])
def test_both_sides_need_a_layer(depth: int, switch: int | None) -> None:
    with pytest.raises(BaselineError, match="switch from 1 to depth - 1"):
        built("hicropl", depth=depth, switch=switch)


def test_heads_must_divide_the_towers() -> None:
    model = tiny.clip(0, {**tiny.VIT, "width": 60, "head_width": 15, "layers": 4}, 4)
    with pytest.raises(BaselineError, match="the image tower of ViT-B-32 is 60 wide"):
        built("hicropl", backbone=ClipBackbone(model, "ViT-B-32", tiny.PIXELS))


def test_published_maps_are_written_and_never_trained() -> None:
    learner = built("hicropl", form="as-published")
    assert torch.equal(learner.vision[0], learner.vision[3])
    assert torch.equal(learner.text_proxies[0], learner.text_proxies[1])
    assert torch.equal(learner.vision_proxies[0], learner.vision_proxies[1])
    assert not torch.equal(learner.text[0], learner.text[1])
    learner.step(batch(), cross_entropy())
    for name, parameter in learner.named_parameters():
        written = name.startswith(("text.", "vision."))
        assert (parameter.grad is not None) == written, name
    described = built("hicropl")
    train(described, 1)
    assert all(parameter.grad is not None for parameter in described.parameters())


def test_published_predictions_drift() -> None:
    learner = built("hicropl", form="as-published")
    first = logits(learner)
    assert not torch.allclose(logits(learner), first)
    described = built("hicropl")
    first = logits(described)
    assert torch.equal(logits(described), first)


def test_both_forms_read_the_same_maps_at_first() -> None:
    published, described = built("hicropl", form="as-published"), built("hicropl")
    with torch.no_grad():
        for parameter, value in zip(described.parameters(), published.parameters(), strict=True):
            parameter.copy_(value)
    torch.testing.assert_close(logits(published), logits(described))
