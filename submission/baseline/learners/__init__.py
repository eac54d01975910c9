"""The prompt learners: zero-shot, CoOp, KgCoOp, ProGrad, MaPLe, PromptSRC, HiCroPL."""

from submission.baseline.backbones.base import Backbone
from submission.baseline.config import LearnerConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import Batch, ClassTexts, Learner, Output
from submission.baseline.learners.coop import make_coop
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.hicropl import make_hicropl
from submission.baseline.learners.kgcoop import make_kgcoop
from submission.baseline.learners.maple import make_maple
from submission.baseline.learners.prograd import make_prograd
from submission.baseline.learners.promptsrc import make_promptsrc
from submission.baseline.learners.settings import DEFAULTS, OFFICIAL, Official, check, words
from submission.baseline.learners.zeroshot import ZeroShot

__all__ = ["DEFAULTS", "OFFICIAL", "Batch", "ClassTexts", "Learner", "Official", "Output", "make", "words"]


def make(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, *, seed: int, epochs: int) -> Learner:
    """The learner of ``config`` on ``backbone`` at the start of a run of ``epochs``; ``seed`` alone gives its draws.

    BaselineError: a setting that the learner does not have, a backbone or a depth that it can't work with, a text that
    the backbone can't read.
    """
    check(config)
    if not texts.names or not texts.templates:
        raise BaselineError("a learner needs the names of the classes and at least one template")
    draws = Draws(seed, backbone.device)
    if config.name == "zeroshot":
        return ZeroShot(backbone, texts)
    if config.name == "coop":
        return make_coop(config, backbone, texts, draws)
    if config.name == "kgcoop":
        return make_kgcoop(config, backbone, texts, draws)
    if config.name == "prograd":
        return make_prograd(config, backbone, texts, draws)
    if config.name == "maple":
        return make_maple(config, backbone, texts, draws)
    if config.name == "promptsrc":
        return make_promptsrc(config, backbone, texts, draws, epochs)
    return make_hicropl(config, backbone, texts, draws)
