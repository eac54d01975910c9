import pytest
import torch

from submission.baseline.errors import BaselineError
from tests.submission.baseline.learners.bench import batch, built, images, train, vit


def test_the_first_words_are_learned_and_the_others_stay() -> None:
    learner = built("maple")
    ids = vit().tokenize(["a photo of a"]).ids[:, 1:5]
    words = vit().embed(ids)[0]
    assert torch.equal(learner.context, words[:2])
    assert torch.equal(learner.prompts.phrase, words)
    assert learner.prompts.count == 4


def test_at_depth_one_the_start_is_zero_shot_text() -> None:
    learner = built("maple", depth=1)
    assert len(learner.deep) == 0
    assert len(learner.coupling) == 1
    torch.testing.assert_close(learner(batch().features, batch().images).text, learner.teacher)


def test_image_prompts_are_maps_of_text_prompts() -> None:
    learner, seen = built("maple"), batch()
    prompts = [learner.context, *learner.deep]
    mapped = [text @ couple.weight.T + couple.bias for text, couple in zip(prompts, learner.coupling, strict=True)]
    assert [prompt.shape for prompt in mapped] == [(2, vit().vision_width)] * 3
    expected = torch.nn.functional.normalize(vit().read_images(images(), mapped), dim=1)
    torch.testing.assert_close(learner(seen.features, seen.images).image, expected)


def test_every_layer_reads_its_text_prompts() -> None:
    learner, seen = built("maple", depth=4), batch()
    prompts = learner.prompts
    embedded = prompts.embedded.clone()
    embedded[:, 1:3] = learner.context
    raw = vit().read_text(embedded, prompts.tokens, list(learner.deep))
    torch.testing.assert_close(learner(seen.features, seen.images).text, torch.nn.functional.normalize(raw, dim=1))
    shorter = torch.nn.functional.normalize(vit().read_text(embedded, prompts.tokens, list(learner.deep[:2])), dim=1)
    assert not torch.allclose(learner(seen.features, seen.images).text, shorter)


def test_later_maps_start_equal_and_part() -> None:
    learner = built("maple")
    first, second, third = learner.coupling
    assert torch.equal(second.weight, third.weight)
    assert not torch.equal(first.weight, second.weight)
    bound = vit().text_width ** -0.5
    assert 0.9 * bound < first.weight.abs().max() <= bound
    train(learner, 1)
    assert not torch.equal(second.weight, third.weight)


def test_more_prompts_than_words() -> None:
    learner = built("maple", context=6)
    assert learner.context.shape == (6, vit().text_width)
    assert learner.context.abs().max() < 0.15
    with pytest.raises(BaselineError, match="context is 6, but words 'a photo of a' are 4 tokens"):
        built("maple", context=6, words="a photo of a")
