"""Hosted tasks for tests: what a host publishes and keeps, and bundles that answer it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from protocol.task import Task
from protocol.types import Kind
from scorer.host import init_host
from scorer.hosted import HostedScore, score_hosted
from submission.bundle import open_bundle
from submission.writing import make_lock, to_yaml, write_lock
from tests.builders import DECLARED_AT, Draft, good_submission, write
from tests.referee import decoding_here

NOW = "2026-02-01T12:00:00Z"


@dataclass(frozen=True)
class HostFolder:
    """What ``mvc host init`` made."""

    folder: Path
    task: Task

    @property
    def truth(self) -> Path:
        """The hidden labels."""
        return self.folder / "private" / "truth.parquet"

    @property
    def key(self) -> Path:
        """The private key."""
        return self.folder / "private" / "host.key"


def small(kind: Kind = "binary", seeds: int = 1) -> Draft:
    """A good submission that is scored fast: one seed unless said, 1,000 resamples."""
    draft = good_submission(kind)
    kept = list(range(1, seeds + 1))
    draft.predictions = draft.predictions.filter(pl.col("seed").is_in(kept))
    draft.calibrators = [map_ for map_ in draft.calibrators if map_.seed in kept]
    draft.record["models"][0]["seeds"] = kept
    if seeds == 1:
        draft.record["waivers"].append({"rule": "MVC203", "reason": "a test"})
    draft.task["resamples"] = 1000
    return draft


def publish(draft: Draft, folder: Path, **changes: Any) -> HostFolder:
    """Host the task of ``draft`` in the new ``folder``; ``changes`` go into the task."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    task, splits = folder.parent / f"{folder.name}.yaml", folder.parent / f"{folder.name}.parquet"
    task.write_bytes(to_yaml({**draft.task, **changes}))
    draft.splits.write_parquet(splits)
    return HostFolder(folder, init_host(folder, task=task, splits=splits).task)


def answer(draft: Draft, host: HostFolder, folder: Path) -> Path:
    """Write ``draft`` into ``folder`` as a bundle that answers the task of ``host``: its task file, its splits."""
    write(replace(draft, lock=False, after=[]), folder)
    for name in ("task.yaml", "splits.parquet"):
        (folder / name).write_bytes((host.folder / "public" / name).read_bytes())
    if draft.lock:
        scratch = folder / "scratch"
        scratch.mkdir()
        write_lock(folder, make_lock(open_bundle(folder, scratch), DECLARED_AT))
        scratch.rmdir()
    for change in draft.after:
        change(folder)
    return folder


def scored(made: HostFolder, bundle: Path, output: Path, **options: Any) -> HostedScore:
    """Score ``bundle`` at a fixed time, decoded in this process."""
    with decoding_here():
        return score_hosted(made.truth, bundle, output, **{"key": made.key, "now": NOW, **options})


def arguments(made: HostFolder, bundle: Path, output: Path) -> list[str]:
    """The command line."""
    options = {"--truth": made.truth, "--input": bundle, "--output": output, "--key": made.key}
    return ["score", *(str(part) for option in options.items() for part in option)]


def wrong_seed(draft: Draft) -> None:
    """Declare a seed that is not in the predictions."""
    draft.record["models"][0]["seeds"] = [1, 9]


def too_many_runs(draft: Draft) -> None:
    """Declare 90 runs, three methods each."""
    draft.record["models"] = [{"name": f"m{n}", "kind": "base", "deterministic": True} for n in range(30)]
