"""How claims are written."""

import pytest

from scorer.audit.claims import parse_claim
from scorer.audit.claims.claim import Claim
from scorer.audit.claims.matching import readings
from scorer.audit.shapes import AuditError


@pytest.mark.parametrize(
    ("text", "metric", "value", "decimals", "percent", "target"),
    [
        ("ece=3.43%", "ece", 3.43, 2, True, {}),
        ("mce=0.12", "mce", 0.12, 2, False, {}),
        ("AUC = .9170 ", "auroc", 0.917, 4, False, {}),
        ("log-loss=1.2", "nll", 1.2, 1, False, {}),
        ("Balanced Accuracy=80 %", "balanced_accuracy", 80.0, 0, True, {}),
        ("auroc:Hernia=0.917", "auroc", 0.917, 3, False, {"class": "Hernia"}),
        ("ece@reader01=0.031", "ece", 0.031, 3, False, {"set": "reader01"}),
        ("ece:1@a b=0.031", "ece", 0.031, 3, False, {"class": "1", "set": "a b"}),
        (
            "ece[cohort=ACC,biomarker=TMB-high]=0.1586",
            "ece",
            0.1586,
            4,
            False,
            {"cohort": "ACC", "biomarker": "TMB-high"},
        ),
        ('f1:"a:b, c"=5e-1', "f1", 0.5, 1, False, {"class": "a:b, c"}),
        ("ece=5e-05", "ece", 5e-05, 5, False, {}),
        ("kappa=-0.02", "kappa", -0.02, 2, False, {}),
        ("kappa=−0.02", "kappa", -0.02, 2, False, {}),
        ("ap=1", "auprc", 1.0, 0, False, {}),
    ],
)
def test_a_claim_is_read(
    text: str, metric: str, value: float, decimals: int, percent: bool, target: dict[str, str]
) -> None:
    """Metric by any of its names, digits as printed, and what it is of."""
    found = parse_claim(text)
    assert (found.metric, found.value, found.decimals, found.percent) == (metric, value, decimals, percent)
    assert found.target == target


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "METRIC[:CLASS]"),
        ("ece", "METRIC[:CLASS]"),
        ("ece=", "METRIC[:CLASS]"),
        ("=0.1", "METRIC[:CLASS]"),
        ("ece[]=0.1", "between the brackets"),
        ("ece[cohort]=0.1", "no KEY=VALUE"),
        ("ece[a=]=0.1", "no KEY=VALUE"),
        ('ece:""=0.1', "names nothing"),
        ("ece=about 3", "is no number"),
        ("ece=nan", "is no number"),
        ("ece=1,5", "is no number"),
        ("ece=1e999", "is no number"),
        ("ece=0.1%%", "is no number"),
        ("ecce=0.1", "did you mean ece"),
        ("quality=0.1", "known are ece, sce"),
        ("ece=-0.1", "can't be -0.1"),
        ("auroc=101%", "can't be 101%"),
        ("nll=-1", "can't be negative"),
        ("ece=" + "9" * 2000, "METRIC[:CLASS]"),
        ("\x1b[31mece\u202e=x", "METRIC[:CLASS]"),
    ],
)
def test_what_is_no_claim_is_refused_with_the_way_to_write_it(text: str, wanted: str) -> None:
    """In one escaped line."""
    with pytest.raises(AuditError) as error:
        parse_claim(text)
    assert wanted in str(error.value)
    assert not set("\x1b\u202e\n") & set(str(error.value))


def test_a_number_that_no_fraction_can_be_is_percent() -> None:
    """With a sign, or above the largest value; else percent comes second."""
    assert [one.scale for one in readings(parse_claim("ece=3.43%"))] == ["percent"]
    assert [one.scale for one in readings(parse_claim("ece=3.43"))] == ["percent"]
    assert [one.scale for one in readings(parse_claim("ece=0.43"))] == ["fraction", "percent"]
    assert [one.scale for one in readings(parse_claim("nll=3.43"))] == ["fraction"]
    assert [one.scale for one in readings(parse_claim("brier=1.43"))] == ["fraction", "percent"]


def test_a_claim_says_what_it_is_of_in_escaped_words() -> None:
    """For a terminal."""
    assert Claim("ece", 0.1, 1, False, "", {"class": "a\x1bb"}).where == "class a\\x1bb"
