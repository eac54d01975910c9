"""Step 2: training."""

import polars as pl

from tests.builders import Draft, rows_of
from tests.mutations.registry import mutates


@mutates("MVC201")
def no_architecture(draft: Draft) -> None:
    del draft.record["recipe"]["architecture"]


@mutates("MVC201", "multiclass")
def blank_weight_decay(draft: Draft) -> None:
    draft.record["recipe"] |= {"weight_decay": " ", "stopping_rule": ""}


@mutates("MVC201")
def zero_shot_without_preprocessing(draft: Draft) -> None:
    draft.record["models"][0]["kind"] = "zero-shot"
    del draft.record["recipe"]["preprocessing"]


@mutates("MVC202")
def seed_missing(draft: Draft) -> None:
    draft.predictions = draft.predictions.filter(pl.col("seed") != 3)


@mutates("MVC202")
def run_missing(draft: Draft) -> None:
    draft.predictions = draft.predictions.filter(~rows_of(draft.predictions, seed=2, calibrator="isotonic"))


@mutates("MVC202")
def seed_undeclared(draft: Draft) -> None:
    draft.record["models"][0]["seeds"] = [1, 2]


@mutates("MVC202")
def model_undeclared(draft: Draft) -> None:
    _add(draft, model=pl.lit("vit"))


@mutates("MVC202")
def calibrator_undeclared(draft: Draft) -> None:
    _add(draft, calibrator=pl.lit("platt"))


def _add(draft: Draft, **columns: pl.Expr) -> None:
    more = draft.predictions.filter(rows_of(draft.predictions, seed=1, calibrator="none"))
    draft.predictions = pl.concat([draft.predictions, more.with_columns(**columns)])


@mutates("MVC203")
def one_seed(draft: Draft) -> None:
    draft.record["models"][0]["seeds"] = [1]
    draft.predictions = draft.predictions.filter(pl.col("seed") == 1)
    draft.calibrators = [c for c in draft.calibrators if c.seed == 1]


@mutates("MVC204")
def selected_on_test(draft: Draft) -> None:
    draft.record["recipe"]["selected_on"] = "test"


@mutates("MVC204")
def model_selected_on_calib(draft: Draft) -> None:
    draft.record["models"][0]["recipe"] = {"selected_on": "calib"}


@mutates("MVC205")
def seed_copied(draft: Draft) -> None:
    first = draft.predictions.filter(pl.col("seed") == 1)
    kept = draft.predictions.filter(pl.col("seed") != 2)
    draft.predictions = pl.concat([kept, first.with_columns(seed=pl.lit(2, dtype=pl.Int64))])
    copies = [c.model_copy(update={"seed": 2}) for c in draft.calibrators if c.seed == 1]
    draft.calibrators = [c for c in draft.calibrators if c.seed != 2] + copies


@mutates("MVC206")
def config_changed(draft: Draft) -> None:
    draft.files["configs/train.yaml"] = b"learning_rate: 0.1\n"


@mutates("MVC206")
def config_absent(draft: Draft) -> None:
    draft.files.clear()


@mutates("MVC207")
def pretraining_untold(draft: Draft) -> None:
    del draft.record["recipe"]["pretrained_on"]


@mutates("MVC207", "multilabel")
def overlap_untold(draft: Draft) -> None:
    draft.record["recipe"]["pretraining_test_overlap"] = ""


@mutates("MVC201")
def ensemble_of_nobody(draft: Draft) -> None:
    draft.record["models"][0] |= {"kind": "ensemble", "members": ["nobody"], "pooling": "mean"}
    del draft.record["recipe"]["augmentation"]


@mutates("MVC205", "multiclass")
def seed_copied_but_for_a_train_row(draft: Draft) -> None:
    seed_copied(draft)
    other = draft.splits.filter(pl.col("split") == "train")["image_id"][0]
    row = draft.predictions.filter(rows_of(draft.predictions, seed=2, calibrator="none")).head(1)
    draft.predictions = pl.concat([draft.predictions, row.with_columns(image_id=pl.lit(other))])
