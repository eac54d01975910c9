"""The draws of training images: those beside the split where they fit, else by patient."""

import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from submission.baseline.config import BackboneConfig, LearnerConfig, RunConfig
from submission.baseline.data import Pool, read_pool
from submission.baseline.draws import draw
from submission.baseline.errors import BaselineError
from tests.submission.baseline.hospital import Hospital, hospital


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return hospital(tmp_path_factory.mktemp("hospital"), shots=4, shot_seeds=(1, 2))


@pytest.fixture
def own(made: Hospital, tmp_path: Path) -> Hospital:
    """A copy to be changed."""
    shutil.copytree(made.folder, tmp_path / "own")
    return Hospital(tmp_path / "own", made.table)


def run_of(shots: int | None = 4, seeds: tuple[int, ...] = (1, 2), learner: Any = "coop") -> RunConfig:
    return RunConfig(
        model="m",
        backbone=BackboneConfig(name="toy"),
        learner=LearnerConfig(name=learner),
        shots=shots,
        seeds=seeds,
    )


def pool_of(own: Hospital) -> Pool:
    return read_pool(own.splits, own.images)


def columns(pool: Pool, name: str, ids: tuple[str, ...]) -> list[Any]:
    known = dict(pool.splits.select("image_id", name).iter_rows())
    return [known[image] for image in ids]


def test_the_draws_beside_the_split_are_used(made: Hospital) -> None:
    pool = pool_of(made)
    drawn = draw(pool, run_of())
    shots = pl.read_parquet(made.public / "few_shot.parquet")
    for seed in (1, 2):
        for split, found in (("train", drawn.train[seed]), ("val", drawn.val[seed])):
            kept = shots.filter((pl.col("seed") == seed) & (pl.col("split") == split))["image_id"].sort().to_list()
            assert list(found) == kept
    assert drawn.words == "4 images a class from train (those of few_shot.parquet beside the split file)"
    assert draw(pool, run_of(seeds=(2,))).train == {2: drawn.train[2]}


@pytest.mark.parametrize(("shots", "seeds"), [(2, (1, 2)), (4, (1, 2, 3))])
def test_other_shots_or_seeds_are_drawn_anew_by_patient(made: Hospital, shots: int, seeds: tuple[int, ...]) -> None:
    pool = pool_of(made)
    drawn = draw(pool, run_of(shots, seeds))
    assert "drawn for each seed anew; a patient gives a second image of a class only when" in drawn.words
    assert list(drawn.train) == list(seeds)
    for seed in seeds:
        ids = drawn.train[seed]
        assert list(ids) == sorted(set(ids))
        assert set(columns(pool, "split", ids)) == {"train"}
        assert sorted(columns(pool, "label", ids)) == [0] * shots + [1] * shots
        assert len(set(columns(pool, "patient_id", ids))) == 2 * shots
        assert set(columns(pool, "split", drawn.val[seed])) == {"val"}
    assert len(set(drawn.train.values())) == len(seeds)


def test_fewer_shots_are_among_more_of_the_same_seed(own: Hospital) -> None:
    (own.public / "few_shot.parquet").unlink()
    pool = pool_of(own)
    assert set(draw(pool, run_of(2)).train[1]) < set(draw(pool, run_of(5)).train[1])


def test_more_shots_than_images_take_all_and_say_so(made: Hospital) -> None:
    drawn = draw(pool_of(made), run_of(1000))
    assert drawn.notes[0].startswith("class healthy has ")
    everything = draw(pool_of(made), run_of(None))
    assert drawn.train[1] == everything.train[1] == everything.train[2]
    assert everything.words == f"all {len(everything.train[1])} labelled images of train"
    assert everything.notes == ()


def test_nothing_is_drawn_for_zero_shot(made: Hospital) -> None:
    drawn = draw(pool_of(made), run_of(learner="zeroshot"))
    assert (drawn.train, drawn.val) == ({}, {})


def test_every_class_needs_a_training_image(own: Hospital) -> None:
    frame = pl.read_parquet(own.splits)
    train = pl.col("split") == "train"
    frame.filter(~train | (pl.col("label") == 0)).write_parquet(own.splits)
    with pytest.raises(BaselineError, match="no image of class sick in train; make the split anew"):
        draw(pool_of(own), run_of())
    frame.filter(~train).write_parquet(own.splits)
    with pytest.raises(BaselineError, match="no labelled row of split train"):
        draw(pool_of(own), run_of())
    assert draw(pool_of(own), run_of(learner="zeroshot")).train == {}


def test_draws_of_another_split_or_damaged_ones_are_refused(own: Hospital) -> None:
    path = own.public / "few_shot.parquet"
    shots = pl.read_parquet(path)
    shots.with_columns(label=1 - pl.col("label")).write_parquet(path)
    with pytest.raises(BaselineError, match=r"are not in splits\.parquet with this split and label"):
        draw(pool_of(own), run_of())
    shots.drop("seed").write_parquet(path)
    with pytest.raises(BaselineError, match="or remove it"):
        draw(pool_of(own), run_of())
    path.write_bytes(b"PAR1")
    with pytest.raises(BaselineError, match="or remove it"):
        draw(pool_of(own), run_of())


def test_images_without_patients_are_drawn_as_their_own(own: Hospital) -> None:
    (own.public / "few_shot.parquet").unlink()
    frame = pl.read_parquet(own.splits)
    frame.with_columns(patient_id=pl.lit(None, pl.String)).write_parquet(own.splits)
    drawn = draw(pool_of(own), run_of())
    assert len(drawn.train[1]) == 8
    assert "patient" not in drawn.words
