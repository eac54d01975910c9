"""calibrators.json: parameters without end, and parameters that no fit gives."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.museum.registry import exhibit, show
from tests.museum.support import overwrite

FILE = "calibrators.json"


def changed(family: str, fields: dict[str, Any]) -> Callable[[Path], None]:
    """The first entry of ``family`` with fields replaced."""

    def make(folder: Path) -> None:
        entries = json.loads((folder / FILE).read_text())
        next(entry for entry in entries if entry["family"] == family).update(fields)
        (folder / FILE).write_text(json.dumps(entries))

    return make


for name, data, story in (
    ("depth", b"[" * 1_000_000, "a million brackets"),
    ("depth_closed", b"[" * 400 + b"]" * 400, "four hundred levels"),
    ("ones", b"[" + b"1," * 1_000_000 + b"1]", "a million numbers for entries"),
    ("too_many", b"[" + b"1," * 6_000_000 + b"1]", "six million numbers"),
    ("nulls", b"[" + b"null," * 500_000 + b"null]", "half a million nulls"),
    ("lists", b"[[" + b"[]," * 300_000 + b"[]]]", "three hundred thousand lists in one entry"),
    ("object", b'{"a": 1}', "an object"),
    ("nan", b'[{"n": NaN}]', "NaN"),
    ("exponent", b'[{"n": 1e999}]', "a number beyond float64"),
    ("doubled", b'[{"n": 1, "n": 2}]', "a doubled key"),
    ("surrogate", b'[{"model": "\\ud800"}]', "half of a surrogate pair"),
    ("nothing", b"", "no byte"),
    ("pickle", b"\x80\x04.", "a pickle"),
):
    show(f"calibrators_{name}", story, "MVC009", make=lambda folder, data=data: overwrite(folder, FILE, data))  # type: ignore[misc]

for name, family, fields, story in (
    ("text", "temperature", {"parameters": {"temperature": "1.5"}}, "a temperature in quotes"),
    ("many_bad", "temperature", {"parameters": {"x": ["a"] * 9000}}, "nine thousand words for parameters"),
    ("many_keys", "temperature", {"parameters": {f"k{n}": None for n in range(9000)}}, "nine thousand nulls"),
    ("part_too_large", "temperature", {"parameters": {"x": ["a"] * 20_000}}, "twenty thousand words for parameters"),
    ("true", "temperature", {"parameters": {"temperature": True}}, "a truth value for a temperature"),
    ("class_negative", "temperature", {"class": -1}, "class minus one"),
    ("n_0", "temperature", {"n": 0}, "a fit to no row"),
    ("family", "temperature", {"family": "system('id')"}, "a family of its own"),
    ("model_path", "temperature", {"model": "../../x"}, "a model that is a path"),
):
    show(f"calibrators_{name}", story, "MVC009", make=changed(family, fields))


@exhibit("MVC009", process=True)
def isotonic_10000000(folder: Path) -> None:
    """An isotonic map of ten million thresholds."""
    entries = json.loads((folder / FILE).read_text())
    entry = next(entry for entry in entries if entry["family"] == "isotonic")
    entry["parameters"] = {"x": [], "y": []}
    text = json.dumps(entries)
    for _ in range(2):
        text = text.replace("[]", "[" + "0," * 9_999_999 + "1]", 1)
    overwrite(folder, FILE, text.encode())


@exhibit("MVC004")
def calibrators_80_megabytes(folder: Path) -> None:
    """A file of eighty megabytes, nearly all of it blanks."""
    (folder / FILE).write_bytes((folder / FILE).read_bytes() + b" " * (80 << 20))


for name, family, parameters, story in (
    ("temperature_0", "temperature", {"temperature": 0.0}, "a temperature of zero"),
    ("temperature_negative", "temperature", {"temperature": -1.0}, "a negative temperature"),
    ("temperature_1e308", "temperature", {"temperature": 1e308}, "a temperature of 1e308"),
    ("temperature_denormal", "temperature", {"temperature": 5e-324}, "the smallest temperature"),
    ("temperature_absent", "temperature", {}, "no temperature"),
    ("temperature_list", "temperature", {"temperature": [1.0, 2.0]}, "two temperatures"),
    ("isotonic_unsorted", "isotonic", {"x": [0.9, 0.1, 0.5], "y": [0.1, 0.5, 0.9]}, "thresholds out of order"),
    ("isotonic_falling", "isotonic", {"x": [0.1, 0.9], "y": [0.9, 0.1]}, "a map that falls"),
    ("isotonic_outside", "isotonic", {"x": [-5.0, 5.0], "y": [-1e308, 1e308]}, "a map beyond all probabilities"),
    ("isotonic_empty", "isotonic", {"x": [], "y": []}, "a map of no points"),
    ("isotonic_uneven", "isotonic", {"x": [0.1, 0.5, 0.9], "y": [0.1]}, "a map with more x than y"),
    ("isotonic_equal", "isotonic", {"x": [0.5] * 1000, "y": [0.5] * 1000}, "a thousand equal thresholds"),
):
    rules = ("MVC303", "MVC305", "MVC307") if name == "isotonic_falling" else ("MVC310",)
    show(f"map_{name}", story, *rules, make=changed(family, {"parameters": parameters}))
