"""``mvc host init``: a hosted task out of a draft, the full split file and the labels to hide."""

import os
import secrets
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq

from protocol import EDITION
from protocol.findings import counted, plain
from protocol.stages.stage0_intake import texts_of
from protocol.task import Task
from protocol.types import EVALUATED
from scorer.host_tables import (
    absent_classes,
    label_problems,
    read_splits,
    read_truth,
    splits_problems,
    truth_problems,
)
from scorer.host_task import HostError, read_task
from scorer.signing import new_key
from submission.bundle import TASK_FILE
from submission.files import sha256_file, write_atomic
from submission.writing import task_from, to_yaml

PUBLIC, PRIVATE = "public", "private"
SPLITS_FILE = "splits.parquet"
TRUTH_FILE = "truth.parquet"
KEY_FILE = "host.key"
PUBLIC_KEY_FILE = "host.pub"
# What a hosted task allows unless it says otherwise: each run and each content scored tells something of the labels.
MAX_RUNS = 60
QUOTA = 20
MADE_HERE = ("splits_sha256", "truth_sha256", "host_key")
NONCE = b"mvc_nonce"

Progress = Callable[[str], None]


class FolderTaken(ValueError):
    """The folder for a new hosted task is not new; the message is for the user."""


@dataclass(frozen=True)
class Hosted:
    """A hosted task on disk: its folder, what was published, and how many images have hidden labels."""

    folder: Path
    task: Task
    images: int
    absent: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What the host may want to mend before it publishes, each a sentence."""
        texts = texts_of(self.task.model_dump(mode="json"), TASK_FILE)
        left = [where.removeprefix(f"{TASK_FILE}: ") for where, text in texts if text.startswith("EXAMPLE")]
        found = list(self.absent)
        if left:
            found.append(f"{counted(len(left), 'text')} of the example left in the task: {plain(', '.join(left))}")
        caps = self.task.caps
        if caps.quota is None or caps.max_runs * caps.quota > self.images:
            quota = "without a quota" if caps.quota is None else f"x {caps.quota} contents"
            found.append(
                f"{caps.max_runs} runs {quota} can read out as many labels, and there are {self.images}: "
                "lower caps for a small test set (PROTOCOL.md, section 11)"
            )
        return tuple(found)


def init_host(
    folder: Path,
    *,
    task: Path,
    splits: Path,
    truth: Path | None = None,
    allow_absent_class: bool = False,
    progress: Progress = lambda step: None,
) -> Hosted:
    """Write ``public/`` and ``private/`` of a hosted task into ``folder``, new or empty: all of it or nothing.

    ``truth`` is a table of ``image_id`` and the label columns; without it the labels of test and external are taken out
    of ``splits``. Rows are sorted by ``image_id``, since their order could tell the labels. Raises HostError with every
    problem, FolderTaken, OSError as the file system does.
    """
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir() or any(folder.iterdir())):
        raise FolderTaken(f"{folder} exists and is not an empty folder")
    progress("reading the task")
    draft = read_task(task)
    problems = _draft_problems(draft, task.name)
    progress("reading the splits")
    listed = read_splits(splits, draft)
    problems += listed.problems
    given = None if truth is None else read_truth(truth, draft)
    problems += given.problems if given is not None else ()
    absent: tuple[str, ...] = ()
    if listed.table is not None:
        problems += splits_problems(listed.table, draft)
        labels = None if given is None else given.table
        if given is None:
            labels = listed.table.filter(pl.col("split").is_in(EVALUATED)).select("image_id", *draft.label_columns)
        if labels is not None:
            progress("checking the truth")
            problems += truth_problems(labels, listed.table, draft)
            full = _labelled(listed.table, labels, draft)
            outside = label_problems(full, draft)
            if given is None and outside and not labels.select(draft.label_columns).drop_nulls().height:
                outside = ("the split file has no labels of test and external; give --truth TABLE (MVC108)",)
            absent = () if outside else absent_classes(full, draft)
            problems += outside
            if not allow_absent_class:
                problems += [f"{line}; --allow-absent-class publishes the task all the same" for line in absent]
    if problems or listed.table is None or labels is None:
        raise HostError(*dict.fromkeys(problems))
    progress("writing")
    made = _write(folder, draft, listed.table, labels)
    return Hosted(folder, made, labels.height, absent)


def _draft_problems(draft: Task, file: str) -> list[str]:
    given = [name for name in MADE_HERE if getattr(draft, name) is not None]
    found = [f"{file}: {name} is set; leave it out, mvc host init writes it" for name in given]
    if draft.edition != EDITION:
        found.append(f"{file}: edition {plain(draft.edition, 40)}, wanted '{EDITION}' (MVC010)")
    blank = [name for name in ("target", "label_source", "label_definition") if not getattr(draft, name).strip()]
    if blank:
        found.append(f"{file}: blank: {', '.join(blank)} (MVC112)")
    return found


def _labelled(splits: pl.DataFrame, truth: pl.DataFrame, task: Task) -> pl.DataFrame:
    """Image, split and labels of all rows whose label is known: the truth's where it is hidden."""
    columns = ("image_id", "split", *task.label_columns)
    open_ = splits.filter(~pl.col("split").is_in(EVALUATED)).select(columns)
    hidden = splits.filter(pl.col("split").is_in(EVALUATED)).select("image_id", "split")
    return pl.concat([open_, hidden.join(truth, on="image_id", how="inner").select(columns)])


def _write(folder: Path, draft: Task, splits: pl.DataFrame, truth: pl.DataFrame) -> Task:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".mvc-", ignore_cleanup_errors=True) as name:
        stage = Path(name, "host")
        (stage / PUBLIC).mkdir(parents=True)
        (stage / PRIVATE).mkdir(mode=0o700)
        hidden = pl.col("split").is_in(EVALUATED)
        public = splits.with_columns(
            pl.when(hidden).then(None).otherwise(pl.col(label)).alias(label) for label in draft.label_columns
        )
        _write_table(stage / PUBLIC / SPLITS_FILE, public, {})
        # Without a nonce the published digest would tell which of a few guessed label vectors is the true one.
        secret = {NONCE: secrets.token_hex(32).encode()}
        _write_table(stage / PRIVATE / TRUTH_FILE, truth, secret)
        (stage / PRIVATE / TRUTH_FILE).chmod(0o600)
        key = new_key(stage / PRIVATE / KEY_FILE, stage / PUBLIC / PUBLIC_KEY_FILE)
        document = _published(
            draft,
            splits_sha256=sha256_file(stage / PUBLIC / SPLITS_FILE),
            truth_sha256=sha256_file(stage / PRIVATE / TRUTH_FILE),
            host_key=key,
        )
        made = task_from(document)
        write_atomic(stage / PUBLIC / TASK_FILE, to_yaml(document))
        try:
            os.replace(stage, folder)
        except OSError:
            if folder.is_dir() and any(folder.iterdir()):
                raise FolderTaken(f"{folder} exists and is not an empty folder") from None
            raise
    return made


def _published(draft: Task, **made: str) -> dict[str, Any]:
    """The draft as it was written, with the digests and the key, and the hosted caps where it had none."""
    document = draft.model_dump(mode="json", exclude_unset=True)
    caps = {"max_runs": MAX_RUNS, "quota": QUOTA} | document.get("caps", {})
    return {**document, **made, "caps": caps}


def _write_table(path: Path, frame: pl.DataFrame, metadata: dict[bytes, bytes]) -> None:
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    pq.write_table(table.replace_schema_metadata(metadata or None), path, compression="zstd")
