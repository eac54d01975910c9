"""Step 6: shift and subgroups."""

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl

from protocol.canonical import canonical_json
from protocol.declaration import Declaration
from scorer.signing import public_hex, seal
from submission.writing import task_from
from tests.builders import Draft, edit_json
from tests.hosting import KEY, OTHER_KEY, receipt_of
from tests.mutations.registry import mutates
from tests.mutations.stage1 import put, value


@mutates("MVC601")
def no_external(draft: Draft) -> None:
    outside = draft.splits.filter(pl.col("split") == "external")
    draft.splits = draft.splits.filter(pl.col("split") != "external")
    draft.predictions = draft.predictions.join(outside, on="image_id", how="anti")
    draft.record["shift"]["external"] = []


@mutates("MVC602")
def patient_in_external_and_train(draft: Draft) -> None:
    put(draft, "train", "patient_id", value(draft, "external", "patient_id"))


@mutates("MVC602")
def image_in_external_and_train(draft: Draft) -> None:
    put(draft, "train", "image_id", value(draft, "external", "image_id"))


@mutates("MVC602")
def content_in_external_and_val(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(content_hash="c" + pl.col("image_id"))
    put(draft, "val", "content_hash", value(draft, "external", "content_hash"))


@mutates("MVC603")
def column_undeclared(draft: Draft) -> None:
    draft.splits = draft.splits.with_columns(age=pl.lit("adult"))


@mutates("MVC603")
def column_absent(draft: Draft) -> None:
    draft.splits = draft.splits.drop("sex")


@mutates("MVC603")
def level_undeclared(draft: Draft) -> None:
    put(draft, "test", "sex", "other")


@mutates("MVC603")
def level_absent(draft: Draft) -> None:
    draft.record["shift"]["subgroups"][0]["levels"].append("other")


@mutates("MVC603")
def subgroup_of_the_task_undeclared(draft: Draft) -> None:
    draft.task["subgroups"] = [{"column": "sex", "levels": ["female", "male", "other"]}]


@mutates("MVC604")
def no_lock(draft: Draft) -> None:
    draft.lock = False


@mutates("MVC604")
def recipe_changed_since(draft: Draft) -> None:
    draft.declared = deepcopy(draft.record)
    draft.record["recipe"]["learning_rate"] = 0.01


@mutates("MVC604")
def splits_changed_since(draft: Draft) -> None:
    changed = draft.splits.reverse()
    draft.after.append(lambda folder: changed.write_parquet(folder / "splits.parquet"))


@mutates("MVC604")
def lock_edited(draft: Draft) -> None:
    def edit(folder: Path) -> None:
        edit_json(folder / "declaration.lock", lambda lock: lock.update(declared_at="2020-01-01T00:00:00Z"))

    draft.after.append(edit)


def _with_receipt(draft: Draft, change: Callable[[bytes], bytes] = bytes, **fields: Any) -> None:
    """Put a receipt of the draft's lock into the bundle, and its host's key into the task."""
    draft.task["host_key"] = public_hex(KEY)

    def put_receipt(folder: Path) -> None:
        task = task_from(draft.task)
        lock = Declaration.model_validate_json((folder / "declaration.lock").read_bytes())
        (folder / "receipt.json").write_bytes(change(seal(receipt_of(task, lock, **fields), "receipt", KEY)))

    draft.after.append(put_receipt)


@mutates("MVC604")
def receipt_without_a_host_key(draft: Draft) -> None:
    _with_receipt(draft)
    del draft.task["host_key"]


@mutates("MVC604")
def receipt_changed(draft: Draft) -> None:
    _with_receipt(draft, lambda data: data.replace(b'"payload":"ey', b'"payload":"fy'))


@mutates("MVC604")
def receipt_unsigned(draft: Draft) -> None:
    _with_receipt(draft, lambda data: canonical_json({**json.loads(data), "signatures": []}))


@mutates("MVC604")
def receipt_by_another_host(draft: Draft) -> None:
    _with_receipt(draft)
    draft.task["host_key"] = public_hex(OTHER_KEY)


@mutates("MVC604")
def receipt_of_another_team(draft: Draft) -> None:
    _with_receipt(draft, team="another team")


@mutates("MVC604")
def receipt_is_no_receipt(draft: Draft) -> None:
    _with_receipt(draft, lambda data: b"{}")


@mutates("MVC605")
def external_site_is_ours(draft: Draft) -> None:
    draft.record["shift"]["external"][0]["name"] = "first hospital"
    draft.splits = draft.splits.with_columns(site=pl.lit("first hospital"))


@mutates("MVC606")
def grades_differ(draft: Draft) -> None:
    draft.record["shift"]["external"][0]["differs_in"].append("labels")


@mutates("MVC607")
def site_without_rows(draft: Draft) -> None:
    draft.record["shift"]["external"].append({"name": "third hospital", "differs_in": ["device"]})


@mutates("MVC607")
def site_undeclared(draft: Draft) -> None:
    last_patient = pl.col("patient_id") == value(draft, "external", "patient_id", -1)
    draft.splits = draft.splits.with_columns(
        site=pl.when(last_patient).then(pl.lit("third hospital")).otherwise("site")
    )


@mutates("MVC603", "multiclass")
def level_in_external_only(draft: Draft) -> None:
    tested = pl.col("split") == "test"
    draft.splits = draft.splits.with_columns(sex=pl.when(tested).then(pl.lit("female")).otherwise("sex"))
