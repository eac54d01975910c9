"""The reference calibrators of step 3: fitted on the calibration rows, frozen, written down, applied.

Kinds and shapes: binary ``p`` (N, 1) holding p_1 and ``y`` (N,); multiclass (N, K) and (N,); multilabel (N, K) and
(N, K), one map a finding, label -1 = not labelled. All arithmetic is float64.

Source: protocol, section 3.3 (temperature scaling and one non-parametric method beside the uncalibrated model).
"""

import json
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from protocol.calibrators import FittedCalibrator
from protocol.types import Kind
from submission.files import write_atomic
from submission.recalibration.isotonic import apply_isotonic, fit_isotonic, normalise_rows
from submission.recalibration.temperature import (
    Labels,
    Probabilities,
    apply_temperature,
    checked,
    fit_temperature,
    two_classes,
)

TEMPERATURE_OBJECTIVE = (
    "Mean negative log-likelihood (natural log) of the calibration labels under softmax(log(max(p, 1e-12)) / T), "
    "two-class with p = (1 - p_k, p_k) for a binary task or a finding; penalty none; target smoothing none; bounds T "
    "in [0.05, 20]; minimised over log T by a bounded search, T = 1 where no T is better."
)
ISOTONIC_OBJECTIVE = (
    "Sum of squared differences between the map at p_k and the label (1 for the class or finding, else 0) over "
    "non-decreasing maps, equal inputs averaged; penalty none; target smoothing none; bounds values in [0, 1]; linear "
    "between thresholds, clipped outside; multiclass rows divided by their sum, a row of zeros becomes uniform."
)


def fit(
    family: Literal["temperature", "isotonic"],
    p: Probabilities,
    y: Labels,
    *,
    kind: Kind,
    model: str,
    seed: int,
    calibrator: str,
) -> tuple[FittedCalibrator, ...]:
    """Fit ``family`` on uncalibrated calibration rows ``p``, ``y``; the records of one run, in class order.

    Temperature gives one record (class null) for binary and multiclass, isotonic one (class null) for binary and one
    a class for multiclass; multilabel gives one a finding. ``parameters`` are ``temperature``, or ``x`` and ``y``.
    Raises ``ValueError`` for empty input, wrong shapes, values that are no probabilities, and labels outside the
    classes (``temperature.checked`` and ``checked_labels`` say which).
    """
    shared: dict[str, Any] = {"model": model, "seed": seed, "calibrator": calibrator, "family": family}
    parameters: list[dict[str, float | list[float]]]
    classes = _classes(family, kind, checked(p, kind).shape[1])
    if family == "temperature":
        parameters = [{"temperature": t} for t in fit_temperature(p, y, kind)]
        shared |= {"input": "log-probabilities", "objective": TEMPERATURE_OBJECTIVE, "software": _software("scipy")}
    else:
        parameters = [{"x": xs.tolist(), "y": ys.tolist()} for xs, ys in fit_isotonic(p, y, kind)]
        shared |= {"input": "probabilities", "objective": ISOTONIC_OBJECTIVE, "software": _software("scikit-learn")}
        shared |= {"interpolation": "linear", "outside": "clip", "normalise": kind == "multiclass"}
    labelled = np.atleast_1d((np.asarray(y) >= 0).sum(axis=0))  # one count, or one a finding
    records = []
    for k, (class_index, values) in enumerate(zip(classes, parameters, strict=True)):
        n = int(labelled[k] if kind == "multilabel" else labelled[0])
        # through JSON, since a strict record takes lists as tuples only there
        own = {"class": class_index, "parameters": values, "n": n}
        records.append(FittedCalibrator.model_validate_json(json.dumps(shared | own)))
    return tuple(records)


def apply(fitted: Sequence[FittedCalibrator], p: Probabilities, *, kind: Kind) -> NDArray[np.float64]:
    """Calibrated probabilities of the rows ``p``, from the records of ONE run, in any order; shape of ``p``.

    Reads nothing but the records and ``p``. Values are finite and in [0, 1], never -0.0; multiclass rows sum to 1
    within 1e-12. Raises ``ValueError`` when ``p`` is no table of probabilities of this kind, when the records
    belong to several runs or do not fit the columns of ``p``, or when they hold no such map.
    """
    p = checked(p, kind)
    if len({(record.model, record.seed, record.calibrator, record.family) for record in fitted}) != 1:
        raise ValueError("give the records of exactly one model, seed, calibrator and family")
    family, classes = fitted[0].family, _classes(fitted[0].family, kind, p.shape[1])
    by_class = {record.class_index: record for record in fitted}
    if len(fitted) != len(classes) or set(by_class) != set(classes):
        wanted = ", ".join("null" if k is None else str(k) for k in classes)
        raise ValueError(f"{family} on {p.shape[1]} columns of a {kind} task needs one record for each class: {wanted}")
    records = [by_class[k] for k in classes]
    if family == "isotonic":
        maps = [_thresholds(record, kind) for record in records]
        q = np.column_stack([apply_isotonic(x, y, p[:, k]) for k, (x, y) in enumerate(maps)])
        return normalise_rows(q) if kind == "multiclass" else q
    temperatures = [_temperature(record) for record in records]
    if kind == "multiclass":
        return apply_temperature(temperatures[0], p)
    return np.column_stack([apply_temperature(t, two_classes(p[:, k]))[:, 1] for k, t in enumerate(temperatures)])


def write_calibrators(path: Path, fitted: Iterable[FittedCalibrator]) -> None:
    """Write ``calibrators.json``: a JSON list, one record a line, sorted by model, seed, calibrator and class.

    The same records give the same bytes in any order; numbers keep every bit. The file appears whole or not at all
    (a temporary file beside it takes its name). Raises ``ValueError`` when two records share a key.
    """
    records: dict[tuple[str, int, str, int], str] = {}
    for record in fitted:
        key = (record.model, record.seed, record.calibrator, -1 if record.class_index is None else record.class_index)
        if key in records:
            raise ValueError(
                f"two records for model {record.model}, seed {record.seed}, calibrator {record.calibrator}, "
                f"class {record.class_index}"
            )
        document = record.model_dump(mode="json", by_alias=True)
        records[key] = json.dumps(document, sort_keys=True, allow_nan=False, ensure_ascii=False)
    text = "[\n" + ",\n".join(records[key] for key in sorted(records)) + "\n]\n"
    write_atomic(path, text.encode())


def _classes(family: str, kind: Kind, columns: int) -> list[int | None]:
    """Class of each record of a run: null where one map serves all."""
    if family not in ("temperature", "isotonic"):
        raise ValueError(f"family {family} is not a reference calibrator; it must be temperature or isotonic")
    if kind == "binary" or (kind == "multiclass" and family == "temperature"):
        return [None]
    return list(range(columns))


def _temperature(record: FittedCalibrator) -> float:
    value = record.parameters.get("temperature")
    if record.input != "log-probabilities" or not isinstance(value, float) or value <= 0:
        raise ValueError("a temperature record has input log-probabilities and one number above 0, temperature")
    return value


def _thresholds(record: FittedCalibrator, kind: Kind) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    shape = (record.input, record.interpolation, record.outside, record.normalise)
    if shape != ("probabilities", "linear", "clip", kind == "multiclass"):
        raise ValueError(
            "an isotonic record has input probabilities, interpolation linear and outside clip, and normalise true "
            "for a multiclass task alone"
        )
    x, y = (np.atleast_1d(np.asarray(record.parameters.get(name, ()), dtype=np.float64)) for name in ("x", "y"))
    if x.ndim != 1 or x.shape != y.shape or not len(x) or (np.diff(x) <= 0).any() or (np.diff(y) < 0).any():
        raise ValueError("isotonic parameters are two lists of one length: x increasing, y not decreasing")
    if y[0] < 0 or y[-1] > 1:
        raise ValueError(f"isotonic y must lie in [0, 1]; it ranges from {y[0]:g} to {y[-1]:g}")
    return x, y


def _software(distribution: str) -> str:
    """Name and installed version, as in "scipy 1.17.1"."""
    return f"{distribution} {version(distribution)}"
