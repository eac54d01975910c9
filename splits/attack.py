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
PREFIX = 8  # bytes of a digest that are kept for the search; a hit is confirmed in full

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
    prefixes, order = _table(algorithm)
    wanted = np.frombuffer(b"".join(digest[:PREFIX] for digest in digests.values()), dtype=">u8").astype(np.uint64)
    places = np.minimum(np.searchsorted(prefixes, wanted), len(prefixes) - 1)
    names = list(digests)
    found = {}
    for index in np.flatnonzero(prefixes[places] == wanted).tolist():
        text = _spelling(int(order[places[index]]))
        if ALGORITHMS[algorithm](text).digest() == digests[names[index]]:
            found[names[index]] = f'{algorithm}("{text.decode("ascii")}")'
    return found


@lru_cache(maxsize=len(HEX_LENGTH))
def _table(algorithm: str) -> NDArray[np.uint64]:
    """(2, spellings): digest prefixes of all spellings in order, and which spelling each belongs to."""
    name = f"plain-{algorithm}-{SPELLINGS}"
    kept_table = kept.read(name)
    if kept_table is not None and _fits(kept_table, algorithm):
        return kept_table
    made = _made(algorithm)
    kept.keep(name, made)
    return made


def _fits(table: NDArray[np.uint64], algorithm: str) -> bool:
    """Whether a table that was kept is one of these: in order, and right in a sample."""
    if table.shape != (2, SPELLINGS) or not np.all(table[0, 1:] >= table[0, :-1]):
        return False
    if int(table[1].max()) >= SPELLINGS:
        return False
    sample = np.arange(0, SPELLINGS, SPELLINGS // SAMPLE)
    texts = [_spelling(int(index)) for index in table[1, sample]]
    right = b"".join(ALGORITHMS[algorithm](text).digest()[:PREFIX] for text in texts)
    return bool(right == table[0, sample].astype(">u8").tobytes())


def _made(algorithm: str) -> NDArray[np.uint64]:
    digest_of = ALGORITHMS[algorithm]
    joined = b"".join(digest_of(text).digest()[:PREFIX] for text in _spellings())
    prefixes = np.frombuffer(joined, dtype=">u8").astype(np.uint64)
    order = np.argsort(prefixes, kind="stable")
    return np.stack([prefixes[order], order.astype(np.uint64)])


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
