"""Metrics of one run in one slice, prepared to be evaluated under many vectors of patient weights.

Everything is sorted and summed once; point values are the same code under weights of one.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from protocol.catalogue import COVERAGES
from scorer.metrics.arrays import Floats, Indices, Ints, summed
from scorer.metrics.binned import BINS
from scorer.metrics.cells import Cells, Read
from scorer.metrics.column import Bins, Column
from scorer.metrics.logistic import fits_of, why

Places = tuple[int, ...]
Measured = tuple[Floats, Ints, dict[int, str]]
Mass = tuple[Places, Callable[[Bins], Read]]


@dataclass(frozen=True)
class Point:
    """One metric of one set of images. ``value`` is NaN exactly when ``reason`` says why.

    ``class_`` is None where no one class is meant (and for the positive class of a binary task); ``n_events`` counts
    the images of the class, None where no one class is meant. ``bins_used`` is None for metrics without bins and for
    means over classes; ``cutoff`` is the threshold or coverage of a metric that has one. ``resamplable`` is false where
    it, or a class that it is a mean of, has fewer than two patients; ``costly`` metrics may be given fewer resamples.
    ``parts`` are the classes of a mean over classes.
    """

    metric: str
    reading: str | None
    class_: str | None
    bins_asked: int | None
    bins_used: int | None
    cutoff: float | None
    value: float
    n_images: int
    n_patients: int
    n_events: int | None
    reason: str | None
    resamplable: bool = True
    costly: bool = False
    parts: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class Cases:
    """The images that a metric is over: the number of each one's patient, (n,), and how many are of ``class_``."""

    class_: str | None
    patient: Indices
    events: int | None

    @cached_property
    def n_patients(self) -> int:
        return int(np.count_nonzero(np.bincount(self.patient)))


@dataclass(frozen=True)
class Heading:
    """What is known of a metric before it is evaluated: its names, its images, and the reason if it is undefined in
    them."""

    metric: str
    reading: str | None
    bins: int | None
    cutoff: float | None
    cases: Cases
    reason: str | None
    costly: bool


class Scanned(NamedTuple):
    """A column, and where the values go that one pass over it gives; empty places are not wanted.

    ``mass``: places of values made from the equal-mass bins, with the function that makes them.
    """

    column: Column
    mass: tuple[Mass, ...]
    ranks: Places = ()
    risks: Places = ()
    corp: Places = ()


@dataclass
class Fitted:
    """A column, and the places of what logistic fits to it give: three of the line, four of the spline."""

    column: Column
    patients: int
    events: int
    lines: Places
    gaps: Places

    @cached_property
    def warm(self) -> Floats:
        """The fits of all cases: where those of resamples begin."""
        whole = np.ones((1, self.patients))
        return fits_of(self.column, whole, lines=bool(self.lines), gaps=bool(self.gaps)).warm


@dataclass
class Plan:
    """``headings`` are in the order of the values. ``means``: metrics that are plain means of others, as (place, their
    places). ``floored`` and ``clipped``: (class, images at the floor of the NLL, at the clip of the logit)."""

    patients: int
    headings: list[Heading] = field(default_factory=list)
    scanned: list[Scanned] = field(default_factory=list)
    fitted: list[Fitted] = field(default_factory=list)
    means: list[tuple[int, list[int]]] = field(default_factory=list)
    floored: list[tuple[str | None, int]] = field(default_factory=list)
    clipped: list[tuple[str | None, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.cells = Cells(self.patients)
        self.costly_cells = Cells(self.patients)
        self._whole: Measured | None = None

    @property
    def costly(self) -> NDArray[np.bool_]:
        """Which metrics may be given fewer resamples."""
        return np.array([heading.costly for heading in self.headings], dtype=np.bool_)

    def prepare(self) -> None:
        """Make what is made once, so that threads can share the plan."""
        self.cells.prepare()
        self.costly_cells.prepare()
        for fit in self.fitted:
            _ = fit.warm

    def evaluate(self, weights: Floats, *, costly: bool = True, cheap: bool = True) -> tuple[Floats, Ints]:
        """Values and bins used, (D, metrics) each, under patient ``weights`` (D, patients); NaN and 0 where undefined
        or left out."""
        values, used, _ = self._measured(weights, costly, cheap)
        self._average(values, costly, cheap)
        return values.T, used.T

    def points(self) -> list[Point]:
        """The metrics under weights of one."""
        if self._whole is None:  # means may be added after it is known
            self._whole = self._measured(np.ones((1, self.patients)), True, True)
        known, used_known, why_not = self._whole
        more = ((0, len(self.headings) - len(known)), (0, 0))
        values, used = np.pad(known, more, constant_values=np.nan), np.pad(used_known, more)
        self._average(values, True, True)
        parts = dict(self.means)
        return [
            Point(
                metric=heading.metric,
                reading=heading.reading,
                class_=heading.cases.class_,
                bins_asked=heading.bins,
                bins_used=None if heading.bins is None or i in parts else int(used[i, 0]),
                cutoff=heading.cutoff,
                value=float(values[i, 0]),
                n_images=len(heading.cases.patient),
                n_patients=heading.cases.n_patients,
                n_events=heading.cases.events,
                reason=self._reason(i, float(values[i, 0]), why_not),
                resamplable=all(self.headings[part].cases.n_patients > 1 for part in (i, *parts.get(i, ()))),
                costly=heading.costly,
                parts=tuple(self.headings[part].cases.class_ for part in parts.get(i, ())),
            )
            for i, heading in enumerate(self.headings)
        ]

    def _reason(self, place: int, value: float, why_not: dict[int, str]) -> str | None:
        """Why the value at ``place`` is undefined; a mean is so for the classes where its parts are."""
        if value == value:
            return None
        own = self.headings[place].reason or why_not.get(place)
        if own is not None:
            return own
        members = dict(self.means).get(place, [])
        if not members:
            return "no finite value"
        missing = [i for i in members if self.headings[i].reason or i in why_not]
        return "undefined for class " + ", ".join(str(self.headings[i].cases.class_) for i in missing)

    def _measured(self, weights: Floats, costly: bool, cheap: bool) -> Measured:
        """Values and bins used, (metrics, D), of all but the means, and why the first resample lacks some."""
        values = np.full((len(self.headings), len(weights)), np.nan)
        used = np.zeros(values.shape, dtype=np.int64)
        why_not: dict[int, str] = {}
        for cells in (*([self.cells] if cheap else []), *([self.costly_cells] if costly else [])):
            sums = cells.sums(weights) if cells.n else np.empty((0, 0))
            for reader in cells.readers:
                _put(values, used, reader.places, reader.of(sums[reader.first : reader.first + reader.n]))
        for one in self.scanned if cheap else ():
            found = one.column.scan(
                weights,
                bins=BINS if one.mass else 0,
                ranks=bool(one.ranks),
                risks=COVERAGES if one.risks else None,
                corp=bool(one.corp),
            )
            for places, of in one.mass:
                assert found.bins is not None
                _put(values, used, places, of(found.bins))
            for places, rows in ((one.ranks, found.ranks), (one.risks, found.risks), (one.corp, found.corp)):
                if rows is not None:
                    values[list(places)] = rows
        for fit in self.fitted if costly else ():
            fits = fits_of(fit.column, weights, lines=bool(fit.lines), gaps=bool(fit.gaps), warm=fit.warm)
            for places, rows, which in ((fit.lines, fits.lines, (0, 1, 1)), (fit.gaps, fits.gaps, (2,) * 4)):
                if places:
                    values[list(places)] = rows
                    status = fits.status[list(which), 0] if len(weights) else ()
                    why_not |= _reasons(fit, places, status)
        for place, heading in enumerate(self.headings):
            if heading.reason is not None:
                values[place] = np.nan
        return values, used, why_not

    def _average(self, values: Floats, costly: bool, cheap: bool) -> None:
        """Fill in the means among ``values`` (metrics, D)."""
        for place, members in self.means:
            if costly if self.headings[place].costly else cheap:
                values[place] = summed(np.take(values, members, axis=0)) / len(members)

    def add(
        self,
        metric: str,
        reading: str | None,
        cases: Cases,
        reason: str | None = None,
        *,
        bins: int | None = None,
        cutoff: float | None = None,
        costly: bool = False,
    ) -> int:
        """Add a metric and return its place."""
        self.headings.append(Heading(metric, reading, bins, cutoff, cases, reason, costly))
        return len(self.headings) - 1

    def add_mean(self, metric: str, whole: Cases, members: list[int], reason: str | None = None) -> None:
        """Add a metric that is the plain mean of those at ``members``, at least one."""
        like = self.headings[members[0]]
        place = self.add(metric, like.reading, whole, reason, bins=like.bins, cutoff=like.cutoff, costly=like.costly)
        self.means.append((place, members))


def _put(values: Floats, used: Ints, places: Places, read: Read) -> None:
    values[list(places)] = read.values
    if read.used is not None:
        used[list(places)] = read.used


def _reasons(fit: Fitted, places: Places, statuses: Iterable[int]) -> dict[int, str]:
    """Why the values of the first resample are undefined, by place."""
    found = {place: why(int(status), fit.events) for place, status in zip(places, statuses, strict=False)}
    return {place: reason for place, reason in found.items() if reason is not None}
