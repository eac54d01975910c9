"""Step 1: task and splits."""

import hashlib

import polars as pl

from tests.builders import Draft, set_cell
from tests.mutations.registry import mutates
from tests.recalibrating import recalibrate


def place(draft: Draft, split: str, nth: int = 0) -> int:
    """Row of the ``nth`` image of ``split``."""
    return int(draft.splits.with_row_index().filter(pl.col("split") == split)["index"][nth])


def value(draft: Draft, split: str, column: str, nth: int = 0) -> str:
    """A value of that row."""
    return str(draft.splits[column][place(draft, split, nth)])


def put(draft: Draft, split: str, column: str, content: object, nth: int = 0) -> None:
    """Change one cell of the split file."""
    draft.splits = set_cell(draft.splits, place(draft, split, nth), {column: content})


def moved(draft: Draft, old: str, new: str) -> None:
    """Rename a split."""
    draft.splits = draft.splits.with_columns(pl.col("split").replace(old, new))


@mutates("MVC101")
def patient_in_train_and_test(draft: Draft) -> None:
    put(draft, "train", "patient_id", value(draft, "test", "patient_id"))


@mutates("MVC101", "multiclass")
def patients_in_val_and_calib(draft: Draft) -> None:
    for nth in (0, 2):
        put(draft, "val", "patient_id", value(draft, "calib", "patient_id", nth), nth)


@mutates("MVC102")
def image_in_train_and_test(draft: Draft) -> None:
    put(draft, "train", "image_id", value(draft, "test", "image_id"))


@mutates("MVC102")
def content_in_train_and_test(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(content_hash="c" + pl.col("image_id"))
    put(draft, "train", "content_hash", value(draft, "test", "content_hash"))


@mutates("MVC103")
def raw_image_name(draft: Draft) -> None:
    put(draft, "train", "image_id", "scan-0007.png")


@mutates("MVC103")
def raw_patient_number(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(
        pl.col("patient_id").replace(value(draft, "train", "patient_id"), "patient 12345")
    )


@mutates("MVC103")
def upper_case_hash(draft: Draft) -> None:
    put(draft, "train", "image_id", value(draft, "train", "image_id").upper())


for name, digest in (
    ("md5_of_a_number", hashlib.md5(b"123").hexdigest()),
    ("sha1_of_a_number", hashlib.sha1(b"999999").hexdigest()),
    ("sha256_of_a_number", hashlib.sha256(b"0").hexdigest()),
    ("sha256_of_a_padded_number", hashlib.sha256(b"000123").hexdigest()),
    ("sha256_of_a_file_name", hashlib.sha256(b"10_left").hexdigest()),
):

    def hashed(draft: Draft, digest: str = digest) -> None:
        draft.splits = draft.splits.with_columns(
            pl.col("patient_id").replace(value(draft, "train", "patient_id"), digest)
        )

    hashed.__name__ = name
    mutates("MVC104")(hashed)


@mutates("MVC104")
def sha256_of_an_image_number(draft: Draft) -> None:
    put(draft, "train", "image_id", hashlib.sha256(b"42").hexdigest())


@mutates("MVC105")
def no_calib(draft: Draft) -> None:
    moved(draft, "calib", "val")


@mutates("MVC106")
def no_test(draft: Draft) -> None:
    moved(draft, "test", "val")


@mutates("MVC107")
def no_positive_in_calib(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(label=pl.when(pl.col("split") == "calib").then(0).otherwise("label"))
    recalibrate(draft)


@mutates("MVC107")
def no_positive_in_test(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(label=pl.when(pl.col("split") == "test").then(0).otherwise("label"))


@mutates("MVC107", "multiclass")
def no_severe_in_test(draft: Draft) -> None:
    severe = (pl.col("split") == "test") & (pl.col("label") == 2)
    draft.splits = draft.splits.with_columns(label=pl.when(severe).then(1).otherwise("label"))


@mutates("MVC107", "multilabel")
def finding_never_absent_in_test(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(label_1=pl.when(pl.col("split") == "test").then(1).otherwise("label_1"))


@mutates("MVC108")
def label_too_large(draft: Draft) -> None:
    put(draft, "test", "label", 2)


@mutates("MVC108", "multiclass")
def label_negative(draft: Draft) -> None:
    put(draft, "calib", "label", -1)


@mutates("MVC108")
def label_null_in_test(draft: Draft) -> None:
    put(draft, "test", "label", None)


@mutates("MVC108", "multilabel")
def finding_uncertain(draft: Draft) -> None:
    put(draft, "test", "label_2", 2)


@mutates("MVC109")
def patients_unavailable(draft: Draft) -> None:
    draft.record["splits"] |= {"patient_ids": "unavailable", "patient_ids_reason": "never recorded"}
    draft.splits = draft.splits.drop("patient_id")


@mutates("MVC109")
def patients_unavailable_without_reason(draft: Draft) -> None:
    draft.record["splits"]["patient_ids"] = "unavailable"
    draft.splits = draft.splits.drop("patient_id")


@mutates("MVC110")
def patient_per_image(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(patient_id=pl.col("image_id").str.reverse())


@mutates("MVC110")
def one_patient(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(patient_id=pl.lit(value(draft, "train", "patient_id")))


@mutates("MVC111")
def record_names_another_split(draft: Draft) -> None:
    draft.record["splits"]["sha256"] = "0" * 64


@mutates("MVC111")
def task_names_another_split(draft: Draft) -> None:
    draft.task["splits_sha256"] = "f" * 64


@mutates("MVC112")
def no_target(draft: Draft) -> None:
    draft.task["target"] = "  "


@mutates("MVC112")
def no_label_source(draft: Draft) -> None:
    draft.task |= {"label_source": "", "label_definition": ""}


@mutates("MVC113")
def no_train_rows(draft: Draft) -> None:
    draft.splits = draft.splits.filter(pl.col("split") != "train")


@mutates("MVC113")
def no_development_rows(draft: Draft) -> None:
    draft.splits = draft.splits.filter(~pl.col("split").is_in(["train", "val"]))


@mutates("MVC114")
def image_twice_in_test(draft: Draft) -> None:
    draft.splits = pl.concat([draft.splits, draft.splits.filter(pl.col("split") == "test").head(1)])
