"""Records: YAML and JSON that explode, pretend, or point where nothing of a submission lies."""

import json
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.museum.registry import exhibit, show
from tests.museum.support import append, overwrite

RECORD = "submission.yaml"
LAUGHS = "\n".join(
    ["a: &a [x, x]", *(f"{b}: &{b} [*{a}, *{a}]" for a, b in zip("abcdefghij", "bcdefghijk", strict=True))]
)


def adding(text: str) -> Callable[[Path], None]:
    """The good record with ``text`` after it."""
    return lambda folder: append(folder, f"\n{text}\n")


def field(path: str, value: object) -> Callable[[Path], None]:
    """The good record with one field set."""

    def make(folder: Path) -> None:
        document = yaml.safe_load((folder / RECORD).read_text())
        here = document
        *outer, last = path.split(".")
        for key in outer:
            here = here[int(key)] if key.isdigit() else here[key]
        here[last] = value
        (folder / RECORD).write_text(yaml.safe_dump(document, allow_unicode=False))

    return make


for name, text, story in (
    ("laughs", LAUGHS, "a billion laughs"),
    ("alias_to_itself", "x: &a [*a]", "a list that holds itself"),
    ("alias_once", "x: &a 1\ny: *a", "one alias"),
    ("nested_1000", "x: " + "[" * 1000 + "]" * 1000, "a thousand levels"),
    ("nested_mappings", "x: " + "{a: " * 300 + "1" + "}" * 300, "three hundred levels of mappings"),
    ("nested_open", "x: " + "[" * 100_000, "a hundred thousand brackets that are never closed"),
    ("nested_questions", "? " * 3000 + "x", "keys that are keys that are keys"),
    ("values_60000", "x: [" + "1," * 60_000 + "]", "sixty thousand values"),
    ("python_object", "x: !!python/object/apply:os.system [id]", "a tag that would run a program"),
    ("python_name", "x: !!python/name:os.system", "a tag that names a function"),
    ("python_tuple", "title: !!python/tuple [a, b]", "a tag that makes a tuple"),
    ("own_tag", "x: !evil y", "a tag of its own"),
    ("binary_tag", "x: !!binary aGk=", "bytes"),
    ("set_tag", "x: !!set {a, b}", "a set"),
    ("merge_key", "x: {<<: {a: 1}}", "a merge key"),
    ("equals_key", "x: =", "the value =, which has a tag of its own"),
    ("huge_whole", "x: " + "9" * 5000, "a whole number of 5,000 digits"),
    ("huge_hex", "x: 0x" + "f" * 100_000, "a hexadecimal number of 100,000 digits"),
    ("above_2_53", "x: 9007199254740993", "a whole number that JSON can't carry"),
    ("sexagesimal", "x: 1" + ":1" * 250_000, "a number to the base of sixty, half a megabyte long"),
    ("sexagesimal_float", "x: 1" + ":1" * 300 + ".5", "the same with a fraction: it overflows"),
    ("huge_exponent", "x: 1.0e+999", "a number beyond float64"),
    ("nan", "x: .nan", "not a number"),
    ("infinity_key", ".inf: 1", "infinity for a key"),
    ("number_key", "7: 1", "a number for a key"),
    ("list_key", "? [a, b]\n: 1", "a list for a key"),
    ("null_key", "~: 1", "null for a key"),
    ("doubled_key", "edition: '2026.1'", "a doubled key"),
    ("two_documents", "---\nedition: '2026.1'", "a second document"),
    ("date", "x: 2026-01-01", "a date"),
    ("impossible_date", "x: 2026-99-99", "a date that is none"),
    ("first_instant", "x: 0001-01-01 00:00:00 +23:59", "a time before all times"),
    ("unknown_key", "x: 1", "an unknown key"),
    ("tab", "x:\n\ty: 1", "a tab"),
    ("nul", "x: a\0b", "a NUL"),
    ("escape", "x: \x1b[2J", "an escape sequence"),
    ("surrogate", 'x: "\\ud800"', "half of a surrogate pair"),
    ("directive", "%YAML 9.9\n---\nx: 1", "a directive of another version"),
    ("open_text", 'x: "never closed', "a quote that is never closed"),
    ("long_key", "k" * 200_000 + ": 1", "a key of 200,000 characters"),
    ("hostile_key", '"\\e[2J\\u202ekey": 1', "a key that clears the terminal and turns round"),
):
    show(f"yaml_{name}", story, "MVC009", make=adding(text))

for name, data, story in (
    ("nothing", b"", "no byte"),
    ("zeros", b"\0" * 1000, "zeros"),
    ("not_utf8", b"title: caf\xe9\n", "Latin-1"),
    ("utf16", "title: x\n".encode("utf-16"), "UTF-16"),
    ("list", b"- a\n- b\n", "a list"),
    ("scalar", b"ACCEPTED", "one word"),
    ("overlong", b"title: \xc0\xae\xc0\xae\xc0\xaf\n", "an overlong form of ../"),
    ("pickle", b"\x80\x04.", "a pickle"),
):
    show(f"record_{name}", story, "MVC009", make=lambda folder, data=data: overwrite(folder, RECORD, data))  # type: ignore[misc]

for name, path, value, story in (
    ("seeds_2_31", "models.0.seeds", [2**31], "a seed above 31 bits"),
    ("seeds_2_53", "models.0.seeds", [2**53], "a seed that JSON can't carry"),
    ("seeds_negative", "models.0.seeds", [-1], "a negative seed"),
    ("seeds_equal", "models.0.seeds", [1, 1], "one seed twice"),
    ("seeds_true", "models.0.seeds", [True], "a truth value for a seed"),
    ("file_parent", "splits.file", "../splits.parquet", "a file above the bundle"),
    ("file_inside_parent", "splits.file", "configs/../../splits.parquet", "a file that climbs out"),
    ("file_absolute", "splits.file", "/etc/passwd", "an absolute file"),
    ("file_dot", "splits.file", "./splits.parquet", "a file with a dot"),
    ("file_backslash", "splits.file", "..\\splits.parquet", "a file of Windows"),
    ("file_results", "calibration.parameters", "results/metrics.parquet", "a file where results go"),
    ("file_canonical", "calibration.parameters", "submission.json", "the canonical record as a file"),
    ("file_manifest", "calibration.parameters", "ro-crate-metadata.json", "the manifest as a file"),
    ("file_nul", "splits.file", "splits\0.parquet", "a file with a NUL"),
    ("file_unicode", "splits.file", "splits\u2044x.parquet", "a file with a slash that is none"),
    ("file_long", "splits.file", "x" * 5000, "a file of 5,000 characters"),
    ("file_url", "splits.file", "http://169.254.169.254/latest", "an address for a file"),
    ("file_home", "splits.file", "~/.ssh/id_rsa", "a file of the host's home"),
    ("file_variable", "splits.file", "$HOME/x", "a file by a variable"),
    ("id_escape", "submission_id", "\x1b[32mACCEPTED", "an id with an escape sequence"),
    ("id_markup", "submission_id", "<script>alert(1)</script>", "an id that is a script"),
    ("id_path", "submission_id", "../../ledger", "an id that is a path"),
    ("id_homoglyph", "submission_id", "ехample", "an id in Cyrillic letters"),
    ("text_4001", "title", "x" * 4001, "a title of 4,001 characters"),
    ("level_nan", "uncertainty.level", 1.5, "a level above one"),
    ("folds_huge", "calibration.cross_fit", {"folds": 10**9}, "a thousand million folds"),
    ("digest_upper", "splits.sha256", "A" * 64, "a digest in upper case"),
    ("digest_short", "splits.sha256", "a" * 63, "a digest that is too short"),
    ("digest_unicode", "splits.sha256", "１" * 64, "a digest of digits of double width"),
    ("digest_line", "splits.sha256", "a" * 64 + "\n", "a digest with a line end"),
    ("waiver_markup", "waivers", [{"rule": "MVC101\n", "reason": "x"}], "a waiver with a line end"),
):
    show(f"record_{name}", story, "MVC009", make=field(path, value))


@exhibit("MVC001")
def file_of_the_ledger(folder: Path) -> None:
    """A record that names the ledger as its split file."""
    overwrite(folder, "mvc.duckdb", b"DUCK" * 1000)
    field("splits.file", "mvc.duckdb")(folder)


@exhibit("MVC001")
def record_for_splits(folder: Path) -> None:
    """A record that names itself as its split file."""
    field("splits.file", RECORD)(folder)


@exhibit("MVC004")
def runs_80000000(folder: Path) -> None:
    """Twenty thousand seeds under four thousand methods: eighty million runs in one small record."""
    document = yaml.safe_load((folder / RECORD).read_text())
    document["models"][0]["seeds"] = list(range(20_000))
    document["calibration"]["methods"] += [{"name": f"m{n}", "family": "custom"} for n in range(4000)]
    (folder / RECORD).write_text(json.dumps(document))


@exhibit("MVC004")
def classes_30000(folder: Path) -> None:
    """A task of thirty thousand classes."""
    document = yaml.safe_load((folder / "task.yaml").read_text())
    document |= {"kind": "multilabel", "classes": [f"c{n}" for n in range(30_000)]}
    (folder / "task.yaml").write_text(json.dumps(document))


@exhibit("MVC009")
def errors_40000(folder: Path) -> None:
    """Forty thousand mistakes in one record."""
    field("waivers", list(range(40_000)))(folder)


@exhibit("MVC009")
def unknown_keys_20000(folder: Path) -> None:
    """Twenty thousand unknown keys."""
    append(folder, "\n" + "\n".join(f"submission_i{n}: 1" for n in range(20_000)))


@exhibit("MVC202", "MVC310", "MVC604")
def slow_pattern(folder: Path) -> None:
    """Two hundred texts of 4,000 letters, each of them slow to search for an e-mail address."""
    document = yaml.safe_load((folder / RECORD).read_text())
    more = [{"name": f"x{n}", "seeds": [1, 2], "recipe": {"augmentation": "a" * 4000}} for n in range(200)]
    document["models"] += more
    (folder / RECORD).write_text(json.dumps(document))


@exhibit("MVC604")
def hostile_text(folder: Path) -> None:
    """Titles with escape sequences, direction marks, markup, formulas and 4,000 characters, where text is allowed."""
    text = "\x1b[2J\x1b]0;owned\x07 \u202egpj.exe <script>alert(1)</script> =cmd|' /C calc'!A0 [red]OK[/] \u200b"
    for path in ("title", "team", "contact", "recipe.augmentation", "release.reason"):
        field(path, text.ljust(4000, "\u0301"))(folder)


@exhibit("MVC701")
def hostile_licence(folder: Path) -> None:
    """A licence of nothing but brackets."""
    field("release.licence", "(" * 3900)(folder)


@exhibit("MVC702")
def hostile_artefact(folder: Path) -> None:
    """An artefact that is not there, under a name of 200 characters."""
    field("release.code", {"file": "x" * 200})(folder)


for name, data, story in (
    ("depth", b"[" * 200_000, "two hundred thousand brackets"),
    ("depth_closed", b'{"a":' * 500 + b"1" + b"}" * 500, "five hundred levels"),
    ("nan", b'{"edition": NaN}', "NaN"),
    ("exponent", b'{"edition": 1e999}', "a number beyond float64"),
    ("huge_whole", b'{"edition": ' + b"9" * 100_000 + b"}", "a number of 100,000 digits"),
    ("doubled", b'{"edition": "a", "edition": "b"}', "a doubled key"),
    ("surrogate", b'{"edition": "\\ud800"}', "half of a surrogate pair"),
    ("bom", b"\xef\xbb\xbf{}", "a byte order mark"),
    ("utf16", "{}".encode("utf-16"), "UTF-16"),
    ("words", b"ACCEPTED", "a word"),
    ("keys", b"{" + b",".join(b'"k%d":1' % n for n in range(80_000)) + b"}", "eighty thousand unknown keys"),
    ("two", b"{}{}", "two documents"),
    ("comment", b"{} // fine", "a comment"),
    ("nothing", b"", "no byte"),
):
    make = lambda folder, data=data: overwrite(folder, "declaration.lock", data)  # noqa: E731
    show(f"lock_{name}", f"a declaration of {story}", "MVC009", make=make)


def relock(change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        place = folder / "declaration.lock"
        document = json.loads(place.read_text())
        change(document)
        place.write_text(json.dumps(document))

    return make


for name, change, story in (
    ("forged_date", lambda lock: lock.update(declared_at="2020-01-01T00:00:00Z"), "an earlier date"),
    ("forged_digest", lambda lock: lock.update(digest="0" * 64), "another digest"),
    ("forged_task", lambda lock: lock.update(task_sha256="0" * 64), "another task"),
    ("forged_splits", lambda lock: lock.update(splits_sha256="0" * 64), "another split file"),
    ("forged_content", lambda lock: lock.update(declared={}), "nothing declared"),
    ("forged_id", lambda lock: lock.update(submission_id="\x1b[2J" * 100), "an id of escape sequences"),
):
    show(f"lock_{name}", f"a declaration with {story}", "MVC604", make=relock(change))
