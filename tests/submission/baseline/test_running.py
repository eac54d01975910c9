"""Whole runs in a world of noise: every learner ends in an accepted bundle, kills and devices change nothing."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import safetensors.torch
import torch
import yaml

from protocol import EDITION
from protocol.canonical import sha256_hex
from scorer.check import check
from submission.baseline.changes import changed
from submission.baseline.config import RunConfig
from submission.baseline.errors import BaselineError
from submission.baseline.running import Inputs, Ran, devices_of, run
from submission.baseline.seeds import Event
from submission.baseline.toy import clip
from submission.writing import to_yaml
from tests.submission.baseline.world import CLASSES, LEARNERS, World, config, make_world

TASK = {
    "edition": EDITION,
    "name": "noise",
    "kind": "multiclass",
    "classes": list(CLASSES),
    "target": "how bright the noise is",
    "label_source": "the generator",
    "label_definition": "the mean of the pixels",
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def ran(world: World, out: Path, chosen: RunConfig, **settings: object) -> Ran:
    return run(chosen, Inputs(world.splits, world.images, out), threads=1, **settings)  # type: ignore[arg-type]


def numbers(out: Path) -> dict[str, bytes]:
    """The files that hold what a run found."""
    names = ("bundle/predictions.parquet", "bundle/calibrators.json", "seeds/1/prompts.safetensors")
    return {name: (out / name).read_bytes() for name in names}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_ends_in_a_bundle_that_is_accepted(world: World, tmp_path: Path, learner: str) -> None:
    events: list[Event] = []
    done = ran(world, tmp_path / "out", config(world, learner), report=events.append)
    bundle = tmp_path / "out" / "bundle"
    verdict = check(bundle)
    assert verdict.accepted, str(verdict)
    assert done.released.folder == bundle
    rows = pl.read_parquet(bundle / "predictions.parquet")
    seeds = [0] if learner == "zeroshot" else [1, 2]
    assert rows["seed"].unique().sort().to_list() == seeds
    assert set(rows["calibrator"]) == {"none", "temperature", "isotonic"}
    assert rows.height == len(seeds) * (12 + 3 * 12)
    logs = sorted(path.name for path in (bundle / "logs").iterdir()) if (bundle / "logs").exists() else []
    assert logs == ([] if learner == "zeroshot" else [f"{learner}-seed1.jsonl", f"{learner}-seed2.jsonl"])
    assert (done.trainable == 0) == (learner == "zeroshot")
    assert {event.stage for event in events} == {"images", "predictions"} | (
        set() if learner == "zeroshot" else {"views", "training"}
    )


def test_two_runs_give_the_same_bits_and_so_do_two_devices(world: World, tmp_path: Path) -> None:
    chosen = config(world, "maple")
    for name, devices in (("one", ("cpu",)), ("again", ("cpu",)), ("two", ("cpu", "cpu"))):
        ran(world, tmp_path / name, chosen, devices=devices)
    first = numbers(tmp_path / "one")
    assert numbers(tmp_path / "again") == first
    assert numbers(tmp_path / "two") == first


def test_the_views_are_shared_by_losses_and_learners(world: World, tmp_path: Path) -> None:
    views: list[Event] = []
    for learner in ("coop", "kgcoop"):
        inputs = Inputs(world.splits, world.images, tmp_path / learner, cache=tmp_path / "views")
        run(config(world, learner, loss={"name": "mcm"}), inputs, threads=1, report=views.append)
        made = [event for event in views if event.stage in ("views", "images") and event.done < event.total]
        assert bool(made) == (learner == "coop")
        views.clear()


PROGRAM = """
import sys
from pathlib import Path
from submission.baseline.configs import read_config
from submission.baseline.running import Inputs, run
splits, images, out, config = map(Path, sys.argv[1:])
run(read_config(str(config))[0], Inputs(splits, images, out), threads=1)
"""


def test_a_killed_run_goes_on_with_identical_results(world: World, tmp_path: Path) -> None:
    chosen = config(world, "promptsrc", training={"epochs": 10, "batch_size": 4, "learning_rate": 0.01})
    ran(world, tmp_path / "whole", chosen)
    (tmp_path / "config.yaml").write_bytes(to_yaml(chosen.model_dump(mode="json")))
    program = [sys.executable, "-c", PROGRAM, str(world.splits), str(world.images), str(tmp_path / "killed")]
    process = subprocess.Popen([*program, str(tmp_path / "config.yaml")])
    checkpoint = tmp_path / "killed" / "seeds" / "1" / "checkpoint.safetensors"
    until = time.monotonic() + 120
    while not checkpoint.exists() and time.monotonic() < until and process.poll() is None:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    ran(world, tmp_path / "killed", chosen)
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")


def test_an_interrupted_seed_is_not_trained_again(world: World, tmp_path: Path) -> None:
    chosen = config(world, "coop")

    def stop(event: Event) -> None:
        if event.seed == 2 and event.stage == "training":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(world, tmp_path, chosen, report=stop)
    again: list[Event] = []
    ran(world, tmp_path, chosen, report=again.append)
    assert [event.stage for event in again if event.seed == 1] == ["predictions"]


def test_a_folder_of_another_run_is_refused_until_forced(world: World, tmp_path: Path) -> None:
    ran(world, tmp_path, config(world, "coop"))
    other = config(world, "coop", shots=1)
    with pytest.raises(
        BaselineError, match=r"other inputs \(configuration: shots 2, now 1, draws\); name a new folder"
    ):
        ran(world, tmp_path, other)
    before = numbers(tmp_path)
    ran(world, tmp_path, other, force=True)
    assert numbers(tmp_path)["seeds/1/prompts.safetensors"] != before["seeds/1/prompts.safetensors"]


def test_other_words_about_a_run_need_no_training(world: World, tmp_path: Path) -> None:
    ran(world, tmp_path, config(world, "coop"))
    events: list[Event] = []
    changed = config(world, "coop", about={"team": "ours", "contact": "us@example.org"}, calibrators=("vector",))
    ran(world, tmp_path, changed, report=events.append)
    assert "training" not in {event.stage for event in events}
    record = yaml.safe_load((tmp_path / "bundle" / "submission.yaml").read_text())
    assert (record["team"], [method["name"] for method in record["calibration"]["methods"]]) == (
        "ours",
        ["none", "vector"],
    )


def test_foreign_files_in_the_folder_are_left_alone(world: World, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(BaselineError, match=r"something else, such as thesis\.tex; name a new folder"):
        ran(world, tmp_path, config(world, "coop"))
    assert [path.name for path in tmp_path.iterdir() if path.suffix] == ["thesis.tex"]


def test_two_runs_in_one_folder_at_once_are_refused(world: World, tmp_path: Path) -> None:
    def second(event: Event) -> None:
        if event.stage == "training":
            with pytest.raises(BaselineError, match="another run is at work in"):
                ran(world, tmp_path, config(world, "coop"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ran(world, tmp_path, config(world, "coop"), report=second)


def test_class_names_must_be_as_many_as_the_classes(world: World, tmp_path: Path) -> None:
    (tmp_path / "task.yaml").write_bytes(to_yaml(TASK))
    inputs = Inputs(world.splits, world.images, tmp_path / "out", task=tmp_path / "task.yaml")
    with pytest.raises(BaselineError, match=r"classes has 2 names and the task 3 classes \(none, mild, severe\)"):
        run(config(world, "coop", classes=("healthy", "ill")), inputs)


def test_a_hosted_task_without_test_labels_is_checked(tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", hosted=True)
    digests = {"splits_sha256": sha256_hex(world.splits.read_bytes()), "truth_sha256": "0" * 64}
    (tmp_path / "task.yaml").write_bytes(to_yaml({**TASK, **digests}))
    inputs = Inputs(world.splits, world.images, tmp_path / "out", task=tmp_path / "task.yaml")
    run(config(world, "coop"), inputs, threads=1)
    verdict = check(tmp_path / "out" / "bundle")
    assert verdict.accepted, str(verdict)


def test_the_two_classes_of_a_binary_task(tmp_path: Path) -> None:
    world = make_world(tmp_path / "world", classes=2)
    ran(world, tmp_path / "out", config(world, "coop", classes=("healthy", "ill")))
    bundle = tmp_path / "out" / "bundle"
    assert check(bundle).accepted
    rows = pl.read_parquet(bundle / "predictions.parquet").filter(pl.col("calibrator") == "none")
    assert [name for name in rows.columns if name[0] in "pz"] == ["p_1", "z_1"]
    assert np.allclose(rows["p_1"], 1 / (1 + np.exp(-rows["z_1"])), atol=1e-12)
    with pytest.raises(BaselineError, match="eccv-zs with 2 classes"):
        ran(world, tmp_path / "zs", config(world, "coop", classes=("healthy", "ill"), loss={"name": "eccv-zs"}))


def test_live_values_are_those_of_the_caller(world: World, tmp_path: Path) -> None:
    seen: list[Mapping[str, float]] = []
    ran(
        world, tmp_path, config(world, "coop"), measure=measured,
        report=lambda event: seen.append(event.values) if event.stage == "training" else None,
    )  # fmt: skip
    assert [values["val_rows"] for values in seen] == [2.0 * len(CLASSES)] * 6  # two shots of val, 3 epochs, 2 seeds
    log = (tmp_path / "seeds" / "1" / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in log] == [1, 2, 3]


def measured(p: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]", y: object) -> dict[str, float]:
    return {"rows": float(len(p))}


def test_devices_are_checked() -> None:
    assert devices_of("cpu,cpu") == ("cpu", "cpu")
    assert devices_of("auto") == ("cpu",)
    with pytest.raises(BaselineError, match="'gpu' is no device; use auto, cpu, cuda"):
        devices_of("gpu")
    with pytest.raises(BaselineError, match=r"cuda:0: torch .* sees 0 CUDA devices here"):
        devices_of("cuda:0")


def test_the_weights_of_the_world_are_those_on_disk(world: World) -> None:
    assert clip.read_config(world.weights).parameters > 0


@pytest.fixture(scope="module")
def done(world: World, tmp_path_factory: pytest.TempPathFactory) -> tuple[World, Path]:
    """A world of its own with a finished run, to be copied."""
    folder = tmp_path_factory.mktemp("done")
    own = make_world(folder / "world")
    (folder / "coop.yaml").write_bytes(to_yaml(config(own, "coop").model_dump(mode="json")))
    given = ("coop.yaml", (folder / "coop.yaml").read_bytes())
    run(config(own, "coop"), Inputs(own.splits, own.images, folder / "out", config_file=given), threads=1)
    return own, folder / "out"


def test_nothing_published_tells_of_the_disk(done: tuple[World, Path]) -> None:
    own, out = done
    for path in (out / "bundle").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert str(own.weights.parent).encode() not in data, path
    for name in ("coop.yaml", "coop-in-full.yaml"):
        said = yaml.safe_load((out / "bundle" / "configs" / name).read_text())
        assert said["backbone"]["weights"] == "clip"


def test_labels_of_test_change_no_prediction(done: tuple[World, Path], tmp_path: Path) -> None:
    own, out = done
    frame = pl.read_parquet(own.splits)
    other = pl.when(pl.col("split") == "test").then((pl.col("label") + 1) % 3).otherwise(pl.col("label"))
    frame.with_columns(label=other).write_parquet(tmp_path / "splits.parquet")
    run(config(own, "coop"), Inputs(tmp_path / "splits.parquet", own.images, tmp_path / "out"), threads=1)
    assert numbers(tmp_path / "out").keys() == numbers(out).keys()
    for name in ("bundle/predictions.parquet", "bundle/calibrators.json"):
        assert (tmp_path / "out" / name).read_bytes() == (out / name).read_bytes()


def test_other_images_threads_or_a_moved_model_are_told_apart(done: tuple[World, Path], tmp_path: Path) -> None:
    own, out = done
    shutil.copytree(own.splits.parent, tmp_path / "world")
    shutil.copytree(out, tmp_path / "out")
    moved = World(tmp_path / "world" / "splits.parquet", tmp_path / "world" / "images", tmp_path / "world" / "clip")
    inputs = Inputs(moved.splits, moved.images, tmp_path / "out")
    run(
        config(moved, "coop"),
        inputs,
        threads=1,
        report=lambda event: pytest.fail("trained") if event.total > 30 else None,
    )
    threads = torch.get_num_threads()
    try:
        with pytest.raises(BaselineError, match=r"inputs \(processor\).*it ran on 1 cpu thread \(.+\), this one on 2"):
            run(config(moved, "coop"), inputs, threads=2)
    finally:
        torch.set_num_threads(threads)
    shutil.copy(*sorted(moved.images.iterdir())[:2])
    with pytest.raises(BaselineError, match=r"other inputs \(images\)"):
        run(config(moved, "coop"), inputs, threads=1)


def test_an_image_to_train_on_that_is_damaged_is_said_first(world: World, tmp_path: Path) -> None:
    own = make_world(tmp_path / "world")
    train = pl.read_parquet(own.splits).filter(pl.col("split") == "train")["image_id"]
    for name in train:
        path = own.images / f"{name}.png"
        path.write_bytes(path.read_bytes()[:100])
    events: list[Event] = []
    with pytest.raises(BaselineError, match="can't be decoded as an image"):
        ran(own, tmp_path / "out", config(own, "coop"), report=events.append)
    assert {event.stage for event in events} == {"images"}
    for name in train:
        shutil.copy(world.images / f"{name}.png", own.images)
    ran(own, tmp_path / "out", config(own, "coop"))  # nothing was trained, so mended images are no other run


def test_what_would_be_refused_is_said_before_training(world: World, tmp_path: Path) -> None:
    def refuse(bundle: Path) -> None:
        assert check(bundle).accepted
        raise BaselineError("refused")

    with pytest.raises(BaselineError, match="refused"):
        ran(world, tmp_path, config(world, "coop"), judge=refuse, report=lambda event: pytest.fail("too late"))
    assert {path.name for path in tmp_path.iterdir()} == {".lock", "run.json", "views"}


def test_a_warm_up_without_end_is_told(world: World, tmp_path: Path) -> None:
    chosen = config(world, "coop", training={"epochs": 1, "batch_size": 4}, seeds=(1,))
    done = ran(world, tmp_path, chosen)
    assert "all 1 epochs are warm-up: the rate is training.warmup_rate (1e-05)" in "".join(done.notes)
    recipe = yaml.safe_load((tmp_path / "bundle" / "submission.yaml").read_text())["recipe"]
    assert recipe["learning_rate"] == 1e-5
    assert "cosine" not in recipe["optimiser"]


def test_an_average_beyond_the_last_epoch_is_told(world: World, tmp_path: Path) -> None:
    chosen = changed(config(world, "promptsrc", seeds=(1,)), ["learner.averaging=[45, 5]"])
    done = ran(world, tmp_path, chosen)
    assert "learner.averaging has its mean at epoch 45 of 3" in "".join(done.notes)
    recipe = yaml.safe_load((tmp_path / "bundle" / "submission.yaml").read_text())["recipe"]
    assert recipe["stopping_rule"] == "none: the prompts' Gaussian-weighted mean of 3 epochs"


def test_descriptions_that_a_learner_does_not_read_are_refused(world: World) -> None:
    about = tuple((f"{name} disease",) for name in CLASSES)
    assert config(world, "hicropl", descriptions=about).descriptions == about
    with pytest.raises(ValueError, match="descriptions: coop does not read them, hicropl does; take them out"):
        config(world, "coop", descriptions=about)


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (("_", "mild", "severe"), "class '_' holds no word that toy can read; write classes into the configuration"),
        (("mild grade", "mild_grade", "c"), "classes 'mild grade' and 'mild_grade' are the same text to toy"),
        (("&amp;", "&amp;amp;", "c"), "are the same text to toy"),
    ],
)
def test_classes_that_prompts_can_not_tell_apart(
    world: World, tmp_path: Path, classes: tuple[str, ...], said: str
) -> None:
    with pytest.raises(BaselineError, match=said):
        ran(world, tmp_path, config(world, "coop", classes=classes))


def test_cache_and_out_are_two_folders(world: World, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="--cache and --out are both"):
        run(config(world, "coop"), Inputs(world.splits, world.images, tmp_path, cache=tmp_path), threads=1)


def test_weights_in_a_home_that_there_is_not(world: World, tmp_path: Path) -> None:
    chosen = config(world, "coop", backbone={"name": "toy", "weights": "~nobody-of-this-name/clip"})
    with pytest.raises(BaselineError, match=r"home directory.*give a whole path"):
        ran(world, tmp_path, chosen)


def test_damaged_predictions_are_made_again(done: tuple[World, Path], tmp_path: Path) -> None:
    own, out = done
    shutil.copytree(out, tmp_path / "out")
    bare = safetensors.torch.save({"logits": torch.zeros(3)})
    for seed, data in ((1, bare), (2, b"")):
        (tmp_path / "out" / "seeds" / str(seed) / "predictions.safetensors").write_bytes(data)
    run(config(own, "coop"), Inputs(own.splits, own.images, tmp_path / "out"), threads=1)
    assert numbers(tmp_path / "out") == numbers(out)


def test_images_that_change_under_a_run_spoil_it(tmp_path: Path) -> None:
    own = make_world(tmp_path / "world")
    evaluated = pl.read_parquet(own.splits).filter(pl.col("split") == "test")["image_id"].sort()
    path, other = (own.images / f"{name}.png" for name in evaluated[:2])
    before = path.read_bytes()
    chosen = config(own, "coop", seeds=(1,))

    def change(event: Event) -> None:
        if event.stage == "training":
            path.write_bytes(other.read_bytes())

    with pytest.raises(BaselineError, match="changed while the run was at work"):
        ran(own, tmp_path / "out", chosen, report=change)
    path.write_bytes(before)
    with pytest.raises(BaselineError, match=r"other inputs \(images\)"):
        ran(own, tmp_path / "out", chosen)
    ran(own, tmp_path / "out", chosen, force=True)
    ran(own, tmp_path / "whole", chosen)
    assert numbers(tmp_path / "out") == numbers(tmp_path / "whole")
