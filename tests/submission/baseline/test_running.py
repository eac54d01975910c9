"""Whole runs in a world of noise: every learner ends in an accepted bundle, kills and devices change nothing."""

import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from protocol import EDITION
from protocol.canonical import sha256_hex
from scorer.check import check
from submission.baseline.config import RunConfig
from submission.baseline.data import read_pool
from submission.baseline.draws import draw
from submission.baseline.errors import BaselineError
from submission.baseline.running import Inputs, Ran, devices_of, run
from submission.baseline.seeds import Event, Job, _work
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
    chosen = config(world, "promptsrc", training={"epochs": 40, "batch_size": 4, "learning_rate": 0.01})
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
        BaselineError, match=r"holds a run with other inputs \(configuration, draws\); name a new folder"
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
    with pytest.raises(BaselineError, match="holds files of something else; name a new folder"):
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


def test_a_fault_in_a_worker_is_told(world: World, tmp_path: Path) -> None:
    chosen = config(world, "coop", training={"epochs": 2, "batch_size": 4, "learning_rate": 1e38})
    pool = read_pool(world.splits, world.images, classes=CLASSES)
    draws = draw(pool, chosen)
    job = Job(chosen, pool, draws.train[1], (), 1, tmp_path / "1", tmp_path / "views", "", None, False, 1)
    waiting: queue.Queue[Job | None] = queue.Queue()
    said: queue.Queue[object] = queue.Queue()
    waiting.put(job)
    _work(waiting, said, "cpu", os.getppid())
    told = [said.get() for _ in range(said.qsize())]
    assert isinstance(told[-1], BaselineError)
    assert "training diverged" in str(told[-1])
    assert not isinstance(told[0], BaselineError)


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
    assert [json.loads(line)["epoch"] for line in log] == [0, 1, 2]


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
