"""What of a configuration is published: no place on the disk of its author."""

import re
from pathlib import Path

from pydantic import TypeAdapter

from submission.baseline.config import RunConfig
from submission.yaml_io import parse_record

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w-][\w.-]*(@[\w.-]+)?")
HUBS = ("hf-hub:", "https://")


def shown_weights(weights: str | None) -> str | None:
    """``weights`` as it may be published: a hub id as it is, of a local path the last part."""
    if weights is None or weights.startswith(HUBS):
        return weights
    if HUB_ID.fullmatch(weights) and not Path(weights).exists():
        return weights
    return re.split(r"[/\\]", weights.rstrip("/\\"))[-1]


def without_paths(config: RunConfig) -> RunConfig:
    """``config`` as it may be published."""
    backbone = config.backbone.model_copy(update={"weights": shown_weights(config.backbone.weights)})
    return config.model_copy(update={"backbone": backbone})


def published(data: bytes) -> bytes | None:
    """The configuration file ``data`` as it may be published, comments and all; None where a path stays in it."""
    found, _ = parse_record(TypeAdapter(RunConfig), data, "config.yaml")
    weights = None if found is None else found.backbone.weights
    shown = shown_weights(weights)
    if weights is None or shown is None or shown == weights:
        return data
    cut = data.replace(weights.encode(), shown.encode())
    again, _ = parse_record(TypeAdapter(RunConfig), cut, "config.yaml")
    return cut if again is not None and again.backbone.weights == shown else None
