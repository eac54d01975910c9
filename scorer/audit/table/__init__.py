"""Audit of printed tables: what the numbers contradict by themselves, without any data."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from protocol.findings import counted, plain
from scorer.audit.shapes import ORDER, Finding, Level
from scorer.audit.table import arithmetic, stated
from scorer.audit.table.cells import Table, read_cells
from scorer.audit.table.layout import Layout, read_layout

TESTS: tuple[Callable[[Table], Iterator[Finding]], ...] = (
    arithmetic.out_of_range, arithmetic.impossible_order, arithmetic.averages, arithmetic.repeated_blocks,
    arithmetic.unlike_peers, arithmetic.precisions,
)  # fmt: skip


@dataclass(frozen=True)
class TableAudit:
    """What was read and what was found, heaviest first. ``metrics`` maps the table's names of metrics to ours;
    ``unread`` are cells without a number."""

    file: str
    sha256: str
    cells: int
    metrics: dict[str, str]
    unread: tuple[str, ...]
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
            "unread": list(self.unread),
            "findings": [{**asdict(finding), "level": finding.level.value} for finding in self.findings],
        }


def audit_table(path: Path, layout: Path | None = None) -> TableAudit:
    """Audit a tidy table of printed results (a row a value, with columns value, metric, method or as ``layout`` says).

    Raises :class:`scorer.audit.shapes.AuditError` for a file or layout that can't be used.
    """
    table = read_cells(path, read_layout(layout) if layout is not None else Layout())
    findings = [finding for test in TESTS for finding in test(table)]
    findings += [finding for claim in table.layout.kendall for finding in stated.kendall(table, claim)]
    findings += [finding for claim in table.layout.paired for finding in stated.paired(table, claim)]
    return TableAudit(
        file=plain(path),
        sha256=table.sha256,
        cells=len(table.cells),
        metrics={plain(name): ours for name, ours in table.names.items()},
        unread=tuple(plain(one) for one in table.unread),
        findings=tuple(sorted(findings, key=lambda finding: ORDER.index(finding.level))),
    )
