"""A container engine for tests: builds the image once and runs it with the flags that hosts are told to use."""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCKER = os.environ.get("DOCKER", "docker")
REQUIRED = os.environ.get("MVC_IMAGE_TESTS") == "required"
SEALED = (
    "--network", "none", "--read-only", "--tmpfs", "/tmp:rw,noexec,nosuid,size=1g", "--cap-drop", "ALL",
    "--security-opt", "no-new-privileges", "--pids-limit", "128", "--memory", "4g", "--memory-swap", "4g",
)  # fmt: skip
USER = "10001:10001"
# What the image is made from: where one of these changes, it is built anew.
SOURCES = (
    "docker/scorer.Dockerfile", "docker/*.lock", "docker/*.py", "docker/mvc-scorer", ".dockerignore", "pyproject.toml",
    "README.md", "LICENSE", "submission/baseline/configs/*.yaml",
    *(f"{name}/**/*.py" for name in ("mvc", "protocol", "splits", "submission", "scorer")),
)  # fmt: skip


@dataclass(frozen=True)
class Ran:
    """What a container did."""

    code: int
    stdout: str
    stderr: str

    @property
    def last(self) -> str:
        """The last line of standard error, which is all that some platforms show."""
        return self.stderr.rstrip().splitlines()[-1] if self.stderr.strip() else ""


def docker(*arguments: str, check: bool = True, **options: Any) -> "subprocess.CompletedProcess[str]":
    """One command of the engine."""
    done = subprocess.run([DOCKER, *arguments], capture_output=True, text=True, check=False, **options)
    assert not check or done.returncode == 0, f"{' '.join(arguments)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done


@functools.cache
def absent() -> str:
    """Why there is no engine to test with; '' where there is one."""
    if shutil.which(DOCKER) is None:
        return f"no container engine: {DOCKER} is not on PATH"
    answer = subprocess.run([DOCKER, "images"], capture_output=True, text=True, check=False)
    said = (answer.stderr.strip().splitlines() or ["no answer"])[-1]
    return "" if answer.returncode == 0 else f"no container engine answers: {said}"


def need_engine() -> None:
    """Skip the test where there is no engine, or fail where one is required."""
    if absent():
        (pytest.fail if REQUIRED else pytest.skip)(absent())


@functools.cache
def image(variant: str = "") -> str:
    """The tag of the image made from the sources as they are; '-root' for the variant of user 0."""
    digest = hashlib.sha256()
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    tag = f"mvc-scorer-test:{digest.hexdigest()[:16]}"
    with Path(tempfile.gettempdir(), f"{tag.replace(':', '-')}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several workers want it at once
        if not _there(tag):
            build("-t", tag)
        if variant and not _there(f"{tag}{variant}"):
            root = ROOT / "docker" / "root.Dockerfile"
            docker("build", "-f", str(root), "--build-arg", f"IMAGE={tag}", "-t", f"{tag}{variant}", str(root.parent))
    return f"{tag}{variant}"


def _there(tag: str) -> bool:
    return bool(docker("images", "-q", tag).stdout.strip())


def build(*options: str, context: Path = ROOT) -> None:
    """Build the image from ``context``."""
    docker("build", "-f", str(context / "docker" / "scorer.Dockerfile"), *options, str(context))


def run(
    *command: str,
    mounts: Sequence[tuple[Path, str, str]] = (),
    user: str | None = USER,
    flags: Sequence[str] = SEALED,
    options: Sequence[str] = (),
    variant: str = "",
    tag: str | None = None,
) -> Ran:
    """Run a container of the image, or of another ``tag``: ``mounts`` are (path, place, ro or rw)."""
    arguments = ["run", "--rm", *flags, *options]
    arguments += [] if user is None else ["--user", user]
    for path, place, mode in mounts:
        arguments += ["-v", f"{path}:{place}:{mode}"]
    done = docker(*arguments, tag or image(variant), *command, check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def inspected(tag: str) -> dict[str, Any]:
    """What the engine knows of an image."""
    (found,) = json.loads(docker("inspect", tag).stdout)
    assert isinstance(found, dict)
    return found
