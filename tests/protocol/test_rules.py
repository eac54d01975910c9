"""Every rule: it passes on a good submission, one mutation makes it fire alone, and its message is pinned.

Pin messages and registry anew with ``MVC_PIN=1 python -m pytest tests/protocol/test_rules.py``, and read the diff.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from protocol.findings import Level, Outcome, Status, Verdict
from protocol.rules import all_rules, title_of
from protocol.types import Kind
from scorer.check import check
from scorer.intake import jail
from submission.writing import task_from
from tests.builders import Draft, write
from tests.mutations.registry import Base, Mutation, all_mutations
from tests.referee import quick_check, rejecting, result_of

GOLDEN = Path(__file__).parents[1] / "golden"
MESSAGES = GOLDEN / "messages.json"
RULES = GOLDEN / "rules.json"
PIN = os.environ.get("MVC_PIN") == "1"
REASON = "declared before the analysis: it can't be met here"
LAW = {
    0: range(1, 19),
    1: range(1, 15),
    2: range(1, 8),
    3: range(1, 12),
    4: range(1, 12),
    5: range(1, 4),
    6: range(1, 8),
    7: range(1, 6),
}
IDS = [f"MVC{stage}{number:02}" for stage, numbers in LAW.items() for number in numbers]
WAIVABLE = [m for m in all_mutations().values() if all_rules()[m.rule].level is Level.WAIVABLE]


@pytest.fixture(scope="module")
def pinned() -> Iterator[dict[str, Any]]:
    """The pinned messages; written back when they are pinned anew."""
    messages: dict[str, Any] = {} if PIN else json.loads(MESSAGES.read_text(encoding="utf-8"))
    yield messages
    if PIN:
        _pin(MESSAGES, messages)


def _pin(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def _changed(mutation: Mutation) -> Draft:
    draft = mutation.base(mutation.kind)
    mutation.change(draft)
    return draft


def _verdict(mutation: Mutation, draft: Draft, folder: Path) -> Verdict:
    path = mutation.pack(write(draft, folder / "bundle"))
    if mutation.disk is None:
        return quick_check(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jail, "DISK", mutation.disk)
        return check(path)


def _message(verdict: Verdict, rule: str, task: Mapping[str, Any]) -> dict[str, Any]:
    """What is pinned; digests are named, since another writer would make other bytes and a new field another task."""
    result = next(entry for entry in verdict.to_dict()["rules"] if entry["rule"] == rule)
    text = json.dumps({name: result[name] for name in ("outcome", "reason", "findings")})
    for name, digest in {**verdict.digests, "the task": task_from(task).digest}.items():
        text = text.replace(digest, f"<digest of {name}>")
    message: dict[str, Any] = json.loads(text)
    return message


@pytest.mark.parametrize("mutation", all_mutations().values(), ids=lambda m: m.key)
def test_a_mutation_makes_its_rule_fire_alone(
    mutation: Mutation,
    tmp_path: Path,
    good_verdict: Callable[[Base, Kind], Verdict],
    pinned: dict[str, Any],
) -> None:
    good = good_verdict(mutation.base, mutation.kind)
    assert good.status is Status.ACCEPTED, good.last_line
    assert result_of(good, mutation.rule).outcome is mutation.good
    assert not result_of(good, mutation.rule).findings

    draft = _changed(mutation)
    verdict = _verdict(mutation, draft, tmp_path)
    result = result_of(verdict, mutation.rule)
    assert result.outcome is mutation.outcome, f"{result.reason}; {verdict.last_line}"
    assert not verdict.of(Outcome.CRASHED)
    rejects = mutation.outcome is Outcome.FAILED and result.level in (Level.MUST, Level.WAIVABLE)
    assert rejecting(verdict) == ([mutation.rule] if rejects else [])
    assert verdict.exit_code == (1 if rejects else 0)
    message = _message(verdict, mutation.rule, draft.task)
    assert message == pinned.setdefault(mutation.key, message if PIN else None)


@pytest.mark.parametrize("mutation", WAIVABLE, ids=lambda m: m.key)
def test_a_waiver_is_an_outcome_of_its_own(mutation: Mutation, tmp_path: Path) -> None:
    draft = _changed(mutation)
    draft.record["waivers"] = [{"rule": mutation.rule, "reason": REASON}]
    verdict = _verdict(mutation, draft, tmp_path)
    if mutation.name == "one_patient":  # once the made-up column is waived, the overlap itself is seen
        assert rejecting(verdict) == ["MVC101", "MVC602"]
        return
    result = result_of(verdict, mutation.rule)
    assert (result.outcome, result.reason) == (Outcome.WAIVED, REASON)
    assert result.findings
    assert verdict.status is Status.ACCEPTED_WITH_WAIVERS, verdict.last_line
    assert verdict.exit_code == 0
    assert verdict.last_line.endswith(f"with waivers {mutation.rule}")


def test_every_rule_of_the_law_is_there() -> None:
    assert list(all_rules()) == IDS


def test_every_rule_has_a_mutation_and_a_pinned_message(pinned: dict[str, Any]) -> None:
    assert {mutation.rule for mutation in all_mutations().values()} == set(IDS)
    if not PIN:
        assert sorted(pinned) == sorted(all_mutations())


def test_the_registry_changes_only_on_purpose() -> None:
    registry = {
        rule_id: {
            "slug": rule.slug,
            "level": rule.level.value,
            "title": title_of(rule),
            "why": rule.why,
            "mend": rule.mend,
            "requires": sorted(rule.requires),
            "reads_test_labels": rule.reads_test_labels,
        }
        for rule_id, rule in all_rules().items()
    }
    if PIN:
        _pin(RULES, registry)
    assert registry == json.loads(RULES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("rule_id", IDS)
def test_a_rule_says_what_why_and_how_to_mend(rule_id: str) -> None:
    rule = all_rules()[rule_id]
    for sentence in (rule.why, rule.mend):
        assert sentence.endswith(".")
        assert sentence[0].isupper()
    assert not title_of(rule).endswith(".")
    assert rule.requires <= set(IDS) - {rule_id}


def test_slugs_are_distinct() -> None:
    assert len({rule.slug for rule in all_rules().values()}) == len(IDS)
