"""Shapes of printed tables: wide by a layout, guessed without one, marks around numbers, and what can't be read."""

import contextlib
import random
import time
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.audit.shapes import AuditError
from scorer.audit.table import alike, audit_table
from scorer.audit.table.cells import Number, number
from scorer.audit.table.layout import Layout, Wide
from scorer.audit.table.reading import read_cells
from tests.scorer.audit.table.conftest import Audited
from tests.splits.test_sheets import xlsx

PRINTED = """Backbone,Metric,ID,,,DS,,
,,Base,ECCV_,Ours,Base,ECCV_,Ours
,,,ZS,(MCM),,ZS,(MCM)
RN50,Acc.,67.87,72.09,67.71,52.29,27.98,51.30
,ECE,4.40,28.26,**2.96**,15.07,18.77,10.26 ± 0.4
ViT,Acc.,69.18,68.56,69.05,32.90,38.51,–
,ECE,4.44%,26.54,<u>3.43</u>,33.68,15.79,\\textbf{20.08}
"""  # the head of a table of the MVC-Bench paper
LAYOUT = """
metric: Metric
wide: {header: [setting, method, method], index: [backbone, Metric]}
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("76.69 ± 0.4", Number("76.69", False, "0.4")),
        ("$76.69 \\pm 0.40$", Number("76.69", False, "0.40")),
        ("**76.69**", Number("76.69", False, "")),
        ("__76.69__↑", Number("76.69", False, "")),
        ("\\underline{\\textbf{76.69}}", Number("76.69", False, "")),
        ("76.69 %", Number("76.69", True, "")),
        ("−0.5", Number("-0.5", False, "")),
        ("1.2e-3", Number("0.0012", False, "")),
        (".5", Number(".5", False, "")),
        ("76,69", None),
        ("1.2 (3.4)", None),
        ("1.2/3.4", None),
        ("inf", None),
        ("٣.٤", None),
        ("1e99", None),
        ("9" * 10_000, None),
        ("±1", None),
    ],
)
def test_numbers_and_their_marks(text: str, wanted: Number | None) -> None:
    assert number(text) == wanted


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_any_text_is_a_finite_number_or_none(text: str) -> None:
    read = number(text)
    assert read is None or abs(float(read.text)) < 1e25


def test_a_printed_table_by_its_layout(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(PRINTED, encoding="utf-8")
    layout = Layout(metric="Metric", wide=Wide(header=["setting", "method", "method"], index=["backbone", "Metric"]))
    table = read_cells(path, layout)
    assert (len(table.cells), table.empty, table.unread) == (23, 1, ())
    by_name = {(*c.place.values(), c.metric, c.method): (c.value, c.spread) for c in table.cells}
    assert by_name["RN50", "ID", "Acc.", "Base"] == (67.87, "")
    assert by_name["RN50", "DS", "ECE", "Ours (MCM)"] == (10.26, "0.4")
    assert by_name["ViT", "ID", "ECE", "Ours (MCM)"] == (3.43, "")
    assert by_name["ViT", "DS", "ECE", "ECCV_ZS"] == (15.79, "")
    assert dict(table.names) == {"Acc.": "accuracy", "ECE": "ece"}


def test_header_cells_in_pieces_and_fixed_metric(audited: Audited) -> None:
    layout = 'wide: {header: ["metric | method"], index: [dataset]}'
    found = audited("Data,ECE | Base,ECE | TS,MCE | Base,MCE | TS\na,2.00,3.00,1.00,4.00\n", layout)
    assert [f.samples for f in found.findings] == [("a, Base: MCE 1.00, ECE 2.00",)]
    layout = "wide: {header: [method], index: [dataset], fixed: {metric: ECE}}"
    assert audited("Data,Base,TS\na,2.00,3.00\n", layout).metrics == {"ECE": "ece"}
    layout = 'wide: {header: ["method | metric"], index: [""], split: _}'
    assert audited("No,Base_ECE\n1,2.00\n", layout).metrics == {"ECE": "ece"}


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ("wide: {header: [metric, x, y, z], index: [dataset]}", "wants 4 header rows"),
        ('wide: {header: ["metric | method"], index: [dataset]}', "has 1 pieces"),
        ("wide: {header: [method], index: [dataset]}", "don't name 'metric'"),
        ("wide: {header: [metric], index: [metric]}", "names 'metric' twice"),
        ("wide: {header: [metric], index: []}", "two values for"),
        ("wide: {header: [], index: [dataset]}", "is no layout"),
    ],
)
def test_a_layout_that_does_not_fit(audited: Audited, layout: str, said: str) -> None:
    with pytest.raises(AuditError, match=said):
        audited("Data,ECE,MCE\na,1.0,2.0\nb,1.0,2.0\n", layout)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Model,Data,ECE (%),MCE (%)\nx,a,2.00,1.00\ny,a,2.00,3.00\n", "a column a metric: 'ECE (%)', 'MCE (%)'"),
        ("Net,What,Result\nx,ECE,2.00\nx,MCE,1.00\n", "metrics in column 'What' (by its content)"),
        ("Measure,k,x\nECE,deep,2.00\nMCE,deep,1.00\n", "values in column 'x' (the only numbers)"),
        ("Method,Metric,A,B\nx,ECE,2.00,2.00\n,MCE,1.00,3.00\n", "values in the columns 'A', 'B'"),
        ("Metric,method,value,std\nECE,x,2.00,0.1\nMCE,x,1.00,0.2\n", "passed over, as spreads of values: 'std'"),
        ("Method,ECE,ECE_sd,MCE\nx,2.00,0.1,1.00\n", "passed over, as spreads of values: 'ECE_sd'"),
        ("Method,ECE,MCE\nx,0.2,0.1\n", "values are fractions: none is above 1"),
    ],
)
def test_shapes_that_are_guessed(audited: Audited, text: str, wanted: str) -> None:
    found = audited(text)
    assert any(wanted in one for one in found.guessed)
    assert [(f.code, f.count) for f in found.findings] == [("mce-below-ece", 1)]


def test_a_guessed_average_is_a_warning_unless_it_lies_outside(audited: Audited) -> None:
    text = "Method,Metric,A,B,Avg\nx,ECE,1.00,3.00,{}\n"
    assert not audited(text.format("2.00")).findings
    (one,) = audited(text.format("2.50")).findings
    assert (one.level.value, one.code) == ("warning", "average-does-not-follow")
    (one,) = audited(text.format("3.50")).findings
    assert one.level.value == "contradiction"


@pytest.mark.parametrize("beside", ["Std", "Avg. (DS)", "Overall", "SE"])
def test_columns_that_are_no_parts_keep_averages_from_being_guessed(audited: Audited, beside: str) -> None:
    assert not audited(f"Method,Metric,A,B,Mean,{beside}\nx,ECE,1.00,3.00,2.00,1.41\n").findings


def test_percent_signs_in_a_table_of_fractions(audited: Audited) -> None:
    found = audited("metric,method,value\nECE,x,0.20\nMCE,x,19%\n", "scale: fraction")
    assert found.findings[0].samples == ("x: MCE 0.19, ECE 0.20",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a,b\nx,y\n", "no column of values"),
        ("metric,method,value\nECE,x,–\n", "no cell is a number"),
        ("Method,ECE,MCE\nx,1,2\nx,1,2\n", "two values for x, ECE"),
        ("metric,method,value\n", "no cell is a number|has no rows|only"),
    ],
)
def test_tables_that_are_none(audited: Audited, text: str, said: str) -> None:
    with pytest.raises(AuditError, match=said):
        audited(text)


def test_excel_parquet_and_other_encodings(tmp_path: Path) -> None:
    frame = pl.DataFrame({"Metric": ["ECE", "MCE"], "Méthode": ["x", "x"], "value": [2.5, 1.5]})
    frame.write_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(frame.write_csv().encode("latin-1"))
    assert [f.count for f in audit_table(tmp_path / "t.parquet").findings] == [1]
    with pytest.raises(AuditError, match="encoding"):
        audit_table(tmp_path / "t.csv")
    assert [f.count for f in audit_table(tmp_path / "t.csv", encoding="latin-1").findings] == [1]
    sheet = xlsx(tmp_path / "t.xlsx", [["Method", "ECE", "MCE"], ["x", 2.5, 1.5]])
    assert [f.count for f in audit_table(sheet).findings] == [1]
    layout = tmp_path / "l.yaml"
    layout.write_text("wide: {header: [setting, metric], index: [method]}")
    sheet = xlsx(tmp_path / "w.xlsx", [["", "ID", "", "DS"], ["", "ECE", "MCE", "ECE"], ["x", 2.5, 1.5, 1]])
    assert audit_table(sheet, layout).findings[0].samples == ("ID, x: MCE 1.5, ECE 2.5",)
    gap = xlsx(tmp_path / "g.xlsx", [["", "ID", None], ["", "ECE", "MCE"], ["x", 2.5, 1.5]])
    with pytest.raises(AuditError, match="save the sheet as CSV"):
        audit_table(gap, layout)


def test_damaged_bytes_end_in_words(tmp_path: Path) -> None:
    made = random.Random(1)
    whole = PRINTED.encode()
    layout = tmp_path / "l.yaml"
    layout.write_text(LAYOUT)
    for turn in range(60):
        raw = bytearray(whole[: made.randrange(1, len(whole))])
        for _ in range(made.randrange(6)):
            raw[made.randrange(len(raw))] = made.randrange(256)
        path = tmp_path / "t.csv"
        path.write_bytes(bytes(raw))
        with contextlib.suppress(AuditError):
            assert audit_table(path, layout if turn % 2 else None).cells


def test_a_large_table_takes_seconds_and_its_copies_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alike, "MOST_PAIRS", 1000)
    made = random.Random(2)
    values = [[f"{made.random() * 9:.2f}" for _ in range(10)] for _ in range(1_000)]
    values[7] = values[900]
    rows = [f"d{n},ECE,m{m},{value}" for n, own in enumerate(values) for m, value in enumerate(own)]
    path = tmp_path / "t.csv"
    path.write_text("dataset,metric,method,value\n" + "\n".join(rows))
    begun = time.perf_counter()
    (found,) = audit_table(path).findings
    assert found.samples == ("ECE: d7 = d900",)
    assert "in a row" in found.assumption
    assert time.perf_counter() - begun < 8  # 100,000 take ten times as long: 20 s are allowed
