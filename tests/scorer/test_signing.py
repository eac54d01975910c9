"""Keys and envelopes: what was signed opens, anything else is refused by name."""

import base64
import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, x25519
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_public_key,
)

from protocol.canonical import canonical_json
from protocol.hosting import Receipt, ScoreRecord
from scorer import signing
from scorer.signing import (
    AnotherKey,
    KeyFileError,
    SignatureError,
    load_key,
    new_key,
    opened,
    opened_receipt,
    opened_record,
    pre_authentication,
    public_hex,
    seal,
)
from tests.hosting import KEY, OTHER_KEY, hosted_task, lock_of, receipt_of, score_record, write_key

PUBLIC = public_hex(KEY)


@pytest.fixture(scope="module")
def envelope() -> bytes:
    task = hosted_task()
    return seal(receipt_of(task, lock_of(task)), "receipt", KEY)


def changed(data: bytes, **fields: Any) -> bytes:
    """The envelope with parts of it replaced."""
    return json.dumps({**json.loads(data), **fields}).encode()


def test_the_vector_of_the_dsse_specification() -> None:
    wanted = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert pre_authentication("http://example.com/HelloWorld", b"hello world") == wanted
    assert pre_authentication("", b"") == b"DSSEv1 0  0 "
    assert pre_authentication("é", "é".encode()) == "DSSEv1 2 é 2 é".encode()  # bytes are counted, not characters


def test_an_envelope_is_dsse_over_canonical_json(envelope: bytes) -> None:
    parts = json.loads(envelope)
    payload = base64.b64decode(parts["payload"])
    assert parts["payloadType"] == "application/vnd.mvc.receipt+json"
    assert payload == canonical_json(json.loads(payload))
    (signature,) = parts["signatures"]
    assert signature["keyid"] == PUBLIC
    key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(PUBLIC))
    key.verify(base64.b64decode(signature["sig"]), pre_authentication(parts["payloadType"], payload))


def test_the_same_document_gives_the_same_bytes(envelope: bytes) -> None:
    task = hosted_task()
    receipt = receipt_of(task, lock_of(task))
    assert seal(receipt, "receipt", KEY) == envelope
    assert seal(receipt.model_dump(), "receipt", KEY) == envelope
    assert opened_receipt(envelope, PUBLIC) == receipt
    record = score_record(task)
    assert opened_record(seal(record, "record", KEY), PUBLIC) == record


@pytest.mark.parametrize("name", list(Receipt.model_fields))
def test_a_receipt_with_any_field_flipped_is_refused(envelope: bytes, name: str) -> None:
    payload = json.loads(base64.b64decode(json.loads(envelope)["payload"]))
    payload[name] = payload[name] + 1 if isinstance(payload[name], int) else "1" + payload[name][1:]
    forged = changed(envelope, payload=base64.b64encode(canonical_json(payload)).decode())
    with pytest.raises(SignatureError, match="the signature does not fit: payload or signature was changed"):
        opened(forged, "receipt", PUBLIC)


@pytest.mark.parametrize("name", list(ScoreRecord.model_fields))
def test_a_record_with_any_field_flipped_is_refused(name: str) -> None:
    data = seal(score_record(hosted_task()), "record", KEY)
    payload = json.loads(base64.b64decode(json.loads(data)["payload"]))
    assert name in payload
    payload[name] = "another"
    with pytest.raises(SignatureError, match="the signature does not fit"):
        opened_record(changed(data, payload=base64.b64encode(canonical_json(payload)).decode()), PUBLIC)


@pytest.mark.parametrize("byte", [0, 31, 32, 63])
def test_a_flipped_byte_of_the_signature_is_refused(envelope: bytes, byte: int) -> None:
    raw = bytearray(base64.b64decode(json.loads(envelope)["signatures"][0]["sig"]))
    raw[byte] ^= 1
    forged = changed(envelope, signatures=[{"keyid": PUBLIC, "sig": base64.b64encode(raw).decode()}])
    with pytest.raises(SignatureError, match="the signature does not fit"):
        opened(forged, "receipt", PUBLIC)


def test_every_single_byte_of_an_envelope_counts(envelope: bytes) -> None:
    kept = opened(envelope, "receipt", PUBLIC)
    for place in range(len(envelope.rstrip())):
        forged = bytearray(envelope)
        forged[place] ^= 1
        with pytest.raises(SignatureError):
            opened(bytes(forged), "receipt", PUBLIC)
    assert opened(b" " + envelope + b"\n", "receipt", PUBLIC) == kept


def test_another_key_is_named(envelope: bytes) -> None:
    task = hosted_task()
    foreign = seal(receipt_of(task, lock_of(task)), "receipt", OTHER_KEY)
    with pytest.raises(AnotherKey, match=f"signed by another key: {public_hex(OTHER_KEY)[:16]}…, wanted the host's"):
        opened(foreign, "receipt", PUBLIC)
    parts = json.loads(foreign)
    parts["signatures"][0]["keyid"] = PUBLIC
    with pytest.raises(SignatureError, match="the signature does not fit"):
        opened(json.dumps(parts).encode(), "receipt", PUBLIC)


def test_a_receipt_is_no_record(envelope: bytes) -> None:
    with pytest.raises(SignatureError, match=r"another kind of document: application/vnd.mvc.receipt\+json"):
        opened(envelope, "record", PUBLIC)
    relabelled = changed(envelope, payloadType="application/vnd.mvc.record+json")
    with pytest.raises(SignatureError, match="the signature does not fit"):
        opened(relabelled, "record", PUBLIC)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"signatures": []}, "unsigned: it holds no signature"),
        ({"signatures": {}}, "wanted one signature"),
        ({"signatures": None}, "wanted one signature"),
        ({"signatures": [{"sig": "aaaa"}]}, "wanted one signature"),
        ({"signatures": [{"keyid": "a", "sig": "aaaa", "x": 1}]}, "wanted one signature"),
        ({"signatures": [{"keyid": 1, "sig": "aaaa"}]}, "wanted one signature"),
        ({"signatures": [{"keyid": "a", "sig": "aaaa"}] * 2}, "wanted one signature"),
        ({"signatures": [{"keyid": PUBLIC, "sig": "not base64"}]}, "the signature is no base64"),
        ({"payload": "*"}, "the payload is no base64"),
        ({"payload": "é"}, "the payload is no base64"),
        ({"payload": 5}, "the payload is no base64"),
        ({"payload": "YR=="}, "no canonical base64"),
        ({"payload": [[[]]]}, "the payload is no base64"),
        ({"payloadType": {}}, "another kind of document"),
        ({"extra": 1}, "wanted exactly payload, payloadType and signatures"),
    ],
)
def test_another_shape_is_refused(envelope: bytes, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(SignatureError, match=told):
        opened(changed(envelope, **fields), "receipt", PUBLIC)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"payload": 1e999}', b'{"a": 1, "a": 2}', b"\0", b"9" * 99],
)
def test_junk_is_no_envelope(data: bytes) -> None:
    with pytest.raises(SignatureError, match="no signed envelope"):
        opened(data, "receipt", PUBLIC)


def test_too_many_bytes(envelope: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "MAX_ENVELOPE", len(envelope) - 1)
    with pytest.raises(SignatureError, match=f"{len(envelope)} bytes; an envelope has at most"):
        opened(envelope, "receipt", PUBLIC)


def test_what_is_signed_but_fits_no_model_is_refused() -> None:
    with pytest.raises(SignatureError, match=r"signed, but no receipt of edition .*: edition does not fit"):
        opened_receipt(seal({"x": 1}, "receipt", KEY), PUBLIC)
    for public in ("", "zz", "0" * 10):
        with pytest.raises(SignatureError, match="another key"):
            opened(seal({"x": 1}, "receipt", KEY), "receipt", public)


def test_keys_are_made_once_and_for_their_owner(tmp_path: Path) -> None:
    private, public = tmp_path / "host.key", tmp_path / "host.pub"
    before = os.umask(0)
    try:
        shown = new_key(private, public)
    finally:
        os.umask(before)
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    assert public_hex(load_key(private)) == shown
    key = load_pem_public_key(public.read_bytes())
    assert isinstance(key, Ed25519PublicKey)
    assert key.public_bytes_raw().hex() == shown
    kept = private.read_bytes()
    for other in (private, tmp_path / "new.key"):
        with pytest.raises(KeyFileError, match="exists; a key is never overwritten"):
            new_key(other, public)
    assert private.read_bytes() == kept
    assert sorted(path.name for path in tmp_path.iterdir()) == ["host.key", "host.pub"]
    link = tmp_path / "link.key"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(KeyFileError):
        new_key(link, tmp_path / "b.pub")
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(KeyFileError, match="no key can be written to"):
        new_key(tmp_path / "no" / "a.key", tmp_path / "no" / "a.pub")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_key_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(KeyFileError, match=f"mode {mode:04o}.*; run: chmod 600 "):
        load_key(write_key(tmp_path / "host.key", mode=mode))


def test_what_is_no_key_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    with pytest.raises(KeyFileError, match="can't be read: No such file"):
        load_key(path)
    with pytest.raises(KeyFileError, match="can't be read: Is a directory"):
        load_key(tmp_path)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(KeyFileError, match="no plain file"):
        load_key(tmp_path / "pipe")
    locked = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    public = KEY.public_key().public_bytes_raw()
    for data in (b"", b"hello", public, locked):
        path.write_bytes(data)
        path.chmod(0o600)
        with pytest.raises(KeyFileError, match="holds no private key"):
            load_key(path)
    others: tuple[Any, ...] = (ec.generate_private_key(ec.SECP256R1()), x25519.X25519PrivateKey.generate())
    for other in others:
        path.write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        with pytest.raises(KeyFileError, match="a key of another kind; wanted Ed25519"):
            load_key(path)
    assert isinstance(load_key(write_key(path)), Ed25519PrivateKey)
