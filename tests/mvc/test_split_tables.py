"""``mvc split make`` and ``hash`` on tables whose cells are not what they seem."""

import datetime
import json
from pathlib import Path

import polars as pl
import pytest

from tests.mvc.test_split import OPTIONS, ROWS, metadata, run


def test_a_table_gives_one_split_whatever_its_format(tmp_path: Path) -> None:
    """Whole numbers as floats, truth values and midnights are spelled alike in CSV and Parquet, and hashed alike."""
    frame = pl.DataFrame(
        {
            "image": [float(index) for index in range(ROWS)],
            "patient": [float(index // 3 + 100) for index in range(ROWS)],
            "sick": [index % 4 == 0 for index in range(ROWS)],
            "seen": [datetime.datetime(2020, 1 + index % 2, 1) for index in range(ROWS)],
        }
    )
    frame.write_parquet(tmp_path / "m.parquet")
    written = frame.with_columns(
        pl.col("image", "patient").cast(pl.String), sick=pl.col("sick").replace_strict({True: "True", False: "False"})
    )
    written.with_columns(pl.col("seen").dt.date()).write_csv(tmp_path / "m.csv")
    assert "\n1.0,100.0,False,2020-02-01\n" in (tmp_path / "m.csv").read_text()
    options = ("--patient", "patient", "--label", "sick", "--subgroup", "seen", "--salt-file", tmp_path / "salt")
    (tmp_path / "salt").write_text("5e" * 32 + "\n")
    (tmp_path / "salt").chmod(0o600)
    for kind in ("csv", "parquet"):
        done = run("make", tmp_path / f"m.{kind}", *options, "--namespace", "m", "--out", tmp_path / kind)
        assert done.exit_code == 0, done.output
    one, other = (tmp_path / kind / "public" / "splits.parquet" for kind in ("csv", "parquet"))
    assert one.read_bytes() == other.read_bytes()
    record = json.loads((tmp_path / "csv" / "public" / "split.json").read_text())
    assert record["classes"] == ["false", "true"]
    for kind in ("csv", "parquet"):
        to = tmp_path / f"hashed-{kind}.csv"
        arguments = ("--record", tmp_path / "csv/public/split.json", "--salt-file", tmp_path / "salt", "--out", to)
        assert run("hash", tmp_path / f"m.{kind}", *arguments).exit_code == 0
        hashed = pl.read_csv(to).select("image_id", "patient_id")
        assert hashed.sort("image_id").equals(pl.read_parquet(one).select("image_id", "patient_id").sort("image_id"))


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"patient": ["NA", *["7"] * (ROWS - 1)]}, (), "'patient' is empty or 'NA' in 1 of 240 rows"),
        ({"patient": ["7\u200b", *["7"] * (ROWS - 1)]}, (), r"'patient' holds '7\u200b' (row 1; 1 such cells)"),
        ({"patient": ["1.8e+16", *["7"] * (ROWS - 1)]}, (), "numbers that lost digits"),
        ({"hospital": ["B", "b", "A"] * (ROWS // 3)}, ("--site", "hospital", "--external", "B"), "one site or two?"),
        ({"case": [f"SMITH {row // 3}" for row in range(ROWS)]}, ("--subgroup", "case"), "can't be a subgroup"),
        ({}, ("--patients-per-site",), "--patients-per-site"),
    ],
)
def test_what_would_part_merge_or_name_patients_is_refused(
    tmp_path: Path, changes: dict[str, list[str]], options: tuple[str, ...], said: str
) -> None:
    done = run("make", metadata(tmp_path, **changes), *OPTIONS, *options, "--out", tmp_path / "out")
    assert done.exit_code in (1, 2), done.output
    assert said in done.stderr
    assert not (tmp_path / "out").exists()


def test_two_classes_need_an_order_that_is_known_or_named(tmp_path: Path) -> None:
    named = metadata(tmp_path, grade=["nevus", "melanoma", "nevus", "nevus"] * (ROWS // 4))
    options = ("--patient", "patient", "--label", "grade")
    done = run("make", named, *options, "--out", tmp_path / "a")
    assert done.exit_code == 1
    assert "'melanoma' and 'nevus': which is the positive class? Say --classes NEGATIVE,POSITIVE" in done.stderr
    assert run("make", named, *options, "--classes", "nevus,melanoma", "--out", tmp_path / "a").exit_code == 0
    known = metadata(tmp_path, grade=["normal", "abnormal", "normal", "normal"] * (ROWS // 4))
    done = run("make", known, *options, "--out", tmp_path / "b")
    assert "class order is that of these words (0 normal, 1 abnormal)" in done.stdout
