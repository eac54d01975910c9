"""The engine: order, outcomes, and the verdict that follows from them."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import protocol.rules
from protocol.engine import HIDDEN_LABELS, Facts, run_rules
from protocol.findings import Finding, Level, NotApplicable, Outcome, RuleResult, Status, Unverified, Verdict
from protocol.rules import Result, Rule

OFFENCE = [Finding("here", "this", "that")]


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules of these tests register themselves elsewhere."""
    monkeypatch.setattr(protocol.rules, "REGISTRY", {})


def rule(
    rule_id: str,
    check: Callable[..., Result],
    *,
    level: Level = Level.MUST,
    requires: tuple[str, ...] = (),
    labels: bool = False,
) -> type[Rule]:
    """A rule named ``rule_id``."""
    fields: dict[str, Any] = {
        "__doc__": "A title",
        "slug": f"slug-{rule_id[3:]}",
        "why": "Because.",
        "mend": "Mend it.",
        "level": level,
        "requires": frozenset(requires),
        "reads_test_labels": labels,
        "check": staticmethod(check),
    }
    return type(rule_id, (Rule,), fields)


def verdict_of(*rules: type[Rule], waivers: Mapping[str, str] | None = None, **options: Any) -> Verdict:
    """The verdict of ``rules``, on one fact called number."""
    facts = Facts({"number": lambda: 7}, {"letter": "the letter was lost"})
    results = run_rules(facts, waivers or {}, rules={r.__name__: r for r in rules}, **options)
    return Verdict("2026.1", "mine", "task", results)


def outcomes(verdict: Verdict) -> dict[str, str]:
    """Outcome by rule."""
    return {result.rule: result.outcome.value for result in verdict.results}


def passes() -> Result:
    return []


def fails() -> Result:
    return OFFENCE


def crashes() -> Result:
    raise ZeroDivisionError("secret of a participant")


def test_rules_run_after_those_that_they_require() -> None:
    ran: list[str] = []

    def noting(name: str) -> Callable[[], Result]:
        def check() -> Result:
            ran.append(name)
            return []

        return check

    verdict = verdict_of(
        rule("MVC101", noting("MVC101"), requires=("MVC301",)),
        rule("MVC201", noting("MVC201")),
        rule("MVC301", noting("MVC301"), requires=("MVC201",)),
    )
    assert ran == ["MVC201", "MVC301", "MVC101"]
    assert [result.rule for result in verdict.results] == ["MVC101", "MVC201", "MVC301"]
    assert verdict.status is Status.ACCEPTED


def test_a_failed_prerequisite_skips_all_that_follow() -> None:
    verdict = verdict_of(
        rule("MVC101", fails),
        rule("MVC102", passes, requires=("MVC101",)),
        rule("MVC103", passes, requires=("MVC102", "MVC104")),
        rule("MVC104", passes),
    )
    assert outcomes(verdict) == {"MVC101": "failed", "MVC102": "skipped", "MVC103": "skipped", "MVC104": "passed"}
    assert [result.reason for result in verdict.of(Outcome.SKIPPED)] == ["needs MVC101 first", "needs MVC102 first"]


def test_a_waived_prerequisite_lets_others_run() -> None:
    verdict = verdict_of(
        rule("MVC101", fails, level=Level.WAIVABLE),
        rule("MVC102", passes, requires=("MVC101",)),
        waivers={"MVC101": "too rare"},
    )
    assert outcomes(verdict) == {"MVC101": "waived", "MVC102": "passed"}
    assert verdict.results[0].reason == "too rare"
    assert verdict.status is Status.ACCEPTED_WITH_WAIVERS


def test_only_a_waivable_rule_is_waived_and_only_when_it_fails() -> None:
    verdict = verdict_of(
        rule("MVC101", fails),
        rule("MVC102", passes, level=Level.WAIVABLE),
        waivers={"MVC101": "please", "MVC102": "please"},
    )
    assert outcomes(verdict) == {"MVC101": "failed", "MVC102": "passed"}


def test_a_prerequisite_that_was_not_applicable_or_unverified_blocks_nothing() -> None:
    verdict = verdict_of(
        rule("MVC101", lambda: NotApplicable("one class")),
        rule("MVC102", lambda: Unverified("no logits")),
        rule("MVC103", passes, requires=("MVC101", "MVC102")),
    )
    assert outcomes(verdict) == {"MVC101": "not-applicable", "MVC102": "unverified", "MVC103": "passed"}
    assert [result.reason for result in verdict.results] == ["one class", "no logits", ""]
    assert verdict.status is Status.ACCEPTED


def test_a_crash_is_never_a_pass() -> None:
    told: list[tuple[str, str]] = []
    verdict = verdict_of(
        rule("MVC101", crashes),
        rule("MVC102", passes, requires=("MVC101",)),
        on_crash=lambda rule_id, trace: told.append((rule_id, trace)),
    )
    assert outcomes(verdict) == {"MVC101": "crashed", "MVC102": "skipped"}
    assert verdict.status is Status.UNDETERMINED
    assert verdict.exit_code == 3
    assert not verdict.accepted
    said = "MVC UNDETERMINED rules of ours did not run (MVC101); this is not the submission's fault"
    assert verdict.last_line == said
    assert "secret" not in json.dumps(verdict.to_dict())
    assert told[0][0] == "MVC101"
    assert "secret" in told[0][1]


def test_an_offence_counts_even_if_another_rule_crashed() -> None:
    verdict = verdict_of(rule("MVC101", crashes), rule("MVC102", fails), rule("MVC103", fails))
    assert verdict.status is Status.REJECTED
    assert verdict.exit_code == 1
    assert verdict.last_line == "MVC REJECTED MVC102 slug-102: here: this; mend: Mend it.; +1 more"


def test_a_fact_that_is_missing_skips_with_its_reason() -> None:
    verdict = verdict_of(rule("MVC101", lambda letter: OFFENCE), rule("MVC102", lambda number: []))
    assert outcomes(verdict) == {"MVC101": "skipped", "MVC102": "passed"}
    assert verdict.results[0].reason == "the letter was lost"
    assert (verdict.status, verdict.exit_code) == (Status.UNDETERMINED, 3)  # what was not looked at is no pass


def test_a_fact_that_nobody_makes_is_our_fault() -> None:
    verdict = verdict_of(rule("MVC101", lambda colour: []))
    assert outcomes(verdict) == {"MVC101": "crashed"}


def test_a_fact_is_made_once() -> None:
    made: list[int] = []
    facts = Facts({"number": lambda: made.append(1)})
    facts.get("number")
    facts.get("number")
    assert made == [1]


def test_hidden_labels_make_rules_that_read_them_not_applicable() -> None:
    rules = (rule("MVC107", fails, labels=True), rule("MVC108", fails, level=Level.NOTE))
    hidden = verdict_of(*rules, labels_hidden=True)
    assert outcomes(hidden) == {"MVC107": "not-applicable", "MVC108": "failed"}
    assert hidden.results[0].reason == HIDDEN_LABELS
    assert hidden.status is Status.ACCEPTED
    assert verdict_of(*rules).status is Status.REJECTED


@pytest.mark.parametrize("level", [Level.NOTE, Level.HOST])
def test_notes_and_evidence_for_the_host_never_reject(level: Level) -> None:
    verdict = verdict_of(rule("MVC101", fails, level=level))
    assert outcomes(verdict) == {"MVC101": "failed"}
    assert verdict.status is Status.ACCEPTED
    assert verdict.results[0].visibility == ("host" if level is Level.HOST else "participant")


def test_a_finding_that_is_a_note_does_not_fail_its_rule() -> None:
    note = Finding("here", "this", "that", note=True)
    verdict = verdict_of(rule("MVC101", lambda: [note]), rule("MVC102", lambda: [note, *OFFENCE]))
    assert outcomes(verdict) == {"MVC101": "passed", "MVC102": "failed"}
    assert verdict.results[0].findings == (note,)


@pytest.mark.parametrize(
    ("outcome", "status", "code", "start"),
    [
        (Outcome.PASSED, "accepted", 0, "MVC ACCEPTED mine"),
        (Outcome.WAIVED, "accepted with waivers", 0, "MVC ACCEPTED mine with waivers MVC101"),
        (Outcome.FAILED, "rejected", 1, "MVC REJECTED MVC101 a-slug: here: this; mend: Mend it."),
        (Outcome.CRASHED, "undetermined", 3, "MVC UNDETERMINED"),
        (Outcome.UNVERIFIED, "accepted", 0, "MVC ACCEPTED mine"),
        (Outcome.NOT_APPLICABLE, "accepted", 0, "MVC ACCEPTED mine"),
    ],
)
def test_line_code_and_document_agree(outcome: Outcome, status: str, code: int, start: str) -> None:
    result = RuleResult("MVC101", "a-slug", 1, Level.WAIVABLE, "A title", "Mend it.", outcome, "why", tuple(OFFENCE))
    verdict = Verdict("2026.1", "mine", "task", (result,), ("a note",), {"b": "2", "a": "1"})
    document = verdict.to_dict()
    assert (verdict.status.value, verdict.exit_code) == (status, code)
    assert (document["status"], document["exit_code"], document["last_line"]) == (status, code, verdict.last_line)
    assert verdict.last_line.startswith(start)
    assert json.loads(json.dumps(document)) == document
    assert document["rules"][0]["docs"] == "PROTOCOL.md#mvc101"
    assert list(document["digests"]) == ["a", "b"]


def test_what_is_printed_stays_in_one_line_and_short() -> None:
    finding = Finding("a\nb", "x" * 1000, "\x1b[31m\u202e\u2028", samples=tuple("abcdefghijklm"))
    assert finding.where == "a\\nb"
    assert len(finding.saw) == 400
    assert finding.wanted == "\\x1b[31m\\u202e\\u2028"
    assert len(finding.samples) == 10


@pytest.mark.parametrize("change", [{"slug": "Bad Slug"}, {"why": ""}, {"mend": ""}, {"__doc__": None}])
def test_a_rule_without_its_parts_is_refused(change: dict[str, Any]) -> None:
    parts = {
        "__doc__": "A title",
        "slug": "a-slug",
        "why": "Because.",
        "mend": "Mend it.",
        "check": staticmethod(passes),
    }
    with pytest.raises(AssertionError):
        type("MVC199", (Rule,), {**parts, **change})


def test_a_rule_is_named_once_by_an_id() -> None:
    rule("MVC101", passes)
    with pytest.raises(AssertionError, match="twice"):
        rule("MVC101", passes)
    with pytest.raises(AssertionError, match="named by its id"):
        rule("Rule1", passes)
