"""The facts that rules ask for by name, as plain data.

Facts of a run: ``problems`` (what intake saw), ``task``, ``record``, ``lock`` (None when absent), ``receipt`` (None
when absent, a verified ``Receipt``, or in words why it can't be believed), ``calibrators``,
``splits`` and ``predictions`` (what is known of the two tables), ``sql`` (a read-only query over them), ``files``
(SHA-256 by path), ``reversed_ids`` (identifier to pre-image), ``claim_checks``, ``unusable_entries`` (of
``calibrators.json``), ``verification`` (of the calibrators) and ``peeking`` (evidence of tuning on test labels).

The tables that ``sql`` sees have fixed names and columns; nothing submitted is ever part of a query's text:

- ``images(image, image_id)``, ``patients(patient, patient_id)``: integer codes and what was submitted;
- ``splits(row, image, patient, split, site, <label columns of the task>, g_0 ..., fold, content_hash)``;
- ``runs(run, model, seed, calibrator)``: as found in predictions; ``declared_runs(model, seed, calibrator)``;
- ``predictions(row, image, run, fold, <probability columns of the task>, <logit columns, where stored>)``.

``row`` counts from 1 in the file as submitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from protocol.submission import Claim


class Sql(Protocol):
    """Run one SELECT with positional parameters and return its rows."""

    def __call__(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...


@dataclass(frozen=True)
class Problem:
    """Something that intake saw; ``offence`` is the slug of the rule that owns it."""

    offence: str
    where: str
    saw: str
    wanted: str
    count: int = 1
    samples: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """What is known of a decoded table besides its rows.

    ``precision`` maps a probability column to its stored precision (``float64``, ``float32``, ``float16`` or
    ``decimals:<n>``); ``extras`` are the columns beyond the fixed ones, in file order (``g_<i>`` in queries).
    """

    file: str
    rows: int
    columns: tuple[str, ...]
    extras: tuple[str, ...] = ()
    precision: Mapping[str, str] = field(default_factory=dict)
    renormalised: int = 0


@dataclass(frozen=True)
class ClaimCheck:
    """A claim beside what the scorer makes of it; ``reason`` says why nothing could be made of it."""

    index: int
    claim: Claim
    value: float | None
    lo: float | None
    hi: float | None
    n_draws: int
    reason: str = ""


@dataclass(frozen=True)
class Verification:
    """What refitting the calibrators and applying them again came to.

    ``problems`` carry the slug of the rule that owns them, ``notes`` likewise, and inform only. ``unverified`` maps a
    slug to why what it asks could not be checked, per calibrator. ``calibrators`` maps each declared method other than
    none to '' where it was verified in every run, else to why it was not.
    """

    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    unverified: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    calibrators: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Peeking:
    """Evidence that a calibrator was tuned on the test labels: ``evidence`` is an e-value, its mean at most 1 where
    it was not, and ``limit`` what it must reach so that all ``tests`` of a submission together err in 1 % of cases."""

    calibrator: str
    model: str
    evidence: float
    limit: float
    tests: int
    gap: float
    reason: str = ""
