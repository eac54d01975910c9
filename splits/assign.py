"""Draw the splits of a data set: whole patients, stratified, reproducible (step 1)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import DEVELOPMENT, SPLIT_NAMES, SplitName
from splits.errors import SplitError
from splits.units import coded

MAX_CELLS = 100_000


def assign_splits(
    patients: Sequence[str], labels: Sequence[int] | None, proportions: Mapping[SplitName, float], seed: int
) -> list[SplitName]:
    """The split of each image, drawn so that all images of a patient share one; see :func:`draw`.

    ``patients`` and ``labels`` have one entry an image; ``labels`` is None when there is nothing to stratify by.
    """
    if labels is not None and len(labels) != len(patients):
        raise ValueError(f"{len(patients)} patient ids but {len(labels)} labels; give one of each an image")
    if not all(patients):
        raise SplitError("a patient id is empty; images without a patient can't be kept together")
    units = coded(pl.Series("patient", list(patients), dtype=pl.String)).codes
    of_label = np.zeros(len(units), dtype=np.int64) if labels is None else np.array([int(label) for label in labels])
    return [SPLIT_NAMES[place] for place in draw(units, label_counts(units, of_label), proportions, seed).tolist()]


@dataclass(frozen=True)
class LabelCounts:
    """How many ``images`` of each ``label`` each ``unit`` has: three arrays of one entry a pair, in that order."""

    unit: NDArray[np.int64]
    label: NDArray[np.int64]
    images: NDArray[np.int64]


def label_counts(units: NDArray[np.int64], labels: NDArray[np.int64]) -> LabelCounts:
    """Count pairs of a unit and a label (-1 or more): an image with several findings gives one pair a finding."""
    width = int(labels.max(initial=-1)) + 2
    cells = units * width + (labels + 1)
    most = (int(units.max(initial=0)) + 1) * width
    if most > 8 * len(cells) + 1000:  # few of many cells: sorting beats counting
        pairs, images = np.unique(cells, return_counts=True)
    else:
        counts = np.bincount(cells, minlength=most)
        pairs = np.flatnonzero(counts)
        images = counts[pairs]
    return LabelCounts(pairs // width, pairs % width - 1, images)


def draw(
    units: NDArray[np.int64],
    labels: LabelCounts,
    proportions: Mapping[SplitName, float],
    seed: int,
    levels: Sequence[NDArray[np.int64]] = (),
) -> NDArray[np.int64]:
    """The split of each image, as its place in SPLIT_NAMES; all images of a unit, such as a patient, share one.

    ``units`` has one number an image, 0 ... U - 1 in order of the units' names (:func:`splits.units.units_of`);
    ``labels`` is their :func:`label_counts`. ``levels`` are further columns to stratify by, one code an image (-1 is a
    level too). ``proportions`` are shares of units (not of images), each above 0, with sum 1 within 1e-9;
    ``external`` can't be drawn, since an external site is another institution.

    Units are shuffled by ``seed`` and grouped into strata by their rarest label: the one that the
    fewest units have, the larger one on a tie (the more severe, where classes are graded); inside a stratum by
    their rarest level of each of ``levels``, then by the power of two of their number of images. Strata are dealt
    from the rarest on: each unit goes to the split that lacks most of its share so far, so that every split's share
    of every stratum is met up to one or two units, and what rounding takes from a split in one stratum is given back
    in the next. A class that has at least as many units as there are splits then gets one in each, where a unit
    whose rarest label it is can be moved. The result depends on ``seed`` and on what is in the rows, not on their
    order or on that of ``proportions``.

    Raises :class:`SplitError` (a ``ValueError``) for no images, an empty unit, a negative seed, bad proportions, more
    than 100,000 strata, or when a split would get no unit.

    Source: protocol, section 3.1 (split by patient, four parts).
    """
    check_proportions(proportions)
    if len(units) == 0:
        raise SplitError("there are no images to split")
    if seed < 0:
        raise SplitError(f"the seed is {seed}; it must be 0 or more")
    splits = [split for split in DEVELOPMENT if split in proportions]
    sizes = np.bincount(units)
    shuffled = np.argsort(_keys(seed, len(sizes)), kind="stable")
    strata, order = _rarest(labels, len(sizes))
    cells = [strata, *(_level(units, column, len(sizes)) for column in levels), _bands(sizes)]
    dealt = _deal(cells, order, shuffled, labels, np.array([proportions[split] for split in splits]))
    counts = np.bincount(dealt, minlength=len(splits))
    for position, split in enumerate(splits):
        if counts[position] == 0:
            raise SplitError(
                f"split {split} would get no patient: its share {proportions[split]:g} of {len(sizes)} patients "
                f"is too small; raise its share, drop the split, or add patients"
            )
    return np.array([SPLIT_NAMES.index(split) for split in splits])[dealt[units]]


def draw_folds(
    units: NDArray[np.int64],
    labels: LabelCounts,
    folds: int,
    seed: int,
    levels: Sequence[NDArray[np.int64]] = (),
) -> NDArray[np.int64]:
    """A fold, 0 ... ``folds`` - 1, for each image: whole units, dealt as :func:`draw` deals them to splits.

    Raises :class:`SplitError` for fewer than 2 folds or fewer units than folds.
    """
    sizes = np.bincount(units)
    if not 2 <= folds <= len(sizes):
        raise SplitError(
            f"{folds} folds of {len(sizes)} training patients; a cross-fit takes 2 or more, a patient each"
        )
    # a second word keeps this stream apart from the one that drew the splits under the same seed
    shuffled = np.argsort(_keys([seed, 2], len(sizes)), kind="stable")
    strata, order = _rarest(labels, len(sizes))
    cells = [strata, *(_level(units, column, len(sizes)) for column in levels), _bands(sizes)]
    return _deal(cells, order, shuffled, labels, np.full(folds, 1 / folds))[units]


def check_proportions(proportions: Mapping[SplitName, float]) -> None:
    """SplitError unless each share is above 0, of a split that can be drawn, and all sum to 1."""
    for split, share in proportions.items():
        if split not in DEVELOPMENT:
            raise SplitError(f"split {split} can't be drawn; choose among {', '.join(DEVELOPMENT)}")
        if not share > 0:
            raise SplitError(f"the share of split {split} is {share}; it must be above 0 (or leave the split out)")
    total = math.fsum(proportions.values())
    if not abs(total - 1) <= 1e-9:
        raise SplitError(f"the proportions sum to {total:.12g}; they must sum to 1")


def _keys(seed: int | Sequence[int], count: int) -> NDArray[np.uint64]:
    # raw bits and a sort: numpy keeps the stream of a bit generator fixed across versions, but not permutation()
    return np.asarray(np.random.PCG64(seed).random_raw(count), dtype=np.uint64)


def _rarest(pairs: LabelCounts, units: int) -> tuple[NDArray[np.int64], list[int]]:
    """The stratum of each unit: the place of its rarest label among the labels, rarest first; and those labels."""
    labels, inverse, carriers = np.unique(pairs.label, return_inverse=True, return_counts=True)
    order = np.lexsort((-labels, carriers))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    stratum = np.full(units, len(labels), dtype=np.int64)  # units without any label come last
    np.minimum.at(stratum, pairs.unit, rank[inverse])
    return stratum, labels[order].tolist()


def _level(units: NDArray[np.int64], column: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The rarest level of each unit in ``column``, as a rank."""
    return _rarest(label_counts(units, column), count)[0]


def _bands(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Largest units first: minus the power of two that their number of images reaches."""
    return -np.floor(np.log2(sizes)).astype(np.int64)


def _deal(
    keys: Sequence[NDArray[np.int64]],
    labels: Sequence[int],
    shuffled: NDArray[np.int64],
    pairs: LabelCounts,
    shares: NDArray[np.float64],
) -> NDArray[np.int64]:
    """The place of each unit's split in ``shares``."""
    # lexsort is stable and sorts by its last key first: strata, levels, bands, then the shuffled order
    order = shuffled[np.lexsort([key[shuffled] for key in reversed(keys)])]
    sorted_keys = np.stack([key[order] for key in keys])
    starts = np.flatnonzero(np.r_[True, (sorted_keys[:, 1:] != sorted_keys[:, :-1]).any(axis=0)])
    if len(starts) > MAX_CELLS:
        raise SplitError(
            f"there are {len(starts)} strata, at most {MAX_CELLS} can be dealt; stratify by fewer columns, "
            "or by bands of a number instead of the number"
        )
    ends = np.r_[starts[1:], len(order)]
    dealt = np.empty(len(order), dtype=np.int64)
    lacking = np.zeros(len(shares))
    carriers = {label: pairs.unit[pairs.label == label] for label in labels}
    for start, end in zip(starts, ends, strict=True):
        members = order[start:end]
        lacking += shares * len(members)
        dealt[members] = _turns(lacking, len(members))
        lacking -= np.bincount(dealt[members], minlength=len(shares))
        stratum = int(sorted_keys[0, start])
        last = end == len(order) or sorted_keys[0, end] != stratum
        if last and stratum < len(labels):
            first = int(np.searchsorted(sorted_keys[0], stratum))
            _cover(dealt, lacking, order[first:end], carriers[labels[stratum]])
    return dealt


def _turns(lacking: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Whose turn it is, ``count`` times: always the split that lacks most, the first one on a tie."""
    # each turn lowers its split's lack by one, so that the turns are the largest of lack, lack - 1, lack - 2 ...
    lengths = np.clip(np.ceil(lacking), 0, count).astype(np.int64)
    split = np.repeat(np.arange(len(lacking)), lengths)
    left = np.concatenate([lack - np.arange(length) for lack, length in zip(lacking, lengths, strict=True)])
    turns = split[np.argsort(-left, kind="stable")][:count]
    if len(turns) < count:  # rounding of the shares: the last one is owed by none
        turns = np.r_[turns, np.full(count - len(turns), int(np.argmax(lacking)))]
    return turns


def _cover(
    dealt: NDArray[np.int64], lacking: NDArray[np.float64], movable: NDArray[np.int64], carriers: NDArray[np.int64]
) -> None:
    """Give each split a unit of this class where its units suffice and one whose rarest class it is can be moved."""
    if len(carriers) < len(lacking):
        return
    for split in range(len(lacking)):
        held = np.bincount(dealt[carriers], minlength=len(lacking))
        if held[split]:
            continue
        for donor in np.argsort(-held, kind="stable"):
            spare = movable[dealt[movable] == donor]
            if held[donor] > 1 and len(spare):
                dealt[spare[-1]] = split
                lacking[donor] += 1
                lacking[split] -= 1
                break
