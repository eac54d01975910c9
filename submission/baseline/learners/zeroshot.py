"""Zero-shot classification: the frozen backbone with one template or an ensemble; the teacher of every learner."""

from torch import Tensor

from submission.baseline.backbones.base import Backbone
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import Batch, ClassTexts, Learner, Output, logits_of, template_features
from submission.baseline.losses import Criterion


class Taught(Learner):
    """A learner with a zero-shot teacher: text features of the templates, normalised each, averaged and normalised.

    Buffers: ``teacher`` (K, embed_width), ``scale`` (). Source: Radford et al. (2021), arXiv:2103.00020.
    """

    teacher: Tensor
    scale: Tensor
    normalise = True

    def __init__(self, backbone: Backbone, texts: ClassTexts) -> None:
        super().__init__(backbone, texts)
        teacher = template_features(backbone, texts.names, texts.templates, normalise=self.normalise)
        self.register_buffer("teacher", teacher, persistent=False)
        self.register_buffer("scale", backbone.scale.detach().clone(), persistent=False)

    def zero_shot(self, features: Tensor) -> Tensor:
        return logits_of(self.scale, features.detach(), self.teacher)


class ZeroShot(Taught):
    """The teacher itself; it has no parameters."""

    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        return Output(self.zero_shot(features), self.teacher, features.float())

    def step(self, batch: Batch, criterion: Criterion) -> tuple[Tensor, dict[str, Tensor]]:
        raise BaselineError("learner zeroshot has nothing to train: predict with it, or choose a prompt learner")
