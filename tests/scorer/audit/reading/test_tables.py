"""Text tables and Excel sheets: headers, numbers, printed precision, what file names tell."""

from pathlib import Path

import polars as pl
import pytest

from scorer.audit.reading import long, read
from scorer.audit.reading.delimited import LONG
from scorer.audit.shapes import AuditError, Loaded
from tests.splits.datasets.real import released
from tests.splits.test_sheets import xlsx


def one(folder: Path, text: str, name: str = "p.csv") -> Loaded:
    """The single table of a file with ``text``."""
    (folder / name).write_text(text, encoding="utf-8")
    (loaded,) = read(folder / name)
    return loaded


def test_whole_numbers_stay_text_and_decimals_become_numbers(tmp_path: Path) -> None:
    loaded = one(tmp_path, "id,label,p,q\n007,1,0.25, 1e-05\n008,,NA,0.5\n009,0,1,?\n")
    assert loaded.frame["id"].to_list() == ["007", "008", "009"]
    assert loaded.frame["label"].to_list() == ["1", None, "0"]
    assert loaded.frame["p"].to_list() == [0.25, None, 1.0]
    assert loaded.frame["q"].to_list() == [1e-05, 0.5, None]
    assert dict(loaded.precision) == {"p": "decimals:2", "q": "decimals:1"}
    assert loaded.header
    assert loaded.form == "text"
    assert len(loaded.sha256) == 64


@pytest.mark.parametrize(
    ("cells", "decimals"),
    [
        (["1e-05", "0.001"], "decimals:5"),  # none is large: the smallest tell
        (["-0.1533", "0.1"], "decimals:4"),
        (["4.500e-01", "1.25e-01"], "decimals:4"),
        (["-11.513", "3.3"], "decimals:3"),
        (["0.0", "1.0"], "decimals:1"),
        (["inf", "2.50"], "decimals:2"),
    ],
)
def test_printed_decimals(tmp_path: Path, cells: list[str], decimals: str) -> None:
    loaded = one(tmp_path, "id,p\n" + "".join(f"a,{cell}\n" for cell in cells))
    assert dict(loaded.precision) == {"p": decimals}


def test_a_column_with_one_word_stays_text(tmp_path: Path) -> None:
    loaded = one(tmp_path, "id,p\n" + "".join(f"{n},0.{n}\n" for n in range(300)) + "a,low\n")
    assert loaded.frame["p"].dtype == pl.String
    assert not loaded.precision


def test_percent_signs_keep_percent_and_are_said(tmp_path: Path) -> None:
    loaded = one(tmp_path, "id,p\na,12.5 %\nb,3%\nc,\n")
    assert loaded.frame["p"].to_list() == [12.5, 3.0, None]
    assert loaded.facts["percent:p"] == "1"
    assert "percent" in loaded.notes[0]
    mixed = one(tmp_path, "id,p\na,12.5 %\nb,3\n")
    assert mixed.frame["p"].dtype == pl.String
    assert not mixed.facts


def test_decimal_commas_only_where_they_are_no_thousands(tmp_path: Path) -> None:
    loaded = one(tmp_path, "id;p;n\na;0,25;1,234\nb;1;2,345\n")
    assert loaded.frame["p"].to_list() == [0.25, 1.0]
    assert loaded.frame["n"].to_list() == ["1,234", "2,345"]
    assert loaded.precision["p"] == "decimals:2"
    assert any("decimal commas" in note for note in loaded.notes)
    assert any("thousands" in note for note in loaded.notes)
    assert one(tmp_path, 'id,p\na,"0,25"\n').frame["p"].dtype == pl.String


def test_printed_lists_become_columns(tmp_path: Path) -> None:
    loaded = one(tmp_path, 'id,probs\na,"[0.25, 0.75]"\nb,[1. 0.]\nc,\n')
    assert loaded.frame.columns == ["id", "probs_0", "probs_1"]
    assert loaded.frame["probs_1"].to_list() == [0.75, 0.0, None]
    assert loaded.precision["probs_0"] == "decimals:2"
    for cut in ("id,probs\na,[0.1 ... 0.9]\n", "id,probs\na,[0.1 0.9]\nb,[0.1]\n", "probs_0,probs\na,[0.5]\n"):
        assert one(tmp_path, cut).frame["probs"].dtype == pl.String


@pytest.mark.parametrize(
    ("text", "header"),
    [
        ("0\n3\n2\n", False),  # WILDS
        ("0,0.9,0.1\n1,0.2,0.8\n", False),  # MedMNIST
        ("0,1,2\n0.1,0.2,0.7\n", True),  # pandas counts unnamed columns
        ("0\n0.25\n0.75\n", True),
        ("0,1\n1,0\n", False),
        ("10_left.jpeg,0\n10_right.jpeg,1\n", False),
        ("case_12,0.25\ncase_13,0.5\n", False),
        ("id,0.25\ncase_13,0.5\n", True),
        ("file_name\na.png\n", True),
        ("image,cancer\na.png,0\n", True),
        (",0,1\n0,0.5,0.5\n", True),
        ("a.png\nb.png\n", False),
    ],
)
def test_whether_the_first_row_names_the_columns(tmp_path: Path, text: str, header: bool) -> None:
    loaded = one(tmp_path, text)
    assert loaded.header is header
    assert loaded.frame.height == len(text.splitlines()) - header
    assert header or loaded.frame.columns[0] == "column_1"


def test_file_names_tell_facts(tmp_path: Path) -> None:
    wilds = one(tmp_path, "0\n1\n", "camelyon17_split:test_seed:0_epoch:best_pred.csv")
    assert dict(wilds.facts) == {"dataset": "camelyon17", "split": "test", "seed": "0", "epoch": "best"}
    medmnist = one(tmp_path, "0,0.9,0.1\n1,0.2,0.8\n", "breastmnist_test_[AUC]0.901_[ACC]0.863@resnet18.csv")
    assert dict(medmnist.facts) == {
        **{"dataset": "breastmnist", "split": "test", "claim:auc": "0.901", "claim:accuracy": "0.863"},
        **{"index": "column_1", "model": "resnet18"},
    }
    assert dict(one(tmp_path, "id,p\na,0.5\n", "swin_seed3_fold2.csv").facts) == {"seed": "3", "fold": "2"}


def test_a_sheet(tmp_path: Path) -> None:
    (loaded,) = read(xlsx(tmp_path / "p.xlsx", [["id", "p"], ["a", 0.25], ["b", 1]]))
    assert loaded.form == "xlsx"
    assert loaded.frame["p"].to_list() == [0.25, 1.0]


def test_long_text_in_pieces_is_as_short_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "".join(f"{n:05d}, {n / 7000:.6f},{n},{'x' if n == 4999 else n / 10}\n" for n in range(5000))
    short = one(tmp_path, "id,p,whole,late\n" + rows)
    monkeypatch.setattr("scorer.audit.reading.delimited.LONG", 1)
    monkeypatch.setattr(long, "BLOCK", 1 << 12)
    pieces = one(tmp_path, "id,p,whole,late\n" + rows)
    assert LONG > 1
    assert pieces.frame.equals(short.frame)
    assert pieces.frame.schema == {"id": pl.String, "p": pl.Float64, "whole": pl.String, "late": pl.String}
    assert dict(pieces.precision) == dict(short.precision) == {"p": "decimals:6"}
    percent = one(tmp_path, "id;p;q\n" + "".join(f"{n};{n % 100}%;0,{n}\n" for n in range(2000)))
    assert percent.facts["percent:p"] == "1"
    assert set(percent.precision) == {"p", "q"}
    with pytest.raises(AuditError, match=r"3 cells where the first row has 2"):
        one(tmp_path, "id,p\na,0.5\nb,0.5,1\n")


@pytest.mark.parametrize(
    ("repository", "path", "shape", "numbers"),
    [
        ("jrzech+reproduce-chexnet", "pretrained/preds.csv", (22433, 15), 14),
        ("hayden-farquhar+PanRareWSI", "results/oof_predictions.csv", (2146, 7), 1),
        ("mlmed+torchxrayvision", "torchxrayvision/data/Data_Entry_2017_v2020.csv.gz", (112120, 11), 2),
        ("mikevoets+jama16-retina-replication", "vendor/messidor/messidor_gradability_grades.csv", (1187, 2), 0),
    ],
)
def test_released_tables(repository: str, path: str, shape: tuple[int, int], numbers: int) -> None:
    (loaded,) = read(released(repository, path))
    assert loaded.frame.shape == shape
    assert loaded.header
    assert sum(kind == pl.Float64 for kind in loaded.frame.dtypes) == numbers == len(loaded.precision)
