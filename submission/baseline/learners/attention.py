"""The two small networks of HiCroPL that carry knowledge from the prompts of one tower to those of the other."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from submission.baseline.learners.draws import Draws

HEADS = 8


class Attention(nn.Module):
    """Multi-head attention with ``HEADS`` heads of queries (n, width) to keys and values (m, width): (n, width).

    Started as torch's: input maps by Xavier, output map as a linear layer's weight, offsets 0.
    """

    def __init__(self, width: int, draws: Draws, purpose: str) -> None:
        super().__init__()
        bound = math.sqrt(6.0 / (width + 3 * width))
        inward = draws.uniform(f"{purpose} inward", 3 * width, width, bound=bound)
        outward = draws.uniform(f"{purpose} outward", width, width, bound=1.0 / math.sqrt(width))
        self.inward = nn.Parameter(inward)
        self.inward_bias = nn.Parameter(torch.zeros(3 * width, device=inward.device))
        self.outward = nn.Parameter(outward)
        self.outward_bias = nn.Parameter(torch.zeros(width, device=inward.device))

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        parts = zip((queries, keys, values), self.inward.chunk(3), self.inward_bias.chunk(3), strict=True)
        # (rows, width) -> (heads, rows, width / heads)
        q, k, v = (functional.linear(x, a, b).reshape(len(x), HEADS, -1).transpose(0, 1) for x, a, b in parts)
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
        return functional.linear(mixed, self.outward, self.outward_bias)


class Pooler(nn.Module):
    """The prompts (n, width) of one layer in a single token: LN(q + attention of LN(q) to LN(prompts)), q given."""

    def __init__(self, width: int, draws: Draws, purpose: str) -> None:
        super().__init__()
        self.attention = Attention(width, draws, purpose)
        self.before = nn.LayerNorm(width, device=draws.device)
        self.after = nn.LayerNorm(width, device=draws.device)

    def forward(self, query: Tensor, prompts: Tensor) -> Tensor:
        known = self.before(prompts)
        pooled: Tensor = self.after(query + self.attention(self.before(query), known, known))
        return pooled


class Mapper(nn.Module):
    """Prompts (n, width) of one tower, rewritten with what tokens (m, other) of the other tower hold: (n, width).

    h = q + attention of LN(q) to LN(k), LN(v); out = h + FFN(LN(h)); q, k, v affine maps, the FFN of 4 widths with the
    activation x * sigmoid(1.702 x).
    """

    def __init__(self, width: int, other: int, draws: Draws, purpose: str) -> None:
        super().__init__()
        self.query = draws.linear(f"{purpose} query", width, width)
        self.key = draws.linear(f"{purpose} key", other, width)
        self.value = draws.linear(f"{purpose} value", other, width)
        self.attention = Attention(width, draws, purpose)
        self.before = nn.LayerNorm(width, device=draws.device)
        self.after = nn.LayerNorm(width, device=draws.device)
        self.wide = draws.linear(f"{purpose} wide", width, 4 * width)
        self.narrow = draws.linear(f"{purpose} narrow", 4 * width, width)

    def forward(self, prompts: Tensor, tokens: Tensor) -> Tensor:
        query = self.query(prompts)
        keys, values = self.before(self.key(tokens)), self.before(self.value(tokens))
        mixed = query + self.attention(self.before(query), keys, values)
        inner = self.wide(self.after(mixed))
        mapped: Tensor = mixed + self.narrow(inner * torch.sigmoid(1.702 * inner))
        return mapped
