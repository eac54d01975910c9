"""The ``mvc`` command: parses, calls one library function, prints. Heavy imports wait inside the commands."""

import errno
import importlib.metadata
import io
import os
import signal
import sys
import threading
import time
import traceback
from types import FrameType
from typing import Annotated, NoReturn

import typer

from mvc.commands import audit, baseline, bundle, demo, evalai, host, ledger, recalibrate, rules, score, split
from protocol import EDITION

LEDGER_KEPT = "the ledger is whole, mvc ledger list shows what it holds"
KEPT = {"split": "nothing was written", "baseline": "the same command goes on where it stopped"}
GRACE = 3.0  # seconds between SIGTERM and the end: platforms kill after five

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
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print version and edition.")
    ] = False,
) -> None:
    """Submit, referee and audit the calibration of medical image classifiers: seven steps, one verdict."""
    if context.invoked_subcommand in ("check", "submit"):  # mvc score says it to the host
        from scorer.machine import MemoryLimitError, memory

        try:
            memory()
        except MemoryLimitError as error:
            raise typer.BadParameter(str(error), param_hint="memory") from None


app.command("demo")(demo.demo)
app.command("init")(bundle.init)
app.command("declare")(bundle.declare)
app.command("recalibrate")(recalibrate.recalibrate)
app.command("check")(bundle.check)
app.command("submit")(bundle.submit)
app.command("score")(score.score)
app.command("evalai-worker")(evalai.evalai_worker)
app.command("rules")(rules.rules)
app.add_typer(split.app)
app.add_typer(audit.app)
app.add_typer(baseline.app)
app.add_typer(host.app)
app.add_typer(ledger.app)


def main() -> NoReturn:
    """Run the command line and leave with the exit code that the user was promised."""
    signal.signal(signal.SIGTERM, _terminated)
    _end_in_time()
    for stream in (sys.stdout, sys.stderr):  # a terminal of few letters is no reason to fail after the work is done
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="mvc")
    except SystemExit as end:
        if end.code == 130 and not isinstance(end, evalai.Interrupted):
            kept = KEPT.get(sys.argv[1] if len(sys.argv) > 1 else "", LEDGER_KEPT)
            typer.echo(f"interrupted; {kept}", err=True)
        raise
    except Exception as error:
        sys.exit(_disk_refused(error) or _our_fault(error))
    sys.exit(0)


def _terminated(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(143)


def _end_in_time() -> None:
    """See that SIGTERM ends this process within GRACE seconds, also when compiled code keeps the handler waiting."""
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)

    def watch() -> None:
        while signal.SIGTERM not in os.read(told, 64):
            pass
        time.sleep(GRACE)
        os._exit(143)

    threading.Thread(target=watch, daemon=True).start()


def _disk_refused(error: Exception) -> int:
    """Say that the disk is full or read-only and return 2; 0 where ``error`` is something else."""
    if not isinstance(error, OSError):
        return 0
    if "No usable temporary directory" in str(error):
        said = "no temporary folder can be written; set TMPDIR to one with free space"
    elif error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return 0
    elif error.filename is None:  # a stream that was open already: standard output
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # else Python fails on it again when it ends
        said = f"the output can't be written ({os.strerror(error.errno)}); mvc ledger list shows what was recorded"
    else:
        why = os.strerror(error.errno)
        said = f"{error.filename} can't be written ({why}); free space, or set TMPDIR; nothing was recorded"
    typer.echo(f"error: {said}", err=True)
    return 2


def _our_fault(error: Exception) -> int:
    if os.environ.get("MVC_DEBUG"):
        traceback.print_exc()
    text = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    typer.echo(f"error: this is our fault, please report it ({text}); MVC_DEBUG=1 shows the traceback", err=True)
    return 3
