"""Initial values of learners: each from a stream of its own, so that nothing else drawn before or after moves them."""

import hashlib
import math

import torch
from torch import Tensor, nn

PROMPT_STD = 0.02  # of CoOp and all after it


class Draws:
    """Random numbers by ``seed`` and purpose. Drawn on the processor whatever ``device`` they go to; torch's own
    streams are neither read nor advanced.
    """

    def __init__(self, seed: int, device: torch.device | str) -> None:
        self.seed, self.device = seed, device

    def _stream(self, purpose: str) -> torch.Generator:
        digest = hashlib.sha256(f"{purpose}\n{self.seed}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def normal(self, purpose: str, *shape: int, std: float = PROMPT_STD) -> Tensor:
        """Values of N(0, std^2), float32."""
        return (torch.randn(*shape, generator=self._stream(purpose)) * std).to(self.device)

    def uniform(self, purpose: str, *shape: int, bound: float) -> Tensor:
        """Values of U(-bound, bound), float32."""
        return (torch.rand(*shape, generator=self._stream(purpose)) * (2 * bound) - bound).to(self.device)

    def linear(self, purpose: str, inside: int, outside: int) -> nn.Linear:
        """An affine map started as torch starts it: weights and offsets in U(-1, 1) / sqrt(``inside``)."""
        layer: nn.Linear = nn.utils.skip_init(  # type: ignore[no-untyped-call]
            nn.Linear, inside, outside, device=self.device
        )
        bound = 1.0 / math.sqrt(inside)
        with torch.no_grad():
            layer.weight.copy_(self.uniform(f"{purpose} weight", outside, inside, bound=bound))
            layer.bias.copy_(self.uniform(f"{purpose} bias", outside, bound=bound))
        return layer
