"""Printed tables: each test by hand on small tables, and the worked case with its figures."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table import TableAudit, audit_table
from scorer.audit.table.stated import p_values

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "mvc-bench-tables"


def audited(folder: Path, rows: str, layout: str = "") -> dict[str, Finding]:
    """The findings on rows 'dataset,metric,method,value' by code."""
    table = folder / "t.csv"
    table.write_text("dataset,metric,method,value\n" + rows, encoding="utf-8")
    chosen = None
    if layout:
        chosen = folder / "l.yaml"
        chosen.write_text(layout, encoding="utf-8")
    return {finding.code: finding for finding in audit_table(table, chosen).findings}


def test_an_mce_below_its_ece_is_a_contradiction(tmp_path: Path) -> None:
    rows = "a,ECE,x,2.00\na,MCE,x,1.99\na,ECE,y,2.00\na,MCE,y,2.00\nb,ECE,x,5.0\nb,MCE,x,1.0\n"
    found = audited(tmp_path, rows)["mce-below-ece"]
    assert found.title.startswith("2 of 3 cells have an MCE below the ECE (1 by more than 0.01)")
    assert (found.level, found.count) == (Level.CONTRADICTION, 2)
    assert audited(tmp_path, rows, "mce: weighted").keys() == set()
    assert audited(tmp_path, "a,ECE,x,2\na,MCE,x,3\n", "mce: weighted")["mce-above-ece"].count == 1


def test_a_value_that_no_percentage_has(tmp_path: Path) -> None:
    assert audited(tmp_path, "a,Acc,x,101.0\na,Acc,y,100.0\n")["out-of-range"].count == 1
    assert audited(tmp_path, "a,Acc,x,1.01\na,Acc,y,-0.1\n", "scale: fraction")["out-of-range"].count == 2


@pytest.mark.parametrize(("printed", "follows"), [("2.00", True), ("2.01", True), ("1.99", True), ("2.02", False)])
def test_an_average_follows_within_the_rounding_of_parts_and_mean(tmp_path: Path, printed: str, follows: bool) -> None:
    rows = f"a,ECE,x,1.00\nb,ECE,x,3.00\nall,ECE,x,{printed}\n"
    found = audited(tmp_path, rows, "average: {column: dataset, value: all}")
    assert ("average-does-not-follow" not in found) == follows


def test_an_average_outside_its_parts_is_said(tmp_path: Path) -> None:
    rows = "a,ECE,x,1.00\nb,ECE,x,3.00\nall,ECE,x,3.50\n"
    found = audited(tmp_path, rows, "average: {column: dataset, value: all}")["average-does-not-follow"]
    assert "1 lie outside all of them" in found.title
    assert found.samples == ("all, x, ECE: 3.50; its 2 parts give 2.0000 and it lies outside them",)


def test_repeated_values_link_places_one_by_one(tmp_path: Path) -> None:
    base = {m: 1.11 * k for k, m in enumerate("pqrstu", 1)}
    rows = ""
    for place, changed in (("a", "u"), ("b", "p"), ("c", ""), ("d", "pqrstu")):
        rows += "".join(f"{place},ACE,{m},{v + (7.77 if m in changed else 0):.2f}\n" for m, v in base.items())
    found = audited(tmp_path, rows)["values-repeated"]
    assert found.samples == ("ACE: a = b = c",)
    apart = "".join(f"{p},ACE,{m},{v + k * 0.5:.2f}\n" for k, p in enumerate("ab") for m, v in base.items())
    assert "values-repeated" not in audited(tmp_path, apart)
    three = (
        apart.replace("b,ACE,p,1.61", "b,ACE,p,1.11")
        .replace("b,ACE,q,2.72", "b,ACE,q,2.22")
        .replace("b,ACE,r,3.83", "b,ACE,r,3.33")
    )
    assert "values-repeated" not in audited(tmp_path, three)
    assert "values-repeated" in audited(tmp_path, three.replace("b,ACE,s,4.94", "b,ACE,s,4.44"))


def test_methods_that_share_all_metrics(tmp_path: Path) -> None:
    rows = ""
    for place in "ab":
        for k, method in enumerate("xyz"):
            same = place == "b" and method == "z"
            rows += (
                f"{place},Acc,{method},{80 + (1 if same else k)}\n{place},ECE,{method},{2 + (1 if same else k)}.00\n"
            )
    found = audited(tmp_path, rows)["methods-equal"]
    assert found.samples == ("b: y = z",)
    assert "methods-equal" not in audited(tmp_path, rows.replace("b,ECE,z,3.00", "b,ECE,z,3.01"))
    temperature = "a,Acc,x,80\na,Acc,y,80\na,ECE,x,4\na,ECE,y,2\n"  # scaling leaves the accuracy
    assert "methods-equal" not in audited(tmp_path, temperature)


def test_equal_values_throughout_are_no_block(tmp_path: Path) -> None:
    assert not audited(tmp_path, "".join(f"{p},ACE,{m},0.00\n" for p in "ab" for m in "pqrstu"))


def test_cells_unlike_their_peers(tmp_path: Path) -> None:
    rows = "".join(f"{p},Acc,m{k},{70 + k}\n" for p in "ab" for k in range(8)).replace("a,Acc,m3,73", "a,Acc,m3,3.14")
    found = audited(tmp_path, rows)["unlike-its-peers"]
    assert found.samples == ("a, m3, Acc: 3.14 (median of the methods 73.00)",)


def test_more_decimals_than_the_rest(tmp_path: Path) -> None:
    assert audited(tmp_path, "a,ECE,x,1.00\na,ECE,y,2.00\na,ECE,z,3.3333\n")["other-decimals"].samples == (
        "a, z, ECE: 3.3333",
    )


def test_signs_that_are_printed_around_numbers(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("metric,method,value\nECE,x,**1.0**\nECE,y,2.5%\nECE,z,n/r\nECE,w,−1.0\n", encoding="utf-8")
    found = audit_table(table)
    assert (found.cells, found.unread) == (3, ("z, ECE: 'n/r'",))
    assert [f.code for f in found.findings] == ["out-of-range"]


@pytest.mark.parametrize(
    ("rows", "layout", "said"),
    [
        ("a,ECE,x,1\na,ECE,x,2\n", "", "two values for a, x, ECE: 1 and 2"),
        ("a,ECE,x,?\n", "", "is a number"),
        ("a,ECE,x,1\n", "value: score", "no column 'score'"),
        ("a,ECE,x,1\n", "average: {column: data, value: all}", "no column 'data'"),
        ("a,ECE,x,1\n", "scale: permille", "is no layout"),
        ("a,ECE,x,1\n", "surprise: 1", "is no layout"),
        ("a,ECE,x,1\n", "paired: [{name: P, where: {metric: ECE}, first: x, second: y}]", "0 places have both"),
        ("a,ECE,x,1\n", "paired: [{name: P, where: {}, first: x, second: y}]", "must name the metric"),
        (
            "a,ECE,x,1\n",
            "kendall: [{name: K, metric: ECE, methods: [x, y], pairs: [{first: {dataset: a}, second: {dataset: a}}]}]",
            "0 places have ECE of all 2 methods",
        ),
        (
            "a,ECE,x,1\nb,ECE,x,1\na,ECE,y,2\nb,ECE,y,3\n",
            "paired: [{name: P, where: {metric: ECE}, first: x, second: y, mean: about one}]",
            "a number is wanted",
        ),
    ],
)
def test_what_cannot_be_used_is_said(tmp_path: Path, rows: str, layout: str, said: str) -> None:
    with pytest.raises(AuditError, match=said.replace("(", r"\(")):
        audited(tmp_path, rows, layout)


def test_files_that_are_none(tmp_path: Path) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_bytes(b"\x00\x01\x02" * 50)
    for path in (tmp_path / "absent.csv", tmp_path, broken):
        with pytest.raises(AuditError):
            audit_table(path)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 60), min_size=3, max_size=9, unique=True), st.data())
def test_exact_wilcoxon_is_the_share_of_all_signs(sizes: list[int], data: st.DataObject) -> None:
    signs = data.draw(st.lists(st.sampled_from([-1, 1]), min_size=len(sizes), max_size=len(sizes)))
    ranks = stats.rankdata(sizes)
    observed = sum(rank for rank, sign in zip(ranks, signs, strict=True) if sign > 0)
    sums = [
        sum(r for r, up in zip(ranks, ups, strict=True) if up) for ups in itertools.product((0, 1), repeat=len(sizes))
    ]
    p = p_values([float(size * sign) for size, sign in zip(sizes, signs, strict=True)])
    assert p["greater", "exact"] == pytest.approx(np.mean([s >= observed for s in sums]))
    assert p["less", "exact"] == pytest.approx(np.mean([s <= observed for s in sums]))


def test_a_p_value_of_no_difference_is_undefined(tmp_path: Path) -> None:
    rows = "".join(f"{p},ECE,{m},1.00\n" for p in "abc" for m in "xy")
    layout = 'paired: [{name: P, where: {metric: ECE}, first: x, second: y, p: "0.5"}]'
    assert "p-undefined" in audited(tmp_path, rows, layout)


@pytest.fixture(scope="module")
def worked() -> TableAudit:
    return audit_table(EXAMPLE / "tables.csv", EXAMPLE / "layout.yaml")


def test_worked_case_definitions_and_averages(worked: TableAudit) -> None:
    found = {finding.code: finding for finding in worked.findings}
    assert worked.cells == 3288
    assert "574 of 618 cells have an MCE below the ECE (573 by more than 0.01)" in found["mce-below-ece"].title
    assert (
        "10 of 816 averages do not follow from their parts (9 by more than 0.01"
        in found["average-does-not-follow"].title
    )
    assert any("MCM, Acc: 3.14 " in one for one in found["unlike-its-peers"].samples)
    assert any("LS, ECE: 72.21 " in one for one in found["unlike-its-peers"].samples)


def test_worked_case_decimals_are_means_of_three(worked: TableAudit) -> None:
    (found,) = [finding for finding in worked.findings if finding.code == "other-decimals"]
    assert (found.count, found.explanation.split(":")[0]) == (
        830,
        "means of 3 runs that were rounded to 2 decimals",
    )


def test_worked_case_repeats_under_four_backbones(worked: TableAudit) -> None:
    (found,) = [finding for finding in worked.findings if finding.code == "values-repeated"]
    for metric in ("MCE", "ACE"):
        four = f"{metric}: ID, PLIP-DR-B/32, Messidor = ID, PLIP-Histo., PaNuke = ID, QuiltNet-DR-B/32, Messidor = "
        assert any(one.startswith(four) and "QuiltNet-Histo., PaNuke" in one for one in found.samples)


def test_worked_case_figures_of_the_text(worked: TableAudit) -> None:
    stated = [f for f in worked.findings if f.code == "figures-reproduced"]
    assert len(stated) == 19  # table A5, the fourteen rows of table A6, two best counts, two values
    lowest = [f.samples[0] for f in stated if f.title.startswith("MCM lowest")]
    assert lowest == ["best: printed 10, found 10", "best: printed 4, found 4"]
    kendall = next(f for f in stated if f.title.startswith("Table A5"))
    assert kendall.samples == (
        "tests: printed 30, found 30", "mean: printed -0.0598, found -0.0598",
        "median: printed -0.0476, found -0.0476", "negative: printed 17, found 17", "positive: printed 13, found 13",
    )  # fmt: skip
    directed = [f for f in worked.findings if f.code == "p-of-another-alternative"]
    assert len(directed) == 14
    assert all("reproduces only as greater (exact" in f.title for f in directed)
    for name, two in (
        ("ID, Base", ".1763"),
        ("ID, ECCV_ZS", ".0425"),
        ("ID, ECCV_Penalty", ".0010"),
        ("ID, TS", ".0269"),
    ):
        assert any(f.title.startswith(f"Table A6, {name}:") and f"two-sided it is 0{two}" in f.title for f in directed)


def test_the_write_up_has_the_figures_of_the_tool(worked: TableAudit) -> None:
    text = " ".join((EXAMPLE / "README.md").read_text(encoding="utf-8").split())
    for code in ("mce-below-ece", "average-does-not-follow", "values-repeated", "methods-equal"):
        title = next(f.title for f in worked.findings if f.code == code)
        assert title in text
    assert worked.last_line in text


@pytest.mark.parametrize(
    ("file", "code"), [("table-2.csv", "average-does-not-follow"), ("table-a1.csv", "methods-equal")]
)
def test_the_write_up_of_printed_tables(file: str, code: str) -> None:
    found = audit_table(EXAMPLE / file).findings[0]
    assert (found.level, found.code) == (Level.WARNING, code)
    assert found.title in " ".join((EXAMPLE / "README.md").read_text(encoding="utf-8").split())


def test_rows_in_any_order_give_the_same(worked: TableAudit, tmp_path: Path) -> None:
    head, *rows = (EXAMPLE / "tables.csv").read_text(encoding="utf-8").splitlines()
    turned = tmp_path / "turned.csv"
    turned.write_text("\n".join([head, *reversed(rows)]), encoding="utf-8")
    again = audit_table(turned, EXAMPLE / "layout.yaml")
    assert [(f.code, f.title, f.count) for f in again.findings] == [(f.code, f.title, f.count) for f in worked.findings]
