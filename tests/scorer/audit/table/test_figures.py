"""Figures of the text against the table, p-values under every reading, and accuracies that are counts of images."""

from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table.comparing import agrees, chance_of
from scorer.audit.table.granularity import reachable, reachable_share
from scorer.audit.table.layout import Images
from scorer.audit.table.stated import p_values
from tests.scorer.audit.table.conftest import Audited

HEAD = "dataset,metric,method,value\n"
ROWS = HEAD + "a,ECE,x,1.00\na,ECE,y,2.00\nb,ECE,x,4.00\nb,ECE,y,3.00\nc,ECE,x,5.00\nc,ECE,y,5.00\nAll,ECE,x,3.33\n"
AVERAGE = "average: {column: dataset, value: All}\n"


def by_code(found: tuple[Finding, ...]) -> dict[str, Finding]:
    return {finding.code: finding for finding in found}


@pytest.mark.parametrize(
    ("claim", "code", "said"),
    [
        ("of: value, where: {dataset: All, method: x}, printed: '3.33'", "figures-reproduced", "found 3.3300"),
        ("of: value, where: {dataset: All, method: x}, printed: '3.3'", "figures-reproduced", "found 3.3300"),
        ("of: value, where: {dataset: All, method: x}, printed: '3.34'", "figures-differ", "found 3.3300"),
        ("of: mean, where: {method: x}, printed: '3.33'", "figures-reproduced", "found 3.3333"),  # no average in it
        ("of: mean, where: {method: x}, printed: '3.36'", "figures-differ", "found 3.3333"),
        ("of: median, where: {method: [x, y]}, printed: '3.50'", "figures-reproduced", "found 3.5000"),
        ("of: min, where: {method: y}, printed: '2.0'", "figures-reproduced", "found 2.0000"),
        ("of: max, where: {method: y}, printed: '5.01'", "figures-differ", "found 5.0000"),
    ],
)
def test_figures(audited: Audited, claim: str, code: str, said: str) -> None:
    found = by_code(audited(ROWS, f"{AVERAGE}figures: [{{name: F, {claim}}}]").findings)[code]
    assert said in found.samples[0]
    assert "by chance in" in found.chance


@pytest.mark.parametrize(
    ("claim", "said"),
    [
        ("where: {method: x}, printed: '1'", "chooses 3 cells; wanted one"),
        ("where: {model: x}, printed: '1'", "no column 'model'; it has dataset, metric, method"),
        ("where: {method: z}, of: mean, printed: '1'", "chooses 0 cells"),
        ("where: {method: x, dataset: a}, printed: '50%'", "a number is wanted"),
    ],
)
def test_figures_that_cannot_be_found(audited: Audited, claim: str, said: str) -> None:
    with pytest.raises(AuditError, match=said):
        audited(ROWS, f"{AVERAGE}figures: [{{name: F, {claim}}}]")


@pytest.mark.parametrize(
    ("claim", "wrong"),
    [
        ("method: x, best: 1, of: 3", ""),
        ("method: x, best: 2, of: 3", ""),  # the tie counts for both
        ("method: x, best: 3", "best"),
        ("method: y, best: 1, lowest: false", ""),
        ("method: x, mean_rank: '1.5'", ""),
        ("method: x, mean_rank: '1.4', of: 4", "of, mean_rank"),
    ],
)
def test_ranks(audited: Audited, claim: str, wrong: str) -> None:
    found = audited(ROWS, f"{AVERAGE}ranks: [{{name: R, where: {{metric: ECE}}, {claim}}}]").findings[-1]
    assert found.code == ("figures-differ" if wrong else "figures-reproduced")
    assert not wrong or f"; {wrong} do not" in found.title
    assert "best alone at 1 and shares the best value at 1" in found.assumption


def test_the_direction_of_an_unknown_metric_is_asked_for(audited: Audited) -> None:
    rows, layout = HEAD + "a,F7,x,90.0\na,F7,y,80.0\n", "ranks: [{{name: R, where: {{}}, method: x, best: 1{}}}]"
    with pytest.raises(AuditError, match="Add lowest: true or false"):
        audited(rows, layout.format(""))
    assert audited(rows, layout.format(", lowest: false")).findings[0].code == "figures-reproduced"


def test_accuracy_is_best_where_it_is_highest(audited: Audited) -> None:
    layout = "ranks: [{name: R, where: {}, method: x, best: 1, of: 1}]"
    assert audited(HEAD + "a,Acc,x,90.0\na,Acc,y,80.0\n", layout).findings[0].code == "figures-reproduced"


@pytest.mark.parametrize("kind", ["pearson", "spearman", "kendall"])
def test_correlations(audited: Audited, kind: str) -> None:
    x, y = [70.0, 75.0, 80.0, 85.0, 90.0, 91.0], [9.0, 7.5, 8.0, 3.0, 5.0, 2.0]
    rows = HEAD + "".join(
        f"d{n},Acc,m,{a:.1f}\nd{n},ECE,m,{e:.1f}\n" for n, (a, e) in enumerate(zip(x, y, strict=True))
    )
    test = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}[kind]
    r, p = test(x, y)  # type: ignore[operator]
    less = test(x, y, alternative="less").pvalue  # type: ignore[operator]
    claim = f"kind: {kind}, x: {{metric: Acc}}, y: {{metric: ECE}}, r: '{r:.4f}'"
    layout = "correlations: [{{name: C, {}, p: '{}'}}]"
    found = by_code(audited(rows, layout.format(claim, f"{p:.5f}")).findings)
    assert found.keys() == {"figures-reproduced", "p-reproduced"}
    found = by_code(audited(rows, layout.format(claim, f"{less:.5f}")).findings)
    assert "reproduces only as less" in found["p-of-another-alternative"].title
    assert "p-not-reproduced" in by_code(audited(rows, layout.format(claim, "0.98765")).findings)
    with pytest.raises(AuditError, match="same columns"):
        audited(rows, layout.format(f"kind: {kind}, x: {{metric: Acc}}, y: {{dataset: d1}}", "0.1"))


def test_zeros_of_the_signed_rank_test_are_named() -> None:
    gaps = [0.0, 0.0, 1.0, -2.0, 3.0, 4.5, 5.0, -0.5]
    found = p_values(gaps)
    assert found["two-sided", "exact, zeros dropped"] == pytest.approx(p_values(gaps[2:])["two-sided", "exact"])
    pratt = stats.wilcoxon(gaps, zero_method="pratt", method="approx", alternative="greater").pvalue
    split = stats.wilcoxon(gaps, zero_method="zsplit", method="approx", alternative="greater").pvalue
    assert found["greater", "normal, zeros after Pratt"] == pytest.approx(pratt)
    assert found["greater", "normal, zeros split"] == pytest.approx(split)
    assert pratt != split


def test_what_a_printed_number_agrees_with() -> None:
    assert agrees("<0.001", 0.0009)
    assert not agrees("p < 0.001", 0.0011)
    assert agrees("0.05", 0.0549)
    assert chance_of("0.50", 0.0, 1.0) == pytest.approx(0.01)
    assert chance_of("<0.05", 0.0, 1.0) == pytest.approx(0.05)
    assert chance_of(3, 0, 9) == pytest.approx(0.1)


@pytest.mark.parametrize(("n", "seeds", "places"), [(7, 1, 2), (7, 3, 1), (96, 1, 1), (733, 1, 2), (250, 4, 2)])
def test_reachable_is_what_counting_gives(n: int, seeds: int, places: int) -> None:
    scale = 100 * 10**places
    every = [Fraction(k * scale, n * seeds) for k in range(n * seeds + 1)]
    wanted = (
        {int(v) for v in every}
        | {int(v + Fraction(1, 2)) for v in every}
        | {-int(-(v - Fraction(1, 2)) // 1) for v in every}
    )
    images = Images(column="d", n={"a": n}, seeds=seeds)
    found = reachable(np.arange(scale + 1) / 10**places, places, n, images)
    assert set(np.flatnonzero(found).tolist()) == {v for v in wanted if 0 <= v <= scale}
    assert reachable_share(places, n, images) == pytest.approx(len(wanted & set(range(scale + 1))) / (scale + 1))
    fraction = reachable(np.arange(scale + 1) / 10**places, places + 2, n, images, 0.01)
    assert (fraction == found).all()


def test_accuracies_that_no_count_gives(audited: Audited) -> None:
    rows = HEAD + "a,Acc,x,71.43\na,Acc,y,71.44\nb,Acc,x,71.44\na,ECE,x,71.44\n"
    found = by_code(audited(rows, "images: {column: dataset, n: {a: 7}}").findings)["accuracy-of-no-count"]
    assert (found.level, found.count) == (Level.CONTRADICTION, 1)
    assert found.title.startswith("1 of 2 accuracies")
    assert found.samples[0].startswith("a, y, Acc: 71.44; of 7 images 5 = 71.4286 and 6 = 85.7143")
    assert "99.9% with n = 7" in found.chance
    clean = by_code(audited(rows.replace("y,71.44", "y,85.71"), "images: {column: dataset, n: {a: 7}}").findings)
    assert clean["accuracies-are-counts"].level is Level.NOTE


def test_means_of_runs_explain_several(audited: Audited) -> None:
    rows = HEAD + "a,Acc,x,33.50\na,Acc,y,66.83\na,Acc,z,12.67\n"  # thirds of percents
    found = by_code(audited(rows, "images: {column: dataset, n: {a: 200}}").findings)["accuracy-of-no-count"]
    assert all("means of 3 runs would give all" in one for one in found.samples)
    assert "accuracies-are-counts" in by_code(
        audited(rows, "images: {column: dataset, n: {a: 200}, seeds: 3}").findings
    )


def test_no_power_for_many_images(audited: Audited) -> None:
    found = by_code(audited(HEAD + "a,Acc,x,71.44\n", "images: {column: dataset, n: {a: 20000}}").findings)
    assert found.keys() == {"counts-untestable"}
    assert "100.0% of all numbers" in found["counts-untestable"].samples[0]
    with pytest.raises(AuditError, match="no accuracy has one of c"):
        audited(HEAD + "a,Acc,x,71.44\n", "images: {column: dataset, n: {c: 7}}")
    with pytest.raises(AuditError, match="no column 'set'"):
        audited(HEAD + "a,Acc,x,71.44\n", "images: {column: set, n: {c: 7}}")


def test_an_average_weighted_by_images_is_said(audited: Audited) -> None:
    rows = HEAD + "a,Acc,x,80.0\nb,Acc,x,60.0\nAll,Acc,x,75.0\n"
    found = by_code(audited(rows, AVERAGE + "images: {column: dataset, n: {a: 30, b: 10}}").findings)
    assert "1 of them follow when the parts are weighted" in found["average-does-not-follow"].explanation
