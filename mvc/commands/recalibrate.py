"""``mvc recalibrate``: fits the declared calibrators and adds their rows to the predictions."""

import json
from pathlib import Path
from typing import Annotated

import typer

from mvc.commands.bundle import JsonOption, RecordOption, _loading, _spinner, need_file


def recalibrate(
    bundle: Annotated[
        Path, typer.Argument(metavar="PREDICTIONS", help="Predictions file with its records beside it, or its folder.")
    ],
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Fit this declared method; repeat for more. Default: all.")
    ] = None,
    record: RecordOption = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Write the predictions here, and the parameters beside them, not in place."),
    ] = None,
    force: Annotated[
        bool, typer.Option(help="Replace rows and parameters of the methods, or an existing --out.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Fit the declared calibrators on the calib rows alone, and add their rows of test and external.

    Reads the rows of calibrator none and the labels of calib (with cross_fit: of the out-of-fold train rows); no label
    of test or external. Writes the predictions file and calibrators.json.

    Example: mvc recalibrate my-submission/predictions.parquet --method temperature --method isotonic --force
    """
    need_file(record, "--record")
    with _loading():
        from protocol.findings import counted
        from scorer.recalibrating import recalibrate_bundle
        from submission.bundle import NoBundleError
        from submission.recalibration.refit import RecalibrationError

    try:
        with _spinner("reading the bundle") as progress:
            done = recalibrate_bundle(
                bundle, record=record, methods=method or (), out=out, force=force, progress=progress
            )
    except NoBundleError as error:
        raise typer.BadParameter(str(error), param_hint="PREDICTIONS") from None
    except RecalibrationError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"error: {error.filename or out or bundle} can't be written ({error.strerror or error})", err=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(done.to_dict(), indent=2, ensure_ascii=False))
        return
    for note in done.notes:
        typer.echo(f"note: {note}")
    for name, runs in done.runs.items():
        typer.echo(f"{name}: {runs} runs fitted on {done.fitted_rows} rows of {done.fitted_on}")
    typer.echo(f"{done.predictions}: {counted(done.rows, 'row')} added; parameters in {done.parameters}")
