"""Step 3: recalibrate on the reserved split (protocol, 3.3)."""

from protocol.calibrators import FittedCalibrator
from protocol.facts import Peeking, Problem, Sql, Table, Verification
from protocol.findings import Finding, Level, NotApplicable, Unverified, counted
from protocol.rules import Result, Rule
from protocol.submission import NON_PARAMETRIC, Submission
from protocol.task import Task

NO_MAPS = NotApplicable("no calibrator but none is declared")
# What a refit and a second application read must be in order first.
READABLE = frozenset({"MVC302", "MVC308", "MVC310", "MVC401", "MVC402", "MVC405"})


def _maps(record: Submission) -> bool:
    """True when a calibrator other than ``none`` is declared."""
    return any(method.family != "none" for method in record.calibration.methods)


def _verified(slug: str, file: str, record: Submission, verification: Verification) -> Result:
    """What the referee's refit and second application found that the rule with this slug owns."""
    if not _maps(record):
        return NO_MAPS
    found = [_finding(file, problem) for problem in verification.problems if problem.offence == slug]
    if not found and (reasons := verification.unverified.get(slug)):
        return Unverified("; ".join(reasons))
    return [*found, *(_finding(file, note, True) for note in verification.notes if note.offence == slug)]


def _finding(file: str, problem: Problem, note: bool = False) -> Finding:
    where = f"{file}: {problem.where}"
    return Finding(where, problem.saw, problem.wanted, problem.count, problem.samples, note)


class MVC301(Rule):
    """A reference calibrator is missing"""

    slug = "reference-calibrator-missing"
    level = Level.WAIVABLE
    why = "None, temperature scaling and one non-parametric method are the common reference points (protocol, 3.3)."
    mend = "Add methods none, temperature and isotonic, or waive this with the reason."

    @staticmethod
    def check(record: Submission) -> Result:
        families = {method.family for method in record.calibration.methods}
        missing = [] if any(m.name == "none" and m.family == "none" for m in record.calibration.methods) else ["none"]
        if "temperature" not in families:
            missing.append("temperature")
        if not families & set(NON_PARAMETRIC):
            missing.append("a non-parametric one")
        if not missing:
            return []
        where = "submission.yaml: calibration.methods"
        return [Finding(where, f"missing: {', '.join(missing)}", "none, temperature, one non-parametric", len(missing))]


class MVC302(Rule):
    """A calibrator was fitted off the calibration split"""

    slug = "calibrator-fitted-off-calibration"
    why = (
        "Parameters tuned on validation or test data make the reported calibration optimistic (protocol, 3.1 and 3.3)."
    )
    mend = "Fit on calib only; with cross_fit on the pooled out-of-fold train rows only."

    @staticmethod
    def check(record: Submission) -> Result:
        wanted = "train" if record.calibration.cross_fit is not None else "calib"
        if record.calibration.fitted_on == wanted:
            return []
        return [Finding("submission.yaml: calibration.fitted_on", record.calibration.fitted_on, wanted)]


class MVC303(Rule):
    """The calibrator is not what its declared objective gives on the calibration split"""

    slug = "calibrator-not-reproducible"
    why = "A calibrator that its own objective does not give was fitted on something else (protocol, 3.3)."
    mend = "Release the uncalibrated calib rows that the calibrator was fitted on, and declare its full objective."

    requires = READABLE | {"MVC108"}

    @staticmethod
    def check(record: Submission, verification: Verification) -> Result:
        return _verified(MVC303.slug, record.calibration.parameters, record, verification)


class MVC304(Rule):
    """The calibrator matches the optimum on the test set"""

    slug = "calibrator-matches-test-optimum"
    level = Level.HOST
    why = "A map that fits test better than calib was tuned on test (protocol, 3.1)."
    mend = "Fit on calib only."
    reads_test_labels = True
    requires = READABLE | {"MVC107", "MVC108"}

    @staticmethod
    def check(record: Submission, predictions: Table, peeking: tuple[Peeking, ...]) -> Result:
        if not _maps(record):
            return NO_MAPS
        if not peeking:
            return NotApplicable("every calibrator was verified")
        if all(seen.reason for seen in peeking):
            return Unverified(peeking[0].reason)
        return [
            Finding(
                f"{predictions.file}: calibrator {seen.calibrator}, model {seen.model}",
                f"evidence {seen.evidence:.3g} of tuning on test, whose optimum is {seen.gap:.2f} standard errors off",
                f"below {seen.limit:.3g}, reached by chance in 1 % of submissions at most",
            )
            for seen in peeking
            if seen.evidence >= seen.limit
        ]


class MVC305(Rule):
    """A test or external row is not what the frozen calibrator makes of the uncalibrated row"""

    slug = "frozen-calibrator-not-applied"
    why = "Post-hoc calibrators are fitted and frozen (protocol, 3.3)."
    mend = "Apply the map of calibrators.json to every row."

    requires = READABLE

    @staticmethod
    def check(record: Submission, predictions: Table, verification: Verification) -> Result:
        return _verified(MVC305.slug, predictions.file, record, verification)


class MVC306(Rule):
    """A site or subgroup follows a calibrator of its own"""

    slug = "refitted-under-shift"
    why = "Step 6 repeats the evaluation without refitting the calibrators (protocol, 3.6)."
    mend = "Apply one frozen map to test and to every site and subgroup."

    requires = READABLE

    @staticmethod
    def check(record: Submission, predictions: Table, verification: Verification) -> Result:
        return _verified(MVC306.slug, predictions.file, record, verification)


class MVC307(Rule):
    """A map that promises to be monotone is not"""

    slug = "map-not-monotone"
    why = "Temperature, Platt, beta and isotonic maps keep the order of scores (protocol, 2.2)."
    mend = "Correct the map, or declare it custom."

    requires = READABLE

    @staticmethod
    def check(record: Submission, verification: Verification) -> Result:
        return _verified(MVC307.slug, record.calibration.parameters, record, verification)


class MVC308(Rule):
    """Uncalibrated rows of the calibration split are missing"""

    slug = "uncalibrated-calibration-rows-missing"
    why = "Only the rows that a calibrator was fitted on show what it was fitted on (protocol, 3.3)."
    mend = "Give the calibrator none rows of every calib image (cross_fit: of every out-of-fold train image)."
    requires = frozenset({"MVC105"})

    @staticmethod
    def check(record: Submission, splits: Table, predictions: Table, sql: Sql) -> Result:
        if not _maps(record):
            return NO_MAPS
        cross = record.calibration.cross_fit is not None
        fitted = "split = 'train' AND fold IS NOT NULL" if cross else "split = 'calib'"
        if cross and not sql(f"SELECT 1 FROM splits WHERE {fitted} LIMIT 1"):
            return [
                Finding(f"{splits.file}: fold", "no train image with a fold", "the fold of every out-of-fold image")
            ]
        rows = sql(
            f"""SELECT model, seed, image_id
            FROM (SELECT run, model, seed FROM runs SEMI JOIN declared_runs USING (model, seed, calibrator)
                  WHERE calibrator = 'none')
            CROSS JOIN (SELECT DISTINCT image FROM splits WHERE {fitted}) AS wanted
            ANTI JOIN predictions USING (run, image)
            JOIN images USING (image) ORDER BY ALL"""
        )
        if not rows:
            return []
        samples = tuple(f"model {model}, seed {seed}, image {image}" for model, seed, image in rows)
        saw = f"{counted(len(rows), 'row')} missing: {samples[0]}"
        return [Finding(predictions.file, saw, "a none row per calib image, model and seed", len(rows), samples)]


class MVC309(Rule):
    """A fold of the cross-fit leaks"""

    slug = "cross-fit-fold-leaks"
    why = "Each out-of-fold row is made by a model that never saw the patient (protocol, section 4)."
    mend = "Make folds by patient and give each out-of-fold row its fold."

    requires = frozenset({"MVC308"})

    @staticmethod
    def check(record: Submission, splits: Table, predictions: Table, sql: Sql) -> Result:
        if record.calibration.cross_fit is None:
            return NotApplicable("no cross-fit is declared")
        found = []
        twice = sql(
            """SELECT patient_id, string_agg(DISTINCT fold, ', ' ORDER BY fold)
            FROM splits JOIN patients USING (patient) WHERE split = 'train' AND fold IS NOT NULL
            GROUP BY patient_id HAVING count(DISTINCT fold) > 1 ORDER BY ALL"""
        )
        if twice:
            samples = tuple(f"patient {patient} in folds {folds}" for patient, folds in twice)
            saw = f"{counted(len(twice), 'patient')} in two folds: {samples[0]}"
            found.append(Finding(f"{splits.file}: fold", saw, "a fold of its own per patient", len(twice), samples))
        rows = sql(
            """SELECT image_id, predictions.fold, splits.fold FROM predictions JOIN runs USING (run)
            JOIN splits USING (image) JOIN images USING (image)
            WHERE split = 'train' AND calibrator = 'none' AND predictions.fold IS DISTINCT FROM splits.fold
            ORDER BY predictions.row"""
        )
        if rows:
            samples = tuple(
                f"image {image}: fold {_or_none(own)}, in splits {_or_none(its)}" for image, own, its in rows
            )
            saw = f"{counted(len(rows), 'row')}: {samples[0]}"
            found.append(Finding(f"{predictions.file}: fold", saw, "the fold of the split file", len(rows), samples))
        folds = sql("SELECT count(DISTINCT fold) FROM splits WHERE split = 'train'")[0][0]
        if folds != record.calibration.cross_fit.folds:
            where = f"{splits.file}: fold"
            found.append(Finding(where, counted(folds, "fold"), f"{record.calibration.cross_fit.folds}, as declared"))
        return found


class MVC310(Rule):
    """Fitted parameters are missing, or are none of their family"""

    slug = "parameters-missing"
    why = "Table 1 asks for fitted parameters per model and seed."
    mend = (
        "Write an entry per model, seed and calibrator (multilabel: per finding) into calibrators.json, or let mvc "
        "recalibrate write them."
    )

    @staticmethod
    def check(
        task: Task,
        record: Submission,
        calibrators: tuple[FittedCalibrator, ...],
        unusable_entries: tuple[Problem, ...],
    ) -> Result:
        if not _maps(record):
            return NO_MAPS
        have = {(c.model, c.seed, c.calibrator, c.class_index) for c in calibrators}
        families = {method.name: method.family for method in record.calibration.methods}
        missing = []
        for model, seed, calibrator in record.runs:
            if families[calibrator] == "none" or (model, seed, calibrator, None) in have:
                continue
            classes = range(len(task.classes)) if task.kind == "multilabel" else ()
            lacking = [k for k in classes if (model, seed, calibrator, k) not in have]
            if lacking or not any(key[:3] == (model, seed, calibrator) for key in have):
                part = f", findings {lacking}" if lacking else ""
                missing.append(f"model {model}, seed {seed}, calibrator {calibrator}{part}")
        found = [_finding(record.calibration.parameters, problem) for problem in unusable_entries]
        if missing:
            saw = f"{counted(len(missing), 'entry', 'entries')} missing: {missing[0]}"
            parameters = record.calibration.parameters
            found.insert(0, Finding(parameters, saw, "an entry per run", len(missing), tuple(missing)))
        return found


class MVC311(Rule):
    """Calibration and test scores are not exchangeable"""

    slug = "calibration-and-test-scores-not-exchangeable"
    level = Level.NOTE
    why = "A calibrator fitted on other cases than those tested promises little (protocol, 2.3)."
    mend = "Draw calib and test from the same patients' pool, or say why not."

    requires = READABLE

    @staticmethod
    def check(record: Submission, predictions: Table, verification: Verification) -> Result:
        if record.calibration.cross_fit is not None:
            return NotApplicable("out-of-fold rows come from other models than test rows")
        return _verified(MVC311.slug, predictions.file, record, verification)


def _or_none(fold: int | None) -> str:
    return "none" if fold is None else str(fold)
