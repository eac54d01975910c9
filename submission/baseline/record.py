"""The record of a run: what ``submission.yaml`` says of the split, the model and how it was calibrated."""

from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from protocol import EDITION
from protocol.submission import NON_PARAMETRIC
from protocol.types import SplitName
from splits.writing import DIFFERS, SPLITS_FILE, block
from submission.baseline.config import RunConfig
from submission.baseline.data import Pool
from submission.baseline.recipe import Told, model, recipe
from submission.bundle import CALIBRATORS_FILE
from submission.recalibration import METHOD_WORDS

SEEN_BY_CLASS: tuple[SplitName, ...] = ("calib", "test")
UNKNOWN_SPLIT = "not known: the split file was used as it was received"
CUSTODY = "kept by those who made the split, in a file that is not published"
PREDICTIONS_FILE = "predictions.parquet"


def record_of(config: RunConfig, told: Told, pool: Pool, configs: Mapping[str, str]) -> dict[str, Any]:
    """``submission.yaml`` as plain data; ``configs`` are the digests of configuration and logs by name."""
    task: dict[str, Any] = {"name": pool.task.name}
    if pool.task_file is not None:
        task["sha256"] = pool.task.digest  # a draft is still to be written on
    kinds = list(dict.fromkeys(config.calibrators))
    return {
        "edition": EDITION,
        "submission_id": f"{pool.task.name[:60]}-{config.model[:39]}",
        "title": config.about.title,
        "team": config.about.team,
        "contact": config.about.contact,
        "task": task,
        "splits": _splits(pool),
        "recipe": recipe(config, told) | {"configs": [{"file": name, "sha256": own} for name, own in configs.items()]},
        "models": [model(config)],
        "calibration": {
            "methods": [
                {"name": "none", "family": "none"},
                *({"name": name, "family": name, **METHOD_WORDS[name]} for name in kinds),
            ],
            "fitted_on": "calib",
            "parameters": CALIBRATORS_FILE,
        },
        "metrics": {"extra": [], "claims": []},
        "uncertainty": {
            "unit": pool.task.clustering_unit,
            "resamples": pool.task.resamples,
            "level": 0.95,
            "method": "percentile",
        },
        "shift": {"external": _external(config, pool), "subgroups": pool.subgroups},
        "release": {
            "licence": config.about.licence,
            "code": {"url": config.about.code_url},
            "splits": {"file": SPLITS_FILE},
            "predictions": {"file": PREDICTIONS_FILE},
        }
        | ({"parameters": {"file": CALIBRATORS_FILE}} if kinds else {}),
        "waivers": [{"rule": rule, "reason": reason} for rule, reason in _waivers(config, pool)],
    }


def _splits(pool: Pool) -> dict[str, Any]:
    """The block ``splits``: that beside the split file, with what is true of this very file."""
    if pool.described is not None:
        found: dict[str, Any] = pool.described.model_dump(mode="json", exclude_none=True)
    elif pool.record is not None:
        found = yaml.safe_load(block(pool.record, {}))["splits"]
    else:
        found = {"how": UNKNOWN_SPLIT}
    found |= {"file": SPLITS_FILE, "sha256": pool.sha256}
    if "hash" in found and found["hash"]["salt_custody"].startswith("EXAMPLE") and pool.found.salted:
        found["hash"] = {**found["hash"], "salt_custody": CUSTODY}
    patients = pool.splits["patient_id"]
    if patients.null_count():
        found |= {"patient_ids": "unavailable", "images_per_patient": 1.0}
        found["patient_ids_reason"] = found.get("patient_ids_reason") or "The split file does not name every patient."
    else:
        found |= {"patient_ids": "available", "patient_ids_reason": ""}
        found["images_per_patient"] = round(len(patients) / patients.n_unique(), 4)
    return found


def _external(config: RunConfig, pool: Pool) -> list[dict[str, Any]]:
    """The external sites of the split file; how each differs, as the split's block says, else the configuration."""
    listed = pool.shift.get("external")
    said = {
        str(site["name"]): site.get("differs_in")
        for site in (listed if isinstance(listed, list) else [])
        if isinstance(site, dict) and "name" in site
    }
    found = []
    for name in pool.part("external")["site"].unique().sort():
        own = said.get(name)
        filled = isinstance(own, list) and own and DIFFERS not in own
        found.append({"name": name, "differs_in": own if filled else list(config.about.differs_in)})
    return found


def _waivers(config: RunConfig, pool: Pool) -> Iterator[tuple[str, str]]:
    """The rules that this split or configuration can't meet, each with what is so."""
    counts = dict(pool.splits["split"].value_counts().iter_rows())
    labels = {split: pool.part(split)["label"] for split in SEEN_BY_CLASS}
    absent = [
        f"class {name} in {split}"
        for split, own in labels.items()
        for k, name in enumerate(pool.task.classes)
        if not own.null_count() and k not in set(own)  # of hidden labels nothing is known
    ]
    if absent:
        yield "MVC107", f"The split has no image of {', '.join(absent)}."
    if pool.splits["patient_id"].null_count():
        yield "MVC109", f"{_splits(pool)['patient_ids_reason']} Intervals are by image."
    if missing := [split for split in ("train", "val") if not counts.get(split)]:
        yield "MVC113", f"The split file has no row of {' and '.join(missing)}."
    if config.learner.name != "zeroshot" and len(config.seeds) == 1:
        yield "MVC203", f"The configuration asks for one seed, {config.seeds[0]}."
    if "temperature" not in config.calibrators or not set(config.calibrators) & set(NON_PARAMETRIC):
        yield (
            "MVC301",
            f"The configuration asks for these calibrators alone: {', '.join(config.calibrators) or 'none'}.",
        )
    if not counts.get("external"):
        yield "MVC601", "The split has no external site."
