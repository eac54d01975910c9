"""The host's command ``score``: what it prints, on either channel, is for participants."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from mvc.commands.bundle import JsonOption, _loading, _spinner


def score(
    truth: Annotated[Path, typer.Option("--truth", help="truth.parquet, the hidden labels.")],
    entry: Annotated[Path, typer.Option("--input", help="Bundle: folder, zip, or folder that holds one of them.")],
    output: Annotated[Path, typer.Option("--output", help="Folder for what participants may see.")],
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
    as_json: JsonOption = False,
) -> None:
    """Judge a submission without labels, then score it with the hidden ones. Exit 0: accepted, 1: rejected.

    Example: mvc score --truth private/truth.parquet --input team.zip --output out --host log --key private/host.key
    """
    typer.echo("mvc score: reading the truth", err=True)  # platforms show that something runs
    for path, hint in ((truth, "--truth"), (entry, "--input"), (task, "--task"), (key, "--key")):
        if path is not None and not os.path.exists(path):
            raise typer.BadParameter(f"{path}: no such file{' or folder' if path is entry else ''}", param_hint=hint)
    with _loading():
        from mvc.show import show_verdict
        from scorer.host_task import HostError
        from scorer.hosted import MISCONFIGURED, score_hosted

    try:
        with _spinner("scoring") as progress:
            done = score_hosted(truth, entry, output, task=task, host=host, key=key, progress=progress)
    except HostError:
        line = f"{MISCONFIGURED}; {_where_the_reason_is(host, output)}"
        if as_json:
            typer.echo(json.dumps({"status": "host misconfigured", "exit_code": 4, "last_line": line}))
        typer.echo(line, err=True)
        raise typer.Exit(4) from None
    if as_json:
        typer.echo(json.dumps(done.verdict.to_dict(), indent=2, ensure_ascii=False))
    else:
        show_verdict(done.verdict, f"written to {output}: {', '.join(path.name for path in done.files)}")
    if not sys.stderr.isatty():
        typer.echo(done.verdict.last_line, err=True)  # where a platform shows one line of a failed run, it is this
    raise typer.Exit(done.verdict.exit_code)


def _where_the_reason_is(host: Path | None, output: Path) -> str:
    """Words for the host: what was wrong may tell of labels, where it is written does not."""
    from protocol.findings import plain
    from scorer.hosted import LOG_FILE

    if host is None:
        return f"give --host DIR, and the reason is written to DIR/{LOG_FILE}"
    log = host / LOG_FILE
    if host.resolve().is_relative_to(output.resolve()) or not (log.is_file() and os.access(log, os.W_OK)):
        return "--host must be a folder outside --output that can be written: the reason is logged there"
    return f"the reason is in {plain(log)}"
