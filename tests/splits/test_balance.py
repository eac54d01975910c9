"""Counts of each split, and what is said where they is not balanced."""

from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocol.types import SPLIT_NAMES, SplitName
from splits.balance import counted_labels, counts_of, unbalanced
from splits.plan import Count

HALVES: dict[SplitName, float] = {"train": 0.5, "test": 0.5}
IMAGES = st.lists(
    st.tuples(st.integers(0, 8), st.one_of(st.none(), st.integers(0, 2)), st.one_of(st.none(), st.integers(0, 1))),
    min_size=1,
    max_size=40,
)


def numbered(units: list[int]) -> np.ndarray:
    return np.unique(units, return_inverse=True)[1].astype(np.int64)


@given(IMAGES, st.lists(st.integers(0, 4), min_size=9, max_size=9))
def test_counts_are_those_of_a_plain_loop(images: list[tuple[int, int | None, int | None]], places: list[int]) -> None:
    units = numbered([unit for unit, _, _ in images])
    frame = pl.DataFrame({"label": pl.Series([label for _, label, _ in images], dtype=pl.Int64)})
    split_of = np.array(places)[: units.max() + 1]
    counts = counts_of(split_of, np.bincount(units), counted_labels(frame, units, 3, "multiclass"), 3)
    rows = [(SPLIT_NAMES[split_of[unit]], int(unit), label) for unit, (_, label, _) in zip(units, images, strict=True)]
    assert [count.split for count in counts] == [split for split in SPLIT_NAMES if any(split == s for s, _, _ in rows)]
    for count in counts:
        own = [(unit, label) for split, unit, label in rows if split == count.split]
        assert (count.images, count.units) == (len(own), len({unit for unit, _ in own}))
        for label in range(3):
            assert count.images_per_class[label] == sum(has == label for _, has in own)
            assert count.units_per_class[label] == len({unit for unit, has in own if has == label})


def test_findings_are_counted_where_they_are_present() -> None:
    frame = pl.DataFrame(
        {"label_0": [1, 1, 0, None], "label_1": [1, 0, 0, None]}, schema_overrides={"label_1": pl.Int8}
    )
    pairs = counted_labels(frame, np.array([0, 0, 1, 1]), 2, "multilabel")
    # label 2 is 'none present': the last two images, of unit 1
    found = zip(pairs.unit.tolist(), pairs.label.tolist(), pairs.images.tolist(), strict=True)
    assert list(found) == [(0, 0, 2), (0, 1, 1), (1, 2, 2)]
    counts = counts_of(np.array([0, 3]), np.array([2, 2]), pairs, 2)
    assert [(count.split, count.images_per_class) for count in counts] == [("train", (2, 1)), ("test", (0, 0))]


def said(splits: Mapping[SplitName, list[tuple[int, int]]], shares: Mapping[SplitName, float] = HALVES) -> list[str]:
    """What is said of patients with (label, images), by split."""
    rows = [(split, label, images) for split, own in splits.items() for label, images in own]
    frame = pl.DataFrame({"label": [label for _, label, images in rows for _ in range(images)]})
    units = np.repeat(np.arange(len(rows)), [images for *_, images in rows])
    dealt = np.array([SPLIT_NAMES.index(split) for split, *_ in rows])
    pairs = counted_labels(frame, units, 2, "binary")
    counts: tuple[Count, ...] = counts_of(dealt, np.bincount(units), pairs, 2)
    return unbalanced(pairs, counts, ("none", "severe"), shares, "patient")


def test_balanced_classes_are_not_mentioned() -> None:
    assert said({"train": [(0, 10), (1, 4)], "test": [(0, 10), (1, 4)]}) == []
    assert said({"train": [(0, 10), (1, 5)], "test": [(0, 12), (1, 3)]}) == []  # one image off its share is rounding


def test_a_quarter_of_the_share_is_off() -> None:
    assert said({"train": [(0, 100), *[(1, 1)] * 24], "test": [(0, 100), *[(1, 1)] * 16]}) == []
    assert said({"train": [(0, 100), *[(1, 1)] * 25], "test": [(0, 100), *[(1, 1)] * 15]}) == [
        "class severe is not balanced: train has 25, its share is 20; test has 15, its share is 20; "
        "it has 40 images of 40 patients"
    ]


def test_a_class_that_a_split_lacks() -> None:
    few = said({"train": [(0, 5), (0, 5), (1, 1), (1, 1)], "test": [(0, 5), (0, 5)]})
    assert few == ["class severe is absent from test: it has 2 images of 2 patients (waive MVC107)"]
    one = said({"train": [(0, 10), (1, 7)], "test": [(0, 10)]})
    assert one == ["class severe is absent from test: one patient alone holds 7 of its 7 images (waive MVC107)"]


def test_a_patient_with_most_of_a_class() -> None:
    assert said({"train": [(0, 10), (1, 20)], "test": [(0, 10), (1, 4)]}) == [
        "class severe is not balanced: train has 20, its share is 12; test has 4, its share is 12; "
        "one patient alone holds 20 of its 24 images"
    ]


@pytest.mark.parametrize("external", [[], [(1, 9)]])
def test_a_class_seen_nowhere_or_at_external_sites_only(external: list[tuple[int, int]]) -> None:
    assert said({"train": [(0, 10)], "test": [(0, 10)], "external": external}) == [
        "class severe: no image outside the external sites" if external else "class severe: no image"
    ]
