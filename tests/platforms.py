"""Platforms for tests: the folders that a challenge host mounts, below a root that stands for the container's."""

import shutil
from pathlib import Path

from scorer.hosted import HostedScore
from scorer.layouts.platforms import LAYOUTS, Layout
from scorer.layouts.running import score_layout
from tests.hosted import NOW, HostFolder
from tests.referee import decoding_here

BY_NAME = {layout.name: layout for layout in LAYOUTS}
# Everything that a platform finds in its output folder, by outcome.
ACCEPTED = {
    "plain": {"record.json", "scores.json", "verdict.json"},
    "grand-challenge": {"metrics.json"},
    "codabench": {"detailed_results.html", "record.json", "scores.json"},
    "evalai": {"record.json", "result.json", "verdict.json"},
    "medperf": {"results.yaml"},
}
REJECTED = {
    "plain": {"record.json", "verdict.json"},
    "grand-challenge": set(),
    "codabench": {"detailed_results.html", "record.json"},
    "evalai": {"record.json", "verdict.json"},
    "medperf": {"results.yaml"},
}


def mounted(name: str, root: Path, made: HostFolder, submission: Path) -> Layout:
    """Lay out below ``root`` what the platform ``name`` mounts for the task of ``made`` and a ``submission``."""
    layout = BY_NAME[name]
    labels, place = root / layout.labels, root / layout.submission
    for folder in (labels, root / layout.output, place):
        folder.mkdir(parents=True)
    for file in (made.truth, made.key, made.folder / "public" / "task.yaml"):
        shutil.copyfile(file, labels / file.name)
    if submission.is_dir():
        shutil.copytree(submission, place, dirs_exist_ok=True)
    else:
        shutil.copyfile(submission, place / submission.name)
    return layout


def run(layout: Layout, root: Path) -> HostedScore:
    """Score what is mounted below ``root`` at a fixed time, decoded in this process."""
    with decoding_here():
        return score_layout(layout, root, now=NOW)


def written(layout: Layout, root: Path) -> set[str]:
    """Names below the output folder."""
    return {path.relative_to(root / layout.output).as_posix() for path in (root / layout.output).rglob("*")}
