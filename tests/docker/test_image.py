"""What is in the image and what is not: layers, packages, labels, size; and that a second build is the same."""

import json
import re
import shutil
import subprocess
import tarfile
import tomllib
from pathlib import Path
from typing import IO

import pytest
import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from mvc.cli import app
from tests.docker import engine
from tests.docker.demo import hosted_demo, open_output
from tests.docker.engine import ROOT, docker, image, inspected, need_engine, run

MEGABYTE = 10**6
LOCK = ROOT / "docker" / "requirements.lock"
LEFT_OUT = ROOT / "docker" / "left-out.txt"
# What a layer must never hold, by the path of a file.
FORBIDDEN = re.compile(
    r"(^|/)(\.git|\.env|\.ci|tests?|benchmarks|mvc-demo)(/|$)|"
    r"\.(key|pem|salt|parquet|duckdb|lock|zip|pt|pth)$|(^|/)(truth|labels?|splits)[^/]*\.(csv|npy|json|yaml)$|"
    r"(^|/)(torch|torchvision|open_clip|transformers|pip|matplotlib)(/|-[0-9])|(^|/)(gcc|cc|g\+\+|ld|as|strip)$"
)


@pytest.fixture(scope="module")
def built() -> str:
    """The image, or the reason to skip."""
    need_engine()
    return image()


def locked() -> dict[str, str]:
    """Version by distribution, as the lock has them."""
    lines = LOCK.read_text(encoding="utf-8").splitlines()
    pairs = [re.match(r"([A-Za-z0-9._-]+)==([^ ;\\]+)", line) for line in lines]
    return {canonicalize_name(found[1]): found[2] for found in pairs if found}


def left_out() -> set[str]:
    """Requirements of the kit that the image is without."""
    lines = [line.partition("#")[0].strip() for line in LEFT_OUT.read_text(encoding="utf-8").splitlines()]
    return {canonicalize_name(line) for line in lines if line}


def test_the_lock_answers_every_requirement_of_the_kit() -> None:
    """With versions that pyproject.toml takes, a digest for every file, and nothing that is left out."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    have = locked()
    for text in project["dependencies"]:
        wanted = Requirement(text)
        name = canonicalize_name(wanted.name)
        if name in left_out():
            assert name not in have
            continue
        assert wanted.specifier.contains(have[name]), f"{name} {have[name]}: run make lock"
    body = LOCK.read_text(encoding="utf-8")
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", body)) >= len(have)
    assert "://" not in re.sub(r"#.*", "", body)
    assert not {"torch", "torchvision", "transformers"} & set(have)


def test_the_entrypoint_knows_every_command() -> None:
    script = (ROOT / "docker" / "mvc-scorer").read_text(encoding="utf-8")
    (line,) = [line for line in script.splitlines() if line.startswith("-* |")]
    known = {word.strip() for word in line.partition(")")[0].split("|")} - {"-*"}
    assert known == set(typer.main.get_command(app).list_commands(None))  # type: ignore[attr-defined]


def test_labels_user_and_environment(built: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    config = inspected(built)["Config"]
    labels = {name.rpartition(".")[2]: text for name, text in config["Labels"].items() if "opencontainers" in name}
    assert labels["title"] == "mvc-scorer"
    assert labels["version"] == project["version"]
    assert labels["licenses"] == project["license"]
    assert config["User"] == "10001:10001"
    assert config["Entrypoint"] == ["mvc-scorer"]
    environment = dict(entry.split("=", 1) for entry in config["Env"])
    assert environment["PYTHONSAFEPATH"] == "1"
    assert not [name for name in environment if re.search("TOKEN|SECRET|KEY|SALT", name)]


def test_the_root_variant_has_the_same_layers(built: str) -> None:
    root = inspected(image("-root"))
    assert root["Config"]["User"] in ("0:0", "0", "root")
    layers = inspected(built)["RootFS"]["Layers"]
    assert root["RootFS"]["Layers"][: len(layers)] == layers
    assert _empty(root["RootFS"]["Layers"][len(layers) :])


def _empty(layers: list[str]) -> bool:
    """Whether these are layers without a file: some engines write one for a change of user."""
    nothing = {
        "sha256:5f70bf18a086007016e948b04aed3b82103a36bea41755b6cddfaf10ace3c6ef",  # a tar of 1,024 zero bytes
    }
    return set(layers) <= nothing


def test_no_layer_holds_a_label_a_secret_or_a_test(built: str, tmp_path: Path) -> None:
    """Every layer over the base, also files that a later layer would hide; and all stays below 700 MB."""
    base = set(inspected(_base())["RootFS"]["Layers"])
    docker("image", "save", "-o", str(tmp_path / "image.tar"), built)
    size, seen = 0, 0
    with tarfile.open(tmp_path / "image.tar") as saved:
        manifest = json.load(_member(saved, "manifest.json"))[0]
        config = json.load(_member(saved, manifest["Config"]))
        assert not re.search("(?i)token|secret|password", json.dumps(config["history"]))
        for name, diff in zip(manifest["Layers"], config["rootfs"]["diff_ids"], strict=True):
            if diff in base:
                continue
            with tarfile.open(fileobj=_member(saved, name)) as layer:
                for member in layer:
                    seen += member.isfile()
                    size += member.size
                    assert not FORBIDDEN.search(member.name), member.name
                    assert "/.wh." not in f"/{member.name}", f"{member.name} hides a file of another layer"
    assert seen > 1000
    assert size < 700 * MEGABYTE


def _member(archive: tarfile.TarFile, name: str) -> IO[bytes]:
    member = archive.getmember(name)
    if member.issym():  # an engine's way to say that a layer is there twice
        member = archive.getmember(str(Path(name).parent / member.linkname))
    found = archive.extractfile(member)
    assert found is not None
    return found


def _base() -> str:
    """The image that the Dockerfile starts from."""
    text = (ROOT / "docker" / "scorer.Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^ARG BASE=(\S+)", text, re.MULTILINE)
    assert found is not None
    return found[1]


def test_nothing_but_sources_enters_a_build(built: str, tmp_path: Path) -> None:
    """Labels, keys, salts and a history that lie about in a clone, also between the sources, stay outside."""
    context = tmp_path / "clone"
    context.mkdir()
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    if not tracked:
        pytest.skip("no git history here: which files belong to the project is not known")
    for name in tracked:
        if (ROOT / name).is_file():
            (context / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, context / name)
    for planted in (
        ".git/config", ".env", "truth.parquet", "host.key", "data.salt", "mvc.duckdb", "mvc-demo/bundle/splits.parquet",
        "private/truth.parquet", "scorer/truth.parquet", "scorer/host.key", "mvc/site.salt", "mvc/commands/labels.csv",
        "submission/.env", "protocol/labels.npy", "docker/host.key", "docker/truth.parquet", "splits/.git/HEAD",
        "docker/hosts/plain/host.key", "scorer/labels", "mvc/id_ed25519", "tests/canary.py",
    ):  # fmt: skip
        (context / planted).parent.mkdir(parents=True, exist_ok=True)
        (context / planted).write_text("canary")
    (context / "docker" / "scorer.Dockerfile").write_text(f"FROM {_base()}\nCOPY . /context\n")
    tag = f"{built}-context"
    engine.build("-t", tag, context=context)
    try:
        found = docker("run", "--rm", "--network", "none", tag, "grep", "-rl", "canary", "/context", check=False)
        assert found.stdout.split() == []
        count = docker("run", "--rm", "--network", "none", tag, "find", "/context", "-type", "f").stdout.split()
        assert "/context/scorer/hosted.py" in count
    finally:
        docker("rmi", "-f", tag, check=False)


def test_the_list_of_packages_is_the_lock(built: str) -> None:
    lines = run("cat", "/opt/mvc/packages.txt").stdout.split()
    pairs = [line.partition("==") for line in lines]
    found: dict[str, str] = {canonicalize_name(name): version for name, _, version in pairs}
    assert found.pop("mvc-kit")
    assert found == locked()


def test_no_compiler_and_no_torch(built: str) -> None:
    finder = "import importlib.util as u; print([n for n in ('torch', 'pip', 'tests', 'matplotlib') if u.find_spec(n)])"
    script = f'for name in gcc cc g++ ld as strip; do command -v $name; done; python -c "{finder}"'
    assert run("sh", "-c", script).stdout.split() == ["[]"]


def test_kernels_come_compiled(built: str) -> None:
    """Loading one logs that it came from the shipped cache, on a processor that is called by no name."""
    config = dict(entry.split("=", 1) for entry in inspected(built)["Config"]["Env"])
    assert config["NUMBA_CPU_NAME"] == "generic"


@pytest.mark.skipif(not engine.REQUIRED, reason="builds the whole image once more: make image-test does it")
def test_a_second_build_is_the_same(built: str, tmp_path: Path) -> None:
    """From the same sources, nothing taken from the first: the same packages, the same files, the same scores."""
    demo = hosted_demo(tmp_path / "demo")
    again = f"{built}-again"
    engine.build("-t", again, "--no-cache")
    try:
        seen = []
        for tag in (built, again):
            output = open_output(tmp_path / tag.replace(":", "-"))
            mounts = [(demo.labels, "/truth", "ro"), (demo.bundle, "/input", "ro"), (output, "/output", "rw")]
            done = run(mounts=mounts, options=("-e", "SOURCE_DATE_EPOCH=1770000000"), tag=tag)
            assert done.code == 0, done.stderr
            scores = {path.name: path.read_bytes() for path in output.iterdir()}
            digests = run("sh", "-c", "cd /opt/mvc && find . -type f -exec sha256sum {} +", tag=tag).stdout.splitlines()
            seen.append((run("cat", "/opt/mvc/packages.txt", tag=tag).stdout, scores, set(digests)))
        assert seen[0][:2] == seen[1][:2]
        differing = {line.split()[1] for line in seen[0][2] ^ seen[1][2]}
        assert differing == set()
    finally:
        docker("rmi", "-f", again, check=False)
