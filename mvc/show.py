"""What people read in the terminal: verdicts and scores. Text from submissions is escaped before it is printed."""

import json
import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

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
    """A console of the terminal's width (or of COLUMNS); 110 columns where neither is known."""
    made = Console(highlight=False)
    return made if made.is_terminal or "COLUMNS" in os.environ else Console(highlight=False, width=110)


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
            _print(out, f"note: {result.rule} {result.slug}: {_sentence(finding)}")
    for reason in dict.fromkeys(r.reason for r in verdict.of(Outcome.UNVERIFIED)):
        rules = ", ".join(r.rule for r in verdict.of(Outcome.UNVERIFIED) if r.reason == reason)
        out.print(f"{SIGNS[Outcome.UNVERIFIED]} {rules}: {escape(reason)}")
    if folder is not None:
        out.print(
            f"sealed in {escape(str(folder))}: ro-crate-metadata.json, results/scorecard.json, results/metrics.parquet"
        )
    if recorded:
        out.print(escape(recorded), soft_wrap=True)  # a path that is to be copied stays whole
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
        _print(out, f"{head}: {_sentence(finding)}")
        samples = [sample for sample in finding.samples if sample not in finding.saw]
        if finding.count > len(finding.samples) > 0:
            samples.append(f"... {finding.count} in all")
        for line in [", ".join(samples)] if note and samples else samples:
            out.print(f"    {escape(line)}", soft_wrap=True)
    if not note:
        _print(out, f"  mend: {escape(result.mend)} ({result.docs})")


def _print(out: Console, markup: str) -> None:
    """Print ``markup`` wrapped at words, no line with a blank at its end."""
    for line in Text.from_markup(markup).wrap(out, out.width):
        line.rstrip()
        out.print(line)


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
    out.print(f"declaration: {escape(plain(card['declared']))}")
    out.print(_legend(card["headline"]))
    spread = {(s["model"], s["calibrator"], s["metric"]): s for s in card["seed_spread"] if s["class"] is None}
    tested = [row for row in card["test"] if row["class"] is None and row["metric"] in card["headline"]]
    _print_rows(out, "test split", card, tested, spread)
    chosen = [name for name in card["headline"] if name.split("_")[0] in ("brier", "ece", "auroc")]
    sliced = [row for row in card["slices"] if row["metric"] in chosen]
    if sliced:
        _print_rows(out, "external sites and subgroups", card, sliced, {})
    for line in footnotes([*tested, *sliced]):
        out.print(line)


def _legend(metrics: list[str]) -> str:
    higher = [name for name in metrics if name.startswith(("accuracy", "auroc"))]
    range_ = "; brier lies between 0 and 2" if "brier" in metrics else ""
    return f"higher is better for {' and '.join(higher)}, lower for the others{range_}"


def _print_rows(
    out: Console,
    title: str,
    card: dict[str, Any],
    rows: list[dict[str, Any]],
    spread: dict[tuple[str, str, str], dict[str, Any]],
) -> None:
    """One table: a column a metric; where the terminal is too narrow, tables with a line a metric: no number wraps."""
    metrics = [name for name in card["headline"] if any(row["metric"] == name for row in rows)]
    found = {(r["slice_kind"], r["slice"], r["model"], r["calibrator"], r["metric"]): r for r in rows}
    slices = list(dict.fromkeys((r["slice_kind"], r["slice"]) for r in rows))
    keys = [(*slice_, *run) for slice_ in slices for run in card["runs"]]
    sliced = slices != [("test", "all")]
    start = ["slice", "model", "calibrator", "patients"] if sliced else ["model", "calibrator"]
    wide, tall = _table(title, *start, *metrics), dict[str, Table]()
    for kind, name, model, calibrator in keys[:MAX_ROWS]:
        cells = [found.get((kind, name, model, calibrator, metric)) for metric in metrics]
        parts = [
            _parts(row, spread.get((model, calibrator, metric))) for row, metric in zip(cells, metrics, strict=True)
        ]
        run, heading = [escape(model), escape(calibrator)], title
        start = run
        if sliced:
            shown = escape(plain(f"external: {name}" if kind == "external" else name))
            patients = next((str(row["n_patients"]) for row in cells if row is not None), "")
            start, heading = [shown, *run, patients], f"{shown}, {patients} patients"
        wide.add_row(*start, *("\n".join(part for part in three if part) for three in parts))
        seeds = ["± seeds"] if spread else []
        table = tall.setdefault(heading, _table(heading, "model", "calibrator", "metric", "value", "interval", *seeds))
        for index, (metric, three) in enumerate(zip(metrics, parts, strict=True)):
            table.add_row(*(run if index == 0 else ["", ""]), metric, *(three if spread else three[:2]))
    needed = out.measure(wide, options=out.options.update(max_width=10_000)).maximum
    for table in [wide] if needed <= out.width else tall.values():
        out.print(table)
    if len(keys) > MAX_ROWS:
        out.print(f"... {len(keys) - MAX_ROWS} more in results/metrics.parquet")


def _table(title: str, *headings: str) -> Table:
    table = Table(
        title=title, title_justify="left", title_style="italic", box=None, pad_edge=False, header_style="bold"
    )
    for heading in headings:
        table.add_column(heading, no_wrap=heading not in ("slice", "model", "calibrator"), overflow="fold")
    return table


def _parts(row: dict[str, Any] | None, spread: dict[str, Any] | None) -> tuple[str, str, str]:
    """Value, interval and spread across seeds as text; blank where there is none."""
    if row is None or row["value"] is None:
        return "undefined", "", ""
    limits = "" if row["lo"] is None else f"[dim]{row['lo']:.4f}–{row['hi']:.4f}[/]"
    sd = f"[dim]±{spread['sd']:.4f}[/]" if spread and spread["sd"] is not None else ""
    return f"{row['value']:.4f}", limits, sd


def footnotes(rows: list[dict[str, Any]]) -> list[str]:
    """What a reader may stumble over: a value outside its interval, and why a value is undefined."""
    lines = []
    if any(row["lo"] is not None and not row["lo"] <= row["value"] <= row["hi"] for row in rows):
        lines.append(
            "A binned error outside its interval: resampling biases it upwards, the more so the fewer the patients "
            "(PROTOCOL.md, section 10)."
        )
    undefined = {f"{row['metric']}: {row['reason']}" for row in rows if row["value"] is None}
    return lines + [f"undefined {escape(plain(text))}" for text in sorted(undefined)]
