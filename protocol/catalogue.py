"""The metrics of this edition by name: the definitions that no submission can change."""

from dataclasses import dataclass

from protocol.types import Kind


@dataclass(frozen=True)
class Metric:
    """A metric as the edition fixes it.

    ``reading`` is what the probability means, ``bins`` and ``binning`` are None for unbinned metrics, ``per_class``
    says that a claim must name a class; ``best`` is 0 or 1.
    """

    name: str
    reading: str | None
    best: float
    bins: int | None = None
    binning: str | None = None
    per_class: bool = False


def catalogue(kind: Kind) -> dict[str, Metric]:
    """Metrics that are computed for a task of ``kind``, by name.

    A multilabel task has the binary metrics per finding and their averages ``<name>_macro`` over findings.
    """
    if kind == "multiclass":
        metrics = [
            Metric("brier", None, 0),
            Metric("nll", None, 0),
            Metric("ece", "top-label", 0, 15, "equal-mass"),
            Metric("classwise_ece", "class-wise", 0, 15, "equal-mass"),
            Metric("accuracy", None, 1),
            Metric("auroc", "class-wise", 1, per_class=True),
            Metric("auroc_macro", "class-wise", 1),
        ]
    else:
        metrics = [
            Metric("brier_binary", None, 0),
            Metric("nll", None, 0),
            Metric("ece", "positive class", 0, 15, "equal-mass"),
            Metric("accuracy", None, 1),
            Metric("auroc", "positive class", 1),
        ]
        if kind == "multilabel":
            single = [Metric(m.name, m.reading, m.best, m.bins, m.binning, per_class=True) for m in metrics]
            macro = [Metric(f"{m.name}_macro", m.reading, m.best, m.bins, m.binning) for m in metrics]
            metrics = [*single, *macro]
        else:
            metrics.append(Metric("classwise_ece", "class-wise", 0, 15, "equal-mass"))
    return {metric.name: metric for metric in metrics}


def primary_metric(kind: Kind, chosen: str) -> str:
    """Row name of the task's primary metric (``brier`` or ``nll``)."""
    name = "brier_binary" if chosen == "brier" and kind != "multiclass" else chosen
    return f"{name}_macro" if kind == "multilabel" else name


def headline_metrics(kind: Kind) -> tuple[str, ...]:
    """Metrics that stand for a whole run, in the order in which they are shown."""
    if kind == "multiclass":
        return ("brier", "nll", "ece", "classwise_ece", "accuracy", "auroc_macro")
    if kind == "multilabel":
        return tuple(f"{name}_macro" for name in ("brier_binary", "nll", "ece", "accuracy", "auroc"))
    return ("brier_binary", "nll", "ece", "classwise_ece", "accuracy", "auroc")
