"""The configuration of a run: all that can change its numbers, read from YAML; the recipe of the record follows."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from protocol.types import Name, Record, Seed, Text

BackboneName = Literal["RN50", "RN101", "ViT-B-16", "ViT-B-32", "PLIP", "QuiltNet-B-32", "BiomedCLIP", "MedCLIP", "toy"]
LearnerName = Literal["zeroshot", "coop", "kgcoop", "prograd", "maple", "promptsrc", "hicropl"]
LossName = Literal[
    "ce", "label-smoothing", "label-smoothing-others", "mdca", "mbls", "eccv-zs", "eccv-penalty", "margin", "mcm"
]
CalibratorName = Literal[
    "temperature", "vector", "matrix", "dirichlet", "platt", "beta", "isotonic", "histogram", "scaling-binning"
]
Difference = Literal["institution", "device", "protocol", "population", "labels"]
Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=100_000)]
Share = Annotated[float, Field(gt=0, lt=1)]
Template = Annotated[str, Field(min_length=1, max_length=400)]


class BackboneConfig(Record):
    """Which backbone, and where its weights are: a local file or folder, or a hub id; None is the usual hub id."""

    name: BackboneName
    weights: Text | None = None


class LearnerConfig(Record):
    """A prompt learner and its own settings; None is the learner's published value (see its module)."""

    name: LearnerName
    context: Count | None = None
    words: Text | None = None
    position: Literal["end", "middle", "front"] = "end"
    class_specific: bool = False
    depth: Count | None = None
    weight: NotNegative | None = None
    text_weight: NotNegative | None = None
    image_weight: NotNegative | None = None
    averaging: tuple[Positive, Positive] | None = None
    switch: Count | None = None
    form: Literal["as-described", "as-published"] = "as-described"


class LossConfig(Record):
    """The supervised loss; None is the published weight (see ``losses.py``)."""

    name: LossName = "ce"
    alpha: NotNegative | None = None
    beta: NotNegative | None = None
    margin: NotNegative | None = None


class TrainingConfig(Record):
    """The optimiser and its schedule: one warm-up epoch at a constant rate, then a cosine stepped once an epoch."""

    optimiser: Literal["sgd", "adam"] = "sgd"
    learning_rate: Positive = 0.005
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    weight_decay: NotNegative = 5e-4
    adam_epsilon: Positive = 1e-3
    batch_size: Annotated[int, Field(ge=1, le=4096)] = 8
    epochs: Annotated[int, Field(ge=1, le=10_000)] = 50
    warmup_epochs: Annotated[int, Field(ge=0, le=100)] = 1
    warmup_rate: Positive = 1e-5
    drop_last: bool = False


class ViewsConfig(Record):
    """How training images are seen: a stored view an epoch (random crop and flip), or one fixed centre crop."""

    kind: Literal["augmented", "single"] = "augmented"
    scale: tuple[Share, Annotated[float, Field(gt=0, le=1)]] = (0.08, 1.0)
    flip: Annotated[float, Field(ge=0, le=1)] = 0.5

    @model_validator(mode="after")
    def _rising(self) -> "ViewsConfig":
        if self.scale[0] > self.scale[1]:
            raise ValueError("scale is (smallest, largest) share of the area")
        return self


class AboutConfig(Record):
    """What the record says beside the recipe; ``differs_in``: how external sites differ, where the split is silent."""

    title: Text = "Reference baseline of the mvc kit"
    team: Text = "EXAMPLE: your team"
    contact: Text = "EXAMPLE: you@example.org"
    licence: Text = "CC-BY-4.0"
    pretraining_test_overlap: Text = "not known"
    differs_in: tuple[Difference, ...] = Field(default=("institution",), min_length=1)
    code_url: Text = "https://pypi.org/project/mvc-kit/"


class RunConfig(Record):
    """One model: a backbone, a learner, a loss, and how it is trained, recalibrated and described.

    ``classes``: the names as prompts say them, in label order; empty: those of the task. ``templates``: prompts of the
    zero-shot teacher. ``descriptions``: more texts of each class, for hicropl. ``shots``: training images a class, null
    for all of train. ``precision`` is that of the towers.
    """

    model: Name
    backbone: BackboneConfig
    learner: LearnerConfig
    loss: LossConfig = LossConfig()
    training: TrainingConfig = TrainingConfig()
    views: ViewsConfig = ViewsConfig()
    classes: tuple[Template, ...] = ()
    templates: tuple[Template, ...] = ("a photo of a {}.",)
    descriptions: tuple[tuple[Template, ...], ...] = ()
    shots: Annotated[int, Field(ge=1, le=100_000)] | None = 16
    seeds: tuple[Seed, ...] = Field(default=(1, 2, 3), min_length=1)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    calibrators: tuple[CalibratorName, ...] = ("temperature", "isotonic")
    about: AboutConfig = AboutConfig()

    @model_validator(mode="after")
    def _whole(self) -> "RunConfig":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError("seeds: one is listed twice")
        if any("{}" not in template for template in self.templates) or not self.templates:
            raise ValueError("templates: at least one, each with {} where the class name stands")
        if self.descriptions and len(self.descriptions) != len(self.classes):
            raise ValueError("descriptions: one list a class, in the order of classes")
        if self.descriptions and self.learner.name != "hicropl":
            raise ValueError(f"descriptions: {self.learner.name} does not read them, hicropl does; take them out")
        return self
