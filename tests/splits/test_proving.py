"""That a published split is one's own; the same hashes in other tables."""

import datetime
import decimal
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from splits.errors import SplitError
from splits.hashing import hash_identifier, read_salt, write_salt
from splits.making import make
from splits.plan import ColumnNames, Plan
from splits.proving import Proof, hash_table, read_record, salt_for, verify
from splits.sources import load, settled
from splits.writing import write
from tests.splits.test_making import Cells, plan_of, simple

SALT = bytes(range(32))


@dataclass
class Made:
    """A metadata table and its split."""

    metadata: Path
    out: Path

    @property
    def splits(self) -> Path:
        return self.out / "public" / "splits.parquet"

    @property
    def record(self) -> Path:
        return self.out / "public" / "split.json"

    @property
    def salt(self) -> Path:
        return self.out / "private" / "salt"

    def proof(self, salt: Path | None = None) -> Proof:
        return verify(self.splits, read_record(self.record), {"": [self.metadata]}, {}, salt or self.salt)

    def differing(self) -> list[str]:
        return [check.name for check in self.proof().checks if not check.ok]


def csv(path: Path, cells: dict[str, Cells]) -> Path:
    pl.DataFrame(cells).write_csv(path)
    return path


def cells() -> dict[str, Cells]:
    return simple(
        patient=[f"P{place // 2:03}" for place in range(60)], sex=["F" if place % 4 else None for place in range(60)]
    )


PLAN = plan_of(ColumnNames(patient="patient", labels=("grade",), site="site", subgroups=("sex",)), folds=2)


def write_split(folder: Path, plan: Plan = PLAN, **changes: Cells) -> Made:
    metadata = csv(folder / "metadata.csv", cells() | changes)
    gathered, sources = load(plan, {"": [metadata]}, {})
    plan = settled(plan, gathered)
    write(folder / "out", make(gathered, plan), plan, sources)
    return Made(metadata, folder / "out")


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return write_split(tmp_path)


def test_the_owner_can_prove_it(made: Made) -> None:
    proof = made.proof()
    assert proof.holds
    assert [check.name for check in proof.checks] == [
        "salt", "metadata", "images", "all images", "patient_id", "split", "site", "label", "sex", "fold", "digest",
    ]  # fmt: skip
    assert json.loads(json.dumps(proof.to_dict()))["holds"] is True
    assert proof.splits_sha256 == read_record(made.record).splits_sha256


def test_another_order_of_rows_and_columns_is_the_same_split(made: Made) -> None:
    frame = pl.read_csv(made.metadata, infer_schema_length=0)
    frame.select(frame.columns[::-1]).reverse().write_csv(made.metadata, separator=";")
    proof = made.proof()
    assert proof.holds
    assert "other bytes" in next(check.saw for check in proof.checks if check.name == "metadata")


def test_a_stranger_can_not(made: Made, tmp_path: Path) -> None:
    write_salt(tmp_path / "other", SALT)
    wrong = [check.name for check in made.proof(tmp_path / "other").checks if not check.ok]
    assert {"salt", "images", "all images"} <= set(wrong)


def _relabel(frame: pl.DataFrame) -> pl.DataFrame:
    turned = pl.when(pl.int_range(pl.len()) == 5).then(1 - pl.col("label")).otherwise("label")
    return frame.with_columns(turned.alias("label"))


def _swap(frame: pl.DataFrame) -> pl.DataFrame:
    names = {"train": "test", "test": "train"}
    return frame.with_columns(pl.col("split").replace(names))


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (_relabel, ["label", "digest"]),
        (_swap, ["split", "digest"]),
        (lambda frame: frame.with_columns(site=pl.lit("a")), ["site", "digest"]),
        (lambda frame: frame.with_columns(sex=pl.lit(None, pl.String)), ["sex", "digest"]),
        (lambda frame: frame.drop("fold"), ["fold", "digest"]),
        (lambda frame: frame.head(59), ["all images", "digest"]),
        (lambda frame: pl.concat([frame, frame.head(1)]), ["images", "digest"]),
        (lambda frame: frame.with_columns(image_id=pl.col("patient_id") + pl.col("image_id").str.head(3)),
         ["images", "all images", "patient_id", "split", "site", "label", "sex", "fold", "digest"]),
        (lambda frame: frame.reverse(), ["digest"]),
    ],
)  # fmt: skip
def test_what_was_changed_in_the_published_table_is_named(
    made: Made, change: Callable[[pl.DataFrame], pl.DataFrame], wrong: list[str]
) -> None:
    change(pl.read_parquet(made.splits)).write_parquet(made.splits)
    assert made.differing() == wrong


def test_what_was_changed_in_the_metadata_is_named(made: Made) -> None:
    frame = pl.read_csv(made.metadata, infer_schema_length=0)
    frame.with_columns(sex=pl.lit("F")).write_csv(made.metadata)
    assert made.differing() == ["sex"]
    frame.with_columns(image=pl.col("image").str.replace("^000$", "new")).write_csv(made.metadata)
    assert {"images", "all images"} <= set(made.differing())


def test_a_published_table_without_its_columns(made: Made) -> None:
    pl.read_parquet(made.splits).drop("site").write_parquet(made.splits)
    with pytest.raises(SplitError, match="there is no column 'site'"):
        made.proof()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"no such file; mvc split make writes one beside splits\.parquet"),
        (b"", r"is no split record \(: Invalid JSON"),
        (b"[1]", "is no split record"),
        (b'{"format": "mvc-split-2"}', r"is no split record \(format: "),
        (b"\xff\xfe{}", "is no split record"),
    ],
)
def test_records_that_are_none(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "split.json").write_bytes(content)
    with pytest.raises(SplitError, match=said) as error:
        read_record(tmp_path / "split.json")
    assert "\n" not in str(error.value)
    with pytest.raises(SplitError, match="can't be read"):
        read_record(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        (("dataset",), "nothing", "there is no data set 'nothing'; there are "),
        (("recipe",), "nothing", "there is no recipe 'nothing'; there are "),
        (("columns", "patient"), None, "60 images have no patient"),
        (("columns", "patient"), "", "there is no column ''"),
        (("columns", "labels"), [], "no column is named for the labels"),
        (("columns", "labels"), [""], "there is no column ''"),
        (("columns", "labels"), ["patient"], "is named for two things"),
        (("columns", "subgroups"), ["patient"], "'patient' can't be a subgroup"),
        (("encoding",), "rot13", "is no text encoding"),
        (("proportions",), {"train": 0.5, "external": 0.5}, "split external can't be drawn"),
        (("proportions",), {}, "the proportions sum to 0"),
        (("external",), ["a", "b"], "every site is external"),
        (("classes",), ["x"], "which is not among --classes x"),
        (("folds",), 1000, "1000 folds of"),
    ],
)
def test_plans_that_can_not_be_followed(made: Made, place: tuple[str, ...], value: Any, said: str) -> None:
    document = json.loads(made.record.read_text())
    part = document["plan"]
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    made.record.write_text(json.dumps(document))
    with pytest.raises(SplitError, match=said):
        made.proof()


def test_the_salt_of_another_split_is_refused(made: Made, tmp_path: Path) -> None:
    assert salt_for(made.salt, made.record, new=False) == (read_salt(made.salt), False)
    salt, new = salt_for(tmp_path / "fresh", None, new=True)
    assert new
    assert read_salt(tmp_path / "fresh") == salt
    with pytest.raises(SplitError, match="holds another salt than the split of"):
        salt_for(tmp_path / "fresh", made.record, new=False)
    with pytest.raises(SplitError, match="a salt is never overwritten"):
        salt_for(tmp_path / "fresh", None, new=True)
    with pytest.raises(SplitError, match="can't be written"):
        salt_for(tmp_path / "none" / "fresh", None, new=True)
    with pytest.raises(SplitError, match="no such salt file"):
        salt_for(tmp_path / "none", None, new=False)


def test_a_table_of_predictions_is_hashed_alike(made: Made, tmp_path: Path) -> None:
    names = cells()
    table = csv(tmp_path / "p.csv", {"p": ["0.50"] * 60, "image": names["image"], "patient": names["patient"]})
    salt = read_salt(made.salt)
    assert hash_table(table, tmp_path / "h.csv", salt, record=made.record) == {"image_id": 60, "patient_id": 30}
    hashed = pl.read_csv(tmp_path / "h.csv", infer_schema_length=0)
    assert hashed.columns == ["p", "image_id", "patient_id"]
    assert hashed["p"].to_list() == ["0.50"] * 60
    published = pl.read_parquet(made.splits)
    assert set(hashed.select("image_id", "patient_id").rows()) == set(published.select("image_id", "patient_id").rows())


def test_patients_of_each_site_are_hashed_alike(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(patient="patient", labels=("grade",), site="site"), patients_per_site=True)
    made = write_split(tmp_path, plan)
    hash_table(made.metadata, tmp_path / "h.parquet", read_salt(made.salt), record=made.record)
    pairs = [
        pl.read_parquet(path).select("image_id", "patient_id").rows() for path in (tmp_path / "h.parquet", made.splits)
    ]
    assert set(pairs[0]) == set(pairs[1])


def hashed(table: Path, out: str = "h.csv", **options: Any) -> pl.DataFrame:
    path = table.parent / out
    hash_table(table, path, SALT, namespace="n", **options)
    return pl.read_parquet(path) if path.suffix == ".parquet" else pl.read_csv(path, infer_schema_length=0)


def parquet_of(folder: Path, **columns: Any) -> Path:
    parquet.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


def test_windows_paths_numbers_and_blanks_around_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(' image ;pid;p\nx\\a.png; 7 ;"1,5"\nb;8;2\n')
    frame = hashed(tmp_path / "t.csv", patient="pid")
    wanted = [hash_identifier(SALT, "n/image", name) for name in ("x/a.png", "b")]
    assert frame["image_id"].to_list() == wanted
    assert frame["patient_id"].to_list() == [hash_identifier(SALT, "n/patient", name) for name in ("7", "8")]
    assert frame["p"].to_list() == ["1,5", "2"]
    typed = hashed(parquet_of(tmp_path, **{" image ": [7.0, 8.0], "p": [0.5, 0.25], "l": [[1], [2]]}), "h.parquet")
    assert typed["image_id"].to_list() == [hash_identifier(SALT, "n/image", name) for name in ("7", "8")]
    assert typed.schema["p"] == pl.Float64
    assert typed["l"].to_list() == [[1], [2]]


def test_image_id_can_be_the_column_of_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image_id,p\na,1\n")
    assert hashed(tmp_path / "t.csv")["image_id"].to_list() == [hash_identifier(SALT, "n/image", "a")]


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("image,image_id\na,b\n", {}, "'image' and 'image_id' could each be the images"),
    ("image,image_id\na,b\n", {"image": "image"}, "has a column 'image_id' already; drop it, or name it with --image"),
    ("pic,p\na,1\n", {}, "none is named like one"),
    ("image,p\na,1\n", {"image": "img"}, r"there is no column 'img'; did you mean 'image'\?"),
    ("image,p\na,1\n", {"patient": "who"}, "there is no column 'who'"),
    ("image,p\na,1\n", {"patient": "image", "image": "image"}, "'image' is named for images and patients"),
    ("image,p\na,1\n,2\n", {}, "column 'image' is empty in 1 rows"),
    ("image,who\na,1\nb,\n", {"patient": "who"}, "column 'who' is empty in 1 rows"),
    ("image,who,site\na,1,x\nb,2,\n", {"patient": "who", "site": "site"}, "column 'site' is empty in 1 rows"),
    ("image,who\na,1\n", {"patient": "who", "site": "site"}, "there is no column 'site'"),
    ("image,p\n", {}, "has a header and no row"),
    ("", {}, "is empty"),
    ("image,p\na,1\n", {"encoding": "base64"}, "no text encoding"),
]


@pytest.mark.parametrize(("text", "options", "said"), REFUSED)
def test_tables_that_can_not_be_hashed_leave_nothing(
    tmp_path: Path, text: str, options: dict[str, Any], said: str
) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(SplitError, match=said):
        hashed(tmp_path / "t.csv", **options)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


@pytest.mark.parametrize(
    ("values", "out", "said"),
    [
        (pa.array([[1], [2]]), "h.csv", "column 'x' holds lists or bytes, which no CSV can; name a .parquet file"),
        (pa.array([b"1", b"2"]), "h.csv", "column 'x' holds lists or bytes"),
        (pa.array([decimal.Decimal(1)] * 2, pa.decimal256(50, 1)), "h.parquet", "can't be read with its types"),
        (
            pa.array([datetime.datetime(2020, 1, 2)] * 2, pa.timestamp("us", "No/Where")),
            "h.parquet",
            "can't be read with",
        ),
    ],
)
def test_types_that_can_not_be_kept(tmp_path: Path, values: pa.Array, out: str, said: str) -> None:
    table = parquet_of(tmp_path, image=pa.array(["a", "b"]), x=values)
    with pytest.raises(SplitError, match=said) as error:
        hashed(table, out)
    assert "\n" not in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["t.parquet"]


@pytest.mark.parametrize("out", ["t.csv", "."])
def test_what_is_there_is_kept(tmp_path: Path, out: str) -> None:
    (tmp_path / "t.csv").write_text("image,p\na,1\n")
    with pytest.raises(SplitError, match="exists; name a new file"):
        hashed(tmp_path / "t.csv", out)
    assert (tmp_path / "t.csv").read_text() == "image,p\na,1\n"
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SplitError, match="exists; name a new file"):
        hashed(tmp_path / "t.csv", "link.csv")
