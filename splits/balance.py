"""Count what each split holds, and say what is not balanced."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import SPLIT_NAMES, Kind, SplitName
from splits.assign import LabelCounts, label_counts
from splits.plan import Count

OFF = 0.25  # of the images that a class should have in a split
WAIVE = " (waive MVC107)"
FEW = 2  # images: less is what any rounding does


def counted_labels(frame: pl.DataFrame, units: NDArray[np.int64], classes: int, kind: Kind) -> LabelCounts:
    """:func:`splits.assign.label_counts` of ``frame``; of findings, label ``classes`` is 'none present'."""
    if kind != "multilabel":
        known = frame["label"].is_not_null().to_numpy()
        return label_counts(units[known], frame["label"].drop_nulls().cast(pl.Int64).to_numpy())
    present = [frame[f"label_{index}"].eq_missing(1).to_numpy() for index in range(classes)]
    present.append(~np.any(present, axis=0))
    rows = [np.flatnonzero(has) for has in present]
    labels = [np.full(len(some), label, dtype=np.int64) for label, some in enumerate(rows)]
    return label_counts(units[np.concatenate(rows)], np.concatenate(labels))


def counts_of(
    split_of: NDArray[np.int64], sizes: NDArray[np.int64], labels: LabelCounts, classes: int
) -> tuple[Count, ...]:
    """The counts of each split; ``split_of`` and ``sizes`` are each unit's place in SPLIT_NAMES and its images."""
    places = split_of[labels.unit] * (classes + 1) + labels.label
    cells = len(SPLIT_NAMES) * (classes + 1)
    images = np.bincount(places, weights=labels.images, minlength=cells).reshape(-1, classes + 1)
    units = np.bincount(places, minlength=cells).reshape(-1, classes + 1)
    return tuple(
        Count(
            split=split,
            images=int(sizes[split_of == place].sum()),
            units=int((split_of == place).sum()),
            images_per_class=tuple(int(count) for count in images[place, :classes]),
            units_per_class=tuple(int(count) for count in units[place, :classes]),
        )
        for place, split in enumerate(SPLIT_NAMES)
        if (split_of == place).any()
    )


def unbalanced(
    labels: LabelCounts,
    counts: Sequence[Count],
    classes: Sequence[str],
    proportions: Mapping[SplitName, float],
    unit: str,
) -> list[str]:
    """Sentences on classes that a split lacks, or has far more or fewer images of than its share.

    ``labels`` are the :func:`counted_labels` of the units that were dealt.
    """
    drawn = [count for count in counts if count.split != "external"]
    largest = np.zeros(len(classes) + 1, dtype=np.int64)
    np.maximum.at(largest, labels.label, labels.images)
    notes = []
    for label, name in enumerate(classes):
        images = sum(count.images_per_class[label] for count in drawn)
        units = sum(count.units_per_class[label] for count in drawn)
        if not images:
            notes.append(f"class {name}: no image{' outside the external sites' if len(drawn) < len(counts) else ''}")
            continue
        wanted = {count.split: proportions[count.split] * images for count in drawn}
        held = {count.split: count.images_per_class[label] for count in drawn}
        absent = [split for split, some in held.items() if not some]
        off = [
            f"{split} has {some}, its share is {wanted[split]:.0f}"
            for split, some in held.items()
            if abs(some - wanted[split]) >= max(FEW, OFF * wanted[split])
        ]
        if largest[label] > min(wanted.values()):
            why = f"one {unit} alone holds {largest[label]} of its {images} images"
        else:
            why = f"it has {images} images of {units} {unit}{'s' if units > 1 else ''}"
        if absent:
            waive = WAIVE if {"calib", "test"} & set(absent) else ""
            notes.append(f"class {name} is absent from {' and '.join(absent)}: {why}{waive}")
        elif off:
            notes.append(f"class {name} is not balanced: {'; '.join(off)}; {why}")
    return notes
