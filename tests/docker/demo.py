"""The demonstration as a hosted task: its bundle, and the labels that a host mounts."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from scorer.host import init_host
from submission.bundle import open_bundle
from submission.demo import make_demo
from submission.writing import make_lock, write_lock
from tests.builders import DECLARED_AT


@dataclass(frozen=True)
class Demo:
    """``bundle`` answers the task; ``labels`` is what the host mounts."""

    bundle: Path
    labels: Path


def hosted_demo(folder: Path) -> Demo:
    """Make it in the new ``folder``; every user may read it."""
    folder.mkdir(parents=True)
    bundle = make_demo(folder / "bundle", lambda _: None)
    host = init_host(folder / "host", task=bundle / "task.yaml", splits=bundle / "splits.parquet").folder
    for name in ("task.yaml", "splits.parquet"):
        shutil.copyfile(host / "public" / name, bundle / name)
    (folder / "scratch").mkdir()
    write_lock(bundle, make_lock(open_bundle(bundle, folder / "scratch"), DECLARED_AT))
    labels = folder / "labels"
    labels.mkdir()
    for file in (host / "private" / "truth.parquet", host / "private" / "host.key", host / "public" / "task.yaml"):
        shutil.copyfile(file, labels / file.name)
    opened_to_all(folder)
    return Demo(bundle, labels)


def opened_to_all(folder: Path) -> None:
    """Let every user read ``folder``."""
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)


def open_output(folder: Path) -> Path:
    """A new folder that every user may write to."""
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    return folder
