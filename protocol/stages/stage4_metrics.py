"""Step 4: probabilities that can be scored, and claims that hold (protocol, 3.4)."""

import difflib
from collections.abc import Sequence
from decimal import Decimal

from protocol.catalogue import COVERAGES, Metric, catalogue
from protocol.facts import ClaimCheck, Sql, Table
from protocol.findings import Finding, Level, NotApplicable, counted
from protocol.rules import Result, Rule
from protocol.stages.stage0_intake import Problems, findings_for
from protocol.stages.stage1_splits import EVALUATED
from protocol.submission import Claim, Submission
from protocol.tables import OUTCOME_NAMES, bare
from protocol.task import Task

# A claim is recomputed only where every run has one row an evaluated image and every slice is there.
SCORABLE = frozenset(
    {
        "MVC102", "MVC106", "MVC108", "MVC114", "MVC202", "MVC401", "MVC402", "MVC403", "MVC405", "MVC408", "MVC602",
        "MVC603", "MVC607", "MVC703",
    }
)  # fmt: skip
FEW_EVENTS = 100  # Van Calster et al. 2016, 10.1016/j.jclinepi.2015.12.005


class MVC401(Rule):
    """A probability is not a finite number from 0 to 1"""

    slug = "probability-not-finite"
    why = "NaN ranks above every number and infinity has no likelihood: both would score, and wrongly (protocol, 3.4)."
    mend = "Write each probability as a finite number from 0 to 1, without a negative zero."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("probability-not-finite", problems)


class MVC402(Rule):
    """The probabilities of a row do not sum to one"""

    slug = "probabilities-do-not-sum-to-one"
    why = "Proper scores of a vector that is no distribution mean nothing (protocol, 3.4)."
    mend = "Give the softmax output of the whole vector; more digits if it was rounded."
    requires = frozenset({"MVC401"})

    @staticmethod
    def check(task: Task, problems: Problems) -> Result:
        if task.kind != "multiclass":
            return NotApplicable(f"rows of a {task.kind} task need not sum to one")
        return findings_for("probabilities-do-not-sum-to-one", problems)


class MVC403(Rule):
    """A test or external image is missing from every run"""

    slug = "test-image-missing"
    why = "Leaving hard cases out is the oldest way to a good number (protocol, 3.1: identical cases)."
    mend = "Predict every test and external image of the split file."

    @staticmethod
    def check(splits: Table, predictions: Table, sql: Sql) -> Result:
        rows = sql(
            f"""SELECT image_id FROM ({EVALUATED}) AS wanted
            ANTI JOIN (SELECT DISTINCT image FROM predictions) AS predicted USING (image)
            JOIN images USING (image) ORDER BY image_id"""
        )
        if not rows:
            return []
        samples = tuple(image for (image,) in rows)
        return [
            Finding(
                predictions.file,
                f"{counted(len(rows), 'image')} missing: {samples[0]}",
                "every test and external image",
                len(rows),
                samples,
            )
        ]


class MVC404(Rule):
    """A predicted image is not in the split file"""

    slug = "unknown-image"
    why = "What is not in the split file belongs to no split, and can't be scored (protocol, 3.1)."
    mend = "Use the identifiers of the split file, byte for byte."

    @staticmethod
    def check(splits: Table, predictions: Table, sql: Sql) -> Result:
        rows = sql(
            """SELECT image_id, count(*) FROM predictions JOIN images USING (image)
            WHERE image NOT IN (SELECT image FROM splits) GROUP BY image_id ORDER BY image_id"""
        )
        if not rows:
            return []
        samples = tuple(f"image {image}, {n} rows" for image, n in rows)
        saw = f"{counted(len(rows), 'unknown image')}: {samples[0]}"
        return [Finding(predictions.file, saw, "images of the split file", len(rows), samples)]


class MVC405(Rule):
    """An image is predicted twice in one run"""

    slug = "duplicate-prediction"
    why = "A doubled row counts double, and two values for one image are a choice made later."
    mend = "Keep one row per image, model, seed and calibrator."

    @staticmethod
    def check(predictions: Table, sql: Sql) -> Result:
        rows = sql(
            """SELECT image_id, model, seed, calibrator, n FROM (
                SELECT run, image, count(*) AS n FROM predictions GROUP BY run, image HAVING count(*) > 1)
            JOIN runs USING (run) JOIN images USING (image) ORDER BY ALL"""
        )
        if not rows:
            return []
        samples = tuple(f"image {i}, model {m}, seed {s}, calibrator {c}: {n} rows" for i, m, s, c, n in rows)
        return [
            Finding(
                predictions.file,
                f"{counted(len(rows), 'doubled row')}: {samples[0]}",
                "one row an image and run",
                len(rows),
                samples,
            )
        ]


class MVC406(Rule):
    """The number of probability columns differs from the number of classes"""

    slug = "class-count-differs"
    why = "Columns stand for the declared classes in their order; one too few shifts all others."
    mend = "Write a column per declared class (binary: p_1 alone)."

    @staticmethod
    def check(problems: Problems) -> Result:
        return findings_for("class-count-differs", problems)


class MVC407(Rule):
    """A claimed value differs from the recomputed one"""

    slug = "claim-differs"
    why = "Per-image predictions are released so that a reader can compute the number again (protocol, 3.7)."
    mend = "Print the recomputed value, or correct the definition of the claim."
    requires = SCORABLE
    reads_test_labels = True

    @staticmethod
    def check(record: Submission, claim_checks: tuple[ClaimCheck, ...]) -> Result:
        if not record.metrics.claims:
            return NotApplicable("no claims are made")
        found = []
        for check in claim_checks:
            where = f"submission.yaml: metrics.claims[{check.index}], {check.claim.metric}"
            if check.value is None:
                found.append(Finding(where, f"undefined: {check.reason}", check.claim.value))
            elif not same_when_printed(check.claim.value, check.value):
                found.append(Finding(where, check.claim.value, _as_printed(check.claim.value, check.value)))
        return found


def printed(text: str) -> tuple[Decimal, Decimal]:
    """Value and unit of the last printed digit; percent is turned into a fraction."""
    number = Decimal(text.rstrip("%"))
    exponent = number.as_tuple().exponent
    unit = Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)
    scale = Decimal("0.01") if text.endswith("%") else Decimal(1)
    return number * scale, unit * scale


def same_when_printed(text: str, value: float) -> bool:
    """True when ``text`` is a rounding of ``value``, half up or half even, at the printed digits."""
    number, unit = printed(text)
    # 1e-9 of a unit: the recomputed value is a float that may sit beside the exact half.
    return abs(number - Decimal(value)) <= unit * (Decimal("0.5") + Decimal("1e-9"))


def _as_printed(text: str, value: float) -> str:
    _, unit = printed(text)
    shown = Decimal(value).quantize(unit)
    return f"{shown.scaleb(2)}%" if text.endswith("%") else str(shown)


class MVC408(Rule):
    """A claim lacks what defines it"""

    slug = "claim-undefined"
    why = "An ECE without its bins and reading is not one number (protocol, 1 and 2.1)."
    mend = (
        "State metric, slice, run, class, and for binned metrics bins, binning and reading, as this edition has them."
    )

    @staticmethod
    def check(task: Task, record: Submission) -> Result:
        metrics = catalogue(task.kind)
        found = []
        for index, claim in enumerate(record.metrics.claims):
            lacking = _lacking(claim, metrics, task, record)
            if lacking:
                where = f"submission.yaml: metrics.claims[{index}], {claim.metric}"
                found.append(Finding(where, "; ".join(lacking), "a full definition", len(lacking), tuple(lacking)))
        return found


def _lacking(claim: Claim, metrics: dict[str, Metric], task: Task, record: Submission) -> list[str]:
    metric = metrics.get(claim.metric)
    if metric is None:
        near = difflib.get_close_matches(claim.metric, metrics, n=2, cutoff=0.7)
        meant = f"; near it: {', '.join(near)}" if near else ""
        return [f"metric {claim.metric} is not one of PROTOCOL.md, section 10{meant}"]
    if claim.metric.startswith("kappa_quadratic") and not task.ordinal:
        return [f"{claim.metric} is for ordinal classes, and the task's are not"]
    lacking = []
    if metric.bins:
        lacking += _differs("bins", claim.bins, metric.bins)
        lacking += _differs("binning", claim.binning, (metric.binning,))
        lacking += _differs("reading", claim.reading, (metric.reading,))
    if metric.cutoff is not None:
        lacking += _differs("cutoff", claim.cutoff, task.thresholds if metric.cutoff == "threshold" else COVERAGES)
    elif claim.cutoff is not None:
        lacking.append(f"{claim.metric} has no threshold or coverage")
    if claim.slice is None:
        lacking.append("no slice")
    elif claim.slice not in _slices(task, record):
        lacking.append(f"slice {claim.slice} is not one of {', '.join(_slices(task, record))}")
    if metric.per_class and claim.class_ not in task.classes:
        lacking.append("no class" if claim.class_ is None else f"class {claim.class_} is not declared")
    if not metric.per_class and claim.class_ is not None:
        lacking.append(f"{claim.metric} has no class")
    runs = record.runs
    if not any((claim.model, claim.calibrator) == (model, calibrator) for model, _, calibrator in runs):
        lacking.append(f"model {claim.model} with calibrator {claim.calibrator} is not declared")
    elif claim.seed != "mean" and (claim.model, claim.seed, claim.calibrator) not in runs:
        lacking.append(f"seed {claim.seed} is not declared")
    return lacking


def _differs(name: str, stated: object, wanted: Sequence[object]) -> list[str]:
    """What is wrong with a part of a claim's definition, if anything."""
    if stated is None:
        return [f"no {name}"]
    if stated in wanted:
        return []
    return [f"{name} {stated}, where this edition and task have {' or '.join(map(str, wanted)) or 'none'}"]


def _slices(task: Task, record: Submission) -> list[str]:
    """Slices as claims write them: ``test``, ``external=<site>``, ``<column>=<level>``."""
    sites = [f"external={site.name}" for site in record.shift.external]
    return ["test", *sites, *(f"{group.column}={level}" for group in record.shift.subgroups for level in group.levels)]


class MVC409(Rule):
    """A label or an outcome stands in the predictions"""

    slug = "label-or-outcome-in-predictions"
    why = "Labels come from the split file or from the host, never from the submitter (protocol, 3.1)."
    mend = "Drop the column."

    @staticmethod
    def check(predictions: Table) -> Result:
        named = [name for name in predictions.columns if bare(name) in OUTCOME_NAMES]
        return [Finding(f"{predictions.file}: {name}", "a label column", "no labels in predictions") for name in named]


class MVC410(Rule):
    """The confidence of a run is constant or saturated"""

    slug = "degenerate-confidence"
    level = Level.NOTE
    why = "A constant or one-hot confidence ranks nothing and tells a clinician nothing (protocol, 1)."
    mend = "Check that probabilities, not classes or clipped scores, were written."
    requires = frozenset({"MVC401"})

    @staticmethod
    def check(task: Task, splits: Table, predictions: Table, sql: Sql) -> Result:
        columns = task.probability_columns
        constant = " AND ".join(f"min({name}) = max({name})" for name in columns)
        saturated = " AND ".join(f"least({name}, 1 - {name}) <= 1e-6" for name in columns)
        rows = sql(
            f"""SELECT model, seed, calibrator, still, share FROM (
                SELECT run, ({constant}) AS still, avg(CASE WHEN {saturated} THEN 1 ELSE 0 END) AS share
                FROM predictions SEMI JOIN ({EVALUATED}) AS wanted USING (image) GROUP BY run)
            JOIN runs USING (run) WHERE still OR share > 0.99 ORDER BY ALL"""
        )
        return [
            Finding(
                f"{predictions.file}: model {model}, seed {seed}, calibrator {calibrator}",
                "constant" if still else f"{share:.1%} of rows saturated",
                "graded probabilities",
            )
            for model, seed, calibrator, still, share in rows
        ]


class MVC411(Rule):
    """A class has fewer than 100 events or non-events in test"""

    slug = "few-events"
    level = Level.NOTE
    why = "With few events slope and binned errors are unstable (protocol, 2.3)."
    mend = "Read the intervals, not the points; enlarge the test split where you can."
    requires = frozenset({"MVC106", "MVC108"})
    reads_test_labels = True

    @staticmethod
    def check(task: Task, splits: Table, sql: Sql) -> Result:
        few = []
        for k, label in enumerate(task.classes):
            if task.kind == "binary" and k == 0:
                continue
            column = f"label_{k}" if task.kind == "multilabel" else "label"
            event = 1 if task.kind == "multilabel" else k
            events, rest = sql(
                f"""SELECT count(*) FILTER ({column} = ?), count(*) FILTER ({column} <> ?)
                FROM splits WHERE split = 'test'""",
                (event, event),
            )[0]
            if min(events, rest) < FEW_EVENTS:
                few.append(f"{label}: {events} events, {rest} non-events")
        if not few:
            return []
        return [
            Finding(
                splits.file,
                f"{counted(len(few), 'class', 'classes')} with few: {few[0]}",
                "100 of each",
                len(few),
                tuple(few),
            )
        ]
