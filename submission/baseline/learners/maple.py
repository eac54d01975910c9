"""MaPLe: text prompts in several layers, and image prompts that are linear maps of them.

Source: Khattak et al. (2023), MaPLe: multi-modal prompt learning, arXiv:2210.03117.
"""

import copy

from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.learners.base import ClassTexts, Output, logits_of
from submission.baseline.learners.deep import DeepLearner, check_depth, first_layer, layers, with_rest
from submission.baseline.learners.draws import Draws


class MaPLe(DeepLearner):
    """``context`` (n, text_width) enters before the first layer, ``deep`` (depth - 1 sets) before the next ones.

    ``coupling[j]`` maps the text prompts of layer j to the image prompts of layer j. The loss is the criterion alone.
    """

    def __init__(
        self, backbone: Backbone, texts: ClassTexts, prompts: ClassPrompts, start: Tensor, depth: int, draws: Draws
    ) -> None:
        super().__init__(backbone, texts)
        self.prompts = prompts
        self.context = nn.Parameter(start)
        self.deep = layers(draws, "text", depth - 1, *start.shape)
        widths = backbone.text_width, backbone.vision_width
        later = draws.linear("coupling of later layers", *widths)
        # as published, the maps of the later layers start equal
        self.coupling = nn.ModuleList(
            [draws.linear("coupling of the first layer", *widths), *(copy.deepcopy(later) for _ in self.deep)]
        )

    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        text_prompts = [self.context, *self.deep]
        text = self.prompts.read(with_rest(self.prompts, self.context), text_prompts[1:])
        mapped = [couple(prompt) for couple, prompt in zip(self.coupling, text_prompts, strict=True)]
        image = self.see(images, mapped)
        return Output(logits_of(self.scale, image, text), text, image)


def make_maple(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws) -> MaPLe:
    """MaPLe started from the first tokens of its phrase."""
    depth = check_depth(config, backbone)
    prompts, start = first_layer(config, backbone, texts, draws)
    return MaPLe(backbone, texts, prompts, start, depth, draws)
