"""What a learner is: a few trainable prompts beside a frozen backbone, and the loss that trains them."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone, unit
from submission.baseline.losses import Criterion


@dataclass(frozen=True)
class Batch:
    """B images of one step: ``labels`` (B,) int64; ``features`` (B, embed_width) of the frozen image tower, normalised.

    ``images`` (B, 3, size, size), the very views that the features are of, where the learner reads images; else None.
    """

    labels: Tensor
    features: Tensor
    images: Tensor | None = None


@dataclass(frozen=True)
class Output:
    """``logits`` (B, K) scaled, ``text`` (K, embed_width) and ``image`` (B, embed_width) normalised; all float32."""

    logits: Tensor
    text: Tensor
    image: Tensor


@dataclass(frozen=True)
class ClassTexts:
    """What a learner knows of the task: class names as prompts say them, in label order, and texts of the teacher.

    ``templates`` with ``{}`` for the name: the zero-shot prompts (one or more). ``descriptions`` per class, or empty:
    more texts of each class (HiCroPL), else the templates stand in for them.
    """

    names: tuple[str, ...]
    templates: tuple[str, ...]
    descriptions: tuple[tuple[str, ...], ...] = ()


class Learner(nn.Module, abc.ABC):
    """A prompt learner on ``backbone``; its registered parameters are exactly the trainable ones.

    The backbone is kept out of the module tree (``self.frozen``), so that neither ``parameters()``, ``state_dict()``
    nor ``train()`` reach it. Buffers hold what is computed once (embedded prompts, teacher features).
    """

    needs_images: ClassVar[bool] = False

    def __init__(self, backbone: Backbone, texts: ClassTexts) -> None:
        super().__init__()
        self._frozen = (backbone,)
        self.texts = texts

    @property
    def frozen(self) -> Backbone:
        """The frozen backbone."""
        frozen: Backbone = self._frozen[0]
        return frozen

    @abc.abstractmethod
    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        """Logits of B images; never reads a label. ``images`` as in :class:`Batch`."""

    @abc.abstractmethod
    def zero_shot(self, features: Tensor) -> Tensor:
        """Logits (B, K) of the frozen teacher with its templates, float32, no gradient."""

    def loss(self, output: Output, batch: Batch, criterion: Criterion) -> Tensor:
        """The training loss, a scalar: ``criterion`` in the place of cross-entropy, and the learner's own terms."""
        return criterion(output.logits, batch.labels, self.zero_shot(batch.features))

    def step(self, batch: Batch, criterion: Criterion) -> tuple[Tensor, dict[str, Tensor]]:
        """One forward and backward pass: gradients lie in the parameters then. Returns the loss and terms for the log.

        Both are detached scalars on the device, so that no step waits for it.
        """
        output = self(batch.features, batch.images)
        value = self.loss(output, batch, criterion)
        value.backward()  # type: ignore[no-untyped-call]
        return value.detach(), criterion.terms(output.logits.detach(), batch.labels, self.zero_shot(batch.features))

    def after_epoch(self, epoch: int, epochs: int) -> None:
        """Called after epoch ``epoch`` (from 0) of ``epochs``."""

    def finish(self) -> None:
        """Called once after the last epoch, before predictions."""

    def kept(self) -> dict[str, Tensor]:
        """What a checkpoint must hold to go on: the parameters, and averages where there are any."""
        return {name: value.detach().clone() for name, value in self.named_parameters()}

    @torch.no_grad()
    def restore(self, kept: dict[str, Tensor]) -> None:
        """Go on from what :meth:`kept` gave."""
        for name, parameter in self.named_parameters():
            parameter.copy_(kept[name])

    @property
    def trainable(self) -> int:
        """Number of trainable values."""
        return sum(parameter.numel() for parameter in self.parameters())


def logits_of(scale: Tensor, image: Tensor, text: Tensor) -> Tensor:
    """Scaled cosines (B, K), float32, of normalised features (B, d) and (K, d)."""
    with torch.autocast(image.device.type, enabled=False):
        return scale.float() * image.float() @ text.float().T


@torch.no_grad()
def template_features(backbone: Backbone, names: Sequence[str], templates: Sequence[str], *, normalise: bool) -> Tensor:
    """Text features (K, embed_width) averaged over ``templates`` and normalised; "_" in a name is read as a space.

    ``normalise``: each template's feature is normalised before the mean (zero-shot ensembles of CLIP), else not
    (PromptSRC's teacher).
    """
    per_template = []
    for template in templates:
        tokens = backbone.tokenize([template.replace("{}", name.replace("_", " ").strip()) for name in names])
        feature = backbone.read_text(backbone.embed(tokens.ids), tokens)
        per_template.append(unit(feature) if normalise else feature)
    return unit(torch.stack(per_template).mean(0))
