"""Changes to a configuration from the command line: ``training.epochs=20``."""

from collections.abc import Sequence
from typing import Any

from pydantic import TypeAdapter

from protocol.findings import plain
from submission.baseline.config import RunConfig
from submission.baseline.errors import BaselineError
from submission.writing import to_yaml
from submission.yaml_io import RecordError, load_yaml, parse_record


def changed(config: RunConfig, changes: Sequence[str], weights: str | None = None) -> RunConfig:
    """``config`` with each ``KEY=VALUE`` of ``changes``, and other ``weights`` of the backbone.

    Keys have dots, values are YAML. Raises BaselineError for a key that there is not, and a value that does not fit.
    """
    if not changes and weights is None:
        return config
    document = config.model_dump(mode="json")
    for change in changes:
        key, mark, text = change.partition("=")
        if not mark or not text.strip():
            raise BaselineError(f"--set {plain(change)}: wanted KEY=VALUE, such as training.epochs=20 (null for none)")
        try:
            read = load_yaml(f"value: {text}")
        except (RecordError, UnicodeError) as error:
            raise BaselineError(f"--set {plain(change)}: {plain(error)}") from None
        if set(read) != {"value"}:
            raise BaselineError(f"--set {plain(change)}: wanted one value; give --set once for each")
        _put(document, key.strip(), read["value"])
    if weights is not None:
        if not weights.strip() or plain(weights, len(weights)) != weights:
            raise BaselineError(f"--weights {plain(weights)!r}: wanted a path or a hub id of plain letters")
        document["backbone"]["weights"] = weights
    found, problems = parse_record(TypeAdapter(RunConfig), to_yaml(document), "--set")
    if found is None:
        raise BaselineError("; ".join(f"{plain(p.where)}: {plain(p.saw)}, wanted {plain(p.wanted)}" for p in problems))
    return found


def _put(document: dict[str, Any], key: str, value: Any) -> None:
    """Set the place ``key`` of ``document``; BaselineError where there is no such place."""
    *above, last = key.split(".")
    place: Any = document
    for part in above:
        place = place.get(part) if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place:
        known = ", ".join(place) if isinstance(place, dict) else ", ".join(document)
        raise BaselineError(f"--set {plain(key)}: there is no such key; there are {known}")
    place[last] = value
