"""Claims out of tables."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from scorer.audit.claims import read_claims
from scorer.audit.shapes import AuditError, Loaded


def table(columns: dict[str, Any], **more: Any) -> Loaded:
    """A table as read."""
    return Loaded("claims.csv", pl.DataFrame(columns), "CSV", Path("claims.csv"), "0" * 64, **more)


def test_tidy_rows_keep_printed_decimals() -> None:
    """Metric and value beside what they are of."""
    found = read_claims(
        table({"model": ["a", "b"], "metric": ["ECE", "AUROC"], "value": ["3.40%", "0.910"], "n": ["10", "10"]})
    )
    assert [(one.metric, one.value, one.decimals, one.percent) for one in found] == [
        ("ece", 3.4, 2, True),
        ("auroc", 0.91, 3, False),
    ]
    assert [dict(one.target) for one in found] == [{"model": "a"}, {"model": "b"}]


def test_a_column_a_metric() -> None:
    """Spreads, limits, p-values and differences are no claims; the rest of a name says of what."""
    found = read_claims(
        table(
            {
                "label": ["Hernia", "Edema"],
                "auc": [0.9175, 0.89],
                "auc_lo": [0.9, 0.8],
                "ece_platt": ["0.10", None],
                "ece std": ["0.1", "0.2"],
                "delta_ece": ["0.1", "0.2"],
            },
            precision={"auc": "decimals:4"},
        )
    )
    assert [(one.metric, one.column, one.decimals) for one in found] == [
        ("auroc", "auc", 4),
        ("auroc", "auc", 4),
        ("ece", "ece_platt", 2),
    ]
    assert dict(found[1].target) == {"label": "Edema"}
    assert dict(found[2].target) == {"label": "Hernia", "variant": "platt"}
    assert found[1].text == "0.8900"


def test_binary_numbers_have_the_decimals_that_their_column_needs() -> None:
    """0.12 beside 0.1234 is 0.1200."""
    assert {one.decimals for one in read_claims(table({"ece": [0.12, 0.1234]}))} == {4}
    assert [one.text for one in read_claims(table({"ece": [0.5, None, float("nan")]}))] == ["0.5"]


def test_intervals_and_emphasis_beside_a_number_are_left_out() -> None:
    """The number alone is claimed; a column of percent has no signs left."""
    found = read_claims(table({"ece": ["**0.12**", "0.34 (0.30-0.40)", "0.5±0.1", "-", "n/a"]}))
    assert [one.value for one in found] == [0.12, 0.34, 0.5]
    (one,) = read_claims(table({"ece": [3.4]}, facts={"percent:ece": "1"}, precision={"ece": "decimals:1"}))
    assert one.percent
    assert one.value == 3.4


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"a": ["1"], "b": ["2"]}, "no claim found in the columns a, b"),
        ({"ece": ["soon"]}, "row 1, column ece: 'soon' is no number"),
        ({"ece": ["0.1", "-5"]}, "row 2, column ece"),
        ({"metric": ["quality"], "value": ["1"]}, "row 1: no metric is called 'quality'"),
        ({"ece": ["1"] * 10_001}, "more than 10,000 claims"),
        ({"ece": pl.Series([], dtype=pl.String)}, "no claim found"),
        ({"ece": ["0.1 0.2"]}, "is no number"),
    ],
)
def test_a_table_that_holds_no_claims_is_refused(columns: dict[str, Any], wanted: str) -> None:
    """With the row and the mend."""
    with pytest.raises(AuditError, match=r"claims\.csv") as error:
        read_claims(table(columns))
    assert wanted in str(error.value)


def test_a_table_without_a_header_is_refused() -> None:
    """Its columns name no metric."""
    with pytest.raises(AuditError, match="header"):
        read_claims(table({"column_1": ["0.1"]}, header=False))
