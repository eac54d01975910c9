"""HiCroPL: prompts in both towers, where early layers teach the image side and later ones the text side.

Source: Zheng et al. (2025), Hierarchical cross-modal prompt learning, arXiv:2507.14976.
"""

import copy
from collections.abc import Iterable

import torch
from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone, unit
from submission.baseline.backbones.prompts import ClassPrompts
from submission.baseline.config import LearnerConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.attention import HEADS, Mapper, Pooler
from submission.baseline.learners.base import Batch, ClassTexts, Output, logits_of
from submission.baseline.learners.deep import DeepLearner, check_depth, layers
from submission.baseline.learners.draws import Draws
from submission.baseline.learners.settings import setting, switch_of
from submission.baseline.losses import Criterion


class HiCroPL(DeepLearner):
    """Learned text prompts ``text`` and image prompts ``vision``, a set for each of ``depth`` layers of both towers.

    In the first ``switch`` layers the image prompts are mapped from the text prompts, each layer's pooled in one proxy;
    in the others the text prompts are mapped from the image prompts. Frozen features are added to both normalised
    features before the logits: ``known`` (K, embed_width), mean features of class descriptions (the teacher's where
    there are none), and the image's own.

    ``published`` is the form of the released training code instead: mapped prompts are written into the parameters at
    every forward pass, predictions included. Mappers, poolers and proxies then get no gradient, and what is predicted
    depends on how many batches came before. Image prompts of all layers start equal there, and so do the proxies of a
    side.
    """

    known: Tensor

    def __init__(
        self,
        backbone: Backbone,
        texts: ClassTexts,
        count: int,
        depth: int,
        switch: int,
        draws: Draws,
        *,
        weight: float,
        published: bool = False,
    ) -> None:
        super().__init__(backbone, texts)
        self.switch, self.weight, self.published = switch, weight, published
        known = description_features(backbone, texts) if texts.descriptions else self.teacher
        self.register_buffer("known", known, persistent=False)
        self.prompts = ClassPrompts(backbone, texts.names, count)
        text, image = backbone.text_width, backbone.vision_width
        self.text = layers(draws, "text", depth, count, text)
        self.vision = layers(draws, "image", depth, count, image)
        self.text_proxies = _proxies(draws, "text", switch, text)
        self.vision_proxies = _proxies(draws, "image", depth - switch, image)
        if published:
            for side in (self.vision, self.text_proxies, self.vision_proxies):
                _level(side)
        self.text_poolers = _clones(Pooler(text, draws, "text pooler"), switch)
        self.vision_poolers = _clones(Pooler(image, draws, "image pooler"), depth - switch)
        self.to_vision = Mapper(image, text, draws, "text to image")
        self.to_text = Mapper(text, image, draws, "image to text")

    def forward(self, features: Tensor, images: Tensor | None = None) -> Output:
        text_prompts, vision_prompts = self.mapped()
        text = unit(self.prompts.read(text_prompts[0], text_prompts[1:]) + self.known)
        image = unit(self.see(images, vision_prompts) + features.float())
        return Output(logits_of(self.scale, image, text), text, image)

    def loss(self, output: Output, batch: Batch, criterion: Criterion) -> Tensor:
        text_apart = 1.0 - (output.text * self.known).sum(dim=1).mean()
        image_apart = 1.0 - (output.image * batch.features.float()).sum(dim=1).mean()
        return super().loss(output, batch, criterion) + self.weight * (text_apart + image_apart)

    def mapped(self) -> tuple[list[Tensor], list[Tensor]]:
        """The prompts of every layer as the towers read them: text, image."""
        if self.published:
            with torch.no_grad():
                early, late = self._maps()
                _write(self.vision[: self.switch], early)
                _write(self.text[self.switch :], late)
            return list(self.text), list(self.vision)
        early, late = self._maps()
        return [*self.text[: self.switch], *late], [*early, *self.vision[self.switch :]]

    def _maps(self) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Image prompts of the first layers and text prompts of the others, mapped."""
        k = self.switch
        of_text = _pooled(self.text_poolers, self.text_proxies, self.text[:k])
        early = self.to_vision(torch.cat(list(self.vision[:k])), of_text).chunk(k)
        of_vision = _pooled(self.vision_poolers, self.vision_proxies, self.vision[k:])
        late = self.to_text(torch.cat(list(self.text[k:])), of_vision).chunk(len(self.text) - k)
        return early, late


def description_features(backbone: Backbone, texts: ClassTexts) -> Tensor:
    """Features (K, embed_width) of the classes' descriptions, each normalised, averaged and normalised again.

    BaselineError: descriptions for some classes only.
    """
    if len(texts.descriptions) != len(texts.names) or not all(texts.descriptions):
        told = sum(map(bool, texts.descriptions))
        raise BaselineError(f"descriptions for {told} of {len(texts.names)} classes; give some for each class, or none")
    return unit(torch.stack([backbone.encode_text(list(about)).mean(dim=0) for about in texts.descriptions]))


def make_hicropl(config: LearnerConfig, backbone: Backbone, texts: ClassTexts, draws: Draws) -> HiCroPL:
    """HiCroPL, as described unless the configuration asks for the published form."""
    depth = check_depth(config, backbone)
    switch = switch_of(config)
    if not 1 <= switch < depth:
        raise BaselineError(
            f"learner hicropl: switch is {switch} and depth {depth}; layers before and after the switch are needed, "
            "so depth must be 2 or more and switch from 1 to depth - 1"
        )
    for side, width in (("text", backbone.text_width), ("image", backbone.vision_width)):
        if width % HEADS:
            raise BaselineError(
                f"learner hicropl: its maps have {HEADS} heads, and the {side} tower of {backbone.name} is {width} "
                "wide, which they don't divide; choose another backbone"
            )
    return HiCroPL(
        backbone,
        texts,
        setting(config, "context"),
        depth,
        switch,
        draws,
        weight=setting(config, "weight"),
        published=config.form == "as-published",
    )


def _proxies(draws: Draws, purpose: str, count: int, width: int) -> nn.ParameterList:
    starts = [draws.normal(f"{purpose} proxy {layer}", 1, width, std=1.0) for layer in range(count)]
    return nn.ParameterList([nn.Parameter(start) for start in starts])


def _clones(pooler: Pooler, count: int) -> nn.ModuleList:
    """Poolers of as many layers, which start equal as published."""
    return nn.ModuleList([copy.deepcopy(pooler) for _ in range(count)])


def _pooled(poolers: nn.ModuleList, proxies: nn.ParameterList, prompts: Iterable[Tensor]) -> Tensor:
    """One token a layer: (layers, width)."""
    return torch.cat([pool(proxy, own) for pool, proxy, own in zip(poolers, proxies, prompts, strict=True)])


def _level(prompts: nn.ParameterList) -> None:
    """Start all from the values of the first."""
    _write(prompts[1:], [prompts[0]] * (len(prompts) - 1))


@torch.no_grad()
def _write(into: Iterable[nn.Parameter], values: Iterable[Tensor]) -> None:
    for parameter, value in zip(into, values, strict=True):
        parameter.copy_(value)
