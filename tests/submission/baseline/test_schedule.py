import math

import pytest
import torch

from submission.baseline.config import TrainingConfig
from submission.baseline.schedule import rate


def test_published_example() -> None:
    config = TrainingConfig(learning_rate=0.002, epochs=5)
    rates = [rate(epoch, config) for epoch in range(5)]
    assert rates == pytest.approx([1e-5, 0.002, 0.001809, 0.001309, 0.000691], abs=5e-7)


@pytest.mark.parametrize("epochs", [2, 5, 50, 200])
def test_is_the_cosine_of_torch_behind_a_warm_up(epochs: int) -> None:
    config = TrainingConfig(epochs=epochs)
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=config.learning_rate)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, T_max=epochs)
    for epoch in range(1, epochs):
        assert rate(epoch, config) == pytest.approx(cosine.get_last_lr()[0], rel=1e-9)
        optimiser.step()
        cosine.step()
    assert rate(epochs - 1, config) > 0


def test_without_warm_up() -> None:
    config = TrainingConfig(learning_rate=1.0, epochs=4, warmup_epochs=0)
    assert [rate(epoch, config) for epoch in range(4)] == pytest.approx(
        [0.5 * (1 + math.cos(math.pi * epoch / 4)) for epoch in range(4)]
    )


def test_warm_up_as_long_as_the_run() -> None:
    config = TrainingConfig(epochs=3, warmup_epochs=5, warmup_rate=1e-4)
    assert [rate(epoch, config) for epoch in range(3)] == [1e-4] * 3


@pytest.mark.parametrize("epoch", [-1, 3])
def test_no_such_epoch(epoch: int) -> None:
    with pytest.raises(ValueError, match=f"epoch {epoch} of 3"):
        rate(epoch, TrainingConfig(epochs=3))
