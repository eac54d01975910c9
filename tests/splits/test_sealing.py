"""The hashed table of a split."""

import hmac

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from splits import sealing
from splits.hashing import hash_identifier
from splits.making import Split
from splits.plan import ColumnNames, Plan
from splits.sealing import _order, per_site_ids, seal
from tests.splits.test_making import PLAIN, made, plan_of, simple

SALT = bytes(range(32))


def cells() -> dict[str, list[str | None]]:
    return simple(
        patient=[f"P{place // 3:03}" for place in range(60)], sex=["F" if place % 4 else None for place in range(60)]
    )


def sealed(split: Split, plan: Plan, salt: bytes) -> pl.DataFrame:
    """The whole table."""
    return pl.concat(seal(split, plan, salt).parts())


@pytest.fixture
def plan() -> Plan:
    return plan_of(ColumnNames(patient="patient", labels=("grade",), site="site", subgroups=("sex",)))


@pytest.fixture
def split(plan: Plan) -> Split:
    return made(cells(), plan)


def test_every_row_is_the_image_under_its_hash(split: Split, plan: Plan) -> None:
    table = sealed(split, plan, SALT)
    assert table.columns == ["image_id", "patient_id", "split", "site", "label", "sex"]
    assert table.schema["label"] == pl.Int64
    wanted = {
        hash_identifier(SALT, "study/image", image): (
            hash_identifier(SALT, "study/patient", f"P{int(image) // 3:03}"), name, site, label, sex,
        )
        for image, site, label, sex, name in split.frame.iter_rows()
    }  # fmt: skip
    assert {row[0]: row[1:] for row in table.rows()} == wanted
    assert table.height == len(wanted) == 60


def test_rows_are_in_order_of_the_hash(split: Split, plan: Plan) -> None:
    ids = sealed(split, plan, SALT)["image_id"].to_list()
    assert ids == sorted(ids)
    assert ids != [hash_identifier(SALT, "study/image", image) for image in split.frame["image"]]


def test_another_salt_or_namespace_changes_names_and_nothing_else(split: Split, plan: Plan) -> None:
    tables = [
        sealed(split, plan, SALT),
        sealed(split, plan, SALT[::-1]),
        sealed(split, plan.model_copy(update={"namespace": "other"}), SALT),
    ]
    rest = [table.drop("image_id", "patient_id").rows() for table in tables]
    assert sorted(rest[0], key=str) == sorted(rest[1], key=str) == sorted(rest[2], key=str)
    for column in ("image_id", "patient_id"):
        assert not set(tables[0][column]) & set(tables[1][column])
        assert not set(tables[0][column]) & set(tables[2][column])
    pairs = [sorted(table.group_by("patient_id").len()["len"].to_list()) for table in tables]
    assert pairs[0] == pairs[1] == pairs[2] == [3] * 20


def test_images_and_patients_of_one_name_have_different_hashes() -> None:
    names: list[str | None] = [f"{place:03}" for place in range(60)]
    plan = plan_of(PLAIN)
    table = sealed(made(simple(image=names, patient=names), plan), plan, SALT)
    assert not set(table["image_id"]) & set(table["patient_id"])


def test_parts_are_the_table(split: Split, plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = sealed(split, plan, SALT)
    monkeypatch.setattr(sealing, "PART", 7)
    parts = list(seal(split, plan, SALT).parts())
    assert [part.height for part in parts] == [7] * 8 + [4]
    assert pl.concat(parts).equals(whole)


def test_each_site_numbers_its_own_patients() -> None:
    numbers: list[str | None] = [str(place // 3) for place in range(60)]
    plan = plan_of(PLAIN, patients_per_site=True)
    split = made(simple(patient=numbers), plan)
    table = sealed(split, plan, SALT)
    assert table["patient_id"].n_unique() == 40
    wanted = {
        hash_identifier(SALT, "study/image", image): hash_identifier(
            SALT, f"study/patient/{site}", str(int(image) // 3)
        )
        for image, site in split.frame.select("image", "site").iter_rows()
    }
    assert dict(table.select("image_id", "patient_id").iter_rows()) == wanted
    site, patient = pl.Series(["b", "a", "b"]), pl.Series(["7", "7", "7"])
    assert per_site_ids(site, patient, "n", SALT).to_list() == [
        hash_identifier(SALT, f"n/{name}", "7") for name in ("b", "a", "b")
    ]


def test_unavailable_patients_are_null_text() -> None:
    plan = plan_of(ColumnNames(labels=("grade",)), unavailable="never recorded", unit="image")
    table = sealed(made(simple(), plan), plan, SALT)
    assert table.schema["patient_id"] == pl.String
    assert table["patient_id"].null_count() == 60


def test_folds_are_whole_numbers_or_null() -> None:
    plan = plan_of(PLAIN, folds=3)
    table = sealed(made(cells(), plan), plan, SALT)
    assert table.schema["fold"] == pl.Int64
    assert table["fold"].is_null().to_list() == (table["split"] != "train").to_list()


@given(st.lists(st.binary(min_size=32, max_size=32), min_size=1, max_size=30), st.integers(0, 32))
def test_order_is_that_of_bytes_though_eight_of_them_agree(rows: list[bytes], same: int) -> None:
    rows = [bytes(same) + row[same:] for row in rows]
    found = np.frombuffer(b"".join(rows), dtype=np.uint8).reshape(-1, 32)
    assert [rows[place] for place in _order(found)] == sorted(rows)


def test_the_hash_is_that_of_the_standard_library(split: Split, plan: Plan) -> None:
    ids = set(sealed(split, plan, SALT)["image_id"])
    space = b"study/image"
    assert hmac.new(SALT, len(space).to_bytes(8, "big") + space + b"007", "sha256").hexdigest() in ids
