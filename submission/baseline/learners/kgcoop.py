"""KgCoOp: CoOp held near the zero-shot text features.

Source: Yao et al. (2023), Visual-language prompt tuning with knowledge-guided context optimization, arXiv:2303.13283.
"""

from torch import Tensor

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.learners.base import Batch, ClassTexts, Output
from submission.baseline.learners.coop import CoOp
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import setting
from submission.baseline.losses import Criterion


class KgCoOp(CoOp):
    """Adds ``weight`` * (1 - mean over classes of the cosine between a text feature and the teacher's)."""

    def __init__(
        self, backbone: Backbone, texts: ClassTexts, prompts: ClassPrompts, start: Tensor, *, weight: float
    ) -> None:
        super().__init__(backbone, texts, prompts, start)
        self.weight = weight

    def loss(self, output: Output, batch: Batch, criterion: Criterion) -> Tensor:
        apart = 1.0 - (output.text * self.teacher).sum(dim=1).mean()
        return super().loss(output, batch, criterion) + self.weight * apart


def make_kgcoop(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws) -> KgCoOp:
    """KgCoOp started from its phrase; nothing is drawn."""
    prompts = ClassPrompts(backbone, texts.names, setting(config, "words"))
    return KgCoOp(backbone, texts, prompts, prompts.phrase.clone(), weight=setting(config, "weight"))
