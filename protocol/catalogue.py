"""The metrics of this edition by name: the definitions that no submission can change."""

from dataclasses import dataclass, replace
from typing import Literal

from protocol.types import Kind

Better = Literal["lower", "higher", "zero", "one", "neither"]
TOP, CLASSWISE, POSITIVE = "top-label", "class-wise", "positive class"
COVERAGES = (0.9, 0.8, 0.5)  # at which the selective risk is given


@dataclass(frozen=True)
class Metric:
    """A metric as the edition fixes it.

    ``reading`` is what the probability means, ``bins`` the numbers of bins with which it is given (none: unbinned),
    ``binning`` how they are cut; ``per_class`` says that a claim must name a class, ``cutoff`` that it must name a
    threshold or coverage. ``better`` tells which way is better: lower, higher, nearer to zero or one, or neither.
    """

    name: str
    reading: str | None
    better: Better
    bins: tuple[int, ...] = ()
    binning: Literal["equal-mass", "equal-width"] | None = None
    per_class: bool = False
    cutoff: Literal["threshold", "coverage"] | None = None


def _mass(name: str, reading: str, better: Better = "lower") -> Metric:
    return Metric(name, reading, better, (15,), "equal-mass")


def _width(name: str, reading: str, *bins: int) -> Metric:
    return Metric(name, reading, "lower", bins, "equal-width")


def _binned(reading: str) -> list[Metric]:
    """Binned errors in the headline reading."""
    return [
        _mass("ece", reading),
        _mass("ace", reading),
        _mass("ece_debiased", reading),
        _mass("ece_debiased_squared", reading, "zero"),
        *(_width(f"ece_width{bins}", reading, bins) for bins in (10, 15, 20)),
        _width("mce", reading, 20),
        _width("mce_weighted", reading, 10, 20),
        _width("wsece", TOP, 20),
        Metric("smooth_ece", reading, "lower"),
    ]


def _of_one_class(reading: str) -> list[Metric]:
    """What is computed for one class against the rest."""
    return [
        _mass("murphy_rel", reading),
        _mass("murphy_res", reading, "higher"),
        *(_mass(f"murphy_{part}", reading, "neither") for part in ("unc", "wbv", "wbc")),
        Metric("mcb", reading, "lower"),
        Metric("dsc", reading, "higher"),
        Metric("unc", reading, "neither"),
        Metric("citl", reading, "zero"),
        Metric("cal_intercept", reading, "zero"),
        Metric("cal_slope", reading, "one"),
        *(Metric(name, reading, "lower") for name in ("ici", "e50", "e90", "emax")),
        Metric("auroc", reading, "higher"),
        Metric("auprc", reading, "higher"),
    ]


def _selective() -> list[Metric]:
    return [Metric("aurc", TOP, "lower"), Metric("risk_at_coverage", TOP, "lower", cutoff="coverage")]


def _one_probability() -> list[Metric]:
    """The metrics of a binary task, or of one finding."""
    higher = ("sensitivity", "specificity", "net_benefit")
    return [
        Metric("brier_binary", None, "lower"),
        Metric("nll", None, "lower"),
        Metric("accuracy", None, "higher"),
        Metric("balanced_accuracy", None, "higher"),
        Metric("f1", POSITIVE, "higher"),
        Metric("kappa_quadratic", None, "higher"),
        *(Metric(name, POSITIVE, "higher", cutoff="threshold") for name in higher),
        *(Metric(f"net_benefit_treat_{who}", POSITIVE, "neither", cutoff="threshold") for who in ("all", "none")),
        *_binned(POSITIVE),
        _mass("ece_top", TOP),
        _width("ece_width20_top", TOP, 20),
        _width("mce_top", TOP, 20),
        *_of_one_class(POSITIVE),
        *_selective(),
    ]


def catalogue(kind: Kind) -> dict[str, Metric]:
    """Metrics that are computed for a task of ``kind``, by name (``kappa_quadratic`` for ordinal classes alone).

    A multilabel task has the binary metrics per finding and their averages ``<name>_macro`` over findings. The averages
    ``<name>_macro_present`` over the classes where a metric is defined are in the results, not here.
    """
    if kind == "binary":
        metrics = [
            *_one_probability(),
            Metric("f1_macro", CLASSWISE, "higher"),
            _mass("classwise_ece", CLASSWISE),
            _mass("ace_nixon", CLASSWISE),
        ]
    elif kind == "multilabel":
        findings = _one_probability()
        metrics = [*(replace(m, per_class=True) for m in findings), *(_macro(m) for m in findings)]
    else:
        classes = [
            Metric("brier_binary", CLASSWISE, "lower"),
            Metric("recall", CLASSWISE, "higher"),
            Metric("f1", CLASSWISE, "higher"),
            *_of_one_class(CLASSWISE),
        ]
        metrics = [
            Metric("brier", None, "lower"),
            Metric("nll", None, "lower"),
            Metric("accuracy", None, "higher"),
            Metric("kappa_quadratic", None, "higher"),
            *_binned(TOP),
            *_selective(),
            _mass("classwise_ece", CLASSWISE),
            _mass("ace_nixon", CLASSWISE),
            Metric("balanced_accuracy", CLASSWISE, "higher"),
            *(replace(m, per_class=True) for m in classes),
            *(_macro(m) for m in classes if m.name not in ("brier_binary", "recall")),
        ]
    return {metric.name: metric for metric in metrics}


def _macro(metric: Metric) -> Metric:
    return replace(metric, name=f"{metric.name}_macro", per_class=False)


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
