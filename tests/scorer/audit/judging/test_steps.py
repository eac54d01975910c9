"""Steps: every rule that can reject has an answer, and what was not seen is not met."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from protocol.findings import Level as Weight
from protocol.rules import all_rules, stage_of
from scorer.audit.judging.findings import findings_of
from scorer.audit.judging.measure import measure
from scorer.audit.judging.releases import Facts
from scorer.audit.judging.steps import CHECKS, UNSEEN, Answer, Item, steps_of
from scorer.audit.shapes import Assigned, Evidence, Finding, Level, Role, Scale, Scaled
from tests.scorer.audit.made import codes, drawn, evidence, prediction_set


def answers(made: Evidence, claims: tuple[int, int, int] = (0, 0, 0)) -> dict[str, Item]:
    measures = measure(made, most=50)
    steps = steps_of(Facts(made, measures, findings_of(made, measures), claims))
    assert [step.number for step in steps] == list(range(1, 8))
    return {item.rule: item for step in steps for item in step.items}


def test_every_rule_that_rejects_has_a_check_or_says_what_it_takes() -> None:
    wanted = {
        name for name, rule in all_rules().items() if stage_of(name) and rule.level in (Weight.MUST, Weight.WAIVABLE)
    }
    assert set(CHECKS) | set(UNSEEN) == wanted
    assert not set(CHECKS) & set(UNSEEN)


def test_bare_predictions_tell_little_and_nothing_is_met_by_silence() -> None:
    p, _ = drawn(50)
    made = answers(evidence(prediction_set(p, None, unit=None)))
    met = {rule for rule, item in made.items() if item.answer is Answer.MET}
    assert met == {"MVC401", "MVC402", "MVC405", "MVC406", "MVC704"}
    assert made["MVC101"].answer is Answer.CANNOT_TELL
    assert "--splits" in made["MVC101"].evidence


def test_splits() -> None:
    p, y = drawn(300)
    patient = np.arange(300) // 2
    names = tuple(f"p{i:03d}" for i in range(150))
    split, splits = codes(["train"] * 100 + ["val"] * 50 + ["calib"] * 50 + ["test"] * 50 + ["external"] * 50)
    one = prediction_set(p, y, cluster=patient, split=split)
    made = answers(evidence(one, clusters=names, split=splits, has_splits=True))
    for rule in ("MVC101", "MVC102", "MVC105", "MVC106", "MVC113", "MVC308", "MVC601", "MVC602"):
        assert made[rule].answer is Answer.MET, made[rule]
    moved = patient.copy()
    moved[100] = 0
    made = answers(evidence(replace(one, cluster=moved), clusters=names, split=splits))
    assert made["MVC101"].answer is Answer.NOT_MET
    assert "1 in train and val" in made["MVC101"].evidence
    assert made["MVC602"].answer is Answer.MET
    moved[299] = 0
    assert (
        answers(evidence(replace(one, cluster=moved), clusters=names, split=splits))["MVC602"].answer is Answer.NOT_MET
    )


def test_two_test_splits_are_no_leak() -> None:
    p, y = drawn(40)
    split, splits = codes(["Public", "Private"] * 20)
    one = prediction_set(p, y, cluster=np.arange(40) // 2, split=split)
    assert answers(evidence(one, split=splits))["MVC101"].answer is Answer.CANNOT_TELL


def test_seeds_calibrators_and_ragged_sets() -> None:
    p, y = drawn(80)
    sets = [
        prediction_set(drawn(80, i)[0], y, name=f"{c} {s}", model="m", seed=str(s), calibrator=c)
        for i, (c, s) in enumerate((c, s) for c in ("none", "temperature", "isotonic") for s in (1, 2))
    ]
    made = answers(evidence(*sets))
    for rule in ("MVC203", "MVC205", "MVC301", "MVC703"):
        assert made[rule].answer is Answer.MET, made[rule]
    short = prediction_set(p[:70], y[:70], name="short", model="m", seed="3", calibrator="temperature")
    assert answers(evidence(*sets, short))["MVC703"].answer is Answer.NOT_MET
    assert "none" in answers(evidence(*sets[2:]))["MVC301"].evidence.split("missing by name: ")[1]
    assert answers(evidence(sets[0]))["MVC203"].answer is Answer.NOT_MET
    twins = [sets[0], replace(sets[0], name="twin", seed="2")]
    assert answers(evidence(*twins))["MVC205"].answer is Answer.NOT_MET


def test_scales_and_repeated_units() -> None:
    p, y = drawn(60)
    bad = prediction_set(p, y, scale=Scaled(Scale.RANKS, False, True, "evenly spaced"))
    assert answers(evidence(replace(bad, p=None)))["MVC401"].answer is Answer.NOT_MET
    assert answers(evidence(prediction_set(p, y, unit=np.arange(60) // 2)))["MVC405"].answer is Answer.NOT_MET


def test_findings_about_files_do_not_judge_claimed_intervals() -> None:
    p, y = drawn(60)
    said = Finding(Level.WARNING, "patients-unknown", "rows are taken as independent", rule="MVC501")
    assert answers(evidence(prediction_set(p, y), findings=(said,)))["MVC501"].answer is Answer.CANNOT_TELL
    assert answers(evidence(prediction_set(p, y)))["MVC103"].answer is Answer.CANNOT_TELL


def test_labels_beside_scores_and_findings_with_a_rule() -> None:
    p, y = drawn(60)
    said = Finding(Level.WARNING, "personal-data", "a column named date of birth", rule="MVC704")
    made = replace(
        evidence(prediction_set(p, y), findings=(said,)),
        mapping={"made.csv": (Assigned(Role.LABEL, ("truth",), "name", "0 and 1"),)},
    )
    made = replace(made, names=replace(made.names, unit=pl.Series("unit", ["0" * 64] * 60)))
    found = answers(made)
    assert found["MVC409"].answer is Answer.CANNOT_TELL
    assert (found["MVC704"].answer, found["MVC704"].evidence) == (Answer.NOT_MET, "a column named date of birth")
    assert found["MVC103"].answer is Answer.MET


@pytest.mark.parametrize(
    ("claims", "answer"),
    [
        ((0, 0, 0), Answer.CANNOT_TELL),
        ((0, 0, 1), Answer.CANNOT_TELL),
        ((2, 0, 1), Answer.MET),
        ((2, 1, 0), Answer.NOT_MET),
    ],
)
def test_claims(claims: tuple[int, int, int], answer: Answer) -> None:
    p, y = drawn(60)
    assert answers(evidence(prediction_set(p, y)), claims)["MVC407"].answer is answer
