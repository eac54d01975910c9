"""Class prompts with soft context: frozen word embeddings of "<context> <name>." with places for learned rows."""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from submission.baseline.backbones.base import Backbone, Tokens, unit
from submission.baseline.errors import BaselineError

Position = Literal["end", "middle", "front"]


class ClassPrompts(nn.Module):
    """Prompts of K classes on a frozen backbone: no parameters; its buffers are kept out of checkpoints.

    ``names`` as prompts say them ("_" is read as a space). ``start`` is a number of context tokens (copies of "X" hold
    their places) or a phrase, whose tokens they are. ``position``, where the name stands: ``end`` [start mark, context,
    name, ".", end mark], ``middle`` (the first half of the context before the name, the rest behind) or ``front``.
    Attributes: ``count`` context tokens (n); ``phrase`` (n, text_width) their word embeddings; ``embedded`` (K, L,
    text_width) the prompts with these; ``slots`` (K, n) the positions of the context. Raises BaselineError where a
    prompt does not fit into the tower, or a phrase and a name can't be told apart once tokenised.
    """

    phrase: Tensor
    embedded: Tensor
    slots: Tensor
    ids: Tensor
    mask: Tensor
    ends: Tensor

    def __init__(self, backbone: Backbone, names: Sequence[str], start: str | int, position: Position = "end") -> None:
        super().__init__()
        self._frozen = (backbone,)
        words = " ".join("X" * start) if isinstance(start, int) else start.strip()
        spoken = [name.replace("_", " ").strip() for name in names]
        own = backbone.tokenize([words])
        self.count = _length(own)[0]
        if not self.count:
            raise BaselineError(f"the context {start!r} holds no word: give a phrase, or a number of tokens from 1")
        stop = "." if position == "end" else " ."  # apart, so that a name's last mark never merges with the stop
        tokens = backbone.tokenize([f"{words} {name}{stop}" for name in spoken])
        if not bool((tokens.ids[:, : self.count + 1] == own.ids[0, : self.count + 1]).all()):
            raise BaselineError(f"the context {words!r} is tokenised otherwise before a class name: take plain words")
        order = torch.arange(tokens.ids.shape[1], device=tokens.ids.device).repeat(len(spoken), 1)
        slots = order[:, 1 : self.count + 1].clone()
        if position != "end":
            before = self.count // 2 if position == "middle" else 0
            for row, length in enumerate(_length(backbone.tokenize(spoken))):
                name = range(self.count + 1, self.count + 1 + length)
                context = range(1, self.count + 1)
                moved = [*context[:before], *name, *context[before:]]
                order[row, 1 : 1 + len(moved)] = order.new_tensor(moved)
                slots[row, before:] += length
        ids = tokens.ids.gather(1, order)
        embedded = backbone.embed(ids).detach()
        for key, value in (("ids", ids), ("mask", tokens.mask), ("ends", tokens.ends), ("slots", slots)):
            self.register_buffer(key, value, persistent=False)
        self.register_buffer("embedded", embedded, persistent=False)
        self.register_buffer("phrase", embedded[0, slots[0]].clone(), persistent=False)

    @property
    def tokens(self) -> Tokens:
        """The tokens of the prompts, in the order that the tower reads them."""
        return Tokens(self.ids, self.mask, self.ends)

    def filled(self, context: Tensor) -> Tensor:
        """Embedded prompts (K, L, text_width) that hold ``context``, (n, text_width) or (K, n, text_width)."""
        filled = self.embedded.clone()
        rows = torch.arange(len(filled), device=filled.device)[:, None]
        filled[rows, self.slots] = context.float().expand(len(filled), *context.shape[-2:])
        return filled

    def read(self, context: Tensor, deep: Sequence[Tensor] = ()) -> Tensor:
        """Normalised text features (K, embed_width) of the prompts with ``context``; ``deep`` as in ``read_text``."""
        return unit(self._frozen[0].read_text(self.filled(context), self.tokens, deep))


def _length(tokens: Tokens) -> list[int]:
    """Number of tokens of each text without its two marks."""
    return [int(count) - 2 for count in tokens.mask.sum(1)]
