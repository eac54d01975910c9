"""What every frozen vision-language model offers a prompt learner, whatever it was built from."""

import abc
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

HALF = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Tokens:
    """N tokenised texts, cut after the longest one where that leaves the features as they are.

    ``ids`` (N, L) int64. ``mask`` (N, L) bool: the positions that hold the text and its marks, padding left out.
    ``ends`` (N,) int64: the position that a causal tower is read out at (the first end-of-text mark).
    """

    ids: Tensor
    mask: Tensor
    ends: Tensor

    def to(self, device: torch.device | str) -> "Tokens":
        """The same tokens on ``device``."""
        return Tokens(self.ids.to(device), self.mask.to(device), self.ends.to(device))


@dataclass(frozen=True)
class Pixels:
    """What the image tower wants: ``size`` pixels a side, RGB in [0, 1] less ``mean`` over ``std`` (three channels)."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


class Backbone(nn.Module, abc.ABC):
    """A frozen pair of towers. Widths are numbers of channels; no parameter ever takes a gradient or leaves eval().

    ``text_width`` is the width of word embeddings and soft prompts, ``embed_width`` that of the shared space;
    ``room`` the number of positions of a text with its marks; ``text_layers`` and ``vision_layers`` the blocks that
    deep prompts can enter, 0 where they can't (ResNet, BERT); ``vision_width`` that of an image token (0 likewise).
    """

    name: str
    pixels: Pixels
    text_width: int
    embed_width: int
    room: int
    text_layers: int = 0
    vision_layers: int = 0
    vision_width: int = 0
    precision: str = "fp32"

    @property
    @abc.abstractmethod
    def scale(self) -> Tensor:
        """exp(logit_scale): a scalar float32 tensor, at most 100; multiplies cosines to give logits."""

    @abc.abstractmethod
    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokens of ``texts``, on the towers' device. BaselineError where a text is longer than ``room``."""

    @abc.abstractmethod
    def embed(self, ids: Tensor) -> Tensor:
        """Word embeddings alone, (N, L, text_width) float32: no position, type or norm, which the tower adds itself."""

    @abc.abstractmethod
    def read_text(self, embedded: Tensor, tokens: Tokens, deep: Sequence[Tensor] = ()) -> Tensor:
        """Text features (N, embed_width), float32, not normalised, of word embeddings (N, L, text_width).

        ``deep[j]`` (n, text_width) takes the place of positions 1 to n (those after the start mark) before block j + 1
        (blocks count from 0, so ``deep[0]`` enters before the second). Gradients flow into ``embedded`` and ``deep``.
        """

    @abc.abstractmethod
    def read_images(self, images: Tensor, prompts: Sequence[Tensor] = ()) -> Tensor:
        """Image features (B, embed_width), float32, not normalised, of preprocessed images (B, 3, size, size).

        ``prompts[0]`` (n, vision_width) is appended after the image's tokens and positions, before the first norm;
        ``prompts[j]`` takes the place of these last n tokens before block j. Gradients flow into ``prompts``.
        """

    def finish(self) -> None:
        """Freeze: call at the end of a subclass's ``__init__``."""
        self.requires_grad_(False)
        self.eval()

    def train(self, mode: bool = True) -> "Backbone":
        """Stay in eval(): dropout and batch statistics of a frozen tower would change with every batch."""
        super().train(False)
        return self

    @property
    def device(self) -> torch.device:
        """Where the towers are."""
        return next(self.parameters()).device

    def casting(self) -> contextlib.AbstractContextManager[object]:
        """Mixed precision for the towers, as ``precision`` says; what they give is float32 again.

        Losses are not scaled up: gradients through fp16 towers are nearer to the exact ones than through bf16 towers
        until a loss is some 1e-5 of where it starts, and are lost in rounding below that.
        """
        if self.precision == "fp32":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, HALF[self.precision])

    @torch.no_grad()
    def encode_text(self, texts: Sequence[str]) -> Tensor:
        """Normalised text features (N, embed_width) of plain texts."""
        tokens = self.tokenize(texts)
        return unit(self.read_text(self.embed(tokens.ids), tokens))

    @torch.no_grad()
    def encode_images(self, images: Tensor) -> Tensor:
        """Normalised image features (B, embed_width)."""
        return unit(self.read_images(images))


def unit(x: Tensor) -> Tensor:
    """Rows of ``x`` at length 1, in float32."""
    return nn.functional.normalize(x.float(), dim=-1)
