"""Tables of any shape as text, and each kind of bad input as a message."""

import datetime
import decimal
import gzip
import hashlib
import io
import os
import random
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from splits.errors import SplitError
from splits.reading import digest_of_file, need_columns, read_lines, read_table
from tests.splits.test_sheets import xlsx

PLAIN = {"image": ["a.png", "b.png"], "label": ["1", None]}
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\x1c\x1d\x1e\x1f\x85\x0b\x0c"), max_size=6)


def table_of(content: bytes, folder: Path, name: str = "table.csv", **options: Any) -> dict[str, list[str | None]]:
    path = folder / name
    path.write_bytes(content)
    return read_table(path, **options).frame.to_dict(as_series=False)


@pytest.mark.parametrize(
    "content",
    [
        b"image,label\na.png,1\nb.png,\n",
        b"image,label\na.png,1\nb.png,",
        b"\xef\xbb\xbfimage,label\na.png,1\nb.png,\n",
        b'\xef\xbb\xbf"image","label"\n"a.png","1"\n"b.png",""\n',
        b"image,label\r\na.png,1\r\nb.png,\r\n",
        b"image,label\ra.png,1\rb.png,\r",
        b"image,label\ra.png,1\rb.png,",
        b"\n\r\n  \nimage,label\n\na.png,1\n\nb.png,\n\n",
        b" image , label \n a.png ,1\nb.png ,   \n",
        b"image;label\na.png;1\nb.png;\n",
        b"image\tlabel\na.png\t1\nb.png\t\n",
        b"image|label\na.png|1\nb.png|\n",
        b"image,label,\na.png,1,\nb.png,,\n",
        gzip.compress(b"image,label\na.png,1\nb.png,\n", mtime=0),
        gzip.compress(b"image,label\na.png,1\n", mtime=0) + gzip.compress(b"b.png,\n", mtime=0),
    ],
)
def test_the_same_table_in_many_forms(tmp_path: Path, content: bytes) -> None:
    assert table_of(content, tmp_path) == PLAIN


@pytest.mark.parametrize(
    ("content", "options", "expected"),
    [
        (b"a;b\n1,5;2\n2,5;3\n", {}, {"a": ["1,5", "2,5"], "b": ["2", "3"]}),
        (b"a,b\n1|2,x\n3,y\n", {}, {"a": ["1|2", "3"], "b": ["x", "y"]}),
        (b"a b\n1 2\n3 4\n", {}, {"a": ["1", "3"], "b": ["2", "4"]}),
        (b"name\nJohn Doe\nEve\n", {}, {"name": ["John Doe", "Eve"]}),
        (b"name\n1\n\n2\n", {}, {"name": ["1", "2"]}),
        (b"a.png,1\nb.png,2\n", {"header": False}, {"column_1": ["a.png", "b.png"], "column_2": ["1", "2"]}),
        (b"a;b,c\n1;2,3\n", {"separator": ";"}, {"a": ["1"], "b,c": ["2,3"]}),
        (b"a,,b\n1,2,3\n", {}, {"a": ["1"], "unnamed_2": ["2"], "b": ["3"]}),
        (b"a,b\n", {}, {"a": [], "b": []}),
        (b"a,A\n1,2\n", {}, {"a": ["1"], "A": ["2"]}),
        (b'a,b\n"1,5","say ""hi"""\n', {}, {"a": ["1,5"], "b": ['say "hi"']}),
        (b'a,b\nC:\\x\\1.png,12" \n', {}, {"a": ["C:\\x\\1.png"], "b": ['12"']}),
        (b"a,b\n007,7.0\n7, NA \nnull,None\n", {}, {"a": ["007", "7", "null"], "b": ["7.0", "NA", "None"]}),
        ("a,b\n\u00a07,é\n".encode("latin-1"), {"encoding": "latin-1"}, {"a": ["7"], "b": ["é"]}),
        ("a,b\n7,é\n".encode("utf-16"), {"encoding": "utf-16"}, {"a": ["7"], "b": ["é"]}),
        ("\ufeffa,b\n7,é\n".encode("utf-16-le"), {"encoding": "utf-16-le"}, {"a": ["7"], "b": ["é"]}),
        ("a,b\n7,é\n".encode("utf-32"), {"encoding": "utf-32"}, {"a": ["7"], "b": ["é"]}),
    ],
)
def test_cells_stay_as_they_are_written(
    tmp_path: Path, content: bytes, options: dict[str, Any], expected: dict[str, list[str]]
) -> None:
    assert table_of(content, tmp_path, **options) == expected


@settings(max_examples=60)
@given(
    st.lists(st.tuples(CELL, CELL), min_size=1, max_size=8), st.sampled_from(",;\t"), st.sampled_from(["\n", "\r\n"])
)
def test_what_is_quoted_comes_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], mark: str, end: str
) -> None:
    path = tmp_path_factory.getbasetemp() / "quoted.csv"
    quoted = [mark.join('"' + cell.replace('"', '""') + '"' for cell in row) for row in [("one", "two"), *rows]]
    path.write_bytes((end.join(quoted) + end).encode())
    table = read_table(path, separator=mark)
    assert table.frame.rows() == [tuple(cell.strip() or None for cell in row) for row in rows]
    assert table.sha256 == hashlib.sha256(path.read_bytes()).hexdigest() == digest_of_file(path)


def test_a_thousand_columns_and_a_long_header(tmp_path: Path) -> None:
    names = [f"column number {index}" for index in range(4000)]  # more than 64 KiB of names
    read = table_of(f"{','.join(names)}\n{','.join(map(str, range(4000)))}\n".encode(), tmp_path)
    assert read == {name: [str(index)] for index, name in enumerate(names)}
    with pytest.raises(SplitError, match="row 2: 999 cells where the first row has 1000"):
        table_of(f"{','.join(names[:1000])}\n{','.join(['1'] * 999)}\n".encode(), tmp_path)


def test_a_cell_with_a_line_break_is_noted(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(b'a,b\n1,x\n2,"y\n3,"\n4,z\n')
    table = read_table(path)
    assert table.frame.rows() == [("1", "x"), ("2", "y\n3,"), ("4", "z")]
    assert table.notes == (
        "1 cell of column 'b' with a line break (first: row 2); if none is meant, a double quote is closed too late",
    )


BAD: list[tuple[bytes, dict[str, Any], str]] = [
    (b"", {}, " is empty$"),
    (b" \n\r\n", {}, " is empty$"),
    (b"\xef\xbb\xbf\n", {}, " is empty$"),
    (gzip.compress(b"", mtime=0), {}, " is empty$"),
    (b",,\n,,\n", {}, "no column with a name"),
    ("a,b\n1,2\n".encode("utf-16"), {}, "is UTF-16 text; save it as UTF-8, or say --encoding utf-16$"),
    ("a,b\n1,2\n".encode("utf-32"), {}, "is UTF-32 text; save it as UTF-8, or say --encoding utf-32$"),
    ("a,b\n1,2\n".encode("utf-16-le"), {}, "line 1: a NUL character; .* unless it is UTF-16"),
    ("a,b\n1,2\n3,é\n".encode("latin-1"), {}, "line 3: byte 0xe9 is not utf-8; save the file as UTF-8, or say"),
    ("a,b\n1,é\n".encode(), {"encoding": "ascii"}, "line 2: byte 0xc3 is not ascii"),
    (b"a,b\n", {"encoding": "utf9"}, "'utf9' is no text encoding; try utf-8"),
    (b"a,b\n", {"encoding": "rot13"}, "'rot13' is no text encoding"),
    (b"a,b\n", {"encoding": "base64"}, "'base64' is no text encoding"),
    (b"a,b\n", {"encoding": "a\0b"}, "is no text encoding"),
    (b"a,b\n", {"encoding": "punycode"}, "is not punycode"),
    (b"a\n\\ud800\n", {"encoding": "unicode_escape"}, "is not unicode_escape"),
    (b"a,b\n1,2\x003\n", {}, "line 2: a NUL character"),
    (b"a,b\n1,2\n3,4,5\n", {}, r"row 3: 3 cells where the first row has 2; put cells that hold ',' in double quotes"),
    (b"a,b\n1,2\n3\n4\n", {}, r"row 3: 1 cell where the first row has 2 \(2 such rows\)"),
    (b"a,b\n1,2,\n3,4,\n", {}, "row 2: 3 cells"),
    (b'a,b\n"1,2\n3,4\n', {}, "row 2: 1 cell where the first row has 2; close the double quote in it"),
    (b'a,b\n1,"2\n3,4\n', {}, "the double quote that opens the last cell is not closed"),
    (b'a,b\n1,"2\n3,4""\n', {}, "the double quote that opens the last cell is not closed"),
    (b'"a,b\n1,2\n', {}, "a double quote is not closed"),
    (b"a,b,a\n1,2,3\n", {}, "the column name 'a' comes 2 times; give each column its own"),
    (b"a,b, a \n1,2,3\n", {}, "the column name 'a' comes 2 times"),
    (b"x" * 200_000 + b",b\n1,2\n", {}, "the first line can't be read as a row of a table"),
    (b"\x1f\x8b" + b"x" * 40, {}, "is a damaged gzip file"),
    (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], {}, "is a damaged gzip file"),
    (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-5] + b"wrong", {}, "is a damaged gzip file"),
    (gzip.compress(b"a,b\n1,2\n", mtime=0) + b"more", {}, "is a damaged gzip file"),
    (b"\x89PNG\r\n\x1a\n" + bytes(50), {}, "line 1: byte 0x89 is not utf-8"),
    (b"PAR1" + b"x" * 40 + b"PAR1", {}, "is a damaged Parquet file"),
    (gzip.compress(b"PAR1" + b"x" * 40, mtime=0), {}, "is a Parquet file packed with gzip; unpack it"),
    (b"PK\x03\x04" + b"x" * 40, {}, "can't be read as an Excel sheet"),
]


@pytest.mark.parametrize(("content", "options", "said"), BAD)
def test_bad_content_is_said(tmp_path: Path, content: bytes, options: dict[str, Any], said: str) -> None:
    with pytest.raises(SplitError, match=said) as error:
        table_of(content, tmp_path, **options)
    assert str(error.value).startswith(str(tmp_path)) or "encoding" in said
    assert "\n" not in str(error.value)


def test_a_quote_that_is_closed_after_a_line_break_is_content(tmp_path: Path) -> None:
    assert table_of(b'a,b\n1,"2\n"\n', tmp_path) == {"a": ["1"], "b": ["2"]}
    assert table_of(b'a,b\n1,"2""\n"\n', tmp_path) == {"a": ["1"], "b": ['2"']}


def test_places_that_are_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)  # opening it would wait for a writer
    (tmp_path / "file").write_bytes(b"a\n")
    for path, said in [
        (tmp_path / "none.csv", "no such file"),
        (tmp_path, "is a folder; name the file"),
        (pipe, "is a pipe or device; save the table as a file"),
        (tmp_path / ("x" * 300), "can't be read"),
        (tmp_path / "file" / "inner", "can't be read"),
    ]:
        for read in (read_table, read_lines, digest_of_file):
            with pytest.raises(SplitError, match=said):
                read(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "closed.csv"
    path.write_bytes(b"a\n1\n")
    path.chmod(0)
    with pytest.raises(SplitError, match=r"closed\.csv can't be read \(Permission denied\)"):
        read_table(path)


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_bytes(b"\xef\xbb\xbf a.png\r\n\r\nb c.png\n  \nd.png")
    assert [line.strip() for line in read_lines(path)] == ["a.png", "b c.png", "d.png"]


@pytest.mark.parametrize(
    ("missing", "said"),
    [
        ("Patient", r"there is no column 'Patient'; did you mean 'patient_id'\? it has 'image', 'patient_id', 'label'"),
        ("LABEL", r"there is no column 'LABEL'; did you mean 'label'\?"),
        ("zzz", r"there is no column 'zzz'; it has 'image'"),
    ],
)
def test_a_missing_column_is_named_with_the_nearest(missing: str, said: str) -> None:
    frame = pl.DataFrame(schema={"image": pl.String, "patient_id": pl.String, "label": pl.String})
    need_columns(frame, ["label", "image"], Path("t.csv"))
    with pytest.raises(SplitError, match=f"^t.csv: {said}"):
        need_columns(frame, ["image", missing], Path("t.csv"))


def test_of_many_columns_some_are_listed() -> None:
    frame = pl.DataFrame(schema={f"c{index}": pl.String for index in range(1000)})
    with pytest.raises(SplitError, match=r"'c19' and 980 more$"):
        need_columns(frame, ["patient"], Path("t.csv"))


def parquet_of(columns: dict[str, pa.Array], folder: Path, **options: Any) -> Path:
    path = folder / "t.parquet"
    parquet.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([7.0, 2.0, None, float("nan")]), ["7", "2", None, None]),
        (pa.array([7.0, 2.5]), ["7.0", "2.5"]),
        (pa.array([float("inf"), 1e300]), ["inf", "1e+300"]),
        (pa.array([7.0], pa.float16()), ["7"]),
        (pa.array([7, None]), ["7", None]),
        (pa.array([2**64 - 1], pa.uint64()), [str(2**64 - 1)]),
        (pa.array([True, None]), ["true", None]),
        (pa.array([datetime.date(2020, 1, 2)]), ["2020-01-02"]),
        (pa.array([datetime.datetime(2020, 1, 2), None]), ["2020-01-02", None]),
        (pa.array([datetime.datetime(2020, 1, 2, 22)], pa.timestamp("ns", "+02:00")), ["2020-01-03"]),
        (
            pa.array([datetime.datetime(2020, 1, 2), datetime.datetime(2020, 1, 2, 10)]),
            ["2020-01-02 00:00:00.000000", "2020-01-02 10:00:00.000000"],
        ),
        (pa.array([datetime.datetime(2020, 1, 2)], pa.timestamp("us", "+02:00")), ["2020-01-02 02:00:00.000000+02:00"]),
        (pa.array([decimal.Decimal("1.50")]), ["1.50"]),
        (pa.array([" 007 ", "", " "]), ["007", None, None]),
        (pa.array(["x", "y", "x", None]).dictionary_encode(), ["x", "y", "x", None]),
        (pa.array([7, 8, 7]).dictionary_encode(), ["7", "8", "7"]),
        (pa.array(["x"], pa.large_string()), ["x"]),
        (pa.array(["x"], pa.string_view()), ["x"]),
        (pa.array([None, None]), [None, None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_parquet_columns_of_plain_types(tmp_path: Path, array: pa.Array, expected: list[str | None]) -> None:
    table = read_table(parquet_of({"a": array}, tmp_path))
    assert table.frame.to_dict(as_series=False) == {"a": expected}
    assert table.frame.dtypes == [pl.String]
    assert table.parquet


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], [2]]),
        pa.array([{"x": 1}, {"x": 2}]),
        pa.array([b"x", b"y"]),
        pa.array([datetime.timedelta(1)] * 2),
        pa.array([decimal.Decimal("1.5")] * 2, pa.decimal256(50, 1)),
        pa.array([datetime.datetime(2020, 1, 2)] * 2, pa.timestamp("us", "Nowhere/Else")),
    ],
)
def test_parquet_columns_of_other_types_are_left_out_and_said(tmp_path: Path, array: pa.Array) -> None:
    table = read_table(parquet_of({"odd": array, "b": pa.array(["x", "y"])}, tmp_path))
    assert table.frame.columns == ["b"]
    assert table.notes == ("column 'odd' holds no plain values and is not read",)
    with pytest.raises(SplitError, match="no column with a name or plain values"):
        read_table(parquet_of({"odd": array}, tmp_path))


@pytest.mark.parametrize(
    ("array", "rounded"),
    [
        (pa.array([7.0, 2.0**53 - 1, None, float("inf"), float("nan")]), False),
        (pa.array([7.0, 2.0**53]), True),
        (pa.array([7.5, -(2.0**53)]), True),
        (pa.array([2.0**24 - 1], pa.float32()), False),
        (pa.array([2.0**24], pa.float32()), True),
        (pa.array([2047.0], pa.float16()), False),
        (pa.array([2048.0], pa.float16()), True),
        (pa.array([2**60]), False),
        (pa.array(["1e300"]), False),
    ],
)
def test_floats_that_leave_whole_numbers_out_are_known(tmp_path: Path, array: pa.Array, rounded: bool) -> None:
    table = read_table(parquet_of({" a ": array, "b": pa.array(["x"] * len(array))}, tmp_path))
    assert table.rounded == (("a",) if rounded else ())


def test_parquet_columns_with_points_in_their_names(tmp_path: Path) -> None:
    columns = {"x": pa.array([{"y": 1}]), "x.y": pa.array(["1"]), "a.b": pa.array(["2"]), "a": pa.array(["3"])}
    read = read_table(parquet_of(columns, tmp_path)).frame
    assert read.to_dict(as_series=False) == {"x.y": ["1"], "a.b": ["2"], "a": ["3"]}


def test_parquet_columns_that_share_a_name(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    for second in ("a", " a"):
        parquet.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", second]), path)
        with pytest.raises(SplitError, match="the column name 'a' comes 2 times"):
            read_table(path)


def test_parquet_text_that_is_no_utf8(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    with pytest.raises(SplitError, match=r"is a damaged Parquet file .*UTF8"):
        read_table(parquet_of({"a": bad}, tmp_path))


def test_flipped_bytes_are_a_message_or_a_table(tmp_path: Path) -> None:
    draw = random.Random(5)
    rows: list[list[object]] = [["image", "label"], *[[f"{index}.png", index % 3] for index in range(60)]]
    packed = io.BytesIO()
    pl.DataFrame(rows[1:], schema=["image", "label"], orient="row").write_parquet(packed)
    text = "".join(f"{image},{label}\r\n" for image, label in rows).encode()
    files = {
        "t.parquet": packed.getvalue(),
        "t.csv.gz": gzip.compress(text),
        "t.xlsx": xlsx(tmp_path / "sheet", rows).read_bytes(),
        "t.csv": text,
    }
    refused = 0
    for name, whole in files.items():
        for _ in range(40):
            damaged = bytearray(whole)
            for _ in range(draw.choice([1, 5, 50])):
                damaged[draw.randrange(4, len(whole))] = draw.randrange(256)
            (tmp_path / name).write_bytes(damaged[: draw.choice([len(whole), draw.randrange(4, len(whole))])])
            try:
                frame = read_table(tmp_path / name).frame
            except SplitError as error:
                assert str(tmp_path / name) in str(error)  # noqa: PT017
                refused += 1
            else:
                assert set(frame.dtypes) <= {pl.String}
    assert refused > 80
