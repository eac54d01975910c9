"""What the parts of an audit hand on: tables as read, columns by role, prediction sets, findings."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.findings import plain
from protocol.types import Kind

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MAX_SAMPLES = 10


class AuditError(ValueError):
    """A file, a column or an option that can't be used: what was seen and the mend, in words."""


class Level(StrEnum):
    """How much a finding weighs, heaviest first."""

    CONTRADICTION = "contradiction"  # can't be, by definition or by arithmetic
    WARNING = "warning"
    NOTE = "note"


ORDER = tuple(Level)


@dataclass(frozen=True)
class Finding:
    """One thing that an audit saw, in words for a terminal: all text is escaped.

    ``code`` is a stable slug, ``rule`` the id of a rule of the protocol that it bears on. ``assumption`` is what the
    test takes for granted, ``chance`` how often it would fire by chance, ``explanation`` what could explain it; ''
    where there is nothing to say. ``count`` is the full number, ``samples`` at most ten.
    """

    level: Level
    code: str
    title: str
    count: int = 1
    samples: tuple[str, ...] = ()
    rule: str = ""
    assumption: str = ""
    chance: str = ""
    explanation: str = ""

    def __post_init__(self) -> None:
        for name in ("title", "assumption", "chance", "explanation"):
            object.__setattr__(self, name, plain(getattr(self, name), 700))
        object.__setattr__(self, "samples", tuple(plain(one, 300) for one in self.samples[:MAX_SAMPLES]))


@dataclass(frozen=True)
class Loaded:
    """One table as read. ``name`` is what people know it by: the path, or 'archive.zip: member'.

    Columns of ``frame`` are text (``pl.String``, outer blanks gone, empty cells null) or numbers: a column of text
    becomes ``pl.Float64`` only where every cell is a number or a word for none and one at least has a decimal point or
    an exponent; whole numbers stay text ('007' stays '007') unless the file stores them as numbers. ``precision`` has
    how each column of floats was stored: ``float16``, ``float32``, ``float64`` or ``decimals:<n>`` (printed).
    ``header`` is false where the file names no columns: they are ``column_1`` ... then. ``facts`` is what the name or
    form of the file tells: model, seed, split, dataset, epoch, or claims as ``claim:<metric>``.
    """

    name: str
    frame: pl.DataFrame
    form: str
    path: Path
    sha256: str
    precision: Mapping[str, str] = field(default_factory=dict)
    header: bool = True
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Role(StrEnum):
    """What a column holds."""

    UNIT = "unit"  # what one prediction is about: an image, eye, breast, lesion; several columns together
    PATIENT = "patient"
    CLUSTER = "cluster"  # what is resampled where it is not the patient
    SITE = "site"
    LABEL = "label"
    SPLIT = "split"
    FOLD = "fold"
    SEED = "seed"
    MODEL = "model"
    CALIBRATOR = "calibrator"
    TASK = "task"  # columns that tell several tasks in one file apart
    SCORE = "score"
    PREDICTED = "predicted"  # a predicted class, without a score
    CONFIDENCE = "confidence"  # of the predicted class alone
    TEXT = "text"  # free text: a question, an answer in words
    OTHER = "other"


@dataclass(frozen=True)
class Assigned:
    """A role with its columns, and why: ``by`` is 'user', 'name', 'content' or 'name and content'."""

    role: Role
    columns: tuple[str, ...]
    by: str
    why: str


class Scale(StrEnum):
    """What the numbers of a score are. Only probabilities, what becomes them without loss (percent, logarithms of
    probabilities, logits of all classes) and one-vs-rest probabilities have a calibration error."""

    PROBABILITY = "probability"  # one P(positive class), or one a finding
    PROBABILITIES = "probabilities"  # of all classes, rows sum to one
    ONE_VS_REST = "one-vs-rest"  # in [0, 1], one a class, rows need not sum to one
    PERCENT = "percent"
    LOGITS = "logits"
    LOG_PROBABILITIES = "log-probabilities"
    LOG_UNNORMALISED = "logarithms that are no log-probabilities"
    RANKS = "ranks"
    REGRESSION = "regression"
    HARD_LABELS = "hard labels"
    TOP_ONE = "confidence of the top class"
    CONSTANT = "constant"
    UNKNOWN = "unknown"
    NONE = "no confidence"


@dataclass(frozen=True)
class Scaled:
    """The scale of a prediction set. ``usable`` says that calibration is defined; ``ranked`` that at least the order
    means something (AUROC); ``why`` has the evidence in words, ``changed`` what was done to get probabilities or ''."""

    scale: Scale
    usable: bool
    ranked: bool
    why: str
    changed: str = ""


@dataclass(frozen=True)
class PredictionSet:
    """The scores of one model (seed, calibrator) on one task, over all its rows in the order of the file.

    ``scores`` (N, K) as stored, NaN where missing; ``p`` (N, K) (binary: (N, 1), P of ``classes[1]``) where
    ``scale.usable``, else None. ``y`` (N,) class indices, multilabel (N, K) of 0, 1; -1 is 'no label' (never class 0);
    None where there are no labels at all. ``kind`` is None where it can't be told. ``unit``, ``cluster``, ``site``,
    ``split``, ``fold`` are (N,) codes into the names of :class:`Evidence`, -1 for unknown, or None. ``precision`` has
    one entry a column.
    """

    name: str  # as people know it: the score column, model or file; unique within an audit
    model: str
    seed: str
    calibrator: str
    task: str
    source: str  # Loaded.name
    kind: Kind | None
    classes: tuple[str, ...]
    columns: tuple[str, ...]
    scale: Scaled
    scores: Floats
    p: Floats | None
    y: Codes | None
    precision: tuple[str, ...]
    unit: Codes | None
    cluster: Codes | None
    site: Codes | None
    split: Codes | None
    fold: Codes | None
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The set by name and task."""
        return f"{self.name} [{self.task}]" if self.task else self.name


@dataclass(frozen=True)
class Names:
    """The texts that codes of an :class:`Evidence` stand for, in order of their code points; empty where none are
    known."""

    unit: pl.Series
    cluster: pl.Series
    site: tuple[str, ...] = ()
    split: tuple[str, ...] = ()
    fold: tuple[str, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """Everything that was understood of the released files, and nothing that is judged.

    ``unit`` and ``cluster`` say in one word what they are: image, eye, breast, lesion, patient, exam, row; '' where
    unknown. ``mapping`` has the roles by file (``Loaded.name``). ``ordered`` is true where labels were joined to
    predictions by row order alone, for want of ids. ``has_splits``: split lists were given or a split column found.
    """

    sets: tuple[PredictionSet, ...]
    names: Names
    unit: str
    cluster: str
    mapping: Mapping[str, tuple[Assigned, ...]]
    sources: tuple[Loaded, ...]
    findings: tuple[Finding, ...] = ()
    ordered: bool = False
    has_splits: bool = False
