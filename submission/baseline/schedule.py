"""The learning rate of an epoch."""

import math

from submission.baseline.config import TrainingConfig


def rate(epoch: int, config: TrainingConfig) -> float:
    """The rate of epoch ``epoch`` (from 0): constant while warming up, then half a cosine cut short of 0.

    With w warm-up epochs of T in all: ``warmup_rate`` for epoch < w, else
    0.5 * ``learning_rate`` * (1 + cos(pi * (epoch - w) / T)). ValueError: no such epoch.
    Source: Zhou et al. (2022), Learning to prompt for vision-language models, arXiv:2109.01134, and its code.
    """
    if not 0 <= epoch < config.epochs:
        raise ValueError(f"epoch {epoch} of {config.epochs}")
    if epoch < config.warmup_epochs:
        return config.warmup_rate
    return 0.5 * config.learning_rate * (1.0 + math.cos(math.pi * (epoch - config.warmup_epochs) / config.epochs))
