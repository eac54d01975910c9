"""Reverse hashed identifiers that are plain digests of small numbers: such hashes hide nobody (rule MVC104)."""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator

LARGEST = 1_000_000  # integers tried: 0 to LARGEST - 1
LARGEST_PADDED = 100_000  # zero-padded integers tried: 0 to LARGEST_PADDED - 1
WIDTHS = range(2, 9)
CHUNK = 20_000  # spellings between two looks at whether everything is reversed

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

    Only algorithms whose hex length (32, 40, 64) occurs are tried, each at most 1.3 million times (about a second).
    Whoever holds the split file can do the same: a plain digest of a small number is a public identifier.
    """
    names = list(dict.fromkeys(identifiers))
    preimages: dict[str, str] = {}
    for algorithm, length in HEX_LENGTH.items():
        is_digest = re.compile(f"[0-9a-fA-F]{{{length}}}").fullmatch
        digests = {name: bytes.fromhex(name) for name in names if len(name) == length and is_digest(name)}
        texts = _find(set(digests.values()), ALGORITHMS[algorithm])
        preimages |= {name: f'{algorithm}("{texts[digest]}")' for name, digest in digests.items() if digest in texts}
    return {name: preimages[name] for name in names if name in preimages}


def _find(wanted: set[bytes], digest_of: Callable[[bytes], "hashlib._Hash"]) -> dict[bytes, str]:
    """The text behind each digest of ``wanted`` that can be reversed; stops once all are."""
    found: dict[bytes, str] = {}
    if not wanted:
        return found
    for texts in _spellings():
        for text in [text for text in texts if digest_of(text).digest() in wanted]:
            found[digest_of(text).digest()] = text.decode("ascii")
        if len(found) == len(wanted):
            break
    return found


def _spellings() -> Iterator[list[bytes]]:
    """All texts tried, in chunks: plain integers first, then padded ones by width; no text comes twice."""
    for start in range(0, LARGEST, CHUNK):
        yield [b"%d" % number for number in range(start, start + CHUNK)]
    for width in WIDTHS:
        # a number of ``width`` digits or more is not padded: it was tried as it stands
        stop = min(10 ** (width - 1), LARGEST_PADDED)
        for start in range(0, stop, CHUNK):
            yield [b"%0*d" % (width, number) for number in range(start, min(start + CHUNK, stop))]
