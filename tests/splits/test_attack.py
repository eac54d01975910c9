import hashlib

import pytest

from splits.attack import LARGEST, _spelling, _spellings, reverse_plain_digests
from splits.hashing import hash_identifiers


def digest(algorithm: str, text: str) -> str:
    return hashlib.new(algorithm, text.encode()).hexdigest()


def test_well_known_digests_are_reversed() -> None:
    # the widely published digests of "1"
    known = {
        "c4ca4238a0b923820dcc509a6f75849b": 'md5("1")',
        "356a192b7913b04c54574d18c28d46e6395428ab": 'sha1("1")',
        "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b": 'sha256("1")',
    }
    assert reverse_plain_digests(known) == known


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_the_ends_of_every_range_are_reversed(algorithm: str) -> None:
    texts = ["0", "999999", "00", "09", "000123", "099999", "00000000", "0099999", "00099999"]
    expected = {digest(algorithm, text): f'{algorithm}("{text}")' for text in texts}
    assert reverse_plain_digests(expected) == expected


def test_other_texts_resist() -> None:
    texts = ["1000000", "0100000", "000000000", "-1", "1.0", "patient1", " 1", "1\n", ""]
    assert reverse_plain_digests([digest("sha256", text) for text in texts]) == {}


def test_every_text_is_tried_once() -> None:
    texts = list(_spellings())
    expected = {b"%d" % n for n in range(1_000_000)} | {b"%0*d" % (w, n) for w in range(2, 9) for n in range(100_000)}
    assert len(texts) == len(expected) == 1_311_110
    assert expected == set(texts)
    for index in (0, LARGEST - 1, LARGEST, LARGEST + 9, LARGEST + 10, LARGEST + 200_000, len(texts) - 1):
        assert _spelling(index) == texts[index]
    with pytest.raises(IndexError):
        _spelling(len(texts))


def test_either_case_is_reversed_under_its_own_name_in_order() -> None:
    low, other = digest("sha1", "42"), digest("sha1", "7")
    mixed = low[:20] + low[20:].upper()
    names = [other, low.upper(), "x" * 40, low, mixed, other]
    expected = {other: 'sha1("7")', low.upper(): 'sha1("42")', low: 'sha1("42")', mixed: 'sha1("42")'}
    assert list(reverse_plain_digests(names).items()) == list(expected.items())


def test_a_mixed_file_gives_only_what_is_reversed() -> None:
    plain = [digest("sha256", f"{n:05d}") for n in range(50)]
    keyed = hash_identifiers(b"k" * 32, "site", [f"{n:05d}" for n in range(50)])
    found = reverse_plain_digests(iter(plain + keyed))
    assert found == {name: f'sha256("{n:05d}")' for n, name in enumerate(plain)}


@pytest.mark.parametrize("name", ["", "7", "patient", "g" * 64, "a" * 63, "a" * 65, "１" * 64, " " + "a" * 63])
def test_what_is_no_digest_is_not_tried(name: str) -> None:
    assert reverse_plain_digests([name]) == {}


def test_keyed_hashes_of_small_numbers_resist() -> None:
    names = hash_identifiers(b"k" * 32, "site", map(str, range(50_000)))
    assert reverse_plain_digests(names) == {}
