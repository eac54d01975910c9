"""What a fitted calibrator does to an uncalibrated output: the records of one run as functions.

A map reads probabilities, or logits where it was fitted on logits. With two classes (a binary task, or one finding)
the output is one column ``p`` = P(second class) and its logit ``z``, the log odds; the inputs of a two-class map are
``u0, u1`` = log(1 - p), log p, or 0, z.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.types import Kind
from submission.recalibration.isotonic import apply_isotonic

Floats = NDArray[np.float64]
FLOOR = 1e-12  # probabilities are raised to it before their logarithm is taken
LARGEST = 1e100  # of a parameter or a logit: nothing overflows within it
SOFTMAX = ("temperature", "vector", "matrix", "dirichlet")


class UnusableMap(ValueError):
    """The records of a run hold no map of their family; the message says what is wrong."""


@dataclass(frozen=True)
class Outputs:
    """Uncalibrated outputs: ``p`` (N, K) probabilities (binary: (N, 1)) and, where they were stored, logits ``z``."""

    p: Floats
    z: Floats | None = None

    def rows(self, chosen: Any) -> "Outputs":
        """The chosen rows."""
        return Outputs(self.p[chosen], None if self.z is None else self.z[chosen])


@dataclass(frozen=True)
class TwoClass:
    """``logit q = first u0 + second u1 + bias``: temperature, Platt on log odds, beta, two-class matrix scaling."""

    first: float
    second: float
    bias: float

    def odds(self, u0: Floats, u1: Floats) -> Floats:
        """The calibrated log odds."""
        return np.asarray(self.first * u0 + self.second * u1 + self.bias)


@dataclass(frozen=True)
class OfProbability:
    """``logit q = slope p + bias``: Platt scaling of the probability itself."""

    slope: float
    bias: float

    def odds(self, p: Floats) -> Floats:
        """The calibrated log odds."""
        return np.asarray(self.slope * p + self.bias)


@dataclass(frozen=True)
class Piecewise:
    """``q`` by thresholds: ``linear`` through the points (x, y), clipped outside, or a ``step`` map.

    The cuts ``x`` of a step map are one fewer than its values; a value at a cut falls to the left (bins closed on
    their right, as a histogram's) unless ``closed`` is left. ``scale`` comes first where it is given: the cuts are
    then those of the scaled probability.
    """

    x: Floats
    y: Floats
    interpolation: Literal["linear", "step"]
    closed: Literal["left", "right"] = "right"
    scale: TwoClass | None = None

    def bins(self, p: Floats) -> NDArray[np.intp]:
        """Bin of each value of a step map."""
        return np.asarray(np.searchsorted(self.x, p, side="left" if self.closed == "right" else "right"))

    def value(self, p: Floats) -> Floats:
        """The map at ``p`` (already scaled), in [0, 1], never -0.0."""
        if self.interpolation == "step":
            return np.asarray(self.y[self.bins(p)] + 0.0)
        return apply_isotonic(self.x, self.y, p)


Column = TwoClass | OfProbability | Piecewise


@dataclass(frozen=True)
class SoftmaxMap:
    """``q = softmax(weights x + bias)``, x the logits or log-probabilities: ``weights`` (K, K), ``bias`` (K,)."""

    weights: Floats
    bias: Floats

    @property
    def of_differences(self) -> bool:
        """True where a constant added to a row of inputs changes no output."""
        sums = self.weights.sum(axis=1)
        return bool(np.ptp(sums) <= 1e-9 * max(1.0, float(np.abs(sums).max())))

    def logits(self, x: Floats) -> Floats:
        """Calibrated logits (N, K) of inputs ``x`` (N, K)."""
        logits = np.broadcast_to(self.bias, x.shape).copy()
        for j in range(x.shape[1]):  # in this order for any number of rows, which a matrix product does not promise
            logits += x[:, j : j + 1] * self.weights[:, j]
        return logits


@dataclass(frozen=True)
class RunMap:
    """The map of one model, seed and calibrator.

    ``softmax`` serves all classes of a multiclass task; else ``columns`` has one map a column (a pooled isotonic map
    stands there K times), normalised row by row where the task is multiclass.
    """

    kind: Kind
    family: str
    source: Literal["logits", "log-probabilities", "probabilities"]
    softmax: SoftmaxMap | None = None
    columns: tuple[Column, ...] = ()

    def apply(self, outputs: Outputs) -> Floats:
        """Calibrated probabilities, in the shape of ``outputs.p``; UnusableMap where logits are wanted and absent."""
        if self.softmax is not None:
            return softmax(self.softmax.logits(self.inputs(outputs)))
        q = self.before_normalisation(outputs)
        return normalise_rows(q) if self.kind == "multiclass" else q

    def inputs(self, outputs: Outputs) -> Floats:
        """What a softmax map reads: logits, or log-probabilities floored at 1e-12."""
        return self._z(outputs) if self.source == "logits" else np.log(np.maximum(outputs.p, FLOOR))

    def before_normalisation(self, outputs: Outputs) -> Floats:
        """The value of each column's own map (N, K)."""
        return np.column_stack([column_value(m, *self.pair(outputs, k)) for k, m in enumerate(self.columns)])

    def pair(self, outputs: Outputs, k: int) -> tuple[Floats, Floats, Floats]:
        """``p``, ``u0`` and ``u1`` of column ``k``."""
        p = outputs.p[:, k]
        if self.source == "logits":
            z = self._z(outputs)[:, k]
            return p, np.zeros(len(p)), z
        return p, np.log(np.maximum(1.0 - p, FLOOR)), np.log(np.maximum(p, FLOOR))

    def _z(self, outputs: Outputs) -> Floats:
        if outputs.z is None:
            raise UnusableMap(f"{self.family} reads logits, and the predictions hold none")
        return np.asarray(outputs.z.clip(-LARGEST, LARGEST))


def column_value(column: Column, p: Floats, u0: Floats, u1: Floats) -> Floats:
    """One column's map at its inputs."""
    if isinstance(column, TwoClass):
        return sigmoid(column.odds(u0, u1))
    if isinstance(column, OfProbability):
        return sigmoid(column.odds(p))
    if column.scale is not None:
        p = sigmoid(column.scale.odds(u0, u1))
    return column.value(p)


def sigmoid(odds: Floats) -> Floats:
    """``1 / (1 + exp(-odds))``; never overflows."""
    small = np.exp(-np.abs(odds))
    return np.asarray(np.where(odds >= 0, 1.0, small) / (1.0 + small))


def softmax(logits: Floats) -> Floats:
    """Softmax of each row; never overflows."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def normalise_rows(q: Floats) -> Floats:
    """Rows of ``q`` (N, K), each at least 0, divided by their sum; a row of zeros becomes 1/K throughout."""
    total = q.sum(axis=1, keepdims=True)
    return np.where(total > 0, q / np.where(total > 0, total, 1.0), 1.0 / q.shape[1])


def map_of(records: Sequence[FittedCalibrator], kind: Kind, columns: int) -> RunMap:
    """The map that the records of ONE run hold, in any order; ``columns`` of probabilities.

    Raises UnusableMap when the records belong to several runs, do not fit the columns, or hold no map of their family
    (``custom`` has none that is known).
    """
    if len({(r.model, r.seed, r.calibrator, r.family, r.input) for r in records}) != 1:
        raise UnusableMap("the entries of a run must share model, seed, calibrator, family and input")
    first = records[0]
    if first.family in ("custom", "none"):
        raise UnusableMap(f"a map of family {first.family} is not known to the referee")
    if kind == "multiclass" and first.family in SOFTMAX:
        if len(records) != 1 or first.class_index is not None:
            raise UnusableMap(f"{first.family} needs one entry, with class null")
        return RunMap(kind, first.family, first.input, softmax=_softmax(first, columns))
    return RunMap(kind, first.family, first.input, columns=_columns(records, kind, columns))


def _columns(records: Sequence[FittedCalibrator], kind: Kind, columns: int) -> tuple[Column, ...]:
    by_class = {record.class_index: record for record in records}
    pooled = kind == "multiclass" and records[0].family == "isotonic" and set(by_class) == {None}
    if kind == "binary" or pooled:
        wanted: list[int | None] = [None]
    else:
        wanted = list(range(columns))
    if len(records) != len(wanted) or set(by_class) != set(wanted):
        names = ", ".join("null" if k is None else str(k) for k in wanted)
        raise UnusableMap(f"{records[0].family} needs one entry for each class: {names}")
    found = tuple(_column(by_class[k], kind) for k in wanted)
    return found * columns if pooled else found


def _column(record: FittedCalibrator, kind: Kind) -> Column:
    family = record.family
    if family in ("isotonic", "histogram", "scaling-binning") and record.normalise != (kind == "multiclass"):
        raise UnusableMap(f"{family}: normalise must be true for a multiclass task and false for any other")
    if family == "temperature":
        t = _temperature(record)
        _inputs(record, "logits", "log-probabilities")
        return TwoClass(0.0 if record.input == "logits" else -1.0 / t, 1.0 / t, 0.0)
    if family in SOFTMAX:
        two = _softmax(record, 2)
        w, b = two.weights, two.bias
        return TwoClass(float(w[1, 0] - w[0, 0]), float(w[1, 1] - w[0, 1]), float(b[1] - b[0]))
    if family == "platt":
        slope, intercept = _number(record, "slope"), _number(record, "intercept")
        if record.input == "probabilities":
            return OfProbability(slope, intercept)
        return TwoClass(-slope if record.input == "log-probabilities" else 0.0, slope, intercept)
    if family == "beta":
        _inputs(record, "log-probabilities")
        a, b_, c = (_number(record, name) for name in "abc")
        return TwoClass(-b_, a, c)
    if family == "isotonic":
        return _thresholds(record)
    return _bins(record)


def _softmax(record: FittedCalibrator, columns: int) -> SoftmaxMap:
    _inputs(record, *(("log-probabilities",) if record.family == "dirichlet" else ("logits", "log-probabilities")))
    if record.family == "temperature":
        return SoftmaxMap(np.eye(columns) / _temperature(record), np.zeros(columns))
    weights, bias = _array(record, "weights"), _array(record, "bias")
    if record.family == "vector" and weights.ndim == 1:
        weights = np.diag(weights)
    if weights.shape != (columns, columns) or bias.shape != (columns,):
        shape = f"{columns}" if record.family == "vector" else f"{columns} x {columns}"
        raise UnusableMap(f"{record.family} needs weights ({shape}) and bias ({columns})")
    return SoftmaxMap(weights, bias)


def _thresholds(record: FittedCalibrator) -> Piecewise:
    if record.input != "probabilities" or record.interpolation is None or record.outside != "clip":
        raise UnusableMap("isotonic has input probabilities, interpolation linear or step, and outside clip")
    x, y = np.atleast_1d(_array(record, "x")), np.atleast_1d(_array(record, "y"))
    if x.ndim != 1 or x.shape != y.shape or not len(x) or (np.diff(x) <= 0).any():
        raise UnusableMap("isotonic parameters are two lists of one length, x and y, x increasing")
    if y.min() < 0 or y.max() > 1:
        raise UnusableMap(f"isotonic y must lie in [0, 1]; it ranges from {y.min():g} to {y.max():g}")
    if record.interpolation == "step":  # right-continuous: y[j] from x[j] to below x[j + 1]
        return Piecewise(x[1:], y, "step", closed="left")
    return Piecewise(x, y, "linear")


def _bins(record: FittedCalibrator) -> Piecewise:
    scaled = record.family == "scaling-binning"
    if record.interpolation != "step" or record.outside != "clip":
        raise UnusableMap(f"{record.family} has interpolation step and outside clip")
    _inputs(record, *(("logits", "log-probabilities") if scaled else ("probabilities",)))
    edges, values = np.atleast_1d(_array(record, "edges")), np.atleast_1d(_array(record, "values"))
    if edges.ndim != 1 or values.ndim != 1 or len(edges) != len(values) + 1 or (np.diff(edges) <= 0).any():
        raise UnusableMap(f"{record.family} needs edges, increasing, and values, one fewer")
    if values.min() < 0 or values.max() > 1:
        raise UnusableMap(f"{record.family}: values must lie in [0, 1]")
    if not scaled:
        return Piecewise(edges[1:-1], values, "step")
    slope, intercept = _number(record, "slope"), _number(record, "intercept")
    scale = TwoClass(0.0 if record.input == "logits" else -slope, slope, intercept)
    return Piecewise(edges[1:-1], values, "step", scale=scale)


def _inputs(record: FittedCalibrator, *allowed: str) -> None:
    if record.input not in allowed:
        raise UnusableMap(f"{record.family} has input {' or '.join(allowed)}, not {record.input}")


def _temperature(record: FittedCalibrator) -> float:
    t = _number(record, "temperature")
    if t < 1.0 / LARGEST:
        raise UnusableMap(f"temperature must be above 0 (1e-100 at the least), not {t:g}")
    return t


def _number(record: FittedCalibrator, name: str) -> float:
    value = record.parameters.get(name)
    if not isinstance(value, float):
        raise UnusableMap(f"{record.family} needs the number {name} among its parameters")
    if abs(value) > LARGEST:
        raise UnusableMap(f"{record.family}: {name} must lie within ±{LARGEST:g}, and is {value:g}")
    return value


def _array(record: FittedCalibrator, name: str) -> Floats:
    try:
        values = np.asarray(record.parameters.get(name, ()), dtype=np.float64)
    except ValueError:  # rows of unequal length
        raise UnusableMap(f"{record.family}: {name} is no table of numbers") from None
    if np.abs(values).max(initial=0.0) > LARGEST:
        raise UnusableMap(f"{record.family}: {name} must lie within ±{LARGEST:g}")
    return values
