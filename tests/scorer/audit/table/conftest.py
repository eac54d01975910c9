"""A table and a layout as files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from scorer.audit.table import TableAudit, audit_table

Audited = Callable[..., TableAudit]


@pytest.fixture
def audited(tmp_path: Path) -> Audited:
    """The audit of a CSV of ``text`` by a ``layout`` in YAML, or without one."""

    def run(text: str, layout: str = "") -> TableAudit:
        table = tmp_path / "t.csv"
        table.write_text(text, encoding="utf-8")
        if not layout:
            return audit_table(table)
        chosen = tmp_path / "l.yaml"
        chosen.write_text(layout, encoding="utf-8")
        return audit_table(table, chosen)

    return run
