"""The loop: order of images, checkpoints, resume, what a run must refuse."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import Tensor

from submission.baseline import learners
from submission.baseline.backbones.base import Backbone
from submission.baseline.config import LearnerConfig, LossConfig, TrainingConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import ClassTexts, Learner
from submission.baseline.losses import Criterion
from submission.baseline.training import CHECKPOINT, LOG, Part, batches, logits, train
from submission.recalibration.maps import softmax
from tests.submission.baseline.tiny import tiny_vit

TEXTS = ClassTexts(("none", "mild", "severe"), ("a photo of a {}.",))
LEARNERS: Mapping[str, Mapping[str, Any]] = {
    "coop": {},
    "kgcoop": {},
    "prograd": {},
    "maple": {"depth": 3},
    "promptsrc": {"depth": 3},
    "hicropl": {"depth": 4, "switch": 2, "context": 4},
}
IMAGES = 10


class Memory:
    """Views kept in memory: noise that depends on the epoch and the image alone."""

    def __init__(self, backbone: Backbone) -> None:
        self.backbone = backbone

    def images(self, epoch: int | None, rows: Sequence[int]) -> Tensor:
        return torch.stack([self._one(epoch, row) for row in rows])

    def features(self, epoch: int | None) -> Tensor:
        return self.backbone.encode_images(self.images(epoch, range(IMAGES)))

    def _one(self, epoch: int | None, row: int) -> Tensor:
        rng = np.random.default_rng([row, 0 if epoch is None else epoch + 1])
        still = np.random.default_rng(row).normal(size=(3, 32, 32))
        return torch.from_numpy((still + 0.1 * rng.normal(size=(3, 32, 32))).astype(np.float32))


class Stopped(Exception):
    """The run is killed here."""


def part(backbone: Backbone) -> Part:
    return Part(Memory(backbone), np.arange(IMAGES) % 3)


def made(backbone: Backbone, name: str, seed: int = 1, epochs: int = 4) -> Learner:
    config = LearnerConfig.model_validate({"name": name, **LEARNERS[name]})
    return learners.make(config, backbone, TEXTS, seed=seed, epochs=epochs)


def trained(
    folder: Path, learner: Learner, *, stop: int | None = None, **settings: Any
) -> tuple[list[dict[str, float]], dict[str, Tensor]]:
    """The log and the parameters of four epochs; ``stop``: killed after so many, then gone on with a new learner."""
    config = TrainingConfig(epochs=4, batch_size=4, **settings)

    def watch(done: int, total: int, values: Mapping[str, float]) -> None:
        if done == stop:
            raise Stopped

    log = train(
        learner, Criterion(LossConfig(name="mcm"), 3), config, part(learner.frozen), seed=1, folder=folder,
        val=part(learner.frozen), measure=lambda p, y: {"rows": float(len(p))}, watch=watch, pause=0.0,
    )  # fmt: skip
    return log, {name: value.detach().clone() for name, value in learner.named_parameters()}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path: Path, name: str) -> None:
    backbone = tiny_vit()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    settings: dict[str, Any] = {"optimiser": "adam"} if name == "hicropl" else {}
    log, whole = trained(tmp_path / "whole", made(backbone, name), **settings)
    with pytest.raises(Stopped):
        trained(tmp_path / "killed", made(backbone, name), stop=2, **settings)
    torch.manual_seed(99)  # nothing may depend on the global stream
    torch.randn(7)
    again, resumed = trained(tmp_path / "killed", made(tiny_vit(), name), **settings)
    assert again == log
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[key], resumed[key]) for key in whole)
    assert (tmp_path / "whole" / LOG).read_bytes() == (tmp_path / "killed" / LOG).read_bytes()
    assert all(torch.equal(before[key], value) for key, value in backbone.state_dict().items())
    assert not backbone.training
    assert not any(value.requires_grad for value in backbone.parameters())


def test_measuring_val_changes_nothing(tmp_path: Path) -> None:
    config = LearnerConfig(name="hicropl", **LEARNERS["hicropl"], form="as-published")
    found: list[dict[str, Tensor]] = []
    for measured in (None, lambda p, y: {"rows": 1.0}):
        backbone = tiny_vit()
        learner = learners.make(config, backbone, TEXTS, seed=1, epochs=2)
        train(
            learner, Criterion(LossConfig(), 3), TrainingConfig(epochs=2, batch_size=4), part(backbone), seed=1,
            folder=tmp_path / str(len(found)), val=part(backbone), measure=measured,
        )  # fmt: skip
        found.append(learner.kept())
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


def test_seeds_differ_and_the_log_tells_what_was_measured(tmp_path: Path) -> None:
    backbone = tiny_vit()
    log, one = trained(tmp_path / "1", made(backbone, "coop", seed=1))
    _, two = trained(tmp_path / "2", made(backbone, "coop", seed=2))
    assert not torch.equal(one["context"], two["context"])
    assert [line["epoch"] for line in log] == [1, 2, 3, 4]
    assert log[0]["rate"] == 1e-5
    assert log[0].keys() >= {"loss", "supervised", "regulariser", "mean_margin", "margin_variance", "val_rows"}
    assert all(line["val_rows"] == IMAGES for line in log)
    assert log[-1]["loss"] < log[0]["loss"]


def test_a_finished_run_is_not_trained_again(tmp_path: Path) -> None:
    backbone = tiny_vit()
    _, whole = trained(tmp_path, made(backbone, "promptsrc"))
    _, again = trained(tmp_path, made(backbone, "promptsrc"), stop=1)  # no epoch is left that could stop it
    assert all(torch.equal(whole[key], again[key]) for key in whole)


def test_batches_are_a_permutation_keyed_by_seed_and_epoch() -> None:
    config = TrainingConfig(batch_size=4)
    cut = batches(10, config, 1, 0)
    assert [len(rows) for rows in cut] == [4, 4, 2]
    assert sorted(np.concatenate(cut)) == list(range(10))
    assert [rows.tolist() for rows in batches(10, config, 1, 0)] == [rows.tolist() for rows in cut]
    others = [np.concatenate(batches(10, config, seed, epoch)).tolist() for seed, epoch in ((1, 1), (2, 0))]
    assert np.concatenate(cut).tolist() not in others
    assert others[0] != others[1]


def test_the_last_batch_is_dropped_only_when_others_are_left() -> None:
    config = TrainingConfig(batch_size=4, drop_last=True)
    assert [len(rows) for rows in batches(10, config, 1, 0)] == [4, 4]
    assert [len(rows) for rows in batches(8, config, 1, 0)] == [4, 4]
    assert [len(rows) for rows in batches(3, config, 1, 0)] == [3]


def test_a_loss_that_is_no_number_is_said(tmp_path: Path) -> None:
    learner = made(tiny_vit(), "coop")
    with pytest.raises(BaselineError, match=r"the loss is (nan|inf) in epoch \d: training diverged; lower"):
        trained(tmp_path, learner, learning_rate=1e38)


BARE = safetensors.torch.save({"x": torch.zeros(1)})  # without a word of whose it is


@pytest.mark.parametrize("damage", [b"", b"no checkpoint", BARE, None])
def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    backbone = tiny_vit()
    if damage is None:
        trained(tmp_path, made(backbone, "kgcoop"))
    else:
        (tmp_path / CHECKPOINT).write_bytes(damage)
    with pytest.raises(BaselineError, match=r"is no checkpoint of this run .*; remove it to train this seed anew"):
        trained(tmp_path, made(backbone, "maple"))


def test_logits_do_not_depend_on_how_many_go_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backbone = tiny_vit()
    learner = made(backbone, "maple")
    whole = logits(learner, Memory(backbone), IMAGES)
    monkeypatch.setattr("submission.baseline.training.EVALUATED_AT_ONCE", 3)
    assert np.abs(logits(learner, Memory(backbone), IMAGES) - whole).max() < 1e-4
    assert whole.shape == (IMAGES, 3)
    assert whole.dtype == np.float64
    assert logits(learner, Memory(backbone), 0).shape == (0, 3)


def test_probabilities_are_a_softmax_that_does_not_overflow() -> None:
    p = softmax(np.array([[0.0, np.log(3.0)], [1e4, -1e4]]))
    assert np.allclose(p, [[0.25, 0.75], [1.0, 0.0]], atol=0, rtol=1e-12)


def test_a_log_that_a_kill_cut_off_is_written_again(tmp_path: Path) -> None:
    backbone = tiny_vit()
    log, _ = trained(tmp_path, made(backbone, "coop"))
    whole = (tmp_path / LOG).read_bytes()
    for left in (None, whole.splitlines(keepends=True)[0]):
        (tmp_path / LOG).unlink()
        if left is not None:
            (tmp_path / LOG).write_bytes(left)
        assert trained(tmp_path, made(backbone, "coop"))[0] == log
        assert (tmp_path / LOG).read_bytes() == whole


def test_a_checkpoint_of_another_run_counts_for_nothing(tmp_path: Path) -> None:
    backbone = tiny_vit()
    config = TrainingConfig(epochs=2, batch_size=4)
    settings: dict[str, Any] = {"seed": 1, "folder": tmp_path, "pause": 0.0}
    epochs: list[int] = []
    for run, wanted in (("a", [1, 2]), ("a", []), ("b", [1, 2])):
        train(
            made(backbone, "coop"), Criterion(LossConfig(), 3), config, part(backbone), run=run,
            watch=lambda done, total, values: epochs.append(done), **settings,
        )  # fmt: skip
        assert epochs == wanted
        epochs.clear()


def test_the_head_of_a_checkpoint_has_one_key(tmp_path: Path) -> None:
    trained(tmp_path, made(tiny_vit(), "coop"))
    data = (tmp_path / CHECKPOINT).read_bytes()
    head = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    assert len(head["__metadata__"]) == 1  # several have no fixed order, and then bytes differ between runs
