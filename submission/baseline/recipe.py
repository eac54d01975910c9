"""The recipe of the record, in words, from the configuration of a run (step 2)."""

import contextlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from submission.baseline.config import RunConfig, TrainingConfig, ViewsConfig

if TYPE_CHECKING:
    from submission.baseline.backbones.base import Pixels

SOFTWARE = ("mvc-kit", "torch", "torchvision", "open_clip_torch", "transformers", "timm", "pillow")
UNTRAINED = "none: a zero-shot model is not trained"


@dataclass(frozen=True)
class Told:
    """What the parts of a run say of themselves.

    ``architecture`` of the backbone; ``source``, ``sha256`` and ``trained_on`` of its weights; ``pixels`` that it
    wants; ``learner`` and ``loss`` in a sentence; ``shots`` how training images were drawn; ``trainable`` values.
    """

    architecture: str
    source: str
    sha256: str
    trained_on: str
    pixels: "Pixels"
    learner: str
    loss: str
    shots: str
    trainable: int


def recipe(config: RunConfig, told: Told) -> dict[str, Any]:
    """The fields of ``protocol.submission.Recipe``, without ``configs``."""
    trained = config.learner.name != "zeroshot"
    training = config.training
    warm = training.warmup_epochs >= training.epochs
    learner = told.learner
    if trained:
        learner += f"; {told.trainable:,} trainable values, both towers frozen"
    return {
        "architecture": f"{told.architecture}; {learner}",
        "pretrained_weights": f"{told.source} (SHA-256 {told.sha256})",
        "pretrained_on": told.trained_on,
        "pretraining_test_overlap": config.about.pretraining_test_overlap,
        "preprocessing": _preprocessing(told.pixels, config),
        "augmentation": _augmentation(config.views) if trained else "none",
        "optimiser": _optimiser(training, told.loss, told.shots) if trained else UNTRAINED,
        "learning_rate": (training.warmup_rate if warm else training.learning_rate) if trained else UNTRAINED,
        "weight_decay": training.weight_decay if trained else UNTRAINED,
        "batch_size": training.batch_size if trained else UNTRAINED,
        "epochs": training.epochs if trained else UNTRAINED,
        "stopping_rule": f"none: {_tested(config)} of {training.epochs} epochs" if trained else UNTRAINED,
        "selected_on": "none",
        "code_url": config.about.code_url,
        "code_commit": ", ".join(f"{name} {version}" for name, version in software().items()),
    }


def model(config: RunConfig) -> dict[str, Any]:
    """The entry of ``models``: name, kind, and seeds or ``deterministic``.

    A model trained with a calibration loss is ``train-time``, one trained with cross-entropy ``base``.
    """
    if config.learner.name == "zeroshot":
        return {"name": config.model, "kind": "zero-shot", "deterministic": True}
    kind = "base" if config.loss.name == "ce" else "train-time"
    return {"name": config.model, "kind": kind, "seeds": list(config.seeds)}


def software() -> dict[str, str]:
    """The installed version of each package that makes the numbers."""
    found = {}
    for name in SOFTWARE:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _tested(config: RunConfig) -> str:
    """Which prompts are tested."""
    return "the prompts' Gaussian-weighted mean" if config.learner.name == "promptsrc" else "the prompts after the last"


def _preprocessing(pixels: "Pixels", config: RunConfig) -> str:
    mean, std = (", ".join(f"{value:.8g}" for value in values) for values in (pixels.mean, pixels.std))
    templates = _some(config.templates)
    return (
        f"RGB, upright by EXIF, on black where transparent; shorter side to {pixels.size} pixels (bicubic), centre "
        f"crop {pixels.size} x {pixels.size}, mean ({mean}) and standard deviation ({std}) of each channel; grey "
        f"levels beyond 8 bits over their own range; towers in {config.precision}, softmax in float64; zero-shot "
        f"texts: {templates}"
    )


def _some(texts: Sequence[str]) -> str:
    """The first few of ``texts``, and how many more there are."""
    shown = ", ".join(repr(text) for text in texts[:8])
    return shown if len(texts) <= 8 else f"{shown} and {len(texts) - 8} more (see configs)"


def _augmentation(views: ViewsConfig) -> str:
    if views.kind == "single":
        return (
            "none: every epoch sees the one centre crop of each image (a deviation from the published recipes, which "
            "crop and mirror at random)"
        )
    low, high = views.scale
    return (
        f"random crop of {low:g} to {high:g} of the area with sides 3:4 to 4:3, resized (bicubic), mirrored with "
        f"probability {views.flip:g}; one view an image and epoch, keyed by seed, epoch and image, so that methods "
        "that are compared see the same views"
    )


def _optimiser(training: TrainingConfig, loss: str, shots: str) -> str:
    if training.optimiser == "adam":
        name = f"Adam, epsilon {training.adam_epsilon:g}"
    else:
        name = f"SGD, momentum {training.momentum:g}"
    warm = training.warmup_epochs
    if warm >= training.epochs:
        schedule = f"constant rate {training.warmup_rate:g}: every epoch is a warm-up epoch"
    else:
        first = f"{warm} warm-up epoch{'' if warm == 1 else 's'} at {training.warmup_rate:g}, then " if warm else ""
        schedule = f"{first}cosine schedule stepped once an epoch"
    last = "; a last smaller batch is left out" if training.drop_last else ""
    return f"{name}; {schedule}{last}; loss: {loss}; training images: {shots}"
