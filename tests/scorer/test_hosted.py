"""Hosted scoring: what participants see does not depend on hidden labels beyond the rounded aggregates."""

import base64
import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

from mvc.cli import app
from protocol.catalogue import headline_metrics
from protocol.findings import Outcome, Status
from protocol.types import Kind
from scorer.cohort import cohort_of
from scorer.host_task import HostError
from scorer.hosted import FAULT, MISCONFIGURED, score_hosted
from scorer.ledger_filings import read_lock
from scorer.results import read_metrics, read_replicates
from scorer.scoring import Cohort
from scorer.signing import SignatureError, load_key, new_key, opened, seal
from scorer.truth import read_truth
from submission.writing import to_yaml
from tests.builders import Draft
from tests.hosted import NOW, HostFolder, answer, arguments, publish, scored, small, too_many_runs, wrong_seed
from tests.hosting import receipt_of
from tests.referee import decoding_here, rejecting, result_of


@pytest.fixture(autouse=True)
def few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits get 20 draws: what is tested here is who sees what, not the numbers."""
    monkeypatch.setattr("scorer.scoring.COSTLY_DRAWS", 20)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HostFolder:
    """A hosted binary task."""
    return publish(small(), tmp_path_factory.mktemp("hosted") / "host")


def test_an_accepted_submission_is_scored_for_both_sides(tmp_path: Path) -> None:
    draft = small(seeds=2)
    made = publish(draft, tmp_path / "host")
    bundle = answer(draft, made, tmp_path / "bundle")
    seen = scored(made, bundle, tmp_path / "out", host=tmp_path / "log")
    assert seen.verdict.status is Status.ACCEPTED
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"verdict.json", "scores.json", "record.json"}
    host = tmp_path / "log"
    assert {path.name for path in host.iterdir()} == {
        "host.json", "host.log", "metrics.parquet", "replicates.parquet", "curves.parquet", "scorecard.json",
    }  # fmt: skip
    assert stat.S_IMODE(host.stat().st_mode) == 0o700
    assert json.loads((tmp_path / "out" / "verdict.json").read_text()) == seen.verdict.to_dict()

    exact = {
        (r.calibrator, r.slice_kind, r.slice, r.metric): r
        for r in read_metrics(host / "metrics.parquet")
        if r.seed == "mean" and r.class_ is None
    }
    assert len(seen.scores) == 3 * 4 * len(headline_metrics("binary"))
    for score in seen.scores:
        row = exact[score.calibrator, score.slice_kind, score.slice, score.metric]
        assert (score.value, score.lo, score.hi) in (
            (round(row.value, 4), round(row.lo, 4), round(row.hi, 4)), (None, None, None)
        )  # fmt: skip
        assert (score.n_images, score.n_patients) == (row.n_images, row.n_patients)
    assert sum(score.value is not None for score in seen.scores) > 60
    assert seen.to_frame().height == len(seen.scores)
    assert read_replicates(host / "replicates.parquet")

    payload = opened((tmp_path / "out" / "record.json").read_bytes(), "record", str(made.task.host_key))
    assert seen.record is not None
    assert payload == seen.record.model_dump(mode="json")
    assert payload["scored_at"] == NOW
    assert payload["truth_sha256"] == made.task.truth_sha256


@pytest.mark.parametrize("kind", ["multiclass", "multilabel"])
def test_other_kinds(kind: Kind, tmp_path: Path) -> None:
    draft = small(kind)
    made = publish(draft, tmp_path / "host")
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    assert seen.verdict.accepted
    assert {score.metric for score in seen.scores} == set(headline_metrics(kind))
    assert {score.n_images for score in seen.scores if score.slice == "all"} == {160}  # labelled or not


def test_the_hosts_labels_are_scored_not_the_bundles(made: HostFolder, tmp_path: Path) -> None:
    """Against scikit-learn on the labels that the host kept."""
    from sklearn.metrics import brier_score_loss

    draft = small()
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    truth = pl.read_parquet(made.truth)
    tested = draft.splits.filter(pl.col("split") == "test").select("image_id").join(truth, on="image_id")
    joined = tested.join(draft.predictions.filter(pl.col("calibrator") == "none"), on="image_id")
    (found,) = [
        score.value
        for score in seen.scores
        if (score.calibrator, score.slice, score.metric) == ("none", "all", "brier_binary")
    ]
    assert found == round(brier_score_loss(joined["label"], joined["p_1"]), 4)


def test_rules_that_read_labels_speak_to_the_host_alone(made: HostFolder, tmp_path: Path) -> None:
    draft = small()
    draft.claim(metric="accuracy", model="densenet121", slice="test", value="0.1")
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out", host=tmp_path / "log")
    assert seen.verdict.accepted
    assert result_of(seen.verdict, "MVC407").outcome is Outcome.NOT_APPLICABLE
    verdict = json.loads((tmp_path / "log" / "host.json").read_text())["verdict"]
    outcomes = {rule["rule"]: rule["outcome"] for rule in verdict["rules"]}
    assert (outcomes["MVC407"], outcomes["MVC108"]) == ("failed", "passed")
    assert verdict["status"] == "rejected"


def test_hidden_subgroups_are_the_hosts(tmp_path: Path) -> None:
    """A subgroup column of the truth gives slices to the host; participants do not hear of it."""
    draft = small()
    made = publish(draft, tmp_path / "host")
    truth = read_truth(made.truth, made.task)
    scar = np.where(np.arange(len(truth.image_id)) % 2 == 0, "yes", "no")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scorer.hosted.read_truth", lambda *_: replace(truth, subgroups={"scar": scar}))
        scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out", host=tmp_path / "log")
    slices = {row.slice for row in read_metrics(tmp_path / "log" / "metrics.parquet")}
    assert {"scar=yes", "scar=no", "sex=male"} <= slices
    assert b"scar" not in b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())


def leak_column(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(label=pl.lit(1))


def other_task(folder: Path) -> None:
    text = (folder / "task.yaml").read_text()
    (folder / "task.yaml").write_text(re.sub("smallest_cell: .*", "", text) + "ordinal: true\n")


def other_splits(folder: Path) -> None:
    splits = pl.read_parquet(folder / "splits.parquet")
    splits.with_columns(label=pl.col("label").fill_null(1)).write_parquet(folder / "splits.parquet")


@pytest.mark.parametrize(
    ("change", "after", "rule"),
    [
        (wrong_seed, None, "MVC202"),
        (leak_column, None, "MVC409"),
        (too_many_runs, None, "MVC004"),
        (None, other_task, "MVC011"),
        (None, other_splits, "MVC111"),
    ],
)
def test_a_rejection_has_a_verdict_and_a_record(
    change: Callable[[Draft], None] | None,
    after: Callable[[Path], None] | None,
    rule: str,
    made: HostFolder,
    tmp_path: Path,
) -> None:
    draft = small()
    if change is not None:
        change(draft)
    if after is not None:
        draft.after = [after]
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    assert rule in rejecting(seen.verdict)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"verdict.json", "record.json"}
    payload = opened((tmp_path / "out" / "record.json").read_bytes(), "record", str(made.task.host_key))
    assert (payload["status"], payload["scores"], payload["content_sha256"]) == ("rejected", [], None)
    assert rule in {finding["rule"] for finding in payload["findings"]}


def test_the_cap_is_named_and_stops_at_its_own_number(tmp_path: Path) -> None:
    draft = small()
    fits = publish(draft, tmp_path / "fits", caps={"max_runs": 3})
    tight = publish(draft, tmp_path / "tight", caps={"max_runs": 2})
    assert scored(fits, answer(draft, fits, tmp_path / "a"), tmp_path / "out").verdict.accepted
    verdict = scored(tight, answer(draft, tight, tmp_path / "b"), tmp_path / "out").verdict
    assert rejecting(verdict) == ["MVC004"]
    assert "3 runs" in verdict.last_line
    assert result_of(verdict, "MVC004").findings[0].wanted == "at most 2, the task's cap"


def zipped(bundle: Path) -> Path:
    """A folder that holds one zip of the bundle."""
    folder = bundle.parent / "uploads"
    folder.mkdir()
    with zipfile.ZipFile(folder / "team.zip", "w") as archive:
        for path in sorted(bundle.rglob("*")):
            archive.write(path, path.relative_to(bundle))
    return folder


def wrapped(bundle: Path) -> Path:
    """A folder that holds the folder of the bundle, and what a Mac leaves."""
    folder = bundle.parent / "uploads"
    (folder / "__MACOSX").mkdir(parents=True)
    shutil.move(bundle, folder / "mine")
    return folder


def test_shapes_of_uploads_and_the_same_content_give_the_same_bytes(made: HostFolder, tmp_path: Path) -> None:
    """Another order of rows, CSV for Parquet, a zip, a wrapping folder: one content, and its scores to the byte."""
    found = set()
    for name, shape in (("folder", lambda path: path), ("zip", zipped), ("wrapped", wrapped)):
        draft = small()
        if name == "zip":
            draft.predictions = draft.predictions.sample(fraction=1.0, shuffle=True, seed=7)
        if name == "wrapped":
            draft.record["release"]["predictions"] = {"file": "predictions.csv"}
            draft.after = [as_csv]
        bundle = answer(draft, made, tmp_path / name / "bundle")
        seen = scored(made, shape(bundle), tmp_path / name / "out")
        assert seen.record is not None, seen.verdict
        found.add((seen.record.content_sha256, (tmp_path / name / "out" / "scores.json").read_bytes()))
    assert len(found) == 1


def as_csv(folder: Path) -> None:
    pl.read_parquet(folder / "predictions.parquet").write_csv(folder / "predictions.csv")
    (folder / "predictions.parquet").unlink()


def test_nothing_to_score(made: HostFolder, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "notes.txt").write_text("x")
    (tmp_path / "in" / "link.zip").symlink_to(made.truth)
    seen = scored(made, tmp_path / "in", tmp_path / "out")
    assert rejecting(seen.verdict) == ["MVC001"]
    assert seen.verdict.exit_code == 1
    assert seen.verdict.last_line.startswith("MVC REJECTED MVC001 unreadable-file: submission: no bundle")


def test_without_a_key_the_record_is_unsigned(made: HostFolder, tmp_path: Path) -> None:
    seen = scored(made, answer(small(), made, tmp_path / "bundle"), tmp_path / "out", key=None)
    data = (tmp_path / "out" / "record.json").read_bytes()
    with pytest.raises(SignatureError, match="unsigned"):
        opened(data, "record", str(made.task.host_key))
    assert seen.record is not None
    assert json.loads(base64.b64decode(json.loads(data)["payload"])) == seen.record.model_dump(mode="json")


def test_what_an_earlier_run_left_does_not_stay(made: HostFolder, tmp_path: Path) -> None:
    bundle = answer(small(), made, tmp_path / "bundle")
    scored(made, bundle, tmp_path / "out", host=tmp_path / "log")
    (bundle / "predictions.parquet").write_bytes(b"")
    scored(made, bundle, tmp_path / "out", host=tmp_path / "log")
    assert not (tmp_path / "out" / "scores.json").exists()
    assert [path.name for path in (tmp_path / "log").iterdir()] == ["host.log"]


def test_a_wrapping_folder_with_a_name_that_is_no_text(made: HostFolder, tmp_path: Path) -> None:
    (tmp_path / "in" / os.fsdecode(b"\xff\x1b[31m")).mkdir(parents=True)
    (tmp_path / "in" / os.fsdecode(b"\xff\x1b[31m") / "task.yaml").write_text("edition: [\n")
    seen = scored(made, tmp_path / "in", tmp_path / "out")
    assert seen.verdict.exit_code == 1
    assert seen.verdict.notes[0] == r"the folder \udcff\x1b[31m that wraps the bundle was taken off"
    assert json.loads((tmp_path / "out" / "verdict.json").read_text()) == seen.verdict.to_dict()


# The host's faults


def test_a_host_that_is_misconfigured_raises_and_writes_nothing(made: HostFolder, tmp_path: Path) -> None:
    bundle = answer(small(), made, tmp_path / "bundle")
    new_key(tmp_path / "other.key", tmp_path / "other.pub")
    made.truth.with_name("cut.parquet").write_bytes(made.truth.read_bytes()[:-9])
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"key": tmp_path / "other.key"}, "not the key of the task"),
        ({"key": tmp_path / "gone.key"}, "can't be read"),
        ({"host": tmp_path / "out" / "log"}, "which participants see"),
        ({"output": made.folder}, "truth.parquet lies in .*host.key lies in"),
        ({"output": bundle}, "--output is --input"),
        ({"host": made.key}, "can't be written"),
        ({"task": tmp_path / "gone.yaml"}, "no task file"),
    )
    for options, said in cases:
        with pytest.raises(HostError, match=said):
            scored(made, bundle, options.pop("output", tmp_path / "out"), **options)
        assert not (tmp_path / "out").exists()
    assert "verdict.json" not in {path.name for folder in (bundle, made.folder) for path in folder.iterdir()}
    with pytest.raises(HostError, match="the task names"):
        score_hosted(made.truth.with_name("cut.parquet"), bundle, tmp_path / "out", host=tmp_path / "log")
    assert "the task names" in (tmp_path / "log" / "host.log").read_text()


def test_a_truth_of_other_images(made: HostFolder, tmp_path: Path) -> None:
    truth = read_truth(made.truth, made.task)
    bundle = answer(small(), made, tmp_path / "bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scorer.hosted.read_truth", lambda *_: replace(truth, image_id=truth.image_id[1:]))
        with pytest.raises(HostError, match="1 test and external images of the split file are not in the truth"):
            scored(made, bundle, tmp_path / "out")


def test_a_failure_after_the_join_has_a_fixed_text(
    made: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A label that the scorer can't take (had the host's checks let it through) says nothing to participants."""
    truth = read_truth(made.truth, made.task)
    labels = truth.labels.copy()
    labels[0] = 7
    monkeypatch.setattr("scorer.hosted.read_truth", lambda *_: replace(truth, labels=labels))
    bundle = answer(small(), made, tmp_path / "bundle")
    seen = scored(made, bundle, tmp_path / "out", host=tmp_path / "log")
    assert (seen.verdict.exit_code, seen.verdict.last_line, seen.record) == (3, FAULT, None)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"verdict.json"}
    assert json.loads((tmp_path / "out" / "verdict.json").read_text())["last_line"] == FAULT
    assert "Traceback" in (tmp_path / "log" / "host.log").read_text()
    with decoding_here():
        done = CliRunner().invoke(app, arguments(made, bundle, tmp_path / "again"))
    assert done.exit_code == 3
    assert done.stdout.splitlines()[-1] == done.stderr.splitlines()[-1] == FAULT
    assert "Traceback" not in done.output


def test_the_blind_warehouse_never_has_a_label(made: HostFolder, tmp_path: Path) -> None:
    seen: list[Cohort] = []

    def spy(*arguments: Any) -> Cohort:
        seen.append(cohort_of(*arguments))
        return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scorer.content.cohort_of", spy)
        scored(made, answer(small(), made, tmp_path / "bundle"), tmp_path / "out")
    assert len(seen) == 2
    assert {int(label) for cohort in seen for label in np.unique(cohort.labels)} == {-1}


def test_misconfigured_is_one_line_on_the_command_line(made: HostFolder, tmp_path: Path) -> None:
    bundle = answer(small(), made, tmp_path / "bundle")
    line = arguments(made, bundle, tmp_path / "out")
    line[line.index(str(made.key))] = str(made.folder / "public" / "host.pub")
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 4
    told = "give --host DIR, and the reason is written to DIR/host.log"
    assert done.stderr.splitlines() == ["mvc score: reading the truth", f"{MISCONFIGURED}; {told}"]
    assert done.stdout == ""
    logged = CliRunner().invoke(app, [*line, "--host", str(tmp_path / "log")])
    assert logged.stderr.splitlines()[1] == f"{MISCONFIGURED}; the reason is in {tmp_path / 'log' / 'host.log'}"
    assert "this is the public key; give the private one" in (tmp_path / "log" / "host.log").read_text()
    inside = CliRunner().invoke(app, [*line, "--host", str(tmp_path / "out" / "log")])
    assert "--host must be a folder outside --output" in inside.stderr
    again = CliRunner().invoke(app, [*line, "--json"])
    assert json.loads(again.stdout)["exit_code"] == again.exit_code == 4


@pytest.mark.parametrize(("key", "declared"), [("host", "receipt dated 2026-02-01"), ("other", "self-declared")])
def test_a_rejection_keeps_the_receipt_that_was_verified(
    key: str, declared: str, made: HostFolder, tmp_path: Path
) -> None:
    draft = small()
    bundle = answer(draft, made, tmp_path / "bundle")
    lock = read_lock((bundle / "declaration.lock").read_bytes(), made.task)
    secret = load_key(made.key)
    if key == "other":
        new_key(tmp_path / "other.key", tmp_path / "other.pub")
        secret = load_key(tmp_path / "other.key")
    (bundle / "receipt.json").write_bytes(seal(receipt_of(made.task, lock), "receipt", secret))
    record = yaml.safe_load((bundle / "submission.yaml").read_text())
    record["release"]["licence"] = "no licence at all"
    (bundle / "submission.yaml").write_bytes(to_yaml(record))
    seen = scored(made, bundle, tmp_path / "out")
    assert seen.record is not None
    assert not seen.verdict.accepted
    assert seen.record.declared.startswith(declared)
    assert seen.record.filings == (2 if key == "host" else None)
