"""Submitting: what is written, that it is the same whatever the order of rows, and that rejections leave nothing."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from protocol.canonical import sha256_hex
from protocol.findings import Status
from protocol.types import Kind
from scorer.check import check
from scorer.ledger import EventKind, Ledger, LedgerBusy
from scorer.results import read_metrics
from scorer.submit import SubmitError, submit
from submission.crate import verify_manifest
from tests.builders import Draft, good_submission, write

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


@pytest.fixture(autouse=True)
def few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits get 20 draws: what is tested here is the way of the files, not the numbers."""
    monkeypatch.setattr("scorer.scoring.COSTLY_DRAWS", 20)


def quick(kind: Kind = "binary") -> Draft:
    """A good submission with few resamples."""
    draft = good_submission(kind)
    draft.task["resamples"] = 1000
    return draft


@pytest.mark.parametrize("kind", KINDS)
def test_an_accepted_submission_is_scored_sealed_and_recorded(kind: Kind, tmp_path: Path) -> None:
    folder = write(quick(kind), tmp_path / "mine")
    outcome = submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.status is Status.ACCEPTED
    assert outcome.folder == folder
    assert verify_manifest(folder) == ()
    rows = read_metrics(folder / "results" / "metrics.parquet")
    assert {(r.model, r.seed, r.calibrator) for r in rows} == {
        ("densenet121", seed, c) for seed in ("1", "2", "3", "mean") for c in ("none", "temperature", "isotonic")
    }
    assert {(r.slice_kind, r.slice) for r in rows} == {
        ("test", "all"), ("external", "second hospital"), ("subgroup", "sex=female"), ("subgroup", "sex=male"),
    }  # fmt: skip
    assert {r.n_draws for r in rows} == {1000, 20}
    assert all(r.n_patients > 1 for r in rows)
    card = json.loads((folder / "results" / "scorecard.json").read_text())
    assert card["metrics_sha256"] == sha256_hex((folder / "results" / "metrics.parquet").read_bytes())
    assert card["runs"] == [["densenet121", c] for c in ("none", "temperature", "isotonic")]
    assert {s["n"] for s in card["seed_spread"]} == {3}
    assert json.loads((folder / "submission.json").read_text())["submission_id"] == "example-1"
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        assert ledger.verify() == ()
        (event,) = ledger.events()
        assert (event.kind, event.submission, event.task) == (EventKind.ACCEPTED, "example-1", f"example-{kind}")
        assert event.payload["outputs"]["results/metrics.parquet"] == card["metrics_sha256"]
        assert ledger.metrics().num_rows == len(rows)


def test_the_numbers_are_those_of_another_library(tmp_path: Path) -> None:
    draft = quick()
    folder = write(draft, tmp_path / "mine")
    submit(folder, ledger=tmp_path / "mvc.duckdb")
    test = draft.splits.filter(pl.col("split") == "test")
    joined = test.join(
        draft.predictions.filter((pl.col("seed") == 2) & (pl.col("calibrator") == "temperature")), on="image_id"
    )
    y, p = joined["label"].to_numpy(), joined["p_1"].to_numpy()
    found = {
        row.metric: row.value
        for row in read_metrics(folder / "results" / "metrics.parquet")
        if (row.seed, row.calibrator, row.slice, row.class_) == ("2", "temperature", "all", None)
    }
    assert found["brier_binary"] == pytest.approx(brier_score_loss(y, p), abs=1e-12)
    assert found["nll"] == pytest.approx(log_loss(y, p), abs=1e-12)
    assert found["auroc"] == pytest.approx(roc_auc_score(y, p), abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_byte_equal_for_shuffled_rows(kind: Kind, tmp_path: Path) -> None:
    straight = quick(kind)
    shuffled = quick(kind)
    shuffled.splits = shuffled.splits.sample(fraction=1.0, shuffle=True, seed=1)
    shuffled.predictions = shuffled.predictions.sample(fraction=1.0, shuffle=True, seed=2)
    written = []
    for name, draft in (("straight", straight), ("shuffled", shuffled)):
        folder = write(draft, tmp_path / name)
        assert submit(folder, ledger=tmp_path / f"{name}.duckdb").verdict.accepted
        written.append((folder / "results" / "metrics.parquet").read_bytes())
    assert written[0] == written[1]


def test_row_groups_and_codecs_do_not_matter(tmp_path: Path) -> None:
    written = []
    for name in ("usual", "gzip"):
        draft = quick("multiclass")
        folder = write(draft, tmp_path / name)
        if name == "gzip":
            draft.predictions.write_parquet(folder / "predictions.parquet", compression="gzip", row_group_size=37)
        submit(folder, ledger=tmp_path / "mvc.duckdb")
        written.append((folder / "results" / "metrics.parquet").read_bytes())
    assert written[0] == written[1]


def test_a_rejection_is_recorded_and_leaves_nothing_else(tmp_path: Path) -> None:
    draft = quick()
    draft.record["release"]["licence"] = None
    folder = write(draft, tmp_path / "mine")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    outcome = submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.status is Status.REJECTED
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        (event,) = ledger.events()
        assert event.kind is EventKind.REJECTED
        assert [finding["rule"] for finding in event.payload["findings"]] == ["MVC701"]


def test_submitting_twice_records_twice_and_seals_the_same(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    manifests = []
    for _ in range(2):
        assert submit(folder, ledger=tmp_path / "mvc.duckdb").verdict.accepted
        manifests.append((folder / "ro-crate-metadata.json").read_bytes())
    assert manifests[0] == manifests[1]
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        assert len(ledger.events()) == 2


def test_a_zip_is_sealed_beside_itself(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    archive = Path(shutil.make_archive(str(tmp_path / "bundle"), "zip", tmp_path, "mine"))
    shutil.rmtree(folder)
    outcome = submit(archive, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.accepted, outcome.verdict.last_line
    assert outcome.verdict.notes == ("the folder mine that wraps the bundle was taken off",)
    assert outcome.folder == tmp_path / "example-1-sealed"
    assert verify_manifest(outcome.folder) == ()


def test_a_record_from_elsewhere_is_sealed_with_copies(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    shutil.move(folder / "submission.yaml", tmp_path / "other.yaml")
    outcome = submit(folder / "predictions.parquet", record=tmp_path / "other.yaml", ledger=tmp_path / "l.duckdb")
    assert outcome.folder is not None
    assert (outcome.folder / "submission.yaml").read_bytes() == (tmp_path / "other.yaml").read_bytes()
    assert verify_manifest(outcome.folder) == ()


def test_predictions_of_another_name(tmp_path: Path) -> None:
    draft = quick()
    draft.record["release"]["predictions"] = {"file": "scores.csv"}
    draft.after.append(lambda folder: (folder / "predictions.parquet").unlink())
    draft.files["scores.csv"] = draft.predictions.write_csv(float_precision=4).encode()
    folder = write(draft, tmp_path / "mine")
    outcome = submit(folder / "scores.csv", ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.accepted, outcome.verdict.last_line
    assert verify_manifest(folder) == ()


def test_the_submitters_own_results_are_left_alone(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    (folder / "results").mkdir()
    (folder / "results" / "mine.csv").write_text("x")
    assert submit(folder, ledger=tmp_path / "mvc.duckdb").verdict.accepted
    assert (folder / "results" / "mine.csv").read_text() == "x"


@pytest.mark.parametrize("name", ["results/train.py", "submission.json", "ro-crate-metadata.json"])
def test_a_record_can_not_name_what_we_write(name: str, tmp_path: Path) -> None:
    draft = quick()
    draft.lock = False
    draft.record["release"]["code"] = {"file": name}
    draft.files[name] = b"code"
    verdict = submit(write(draft, tmp_path / "mine"), ledger=tmp_path / "mvc.duckdb").verdict
    assert [result.rule for result in verdict.rejecting] == ["MVC009"]
    assert (tmp_path / "mine" / name).read_bytes() == b"code"


def test_two_zips_do_not_share_a_folder(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    archive = Path(shutil.make_archive(str(tmp_path / "z" / "bundle"), "zip", folder))
    assert submit(archive, ledger=tmp_path / "mvc.duckdb").verdict.accepted
    with pytest.raises(SubmitError, match="exists and is not empty"):
        submit(archive, ledger=tmp_path / "mvc.duckdb")
    assert (
        submit(archive, ledger=tmp_path / "mvc.duckdb", out=tmp_path / "z" / "again").folder == tmp_path / "z" / "again"
    )


def test_a_busy_ledger_leaves_the_bundle_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write(quick(), tmp_path / "mine")
    before = sorted(folder.rglob("*"))

    def busy(*_: object, **__: object) -> None:
        raise LedgerBusy("held by another program")

    monkeypatch.setattr(Ledger, "append", busy)
    with pytest.raises(LedgerBusy):
        submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert sorted(folder.rglob("*")) == before


def test_intervals_are_the_editions_whatever_the_record_declares(tmp_path: Path) -> None:
    draft = quick()
    draft.record["uncertainty"] |= {"level": 0.6, "method": "basic"}
    usual, narrow = write(quick(), tmp_path / "usual"), write(draft, tmp_path / "narrow")
    rows = []
    for folder in (usual, narrow):
        assert submit(folder, ledger=tmp_path / "mvc.duckdb").verdict.accepted
        rows.append(read_metrics(folder / "results" / "metrics.parquet"))
    assert rows[0] == rows[1]


def test_an_output_that_can_not_be_made_is_said(tmp_path: Path) -> None:
    folder = write(quick(), tmp_path / "mine")
    (tmp_path / "file").touch()
    with pytest.raises(SubmitError, match="exists and is not empty"):
        submit(folder, ledger=tmp_path / "mvc.duckdb", out=tmp_path / "file")
    assert not (tmp_path / "mvc.duckdb").exists()


def test_unavailable_patients_give_intervals_by_image(tmp_path: Path) -> None:
    draft = quick()
    draft.record["splits"] |= {"patient_ids": "unavailable", "patient_ids_reason": "never recorded"}
    draft.record["waivers"] = [{"rule": "MVC109", "reason": "never recorded"}]
    draft.splits = draft.splits.drop("patient_id")
    folder = write(draft, tmp_path / "mine")
    outcome = submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.status is Status.ACCEPTED_WITH_WAIVERS, outcome.verdict.last_line
    card = json.loads((folder / "results" / "scorecard.json").read_text())
    assert card["intervals"]["unit"] == "image"
    assert {row.n_patients == row.n_images for row in read_metrics(folder / "results" / "metrics.parquet")} == {True}


def test_the_bootstrap_resamples_the_unit_of_the_task(tmp_path: Path) -> None:
    draft = quick()
    draft.task["clustering_unit"] = "image"
    draft.record["uncertainty"]["unit"] = "image"
    folder = write(draft, tmp_path / "mine")
    assert submit(folder, ledger=tmp_path / "mvc.duckdb").verdict.accepted
    card = json.loads((folder / "results" / "scorecard.json").read_text())
    assert card["intervals"]["unit"] == "image"
    assert {row.n_patients == row.n_images for row in read_metrics(folder / "results" / "metrics.parquet")} == {True}


def hosted(draft: Draft) -> Draft:
    """``draft`` as an answer to a hosted task."""
    draft.task["truth_sha256"] = "0" * 64
    hidden = pl.when(pl.col("split").is_in(["test", "external"])).then(None).otherwise(pl.col("label"))
    draft.splits = draft.splits.with_columns(label=hidden)
    return draft


def test_a_hosted_task_is_sealed_for_upload(tmp_path: Path) -> None:
    folder = write(hosted(quick()), tmp_path / "mine")
    before = {path.name for path in folder.iterdir()}
    outcome = submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.status is Status.ACCEPTED
    assert outcome.scores is None
    assert outcome.upload == tmp_path / "example-1.zip"
    assert {path.name for path in folder.iterdir()} == before | {"submission.json", "ro-crate-metadata.json"}
    assert verify_manifest(folder) == ()
    assert check(outcome.upload).accepted
    with zipfile.ZipFile(outcome.upload) as archive:
        assert set(archive.namelist()) == {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
    first = outcome.upload.read_bytes()
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        (event,) = ledger.events()
        assert event.kind is EventKind.SEALED
        assert event.payload["upload"] == {"sha256": sha256_hex(first), "bytes": len(first)}
        assert ledger.verify() == ()
    again = submit(tmp_path / "example-1.zip", ledger=tmp_path / "mvc.duckdb", out=tmp_path / "again")
    assert again.upload == tmp_path / "example-1-sealed.zip"
    assert again.upload.read_bytes() == (tmp_path / "example-1.zip").read_bytes() == first


def test_a_folder_in_the_place_of_the_upload_is_said_before_anything_is_recorded(tmp_path: Path) -> None:
    folder = write(hosted(quick()), tmp_path / "mine")
    (tmp_path / "example-1.zip").mkdir()
    with pytest.raises(SubmitError, match=r"nothing was recorded: .*example-1\.zip is a folder"):
        submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert not (tmp_path / "mvc.duckdb").exists()
    assert submit(folder, ledger=tmp_path / "mvc.duckdb", out=tmp_path / "new" / "mine").upload is not None


def test_a_bundle_that_no_host_would_unpack_is_not_sealed(tmp_path: Path) -> None:
    draft = hosted(quick())
    draft.files["code.zip"] = b"not looked into"
    draft.record["release"]["code"] = {"file": "code.zip"}
    folder = write(draft, tmp_path / "mine")
    before = {path.name for path in folder.iterdir()}
    with pytest.raises(SubmitError, match="an archive in the archive"):
        submit(folder, ledger=tmp_path / "mvc.duckdb")
    assert {path.name for path in folder.iterdir()} == before
    assert not (tmp_path / "example-1.zip").exists()


def _empty(folder: Path) -> None:
    (folder / "predictions.parquet").write_bytes(b"")


def _truncated(folder: Path) -> None:
    data = (folder / "predictions.parquet").read_bytes()
    (folder / "predictions.parquet").write_bytes(data[: len(data) // 2])


def _csv(folder: Path) -> None:
    (folder / "splits.parquet").write_text("image_id,patient_id\n1,2\n")


def _unknown_key(folder: Path) -> None:
    with (folder / "submission.yaml").open("a") as record:
        record.write("secret: 1\n")


def _no_record(folder: Path) -> None:
    (folder / "submission.yaml").unlink()


def _no_task(folder: Path) -> None:
    (folder / "task.yaml").write_text("a: &a [x]\nb: *a\n")


@pytest.mark.parametrize(
    ("breaks", "rule"),
    [
        (_empty, "MVC001"),
        (_truncated, "MVC001"),
        (_csv, "MVC001"),
        (_unknown_key, "MVC009"),
        (_no_record, "MVC001"),
        (_no_task, "MVC009"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_what_can_not_be_read_is_rejected_and_only_that_is_recorded(
    breaks: Callable[[Path], None], rule: str, tmp_path: Path
) -> None:
    folder = write(quick(), tmp_path / "mine")
    breaks(folder)
    before = sorted(folder.rglob("*"))
    with Ledger.open(tmp_path / "mvc.duckdb") as ledger:
        ledger.append("lock", submission="s", task="t", payload={})
    verdict = submit(folder, ledger=tmp_path / "mvc.duckdb").verdict
    assert (verdict.status, verdict.exit_code) == (Status.REJECTED, 1)
    assert rule in [result.rule for result in verdict.rejecting]
    assert sorted(folder.rglob("*")) == before
    with Ledger.open(tmp_path / "mvc.duckdb", read_only=True) as ledger:
        assert ledger.verify() == ()
        assert [event.kind.value for event in ledger.events()] == ["lock", "rejected"]
