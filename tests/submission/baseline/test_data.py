"""Reading a split and finding its images: whatever their folders, and with what is missing said."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
import yaml

from splits.hashing import hash_identifier, new_salt, read_salt, write_salt
from submission.baseline.data import Pool, read_pool
from submission.baseline.errors import BaselineError
from submission.example import example
from submission.files import sha256_file
from submission.writing import to_yaml
from tests.submission.baseline.hospital import Hospital, hospital, picture


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return hospital(tmp_path_factory.mktemp("hospital"))


@pytest.fixture
def own(made: Hospital, tmp_path: Path) -> Hospital:
    """A copy to be changed."""
    shutil.copytree(made.folder, tmp_path / "own")
    return Hospital(tmp_path / "own", made.table)


def names_of(own: Hospital) -> dict[str, str]:
    salt = read_salt(own.private / "salt")
    return {hash_identifier(salt, "clinic/image", name): name for name in own.table["image"]}


def found(pool: Pool, names: dict[str, str]) -> dict[str, str]:
    """The file of each image, by the name that the image has in the table."""
    pictures = pool.pictures(pool.splits["image_id"])
    return {names[one.image_id]: one.path.relative_to(pool.images).as_posix() for one in pictures}


def moved(own: Hospital, to: Callable[[str], str], ending: str = "") -> None:
    """Give every image file the name that ``to`` makes of its name in the table; the private list goes."""
    old = own.images.rename(own.folder / "old")
    for name in own.table["image"]:
        new = own.images / f"{to(name)}{ending}"
        new.parent.mkdir(parents=True, exist_ok=True)
        (old / f"{name}{ending}").rename(new)
    (own.private / "images.csv").unlink(missing_ok=True)


def refused(own: Hospital, match: str, *, task: Path | None = None, salt: Path | None = None) -> None:
    with pytest.raises(BaselineError, match=match):
        read_pool(own.splits, own.images, task=task, salt=salt)


def changed(own: Hospital, **columns: pl.Expr) -> None:
    frame = pl.read_parquet(own.splits).with_columns(**columns)
    frame.write_parquet(own.splits)


def test_a_split_is_read_with_its_files_labels_and_task(made: Hospital) -> None:
    pool = read_pool(made.splits, made.images)
    names = names_of(made)
    assert found(pool, names) == {name: name for name in made.table["image"]}
    assert pool.splits["image_id"].is_sorted()
    assert (pool.task.kind, pool.task.classes, pool.task.name) == ("binary", ("healthy", "sick"), "clinic")
    assert pool.task_file is None
    grades = dict(made.table.select("image", "grade").iter_rows())
    ids = list(reversed(pool.splits["image_id"].to_list()))
    assert [("healthy", "sick")[label] for label in pool.labels(ids)] == [grades[names[image]] for image in ids]
    assert set(pool.evaluated["split"]) == {"calib", "test", "external"}
    assert pool.subgroups == [{"column": "sex", "levels": ["female", "male"]}]
    assert pool.sha256 == sha256_file(made.splits)


def test_images_in_further_folders_are_found_by_the_end_of_their_path(own: Hospital) -> None:
    moved(own, lambda name: f"deep/er/{name}")
    expected = {name: f"deep/er/{name}" for name in own.table["image"]}
    assert found(read_pool(own.splits, own.images), names_of(own)) == expected


@pytest.mark.parametrize(("name", "ending"), [("{:03}.png", ""), ("{:03}", ".png")], ids=["base name", "stem"])
def test_images_are_found_by_base_name_and_without_their_ending(tmp_path: Path, name: str, ending: str) -> None:
    own = hospital(tmp_path, name=name, ending=ending, patients=40)
    moved(own, lambda one: f"a/b/{one}", ending)
    expected = {one: f"a/b/{one}{ending}" for one in own.table["image"]}
    assert found(read_pool(own.splits, own.images), names_of(own)) == expected


def test_files_named_by_image_id_need_no_salt(own: Hospital, tmp_path: Path) -> None:
    names = {name: image for image, name in names_of(own).items()}
    moved(own, lambda name: f"{names[name]}.png")
    alone = tmp_path / "alone" / "splits.parquet"
    alone.parent.mkdir()
    shutil.copyfile(own.splits, alone)
    pool = read_pool(alone, own.images, classes=("healthy", "sick"))
    assert not pool.found.salted
    assert len(pool.pictures(pool.splits["image_id"])) == own.table.height
    assert (pool.record, pool.described, pool.task.name) == (None, None, "baseline-task")


def test_names_of_the_private_list_find_what_hashes_do_not(own: Hospital) -> None:
    listed = (own.private / "images.csv").read_bytes()
    moved(own, lambda name: name.removeprefix("scans/"))
    pool = read_pool(own.splits, own.images)
    with pytest.raises(BaselineError, match=r"120 of 120 images .* each file must have the name"):
        pool.pictures(pool.splits["image_id"])
    (own.private / "images.csv").write_bytes(listed)
    assert found(read_pool(own.splits, own.images), names_of(own))["scans/007.png"] == "007.png"


def test_an_exact_path_wins_and_two_equal_ones_are_said(tmp_path: Path) -> None:
    own = hospital(tmp_path, name="{:03}.png", patients=40)
    for number in range(own.table.height):
        picture(own.images / "masks" / f"{number:03}.png", number)
    pool = read_pool(own.splits, own.images)
    assert found(pool, names_of(own)) == {name: name for name in own.table["image"]}
    moved(own, lambda name: f"scans/{name}")
    picture(own.images / "masks" / "007.png", 1)
    pool = read_pool(own.splits, own.images)
    with pytest.raises(
        BaselineError, match=r"1 of 80 images lie in more than one file, .* masks/007.png and scans/007"
    ):
        pool.pictures(pool.splits["image_id"])


def test_missing_images_are_counted_by_split_with_names_where_they_are_known(own: Hospital) -> None:
    pool = read_pool(own.splits, own.images)
    names = names_of(own)
    gone = [*pool.part("calib")["image_id"][:2], *pool.part("test")["image_id"][:1]]
    for image in gone:
        (own.images / names[image]).unlink()
    pool = read_pool(own.splits, own.images)
    with pytest.raises(BaselineError) as caught:
        pool.pictures(pool.evaluated["image_id"])
    assert f"3 of {pool.evaluated.height} images have no file there (2 of calib, 1 of test)" in str(caught.value)
    assert repr(names[gone[0]]) in str(caught.value) or repr(names[gone[2]]) in str(caught.value)
    assert pool.pictures(pool.part("train")["image_id"])
    shutil.rmtree(own.private)
    pool = read_pool(own.splits, own.images)
    with pytest.raises(BaselineError, match="only files named by image_id can be found: give --salt-file FILE"):
        pool.pictures(pool.evaluated["image_id"])


def test_the_salt_must_be_that_of_the_split(own: Hospital, tmp_path: Path) -> None:
    write_salt(tmp_path / "other", new_salt())
    refused(own, "is another salt than that of the split", salt=tmp_path / "other")
    refused(own, "no such file", salt=tmp_path / "none")
    (tmp_path / "text").write_text("salt")
    refused(own, "is not a salt file", salt=tmp_path / "text")
    kept = (own.private / "salt").rename(tmp_path / "kept")
    assert len(read_pool(own.splits, own.images, salt=kept).found.paths) == 120


def test_what_can_not_be_evaluated_is_refused_before_training(own: Hospital) -> None:
    whole = own.splits.read_bytes()

    def after(match: str, **columns: pl.Expr) -> None:
        changed(own, **columns)
        refused(own, match)
        own.splits.write_bytes(whole)

    split = pl.col("split")
    after(
        "no row of split calib, and calibrators are fitted on it; make the split anew",
        split=split.replace("calib", "val"),
    )
    after("no row of split test", split=split.replace("test", "val"))
    after("rows of calib have no label", label=pl.when(split != "calib").then("label"))
    after(
        "rows of test and external have no label, and the task clinic is not hosted",
        label=pl.when(split != "test").then("label"),
    )
    after(r"labels such as 5 are none of the 2 classes", label=pl.col("label") * 5)
    after("column label holds String", label=pl.lit("sick"))
    after("images are listed twice", image_id=pl.lit("a" * 64))
    after("split 'holdout'; there are train", split=split.replace("test", "holdout"))
    after("has not 'male'", sex=pl.when(split == "external").then("sex").otherwise(pl.lit("female")))
    after("column split is empty in", split=pl.when(split != "val").then("split"))
    frame = pl.read_parquet(own.splits)
    frame.drop("site").write_parquet(own.splits)
    refused(own, "has no column site")
    frame.rename({"label": "label_0"}).write_parquet(own.splits)
    refused(own, "holds findings")
    own.splits.write_bytes(whole[:-9])
    refused(own, "can't be read as Parquet")
    own.splits.unlink()
    refused(own, "no such file; mvc split make writes one")


def test_folds_do_not_stand_in_for_calib(tmp_path: Path) -> None:
    own = hospital(tmp_path, proportions={"train": 0.6, "test": 0.4}, folds=3)
    refused(own, "folds for cross-fitting are not used")


def test_the_task_is_given_lies_beside_or_is_drafted(own: Hospital, tmp_path: Path) -> None:
    task = {**example("binary").task, "name": "given", "splits_sha256": sha256_file(own.splits)}
    given = tmp_path / "given.yaml"
    given.write_bytes(to_yaml(task))
    pool = read_pool(own.splits, own.images, task=given)
    assert (pool.task.name, pool.task_file) == ("given", given.read_bytes())
    (own.public / "task.yaml").write_bytes(to_yaml({**task, "name": "beside"}))
    assert read_pool(own.splits, own.images).task.name == "beside"
    given.write_bytes(to_yaml({**task, "splits_sha256": "0" * 64}))
    refused(own, "take the split file that the task was published with", task=given)
    given.write_bytes(to_yaml(example("multilabel").task))
    refused(own, "is multilabel", task=given)
    given.write_bytes(b"edition: [")
    refused(own, "given.yaml", task=given)
    refused(own, "can't be read", task=tmp_path / "none.yaml")


def test_classes_in_another_order_are_refused(own: Hospital, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match=r"classes of the configuration: sick, healthy; .* write them so"):
        read_pool(own.splits, own.images, classes=("Sick", "healthy"))
    assert read_pool(own.splits, own.images, classes=("a sick eye", "a healthy eye")).task.classes[0] == "healthy"
    task = tmp_path / "task.yaml"
    task.write_bytes(to_yaml({**example("binary").task, "classes": ["sick", "healthy"]}))
    refused(own, r"classes of split\.json: healthy, sick; the task example-binary has them in the order", task=task)


def test_what_lies_beside_the_split_file_is_read_whole_or_refused(own: Hospital) -> None:
    record = own.public / "split.json"
    whole = record.read_text()
    record.write_text(json.dumps({**json.loads(whole), "kind": "ternary"}))
    refused(own, "split.json: kind: .*; take the split.json that mvc split make wrote")
    record.write_text("{")
    refused(own, "split.json")
    record.write_text(whole)
    block = own.public / "submission-splits.yaml"
    text = block.read_text()
    for broken in ("splits: {unit: cow}", "[1]", "other: 1", "splits: &a {}\nshift: *a", "a: b: c", text + "more: 1\n"):
        block.write_text(broken)
        refused(own, "submission-splits.yaml")
    document = yaml.safe_load(text)
    block.write_text(yaml.safe_dump({**document, "shift": ["site"]}))
    refused(own, "wanted external and subgroups")
    block.unlink()
    record.unlink()
    refused(own, "the names of the classes are not known: give --task task.yaml")


def test_the_images_are_a_folder(made: Hospital, tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="is no folder"):
        read_pool(made.splits, tmp_path / "none")
    pool = read_pool(made.splits, tmp_path)
    with pytest.raises(BaselineError, match="120 of 120 images have no file there"):
        pool.pictures(pool.splits["image_id"])


def test_a_folder_of_any_name_is_read(tmp_path: Path) -> None:
    made = hospital(tmp_path / "a[1]*?{x}")
    pool = read_pool(made.splits, made.images)
    assert len(pool.pictures(pool.evaluated["image_id"])) == pool.evaluated.height


@pytest.mark.parametrize("column", ["label", "site", "sex"])
def test_lists_in_a_table_are_refused(tmp_path: Path, column: str) -> None:
    made = hospital(tmp_path)
    frame = pl.read_parquet(made.splits)
    frame.with_columns(pl.concat_list(column).alias(column)).write_parquet(made.splits)
    with pytest.raises(BaselineError, match=f"column {column} holds List"):
        read_pool(made.splits, made.images)


def test_what_polars_panics_at_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class PanicException(BaseException):
        """As the one of polars, which can't be imported."""

    def panic(*given: object, **more: object) -> None:
        raise PanicException

    made = hospital(tmp_path)
    monkeypatch.setattr("submission.baseline.data.pl.read_parquet", panic)
    with pytest.raises(BaselineError, match=r"can't be read as Parquet \(damaged\)"):
        read_pool(made.splits, made.images)


def test_a_folder_without_files_says_so(tmp_path: Path) -> None:
    made = hospital(tmp_path / "hospital")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "linked").symlink_to(made.images)
    shutil.copy(made.splits, tmp_path / "splits.parquet")
    pool = read_pool(tmp_path / "splits.parquet", tmp_path / "images", classes=("healthy", "sick"))
    with pytest.raises(BaselineError, match=r"no file lies there at all \(links to folders are not followed\)"):
        pool.pictures(pool.evaluated["image_id"])
