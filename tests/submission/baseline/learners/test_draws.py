import pytest
import torch

from submission.baseline.learners.draws import Draws


def test_a_purpose_has_a_stream_of_its_own() -> None:
    draws = Draws(3, "cpu")
    first = draws.normal("text", 4, 8)
    draws.normal("image", 100)
    assert torch.equal(draws.normal("text", 4, 8), first)
    assert not torch.equal(draws.normal("image", 4, 8), first)
    assert not torch.equal(Draws(4, "cpu").normal("text", 4, 8), first)


def test_torch_is_neither_read_nor_advanced() -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = Draws(1, "cpu").linear("map", 5, 7)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(99)
    again = Draws(1, "cpu").linear("map", 5, 7)
    assert torch.equal(first.weight, again.weight)
    assert torch.equal(first.bias, again.bias)


def test_a_linear_map_starts_as_that_of_torch() -> None:
    ours, theirs = Draws(1, "cpu").linear("map", 400, 300), torch.nn.Linear(400, 300)
    assert ours.weight.shape == theirs.weight.shape
    assert ours.weight.std().item() == pytest.approx(theirs.weight.std().item(), rel=0.02)
    assert 0.99 / 20 < ours.weight.abs().max() <= 1 / 20
    assert ours.bias.abs().max() <= 1 / 20
    assert all(parameter.requires_grad for parameter in ours.parameters())


def test_seeds_are_any_whole_number() -> None:
    for seed in (0, 2**63, 10**30, -5):
        assert Draws(seed, "cpu").normal("text", 3).isfinite().all()
