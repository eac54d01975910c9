"""Keyed hashes of identifiers: what stands in a published split file in place of names (step 1)."""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from splits.files import no_pipe

if TYPE_CHECKING:
    import polars as pl

SALT_BYTES = 32
BLOCK = 64  # bytes of a block of SHA-256
CHUNK = 250_000  # identifiers hashed at once
DIGEST = 32  # bytes
SHORTEST_SALT = 16  # bytes: a 128-bit key can't be guessed; a shorter one is refused
TO_PUBLISH = ("splits.parquet", "split.json")  # a folder that holds one of these is given away as it is


def hash_identifier(salt: bytes, namespace: str, identifier: str) -> str:
    """HMAC-SHA256 of ``identifier`` within ``namespace``, 64 lower-case hex characters.

    Formula: ``HMAC(salt, len(ns) || ns || id)`` where ``ns`` and ``id`` are the UTF-8 bytes of namespace and
    identifier and ``len(ns)`` is the byte count of ``ns`` as an 8-byte big-endian integer. The count tells where
    the namespace ends, so no two different pairs share a message: ("a", "bc") and ("ab", "c") differ. Text is
    taken as it stands: no case folding, no stripping, no Unicode normalisation ("7", "07" and "7 " are three
    patients). The namespace keeps patient 7 of one hospital apart from patient 7 of another and may be empty.

    Raises ``ValueError`` when ``salt`` has fewer than 16 bytes, when ``identifier`` is empty (all images without
    a patient would become one patient), or when the text has no UTF-8 form (a lone surrogate).

    Source: HMAC, RFC 2104 (https://doi.org/10.17487/RFC2104); SHA-256, FIPS 180-4.
    """
    return hash_identifiers(salt, namespace, (identifier,))[0]


def hash_identifiers(salt: bytes, namespace: str, identifiers: Iterable[str]) -> list[str]:
    """:func:`hash_identifier` of each of ``identifiers``, in their order; same errors."""
    keyed = _keyed(salt, namespace)
    hashed = []
    for identifier in identifiers:
        if not identifier:
            raise ValueError("an identifier is empty; every image and patient needs one before it is hashed")
        hashed.append(keyed(identifier.encode()).hex())
    return hashed


def hash_column(salt: bytes, namespace: str, identifiers: "pl.Series") -> "pl.Series":
    """:func:`hash_identifier` of each text of a column, null for null; each distinct text is hashed once."""
    import polars as pl

    from splits.units import coded

    column = coded(identifiers)
    names = hex_column(digests(salt, namespace, column.names))
    known = pl.Series(column.codes >= 0)
    codes = pl.select(pl.when(known).then(pl.Series(column.codes))).to_series()
    return names.gather(codes).alias(identifiers.name)


def digests(salt: bytes, namespace: str, identifiers: "pl.Series") -> NDArray[np.uint8]:
    """(n, 32): the bytes of :func:`hash_identifier` of each text of a column without nulls; same errors."""
    import polars as pl

    keyed = _keyed(salt, namespace)
    found = np.empty((len(identifiers), DIGEST), dtype=np.uint8)
    for start in range(0, len(identifiers), CHUNK):
        texts = identifiers[start : start + CHUNK].cast(pl.Binary).to_list()
        if not all(texts):
            raise ValueError("an identifier is empty; every image and patient needs one before it is hashed")
        joined = b"".join(map(keyed, texts))
        found[start : start + CHUNK] = np.frombuffer(joined, dtype=np.uint8).reshape(-1, DIGEST)
    return found


def hex_column(found: NDArray[np.uint8]) -> "pl.Series":
    """The rows of ``found`` as text, 64 lower-case hex characters each."""
    import polars as pl
    import pyarrow as pa

    text = pa.py_buffer(found.tobytes().hex().encode())
    ends = pa.py_buffer(np.arange(len(found) + 1, dtype=np.int64) * 64)
    return pl.Series("hash", pa.LargeStringArray.from_buffers(len(found), ends, text), dtype=pl.String)


def salt_check(salt: bytes) -> str:
    """16 hex characters that tell one salt from another and say nothing about it: what a record can show."""
    return _keyed(salt, "")(b"mvc-kit salt check").hex()[:16]


def _keyed(salt: bytes, namespace: str) -> Callable[[bytes], bytes]:
    """HMAC-SHA256 (RFC 2104) of what follows the namespace, its two halves begun once for all identifiers."""
    if len(salt) < SHORTEST_SALT:
        raise ValueError(f"the salt has {len(salt)} bytes; at least {SHORTEST_SALT} are needed")
    key = (hashlib.sha256(salt).digest() if len(salt) > BLOCK else salt).ljust(BLOCK, b"\x00")
    space = namespace.encode()
    inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + len(space).to_bytes(8, "big") + space)
    outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key))

    def digest(identifier: bytes) -> bytes:
        message = inner.copy()
        message.update(identifier)
        whole = outer.copy()
        whole.update(message.digest())
        return whole.digest()

    return digest


def new_salt() -> bytes:
    """32 random bytes from the operating system: the secret key of :func:`hash_identifier`."""
    return secrets.token_bytes(SALT_BYTES)


def write_salt(path: Path, salt: bytes) -> None:
    """Write ``salt`` to a new file: one line of hex, readable by its owner alone (mode 0600).

    Raises ``FileExistsError`` when ``path`` exists (a lost salt can't be recovered: nothing is overwritten) and
    ``ValueError`` when ``salt`` has not 32 bytes.
    """
    if len(salt) != SALT_BYTES:
        raise ValueError(f"the salt has {len(salt)} bytes; a salt file holds {SALT_BYTES}")
    try:
        # created with its mode, so that the secret is never readable by others, not even for a moment
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise FileExistsError(f"{path} exists; a salt is never overwritten, choose another file") from None
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(salt.hex() + "\n")


def read_salt(path: Path) -> bytes:
    """The 32 bytes that :func:`write_salt` wrote.

    Raises ``ValueError`` when the file does not hold exactly 64 hex characters and an optional line end (the
    message never shows the content) or is a pipe, ``OSError`` when it can't be read.
    """
    no_pipe(path, "the salt")
    with path.open("rb") as file:
        content = file.read(2 * SALT_BYTES + 3)
    if not re.fullmatch(rb"[0-9a-fA-F]{64}(\r?\n)?", content):
        raise ValueError(f"{path} is not a salt file: it must hold {2 * SALT_BYTES} hex characters on one line")
    return bytes.fromhex(content.decode("ascii"))


def published_beside(path: Path) -> str | None:
    """The file beside ``path`` that shows its folder to be one to publish; None where there is none."""
    folder = path.parent.resolve()
    return next((name for name in TO_PUBLISH if (folder / name).is_file()), None)


def salt_warnings(path: Path) -> list[str]:
    """What endangers the salt in ``path``: a folder that is published, a mode that lets others read it."""
    found = []
    if beside := published_beside(path):
        found.append(
            f"{path} lies beside {beside}, in a folder to publish; whoever gets it can undo the hashes: "
            "move it to a folder that you keep"
        )
    try:
        mode = path.stat().st_mode
    except OSError:
        return found
    if stat.S_ISREG(mode) and mode & (stat.S_IRWXG | stat.S_IRWXO):
        rights = f"{stat.S_IMODE(mode):04o}"
        found.append(f"{path} can be read or changed by others on this machine (mode {rights}); chmod 600 mends it")
    return found
