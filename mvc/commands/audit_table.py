"""``mvc audit table``: printed results against arithmetic and definitions."""

import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mvc.commands.bundle import JsonOption

if TYPE_CHECKING:
    from scorer.audit.table import TableAudit

COLOURS = {"contradiction": "red", "warning": "yellow", "note": "dim"}


def table(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A printed table: CSV, TSV, Parquet or Excel.")],
    layout: Annotated[
        Path | None,
        typer.Option(
            metavar="YAML",
            help="What the columns are, numbers of test images, and figures of the text to compute again.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the whole audit here too, as JSON.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing --out.")] = False,
    encoding: Annotated[str, typer.Option(metavar="NAME", help="How the text is encoded.")] = "utf-8",
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where there is more than notes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Test a printed table of accuracies and calibration errors without any data.

    Found: values that their definition forbids, averages that do not follow, accuracies that no whole number of images
    gives, blocks that repeat, values unlike their peers or with other decimals; figures of the text that the table
    does not give.

    A table with a row a value or a column a metric is read as it is, and what was guessed is shown; one with several
    header rows needs a layout. Each finding says what it assumes and how often it would come by chance. Exit 0: the
    table could be audited.

    Example: mvc audit table examples/mvc-bench-tables/tables.csv --layout examples/mvc-bench-tables/layout.yaml
    """
    from protocol.findings import plain
    from scorer.audit.shapes import AuditError
    from scorer.audit.table import audit_table

    try:
        if out is not None:
            _free(out, force)
        found = audit_table(file, layout, encoding=encoding)
        code = found.strict_exit_code if strict else found.exit_code
        document = json.dumps({**found.to_dict(), "exit_code": code}, indent=2, ensure_ascii=False)
        if out is not None:
            _write(out, document + "\n", force)
    except AuditError as error:
        if as_json:
            typer.echo(json.dumps({"verdict": "error", "exit_code": 2, "error": plain(error, 2000)}, indent=2))
        typer.echo(f"error: {plain(error, 2000)}", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(document)
    else:
        _show(found)
    raise typer.Exit(code)


def _free(out: Path, force: bool) -> None:
    from scorer.audit.shapes import AuditError

    if out.is_dir():
        raise AuditError(f"--out {out} is a folder; name a file in it")
    if os.path.lexists(out) and not force:
        raise AuditError(f"--out {out} exists; name another file, or replace it with --force")


def _write(out: Path, text: str, force: bool) -> None:
    """Write ``out`` whole or not at all."""
    from scorer.audit.shapes import AuditError

    aside = ""
    try:
        descriptor, aside = tempfile.mkstemp(dir=out.parent, prefix=".audit-", suffix=".json")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        os.chmod(aside, 0o644)
        _free(out, force)  # it may have come while the table was read
        os.replace(aside, out)
    except OSError as error:
        raise AuditError(f"--out {out} can't be written ({error.strerror or error})") from None
    finally:
        if aside:
            Path(aside).unlink(missing_ok=True)


def _show(found: "TableAudit") -> None:
    from rich.markup import escape

    from mvc.show import console
    from protocol.findings import plain

    out = console()
    known = (
        ", ".join(f"{name} = {ours}" for name, ours in found.metrics.items()) or "none known: definitions not tested"
    )
    out.print(escape(plain(f"{found.file}: {found.cells:,} values; metrics: {known}", 1000)))
    for one in found.guessed:
        out.print(f"  guessed: {escape(one)}", soft_wrap=True)
    if found.spreads:
        out.print(f"  {found.spreads:,} values have a spread (±), which is not tested")
    if found.empty:
        out.print(f"  {found.empty:,} cells are empty or a dash")
    for one in found.unread[:5]:
        out.print(f"  not read: {escape(one)}")
    if len(found.unread) > 5:
        out.print(f"  ... {len(found.unread):,} cells without a number in all")
    for finding in found.findings:
        out.print()
        out.print(f"[{COLOURS[finding.level.value]}]{finding.level.value}[/] {finding.code}")
        lines = [finding.title, *(f"- {sample}" for sample in finding.samples)]
        if finding.count > len(finding.samples) > 1:
            lines.append(f"  ... {finding.count:,} in all")
        lines += [
            f"{name}: {said}" for name in ("assumption", "chance", "explanation") if (said := getattr(finding, name))
        ]
        for line in lines:
            out.print(f"  {line}", markup=False, soft_wrap=True)
    out.print()
    out.print(escape(found.last_line))
