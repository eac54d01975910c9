"""Sorted columns and per-patient sums: what the compiled loops see, and that company changes no bit."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.metrics.arrays import Floats
from scorer.metrics.cells import Cells, Read
from scorer.metrics.column import column_of, single
from tests.scorer.metrics import reference
from tests.scorer.metrics.registry import sample


def test_equal_scores_form_a_group() -> None:
    column = column_of(np.array([0.5, 0.1, 0.5, 0.3]), np.array([1.0, 0.0, 0.0, 1.0]), np.array([7, 8, 9, 7]), 10)
    assert column.score.tolist() == [0.1, 0.3, 0.5]
    assert column.group.tolist() == [0, 1, 2, 2]
    assert column.patient[:2].tolist() == [8, 7]
    assert sorted(zip(column.patient[2:].tolist(), column.outcome[2:].tolist(), strict=True)) == [(7, 1.0), (9, 0.0)]


def test_distinct_scores_need_no_groups() -> None:
    column = column_of(np.array([0.5, 0.1, 0.3]), np.array([1.0, 0.0, 1.0]))
    assert column.group.tolist() == []
    assert column.score.tolist() == [0.1, 0.3, 0.5]
    assert column.patient.tolist() == [1, 2, 0]
    assert column.outcome.tolist() == [0.0, 1.0, 1.0]


def test_a_column_without_cases() -> None:
    column = column_of(np.empty(0), np.empty(0))
    scan = column.scan(np.ones((2, 0)), bins=3, ranks=True, risks=(0.5,), corp=True)
    assert scan.bins is not None
    assert scan.bins.weight.tolist() == [[0.0, 0.0]] * 3
    for values in (scan.ranks, scan.risks, scan.corp):
        assert values is not None
        assert np.isnan(values).all()


def test_what_is_not_asked_for_is_none() -> None:
    column = column_of(np.array([0.5, 0.1]), np.array([1.0, 0.0]))
    assert column.scan(np.ones((1, 2))) == (None, None, None, None)
    only = column.scan(np.ones((1, 2)), risks=())
    assert only.risks is not None
    assert only.risks.shape == (1, 1)
    assert (only.bins, only.ranks, only.corp) == (None, None, None)


def test_bins_hold_the_five_sums() -> None:
    found = column_of(np.array([0.2, 0.4, 0.9]), np.array([1.0, 0.0, 1.0])).scan(
        single(np.array([2.0, 1.0, 1.0])), bins=2
    )
    assert found.bins is not None
    # midpoints 1, 2.5, 3.5 of 4: {.2 .2} and {.4 .9}
    assert found.bins.weight[:, 0].tolist() == [2.0, 2.0]
    assert found.bins.p[:, 0].tolist() == pytest.approx([0.4, 1.3], abs=1e-15)
    assert found.bins.y[:, 0].tolist() == [2.0, 1.0]
    assert found.bins.pp[:, 0].tolist() == pytest.approx([0.08, 0.16 + 0.81], abs=1e-15)
    assert found.bins.py[:, 0].tolist() == pytest.approx([0.4, 0.9], abs=1e-15)


def test_ranks_need_both_classes_in_the_resample() -> None:
    # the second resample has events alone, the third non-events alone, the fourth nobody
    column = column_of(np.array([0.2, 0.8]), np.array([0.0, 1.0]))
    ranks = column.scan(np.array([[1.0, 1.0], [0.0, 2.0], [2.0, 0.0], [0.0, 0.0]]), ranks=True).ranks
    assert ranks is not None
    assert ranks[:, 0].tolist() == [1.0, 1.0]
    assert np.isnan(ranks[:, 1:]).all()


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 2**32 - 1), st.integers(1, 16))
def test_bins_against_exact_fractions(seed: int, bins: int) -> None:
    p, y, w = sample(seed)
    found = column_of(p, y.astype(np.float64)).scan(single(w.astype(np.float64)), bins=bins).bins
    assert found is not None
    wanted = reference.mass_bins(p, y, w, bins)
    kept = found.weight[:, 0] > 0
    for sums, exact in zip(found, zip(*wanted, strict=True), strict=True):
        assert sums[kept, 0].tolist() == pytest.approx([float(one) for one in exact], abs=1e-13)
        assert not sums[~kept].any()


def test_a_resample_has_the_same_bits_in_any_company() -> None:
    rng = np.random.default_rng(0)
    p, y, patient = rng.integers(0, 30, 300) / 29, rng.integers(0, 2, 300), rng.integers(0, 50, 300)
    weights = rng.multinomial(50, np.ones(50) / 50, 40).astype(np.float64)
    column = column_of(p, y.astype(np.float64), patient, 50)

    def scanned(w: Floats) -> Floats:
        scan = column.scan(w, bins=15, ranks=True, risks=(0.9, 0.5), corp=True)
        assert scan.bins is not None
        assert scan.ranks is not None
        assert scan.risks is not None
        assert scan.corp is not None
        return np.concatenate([*scan.bins, scan.ranks, scan.risks, scan.corp])

    together = scanned(weights)
    for d in range(40):
        assert np.array_equal(scanned(weights[d : d + 1])[:, 0], together[:, d])


def test_cells_add_up_by_patient_and_cell() -> None:
    cells = Cells(3)
    patient = np.array([2, 0, 2, 2])
    cells.add(2, [(patient, np.array([0, 1, 0, 1]), np.array([1.0, 2.0, 3.0, 4.0]))], (0,), lambda c: Read(c[:1]))
    cells.add(1, [(patient, 0, 1.0)], (1,), lambda c: Read(c))
    # cells (patients): [., ., 4], [2, ., 4]; counts [1, ., 3]
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 5.0, 0.0], [0.0, 0.0, 3.0]])
    assert cells.sums(weights).tolist() == [[4.0, 0.0, 12.0], [6.0, 4.0, 12.0], [4.0, 2.0, 9.0]]
    assert [(one.first, one.n, one.places) for one in cells.readers] == [(0, 2, (0,)), (2, 1, (1,))]


def test_cells_without_patients_or_entries() -> None:
    cells = Cells(0)
    cells.add(2, [(np.empty(0, dtype=np.intp), 0, 1.0)], (0,), lambda c: Read(c))
    cells.prepare()
    assert cells.sums(np.ones((3, 0))).tolist() == [[0.0] * 3] * 2
    nothing = Cells(2)
    nothing.prepare()
    assert nothing.sums(np.ones((3, 2))).shape == (0, 3)
