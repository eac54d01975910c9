"""CLIP models of open_clip, run block by block so that soft prompts can enter."""

import functools
from collections.abc import Sequence
from typing import Any

import torch
from open_clip.tokenizer import SimpleTokenizer
from open_clip.transformer import VisionTransformer
from torch import Tensor

from submission.baseline.backbones.base import Backbone, Pixels, Tokens
from submission.baseline.errors import BaselineError

MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
PIXELS = Pixels(224, MEAN, STD)
LARGEST_SCALE = 100.0


class ClipBackbone(Backbone):
    """An open_clip ``CLIP`` with its causal text tower; deep prompts enter its transformers, not a ResNet.

    ``model`` is frozen. Raises BaselineError where its text tower is not read out at the end-of-text mark.
    """

    def __init__(self, model: Any, name: str, pixels: Pixels = PIXELS) -> None:
        super().__init__()
        if getattr(model, "text_pool_type", None) != "argmax" or not hasattr(model, "token_embedding"):
            raise BaselineError(
                f"{name}: the text tower is not CLIP's (causal, read at its end-of-text mark): take weights of {name}"
            )
        self.name, self.pixels = name, pixels
        self.model = model
        self.room, self.text_width = model.positional_embedding.shape
        self.embed_width = model.text_projection.shape[1]
        self.text_layers = len(model.transformer.resblocks)
        visual = model.visual
        if isinstance(visual, VisionTransformer) and visual.attn_pool is None and visual.pool_type == "tok":
            self.vision_layers = len(visual.transformer.resblocks)
            self.vision_width = visual.positional_embedding.shape[1]
        self.finish()

    @property
    def scale(self) -> Tensor:
        return clamped(self.model.logit_scale)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        tokenizer = bpe()
        start, end = tokenizer.sot_token_id, tokenizer.eot_token_id
        rows = [[start, *tokenizer.encode(text), end] for text in texts]
        fits(rows, texts, self.room, self.name)
        ids = padded(rows, 0)
        ends = (ids == end).int().argmax(1)
        mask = torch.arange(ids.shape[1]) <= ends[:, None]
        return Tokens(ids, mask, ends).to(self.device)

    def embed(self, ids: Tensor) -> Tensor:
        return words(self.model.token_embedding, ids)

    def read_text(self, embedded: Tensor, tokens: Tokens, deep: Sequence[Tensor] = ()) -> Tensor:
        check_depth(deep, self.text_layers - 1, f"{self.name}: deep prompts of the text tower")
        model, length = self.model, embedded.shape[1]
        with self.casting():
            x = embedded.float() + model.positional_embedding[:length]
            for block, layer in enumerate(model.transformer.resblocks):
                if 1 <= block <= len(deep):
                    fresh = repeated(deep[block - 1], len(x))
                    x = torch.cat([x[:, :1], fresh, x[:, 1 + fresh.shape[1] :]], dim=1)
                x = layer(x, attn_mask=model.attn_mask[:length, :length])
            x = model.ln_final(x[torch.arange(len(x), device=x.device), tokens.ends])
            read: Tensor = x @ model.text_projection
        return read.float()

    def read_images(self, images: Tensor, prompts: Sequence[Tensor] = ()) -> Tensor:
        check_depth(prompts, self.vision_layers, f"{self.name}: prompts of the image tower")
        with self.casting():
            if not self.vision_layers:
                return whole(self.model.encode_image(images))
            visual = self.model.visual
            patches = visual.conv1(images).flatten(2).transpose(1, 2).float()
            x = torch.cat([repeated(visual.class_embedding[None], len(patches)), patches], dim=1)
            x = x + visual.positional_embedding
            if prompts:
                x = torch.cat([x, repeated(prompts[0], len(x))], dim=1)
            x = visual.ln_pre(x)
            for block, layer in enumerate(visual.transformer.resblocks):
                if 1 <= block < len(prompts):
                    fresh = repeated(prompts[block], len(x))
                    x = torch.cat([x[:, : x.shape[1] - fresh.shape[1]], fresh], dim=1)
                x = layer(x)
            return whole(visual.ln_post(x[:, 0]) @ visual.proj)


@functools.cache
def bpe() -> Any:
    """CLIP's byte-pair vocabulary of 49,408 tokens, as open_clip ships it."""
    return SimpleTokenizer()


def clamped(logit_scale: Tensor) -> Tensor:
    """exp(``logit_scale``), a scalar float32, at most 100 as in CLIP's training."""
    return logit_scale.float().exp().clamp(max=LARGEST_SCALE).reshape(())


def whole(x: Tensor) -> Tensor:
    """``x`` in float32."""
    return x.float()


def words(table: Any, ids: Tensor) -> Tensor:
    """Rows ``ids`` (N, L) of an embedding ``table``: (N, L, width), float32."""
    rows: Tensor = table(ids)
    return rows.float()


def repeated(prompts: Tensor, count: int) -> Tensor:
    """``prompts`` (n, width), or (count, n, width), for each of ``count`` rows: (count, n, width), float32."""
    return prompts.float().expand(count, *prompts.shape[-2:])


def padded(rows: Sequence[Sequence[int]], pad: int, length: int | None = None) -> Tensor:
    """Token ids (N, L) int64, filled with ``pad`` up to ``length``, or to the longest row."""
    length = max(map(len, rows), default=1) if length is None else length
    return torch.tensor([[*row, *[pad] * (length - len(row))] for row in rows], dtype=torch.int64).reshape(-1, length)


def fits(rows: Sequence[Sequence[int]], texts: Sequence[str], room: int, name: str) -> None:
    """BaselineError for the first text whose tokens do not fit into ``room`` positions."""
    for row, text in zip(rows, texts, strict=True):
        if len(row) > room:
            raise BaselineError(
                f"{name}: {text[:80]!r} takes {len(row)} tokens with its marks, there is room for {room}: "
                "take shorter class names or templates, or fewer context tokens"
            )


def check_depth(prompts: Sequence[Tensor], room: int, what: str) -> None:
    """BaselineError where there are more sets of prompts than the tower has places for."""
    if len(prompts) > max(room, 0):
        raise BaselineError(
            f"{what}: {len(prompts)} sets given, the tower takes {max(room, 0)}: lower the depth, or take one of the "
            "backbones ViT-B-16, ViT-B-32, PLIP, QuiltNet-B-32"
        )
