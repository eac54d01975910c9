"""What a column looks like: its kind of values and the words of its name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from splits.checking import words
from splits.checking.ids import HAS_SUFFIX

SAMPLE = 20_000
LONG_TEXT = 60
NO_LABEL = frozenset(
    {"", "?", "-", "--", "nan", "na", "n/a", "none", "null", "-100", "-100.0", "missing", "unlabeled", "unlabelled",
     "unknown", "not labelled", "not labeled", "ungradable"}
)  # fmt: skip


@dataclass(frozen=True)
class Look:
    """A column: ``numeric`` where all filled cells are numbers, ``whole`` where these are whole. ``distinct`` and the
    range are over all rows of numbers, and over a sample of :data:`SAMPLE` rows of text."""

    name: str
    key: str
    tokens: tuple[str, ...]
    numeric: bool
    whole: bool
    low: float
    high: float
    distinct: int
    filled: int
    rows: int
    files: bool
    long: bool

    @property
    def unit_range(self) -> bool:
        """Whether all numbers lie in [0, 1]."""
        return self.numeric and self.low >= 0 and self.high <= 1

    @property
    def fractions(self) -> bool:
        """Numbers that are not all whole."""
        return self.numeric and not self.whole

    @property
    def marks(self) -> bool:
        """Whether it holds only 0, 1 and -1, as columns of one finding do."""
        return self.numeric and self.whole and self.low >= -1 and self.high <= 1 and self.filled > 0


def tokens(name: str) -> tuple[str, ...]:
    """The words of a column's name in lower case: 'AI_GMIC_top5_POM' is ai, gmic, top, 5, pom."""
    apart = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    return tuple(part for part in re.split(r"[^a-z0-9]+|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])", apart.lower()) if part)


def spread(column: pl.Series, most: int = SAMPLE) -> pl.Series:
    """At most ``most`` cells from all over ``column``."""
    return column if len(column) <= most else column.gather_every(-(-len(column) // most))


def look(column: pl.Series) -> Look:
    """The :class:`Look` of ``column``."""
    name, rows = column.name, len(column)
    filled = rows - column.null_count()
    said = (name, words.key(name), tokens(name))
    if column.dtype.is_numeric() or column.dtype == pl.Boolean:
        numbers = column.cast(pl.Float64).fill_nan(None).drop_nulls()
        return _numbers(said, numbers, len(numbers), rows)
    some = spread(column).drop_nulls()
    known = some.filter(~some.str.to_lowercase().is_in(sorted(NO_LABEL - {"-100", "-100.0"})))
    numbers = known.cast(pl.Float64, strict=False).fill_nan(None)
    if len(known) and not numbers.null_count():
        return _numbers(said, numbers, filled, rows)
    files = bool(len(known)) and int(known.str.contains(HAS_SUFFIX).sum()) > 0.9 * len(known)
    long = bool(len(known)) and float(known.str.len_chars().cast(pl.Float64).quantile(0.5) or 0.0) > LONG_TEXT
    long = long and int(known.str.strip_chars().str.contains(" ", literal=True).sum()) > 0.5 * len(known)
    return Look(*said, False, False, 0.0, 0.0, some.n_unique() if len(some) else 0, filled, rows, files, long)


def _numbers(said: tuple[str, str, tuple[str, ...]], numbers: pl.Series, filled: int, rows: int) -> Look:
    if not len(numbers):
        return Look(*said, False, False, 0.0, 0.0, 0, 0, rows, False, False)
    whole = bool((numbers == numbers.round()).all())
    low, high = numbers.to_numpy().min(), numbers.to_numpy().max()
    return Look(*said, True, whole, float(low), float(high), spread(numbers).n_unique(), filled, rows, False, False)


def has(one: Look, wanted: Iterable[str]) -> bool:
    """Whether the name of ``one``, or a word of it, is among ``wanted``."""
    known = frozenset(wanted)
    return one.key in known or not known.isdisjoint(one.tokens)
