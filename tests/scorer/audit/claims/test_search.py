"""The search as a whole."""

import json

import numpy as np
import pytest

from protocol.types import Kind
from scorer.audit.claims import Claim, ClaimSearch, parse_claim, search
from scorer.audit.claims.claim import SYNONYMS
from scorer.audit.claims.matching import Reading, chance
from scorer.audit.claims.results import Searched
from scorer.audit.shapes import PredictionSet, Scale, Scaled
from scorer.metrics import auroc, ece, ece_width
from tests.scorer.audit.claims.sets import binary, made, multiclass


def one(text: str, *sets: PredictionSet) -> Searched:
    """What came of one claim."""
    (found,) = search([parse_claim(text)], sets).claims
    return found


def _width(of: PredictionSet, bins: int) -> float:
    assert of.p is not None
    assert of.y is not None
    return ece_width(of.p[:, 0], of.y, bins=bins).value


def test_the_definition_behind_a_number_is_found() -> None:
    """Rounded to five digits, 12 bins are told from all others; the nearest miss and the tries are reported."""
    scores = binary()
    value = _width(scores, 12)
    found = one(f"ece={value:.6f}", scores)
    assert found.status == "reproduced"
    assert any("positive class" in match.words and "12 equal-width" in match.words for match in found.matches)
    assert all(match.low == pytest.approx(value, abs=5e-7) for match in found.matches)
    assert found.nearest is not None
    assert 0 < found.distance == pytest.approx(abs(found.nearest.low - found.claim.value))
    assert found.tried > found.distinct > 500
    assert sum(match.count for match in found.matches) == found.reproduced
    in_percent = one(f"ece={100 * value:.4f}%", scores)
    assert [match.words for match in in_percent.matches] == [match.words for match in found.matches]
    assert in_percent.matches[0].shown.endswith("%")
    bare = one(f"ece={100 * value:.4f}", scores)
    assert bare.matches == in_percent.matches


def test_a_number_of_no_definition_is_not_reproduced() -> None:
    """And the line says so."""
    found = one("auroc=0.999", binary())
    assert found.status == "not reproduced"
    assert "reproduced by none" in found.head
    assert "nearest miss" in found.miss


def test_digits_cut_off_are_told_from_rounding() -> None:
    """0.9166 for 0.91667 is no rounding."""
    p, y = [0.9] * 3 + [0.8, 0.1, 0.2, 0.3], [1, 1, 1, 0, 0, 0, 1]
    value = auroc(p, y).value
    assert f"{value:.4f}" == "0.9167"
    assert one("auroc=0.9166", made(p, y)).status == "cut off"
    assert one("auroc=0.9167", made(p, y)).status == "reproduced"
    assert one("auroc=0.9165", made(p, y)).status == "not reproduced"
    assert "cut off" in "\n".join(search([parse_claim("auroc=0.9166")], [made(p, y)]).lines())


def test_half_rounds_either_way() -> None:
    """0.125 is printed 0.13, or 0.12 by half even."""
    scores = made([0.5] * 8, [1, 0, 0, 0, 0, 0, 0, 1])
    for text in ("accuracy=0.2", "accuracy=0.3"):
        assert one(text, scores).status == "reproduced"
    assert one("accuracy=0.25", scores).status == "reproduced"
    assert one("accuracy=0.26", scores).status == "not reproduced"


def test_digits_beyond_single_precision_are_noise() -> None:
    """A value printed with 16 digits matches to seven."""
    reading = Reading(0.8179808156177791, 1e-16, "fraction")
    assert reading.rounded(np.array([0.81798085, 0.8179811])).tolist() == [True, False]
    assert Reading(0.0, 1e-9, "fraction").rounded(np.array([0.0])).all()


def test_the_share_of_lucky_numbers_is_the_covered_part_of_the_neighbourhood() -> None:
    """Against a count over a fine grid."""
    reading = Reading(0.4, 0.01, "fraction")
    apart = np.array([0.1, 0.31, 0.313, 0.4, 0.45, 0.7])
    grid = np.linspace(0.2, 0.6, 400_001)  # 20 units either way
    near = (np.abs(grid[:, None] - apart[None, :]) <= 0.005).any(axis=1)
    assert chance(reading, apart) == pytest.approx(near.mean(), abs=1e-4)
    assert chance(reading, np.array([])) == 0.0


def test_claims_on_several_targets_are_judged_together() -> None:
    """One definition reproduces all; the others far fewer."""
    sets = [binary(120, seed, task=f"site {seed}, T{seed}", name="m") for seed in range(6)]
    claims = [parse_claim(f"ece[task=T{seed}]={_width(sets[seed], 10):.4f}") for seed in range(6)]
    found = search(claims, sets)
    (joint,) = found.joint
    assert joint.best[0].reproduced == joint.claims == 6
    assert "10 equal-width bins, either side closed" in joint.best[0].words[0]
    assert joint.best[1].reproduced < 6
    assert {words.split(" bins")[0].split()[-2] for one in joint.beside for words in one.words[:1]} == {"15", "20"}
    assert joint.average < 1
    wrong = search([*claims[:5], parse_claim("ece[task=T5]=0.9999")], sets)
    assert wrong.joint[0].best[0].reproduced == 5
    assert "task T5 = 0.9999" in wrong.joint[0].missed


def test_targets_are_found_by_name_class_and_number() -> None:
    """Case, blanks and dashes do not matter."""
    p = np.random.default_rng(4).random((50, 2))
    y = (np.random.default_rng(5).random((50, 2)) < p).astype(int)
    findings = made(p, y, kind="multilabel", name="net", classes=("Pleural_Thickening", "Hernia"))
    other = binary(50, name="other-net", task="Lung")
    value = f"{auroc(p[:, 1], y[:, 1]).value:.5f}"
    for text in (
        "auroc:hernia",
        "auroc:Hernia@net",
        "auroc[finding=HERNIA,model=net]",
        "auroc@net:Hernia"[:5] + ":Hernia",
    ):
        assert one(f"{text}={value}", findings, other).status == "reproduced", text
    assert one("auroc:pleural thickening=0.5", findings).problem == ""
    assert one("auroc@OTHER NET=0.5", findings, other).problem == ""
    assert one("auroc@lung=0.5", findings, other).problem == ""
    missing = one("auroc:Nodule=0.5", findings, other)
    assert missing.status == "cannot be checked"
    assert "no predictions are called class Nodule; predictions: net, other-net [Lung]" in missing.problem
    assert "Hernia" in missing.problem


def test_the_other_class_of_two_is_the_other_score() -> None:
    """Precision of class 0."""
    scores = made([0.9, 0.8, 0.3, 0.4], [1, 0, 0, 1], classes=("benign", "malignant"))
    assert one("precision:benign=0.5", scores).status == "reproduced"
    assert one("sensitivity:benign=0.5", scores).status == "reproduced"
    assert one("sensitivity:malignant=0.5", scores).status == "reproduced"


def test_a_claim_without_a_target_is_tried_on_all_and_on_their_mean() -> None:
    """Seeds are often averaged."""
    sets = [binary(80, seed, name=f"seed{seed}") for seed in range(3)]
    values = [auroc(part.scores[:, 0], part.y if part.y is not None else []).value for part in sets]
    found = one(f"auroc={np.mean(values):.6f}", *sets)
    assert [match.where for match in found.matches] == ["mean over 3 predictions"]
    found = one(f"auroc={values[1]:.6f}", *sets)
    assert [match.where for match in found.matches] == ["seed1"]


def test_keys_of_a_table_that_name_nothing_are_left_out() -> None:
    """What a person types must fit."""
    scores = binary(80, name="m", task="A")
    target = {"cohort": "A", "tier": "primary"}
    assert search([Claim("auroc", 0.5, 1, False, "0.5", target, "table.csv")], [scores]).claims[0].problem == ""
    assert search([Claim("auroc", 0.5, 1, False, "0.5", target)], [scores]).claims[0].problem != ""
    known = [Claim("auroc", 0.5, 1, False, "0.5", {"cohort": name}, "table.csv") for name in ("A", "B")]
    assert [found.status for found in search(known, [scores]).claims] == ["not reproduced", "cannot be checked"]


@pytest.mark.parametrize(
    ("scores", "wanted"),
    [
        (made([0.1, 0.9], None), "has no labels"),
        (made([0.1, 0.9], [-1, -1]), "no row with a label and a score"),
        (made([np.nan, np.nan], [0, 1]), "no row with a label and a score"),
        (made([1, 5], [0, 1], scale=Scaled(Scale.RANKS, False, True, "whole numbers")), "whole numbers"),
        (made([1, 5], [0, 1], scale=Scaled(Scale.NONE, False, False, "text only")), "text only"),
        (made([0.1, 0.9], [0, 1], kind=None), "can't be told"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_checked_says_why(scores: PredictionSet, wanted: str) -> None:
    """No number is made up."""
    found = one("ece=0.1", scores)
    assert found.status == "cannot be checked"
    assert wanted in found.problem
    assert wanted in found.head


def test_one_class_alone_has_no_auroc() -> None:
    """Undefined, not 0.5."""
    assert "undefined" in one("auroc=0.5", made([0.1, 0.9], [1, 1])).problem
    assert one("ece=0.1").problem == "there are no predictions"


def test_the_result_is_json_and_escaped_lines() -> None:
    """NaN is null, control characters are escaped, nothing is lost."""
    scores = binary(60, name="bad\x1b[31m\nname")
    claims = [parse_claim(text) for text in ("ece=0.1", "auroc=0.7", "nll=0.5", "mce:9=0.1")]
    found = search(claims, [scores, multiclass(60)])
    assert isinstance(found, ClaimSearch)
    text = json.dumps(found.to_dict(), allow_nan=False)
    assert len(json.loads(text)["claims"]) == 4
    assert not any(char in line for line in found.lines() for char in "\x1b\n")
    assert found.summary.startswith("4 claims: ")
    assert search([], [scores]).lines() == []


def test_rows_without_label_or_score_are_left_out_and_never_class_0() -> None:
    """The value is that of the others."""
    scores = binary(100)
    assert scores.p is not None
    assert scores.y is not None
    p, y = np.concatenate((scores.p[:, 0], [0.5, np.nan])), np.concatenate((scores.y, [-1, 1]))
    value = ece(scores.p[:, 0], scores.y).value
    assert one(f"ece={value:.6f}", made(p, y)).status == "reproduced"


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_odd_predictions_give_an_answer_for_every_metric(kind: Kind) -> None:
    """Few rows, ties, missing scores, missing findings, one class: no error and no warning."""
    rng = np.random.default_rng(11)
    claims = [
        parse_claim(f"{metric}{of}=0.5")
        for metric in SYNONYMS
        for of in ("", ":1")[: 2 if metric in ("ece", "f1", "auroc") else 1]
    ]
    for n, k in ((0, 2), (1, 3), (9, 3)):
        p = np.round(rng.random((n, 1 if kind == "binary" else k)), 1)
        y = rng.integers(-1, 2, (n, k) if kind == "multilabel" else n)
        p[:1] = np.nan if n > 2 else 0.5
        y[1:3] = -1
        found = search(claims, [made(p, y, kind=kind, precision="float32")])
        assert len(found.claims) == len(claims)
        assert all(line for line in found.lines())
        json.dumps(found.to_dict(), allow_nan=False)


def test_sets_that_do_not_fit_their_labels_are_named() -> None:
    """One score for several classes, a label beyond the classes, a class without a score."""
    wide = made([[0.5, 0.5], [0.2, 0.8]], [0, 3], kind="multiclass")
    assert "labels beyond its 2 classes" in one("ece=0.1", wide).problem
    narrow = made([0.5, 0.8], [0, 1], kind="multiclass", classes=("a", "b"))
    assert "one score a row for several classes" in one("ece=0.1", narrow).problem
    single = made([[0.5], [0.8]], [[0], [1]], kind="multilabel", classes=("a", "b"))
    assert "no score for class b" in one("ece:b=0.1", single).problem
