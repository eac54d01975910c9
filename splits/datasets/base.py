"""What every adapter of a data set gives: the facts about it, and its images as one table."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

import polars as pl

from protocol.types import Kind, Unit


@dataclass(frozen=True)
class Images:
    """The images of a data set as its official label file lists them.

    ``frame`` has one row an image: ``image`` (text, unique, never null); ``patient`` (text; null throughout where
    patients are unavailable); ``site`` (text); ``label`` (class index, null = not labelled) or, for several findings,
    ``label_0 ...`` (1, 0, null); optionally ``group`` (text or null: what stays together though it is no patient, such
    as a lesion, a slide or copies of one image), ``published`` (the publisher's own split) and subgroup columns (text).
    ``notes`` say what the reader did and which known traps it met, with counts. ``unit`` and ``unavailable`` are the
    data set's own, or better where an optional map was given.
    """

    frame: pl.DataFrame
    notes: tuple[str, ...]
    unit: Unit
    unavailable: str


@dataclass(frozen=True)
class DataSet:
    """Facts about a public data set and the reader of its official label file.

    ``read`` takes the files (or the one folder) that ``files`` names, and optional maps by the names in ``maps``; it
    raises :class:`splits.errors.SplitError` for what it can't read. ``unit`` is what ``patient`` identifies;
    ``unavailable`` says why no patient is known, and is empty where one is. ``classes`` and ``prompt_classes`` have
    one entry a class.
    """

    key: str
    title: str
    modality: str
    licence: str
    source: str
    citation: str
    files: str
    kind: Kind
    classes: tuple[str, ...]
    prompt_classes: tuple[str, ...]
    ordinal: bool
    unit: Unit
    unavailable: str
    guarantees: tuple[str, ...]
    limits: tuple[str, ...]
    read: Callable[[Sequence[Path], Mapping[str, Path]], Images]
    maps: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
