"""The seven steps of the protocol against released predictions: met, not met, or not to be told from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from protocol.findings import Level as Weight
from protocol.findings import counted, plain
from protocol.rules import all_rules, stage_of, title_of
from protocol.stages import STAGES
from scorer.audit.judging import releases
from scorer.audit.judging.releases import Facts
from scorer.audit.shapes import Finding, Level


class Answer(StrEnum):
    """What can be said of a rule, or of a step, from what was released."""

    MET = "met"
    NOT_MET = "not met"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True)
class Item:
    """One rule of the protocol: the answer with its evidence in words (escaped)."""

    rule: str
    slug: str
    title: str
    answer: Answer
    evidence: str


@dataclass(frozen=True)
class Step:
    """A step of the protocol. Not met where one rule is not; met only where all are."""

    number: int
    name: str
    items: tuple[Item, ...]

    @property
    def answer(self) -> Answer:
        """The answer of the step."""
        answers = {item.answer for item in self.items}
        if Answer.NOT_MET in answers:
            return Answer.NOT_MET
        return Answer.MET if answers == {Answer.MET} else Answer.CANNOT_TELL

    def count(self, answer: Answer) -> int:
        """How many rules have ``answer``."""
        return sum(item.answer is answer for item in self.items)


# Why predictions can't show a rule, where it is not looked at.
RECORD = "takes the submission's record (submission.yaml)"
UNSEEN = {
    "MVC104": "takes identifiers that claim to be hashed",
    "MVC111": "takes a published split to compare with",
    "MVC112": RECORD,
    "MVC114": RECORD,
    "MVC201": "takes the training recipe",
    "MVC204": "takes how the model was selected",
    "MVC206": "takes the configuration and its digest",
    "MVC207": "takes what the weights were trained on",
    "MVC302": "takes what the calibrators were fitted on",
    "MVC303": "takes the calibrators' parameters and the calibration rows",
    "MVC305": "takes the calibrators' parameters",
    "MVC306": "takes the calibrators' parameters",
    "MVC307": "takes the calibrators' parameters",
    "MVC309": "takes the folds that calibrators were fitted on",
    "MVC310": "takes the calibrators' parameters",
    "MVC408": "takes claims with bins and reading; give them with --claim",
    "MVC409": "is about submissions: labels beside the scores are no fault of a release",
    "MVC501": "takes claimed intervals and how they were made",
    "MVC502": "takes claimed intervals and how they were made",
    "MVC503": "takes claimed intervals and how they were made",
    "MVC604": "takes the declaration made before test labels were read",
    "MVC606": "takes how each site labels",
    "MVC607": RECORD,
    "MVC701": "takes the licence",
    "MVC702": "takes the released artefacts and their digests",
    "MVC705": "takes where code and predictions lie",
}

# Of what is claimed; findings about the files alone don't answer them.
CLAIMED = ("MVC501", "MVC502", "MVC503")
Check = Callable[[Facts], tuple[bool | None, str]]
CHECKS: dict[str, Check] = {
    "MVC101": releases.patients_apart, "MVC102": releases.units_apart, "MVC103": releases.hashed,
    "MVC105": releases.calibration_split, "MVC106": releases.test_split, "MVC107": releases.classes_present,
    "MVC108": releases.labels_in_classes, "MVC109": releases.patients_known, "MVC110": releases.patients_plausible,
    "MVC113": releases.development_rows, "MVC202": releases.seeds_named, "MVC203": releases.several_seeds,
    "MVC205": releases.seeds_differ, "MVC301": releases.reference_calibrators, "MVC308": releases.calibration_rows,
    "MVC401": releases.probabilities, "MVC402": releases.sum_to_one, "MVC403": releases.predictions_complete,
    "MVC404": releases.units_known, "MVC405": releases.once_each, "MVC406": releases.class_counts,
    "MVC407": releases.claims_follow, "MVC601": releases.external_site,
    "MVC602": releases.external_apart, "MVC603": releases.subgroups, "MVC605": releases.sites_apart,
    "MVC703": releases.rectangular, "MVC704": releases.no_personal_data,
}  # fmt: skip


def steps_of(facts: Facts) -> tuple[Step, ...]:
    """The answers to every rule of the steps that can reject a submission.

    A finding that bears on a rule and is more than a note makes it not met.
    """
    against: dict[str, list[Finding]] = {}
    for finding in facts.findings:
        if finding.rule and finding.level is not Level.NOTE:
            against.setdefault(finding.rule, []).append(finding)
    items: dict[int, list[Item]] = {number: [] for number in STAGES if number}
    for name, rule in all_rules().items():
        number = stage_of(name)
        if number not in items or rule.level not in (Weight.MUST, Weight.WAIVABLE):
            continue
        answer, evidence = _answered(name, facts, against.get(name, ()))
        items[number].append(Item(name, rule.slug, title_of(rule), answer, plain(evidence, 500)))
    return tuple(Step(number, STAGES[number], tuple(own)) for number, own in items.items())


def _answered(name: str, facts: Facts, against: Sequence[Finding]) -> tuple[Answer, str]:
    met, evidence = CHECKS[name](facts) if name in CHECKS else (None, UNSEEN.get(name, RECORD))
    if against and met is not False and name not in CLAIMED:
        more = f"; and {counted(len(against) - 1, 'more finding')}" if len(against) > 1 else ""
        return Answer.NOT_MET, against[0].title + more
    if met is None:
        return Answer.CANNOT_TELL, evidence
    return (Answer.MET if met else Answer.NOT_MET), evidence
