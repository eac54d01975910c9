"""A score column, sorted once, to be scanned under the weights of many resamples."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.metrics import kernels
from scorer.metrics.arrays import Floats, Indices


class Bins(NamedTuple):
    """Sums in the bins of each resample, shape (bins, D) each: weight, weighted probability, weighted outcome, weighted
    square of the probability, weighted probability times outcome."""

    weight: Floats
    p: Floats
    y: Floats
    pp: Floats
    py: Floats


class Scan(NamedTuple):
    """What one pass gives for D resamples: bins, ``ranks`` (2, D) AUROC and average precision, ``risks`` (1 +
    coverages, D) AURC and risk at each coverage, ``corp`` (3, D) mcb, dsc, unc; None for what was not asked for."""

    bins: Bins | None
    ranks: Floats | None
    risks: Floats | None
    corp: Floats | None


@dataclass(frozen=True)
class Column:
    """Cases in ascending order of their score: ``patient`` and ``outcome`` (n,) of the case at each position.

    ``score`` holds the distinct values; ``group`` (n,) says which one a position has, empty if all are distinct.
    ``cases`` and ``credit`` (patients,): number of cases and summed outcome of each patient.
    """

    patient: NDArray[np.int32]
    group: NDArray[np.int32]
    score: Floats
    outcome: Floats
    cases: Floats
    credit: Floats

    def scan(
        self,
        weights: Floats,
        *,
        bins: int = 0,
        ranks: bool = False,
        risks: Sequence[float] | None = None,
        corp: bool = False,
    ) -> Scan:
        """One pass under ``weights`` (D, patients): equal-mass ``bins``, ranks, selective ``risks`` at falling
        coverages, CORP."""
        draws, none = len(weights), np.nan
        coverages = np.array(() if risks is None else risks, dtype=np.float64)
        out_bins = np.zeros((draws if bins else 0, bins, kernels.SUMS))
        out_ranks = np.full((draws if ranks else 0, 2), none)
        out_risks = np.full((0 if risks is None else draws, 1 + len(coverages)), none)
        out_corp = np.full((draws if corp else 0, 3), none)
        kernels.scan(
            self.patient, self.group, self.score, self.outcome, self.cases, self.credit, weights, coverages,
            out_bins, out_ranks, out_risks, out_corp,
        )  # fmt: skip
        return Scan(
            Bins(*np.ascontiguousarray(out_bins.transpose(2, 1, 0))) if bins else None,
            out_ranks.T if ranks else None,
            out_risks.T if risks is not None else None,
            out_corp.T if corp else None,
        )


def column_of(score: Floats, outcome: Floats, patient: Indices | None = None, patients: int = 0) -> Column:
    """Sort ``score`` (n,), finite, with ``outcome`` in [0, 1] and the number of each case's ``patient`` among
    ``patients`` (a case is its own if None)."""
    order = np.argsort(score)
    ordered = score[order]
    new = np.empty(len(score), dtype=np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    tied = not new.all()
    cases, credit = np.ones(len(score)), outcome
    if patient is not None:
        cases = np.bincount(patient, minlength=patients).astype(np.float64)
        credit = np.bincount(patient, weights=outcome, minlength=patients).astype(np.float64)
    return Column(
        patient=(order if patient is None else patient[order]).astype(np.int32),
        group=(np.cumsum(new) - 1).astype(np.int32) if tied else np.empty(0, dtype=np.int32),
        score=ordered[new] if tied else ordered,
        outcome=outcome[order],
        cases=cases,
        credit=credit,
    )


def single(weights: Floats) -> Floats:
    """Case weights as the one resample of a column whose cases are patients of their own."""
    return weights[None, :].copy()  # never read-only: that would be compiled anew
