"""Evidence of tuning on the test labels (MVC304): how often it errs, and what it sees.
``python -m benchmarks.peeking [--sets 2000] [--patients 500]``

Data sets of patients with several images each, two classes, scores too sure of themselves. A submission has six
calibrators that the referee can't verify. *By chance*: all six are honest (fitted on calib labels by Brier score, by
a grid or by isotonic regression; the uncalibrated model; the truth; a temperature out of the air); the share of
submissions with any evidence at its limit must stay below 1 %. *Power*: one of the six was tuned on the test labels,
where the test optimum lies 0, 1, 2, 3 or 5 standard errors from that of calib (on average).
"""

import argparse
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit

from benchmarks.timing import machine, progress, table
from scorer.verify.peeking import LEVEL, Fit, evidence, fit_inverse, log_inputs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
IMAGES = 2.0
SURE = 1.6
GAPS = (0, 1, 2, 3, 5)
Map = Callable[[Floats], Floats]


def sample(patients: int, inverse: float, rng: np.random.Generator) -> tuple[Floats, Ints, Ints]:
    """Logits, labels and patients; the truth is ``inverse`` times the logit, in part shared within a patient."""
    patient = np.repeat(np.arange(patients), 1 + rng.poisson(IMAGES - 1, patients))
    own = rng.normal(0, 1, patients)[patient] + rng.normal(0, 0.6, len(patient))
    luck = np.where(rng.random(len(patient)) < 0.6, rng.random(patients)[patient], rng.random(len(patient)))
    return SURE * own, (luck < expit(inverse * SURE * own)).astype(np.int64), patient.astype(np.int64)


def fitted(z: Floats, target: Floats, patient: Ints) -> Fit | None:
    """Inverse temperature of targets P(1)."""
    return fit_inverse(log_inputs(expit(z)[:, None]), np.column_stack((1 - target, target)), patient)


def by_brier(z: Floats, y: Ints) -> Map:
    """The temperature of least Brier score."""
    found = minimize_scalar(lambda b: float(((expit(b * z) - y) ** 2).mean()), bounds=(0.05, 20), method="bounded")
    return lambda x: expit(float(found.x) * x)


def by_grid(z: Floats, y: Ints, step: float = 0.05) -> Map:
    """The best temperature of a grid, by log-likelihood."""
    grid = np.arange(0.3, 5, step)
    best = grid[np.argmin([np.logaddexp(0, (1 - 2 * y) * z / t).mean() for t in grid])]
    return lambda x: expit(x / best)


def by_likelihood(z: Floats, y: Ints) -> Map:
    """The temperature of greatest likelihood."""
    found = minimize_scalar(lambda b: float(np.logaddexp(0, (1 - 2 * y) * b * z).mean()), bounds=(0.05, 20), method="bounded", options={"xatol": 1e-9})  # fmt: skip  # noqa: E501
    return lambda x: expit(float(found.x) * x)


def by_isotonic(z: Floats, y: Ints) -> Map:
    """Isotonic regression."""
    from sklearn.isotonic import IsotonicRegression

    model = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(z, y)
    return lambda x: np.asarray(model.predict(x))


TUNED: dict[str, Callable[[Floats, Ints], Map]] = {
    "likelihood": by_likelihood,
    "grid of 0.05": by_grid,
    "Brier score": by_brier,
    "isotonic": by_isotonic,
}


def honest(z: Floats, y: Ints, truth: float) -> list[Map]:
    """Six maps made without the test labels."""
    fixed: list[Map] = [expit, lambda x: expit(truth * x), lambda x: expit(x / 1.3)]
    return [by_brier(z, y), by_grid(z, y), by_isotonic(z, y), *fixed]


def evidences(maps: list[Map], calib: Fit, z: Floats, y: Ints, patient: Ints) -> list[float]:
    """Evidence of each map."""
    test = fitted(z, y.astype(np.float64), patient)
    if test is None:
        return []
    found = [fitted(z, np.asarray(m(z)).clip(1e-12, 1 - 1e-12), patient) for m in maps]
    return [evidence(calib, test, fit.value)[0] for fit in found if fit is not None]


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=2000)
    parser.add_argument("--patients", type=int, default=500)
    chosen = parser.parse_args()
    print(machine(), flush=True)
    truth, limit = 1 / SURE, 6 / LEVEL
    errors: dict[str, int] = dict.fromkeys(("all maps", "the truth"), 0)
    seen = {(how, gap): 0 for how in TUNED for gap in GAPS}
    alone = dict(seen)
    for number in range(chosen.sets):
        rng = np.random.default_rng((20264, number))
        z, y, patient = sample(chosen.patients, truth, rng)
        calib = fitted(z, y.astype(np.float64), patient)
        if calib is None:
            continue
        maps = honest(z, y, truth)
        values = evidences(maps, calib, *sample(chosen.patients, truth, rng))
        errors["all maps"] += max(values, default=0) >= limit
        errors["the truth"] += evidences([maps[4]], calib, *sample(chosen.patients, truth, rng))[0] >= 1 / LEVEL
        for gap in GAPS:
            shifted = sample(chosen.patients, truth + gap * calib.error * np.sqrt(2), rng)
            for how, tune in TUNED.items():
                value = evidences([tune(*shifted[:2])], calib, *shifted)
                seen[how, gap] += max(value, default=0) >= limit
                alone[how, gap] += max(value, default=0) >= 1 / LEVEL
        if (number + 1) % 200 == 0:
            progress(f"{number + 1} of {chosen.sets}")
    print(f"{chosen.sets} submissions, {chosen.patients} patients on either side, {IMAGES:g} images each on average")
    print(f"by chance, six honest maps: {errors['all maps'] / chosen.sets:.3%}; the truth alone: "
          f"{errors['the truth'] / chosen.sets:.3%} (limit 1 %)\n")  # fmt: skip
    head = ["tuned on test by", *(f"{gap} se" for gap in GAPS)]
    for title, counts in (("one of six calibrators", seen), ("the only calibrator", alone)):
        print(f"{title}:\n")
        table(head, [[how, *(f"{counts[how, gap] / chosen.sets:.0%}" for gap in GAPS)] for how in TUNED])


if __name__ == "__main__":
    main()
