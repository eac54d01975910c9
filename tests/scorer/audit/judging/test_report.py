"""The report: one JSON document, a table of metrics, and a last line that agrees with both."""

import json

import numpy as np
import polars as pl

from scorer.audit.claims import ClaimSearch
from scorer.audit.judging.findings import findings_of
from scorer.audit.judging.measure import measure
from scorer.audit.judging.releases import Facts
from scorer.audit.judging.report import PredictionAudit
from scorer.audit.judging.steps import steps_of
from scorer.audit.shapes import Evidence
from tests.scorer.audit.made import drawn, evidence, prediction_set


def audited(made: Evidence) -> PredictionAudit:
    measures = measure(made, most=50)
    findings = findings_of(made, measures)
    return PredictionAudit(made, measures, findings, steps_of(Facts(made, measures, findings)), ClaimSearch(()))


def test_json_has_no_nan_and_no_control_character() -> None:
    p, y = drawn(40)
    y[:] = 1
    found = audited(evidence(prediction_set(p, y, name="a\x1b[31m\u202eb")))
    text = json.dumps(found.to_dict(), allow_nan=False, ensure_ascii=False)
    assert r"a\\x1b[31m\\u202eb" in text
    assert "\u202e" not in text
    (auroc,) = [row for row in found.to_dict()["metrics"] if row["metric"] == "auroc"]
    assert auroc["value"] is None
    assert auroc["reason"]


def test_frame_and_last_line() -> None:
    p, y = drawn(200)
    found = audited(evidence(prediction_set(p, y), prediction_set(p, None, name="blind")))
    frame = found.to_frame()
    assert frame.height == len(found.measures.rows)
    assert frame.filter(pl.col("metric") == "ece")["n_clusters"].to_list() == [200]
    assert found.last_line.startswith("MVC AUDIT 2 prediction sets; steps: ")
    assert (found.exit_code, found.strict_exit_code) == (0, 1)  # two sets are equal
    assert repr(found) == f"<PredictionAudit {found}>"


def test_nothing_to_measure() -> None:
    found = audited(evidence(prediction_set(np.empty(0), np.empty(0, dtype=np.int64))))
    assert found.to_frame().height == 0
    assert found.measures.unmeasured == {"score": "no labels"}
