"""ProGrad: CoOp whose gradient never opposes what the zero-shot teacher knows.

Source: Zhu et al. (2023), Prompt-aligned gradient for prompt tuning, arXiv:2205.14865.
"""

import torch
from torch import Tensor

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import Batch, ClassTexts
from submission.baseline.learners.coop import CoOp
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import setting
from submission.baseline.losses import Criterion

TEMPERATURE = 1.0


class ProGrad(CoOp):
    """Follows the gradient of the supervised loss, regulariser included, projected where it opposes the teacher's.

    The weight decay and the momentum of the optimiser come after the projection.
    """

    def __init__(
        self, backbone: Backbone, texts: ClassTexts, prompts: ClassPrompts, start: Tensor, *, weight: float
    ) -> None:
        super().__init__(backbone, texts, prompts, start)
        self.weight = weight

    def step(self, batch: Batch, criterion: Criterion) -> tuple[Tensor, dict[str, Tensor]]:
        """As :meth:`Learner.step`; ``general`` in the log is the teacher's loss, ``opposed`` 1 where it projected."""
        output = self(batch.features, batch.images)
        own = self.loss(output, batch, criterion)
        zero_shot = self.zero_shot(batch.features)
        general = general_loss(output.logits, zero_shot)
        (wanted,) = torch.autograd.grad(own, [self.context], retain_graph=True)
        (known,) = torch.autograd.grad(general, [self.context])
        self.context.grad = project(wanted, known, self.weight)
        opposed = ((wanted * known).sum() < 0).float()
        terms = criterion.terms(output.logits.detach(), batch.labels, zero_shot)
        return own.detach(), {**terms, "general": general.detach(), "opposed": opposed}


def general_loss(logits: Tensor, zero_shot: Tensor) -> Tensor:
    """-T^2 * mean over images of sum_c p_zs log p, probabilities at temperature T = 1: what the teacher would train."""
    target = (zero_shot.float() / TEMPERATURE).softmax(dim=1)
    spread: Tensor = (target * (logits.float() / TEMPERATURE).log_softmax(dim=1)).sum(dim=1)
    return -(TEMPERATURE**2) * spread.mean()


def project(wanted: Tensor, known: Tensor, weight: float) -> Tensor:
    """``wanted`` less ``weight`` times its part along ``known`` where the two oppose, else ``wanted``, unchanged.

    Gradients of one parameter, each as one long vector. Opposed: their inner product is below 0. Worked in float64,
    where squares of small gradients do not vanish.
    """
    a, b = wanted.double(), known.double()
    inner = (a * b).sum()
    along = (inner / b.square().sum()) * b
    return torch.where(inner < 0, (a - weight * along).to(wanted.dtype), wanted)


def make_prograd(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws) -> ProGrad:
    """ProGrad started from zeros and then the words of the template before the class name; nothing is drawn."""
    count: int = setting(config, "context")
    phrase: str = setting(config, "words") or _before(texts.templates[0])
    told = ClassPrompts(backbone, texts.names, phrase).count
    if told > count:
        raise BaselineError(
            f"learner prograd: the words {phrase!r} are {told} tokens and context is {count}; raise context or give "
            "fewer words"
        )
    filled = " ".join(["X"] * (count - told) + [phrase])
    prompts = ClassPrompts(backbone, texts.names, filled)
    start = prompts.phrase.clone()
    start[: count - told] = 0.0
    return ProGrad(backbone, texts, prompts, start, weight=setting(config, "weight"))


def _before(template: str) -> str:
    """The words of a template that ends with the class name."""
    words, name, rest = template.partition("{}")
    if not name or rest.strip() not in ("", ".") or not words.strip():
        raise BaselineError(
            f"learner prograd: its context starts from the words before the class name, but the first template is "
            f"{template!r}; put one that ends in {{}}. first, or give learner.words"
        )
    return words.strip()
