"""Does a calibrator sit where only the test labels could have put it? Evidence for the host (MVC304).

Every map is looked at through one number, its inverse temperature b: that of softmax(b log p) which fits the
calibrated rows best (a fit to outputs, without labels). Labels give two more: b_c, fitted on the calibration labels,
and b_t, on the test labels. With standard errors by patient (sandwich), Z = (b_t - b_c) / se, se^2 = se_c^2 + se_t^2,
is standard normal whatever the map is, and d = (b - b_c) / se is where the map sits. Tuned on test, Z lies at d. The
evidence is the likelihood ratio of "Z is normal about d with a small deviation" to "Z is standard normal", averaged
over three deviations, times se_t^2 / se^2, which makes up for a map that is right by itself: an e-value. Its mean is at
most 1 where the test labels were not used, so by Markov it reaches m / 0.01 in one of m tests with probability at
most 1 % (Bonferroni). Seeds of one calibrator are averaged (a mean of e-values is one).

Sources: Vovk and Wang (2021), https://doi.org/10.1214/20-AOS2020 (e-values); Liang and Zeger (1986),
https://doi.org/10.1093/biomet/73.1.13 (standard errors by patient).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from protocol.facts import Peeking, Verification
from protocol.submission import Submission
from protocol.task import Task
from scorer.verify.rows import CALIBRATION, TEST, RunRows, Tables, common, tables_of
from scorer.warehouse import Warehouse
from submission.recalibration.maps import FLOOR, Floats

LEVEL = 0.01
DEVIATIONS = (0.01, 0.05, 0.2)  # of a tuned map from the test optimum, in standard errors: exact, by grid, by Brier
LARGEST = 1e3  # inverse temperature that is looked at


@dataclass(frozen=True)
class Fit:
    """An inverse temperature and its standard error by patient."""

    value: float
    error: float


def fit_inverse(x: Floats, target: Floats, patient: NDArray[np.int64]) -> Fit | None:
    """The b of least cross-entropy between ``target`` (N, K) and softmax(b x), x = log p (N, K).

    None where there is none: separated classes, constant inputs, one patient.
    """
    from scipy.optimize import brentq

    def slope(b: float) -> float:
        return float(_derivatives(b, x, target)[0].sum())

    low, high = 0.5, 2.0
    while slope(low) > 0 and low > -LARGEST:  # the loss is convex: its slope only rises
        low = low - 2.0 * (high - low)
    while slope(high) < 0 and high < LARGEST:
        high = high + 2.0 * (high - low)
    if not slope(low) < 0 < slope(high):
        return None
    b = float(brentq(slope, low, high, xtol=1e-13, rtol=8.9e-16))
    gradient, curvature = _derivatives(b, x, target)
    _, code = np.unique(patient, return_inverse=True)
    clusters = int(code.max()) + 1
    if clusters < 2:
        return None
    scores = np.bincount(code, weights=gradient)
    variance = float((scores**2).sum()) * clusters / (clusters - 1) / float(curvature.sum()) ** 2
    return Fit(b, math.sqrt(variance)) if variance > 0 else None


def evidence(calibration: Fit, test: Fit, submitted: float) -> tuple[float, float]:
    """The e-value of one map, and the gap (b_t - b_c) / se."""
    error = math.hypot(calibration.error, test.error)
    z, d = (test.value - calibration.value) / error, (submitted - calibration.value) / error
    ratios = [math.exp(min(700.0, 0.5 * z * z - 0.5 * ((z - d) / s) ** 2)) / s for s in DEVIATIONS]
    return math.fsum(ratios) / len(ratios) * (test.error / error) ** 2, z


def log_inputs(p: Floats) -> Floats:
    """log p (N, K), floored at 1e-12; of one column (N, 1) the logarithms of 1 - p and p."""
    both = np.column_stack((1.0 - p[:, 0], p[:, 0])) if p.shape[1] == 1 else p
    return np.log(np.maximum(both, FLOOR))


def _derivatives(b: float, x: Floats, target: Floats) -> tuple[Floats, Floats]:
    """First and second derivatives by b of each row's cross-entropy."""
    logits = b * x
    logits = logits - logits.max(axis=1, keepdims=True)
    q = np.exp(logits)
    q /= q.sum(axis=1, keepdims=True)
    mean = (q * x).sum(axis=1)
    return mean - (target * x).sum(axis=1), (q * x * x).sum(axis=1) - mean**2


def peek(
    task: Task,
    record: Submission,
    verification: Verification,
    extras: tuple[str, ...],
    warehouse: Warehouse,
    precision: Mapping[str, str],
) -> tuple[Peeking, ...]:
    """Evidence of tuning on the test labels, for every calibrator that could not be verified; reads test labels."""
    doubtful = [name for name, reason in verification.calibrators.items() if reason]
    if not doubtful:
        return ()
    tables, _ = tables_of(task, record, extras, warehouse, precision)
    tests = len(doubtful) * len(record.models)
    found = []
    for model in record.models:
        plain = {seed: tables.run(model.name, seed, "none") for seed in model.run_seeds}
        fits = {seed: [_fit(rows, tables, task, part) for part in (CALIBRATION, TEST)] for seed, rows in plain.items()}
        for name in doubtful:
            values: list[tuple[float, float]] = []
            for seed, (on_calibration, on_test) in fits.items():
                submitted = _submitted(plain[seed], tables.run(model.name, seed, name), tables)
                if on_calibration is not None and on_test is not None and submitted is not None:
                    values.append(evidence(on_calibration, on_test, submitted))
            mean = [float(np.mean(column)) for column in zip(*values, strict=True)] if values else [0.0, 0.0]
            reason = "" if values else "an inverse temperature is undefined on calib or test"
            found.append(Peeking(name, model.name, mean[0], tests / LEVEL, tests, mean[1], reason))
    return tuple(found)


def _fit(rows: RunRows, tables: Tables, task: Task, part: int) -> Fit | None:
    """Inverse temperature by the labels of a part; findings of a multilabel task share one."""
    chosen = np.flatnonzero(tables.images.part[rows.image] == part)
    p, image = rows.outputs.p[chosen], rows.image[chosen]
    y = tables.images.labels[image]
    stacks = []
    for k in range(p.shape[1]) if task.kind == "multilabel" else (0,):
        labelled = np.flatnonzero(y[:, k] >= 0)
        x = log_inputs(p[labelled, k : k + 1] if task.kind == "multilabel" else p[labelled])
        stacks.append((x, np.eye(x.shape[1])[y[labelled, k]], tables.images.patient[image[labelled]]))
    x, target, patient = (np.concatenate(parts) for parts in zip(*stacks, strict=True))
    return fit_inverse(x, target, patient)


def _submitted(plain: RunRows, calibrated: RunRows, tables: Tables) -> float | None:
    image, inputs, outputs = common(plain, calibrated)
    chosen = np.flatnonzero(tables.images.part[image] == TEST)
    stacks = []
    p, q = inputs.p[chosen], outputs.p[chosen]
    one_by_one = p.shape[1] > 1 and tables.images.labels.shape[1] > 1
    for k in range(p.shape[1]) if one_by_one else (0,):
        x = log_inputs(p[:, k : k + 1] if one_by_one else p)
        goal = np.exp(log_inputs(q[:, k : k + 1] if one_by_one else q))
        stacks.append((x, goal / goal.sum(axis=1, keepdims=True), tables.images.patient[image[chosen]]))
    x, target, patient = (np.concatenate(parts) for parts in zip(*stacks, strict=True))
    fit = fit_inverse(x, target, patient)
    return None if fit is None else fit.value
