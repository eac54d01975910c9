import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from splits import attack, kept
from splits.attack import LARGEST, SPELLINGS, _spelling, _spellings, reverse_plain_digests
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
    assert len(texts) == len(expected) == SPELLINGS
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


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for kept tables, no table in memory, and fewer numbers to try."""
    monkeypatch.setenv("MVC_CACHE", str(tmp_path))
    monkeypatch.setattr(attack, "LARGEST", 1000)
    monkeypatch.setattr(attack, "LARGEST_PADDED", 200)
    monkeypatch.setattr(attack, "SPELLINGS", len(list(_spellings())))
    attack._table.cache_clear()
    yield tmp_path
    attack._table.cache_clear()


def test_a_table_is_kept_and_read_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = digest("sha1", "000123")
    assert reverse_plain_digests([name])
    assert [path.name for path in fresh.iterdir()] == [f"plain-sha1-{attack.SPELLINGS}.npy"]
    attack._table.cache_clear()
    monkeypatch.setattr(attack, "_made", None)
    assert reverse_plain_digests([name]) == {name: 'sha1("000123")'}


@pytest.mark.parametrize("spoil", ["cut", "another", "unsorted", "wrong", "pickle", "out of range", "header"])
def test_a_kept_table_that_is_no_such_table_is_made_again(spoil: str, fresh: Path) -> None:
    attack.prepare("md5")
    (place,) = fresh.iterdir()
    table = np.load(place)
    if spoil == "cut":
        place.write_bytes(place.read_bytes()[:-100])
    elif spoil == "header":  # a name that numpy's parser of it can't even tokenize
        place.write_bytes(place.read_bytes()[:20] + b"'''(" + place.read_bytes()[24:])
    elif spoil == "pickle":
        np.save(place, np.array([{"a": 1}]), allow_pickle=True)
    else:
        if spoil == "unsorted":
            table = table[::-1]
        elif spoil == "wrong":
            table ^= np.uint64(1 << 21)
            table.sort()
        elif spoil == "out of range":
            table[0] |= attack.PLACE
        np.save(place, table[1:] if spoil == "another" else table)
    attack._table.cache_clear()
    name = digest("md5", "77")
    assert reverse_plain_digests([name]) == {name: 'md5("77")'}
    assert attack._fits(np.load(place), "md5")


@pytest.mark.parametrize("environment", [{"MVC_CACHE": "/proc/nowhere"}, {"MVC_CACHE": ""}, {}])
def test_without_a_place_to_keep_it_nothing_is_lost(
    environment: dict[str, str], fresh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MVC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert reverse_plain_digests([digest("md5", "5")])


def test_where_tables_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MVC_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert kept.folder() == Path("/home/somebody/.cache/mvc-kit")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert kept.folder() == Path("/caches/mvc-kit")


def test_digests_that_start_alike_are_told_apart(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With four bits to go by, every entry has many neighbours."""
    monkeypatch.setattr(attack, "PLACE", np.uint64((1 << 60) - 1))
    names = {digest("sha256", str(n)): f'sha256("{n}")' for n in range(1000)}
    assert reverse_plain_digests([*names, digest("sha256", "1000000")]) == names
