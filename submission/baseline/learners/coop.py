"""CoOp: a learned context before (after, around) the class name.

Source: Zhou et al. (2022), Learning to prompt for vision-language models, arXiv:2109.01134.
"""

from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import ClassTexts, Output, logits_of
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import setting
from submission.baseline.learners.zeroshot import Taught


class CoOp(Taught):
    """``context`` (n, text_width), or (K, n, text_width) where each class has its own, is all that is trained.

    The image tower takes no part in the gradient: cached image features are enough. Where the start is a phrase all of
    its tokens are learned; the released code learns as many as it has words, and freezes the tokens beyond ("retina" is
    one token, "retinopathy" two).
    """

    def __init__(self, backbone: Backbone, texts: ClassTexts, prompts: ClassPrompts, start: Tensor) -> None:
        super().__init__(backbone, texts)
        self.prompts = prompts
        self.context = nn.Parameter(start)

    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        text = self.prompts.read(self.context)
        return Output(logits_of(self.scale, features, text), text, features.float())


def make_coop(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws) -> CoOp:
    """CoOp started from a phrase, or at random."""
    phrase: str | None = setting(config, "words")
    count: int = setting(config, "context")
    prompts = ClassPrompts(backbone, texts.names, phrase or count, config.position)
    if phrase and config.context not in (None, prompts.count):
        raise BaselineError(
            f"learner coop: context is {config.context}, but words {phrase!r} are {prompts.count} tokens; "
            "give one of the two (--set learner.context=null)"
        )
    own = (len(texts.names),) if config.class_specific else ()
    if phrase:
        start = prompts.phrase.expand(*own, *prompts.phrase.shape).clone()
    else:
        start = draws.normal("context", *own, count, backbone.text_width)
    return CoOp(backbone, texts, prompts, start)
