"""Fitting any family: rows in, the records of one run out."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from protocol.calibrators import FittedCalibrator
from protocol.objective import Objective
from protocol.submission import Family
from protocol.types import Kind
from submission.recalibration.bins import DEFAULT, fit_histogram, fit_scaled_bins
from submission.recalibration.isotonic import fit_isotonic
from submission.recalibration.maps import FLOOR, SOFTMAX, Floats, Outputs, map_of, sigmoid
from submission.recalibration.rows import (
    Cases,
    Ints,
    Labels,
    Metric,
    Probabilities,
    checked,
    checked_labels,
    checked_logits,
    checked_weights,
    gather,
    targets,
)
from submission.recalibration.smooth import as_lists, fit_line, fit_softmax, two_class_inputs
from submission.recalibration.temperature import fit_temperature
from submission.recalibration.words import DEFAULTS, objective_text

Parameters = dict[str, Any]
BINNED = ("histogram", "scaling-binning")
NON_DECREASING = ("isotonic", "histogram")
READS_LOGITS = ("temperature", "vector", "matrix", "platt", "scaling-binning")
# Of several classes: a constant in a row of logits does not show in its probabilities, so no referee could check it.
OF_DIFFERENCES = ("vector", "matrix")


@dataclass(frozen=True)
class _Column:
    """What one fit reads: outputs (n, K) or of one column (n, 1), class numbers, weights."""

    class_index: int | None
    outputs: Outputs
    y: Ints
    weights: Floats


def fit(
    family: Family,
    p: Probabilities,
    y: Labels,
    *,
    kind: Kind,
    model: str,
    seed: int,
    calibrator: str,
    objective: Objective | None = None,
    logits: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    pooled: bool = False,
    on: Literal["probabilities"] | None = None,
    metric: Metric | None = None,
) -> tuple[FittedCalibrator, ...]:
    """Fit ``family`` on uncalibrated calibration rows ``p``, ``y``; the records of one run, in class order.

    ``objective`` None is the kit's own (``DEFAULTS``). Temperature, vector, matrix, Platt scaling and scaling-binning
    read ``logits`` (of the shape of ``p``; binary and multilabel: the log odds) where they are given; else all but
    isotonic and histogram read log-probabilities, floored at 1e-12. ``weights`` (N,) count rows: 2 is a row twice
    over. ``pooled``: isotonic multiclass with one map for all classes. ``on="probabilities"``: Platt scaling of p
    itself. ``metric`` computes the loss ``ece``, for a grid of temperatures.

    One record (class null) for binary, and for multiclass temperature, vector, matrix, dirichlet and pooled isotonic;
    one a class (against the rest) for other multiclass ones; one a finding for multilabel. A fit without a finite
    optimum says so in its ``objective``.

    Raises ``ValueError`` for empty input, wrong shapes, values that are no probabilities, labels outside the classes,
    and an objective that the family can't be fitted by; the message says what would do.
    """
    p = checked(p, kind)
    y = checked_labels(y, p, kind)
    objective = _fitting(family, kind, objective or DEFAULTS.get(family), metric, pooled, on)
    offsets = kind == "multiclass" and family in OF_DIFFERENCES
    z = checked_logits(logits, p) if family in READS_LOGITS and on is None and not offsets else None
    source = on or ("probabilities" if family in NON_DECREASING else "log-probabilities" if z is None else "logits")
    one_vs_rest = kind == "multiclass" and family not in SOFTMAX
    shared: dict[str, Any] = {
        "model": model,
        "seed": seed,
        "calibrator": calibrator,
        "family": family,
        "input": source,
        "normalise": one_vs_rest,
        "software": _software(family),
    }
    if family in (*NON_DECREASING, *BINNED):
        shared |= {"interpolation": "linear" if family == "isotonic" else "step", "outside": "clip"}
    records = []
    for part in _parts(family, kind, Outputs(p, z), y, checked_weights(weights, len(p)), pooled):
        values, finite = _fitted(family, kind, part, objective, source, metric)
        own = {
            "class": part.class_index,
            "parameters": values,
            "objective": objective_text(family, kind, objective, source, pooled, finite),
            "n": int((part.weights > 0).sum()) // (p.shape[1] if pooled else 1),
        }
        # through JSON, since a strict record takes lists as tuples only there
        records.append(FittedCalibrator.model_validate_json(json.dumps(shared | own)))
    return tuple(records)


def apply(
    fitted: Sequence[FittedCalibrator], p: Probabilities, *, kind: Kind, logits: ArrayLike | None = None
) -> Floats:
    """Calibrated probabilities of the rows ``p``, from the records of ONE run, in any order; shape of ``p``.

    Reads nothing but the records, ``p`` and, where the map was fitted on them, ``logits``. Values are finite and in
    [0, 1], never -0.0; multiclass rows sum to 1 within 1e-12. Raises ``ValueError`` when ``p`` is no table of
    probabilities of this kind, when the records belong to several runs or do not fit the columns of ``p``, or when
    they hold no map of their family.
    """
    p = checked(p, kind)
    return map_of(fitted, kind, p.shape[1]).apply(Outputs(p, checked_logits(logits, p)))


def _fitting(
    family: Family,
    kind: Kind,
    objective: Objective | None,
    metric: Metric | None,
    pooled: bool,
    on: Literal["probabilities"] | None,
) -> Objective:
    """``objective``, if ``family`` can be fitted by it."""
    if objective is None:
        raise ValueError(
            f"family {family} has no reference calibrator; those that can be fitted: {', '.join(DEFAULTS)}"
        )
    losses = {"temperature": ("nll", "squared", "ece"), "isotonic": ("squared", "nll"), "histogram": ("squared", "nll")}
    if objective.loss not in losses.get(family, ("nll",)):
        raise ValueError(
            f"{family} is fitted by loss {' or '.join(losses.get(family, ('nll',)))}, not {objective.loss}"
        )
    if objective.loss == "ece" and (metric is None or objective.grid is None):
        raise ValueError(
            "the loss ece is fitted over a declared grid of temperatures alone, with metric= to compute it"
        )
    if objective.penalised and family in ("temperature", *NON_DECREASING):
        raise ValueError(f"{family} takes no penalty: declare penalty none")
    if objective.odir is not None and family not in ("vector", "matrix", "dirichlet"):
        raise ValueError(f"{family} has no off-diagonal weights for the penalty ODIR: use L2, or none")
    if objective.smoothing == "platt" and kind == "multiclass" and family in SOFTMAX:
        raise ValueError(f"Platt's targets are for two classes: {family} of more takes label smoothing, or none")
    if family == "isotonic" and objective.bounds is not None and objective.bounds[1] > 1.0:
        raise ValueError("bounds of isotonic regression are those of its values: within 0 to 1")
    for name in ("bounds", "grid"):
        if name == "bounds" and family == "isotonic":
            continue
        if getattr(objective, name) is not None and family != "temperature":
            raise ValueError(
                f"{name} of temperatures are of the family temperature alone: leave {name} out for {family}"
            )
    if pooled and (family, kind) != ("isotonic", "multiclass"):
        raise ValueError("pooled is a form of isotonic regression of a multiclass task")
    if on is not None and family != "platt":
        raise ValueError("on= chooses what Platt scaling reads")
    return objective


def _parts(family: Family, kind: Kind, outputs: Outputs, y: Ints, weights: Floats, pooled: bool) -> Iterator[_Column]:
    """What each fit of a run reads, in class order."""
    p, z = outputs.p, outputs.z
    if pooled:
        classes = p.shape[1]
        event = (y[:, None] == np.arange(classes)).astype(np.int64)
        yield _Column(None, Outputs(p.reshape(-1, 1)), event.ravel(), np.repeat(weights, classes))
    elif kind == "binary" or (kind == "multiclass" and family in SOFTMAX):
        yield _Column(None, outputs, y, weights)
    else:
        for k in range(p.shape[1]):
            own = Outputs(p[:, k : k + 1], None if z is None else z[:, k : k + 1])
            if kind == "multiclass":
                yield _Column(k, own, (y == k).astype(np.int64), weights)
            else:
                labelled = y[:, k] >= 0
                yield _Column(k, own.rows(labelled), y[labelled, k], weights[labelled])


def _fitted(
    family: Family, kind: Kind, part: _Column, objective: Objective, source: str, metric: Metric | None
) -> tuple[Parameters, bool]:
    """Parameters of one fit, and whether they are a finite optimum."""
    p, z = part.outputs.p, part.outputs.z
    if family in SOFTMAX:
        if kind == "multiclass":
            x = np.log(np.maximum(p, FLOOR)) if z is None else z
        else:
            x = two_class_inputs(p[:, 0], None if z is None else z[:, 0])
        cases = gather(x, part.y, part.weights, x.shape[1])
        if family == "temperature":
            t, finite = fit_temperature(cases, objective, metric)
            return {"temperature": t}, finite
        found = fit_softmax(cases, objective, diagonal=family == "vector")
        weights = as_lists(found.weights) if family == "vector" else [as_lists(row) for row in found.weights]
        return {"weights": weights, "bias": as_lists(found.bias)}, found.finite
    if family in NON_DECREASING:
        cases = gather(p, part.y, part.weights, 2)
        goal = targets(cases, objective.smoothing)
        if family == "isotonic":
            xs, ys = fit_isotonic(cases, goal, objective.bounds or (0.0, 1.0))
            return {"x": xs.tolist(), "y": ys.tolist()}, True
        edges, values = fit_histogram(cases, goal, objective.binning or DEFAULT)
        return {"edges": edges.tolist(), "values": values.tolist()}, True
    return _line(family, part, objective, source)


def _line(family: Family, part: _Column, objective: Objective, source: str) -> tuple[Parameters, bool]:
    p, z = part.outputs.p[:, 0], part.outputs.z
    both = two_class_inputs(p, None if z is None else z[:, 0])
    if family == "beta":
        cases = gather(np.column_stack((both[:, 1], -both[:, 0])), part.y, part.weights, 2)
        line = fit_line(cases, objective, positive=True)
        return dict(zip("abc", as_lists((*line.slopes, line.intercept)), strict=True)), line.finite
    odds = p if source == "probabilities" else both[:, 1] - both[:, 0]
    cases = gather(odds[:, None], part.y, part.weights, 2)
    line = fit_line(cases, objective)
    slope, intercept = as_lists((*line.slopes, line.intercept))
    parameters: Parameters = {"slope": slope, "intercept": intercept}
    if family == "scaling-binning":
        scaled, weight = sigmoid(_odds(slope, intercept, cases)), cases.counts.sum(axis=1)
        edges, values = fit_scaled_bins(scaled, weight, objective.binning or DEFAULT)
        parameters |= {"edges": edges.tolist(), "values": values.tolist()}
    return parameters, line.finite


def _odds(slope: float, intercept: float, cases: Cases) -> Floats:
    return np.asarray(slope * cases.x[:, 0] + intercept)


def _software(family: Family) -> str:
    """Names and installed versions, as in "mvc-kit 0.1.0, numpy 2.4.6"."""
    solver = "scikit-learn" if family == "isotonic" else "numpy"
    return ", ".join(f"{name} {version(name)}" for name in ("mvc-kit", solver))
