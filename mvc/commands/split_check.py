"""``mvc split check``: do the splits in these files share images or patients?"""

import contextlib
import json
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mvc.commands.bundle import JsonOption

if TYPE_CHECKING:
    from rich.console import Console

    from splits.checking import Report, Source
    from splits.checking.compare import Progress


def _distance(bits: int) -> int:
    """``bits``, which must be so few that hashes of images can tell pairs."""
    from splits.checking.images import LARGEST_DISTANCE

    if not 0 <= bits <= LARGEST_DISTANCE:
        raise typer.BadParameter(f"{bits} is not in the range from 0 to {LARGEST_DISTANCE} bits")
    return bits


def check(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...", help="Tables, path lists or JSON; several files are a split each, or NAME=FILE."
        ),
    ],
    split: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of the split; found by itself otherwise.")
    ] = None,
    image: Annotated[str | None, typer.Option(metavar="COL", help="Column of image names.")] = None,
    patient: Annotated[str | None, typer.Option(metavar="COL", help="Column of patients.")] = None,
    group: Annotated[
        list[str] | None, typer.Option(metavar="COL", help="Column of lesions, slides, exams ...; may be repeated.")
    ] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column of labels; may be repeated.")] = None,
    site: Annotated[str | None, typer.Option(metavar="COL", help="Column of sites or sources.")] = None,
    fold: Annotated[list[str] | None, typer.Option(metavar="COL", help="Column of folds; may be repeated.")] = None,
    run: Annotated[
        str | None, typer.Option(metavar="COL", help="Column of runs of repeated cross-validation, compared apart.")
    ] = None,
    pattern: Annotated[
        str, typer.Option(help="Patients from file names: eyepacs, nih, chexpert, tcga ..., or a regex with one group.")
    ] = "",
    tables: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FILE", help="Table of image and patient; NAME=FILE for one of --dataset's."),
    ] = None,
    dataset: Annotated[str, typer.Option(metavar="KEY", help="Read FILE as this data set's; mvc split datasets.")] = "",
    images: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The images: equal and nearly equal ones are found.")
    ] = None,
    distance: Annotated[
        int,
        typer.Option(callback=_distance, help="Bits of 64 by which hashes of near duplicates differ at most (few)."),
    ] = 4,
    names: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Official list: are hashed identifiers digests of its names?")
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Search long (minutes) for names whose plain digests identifiers are.")
    ] = False,
    workers: Annotated[int, typer.Option(min=0, help="Processes that read images; 0: one a core.")] = 0,
    encoding: Annotated[str, typer.Option(help="Encoding of text files.")] = "utf-8",
    as_json: JsonOption = False,
) -> None:
    """Find images and patients in more than one split. Exit 1: a leak was found, or a file can't be used.

    UNDECIDED (exit 0): equal names or ids that may stand for different images or patients; look at them.

    Compared: names as written and without suffix and augmentation marks, patients and groups in any spelling, contents.

    Runs of repeated cross-validation are not compared with each other.

    Example: mvc split check train.csv test.csv --patient patient_id --images scans/
    """
    from splits.checking import Chosen, Options, check_splits
    from splits.errors import SplitError

    chosen = Chosen(
        image=image,
        patient=patient,
        group=tuple(group or ()),
        label=tuple(label or ()),
        site=site,
        split=split,
        fold=tuple(fold or ()),
        run=run,
    )
    maps = {}
    for text in tables or ():
        name, mark, file = text.partition("=")
        named = bool(mark) and not Path(text).exists()
        maps[name if named else ""] = Path(file if named else text)
    options = Options(chosen, pattern, maps, dataset, images, distance, workers, encoding, names, deep)
    try:
        with _bar() as progress:
            report = check_splits(files, options, progress)
    except SplitError as error:
        from protocol.findings import plain

        if as_json:
            typer.echo(json.dumps({"verdict": "error", "exit_code": 1, "error": plain(error, 2000)}, indent=2))
        typer.echo(f"error: {plain(error, 2000)}", err=True)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(json.dumps(report.to_dict(), indent=2, ensure_ascii=False))
    else:
        _show(report)
    raise typer.Exit(report.exit_code)


@contextlib.contextmanager
def _bar() -> "Iterator[Progress]":
    """A progress bar on standard error, off where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("reading", total=None)

        def told(step: str, done: int, whole: int) -> None:
            progress.update(task, description=step, completed=done, total=whole or None)

        yield told


def _indented(out: "Console", text: str) -> None:
    """Print text that is safe, two blanks in; a long name is not cut."""
    lines = textwrap.wrap(text, max(40, out.width - 2), break_long_words=False, break_on_hyphens=False)
    for line in lines:
        out.print(f"  {line}", markup=False, soft_wrap=True)


def _alike(sources: "Sequence[Source]") -> "list[list[Source]]":
    """Files that were understood alike, together."""
    found: dict[str, list[Source]] = {}
    for source in sources:
        found.setdefault(f"{source.form} {source.columns}", []).append(source)
    return list(found.values())


COLOURS = {"leak": "red", "collision": "yellow", "warning": "yellow", "note": "dim"}


def _show(report: "Report") -> None:
    """What was understood, what was compared, every finding with samples and mend, and the line that says it all."""
    from rich.markup import escape

    from mvc.show import console
    from protocol.findings import plain

    out = console()
    for several in _alike(report.sources):
        names = plain(several[0].file) + (f" … {plain(several[-1].file)}, {len(several)} files" if several[1:] else "")
        rows = sum(source.rows for source in several)
        out.print(f"{escape(names)}: {several[0].form}, {rows:,} {'row' if rows == 1 else 'rows'}", soft_wrap=True)
        roles = ", ".join(
            column if role == column else f"{role} = {column}" for role, column in several[0].columns.items()
        )
        _indented(out, plain(roles, 600))
        for note in (note for source in several for note in source.notes):
            _indented(out, f"note: {plain(note, 400)}")
    if report.splits:
        sizes = [f"{name} {rows:,}" for name, rows in report.splits.items()]
        shown = ", ".join(sizes[:12]) + (f" and {len(sizes) - 12} more" if len(sizes) > 12 else "")
        out.print(escape(plain(f"splits: {shown}", 1000)))
    out.print(escape(f"compared: {', '.join(report.compared) or 'nothing'}"))
    for finding in report.findings:
        colour = COLOURS[finding.level.value]
        out.print()
        out.print(f"[{colour}]{finding.level.value}[/] {finding.code}")
        lines = [finding.title]
        if any(" ~ " in sample or " = " in sample for sample in finding.samples):
            lines += [f"such as {finding.samples[0]}", *finding.samples[1:]]
        elif finding.samples:
            lines.append(f"such as {', '.join(finding.samples)}")
        if finding.mend:
            lines.append(f"mend: {finding.mend}")
        for line in lines:
            _indented(out, line)
    out.print()
    out.print(escape(plain(report.last_line, 1000)), soft_wrap=True)
