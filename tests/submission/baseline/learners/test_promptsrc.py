import math

import pytest
import torch
from torch.nn import functional

from submission.baseline.learners import ClassTexts, make
from submission.baseline.learners.base import template_features
from submission.baseline.learners.promptsrc import PromptSRC, gaussian
from tests.submission.baseline.learners.bench import (
    EPOCHS,
    TEXTS,
    batch,
    built,
    configured,
    cross_entropy,
    logits,
    train,
    vit,
)


def test_loss_is_that_of_the_paper() -> None:
    learner, seen = built("promptsrc", text_weight=3.0, image_weight=2.0, weight=0.5), batch()
    output = learner(seen.features, seen.images)
    zero_shot = learner.zero_shot(seen.features)
    divergence = functional.kl_div(
        output.logits.log_softmax(1), zero_shot.log_softmax(1), log_target=True, reduction="sum"
    )
    expected = (
        functional.cross_entropy(output.logits, seen.labels)
        + 3 * functional.l1_loss(output.text, learner.teacher)
        + 2 * functional.l1_loss(output.image, seen.features)
        + 0.5 * divergence / (5 * 3)
    )
    torch.testing.assert_close(learner.loss(output, seen, cross_entropy()), expected)


def test_published_weights() -> None:
    weights = built("promptsrc").weights
    assert (weights.text, weights.image, weights.logits) == (25, 10, 1)


def test_the_teacher_averages_before_it_normalises() -> None:
    templates = ("a photo of a {}.", "{} texture.")
    learner = make(configured("promptsrc"), vit(), ClassTexts(TEXTS.names, templates), seed=1, epochs=1)
    assert isinstance(learner, PromptSRC)
    expected = template_features(vit(), TEXTS.names, templates, normalise=False)
    assert torch.equal(learner.teacher, expected)
    assert not torch.equal(learner.teacher, template_features(vit(), TEXTS.names, templates, normalise=True))


def test_prompts_of_the_towers_are_independent() -> None:
    learner = built("promptsrc")
    assert [prompt.shape for prompt in learner.vision] == [(4, vit().vision_width)] * 3
    assert [prompt.shape for prompt in learner.deep] == [(4, vit().text_width)] * 2
    values = [prompt.flatten()[:8] for prompt in [*learner.vision, *learner.deep]]
    assert all(not torch.equal(a, b) for at, a in enumerate(values) for b in values[:at])


def test_weights_of_epochs_are_a_gaussian() -> None:
    found = gaussian(50, 45, 5)
    density = torch.tensor([math.exp(-0.5 * ((epoch - 45) / 5) ** 2) for epoch in range(1, 51)], dtype=torch.float64)
    torch.testing.assert_close(found, density / density.sum())
    assert found.argmax() == 44
    assert gaussian(3, 1000, 1e-3).tolist() == [0, 0, 1]  # far off, where the density itself is 0


def test_left_open_the_average_is_that_of_the_published_share() -> None:
    learner = make(configured("promptsrc"), vit(), TEXTS, seed=1, epochs=50)
    torch.testing.assert_close(learner.epoch_weights, gaussian(50, 45, 5))
    given = make(configured("promptsrc", averaging=(15, 1)), vit(), TEXTS, seed=1, epochs=20)
    torch.testing.assert_close(given.epoch_weights, gaussian(20, 15, 1))


def test_prompts_are_averaged_over_epochs() -> None:
    learner = built("promptsrc", averaging=(2, 1))
    weights = gaussian(EPOCHS, 2, 1)
    total = torch.zeros_like(learner.context)
    for epoch in range(EPOCHS):
        train(learner, 1, first=epoch)
        learner.after_epoch(epoch, EPOCHS)
        total += weights[epoch].item() * learner.context.detach()
    last = learner.context.detach().clone()
    learner.finish()
    torch.testing.assert_close(learner.context.detach(), total)
    assert not torch.equal(learner.context, last)
    once = logits(learner)
    learner.finish()
    assert torch.equal(logits(learner), once)


def test_a_checkpoint_carries_the_average() -> None:
    straight = built("promptsrc", averaging=(1, 1))
    train(straight, 1)
    straight.after_epoch(0, EPOCHS)
    train(straight, 1, first=1)
    straight.after_epoch(1, EPOCHS)
    kept = straight.kept()
    resumed = built("promptsrc", averaging=(1, 1), seed=5)
    resumed.restore(kept)
    for learner in (straight, resumed):
        train(learner, 1, first=2)
        learner.after_epoch(2, EPOCHS)
        learner.finish()
    assert torch.equal(logits(straight), logits(resumed))
    assert all(torch.equal(value, resumed.kept()[name]) for name, value in straight.kept().items())


def test_no_epoch_is_averaged_twice_or_left_out() -> None:
    learner = built("promptsrc")
    learner.after_epoch(0, EPOCHS)
    with pytest.raises(ValueError, match="epoch 0 of 3, where epoch 1 of 3 is next"):
        learner.after_epoch(0, EPOCHS)
    with pytest.raises(ValueError, match="epoch 1 of 9"):
        learner.after_epoch(1, 9)
    with pytest.raises(ValueError, match="1 of 3 epochs were averaged"):
        learner.finish()
