"""``task.yaml``: the question that all submissions to a task answer (step 1)."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from protocol.canonical import digest_of
from protocol.types import ClusteringUnit, ColumnName, Kind, Name, PublicKey, Record, Sha256, Text

RESERVED = frozenset(
    {"image_id", "patient_id", "split", "site", "label", "fold", "content_hash", "test", "external", "subgroup"}
)


class Subgroup(Record):
    """A subgroup column of ``splits.parquet`` and its levels, named before the analysis (seed protocol, 3.6)."""

    column: ColumnName
    levels: tuple[Annotated[str, Field(min_length=1, max_length=100)], ...] = Field(min_length=1)

    @field_validator("column")
    @classmethod
    def _free(cls, column: str) -> str:
        if column in RESERVED or column.startswith("label_"):
            raise ValueError(f"{column} is a name of the protocol's own; call the subgroup otherwise")
        return column


def no_subgroup(column: str, levels: Iterable[str]) -> str:
    """Why ``column`` with ``levels`` can't be a subgroup, or '' where it can."""
    found = tuple(levels)
    if not found:
        return "it holds no level"
    try:
        Subgroup(column=column, levels=found)
    except ValidationError as error:
        return error.errors()[0]["msg"].removeprefix("Value error, ")
    return ""


class Caps(Record):
    """Limits that a host sets on submissions; ``quota`` counts distinct contents that a team has scored."""

    max_runs: Annotated[int, Field(ge=1)] = 2000
    quota: Annotated[int, Field(ge=1)] | None = None


class ParticipantView(Record):
    """What participants may see of hosted results."""

    decimals: Annotated[int, Field(ge=1, le=6)] = 4
    smallest_cell: Annotated[int, Field(ge=1)] = 20


class Task(Record):
    """The task: target, label source, ordered classes and what no submission can change."""

    edition: Text
    name: Name
    kind: Kind
    target: Text = ""
    label_source: Text = ""
    label_definition: Text = ""
    label_maps: dict[str, Text] = Field(default_factory=dict)
    classes: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = Field(min_length=1)
    ordinal: bool = False
    splits_sha256: Sha256 | None = None
    truth_sha256: Sha256 | None = None
    host_key: PublicKey | None = None
    primary_metric: Literal["brier", "nll"] = "brier"
    thresholds: tuple[Annotated[float, Field(gt=0, lt=1)], ...] = ()
    subgroups: tuple[Subgroup, ...] = ()
    clustering_unit: ClusteringUnit = "patient"
    resamples: Annotated[int, Field(ge=1000, le=100_000)] = 2000
    caps: Caps = Caps()
    participant_view: ParticipantView = ParticipantView()

    @field_validator("classes")
    @classmethod
    def _distinct(cls, classes: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.casefold() for name in classes}) != len(classes):
            raise ValueError("class names must be distinct, also when case is ignored")
        if any(name.isdecimal() and name != str(place) for place, name in enumerate(classes)):
            raise ValueError("a class named by a number other than its place: p_2 could mean two columns; use words")
        return classes

    @field_validator("thresholds")
    @classmethod
    def _once(cls, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(thresholds)) != len(thresholds):
            raise ValueError("a threshold is given twice")
        return thresholds

    @model_validator(mode="after")
    def _counts(self) -> "Task":
        if self.kind == "binary" and len(self.classes) != 2:
            raise ValueError("a binary task has exactly two classes, the negative one first")
        if self.kind == "multiclass" and len(self.classes) < 3:
            raise ValueError("a multiclass task has three or more classes; use kind binary for two")
        return self

    @property
    def digest(self) -> str:
        """SHA-256 of the task's canonical JSON: the same however the YAML is laid out."""
        return digest_of(self.model_dump(mode="json"))

    @property
    def hosted(self) -> bool:
        """True when a host keeps the test labels."""
        return self.truth_sha256 is not None

    @property
    def probability_columns(self) -> tuple[str, ...]:
        """Names of the probability columns, in the declared class order (binary: ``p_1`` alone)."""
        if self.kind == "binary":
            return ("p_1",)
        return tuple(f"p_{k}" for k in range(len(self.classes)))

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Names of the label columns of ``splits.parquet``."""
        if self.kind == "multilabel":
            return tuple(f"label_{k}" for k in range(len(self.classes)))
        return ("label",)
