"""``mvc host``: publish a task with hidden labels, sign receipts of declarations, look after quotas."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mvc.commands.bundle import JsonOption, _spinner, need_file

if TYPE_CHECKING:
    from protocol.task import Task
    from scorer.ledger_records import Usage

app = typer.Typer(
    name="host", help="Publish a task with hidden labels, sign receipts, look after quotas.", no_args_is_help=True
)

LedgerOption = Annotated[
    Path | None, typer.Option("--ledger", help="The host's ledger; without it $MVC_LEDGER, else mvc.duckdb here.")
]
WaitOption = Annotated[float, typer.Option("--wait", min=0.0, help="Seconds to wait for another program.")]


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty folder.")],
    task: Annotated[Path, typer.Option("--task", help="Draft task.yaml, without digests and key.")],
    splits: Annotated[Path, typer.Option("--splits", help="Full split file: every image, Parquet or CSV.")],
    truth: Annotated[
        Path | None,
        typer.Option("--truth", help="Labels of test and external; without it they are taken out of the split file."),
    ] = None,
    allow_absent_class: Annotated[
        bool, typer.Option("--allow-absent-class", help="Publish although a class has no image in calib or test.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write public/ (to publish) and private/ (truth and signing key) of a hosted task. Exit 4: the files don't fit.

    Example: mvc host init skin-task --task task.yaml --splits splits.parquet --truth truth.parquet
    """
    from protocol.findings import counted
    from scorer.host import FolderTaken, init_host
    from scorer.host_task import HostError

    for path, hint in ((task, "--task"), (splits, "--splits"), (truth, "--truth")):
        need_file(path, hint)
    try:
        with refusals(), _spinner("reading") as progress:
            try:
                made = init_host(
                    folder,
                    task=task,
                    splits=splits,
                    truth=truth,
                    allow_absent_class=allow_absent_class,
                    progress=progress,
                )
            except HostError as error:
                if as_json:
                    document = {"folder": None, "problems": list(error.problems)}
                    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
                raise
    except FolderTaken as error:
        raise typer.BadParameter(str(error), param_hint="DIR") from None
    shown = {name: str(getattr(made.task, name)) for name in ("splits_sha256", "truth_sha256", "host_key")}
    caps = made.task.caps
    if as_json:
        place = {"folder": str(folder), "problems": [], "images": made.images, "task": made.task.name}
        notes = {"absent": list(made.absent), "notes": list(made.notes)}
        more = {"caps": caps.model_dump(), "task_sha256": made.task.digest}
        typer.echo(json.dumps({**place, **shown, **notes, **more}, indent=2, ensure_ascii=False))
        return
    for line in made.notes:
        typer.echo(f"note: {line}")
    typer.echo(f"{folder}/public: task.yaml, splits.parquet, host.pub; publish these")
    typer.echo(f"{folder}/private: truth.parquet ({made.images} images), host.key; keep these to yourself")
    for name, value in shown.items():
        typer.echo(f"  {name} {value}")
    contents = counted(caps.quota, "content") if caps.quota else "no limit of contents"
    typer.echo(f"  caps: {counted(caps.max_runs, 'run')} a submission, {contents} a team")


@app.command()
def receipt(
    lock: Annotated[Path, typer.Argument(metavar="LOCK", help="The declaration.lock that a team sent.")],
    key: Annotated[Path, typer.Option("--key", envvar="MVC_HOST_KEY", help="private/host.key of the task.")],
    task: Annotated[
        Path | None, typer.Option("--task", help="public/task.yaml; without it task.yaml beside the lock.")
    ] = None,
    ledger: LedgerOption = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write here instead of receipt.json beside it.")] = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """File a declaration in the host's ledger and sign a receipt of it. Exit 1: the lock is not in order.

    Example: mvc host receipt declaration.lock --task public/task.yaml --key private/host.key
    """
    from protocol.findings import plain
    from scorer.host_task import load_host_key
    from scorer.ledger import Ledger, default_path
    from scorer.ledger_filings import file_lock, read_lock
    from submission.bundle import RECEIPT_FILE, TASK_FILE
    from submission.files import write_atomic
    from submission.yaml_io import MAX_BYTES

    task_file, target = task or lock.parent / TASK_FILE, out or lock.parent / RECEIPT_FILE
    for path, hint in ((lock, "LOCK"), (task_file, "--task")):
        need_file(path, hint)
    with refusals(lock.name):
        secret, hosted = load_host_key(key), task_of(task_file)
        declaration = read_lock(read_start(lock, MAX_BYTES), hosted)
        with Ledger.open(ledger or default_path(), wait_s=wait) as opened:
            filed = file_lock(declaration, hosted, secret, opened)
        write_atomic(target, filed.envelope)
    if as_json:
        document = {"receipt": filed.receipt.model_dump(), "new": filed.new, "file": str(target)}
        typer.echo(json.dumps(document, indent=2, ensure_ascii=False))
        return
    made = filed.receipt
    typer.echo(f"{'filed' if filed.new else 'already filed'}: {plain(made.submission_id)} of team {plain(made.team)}")
    typer.echo(f"  filing {made.filing} of this team for {made.task}, event {made.event}, dated {made.received_at}")
    typer.echo(f"wrote {plain(target)}")


@app.command()
def quota(
    task: Annotated[Path, typer.Option("--task", help="public/task.yaml.")] = Path("task.yaml"),
    team: Annotated[str | None, typer.Option("--team", help="Only this team.")] = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Say whether this record fits; exit 1: it does not.")
    ] = None,
    ledger: LedgerOption = None,
    wait: WaitOption = 30.0,
    as_json: JsonOption = False,
) -> None:
    """Show by team how many contents were scored, what is left, and how many declarations were filed.

    Example: mvc host quota --task public/task.yaml --team 'Team A'
    """
    from scorer.ledger import Ledger, default_path
    from scorer.ledger_records import believed, exceeds, usage
    from scorer.signing import MAX_ENVELOPE

    need_file(task, "--task")
    need_file(record, "--record")
    over = None
    with refusals(record.name if record else ""):
        hosted = task_of(task)
        signed = None if record is None else believed(read_start(record, MAX_ENVELOPE), hosted)
        with Ledger.open(ledger or default_path(), read_only=True, wait_s=wait) as opened:
            events = opened.events()
        if signed is not None:
            team, over = signed.record.team, exceeds(signed.record, hosted, events)
        teams = usage(hosted, events, team)
    if as_json:
        rows = [{**vars(one), "left": one.left} for one in teams]
        document = {"task": hosted.name, "quota": hosted.caps.quota, "teams": rows}
        fits = {} if over is None else {"fits": not over}
        typer.echo(json.dumps({**document, **fits}, indent=2, ensure_ascii=False))
    else:
        _show_usage(teams)
        if over is not None:
            typer.echo(f"does not fit: {over}" if over else "fits")
    raise typer.Exit(1 if over else 0)


def _show_usage(teams: "tuple[Usage, ...]") -> None:
    from protocol.findings import counted, plain

    for one in teams:
        of = f"{counted(one.scored, 'content')} scored{left_words(one)}"
        typer.echo(f"{plain(one.team)}: {of}; {counted(one.filings, 'declaration')} filed")
    if not teams:
        typer.echo("no team has filed or been scored yet")


def left_words(used: "Usage") -> str:
    """``, 3 left of a quota of 20``; where more was scored by leave of the host, by how much; '' without a quota."""
    if used.quota is None:
        return ""
    over = used.scored - used.quota
    return f", {over} over the quota of {used.quota}" if over > 0 else f", {used.left} left of a quota of {used.quota}"


def read_start(path: Path, limit: int) -> bytes:
    """The bytes of ``path``, and one more than ``limit`` where it is longer."""
    with path.open("rb") as source:
        return source.read(limit + 1)


def task_of(path: Path) -> "Task":
    """The host's task file, which must name a key; HostError and OSError as the library raises them."""
    from scorer.host_task import host_key_of, read_task

    task = read_task(path)
    host_key_of(task)
    return task


@contextmanager
def refusals(file: str = "") -> Iterator[None]:
    """Errors as lines and exit codes: 1 what was refused by name, 2 what can't be used, 4 the host's own files.

    ``file`` is named before what was refused.
    """
    from protocol.findings import plain
    from scorer.host_task import HostError
    from scorer.ledger import LedgerError
    from scorer.ledger_filings import FilingRefused
    from scorer.ledger_records import RecordRefused
    from scorer.signing import KeyFileError

    try:
        yield
    except HostError as error:
        for problem in error.problems:
            typer.echo(f"problem: {plain(problem, 1000)}", err=True)
        typer.echo(f"error: the host's files are not in order ({len(error.problems)} found)", err=True)
        raise typer.Exit(4) from None
    except (FilingRefused, RecordRefused) as error:
        typer.echo(f"error: {plain(f'{file}: {error}' if file else error, 1000)}", err=True)
        raise typer.Exit(1) from None
    except (LedgerError, KeyFileError) as error:
        typer.echo(f"error: {plain(error, 1000)}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        named = f"{error.filename}: " if error.filename else ""
        typer.echo(f"error: {plain(f'{named}{error.strerror or error}', 400)}", err=True)
        raise typer.Exit(2) from None
