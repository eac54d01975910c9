"""The hosts' files: settings that name what the scorer writes, and scripts that survive odd paths.

What the platforms demand is noted from their sources: comic/grand-challenge.org (evaluation/models.py),
codalab/codabench (competitions/unpackers/v2.py, leaderboards/models.py), mlcommons/medperf (containers/parsers,
containers/runners).
"""

import io
import os
import re
import shlex
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from protocol.catalogue import catalogue, headline_metrics

ROOT = Path(__file__).resolve().parents[2]
HOSTS = ROOT / "docker" / "hosts"
FOLDERS = [HOSTS / name for name in ("plain", "grand-challenge", "codabench", "medperf")]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
METRICS = headline_metrics("binary")
SORTING = {"lower": "asc", "higher": "desc"}
COUNTS = ("images", "patients")
ODD = "a 'b' \"c\" $HOME *"

ENGINE = """#!/bin/sh
# Notes what it is called with, each argument closed by a NUL.
case $1 in
--version) echo "${FAKE_VERSION:-Docker version 27.0.0}"; exit ;;
image) echo "${FAKE_IMAGE:-amd64 10001:10001}"; exit ;;
esac
for argument; do
    printf '%s\\0' "$argument"
    case $argument in
    *:/input:ro) (cd "${argument%:/input:ro}" && ls) >"$FAKE_NOTES.input" ;;
    *:/opt/ml/input/data/ground_truth:ro) (cd "${argument%:/opt*}" && cat *) >"$FAKE_NOTES.truth" ;;
    *:/output:rw) [ -z "${FAKE_METRICS:-}" ] || echo '{}' >"${argument%:/output:rw}/metrics.json" ;;
    esac
done >"$FAKE_NOTES"
printf 'starting\\nMVC SAID IT\\n\\n' >&2
exit "${FAKE_CODE:-0}"
"""


class Engine:
    """A container engine that runs nothing."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self.program, self.notes = folder / "docker", folder / "notes"
        self.program.write_text(ENGINE)
        self.program.chmod(0o755)

    def call(self, script: str, *arguments: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {"DOCKER": str(self.program), "FAKE_NOTES": str(self.notes), "PYTHON": sys.executable}
        return called(script, *arguments, **{**own, **environment})

    @property
    def argv(self) -> list[str]:
        return self.notes.read_text().split("\0")[:-1]


def called(script: str, *arguments: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("IMAGE", "DOCKER")}
    return subprocess.run(
        [HOSTS / script, *arguments], env={**kept, **environment}, capture_output=True, text=True, timeout=60
    )


def read(name: str) -> Any:
    return yaml.safe_load((HOSTS / name).read_text())


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return Engine(tmp_path / ODD / "bin")


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    """A folder as mvc host init leaves it, with the task beside the labels; its files hold their names."""
    folder = tmp_path / ODD / "private"
    folder.mkdir(parents=True)
    for name in ("host.key", "task.yaml", "truth.parquet"):
        (folder / name).write_text(name)
        (folder / name).chmod(0o600)
    folder.chmod(0o700)
    return folder


@pytest.fixture
def upload(tmp_path: Path) -> Path:
    path = tmp_path / ODD / "team.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("task.yaml", "a")
        archive.writestr("configs/train.yaml", "b")
    return path


@pytest.mark.parametrize("script", sorted(p for f in FOLDERS for p in f.glob("*.sh")), ids=lambda path: path.name)
def test_a_script_can_be_called_and_parsed(script: Path) -> None:
    assert os.access(script, os.X_OK)
    assert script.read_text().startswith("#!/bin/sh\n")
    subprocess.run(["sh", "-n", script], check=True)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_image_named_is_of_this_version(folder: Path) -> None:
    text = "".join(path.read_text() for path in folder.iterdir() if path.is_file())
    assert set(re.findall(r"mvc-scorer:(\d[\w.]*\w)", text)) == {VERSION}


# --- plain


def hardened(user: str, *volumes: str, extra: tuple[str, ...] = ()) -> list[str]:
    flags = "run --rm --network none --read-only --tmpfs /tmp:rw,noexec,nosuid,size=1g --cap-drop ALL"
    more = "--security-opt no-new-privileges --pids-limit 128 --memory 4g --memory-swap 4g --user"
    mounted = [part for volume in volumes for part in ("--volume", volume)]
    return [*flags.split(), *more.split(), user, *mounted, *extra, f"mvc-scorer:{VERSION}"]


def test_score_hardens_the_run_and_keeps_odd_paths(engine: Engine, truth: Path, upload: Path, tmp_path: Path) -> None:
    output, host = tmp_path / ODD / "out", tmp_path / ODD / "for the host"
    done = engine.call("plain/score.sh", upload.parent / "bin", truth, output, host, FAKE_CODE="1")
    assert done.returncode == 1, done.stderr
    me = f"{os.getuid()}:{os.getgid()}"
    volumes = (f"{upload.parent / 'bin'}:/input:ro", f"{truth}:/truth:ro", f"{output}:/output:rw", f"{host}:/host:rw")
    assert engine.argv == hardened(me, *volumes)
    assert host.stat().st_mode & 0o777 == 0o700


def test_score_mounts_a_zip_as_a_file_and_no_folder_for_the_host(engine: Engine, truth: Path, upload: Path) -> None:
    output = upload.parent / "out"
    assert engine.call("plain/score.sh", upload, truth, output).returncode == 0
    volumes = (f"{upload}:/input/submission.zip:ro", f"{truth}:/truth:ro", f"{output}:/output:rw")
    assert engine.argv == hardened(f"{os.getuid()}:{os.getgid()}", *volumes)


def test_score_keeps_the_callers_number_under_podman_without_root(engine: Engine, truth: Path, upload: Path) -> None:
    other = engine.program.parent / "id"
    other.write_text("#!/bin/sh\necho 1234\n")
    other.chmod(0o755)
    output, path = upload.parent / "out", f"{other.parent}:{os.environ['PATH']}"
    said = engine.call("plain/score.sh", upload, truth, output, PATH=path, FAKE_VERSION="podman version 5.0.0")
    assert said.returncode == 0, said.stderr
    volumes = (f"{upload}:/input/submission.zip:ro", f"{truth}:/truth:ro", f"{output}:/output:rw")
    assert engine.argv == hardened("1234:1234", *volumes, extra=("--userns", "keep-id"))


@pytest.mark.parametrize(
    ("submission", "output", "host", "said"),
    [
        ("absent.zip", "out", "", "no such submission"),
        ("team.zip", "private/out", "", "OUTPUT lies in"),
        ("team.zip", ".", "", "lies in OUTPUT"),
        ("team.zip", "out", "out/log", "lies in OUTPUT"),
        ("team.zip", "out", "link/log", "lies in OUTPUT"),
        ("team.zip", "o:ut", "", "can't be mounted"),
        ("team.zip", "out\n", "", "can't be mounted"),
    ],
)
def test_score_refuses_before_anything_runs(
    engine: Engine, truth: Path, upload: Path, submission: str, output: str, host: str, said: str
) -> None:
    folder = upload.parent
    (folder / "out").mkdir()
    (folder / "link").symlink_to(folder / "out")
    more = [f"{folder}/{host}"] if host else []
    done = engine.call("plain/score.sh", f"{folder}/{submission}", truth, f"{folder}/{output}", *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert not engine.notes.exists()


def test_score_refuses_a_truth_without_its_task(engine: Engine, truth: Path, upload: Path) -> None:
    (truth / "task.yaml").unlink()
    done = engine.call("plain/score.sh", upload, truth, upload.parent / "out")
    assert (done.returncode, engine.notes.exists()) == (2, False)
    assert "no task.yaml" in done.stderr
    assert not (upload.parent / "out").exists()


# --- Grand Challenge


def test_the_phase_names_every_number_by_a_path_and_ranks_by_one() -> None:
    phase = read("grand-challenge/phase.yaml")
    ends = ("value", "lo", "hi")
    expected = {
        f"aggregates.{name}.{end}": SORTING[catalogue("binary")[name].better] for name in METRICS for end in ends
    }
    expected |= {f"n.{what}": "desc" for what in COUNTS}
    columns = phase["extra_results_columns"]
    paths = {column["path"]: column["order"] for column in columns}
    assert len(paths) == len(columns)
    assert {**paths, phase["score_jsonpath"]: phase["score_default_sort"]} == expected
    assert phase["score_jsonpath"] == f"aggregates.{METRICS[0]}.value"
    # additional properties are refused; a number that is null unranks, unless its column is excluded
    assert {tuple(sorted(column)) for column in columns} == {("exclude_from_ranking", "order", "path", "title")}
    assert all(column["exclude_from_ranking"] is True for column in columns)
    # what metrics.json has, reached as the platform does it: objects alone, keys without a dot
    document = {
        "aggregates": {name: dict.fromkeys(ends, 0.1) for name in METRICS},
        "n": dict.fromkeys(COUNTS, 9),
    }
    for path in expected:
        place: Any = document
        for key in path.split("."):
            place = place[key]
        assert isinstance(place, int | float)


def test_the_phase_has_values_that_its_form_takes() -> None:
    phase = read("grand-challenge/phase.yaml")
    assert 4 <= phase["evaluation_requires_memory_gb"] <= 32
    assert phase["scoring_method_choice"] in ("abs", "avg", "med")
    assert phase["result_display_choice"] in ("all", "rec", "bst")
    assert {phase["supplementary_file_choice"], phase["supplementary_url_choice"]} == {"off"}
    assert phase["submission_limit_period"] >= 1
    assert len(phase["score_title"]) <= 64
    assert phase["display_all_metrics"] is True


def test_the_ground_truth_can_be_read_by_any_user_there_and_by_no_other_here(truth: Path, tmp_path: Path) -> None:
    packed = truth.parent / "ground_truth.tar.gz"
    done = called("grand-challenge/make_ground_truth.sh", truth, packed)
    assert done.returncode == 0, done.stderr
    assert packed.stat().st_mode & 0o077 == 0
    with tarfile.open(packed, "r:gz") as archive:
        members = {member.name: member for member in archive}
        files = {name: archive.extractfile(member) for name, member in members.items()}
        read = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert sorted(members) == ["host.key", "task.yaml", "truth.parquet"]
    assert all(member.isreg() and member.mode == 0o644 for member in members.values())
    assert read == {name: name for name in members}


def test_the_ground_truth_holds_nothing_but_what_is_read(truth: Path) -> None:
    (truth / "host.key").unlink()
    (truth / "notes.txt").write_text("private")
    packed = truth.parent / "ground_truth.tar.gz"
    assert called("grand-challenge/make_ground_truth.sh", truth, packed).returncode == 0
    with tarfile.open(packed, "r:gz") as archive:
        assert sorted(archive.getnames()) == ["task.yaml", "truth.parquet"]


@pytest.mark.parametrize(
    ("name", "without", "said"), [("t.tgz", "", ".tar.gz"), ("t.tar.gz", "task.yaml", "no task.yaml")]
)
def test_a_ground_truth_that_would_not_work_is_not_packed(truth: Path, name: str, without: str, said: str) -> None:
    if without:
        (truth / without).unlink()
    done = called("grand-challenge/make_ground_truth.sh", truth, truth.parent / name)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (truth.parent / name).exists()


def packed(truth: Path) -> Path:
    path = truth.parent / "ground_truth.tar.gz"
    assert called("grand-challenge/make_ground_truth.sh", truth, path).returncode == 0
    return path


def test_a_trial_brings_what_the_platform_brings(engine: Engine, truth: Path, upload: Path) -> None:
    output = upload.parent / "out"
    done = engine.call("grand-challenge/test_run.sh", upload, packed(truth), output, FAKE_METRICS="1")
    assert done.returncode == 0, done.stderr
    assert engine.notes.with_name("notes.input").read_text().split() == ["configs", "inputs.json", "task.yaml"]
    assert engine.notes.with_name("notes.truth").read_text() == "host.keytask.yamltruth.parquet"
    argv = engine.argv
    assert argv[-1] == f"mvc-scorer:{VERSION}"
    assert argv[argv.index("--network") + 1] == "none"
    assert "noexec" in argv[argv.index("--tmpfs") + 1]
    assert "--user" not in argv  # the image's own user, who is not the caller
    assert output.stat().st_mode & 0o777 == 0o777
    gone = argv[argv.index("--volume") + 1].removesuffix("/input:/input:ro")
    assert not Path(gone).exists()  # labels were in it


def test_a_trial_of_a_csv_has_the_platforms_name_for_it(engine: Engine, truth: Path, upload: Path) -> None:
    csv = upload.with_suffix(".csv")
    csv.write_text("line,mvc_bundle_base64\n")
    call = engine.call("grand-challenge/test_run.sh", csv, packed(truth), upload.parent / "out", FAKE_METRICS="1")
    assert call.returncode == 0, call.stderr
    assert engine.notes.with_name("notes.input").read_text().split() == ["inputs.json", "predictions.csv"]


def test_a_trial_that_fails_shows_the_one_line_that_participants_see(engine: Engine, truth: Path, upload: Path) -> None:
    output = upload.parent / "out"
    output.mkdir()
    (output / "metrics.json").write_text("of an earlier run")
    done = engine.call("grand-challenge/test_run.sh", upload, packed(truth), output, FAKE_CODE="1")
    assert (done.returncode, done.stdout) == (1, "failed, exit code 1; participants see: MVC SAID IT\n")
    assert not (output / "metrics.json").exists()


@pytest.mark.parametrize(
    ("image", "name", "said"),
    [
        ("amd64 ", "team.zip", "runs as root"),
        ("amd64 0:0", "team.zip", "runs as root"),
        ("amd64 root:root", "team.zip", "runs as root"),
        ("arm64 10001:10001", "team.zip", "built for arm64"),
        ("amd64 10001:10001", "team.parquet", ".zip or a .csv"),
        ("amd64 10001:10001", "team.zip", "no metrics.json"),
    ],
)
def test_a_trial_refuses_what_the_platform_refuses(
    engine: Engine, truth: Path, upload: Path, image: str, name: str, said: str
) -> None:
    path = upload.rename(upload.with_name(name))
    output = upload.parent / "out"
    done = engine.call("grand-challenge/test_run.sh", path, packed(truth), output, FAKE_IMAGE=image)
    assert done.returncode == 2
    assert said in done.stderr


# --- Codabench


def flat_keys() -> list[str]:
    return [*(f"{name}{end}" for name in METRICS for end in ("", "_lo", "_hi")), *(f"n_{what}" for what in COUNTS)]


def test_the_leaderboard_mirrors_scores_json() -> None:
    (board,) = read("codabench/competition.yaml")["leaderboards"]
    columns = board["columns"]
    assert [column["key"] for column in columns] == flat_keys()
    assert [column["index"] for column in columns] == list(range(len(columns)))
    known = catalogue("binary")
    directions = [SORTING[known[name].better] for name in METRICS for _ in range(3)]
    assert [column["sorting"] for column in columns] == [*directions, "desc", "desc"]
    assert columns[0]["sorting"] == "asc"  # a missing number would come first in the other order
    assert all(len(column["title"]) <= 36 and len(column["key"]) <= 36 for column in columns)
    assert len({column["title"] for column in columns}) == len(columns)
    rules = ("Add", "Add_And_Delete", "Add_And_Delete_Multiple", "Force_Last", "Force_Latest_Multiple", "Force_Best")
    assert board["submission_rule"] in rules
    assert {"title", "key"} <= board.keys()


def test_the_bundle_has_every_file_that_the_competition_names(truth: Path) -> None:
    logo, folder = truth.parent / "logo.png", truth.parent / "competition"
    logo.write_bytes(b"\x89PNG")
    done = called("codabench/make_bundle.sh", truth, logo, folder, PYTHON=sys.executable)
    assert done.returncode == 0, done.stderr
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    with zipfile.ZipFile(folder / "competition.zip") as bundle:
        competition = yaml.safe_load(bundle.read("competition.yaml"))
        (task,) = competition["tasks"]
        named = [competition["image"], competition["terms"], *(page["file"] for page in competition["pages"])]
        named += [task["scoring_program"], task["reference_data"]]
        assert sorted(bundle.namelist()) == sorted(["competition.yaml", *named])
        assert all(bundle.read(name) for name in named)
        inner = {name: zipfile.ZipFile(io.BytesIO(bundle.read(name))) for name in named if name.endswith(".zip")}
    reference, program = inner[task["reference_data"]], inner[task["scoring_program"]]
    assert {name: reference.read(name).decode() for name in reference.namelist()} == {
        name: name for name in ("host.key", "task.yaml", "truth.parquet")
    }
    assert program.namelist() == ["metadata.yaml"]
    # split as the platform's client library does it, and appended to the entrypoint
    assert shlex.split(yaml.safe_load(program.read("metadata.yaml"))["command"]) == ["mvc-scorer", "score"]


def test_the_competition_has_what_the_platform_demands() -> None:
    competition = read("codabench/competition.yaml")
    assert competition["version"] == 2
    assert competition["docker_image"].endswith(
        f"/mvc-scorer:{VERSION}-root"
    )  # only root can write to its output folder
    assert competition["enable_detailed_results"] is True
    (phase,) = competition["phases"]
    assert phase["tasks"] == [task["index"] for task in competition["tasks"]]
    assert phase["execution_time_limit"] <= 600
    assert phase["hide_output"] is False  # the log says what was wrong
    assert isinstance(phase["start"], str)  # a bare time is cut to its day
    assert datetime.fromisoformat(phase["start"]).hour


# --- MedPerf


def test_the_container_has_what_medperf_demands() -> None:
    config = read("medperf/container_config.yaml")
    assert config["container_type"] == "DockerImage"
    assert config["image"].endswith(f"/mvc-scorer:{VERSION}")
    task = config["tasks"]["evaluate"]
    inputs, outputs = task["input_volumes"], task["output_volumes"]
    # a volume of another name has nothing to be mounted; parameters_file exists only if parameters were submitted
    assert {name: volume["mount_path"] for name, volume in inputs.items()} == {
        "predictions": "/mlcommons/volumes/predictions",
        "labels": "/mlcommons/volumes/labels",
    }
    assert {name: (volume["mount_path"], volume["type"]) for name, volume in outputs.items()} == {
        "output_path": ("/mlcommons/volumes/results/results.yaml", "file"),
        "local_outputs_path": ("/host", "directory"),
    }
    assert {volume["type"] for volume in inputs.values()} == {"directory"}
    assert task["run_args"].keys() <= {"shm_size", "gpus", "command", "entrypoint", "environment"}


@pytest.mark.parametrize(("code", "read_by_medperf"), [(0, True), (1, True), (3, False), (4, False), (143, False)])
def test_a_rejection_is_a_result_and_a_failure_is_none(tmp_path: Path, code: int, read_by_medperf: bool) -> None:
    scorer = tmp_path / "mvc-scorer"
    scorer.write_text(f'#!/bin/sh\n[ "$*" = score ] || exit 9\nexit {code}\n')
    scorer.chmod(0o755)
    command = read("medperf/container_config.yaml")["tasks"]["evaluate"]["run_args"]["command"]
    path = f"{tmp_path}:{os.environ['PATH']}"
    assert (subprocess.run(command, env={"PATH": path}).returncode == 0) is read_by_medperf
