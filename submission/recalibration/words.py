"""The objectives of the reference calibrators: as values, as words of ``submission.yaml``, as text of a record."""

from collections.abc import Mapping

from protocol.objective import Binning, Objective
from protocol.submission import Family
from protocol.types import Kind
from submission.recalibration.bins import DEFAULT as BINS
from submission.recalibration.maps import SOFTMAX

BOUNDS = (0.05, 20.0)  # of T

DEFAULTS: Mapping[Family, Objective] = {
    "temperature": Objective("nll", bounds=BOUNDS),
    "vector": Objective("nll"),
    "matrix": Objective("nll"),
    "dirichlet": Objective("nll", odir=(0.01, 0.01)),
    "platt": Objective("nll", smoothing="platt"),
    "beta": Objective("nll"),
    "isotonic": Objective("squared"),
    "histogram": Objective("squared", binning=BINS),
    "scaling-binning": Objective("nll", binning=BINS),
}

_NLL = {"loss": "mean negative log-likelihood", "penalty": "none", "target_smoothing": "none"}
_SQUARED = {"loss": "mean squared error", "penalty": "none", "target_smoothing": "none"}
METHOD_WORDS: Mapping[Family, Mapping[str, str]] = {
    "temperature": {**_NLL, "bounds": "temperature from 0.05 to 20"},
    "vector": _NLL,
    "matrix": _NLL,
    "dirichlet": {**_NLL, "penalty": "ODIR 0.01 0.01"},
    "platt": {**_NLL, "target_smoothing": "Platt targets"},
    "beta": {**_NLL, "bounds": "a, b >= 0"},
    "isotonic": _SQUARED,
    "histogram": {**_SQUARED, "grid": "15 equal-mass bins"},
    "scaling-binning": {**_NLL, "grid": "15 equal-mass bins"},
}

_LOSS = {
    "nll": "Mean negative log-likelihood (natural log)",
    "squared": "Mean squared error",
    "ece": "Expected calibration error",
}
_INPUT = {"logits": "the logits", "log-probabilities": "log(max(p, 1e-12))", "probabilities": "p_k"}
_ODDS = {
    "logits": "z_k",
    "log-probabilities": "(log(max(p_k, 1e-12)) - log(max(1 - p_k, 1e-12)))",
    "probabilities": "p_k",
}
_TWO_CLASSES = {
    "logits": ", two-class with logits (0, z_k)",
    "log-probabilities": ", two-class with p = (1 - p_k, p_k)",
}


def objective_text(family: Family, kind: Kind, objective: Objective, source: str, pooled: bool, finite: bool) -> str:
    """The whole objective of a fit, in a few sentences: what stands in ``objective`` of its record."""
    two = _TWO_CLASSES.get(source, "") if kind != "multiclass" else ""
    form = {
        "temperature": f"softmax({_INPUT[source]} / T)",
        "vector": f"softmax(diag(weights) x + bias), x = {_INPUT[source]}",
        "matrix": f"softmax(weights x + bias), x = {_INPUT[source]}",
        "dirichlet": f"softmax(weights x + bias), x = {_INPUT[source]}",
        "platt": f"sigmoid(slope {_ODDS[source]} + intercept)",
        "beta": "sigmoid(a log(max(p_k, 1e-12)) - b log(max(1 - p_k, 1e-12)) + c)",
        "isotonic": "the non-decreasing map of p_k, equal inputs averaged",
        "histogram": "the step map of p_k",
        "scaling-binning": f"the scaling s = sigmoid(slope {_ODDS[source]} + intercept)",
    }[family]
    if family in SOFTMAX:
        form += two
    labels = "the calibration labels" if family in SOFTMAX else _one(pooled)
    parts = [
        f"{_loss(objective)} of {labels} under {form}",
        f"penalty {_penalty(objective)}",
        f"target smoothing {_smoothing(objective)}",
        f"bounds {_bounds(family, objective)}",
    ]
    if objective.grid is not None:
        parts.append(f"best of a grid of {len(objective.grid)} temperatures")
    if family in ("histogram", "scaling-binning"):
        parts.append(_bins(family, objective.binning or BINS))
    if family == "isotonic":
        parts.append("linear between thresholds, clipped outside")
    if kind == "multiclass" and family not in SOFTMAX:
        parts.append("rows divided by their sum, a row of zeros becomes uniform")
    if not finite:
        parts.append(_endless(family))
    return "; ".join(parts) + "."


def _one(pooled: bool) -> str:
    return "all pairs (p_ik, 1 for the class else 0)" if pooled else "the label (1 for the class or finding, else 0)"


def _loss(objective: Objective) -> str:
    bins = objective.binning
    if objective.loss != "ece" or bins is None:
        return _LOSS[objective.loss]
    return f"{_LOSS['ece']} with {bins[1]} {bins[0]} bins"


def _penalty(objective: Objective) -> str:
    parts = []
    if objective.ridge > 0:
        parts.append(f"{objective.ridge:g} times the sum of squared slopes")
    if objective.ridge_c is not None:
        parts.append(f"1/(2 C n) times the sum of squared slopes, C = {objective.ridge_c:g}")
    if objective.odir is not None:
        off, bias = objective.odir
        parts.append(f"{off:g}/(K(K-1)) times the sum of squared off-diagonal weights + {bias:g}/K times that of bias")
    return " + ".join(parts) or "none"


def _smoothing(objective: Objective) -> str:
    if objective.smoothing == "none":
        return "none"
    if objective.smoothing == "platt":
        return "Platt's targets, (n1 + 1)/(n1 + 2) and 1/(n0 + 2)"
    return f"(1 - e) times the label + e/K, e = {objective.smoothing:g}"


def _bounds(family: Family, objective: Objective) -> str:
    if objective.bounds is not None:
        name = "values" if family == "isotonic" else "T"
        return f"{name} in [{objective.bounds[0]:g}, {objective.bounds[1]:g}]"
    if family in ("isotonic", "histogram"):
        return "values in [0, 1]"
    return {"temperature": "T > 0", "beta": "a, b >= 0"}.get(family, "none")


def _bins(family: Family, binning: Binning) -> str:
    mode, count = binning
    of, value = ("p_k", "mean label") if family == "histogram" else ("s", "mean s")
    empty = ", an empty bin has its middle" if mode == "equal-width" else ", ties never split"
    return f"{count} {mode} bins of {of}, closed on the right{empty}, the value of a bin is its {value}"


def _endless(family: Family) -> str:
    grows = {
        "temperature": "T falls or rises",
        "platt": "slope or intercept grow",
        "scaling-binning": "slope or intercept grow",
        "beta": "a, b or c grow",
    }.get(family, "weights or bias grow")
    return f"no finite optimum: the loss goes on falling as {grows}, and less than 1e-6 in all is left to gain"
