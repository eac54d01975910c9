"""Audit of printed tables: what the numbers contradict by themselves, without any data."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.findings import counted, plain
from scorer.audit.shapes import ORDER, Finding, Level
from scorer.audit.table import alike, arithmetic, figures, granularity, stated
from scorer.audit.table.cells import Table
from scorer.audit.table.layout import Layout, read_layout
from scorer.audit.table.reading import read_cells

TESTS: tuple[Callable[[Table], Iterator[Finding]], ...] = (
    arithmetic.out_of_range, arithmetic.impossible_order, arithmetic.averages, granularity.accuracies,
    alike.repeated_blocks, alike.equal_methods, alike.unlike_peers, arithmetic.precisions,
)  # fmt: skip


@dataclass(frozen=True)
class TableAudit:
    """What was read and what was found, heaviest first. ``metrics`` maps the table's names of metrics to ours,
    ``guessed`` says in words what no layout said. ``unread`` cells hold text that is no number, ``empty`` counts those
    without a value, ``spreads`` those with '± number'."""

    file: str
    sha256: str
    cells: int
    metrics: dict[str, str]
    guessed: tuple[str, ...]
    unread: tuple[str, ...]
    empty: int
    spreads: int
    findings: tuple[Finding, ...]

    @property
    def exit_code(self) -> int:
        """0: findings are what an audit is for."""
        return 0

    @property
    def strict_exit_code(self) -> int:
        """1 where there is more than notes."""
        return int(any(finding.level is not Level.NOTE for finding in self.findings))

    @property
    def last_line(self) -> str:
        """The outcome in one line."""
        counts = [(level.value, sum(f.level is level for f in self.findings)) for level in ORDER]
        seen = ", ".join(counted(n, level) for level, n in counts if n) or "nothing found"
        return f"MVC AUDIT TABLE {seen}; {self.cells:,} values read"

    def to_dict(self) -> dict[str, Any]:
        """Everything, for one JSON document."""
        return {
            "last_line": self.last_line,
            "exit_code": self.exit_code,
            "file": self.file,
            "sha256": self.sha256,
            "cells": self.cells,
            "metrics": dict(self.metrics),
            "guessed": list(self.guessed),
            "unread": list(self.unread),
            "empty": self.empty,
            "spreads": self.spreads,
            "findings": [{**asdict(finding), "level": finding.level.value} for finding in self.findings],
        }


def audit_table(path: Path, layout: Path | None = None, *, encoding: str = "utf-8") -> TableAudit:
    """Audit a table of printed results: a row a value, a column a metric, or wide as printed (with a ``layout``).

    What the layout doesn't say is guessed, and the guess is told. Raises :class:`scorer.audit.shapes.AuditError` for a
    file or layout that can't be used.
    """
    table = read_cells(path, read_layout(layout) if layout is not None else Layout(), encoding)
    findings = [finding for test in TESTS for finding in test(table)] + list(_claims(table))
    return TableAudit(
        file=plain(path),
        sha256=table.sha256,
        cells=len(table.cells),
        metrics={plain(name): ours for name, ours in table.names.items()},
        guessed=tuple(plain(one, 500) for one in table.guessed),
        unread=tuple(plain(one) for one in table.unread),
        empty=table.empty,
        spreads=sum(bool(cell.spread) for cell in table.cells),
        findings=tuple(sorted(findings, key=lambda finding: ORDER.index(finding.level))),
    )


def _claims(table: Table) -> Iterator[Finding]:
    """What the text says of the table, as its layout states."""
    layout = table.layout
    for kendall in layout.kendall:
        yield from stated.kendall(table, kendall)
    for pair in layout.paired:
        yield from stated.paired(table, pair)
    for figure in layout.figures:
        yield from figures.figure(table, figure)
    for rank in layout.ranks:
        yield from figures.rank(table, rank)
    for correlation in layout.correlations:
        yield from figures.correlation(table, correlation)
