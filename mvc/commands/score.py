"""The host's command ``score``: what it prints, on either channel, is for participants."""

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from mvc.commands.bundle import JsonOption, _loading, _spinner

if TYPE_CHECKING:
    from scorer.hosted import HostedScore


def score(
    truth: Annotated[Path | None, typer.Option("--truth", help="truth.parquet, the hidden labels.")] = None,
    entry: Annotated[
        Path | None, typer.Option("--input", help="Bundle: folder, zip, or folder that holds one of them.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Folder for what participants may see.")] = None,
    task: Annotated[
        Path | None,
        typer.Option("--task", help="task.yaml; default: beside the truth, else ../public/task.yaml from there."),
    ] = None,
    host: Annotated[
        Path | None, typer.Option("--host", help="Folder for the host's eyes only: all numbers, evidence, log.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option("--key", help="host.key, to sign record.json; without it the record is unsigned.")
    ] = None,
    layout: Annotated[
        str | None,
        typer.Option(
            "--layout",
            help="Without paths: the platform whose folders are mounted; default: MVC_HOST, else found out from them.",
        ),
    ] = None,
    root: Annotated[Path, typer.Option("--root", help="Where the platform's folders lie.", hidden=True)] = Path("/"),
    as_json: JsonOption = False,
) -> None:
    """Judge a submission without labels, then score it with the hidden ones. Exit 0: accepted, 1: rejected.

    Without paths, as in the container, the folders of the platform are used: plain (/truth, /input, /output),
    grand-challenge, codabench, evalai or medperf.

    Example: mvc score --truth private/truth.parquet --input team.zip --output out --host log --key private/host.key
    """
    typer.echo("mvc score: reading the truth", err=True)  # platforms show that something runs
    if truth is None and entry is None and output is None:
        if task is not None or host is not None or key is not None:
            raise typer.BadParameter("give --truth, --input and --output too", param_hint="--task, --host, --key")
        done, files = _of_a_platform(layout or os.environ.get("MVC_HOST") or None, root, as_json)
    elif layout is not None:
        raise typer.BadParameter("paths are given, so no platform's folders are used", param_hint="--layout")
    elif truth is None or entry is None or output is None:
        raise typer.BadParameter("give all three, or none of them", param_hint="--truth, --input, --output")
    else:
        done, files = _of_paths(truth, entry, output, task, host, key, as_json)
    if as_json:
        typer.echo(json.dumps(done.verdict.to_dict(), indent=2, ensure_ascii=False))
    else:
        from mvc.show import show_verdict

        show_verdict(done.verdict, f"written to {files}" if done.files else "")
    if not sys.stderr.isatty():
        from protocol.findings import plain

        # Where a platform shows one line of a failed run, it is this, cut at 1,024 characters.
        typer.echo(plain(done.verdict.last_line, 1000), err=True)
    raise typer.Exit(done.verdict.exit_code)


def _of_paths(
    truth: Path, entry: Path, output: Path, task: Path | None, host: Path | None, key: Path | None, as_json: bool
) -> "tuple[HostedScore, str]":
    for path, hint in ((truth, "--truth"), (entry, "--input"), (task, "--task"), (key, "--key")):
        if path is not None and not os.path.exists(path):
            raise typer.BadParameter(f"{path}: no such file{' or folder' if path is entry else ''}", param_hint=hint)
    with _loading():
        from scorer.host_task import HostError
        from scorer.hosted import score_hosted

    try:
        with _spinner("scoring") as progress:
            done = score_hosted(truth, entry, output, task=task, host=host, key=key, progress=progress)
    except HostError:
        _misconfigured(_where_the_reason_is(host, output), as_json)
    return done, f"{output}: {', '.join(path.name for path in done.files)}"


def _of_a_platform(layout: str | None, root: Path, as_json: bool) -> "tuple[HostedScore, str]":
    """Steps are printed as they come: a platform's log is no terminal, and silence looks like a hang."""
    with _loading():
        from scorer.host_task import HostError
        from scorer.layouts.running import LayoutError, detect, log_on_stderr, score_layout

    try:
        found = detect(root, layout)
        typer.echo(f"mvc score: layout {found.name}", err=True)
        done = score_layout(found, root, progress=lambda step: typer.echo(f"mvc score: {step}", err=True))
    except LayoutError as error:
        _misconfigured(str(error), as_json)
    except HostError:
        private = "the reason is in /host/host.log" if (root / "host").is_dir() else ""
        shown = private or ("the reason stands above" if log_on_stderr(found) else "")
        _misconfigured(shown or "mount a folder at /host for the log, or set MVC_HOST_LOG=stderr", as_json)
    return done, ", ".join(f"/{path.relative_to(root)}" for path in done.files)


def _misconfigured(why: str, as_json: bool) -> NoReturn:
    from scorer.hosted import MISCONFIGURED

    line = f"{MISCONFIGURED}; {why}"
    if as_json:
        typer.echo(json.dumps({"status": "host misconfigured", "exit_code": 4, "last_line": line}))
    typer.echo(line, err=True)
    raise typer.Exit(4)


def _where_the_reason_is(host: Path | None, output: Path) -> str:
    """Words for the host: what was wrong may tell of labels, where it is written does not."""
    from protocol.findings import plain
    from scorer.hosted_places import LOG_FILE

    if host is None:
        return f"give --host DIR, and the reason is written to DIR/{LOG_FILE}"
    log = host / LOG_FILE
    if host.resolve().is_relative_to(output.resolve()) or not (log.is_file() and os.access(log, os.W_OK)):
        return "--host must be a folder outside --output that can be written: the reason is logged there"
    return f"the reason is in {plain(log)}"
