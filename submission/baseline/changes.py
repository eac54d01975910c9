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
        if not mark:
            raise BaselineError(f"--set {plain(change)}: wanted KEY=VALUE, such as training.epochs=20")
        try:
            value = load_yaml(f"value: {text}")["value"]
        except RecordError as error:
            raise BaselineError(f"--set {plain(change)}: {error}") from None
        _put(document, key.strip(), value)
    if weights is not None:
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
