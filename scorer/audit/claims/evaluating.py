"""All definitions of a metric on one subject."""

import numpy as np

from scorer.audit.claims.calibration import METRICS, all_errors, calibration
from scorer.audit.claims.decisions import OF, decisions, over_findings
from scorer.audit.claims.definition import Batch
from scorer.audit.claims.proper import brier, nll
from scorer.audit.claims.ranking import auprc, auroc
from scorer.audit.claims.subject import Subject
from scorer.audit.shapes import Floats

BY_ORDER = {"auroc": auroc, "auprc": auprc}  # need no probabilities
BY_LOSS = {"brier": brier, "nll": nll}


class Evaluated:
    """A subject, and what was computed of it so far."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self._batches: dict[str, Batch] = {}
        self._errors: Floats | None = None

    def of(self, metric: str) -> Batch | str:
        """The definitions of ``metric`` with their values, or why there are none."""
        if metric not in self._batches:
            found = self._compute(metric)
            if isinstance(found, str):
                return found
            self._batches[metric] = found
        return self._batches[metric]

    def _compute(self, metric: str) -> Batch | str:
        subject = self.subject
        if metric in BY_ORDER:
            return BY_ORDER[metric](subject)
        if metric in OF:
            found = decisions(metric, subject)
            if subject.kind == "multilabel":
                more = over_findings(metric, subject)
                found = Batch(found.definitions + more.definitions, np.concatenate((found.values, more.values)))
            return found if len(found.values) else f"{metric} needs decisions. {subject.why}"
        if subject.p is None:
            return f"{metric} needs probabilities. {subject.why}"
        if metric in BY_LOSS:
            return BY_LOSS[metric](subject)
        assert metric in METRICS
        if self._errors is None:
            self._errors = all_errors(subject)
        return calibration(metric, subject.kind, self._errors)
