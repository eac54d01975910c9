"""What people read of an audit of predictions. Text from files is escaped before it is printed."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from mvc.show import console
from protocol.findings import plain

if TYPE_CHECKING:
    from scorer.audit.judging.report import PredictionAudit
    from scorer.audit.judging.rows import MetricRow
    from scorer.audit.judging.steps import Step
    from scorer.audit.shapes import Finding

COLOURS = {"contradiction": "red", "warning": "yellow", "note": "dim"}
ANSWERS = {"met": "green", "not met": "red", "cannot tell": "cyan"}
HEADS = {
    "auroc": "AUROC", "brier": "Brier", "nll": "NLL",
    "ece": "ECE, 15 bins\nequal-mass", "ece_width15": "ECE, 15 bins\nequal-width",
}  # fmt: skip
MOST_SOURCES, MOST_SCALES, MOST_LINES, MOST_SITES = 12, 5, 60, 24


def show(found: "PredictionAudit", out: Path | None = None) -> None:
    """Print what was read, steps, metrics, findings, claims, limits, and the one line that says it all."""
    screen = console()
    _read(screen, found)
    _scales(screen, found)
    _steps(screen, found.steps)
    _metrics(screen, found)
    for finding in found.findings:
        _finding(screen, finding)
    if found.claims.claims:
        screen.print("\n[bold]claims[/]")
        for note in found.notes:
            _say(screen, note, 2)
        for line in found.claims.lines():
            screen.print(f"  {line}", markup=False, soft_wrap=True)
    if found.measures.limits:
        screen.print("\n[bold]limits[/]")
    for limit in found.measures.limits:
        _say(screen, limit, 2)
    if out is not None:
        screen.print(escape(plain(f"written: {out}", 1000)), soft_wrap=True)
    screen.print()
    screen.print(escape(plain(found.last_line, 1000)), soft_wrap=True)


def _say(screen: Console, text: str, indent: int = 0, style: str = "") -> None:
    """One paragraph, wrapped at words with a hanging indent."""
    shown = Text(plain(text, 2000), style=style)
    for i, line in enumerate(shown.wrap(screen, max(screen.width - indent - 2, 20))):
        line.rstrip()
        screen.print(Text(" " * (indent + (2 if i else 0))) + line)


def _read(screen: Console, found: "PredictionAudit") -> None:
    evidence = found.evidence
    screen.print("[bold]what was read[/]")
    for source in evidence.sources[:MOST_SOURCES]:
        _say(screen, f"{source.name}: {source.form}, {source.frame.height:,} rows, {source.frame.width:,} columns")
        for one in evidence.mapping.get(source.name, ()):
            shown = ", ".join(one.columns[:6]) + (f" and {len(one.columns) - 6} more" if len(one.columns) > 6 else "")
            _say(screen, f"{one.role.value}: {shown or '(none)'} ({one.by}: {one.why})", 2)
        for note in source.notes[:5]:
            _say(screen, f"note: {note}", 2)
    if len(evidence.sources) > MOST_SOURCES:
        screen.print(f"... {len(evidence.sources) - MOST_SOURCES} more files")
    _say(
        screen,
        f"a row is about: {evidence.unit or 'not known'}; "
        f"rows belong together by: {evidence.cluster or 'nothing known'}",
    )
    _say(screen, "wrong? correct it with --map ROLE=COLUMN, --classes, --scale, --unit, --cluster, --pattern")


def _scales(screen: Console, found: "PredictionAudit") -> None:
    groups: dict[tuple[str, str, str, bool], list[str]] = {}
    for one in found.evidence.sets:
        groups.setdefault((one.scale.scale.value, one.scale.why, one.scale.changed, one.scale.usable), []).append(
            one.title
        )
    screen.print("\n[bold]what the scores are[/]")
    if not groups:
        screen.print("no scores were found")
    for (scale, why, changed, usable), titles in list(groups.items())[:MOST_SCALES]:
        who = ", ".join(titles[:4]) + (f" and {len(titles) - 4} more" if len(titles) > 4 else "")
        _say(screen, f"{who}: {scale}: {why}{f'; {changed}' if changed else ''}")
        if not usable:
            _say(screen, "no calibration error is defined on this scale", 2, "yellow")
    if len(groups) > MOST_SCALES:
        rest = list(groups.items())[MOST_SCALES:]
        left = {scale: sum(len(titles) for key, titles in rest if key[0] == scale) for (scale, *_), _ in rest}
        _say(screen, "and " + ", ".join(f"{n} more: {scale}" for scale, n in left.items()))
    for note in list(dict.fromkeys(note for one in found.evidence.sets for note in one.notes))[:MOST_SCALES]:
        _say(screen, f"note: {note}", 2)
    unmeasured: dict[str, list[str]] = {}
    for title, why in found.measures.unmeasured.items():
        unmeasured.setdefault(why, []).append(title)
    for why, titles in list(unmeasured.items())[:MOST_LINES]:
        _say(
            screen,
            f"not measured: {', '.join(titles[:4])}{f' and {len(titles) - 4} more' if len(titles) > 4 else ''}: {why}",
        )


def _steps(screen: Console, steps: "Sequence[Step]") -> None:
    screen.print("\n[bold]steps of the protocol[/]")
    for step in steps:
        answer = step.answer.value
        screen.print(f"[{ANSWERS[answer]}]{answer:<11}[/] {step.number} {step.name}")
        for item in step.items:
            if item.answer.value != "cannot tell":
                sign = item.answer.value
                _say(screen, f"{item.rule} {item.slug}: {sign}: {item.evidence}", 4, "" if sign == "met" else "red")
        reasons: dict[str, list[str]] = {}
        for item in step.items:
            if item.answer.value == "cannot tell":
                reasons.setdefault(item.evidence, []).append(item.rule)
        for why, rules in reasons.items():
            _say(screen, f"{', '.join(rules)}: cannot tell: {why}", 4, "dim")


def _stem(row: "MetricRow") -> str:
    return row.metric.removesuffix("_present").removesuffix("_macro").replace("brier_binary", "brier")


def _metrics(screen: Console, found: "PredictionAudit") -> None:
    rows = found.measures.rows
    if not rows:
        return
    pooled = [row for row in rows if row.slice_kind == "pooled"]
    _table(screen, "metrics, pooled", _lines(pooled, several=len({(r.set, r.task) for r in pooled}) > 1), MOST_LINES)
    for kind, title in (("site", "metrics by site"), ("split", "metrics by split")):
        own = [row for row in rows if row.slice_kind == kind]
        if own:
            _table(screen, title, _lines(own, several=True), MOST_SITES)
    for note in dict.fromkeys(f"{_stem(row)}: {row.reason}" for row in pooled if row.reason and _stem(row) in HEADS):
        _say(screen, f"undefined {note}", 2, "dim")


Line = tuple[str, dict[str, "MetricRow"]]


def _lines(rows: "Sequence[MetricRow]", *, several: bool) -> list[Line]:
    """Label and rows by metric; findings have lines of their own where there is one set alone."""
    lines: dict[str, dict[str, MetricRow]] = {}
    over = {(row.set, row.task) for row in rows if row.metric.startswith("brier_binary_macro")}
    for row in rows:
        stem = _stem(row)
        if stem not in HEADS or (row.class_ and (several or (row.set, row.task) not in over)):
            continue
        title = f"{row.set} [{row.task}]" if row.task else row.set
        if (row.set, row.task) in over:
            title = row.class_ or f"{title}: mean over classes"
        if row.slice_kind != "pooled":
            title = f"{title}: {row.slice}"
        own = lines.setdefault(plain(title, 60), {})
        if stem not in own or own[stem].value != own[stem].value:
            own[stem] = row
    return list(lines.items())


def _table(screen: Console, title: str, lines: Sequence[Line], most: int) -> None:
    heads = [name for name in HEADS if any(name in own for _, own in lines)]
    screen.print(f"\n[bold]{title}[/] (95 % intervals)")
    wide = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    tall = Table(box=None, pad_edge=False, header_style="bold")
    wide.add_column("set", overflow="fold", min_width=12)
    tall.add_column("set", overflow="fold", min_width=12)
    for table, names in ((wide, ("units", "clusters", "events")), (tall, ("metric", "value"))):
        for name in names:
            table.add_column(name, justify="right", no_wrap=True)
    for name in heads:
        wide.add_column(HEADS[name], justify="right", no_wrap=True)
    for label, own in lines[:most]:
        some = next(iter(own.values()))
        events = next((f"{row.n_events:,}" for row in own.values() if row.n_events is not None), "")
        cells = [_cell(own.get(name)) for name in heads]
        wide.add_row(escape(label), f"{some.n_units:,}", f"{some.n_clusters:,}", events, *cells)
        counts = (
            f"\n[dim]{some.n_units:,} units\n{some.n_clusters:,} clusters{f', {events} events' if events else ''}[/]"
        )
        for i, (name, cell) in enumerate(zip(heads, cells, strict=True)):
            tall.add_row(escape(label) + counts if i == 0 else "", HEADS[name].replace("\n", " "), cell)
    screen.print(wide if _needed(wide) <= screen.width else tall)
    if len(lines) > most:
        screen.print(f"... {len(lines) - most} more lines; all with --out metrics.csv or --json")


def _needed(table: Table) -> int:
    """Columns of text that a table takes where its first column is folded."""
    widths = [
        max(
            Text.from_markup(line).cell_len for cell in (column.header, *column.cells) for line in str(cell).split("\n")
        )
        for column in table.columns[1:]
    ]
    return 12 + sum(widths) + 2 * len(table.columns)


def _cell(row: "MetricRow | None") -> str:
    if row is None:
        return ""
    if row.value != row.value:
        return "undefined"
    value = f"{row.value:.4f}"
    if row.note.startswith("infinite"):
        value = f"infinite\nfloored {row.value:.3f}"
    return value if row.lo != row.lo else f"{value}\n[dim]{row.lo:.3f}–{row.hi:.3f}[/]"


def _finding(screen: Console, finding: "Finding") -> None:
    rule = f" ({finding.rule})" if finding.rule else ""
    screen.print(f"\n[{COLOURS[finding.level.value]}]{finding.level.value}[/] {escape(finding.code)}{rule}")
    _say(screen, finding.title, 2)
    for sample in finding.samples:
        _say(screen, f"- {sample}", 2)
    if finding.count > len(finding.samples) > 1:
        screen.print(f"  ... {finding.count:,} in all")
    for name in ("assumption", "chance", "explanation"):
        if said := getattr(finding, name):
            _say(screen, f"{name}: {said}", 2, "dim")
