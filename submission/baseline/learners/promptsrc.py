"""PromptSRC: prompts in both towers, held near the frozen model, and averaged over the epochs.

Source: Khattak et al. (2023), Self-regulating prompts, arXiv:2307.06948.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.learners.base import Batch, ClassTexts, Output, logits_of
from submission.baseline.learners.deep import DeepLearner, check_depth, first_layer, layers, with_rest
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import AVERAGING, setting
from submission.baseline.losses import Criterion

SEEN = "average of epochs"


@dataclass(frozen=True)
class Weights:
    """Of the distances of text features, of image features, and of the divergence from the teacher's probabilities."""

    text: float
    image: float
    logits: float


class PromptSRC(DeepLearner):
    """Prompts of the two towers are independent; the teacher averages text features before it normalises them.

    What is tested is the sum over epochs of ``epoch_weights`` times the prompts at the end of each; a checkpoint
    carries the sum so far.
    """

    normalise = False

    def __init__(
        self,
        backbone: Backbone,
        texts: ClassTexts,
        prompts: ClassPrompts,
        start: Tensor,
        depth: int,
        draws: Draws,
        *,
        weights: Weights,
        epoch_weights: Tensor,
    ) -> None:
        super().__init__(backbone, texts)
        self.prompts = prompts
        self.weights = weights
        self.epoch_weights = epoch_weights
        self.context = nn.Parameter(start)
        self.deep = layers(draws, "text", depth - 1, *start.shape)
        self.vision = layers(draws, "image", depth, len(start), backbone.vision_width)
        self.seen = 0
        self.average = {name: torch.zeros_like(value) for name, value in self.named_parameters()}

    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        text = self.prompts.read(with_rest(self.prompts, self.context), list(self.deep))
        image = self.see(images, list(self.vision))
        return Output(logits_of(self.scale, image, text), text, image)

    def loss(self, output: Output, batch: Batch, criterion: Criterion) -> Tensor:
        text_apart = (output.text - self.teacher).abs().mean()
        image_apart = (output.image - batch.features.float()).abs().mean()
        known = self.zero_shot(batch.features).log_softmax(dim=1)
        diverged = (known.exp() * (known - output.logits.log_softmax(dim=1))).mean()  # over B x K, not B
        return (
            super().loss(output, batch, criterion)
            + self.weights.text * text_apart
            + self.weights.image * image_apart
            + self.weights.logits * diverged
        )

    @torch.no_grad()
    def after_epoch(self, epoch: int, epochs: int) -> None:
        """Add the prompts to the average. ValueError: an epoch out of order, or of another number than made for."""
        if epoch != self.seen or epochs != len(self.epoch_weights):
            raise ValueError(f"epoch {epoch} of {epochs}, where epoch {self.seen} of {len(self.epoch_weights)} is next")
        for name, value in self.named_parameters():
            self.average[name] += float(self.epoch_weights[epoch]) * value
        self.seen += 1

    @torch.no_grad()
    def finish(self) -> None:
        """Put the average in the place of the prompts. ValueError: an epoch is still to come."""
        if self.seen != len(self.epoch_weights):
            raise ValueError(f"{self.seen} of {len(self.epoch_weights)} epochs were averaged")
        for name, value in self.named_parameters():
            value.copy_(self.average[name])

    def kept(self) -> dict[str, Tensor]:
        averages = {f"average.{name}": value.clone() for name, value in self.average.items()}
        return {**super().kept(), **averages, SEEN: torch.tensor(self.seen)}

    @torch.no_grad()
    def restore(self, kept: dict[str, Tensor]) -> None:
        super().restore(kept)
        for name, value in self.average.items():
            value.copy_(kept[f"average.{name}"])
        self.seen = int(kept[SEEN])


def gaussian(epochs: int, mean: float, spread: float) -> Tensor:
    """Weights (epochs,), float64, sum 1, of epochs 1 to ``epochs``: a Gaussian of ``mean`` and deviation ``spread``."""
    epoch = torch.arange(1, epochs + 1, dtype=torch.float64)
    return (-0.5 * ((epoch - mean) / spread).square()).softmax(dim=0)


def make_promptsrc(
    config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws, epochs: int
) -> PromptSRC:
    """PromptSRC whose text prompts start from a phrase."""
    depth = check_depth(config, backbone)
    prompts, start = first_layer(config, backbone, texts, draws)
    weights = Weights(*(setting(config, name) for name in ("text_weight", "image_weight", "weight")))
    mean, spread = setting(config, "averaging") or (share * epochs for share in AVERAGING)
    return PromptSRC(
        backbone,
        texts,
        prompts,
        start,
        depth,
        draws,
        weights=weights,
        epoch_weights=gaussian(epochs, mean, spread),
    )
