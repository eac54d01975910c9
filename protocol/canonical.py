"""Canonical JSON and SHA-256: the one way in which the kit turns a document into a digest."""

import hashlib
from typing import Any

import rfc8785


def canonical_json(document: Any) -> bytes:
    """Serialise ``document`` by RFC 8785 (JSON Canonicalization Scheme), UTF-8 bytes.

    ``document`` holds only dict, list, str, bool, None, finite floats and integers below 2**53;
    anything else raises ``rfc8785.CanonicalizationError``.
    """
    return rfc8785.dumps(document)


def sha256_hex(data: bytes) -> str:
    """SHA-256 of ``data`` as 64 lower-case hex characters."""
    return hashlib.sha256(data).hexdigest()


def digest_of(document: Any) -> str:
    """SHA-256 of the canonical JSON of ``document``, 64 hex characters."""
    return sha256_hex(canonical_json(document))
