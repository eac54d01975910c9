"""The hashes of a split in other tables; what must not stay readable there."""

import datetime
import decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyarrow import parquet

from splits.errors import SplitError
from splits.hashed_tables import Hashed, hash_table, salt_for
from splits.hashing import hash_identifier, read_salt
from splits.plan import ColumnNames
from splits.proving import read_record
from tests.splits.test_making import Cells, plan_of
from tests.splits.test_proving import Made, cells, csv, write_split

SALT = bytes(range(32))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return write_split(tmp_path)


def salt_of(path: Path, record: Path | None = None, *, new: bool = False) -> bytes:
    with salt_for(path, record, path.parent / "h.csv", new=new) as salt:
        return salt


def test_the_salt_of_another_split_is_refused(made: Made, tmp_path: Path) -> None:
    assert salt_of(made.salt, made.record) == read_salt(made.salt)
    salt = salt_of(tmp_path / "fresh", new=True)
    assert read_salt(tmp_path / "fresh") == salt
    with pytest.raises(SplitError, match="holds another salt than the split of"):
        salt_of(tmp_path / "fresh", made.record)
    with pytest.raises(SplitError, match="a salt is never overwritten"):
        salt_of(tmp_path / "fresh", new=True)
    assert read_salt(tmp_path / "fresh") == salt
    with pytest.raises(SplitError, match="can't be written"):
        salt_of(tmp_path / "none" / "fresh", new=True)
    with pytest.raises(SplitError, match="no such salt file"):
        salt_of(tmp_path / "none")
    with pytest.raises(SplitError, match=r"a new salt is not the one that the split of .* was made with"):
        salt_of(tmp_path / "newer", made.record, new=True)
    assert not (tmp_path / "newer").exists()


@pytest.mark.parametrize("error", [SplitError, OSError, KeyboardInterrupt])
def test_a_new_salt_is_gone_again_where_nothing_was_hashed(tmp_path: Path, error: type[BaseException]) -> None:
    salt, out = tmp_path / "salt", tmp_path / "h.csv"

    def broken_off(*made: Path) -> None:
        with salt_for(salt, None, out, new=True):
            assert salt.exists()
            for path in made:
                path.write_text("hashed")
            raise error

    with pytest.raises(error):
        broken_off()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(error):
        broken_off(out)
    assert salt.exists()
    with pytest.raises(SplitError, match="exists; name a new file"), salt_for(tmp_path / "other", None, out, new=True):
        raise AssertionError
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("through", ["public", "link"])
def test_no_new_salt_goes_into_a_folder_to_publish(made: Made, tmp_path: Path, through: str) -> None:
    (tmp_path / "link").symlink_to(made.out / "public")
    folder = made.out / "public" if through == "public" else tmp_path / "link"
    before = sorted(path.name for path in folder.iterdir())
    with pytest.raises(SplitError, match=r"salt would lie beside splits\.parquet, in a folder to publish"):
        salt_of(folder / "salt", new=True)
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_table_of_predictions_is_hashed_alike(made: Made, tmp_path: Path) -> None:
    names = cells()
    table = csv(tmp_path / "p.csv", {"p": ["0.50"] * 60, "image": names["image"], "patient": names["patient"]})
    salt = read_salt(made.salt)
    both = {"image_id": 60, "patient_id": 30}
    assert hash_table(table, tmp_path / "h.csv", salt, record=made.record) == Hashed(both, both)
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


@pytest.mark.parametrize("name", ["patient_id", "Patient ID", "subject", "MRN", "mrn", "date of birth", "PID"])
def test_a_column_that_is_called_like_patients_is_not_left(tmp_path: Path, name: str) -> None:
    table = csv(tmp_path / "t.csv", {"image": ["a", "b"], name: ["x", "y"], "p": ["1", "2"]})
    with pytest.raises(SplitError, match=rf"column '{name}' is called like one of patients.*say --patient '{name}'"):
        hashed(table)
    assert not (tmp_path / "h.csv").exists()
    assert hashed(table, patient=name).columns == ["image_id", "patient_id", "p"]
    said = f"(column '{name}' is called .*|has a column 'patient_id' already); drop it"
    with pytest.raises(SplitError, match=said):
        hashed(csv(tmp_path / "t.csv", {"image": ["a"], "who": ["1"], name: ["x"]}), "h2.csv", patient="who")


def predictions(made: Made, **columns: Cells) -> Path:
    """A table of the first 20 images, two a patient, with further columns."""
    names = {name: values[:20] for name, values in cells().items() if name == "image"}
    return csv(made.out / "p.csv", names | columns)


def first(name: str) -> Cells:
    return cells()[name][:20]


def hash_like(made: Made, table: Path) -> Hashed:
    return hash_table(table, made.out / "h.csv", read_salt(made.salt), record=made.record)


@pytest.mark.parametrize(
    ("column", "what"),
    [
        (first("patient"), "patient"),
        ([*[None] * 19, "P029"], "patient"),  # a patient of another image
        ([f"data\\{patient}\\left.png" for patient in first("patient")], "patient"),
        ([f"/data/{patient}/left.png" for patient in first("patient")], "patient"),
    ],
)
def test_patients_of_the_split_are_not_left_under_another_name(made: Made, column: Cells, what: str) -> None:
    with pytest.raises(SplitError, match=f"column 'extra' holds names of {what}s and would stay as it is; say --pat"):
        hash_like(made, predictions(made, extra=column))
    assert not (made.out / "h.csv").exists()


def numbered(folder: Path) -> Made:
    """A split whose images and patients are called by whole numbers."""
    return write_split(
        folder, image=[str(place) for place in range(60)], patient=[str(place // 2) for place in range(60)]
    )


def test_numbers_are_patients_where_they_are_those_of_their_rows(tmp_path: Path) -> None:
    made = numbered(tmp_path)
    images: Cells = [str(place) for place in range(20)]
    harmless: dict[str, Cells] = {
        "seed": ["1", "2"] * 10,
        "fold": ["3"] * 20,
        "p": ["0.5", "1", "1e-05", ".25"] * 5,
        "note": [None] * 20,
    }
    table = csv(tmp_path / "p.csv", {"image": images, **harmless})
    assert hash_like(made, table).in_split == {"image_id": 20}
    assert pl.read_csv(made.out / "h.csv").columns == ["image_id", *harmless]
    (made.out / "h.csv").unlink()
    for end in ("", ".0"):
        who: Cells = [f"{place // 2}{end}" for place in range(20)]
        with pytest.raises(SplitError, match="column 'who' holds names of patients"):
            hash_like(made, csv(tmp_path / "p.csv", {"image": images, **harmless, "who": who}))
    with pytest.raises(SplitError, match="column 'row' holds names of images and would stay as it is; drop it"):
        hash_like(made, csv(tmp_path / "p.csv", {"image": images, "row": images}))


def test_numbers_of_a_parquet_file_are_looked_at_too(tmp_path: Path) -> None:
    made = numbered(tmp_path)
    table = parquet_of(tmp_path, image=[str(place) for place in range(20)], who=[place // 2 for place in range(20)])
    with pytest.raises(SplitError, match="column 'who' holds names of patients"):
        hash_table(table, tmp_path / "h.parquet", read_salt(made.salt), record=made.record)


def test_patients_of_each_site_are_not_left(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(patient="patient", labels=("grade",), site="site"), patients_per_site=True)
    made = write_split(tmp_path, plan)
    with pytest.raises(SplitError, match="column 'extra' holds names of patients"):
        hash_like(made, predictions(made, extra=first("patient")))
    assert hash_like(made, predictions(made, extra=["other"] * 20)).in_split == {"image_id": 20}


def test_names_of_images_are_not_left_with_or_without_a_record(made: Made, tmp_path: Path) -> None:
    with pytest.raises(SplitError, match="column 'extra' holds names of images and would stay as it is; drop it"):
        hash_like(made, predictions(made, image=["a", *first("image")[1:]], extra=[f"{x}" for x in first("image")]))
    table = csv(tmp_path / "t.csv", {"image": ["a.png", "b.png"], "path": ["/x/a.png", "/x/c.png"]})
    with pytest.raises(SplitError, match="'image' and 'path' could each be the images"):
        hashed(table)
    with pytest.raises(SplitError, match="column 'path' holds names of images"):
        hashed(table, image="image")


def test_a_table_that_names_nothing_of_the_split_is_refused(made: Made, tmp_path: Path) -> None:
    table = csv(tmp_path / "t.csv", {"image": ["x1.png", "x2.png"], "p": ["1", "0"]})
    listed = r"column 'image', such as 'x1\.png', is in the split of .*; there they are written like '.+' \(private/"
    with pytest.raises(SplitError, match=rf"none of the 2 images in {listed}images\.csv lists them\)"):
        hash_like(made, table)
    (made.out / "private" / "images.csv").unlink()
    with pytest.raises(SplitError, match="they are written as in column 'image' of its metadata, letter by letter"):
        hash_like(made, table)
    with pytest.raises(SplitError, match="none of the 1 patients in column 'patient', such as 'nobody', is in the spl"):
        hash_like(made, predictions(made, patient=["nobody"] * 20))
    assert not (made.out / "h.csv").exists()
    some = csv(tmp_path / "t.csv", {"image": [*first("image"), "x1.png"]})
    assert hash_like(made, some) == Hashed({"image_id": 21}, {"image_id": 20})


@pytest.mark.parametrize(
    ("field", "said"),
    [("recipe", "in a recipe they are written DATASET/NAME"), ("dataset", "as the label files of .* name them")],
)
def test_how_names_look_in_known_data_sets(made: Made, tmp_path: Path, field: str, said: str) -> None:
    record = read_record(made.record)
    columns = ColumnNames()
    plan = record.plan.model_copy(update={field: "known", "columns": columns})
    made.record.write_text(record.model_copy(update={"plan": plan}).model_dump_json())
    (made.out / "private" / "images.csv").write_bytes(b"\xff")
    with pytest.raises(SplitError, match=said):
        hash_like(made, csv(tmp_path / "t.csv", {"image": ["x1.png"]}))


def test_without_the_table_of_the_split_nothing_is_known(made: Made, tmp_path: Path) -> None:
    table = csv(tmp_path / "t.csv", {"image": ["x1.png"]})
    made.splits.write_bytes(b"PAR1 and no more")
    with pytest.raises(SplitError, match=r"splits\.parquet is not the table of the split in "):
        hash_like(made, table)
    pl.DataFrame({"a": [1]}).write_parquet(made.splits)
    with pytest.raises(SplitError, match=r"splits\.parquet is not the table of the split in "):
        hash_like(made, table)
    made.splits.unlink()
    assert hash_like(made, table) == Hashed({"image_id": 1}, None)
