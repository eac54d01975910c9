"""Do calibration and test patients look alike to the model? A two-sample test without labels (MVC311).

Per model, seed and probability column: the mean uncalibrated probability of each patient, calibration against test, by
the two-sample Kolmogorov-Smirnov test; patients are independent where images are not. The smallest p-value counts,
times the number of tests (Bonferroni), at a level of 1 %.
Source: Hodges (1958), https://doi.org/10.1007/BF02589501; computed by scipy.stats.ks_2samp.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.verify.rows import CALIBRATION, TEST, Images, RunRows
from submission.recalibration.maps import Floats

LEVEL = 0.01
FEWEST = 8  # patients on either side
EXACT = 200  # patients up to which the p-value is that of all divisions: for few the asymptotic one may be 0


@dataclass(frozen=True)
class Difference:
    """One comparison: the distance of the two distributions (0 to 1), its p-value, and the patients on each side."""

    column: int
    distance: float
    p_value: float
    patients: tuple[int, int]


def differences(rows: RunRows, images: Images) -> list[Difference]:
    """A comparison a column; none where a side has too few patients."""
    from scipy.stats import ks_2samp

    sides = [_means(rows, images, part) for part in (CALIBRATION, TEST)]
    if min(map(len, sides)) < FEWEST:
        return []
    found = []
    for k in range(rows.outputs.p.shape[1]):
        few = max(map(len, sides)) <= EXACT
        test = ks_2samp(sides[0][:, k], sides[1][:, k], method="exact" if few else "asymp")
        found.append(Difference(k, float(test.statistic), float(test.pvalue), (len(sides[0]), len(sides[1]))))
    return found


def _means(rows: RunRows, images: Images, part: int) -> Floats:
    chosen = np.flatnonzero(images.part[rows.image] == part)
    if not len(chosen):
        return np.empty((0, rows.outputs.p.shape[1]))
    _, patient = np.unique(images.patient[rows.image[chosen]], return_inverse=True)
    return _per_patient(rows.outputs.p[chosen], patient)


def _per_patient(p: Floats, patient: NDArray[np.intp]) -> Floats:
    counts = np.bincount(patient)
    return np.column_stack([np.bincount(patient, weights=p[:, k]) / counts for k in range(p.shape[1])])
