"""``submission.yaml``: the record of the seven steps, one model a step.

Fields that a rule of the law asks for are optional here, so that the rule, and not the parser, says what is missing.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from protocol.task import Subgroup
from protocol.types import FileName, Name, Record, Seed, Sha256, SplitName, Text, Unit

Family = Literal[
    "none",
    "temperature",
    "vector",
    "matrix",
    "dirichlet",
    "platt",
    "beta",
    "isotonic",
    "histogram",
    "scaling-binning",
    "custom",
]
Printed = Annotated[str, Field(pattern=r"^[+-]?[0-9]{1,6}(\.[0-9]{1,12})?%?$")]
NON_PARAMETRIC: tuple[Family, ...] = ("isotonic", "histogram", "scaling-binning")


class TaskReference(Record):
    """Step 1: the task that this submission answers."""

    name: Name
    sha256: Sha256 | None = None


class Hashing(Record):
    """How identifiers were hashed."""

    scheme: Literal["hmac-sha256"] = "hmac-sha256"
    namespace: Text
    salt_custody: Text


class SplitsRecord(Record):
    """Step 1: the split file and how it was made."""

    file: FileName = "splits.parquet"
    sha256: Sha256 | None = None
    unit: Unit = "patient"
    how: Text = ""
    seed: Seed | None = None
    hash: Hashing | None = None
    patient_ids: Literal["available", "unavailable"] = "available"
    patient_ids_reason: Text = ""
    images_per_patient: Annotated[float, Field(ge=1)] = 1.0


class ConfigFile(Record):
    """A configuration file of the training run, kept in the bundle."""

    file: FileName
    sha256: Sha256


class Recipe(Record):
    """Step 2: the training recipe (Table 1 of the protocol: architecture to stopping rule)."""

    architecture: Text | None = None
    pretrained_weights: Text | None = None
    pretrained_on: Text | None = None
    pretraining_test_overlap: Text | None = None
    preprocessing: Text | None = None
    augmentation: Text | None = None
    optimiser: Text | None = None
    learning_rate: float | Text | None = None
    weight_decay: float | Text | None = None
    batch_size: int | Text | None = None
    epochs: int | Text | None = None
    stopping_rule: Text | None = None
    selected_on: SplitName | Literal["none"] | None = None
    configs: tuple[ConfigFile, ...] = ()
    code_url: Text | None = None
    code_commit: Text | None = None


class Model(Record):
    """Step 2: one model; its seeds, or the statement that it is deterministic."""

    name: Name
    kind: Literal["base", "train-time", "ensemble", "zero-shot"] = "base"
    seeds: tuple[Seed, ...] = ()
    deterministic: bool = False
    members: tuple[Text, ...] = ()
    pooling: Text | None = None
    recipe: Recipe | None = None

    @model_validator(mode="after")
    def _seeds_or_deterministic(self) -> "Model":
        if self.deterministic == bool(self.seeds):
            raise ValueError(f"model {self.name}: give either seeds or deterministic: true")
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"model {self.name}: a seed is listed twice")
        if self.kind == "ensemble" and (not self.members or not self.pooling):
            raise ValueError(f"model {self.name}: an ensemble names its members and its pooling")
        return self

    @property
    def run_seeds(self) -> tuple[int, ...]:
        """Seeds as they stand in ``predictions.parquet``: 0 for a deterministic model."""
        return self.seeds or (0,)


class Method(Record):
    """Step 3: a calibration method with its full objective."""

    name: Name
    family: Family
    loss: Text | None = None
    penalty: Text | None = None
    target_smoothing: Text | None = None
    bounds: Text | None = None
    grid: Text | None = None


class CrossFit(Record):
    """Step 3: out-of-fold rows replace the calibration split (protocol, section 4)."""

    folds: Annotated[int, Field(ge=2, le=100)]


class Calibration(Record):
    """Step 3: the methods compared and what they were fitted on."""

    methods: tuple[Method, ...] = Field(min_length=1)
    fitted_on: Literal["train", "val", "calib", "test", "external"] = "calib"
    cross_fit: CrossFit | None = None
    parameters: FileName = "calibrators.json"

    @model_validator(mode="after")
    def _distinct(self) -> "Calibration":
        if len({m.name for m in self.methods}) != len(self.methods):
            raise ValueError("a calibration method is listed twice")
        if any((m.name == "none") != (m.family == "none") for m in self.methods):
            raise ValueError("the method none is the uncalibrated model: name none and family none go together")
        return self


class Claim(Record):
    """Step 4: a value as the paper prints it; numbers stay text, so that their digits are known."""

    metric: Name
    model: Name
    seed: Seed | Literal["mean"] = "mean"
    calibrator: Name = "none"
    slice: Text | None = None
    class_: Text | None = Field(default=None, alias="class")
    reading: Literal["top-label", "class-wise", "positive class"] | None = None
    bins: Annotated[int, Field(ge=1, le=1000)] | None = None
    binning: Literal["equal-mass", "equal-width"] | None = None
    cutoff: Annotated[float, Field(gt=0, lt=1)] | None = None
    value: Printed
    interval: tuple[Printed, Printed] | None = None


class Metrics(Record):
    """Step 4: extra rows wanted, and claims to check."""

    extra: tuple[Name, ...] = ()
    claims: tuple[Claim, ...] = Field(default=(), max_length=2000)


class Uncertainty(Record):
    """Step 5: how the authors resample."""

    unit: Unit = "patient"
    resamples: Annotated[int, Field(ge=1, le=1_000_000)] = 2000
    level: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    method: Literal["percentile", "basic", "bca"] = "percentile"


class ExternalSite(Record):
    """Step 6: a site outside development."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    differs_in: tuple[Literal["institution", "device", "protocol", "population", "labels"], ...] = Field(min_length=1)


class Shift(Record):
    """Step 6: external sites and subgroups, named before the analysis."""

    external: tuple[ExternalSite, ...] = ()
    subgroups: tuple[Subgroup, ...] = ()


class Artefact(Record):
    """Step 7: where a released part lies: exactly one of url, doi or file."""

    url: Text | None = None
    doi: Text | None = None
    file: FileName | None = None
    sha256: Sha256 | None = None

    @model_validator(mode="after")
    def _one_place(self) -> "Artefact":
        if sum(place is not None for place in (self.url, self.doi, self.file)) != 1:
            raise ValueError("give exactly one of url, doi or file")
        return self


class Release(Record):
    """Step 7: licence and location of the artefacts."""

    licence: Text | None = None
    code: Artefact | None = None
    splits: Artefact | None = None
    predictions: Artefact | None = None
    parameters: Artefact | None = None
    restricted: bool = False
    reason: Text = ""


class Waiver(Record):
    """A rule that the submission declares it cannot meet, and why."""

    rule: Annotated[str, Field(pattern=r"^MVC[0-9]{3}$")]
    reason: Annotated[str, Field(min_length=1, max_length=4000)]


class Submission(Record):
    """``submission.yaml``, whole."""

    edition: Text
    submission_id: Name
    title: Text
    team: Text
    contact: Text
    task: TaskReference
    splits: SplitsRecord = SplitsRecord()
    recipe: Recipe = Recipe()
    models: tuple[Model, ...] = Field(min_length=1)
    calibration: Calibration
    metrics: Metrics = Metrics()
    uncertainty: Uncertainty = Uncertainty()
    shift: Shift = Shift()
    release: Release = Release()
    waivers: tuple[Waiver, ...] = ()

    @model_validator(mode="after")
    def _distinct(self) -> "Submission":
        if len({m.name for m in self.models}) != len(self.models):
            raise ValueError("a model is listed twice")
        if len({s.column for s in self.shift.subgroups}) != len(self.shift.subgroups):
            raise ValueError("a subgroup column is listed twice")
        if len({s.name for s in self.shift.external}) != len(self.shift.external):
            raise ValueError("an external site is listed twice")
        if len({w.rule for w in self.waivers}) != len(self.waivers):
            raise ValueError("a rule is waived twice")
        return self

    def recipe_of(self, model: Model) -> Recipe:
        """The recipe of ``model``: its own fields over the submission's."""
        if model.recipe is None:
            return self.recipe
        own = {name: getattr(model.recipe, name) for name in model.recipe.model_fields_set}
        return self.recipe.model_copy(update=own)

    @property
    def runs(self) -> tuple[tuple[str, int, str], ...]:
        """Every declared run: (model, seed, calibrator)."""
        return tuple(
            (model.name, seed, method.name)
            for model in self.models
            for seed in model.run_seeds
            for method in self.calibration.methods
        )

    @property
    def declared(self) -> dict[str, Any]:
        """What must be fixed in advance, by section (claims, waivers, parameters and release are left out)."""
        dump = self.model_dump(mode="json", by_alias=True)
        calibration = {key: value for key, value in dump["calibration"].items() if key != "parameters"}
        return {
            "splits": {key: value for key, value in dump["splits"].items() if key != "sha256"},
            "recipe": dump["recipe"],
            "models": dump["models"],
            "calibration": calibration,
            "metrics": dump["metrics"]["extra"],
            "uncertainty": dump["uncertainty"],
            "external": dump["shift"]["external"],
            "subgroups": dump["shift"]["subgroups"],
        }
