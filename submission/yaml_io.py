"""Records from YAML and JSON: a safe loader under limits, and pydantic's errors as problems."""

import json
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import TypeAdapter, ValidationError

from protocol.facts import Problem

MAX_BYTES = 1 << 20
MAX_DEPTH = 20
MAX_NODES = 50_000
MAX_PROBLEMS = 50
MAX_INTEGER = 10**15  # canonical JSON carries whole numbers below 2**53

T = TypeVar("T")
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
        raise RecordError(f"{where}{getattr(error, 'problem', None) or 'no YAML'}") from None


def _scan(text: str) -> None:
    """Refuse what would explode before anything is built."""
    depth = 0
    for nodes, event in enumerate(yaml.parse(text, Loader=_Loader)):
        if isinstance(event, yaml.AliasEvent):
            raise RecordError(f"line {_line(event)}: an alias (*{event.anchor}); write the value out")
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
        value = loader.construct_object(node)
    except (ValueError, LookupError, AttributeError, TypeError, yaml.YAMLError):  # a tag that its text does not fit
        raise RecordError(f"line {line}: {node.value[:50]!r} can't be read as {node.tag.rsplit(':', 1)[-1]}") from None
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        raise RecordError(f"line {line}: a whole number of more than 15 digits; quote it if it is text")
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float) and value - value == 0:
        return value
    raise RecordError(f"line {line}: {node.value[:50]!r} is read as {type(value).__name__}; quote it if it is text")


def load_json(text: str) -> Any:
    """The JSON document in ``text``; RecordError for bad syntax, doubled keys, NaN or deep nesting."""

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
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant, parse_int=whole, parse_float=real)
    except json.JSONDecodeError as error:
        raise RecordError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise RecordError("nested too deeply") from None


def parse_record(adapter: TypeAdapter[T], data: bytes, file: str) -> tuple[T | None, tuple[Problem, ...]]:
    """Read ``data`` (JSON where the name ends in .json or .lock, else YAML) into a model, with every problem found."""
    try:
        if not data.strip():
            raise RecordError("the file is empty")
        text = data.decode("utf-8")
        document = load_json(text) if file.endswith((".json", ".lock")) else load_yaml(text)
        return adapter.validate_json(json.dumps(document)), ()
    except UnicodeDecodeError:
        return None, (_invalid(file, "bytes that are not UTF-8", "UTF-8 text"),)
    except RecordError as error:
        return None, (_invalid(file, str(error), "a plain document"),)
    except RecursionError:
        return None, (_invalid(file, "nested too deeply", "a plain document"),)
    except ValidationError as error:
        details = error.errors(include_url=False)
        more = len(details) - MAX_PROBLEMS
        tail = (_invalid(file, f"{more} more problems", "none"),) if more > 0 else ()
        return None, (*(_problem(file, detail) for detail in details[:MAX_PROBLEMS]), *tail)


def _problem(file: str, detail: Any) -> Problem:
    path = ".".join(str(part) for part in detail["loc"]) or "document"
    given = detail["input"]
    saw = "unknown key" if detail["type"] == "extra_forbidden" else json.dumps(given, default=str)[:120]
    if detail["type"] == "missing":
        saw = "nothing"
    return _invalid(f"{file}: {path}", saw, detail["msg"].removeprefix("Value error, "))


def _invalid(where: str, saw: str, wanted: str) -> Problem:
    return Problem("record-invalid", where, saw, wanted)
