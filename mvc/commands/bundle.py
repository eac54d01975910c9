"""The participant's commands: ``init``, ``declare``, ``check``, ``submit``."""

import contextlib
import json
import os
import signal
import textwrap
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from types import FrameType
from typing import Annotated, NoReturn

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on standard output.")]
BundleArgument = Annotated[
    Path, typer.Argument(metavar="BUNDLE", help="Folder, zip of one, or predictions file with its records beside it.")
]
RecordOption = Annotated[
    Path | None, typer.Option("--record", help="Use this submission.yaml instead of the one beside the predictions.")
]


class Upload(StrEnum):
    """What ``--as`` takes: the names of scorer.packing.FORMS, which is not loaded for them."""

    GC_ZIP = "gc-zip"
    GC_CSV = "gc-csv"
    CODABENCH_ZIP = "codabench-zip"


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    kind: Annotated[str, typer.Option("--task", help="binary, multiclass or multilabel.")] = "binary",
    classes: Annotated[
        str | None, typer.Option(help="Class names in order, comma-separated (binary: the negative one first).")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write a valid bundle with made-up data, to be replaced by yours file by file.

    Example: mvc init my-submission --task multiclass --classes none,mild,severe
    """
    from submission.skeleton import SkeletonError, placeholders, write_skeleton

    names = tuple(name.strip() for name in classes.split(",")) if classes else None
    try:
        with _spinner("writing the example"):
            written = write_skeleton(folder, kind, names)
    except SkeletonError as error:
        hint = {"folder": "DIR", "kind": "--task", "classes": "--classes"}[error.about]
        raise typer.BadParameter(str(error), param_hint=hint) from None
    except OSError as error:
        raise typer.BadParameter(f"{folder} can't be written ({error.strerror})", param_hint="DIR") from None
    replace = placeholders(folder)
    if as_json:
        typer.echo(json.dumps({"folder": str(folder), "files": written, "replace": replace}))
        return
    typer.echo(f"{folder}: {', '.join(written)}")
    typer.echo("All of it is made up. Put your own in place of")
    typer.echo("  the tables and calibrators.json; if yours is predictions.csv, remove predictions.parquet")
    typer.echo("  and write predictions.csv into release.predictions.file")
    for name, keys in replace.items():
        typer.echo(textwrap.fill(f"{name}: {', '.join(keys)}", 96, initial_indent="  ", subsequent_indent="    "))
    typer.echo(f"then: mvc declare {folder}, mvc check {folder}, mvc submit {folder}")


def declare(
    folder: Annotated[Path, typer.Argument(metavar="BUNDLE", help="Folder of the bundle.")],
    force: Annotated[bool, typer.Option(help="Replace an existing declaration.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Freeze what must be fixed in advance into declaration.lock: do it before you look at the test set.

    Example: mvc declare my-submission
    """
    from submission.skeleton import declare_folder

    try:
        path, lock = declare_folder(folder, force=force)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="BUNDLE") from None
    except OSError as error:
        raise typer.BadParameter(f"{folder} can't be written ({error.strerror})", param_hint="BUNDLE") from None
    if as_json:
        typer.echo(json.dumps(lock.model_dump(mode="json"), indent=2, ensure_ascii=False))
        return
    typer.echo(f"{path}: declared at {lock.declared_at}, digest {lock.digest}")


def check(bundle: BundleArgument, record: RecordOption = None, as_json: JsonOption = False) -> None:
    """Check a bundle against every rule; nothing is written. Exit 0: it would be accepted, 1: rejected.

    Example: mvc check my-submission
    """
    need_file(record, "--record")
    with _loading():
        from mvc.show import show_verdict
        from scorer.check import examine
        from submission.bundle import NoBundleError

    try:
        with _spinner("checking") as progress, examine(bundle, record=record, progress=progress) as examination:
            verdict = examination.verdict
    except NoBundleError as error:
        raise typer.BadParameter(str(error), param_hint="BUNDLE") from None
    if as_json:
        typer.echo(json.dumps(verdict.to_dict(), indent=2, ensure_ascii=False))
    else:
        show_verdict(verdict)
    raise typer.Exit(verdict.exit_code)


def submit(
    bundle: BundleArgument,
    record: RecordOption = None,
    ledger: Annotated[
        Path | None,
        typer.Option("--ledger", help="Ledger file; default: MVC_LEDGER, else mvc.duckdb here."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Seal into this folder instead of in place.")] = None,
    upload: Annotated[
        Upload | None,
        typer.Option("--as", help="Pack as Grand Challenge (gc: a zip, or one CSV) or Codabench takes it."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check, score, seal and record a bundle. Rejected: every finding at once, and only the rejection is recorded.

    A hosted task's bundle is sealed and packed for its host, who scores it.

    Example: mvc submit my-submission/predictions.parquet
    """
    need_file(record, "--record")
    with _loading():
        from mvc.show import show_scores, show_verdict
        from scorer.ledger import LedgerError, default_path
        from scorer.packing import FORMS
        from scorer.submit import NothingToUploadError, SubmitError
        from scorer.submit import submit as submit_bundle
        from submission.bundle import NoBundleError

    place = ledger or default_path()
    try:
        with _spinner("submitting") as progress:
            form = None if upload is None else FORMS[upload]
            outcome = submit_bundle(bundle, ledger=place, record=record, out=out, form=form, progress=progress)
    except NoBundleError as error:
        raise typer.BadParameter(str(error), param_hint="BUNDLE") from None
    except NothingToUploadError as error:
        raise typer.BadParameter(str(error), param_hint="--as") from None
    except (LedgerError, SubmitError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    event = None if outcome.event is None else {"seq": outcome.event.seq, "digest": outcome.event.digest}
    size = None if outcome.upload is None else outcome.upload.stat().st_size
    if as_json:
        folder = None if outcome.folder is None else str(outcome.folder)
        document = {**outcome.verdict.to_dict(), "folder": folder, "ledger": str(place), "event": event}
        document |= {"upload": None if outcome.upload is None else str(outcome.upload), "upload_bytes": size}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        if outcome.scores is not None and outcome.folder is not None:
            show_scores(outcome.folder)
        recorded = "not recorded" if event is None else f"recorded in {place} as event {event['seq']}"
        if outcome.upload is not None and size is not None:
            replaced = ", in place of an earlier one" if outcome.replaced else ""
            shown = outcome.upload if (out or bundle).is_absolute() else os.path.relpath(outcome.upload)
            amount = f"{size / 1e6:.2f} MB, {size} bytes"
            recorded += f"\nto upload to the host, who scores it: {shown} ({amount}{replaced})"
        show_verdict(outcome.verdict, recorded, None if outcome.upload is not None else outcome.folder)
    raise typer.Exit(outcome.verdict.exit_code)


def need_file(path: Path | None, hint: str) -> None:
    """Usage error where ``path`` is given and no plain file."""
    if path is not None and not path.is_file():
        raise typer.BadParameter(f"{path}: no such file", param_hint=hint)


@contextlib.contextmanager
def _loading() -> Iterator[None]:
    """Ctrl-C while modules load ends at once: nothing is open yet, and compiled code may swallow the exception."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    os.write(2, b"interrupted; nothing was written\n")
    os._exit(130)


@contextlib.contextmanager
def _spinner(first: str) -> Iterator[Callable[[str], None]]:
    """Say what is being done while it is being done; silent when standard error is no terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda step: None
        return
    with console.status(first) as status:
        yield lambda step: status.update(step)
