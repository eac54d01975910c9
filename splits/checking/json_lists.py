"""JSON that lists images: a dictionary of splits, runs of such, lists of records."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from splits.checking import words
from splits.errors import SplitError

SPLIT, RUN = "split", "run"
NESTED = ("images", "samples", "data", "annotations", "items", "files")


def read_json(path: Path, encoding: str = "utf-8") -> tuple[pl.DataFrame, str, str, tuple[str, ...]]:
    """The rows as text, the columns of split and run that the form gives (or ''), and notes.

    Known: ``{"train": [...], "test": [...]}`` with names, records or rows ``[path, label, class name]``; the same
    once for each run (a list, or a dictionary, of them); a list of records; one record a line. Raises SplitError.
    """
    document = _parsed(path, encoding)
    notes: list[str] = []
    rows: list[dict[str, str | None]] = []
    if isinstance(document, Mapping) and len(document) == 1 and isinstance(one := next(iter(document.values())), list):
        document = one if next(iter(document)) in NESTED else document
    runs = _runs(document)
    if runs:
        for run, splits in runs:
            for split, items in splits.items():
                rows.extend({**_row(path, item), SPLIT: split, RUN: run} for item in items)
        return _framed(path, rows), SPLIT, RUN if len(runs) > 1 else "", ()
    if isinstance(document, list):
        return _framed(path, [_row(path, item) for item in document]), "", "", ()
    if isinstance(document, Mapping):
        splits, ignored = _splits(document)
        if splits:
            if ignored:
                notes.append(f"not read: {', '.join(sorted(ignored)[:8])}")
            for split, items in splits.items():
                rows.extend({**_row(path, item), SPLIT: split} for item in items)
            return _framed(path, rows), SPLIT, "", tuple(notes)
        if all(isinstance(value, str) for value in document.values()):
            pairs = [{"image": str(name), SPLIT: str(value)} for name, value in document.items()]
            if len(set(document.values())) <= 50:
                return _framed(path, pairs), SPLIT, "", ()
        if all(isinstance(value, Mapping) for value in document.values()):
            return _framed(path, [{"image": str(n), **_row(path, v)} for n, v in document.items()]), "", "", ()
    raise SplitError(
        f"{path} is JSON of a form that lists no images; wanted: "
        '{"train": [...], "test": [...]}, a list of those (one a run), or a list of records'
    )


def _parsed(path: Path, encoding: str) -> Any:
    try:
        raw = path.read_bytes()
        if raw[:2] == b"\x1f\x8b":
            raw = gzip.decompress(raw)
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
        if path.name.removesuffix(".gz").lower().endswith(("jsonl", "ndjson")):
            return [json.loads(line) for line in text.splitlines() if line.strip()]
        return json.loads(text)
    except FileNotFoundError:
        raise SplitError(f"{path}: no such file") from None
    except (OSError, EOFError) as error:
        raise SplitError(f"{path} can't be read ({error})") from None
    except (UnicodeDecodeError, LookupError):
        raise SplitError(f"{path} is not {encoding} text; say --encoding latin-1, or whichever it is") from None
    except json.JSONDecodeError as error:
        raise SplitError(f"{path}, line {error.lineno}: no JSON ({error.msg})") from None
    except RecursionError:
        raise SplitError(f"{path} is nested too deep for a list of images") from None
    except ValueError as error:
        raise SplitError(f"{path} is no JSON ({str(error)[:120]})") from None


def _splits(document: Mapping[str, Any]) -> tuple[dict[str, list[Any]], list[str]]:
    """The splits of a dictionary, and its keys that are none."""
    lists = {str(name): value for name, value in document.items() if isinstance(value, list) and value}
    named = {name: value for name, value in lists.items() if words.kind_of(name)}
    chosen = named or (lists if len(lists) == len(document) and len(lists) > 1 else {})
    return chosen, [str(name) for name in document if str(name) not in chosen]


def _runs(document: Any) -> list[tuple[str, dict[str, list[Any]]]]:
    """A list, or a dictionary, of dictionaries of splits."""
    found: Iterator[tuple[str, Any]]
    if isinstance(document, list):
        found = ((str(number), value) for number, value in enumerate(document))
    elif isinstance(document, Mapping):
        found = ((str(name), value) for name, value in document.items())
    else:
        return []
    runs = []
    for name, value in found:
        if not isinstance(value, Mapping):
            return []
        splits = {str(n): v for n, v in value.items() if isinstance(v, list) and words.kind_of(str(n))}
        if len(splits) < 2:
            return []
        runs.append((name, splits))
    return runs


def _row(path: Path, item: Any) -> dict[str, str | None]:
    if isinstance(item, Mapping):
        return {str(name): _text(value) for name, value in item.items()}
    if isinstance(item, list) and item:
        names = ("image", "label", "classname", *(f"column_{k}" for k in range(4, len(item) + 1)))
        return {name: _text(value) for name, value in zip(names, item, strict=False)}
    if isinstance(item, str | int):
        return {"image": str(item)}
    raise SplitError(f"{path}: an entry is {json.dumps(item)[:80]}; wanted a name, a record, or [path, label]")


def _text(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.strip() or None if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _framed(path: Path, rows: Sequence[Mapping[str, str | None]]) -> pl.DataFrame:
    names = list(dict.fromkeys(name for row in rows for name in row))
    if not rows or not names:
        raise SplitError(f"{path} lists no images")
    return pl.DataFrame({name: pl.Series([row.get(name) for row in rows], dtype=pl.String) for name in names})
