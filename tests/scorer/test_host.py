"""``init_host``: what is published tells no hidden label; what does not fit is all said, and nothing is written."""

import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from protocol.canonical import sha256_hex
from protocol.types import Kind
from scorer import host
from scorer.host import NONCE, FolderTaken, Hosted, init_host
from scorer.host_task import HostError, read_task
from scorer.signing import load_key, public_hex
from submission.files import sha256_file
from submission.writing import to_yaml
from tests.builders import good_submission

HIDDEN = pl.col("split").is_in(("test", "external"))


class Files:
    """The host's own files, before a task is made of them; ``make`` writes them and makes it."""

    def __init__(self, folder: Path, kind: Kind = "binary") -> None:
        draft = good_submission(kind)
        self.folder, self.task = folder, draft.task
        self.labels = [name for name in draft.splits.columns if name.startswith("label")]
        self.splits = draft.splits
        self.truth: pl.DataFrame | None = draft.splits.filter(HIDDEN).select("image_id", *self.labels)

    def make(self, form: str = "parquet", **options: Any) -> Hosted:
        (self.folder / "task.yaml").write_bytes(to_yaml(self.task))
        places = {"splits": self.folder / f"splits.{form}", "truth": self.folder / f"truth.{form}"}
        for name, table in (("splits", self.splits), ("truth", self.truth)):
            if table is not None:
                table.write_csv(places[name]) if form == "csv" else table.write_parquet(places[name])
        truth = None if self.truth is None else places["truth"]
        place = self.folder / "hosted"
        return init_host(place, task=self.folder / "task.yaml", splits=places["splits"], truth=truth, **options)

    def problems(self, **options: Any) -> tuple[str, ...]:
        with pytest.raises(HostError) as caught:
            self.make(**options)
        assert sorted(path.name for path in self.folder.iterdir() if path.suffix not in (".yaml", ".parquet")) == []
        return caught.value.problems


def inputs(folder: Path) -> dict[str, Any]:
    """The arguments that name the files of `Files`."""
    return {"task": folder / "task.yaml", "splits": folder / "splits.parquet", "truth": folder / "truth.parquet"}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
@pytest.mark.parametrize("form", ["parquet", "csv"])
@pytest.mark.parametrize("apart", [True, False])
def test_labels_of_test_and_external_move_into_the_truth(tmp_path: Path, kind: Kind, form: str, apart: bool) -> None:
    files = Files(tmp_path, kind)
    full = files.splits
    if apart:
        files.splits = full.with_columns(pl.when(HIDDEN).then(None).otherwise(pl.col(files.labels)).name.keep())
    else:
        files.truth = None
    made = files.make(form)
    public, private = made.folder / "public", made.folder / "private"
    splits, truth = pl.read_parquet(public / "splits.parquet"), pl.read_parquet(private / "truth.parquet")
    assert splits.columns == [name for name in full.columns if name not in ("sex", *files.labels)] + [
        *files.labels,
        "sex",
    ]
    assert splits["image_id"].is_sorted()  # the order of the host's rows may follow the labels
    assert truth["image_id"].is_sorted()
    assert splits.filter(HIDDEN).select(files.labels).null_count().row(0) == (made.images,) * len(files.labels)
    joined = splits.filter(HIDDEN).drop(files.labels).join(truth, on="image_id")
    again = pl.concat([splits.filter(~HIDDEN), joined.select(splits.columns)]).sort("image_id")
    assert again.equals(full.select(splits.columns).sort("image_id"))
    assert read_task(public / "task.yaml") == made.task
    assert made.task.splits_sha256 == sha256_file(public / "splits.parquet")
    assert made.task.truth_sha256 == sha256_file(private / "truth.parquet")
    assert made.task.hosted


def test_what_is_private_is_for_the_owner_alone(files: Files) -> None:
    made = files.make()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.folder.rglob("*")}
    assert (modes["private"], modes["truth.parquet"], modes["host.key"]) == (0o700, 0o600, 0o600)
    assert sorted(modes) == sorted(
        ["public", "private", "task.yaml", "splits.parquet", "host.pub", "truth.parquet", "host.key"]
    )
    assert made.task.host_key == public_hex(load_key(made.folder / "private" / "host.key"))


def test_nothing_of_the_hosts_own_file_is_published_but_its_columns(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "splits.parquet"
    made = files.make()
    labelled = pq.read_table(path).replace_schema_metadata({b"note": b"labels: 0 1 1 0"})
    pq.write_table(labelled, path)
    again = init_host(tmp_path / "again", **inputs(tmp_path))
    data = (again.folder / "public" / "splits.parquet").read_bytes()
    assert data == (made.folder / "public" / "splits.parquet").read_bytes()
    assert pq.read_schema(again.folder / "public" / "splits.parquet").metadata is None


def test_the_digest_of_the_truth_can_not_be_guessed(files: Files, tmp_path: Path) -> None:
    first = files.make()
    second = init_host(tmp_path / "second", **inputs(tmp_path))
    tables = [pq.read_schema(made.folder / "private" / "truth.parquet") for made in (first, second)]
    nonces = [(table.metadata or {}).get(NONCE, b"").decode() for table in tables]
    assert len(set(nonces)) == 2
    assert all(len(bytes.fromhex(nonce)) == 32 for nonce in nonces)
    assert first.task.truth_sha256 != second.task.truth_sha256
    tables = [pq.read_table(made.folder / "private" / "truth.parquet") for made in (first, second)]
    assert tables[0].equals(tables[1])


def test_caps_of_a_hosted_task(files: Files) -> None:
    assert (
        files.make().task.caps.model_dump()
        == {"max_runs": host.MAX_RUNS, "quota": host.QUOTA}
        == {
            "max_runs": 60,
            "quota": 20,
        }
    )


def test_caps_that_the_host_wrote_stay(files: Files) -> None:
    files.task["caps"] = {"quota": None}
    assert files.make().task.caps.model_dump() == {"max_runs": 60, "quota": None}


def test_further_columns_of_the_truth_are_kept(files: Files) -> None:
    assert files.truth is not None
    files.truth = files.truth.with_columns(device=pl.lit("a"))
    made = files.make()
    assert pl.read_parquet(made.folder / "private" / "truth.parquet")["device"].unique().to_list() == ["a"]


def test_labels_as_pandas_writes_them(tmp_path: Path) -> None:
    files = Files(tmp_path, "multilabel")
    assert files.truth is not None
    files.truth = files.truth.with_columns(pl.col(files.labels).cast(pl.Float64).fill_null(float("nan")))
    made = files.make()
    kept = pl.read_parquet(made.folder / "private" / "truth.parquet")
    assert kept.schema["label_0"] == pl.Int64
    assert kept["label_0"].null_count() > 0


def test_a_host_without_patients(files: Files) -> None:
    files.splits = files.splits.with_columns(patient_id=pl.lit(None, pl.String))
    made = files.make()
    assert "patient_id" not in pl.read_parquet(made.folder / "public" / "splits.parquet").columns


Change = Callable[[pl.DataFrame], pl.DataFrame]
FIRST, LAST = pl.int_range(pl.len()) == 0, pl.int_range(pl.len()) == pl.len() - 1


def cell(column: str, value: Any, row: pl.Expr = FIRST) -> Change:
    return lambda frame: frame.with_columns(pl.when(row).then(pl.lit(value)).otherwise(pl.col(column)).alias(column))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: frame.head(-2), "truth: 2 images of test or external missing: "),
        (lambda frame: pl.concat([frame, frame.head(1)]), "truth: 1 image listed twice: "),
        (cell("image_id", "0" * 64), f"truth: 1 image that the splits don't have in test or external: {'0' * 64}"),
        (cell("image_id", None), "truth: 1 row without image_id"),
        (cell("label", 2), "label: 1 label outside 0 to 1 (MVC108): "),
        (cell("label", -1), "label: 1 label outside 0 to 1 (MVC108): "),
        (cell("label", None), "label: 1 label missing (MVC108): "),
        (lambda frame: frame.drop("label"), "truth.parquet: no column label; it has image_id"),
        (lambda frame: frame.rename({"image_id": "id"}), "truth.parquet: no column image_id; it has id, label"),
        (lambda frame: frame.with_columns(pl.col("label") + 0.5), "truth.parquet: label holds double, wanted whole"),
        (lambda frame: frame.with_columns(label=pl.lit("b")), "truth.parquet: label holds large_string, wanted whole"),
        (lambda frame: frame.with_columns(image_id=pl.lit(1)), "truth.parquet: image_id holds int32, wanted text"),
        (lambda frame: frame.with_columns(label=1 - pl.col("label")), "truth: label differs from the split file's for"),
        (lambda frame: frame.head(0), "truth.parquet: 0 rows, wanted one row or more"),
        (
            lambda frame: frame.with_columns(site=pl.lit("a")),
            "truth.parquet: site can't be a subgroup, as further columns",
        ),
        (
            lambda frame: frame.with_columns(scar=pl.lit("")),
            "truth.parquet: scar can't be a subgroup, as further columns",
        ),
    ],
)
def test_a_truth_that_does_not_fit_is_said(files: Files, change: Change, told: str) -> None:
    assert files.truth is not None
    files.truth = change(files.truth)
    assert [line for line in files.problems() if line.startswith(told)]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda frame: frame.filter(pl.col("split") != "test"), "splits: no row with test (MVC106)"),
        (lambda frame: pl.concat([frame, frame.head(1)]), "splits: 1 image listed twice (MVC102, MVC114): "),
        (cell("image_id", "patient 7"), "splits: 1 identifier in image_id not hashed (MVC103): patient 7"),
        (cell("patient_id", "7"), "splits: 1 identifier in patient_id not hashed (MVC103): 7"),
        (
            cell("patient_id", sha256_hex(b"7")),
            f'splits: 1 identifier in patient_id can be reversed (MVC104): {sha256_hex(b"7")} = sha256("7")',
        ),
        (lambda frame: frame.with_columns(mrn=pl.lit("8")), "splits: 1 column of personal data (MVC704): mrn"),
        (
            lambda frame: cell("patient_id", frame["patient_id"][-1])(frame),
            "splits: 1 patient in two splits (MVC101, MVC602): ",
        ),
        (lambda frame: frame.with_columns(site=pl.lit("a")), "splits: external sites that are development sites too"),
        (lambda frame: frame.drop("sex"), "splits: no column sex, which the task names as a subgroup (MVC603)"),
        (cell("sex", "other", LAST), "splits: sex: 1 level that the task does not name (MVC603): other"),
        (
            lambda frame: frame.with_columns(sex=pl.lit("male")),
            "splits: sex: 1 level of the task without an image in test (MVC603): female",
        ),
        (lambda frame: frame.drop("site"), "splits.parquet: site: no such column, wanted the column site"),
        (cell("split", "holdout"), "splits.parquet: split: 'holdout' in 1 row"),
        (cell("label", 5, pl.col("split") == "calib"), "label: 120 labels outside 0 to 1 (MVC108): "),
    ],
)
def test_splits_that_no_submission_could_use_are_said(files: Files, change: Change, told: str) -> None:
    files.task["subgroups"] = [{"column": "sex", "levels": ["female", "male"]}]
    files.splits = change(files.splits)
    assert [line for line in files.problems() if line.startswith(told)]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"edition": "2020"}, "task.yaml: edition 2020, wanted"),
        ({"target": " "}, "task.yaml: blank: target (MVC112)"),
        ({"truth_sha256": "a" * 64}, "task.yaml: truth_sha256 is set; leave it out"),
        ({"host_key": "a" * 64}, "task.yaml: host_key is set; leave it out"),
        ({"splits_sha256": "a" * 64}, "task.yaml: splits_sha256 is set; leave it out"),
        ({"kind": "ternary"}, "task.yaml: kind: "),
        ({"surprise": 1}, "task.yaml: surprise: unknown key"),
    ],
)
def test_a_draft_that_does_not_fit_is_said(files: Files, fields: dict[str, Any], told: str) -> None:
    files.task |= fields
    assert [line for line in files.problems() if line.startswith(told)]


def test_every_problem_comes_at_once(files: Files) -> None:
    assert files.truth is not None
    files.task["target"] = ""
    files.truth = pl.concat([files.truth.head(-1), files.truth.head(1)])
    files.splits = files.splits.with_columns(site=pl.lit("a"))
    assert len(files.problems()) == 4


def test_a_split_file_without_labels_needs_a_truth(files: Files) -> None:
    files.truth = None
    files.splits = files.splits.with_columns(label=pl.when(~HIDDEN).then("label"))
    assert files.problems() == ("the split file has no labels of test and external; give --truth TABLE (MVC108)",)


@pytest.mark.parametrize("split", ["calib", "test"])
def test_an_absent_class_is_said_unless_allowed(files: Files, split: str) -> None:
    files.truth = None
    one = pl.when(pl.col("split") == split).then(1).otherwise("label").cast(pl.Int64)
    files.splits = files.splits.with_columns(label=one)
    told = f"{split}: no image of class benign (MVC107)"
    assert files.problems() == (f"{told}; --allow-absent-class publishes the task all the same",)
    assert files.make(allow_absent_class=True).absent == (told,)


def test_an_absent_finding_is_said(tmp_path: Path) -> None:
    files = Files(tmp_path, "multilabel")
    assert files.truth is not None
    files.truth = None
    files.splits = files.splits.with_columns(label_1=pl.when(pl.col("split") != "test").then("label_1").otherwise(0))
    assert [line.partition(";")[0] for line in files.problems()] == ["test: no image of effusion = 1 (MVC107)"]


def test_cross_fitting_tasks_have_no_calibration_split(files: Files) -> None:
    files.splits = files.splits.filter(pl.col("split") != "calib")
    assert files.make().absent == ()


@pytest.mark.parametrize("table", ["splits", "truth"])
@pytest.mark.parametrize(
    "data",
    [b"", b"hello", b"PAR1" + b"\0" * 90, b"\x80\x04", b"\xff\xfe\0"],
    ids=["empty", "text", "no footer", "pickle", "bytes"],
)
def test_a_table_that_can_not_be_read_is_said(files: Files, tmp_path: Path, table: str, data: bytes) -> None:
    files.make()
    options = inputs(tmp_path)
    options[table].write_bytes(data)
    with pytest.raises(HostError, match=f"{table}.parquet"):
        init_host(tmp_path / "again", **options)
    assert not (tmp_path / "again").exists()


def test_only_a_new_or_empty_folder_is_used(files: Files, tmp_path: Path) -> None:
    (tmp_path / "hosted").mkdir()
    made = files.make()
    before = sha256_hex((made.folder / "private" / "host.key").read_bytes())
    with pytest.raises(FolderTaken, match="exists and is not an empty folder"):
        files.make()
    assert sha256_hex((made.folder / "private" / "host.key").read_bytes()) == before
    options = inputs(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "to empty").symlink_to("empty")
    for taken in ("task.yaml", "to empty"):
        with pytest.raises(FolderTaken):
            init_host(tmp_path / taken, **options)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FolderTaken):
        init_host(tmp_path / "link", **options)
    assert init_host(tmp_path / "deep" / "er", **options).folder.is_dir()
