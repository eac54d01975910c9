import csv
import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from splits import attack, kept
from splits.attack import forms, reverse_plain_digests, search_patterns
from splits.hashing import hash_identifiers
from splits.spellings import TRIED, Family, Pattern, Spellings, numbered
from tests.real.chest import ROOT, TABLE


def digest(algorithm: str, text: str) -> str:
    return hashlib.new(algorithm, text.encode()).hexdigest()


def digests(*texts: str) -> list[str]:
    return [digest("sha256", text) for text in texts]


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
    texts += ["1_left", "44351_right.jpeg", "00030805_000.png", "patient00001", "IM004999.png", "lesion_000999"]
    texts += [TRIED.text(place).decode() for place in (0, TRIED.count // 2, TRIED.count - 1)]
    expected = {digest(algorithm, text): f'{algorithm}("{text}")' for text in texts}
    assert reverse_plain_digests(expected) == expected


def test_other_texts_resist() -> None:
    texts = ["1000000", "0100000", "000000000", "-1", "1.5", "patient", " 1", "1\r\n", "", "0_left", "name of a person"]
    assert reverse_plain_digests(digests(*texts)) == {}


def test_either_case_is_reversed_under_its_own_name_in_order() -> None:
    low, other = digest("sha1", "42"), digest("sha1", "7")
    mixed = low[:20] + low[20:].upper()
    names = [other, low.upper(), "x" * 40, low, mixed, other]
    expected = {other: 'sha1("7")', low.upper(): 'sha1("42")', low: 'sha1("42")', mixed: 'sha1("42")'}
    assert list(reverse_plain_digests(names).items()) == list(expected.items())


def test_a_mixed_file_gives_only_what_is_reversed() -> None:
    plain = digests(*(f"{n:05d}" for n in range(50)))
    keyed = hash_identifiers(b"k" * 32, "site", [f"{n:05d}" for n in range(50)])
    found = reverse_plain_digests(iter(plain + keyed))
    assert found == {name: f'sha256("{n:05d}")' for n, name in enumerate(plain)}


@pytest.mark.parametrize(
    "name",
    ["", "7", "patient", "g" * 64, "a" * 63, "a" * 65, "１" * 64, " " + "a" * 63, "+" + "a" * 63, "-" + "a" * 63],
)
def test_what_is_no_digest_is_not_tried(name: str) -> None:
    assert reverse_plain_digests([name]) == {}
    assert reverse_plain_digests(pl.Series([name, None])) == {}


def test_text_without_a_utf8_form_is_no_digest() -> None:
    assert reverse_plain_digests(["\ud800" * 64, digest("sha256", "7")]) == {digest("sha256", "7"): 'sha256("7")'}


def test_keyed_hashes_of_small_numbers_resist() -> None:
    names = hash_identifiers(b"k" * 32, "site", map(str, range(50_000)))
    assert reverse_plain_digests(names) == {}


def test_a_column_gives_what_a_list_gives() -> None:
    plain = [digest(name, str(n)) for n, name in enumerate(("sha256", "md5", "sha256", "sha1", "md5"))]
    column = pl.Series([None, "", *plain, *plain, *hash_identifiers(b"k" * 32, "", "abc")])
    found = reverse_plain_digests(column)
    assert list(found.items()) == list(reverse_plain_digests(column.drop_nulls().to_list()).items())
    assert list(found) == plain


def test_an_identifier_that_starts_as_a_known_digest_resists() -> None:
    """All that is kept of a digest, and all that is read of an identifier, is not enough to convict."""
    known = digest("sha256", "7")
    near = known[:40] + ("0" if known[40] != "0" else "1") + known[41:]
    no_hex = known[:-1] + "g"
    assert reverse_plain_digests([near, no_hex]) == {}
    assert reverse_plain_digests([near, known, no_hex]) == {known: 'sha256("7")'}
    assert search_patterns([near, known, no_hex], [Pattern("", "", 0, 9)]) == {known: 'sha256("7")'}


def test_a_family_is_tried_whole_once_one_of_it_was_found() -> None:
    follow_ups = digests(*(f"{patient:08d}_{visit:03d}.png" for patient in (7, 30_805) for visit in (1, 2, 5)))
    assert reverse_plain_digests(follow_ups) == {}
    found = reverse_plain_digests([*follow_ups, *digests("00000007_000.png")])
    assert list(found) == [*follow_ups, *digests("00000007_000.png")]
    assert found[follow_ups[5]] == 'sha256("00030805_005.png")'


def test_what_follows_a_hit_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "REST", 1)
    near, far = digests("00000007_001"), digests("00000007_009")
    found = reverse_plain_digests([*digests("00000007_000"), *near, *far])
    assert set(found) == {*digests("00000007_000"), *near}


def test_a_family_without_hits_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attack, "IDLE", 30_805 * 2)
    near = digests("00000007_000", "00000007_002", "00000007_003")
    found = reverse_plain_digests([*near, *digests("00000007_006")])
    assert list(found) == near


def test_names_of_an_official_list_are_tried() -> None:
    listed = ["images/ADI-TCGA-AAAHKFNR.tif", "a1b2c3d4e5f6.png", "caf\u00e9 \u201c1\u201d"]
    hashed = ["ADI-TCGA-AAAHKFNR", "a1b2c3d4e5f6", "a1b2c3d4e5f6.jpg", "caf\u00e9 \u201c1\u201d", "images"]
    names = [digest("md5", hashed[0]), *digests(*hashed[1:]), *digests("another")]
    assert reverse_plain_digests(names) == {}
    expected = {names[0]: 'md5("ADI-TCGA-AAAHKFNR")'} | {
        name: f'sha256("{text}")' for name, text in zip(names[1:-1], hashed[1:], strict=True)
    }
    assert reverse_plain_digests(names, listed) == expected
    assert reverse_plain_digests(names, iter(listed)) == expected


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("a/b/c.png", {"a/b/c.png", "c.png", "c", "a/b/c", "c.jpg", "a", "b"}),
        ("C:\\data\\c.dcm", {"C:\\data\\c.dcm", "C:/data/c.dcm", "c", "c.png", "data"}),
        ("c", {"c", "c.png", "c.jpeg", "c.tif"}),
        ("1.2.840.113619", {"1.2.840.113619", "1.2.840.113619.dcm"}),
        ("", {""}),
    ],
)
def test_the_forms_of_a_name(name: str, wanted: set[str]) -> None:
    assert wanted <= set(forms(name))


def test_a_pre_image_is_shown_on_one_line() -> None:
    assert list(reverse_plain_digests(digests("7\n")).values()) == ['sha256("7\\n")']


def test_a_long_search_reports_and_ends_early() -> None:
    tried: list[int] = []
    patterns = [Pattern("2005_", "_PP", 0, 10), Pattern("2006_", "_PP", 0, 10), Pattern("2007_", "_PP", 0, 10)]
    names = [digest("md5", "2006_4_PP"), *digests("2005_9_PP")]
    expected = {names[0]: 'md5("2006_4_PP")', names[1]: 'sha256("2005_9_PP")'}
    found = search_patterns([*names, *names], patterns, tried.append)
    assert list(found.items()) == list(expected.items())
    assert tried == [10, 20]


def test_a_million_keyed_identifiers_pass_in_no_time() -> None:
    rows = np.random.default_rng(1).bytes(32_000_000).hex()
    keyed = pl.Series([rows[at : at + 64] for at in range(0, len(rows), 64)])
    plain = pl.Series(digests("1", "1_left"))
    assert set(reverse_plain_digests(pl.concat([keyed, plain, keyed, plain]))) == set(plain)


FEW = Spellings([Family("a number", numbered("", "", 1000, 200, range(2, 9)))])


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder for kept tables, no table in memory, and fewer texts to try."""
    monkeypatch.setenv("MVC_CACHE", str(tmp_path))
    monkeypatch.setattr(attack, "TRIED", FEW)
    attack._table.cache_clear()
    yield tmp_path
    attack._table.cache_clear()


def test_a_table_is_kept_and_read_again(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = digest("sha1", "000123")
    assert reverse_plain_digests([name])
    wanted = f"plain-sha1-{FEW.version}-{FEW.count}.npy"
    assert [path.name for path in fresh.iterdir()] == [wanted]
    attack._table.cache_clear()
    monkeypatch.setattr(attack, "_made", None)
    assert reverse_plain_digests([name]) == {name: 'sha1("000123")'}


def test_a_table_of_another_list_is_not_read(fresh: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of as many texts."""
    attack.prepare("sha1")
    monkeypatch.setattr(attack, "TRIED", Spellings([Family("other", (Pattern("q", "", 0, FEW.count),))]))
    attack._table.cache_clear()
    name = digest("sha1", "q7")
    assert reverse_plain_digests([name]) == {name: 'sha1("q7")'}
    assert len(list(fresh.iterdir())) == 2


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
            table ^= np.uint64(int(attack.PLACE) + 1)
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


def real(path: Path) -> list[str]:
    """The first column of a released file, or a skip with the reason."""
    if not path.is_file():
        pytest.skip(f"the released file {path.name} is not on this machine")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return [row[0].split()[0] for row in csv.reader(lines)][1:]


def test_released_names_of_nih_are_reversed() -> None:
    """Every first visit at once, later ones as its follow-ups."""
    images = real(TABLE)
    assert len(images) == 112_120
    chosen = [image for image in images if image < "00003000" and image[9:12] < "020"]
    assert set(reverse_plain_digests(digests(*chosen))) == set(digests(*chosen))
    first = digests(*(image[:-4] for image in images if "_000" in image))
    assert len(reverse_plain_digests(first)) == len(first) == 30_805


@pytest.mark.parametrize("ending", [".jpeg", ".png"])
def test_released_names_of_eyepacs_are_reversed(ending: str) -> None:
    grades = ROOT / "mikevoets+jama16-retina-replication" / "vendor" / "eyepacs" / "eyepacs_gradability_grades.csv"
    names = digests(*(name + ending for name in real(grades)))
    assert len(reverse_plain_digests(names)) == len(set(names)) == 88_702


def test_released_names_of_messidor_need_the_list() -> None:
    grades = ROOT / "mikevoets+jama16-retina-replication" / "vendor" / "messidor" / "messidor_gradability_grades.csv"
    images = real(grades)
    names = digests(*(f"{image}.tif" for image in images))
    assert reverse_plain_digests(names) == {}
    assert len(reverse_plain_digests(names, images)) == len(images) == 1_187
