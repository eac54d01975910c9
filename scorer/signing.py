"""Signed documents: Ed25519 keys, and DSSE envelopes (Dead Simple Signing Envelope, version 1).

https://github.com/secure-systems-lab/dsse/blob/v1.0.2/protocol.md: the signature is over the pre-authentication
encoding of type and payload, so that a receipt can't pass for a record.
"""

import base64
import binascii
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.hazmat.primitives.serialization import load_pem_private_key as load_pem
from pydantic import BaseModel, ValidationError

from protocol import EDITION
from protocol.canonical import canonical_json
from protocol.hosting import Receipt, ScoreRecord
from submission.yaml_io import MAX_NUMBERS, RecordError, load_json

Kind = Literal["receipt", "record"]
MAX_ENVELOPE = 64 << 20  # bytes: a record of 2,000 runs with their slices
MAX_KEY = 16 << 10

M = TypeVar("M", bound=BaseModel)


class SignatureError(ValueError):
    """A signed document can't be believed; the message says what is wrong with it."""


class AnotherKey(SignatureError):
    """A document was signed by a key that is not the one wanted."""


class KeyFileError(ValueError):
    """A file is no private key that can be used, or a key can't be made there; the message is for the user."""


def new_key(private: Path, public: Path) -> str:
    """Make an Ed25519 key pair: ``private`` as PKCS8 PEM (mode 0600), ``public`` as PEM; the raw public key in hex.

    Neither file is ever overwritten: KeyFileError where one exists or can't be written, and then both are as before.
    """
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    shown = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    made: list[Path] = []
    try:
        for path, mode, data in ((private, 0o600, secret), (public, 0o644, shown)):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
            made.append(path)
            with os.fdopen(handle, "wb") as sink:
                sink.write(data)
                sink.flush()
                os.fsync(sink.fileno())
    except OSError as error:
        for path in made:
            path.unlink(missing_ok=True)
        if isinstance(error, FileExistsError):
            raise KeyFileError(f"{error.filename} exists; a key is never overwritten") from None
        raise KeyFileError(f"no key can be written to {private.parent}: {error.strerror or error}") from None
    return public_hex(key)


def public_hex(key: Ed25519PrivateKey) -> str:
    """The raw public key that belongs to ``key``, 64 hex characters."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def load_key(private: Path, *, any_mode: bool = False) -> Ed25519PrivateKey:
    """The key in ``private``, a PKCS8 PEM without password that its owner alone can read; KeyFileError for others.

    ``any_mode``: others may be allowed to read it, as in a container that nobody else is in.
    """
    try:
        handle = os.open(private, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe does not keep us waiting
        with os.fdopen(handle, "rb") as source:
            state = os.fstat(source.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise KeyFileError(f"{private} is no plain file; give the private key of mvc host init")
            if state.st_mode & 0o077 and not any_mode:
                mode = stat.S_IMODE(state.st_mode)
                raise KeyFileError(f"others may read {private} (mode {mode:04o}); run: chmod 600 {private}")
            data = source.read(MAX_KEY)
    except OSError as error:
        raise KeyFileError(f"the key {private} can't be read: {error.strerror or error}") from None
    try:
        key = load_pem(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise KeyFileError(f"{private} holds no private key (PEM, PKCS8, no password)") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyFileError(f"{private} holds a key of another kind; wanted Ed25519")
    return key


def payload_type(kind: Kind) -> str:
    """The media type under which a document of ``kind`` is signed."""
    return f"application/vnd.mvc.{kind}+json"


def pre_authentication(kind: str, payload: bytes) -> bytes:
    """What is signed: the PAE of DSSE, of the payload type ``kind`` and the ``payload``."""
    return b"DSSEv1 %d %b %d %b" % (len(kind.encode()), kind.encode(), len(payload), payload)


def seal(document: BaseModel | Mapping[str, Any], kind: Kind, key: Ed25519PrivateKey) -> bytes:
    """``document`` in a signed envelope, as JSON bytes: the same for the same document and key."""
    plain = document.model_dump(mode="json") if isinstance(document, BaseModel) else dict(document)
    payload = canonical_json(plain)
    signature = key.sign(pre_authentication(payload_type(kind), payload))
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": payload_type(kind),
        "signatures": [{"keyid": public_hex(key), "sig": base64.b64encode(signature).decode()}],
    }
    return canonical_json(envelope) + b"\n"


def opened(data: bytes, kind: Kind, public_key_hex: str) -> dict[str, Any]:
    """The payload of the envelope ``data``, if the key ``public_key_hex`` signed it as a document of ``kind``.

    Raises SignatureError that names what is wrong: no envelope, unsigned, another kind, another key, a signature that
    does not fit. Nothing of the payload is parsed before its signature fits.
    """
    payload, keyid, signature = _parts(data, kind)
    if keyid != public_key_hex:
        raise AnotherKey(f"signed by another key: {keyid[:16]}…, wanted the host's, {public_key_hex[:16]}…")
    try:
        verifier = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key_hex))
    except ValueError:
        raise SignatureError(f"{public_key_hex[:80]} is no Ed25519 public key in hex") from None
    try:
        verifier.verify(signature, pre_authentication(payload_type(kind), payload))
    except InvalidSignature:
        raise SignatureError("the signature does not fit: payload or signature was changed") from None
    try:
        document = load_json(payload.decode("utf-8"), MAX_NUMBERS)
    except (UnicodeDecodeError, RecordError) as error:
        raise SignatureError(f"the signed payload is no JSON: {error}") from None
    if not isinstance(document, dict):
        raise SignatureError("the signed payload is no JSON object")
    return document


def opened_receipt(data: bytes, public_key_hex: str) -> Receipt:
    """The receipt in the envelope ``data``; SignatureError as `opened`, and where it is none of this edition."""
    return _model(Receipt, "receipt", data, public_key_hex)


def opened_record(data: bytes, public_key_hex: str) -> ScoreRecord:
    """The record in the envelope ``data``; SignatureError as `opened`, and where it is none of this edition."""
    return _model(ScoreRecord, "record", data, public_key_hex)


def _model(model: type[M], kind: Kind, data: bytes, public_key_hex: str) -> M:
    document = opened(data, kind, public_key_hex)
    try:
        return model.model_validate_json(json.dumps(document))
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise SignatureError(f"signed, but no {kind} of edition {EDITION}: {where} does not fit") from None


def _parts(data: bytes, kind: Kind) -> tuple[bytes, str, bytes]:
    """Payload, key id and signature of an envelope of the right shape and kind; nothing of it is believed yet."""
    if len(data) > MAX_ENVELOPE:
        raise SignatureError(f"{len(data)} bytes; an envelope has at most {MAX_ENVELOPE}")
    try:
        envelope = load_json(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise SignatureError("no signed envelope: bytes that are not UTF-8") from None
    except RecordError as error:
        raise SignatureError(f"no signed envelope: {error}") from None
    if not isinstance(envelope, dict) or set(envelope) != {"payload", "payloadType", "signatures"}:
        raise SignatureError("no signed envelope: wanted exactly payload, payloadType and signatures")
    if envelope["signatures"] == []:
        raise SignatureError("unsigned: it holds no signature")
    if envelope["payloadType"] != payload_type(kind):
        raise SignatureError(f"another kind of document: {str(envelope['payloadType'])[:80]}, wanted a {kind}")
    match envelope["signatures"]:
        case [{"keyid": str(keyid), "sig": str(signature), **rest}] if not rest:
            return _base64(envelope["payload"], "payload"), keyid, _base64(signature, "signature")
    raise SignatureError("no signed envelope: wanted one signature, with keyid and sig")


def _base64(text: Any, what: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, TypeError, binascii.Error):
        raise SignatureError(f"no signed envelope: the {what} is no base64") from None
    if base64.b64encode(data).decode() != text:  # the last character has bits that decoding ignores
        raise SignatureError(f"no signed envelope: the {what} is no canonical base64")
    return data
