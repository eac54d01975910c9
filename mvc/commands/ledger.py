"""`mvc ledger`: check, list, export and add to the append-only record of a task."""

import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mvc.commands.bundle import JsonOption, need_file
from mvc.commands.host import left_words, read_start, refusals, task_of

if TYPE_CHECKING:
    from rich.table import Table

    from scorer.ledger import Event

app = typer.Typer(name="ledger", help="Check, list, export and add to the append-only ledger.", no_args_is_help=True)

LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger file; without it $MVC_LEDGER, else mvc.duckdb here.")
]
WaitOption = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for another program.")]


@app.command()
def verify(
    ledger: LedgerOption = None,
    head: Annotated[str | None, typer.Option(help="Digest noted earlier that the chain must still hold.")] = None,
    task: Annotated[
        Path | None, typer.Option("--task", help="Verify receipts and records too, under the key of this task.yaml.")
    ] = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Recompute every digest of the chain. Exit 0: whole, 1: problems found, 2: no ledger, or busy.

    Example: mvc ledger verify --ledger mvc.duckdb
    """
    from scorer.ledger import Ledger, LedgerDamaged, NotALedger

    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        said = f"{_plain(head)} is no whole digest, 64 hex characters; mvc ledger list shortens digests"
        raise typer.BadParameter(f"{said}, mvc ledger verify and mvc ledger list --json don't", param_hint="--head")
    need_file(task, "--task")
    path = _there(ledger)
    count, last = 0, ""
    with refusals():
        hosted = None if task is None else task_of(task)
        try:
            with Ledger.open(path, read_only=True, wait_s=wait) as opened:
                problems = opened.verify(head=head)
                if hosted is not None:
                    from scorer.ledger_signed import signed_problems

                    problems = (*problems, *signed_problems(opened, hosted))
                count, last = opened.head()
        except NotALedger:
            raise
        except LedgerDamaged as error:
            problems = (str(error),)
    if as_json:
        _print_json(
            {"ledger": str(path), "whole": not problems, "events": count, "head": last, "problems": list(problems)}
        )
    else:
        for problem in problems:
            typer.echo(f"problem: {_plain(problem)}")
        typer.echo(f"ledger {'damaged' if problems else 'whole'}: {count} events, head {last or 'unknown'}")
    raise typer.Exit(1 if problems else 0)


@app.command("list")
def list_(
    ledger: LedgerOption = None,
    kind: Annotated[str | None, typer.Option(help="Only events of this kind, such as accepted.")] = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """List the events in order; --json adds their payloads.

    Example: mvc ledger list --kind accepted
    """
    from scorer.ledger import EventKind, Ledger

    if kind is not None and kind not in list(EventKind):
        raise typer.BadParameter(f"one of {', '.join(EventKind)}", param_hint="--kind")
    with _user_errors(), Ledger.open(_there(ledger), read_only=True, wait_s=wait) as opened:
        events = [event for event in opened.events() if kind in (None, event.kind)]
    if as_json:
        _print_json([vars(event) for event in events])
        return

    from mvc.show import console

    out = console()
    wide = _table(events, "seq", "time", "kind", "submission", "task", "digest")
    fits = out.measure(wide, options=out.options.update(max_width=10_000)).maximum <= out.width
    out.print(wide if fits else _table(events, "seq", "time", "kind", "submission, task", "digest"))


def _table(events: "list[Event]", *headings: str) -> "Table":
    """The events as a table with these columns; where one has two names, its cells have two lines."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in headings:
        table.add_column(heading, no_wrap="submission" not in heading and heading != "task", overflow="fold")
    for event in events:
        shown = {name: _plain(str(value)) for name, value in vars(event).items()} | {"digest": event.digest[:12]}
        table.add_row(*(Text("\n".join(shown[name] for name in heading.split(", "))) for heading in headings))
    return table


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="Folder for events.parquet and metrics.parquet.")],
    ledger: LedgerOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Write the ledger as two Parquet files that any engine reads.

    Example: mvc ledger export ledger-export
    """
    from scorer.ledger import Ledger

    with _user_errors(), Ledger.open(_there(ledger), read_only=True, wait_s=wait) as opened:
        written = [str(path) for path in opened.export(folder)]
    if as_json:
        _print_json({"written": written})
    else:
        for name in written:
            typer.echo(f"wrote {_plain(name)}")


@app.command()
def append(
    record: Annotated[
        Path,
        typer.Argument(
            metavar="RECORD",
            help="The signed record.json of a scored submission, or the metrics.json or results.yaml that has it.",
        ),
    ],
    task: Annotated[
        Path | None, typer.Option("--task", help="The host's task.yaml; without it task.yaml beside the record.")
    ] = None,
    ledger: LedgerOption = None,
    over_quota: Annotated[
        bool, typer.Option("--over-quota", help="Record it although the team has used its quota.")
    ] = False,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Add the signed record of a scored submission. Exit 1: it can't be believed, or is refused, by name.

    Example: mvc ledger append record.json --task public/task.yaml
    """
    from protocol.findings import counted
    from scorer.ledger import Ledger
    from scorer.ledger_records import append_record, believed, usage
    from scorer.signing import MAX_ENVELOPE
    from submission.bundle import TASK_FILE

    task_file, path = task or record.parent / TASK_FILE, _path(ledger)
    for file, hint in ((record, "RECORD"), (task_file, "--task")):
        need_file(file, hint)
    with refusals(record.name):
        hosted = task_of(task_file)
        signed = believed(read_start(record, MAX_ENVELOPE), hosted)
        with Ledger.open(path, wait_s=wait) as opened:
            event = append_record(signed, hosted, opened, over_quota=over_quota)
            (used,) = usage(hosted, opened.events(), signed.record.team)
    over = event.payload.get("over_quota", False)
    if as_json:
        place = {"ledger": str(path), "event": {"seq": event.seq, "digest": event.digest}, "kind": event.kind}
        _print_json({**place, "team": used.team, "scored": used.scored, "left": used.left, "over_quota": over})
        return
    typer.echo(f"recorded in {_plain(str(path))} as event {event.seq}: {_plain(event.submission)}, {event.kind}")
    scored = f"{counted(used.scored, 'content')} scored for {hosted.name}{left_words(used)}"
    typer.echo(f"team {_plain(used.team)}: {scored}")


def _path(ledger: Path | None) -> Path:
    from scorer.ledger import default_path

    return ledger if ledger is not None else default_path()


def _there(ledger: Path | None) -> Path:
    """The ledger to read, which must be there; it is named as it was typed."""
    path = _path(ledger)
    if not os.path.lexists(path):
        typer.echo(f"error: there is no ledger at {_plain(str(path))}", err=True)
        raise typer.Exit(2)
    return path


@contextmanager
def _user_errors() -> Iterator[None]:
    from scorer.ledger import LedgerError

    try:
        yield
    except LedgerError as error:
        typer.echo(f"error: {_plain(str(error))}", err=True)
        raise typer.Exit(2) from None


def _plain(text: str) -> str:
    # What a team wrote must not steer the reader's terminal: control and direction characters are shown escaped.
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2))
