"""The world: whole or not at all, the same for a seed, split by patient, ready for a run."""

import csv
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml

from splits.hashing import read_salt
from splits.proving import read_record, verify
from submission.baseline.data import read_pool
from submission.baseline.errors import BaselineError
from submission.baseline.toy import images
from submission.baseline.toy.world import COLUMNS, World, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("made") / "world", patients=80, seed=3)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_world(world: World, tmp_path: Path) -> None:
    again = make_world(tmp_path / "again", patients=80, seed=3)
    assert files(again.folder) == files(world.folder)


def test_images_are_small_and_all_there(world: World) -> None:
    rows = list(csv.DictReader(world.metadata.read_text().splitlines()))
    assert tuple(rows[0]) == COLUMNS
    assert {row["image"] for row in rows} == {path.name for path in world.images.iterdir()}
    assert len(rows) == 160
    assert sum(map(len, files(world.images).values())) < 160 * 16_000


def test_the_split_is_by_patient_with_an_external_camera(world: World) -> None:
    splits = pl.read_parquet(world.splits)
    assert set(splits["split"]) == {"train", "val", "calib", "test", "external"}
    assert splits.group_by("patient_id").agg(pl.col("split").n_unique())["split"].max() == 1
    outside = splits.filter(pl.col("split") == "external")
    assert set(outside["site"]) == {images.EXTERNAL}
    assert images.EXTERNAL not in set(splits.filter(pl.col("split") != "external")["site"])
    assert {"age_group", "sex"} <= set(splits.columns)


def test_the_split_can_be_proved(world: World) -> None:
    public = world.splits.parent
    salt = public.parent / "private" / "salt"
    assert salt.stat().st_mode & 0o077 == 0
    assert len(read_salt(salt)) == 32
    record = read_record(public / "split.json")
    assert verify(world.splits, record, {"": [world.metadata]}, {}, salt).holds


def test_a_run_finds_every_image_and_nothing_is_left_to_fill_in(world: World) -> None:
    pool = read_pool(world.splits, world.images, task=world.task)
    assert pool.splits.height == 160
    assert pool.task.classes == images.GRADES
    texts = [path.read_text() for path in (world.task, world.splits.parent / "submission-splits.yaml")]
    assert all("EXAMPLE" not in text for text in texts)
    assert yaml.safe_load(texts[1])["shift"]["external"][0]["differs_in"] == ["device", "population"]


def test_it_says_what_it_is(world: World) -> None:
    assert images.NOTICE in (world.folder / "README.md").read_text()
    assert "NO MEDICAL FINDING" in yaml.safe_load(world.task.read_text())["target"]


@pytest.mark.parametrize("stage", ["images", "split"])
def test_a_stopped_world_leaves_nothing(tmp_path: Path, stage: str) -> None:
    def stop(name: str, done: int, total: int, note: str) -> None:
        if name == stage and done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make_world(tmp_path / "world", patients=60, progress=stop)
    assert list(tmp_path.iterdir()) == []


def filled(folder: Path) -> None:
    folder.mkdir()
    (folder / "mine").write_text("kept")


def linked(folder: Path) -> None:
    (folder.parent / "other").mkdir()
    folder.symlink_to("other")


@pytest.mark.parametrize(("take", "message"), [(filled, "not an empty folder; name a new"), (linked, "is a link")])
def test_a_taken_folder_is_refused(tmp_path: Path, take: Callable[[Path], None], message: str) -> None:
    take(tmp_path / "world")
    before = files(tmp_path)
    with pytest.raises(BaselineError, match=message):
        make_world(tmp_path / "world", patients=60)
    assert files(tmp_path) == before


@pytest.mark.parametrize(("patients", "seed", "message"), [(59, 1, "59 patients; wanted 60"), (60, -1, "seed -1")])
def test_too_few_patients_and_bad_seeds_are_refused(tmp_path: Path, patients: int, seed: int, message: str) -> None:
    with pytest.raises(BaselineError, match=message):
        make_world(tmp_path / "world", patients=patients, seed=seed)
