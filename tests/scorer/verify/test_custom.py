"""What is said of a calibrator that is none of ours."""

import numpy as np
import pytest

from scorer.verify.custom import looked_at
from submission.recalibration.maps import Floats

P = np.array([[0.1], [0.2], [0.2], [0.6], [0.6], [0.9]])
OUTSIDE = np.array([False, False, True, False, True, False])
NONE = np.zeros(6, dtype=bool)


def said(q: Floats, external: np.ndarray[tuple[int], np.dtype[np.bool_]] = OUTSIDE, p: Floats = P) -> list[str]:
    kind = "multiclass" if p.shape[1] > 2 else "binary"
    return looked_at(kind, p, q, external, 1e-6).split("; ")  # type: ignore[arg-type]


def test_a_monotone_function() -> None:
    assert said(P**2) == [
        "a function of the uncalibrated output: yes", "monotone: yes",
        "the same on external rows: yes, one monotone map fits all",
    ]  # fmt: skip


def test_a_function_that_falls() -> None:
    assert said(1.0 - P)[1:] == ["monotone: no", "the same on external rows: yes"]


def test_no_function() -> None:
    q = P.copy()
    q[2] = 0.3  # of two equal inputs one was mapped elsewhere, on an external row
    assert said(q)[0] == "a function of the uncalibrated output: no"
    assert said(1.0 - q)[2] == "the same on external rows: no"


def test_what_can_t_be_told_is_said() -> None:
    p = np.array([[0.1], [0.2], [0.3]])
    external = np.array([False, True, False])
    assert said(1 - p, external, p) == [
        "a function of the uncalibrated output: no two rows share one to tell", "monotone: no",
        "the same on external rows: no shared input to tell",
    ]  # fmt: skip
    assert said(P, NONE)[2] == "the same on external rows: no external rows to tell"
    assert said(P, ~NONE)[2] == "the same on external rows: no external rows to tell"


def test_classes_of_a_row_are_compared_where_rows_are_normalised() -> None:
    p = np.array([[0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.1, 0.8]])
    external = np.array([False, True, False])
    assert said(p, external, p)[1] == "the most probable class unchanged: yes"
    q = p.copy()
    q[1] = [0.3, 0.5, 0.2]
    assert said(q, external, p) == [
        "a function of the uncalibrated output: no", "the most probable class unchanged: no",
        "the same on external rows: no",
    ]  # fmt: skip


@pytest.mark.parametrize("columns", [1, 3])
def test_no_rows_are_no_crash(columns: int) -> None:
    empty = np.empty((0, columns))
    assert said(empty, np.empty(0, dtype=bool), empty)[0].startswith("a function")


def test_precision_is_forgiven() -> None:
    q = P + np.array([[0], [9e-7], [-9e-7], [0], [9e-7], [0]])
    assert said(q)[0].endswith("yes")
