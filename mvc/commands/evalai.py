"""``mvc evalai-worker``: what it prints is the host's log; participants see what is reported to EvalAI."""

import contextlib
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NoReturn

import typer

TOKEN = "AUTH_TOKEN"


class Interrupted(SystemExit):
    """The end by Ctrl-C, of which the worker has told itself."""


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        _say("interrupted; what is queued or was being scored stays in the queue")
        raise Interrupted(130) from None


@_interruptible()
def evalai_worker(
    annotation: Annotated[
        Path, typer.Option("--annotation", help="Folder with truth.parquet, task.yaml and, to sign records, host.key.")
    ],
    queue: Annotated[str, typer.Option("--queue", envvar="QUEUE_NAME", help="The challenge's queue.")],
    challenge: Annotated[int, typer.Option("--challenge", envvar="CHALLENGE_PK", min=1, help="Its number on EvalAI.")],
    server: Annotated[str, typer.Option("--server", envvar="API_SERVER", help="EvalAI's address.")] = "https://eval.ai",
    save: Annotated[
        Path, typer.Option("--save", envvar="SAVE_DIR", help="Folder for records, verdicts and logs, by submission.")
    ] = Path("evalai-results"),
    host: Annotated[
        Path | None, typer.Option("--host", help="Folder for the host's eyes only: all numbers, evidence, log.")
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", help=f"File with the token of a host; without it ${TOKEN}.")
    ] = None,
    split: Annotated[
        str | None, typer.Option("--split", help="Code name of the split, where a phase has several.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", help="The scorer's image; without it mvc-scorer of this version.")
    ] = None,
    docker: Annotated[str, typer.Option("--docker", help="Program that runs containers.")] = "docker",
    local: Annotated[bool, typer.Option("--local", help="Score with this installation, in no container.")] = False,
    time_limit: Annotated[float, typer.Option("--time-limit", min=1.0, help="Seconds for one submission.")] = 3600.0,
    poll: Annotated[float, typer.Option("--poll", min=1.0, help="Seconds between looks at an empty queue.")] = 30.0,
    once: Annotated[bool, typer.Option("--once", help="Handle what is queued, then end.")] = False,
) -> None:
    """Score the submissions of an EvalAI challenge on this machine and report them. Exit 4: the host has to mend it.

    The token is read from $AUTH_TOKEN or a file and sent to EvalAI's server alone. Labels are mounted into the scorer's
    container, which has no network; this process has network and reads no label.

    Example: mvc evalai-worker --annotation annotation --queue my-queue-2389 --challenge 2389 --token-file token
    """
    from scorer.evalai.api import Server, SetupError
    from scorer.evalai.runs import Container, Local, NotStartedError
    from scorer.evalai.web import WebError
    from scorer.evalai.worker import TakenError, Worker

    for folder, hint in ((annotation, "--annotation"), (host, "--host"), (save, "--save")):
        _mountable(folder, hint)
    for name in ("truth.parquet", "task.yaml"):
        if not (annotation / name).is_file():
            raise typer.BadParameter(f"{annotation} has no {name}", param_hint="--annotation")
    try:
        known = Server(server, _token(token_file), queue, challenge)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=f"--server, --queue or ${TOKEN}") from None
    version = importlib.metadata.version("mvc-kit")
    scorer = Local() if local else Container(image or f"mvc-scorer:{version}", docker)
    named = "this installation" if isinstance(scorer, Local) else f"image {scorer.image}"
    _say(f"mvc {version}: challenge {challenge}, queue {queue} at {known.url}; {named}; results in {save}")
    if known.url.startswith("http:"):
        _say("note: the token goes to this server in clear text; https protects it")
    worker = Worker(known, scorer, annotation, save, host, split, time_limit, _say)
    try:
        if why := scorer.why_not():
            raise NotStartedError(why)
        done = worker.run(once=once, pause_s=poll)
    except TakenError as error:
        raise typer.BadParameter(str(error), param_hint="--save") from None
    except OSError as error:
        typer.echo(f"error: {error.filename or save} can't be written ({error.strerror})", err=True)
        raise typer.Exit(2) from None
    except (SetupError, NotStartedError, WebError) as error:
        _misconfigured(f"{error}; what is queued stays there")
    if not done:
        _misconfigured("some submissions could not be reported and stay in the queue; the lines above say why")


def _token(file: Path | None) -> str:
    if file is None:
        if TOKEN not in os.environ:
            raise typer.BadParameter(
                f"no token; set {TOKEN} to the token of your EvalAI profile, or give a file", param_hint="--token-file"
            )
        return os.environ[TOKEN].strip()
    try:
        with file.open("rb") as source:
            return source.read(8192).decode("ascii", "replace").strip()
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be read ({error.strerror})", param_hint="--token-file") from None


def _mountable(folder: Path | None, hint: str) -> None:
    """Usage error for a folder whose path a container engine would take apart."""
    if folder is not None and any(sign in str(folder.resolve()) for sign in ":\n"):
        raise typer.BadParameter("a colon or a line break in the path can't be mounted", param_hint=hint)


def _say(line: str) -> None:
    typer.echo(f"evalai-worker: {line}", err=True)


def _misconfigured(why: str) -> NoReturn:
    typer.echo(f"error: {why}", err=True)
    raise typer.Exit(4)
