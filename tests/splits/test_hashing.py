import hashlib
import hmac
import os
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splits import hashing
from splits.hashing import (
    digests,
    hash_column,
    hash_identifier,
    hash_identifiers,
    hex_column,
    new_salt,
    published_beside,
    read_salt,
    salt_check,
    salt_warnings,
    write_salt,
)

SALT = bytes(range(32))
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)


def hmac_by_definition(key: bytes, message: bytes) -> str:
    """RFC 2104, section 2, spelled out: H(K xor opad, H(K xor ipad, text)), blocks of 64 bytes."""
    key = (hashlib.sha256(key).digest() if len(key) > 64 else key).ljust(64, b"\0")
    inner = hashlib.sha256(bytes(b ^ 0x36 for b in key) + message).digest()
    return hashlib.sha256(bytes(b ^ 0x5C for b in key) + inner).hexdigest()


# RFC 4231, sections 4.2, 4.3, 4.4 and 4.7: key, data, HMAC-SHA-256
RFC_4231 = [
    (b"\x0b" * 20, b"Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
    (b"Jefe", b"what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"),
    (b"\xaa" * 20, b"\xdd" * 50, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"),
    (
        b"\xaa" * 131,
        b"Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
    ),
]


@pytest.mark.parametrize(("key", "data", "expected"), RFC_4231)
def test_the_reference_hmac_meets_the_published_vectors(key: bytes, data: bytes, expected: str) -> None:
    assert hmac_by_definition(key, data) == expected


@pytest.mark.parametrize(("key", "data", "expected"), RFC_4231)
def test_the_standard_library_meets_the_published_vectors(key: bytes, data: bytes, expected: str) -> None:
    assert hmac.new(key, data, "sha256").hexdigest() == expected


@given(st.binary(min_size=16, max_size=200), TEXT, st.lists(TEXT.filter(bool), min_size=1, max_size=4))
def test_every_way_of_hashing_is_the_hmac_of_the_standard_library(
    salt: bytes, namespace: str, identifiers: list[str]
) -> None:
    space = namespace.encode()
    wanted = [
        hmac.new(salt, len(space).to_bytes(8, "big") + space + text.encode(), "sha256").digest() for text in identifiers
    ]
    column = pl.Series("id", identifiers)
    assert hash_identifiers(salt, namespace, identifiers) == [digest.hex() for digest in wanted]
    assert digests(salt, namespace, column).tobytes() == b"".join(wanted)
    assert hash_column(salt, namespace, column).to_list() == [digest.hex() for digest in wanted]


@pytest.mark.parametrize("length", [63, 64, 65, 131])
def test_salts_around_a_block_of_sha256(length: int) -> None:
    salt = bytes(index % 251 for index in range(length))
    assert hash_identifier(salt, "", "7") == hmac_by_definition(salt, bytes(8) + b"7")


def test_a_column_keeps_name_order_repeats_and_nulls() -> None:
    column = pl.Series("who", ["b", None, "a", "b", "é" * 300])
    hashed = hash_column(SALT, "site", column)
    assert hashed.name == "who"
    assert hashed.to_list() == [text and hash_identifier(SALT, "site", text) for text in column]
    nothing = hash_column(SALT, "site", pl.Series("who", [], dtype=pl.String))
    assert nothing.equals(pl.Series("who", [], dtype=pl.String), check_dtypes=True)
    assert hash_column(SALT, "site", pl.Series("who", [None, None], dtype=pl.String)).to_list() == [None, None]


def test_columns_longer_than_what_is_hashed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "CHUNK", 3)
    texts = [f"image {index}" for index in range(10)]
    found = digests(SALT, "site", pl.Series(texts))
    assert hex_column(found).to_list() == hash_identifiers(SALT, "site", texts)
    with pytest.raises(ValueError, match="identifier is empty"):
        digests(SALT, "site", pl.Series([*texts, ""]))


@given(st.lists(st.binary(min_size=32, max_size=32), max_size=5))
def test_hex_of_rows(rows: list[bytes]) -> None:
    found = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 32)
    assert hex_column(found).to_list() == [row.hex() for row in rows]


def test_the_check_of_a_salt_tells_salts_apart_and_is_no_identifier() -> None:
    assert salt_check(SALT) == hmac_by_definition(SALT, bytes(8) + b"mvc-kit salt check")[:16]
    assert len({salt_check(bytes([index]) * 32) for index in range(50)}) == 50
    assert SALT.hex()[:16] != salt_check(SALT)
    with pytest.raises(ValueError, match="at least 16"):
        salt_check(b"x" * 15)


@pytest.mark.parametrize("salt", [SALT, b"\x0b" * 20, b"\xaa" * 131])
def test_hash_is_the_hmac_of_the_stated_encoding(salt: bytes) -> None:
    # "São" is 4 bytes of UTF-8: the count is of bytes, not of characters
    message = b"\0\0\0\0\0\0\0\x04" + b"S\xc3\xa3o" + b"patient 7"
    expected = hmac_by_definition(salt, message)
    assert hash_identifier(salt, "São", "patient 7") == expected
    assert hmac.new(salt, message, "sha256").hexdigest() == expected


def test_an_empty_namespace_has_count_zero() -> None:
    assert hash_identifier(SALT, "", "7") == hmac_by_definition(SALT, bytes(8) + b"7")


@given(TEXT, TEXT.filter(bool), TEXT, TEXT.filter(bool))
def test_different_pairs_have_different_hashes(space_a: str, id_a: str, space_b: str, id_b: str) -> None:
    same = hash_identifier(SALT, space_a, id_a) == hash_identifier(SALT, space_b, id_b)
    assert same == ((space_a, id_a) == (space_b, id_b))


def test_moving_the_border_between_namespace_and_identifier_changes_the_hash() -> None:
    assert hash_identifier(SALT, "a", "bc") != hash_identifier(SALT, "ab", "c")
    assert hash_identifier(SALT, "site\0", "7") != hash_identifier(SALT, "site", "\x007")


def test_text_is_taken_as_it_stands() -> None:
    spellings = ["7", "07", "7 ", "a", "A", "é", "e\u0301"]
    assert len({hash_identifier(SALT, "site", text) for text in spellings}) == len(spellings)


def test_many_are_hashed_in_order_and_repeats_agree() -> None:
    hashed = hash_identifiers(SALT, "site", iter(["b", "a", "b"]))
    assert hashed == [hash_identifier(SALT, "site", text) for text in ("b", "a", "b")]
    assert hashed[0] == hashed[2] != hashed[1]
    assert hash_identifiers(SALT, "site", []) == []


def test_another_salt_gives_another_hash() -> None:
    assert hash_identifier(SALT, "site", "7") != hash_identifier(SALT[::-1], "site", "7")


def test_an_empty_identifier_is_refused() -> None:
    with pytest.raises(ValueError, match="identifier is empty"):
        hash_identifiers(SALT, "site", ["a", ""])


@pytest.mark.parametrize("salt", [b"", b"x" * 15])
def test_a_short_salt_is_refused_even_for_no_identifiers(salt: bytes) -> None:
    with pytest.raises(ValueError, match=f"salt has {len(salt)} bytes; at least 16"):
        hash_identifiers(salt, "site", [])


def test_text_without_utf8_form_is_refused() -> None:
    with pytest.raises(ValueError, match="surrogates"):
        hash_identifier(SALT, "site", "\ud800")


def test_new_salts_are_32_bytes_and_differ() -> None:
    salts = {new_salt() for _ in range(20)}
    assert len(salts) == 20
    assert {len(salt) for salt in salts} == {32}


def test_a_salt_file_is_private_hex_and_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    write_salt(path, SALT)
    assert path.read_bytes() == SALT.hex().encode() + b"\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_salt(path) == SALT


def test_a_salt_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    write_salt(path, SALT)
    with pytest.raises(FileExistsError, match="never overwritten"):
        write_salt(path, SALT[::-1])
    assert read_salt(path) == SALT


def test_a_salt_of_another_length_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        write_salt(tmp_path / "salt", SALT[1:])
    assert not (tmp_path / "salt").exists()


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_line_ends_and_upper_case_are_read(tmp_path: Path, end: bytes) -> None:
    (tmp_path / "salt").write_bytes(SALT.hex().upper().encode() + end)
    assert read_salt(tmp_path / "salt") == SALT


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"ab" * 31,
        b"ab" * 33,
        b"ab" * 31 + b"xy",
        b" " + b"ab" * 32,
        b"ab" * 32 + b"\n\n",
        b"ab " * 32,
        b"\xff" * 64,
    ],
)
def test_other_content_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "salt").write_bytes(content)
    with pytest.raises(ValueError, match="not a salt file: it must hold 64 hex") as error:
        read_salt(tmp_path / "salt")
    assert "abab" not in str(error.value)


def test_a_missing_salt_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_salt(tmp_path / "none")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "salt")
    with pytest.raises(ValueError, match="salt is a pipe or device; save the salt as a file"):
        read_salt(tmp_path / "salt")
    with pytest.raises(ValueError, match="is a pipe or device"):
        read_salt(Path(os.devnull))


def test_a_salt_that_others_get_is_said(tmp_path: Path) -> None:
    path = tmp_path / "salt"
    assert salt_warnings(path) == []
    write_salt(path, SALT)
    assert salt_warnings(path) == []
    path.chmod(0o640)
    (said,) = salt_warnings(path)
    assert "can be read or changed by others on this machine (mode 0640); chmod 600 mends it" in said
    path.chmod(0o600)
    assert published_beside(path) is None
    (tmp_path / "split.json").touch()
    assert published_beside(path) == "split.json"
    (said,) = salt_warnings(path)
    assert "lies beside split.json, in a folder to publish" in said
    assert SALT.hex() not in said
