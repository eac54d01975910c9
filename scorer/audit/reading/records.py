"""JSON in the shapes that predictions come in: which part of a document is a table."""

import codecs
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from protocol.findings import plain
from scorer.audit.reading.cells import Rows, framed, scalar, text_of
from scorer.audit.reading.naming import facts_of
from scorer.audit.reading.source import Source
from scorer.audit.shapes import Loaded
from splits.checking import words
from splits.checking.json_lists import read_json

MAX_JSON = 1 << 30
DEEPEST = 3
MOST_PARTS = 50
FACTS = ("model", "seed", "split", "dataset", "epoch", "fold")
WANTED = "wanted: a list of records, one record a line, a dictionary of columns, or of ids with their record or scores"


class _Twice(ValueError):
    """A key that comes twice in one object."""


@dataclass(frozen=True)
class _Part:
    """A table in a document: the keys that lead to it, and what stands beside it."""

    label: str
    rows: Rows
    facts: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def json_tables(source: Source, *, lines: bool) -> tuple[Loaded, ...]:
    """The tables of a JSON document (``lines``: of one record a line)."""
    document, notes = _parsed(source, lines)
    if isinstance(document, Mapping) and "nbformat" in document:
        source.refuse("is a notebook, no table of predictions; save the table in it as CSV")
    if _split_lists(document):
        with source.named():
            frame, _, _, said = read_json(source.content, source.encoding)
        listed = Rows({name: frame[name].to_list() for name in frame.columns}, notes=("read as lists of splits", *said))
        found = [_Part("", listed)]
    else:
        found = _tables(source, document, "", 0)
    if not found:
        source.refuse(f"JSON of a form that holds no table; {WANTED}")
    loaded = []
    for part in found:
        several = part.label and len(found) > 1
        own = replace(source, name=f"{source.name}: {part.label}") if several else source
        result = framed(own, part.rows)
        last = part.label.rsplit(".", 1)[-1]
        split = {"split": last} if words.kind_of(last) else {}
        loaded.append(
            Loaded(
                name=own.name,
                frame=result.frame,
                form="jsonl" if lines else "json",
                path=source.origin,
                sha256=source.sha256,
                precision=result.precision,
                header=part.rows.header,
                facts={**facts_of(source.file), **part.facts, **split, **result.facts},
                notes=(*source.notes, *notes, *part.notes, *part.rows.notes, *result.notes),
            )
        )
    return tuple(loaded)


def _split_lists(document: Any) -> bool:
    """Whether it lists the names of images by split."""
    if not isinstance(document, Mapping):
        return False
    splits = [value for name, value in document.items() if words.kind_of(str(name))]
    return len(splits) > 1 and all(
        isinstance(value, list) and value and all(isinstance(item, str) for item in value) for value in splits
    )


def _parsed(source: Source, lines: bool) -> tuple[Any, list[str]]:
    if source.size() > MAX_JSON:
        source.refuse(f"JSON of more than {MAX_JSON >> 30} GiB; save it as Parquet or CSV")
    raw = source.content.read_bytes()
    try:
        codec = codecs.lookup(source.encoding).name
        text = raw.decode("utf-8-sig" if codec == "utf-8" else source.encoding)
    except UnicodeError:
        source.refuse(f"is not {source.encoding} text; say --encoding latin-1, or whichever it is")
    except (LookupError, ValueError):
        source.refuse(f"{source.encoding!r} is no text encoding; try utf-8, latin-1, cp1252 or utf-16")
    if not text.strip():
        source.refuse("is empty")
    try:
        if lines:
            return _lines(text), []
        return _loads(text), []
    except json.JSONDecodeError as error:
        if not lines and error.msg == "Extra data":
            try:
                return _lines(text), ["read as one JSON record a line"]
            except (ValueError, RecursionError):
                pass
        source.refuse(f"line {error.lineno}: no JSON ({error.msg})")
    except _Twice as error:
        source.refuse(f"the key {str(error)!r} comes twice in one object, so one of its values would be lost")
    except RecursionError:
        source.refuse("JSON nested too deep for a table")
    except (ValueError, MemoryError) as error:
        source.refuse(f"no JSON ({str(error)[:120]})")


def _lines(text: str) -> list[Any]:
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                found.append(_loads(line))
            except json.JSONDecodeError as error:
                raise json.JSONDecodeError(error.msg, "\n" * (number - 1), number - 1) from None
    return found


def _loads(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        raise _Twice(next(plain(name, 80) for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
    return found


def _tables(source: Source, document: Any, label: str, depth: int) -> list[_Part]:
    """Tables with the path that leads to them, and with the facts and notes on their way."""
    rows = _rows(source, document, not label)
    if rows is not None:
        return [_Part(label, rows)]
    if not isinstance(document, Mapping) or depth >= DEEPEST:
        return []
    found: list[_Part] = []
    facts: dict[str, str] = {}
    left: list[str] = []
    lists = _longest({str(name): value for name, value in document.items() if _column(value)})
    start = f"{label}." if label else ""
    if lists:
        found.append(_Part(start + ", ".join(lists)[:80], Rows(lists)))
    for name, value in document.items():
        inner: list[_Part] = []
        if not scalar(value) and not (lists and _column(value)):
            inner = _tables(source, value, f"{start}{name}", depth + 1)
            found += inner
        elif str(name).lower() in FACTS and (said := text_of(value)) is not None and scalar(value):
            facts[str(name).lower()] = said
            continue
        if not inner and name not in lists:
            left.append(str(name))
    notes: tuple[str, ...] = ()
    if left:
        shown = ", ".join(map(repr, left[:8])) + (f" and {len(left) - 8} more" if len(left) > 8 else "")
        notes = (f"not read: {shown}",)
    return [replace(part, facts={**facts, **part.facts}, notes=(*notes, *part.notes)) for part in found]


def _rows(source: Source, document: Any, outermost: bool) -> Rows | None:
    """The document as one table; None where it is none, but may hold some."""
    if isinstance(document, list) and document:
        return _listed(source, document)
    if not isinstance(document, Mapping) or not document:
        return None
    if {"columns", "data"} <= set(document) and isinstance(document["data"], list):
        return _split(document)
    values = list(document.values())
    if all(isinstance(value, Mapping) for value in values):
        return _by_id(document)
    if all(isinstance(value, list) for value in values):
        return _by_list(document)
    if all(scalar(value) for value in values) and (len(values) > 1 or not outermost):
        return Rows({"id": list(document), "value": values}, notes=("read as ids, each with one value",))
    return None


def _listed(source: Source, items: Sequence[Any]) -> Rows | None:
    if all(isinstance(item, Mapping) for item in items):
        return _records(items)
    if all(scalar(item) for item in items):
        return Rows({"column_1": list(items)}, header=False)
    if all(isinstance(item, list) for item in items):
        widths = {len(item) for item in items}
        if len(widths) > 1:
            source.refuse(f"a list of lists of {len(widths)} different lengths; give each row as many values")
        if not widths.pop() or any(isinstance(value, list | Mapping) for item in items for value in item):
            return None
        first, rest = items[0], items[1:]
        named = bool(rest) and all(isinstance(v, str) for v in first) and len(set(first)) == len(first)
        if named and any(isinstance(value, int | float) for item in rest for value in item):
            return Rows({name: [item[k] for item in rest] for k, name in enumerate(first)})
        return Rows({f"column_{k + 1}": [item[k] for item in items] for k in range(len(first))}, header=False)
    return None


def _records(items: Sequence[Mapping[str, Any]], ids: Sequence[str] = ()) -> Rows:
    names = list(dict.fromkeys(name for item in items for name in item))
    columns: dict[str, list[Any]] = {}
    if ids:
        columns["id" if "id" not in names else "key"] = list(ids)
    columns |= {name: [item.get(name) for item in items] for name in names}
    missing = [name for name in names if any(name not in item for item in items)]
    notes = (f"not every record has {', '.join(map(repr, missing[:5]))}: empty there",) if missing else ()
    return Rows(columns, notes=notes)


def _by_id(document: Mapping[str, Any]) -> Rows | None:
    values = list(document.values())
    inner = list(values[0])
    counted = [str(place) for place in range(len(inner))]
    if inner == counted and len(inner) > 1 and all(list(value) == counted for value in values):
        return Rows({name: list(value.values()) for name, value in document.items()})
    numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for value in values for v in value.values())
    if numeric and len(inner) > max(20, len(values)) and all(value.keys() == values[0].keys() for value in values):
        columns = {str(name): [value[key] for key in inner] for name, value in document.items()}
        name = "id" if "id" not in columns else "key"
        return Rows({name: inner, **columns}, notes=(f"read as {len(columns)} columns of {len(inner)} ids each",))
    flat = [value for value in values if any(not isinstance(one, list | Mapping) for one in value.values())]
    held = (name for name in inner if all(_is_table(value.get(name)) for value in values))
    if len(flat) < len(values) or (len(values) <= MOST_PARTS and any(held)):
        return None  # tables in a dictionary
    return _records(values, list(document))


def _is_table(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, Mapping) for one in value)


def _by_list(document: Mapping[str, list[Any]]) -> Rows | None:
    lengths = {len(value) for value in document.values()}
    if len(lengths) > 1 or 0 in lengths or any(isinstance(v, Mapping) for value in document.values() for v in value):
        return None
    length = lengths.pop()
    scores = all(isinstance(v, int | float) and not isinstance(v, bool) for value in document.values() for v in value)
    if scores and len(document) > length:
        columns = {f"score_{k}": [value[k] for value in document.values()] for k in range(length)}
        if length == 1:
            columns = {"score": columns["score_0"]}
        return Rows({"id": list(document), **columns}, notes=(f"read as ids, each with {length} scores",))
    return Rows({name: list(value) for name, value in document.items()})


def _split(document: Mapping[str, Any]) -> Rows | None:
    """What pandas writes with orient='split'."""
    names, data, index = document["columns"], document["data"], document.get("index")
    if not (isinstance(names, list) and names and len(set(map(str, names))) == len(names)):
        return None
    if not data or not all(isinstance(row, list) and len(row) == len(names) for row in data):
        return None
    columns = {str(name): [row[place] for row in data] for place, name in enumerate(names)}
    if isinstance(index, list) and len(index) == len(data) and index != list(range(len(data))):
        columns = {"index" if "index" not in columns else "index of the table": index, **columns}
    return Rows(columns)


def _column(value: Any) -> bool:
    """Whether a list could be a column: of scalars, or of rows of scores of one length."""
    if not isinstance(value, list) or not value:
        return False
    if all(scalar(one) for one in value):
        return True
    return all(isinstance(one, list) for one in value) and len({len(one) for one in value}) == 1


def _longest(lists: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Lists beside other things that are columns: of those of one length the longest, where they are two at least,
    or the only one; others (names of classes, thresholds) are none. Nothing where the longest is alone among many.
    """
    by_length: dict[int, dict[str, list[Any]]] = {}
    for name, value in lists.items():
        by_length.setdefault(len(value), {})[name] = value
    if not by_length:
        return {}
    longest = by_length[max(by_length)]
    return longest if len(longest) > 1 or len(lists) == 1 or isinstance(next(iter(longest.values()))[0], list) else {}
