"""Intake: the two tables, and the rules of step 4 on single values."""

import io
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from tests.builders import Draft, set_cell
from tests.mutations.registry import mutates

Rewrite = Callable[[pa.Table], pa.Table]


def rewritten(draft: Draft, change: Rewrite, file: str = "predictions") -> None:
    """Write the table ``file`` by PyArrow, changed: for what polars can't write."""
    sink = io.BytesIO()
    pq.write_table(change(getattr(draft, file).to_arrow()), sink)
    draft.files[f"{file}.parquet"] = sink.getvalue()


def as_csv(draft: Draft, text: str | None = None, **options: Any) -> None:
    """Give predictions as CSV (``text``, or the table as polars writes it)."""
    data = (draft.predictions.write_csv(**options) if text is None else text).encode()
    draft.files["predictions.csv"] = data
    draft.record["release"]["predictions"] = {"file": "predictions.csv"}
    draft.after.append(lambda folder: (folder / "predictions.parquet").unlink())


def cell(draft: Draft, row: int, **values: Any) -> None:
    """Change cells of one row of predictions."""
    draft.predictions = set_cell(draft.predictions, row, values)


@mutates("MVC002")
def site_column_missing(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.splits = draft.splits.drop("site")


@mutates("MVC002")
def calibrator_column_missing(draft: Draft) -> None:
    draft.predictions = draft.predictions.drop("calibrator")


@mutates("MVC002")
def unknown_column(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(comment=pl.lit("fine"))


@mutates("MVC002")
def upper_case_only(draft: Draft) -> None:
    draft.predictions = draft.predictions.rename({"p_1": "P_1"})


@mutates("MVC002")
def upper_case_identifier(draft: Draft) -> None:
    draft.predictions = draft.predictions.rename({"image_id": "Image_ID"})


@mutates("MVC002")
def image_for_image_id(draft: Draft) -> None:
    draft.predictions = draft.predictions.rename({"image_id": "image"})


@mutates("MVC002")
def index_of_pandas(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_row_index("__index_level_0__")


@mutates("MVC002")
def nameless_index_in_csv(draft: Draft) -> None:
    as_csv(draft, draft.predictions.with_row_index("").write_csv())


@mutates("MVC001")
def semicolons_in_csv(draft: Draft) -> None:
    as_csv(draft, separator=";")


@mutates("MVC003")
def decimal_commas_in_csv(draft: Draft) -> None:
    comma = pl.col("p_1").round(4).cast(pl.String).str.replace(".", ",", literal=True)
    as_csv(draft, draft.predictions.with_columns(comma).write_csv())


@mutates("MVC003", "multiclass")
def percent_signs_in_csv(draft: Draft) -> None:
    as_csv(draft, draft.predictions.with_columns((pl.col("^p_.$") * 100).round(2).cast(pl.String) + "%").write_csv())


@mutates("MVC401", "multiclass")
def percent(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns((pl.col("^p_.$") * 100).round(2))


@mutates("MVC003")
def named_label(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(
        pl.col("label").replace_strict({0: "benign", 1: "malignant"}, default=None)
    )


@mutates("MVC016")
def other_names_for_splits(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(pl.col("split").replace({"train": "training", "val": "validation"}))


@mutates("MVC002")
def odd_subgroup_name(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(pl.lit("x").alias("age; DROP TABLE splits"))


@mutates("MVC003")
def text_probability(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(pl.col("p_1").round(4).cast(pl.String))


@mutates("MVC003")
def text_cell_in_csv(draft: Draft) -> None:
    first = draft.predictions.select(pl.all().exclude("p_1"), pl.col("p_1").cast(pl.String))
    draft.predictions = set_cell(first, 4, {"p_1": "high"})
    as_csv(draft)


@mutates("MVC003")
def text_label(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(pl.col("label").cast(pl.String))


@mutates("MVC003")
def truth_value_probability(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(pl.col("p_1") > 0.5)


@mutates("MVC003")
def nested_column(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(p_1=pl.struct(value=pl.col("p_1")))


@mutates("MVC003")
def number_subgroup(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(sex=pl.lit(1))


@mutates("MVC005")
def row_bomb(draft: Draft) -> None:
    draft.predictions = pl.concat([draft.predictions.head(1)] * 100_000)


@mutates("MVC008")
def column_doubled(draft: Draft) -> None:
    rewritten(draft, lambda table: table.append_column("p_1", table["p_1"]))


@mutates("MVC008")
def column_doubled_in_csv(draft: Draft) -> None:
    text = draft.predictions.with_columns(again=pl.col("p_1")).write_csv()
    as_csv(draft, text.replace("again", "p_1", 1))


@mutates("MVC008")
def columns_differ_in_case(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(P_1=pl.col("p_1"))


@mutates("MVC012")
def no_prediction(draft: Draft) -> None:
    draft.predictions = draft.predictions.clear()


@mutates("MVC012")
def no_prediction_in_csv(draft: Draft) -> None:
    draft.predictions = draft.predictions.clear()
    as_csv(draft)


@mutates("MVC012")
def no_split(draft: Draft) -> None:
    draft.splits = draft.splits.clear()


@mutates("MVC013")
def model_null(draft: Draft) -> None:
    cell(draft, 2, model=None)


@mutates("MVC013")
def site_null(draft: Draft) -> None:
    draft.splits = set_cell(draft.splits, 2, {"site": None})


@mutates("MVC013")
def patient_null(draft: Draft) -> None:
    draft.splits = set_cell(draft.splits, 2, {"patient_id": None})


@mutates("MVC014")
def blank_after_image(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(pl.col("image_id") + " ")


@mutates("MVC014")
def control_character_in_site(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(pl.col("site").replace("first hospital", "first\x1bhospital"))


@mutates("MVC014")
def long_model_name(draft: Draft) -> None:
    cell(draft, 0, model="m" * 201)


@mutates("MVC014")
def empty_calibrator_in_csv(draft: Draft) -> None:
    cell(draft, 0, calibrator="")
    as_csv(draft)


@mutates("MVC016")
def unknown_split(draft: Draft) -> None:
    draft.splits = set_cell(draft.splits, 0, {"split": "holdout"})


@mutates("MVC016")
def negative_seed(draft: Draft) -> None:
    cell(draft, 0, seed=-1)


@mutates("MVC016")
def seed_beyond_range(draft: Draft) -> None:
    cell(draft, 0, seed=2**31)


@mutates("MVC016")
def logit_not_finite(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(z_1=pl.col("p_1") - 0.5)
    cell(draft, 0, z_1=float("inf"))


for name, value in (
    ("not_a_number", float("nan")),
    ("infinite", float("inf")),
    ("minus_infinite", float("-inf")),
    ("above_one", 1.0000001),
    ("negative", -0.1),
    ("negative_zero", -0.0),
    ("null", None),
):

    def put(draft: Draft, value: float | None = value) -> None:
        cell(draft, 7, p_1=value)

    put.__name__ = name
    mutates("MVC401")(put)


@mutates("MVC401")
def not_a_number_in_csv(draft: Draft) -> None:
    cell(draft, 7, p_1=float("nan"))
    as_csv(draft)


@mutates("MVC402", "multiclass")
def row_off(draft: Draft) -> None:
    cell(draft, 3, p_1=0.0, p_2=0.0, p_0=0.9)


@mutates("MVC402", "multiclass")
def row_off_in_float32(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(pl.col("^p_.$").cast(pl.Float32))
    cell(draft, 3, p_0=pl.Series([0.50001], dtype=pl.Float32)[0], p_1=0.5, p_2=0.0)
    draft.predictions = draft.predictions.with_columns(pl.col("^p_.$").cast(pl.Float32))


@mutates("MVC402", "multiclass")
def row_off_in_float16(draft: Draft) -> None:
    cell(draft, 3, p_0=0.503, p_1=0.5, p_2=0.0)
    rewritten(draft, lambda table: halved(table))


@mutates("MVC402", "multiclass")
def row_off_in_csv(draft: Draft) -> None:
    cell(draft, 3, p_0=0.5004, p_1=0.5, p_2=0.0)
    as_csv(draft, float_precision=4)


@mutates("MVC402", "multiclass")
def row_of_zeros_among_whole_numbers(draft: Draft) -> None:
    likely, kept = pl.col("p_0") > 0.3, pl.int_range(pl.len()) > 0
    draft.predictions = draft.predictions.with_columns(
        p_0=(likely & kept).cast(pl.Int64), p_1=(~likely & kept).cast(pl.Int64), p_2=pl.lit(0)
    )


def halved(table: pa.Table) -> pa.Table:
    """Probability columns as float16."""
    for index, name in enumerate(table.column_names):
        if name.startswith("p_"):
            table = table.set_column(index, name, table[name].cast(pa.float16()))
    return table


@mutates("MVC406", "multiclass")
def one_class_too_few(draft: Draft) -> None:
    draft.predictions = draft.predictions.drop("p_2")


@mutates("MVC406", "multiclass")
def one_class_too_many(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(p_3=pl.lit(0.0))


@mutates("MVC406")
def both_classes_of_a_binary_task(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(p_0=1 - pl.col("p_1"))


@mutates("MVC406", "multilabel")
def short_lists(draft: Draft) -> None:
    draft.predictions = draft.predictions.select(
        pl.all().exclude("^p_.$"), probs=pl.concat_list(pl.col("p_0"), pl.col("p_1"))
    )


@mutates("MVC409")
def label_column(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(Y_true=pl.lit(1))
