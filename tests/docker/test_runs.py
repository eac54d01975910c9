"""The image, built and run for real: what it accepts and rejects, as whom, and what it leaves alone."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
import yaml

from scorer.hosted import MISCONFIGURED
from scorer.layouts.platforms import LAYOUTS
from tests.builders import copy_of, good_submission, write
from tests.docker import engine
from tests.docker.demo import Demo, hosted_demo, open_output, opened_to_all
from tests.docker.engine import DOCKER, SEALED, USER, Ran, need_engine, run
from tests.hosted import answer, publish, small, wrong_seed
from tests.museum.registry import all_exhibits
from tests.platforms import ACCEPTED, REJECTED

MOMENT = "1770000000"  # seconds; records are dated, and are to be the same
ENV = ("-e", f"SOURCE_DATE_EPOCH={MOMENT}")
# A sample of the museum: one of each sort of hostile file.
MUSEUM = (
    "bomb_of_rows", "bomb_of_a_word", "page_of_gigabytes", "rows_lie_throughout", "columns_10000", "not_utf8",
)  # fmt: skip
SHELL = """
for bundle in /bundles/*; do
  rm -f /output/*
  MVC_HOST=plain mvc-scorer score --truth /truth/truth.parquet --input "$bundle" --output /output >/dev/null 2>/tmp/err
  echo "$(basename "$bundle") $? $(tail -n 1 /tmp/err)"
done
"""


@pytest.fixture(scope="module", autouse=True)
def built() -> str:
    """The image, or the reason to skip."""
    need_engine()
    return engine.image()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """The demonstration as a hosted task."""
    return hosted_demo(tmp_path_factory.mktemp("demo") / "hosted")


def mounts(demo: Demo, output: Path, name: str = "plain") -> list[tuple[Path, str, str]]:
    """Bundle, labels and output where the platform ``name`` mounts them."""
    layout = next(layout for layout in LAYOUTS if layout.name == name)
    return [
        (demo.labels, f"/{layout.labels}", "ro"),
        (demo.bundle, f"/{layout.submission}", "ro"),
        (output, f"/{layout.output}", "rw"),
    ]


@pytest.fixture(scope="module")
def outside(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What ``mvc score`` makes of the demonstration outside a container."""
    output = tmp_path_factory.mktemp("outside")
    paths = ("--truth", demo.labels / "truth.parquet", "--input", demo.bundle, "--output", output)
    (demo.labels / "host.key").chmod(0o600)
    subprocess.run(
        [sys.executable, "-P", "-m", "mvc", "score", *map(str, paths), "--key", str(demo.labels / "host.key")],
        env={**os.environ, "SOURCE_DATE_EPOCH": MOMENT},
        check=True,
        capture_output=True,
    )
    (demo.labels / "host.key").chmod(0o644)
    return contents(output)


def contents(folder: Path) -> dict[str, bytes]:
    """Every file in ``folder``."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def accepted(done: Ran) -> None:
    """Exit 0, and the one line on both channels."""
    assert done.code == 0, done.stderr
    assert done.last == done.stdout.splitlines()[-1] == "MVC ACCEPTED wdbc-demo-1 with waivers MVC601"


@pytest.mark.parametrize("user", [USER, "34567:45678"])
def test_the_demonstration_is_accepted_with_the_same_bytes_as_outside(
    user: str, demo: Demo, outside: dict[str, bytes], tmp_path: Path
) -> None:
    """As the image's user, and as one that nobody knows and that has no home."""
    output = open_output(tmp_path / "out")
    home = () if user == USER else ("--env", "HOME=")
    done = run(mounts=mounts(demo, output), user=user, options=(*ENV, *home))
    accepted(done)
    assert contents(output) == outside
    assert {path.stat().st_uid for path in output.iterdir()} == {int(user.partition(":")[0])}
    assert {path.stat().st_mode & 0o777 for path in output.iterdir()} == {0o644}


def test_shuffled_rows_give_the_same_scores(demo: Demo, outside: dict[str, bytes], tmp_path: Path) -> None:
    bundle = copy_of(demo.bundle, tmp_path / "bundle")
    table = pl.read_parquet(bundle / "predictions.parquet").sample(fraction=1.0, shuffle=True, seed=7)
    table.write_parquet(bundle / "predictions.parquet", compression="lz4", row_group_size=97)
    opened_to_all(tmp_path)
    output = open_output(tmp_path / "out")
    accepted(run(mounts=mounts(Demo(bundle, demo.labels), output), options=ENV))
    assert (output / "scores.json").read_bytes() == outside["scores.json"]
    assert (output / "record.json").read_bytes() != outside["record.json"]  # another file has another digest


@pytest.mark.parametrize("name", [layout.name for layout in LAYOUTS if layout.name != "plain"])
def test_a_platform_finds_what_it_reads(name: str, demo: Demo, outside: dict[str, bytes], tmp_path: Path) -> None:
    output = open_output(tmp_path / "out")
    user, variant, flags = (None, "-root", ("--network", "none")) if name == "codabench" else (USER, "", SEALED)
    places = mounts(demo, output, name)
    if name == "medperf":  # mounts the file itself, in a folder where nobody may write
        results = tmp_path / "results.yaml"
        results.touch()
        results.chmod(0o666)
        places[-1] = (results, "/mlcommons/volumes/results/results.yaml", "rw")
    command = ("mvc-scorer", "score") if name == "codabench" else ()
    accepted(run(*command, mounts=places, user=user, variant=variant, flags=flags, options=ENV))
    plain = json.loads(outside["scores.json"])
    entry = next(row for row in plain["scores"] if all(row[key] == value for key, value in plain["entry"].items()))
    brier = entry["metrics"]["brier_binary"]
    if name == "medperf":
        found = yaml.safe_load((tmp_path / "results.yaml").read_text())
        assert found["aggregates"]["brier_binary"] == brier
        return
    assert set(contents(output)) == ACCEPTED[name]
    if name == "grand-challenge":
        assert json.loads(contents(output)["metrics.json"])["aggregates"]["brier_binary"] == brier
    elif name == "codabench":
        assert json.loads(contents(output)["scores.json"])["brier_binary_lo"] == brier["lo"]
    else:
        assert json.loads(contents(output)["result.json"])[0]["accuracies"]["brier_binary"] == brier["value"]


def test_what_breaks_the_rules_is_rejected(tmp_path: Path) -> None:
    """A wrong seed as Codabench's page, and a sample of the museum, each by its rule, all in one container."""
    draft = small()
    made = publish(draft, tmp_path / "host")
    labels = tmp_path / "labels"
    labels.mkdir()
    for file in (made.truth, made.folder / "public" / "task.yaml"):
        shutil.copyfile(file, labels / file.name)
    bundles = tmp_path / "bundles"
    exhibits = {name: all_exhibits()[name] for name in MUSEUM}
    for name, exhibit in exhibits.items():
        assert exhibit.make(answer(draft, made, bundles / name)) is None
    wrong = small()
    wrong_seed(wrong)
    answer(wrong, made, bundles / "wrong_seed")
    opened_to_all(tmp_path)
    output = open_output(tmp_path / "out")
    places = [(labels, "/truth", "ro"), (bundles, "/bundles", "ro"), (output, "/output", "rw")]
    done = run("sh", "-c", SHELL, mounts=places)
    said = {line.split()[0]: line.split(maxsplit=2)[1:] for line in done.stdout.splitlines()}
    assert set(said) == {*MUSEUM, "wrong_seed"}, done.stderr
    for name, (code, line) in said.items():
        wanted = ("MVC202",) if name == "wrong_seed" else exhibits[name].rules
        assert code == "1", (name, line)
        assert line.startswith("MVC REJECTED")
        assert any(rule in line for rule in wanted), (name, line)
    output = open_output(tmp_path / "page")
    places = [(labels, "/app/input/ref", "ro"), (bundles / "wrong_seed", "/app/input/res", "ro")]
    done = run(mounts=[*places, (output, "/app/output", "rw")])
    assert done.code == 1
    assert done.last.startswith("MVC REJECTED MVC202")
    assert set(contents(output)) == REJECTED["codabench"]


def test_memory_is_kept_to(tmp_path: Path) -> None:
    """A page that asks for gigabytes: the largest process of the container stays far below its limit of one."""
    bundle = write(good_submission(), tmp_path / "bundle")
    all_exhibits()["bomb_of_hidden_words"].make(bundle)
    opened_to_all(tmp_path)
    peak = "import resource as r, subprocess as s, sys; c = s.run(['mvc-scorer', 'check', '/input']).returncode; " \
        "print('peak', r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss >> 10); sys.exit(c)"  # fmt: skip
    flags = [flag.replace("4g", "1g") for flag in SEALED]
    done = run("python", "-c", peak, mounts=[(bundle, "/input", "ro")], flags=flags, options=("-e", "MVC_MEMORY=1g"))
    assert done.code == 1, done.stderr
    assert "MVC015" in done.stdout
    found = re.search(r"peak (\d+)", done.stdout)
    assert found is not None
    assert int(found[1]) < 768


def test_no_socket_is_opened(demo: Demo, tmp_path: Path) -> None:
    """The kernel kills whatever asks for one."""
    calls = ["socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendto", "sendmsg"]
    rule = {"names": calls, "action": "SCMP_ACT_KILL_PROCESS"}
    profile = tmp_path / "seccomp.json"
    profile.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}))
    locked = ("--security-opt", f"seccomp={profile}", "--env", "HOME=")
    proof = run("python", "-c", "import socket; socket.socket()", options=locked)
    assert proof.code == 159  # 128 and SIGSYS: the profile holds
    output = open_output(tmp_path / "out")
    accepted(run(mounts=mounts(demo, output), user="34567:45678", options=locked))


def test_nothing_is_written_but_the_results(demo: Demo, tmp_path: Path) -> None:
    """Even as user 0 on a disk that can be written; and nothing stays in /tmp."""
    output = open_output(tmp_path / "out")
    script = "touch /root/mark; sleep 0.01; mvc-scorer >/dev/null; echo code $?; " \
        "find / -xdev -newer /root/mark -not -path '/proc/*' -not -path '/sys/*' \\( -type f -o -type l \\); " \
        "echo left; ls -A /tmp"  # fmt: skip
    done = run("sh", "-c", script, mounts=mounts(demo, output), user=None, variant="-root", flags=("--network", "none"))
    assert done.stdout.splitlines() == ["code 0", "left"], done.stdout
    assert set(contents(output)) == ACCEPTED["plain"]


def test_doubts_and_faults_of_the_host(demo: Demo, tmp_path: Path) -> None:
    output = open_output(tmp_path / "out")
    done = run()
    assert done.code == 4
    assert done.last.startswith(f"{MISCONFIGURED}; no folder of labels is mounted: looked for /truth (plain)")
    both = [*mounts(demo, output), (demo.labels, "/app/input/ref", "ro")]
    done = run(mounts=both)
    assert done.code == 4
    assert "more than one place" in done.last
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o755)
    done = run(mounts=mounts(demo, closed), options=("-e", "MVC_HOST_LOG=stderr"))
    assert done.code == 4
    assert "can't be written as user 10001" in done.stderr
    assert not any(closed.iterdir())


def test_the_entrypoint_tells_commands_from_programs() -> None:
    version = run("--version")
    assert version.code == 0
    assert version.stdout.startswith("mvc ")
    assert "MVC101" in run("rules", "MVC101").stdout
    assert run("sh", "-c", "id -u; exit 7").code == 7
    assert "10001" in run("id", "-u").stdout
    assert run("mvc-scorer", "--version").stdout == version.stdout
    assert run("check", "/nowhere").code == 2
    assert run("").code == 4  # nothing is mounted
    unknown = run("nothing-there")
    assert unknown.code == 2
    assert "no command of mvc and no program" in unknown.last


def test_a_scorer_that_cannot_start_rejects_nobody(tmp_path: Path) -> None:
    """Python's own exit code would be 1."""
    (tmp_path / "mvc").mkdir()
    (tmp_path / "mvc" / "__init__.py").write_text("raise ImportError('a module is broken')")
    opened_to_all(tmp_path)
    done = run("score", mounts=[(tmp_path, "/broken", "ro")], options=("-e", "PYTHONPATH=/broken"))
    assert done.code == 3
    assert done.last.startswith("MVC UNDETERMINED")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("wait", [0.0, 0.3, 1.5])
def test_sigterm_ends_it_within_five_seconds(wait: float, demo: Demo, tmp_path: Path) -> None:
    """As process 1, and at any moment after the first line, which comes within a second of the start."""
    output = open_output(tmp_path / "out")
    script = "import signal, subprocess, sys, time; started = time.monotonic(); " \
        "p = subprocess.Popen(['mvc-scorer'], stderr=subprocess.PIPE); p.stderr.readline(); " \
        f"print('first', time.monotonic() - started); time.sleep({wait}); told = time.monotonic(); " \
        "p.send_signal(signal.SIGTERM); code = p.wait(60); print('ended', time.monotonic() - told, code)"  # fmt: skip
    done = run("python", "-c", script, mounts=mounts(demo, output))
    found = dict(line.split()[:2] for line in done.stdout.splitlines() if line.startswith(("first", "ended")))
    assert done.stdout.split()[-1] == "143", done.stdout
    assert float(found["first"]) < 1
    assert float(found["ended"]) < 5
    assert not any(output.iterdir())


def test_the_engine_can_stop_it(demo: Demo, tmp_path: Path) -> None:
    """As process 1 of its container, which gets no signal that it has not asked for."""
    places = [part for path, place, mode in mounts(demo, open_output(tmp_path / "out")) for part in
              ("-v", f"{path}:{place}:{mode}")]  # fmt: skip
    command = [DOCKER, "run", "--rm", *SEALED, "--user", USER, *places, engine.image()]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        assert process.stderr is not None
        while "layout plain" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)  # which the engine passes on
        started = time.monotonic()
        code = process.wait(60)
    assert code == 143
    assert time.monotonic() - started < 5
