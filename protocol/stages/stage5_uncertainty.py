"""Step 5: quantify uncertainty (protocol, 3.5)."""

from math import sqrt

from protocol.facts import ClaimCheck, Sql, Table
from protocol.findings import Finding, NotApplicable, counted
from protocol.rules import Result, Rule
from protocol.stages.stage1_splits import no_patients
from protocol.stages.stage4_metrics import SCORABLE, printed
from protocol.submission import Submission
from protocol.task import Task


class MVC501(Rule):
    """The bootstrap does not resample the clustering unit"""

    slug = "bootstrap-not-by-the-clustering-unit"
    why = "Patients, not images, are resampled, so that correlated images of one person stay together (protocol, 3.5)."
    mend = "Resample the unit of the task, and write uncertainty.unit so; patients of the split file are available."
    requires = frozenset({"MVC109"})

    @staticmethod
    def check(task: Task, record: Submission, splits: Table, sql: Sql) -> Result:
        if no_patients(record):
            known = sql("SELECT count(DISTINCT patient) FROM splits")[0][0]
            if task.clustering_unit != "patient" or not known:
                return NotApplicable("patient identifiers are unavailable: intervals are by image")
            saw = f"{counted(known, 'patient')}, whom the record calls unavailable"
            return [Finding(f"{splits.file}: patient_id", saw, "patient_ids: available, and patients resampled")]
        if record.uncertainty.unit == task.clustering_unit == "image" and record.splits.images_per_patient > 1:
            saw = "images are resampled although patients are known"
            return [Finding("task.yaml: clustering_unit", saw, "patient, unless the task says why", note=True)]
        if record.uncertainty.unit == task.clustering_unit:
            return []
        return [Finding("submission.yaml: uncertainty.unit", record.uncertainty.unit, task.clustering_unit)]


class MVC502(Rule):
    """The bootstrap has fewer than 1,000 resamples"""

    slug = "too-few-resamples"
    why = "The ends of a 95 % interval rest on the outer 2.5 % of the resamples (protocol, 3.5)."
    mend = "Use 1,000 resamples or more; 2,000 is the default."

    @staticmethod
    def check(record: Submission) -> Result:
        if record.uncertainty.resamples >= 1000:
            return []
        return [Finding("submission.yaml: uncertainty.resamples", str(record.uncertainty.resamples), "1000 or more")]


class MVC503(Rule):
    """A claimed interval differs from the recomputed one"""

    slug = "claimed-interval-differs"
    why = "Every reported value carries an interval, and it is the patient bootstrap's (protocol, 3.5)."
    mend = "Print the recomputed interval, or declare the method that gave yours."
    requires = SCORABLE | {"MVC501", "MVC502"}
    reads_test_labels = True

    @staticmethod
    def check(record: Submission, claim_checks: tuple[ClaimCheck, ...]) -> Result:
        claimed = [check for check in claim_checks if check.claim.interval is not None]
        if not claimed:
            return NotApplicable("no interval is claimed")
        found = []
        for check in claimed:
            where = f"submission.yaml: metrics.claims[{check.index}].interval, {check.claim.metric}"
            texts = check.claim.interval or ("", "")
            if check.lo is None or check.hi is None:
                found.append(Finding(where, f"undefined: {check.reason}", " to ".join(texts)))
                continue
            # Both bootstraps have Monte-Carlo error: the one with fewer draws sets the slack.
            draws = min(record.uncertainty.resamples, check.n_draws)
            allowed = 0.1 * sqrt(2000 / draws) * (check.hi - check.lo)
            ends = [(float(number), float(unit)) for number, unit in map(printed, texts)]
            off = [
                abs(end - ours) > allowed + 0.5 * unit
                for (end, unit), ours in zip(ends, (check.lo, check.hi), strict=True)
            ]
            if any(off):
                found.append(Finding(where, " to ".join(texts), f"{check.lo:.4f} to {check.hi:.4f}"))
        return found
