"""The words of a declared objective, and what they are taken for."""

from typing import Any

import pytest

from protocol.objective import Objective, objective_of
from protocol.submission import Family, Method


def read(family: Family = "temperature", **words: Any) -> Objective | str:
    return objective_of(Method(name="m", family=family, **words))


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ({}, {"loss": "nll"}),
        ({"loss": "Mean negative log-likelihood."}, {"loss": "nll"}),
        ({"loss": "Brier  score"}, {"loss": "squared"}),
        ({"loss": "ECE"}, {"loss": "ece", "binning": ("equal-mass", 15)}),
        ({"loss": "ECE with 20 equal-width bins"}, {"loss": "ece", "binning": ("equal-width", 20)}),
        ({"penalty": "L2 0.01"}, {"loss": "nll", "ridge": 0.01}),
        ({"penalty": "l2 with C = 10"}, {"loss": "nll", "ridge_c": 10.0}),
        ({"penalty": "ODIR lambda 0.1, mu 1e-3"}, {"loss": "nll", "odir": (0.1, 0.001)}),
        ({"target_smoothing": "Platt's targets"}, {"loss": "nll", "smoothing": "platt"}),
        ({"target_smoothing": "label smoothing 0.05"}, {"loss": "nll", "smoothing": 0.05}),
        ({"bounds": "temperature from 0.05 to 20"}, {"loss": "nll", "bounds": (0.05, 20.0)}),
        ({"bounds": "T in [0.1, 10]"}, {"loss": "nll", "bounds": (0.1, 10.0)}),
        ({"bounds": "a, b >= 0"}, {"loss": "nll"}),
        ({"grid": "0.5 to 2 by 0.5"}, {"loss": "nll", "grid": (0.5, 1.0, 1.5, 2.0)}),
        ({"grid": "from 1 to 4 in 2 log steps"}, {"loss": "nll", "grid": (1.0, 2.0, 4.0)}),
        ({"grid": "2, 0.5, 1"}, {"loss": "nll", "grid": (0.5, 1.0, 2.0)}),
        ({"grid": "10 equal-width bins"}, {"loss": "nll", "binning": ("equal-width", 10)}),
        ({"penalty": "none", "target_smoothing": "No", "grid": "not used"}, {"loss": "nll"}),
    ],
)
def test_words_are_read(words: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert read(**words) == Objective(**wanted)


def test_what_is_left_out_is_that_of_the_family() -> None:
    assert read("isotonic") == Objective("squared")
    assert read("histogram") == Objective("squared", binning=("equal-mass", 15))
    assert read("platt") == Objective("nll")
    assert not Objective("nll").penalised
    assert all(o.penalised for o in (Objective("nll", ridge=1.0), Objective("nll", odir=(0.0, 1.0))))


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("loss", "focal loss"),
        ("loss", "ece with 0 equal-mass bins"),
        ("penalty", "l2 with c = 0"),
        ("penalty", "dropout"),
        ("target_smoothing", "label smoothing 1.5"),
        ("bounds", "temperature from 2 to 1"),
        ("bounds", "temperature from 0 to 1"),
        ("bounds", "wide"),
        ("grid", "1 to 2 by 0"),
        ("grid", "1 to 1e9 by 1e-9"),
        ("grid", "0, 1"),
        ("grid", "fine"),
    ],
)
def test_other_words_are_said_not_to_be_known(field: str, text: str) -> None:
    words: dict[str, Any] = {field: text}
    said = read(**words)
    assert isinstance(said, str)
    assert said.startswith(f"{field} of method m is not in words")
