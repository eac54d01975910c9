"""What people read in the terminal: verdicts and scores. Text from submissions is escaped before it is printed."""

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from protocol.findings import Finding, Level, Outcome, RuleResult, Verdict, plain
from protocol.stages import STAGES

SIGNS = {
    Outcome.PASSED: "[green]passed[/]",
    Outcome.FAILED: "[red]failed[/]",
    Outcome.WAIVED: "[yellow]waived[/]",
    Outcome.UNVERIFIED: "[cyan]unverified[/]",
    Outcome.SKIPPED: "[dim]skipped[/]",
    Outcome.NOT_APPLICABLE: "[dim]not applicable[/]",
    Outcome.CRASHED: "[red]crashed[/]",
}
MAX_ROWS = 40


def console() -> Console:
    """A console that wraps at the terminal's width, at least 100 columns where there is no terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=max(made.width, 110))


def show_verdict(verdict: Verdict, recorded: str = "", folder: Path | None = None) -> None:
    """Print the steps, every finding with its mend, and the one line that says it all."""
    out = console()
    out.print(_steps(verdict))
    for note in verdict.notes:
        out.print(f"note: {escape(plain(note, 400))}")
    for result in (*verdict.of(Outcome.WAIVED), *verdict.of(Outcome.CRASHED)):
        out.print(f"{SIGNS[result.outcome]} {result.rule} {result.slug}: {escape(plain(result.reason, 400))}")
    for result in verdict.of(Outcome.FAILED):
        _show_failed(out, result)
    for result in verdict.of(Outcome.PASSED):
        for finding in result.findings:
            out.print(f"note: {result.rule} {result.slug}: {_sentence(finding)}")
    for reason in dict.fromkeys(r.reason for r in verdict.of(Outcome.UNVERIFIED)):
        rules = ", ".join(r.rule for r in verdict.of(Outcome.UNVERIFIED) if r.reason == reason)
        out.print(f"{SIGNS[Outcome.UNVERIFIED]} {rules}: {escape(reason)}")
    if folder is not None:
        out.print(
            f"sealed in {escape(str(folder))}: ro-crate-metadata.json, results/scorecard.json, results/metrics.parquet"
        )
    if recorded:
        out.print(escape(recorded))
    out.print(escape(plain(verdict.last_line, 1000)), soft_wrap=True)


def _steps(verdict: Verdict) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("step")
    for heading in ("passed", "failed", "waived", "unverified", "skipped", "n/a"):
        table.add_column(heading, justify="right")
    order = (
        Outcome.PASSED,
        Outcome.FAILED,
        Outcome.WAIVED,
        Outcome.UNVERIFIED,
        Outcome.SKIPPED,
        Outcome.NOT_APPLICABLE,
    )
    for stage, name in STAGES.items():
        members = [r for r in verdict.results if r.stage == stage]
        # Notes inform and host evidence is the host's: neither is counted as a failure of the step.
        rejecting = [r for r in members if r.outcome is not Outcome.FAILED or r.level in (Level.MUST, Level.WAIVABLE)]
        counts = [sum(r.outcome is outcome for r in rejecting) for outcome in order]
        styles = ("", "red", "yellow", "cyan", "dim", "dim")
        cells = [
            f"[{style}]{n}[/]" if n and style else str(n) if n else "·" for n, style in zip(counts, styles, strict=True)
        ]
        table.add_row(f"{stage} {name}", *cells)
    return table


def _show_failed(out: Console, result: RuleResult) -> None:
    note = result.level in (Level.NOTE, Level.HOST)
    head = f"note: {result.rule} {result.slug}" if note else f"[red]✗ {result.rule} {result.slug}[/] {result.title}"
    for finding in result.findings:
        out.print(f"{head}: {_sentence(finding)}")
        for sample in finding.samples:
            if sample not in finding.saw:
                out.print(f"    {escape(sample)}", soft_wrap=True)
        if finding.count > len(finding.samples) > 0:
            out.print(f"    ... {finding.count} in all")
    if not note:
        out.print(f"  mend: {escape(result.mend)} ({result.docs})")


def _sentence(finding: Finding) -> str:
    return escape(f"{finding.where}: {finding.saw}; wanted {finding.wanted}")


def show_scores(folder: Path) -> None:
    """Print what a sealed bundle's scorecard says of the test split, of each external site and of each subgroup."""
    card = json.loads((folder / "results" / "scorecard.json").read_text(encoding="utf-8"))
    out = console()
    intervals = card["intervals"]
    out.print(
        f"[bold]{escape(plain(card['title']))}[/]\n"
        f"{intervals['level']:.0%} intervals from {intervals['resamples']} resamples of {intervals['unit']}s; "
        "several seeds: their mean, ± their standard deviation"
    )
    out.print(_test_table(card))
    if card["slices"]:
        out.print(_slice_table(card))


def _test_table(card: dict[str, Any]) -> Table:
    spread = {(s["model"], s["calibrator"], s["metric"]): s for s in card["seed_spread"] if s["class"] is None}
    values = {(r["model"], r["calibrator"], r["metric"]): r for r in card["test"] if r["class"] is None}
    table = _table("test split", ("model", "calibrator", *card["headline"]))
    for model, calibrator in card["runs"][:MAX_ROWS]:
        keys = [(model, calibrator, name) for name in card["headline"]]
        cells = [_cell(values.get(key), spread.get(key)) for key in keys]
        table.add_row(escape(model), escape(calibrator), *cells)
    if len(card["runs"]) > MAX_ROWS:
        table.add_row(f"... {len(card['runs']) - MAX_ROWS} more in results/metrics.parquet")
    return table


def _slice_table(card: dict[str, Any]) -> Table:
    values = {(r["model"], r["calibrator"], r["slice_kind"], r["slice"], r["metric"]): r for r in card["slices"]}
    slices = list(dict.fromkeys((r["slice_kind"], r["slice"]) for r in card["slices"]))
    rows = [(slice_, run) for slice_ in slices for run in card["runs"]]
    chosen = [name for name in card["headline"] if name.split("_")[0] in ("brier", "ece", "auroc")]
    table = _table("external sites and subgroups", ("slice", "model", "calibrator", "patients", *chosen))
    for (kind, name), (model, calibrator) in rows[:MAX_ROWS]:
        found = [values.get((model, calibrator, kind, name, metric)) for metric in chosen]
        shown = f"external: {name}" if kind == "external" else name
        patients = str(found[0]["n_patients"]) if found[0] else ""
        cells = [_cell(row, None).replace("\n", " ") for row in found]
        table.add_row(escape(plain(shown)), escape(model), escape(calibrator), patients, *cells)
    if len(rows) > MAX_ROWS:
        table.add_row(f"... {len(rows) - MAX_ROWS} more in results/metrics.parquet")
    return table


def _table(title: str, headings: tuple[str, ...]) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="italic", box=None, pad_edge=False, header_style="bold"
    )
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def _cell(row: dict[str, Any] | None, spread: dict[str, Any] | None) -> str:
    if row is None or row["value"] is None:
        return "undefined"
    lines = [f"{row['value']:.4f}"]
    if row["lo"] is not None:
        lines.append(f"[dim]{row['lo']:.4f}–{row['hi']:.4f}[/]")
    if spread and spread["sd"] is not None:
        lines.append(f"[dim]±{spread['sd']:.4f}[/]")
    return "\n".join(lines)
