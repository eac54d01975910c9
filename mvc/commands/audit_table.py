"""``mvc audit table``: printed results against arithmetic and definitions."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mvc.commands.bundle import JsonOption

if TYPE_CHECKING:
    from scorer.audit.table import TableAudit

COLOURS = {"contradiction": "red", "warning": "yellow", "note": "dim"}


def table(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Tidy table, a row a value: CSV, TSV, Parquet, Excel.")],
    layout: Annotated[
        Path | None,
        typer.Option(metavar="YAML", help="What the columns are, and figures of the text to compute again."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit 1 where there is more than notes.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Test a printed table of accuracies and calibration errors without any data.

    Found: values that their definition forbids, averages that do not follow, blocks that repeat, values unlike their
    peers or with other decimals; with a layout file, figures of the text that the table does not give.

    Each finding says what it assumes and how often it would come by chance. Exit 0: the table could be audited.

    Example: mvc audit table examples/mvc-bench-tables/tables.csv --layout examples/mvc-bench-tables/layout.yaml
    """
    from protocol.findings import plain
    from scorer.audit.shapes import AuditError
    from scorer.audit.table import audit_table

    try:
        found = audit_table(file, layout)
    except AuditError as error:
        if as_json:
            typer.echo(json.dumps({"verdict": "error", "exit_code": 2, "error": plain(error, 2000)}, indent=2))
        typer.echo(f"error: {plain(error, 2000)}", err=True)
        raise typer.Exit(2) from None
    code = found.strict_exit_code if strict else found.exit_code
    if as_json:
        typer.echo(json.dumps({**found.to_dict(), "exit_code": code}, indent=2, ensure_ascii=False))
    else:
        _show(found)
    raise typer.Exit(code)


def _show(found: "TableAudit") -> None:
    from rich.markup import escape

    from mvc.show import console
    from protocol.findings import plain

    out = console()
    known = (
        ", ".join(f"{name} = {ours}" for name, ours in found.metrics.items()) or "none known: definitions not tested"
    )
    out.print(escape(plain(f"{found.file}: {found.cells:,} values; metrics: {known}", 1000)))
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
