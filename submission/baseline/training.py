"""The loop: epochs of a learner on stored views, with checkpoints from which a killed run goes on unchanged.

All randomness is keyed by (seed, purpose, epoch): nothing but parameters, averages and the optimiser's state is kept.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor

from submission.baseline.checkpoints import optimiser_tensors, restore_optimiser
from submission.baseline.config import TrainingConfig
from submission.baseline.errors import BaselineError
from submission.baseline.learners.base import Batch, Learner
from submission.baseline.losses import Criterion
from submission.baseline.schedule import rate
from submission.files import replacing
from submission.recalibration.maps import softmax

ORDER = 1  # purpose of a random stream: the order of images in an epoch
CHECKPOINT, LOG = "checkpoint.safetensors", "log.jsonl"
EVALUATED_AT_ONCE = 256  # images a forward pass without gradient
PAUSE = 5.0  # seconds between checkpoints, so that short epochs are not all writing

Measure = Callable[[NDArray[np.float64], NDArray[np.int64]], Mapping[str, float]]
Watch = Callable[[int, int, Mapping[str, float]], None]  # epochs done, epochs in all, what was measured


class Views(Protocol):
    """Images of one split in a fixed order, as an epoch (None: the still view) sees them."""

    def features(self, epoch: int | None) -> Tensor:
        """Normalised features (N, embed_width) of the frozen tower, float32."""
        ...

    def images(self, epoch: int | None, rows: Sequence[int]) -> Tensor:
        """The views themselves (len(rows), 3, size, size)."""
        ...


@dataclass(frozen=True)
class Part:
    """The images of one split: their views, and labels (N,) int64 where they are known."""

    views: Views
    labels: NDArray[np.int64]


def train(
    learner: Learner,
    criterion: Criterion,
    config: TrainingConfig,
    part: Part,
    *,
    seed: int,
    folder: Path,
    val: Part | None = None,
    measure: Measure | None = None,
    watch: Watch = lambda done, total, values: None,
    pause: float = PAUSE,
    run: str = "",
) -> list[dict[str, float]]:
    """Train ``learner`` in place; one line of the log an epoch, which also stands in ``folder``.

    Goes on from the checkpoint in ``folder`` where there is one: the result is bit for bit that of a run that was never
    stopped. A checkpoint of another ``run`` counts for nothing. ``val`` is measured after each epoch by ``measure``
    (probabilities (N, K), labels) and chooses nothing.

    Raises :class:`BaselineError` for a loss that is no number, and for a checkpoint that can't be read.
    """
    parameters = dict(learner.named_parameters())
    optimiser = _optimiser(config, list(parameters.values()))
    done, log = _resume(folder / CHECKPOINT, learner, optimiser, run)
    written = 0.0
    for epoch in range(done, config.epochs):
        line = {"epoch": epoch + 1, **_epoch(learner, criterion, optimiser, config, part, seed, epoch)}
        learner.after_epoch(epoch, config.epochs)
        if val is not None and measure is not None and len(val.labels):
            before = learner.kept()
            p = softmax(logits(learner, val.views, len(val.labels)))
            learner.restore(before)  # the published form of HiCroPL changes when it predicts
            line |= {f"val_{name}": value for name, value in measure(p, val.labels).items()}
        log.append(line)
        if epoch + 1 == config.epochs or time.monotonic() - written >= pause:
            _keep(folder, learner, optimiser, epoch + 1, log, run)
            written = time.monotonic()
        watch(epoch + 1, config.epochs, line)
    if not (folder / LOG).exists() or (folder / LOG).read_bytes() != _lines(log):
        _write_log(folder, log)  # killed between the checkpoint and the log
    learner.finish()
    return log


def _optimiser(config: TrainingConfig, parameters: Sequence[torch.nn.Parameter]) -> torch.optim.Optimizer:
    if config.optimiser == "adam":
        return torch.optim.Adam(
            parameters, lr=config.learning_rate, eps=config.adam_epsilon, weight_decay=config.weight_decay
        )
    return torch.optim.SGD(
        parameters, lr=config.learning_rate, momentum=config.momentum, weight_decay=config.weight_decay
    )


def _epoch(
    learner: Learner,
    criterion: Criterion,
    optimiser: torch.optim.Optimizer,
    config: TrainingConfig,
    part: Part,
    seed: int,
    epoch: int,
) -> dict[str, float]:
    """One pass over the training images; learning rate, mean loss and mean of the loss's terms, by image."""
    for group in optimiser.param_groups:
        group["lr"] = rate(epoch, config)
    device = learner.frozen.device
    features = part.views.features(epoch).to(device)
    labels = torch.from_numpy(part.labels).to(device)
    kept: dict[str, list[Tensor]] = {}
    weights = []
    for rows in batches(len(part.labels), config, seed, epoch):
        chosen = torch.from_numpy(rows).to(device)
        images = part.views.images(epoch, rows.tolist()).to(device) if learner.needs_images else None
        optimiser.zero_grad(set_to_none=True)
        loss, terms = learner.step(Batch(labels[chosen], features[chosen], images), criterion)
        optimiser.step()
        for name, value in {"loss": loss, **terms}.items():
            kept.setdefault(name, []).append(value.double())
        weights.append(len(rows))
    share = torch.tensor(weights, dtype=torch.float64, device=device) / sum(weights)
    means = {name: float(torch.stack(values) @ share) for name, values in kept.items()}
    if not math.isfinite(means["loss"]):
        raise BaselineError(
            f"the loss is {means['loss']} in epoch {epoch + 1}: training diverged; lower training.learning_rate"
            f" ({config.learning_rate:g}) or the weight of the loss, or use precision fp32"
        )
    return {"rate": rate(epoch, config)} | means


def batches(images: int, config: TrainingConfig, seed: int, epoch: int) -> list[NDArray[np.int64]]:
    """Rows of each step of an epoch: a permutation keyed by seed and epoch, cut into batches.

    The last, smaller one is left out with ``drop_last``, unless it is the only one.
    """
    order = np.random.default_rng([seed, ORDER, epoch]).permutation(images).astype(np.int64)
    cut = [order[start : start + config.batch_size] for start in range(0, images, config.batch_size)]
    return cut[:-1] if config.drop_last and len(cut) > 1 and len(cut[-1]) < config.batch_size else cut


@torch.no_grad()
def logits(learner: Learner, views: Views, images: int) -> NDArray[np.float64]:
    """Logits (N, K) of the still views, in float64 of float32 values."""
    device = learner.frozen.device
    features = views.features(None).to(device)
    found = []
    for start in range(0, images, EVALUATED_AT_ONCE):
        rows = range(start, min(images, start + EVALUATED_AT_ONCE))
        pixels = views.images(None, rows).to(device) if learner.needs_images else None
        found.append(learner(features[rows.start : rows.stop], pixels).logits.float().cpu())
    if not found:
        return np.zeros((0, len(learner.texts.names)))
    return torch.cat(found).numpy().astype(np.float64)


def _keep(
    folder: Path,
    learner: Learner,
    optimiser: torch.optim.Optimizer,
    done: int,
    log: Sequence[Mapping[str, float]],
    run: str,
) -> None:
    """Write the checkpoint, then the log: the checkpoint holds both."""
    tensors = {f"learner.{name}": value.contiguous().cpu() for name, value in learner.kept().items()}
    tensors |= optimiser_tensors(optimiser)
    said = json.dumps({"run": run, "epochs": done, "log": list(log)})
    data = safetensors.torch.save(tensors, metadata={"said": said})
    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / CHECKPOINT) as sink:
        sink.write(data)
    _write_log(folder, log)


def _write_log(folder: Path, log: Sequence[Mapping[str, float]]) -> None:
    with replacing(folder / LOG) as sink:
        sink.write(_lines(log))


def _lines(log: Sequence[Mapping[str, float]]) -> bytes:
    finite = ({name: value if math.isfinite(value) else None for name, value in line.items()} for line in log)
    return "".join(f"{json.dumps(line)}\n" for line in finite).encode()


def _resume(
    path: Path, learner: Learner, optimiser: torch.optim.Optimizer, run: str
) -> tuple[int, list[dict[str, float]]]:
    """Epochs done and their log; the learner and optimiser as they were then."""
    if not path.exists():
        return 0, []
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            said = json.loads(opened.metadata()["said"])
            if said["run"] != run:
                return 0, []
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
        learner.restore({name[8:]: value for name, value in tensors.items() if name.startswith("learner.")})
        restore_optimiser(optimiser, tensors)
        return int(said["epochs"]), list(said["log"])
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, safetensors.SafetensorError) as error:
        raise BaselineError(
            f"{path} is no checkpoint of this run ({type(error).__name__}); remove it to train this seed anew"
        ) from None
