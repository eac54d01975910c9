"""Step 2: train under a declared recipe (protocol, 3.2)."""

from collections.abc import Mapping

from protocol.facts import Sql, Table
from protocol.findings import Finding, Level, counted
from protocol.rules import Result, Rule
from protocol.stages.stage1_splits import EVALUATED
from protocol.submission import Model, Recipe, Submission
from protocol.task import Task

# Table 1: architecture, preprocessing, augmentation, stopping rule; 3.2: weight decay and augmentation are rarely told.
TRAINED_FIELDS = (
    "architecture", "pretrained_weights", "preprocessing", "augmentation", "optimiser", "learning_rate",
    "weight_decay", "batch_size", "epochs", "stopping_rule", "selected_on",
)  # fmt: skip
ZERO_SHOT_FIELDS = ("architecture", "pretrained_weights", "preprocessing")


def _members_declared(ensemble: Model, record: Submission) -> bool:
    """True when every member (``model`` or ``model/seed``) is another declared model."""
    others = {model.name for model in record.models if model.name != ensemble.name}
    return all(member.partition("/")[0] in others for member in ensemble.members)


def _blank(recipe: Recipe, name: str) -> bool:
    value = getattr(recipe, name)
    return value is None or (isinstance(value, str) and not value.strip())


class MVC201(Rule):
    """The training recipe is incomplete"""

    slug = "recipe-incomplete"
    why = (
        "Calibration is sensitive to stopping, weight decay and augmentation: all belong in the record (protocol, 3.2)."
    )
    mend = "Fill in the recipe; write none where something was not used."

    @staticmethod
    def check(record: Submission) -> Result:
        found = []
        for model in record.models:
            if model.kind == "ensemble" and model.recipe is None and _members_declared(model, record):
                continue  # its members carry the recipe
            wanted = ZERO_SHOT_FIELDS if model.kind == "zero-shot" else TRAINED_FIELDS
            blank = [name for name in wanted if _blank(record.recipe_of(model), name)]
            if blank:
                where = f"submission.yaml: recipe, model {model.name}"
                found.append(Finding(where, f"blank: {', '.join(blank)}", "every field of the recipe", len(blank)))
        return found


class MVC202(Rule):
    """Runs in predictions and runs in the record differ"""

    slug = "seeds-missing"
    why = "Every declared model, seed and calibrator is reported, and nothing undeclared (protocol, 3.2 and 3.3)."
    mend = (
        "Add the missing rows (mvc recalibrate makes those of calibrators), or declare what is there before looking at "
        "the test set."
    )

    @staticmethod
    def check(predictions: Table, sql: Sql) -> Result:
        pairs = (
            ("declared but not in predictions", "declared_runs", "runs", "rows of every declared run"),
            ("in predictions but not declared", "runs", "declared_runs", "declared runs only"),
        )
        found = []
        for what, left, right, wanted in pairs:
            rows = sql(
                f"""SELECT model, seed, calibrator FROM {left} EXCEPT SELECT model, seed, calibrator FROM {right}
                ORDER BY ALL"""
            )
            if rows:
                samples = tuple(f"model {model}, seed {seed}, calibrator {cal}" for model, seed, cal in rows)
                found.append(
                    Finding(
                        predictions.file,
                        f"{counted(len(rows), 'run')} {what}: {samples[0]}",
                        wanted,
                        len(rows),
                        samples,
                    )
                )
        return found


class MVC203(Rule):
    """A model was trained with one seed only"""

    slug = "single-seed"
    level = Level.WAIVABLE
    why = "The difference between two calibration methods can be smaller than that between two runs (protocol, 3.2)."
    mend = "Train with several seeds, or waive this with the reason (protocol, section 4)."

    @staticmethod
    def check(record: Submission) -> Result:
        return [
            Finding(f"submission.yaml: models, {model.name}", "one seed", "two or more, better three")
            for model in record.models
            if len(model.seeds) == 1
        ]


class MVC204(Rule):
    """The model was selected on test, external or calibration data"""

    slug = "selected-on-test-or-calibration"
    why = "Validation data chooses the model; nothing is chosen on calib or test (protocol, 3.1)."
    mend = "Select on val, and write selected_on: val."

    @staticmethod
    def check(record: Submission) -> Result:
        return [
            Finding(f"submission.yaml: recipe.selected_on, model {model.name}", chosen, "val, train or none")
            for model in record.models
            if (chosen := record.recipe_of(model).selected_on) in ("test", "calib", "external")
        ]


class MVC205(Rule):
    """Two seeds of a model gave the same predictions to the last bit"""

    slug = "seeds-identical"
    why = "Copied seeds hide the spread between training runs (protocol, 3.2)."
    mend = "Give each seed's own predictions, or declare the model deterministic."
    requires = frozenset({"MVC401"})

    @staticmethod
    def check(task: Task, record: Submission, splits: Table, predictions: Table, sql: Sql) -> Result:
        columns = ", ".join(task.probability_columns)
        deterministic = [model.name for model in record.models if model.deterministic]
        rows = sql(
            f"""WITH marks AS (
                SELECT run, count(*) AS n, bit_xor(hash(hash(image, {columns}))) AS mark
                FROM predictions SEMI JOIN ({EVALUATED}) AS wanted USING (image) GROUP BY run)
            SELECT model, string_agg(seed, ' and ' ORDER BY seed) FROM marks JOIN runs USING (run)
            WHERE calibrator = 'none' AND NOT list_contains(?, model)
            GROUP BY model, n, mark HAVING count(*) > 1 ORDER BY model""",
            (deterministic,),
        )
        return [
            Finding(
                f"{predictions.file}: model {model}",
                f"seeds {seeds} are equal in every row",
                "a run of its own per seed",
            )
            for model, seeds in rows
        ]


class MVC206(Rule):
    """A configuration file differs from its digest in the record"""

    slug = "config-digest-differs"
    why = "Table 1 asks for configuration files and seeds; a digest is what makes them the ones that were run."
    mend = "Put the configuration that was run into the bundle, with its SHA-256."

    @staticmethod
    def check(record: Submission, files: Mapping[str, str]) -> Result:
        configs = [c for r in (record.recipe, *(m.recipe for m in record.models if m.recipe)) for c in r.configs]
        return [
            Finding(f"{config.file}", files.get(config.file, "absent from the bundle"), config.sha256)
            for config in dict.fromkeys(configs)
            if files.get(config.file) != config.sha256
        ]


class MVC207(Rule):
    """What the pretrained weights have seen of the test set is not declared"""

    slug = "pretraining-overlap-undeclared"
    level = Level.WAIVABLE
    why = "Weights pretrained on the test images make the test optimistic (protocol, 3.1: nothing is fitted on test)."
    mend = "Fill in recipe.pretrained_on and recipe.pretraining_test_overlap (write none where there is none)."

    @staticmethod
    def check(record: Submission) -> Result:
        found = []
        for model in record.models:
            recipe = record.recipe_of(model)
            if (recipe.pretrained_weights or "none").strip().casefold() == "none":
                continue
            blank = [name for name in ("pretrained_on", "pretraining_test_overlap") if _blank(recipe, name)]
            if blank:
                where = f"submission.yaml: recipe, model {model.name}"
                found.append(
                    Finding(where, f"blank: {', '.join(blank)}", "what the weights were trained on", len(blank))
                )
        return found
