"""Where the tiny CLIP starts from: weights under which pictures and captions differ before anything is learned.

Random towers give all inputs nearly the same feature (the squared mean is some hundred times the variance), and a
contrast between them has next to no gradient: training from there stands still for longer than a test bed has time.
"""

from collections.abc import Callable
from typing import Any

import torch
from open_clip.model import CLIP
from torch import Tensor

from submission.baseline.toy.clip import text_features

SPOT = 1.2  # pixels: standard deviation of the middle of a filter
GAIN = 5.0
SHRINK = 0.05  # of the largest variance: what is added to each before it is set to one
COLOURS = ((1.0, 1.0, 1.0), (0.2, 1.0, -1.0))  # by turns: dark and bright, yellow and blue


@torch.no_grad()
def prepare(model: CLIP, pictures: Tensor, ids: Tensor) -> None:
    """Set filters and read-outs from preprocessed ``pictures`` (N, 3, size, size) and token ``ids`` (M, L)."""
    _spots(model.visual.conv1.weight)
    _spread(model.visual.ln_post, model.visual.proj, lambda: model.visual(pictures), _first)
    ends = ids.argmax(-1)
    rows = torch.arange(len(ids))
    _spread(model.ln_final, model.text_projection, lambda: text_features(model, ids), lambda x: x[rows, ends])


def _first(x: Tensor) -> Tensor:
    return x[:, 0] if x.ndim == 3 else x


def _spots(weight: Tensor) -> None:
    """Filters (n, 3, p, p) with a bright middle and a dark surround on a grid over the patch, as of ganglion cells."""
    count, _, patch, _ = weight.shape
    side = 1
    while len(COLOURS) * side * side < count:
        side += 1
    line = torch.arange(patch, dtype=torch.float32)
    for row in range(count):
        place = row // len(COLOURS)
        y, x = ((place // side) % side + 0.5) * patch / side - 0.5, (place % side + 0.5) * patch / side - 0.5
        distance = (line[:, None] - y) ** 2 + (line[None] - x) ** 2
        middle, surround = (torch.exp(-distance / (2 * (wide * SPOT) ** 2)) for wide in (1.0, 2.2))
        spot = middle / middle.sum() - surround / surround.sum()
        weight[row] = GAIN * spot * torch.tensor(COLOURS[row % len(COLOURS)])[:, None, None]


def _spread(norm: Any, projection: Tensor, run: Callable[[], Any], pick: Callable[[Tensor], Tensor]) -> None:
    """Centre what ``norm`` gives and let ``projection`` (width, embed) spread it alike in all directions."""
    seen: list[Tensor] = []
    hook = norm.register_forward_hook(lambda module, given, out: seen.append(pick(out)))
    run()
    hook.remove()
    mean = seen[0].mean(0)
    apart = (seen[0] - mean).double()
    variances, directions = torch.linalg.eigh(apart.T @ apart / len(apart))
    count = min(projection.shape)
    variances, directions = variances.flip(0)[:count], directions.flip(1)[:, :count]
    norm.bias.sub_(mean)
    projection.zero_()
    projection[:, :count] = directions / (variances.clamp(min=0) + SHRINK * variances[0]).sqrt()
