"""Additive statistics: per-patient sums, so that a resample is one product with the patients' weights."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorer.metrics import kernels
from scorer.metrics.arrays import Floats, Indices, Ints


class Read(NamedTuple):
    """Values (metrics, D), and the bins used of binned ones, of the same shape."""

    values: Floats
    used: Ints | None = None


@dataclass(frozen=True)
class Reader:
    """Makes the values at ``places`` from ``n`` cells that begin at ``first``."""

    first: int
    n: int
    places: tuple[int, ...]
    of: Callable[[Floats], Read]


class _Table(NamedTuple):
    start: Ints
    cell: NDArray[np.int32]
    value: Floats


@dataclass
class Cells:
    """A sparse table (patients, cells) under construction, and who reads what from its weighted column sums."""

    patients: int
    n: int = 0
    readers: list[Reader] = field(default_factory=list)
    entries: list[tuple[Indices, Ints, Floats]] = field(default_factory=list)

    def add(
        self,
        n: int,
        entries: Sequence[tuple[Indices, Any, Any]],
        places: tuple[int, ...],
        of: Callable[[Floats], Read],
    ) -> None:
        """Add ``n`` cells with ``entries`` (patient, cell among them, value), one or many, and their reader."""
        for patient, cell, value in entries:
            cells = np.broadcast_to(np.asarray(cell, dtype=np.int64) + self.n, patient.shape)
            values = np.broadcast_to(np.asarray(value, dtype=np.float64), patient.shape)
            self.entries.append((patient, cells, values))
        self.readers.append(Reader(self.n, n, places, of))
        self.n += n

    def prepare(self) -> None:
        """Build the table; :meth:`add` is over."""
        if self.n:
            _ = self._table

    @cached_property
    def _table(self) -> _Table:
        """Entries by patient and cell, those of the same place added up in the order in which they came."""
        patient, cell, value = (np.concatenate(one) for one in zip(*self.entries, strict=True))
        self.entries.clear()
        key = patient * self.n + cell
        order = np.argsort(key, kind="stable")
        key = key[order]
        first = np.flatnonzero(np.concatenate((np.ones(min(len(key), 1), np.bool_), key[1:] != key[:-1])))
        sums = np.add.reduceat(value[order], first) if len(first) else value
        kept = sums != 0.0
        patient, cell = np.divmod(key[first[kept]], max(self.n, 1))
        start = np.searchsorted(patient, np.arange(self.patients + 1))
        return _Table(start.astype(np.int64), cell.astype(np.int32), sums[kept])

    def sums(self, weights: Floats) -> Floats:
        """Weighted sums (cells, D) under ``weights`` (D, patients)."""
        out = np.zeros((self.n, len(weights)))
        if self.n and self.patients:
            kernels.add_up(*self._table, np.array(weights.T, order="C"), out)
        return out
