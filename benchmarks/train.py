"""Training: ``python -m benchmarks.train [--steps 6] [--batch 32 8] [--toy DIR] [--device cuda]``.

1. A training step of CoOp on stored image features against the same step with the image tower in the loop: ViT-B/16
   of random weights, 5 classes, 16 soft tokens, prompts cut at the end-of-text mark. Both take the same images in the
   same order; their losses are compared step by step.
2. The same on the toy that ``mvc baseline toy DIR`` made.
3. With ``--device cuda``: images a second and memory of each image tower (random weights), and epochs an hour of the
   16-shot recipe (5 classes, 80 images, batch 8) of each learner.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from submission.baseline import backbones, learners
from submission.baseline.backbones.base import Backbone
from submission.baseline.backbones.clip import ClipBackbone
from submission.baseline.config import BackboneConfig, LearnerConfig, LossConfig
from submission.baseline.learners.base import Batch, ClassTexts, Learner
from submission.baseline.losses import Criterion

NAMES = ("no", "mild", "moderate", "severe", "proliferative")
OPEN_CLIP = {name: f"{name}-quickgelu" for name in ("RN50", "RN101", "ViT-B-16", "ViT-B-32")}
IN_LOOP = ("maple", "promptsrc", "hicropl")


def random_backbone(name: str, device: str, precision: str = "fp32") -> ClipBackbone:
    """A full-size backbone of random weights."""
    import open_clip

    torch.manual_seed(1)
    backbone = ClipBackbone(open_clip.create_model(OPEN_CLIP[name]).float(), name).to(device)
    backbone.precision = precision
    return backbone


def steps(
    learner: Learner, rows: Sequence[Tensor], batch_of: Callable[[Tensor], Batch]
) -> tuple[list[float], list[float]]:
    """Seconds and loss of a step for each of ``rows``; its batch is made inside its time."""
    optimiser = torch.optim.SGD(learner.parameters(), lr=0.002, momentum=0.9, weight_decay=5e-4)
    criterion = Criterion(LossConfig(name="mcm"), len(learner.texts.names))
    seconds, losses = [], []
    for own in rows:
        start = time.perf_counter()
        batch = batch_of(own)
        optimiser.zero_grad(set_to_none=True)
        loss, _ = learner.step(batch, criterion)
        optimiser.step()
        losses.append(float(loss))  # waits for the device
        seconds.append(time.perf_counter() - start)
    return seconds, losses


def compared(backbone: Backbone, images: Tensor, labels: Tensor, batch: int, count: int, device: str) -> None:
    """Print the time of a step on stored features, in the loop, their ratio, and how far the losses are apart."""
    features = torch.cat([backbone.encode_images(part.to(device)) for part in torch.split(images, batch)])
    rows = [torch.arange(start, start + batch) % len(labels) for start in range(0, count * batch, batch)]

    def coop() -> Learner:
        texts = ClassTexts(NAMES[: int(labels.max()) + 1], ("a photo of a {}.",))
        return learners.make(LearnerConfig(name="coop"), backbone, texts, seed=1, epochs=1).to(device)

    def stored(own: Tensor) -> Batch:
        return Batch(labels[own].to(device), features[own.to(device)])

    def looped(own: Tensor) -> Batch:
        return Batch(labels[own].to(device), backbone.encode_images(images[own].to(device)))

    fast, losses = steps(coop(), rows, stored)
    slow, others = steps(coop(), rows, looped)
    apart = max(abs(one - other) for one, other in zip(losses, others, strict=True))
    quick, full = statistics.median(fast[1:] or fast), statistics.median(slow[1:] or slow)
    print(
        f"| {backbone.name} | {batch} | {1000 * quick:.1f} | {1000 * full:.1f} | {full / quick:.1f} | {apart:.1e} |",
        flush=True,
    )


def towers(device: str, precision: str) -> None:
    """Images a second and memory of each image tower."""
    print(f"\n| image tower, batch 256, {precision} | images/s | GiB |\n|---|---|---|")
    for name in OPEN_CLIP:
        backbone = random_backbone(name, device, precision)
        images = torch.randn(256, 3, 224, 224, device=device)
        torch.cuda.reset_peak_memory_stats()
        backbone.encode_images(images)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(10):
            backbone.encode_images(images)
        torch.cuda.synchronize()
        rate = 2560 / (time.perf_counter() - start)
        print(f"| {name} | {rate:.0f} | {torch.cuda.max_memory_allocated() / 2**30:.2f} |", flush=True)


def recipes(device: str, precision: str, epochs: int = 3) -> None:
    """Epochs an hour of the 16-shot recipe: 80 images, batch 8, ViT-B/16."""
    print(f"\n| 16 shots, ViT-B/16, {precision} | trained values | epochs/hour | GiB |")
    print("|---|---|---|---|")
    backbone = random_backbone("ViT-B-16", device, precision)
    images, labels = torch.randn(80, 3, 224, 224, device=device), torch.arange(80, device=device) % 5
    features = torch.cat([backbone.encode_images(part) for part in torch.split(images, 16)])
    for name in ("coop", "kgcoop", "prograd", *IN_LOOP):
        config: Any = {"name": name}
        learner = learners.make(
            LearnerConfig(**config), backbone, ClassTexts(NAMES, ("a photo of a {}.",)), seed=1, epochs=epochs
        ).to(device)
        torch.cuda.reset_peak_memory_stats()

        def batch_of(own: Tensor, learner: Learner = learner) -> Batch:
            return Batch(labels[own], features[own], images[own] if learner.needs_images else None)

        order = [own for _ in range(epochs) for own in torch.split(torch.randperm(80), 8)]
        seconds, _ = steps(learner, order, batch_of)
        an_hour = 3600 / (10 * statistics.median(seconds[1:]))
        memory = torch.cuda.max_memory_allocated() / 2**30
        print(f"| {name} | {learner.trainable:,} | {an_hour:.0f} | {memory:.2f} |", flush=True)


def toy(folder: Path, batch: int, count: int, device: str) -> None:
    """The comparison on the toy's model, with images of noise of its size."""
    weights = str(folder / "clip")
    backbone = backbones.load(BackboneConfig(name="toy", weights=weights), device=device).backbone
    side = backbone.pixels.size
    images, labels = torch.randn(batch * 2, 3, side, side), torch.arange(batch * 2) % 4
    compared(backbone, images, labels, batch, count, device)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 8])
    parser.add_argument("--toy", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", default="bf16", help="of the towers, for the tables of --device cuda")
    asked = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, {asked.device}\n")
    print("| backbone | batch | stored features, ms a step | tower in the loop | ratio | losses apart by |")
    print("|---|---|---|---|---|---|")
    torch.manual_seed(2)
    backbone = random_backbone("ViT-B-16", asked.device)
    images, labels = torch.randn(2 * max(asked.batch), 3, 224, 224), torch.arange(2 * max(asked.batch)) % len(NAMES)
    for batch in asked.batch:
        compared(backbone, images, labels, batch, asked.steps, asked.device)
    if asked.toy is not None:
        for batch in asked.batch:
            toy(asked.toy, batch, 4 * asked.steps, asked.device)
    if asked.device.startswith("cuda"):
        towers(asked.device, asked.precision)
        recipes(asked.device, asked.precision)


if __name__ == "__main__":
    main()
