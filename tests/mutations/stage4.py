"""Step 4: metrics and claims (single values are in ``tables``)."""

from typing import Any

import polars as pl

from protocol.catalogue import catalogue
from tests.builders import Draft, rows_of
from tests.mutations.bases import claimed, doubled
from tests.mutations.registry import mutates
from tests.recalibrating import recalibrate

STRANGER = "0123456789abcdef" * 4


def evaluated(draft: Draft, nth: int = 0) -> str:
    """The ``nth`` test image."""
    return str(draft.splits.filter(pl.col("split") == "test")["image_id"][nth])


@mutates("MVC403")
def image_never_predicted(draft: Draft) -> None:
    draft.predictions = draft.predictions.filter(pl.col("image_id") != evaluated(draft))


@mutates("MVC403", "multilabel")
def external_images_never_predicted(draft: Draft) -> None:
    external = draft.splits.filter(pl.col("split") == "external")["image_id"].head(3)
    draft.predictions = draft.predictions.filter(~pl.col("image_id").is_in(external.to_list()))


@mutates("MVC404")
def stranger(draft: Draft) -> None:
    more = draft.predictions.head(1).with_columns(image_id=pl.lit(STRANGER))
    draft.predictions = pl.concat([draft.predictions, more])


@mutates("MVC405")
def row_doubled(draft: Draft) -> None:
    row = draft.predictions.filter(rows_of(draft.predictions, image_id=evaluated(draft), seed=1, calibrator="isotonic"))
    draft.predictions = pl.concat([draft.predictions, row])


@mutates("MVC405", "multiclass")
def row_doubled_with_another_value(draft: Draft) -> None:
    row = draft.predictions.filter(rows_of(draft.predictions, image_id=evaluated(draft), seed=1, calibrator="none"))
    draft.predictions = pl.concat([draft.predictions, row.with_columns(p_0=pl.col("p_1"), p_1=pl.col("p_0"))])


@mutates("MVC407", base=claimed)
def value_claimed_too_low(draft: Draft) -> None:
    draft.record["metrics"]["claims"][0] |= {"value": "0.012", "interval": None}


@mutates("MVC407", "multiclass", base=claimed)
def value_claimed_in_percent(draft: Draft) -> None:
    draft.claim(metric="accuracy", model="densenet121", seed=1, slice="test", value="99.9%")


@mutates("MVC407", base=claimed)
def value_claimed_in_a_subgroup(draft: Draft) -> None:
    draft.claim(metric="auroc", model="densenet121", calibrator="isotonic", slice="sex=female", value="1.00")


@mutates("MVC407", base=claimed)
def value_claimed_where_there_is_none(draft: Draft) -> None:
    outside = pl.col("split") == "external"
    draft.splits = draft.splits.with_columns(label=pl.when(outside).then(0).otherwise("label"))
    draft.claim(metric="auroc", model="densenet121", slice="external=second hospital", value="0.80")


def _ece(draft: Draft, **fields: Any) -> None:
    ece = catalogue("binary")["ece"]
    whole = {"bins": ece.bins[0], "binning": ece.binning, "reading": ece.reading, "slice": "test", "value": "0.1"}
    claim = {"metric": ece.name, "model": "densenet121", **whole, **fields}
    draft.claim(**{name: field for name, field in claim.items() if field is not None})


for name, fields in (
    ("no_bins", {"bins": None, "reading": None}),
    ("other_bins", {"bins": 10}),
    ("other_binning", {"binning": "equal-width"}),
    ("no_slice", {"slice": None}),
    ("unknown_slice", {"slice": "sex=other"}),
    ("unknown_metric", {"metric": "sharpness"}),
    ("unknown_model", {"model": "vit"}),
    ("unknown_seed", {"seed": 9}),
    ("needless_class", {"class": "malignant"}),
    ("needless_cutoff", {"cutoff": 0.5}),
    ("kappa_of_classes_without_order", {"metric": "kappa_quadratic"}),
    ("several_bins_none_named", {"metric": "mce_weighted", "bins": None, "binning": "equal-width"}),
    ("no_coverage", {"metric": "risk_at_coverage"}),
    ("other_coverage", {"metric": "risk_at_coverage", "cutoff": 0.7}),
    ("undeclared_threshold", {"metric": "net_benefit", "cutoff": 0.2}),
):

    def claim(draft: Draft, fields: dict[str, Any] = fields) -> None:
        _ece(draft, **fields)

    claim.__name__ = name
    mutates("MVC408", base=claimed)(claim)


@mutates("MVC408", "multiclass", base=claimed)
def no_class(draft: Draft) -> None:
    draft.claim(metric="auroc", model="densenet121", slice="test", value="0.9")


@mutates("MVC410")
def constant(draft: Draft) -> None:
    run = rows_of(draft.predictions, seed=1, calibrator="none")
    draft.predictions = draft.predictions.with_columns(p_1=pl.when(run).then(0.5).otherwise("p_1"))
    recalibrate(draft)


@mutates("MVC410", "multiclass")
def one_hot(draft: Draft) -> None:
    run = rows_of(draft.predictions, seed=1, calibrator="none")
    best = pl.max_horizontal("^p_.$")
    draft.predictions = draft.predictions.with_columns(
        pl.when(run).then((pl.col(name) == best).cast(pl.Float64)).otherwise(name).alias(name)
        for name in ("p_0", "p_1", "p_2")
    )
    recalibrate(draft)


@mutates("MVC411", base=doubled)
def few_events(draft: Draft) -> None:
    seldom = (pl.col("split") == "test") & (pl.int_range(pl.len()) % 4 != 0)
    draft.splits = draft.splits.with_columns(label=pl.when(seldom).then(0).otherwise("label"))
