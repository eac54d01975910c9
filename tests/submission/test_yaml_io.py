"""Records from YAML and JSON: hostile and careless documents end in a message, never in a traceback."""

import json
import re
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from protocol.calibrators import CALIBRATORS
from protocol.declaration import Declaration
from protocol.submission import Printed, Submission
from protocol.task import Task
from protocol.types import FileName, Name
from submission import yaml_io
from submission.yaml_io import RecordError, claimed_name, load_json, load_yaml, parse_record


class Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str
    number: float = 0.0


SHAPE: TypeAdapter[Any] = TypeAdapter(Shape)


def test_plain_documents_are_read() -> None:
    document = {"a": 1, "b": [True, None, "x", 0.5], "c": {"d": "2026-01-01", "e": "1.10"}}
    text = "a: 1\nb: [yes, ~, x, 0.5]\nc: {d: '2026-01-01', e: \"1.10\"}\n"
    assert load_yaml(text) == document
    assert load_yaml("") is None
    assert load_yaml("# nothing\n") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "a: &x 1\nb: *x\n",
            r"line 2: an alias \(\*x\); write the value out \(PyYAML: Dumper.ignore_aliases\)",
        ),
        ("a:\n\tb: 1\n", "line 2, column 1: a tab; indent with blanks"),
        ("a: b\n\tc\n \td: e\n", "a tab; indent with blanks|quote text that holds a colon"),
        ("title: Chest: a study\n", "line 1, column 13: .*; quote text that holds a colon"),
        ("a: 1\na: 2\n", "line 2: the key a stands twice"),
        ("{a: {b: 1, b: 2}}", "line 1: the key b stands twice"),
        ("1: a\n", "line 1: the key 1 is not text; quote it"),
        ("a: 2026-01-01\n", "line 1: '2026-01-01' is read as date; quote it if it is text"),
        ("a: 2026-01-01 10:00:00\n", "is read as datetime"),
        ("a: .inf\n", "'.inf' is read as float"),
        ("a: .nan\n", "'.nan' is read as float"),
        ("a: !!binary aGk=\n", "is read as bytes"),
        ("a: !!python/object/apply:os.system [ls]\n", None),
        ("a: !!python/name:os.system\n", "can't be read as python/name:os.system|can't be read"),
        ("a: !!bool perhaps\n", "'perhaps' can't be read as bool"),
        ("a: !!int ''\n", "'' can't be read as int"),
        ("a: !!timestamp soon\n", "'soon' can't be read as timestamp"),
        ("a: 0x" + "f" * 4000 + "\n", "more than 15 digits"),
        ("a: " + "9" * 5000 + "\n", "can't be read as int"),
        ("<<: {a: 1}\n", "can't be read as merge"),
        ("a: [1\n", "line 2, column 1: "),
        ("a: 1\n--- \nb: 2\n", "but found another document"),
        ("a: \x07\n", "no YAML|control characters|special characters"),
        ("a: " + "[" * 21 + "]" * 21, "more than 20 levels"),
        ("[" * 100_000, "more than 20 levels|maximum nesting depth"),
        ("- x\n" * 50_001, "more than 50000 values"),
    ],
)
def test_odd_yaml_is_refused_with_a_reason(text: str, said: str | None) -> None:
    if said is None:  # a foreign tag on a list makes nothing: it is a plain list
        assert load_yaml(text) == {"a": ["ls"]}
        return
    with pytest.raises(RecordError, match=said):
        load_yaml(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"a": 1, "a": 2}', "stands twice"),
        ('{"a": NaN}', "NaN is no JSON number"),
        ('{"a": -Infinity}', "-Infinity is no JSON number"),
        ('{"a": 1e999}', "1e999 is no JSON number"),
        ('{"a": ' + "9" * 5000 + "}", "more than 15 digits"),
        ('{"a": 9007199254740993}', "more than 15 digits"),
        ('{"a": }', "line 1, column 7: "),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_odd_json_is_refused_with_a_reason(text: str, said: str) -> None:
    with pytest.raises(RecordError, match=said):
        load_json(text)


@pytest.mark.parametrize(
    ("data", "file", "where", "saw"),
    [
        (b"", "a.yaml", "a.yaml", "the file is empty"),
        (b" \n", "a.lock", "a.lock", "the file is empty"),
        (b"text: caf\xe9", "a.yaml", "a.yaml", "bytes that are not UTF-8"),
        (b"\xff\xfet\x00", "a.yaml", "a.yaml", "bytes that are not UTF-8"),
        (b"text: 7", "a.yaml", "a.yaml: text", "7"),
        (b"text: x\nnumber: y", "a.yaml", "a.yaml: number", '"y"'),
        (b"text: x\nmore: 1", "a.yaml", "a.yaml: more", "unknown key"),
        (b"number: 1", "a.yaml", "a.yaml: text", "nothing"),
        (b"- x", "a.yaml", "a.yaml: document", '["x"]'),
        (b"just text", "a.yaml", "a.yaml: document", '"just text"'),
        (b"# only a comment", "a.yaml", "a.yaml: document", "null"),
        (b'{"text": "\\ud800"}', "a.json", "a.json: document", None),
        (b"[" * 900 + b"]" * 900, "a.json", None, None),
    ],
)
def test_a_record_that_does_not_fit_is_a_problem(data: bytes, file: str, where: str | None, saw: str | None) -> None:
    found, problems = parse_record(SHAPE, data, file)
    assert found is None
    assert problems[0].offence == "record-invalid"
    assert where in (None, problems[0].where)
    assert saw in (None, problems[0].saw)
    assert problems[0].wanted


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    stopping_rule: str | None = None
    learning_rate: float | str | None = None
    seeds: tuple[Annotated[int, Field(ge=0)], ...] = ()
    chosen_on: Literal["val", "calib"] | Literal["none"] | None = None
    kind: Literal["binary", "multiclass", "multilabel"] = "binary"
    flag: bool = False
    name: Name = "a"
    file: FileName = "a"
    pair: tuple[Printed, Printed] | None = None
    class_: str = Field(default="", alias="class")
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    word: Annotated[str, Field(min_length=1)] = "a"


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    text: str = ""
    part: Part | None = None
    parts: tuple[Part, ...] = Field(default=(Part(),), min_length=1)


@pytest.mark.parametrize(
    ("text", "where", "saw", "wanted"),
    [
        ("text: no", "text", "false", "text: quote it, YAML reads no as false"),
        ("text: On", "text", "true", "text: quote it, YAML reads On as true"),
        ("text: 2026.10", "text", "2026.1", "text: quote it, YAML reads 2026.10 as a number"),
        ("text: ~", "text", "null", "text: quote it, YAML reads ~ as null"),
        ("text:", "text", "null", "text: quote it, YAML reads nothing as null"),
        ("text: [a]", "text", '["a"]', "text"),
        ("txet: a", "txet", "unknown key", "a known key; did you mean text?"),
        ("zzz: a", "zzz", "unknown key", "a known key: text, part, parts"),
        ("part: {stoping_rule: a}", "part.stoping_rule", "unknown key", "a known key; did you mean stopping_rule?"),
        ("parts: [{}, {clas: a}]", "parts.1.clas", "unknown key", "a known key; did you mean class?"),
        ("parts: [{seeds: 2}]", "parts.0.seeds", "2", "a list, such as [2]"),
        ("parts: [{seeds: [-1]}]", "parts.0.seeds.0", "-1", "0 or more"),
        ("part: {seeds: [1, '2']}", "part.seeds.1", '"2"', "a whole number, without quotes"),
        ("part: {seeds: [1.5]}", "part.seeds.0", "1.5", "a whole number"),
        ("parts: []", "parts", "[]", "a list with 1 or more items"),
        ("parts: [a]", "parts.0", '"a"', "keys with values"),
        (
            "part: {learning_rate: yes}",
            "part.learning_rate",
            "true",
            "a number or text: quote it, YAML reads yes as true",
        ),
        ("part: {chosen_on: tst}", "part.chosen_on", '"tst"', "one of val, calib, none"),
        ("part: {kind: two}", "part.kind", '"two"', "one of binary, multiclass, multilabel"),
        ("part: {flag: 'true'}", "part.flag", '"true"', "true or false, without quotes"),
        ("part: {share: 1e-3}", "part.share", '"1e-3"', "a number: YAML reads 1e-3 as text, write it like 1.0e-3"),
        ("part: {share: 0}", "part.share", "0", "a number above 0"),
        ("part: {share: 1.5}", "part.share", "1.5", "1 or less"),
        ("part: {word: ''}", "part.word", '""', "text of 1 or more characters"),
        ("part: {pair: ['1.0']}", "part.pair.1", "nothing", "a value 2"),
        (
            "part: {name: a b}",
            "part.name",
            '"a b"',
            "1 to 100 letters, digits, . _ + -, without blanks, the first a letter or digit",
        ),
        (
            "part: {file: a/../b}",
            "part.file",
            '"a/../b"',
            "a file lies inside the bundle: no empty part, no . and no ..",
        ),
    ],
)
def test_a_problem_is_told_once_in_plain_words(text: str, where: str, saw: str, wanted: str) -> None:
    _, problems = parse_record(TypeAdapter(Whole), text.encode(), "a.yaml")
    assert [(p.where, p.saw, p.wanted) for p in problems] == [(f"a.yaml: {where}", saw, wanted)]


def test_a_missing_field_is_named() -> None:
    _, problems = parse_record(SHAPE, b'{"number": 1}', "a.json")
    assert [(p.saw, p.wanted) for p in problems] == [("nothing", "the field text")]
    _, problems = parse_record(SHAPE, b'{"text": false}', "a.json")
    assert [(p.saw, p.wanted) for p in problems] == [("false", "text")]


def test_every_pattern_of_our_records_has_words() -> None:
    schemas = [TypeAdapter(kind).json_schema() for kind in (Submission, Task, Declaration)]
    patterns = set(re.findall(r'"pattern": ("(?:[^"\\\\]|\\\\.)*")', json.dumps([*schemas, CALIBRATORS.json_schema()])))
    assert {json.loads(pattern) for pattern in patterns} == set(yaml_io._patterns())


@pytest.mark.parametrize(
    ("data", "name"),
    [(b"id: a\nx: 1", "a"), (b"id: a b", ""), (b"id: 1", ""), (b"- id", ""), (b"id: [", ""), (b"", ""), (b"\xff", "")],
)
def test_a_name_is_read_from_what_does_not_fit(data: bytes, name: str) -> None:
    assert claimed_name(data, "a.yaml", "id") == name


def test_every_problem_is_told_at_once() -> None:
    _, problems = parse_record(SHAPE, b"text: 1\nnumber: x\nmore: 2", "a.yaml")
    assert [p.where for p in problems] == ["a.yaml: text", "a.yaml: number", "a.yaml: more"]


def test_a_record_that_fits_is_a_model() -> None:
    assert parse_record(SHAPE, b"text: x\nnumber: 2", "a.yaml") == (Shape(text="x", number=2.0), ())
    assert parse_record(SHAPE, b'{"text": "x"}', "a.json") == (Shape(text="x"), ())


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(st.binary(max_size=200), st.text(alphabet="ab:-[]{}&*!<>|'\"#\n 019.%@`~", max_size=80).map(str.encode))
)
def test_any_bytes_end_in_a_model_or_in_problems(data: bytes) -> None:
    for file in ("a.yaml", "a.json"):
        found, problems = parse_record(SHAPE, data, file)
        assert (found is None) == bool(problems)
