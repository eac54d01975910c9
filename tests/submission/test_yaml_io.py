"""Records from YAML and JSON: hostile and careless documents end in a message, never in a traceback."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, TypeAdapter

from submission.yaml_io import RecordError, load_json, load_yaml, parse_record


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
        ("a: &x 1\nb: *x\n", r"line 2: an alias \(\*x\); write the value out"),
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
