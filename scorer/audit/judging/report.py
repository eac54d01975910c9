"""The outcome of an audit of released predictions."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import polars as pl

from protocol.findings import counted, plain
from scorer.audit.claims import ClaimSearch
from scorer.audit.judging.measure import Measures
from scorer.audit.judging.rows import MetricRow
from scorer.audit.judging.steps import Answer, Step
from scorer.audit.shapes import ORDER, Evidence, Finding, Level

COLUMNS: Mapping[str, pl.DataType] = {
    **dict.fromkeys((field.name for field in fields(MetricRow)), pl.String()),
    **dict.fromkeys(("bins", "n_draws", "n_undefined", "n_units", "n_clusters", "n_events"), pl.Int64()),
    **dict.fromkeys(("cutoff", "value", "lo", "hi"), pl.Float64()),
}


@dataclass(frozen=True)
class PredictionAudit:
    """What was understood, measured, found and searched. ``print(audit)`` shows the last line."""

    evidence: Evidence
    measures: Measures
    findings: tuple[Finding, ...]
    steps: tuple[Step, ...]
    claims: ClaimSearch
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0: findings are what an audit is for."""
        return 0

    @property
    def strict_exit_code(self) -> int:
        """1 where a step is not met, a claim is not reproduced, or there is more than notes."""
        unmet = any(step.answer is Answer.NOT_MET for step in self.steps)
        heavy = any(finding.level is not Level.NOTE for finding in self.findings)
        return int(unmet or heavy or bool(self.claims.of("not reproduced")))

    @property
    def last_line(self) -> str:
        """The outcome in one line."""
        answers = [(answer, sum(step.answer is answer for step in self.steps)) for answer in Answer]
        steps = ", ".join(f"{n} {answer.value}" for answer, n in answers if n)
        levels = [(level.value, sum(finding.level is level for finding in self.findings)) for level in ORDER]
        seen = ", ".join(counted(n, level) for level, n in levels if n) or "no findings"
        claims = f"; {self.claims.summary}" if self.claims.claims else ""
        sets = counted(len(self.evidence.sets), "prediction set")
        return f"MVC AUDIT {sets}; steps: {steps}; {seen}{claims}"

    def __str__(self) -> str:
        return self.last_line

    def __repr__(self) -> str:
        return f"<PredictionAudit {self.last_line}>"

    def to_frame(self) -> pl.DataFrame:
        """Every recomputed metric, a row each, as in :class:`scorer.audit.judging.rows.MetricRow`; null for NaN."""
        data = {name: [getattr(row, name) for row in self.measures.rows] for name in COLUMNS}
        return pl.DataFrame(data, schema=dict(COLUMNS)).with_columns(
            pl.col("value", "lo", "hi").fill_nan(None),
            pl.col("set", "model", "seed", "calibrator", "task", "slice", "class_").map_elements(
                plain, return_dtype=pl.String
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, for one JSON document: NaN is null, text of the files is escaped."""
        evidence = self.evidence
        document = {
            "last_line": self.last_line,
            "exit_code": self.exit_code,
            "unit": evidence.unit,
            "cluster": evidence.cluster,
            "ordered": evidence.ordered,
            "sources": [
                {
                    "name": source.name,
                    "form": source.form,
                    "sha256": source.sha256,
                    "rows": source.frame.height,
                    "columns": source.frame.columns,
                    "facts": dict(source.facts),
                    "notes": source.notes,
                    "roles": [
                        {"role": one.role.value, "columns": one.columns, "by": one.by, "why": one.why}
                        for one in evidence.mapping.get(source.name, ())
                    ],
                }
                for source in evidence.sources
            ],
            "sets": [
                {
                    "title": one.title,
                    "model": one.model,
                    "seed": one.seed,
                    "calibrator": one.calibrator,
                    "task": one.task,
                    "source": one.source,
                    "kind": one.kind,
                    "classes": one.classes,
                    "columns": one.columns,
                    "rows": len(one.scores),
                    "scale": {**asdict(one.scale), "scale": one.scale.scale.value},
                    "notes": one.notes,
                    "unmeasured": self.measures.unmeasured.get(one.title),
                }
                for one in evidence.sets
            ],
            "steps": [
                {
                    "step": step.number,
                    "name": step.name,
                    "answer": step.answer.value,
                    "rules": [{**asdict(item), "answer": item.answer.value} for item in step.items],
                }
                for step in self.steps
            ],
            "findings": [{**asdict(finding), "level": finding.level.value} for finding in self.findings],
            "metrics": [asdict(row) for row in self.measures.rows],
            "draws": self.measures.draws,
            "limits": self.measures.limits,
            "notes": self.notes,
            "claims": self.claims.to_dict(),
        }
        made: dict[str, Any] = jsonable(document)
        return made


def jsonable(value: Any) -> Any:
    """Containers of plain values for JSON: tuples as lists, NaN and infinities as null, texts escaped."""
    if isinstance(value, str):
        return plain(value, 4000)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {plain(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value
