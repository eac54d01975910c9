"""Bundles on disk: which file is what, and what is said of a file that can't be used."""

import os
import shutil
from pathlib import Path

import pytest

from protocol.canonical import sha256_hex
from submission.bundle import NoBundleError, open_bundle, referred, unreadable
from tests.builders import copy_of, good_submission, write
from tests.mutations.stage0 import zipped


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good bundle, not to be changed."""
    return write(good_submission(), tmp_path_factory.mktemp("written") / "bundle")


@pytest.fixture
def folder(written: Path, tmp_path: Path) -> Path:
    """A good bundle to be changed."""
    return copy_of(written, tmp_path / "bundle")


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    place = tmp_path / "scratch"
    place.mkdir()
    return place


def test_a_whole_bundle_is_read(written: Path, scratch: Path) -> None:
    bundle = open_bundle(written, scratch)
    assert bundle.problems == ()
    assert bundle.missing == {}
    assert bundle.task is not None
    assert bundle.record is not None
    assert bundle.lock is not None
    assert bundle.calibrators is not None
    assert bundle.predictions == "predictions.parquet"
    assert list(bundle.files) == [
        "calibrators.json",
        "configs/train.yaml",
        "declaration.lock",
        "predictions.parquet",
        "splits.parquet",
        "submission.yaml",
        "task.yaml",
    ]
    for name, digest in bundle.files.items():
        assert digest == sha256_hex((written / name).read_bytes())


def test_the_predictions_lead_to_the_rest(written: Path, scratch: Path) -> None:
    bundle = open_bundle(written / "predictions.parquet", scratch)
    assert bundle.problems == ()
    assert bundle.root == written
    assert bundle.record == open_bundle(written, scratch).record


def test_a_zip_is_the_same_bundle(folder: Path, scratch: Path) -> None:
    bundle = open_bundle(zipped()(folder), scratch)
    assert bundle.problems == ()
    assert bundle.archive == folder.with_name("bundle.zip")
    assert bundle.files == open_bundle(folder, scratch).files


def test_a_zip_that_is_none_leaves_everything_out(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "a.zip").write_bytes(b"no zip")
    bundle = open_bundle(tmp_path / "a.zip", scratch)
    assert [p.offence for p in bundle.problems] == ["unreadable-file"]
    assert (bundle.task, bundle.record, bundle.lock, bundle.calibrators) == (None, None, None, None)
    assert set(bundle.missing.values()) == {"a.zip could not be unpacked"}


def test_another_record_can_be_named(folder: Path, scratch: Path, tmp_path: Path) -> None:
    (folder / "submission.yaml").rename(tmp_path / "mine.yaml")
    bundle = open_bundle(folder, scratch, tmp_path / "mine.yaml")
    assert bundle.problems == ()
    assert bundle.record is not None


def test_nothing_there_is_the_users_error(tmp_path: Path, scratch: Path) -> None:
    with pytest.raises(NoBundleError, match="no such file or folder"):
        open_bundle(tmp_path / "absent", scratch)


def test_an_empty_folder_is_told_file_by_file(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "empty").mkdir()
    bundle = open_bundle(tmp_path / "empty", scratch)
    assert [(p.where, p.saw) for p in bundle.problems] == [
        ("task.yaml", "absent"),
        ("submission.yaml", "absent"),
        ("predictions.parquet", "absent"),
    ]
    assert set(bundle.missing) == {"task", "record", "predictions", "splits", "calibrators"}


def test_csv_is_taken_where_there_is_no_parquet(folder: Path, scratch: Path) -> None:
    shutil.copy(folder / "predictions.parquet", folder / "predictions.csv")
    bundle = open_bundle(folder, scratch)
    assert bundle.predictions == "predictions.parquet"
    assert bundle.notes == ("predictions.parquet is used and predictions.csv is not",)
    (folder / "predictions.parquet").unlink()
    assert open_bundle(folder, scratch).predictions == "predictions.csv"


@pytest.mark.parametrize(
    "name", ["task.yaml", "submission.yaml", "declaration.lock", "splits.parquet", "calibrators.json"]
)
def test_links_are_not_followed(folder: Path, scratch: Path, name: str) -> None:
    (folder / name).rename(folder.parent / "elsewhere")
    (folder / name).symlink_to(folder.parent / "elsewhere")
    bundle = open_bundle(folder, scratch)
    assert name not in bundle.files
    if name != "calibrators.json":  # without a file there are no entries, which MVC310 tells
        assert [(p.offence, p.where, p.saw) for p in bundle.problems] == [("unreadable-file", name, "a link")]


def test_a_folder_that_is_a_link_leads_nowhere(folder: Path, scratch: Path) -> None:
    (folder / "configs").rename(folder.parent / "configs")
    (folder / "configs").symlink_to(folder.parent / "configs")
    assert "configs/train.yaml" not in open_bundle(folder, scratch).files


def test_only_plain_files_are_readable(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "plain")
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert unreadable(tmp_path / "plain", tmp_path) == ""
    assert unreadable(tmp_path / "link", tmp_path) == "a link"
    assert unreadable(tmp_path / "folder", tmp_path) == "no plain file"
    assert unreadable(tmp_path / "pipe", tmp_path) == "no plain file"
    assert unreadable(tmp_path / "absent", tmp_path) == "absent"
    assert unreadable(tmp_path / "nul\x00", tmp_path) == "absent"
    assert unreadable(tmp_path / "plain", tmp_path / "folder") == "outside the bundle"


def test_a_pickle_is_not_even_opened(folder: Path, scratch: Path) -> None:
    (folder / "scores.npy").write_bytes(b"x")
    bundle = open_bundle(folder / "scores.npy", scratch)
    assert [(p.offence, p.where) for p in bundle.problems] == [("pickle-refused", "scores.npy")]
    assert "predictions" in bundle.missing


def test_a_lock_that_is_no_lock_is_missing_not_absent(folder: Path, scratch: Path) -> None:
    (folder / "declaration.lock").write_text("{}")
    bundle = open_bundle(folder, scratch)
    assert bundle.lock is None
    assert bundle.missing == {"lock": "declaration.lock is not valid"}
    (folder / "declaration.lock").unlink()
    bundle = open_bundle(folder, scratch)
    assert bundle.lock is None
    assert bundle.missing == {}


def test_files_that_the_record_names(written: Path, scratch: Path) -> None:
    record = open_bundle(written, scratch).record
    assert record is not None
    assert list(referred(record)) == ["configs/train.yaml", "splits.parquet", "predictions.parquet", "calibrators.json"]
