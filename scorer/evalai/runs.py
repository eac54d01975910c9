"""One run of the scorer on one submission: the sealed container, or the kit itself without one."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from protocol.findings import plain

IMAGE_USER = 10001  # user and group of the image
SECRETS = ("AUTH_TOKEN", "MVC_HOST_KEY")  # of the environment; no scorer needs them
SOFT_STOP = 1.0  # seconds from SIGTERM to SIGKILL: the worker itself has three
STOP_LIMIT = 1.2  # seconds that the container engine has to kill
READY_LIMIT = 60.0  # seconds for other words with the container engine
HOST_LOG = "MVC_HOST_LOG"  # to standard error, which here is the host's alone
# As in the layout evalai of scorer/layouts/platforms.py
SUBMISSION, ANNOTATION, OUTPUT = "evalai/submission", "evalai/annotation", "evalai/output"


class NotStartedError(Exception):
    """The scorer could not be started: the machine's fault, whatever was submitted."""


@dataclass(frozen=True)
class Run:
    """The folders of one run: ``root`` has those of the layout for submission and output; ``host`` is for the host.

    ``name`` is the same for every run of this submission by this worker and no other's.
    """

    root: Path
    annotation: Path
    host: Path | None
    name: str

    @property
    def submission(self) -> Path:
        """Holds the one uploaded file."""
        return self.root / SUBMISSION

    @property
    def output(self) -> Path:
        """Takes result.json, record.json and verdict.json."""
        return self.root / OUTPUT


class Scorer(Protocol):
    """How the scorer is started and stopped."""

    def why_not(self) -> str:
        """'' where it can be started on this machine, else why not and the mend."""
        ...

    def started_by(self, run: Run) -> list[str]:
        """The command that scores ``run``; what it needs is made ready."""
        ...

    def stopped_by(self, run: Run, *, left: bool = False) -> list[str]:
        """A command that ends ``run`` where a signal may not reach it, or one ``left`` by a worker that was killed.

        Empty where signals do.
        """
        ...

    def never_ran(self, code: int) -> bool:
        """Whether exit code ``code`` says that the scorer did not run at all."""
        ...


@dataclass(frozen=True)
class Container:
    """The image ``image`` without network, as the caller or the image's own user where root calls."""

    image: str
    docker: str = "docker"

    def why_not(self) -> str:
        """Whether the engine answers and has the image: it is never pulled."""
        try:
            done = self._asked("image", "inspect", self.image)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{self.docker} can't be run ({_reason(error)}); install it, name it with --docker, or use --local"
        if done.returncode == 0:
            return ""
        said = plain(done.stderr.decode("utf-8", "replace").strip(), 300)
        return f"{self.docker} shows no image {plain(self.image, 100)} ({said}); build it, or name another with --image"

    def started_by(self, run: Run) -> list[str]:
        """``docker run`` with nothing but the labels, the file, and where to write."""
        user = ["--user", f"{os.getuid()}:{os.getgid()}"]
        if os.getuid() == 0:
            user = ["--user", f"{IMAGE_USER}:{IMAGE_USER}"]
            for path in (run.submission, *run.submission.iterdir(), run.output, *([run.host] if run.host else [])):
                os.chown(path, IMAGE_USER, IMAGE_USER)
        elif b"podman" in self._asked("--version").stdout:  # it numbers users anew, and the caller would not be one
            user += ["--userns", "keep-id"]
        mounts = [f"{run.submission}:/{SUBMISSION}:ro", f"{run.annotation}:/{ANNOTATION}:ro", f"{run.output}:/{OUTPUT}"]
        if run.host is not None:
            mounts.append(f"{run.host}:/host")
        sealed = (
            "--rm --pull never --network none --read-only --tmpfs /tmp:rw,noexec,nosuid,size=1g --cap-drop ALL "
            "--security-opt no-new-privileges --pids-limit 128 --memory 4g --memory-swap 4g --env MVC_HOST=evalai "
            f"--env {HOST_LOG}=stderr"
        )
        volumes = [word for mount in mounts for word in ("-v", mount)]
        return [self.docker, "run", *sealed.split(), "--name", run.name, *user, *volumes, self.image]

    def _asked(self, *words: str) -> "subprocess.CompletedProcess[bytes]":
        command = [self.docker, *words]
        return subprocess.run(command, capture_output=True, timeout=READY_LIMIT, check=False, env=_environment())

    def stopped_by(self, run: Run, *, left: bool = False) -> list[str]:
        """By name: the engine keeps a container running when its client is killed."""
        return [self.docker, "rm", "--force", run.name] if left else [self.docker, "kill", run.name]

    def never_ran(self, code: int) -> bool:
        """The engine's own codes: it failed, the program can't be run, or is not there."""
        return code in (125, 126, 127)


@dataclass(frozen=True)
class Local:
    """The kit of this interpreter, in no container: to try things out, or inside a machine that is sealed itself."""

    def why_not(self) -> str:
        """It is there."""
        return ""

    def started_by(self, run: Run) -> list[str]:
        """``mvc score`` below a root with the folders of the layout."""
        (run.root / ANNOTATION).symlink_to(run.annotation)
        if run.host is not None:
            (run.root / "host").symlink_to(run.host)
        return [sys.executable, "-P", "-m", "mvc", "score", "--layout", "evalai", "--root", str(run.root)]

    def stopped_by(self, run: Run, *, left: bool = False) -> list[str]:
        """Signals are enough."""
        return []

    def never_ran(self, code: int) -> bool:
        """No code of its own says so."""
        return False


def name_of(save: Path, submission: int) -> str:
    """The name of the container for ``submission`` of the worker that keeps its results in ``save``."""
    return f"mvc-evalai-{hashlib.sha256(os.fsencode(save.resolve())).hexdigest()[:8]}-{submission}"


def scored(scorer: Scorer, run: Run, log: Path, limit_s: float) -> int | None:
    """Run the scorer on ``run`` and return its exit code; None where it was stopped after ``limit_s`` seconds.

    What it prints on standard error goes to the new file ``log``, which nobody else can read. It has ended when this
    returns or raises, also by Ctrl-C or SIGTERM. Raises NotStartedError.
    """
    left = scorer.stopped_by(run, left=True)
    try:
        if left:
            subprocess.run(left, capture_output=True, timeout=READY_LIMIT, check=False, env=_environment())
        command = scorer.started_by(run)
        with open(log, "wb", opener=_private) as sink:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=sink,
                start_new_session=True,  # Ctrl-C in the terminal is the worker's to answer
                env=_environment(),
            )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotStartedError(f"the scorer can't be started ({_reason(error)})") from None
    try:
        code: int | None = process.wait(limit_s)
    except subprocess.TimeoutExpired:
        code = None
    finally:
        if process.poll() is None:
            _stop(process, scorer.stopped_by(run))
    if code is not None and scorer.never_ran(code):
        raise NotStartedError(f"the scorer did not start (exit {code}); the reason is in {log}")
    return code


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _stop(process: "subprocess.Popen[bytes]", command: list[str]) -> None:
    """End the scorer: asked first, then by force."""
    _signal(process, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SOFT_STOP)
    if command:  # whatever became of the client
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, capture_output=True, timeout=STOP_LIMIT, check=False, env=_environment())
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRETS} | {HOST_LOG: "stderr"}


def _reason(error: Exception) -> str:
    if isinstance(error, subprocess.TimeoutExpired):
        return f"no answer in {error.timeout:.0f} s"
    return plain(getattr(error, "strerror", None) or error, 200)
