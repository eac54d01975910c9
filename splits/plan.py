"""What was done to draw a split: enough to do it again, and nothing that names a patient or an image."""

from typing import Annotated, Literal

from pydantic import Field

from protocol.types import Kind, Record, Seed, Sha256, SplitName, Unit

FORMAT: Literal["mvc-split-1"] = "mvc-split-1"


class Source(Record):
    """A file that was read, and its digest."""

    name: str
    sha256: Sha256
    role: str = "metadata"


class ColumnNames(Record):
    """Columns of the metadata table; of a known data set only what the user added."""

    image: str | None = None
    patient: str | None = None
    labels: tuple[str, ...] = ()
    label_separator: str | None = None
    site: str | None = None
    groups: tuple[str, ...] = ()
    stratify: tuple[str, ...] = ()
    subgroups: tuple[str, ...] = ()


class Plan(Record):
    """The choices of a split. Together with the metadata and the seed they fix it; the salt fixes the identifiers."""

    columns: ColumnNames
    dataset: str | None = None
    recipe: str | None = None
    encoding: str = "utf-8"
    classes: tuple[str, ...] = ()
    unit: Unit = "patient"
    unavailable: str = ""
    patients_per_site: bool = False
    ids_as_written: bool = False
    drop_unlabelled: bool = False
    external: tuple[str, ...] = ()
    drop_shared: bool = False
    proportions: dict[SplitName, float]
    seed: Seed
    folds: Annotated[int, Field(ge=2)] | None = None
    shots: Annotated[int, Field(ge=1)] | None = None
    shot_seeds: tuple[Seed, ...] = ()
    shots_by_image: bool = False
    namespace: str


class Count(Record):
    """Rows of one split: images, units, and images of each class (of a finding: images that have it).

    A unit is what stays together: a patient, or several that a group ties. ``patients`` is None where they are
    unavailable.
    """

    split: SplitName
    images: int
    units: int
    patients: int | None = None
    images_per_class: tuple[int, ...]
    units_per_class: tuple[int, ...]


class SplitRecord(Record):
    """``split.json``: the plan, what came of it and the digests of what was read and written."""

    format: Literal["mvc-split-1"] = FORMAT
    software: str
    sources: tuple[Source, ...]
    plan: Plan
    kind: Kind
    classes: tuple[str, ...]
    salt_check: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    splits_sha256: Sha256
    few_shot_sha256: Sha256 | None = None
    sites: tuple[str, ...]
    counts: tuple[Count, ...]
    images_per_unit: float
    images_per_patient: float | None = None
    notes: tuple[str, ...]
