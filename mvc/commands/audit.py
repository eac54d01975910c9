"""``mvc audit``: what somebody printed, against itself."""

import typer

from mvc.commands import audit_table

app = typer.Typer(name="audit", no_args_is_help=True, help="Audit printed tables: what their numbers contradict.")


@app.callback()
def audit() -> None:
    """Audit printed tables: what their numbers contradict."""


app.command("table")(audit_table.table)
