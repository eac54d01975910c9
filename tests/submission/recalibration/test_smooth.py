"""The smooth families against other implementations, and where there is no optimum."""

import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp
from sklearn.linear_model import LogisticRegression

from protocol.objective import Objective
from protocol.submission import Family
from submission.recalibration import apply
from tests.submission.recalibration.helpers import Floats, Ints, drawn, fitted, parameter

EXACT: dict[str, Any] = {"C": np.inf, "tol": 1e-12, "max_iter": 10_000, "solver": "newton-cholesky"}


def logs(p: Floats) -> Floats:
    return np.log(np.maximum(p, 1e-12))


def nll(q: Floats, y: Ints) -> float:
    return float(-np.log(q[np.arange(len(y)), y]).sum())


@pytest.mark.parametrize("by_logits", [True, False])
def test_matrix_scaling_is_multinomial_regression(by_logits: bool) -> None:
    p, y, z = drawn("multiclass", 400)
    (found,) = fitted("matrix", p, y, "multiclass", logits=z if by_logits else None)
    assert found.input == "log-probabilities"  # a constant in a row of logits is nothing that anyone could check
    x = logs(p)
    oracle = LogisticRegression(**{**EXACT, "solver": "lbfgs"}).fit(x, y)
    q = apply([found], p, kind="multiclass", logits=z if by_logits else None)
    np.testing.assert_allclose(q, oracle.predict_proba(x), atol=2e-5)
    assert nll(q, y) <= nll(oracle.predict_proba(x), y) + 1e-9
    # of equal maps the one whose biases sum to 0 and whose columns sum to 1
    np.testing.assert_allclose(parameter(found, "weights").sum(axis=0), 1.0, rtol=1e-9)
    assert parameter(found, "bias").sum() == pytest.approx(0.0, abs=1e-9)


def test_ridge_by_c_is_that_of_the_library() -> None:
    p, y, _ = drawn("multiclass", 200)
    (found,) = fitted("matrix", p, y, "multiclass", objective=Objective("nll", ridge_c=0.1))
    oracle = LogisticRegression(**{**EXACT, "C": 0.1}).fit(logs(p), y)
    np.testing.assert_allclose(parameter(found, "weights"), oracle.coef_, atol=1e-6)
    np.testing.assert_allclose(parameter(found, "bias"), oracle.intercept_ - oracle.intercept_.mean(), atol=1e-6)


@pytest.mark.parametrize(("family", "objective"), [
    ("vector", Objective("nll")),
    ("vector", Objective("nll", smoothing=0.1)),
    ("vector", Objective("nll", ridge=0.01)),
    ("matrix", Objective("nll", odir=(0.3, 0.02))),
    ("dirichlet", Objective("nll", odir=(0.01, 0.01))),
    ("dirichlet", Objective("nll", smoothing=0.05, ridge=0.002)),
])  # fmt: skip
def test_the_literal_objective_is_least(family: Family, objective: Objective) -> None:
    p, y, _ = drawn("multiclass", 150, classes=3)
    (found,) = fitted(family, p, y, "multiclass", objective=objective)
    x, n, k = logs(p), len(y), 3
    size = k if family == "vector" else k * k
    share = objective.smoothing if isinstance(objective.smoothing, float) else 0.0
    goal = (1.0 - share) * np.eye(k)[y] + share / k

    def split(v: Floats) -> tuple[Floats, Floats]:
        return v[:size] if family == "vector" else v[:size].reshape(k, k), v[size:]

    def value(w: Floats, b: Floats) -> float:
        square = w if family == "vector" else np.diag(w)
        matrix = np.diag(w) if family == "vector" else w
        loss = float(-(goal * log_softmax(x @ matrix.T + b, axis=1)).sum()) / n
        if objective.odir is not None:
            off = float((w**2).sum() - (square**2).sum())
            loss += objective.odir[0] * off / (k * (k - 1)) + objective.odir[1] * float((b**2).sum()) / k
        return n * (loss + objective.ridge * float((w**2).sum()))

    start: Floats = np.append(np.ones(k) if family == "vector" else np.eye(k).ravel(), np.zeros(k))
    search: Any = minimize  # its stubs want one-dimensional arrays by type
    other = search(
        lambda v: value(*split(np.asarray(v))),
        start,
        method="BFGS",
        options={"gtol": 1e-6, "maxiter": 2000},
    )
    assert value(parameter(found, "weights"), parameter(found, "bias")) <= other.fun + 1e-7
    assert value(parameter(found, "weights"), parameter(found, "bias")) == pytest.approx(other.fun, abs=1e-5)


@pytest.mark.parametrize("source", ["logits", "log-probabilities", "probabilities"])
def test_platt_scaling_is_logistic_regression(source: str) -> None:
    p, y, z = drawn("binary", 300)
    plain = {"objective": Objective("nll"), "logits": z if source == "logits" else None}
    (found,) = fitted("platt", p, y, "binary", **plain, on="probabilities" if source == "probabilities" else None)
    x = {"logits": z, "log-probabilities": logs(p) - logs(1 - p), "probabilities": p}[source]
    oracle = LogisticRegression(**EXACT).fit(x, y)
    assert found.input == source
    assert parameter(found, "slope") == pytest.approx(oracle.coef_[0, 0], rel=1e-7)
    assert parameter(found, "intercept") == pytest.approx(oracle.intercept_[0], rel=1e-7)


def test_platts_targets_worked_by_hand() -> None:
    # 3 events of 4 at one score, 1 of 4 at another: n1 = n0 = 4, targets 5/6 and 1/6, so the means are 2/3 and 1/3
    z = np.repeat([[2.0], [-2.0]], 4, axis=0)
    (found,) = fitted("platt", expit(z), np.array([1, 1, 1, 0, 0, 0, 0, 1]), "binary", logits=z)
    assert parameter(found, "slope") == pytest.approx(math.log(2) / 2, rel=1e-9)
    assert parameter(found, "intercept") == pytest.approx(0.0, abs=1e-9)


def test_beta_calibration_is_logistic_regression_on_two_logs() -> None:
    p, y, _ = drawn("binary", 500)
    (found,) = fitted("beta", p, y, "binary")
    oracle = LogisticRegression(**EXACT).fit(np.column_stack((logs(p), -logs(1 - p))), y)
    assert (oracle.coef_ > 0).all()
    assert [float(parameter(found, name)) for name in "ab"] == pytest.approx(oracle.coef_[0].tolist(), rel=1e-6)
    assert parameter(found, "c") == pytest.approx(oracle.intercept_[0], rel=1e-6)


def test_beta_calibration_is_that_of_its_authors_package() -> None:
    # betacal 1.1.0, BetaCalibration(parameters="abm") with scikit-learn 1.9.1 on these rows: a, b, and its predictions
    p = np.array([0.05, 0.1, 0.15, 0.2, 0.3, 0.35, 0.4, 0.45, 0.55, 0.6, 0.62, 0.7, 0.8, 0.85, 0.9, 0.95])[:, None]
    records = fitted("beta", p, np.array([0, 1, 0, 0, 0, 1, 0, 1, 0, 1, 1, 0, 1, 1, 0, 1]), "binary")
    found = [float(parameter(records[0], name)) for name in "ab"]
    assert found == pytest.approx([0.5536783761459345, 0.3362899296647291], abs=1e-3)  # it stops at tol 1e-4
    q = apply(records, np.array([[0.1], [0.5], [0.9]]), kind="binary")[:, 0]
    np.testing.assert_allclose(q, [0.26185944, 0.51310983, 0.71486559], atol=2e-4)


def test_beta_slopes_stay_at_zero_or_above() -> None:
    rng = np.random.default_rng(6)
    p = rng.beta(0.6, 0.6, 400)
    logit_q = 1.5 * np.log(p) + 1.2 * np.log(1 - p) + 2.0  # wants b = -1.2
    y = (rng.random(400) < expit(logit_q)).astype(np.int64)
    (found,) = fitted("beta", p[:, None], y, "binary")
    a, b, c = (float(parameter(found, name)) for name in "abc")
    assert b == 0.0
    oracle = LogisticRegression(**EXACT).fit(logs(p)[:, None], y)
    assert (a, c) == pytest.approx((oracle.coef_[0, 0], oracle.intercept_[0]), rel=1e-6)
    (against,) = fitted("beta", p[:, None], (p < 0.5).astype(np.int64), "binary")
    assert [float(parameter(against, name)) for name in "ab"] == [0.0, 0.0]


def test_scaling_binning_averages_the_scaled_values() -> None:
    p, y, z = drawn("binary", 300)
    (found,) = fitted("scaling-binning", p, y, "binary", logits=z)
    oracle = LogisticRegression(**EXACT).fit(z, y)
    scaled = oracle.predict_proba(z)[:, 1]
    means = np.sort(scaled).reshape(15, 20).mean(axis=1)  # 300 distinct values: 20 a bin
    np.testing.assert_allclose(parameter(found, "values"), means, rtol=1e-7)
    q = apply([found], p, kind="binary", logits=z)[:, 0]
    np.testing.assert_allclose(q, means[np.argsort(np.argsort(scaled)) // 20], rtol=1e-7)


SEPARABLE = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.3, 0.6], [0.8, 0.1, 0.1], [0.1, 0.1, 0.8]])


@pytest.mark.parametrize("family", ["vector", "matrix"])
@pytest.mark.parametrize("y", [[0, 1, 2, 0, 2], [0, 0, 0, 0, 0], [0, 1, 1, 0, 1]])
def test_without_an_optimum_the_loss_left_is_nothing(family: Family, y: list[int]) -> None:
    labels = np.array(y)
    (found,) = fitted(family, SEPARABLE, labels, "multiclass")
    assert "no finite optimum" in found.objective
    logits = logs(SEPARABLE) @ (
        np.diag(parameter(found, "weights")) if family == "vector" else parameter(found, "weights")
    ).T + parameter(found, "bias")
    assert float((logsumexp(logits, axis=1) - logits[np.arange(5), labels]).sum()) < 1e-6
    (smoothed,) = fitted(family, SEPARABLE, labels, "multiclass", objective=Objective("nll", smoothing=0.1))
    assert "no finite optimum" not in smoothed.objective


@pytest.mark.parametrize("family", ["platt", "beta", "scaling-binning"])
def test_separated_scores_have_no_line(family: Family) -> None:
    p, y = np.array([[0.2], [0.3], [0.6], [0.9]]), np.array([0, 0, 1, 1])
    (found,) = fitted(family, p, y, "binary", objective=Objective("nll"))
    assert "no finite optimum" in found.objective
    np.testing.assert_allclose(apply([found], p, kind="binary")[:, 0], y, atol=1e-6)
    (met,) = fitted("platt", p, y, "binary")  # Platt's targets keep it finite
    assert "no finite optimum" not in met.objective


def test_large_and_shifted_logits_give_the_same_outputs() -> None:
    p, y, z = drawn("multiclass", 300)
    for family in ("vector", "matrix"):
        plain = apply(fitted(family, p, y, "multiclass", logits=z), p, kind="multiclass", logits=z)
        for moved in (1e4 * z, z + 1e4, 1e-4 * z):
            records = fitted(family, p, y, "multiclass", logits=moved)
            np.testing.assert_allclose(apply(records, p, kind="multiclass", logits=moved), plain, atol=1e-6)


def test_an_objective_that_a_family_can_not_be_fitted_by_is_refused() -> None:
    p, y, _ = drawn("multiclass")
    refused: list[tuple[Family, Objective, str]] = [
        ("matrix", Objective("squared"), "matrix is fitted by loss nll, not squared"),
        ("isotonic", Objective("ece"), "isotonic is fitted by loss squared or nll, not ece"),
        ("temperature", Objective("nll", ridge=0.1), "temperature takes no penalty"),
        ("platt", Objective("nll", odir=(0.1, 0.1)), "no off-diagonal weights"),
        ("vector", Objective("nll", smoothing="platt"), "Platt's targets are for two classes"),
        ("matrix", Objective("nll", bounds=(0.1, 2.0)), "bounds of temperatures"),
        ("beta", Objective("nll", grid=(0.1, 2.0)), "grid of temperatures"),
    ]
    for family, objective, message in refused:
        with pytest.raises(ValueError, match=message):
            fitted(family, p, y, "multiclass", objective=objective)
    for family in ("custom", "none"):
        with pytest.raises(ValueError, match=f"family {family} has no reference calibrator"):
            fitted(family, p, y, "multiclass")
    with pytest.raises(ValueError, match="pooled is a form of isotonic"):
        fitted("platt", p, y, "multiclass", pooled=True)
