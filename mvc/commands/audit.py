"""``mvc audit``: what somebody released or printed, against the protocol and against itself."""

import typer

from mvc.commands import audit_predictions, audit_table

app = typer.Typer(
    name="audit", no_args_is_help=True, help="Audit released predictions and printed tables that others made."
)


@app.callback()
def audit() -> None:
    """Audit released predictions and printed tables that others made."""


app.command("predictions")(audit_predictions.predictions)
app.command("table")(audit_table.table)
