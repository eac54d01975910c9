"""A seeded test set for the benchmarks of speed: many patients with few images, few with many."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LARGEST = 25


class Data(NamedTuple):
    """``p`` (N, K) rows that sum to one, ``y`` (N,) class indices, ``patient`` (N,) numbers in 0 .. patients - 1."""

    p: Floats
    y: Ints
    patient: Ints
    patients: int


def make(
    images: int = 50_000, classes: int = 5, patients: int = 20_000, *, largest: int = LARGEST, seed: int = 20261
) -> Data:
    """Images of ``patients`` patients, 1 to ``largest`` each, rows in no order of patients.

    Classes are unequally frequent. A patient's images share a condition and a deviation of the true logits. What is
    reported is the softmax of logits bent so that it is over-confident where unsure and under-confident where sure, and
    shifted by class: binned gaps have both signs, so that they depend on the bins. Raises ValueError when the images
    can't be spread over the patients.
    """
    if not patients <= images <= patients * largest:
        raise ValueError(f"{images} images do not fit {patients} patients with 1 to {largest} each")
    rng = np.random.default_rng(seed)
    owner = rng.permutation(np.repeat(np.arange(patients), _sizes(images, patients, largest, rng)))
    frequency = 0.6 ** np.arange(classes)
    condition = rng.choice(classes, patients, p=frequency / frequency.sum())
    logits = rng.normal(0.0, 0.9, (patients, classes))[owner] + rng.normal(0.0, 0.7, (images, classes))
    logits[np.arange(images), condition[owner]] += 2.2
    below = softmax(logits).cumsum(axis=1)
    y = np.minimum((rng.random((images, 1)) > below).sum(axis=1), classes - 1)
    shift = np.linspace(0.3, -0.3, classes)
    return Data(softmax(3.0 * np.tanh(0.65 * logits) + shift), y.astype(np.int64), owner.astype(np.int64), patients)


def softmax(logits: Floats) -> Floats:
    """Rows of probabilities."""
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True), dtype=np.float64)


def _sizes(images: int, patients: int, largest: int, rng: np.random.Generator) -> Ints:
    """Images of each patient, one at least; the rest go by unequal propensities to patients that have room."""
    propensity = rng.gamma(0.5, size=patients) + 1e-6
    sizes = np.ones(patients, dtype=np.int64)
    while (left := images - int(sizes.sum())) > 0:
        chance = propensity * (sizes < largest)
        sizes = np.minimum(sizes + rng.multinomial(left, chance / chance.sum()), largest)
    return sizes
