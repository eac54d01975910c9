"""Two-sample tests of calibration against test scores (MVC311)."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from scorer.verify.exchange import differences
from scorer.verify.rows import CALIBRATION, TEST, Images, RunRows
from submission.recalibration.maps import Outputs
from tests.scorer.verify.made import images_of


def images(n: int, each: int = 1) -> Images:
    """Half calib, half test; ``each`` images a patient."""
    part = np.where(np.arange(n) < n // 2, CALIBRATION, TEST).astype(np.int8)
    return replace(images_of(n), part=part, patient=np.arange(n) // each)


def test_the_means_of_patients_are_compared_column_by_column() -> None:
    rng = np.random.default_rng(0)
    p = rng.random((120, 2))
    p[:60, 1] *= 0.3
    found = differences(RunRows(np.arange(120), Outputs(p)), images(120, 3))
    means = p.reshape(40, 3, 2).mean(axis=1)
    for k, one in enumerate(found):
        wanted = ks_2samp(means[:20, k], means[20:, k], method="exact")
        assert (one.column, one.patients) == (k, (20, 20))
        assert one.distance == pytest.approx(wanted.statistic)
        assert one.p_value == pytest.approx(wanted.pvalue)
    assert found[0].p_value > 0.01 > found[1].p_value


def test_images_of_one_patient_are_one_observation() -> None:
    """Thirty images a patient make no evidence of what four patients differ by."""
    p = np.repeat(np.linspace(0.1, 0.9, 16), 30)[:, None]
    single = differences(RunRows(np.arange(480), Outputs(p)), images(480))[0]
    grouped = differences(RunRows(np.arange(480), Outputs(p)), images(480, 30))[0]
    assert single.p_value < 1e-20
    assert grouped.patients == (8, 8)
    assert grouped.p_value == pytest.approx(2 / math.comb(16, 8))  # of 12870 ways to divide them two are as far apart


def test_few_patients_or_none_are_not_compared() -> None:
    p = np.linspace(0, 1, 14)[:, None]
    assert differences(RunRows(np.arange(14), Outputs(p)), images(14)) == []
    only = replace(images(40), part=np.full(40, TEST, np.int8))
    assert differences(RunRows(np.arange(40), Outputs(np.linspace(0, 1, 40)[:, None])), only) == []


def test_exchangeable_scores_err_rarely() -> None:
    rng = np.random.default_rng(4)
    small = sum(
        differences(RunRows(np.arange(200), Outputs(rng.random((200, 1)))), images(200))[0].p_value < 0.05
        for _ in range(200)
    )
    assert small <= 20  # expected 10, standard deviation 3
