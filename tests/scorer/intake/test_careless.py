"""Tables as people write them in haste: what is mended without loss, and what is told in plain words."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from scorer.intake import NULL
from tests.scorer.intake.tables import csv, decoded, predictions, splits_with, with_column

HEAD = "image_id,model,seed,calibrator,p_1\n"


@pytest.mark.parametrize(
    ("text", "saw", "wanted"),
    [
        ("image_id;model;seed;calibrator;p_1\na;m;1;none;0,5\n", "columns separated by ;", "commas"),
        ("image_id\tmodel\tseed\tcalibrator\tp_1\na\tm\t1\tnone\t0.5\n", "columns separated by tabs", "commas"),
        (
            f"{HEAD}a,m,1,none,0,5\n",
            "6 values under 5 column names: a,m,1,none,0,5",
            "a value per column, with commas between them and a point before decimals",
        ),
        (
            f'{HEAD}a,m,1,none,"0,5"\n',
            "text such as line 2: '0,5': decimal commas",
            "numbers with a decimal point",
        ),
        (f"{HEAD}a,m,1,none,0.1\nb,m,1,none,high\n", "text such as line 3: 'high'", "numbers"),
        (f"{HEAD}a,m,1,none,45.2%\n", "text such as line 2: '45.2%'; looks like percent: divide by 100", "numbers"),
        (f"{HEAD}a,m,1,none,0.5\nb,m,1,none,nan\n", "line 3: nan", "a finite number from 0 to 1, no negative zero"),
        (f",{HEAD}0,a,m,1,none,0.5\n", "a column without a name", "no such column: write with index=False"),
    ],
)
def test_a_careless_csv_is_told_in_plain_words(text: str, saw: str, wanted: str) -> None:
    assert [(p.saw, p.wanted) for p in csv(text).problems] == [(saw, wanted)]


def test_percent_is_told_once_for_the_table() -> None:
    table = predictions("multiclass")
    for name in ("p_0", "p_1", "p_2"):
        table = with_column(table, name, pc.multiply(table[name], 100.0))
    found = decoded(table, "multiclass")
    assert [(p.offence, p.where, p.count) for p in found.problems] == [
        ("probability-not-finite", "predictions.parquet: p_0, p_1, p_2", 20)
    ]
    assert found.problems[0].saw.endswith("; looks like percent: divide by 100")
    assert len(found.problems[0].samples) == 10
    signs = "image_id,model,seed,calibrator,p_0,p_1,p_2\na,m,1,none,20%,30%,50%\n"
    assert [(p.offence, p.where, p.count) for p in csv(signs, "multiclass").problems] == [
        ("wrong-dtype", "predictions.csv: p_0, p_1, p_2", 3)
    ]


def test_percent_hides_nothing_else() -> None:
    table = predictions()
    values = [None, *(40.0 + k for k in range(19))]
    found = decoded(with_column(table, "p_1", pa.array(values)))
    assert [(p.where, p.count) for p in found.problems] == [
        ("predictions.parquet: p_1", 19),
        ("predictions.parquet: p_1", 1),
    ]
    one_off = decoded(with_column(table, "p_1", pa.array([2.0, *([0.5] * 19)])))
    assert [p.saw for p in one_off.problems] == ["row 1: 2.0"]


@pytest.mark.parametrize("file", ["splits.parquet", "splits.csv"])
@pytest.mark.parametrize("values", [[1.0, 0.0, float("nan"), None], [True, False, None, None]])
def test_labels_that_pandas_widened_are_labels(values: list[Any], file: str) -> None:
    found = splits_with("label", pa.array(values * 5), file=file)
    assert found.problems == ()
    assert list(found.arrays["label"][:4]) == [int(values[0]), int(values[1]), NULL, NULL]
    assert found.arrays["label"].dtype == np.int64


@pytest.mark.parametrize("file", ["splits.parquet", "splits.csv"])
def test_folds_and_seeds_may_be_whole_floats(file: str) -> None:
    found = splits_with("fold", pa.array([0.0, 1.0, None, float("nan")] * 5), file=file)
    assert found.problems == ()
    assert list(found.arrays["fold"][:4]) == [0, 1, NULL, NULL]
    seeds = decoded(with_column(predictions(), "seed", pa.array([3.0] * 20)))
    assert seeds.problems == ()
    assert list(seeds.arrays["seed"][:2]) == [3, 3]
    half = decoded(with_column(predictions(), "seed", pa.array([2.5] * 20)))
    assert [(p.offence, p.saw, p.samples) for p in half.problems] == [("wrong-dtype", "numbers such as 2.5", ())]


@pytest.mark.parametrize("file", ["splits.parquet", "splits.csv"])
def test_labels_as_text_are_told_what_to_be(file: str) -> None:
    found = splits_with("label", pa.array(["benign", "malignant"] * 10), file=file)
    assert [p.offence for p in found.problems] == ["wrong-dtype"]
    assert "'benign'" in found.problems[0].saw
    assert found.problems[0].wanted == "the class index, from 0, in the order of task.yaml"


def test_odd_split_names_are_counted() -> None:
    found = splits_with("split", pa.array(["Test"] * 12 + ["training"] * 7 + ["train"]))
    assert [(p.saw, p.count, p.samples) for p in found.problems] == [
        ("'Test' in 12 rows", 19, ("'Test' in 12 rows", "'training' in 7 rows"))
    ]
