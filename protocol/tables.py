"""The two tables of a bundle: each column is stated once, here, with its type, nullability and range.

The schemas are pandera's (polars backend) and are run lazily on the decoded table, so that all failures come at once;
``offence_of`` maps each of pandera's failure reasons to the rule that owns it.
"""

from typing import TYPE_CHECKING, Any

from protocol.task import Task
from protocol.types import SPLIT_NAMES

if TYPE_CHECKING:
    import pandera.polars as pa

SPLITS_TEXT = ("image_id", "patient_id", "split", "site")
SPLITS_OPTIONAL = ("fold", "content_hash")
PREDICTIONS_TEXT = ("image_id", "model", "calibrator")

# Names that give a column away as an outcome or as personal data; compared in lower case without separators.
OUTCOME_NAMES = frozenset(
    {
        "label",
        "labels",
        "y",
        "ytrue",
        "truelabel",
        "target",
        "targets",
        "outcome",
        "groundtruth",
        "gt",
        "truth",
        "diagnosis",
    }
)
PERSONAL_NAMES = frozenset(
    {
        "mrn", "name", "patientname", "firstname", "lastname", "surname", "givenname", "fullname", "dob", "dateofbirth",
        "birthdate", "birthday", "ssn", "nhsnumber", "insurancenumber", "address", "street", "postcode", "zipcode",
        "phone", "telephone", "email", "mail", "accessionnumber", "accession",
    }
)  # fmt: skip


def bare(name: str) -> str:
    """A column name in lower case without separators, for comparison with the lists above."""
    return "".join(char for char in name.casefold() if char.isalnum())


def split_columns(task: Task) -> tuple[str, ...]:
    """Columns that ``splits.parquet`` must have."""
    return (*SPLITS_TEXT, *task.label_columns)


def splits_schema(task: Task, extras: tuple[str, ...], patient_ids: bool) -> "pa.DataFrameSchema":
    """Schema of the decoded ``splits.parquet``; ``extras`` are its further (subgroup) columns, as text."""
    import pandera.polars as pa
    import polars as pl

    columns: dict[str, Any] = {
        "image_id": pa.Column(pl.String, nullable=False, description="HMAC-SHA256 of the image, 64 hex characters"),
        "patient_id": pa.Column(pl.String, nullable=not patient_ids, description="HMAC-SHA256 of the patient"),
        "split": pa.Column(pl.String, pa.Check.isin(SPLIT_NAMES, name="split-name"), nullable=False),
        "site": pa.Column(pl.String, nullable=False, description="where the image was made"),
    }
    for name in task.label_columns:
        columns[name] = pa.Column(pl.Int64, nullable=True, description="class index, null = not labelled")
    columns["fold"] = pa.Column(pl.Int64, nullable=True, required=False, description="fold of a cross-fit")
    columns["content_hash"] = pa.Column(pl.String, nullable=True, required=False, description="hash of the pixels")
    for name in extras:
        columns[name] = pa.Column(pl.String, nullable=True, description="level of a declared subgroup")
    return pa.DataFrameSchema(columns, strict=True, name="splits")


def predictions_schema(task: Task, logits: tuple[str, ...], with_fold: bool) -> "pa.DataFrameSchema":
    """Schema of the decoded ``predictions.parquet`` in canonical column names."""
    import pandera.polars as pa
    import polars as pl

    columns: dict[str, Any] = {
        name: pa.Column(pl.Categorical, nullable=False, description="text") for name in PREDICTIONS_TEXT
    }
    columns["seed"] = pa.Column(pl.Int64, pa.Check.in_range(0, 2**31 - 1, name="seed"), nullable=False)
    for name in task.probability_columns:
        columns[name] = pa.Column(pl.Float64, pa.Check(_probability, name="probability"), nullable=False)
    for name in logits:
        columns[name] = pa.Column(pl.Float64, pa.Check(_finite, name="logit"), nullable=False)
    if with_fold:
        columns["fold"] = pa.Column(pl.Int64, nullable=True)
    return pa.DataFrameSchema(columns, strict=True, name="predictions")


def _probability(data: Any) -> Any:
    import polars as pl

    column = pl.col(data.key)
    # 1/-0.0 is -inf: a negative zero is no probability that an honest softmax writes.
    return data.lazyframe.select(column.is_between(0.0, 1.0) & ((1.0 / column) > 0.0))


def _finite(data: Any) -> Any:
    import polars as pl

    return data.lazyframe.select(pl.col(data.key).is_finite())


def offence_of(reason: str, column: str, check: str) -> str | None:
    """Slug of the rule that owns a failure of pandera's (``reason`` is the name of its SchemaErrorReason).

    None for a failure that only repeats another one (a check that could not run on a wrong type).
    """
    if check == "probability" and reason == "DATAFRAME_CHECK":
        return "probability-not-finite"
    if reason == "SERIES_CONTAINS_NULLS":
        return "probability-not-finite" if column.startswith("p_") else "value-missing"
    return {
        "COLUMN_NOT_IN_DATAFRAME": "wrong-columns",
        "COLUMN_NOT_IN_SCHEMA": "wrong-columns",
        "WRONG_DATATYPE": "wrong-dtype",
        "DATAFRAME_CHECK": "value-out-of-range",
        "CHECK_ERROR": None,
    }.get(reason, "wrong-dtype")
