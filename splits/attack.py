"""Reverse hashed identifiers that are plain digests of numbers or known names: such hashes hide nobody (MVC104)."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice

import numpy as np
import polars as pl
from numpy.typing import NDArray

from splits import kept
from splits.spellings import CHUNK, ENDINGS, TRIED, Family, Pattern

SAMPLE = 64  # entries of a kept table that are looked at
PLACE = np.uint64((1 << 22) - 1)  # the last bits of an entry of a table; a hit is confirmed in full
STARTS = np.uint64((1 << 64) - (1 << 4))  # what is read of an identifier: 15 hex characters fit a signed integer
DIGITS = 15
REST = 6_000_000  # texts of the families found that one call tries: some seconds
IDLE = 1_000_000  # texts of a family without a hit, after which it is given up

ALGORITHMS: dict[str, Callable[[bytes], "hashlib._Hash"]] = {
    "md5": hashlib.md5,
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
}
HEX_LENGTH = {"md5": 32, "sha1": 40, "sha256": 64}


def reverse_plain_digests(identifiers: "Iterable[str] | pl.Series", names: Iterable[str] = ()) -> dict[str, str]:
    """Identifiers that are an unkeyed digest of a guessable text, each with the digest's pre-image.

    An identifier is reversed when it equals, in hex of either case, ``md5(t)``, ``sha1(t)`` or ``sha256(t)`` of a text
    ``t`` of :data:`splits.spellings.TRIED`: an integer 0 to 999,999, one of 0 to 99,999 padded with zeros to 2 to 8
    characters, a name of a public data set or of common habit (2.5 million in all). Where one is found, the rest of its
    family is tried too, until IDLE texts gave nothing, and at most REST texts a call. ``names`` (images and patients of
    an official list) are tried in each of the forms that :func:`forms` gives.

    Returns {identifier: 'sha256("000123")'}, in the order of ``identifiers``; identifiers that resist are left out. A
    keyed hash (HMAC under a secret salt) resists by design.

    Only algorithms whose hex length (32, 40, 64) occurs are tried; the table of digests is made once a machine (two
    seconds, :mod:`splits.kept`). Ten million identifiers of a Series take some seconds. Whoever holds the split file
    can do the same: a plain digest of a guessable name is a public identifier.
    """
    pool, listed, found, left = _series(identifiers), list(names), dict[int, tuple[str, str]](), REST
    for algorithm in ALGORITHMS:
        wanted = _Wanted(pool, algorithm)
        if not wanted.open:
            continue
        families = wanted.look_up(_table(algorithm))
        for texts in _batches(listed):
            wanted.search(texts)
        for family in families:
            idle = 0
            for texts in chain.from_iterable(pattern.chunks() for pattern in family.rest):
                if not wanted.open or left <= 0 or idle >= IDLE:
                    break
                idle = 0 if wanted.search(texts) else idle + len(texts)
                left -= len(texts)
        found |= wanted.found
    return dict(found[row] for row in sorted(found))


def search_patterns(
    identifiers: "Iterable[str] | pl.Series",
    patterns: Iterable[Pattern],
    progress: Callable[[int], None] = lambda tried: None,
) -> dict[str, str]:
    """As :func:`reverse_plain_digests`, for the texts of ``patterns``: a long search, for whoever asks for it.

    A million texts take about a second an algorithm that occurs. ``progress`` is told how many were tried. The search
    ends when nothing is left to find.
    """
    pool = _series(identifiers)
    all_wanted = [_Wanted(pool, algorithm) for algorithm in ALGORITHMS]
    tried = 0
    for texts in chain.from_iterable(pattern.chunks() for pattern in patterns):
        still = [wanted for wanted in all_wanted if wanted.open]
        if not still:
            break
        for wanted in still:
            wanted.search(texts)
        tried += len(texts)
        progress(tried)
    found = {row: pair for wanted in all_wanted for row, pair in wanted.found.items()}
    return dict(found[row] for row in sorted(found))


def forms(name: str) -> list[str]:
    """``name`` as people hash it: with and without folders and extension, its folders, and with usual extensions.

    'train/patient99901/view1.jpg' gives itself, 'view1.jpg', 'view1', 'view1.png', 'train', 'patient99901', ...
    """
    path = name.replace("\\", "/")
    last = path.rpartition("/")[2]
    bare = re.sub(r"\.[A-Za-z0-9]{1,5}$", "", last)
    stems = (re.sub(r"\.[A-Za-z0-9]{1,5}$", "", path), bare)
    return list(dict.fromkeys((name, path, last, *stems, *(bare + end for end in ENDINGS), *path.split("/"))))


def prepare(algorithm: str = "sha256") -> None:
    """Make the table that the search needs ahead of time, for a caller that is waiting for something else."""
    _table(algorithm)


def _series(identifiers: "Iterable[str] | pl.Series") -> pl.Series:
    if isinstance(identifiers, pl.Series):
        return identifiers
    lengths = frozenset(HEX_LENGTH.values())
    # what is no ASCII text need not have a UTF-8 form
    return pl.Series([name for name in identifiers if len(name) in lengths and name.isascii()], dtype=pl.String)


def _batches(names: Sequence[str]) -> Iterator[list[bytes]]:
    every = (form.encode("utf-8", "surrogatepass") for name in names for form in forms(name))
    while batch := list(islice(every, CHUNK)):
        yield batch


class _Wanted:
    """The identifiers in ``pool`` that may be digests of ``algorithm``: those not yet reversed, and those ``found``.

    ``found`` is {row of the pool: (identifier, pre-image)}, each identifier at its first row.
    """

    def __init__(self, pool: pl.Series, algorithm: str) -> None:
        self._algorithm = algorithm
        self._pool = pool
        self.found: dict[int, tuple[str, str]] = {}
        starts = (
            pl.DataFrame({"name": pool})
            .lazy()
            .with_row_index("row")
            .filter(pl.col("name").str.len_bytes() == HEX_LENGTH[algorithm])
            .select("row", start=pl.col("name").str.head(DIGITS).str.to_integer(base=16, strict=False))
            .filter(pl.col("start") >= 0)
            .collect()
        )
        values = starts["start"].to_numpy().astype(np.uint64) << np.uint64(64 - 4 * DIGITS)
        order = np.argsort(values, kind="stable")
        self._starts = values[order]
        self._rows = starts["row"].to_numpy()[order]

    @property
    def open(self) -> bool:
        """Whether an identifier is left that was not reversed."""
        return bool(self._starts.size)

    def look_up(self, table: NDArray[np.uint64]) -> list[Family]:
        """Reverse what ``table`` has; the families of the texts found, each once."""
        starts = self._starts & ~PLACE
        first = np.searchsorted(table, starts)
        positions = np.flatnonzero(table[np.minimum(first, len(table) - 1)] & ~PLACE == starts)
        first = first[positions]
        last = np.searchsorted(table, starts[positions] | PLACE, side="right")
        which, entries = _ranges(first, last)
        places = (np.asarray(table[entries]) & PLACE).astype(np.int64)
        hits = self._settle(positions[which], places, TRIED.text)
        return TRIED.families(hits)

    def search(self, texts: Sequence[bytes]) -> bool:
        """Reverse what is a digest of one of ``texts``; whether there was any."""
        starts = _starts(self._algorithm, texts) & STARTS
        first = np.searchsorted(self._starts, starts)
        likely = np.flatnonzero(self._starts[np.minimum(first, len(self._starts) - 1)] == starts)
        last = np.searchsorted(self._starts, starts[likely], side="right")
        which, positions = _ranges(first[likely], last)
        return bool(self._settle(positions, likely[which], texts.__getitem__))

    def _settle(
        self, positions: NDArray[np.int64], places: NDArray[np.int64], text: Callable[[int], bytes]
    ) -> list[int]:
        """The ``places`` whose ``text`` truly has the identifier at its position as its digest; these are found."""
        if not positions.size:
            return []
        rows = self._rows[positions]
        # a patient has many rows: each identifier is confirmed once
        likely = pl.DataFrame({"at": positions, "row": rows, "place": places, "name": self._pool.gather(rows)})
        likely = likely.unique(["name", "place"], keep="first", maintain_order=True)
        digest_of, hits, done = ALGORITHMS[self._algorithm], [], []
        for at, row, place, name in likely.iter_rows():
            spelled = text(place)
            if digest_of(spelled).hexdigest() == name.lower():
                shown = json.dumps(spelled.decode("utf-8", "replace"), ensure_ascii=False)
                self.found.setdefault(row, (name, f"{self._algorithm}({shown})"))
                hits.append(place)
                done.append(at)
        solved = self._starts[done]
        first, last = (np.searchsorted(self._starts, solved, side=side) for side in ("left", "right"))
        unsolved = np.ones(self._starts.size, dtype=bool)
        unsolved[_ranges(first, last)[1]] = False
        self._starts, self._rows = self._starts[unsolved], self._rows[unsolved]
        return hits


def _ranges(first: NDArray[np.int64], last: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All numbers from each ``first`` to before its ``last``: which range each is of, and the number."""
    counts = last - first
    which = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    return which, np.repeat(first, counts) + within


def _starts(algorithm: str, texts: Sequence[bytes]) -> NDArray[np.uint64]:
    """The first 64 bits of the digest of each of ``texts``."""
    digest_of = ALGORITHMS[algorithm]
    joined = np.frombuffer(b"".join([digest_of(text).digest() for text in texts]), dtype=np.uint8)
    heads = joined.reshape(len(texts), HEX_LENGTH[algorithm] // 2)[:, :8]
    return np.ascontiguousarray(heads).view(">u8")[:, 0].astype(np.uint64)


@lru_cache(maxsize=len(HEX_LENGTH))
def _table(algorithm: str) -> NDArray[np.uint64]:
    """In order: the start of the digest of each text tried, and in its last bits which text it is."""
    name = f"plain-{algorithm}-{TRIED.version}-{TRIED.count}"
    kept_table = kept.read(name)
    if kept_table is not None and _fits(kept_table, algorithm):
        return kept_table
    made = _made(algorithm)
    kept.keep(name, made)
    return made


def _made(algorithm: str) -> NDArray[np.uint64]:
    starts = np.concatenate([_starts(algorithm, texts) for texts in TRIED.chunks()])
    return np.sort(starts & ~PLACE | np.arange(TRIED.count, dtype=np.uint64))


def _fits(table: NDArray[np.uint64], algorithm: str) -> bool:
    """Whether a table that was kept is one of these: in order, and right in a sample."""
    if table.shape != (TRIED.count,) or not np.all(table[1:] > table[:-1]):
        return False
    sample = table[:: max(1, TRIED.count // SAMPLE)]
    places = sample & PLACE
    if places.max() >= TRIED.count:
        return False
    texts = [TRIED.text(int(place)) for place in places]
    return bool(np.all(_starts(algorithm, texts) & ~PLACE | places == sample))
