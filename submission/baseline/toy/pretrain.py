"""Contrastive pre-training of the tiny CLIP on pictures and captions of the generator, minutes on two cores."""

import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import torch
from numpy.typing import NDArray
from open_clip.model import CLIP
from safetensors.torch import save as tensor_bytes
from torch import Tensor
from torch.nn import functional

from submission.baseline.backbones.clip import bpe, padded
from submission.baseline.checkpoints import optimiser_tensors, restore_optimiser
from submission.baseline.toy import images
from submission.baseline.toy.captions import captions
from submission.baseline.toy.clip import MEAN, SIZES, STD, Meta, Size, ToyConfig, built_aside, clamp_scale, save
from submission.baseline.toy.clip import text_features as read_texts
from submission.baseline.toy.start import prepare
from submission.files import write_atomic

Progress = Callable[[str, int, int, str], None]  # stage, done, in all, a note
CHECKPOINT = "pretraining.safetensors"
PAUSE = 15.0  # seconds between checkpoints
STARTERS, PHRASES = 1000, 40  # pictures, and batches of captions, that the start is set from
THREADS = 1  # so small a model gains little from more, and its bits depend on them
CAPTIONS, BEGINNING = 1, 2  # purposes of random streams


@dataclass(frozen=True)
class Preset:
    """How long and on how much: ``patients`` with two pictures each, ``steps`` of ``batch`` pairs.

    AdamW at ``rate`` after a linear warm-up over ``warmup`` of the steps, then a cosine to zero; weight ``decay`` on
    matrices alone.
    """

    size: Size
    patients: int
    steps: int
    batch: int = 32
    rate: float = 1e-3
    warmup: float = 1 / 12
    decay: float = 0.05


PRESETS = {
    "full": Preset(SIZES["full"], patients=4000, steps=1000),
    "quick": Preset(SIZES["quick"], patients=1000, steps=300),
}


def nothing(stage: str, done: int, total: int, note: str) -> None:
    """Tell nobody."""


def pretrain(
    folder: Path,
    preset: Preset,
    *,
    seed: int,
    aside: Path,
    progress: Progress = nothing,
    pause: float = PAUSE,
) -> ToyConfig:
    """Train and save a model in ``folder``; ``aside`` is an existing folder for the checkpoint, which is removed then.

    Batches and captions are keyed by (seed, step), and one thread is used: a run that was killed goes on from its
    checkpoint and ends in the same weights. The patients are numbered from ``images.MOST_PATIENTS`` on: none of them
    is in a world.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    try:
        return _pretrained(folder, preset, seed, aside, progress, pause)
    finally:
        torch.set_num_threads(threads)


def _pretrained(folder: Path, preset: Preset, seed: int, aside: Path, progress: Progress, pause: float) -> ToyConfig:
    eyes = images.subjects(seed, np.arange(preset.patients) + images.MOST_PATIENTS)
    pictures = _pictures(eyes, preset.size.pixels, progress)
    model = built_aside(preset.size, seed)
    optimiser = _optimiser(model, preset)
    key = hashlib.sha256(repr((preset, seed, THREADS, images.NOTICE)).encode()).hexdigest()
    done = _resume(aside / CHECKPOINT, model, optimiser, key)
    if done == 0:
        prepare(model, _seen(pictures, np.arange(min(STARTERS, len(eyes)))), _phrases(eyes, seed))
    written, mean = time.monotonic(), 0.0
    for step in range(done, preset.steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, preset)
        rng = np.random.default_rng([seed, CAPTIONS, step])
        rows = rng.choice(len(eyes), preset.batch, replace=False)
        loss = contrast(model, _seen(pictures, rows), captions(eyes.take(rows), rng))
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        clamp_scale(model)
        mean += (float(loss.detach()) - mean) / min(step - done + 1, 50)
        progress("pre-training", step + 1, preset.steps, f"loss {mean:.3f}")
        if time.monotonic() - written >= pause and step + 1 < preset.steps:
            _keep(aside / CHECKPOINT, model, optimiser, key, step + 1)
            written = time.monotonic()
    settings: dict[str, int | float | str] = {
        "seed": seed,
        "patients": preset.patients,
        "steps": preset.steps,
        "batch": preset.batch,
        "learning_rate": preset.rate,
        "weight_decay": preset.decay,
        "threads": THREADS,
        "torch": str(torch.__version__),
    }
    trained = (
        f"by contrast between synthetic pictures of {preset.patients} made-up patients, who are in no world, and "
        f"captions of the same generator: {preset.steps} steps of {preset.batch} pairs"
    )
    config = save(model, preset.size, folder, Meta(trained, settings))
    (aside / CHECKPOINT).unlink(missing_ok=True)
    return config


def rate(step: int, preset: Preset) -> float:
    """The learning rate of a step, counted from 0."""
    warm = max(1, round(preset.warmup * preset.steps))
    if step < warm:
        return preset.rate * (step + 1) / warm
    return preset.rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, preset.steps - warm)))


def contrast(model: Any, pictures: Tensor, texts: Sequence[str]) -> Tensor:
    """CLIP's loss of N pairs, a scalar; pairs with the same caption are each other's positives, and it is read once."""
    kinds = sorted(set(texts))
    own = torch.tensor([kinds.index(text) for text in texts])
    held = torch.bincount(own, minlength=len(kinds)).float()
    seen = functional.normalize(model.visual(pictures), dim=-1)
    read = functional.normalize(read_texts(model, tokens(kinds)), dim=-1)
    logits = model.logit_scale.exp() * seen @ read.T
    to_text = functional.cross_entropy(logits + held.log(), own)
    to_picture = -functional.log_softmax(logits, dim=0)[torch.arange(len(own)), own].mean()
    return (to_text + to_picture) / 2


def tokens(texts: Sequence[str]) -> Tensor:
    """Ids (N, L) between the marks of start and end, padded after the longest."""
    tokenizer = bpe()
    return padded([[tokenizer.sot_token_id, *tokenizer.encode(text), tokenizer.eot_token_id] for text in texts], 0)


def normalised(pictures: NDArray[np.uint8]) -> Tensor:
    """Pictures (N, size, size, 3) as the image tower wants them: (N, 3, size, size) float32."""
    x = torch.from_numpy(pictures).permute(0, 3, 1, 2).float() / 255
    return (x - torch.tensor(MEAN)[:, None, None]) / torch.tensor(STD)[:, None, None]


def _seen(pictures: NDArray[np.uint8], rows: NDArray[np.int64]) -> Tensor:
    return normalised(pictures[rows])


def _pictures(eyes: images.Subjects, size: int, progress: Progress) -> NDArray[np.uint8]:
    parts = []
    for start in range(0, len(eyes), images.CHUNK):
        end = min(start + images.CHUNK, len(eyes))
        parts.append(images.draw(eyes.take(np.arange(start, end)), size))
        progress("pictures to train on", end, len(eyes), "")
    return np.concatenate(parts)


def _phrases(eyes: images.Subjects, seed: int) -> Tensor:
    """Token ids of the different captions of some batches."""
    found: set[str] = set()
    for batch in range(PHRASES):
        rng = np.random.default_rng([seed, BEGINNING, batch])
        found |= set(captions(eyes.take(rng.choice(len(eyes), min(64, len(eyes)), replace=False)), rng))
    return tokens(sorted(found))


def _optimiser(model: CLIP, preset: Preset) -> torch.optim.Optimizer:
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    groups = [{"params": matrices, "weight_decay": preset.decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=preset.rate, betas=(0.9, 0.98), fused=True)


def _keep(path: Path, model: CLIP, optimiser: torch.optim.Optimizer, key: str, done: int) -> None:
    tensors = {f"model.{name}": tensor.contiguous() for name, tensor in model.state_dict().items()}
    tensors |= optimiser_tensors(optimiser)
    write_atomic(path, tensor_bytes(tensors, {"key": key, "done": json.dumps(done)}))


def _resume(path: Path, model: CLIP, optimiser: torch.optim.Optimizer, key: str) -> int:
    """Steps done, and the model and optimiser as they were then; 0 where there is no checkpoint of this training."""
    if not path.is_file():
        return 0
    try:
        with safetensors.safe_open(path, framework="pt") as opened:
            said = opened.metadata() or {}
            if said.get("key") != key:
                return 0
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            done = int(said["done"])
    except (OSError, KeyError, ValueError, safetensors.SafetensorError):
        return 0  # no whole file of ours: as if there was none
    model.load_state_dict({name[6:]: tensor for name, tensor in tensors.items() if name.startswith("model.")})
    restore_optimiser(optimiser, tensors)
    return done
