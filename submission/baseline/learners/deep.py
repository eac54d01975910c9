"""What learners with prompts in both towers share."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone, unit
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import ClassTexts
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import setting
from submission.baseline.learners.zeroshot import Taught


class DeepLearner(Taught):
    """A learner whose image tower is in the loop: every step and every prediction needs the images themselves."""

    needs_images = True

    def see(self, images: Tensor | None, prompts: Sequence[Tensor]) -> Tensor:
        """Normalised image features (B, embed_width) with ``prompts`` in the image tower."""
        if images is None:
            raise ValueError("this learner reads images, and none were given")
        return unit(self.frozen.read_images(images, prompts))


def check_depth(config: LearnerConfig, backbone: Backbone) -> int:
    """The depth: how many layers of each tower take prompts. BaselineError where the towers have no such layers."""
    depth: int = setting(config, "depth")
    room = min(backbone.text_layers, backbone.vision_layers)
    if room == 0:
        raise BaselineError(
            f"learner {config.name} puts prompts into the layers of both towers, and {backbone.name} takes none "
            "(it has a ResNet or a BERT tower); choose coop, kgcoop or prograd, or a CLIP backbone with a vision "
            "transformer (ViT-B-16, ViT-B-32, PLIP, QuiltNet-B-32)"
        )
    if depth > room:
        raise BaselineError(
            f"learner {config.name}: depth is {depth}, but {backbone.name} has {backbone.text_layers} text and "
            f"{backbone.vision_layers} image layers; set learner.depth to {room} or less"
        )
    return depth


def first_layer(
    config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws
) -> tuple[ClassPrompts, Tensor]:
    """The class prompts, and the start (n, text_width) of those of their tokens that are learned, the first n.

    They start as the first n tokens of a phrase, whose other tokens stay as they are in front of the class name. Where
    the phrase is left open and n is more than it has, they start at random.
    """
    count: int = setting(config, "context")
    phrase: str = setting(config, "words")
    prompts = ClassPrompts(backbone, texts.names, phrase)
    if count <= prompts.count:
        return prompts, prompts.phrase[:count].clone()
    if config.words is not None:
        raise BaselineError(
            f"learner {config.name}: context is {count}, but words {phrase!r} are {prompts.count} tokens; "
            "give a longer phrase or lower context"
        )
    return ClassPrompts(backbone, texts.names, count), draws.normal("context", count, backbone.text_width)


def with_rest(prompts: ClassPrompts, context: Tensor) -> Tensor:
    """``context`` (n, text_width) and the tokens of the phrase after it, as :class:`ClassPrompts` wants them."""
    return torch.cat([context, prompts.phrase[len(context) :]])


def layers(draws: Draws, purpose: str, count: int, *shape: int) -> nn.ParameterList:
    """``count`` sets of prompts from N(0, 0.02^2), one a layer."""
    return nn.ParameterList([nn.Parameter(draws.normal(f"{purpose} {layer}", *shape)) for layer in range(count)])
