"""The ``mvc`` command: parses, calls one library function, prints. Heavy imports wait inside the commands."""

import importlib.metadata
import os
import signal
import sys
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer

from mvc.commands import bundle, demo, ledger, rules
from protocol import EDITION

app = typer.Typer(
    name="mvc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Submit, referee and audit the calibration of medical image classifiers: seven steps, one verdict.",
    epilog="Exit codes: 0 done or accepted, 1 rejected, 2 usage, 3 our fault, 4 host misconfigured, 130 interrupted.",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"mvc {importlib.metadata.version('mvc-kit')}, edition {EDITION}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and edition.")
    ] = False,
) -> None:
    """Submit, referee and audit the calibration of medical image classifiers: seven steps, one verdict."""


app.command("demo")(demo.demo)
app.command("init")(bundle.init)
app.command("declare")(bundle.declare)
app.command("check")(bundle.check)
app.command("submit")(bundle.submit)
app.command("rules")(rules.rules)
app.add_typer(ledger.app)


def main() -> NoReturn:
    """Run the command line and leave with the exit code that the user was promised."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app(prog_name="mvc")
    except SystemExit as end:
        if end.code == 130:
            typer.echo("interrupted; the ledger is whole, mvc ledger list shows what it holds", err=True)
        raise
    except Exception as error:
        sys.exit(_our_fault(error))
    sys.exit(0)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


def _our_fault(error: Exception) -> int:
    if os.environ.get("MVC_DEBUG"):
        traceback.print_exc()
    text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    typer.echo(f"error: this is our fault, please report it ({text}); MVC_DEBUG=1 shows the traceback", err=True)
    return 3
