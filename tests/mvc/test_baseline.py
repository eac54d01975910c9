"""``mvc baseline``: what it prints, writes and refuses."""

import errno
import json
import os
import re
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

pytest.importorskip("torch", reason="mvc baseline needs the extra baseline")

from mvc.cli import app
from mvc.commands import baseline
from mvc.commands.baseline_show import Bars, shown
from scorer.check import check
from submission.baseline.errors import BaselineError
from submission.baseline.seeds import Event
from submission.writing import to_yaml
from tests.submission.baseline.world import World, config, make_world


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


def mvc(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["baseline", *map(str, arguments)], env={"COLUMNS": "200"})


def inputs(world: World, out: Path) -> list[str | Path]:
    return ["--splits", world.splits, "--images", world.images, "--out", out, "--threads", "1"]


def written(folder: Path, world: World, learner: str) -> Path:
    path = folder / f"{learner}.yaml"
    path.write_bytes(to_yaml(config(world, learner).model_dump(mode="json")))
    return path


def test_run_writes_a_bundle_and_says_what_comes_next(world: World, tmp_path: Path) -> None:
    path = written(tmp_path, world, "coop")
    done = mvc("run", "--config", path, *inputs(world, tmp_path / "out"), "--set", "training.epochs=2")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[-2].startswith("coop: 64 trained values; bundle in ")
    assert lines[-1] == f"then: mvc submit {tmp_path / 'out' / 'bundle'}"
    assert re.search(r"seed 2: training: 2 of 2 loss \d\.\d+  val accuracy \d\.\d+  val nll \d", done.stderr)
    assert check(tmp_path / "out" / "bundle").accepted
    names = {file.name for file in (tmp_path / "out" / "bundle" / "configs").iterdir()}
    assert names == {"coop.yaml", "coop-in-full.yaml"}
    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"  # else a busy machine takes several times as long
    assert "epochs: 2" in (tmp_path / "out" / "bundle" / "configs" / "coop-in-full.yaml").read_text()


def test_zeroshot_as_json(world: World, tmp_path: Path) -> None:
    path = written(tmp_path, world, "zeroshot")
    done = mvc("zeroshot", "--config", path, *inputs(world, tmp_path / "out"), "--json")
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["model"], said["trainable"]) == ("zeroshot", 0)
    assert check(Path(said["bundle"])).accepted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--set", "training.epoch=2"], "--set training.epoch: there is no such key; there are optimiser, "),
        (["--set", "training.epochs=0"], "training.epochs: 0, wanted "),
        (["--set", "training.epochs"], "wanted KEY=VALUE, such as training.epochs=20"),
        (["--set", "seeds=[1, 1]"], "seeds: one is listed twice"),
        (["--set", "learner.depth=9"], "coop"),
        (["--set", "backbone.name=ViT-B-99"], "backbone.name: "),
        (["--weights", "nowhere"], "nowhere"),
        (["--device", "tpu-7"], "'tpu-7' is no device; use auto, cpu, cuda"),
    ],
)
def test_what_does_not_fit_is_said_in_a_line(world: World, tmp_path: Path, change: list[str], said: str) -> None:
    done = mvc("run", "--config", written(tmp_path, world, "coop"), *inputs(world, tmp_path / "out"), *change)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4
    assert "Traceback" not in done.output
    assert not (tmp_path / "out" / "bundle").exists()


def test_files_that_are_not_there(world: World, tmp_path: Path) -> None:
    path = written(tmp_path, world, "coop")
    for name in ("--splits", "--images", "--task", "--salt-file"):
        done = mvc("run", "--config", path, *inputs(world, tmp_path / "out"), name, tmp_path / "nothing")
        assert done.exit_code == 2
        assert "nothing: no such" in re.sub(r"\s+", " ", done.stderr)
    done = mvc("run", "--config", "coop-oficial", *inputs(world, tmp_path / "out"))
    assert done.exit_code == 2
    assert "coop-oficial: no such file, and no shipped configuration; there are coop-as-described, " in done.stderr


def test_the_right_command_for_a_learner(world: World, tmp_path: Path) -> None:
    wrong = (("run", "zeroshot"), ("zeroshot", "coop"))
    for command, learner in wrong:
        done = mvc(command, "--config", written(tmp_path, world, learner), *inputs(world, tmp_path / "out"))
        assert done.exit_code == 2
        assert f"its learner is {learner}; use mvc baseline {wrong[command == 'run'][0]}" in done.stderr


def test_configs_are_listed_and_printed() -> None:
    listed = mvc("configs").stdout
    assert "coop-as-described        lr 0.005   batch 8    200 epochs" in listed
    assert "zeroshot                 no training" in listed
    printed = mvc("configs", "maple-official").stdout
    assert "name: maple" in printed
    assert json.loads(mvc("configs", "maple-official", "--json").stdout)["learner"]["name"] == "maple"
    assert {fact["name"] for fact in json.loads(mvc("configs", "--json").stdout)} >= {"coop-official", "zeroshot"}
    assert mvc("configs", "nothing").exit_code == 2


def test_without_the_extra_the_mend_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(baseline, "EXTRA", ("a_module_that_is_not_there",))
    done = mvc("toy", tmp_path / "toy")
    assert done.exit_code == 2
    mend = "pip install 'mvc-kit[baseline]', or '.[baseline]' in a clone"
    assert done.stderr == f"error: a_module_that_is_not_there not installed; {mend}\n"


def test_tensorboard_is_optional(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baseline, "_installed", lambda name: name != "tensorboard")
    path = written(tmp_path, world, "coop")
    done = mvc("run", "--config", path, *inputs(world, tmp_path / "out"), "--tensorboard")
    assert done.exit_code == 2
    assert "pip install tensorboard" in done.stderr


class Told:
    """A console that keeps its lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def print(self, line: str, **how: object) -> None:
        self.lines.append(line)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr("mvc.commands.baseline_show.time.monotonic", lambda: now[0])
    return now


def test_without_a_terminal_there_is_a_line_from_time_to_time(seconds: list[float]) -> None:
    told = Told()
    bars = Bars(told, None)
    for done in range(5):
        seconds[0] += 4.0
        bars.report(Event(1, "training", done, 4, {"loss": 1.0 / (done + 1)}))
    assert told.lines == [
        "seed 1: training: 0 of 4 loss 1.000",
        "seed 1: training: 3 of 4 loss 0.250",
        "seed 1: training: 4 of 4 loss 0.200",
    ]


def test_what_is_live() -> None:
    assert shown({"epoch": 1.0, "loss": 0.5, "rate": 0.1, "val_nll": 0.7}) == "loss 0.500  val nll 0.700"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("about.licence=", "--set about.licence=: wanted KEY=VALUE"),
        ("training.epochs=1\nseeds: [1]", "wanted one value; give --set once for each"),
        ("training.epochs=\ud800", "--set training.epochs="),
        ("about.licence=''", "mvc submit would refuse the bundle of this run, so nothing was trained: MVC701 "),
    ],
)
def test_what_would_be_refused_in_the_end_is_said_first(world: World, tmp_path: Path, change: str, said: str) -> None:
    done = mvc("run", "--config", written(tmp_path, world, "coop"), *inputs(world, tmp_path / "out"), "--set", change)
    assert done.exit_code == 2, done.output
    assert said in done.stderr
    assert "training:" not in done.stderr
    assert not (tmp_path / "out" / "bundle").exists()


@pytest.mark.parametrize("option", ["--out", "--cache"])
def test_what_can_not_be_written_is_said_in_a_line(world: World, tmp_path: Path, option: str) -> None:
    path = written(tmp_path, world, "coop")
    done = mvc("run", "--config", path, *inputs(world, tmp_path / "out"), option, path / "below")
    assert done.exit_code == 2, done.output
    assert "error: " in done.stderr
    assert "Not a directory" in done.stderr


def test_a_full_disk_is_the_users_to_mend(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as end, baseline._faults():
        raise OSError(errno.ENOSPC, "No space left on device")
    assert end.value.exit_code == 2
    said = "error: a file of --out, --cache or TMPDIR can't be read or written (No space left on device); free space"
    assert capsys.readouterr().err.startswith(said)
    with pytest.raises(OSError, match="our own"), baseline._faults():
        raise OSError(errno.EINVAL, "our own")


def test_letters_that_steer_a_terminal_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), baseline._faults():
        raise BaselineError("\x1b[31m.png")
    assert capsys.readouterr().err == "error: \\x1b[31m.png\n"
