"""Learners on tiny backbones, and batches of noise for them."""

import functools
from typing import Any

import torch
from torch import Tensor

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.clip import ClipBackbone
from submission.baseline.config import LearnerConfig, LearnerName, LossConfig
from submission.baseline.learners import Batch, ClassTexts, Learner, make
from submission.baseline.losses import Criterion
from tests.submission.baseline import tiny

TEXTS = ClassTexts(("no finding", "mild_disease", "advanced disease"), ("a photo of a {}.",))
TEXT_ONLY: tuple[LearnerName, ...] = ("coop", "kgcoop", "prograd")
DEEP: tuple[LearnerName, ...] = ("maple", "promptsrc", "hicropl")
TRAINED = TEXT_ONLY + DEEP
EPOCHS = 3
SMALL: dict[LearnerName, dict[str, Any]] = {
    "coop": {"context": 4},
    "prograd": {"context": 6},
    "maple": {"depth": 3},
    "promptsrc": {"depth": 3},
    "hicropl": {"context": 3, "depth": 4},
}


@functools.cache
def vit() -> ClipBackbone:
    """One for all tests: nothing may change it."""
    return tiny.tiny_vit()


def configured(name: LearnerName, **settings: Any) -> LearnerConfig:
    """Few prompts in few layers, unless ``settings`` say otherwise."""
    return LearnerConfig(name=name, **{**SMALL.get(name, {}), **settings})


def built(name: LearnerName, seed: int = 1, backbone: Backbone | None = None, **settings: Any) -> Any:
    """A learner at the start of a run."""
    return make(configured(name, **settings), backbone or vit(), TEXTS, seed=seed, epochs=EPOCHS)


@functools.cache
def batch(seed: int = 0, size: int = 5) -> Batch:
    """Images of noise with drawn labels, and their features."""
    stream = torch.Generator().manual_seed(seed)
    images = torch.randn(size, 3, tiny.SIZE, tiny.SIZE, generator=stream)
    return Batch(torch.randint(3, (size,), generator=stream), vit().encode_images(images), images)


def images(seed: int = 0) -> Tensor:
    """The images of :func:`batch`."""
    found = batch(seed).images
    assert found is not None
    return found


def cross_entropy() -> Criterion:
    return Criterion(LossConfig(), 3)


def logits(learner: Learner, seed: int = 9) -> Tensor:
    """Logits of images that are not trained on."""
    seen = batch(seed)
    with torch.no_grad():
        found: Tensor = learner(seen.features, seen.images).logits
    return found


def train(learner: Learner, steps: int, first: int = 0) -> None:
    """Plain gradient steps on batches ``first`` and so on."""
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.1)
    for seed in range(first, first + steps):
        optimiser.zero_grad()
        learner.step(batch(seed), cross_entropy())
        optimiser.step()
