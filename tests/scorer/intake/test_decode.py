"""Bytes into arrays: accepted shapes and types, precision, and hostile bytes, decoded in this process."""

import io
import random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scorer.intake import NULL
from scorer.intake.decode import decode_predictions, decode_splits, sum_tolerance, unit_of
from tests.builders import good_submission
from tests.scorer.intake.tables import CAP, csv, decoded, parquet, predictions, task_of, with_column

TYPES: list[tuple[pa.DataType, Any]] = [
    (pa.bool_(), True),
    (pa.date32(), 1),
    (pa.timestamp("ns"), 1),
    (pa.time64("us"), 1),
    (pa.duration("s"), 1),
    (pa.decimal128(10, 3), 1),
    (pa.binary(), b"a"),
    (pa.binary(3), b"abc"),
    (pa.string(), "a"),
    (pa.list_(pa.float64()), [0.5]),
    (pa.list_(pa.string()), ["a"]),
    (pa.map_(pa.string(), pa.float64()), [("a", 0.5)]),
    (pa.struct([("value", pa.float64())]), {"value": 0.5}),
    (pa.struct([("a", pa.float64()), ("b", pa.float64())]), {"a": 0.5, "b": 0.5}),
    (pa.dictionary(pa.int32(), pa.string()), "a"),
    (pa.uint64(), 2**64 - 1),
    (pa.int64(), 2),
    (pa.null(), None),
]


def test_a_plain_table_comes_out_as_it_went_in() -> None:
    table = predictions("multiclass")
    found = decoded(table, "multiclass")
    assert (found.problems, found.notes) == ((), ())
    assert found.table is not None
    assert found.table.rows == 20
    assert found.table.precision == {"p_0": "float64", "p_1": "float64", "p_2": "float64"}
    assert np.array_equal(found.arrays["p_2"], table["p_2"].to_numpy())
    assert [found.values["image_id"][code] for code in found.arrays["image_id"]] == table["image_id"].to_pylist()


@pytest.mark.parametrize("kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())])
def test_any_kind_of_text_is_text(kind: pa.DataType) -> None:
    table = predictions()
    plain = decoded(table)
    for name in ("image_id", "model", "calibrator"):
        text = table[name].dictionary_encode() if pa.types.is_dictionary(kind) else table[name].cast(kind)
        table = with_column(table, name, text)
    found = decoded(table)
    assert found.problems == ()
    for name in ("image_id", "model", "calibrator"):
        assert list(found.values[name]) == list(plain.values[name])
        assert np.array_equal(found.arrays[name], plain.arrays[name])


@pytest.mark.parametrize(
    ("kind", "name"), [(pa.float32(), "float32"), (pa.float16(), "float16"), (pa.float64(), "float64")]
)
def test_precision_is_kept_beside_the_values(kind: pa.DataType, name: str) -> None:
    table = predictions("multiclass")
    for column in ("p_0", "p_1", "p_2"):
        table = with_column(table, column, table[column].cast(kind))
    found = decoded(table, "multiclass")
    assert found.problems == ()
    assert found.table is not None
    assert set(found.table.precision.values()) == {name}
    assert found.arrays["p_0"].dtype == np.float64


@pytest.mark.parametrize("shape", [pa.list_(pa.float64()), pa.list_(pa.float32(), 3), pa.large_list(pa.float64())])
def test_a_list_column_is_spread(shape: pa.DataType) -> None:
    table = predictions("multiclass")
    rows = [list(row) for row in zip(*(table[f"p_{k}"].to_pylist() for k in range(3)), strict=True)]
    lists = table.drop_columns(["p_0", "p_1", "p_2"]).append_column("probs", pa.array(rows, shape))
    found = decoded(lists, "multiclass")
    assert found.problems == ()
    assert np.allclose(found.arrays["p_1"], table["p_1"].to_numpy(), atol=1e-7)
    short = lists.set_column(4, "probs", pa.array([row[:2] for row in rows], pa.list_(pa.float64())))
    assert [(p.offence, p.saw) for p in decoded(short, "multiclass").problems] == [
        ("class-count-differs", "lists of 2")
    ]
    holes = lists.set_column(4, "probs", pa.array([None, *rows[1:]], pa.list_(pa.float64())))
    assert [p.offence for p in decoded(holes, "multiclass").problems] == ["class-count-differs"]


@pytest.mark.parametrize(("kind", "value"), TYPES)
@pytest.mark.parametrize("column", ["p_1", "seed", "model"])
def test_a_column_of_any_type_is_taken_or_refused(kind: pa.DataType, value: Any, column: str) -> None:
    table = predictions()
    found = decoded(with_column(table, column, pa.array([value] * 20, kind)))
    taken = {
        "p_1": (),
        "seed": (pa.int64(),),
        "model": (pa.string(), pa.dictionary(pa.int32(), pa.string())),
    }
    assert (found.problems == ()) == (kind in taken[column]), found.problems
    assert all(problem.saw and problem.wanted for problem in found.problems)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint32()])
def test_whole_numbers_of_any_width_are_labels(kind: pa.DataType) -> None:
    splits = good_submission().splits.head(20).to_arrow()
    table = with_column(splits, "label", splits["label"].cast(kind))
    found = decode_splits(parquet(table), "splits.parquet", task_of("binary"), True, CAP)
    assert found.problems == ()
    assert np.array_equal(found.arrays["label"], splits["label"].to_numpy())


def test_null_labels_stay_null() -> None:
    splits = good_submission("multilabel").splits.head(20).to_arrow()
    found = decode_splits(parquet(splits), "splits.parquet", task_of("multilabel"), True, CAP)
    assert found.problems == ()
    assert found.arrays["label_0"][0] == NULL
    assert splits["label_0"][0].as_py() is None


@pytest.mark.parametrize(
    ("text", "decimals"), [("0.1234", 4), ("1", 0), ("1.2e-05", 6), ("5E-3", 3), ("1e0", 0), (".5", 1)]
)
def test_csv_keeps_the_printed_decimals(text: str, decimals: int) -> None:
    found = csv(f"image_id,model,seed,calibrator,p_1\na,m,1,none,{text}\n")
    assert found.problems == ()
    assert found.table is not None
    assert found.table.precision == {"p_1": f"decimals:{decimals}"}
    assert found.arrays["p_1"][0] == float(text)


@pytest.mark.parametrize(
    ("text", "offence"),
    [
        ("", "unreadable-file"),
        ("\n", "unreadable-file"),
        ("image_id,model,seed,calibrator,p_1\n", "no-rows"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none\n", "unreadable-file"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,high\n", "wrong-dtype"),
        ("image_id,model,seed,calibrator,p_1\na,m,1.5,none,0.5\n", "wrong-dtype"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,\n", "probability-not-finite"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,nan\n", "probability-not-finite"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,inf\n", "probability-not-finite"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,-0.0\n", "probability-not-finite"),
        ("image_id,model,seed,calibrator,p_1\na,m,1,none,1e999\n", "probability-not-finite"),
        ("image_id,model,seed,calibrator,p_1\na ,m,1,none,0.5\n", "malformed-text"),
        ("image_id,model,seed,calibrator,p_1\n,m,1,none,0.5\n", "malformed-text"),
        ("image_id,model,seed,calibrator,p_1\na,m,,none,0.5\n", "value-missing"),
        ("image_id,model,seed,calibrator,p_1,p_1\na,m,1,none,0.5,0.5\n", "duplicate-or-colliding-columns"),
        ("image_id;model;seed;calibrator;p_1\na;m;1;none;0.5\n", "unreadable-file"),
        ('"image_id\n",model,seed,calibrator,p_1\na,m,1,none,0.5\n', None),
    ],
)
def test_a_bad_csv_is_a_problem(text: str, offence: str | None) -> None:
    found = csv(text)
    assert offence in (None, found.problems[0].offence), found.problems
    assert found.problems


def test_csv_may_have_quotes_carriage_returns_and_a_mark() -> None:
    found = csv('\ufeff"image_id",model,seed,calibrator,p_1\r\n"a,b",m,1,none,0.5\r\n')
    assert found.problems == ()
    assert list(found.values["image_id"]) == ["a,b"]


def test_a_claimed_row_count_is_checked_before_anything_is_read() -> None:
    rows = CAP + 1
    table = pa.table(
        {name: pa.array(["a"]).dictionary_encode().take(pa.array([0] * rows)) for name in ("image_id", "model")}
    )
    assert [p.offence for p in decoded(table).problems] == ["row-count-bomb"]


def test_unused_words_of_a_dictionary_are_no_values() -> None:
    words = pa.array(["densenet121", " evil "])
    column = pa.DictionaryArray.from_arrays(pa.array([0] * 20, pa.int32()), words)
    found = decoded(with_column(predictions(), "model", column))
    assert found.problems == ()
    assert list(found.values["model"]) == ["densenet121"]


@pytest.mark.parametrize(
    ("precision", "tolerance"),
    [
        (["float64"] * 3, 1e-6),
        (["float32"] * 3, 1e-6),
        (["float32"] * 1000, 1000 * 2.0**-24),
        (["float16"] * 3, 2e-3),
        (["decimals:4"] * 3, 3e-4),
        (["decimals:2"] * 3, 3e-2),
        (["decimals:4", "decimals:0", "decimals:5"], 3e-4),
        (["float64", "decimals:0"], 1e-6),
        (["decimals:0"] * 3, 0.1),
    ],
)
def test_row_sums_follow_the_stored_precision(precision: list[str], tolerance: float) -> None:
    assert sum_tolerance(precision) == pytest.approx(tolerance)


def test_one_unit_is_the_spacing_near_one() -> None:
    assert unit_of("float32") == np.spacing(np.float32(0.75))
    assert unit_of("float64") == np.spacing(0.75)
    assert unit_of("float16") == np.spacing(np.float16(0.75))
    assert unit_of("decimals:3") == pytest.approx(1e-3)


def test_rows_within_their_precision_are_counted() -> None:
    text = "image_id,model,seed,calibrator,p_0,p_1,p_2\na,m,1,none,0.3333,0.3333,0.3333\nb,m,1,none,0.5,0.25,0.25\n"
    found = csv(text, "multiclass")
    assert found.problems == ()
    assert found.table is not None
    assert found.table.renormalised == 1
    assert "renormalised" in found.notes[0]


@pytest.mark.parametrize(
    ("column", "decimals"),
    [
        (["0.1234", "0.5", "0"], 4),
        (["9.1234e-01", "4.1234e-08"], 5),
        (["0.4567", "0.00004567"], 4),
        (["0.01", "0.002"], 3),
        (["0.0", "1.0", "1"], 0),
    ],
)
def test_the_large_numbers_of_a_column_tell_its_decimals(column: list[str], decimals: int) -> None:
    rows = [f"{index},m,1,none,{text}" for index, text in enumerate(column)]
    found = csv("\n".join(["image_id,model,seed,calibrator,p_1", *rows, ""]))
    assert found.table is not None
    assert found.table.precision == {"p_1": f"decimals:{decimals}"}


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([b"", b"PAR1", b"image_id,model,seed,calibrator,p_1\n"]))
def test_random_bytes_are_a_problem(data: bytes, head: bytes) -> None:
    for file in ("predictions.parquet", "predictions.csv"):
        found = decode_predictions(io.BytesIO(head + data), file, task_of("binary"), CAP)
        assert found.problems or found.table is not None
    found = decode_splits(io.BytesIO(head + data), "splits.parquet", task_of("binary"), True, CAP)
    assert found.problems


def test_flipped_bits_are_accepted_or_a_problem() -> None:
    rng = random.Random(20261)
    whole = parquet(predictions(rows=200), compression="snappy").getvalue()
    for _ in range(40):
        data = bytearray(whole)
        data[rng.randrange(4, len(data))] ^= 1 << rng.randrange(8)
        found = decode_predictions(io.BytesIO(bytes(data)), "predictions.parquet", task_of("binary"), CAP)
        assert found.problems or found.table is not None


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_a_problem(share: float) -> None:
    whole = parquet(predictions(rows=200)).getvalue()
    found = decode_predictions(
        io.BytesIO(whole[: int(len(whole) * share)]), "predictions.parquet", task_of("binary"), CAP
    )
    assert [problem.offence for problem in found.problems] == ["unreadable-file"]


def test_polars_and_arrow_write_the_same_table() -> None:
    frame = good_submission().predictions.head(20)
    sink = io.BytesIO()
    frame.write_parquet(sink)
    sink.seek(0)
    found = decode_predictions(sink, "predictions.parquet", task_of("binary"), CAP)
    assert found.problems == ()
    assert np.array_equal(found.arrays["p_1"], decoded(predictions()).arrays["p_1"])
    assert isinstance(frame, pl.DataFrame)
