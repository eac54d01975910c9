"""What scoring takes and gives: runs, rows, spreads, counts, replicates and curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.curves import Curve
from scorer.metrics.plan import Point

Floats = NDArray[np.float64]

MEAN = "mean"  # the `seed` of rows that hold the mean over seeds


@dataclass(frozen=True)
class Run:
    """One set of predictions: a model, trained with a seed (0 if deterministic), after a calibrator ('none' if raw)."""

    model: str
    seed: int
    calibrator: str


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the metrics table; fields in the order of its columns (``class_`` is the column ``class``).

    ``seed`` is the seed as text, or 'mean'. ``n_events`` counts images of the class (binary: of the positive class),
    None where no one class is meant. ``cutoff`` is the threshold or coverage of a metric that has one. NaN in
    ``value``, ``lo`` or ``hi`` comes with a ``reason``. In ``n_undefined`` of the ``n_draws`` resamples the metric had
    no value; they are left out of the limits.
    """

    submission: str
    model: str
    seed: str
    calibrator: str
    slice_kind: str
    slice: str
    class_: str | None
    metric: str
    reading: str | None
    bins_asked: int | None
    bins_used: int | None
    cutoff: float | None
    value: float
    lo: float
    hi: float
    method: str
    n_draws: int
    n_undefined: int
    n_images: int
    n_patients: int
    n_events: int | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Spread:
    """A metric over the ``n`` seeds of a model: mean, sd (ddof 1; NaN for one seed), min, max; all NaN if undefined in
    any."""

    model: str
    calibrator: str
    slice_kind: str
    slice: str
    class_: str | None
    metric: str
    bins_asked: int | None
    cutoff: float | None
    n: int
    mean: float
    sd: float
    min: float
    max: float


@dataclass(frozen=True, slots=True)
class Count:
    """How many images something befell: ``what`` is 'nll_floored' or 'logit_clipped' (of a run), or 'unlabelled' (of a
    slice; no model, seed, calibrator).

    Counts of zero are left out.
    """

    what: str
    model: str | None
    seed: str | None
    calibrator: str | None
    slice_kind: str
    slice: str
    class_: str | None
    n_images: int


@dataclass(frozen=True)
class Scores:
    """What scoring a submission gives; ``level`` is the coverage asked of every interval."""

    rows: tuple[Row, ...]
    seed_spread: tuple[Spread, ...]
    counts: tuple[Count, ...]
    level: float


@dataclass(frozen=True)
class Replicates:
    """The bootstrap replicates of one run (or of the mean over seeds) in one slice: ``values`` (B, metrics) of
    ``points``, NaN where undefined or not drawn."""

    model: str
    seed: str
    calibrator: str
    slice_kind: str
    slice: str
    points: Sequence[Point]
    values: Floats
    costly: int

    def drawn(self, i: int) -> Floats:
        """The replicates of metric ``i`` as far as they were drawn: costly ones get only the first ``costly`` draws."""
        return self.values[: self.costly if self.points[i].costly else None, i]


@dataclass(frozen=True)
class Curves:
    """The curves of one run in one slice."""

    model: str
    seed: str
    calibrator: str
    slice_kind: str
    slice: str
    curves: Sequence[Curve]


@dataclass(frozen=True)
class Sinks:
    """Where what is too large to be kept goes, as it is made: replicates of every run and seed mean in every slice, and
    curves of every run in every slice but subgroups."""

    replicates: Callable[[Replicates], None]
    curves: Callable[[Curves], None]
