"""An optimiser's state as named tensors, for checkpoints without pickles."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

PREFIX = "optimiser."


def optimiser_tensors(optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of each parameter: ``optimiser.<place>.<name>``, on the processor."""
    return {
        f"{PREFIX}{place}.{name}": value.contiguous().cpu()
        for place, state in optimiser.state_dict()["state"].items()
        for name, value in state.items()
        if isinstance(value, Tensor)
    }


def restore_optimiser(optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Give ``optimiser`` the state that :func:`optimiser_tensors` took; other names are passed over."""
    state: dict[int, dict[str, Any]] = {}
    for name, value in tensors.items():
        if name.startswith(PREFIX):
            _, place, key = name.split(".", 2)
            state.setdefault(int(place), {})[key] = value
    optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
