"""Evidence of tuning on the test labels (MVC304): by chance, and by those who did."""

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import expit

from benchmarks.peeking import SURE, Map, by_brier, by_grid, by_likelihood, evidences, fitted, sample
from scorer.verify.peeking import DEVIATIONS, LEVEL, Fit, evidence, fit_inverse, log_inputs

TRUTH = 1 / SURE


def test_log_inputs() -> None:
    np.testing.assert_allclose(log_inputs(np.array([[0.25]])), np.log([[0.75, 0.25]]))
    np.testing.assert_allclose(log_inputs(np.array([[0.5, 0.5, 0.0]])), [[np.log(0.5), np.log(0.5), np.log(1e-12)]])


def test_the_inverse_temperature_of_least_cross_entropy() -> None:
    rng = np.random.default_rng(0)
    x = np.log(rng.dirichlet(np.ones(3), 200))
    y = rng.integers(0, 3, 200)

    def loss(b: float) -> float:
        q = np.exp(b * x)
        return float(-np.log(q[np.arange(200), y] / q.sum(axis=1)).sum())

    found = fit_inverse(x, np.eye(3)[y], np.arange(200))
    assert found is not None
    assert found.value == pytest.approx(minimize_scalar(loss, bounds=(-5, 5), method="bounded").x, abs=1e-4)
    # independent rows: the sandwich, literally
    q = np.exp(found.value * x)
    q /= q.sum(axis=1, keepdims=True)
    gradient = [(q[i] @ x[i]) - x[i, y[i]] for i in range(200)]
    curvature = [q[i] @ x[i] ** 2 - (q[i] @ x[i]) ** 2 for i in range(200)]
    error = math.sqrt(sum(g * g for g in gradient) * 200 / 199) / sum(curvature)
    assert found.error == pytest.approx(error)


def test_images_of_a_patient_count_once() -> None:
    z, y, patient = sample(100, TRUTH, np.random.default_rng(1))
    once, twice = (fitted(np.tile(z, r), np.tile(y.astype(float), r), np.tile(patient, r)) for r in (1, 2))
    assert once is not None
    assert twice is not None
    assert twice.value == pytest.approx(once.value)
    assert twice.error == pytest.approx(once.error)


def test_the_temperature_of_a_tempered_output_is_found_without_labels() -> None:
    z, _, patient = sample(50, TRUTH, np.random.default_rng(2))
    found = fitted(z, expit(0.4 * z), patient)
    assert found is not None
    assert found.value == pytest.approx(0.4, abs=1e-9)


@pytest.mark.parametrize("why", ["separated", "constant", "one patient"])
def test_what_has_no_inverse_temperature(why: str) -> None:
    p = np.array([[0.2], [0.3], [0.7], [0.8]]) if why != "constant" else np.full((4, 1), 0.5)
    y = np.array([0, 0, 1, 1] if why == "separated" else [0, 1, 0, 1])
    patient = np.zeros(4, dtype=np.int64) if why == "one patient" else np.arange(4)
    assert fit_inverse(log_inputs(p), np.eye(2)[y], patient) is None


def test_evidence_by_hand() -> None:
    value, z = evidence(Fit(1.0, 0.3), Fit(3.0, 0.4), 3.0)  # tuned exactly, four standard errors off
    assert z == pytest.approx(4.0)
    assert value == pytest.approx(math.exp(8.0) * sum(1 / s for s in DEVIATIONS) / 3 * 0.64)
    value, _ = evidence(Fit(1.0, 0.3), Fit(3.0, 0.4), 1.0)  # where calib has it
    assert value == pytest.approx(0.0, abs=1e-6)
    assert evidence(Fit(1.0, 1e-9), Fit(1e3, 1e-9), 1e3)[0] < math.inf


def normals(n: int, rng: np.random.Generator) -> list[tuple[Fit, Fit]]:
    """Estimates of one truth as large samples have them."""
    errors = 0.1, 0.07
    pairs = rng.normal(0.6, errors, (n, 2))
    return [(Fit(a, errors[0]), Fit(b, errors[1])) for a, b in pairs]


@pytest.mark.parametrize("submitted", ["fixed", "the truth", "fitted on calib"])
def test_the_mean_of_the_evidence_is_at_most_one(submitted: str) -> None:
    pairs = normals(20000, np.random.default_rng(3))
    at = {"fixed": 0.75, "the truth": 0.6}
    values = np.array([evidence(c, t, at.get(submitted, c.value + 0.02))[0] for c, t in pairs])
    assert values.mean() <= 1.0 + 3.0 * values.std() / math.sqrt(len(values))
    assert (values >= 1 / LEVEL).mean() <= LEVEL + 3.0 * math.sqrt(LEVEL / len(values))


def test_data_sets_with_honest_maps_have_no_evidence() -> None:
    rng, values = np.random.default_rng(5), []
    for _ in range(60):
        z, y, patient = sample(150, TRUTH, rng)
        calib = fitted(z, y.astype(np.float64), patient)
        assert calib is not None
        maps: list[Map] = [by_brier(z, y), by_grid(z, y), expit, lambda x: expit(TRUTH * x)]
        values += evidences(maps, calib, *sample(150, TRUTH, rng))
    assert len(values) == 240
    assert np.mean(np.array(values) >= 1 / LEVEL) <= 0.02


@pytest.mark.parametrize("tune", [by_likelihood, by_grid, by_brier])
def test_a_map_tuned_on_test_is_seen_where_test_is_five_standard_errors_off(
    tune: Callable[..., Map],
) -> None:
    rng, seen = np.random.default_rng(6), 0
    for _ in range(20):
        z, y, patient = sample(200, TRUTH, rng)
        calib = fitted(z, y.astype(np.float64), patient)
        assert calib is not None
        shifted = sample(200, TRUTH + 5 * calib.error * np.sqrt(2), rng)
        seen += evidences([tune(*shifted[:2])], calib, *shifted)[0] >= 1 / LEVEL
    assert seen >= 10
