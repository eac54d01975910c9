"""Values: numbers that are none, that are too many, or that are almost in range."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tests.museum.registry import exhibit, show
from tests.museum.support import first, put, table

PAYLOAD = struct.unpack("<d", struct.pack("<Q", 0x7FF8DEADBEEFCAFE))[0]

for name, value, rule, story in (
    ("nan", float("nan"), "MVC401", "not a number"),
    ("nan_payload", PAYLOAD, "MVC401", "not a number, with a message inside"),
    ("infinity", float("inf"), "MVC401", "infinity"),
    ("minus_infinity", float("-inf"), "MVC401", "minus infinity"),
    ("minus_zero", -0.0, "MVC401", "a negative zero"),
    ("one_and_a_bit", float(np.nextafter(1.0, 2.0)), "MVC401", "the first number above one"),
    ("below_zero", -5e-324, "MVC401", "the first number below zero"),
    ("largest", 1.7976931348623157e308, "MVC401", "the largest number"),
    ("two", 2.0, "MVC401", "two"),
    ("null", None, "MVC401", "no number"),
    ("denormal", 5e-324, "", "the smallest number above zero: a probability like any other"),
):

    def probability(folder: Path, value: Any = value) -> None:
        table(folder, first("p_1", value))

    show(f"probability_{name}", story, *rule.split(), make=probability)

for name, value, kind, rule, story in (
    ("negative", -1, pa.int64(), "MVC016", "a negative seed"),
    ("2_31", 2**31, pa.int64(), "MVC016", "a seed above 31 bits"),
    ("2_53", 2**53 + 1, pa.int64(), "MVC016", "a seed that no float holds"),
    ("least", -(2**63), pa.int64(), "MVC016", "the number that stands for null inside"),
    ("2_64", 2**64 - 1, pa.uint64(), "MVC001", "a seed above 63 bits"),
    ("half", 1.5, pa.float64(), "MVC003", "a seed and a half"),
    ("nan", float("nan"), pa.float64(), "MVC013", "a seed that is no number"),
    ("1e300", 1e300, pa.float64(), "MVC003 MVC016", "a seed beyond all integers"),
    ("null", None, pa.int64(), "MVC013", "no seed"),
    ("text", "1", pa.string(), "MVC003 MVC016", "a seed in quotes"),
):

    def seed(folder: Path, value: Any = value, kind: pa.DataType = kind) -> None:
        def change(old: pa.Table) -> pa.Table:
            values = old["seed"].to_pylist()
            return put("seed", pa.array([value, *(map(str, values[1:]) if kind == pa.string() else values[1:])], kind))(
                old
            )

        table(folder, change)

    show(f"seed_{name}", story, *rule.split(), make=seed)

for name, value, rules, story in (
    ("minus_one", -1, ("MVC108", "MVC604"), "label minus one"),
    ("beyond", 7, ("MVC108", "MVC604"), "a label beyond the classes"),
    ("least", -(2**63), ("MVC108", "MVC604"), "the number that stands for null inside"),
    ("most", 2**63 - 1, ("MVC108", "MVC604"), "the largest label"),
):

    def label(folder: Path, value: int = value) -> None:
        def change(old: pa.Table) -> pa.Table:
            split, labels = old["split"].to_pylist(), old["label"].to_pylist()
            labels[split.index("test")] = value
            return put("label", pa.array(labels, pa.int64()))(old)

        table(folder, change, "splits")

    show(f"label_{name}", story, *rules, make=label)


@exhibit("MVC401")
def all_nan(folder: Path) -> None:
    """Not a number in every row."""
    table(folder, lambda old: put("p_1", pa.array([float("nan")] * old.num_rows))(old))


@exhibit("MVC401")
def percent(folder: Path) -> None:
    """Percent in the place of probabilities."""
    table(folder, lambda old: put("p_1", pc.multiply(old["p_1"], 100.0))(old))


@exhibit("MVC405", "MVC205")
def every_row_twice(folder: Path) -> None:
    """Every prediction twice."""
    table(folder, lambda old: pa.concat_tables([old, old]))


@exhibit("MVC114", "MVC604")
def every_image_twice(folder: Path) -> None:
    """Every image of the split file twice."""
    table(folder, lambda old: pa.concat_tables([old, old]), "splits")


@exhibit("MVC405", "MVC202", "MVC308", "MVC403")
def one_row_over_and_over(folder: Path) -> None:
    """One prediction, as often as there should be rows."""
    table(folder, lambda old: old.slice(0, 1).take(pa.array([0] * old.num_rows)))


@exhibit()
def shuffled(folder: Path) -> None:
    """Rows in no order: order means nothing."""
    rng = np.random.default_rng(1)
    table(folder, lambda old: old.take(pa.array(rng.permutation(old.num_rows))))


@exhibit()
def columns_reversed(folder: Path) -> None:
    """Columns in another order: they are joined by name."""
    table(folder, lambda old: old.select(old.column_names[::-1]))


@exhibit("MVC110", "MVC604")
def one_patient(folder: Path) -> None:
    """All images of one patient, in every split."""
    table(folder, lambda old: put("patient_id", pa.array(["a" * 64] * old.num_rows))(old), "splits")


@exhibit("MVC106", "MVC105", "MVC113", "MVC604", "MVC607")
def everything_in_training(folder: Path) -> None:
    """A split file with no other split than train."""
    table(folder, lambda old: put("split", pa.array(["train"] * old.num_rows))(old), "splits")


@exhibit("MVC016")
def split_of_another_case(folder: Path) -> None:
    """A split called TEST."""
    table(folder, lambda old: put("split", pc.utf8_upper(old["split"]))(old), "splits")


@exhibit("MVC013")
def no_site(folder: Path) -> None:
    """A null where a site belongs."""
    table(folder, first("site", None), "splits")


@exhibit("MVC704", "MVC604", "MVC607")
def e_mail_site(folder: Path) -> None:
    """An e-mail address for a site."""
    table(
        folder, lambda old: put("site", pc.replace_substring(old["site"], "h", "h@hospital.example.org"))(old), "splits"
    )
