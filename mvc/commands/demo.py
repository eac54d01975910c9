"""``mvc demo``: the whole flow on real data, and what happens to those who break the rules."""

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

MARK = ".mvc-demo"


def demo(
    folder: Annotated[Path, typer.Option("--dir", help="Folder for bundle, ledger and violations.")] = Path("mvc-demo"),
    force: Annotated[bool, typer.Option(help="Replace the folder of an earlier demo.")] = False,
) -> None:
    """Split, train, recalibrate and submit 569 real patients; then break four rules, one at a time.

    Example: mvc demo --dir mvc-demo
    """
    from mvc.show import show_scores, show_verdict
    from scorer.submit import submit
    from submission.demo import VIOLATIONS, break_bundle, make_demo

    _prepare(folder, force)
    ledger = folder / "mvc.duckdb"
    bundle = make_demo(folder / "bundle", typer.echo)
    typer.echo(f"\n$ mvc submit {bundle / 'predictions.parquet'} --ledger {ledger}")
    outcome = submit(bundle / "predictions.parquet", ledger=ledger)
    if outcome.folder is not None and outcome.event is not None:
        show_scores(outcome.folder)
        if not _recalibration_helped(outcome.folder):
            typer.echo("No calibrator improved the Brier score here; on so small a calibration split that can happen.")
        show_verdict(outcome.verdict, f"recorded in {ledger} as event {outcome.event.seq}", outcome.folder)
    else:
        show_verdict(outcome.verdict)
    as_told = outcome.verdict.accepted
    for number, violation in enumerate(VIOLATIONS, 1):
        typer.echo(f"\nviolation {number} of {len(VIOLATIONS)}: {violation.story}")
        broken = break_bundle(bundle, folder / "violations" / violation.name, violation)
        typer.echo(f"$ mvc submit {broken / 'predictions.parquet'} --ledger {ledger}")
        outcome = submit(broken / "predictions.parquet", ledger=ledger)
        verdict = outcome.verdict
        for result in verdict.rejecting:
            for finding in result.findings:
                typer.echo(f"✗ {result.rule} {result.slug}: {finding.where}: {finding.saw}; wanted {finding.wanted}")
            typer.echo(f"  mend: {result.mend} ({result.docs})")
        if outcome.event is not None:
            typer.echo(f"recorded in {ledger} as event {outcome.event.seq}")
        typer.echo(verdict.last_line)
        as_told &= [result.rule for result in verdict.rejecting] == [violation.fires]
    typer.echo(f"\nOpen {folder}: the bundle, its results, the ledger, and the four rejected copies.")
    typer.echo(_path_hint())
    if not as_told:
        typer.echo("error: this is our fault: the demonstration did not go as it should", err=True)
        raise typer.Exit(3)


def _path_hint() -> str:
    """How to go on: with the command itself, once it is found."""
    activate = Path(sys.executable).parent / "activate"
    if shutil.which("mvc") is None and activate.exists():
        return f"The command mvc is not on your PATH yet: . {os.path.relpath(activate)}"
    return "Your own submission starts with: mvc init my-submission"


def _recalibration_helped(folder: Path) -> bool:
    """True when a calibrated run has a lower Brier score on test than the uncalibrated one."""
    card = json.loads((folder / "results" / "scorecard.json").read_text(encoding="utf-8"))
    brier = {row["calibrator"]: row["value"] for row in card["test"] if row["metric"] == card["primary_metric"]}
    return bool(min(value for name, value in brier.items() if name != "none") < brier["none"])


def _prepare(folder: Path, force: bool) -> None:
    if folder.exists():
        if not (folder / MARK).exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise typer.BadParameter(f"{folder} exists and is not a demo's folder", param_hint="--dir")
        if (folder / MARK).exists():
            if not force:
                raise typer.BadParameter(f"{folder} holds an earlier demo; --force replaces it", param_hint="--dir")
            shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / MARK).touch()
