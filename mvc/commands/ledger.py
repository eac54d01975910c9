"""`mvc ledger`: check, list and export the append-only record of a task."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from scorer.ledger import Event

app = typer.Typer(name="ledger", help="Check, list and export the append-only ledger.", no_args_is_help=True)

LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger file; without it $MVC_LEDGER, else mvc.duckdb here.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
WaitOption = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for another program.")]


@app.command()
def verify(
    ledger: LedgerOption = None,
    head: Annotated[str | None, typer.Option(help="Digest noted earlier that the chain must still hold.")] = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Recompute every digest of the chain. Exit 0: whole, 1: problems found, 2: no ledger, or busy.

    Example: mvc ledger verify --ledger mvc.duckdb
    """
    from scorer.ledger import Ledger, LedgerDamaged, NotALedger

    path = _path(ledger)
    count, last = 0, ""
    with _user_errors():
        try:
            with Ledger.open(path, read_only=True, wait_s=wait) as opened:
                problems = opened.verify(head=head)
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
    with _user_errors(), Ledger.open(_path(ledger), read_only=True, wait_s=wait) as opened:
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

    with _user_errors(), Ledger.open(_path(ledger), read_only=True, wait_s=wait) as opened:
        written = [str(path) for path in opened.export(folder)]
    if as_json:
        _print_json({"written": written})
    else:
        for name in written:
            typer.echo(f"wrote {_plain(name)}")


def _path(ledger: Path | None) -> Path:
    from scorer.ledger import default_path

    return ledger if ledger is not None else default_path()


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
