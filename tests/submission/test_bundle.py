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


def test_a_folder_without_a_bundle_is_the_users_error(tmp_path: Path, scratch: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("x")
    with pytest.raises(NoBundleError, match="empty holds no bundle; mvc init makes one"):
        open_bundle(tmp_path / "empty", scratch)


def test_a_bare_folder_is_told_file_by_file(folder: Path, scratch: Path) -> None:
    for name in ("submission.yaml", "predictions.parquet"):
        (folder / name).unlink()
    bundle = open_bundle(folder, scratch)
    assert [(p.where, p.saw, p.wanted) for p in bundle.problems] == [
        ("submission.yaml", "absent", "the file submission.yaml"),
        ("predictions.parquet", "absent", "predictions.parquet or predictions.csv"),
    ]
    assert set(bundle.missing) == {"record", "predictions", "splits", "calibrators"}


@pytest.mark.parametrize("name", ["task.yaml", "submission.yaml", "declaration.lock", "calibrators.json"])
def test_a_record_is_no_bundle(written: Path, scratch: Path, name: str) -> None:
    with pytest.raises(NoBundleError, match="give the folder or the predictions file"):
        open_bundle(written / name, scratch)


@pytest.mark.parametrize("name", ["absent.yaml", "."])
def test_a_named_record_that_is_no_file_is_the_users_error(written: Path, scratch: Path, name: str) -> None:
    with pytest.raises(NoBundleError, match=r"no such file; the record is a file such as submission\.yaml"):
        open_bundle(written, scratch, written / name)


def test_csv_is_taken_where_there_is_no_parquet(folder: Path, scratch: Path) -> None:
    (folder / "predictions.parquet").rename(folder / "predictions.csv")
    bundle = open_bundle(folder, scratch)
    assert bundle.predictions == "predictions.csv"
    assert bundle.problems == ()


def test_of_two_predictions_none_is_chosen_silently(folder: Path, scratch: Path) -> None:
    shutil.copy(folder / "predictions.parquet", folder / "predictions.csv")
    bundle = open_bundle(folder, scratch)
    both = "both predictions.parquet and predictions.csv"
    assert [(p.offence, p.where, p.saw) for p in bundle.problems] == [("unreadable-file", "predictions", both)]
    assert "mvc check FOLDER/predictions.csv" in bundle.problems[0].wanted
    assert bundle.missing == {"predictions": f"{both} are there"}
    for name in ("predictions.parquet", "predictions.csv"):
        named = open_bundle(folder / name, scratch)
        assert (named.predictions, named.problems) == (name, ())


def test_a_split_file_of_the_other_format_is_named(folder: Path, scratch: Path) -> None:
    (folder / "splits.parquet").rename(folder / "splits.csv")
    bundle = open_bundle(folder, scratch)
    assert [(p.where, p.saw, p.wanted) for p in bundle.problems] == [
        (
            "splits.parquet",
            "absent, but splits.csv is there",
            "the file splits.parquet, or file: splits.csv in submission.yaml",
        )
    ]


@pytest.mark.parametrize(
    ("change", "claimed"),
    [
        (("", ""), "example-1"),
        (("title:", "titel:"), "example-1"),
        (("submission_id: ", "submission_id: a b "), ""),
        (("submission_id: ", "submission_id: 1\nid: "), ""),
        (("title:", "title: ["), ""),
    ],
)
def test_an_invalid_record_keeps_its_name(folder: Path, scratch: Path, change: tuple[str, str], claimed: str) -> None:
    text = (folder / "submission.yaml").read_text()
    assert change[0] in text
    (folder / "submission.yaml").write_text(text.replace(*change, 1))
    bundle = open_bundle(folder, scratch)
    assert (bundle.record is None) == bool(change[0])
    assert bundle.claimed_id == claimed


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
