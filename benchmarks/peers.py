"""What other libraries offer of the kit's metrics, as functions of (p, y) for a multiclass test set.

Where a library has only the binary function, the loop over classes or the reduction to the top label that a user writes
around it is part of what is measured. Libraries are imported when asked for; one that is missing is skipped. Torch is
held to one thread: with more, its times grow many times over as soon as another process wants a core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.timing import progress

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Measure = Callable[[Floats, Ints], float]

BINS = 15
MCE_BINS = 20


@dataclass(frozen=True)
class Peer:
    """A library, and its functions by the kit's name of the metric."""

    package: str
    version: str
    measures: dict[str, Measure]


def installed(classes: int) -> list[Peer]:
    """The peers that can be imported here."""
    found = []
    for package, load in LOADERS.items():
        try:
            measures = load(classes)
        except ImportError as missing:
            progress(f"{package} is skipped: {missing}")
            continue
        found.append(Peer(package, version(package), measures))
    return found


def top(p: Floats, y: Ints) -> tuple[Floats, Floats]:
    """Confidence and whether the label with it is right."""
    return p.max(axis=1), (p.argmax(axis=1) == y).astype(np.float64)


def over_classes(binary: Callable[[Floats, Ints], Any], classes: int) -> Measure:
    """Mean over classes of a function of (probability, 0 or 1)."""

    def mean(p: Floats, y: Ints) -> float:
        return float(np.mean([float(binary(p[:, k], (y == k).astype(np.int64))) for k in range(classes)]))

    return mean


def scikit_learn(classes: int) -> dict[str, Measure]:
    """Scores of its own; binned errors by its calibration curve, in which equal-mass bins weigh the same."""
    metrics, calibration = import_module("sklearn.metrics"), import_module("sklearn.calibration")
    isotonic = import_module("sklearn.isotonic")
    labels = np.arange(classes)

    def mass(p: Floats, y: Ints | Floats) -> float:
        rate, mean = calibration.calibration_curve(y, p, n_bins=BINS, strategy="quantile")
        return float(np.abs(rate - mean).mean())

    def miscalibration(p: Floats, y: Ints) -> float:
        fitted = isotonic.IsotonicRegression(y_min=0.0, y_max=1.0).fit_transform(p, y)
        return float(np.mean((p - y) ** 2) - np.mean((fitted - y) ** 2))

    return {
        "brier": lambda p, y: float(metrics.brier_score_loss(y, p, labels=labels, scale_by_half=False)),
        "nll": lambda p, y: float(metrics.log_loss(y, p, labels=labels)),
        "accuracy": lambda p, y: float(metrics.accuracy_score(y, p.argmax(axis=1))),
        "ece": lambda p, y: mass(*top(p, y)),
        "classwise_ece": over_classes(mass, classes),
        "auroc": lambda p, y: float(metrics.roc_auc_score(y, p, multi_class="ovr", average="macro", labels=labels)),
        "auprc": over_classes(lambda p, y: metrics.average_precision_score(y, p), classes),
        "corp": over_classes(miscalibration, classes),
    }


def single_thread() -> Any:
    """Torch, held to one thread."""
    torch = import_module("torch")
    torch.set_num_threads(1)
    return torch


def torchmetrics(classes: int) -> dict[str, Measure]:
    """Its functional form; probabilities of exactly one are none here, so its extra bin for them stays empty."""
    torch, own = single_thread(), import_module("torchmetrics.functional.classification")
    tensor = torch.from_numpy

    def accuracy(p: Floats, y: Ints) -> float:
        return float(own.multiclass_accuracy(tensor(p), tensor(y), classes, average="micro"))

    def width(bins: int, norm: str) -> Measure:
        return lambda p, y: float(own.multiclass_calibration_error(tensor(p), tensor(y), classes, bins, norm))

    return {
        "accuracy": accuracy,
        "ece_width": width(BINS, "l1"),
        "mce": width(MCE_BINS, "max"),
        "auroc": lambda p, y: float(own.multiclass_auroc(tensor(p), tensor(y), classes)),
        "auprc": lambda p, y: float(own.multiclass_average_precision(tensor(p), tensor(y), classes)),
    }


def netcal(classes: int) -> dict[str, Measure]:
    """Equal-mass bins by quantiles; raises where two of them coincide."""
    own = import_module("netcal.metrics")
    width, mass, largest = own.ECE(BINS), own.ECE(BINS, equal_intervals=False), own.MCE(MCE_BINS)
    return {
        "ece": lambda p, y: float(mass.measure(p, y)),
        "ece_width": lambda p, y: float(width.measure(p, y)),
        "mce": lambda p, y: float(largest.measure(p, y)),
        "classwise_ece": over_classes(mass.measure, classes),
    }


def uncertainty_calibration(classes: int) -> dict[str, Measure]:
    """The authors' code of the debiased estimator; its default bins are of equal mass."""
    own = import_module("calibration")
    return {
        "ece": lambda p, y: float(own.get_ece_em(p, y, num_bins=BINS)),
        "ece_width": lambda p, y: float(own.get_ece(p, y, num_bins=BINS)),
        "classwise_ece": lambda p, y: float(own.get_ece_em(p, y, num_bins=BINS, mode="marginal")),
        "ece_debiased": lambda p, y: float(own.lower_bound_scaling_top_ce(p, y, p=2, debias=True, num_bins=BINS)),
    }


def relplot(classes: int) -> dict[str, Measure]:
    """The authors' code of the smooth error."""
    own = import_module("relplot.metrics")
    return {
        "ece_width": lambda p, y: float(own.binnedECE(*top(p, y), nbins=BINS)),
        "smooth_ece": lambda p, y: float(own.smECE(*top(p, y))),
    }


def probmetrics(classes: int) -> dict[str, Measure]:
    """One metric at a time by name, from tensors."""
    torch, own = single_thread(), import_module("probmetrics.metrics")

    def named(name: str) -> Measure:
        metric = own.Metrics.from_names([name])

        def measure(p: Floats, y: Ints) -> float:
            return float(metric.compute_all_from_labels_probs(torch.from_numpy(y), torch.from_numpy(p))[name])

        return measure

    return {
        "brier": named("brier"),
        "nll": named("logloss"),
        "accuracy": named("accuracy"),
        "ece_width": named(f"ece-{BINS}"),
        "mce": named(f"mce-{MCE_BINS}"),
        "auroc": named("auroc-ovr"),
        "smooth_ece": named("smece"),
    }


def calibstats(classes: int) -> dict[str, Measure]:
    """Plain numpy; its ``ace`` is the equal-mass expected error."""
    own = import_module("calibstats")
    return {
        "brier": lambda p, y: float(own.brier_score(p, y)),
        "nll": lambda p, y: float(own.nll(p, y)),
        "ece": lambda p, y: float(own.ace(p, y, n_bins=BINS)),
        "ece_width": lambda p, y: float(own.ece(p, y, n_bins=BINS)),
        "mce": lambda p, y: float(own.mce(p, y, n_bins=MCE_BINS)),
        "classwise_ece": over_classes(lambda p, y: own.ace(p, y, n_bins=BINS), classes),
        "ece_debiased": lambda p, y: float(own.debiased_ece(p, y, n_bins=BINS, strategy="quantile")),
    }


LOADERS: dict[str, Callable[[int], dict[str, Measure]]] = {
    "scikit-learn": scikit_learn,
    "torchmetrics": torchmetrics,
    "netcal": netcal,
    "uncertainty-calibration": uncertainty_calibration,
    "relplot": relplot,
    "probmetrics": probmetrics,
    "calibstats": calibstats,
}
