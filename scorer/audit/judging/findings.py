"""All findings of an audit in order: what understanding saw, then the scores, then what lies across sets."""

from collections.abc import Sequence

from scorer.audit.judging.across import across
from scorer.audit.judging.measure import Measures
from scorer.audit.judging.scores import of_scores
from scorer.audit.shapes import ORDER, Evidence, Finding


def findings_of(evidence: Evidence, measures: Measures, more: Sequence[Finding] = ()) -> tuple[Finding, ...]:
    """Heaviest first, in the order found within a level; ``more`` are those of the split lists."""
    found = [*evidence.findings, *more, *of_scores(evidence, measures), *across(evidence, measures)]
    return tuple(sorted(found, key=lambda finding: ORDER.index(finding.level)))
