"""That a published split is one's own."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from protocol.types import SplitName
from splits.errors import SplitError
from splits.hashing import write_salt
from splits.making import make
from splits.plan import ColumnNames, Plan
from splits.proving import Proof, read_record, verify
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
        "salt", "metadata", "images", "all images", "columns", "patient_id", "split", "site", "label", "sex", "fold",
        "record", "digest",
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
        (lambda frame: frame.with_columns(name=pl.lit("Smith")), ["columns", "digest"]),
        (lambda frame: frame.with_columns(names=pl.Series([["Smith"]] * 60)), ["columns", "digest"]),
        (lambda frame: frame.with_columns(label=pl.col("label") + 0.5), ["label", "digest"]),
    ],
)  # fmt: skip
def test_what_was_changed_in_the_published_table_is_named(
    made: Made, change: Callable[[pl.DataFrame], pl.DataFrame], wrong: list[str]
) -> None:
    change(pl.read_parquet(made.splits)).write_parquet(made.splits)
    assert made.differing() == wrong


def saw(proof: Proof, name: str) -> str:
    return next(check.saw for check in proof.checks if check.name == name)


@pytest.mark.parametrize("kind", ["order", "writer", "csv", "floats"])
def test_the_same_rows_in_other_bytes_are_the_same_split(made: Made, kind: str) -> None:
    frame = pl.read_parquet(made.splits)
    copy = made.splits if kind != "csv" else made.splits.with_name("splits.csv")
    match kind:
        case "order":
            frame.reverse().select(frame.columns[::-1]).write_parquet(copy)
        case "writer":
            frame.write_parquet(copy, compression="uncompressed")
        case "floats":
            frame.with_columns(pl.col("label", "fold").cast(pl.Float64)).write_parquet(copy)
        case _:
            frame.with_columns(pl.col("fold").cast(pl.Float64)).write_csv(copy)
    proof = verify(copy, read_record(made.record), {"": [made.metadata]}, {}, made.salt)
    assert proof.holds, proof.to_dict()
    assert saw(proof, "digest").endswith("other bytes than the record's, the same rows")
    assert proof.splits_sha256 in saw(proof, "digest")


def test_a_copy_under_a_record_of_another_digest_is_no_proof(made: Made) -> None:
    altered(made, splits_sha256="0" * 64)
    assert made.differing() == ["digest"]
    pl.read_parquet(made.splits).reverse().write_parquet(made.splits)
    proof = made.proof()
    assert [check.name for check in proof.checks if not check.ok] == ["digest"]
    assert "is neither this file's nor that of the file as it is written here" in saw(proof, "digest")


def altered(made: Made, **fields: Any) -> None:
    """``split.json`` with other values; of the plan by the name plan_FIELD."""
    document = json.loads(made.record.read_text())
    for name, value in fields.items():
        part, key = (document["plan"], name[5:]) if name.startswith("plan_") else (document, name)
        assert part[key] != value
        part[key] = value
    made.record.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("kind", "multiclass", "kind is not what the split gives ('multiclass' in the record, wanted 'binary')"),
        ("classes", ["x", "y"], "classes is not what the split gives ('x' in the record, wanted 'no')"),
        ("sites", ["a"], "sites is not what the split gives (1 in the record, 2 wanted)"),
        ("images_per_unit", 7.5, "images_per_unit is not what the split gives ('7.5' in the record, wanted '2.0')"),
        ("notes", ["all is well"], "notes is not what the split gives"),
        ("plan_unit", "lesion", "plan.unit is 'lesion', but the plan names a column of patients"),
    ],
)
def test_what_was_changed_in_the_record_is_named(made: Made, field: str, value: Any, said: str) -> None:
    altered(made, **{field: value})
    proof = made.proof()
    assert [check.name for check in proof.checks if not check.ok] == ["record"]
    assert saw(proof, "record").startswith(said)


def test_a_changed_count_is_named(made: Made) -> None:
    document = json.loads(made.record.read_text())
    document["counts"][1]["images"] += 1
    document["notes"].append("\x1b[31mred")
    made.record.write_text(json.dumps(document))
    proof = made.proof()
    assert [check.name for check in proof.checks if not check.ok] == ["record"]
    assert saw(proof, "record").startswith("counts, notes are not what the split gives (\"{'split': '")
    assert "\x1b" not in saw(proof, "record")


def test_names_of_sources_and_software_are_not_compared(made: Made) -> None:
    sources = json.loads(made.record.read_text())["sources"]
    altered(made, software="mvc-kit 99", sources=[sources[0] | {"name": "renamed.csv"}])
    assert made.proof().holds


def test_another_number_of_sources_is_no_proof(made: Made) -> None:
    sources = json.loads(made.record.read_text())["sources"]
    altered(made, sources=[*sources, sources[0] | {"name": "second.csv"}])
    proof = made.proof()
    assert [check.name for check in proof.checks if not check.ok] == ["metadata"]
    assert saw(proof, "metadata") == "1 files (or folders), but the record has 2 as sources"


@pytest.fixture
def drawn(tmp_path: Path) -> Made:
    """A split with few-shot draws."""
    shares: dict[SplitName, float] = {"train": 0.6, "val": 0.1, "calib": 0.1, "test": 0.2}
    columns = ColumnNames(patient="patient", labels=("grade",))
    folder = tmp_path / "drawn"
    folder.mkdir()
    return write_split(folder, plan_of(columns, proportions=shares, shots=3, shot_seeds=(1, 2)))


def test_few_shot_draws_are_compared_row_by_row(drawn: Made) -> None:
    path = drawn.splits.with_name("few_shot.parquet")
    shots, stated = pl.read_parquet(path), read_record(drawn.record).few_shot_sha256
    assert saw(drawn.proof(), "few_shot") == f"the same {shots.height} rows"
    shots.reverse().write_parquet(path)
    proof = drawn.proof()
    assert proof.holds
    assert saw(proof, "few_shot") == f"the same {shots.height} rows, other bytes"
    other = pl.read_parquet(drawn.splits).filter(~pl.col("image_id").is_in(shots["image_id"].to_list()))["image_id"][0]
    first = pl.int_range(pl.len()) == 0
    for change in (
        shots.with_columns(image_id=pl.when(first).then(pl.lit(other)).otherwise("image_id")),
        shots.with_columns(seed=pl.when(first).then(9).otherwise("seed")),
        shots.with_columns(label=pl.when(first).then(1 - pl.col("label")).otherwise("label")),
        shots.head(shots.height - 1),
        pl.concat([shots, shots.head(1)]),
        shots.with_columns(name=pl.lit("Smith")),
    ):
        change.write_parquet(path)
        assert drawn.differing() == ["few_shot"]
    shots.write_parquet(path)
    altered(drawn, few_shot_sha256="0" * 64)
    assert saw(drawn.proof(), "few_shot").endswith("rows, but the record has another digest of them")
    path.unlink()
    assert drawn.differing() == ["few_shot"]
    altered(drawn, few_shot_sha256=stated)
    assert drawn.proof().holds


def test_draws_that_are_none_of_the_split(made: Made, drawn: Made) -> None:
    shutil.copy(drawn.splits.with_name("few_shot.parquet"), made.splits.with_name("few_shot.parquet"))
    assert made.differing() == ["few_shot"]


@pytest.mark.parametrize("what", ["salt", "record", "splits", "few_shot"])
def test_pipes_are_refused_and_not_waited_for(drawn: Made, what: str) -> None:
    path = drawn.splits.with_name("few_shot.parquet") if what == "few_shot" else getattr(drawn, what)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SplitError, match=r"is a pipe or device; save the \w+ as a file"):
        drawn.proof()


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
