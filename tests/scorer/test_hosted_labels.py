"""Hidden labels and what participants see: whatever the labels are, nothing but the numbers of scores changes."""

import base64
import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from mvc.cli import app
from scorer.truth import Truth, hosted_task, read_truth
from tests.builders import Draft
from tests.hosted import HostFolder, answer, arguments, publish, small, too_many_runs, wrong_seed
from tests.referee import decoding_here


@dataclass(frozen=True)
class Seen:
    """All that a participant can see of a run, numbers masked."""

    exit_code: int
    stdout: str
    stderr: str
    files: dict[str, str]


def seen_by_participants(made: HostFolder, bundle: Path, output: Path, truth: Truth) -> Seen:
    """Run the command with the labels of ``truth`` and look at everything that it leaves."""
    with pytest.MonkeyPatch.context() as patch, decoding_here():
        patch.setattr("scorer.hosted.read_truth", lambda *_: truth)
        done = CliRunner().invoke(app, arguments(made, bundle, output), env={"SOURCE_DATE_EPOCH": "1770000000"})
    files = {}
    for path in sorted(output.iterdir()):
        text = path.read_text()
        if path.name == "record.json":
            document = json.loads(text)
            payload = json.loads(base64.b64decode(document["payload"]))
            text = json.dumps([payload, document["payloadType"], [s["keyid"] for s in document["signatures"]]])
        files[path.name] = text if path.name == "verdict.json" else masked(text)
    shutil.rmtree(output)
    return Seen(done.exit_code, done.stdout, done.stderr, files)


def masked(text: str) -> str:
    """``text`` with the numbers of scores taken out."""
    return re.sub(r'("(?:value|lo|hi)": )(?:null|-?[0-9.e-]+)', r"\1#", text)


def claims(draft: Draft) -> None:
    for value in ("0.1", "0.8146"):
        draft.claim(metric="accuracy", model="densenet121", slice="test", value=value)


def waivers(draft: Draft) -> None:
    draft.splits = draft.splits.filter(pl.col("split") != "val")
    draft.record["waivers"] += [{"rule": rule, "reason": "a test"} for rule in ("MVC107", "MVC113")]


def damaged(draft: Draft) -> None:
    draft.after = [cut_short]


def cut_short(folder: Path) -> None:
    (folder / "predictions.parquet").write_bytes(b"PAR1 and no more")


def no_licence(draft: Draft) -> None:
    draft.record["release"]["licence"] = "my own"


SEEN: dict[Path, Seen] = {}  # with the true labels, by bundle
BUNDLES = (claims, waivers, wrong_seed, damaged, no_licence, too_many_runs)


@pytest.mark.parametrize("change", BUNDLES, ids=lambda change: change.__name__)
@settings(
    max_examples=3,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32 - 1), share=st.sampled_from([0.0, 0.02, 0.5, 1.0]))
def test_permuted_labels_change_nothing_but_numbers(
    change: Callable[[Draft], None], seed: int, share: float, tmp_path: Path
) -> None:
    """Whatever the labels are, down to a class that is absent: verdict, codes, lines, files and what they say."""
    if not (tmp_path / "host").exists():
        draft = small()
        if change is waivers:
            change(draft)  # the splits are the host's
        publish(draft, tmp_path / "host")
        if change is not waivers:
            change(draft)
        answer(draft, host_in(tmp_path), tmp_path / "bundle")
    made = host_in(tmp_path)
    truth = read_truth(made.truth, made.task)
    rng = np.random.default_rng(seed)
    labels = rng.permutation(truth.labels) if share == 0.5 else (rng.random(truth.labels.shape) < share).astype(int)
    if tmp_path not in SEEN:
        SEEN[tmp_path] = seen_by_participants(made, tmp_path / "bundle", tmp_path / "out", truth)
    before = SEEN[tmp_path]
    assert before.exit_code == (0 if change in (claims, waivers) else 1), before.stdout
    after = seen_by_participants(made, tmp_path / "bundle", tmp_path / "out", replace(truth, labels=labels))
    assert after == before


def host_in(folder: Path) -> HostFolder:
    """The hosted task that was published in ``folder``."""
    return HostFolder(folder / "host", hosted_task(folder / "host" / "private" / "truth.parquet"))
