"""Reverse hashed identifiers that are plain digests of small numbers: such hashes hide nobody (rule MVC104)."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from splits import kept

LARGEST = 1_000_000  # integers tried: 0 to LARGEST - 1
LARGEST_PADDED = 100_000  # zero-padded integers tried: 0 to LARGEST_PADDED - 1
WIDTHS = range(2, 9)
SPELLINGS = 1_311_110  # texts tried
SAMPLE = 64  # entries of a kept table that are looked at
PLACE = np.uint64((1 << 21) - 1)  # the last bits of an entry of a table; a hit is confirmed in full

ALGORITHMS: dict[str, Callable[[bytes], "hashlib._Hash"]] = {
    "md5": hashlib.md5,
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
}
HEX_LENGTH = {"md5": 32, "sha1": 40, "sha256": 64}


def reverse_plain_digests(identifiers: Iterable[str]) -> dict[str, str]:
    """Identifiers that are an unkeyed digest of a number, each with the digest's pre-image.

    An identifier is reversed when it equals, in hex of either case, ``md5(t)``, ``sha1(t)`` or ``sha256(t)`` of the
    ASCII text ``t`` of an integer 0 to 999,999, or of an integer 0 to 99,999 padded with zeros to a width of 2 to
    8 characters. Returns {identifier: 'sha256("000123")'}, in the order of ``identifiers``; identifiers that
    resist are left out. A keyed hash (HMAC under a secret salt) resists by design.

    Only algorithms whose hex length (32, 40, 64) occurs are tried, 1.3 million digests each (about a second, once a
    machine: :mod:`splits.kept`). Whoever holds the split file can do the same: a plain digest of a small number is a
    public identifier.
    """
    names = list(dict.fromkeys(identifiers))
    preimages: dict[str, str] = {}
    for algorithm, length in HEX_LENGTH.items():
        is_digest = re.compile(f"[0-9a-fA-F]{{{length}}}").fullmatch
        digests = {name: bytes.fromhex(name) for name in names if len(name) == length and is_digest(name)}
        if digests:
            preimages |= _preimages(digests, algorithm)
    return {name: preimages[name] for name in names if name in preimages}


def prepare(algorithm: str = "sha256") -> None:
    """Make the table that the search needs ahead of time, for a caller that is waiting for something else."""
    _table(algorithm)


def _preimages(digests: Mapping[str, bytes], algorithm: str) -> dict[str, str]:
    table = _table(algorithm)
    wanted = _starts(digests.values())
    first = np.searchsorted(table, wanted)
    last = np.searchsorted(table, wanted | PLACE, side="right")
    names = list(digests)
    found = {}
    for index in np.flatnonzero(first < last).tolist():
        for entry in table[first[index] : last[index]].tolist():
            text = _spelling(entry & int(PLACE))
            if ALGORITHMS[algorithm](text).digest() == digests[names[index]]:
                found[names[index]] = f'{algorithm}("{text.decode("ascii")}")'
    return found


@lru_cache(maxsize=len(HEX_LENGTH))
def _table(algorithm: str) -> NDArray[np.uint64]:
    """(SPELLINGS,) in order: the start of the digest of each spelling, and in its last bits which spelling it is."""
    name = f"plain-{algorithm}-{SPELLINGS}"
    kept_table = kept.read(name)
    if kept_table is not None and _fits(kept_table, algorithm):
        return kept_table
    made = _made(algorithm)
    kept.keep(name, made)
    return made


def _made(algorithm: str) -> NDArray[np.uint64]:
    digest_of = ALGORITHMS[algorithm]
    starts = _starts(digest_of(text).digest() for text in _spellings())
    return np.sort(starts | np.arange(SPELLINGS, dtype=np.uint64))


def _starts(digests: Iterable[bytes]) -> NDArray[np.uint64]:
    """The first 43 bits of each digest, in front of as many zeros as a place takes."""
    joined = b"".join(digest[:8] for digest in digests)
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64) & ~PLACE


def _fits(table: NDArray[np.uint64], algorithm: str) -> bool:
    """Whether a table that was kept is one of these: in order, and right in a sample."""
    if table.shape != (SPELLINGS,) or not np.all(table[1:] > table[:-1]):
        return False
    sample = table[:: max(1, SPELLINGS // SAMPLE)]
    places = sample & PLACE
    if places.max() >= SPELLINGS:
        return False
    texts = (_spelling(int(place)) for place in places)
    return bool(np.all(_starts(ALGORITHMS[algorithm](text).digest() for text in texts) | places == sample))


def _spellings() -> Iterator[bytes]:
    """All texts tried: plain integers first, then padded ones by width; no text comes twice."""
    for number in range(LARGEST):
        yield b"%d" % number
    for width in WIDTHS:
        for number in range(_padded(width)):
            yield b"%0*d" % (width, number)


def _padded(width: int) -> int:
    """How many numbers are padded to ``width``: one of ``width`` digits is not, it was tried as it stands."""
    return min(int(10 ** (width - 1)), LARGEST_PADDED)


def _spelling(index: int) -> bytes:
    """The text at place ``index`` of the spellings."""
    if index < LARGEST:
        return b"%d" % index
    index -= LARGEST
    for width in WIDTHS:
        if index < _padded(width):
            return b"%0*d" % (width, index)
        index -= _padded(width)
    raise IndexError(index)
