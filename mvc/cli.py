"""The ``mvc`` command: parses, calls one library function, prints. Heavy imports wait inside the commands."""

import os
import signal
import sys
import traceback
from types import FrameType
from typing import NoReturn

import click
import typer

from mvc.commands import bundle, demo, ledger, rules

app = typer.Typer(
    name="mvc",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Submit, referee and audit the calibration of medical image classifiers: seven steps, one verdict.",
    epilog="Exit codes: 0 done or accepted, 1 rejected, 2 usage, 3 our fault, 4 host misconfigured, 130 interrupted.",
)
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
        code = app(standalone_mode=False, prog_name="mvc")
    except click.exceptions.Abort:
        code = _interrupted()
    except KeyboardInterrupt:
        code = _interrupted()
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except BrokenPipeError:
        # The reader of our output went away; that is no fault of anybody's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except Exception as error:
        code = _our_fault(error)
    sys.exit(code if isinstance(code, int) else 0)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


def _interrupted() -> int:
    typer.echo("interrupted: nothing was recorded", err=True)
    return 130


def _our_fault(error: Exception) -> int:
    if os.environ.get("MVC_DEBUG"):
        traceback.print_exc()
    text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    typer.echo(f"error: this is our fault, please report it ({text}); MVC_DEBUG=1 shows the traceback", err=True)
    return 3
