"""Records from YAML and JSON: a safe loader under limits, and pydantic's errors as problems in plain words."""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NoReturn, TypeVar, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from protocol.declaration import Declaration
from protocol.facts import Problem
from protocol.submission import Printed, Waiver
from protocol.types import ColumnName, FileName, Name, PublicKey, Record, Sha256

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_NODES = 50_000
MAX_PROBLEMS = 50
MAX_VALUES = 200_000  # of a JSON document (a lock spells out the defaults that its record leaves out)
MAX_NUMBERS = 4_000_000  # of a JSON list of records: fitted parameters
MAX_PART = 10_000  # of one record of such a list, runs of numbers not counted
MAX_COLONS = 10  # of a YAML scalar other than text: a number such as 1:1:1:... costs the square of its length
MAX_INTEGER = 10**15  # canonical JSON carries whole numbers below 2**53

ALIAS = "write the value out (PyYAML: Dumper.ignore_aliases)"

T = TypeVar("T")
# What is wanted, by the kind of pydantic's error; the braces are filled from its context.
WORDS = {
    "string_type": "text",
    "string_too_short": "text of {min_length} or more characters",
    "string_too_long": "text of at most {max_length} characters",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "keys with values",
    "model_type": "keys with values",
    "too_short": "a list with {min_length} or more items",
    "too_long": "a list with at most {max_length} items",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "{ge} or more",
    "less_than": "a number below {lt}",
    "less_than_equal": "{le} or less",
    "json_invalid": "whole Unicode characters",
}
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RecordError(ValueError):
    """A document can't be read; the message says where and why."""


def load_yaml(text: str) -> Any:
    """The document in ``text`` as JSON-ready data.

    Raises RecordError for bad syntax, aliases (which make YAML bombs), doubled keys, keys that are not text, dates,
    infinities, more than 20 levels or more than 50,000 nodes.
    """
    try:
        _scan(text)
        node = yaml.compose(text, Loader=_Loader)
        return None if node is None else _plain(node, yaml.SafeLoader(""))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise RecordError(f"{where}{_syntax(text, mark, getattr(error, 'problem', None) or 'no YAML')}") from None


def _syntax(text: str, mark: Any, problem: str) -> str:
    """What the parser says, and what to do about it where that is known."""
    line = "".join(text.split("\n")[mark.line : mark.line + 1]) if mark else ""
    starts_with_tab = mark and line[mark.column : mark.column + 1] == "\t"
    if "tab character" in problem or (starts_with_tab and "cannot start any token" in problem):
        return "a tab; indent with blanks"
    if problem.startswith("mapping values are not allowed"):
        return f"{problem}; quote text that holds a colon"
    return problem


def _scan(text: str) -> None:
    """Refuse what would explode before anything is built."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.AliasEvent):
            raise RecordError(f"line {_line(event)}: an alias (*{event.anchor}); {ALIAS}")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise RecordError(f"line {_line(event)}: more than {MAX_DEPTH} levels")
        if nodes > MAX_NODES:
            raise RecordError(f"more than {MAX_NODES} values")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _plain(node: Any, loader: Any) -> Any:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = _plain(key_node, loader)
            if not isinstance(key, str):
                raise RecordError(f"line {line}: the key {key!r} is not text; quote it")
            if key in result:
                raise RecordError(f"line {key_node.start_mark.line + 1}: the key {key} stands twice")
            result[key] = _plain(value_node, loader)
        return result
    if isinstance(node, yaml.SequenceNode):
        return [_plain(item, loader) for item in node.value]
    try:
        if node.value.count(":") > MAX_COLONS and not node.tag.endswith(":str"):
            raise ValueError("no number that anyone writes")
        value = loader.construct_object(node)
    # a tag that its text does not fit
    except (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, yaml.YAMLError):
        raise RecordError(f"line {line}: {node.value[:50]!r} can't be read as {node.tag.rsplit(':', 1)[-1]}") from None
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise RecordError(f"line {line}: a whole number of more than 15 digits; quote it if it is text")
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    raise RecordError(f"line {line}: {node.value[:50]!r} is read as {type(value).__name__}; quote it if it is text")


def load_json(text: str, values: int = MAX_VALUES) -> Any:
    """The JSON document in ``text``.

    RecordError for bad syntax, doubled keys, NaN, more than 20 levels or more than ``values`` values.
    """
    if text.count(",") > values:  # before anything is built; commas in texts count too
        raise RecordError(f"more than {values} values")

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in items}) != len(items):
            raise RecordError("a key stands twice in one object")
        return dict(items)

    def constant(name: str) -> NoReturn:
        raise RecordError(f"{name} is no JSON number")

    def whole(digits: str) -> int:
        if len(digits) > 16 or abs(int(digits)) > MAX_INTEGER:
            raise RecordError(f"{digits[:20]} is a whole number of more than 15 digits")
        return int(digits)

    def real(digits: str) -> float:
        value = float(digits)
        return value if value - value == 0 else constant(digits[:20])

    try:
        document = json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=whole, parse_float=real)
    except json.JSONDecodeError as error:
        raise RecordError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise RecordError("nested too deeply") from None
    _weight(document)
    return document


def _weight(document: Any) -> int:
    """How many values there are, a list of nothing but numbers being one; RecordError for more than 20 levels."""
    count, level = 0, [document]
    for _ in range(MAX_DEPTH + 1):
        count += len(level)
        lists = [value for value in level if isinstance(value, list)]
        parts = [item for value in lists if not {*map(type, value)} <= {float, int} for item in value]
        level = parts + [item for value in level if isinstance(value, dict) for item in value.values()]
        if not level:
            return count
    raise RecordError(f"more than {MAX_DEPTH} levels")


def parse_record(adapter: TypeAdapter[T], data: bytes, file: str) -> tuple[T | None, tuple[Problem, ...]]:
    """Read ``data`` (JSON where the name ends in .json or .lock, else YAML) into a model, with every problem found."""
    try:
        listed = adapter.core_schema["type"] == "tuple"
        document = _document(data, file, MAX_NUMBERS if listed else MAX_VALUES)
        if listed and isinstance(document, list):
            return _parse_parts(adapter, document, file)
        return adapter.validate_json(json.dumps(document)), ()
    except UnicodeDecodeError:
        return None, (_invalid(file, "bytes that are not UTF-8", "UTF-8 text"),)
    except RecordError as error:
        return None, (_invalid(file, str(error), "a plain document"),)
    except RecursionError:
        return None, (_invalid(file, "nested too deeply", "a plain document"),)
    except ValidationError as error:
        root = None if _is_json(file) else yaml.compose(data.decode(), Loader=_Loader)
        return None, _problems(error.errors(include_url=False), document, root, adapter.json_schema(), file)


def _parse_parts(adapter: TypeAdapter[T], document: list[Any], file: str) -> tuple[T | None, tuple[Problem, ...]]:
    """A list of records, each by itself: one that is wrong throughout costs no more than its first problems."""
    parts: list[Any] = []
    details: list[Any] = []
    for index, item in enumerate(document):
        if _weight(item) > MAX_PART:
            raise RecordError(f"item {index + 1} has more than {MAX_PART} values beside lists of numbers")
        try:
            parts += cast(Sequence[Any], adapter.validate_json(json.dumps([item])))
        except ValidationError as error:
            details += [{**d, "loc": (index, *d["loc"][1:])} for d in error.errors(include_url=False)]
            if len(details) > MAX_PROBLEMS:
                break
    if details:
        return None, _problems(details, document, None, adapter.json_schema(), file)
    return cast(T, tuple(parts)), ()


def claimed_name(data: bytes, file: str, key: str) -> str:
    """The name under ``key`` of a document that need not fit its model; '' where there is none."""
    try:
        document = _document(data, file)
        return TypeAdapter(Name).validate_python(document[key] if isinstance(document, dict) else None)
    except (ValueError, LookupError, RecursionError):
        return ""


def _document(data: bytes, file: str, values: int = MAX_VALUES) -> Any:
    if not data.strip():
        raise RecordError("the file is empty")
    text = data.decode("utf-8")
    return load_json(text, values) if _is_json(file) else load_yaml(text)


def _is_json(file: str) -> bool:
    return file.endswith((".json", ".lock"))


def _invalid(where: str, saw: str, wanted: str) -> Problem:
    return Problem("record-invalid", where, saw, wanted)


def _problems(details: Sequence[Any], document: Any, root: Any, schema: Any, file: str) -> tuple[Problem, ...]:
    """One problem a place: what the parts of a union say is joined, what only follows from a deeper one is left out.

    After the first fifty they are only counted.
    """
    places: dict[tuple[str | int, ...], list[Any]] = {}
    for detail in details:
        places.setdefault(_path(detail, document), []).append(detail)
    above = {path[:length] for path in places for length in range(len(path))}
    deepest = [path for path in places if path not in above]
    problems = [_problem(path, places[path], root, schema, file) for path in deepest[:MAX_PROBLEMS]]
    more = len(deepest) - MAX_PROBLEMS
    return (*problems, *((_invalid(file, f"{more} more problems", "none"),) if more > 0 else ()))


def _path(detail: Any, document: Any) -> tuple[str | int, ...]:
    """Where in the document an error lies: pydantic's location without the names of a union's parts."""
    path: list[str | int] = []
    here = document
    for part in detail["loc"]:
        inside = isinstance(here, dict) and part in here
        if inside or (isinstance(here, list) and isinstance(part, int) and part < len(here)):
            here = here[part]
            path.append(part)
    if detail["type"] == "missing":
        path.append(detail["loc"][-1])
    return tuple(path)


def _problem(path: tuple[str | int, ...], details: Sequence[Any], root: Any, schema: Any, file: str) -> Problem:
    first = details[0]
    where = f"{file}: {'.'.join(str(part) for part in path) or 'document'}"
    if first["type"] == "missing":
        last = path[-1]
        return _invalid(where, "nothing", f"the field {last}" if isinstance(last, str) else f"a value {last + 1}")
    if first["type"] == "extra_forbidden":
        return _invalid(where, "unknown key", _known(str(path[-1]), _keys(schema, path[:-1])))
    choices = [word for d in details if d["type"] == "literal_error" for word in _choices(d)]
    said = [_words(d) for d in details if d["type"] != "literal_error"]
    if choices:
        said.append(f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0])
    given = first["input"]
    wanted = " or ".join(dict.fromkeys(said)) + _hint(given, {d["type"] for d in details}, _scalar(root, path))
    return _invalid(where, json.dumps(given, default=str)[:120], wanted)


def _choices(detail: Any) -> list[str]:
    return re.findall(r"'([^']*)'", detail["ctx"]["expected"]) or [detail["ctx"]["expected"]]


def _words(detail: Any) -> str:
    """What is wanted, by the kind of pydantic's error."""
    context = {key: _short(value) for key, value in detail.get("ctx", {}).items()}
    if detail["type"] == "string_pattern_mismatch":
        return _patterns().get(context["pattern"], f"text that fits {context['pattern']}")
    form = WORDS.get(detail["type"])
    return form.format(**context) if form else str(detail["msg"]).removeprefix("Value error, ")


def _short(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _hint(given: Any, kinds: set[str], scalar: Any) -> str:
    """What YAML made of a value that was meant otherwise."""
    if "string_type" in kinds and scalar is not None and (given is None or isinstance(given, bool | int | float)):
        read_as = json.dumps(given) if given is None or isinstance(given, bool) else "a number"
        return f": quote it, YAML reads {scalar.value or 'nothing'} as {read_as}"
    if kinds & {"int_type", "float_type", "bool_type"} and isinstance(given, str) and scalar is not None:
        if scalar.style in ("'", '"'):
            return ", without quotes"
        if re.fullmatch(r"[+-]?[0-9.]+[eE][+-]?[0-9]+", given):
            return f": YAML reads {given} as text, write it like 1.0e-3"
    if kinds == {"tuple_type"} and isinstance(given, str | int | float):
        return f", such as [{json.dumps(given)[:40]}]"
    return ""


def _scalar(node: Any, path: tuple[str | int, ...]) -> Any:
    """The scalar of a YAML document at ``path``, as it was written; None for anything else."""
    for part in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
    return node if isinstance(node, yaml.ScalarNode) else None


def _known(key: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(key.casefold(), known, n=1)
    return f"a known key; did you mean {near[0]}?" if near else f"a known key: {', '.join(known)}"


def _keys(schema: Mapping[str, Any], path: tuple[str | int, ...]) -> list[str]:
    """Names of the fields that a JSON schema knows at ``path``."""
    here = _parts(schema, schema)
    for part in path:
        inner = [s.get("items") if isinstance(part, int) else s.get("properties", {}).get(part) for s in here]
        here = [found for s in inner if isinstance(s, dict) for found in _parts(s, schema)]
    return [name for s in here for name in s.get("properties", {})]


def _parts(part: Mapping[str, Any], schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """``part`` with its reference followed, or the parts of its union."""
    if "$ref" in part:
        part = schema["$defs"][part["$ref"].rsplit("/", 1)[-1]]
    if "anyOf" in part:
        return [found for one in part["anyOf"] for found in _parts(one, schema)]
    return [part]


@cache
def _patterns() -> dict[str, str]:
    """Words for the patterns of our text types."""
    file = "a path inside the bundle: up to 200 letters, digits, . _ - and /"
    words = (
        (Name, "1 to 100 letters, digits, . _ + -, without blanks, the first a letter or digit"),
        (Sha256, "a SHA-256: 64 lower-case hex characters"),
        (PublicKey, "a raw Ed25519 public key: 64 lower-case hex characters"),
        (ColumnName, "up to 64 letters, digits and _, the first a letter"),
        (FileName, f"{file}, the first no . - or /"),
        (Printed, "a number as text, such as '0.123' or '12.3%', of at most 12 decimals"),
    )
    patterns = {TypeAdapter(kind).json_schema()["pattern"]: said for kind, said in words}
    fields: tuple[tuple[type[Record], str, str], ...] = (
        (Waiver, "rule", "the id of a rule, such as MVC101"),
        (Declaration, "declared_at", "a time in UTC, such as 2026-01-31T12:00:00Z"),
    )
    return patterns | {model.model_json_schema()["properties"][name]["pattern"]: said for model, name, said in fields}
