"""The engine: orders the rules, hands each its facts, and turns what it returns into an outcome."""

import traceback
from collections.abc import Callable, Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

from protocol.findings import Finding, Level, NotApplicable, Outcome, RuleResult, Unverified
from protocol.rules import Rule, all_rules, facts_of, stage_of, title_of

HIDDEN_LABELS = "test labels are hidden: the host checks this rule"


class Facts:
    """What the rules may know: each fact is made once, on first use, and then stays the same.

    ``makers`` maps a fact's name to a function without arguments; ``missing`` maps the name of a fact that can't be
    had to the reason, which is then the reason why the rules that ask for it are skipped.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Any]], missing: Mapping[str, str] | None = None) -> None:
        self._makers = dict(makers)
        self._made: dict[str, Any] = {}
        self.missing = dict(missing or {})

    def get(self, name: str) -> Any:
        """The fact ``name``; KeyError for a name that nobody provides."""
        if name not in self._made:
            self._made[name] = self._makers[name]()
        return self._made[name]

    def made(self, name: str) -> Any:
        """The fact ``name`` if a rule asked for it, else None."""
        return self._made.get(name)


def run_rules(
    facts: Facts,
    waivers: Mapping[str, str],
    *,
    labels_hidden: bool = False,
    rules: Mapping[str, type[Rule]] | None = None,
    on_crash: Callable[[str, str], None] | None = None,
) -> tuple[RuleResult, ...]:
    """Run every rule on ``facts`` and return the results in order of ids.

    ``waivers`` maps rule id to the declared reason. ``labels_hidden`` makes every rule that reads test labels
    not-applicable. ``on_crash`` gets a rule's id and the traceback of a crash (for the log; never for participants).
    """
    rules = all_rules() if rules is None else rules
    results: dict[str, RuleResult] = {}
    graph = {rule_id: rule.requires & rules.keys() for rule_id, rule in rules.items()}
    for rule_id in TopologicalSorter(graph).static_order():
        outcome, reason, findings = _run_one(rules[rule_id], rule_id, facts, waivers, results, labels_hidden, on_crash)
        rule = rules[rule_id]
        results[rule_id] = RuleResult(
            rule=rule_id,
            slug=rule.slug,
            stage=stage_of(rule_id),
            level=rule.level,
            title=title_of(rule),
            mend=rule.mend,
            outcome=outcome,
            reason=reason,
            findings=findings,
            visibility="host" if rule.level is Level.HOST else "participant",
        )
    return tuple(results[rule_id] for rule_id in sorted(results))


def _run_one(
    rule: type[Rule],
    rule_id: str,
    facts: Facts,
    waivers: Mapping[str, str],
    results: Mapping[str, RuleResult],
    labels_hidden: bool,
    on_crash: Callable[[str, str], None] | None,
) -> tuple[Outcome, str, tuple[Finding, ...]]:
    if labels_hidden and rule.reads_test_labels:
        return Outcome.NOT_APPLICABLE, HIDDEN_LABELS, ()
    blocking = sorted(
        r
        for r in rule.requires
        if r in results and results[r].outcome in (Outcome.FAILED, Outcome.SKIPPED, Outcome.CRASHED)
    )
    if blocking:
        return Outcome.SKIPPED, f"needs {', '.join(blocking)} first", ()
    names = facts_of(rule)
    for name in names:
        if name in facts.missing:
            return Outcome.SKIPPED, facts.missing[name], ()
    try:
        said: Sequence[Finding] | NotApplicable | Unverified = rule.check(**{name: facts.get(name) for name in names})
    except Exception as error:  # our fault: an outcome of its own, never a pass
        if on_crash is not None:
            on_crash(rule_id, traceback.format_exc())
        return Outcome.CRASHED, f"{type(error).__name__} in our check", ()
    if isinstance(said, NotApplicable):
        return Outcome.NOT_APPLICABLE, said.reason, ()
    if isinstance(said, Unverified):
        return Outcome.UNVERIFIED, said.reason, ()
    findings = tuple(said)
    if all(finding.note for finding in findings):
        return Outcome.PASSED, "", findings
    if rule.level is Level.WAIVABLE and rule_id in waivers:
        return Outcome.WAIVED, waivers[rule_id], findings
    return Outcome.FAILED, "", findings
