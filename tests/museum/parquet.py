"""Parquet: footers and pages that lie, bombs of rows, words and pages, and types that are none of ours."""

import io
import pickle
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.museum.registry import exhibit, show
from tests.museum.support import first, footer, overwrite, put, table, whole

FILE = "predictions.parquet"
VALUES: tuple[tuple[str, pa.DataType, Any], ...] = (
    ("boolean", pa.bool_(), True),
    ("date", pa.date32(), 1),
    ("timestamp", pa.timestamp("ns", "UTC"), 1),
    ("time", pa.time64("us"), 1),
    ("duration", pa.duration("s"), 1),
    ("decimal", pa.decimal128(10, 3), Decimal("0.5")),
    ("wide_decimal", pa.decimal256(60, 3), Decimal("0.5")),
    ("binary", pa.binary(), b"\xff\xfe"),
    ("fixed_binary", pa.binary(3), b"abc"),
    ("list", pa.list_(pa.float64()), [0.5]),
    ("list_of_lists", pa.list_(pa.list_(pa.float64())), [[0.5]]),
    ("map", pa.map_(pa.string(), pa.float64()), [("p", 0.5)]),
    ("struct", pa.struct([("p", pa.float64())]), {"p": 0.5}),
    ("uuid", pa.uuid(), b"0123456789abcdef"),
    ("text", pa.string(), "0.5"),
)


def rows_of(folder: Path) -> int:
    return int(pq.read_metadata(folder / FILE).num_rows)


for kind_name, kind, value in VALUES:

    def of_type(folder: Path, kind: pa.DataType = kind, value: Any = value) -> None:
        extended = isinstance(kind, pa.BaseExtensionType)
        array = pa.array([value] * rows_of(folder), kind.storage_type if extended else kind)
        table(folder, put("p_1", pa.ExtensionArray.from_storage(kind, array) if extended else array))

    show(f"probabilities_as_{kind_name}", f"{kind_name} values for probabilities", "MVC003", make=of_type)

for kind_name, kind, value in VALUES[:13]:

    def model_of_type(folder: Path, kind: pa.DataType = kind, value: Any = value) -> None:
        table(folder, put("model", pa.array([value] * rows_of(folder), kind)))

    show(f"model_as_{kind_name}", f"{kind_name} values for names of models", "MVC003", make=model_of_type)


def torch_zip() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps({"p_1": [0.5]}))
    return sink.getvalue()


for name, data, rule, story in (
    ("pickle_4", pickle.dumps([0.5], 4), "MVC007", "a pickle that is called Parquet"),
    ("pickle_0", pickle.dumps([0.5], 0), "MVC001", "a pickle of the oldest kind, in plain ASCII"),
    ("pickle_call", b"\x80\x04cos\nsystem\n(S'id'\ntR.", "MVC007", "a pickle that would run a program"),
    ("torch_zip", torch_zip(), "MVC001", "weights of torch: a pickle in a zip"),
    ("joblib", b"\x78\x9c" + bytes(200), "MVC001", "a packed joblib file"),
    ("npy_objects", b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False}", "MVC001", "numpy with objects"),
    ("hdf5", b"\x89HDF\r\n\x1a\n" + bytes(500), "MVC001", "HDF5"),
    ("feather", b"ARROW1\0\0" + bytes(500), "MVC001", "Feather"),
    ("sqlite", b"SQLite format 3\0" + bytes(500), "MVC001", "a database"),
    ("gzip", b"\x1f\x8b\x08\0" + bytes(500), "MVC001", "a gzip"),
    ("elf", b"\x7fELF" + bytes(500), "MVC001", "a program"),
    ("html", b"<script>alert(1)</script>", "MVC001", "a web page"),
    ("empty_parquet", b"", "MVC001", "nothing"),
    ("magic_only", b"PAR1", "MVC001", "the first four bytes of Parquet"),
    ("magic_twice", b"PAR1PAR1", "MVC001", "the first and the last four bytes of Parquet"),
    ("zero_footer", b"PAR1" + bytes(4) + b"PAR1", "MVC001", "a footer of no bytes"),
    ("huge_footer", b"PAR1\xff\xff\xff\x7fPAR1", "MVC001", "a footer of two gigabytes in twelve bytes"),
    ("negative_footer", b"PAR1\xff\xff\xff\xffPAR1", "MVC001", "a footer of minus one byte"),
    ("zeros", b"PAR1" + bytes(100_000) + b"PAR1", "MVC001", "zeros between two magic words"),
    ("encrypted_footer", b"PARE" + bytes(100) + b"PARE", "MVC001", "an encrypted footer"),
    ("encrypted_footer_late", b"PAR1" + bytes(100) + b"\x64\0\0\0PARE", "MVC001", "encrypted at its end only"),
):
    show(name, story, rule, make=lambda folder, data=data: overwrite(folder, FILE, data))  # type: ignore[misc]

for share in (10, 50, 99):

    def cut(folder: Path, share: int = share) -> None:
        data = (folder / FILE).read_bytes()
        overwrite(folder, FILE, data[: len(data) * share // 100])

    show(f"cut_at_{share}", f"{share} hundredths of a table", "MVC001", make=cut)

for claimed, rule, story in (
    (10**12, "MVC005", "a footer that claims a million million rows"),
    (2**62, "MVC005", "a footer that claims all rows there can be"),
    (-1, "MVC001", "a footer that claims minus one row"),
    (7000, "MVC001", "a footer that claims more rows than its row groups"),
):

    def rows_lie(folder: Path, claimed: int = claimed) -> None:
        footer(folder / FILE, (whole(rows_of(folder)), whole(claimed)), count=1)

    show(f"rows_{claimed}", story, rule, make=rows_lie)


@exhibit("MVC001", process=True)
def rows_lie_throughout(folder: Path) -> None:
    """A footer that claims 7,000 rows wherever it can."""
    footer(folder / FILE, (whole(rows_of(folder)), whole(7000)))


@exhibit("MVC004")
def chunk_of_terabytes(folder: Path) -> None:
    """A column that says it unpacks to a terabyte."""
    size = pq.read_metadata(folder / FILE).row_group(0).column(1).total_uncompressed_size
    footer(folder / FILE, (whole(size), whole(1 << 40)), count=1)


@exhibit("MVC015", process=True)
def page_of_gigabytes(folder: Path) -> None:
    """A page whose header claims two gigabytes (apache/arrow#49955)."""
    table(folder, lambda old: old, use_dictionary=False, compression="snappy", column_encoding=None)
    chunk = pq.read_metadata(folder / FILE).row_group(0).column(4)
    data = (folder / FILE).read_bytes()
    start = chunk.data_page_offset
    sizes = data[start : start + 12]
    assert sizes[:3] == b"\x15\x00\x15"  # a data page, then its unpacked size
    end = 3 + next(i for i, byte in enumerate(sizes[3:]) if byte < 0x80) + 1
    forged = sizes[:3] + whole(2**31 - 1)[1:]
    overwrite(folder, FILE, data[:start] + forged + data[start + end :])
    grown = chunk.total_compressed_size + len(forged) - end
    footer(folder / FILE, (whole(chunk.total_compressed_size), whole(grown)), count=1)


@exhibit("MVC001")
def garbled_pages(folder: Path) -> None:
    """Every page overwritten, the footer left as it was."""
    data = (folder / FILE).read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    overwrite(folder, FILE, data[:4] + b"\xaa" * (start - 4) + data[start:])


@exhibit("MVC005", process=True)
def bomb_of_rows(folder: Path) -> None:
    """A hundred million rows in a few kilobytes."""
    one = pq.read_table(folder / FILE).slice(0, 1)
    rows = one.take(pa.array([0] * 1_000_000, pa.int32()))
    with pq.ParquetWriter(folder / FILE, rows.schema, compression="zstd") as writer:
        for _ in range(3):
            writer.write_table(rows)
    footer(folder / FILE, (whole(3_000_000), whole(100_000_000)))


@exhibit("MVC005", process=True)
def bomb_of_split_rows(folder: Path) -> None:
    """A split file of a million equal rows: no record says how many there should be."""
    table(folder, lambda old: old.slice(0, 1).take(pa.array([0] * 1_000_000, pa.int32())), "splits", compression="zstd")


def word(size: int, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array(["x" * size]))


@exhibit("MVC014", process=True)
def bomb_of_a_word(folder: Path) -> None:
    """One word of a megabyte, said in every row."""
    table(folder, put("model", word(1 << 20, rows_of(folder))), dictionary_pagesize_limit=1 << 30)


@exhibit("MVC004", process=True)
def bomb_of_one_long_word(folder: Path) -> None:
    """A single word of 64 megabytes, packed into two kilobytes."""
    table(folder, put("model", word(64 << 20, rows_of(folder))), dictionary_pagesize_limit=1 << 30, compression="zstd")


@exhibit("MVC004", process=True)
def bomb_of_plain_words(folder: Path) -> None:
    """Long words written out in every row, packed ten thousandfold."""
    words = pa.array(["x" * 20_000] * rows_of(folder))
    table(folder, put("model", words), use_dictionary=False, compression="zstd")


@exhibit("MVC015", process=True)
def bomb_of_hidden_words(folder: Path) -> None:
    """Two gigabytes of them, and the footer says that there is nothing to it."""
    rows = pq.read_table(folder / FILE)
    words = put("model", pa.array(["x" * 700_000] * 252))
    with pq.ParquetWriter(folder / FILE, rows.schema, use_dictionary=False, compression="zstd") as writer:
        for start in range(0, 2520, 252):
            writer.write_table(words(rows.slice(start, 252)).cast(rows.schema))
    size = pq.read_metadata(folder / FILE).row_group(0).column(1).total_uncompressed_size
    footer(folder / FILE, (whole(size), whole(1000)))


@exhibit("MVC004")
def groups_by_the_row(folder: Path) -> None:
    """A row group a row."""
    table(folder, lambda old: old, row_group_size=1)


@exhibit("MVC002")
def columns_10000(folder: Path) -> None:
    """Ten thousand columns."""
    more = {f"p_{n}": pa.nulls(rows_of(folder), pa.float64()) for n in range(2, 10_002)}
    table(folder, lambda old: pa.table({**{n: old[n] for n in old.column_names}, **more}))


@exhibit("MVC002")
def columns_10000_splits(folder: Path) -> None:
    """Ten thousand subgroups."""
    rows = pq.read_metadata(folder / "splits.parquet").num_rows
    more = {f"g{n}": pa.nulls(rows, pa.string()) for n in range(10_000)}
    table(folder, lambda old: pa.table({**{n: old[n] for n in old.column_names}, **more}), "splits")


@exhibit("MVC012")
def rows_0(folder: Path) -> None:
    """A table without rows."""
    table(folder, lambda old: old.slice(0, 0))


@exhibit("MVC012")
def columns_0(folder: Path) -> None:
    """A table without columns."""
    table(folder, lambda old: old.select([]))


@exhibit("MVC002", "MVC406")
def columns_of_another_table(folder: Path) -> None:
    """The split file in the place of the predictions."""
    overwrite(folder, FILE, (folder / "splits.parquet").read_bytes())


@exhibit("MVC001")
def not_utf8(folder: Path) -> None:
    """Text that is no UTF-8."""
    raw = pa.array([b"\xff\xfe\x80"] * rows_of(folder), pa.binary())
    table(folder, put("model", pa.StringArray.from_buffers(len(raw), *raw.buffers()[1:])))


@exhibit("MVC001")
def keys_out_of_range(folder: Path) -> None:
    """Dictionary keys that point beyond the dictionary."""
    path = folder / FILE
    table(folder, put("model", word(5, rows_of(folder))), compression="none", store_schema=False)
    chunk = pq.read_metadata(path).row_group(0).column(1)
    data = bytearray(path.read_bytes())
    start, end = chunk.data_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size
    run = data.rindex(b"\x00", start, end)  # the one key of a run of equal ones
    data[run] = 7
    data[data.rindex(b"\x00", start, run)] |= 0
    overwrite(folder, FILE, bytes(data))


@exhibit("MVC014")
def huge_text(folder: Path) -> None:
    """A model with a name of half a megabyte."""
    table(folder, first("model", "x" * 500_000), dictionary_pagesize_limit=1 << 30)


@exhibit("MVC003")
def list_of_words(folder: Path) -> None:
    """Words in the list column."""
    table(folder, lambda old: put("probs", pa.array([["high"]] * old.num_rows))(old.drop_columns(["p_1"])))


@exhibit("MVC406")
def list_of_many(folder: Path) -> None:
    """A hundred thousand probabilities in one row."""

    def change(old: pa.Table) -> pa.Table:
        return put("probs", pa.array([[0.5] * 100_000, *([[0.5]] * (old.num_rows - 1))]))(old.drop_columns(["p_1"]))

    table(folder, change)


@exhibit()
def foreign_metadata(folder: Path) -> None:
    """Metadata that ask pandas and Arrow for other types: not followed."""
    junk = {"pandas": '{"columns": [{"name": "p_1", "numpy_type": "object"}]}', "x": "\x1b[2J" * 100}
    table(folder, lambda old: old.replace_schema_metadata(junk))
