"""Draw the splits of a data set: whole patients, stratified, reproducible (step 1)."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol.types import DEVELOPMENT, SPLIT_NAMES, SplitName
from splits.errors import SplitError
from splits.units import coded

MAX_CELLS = 100_000
DEPTH = 3  # labels of a unit by which it is sorted
TRIES = 8  # dealings of which the best balanced one is taken
MOST_DEALT = 2_000_000  # units dealt in all of them
PHASES = 55_440  # a multiple of 1 to 12: shares of a few per cent come round in it


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
    of_label = np.zeros(len(units), dtype=np.int64)
    if labels is not None:
        of_label = np.unique(np.array([int(label) for label in labels]), return_inverse=True)[1]
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

    Units are shuffled by ``seed`` and sorted into cells of units that are alike: by their rarest label (the one that
    the fewest units have, the larger one on a tie: the more severe, where classes are graded), by their rarest level of
    each of ``levels``, by how many images of that label they have, by their next rarest label and so on three labels
    deep, by the power of two of their number of images. Where each cell is large enough to give every split a unit, it
    is dealt by the shares, and what rounding takes from a split in one is given back in the next. Otherwise the
    sorted list is dealt in a rotation that starts at random, shuffled within short blocks: systematic sampling along a
    list in which neighbours are alike, so that each unit comes into each split as often, over the seeds, as its share
    says. Of 8 such dealings (two million units in all) the best balanced one is taken, by the images of each label;
    this moves those chances little, since a unit that is too large to be balanced counts less. A class with as many
    units as there are splits at last gets one in each, where a unit whose rarest label it is can be moved. The result
    depends on ``seed`` and on what is in the rows, not on their order or on that of ``proportions``.

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
    dealt = _deal(units, sizes, labels, levels, np.array([proportions[split] for split in splits]), (seed,))
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
    return _deal(units, sizes, labels, levels, np.full(folds, 1 / folds), (seed, 2))[units]


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


def _deal(
    units: NDArray[np.int64],
    sizes: NDArray[np.int64],
    pairs: LabelCounts,
    levels: Sequence[NDArray[np.int64]],
    shares: NDArray[np.float64],
    seed: tuple[int, ...],
) -> NDArray[np.int64]:
    """The place of each unit's split in ``shares``."""
    labels, profile = _profile(pairs, len(sizes))
    by = [_profile(label_counts(units, column), len(sizes))[1][0] for column in levels]
    bands = -np.frexp(sizes)[1].astype(np.int64)  # exact where a logarithm may not be
    shuffled = np.argsort(_words(seed, len(sizes)), kind="stable")
    order, starts = _in_cells([profile[0], *by, *profile[1:], bands], shuffled)
    if len(starts) > MAX_CELLS:  # hardly two units are alike: by the rarest label alone
        order, starts = _in_cells([profile[0], *by, bands], shuffled)
    if len(starts) > MAX_CELLS:
        raise SplitError(
            f"there are {len(starts)} strata, at most {MAX_CELLS} can be dealt; stratify by fewer columns, "
            "or by bands of a number instead of the number"
        )
    ends = np.r_[starts[1:], len(order)]
    if (ends - starts).min() * shares.min() >= 1:
        dealt = _by_cells(order, starts, ends, shares)
    else:
        tries = min(TRIES, max(1, MOST_DEALT // len(order)))
        words = _words((*seed, 3), tries)
        dealings = (_by_list(order, starts, ends, shares, int(word)) for word in words)
        dealt = min(dealings, key=_imbalance(pairs, shares))
    for place, label in enumerate(labels):
        _cover(dealt, order[profile[0][order] == place], pairs.unit[pairs.label == label], len(shares))
    return dealt


def _imbalance(pairs: LabelCounts, shares: NDArray[np.float64]) -> Callable[[NDArray[np.int64]], float]:
    """How far the images of each label in each split are from their share, as a sum of squared ratios.

    A unit counts up to half of the smallest share of a label: more of it no dealing can balance, and it must not be
    kept out of the small splits for that.
    """
    _, of = np.unique(pairs.label, return_inverse=True)
    total = np.bincount(of, weights=pairs.images)
    capped = np.minimum(pairs.images, np.maximum(1.0, total[of] * shares.min() / 2))
    wanted = np.bincount(of, weights=capped)[:, None] * shares

    def measure(dealt: NDArray[np.int64]) -> float:
        cells = of * len(shares) + dealt[pairs.unit]
        held = np.bincount(cells, weights=capped, minlength=wanted.size).reshape(wanted.shape)
        return math.fsum((((held - wanted) / wanted) ** 2).ravel())  # exact: no machine finds another smallest

    return measure


def _by_cells(
    order: NDArray[np.int64], starts: NDArray[np.int64], ends: NDArray[np.int64], shares: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Each cell by its shares, up to one or two units, which the next cells give back; the shuffle does the rest."""
    dealt, lacking = np.empty(len(order), dtype=np.int64), np.zeros(len(shares))
    for start, end in zip(starts, ends, strict=True):
        lacking += shares * (end - start)
        dealt[order[start:end]] = _turns(lacking, end - start)
        lacking -= np.bincount(dealt[order[start:end]], minlength=len(shares))
    return dealt


def _by_list(
    order: NDArray[np.int64],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    shares: NDArray[np.float64],
    seed: int,
) -> NDArray[np.int64]:
    """Turns in a rotation from a random one on, shuffled within short blocks: each unit meets each split by its share.

    The largest cell comes last and gets what is then lacking: the shares are met in all.
    """
    cell = int(np.argmax(ends - starts))
    last = order[starts[cell] : ends[cell]]
    first = np.r_[order[: starts[cell]], order[ends[cell] :]]
    begin = seed % PHASES
    places = [np.arange(math.ceil((begin + len(first)) * share) + 1) for share in shares]
    times = np.concatenate([(place + 0.5) / share for place, share in zip(places, shares, strict=True)])
    rotation = np.repeat(np.arange(len(shares)), [len(place) for place in places])
    turns = rotation[np.argsort(times, kind="stable")[begin : begin + len(first)]]
    block = (np.arange(len(first)) + begin) // math.ceil(1 / shares.min())
    dealt = np.empty(len(order), dtype=np.int64)
    dealt[first] = turns[np.lexsort((_words((seed,), len(first)), block))]
    lacking = shares * len(order) - np.bincount(dealt[first], minlength=len(shares))
    dealt[last] = _turns(lacking, len(last))
    return dealt


def _words(seed: tuple[int, ...], count: int) -> NDArray[np.uint64]:
    # raw bits and a sort: numpy keeps the stream of a bit generator fixed across versions, but not permutation()
    start = seed[0] if len(seed) == 1 else list(seed)
    return np.asarray(np.random.PCG64(start).random_raw(count), dtype=np.uint64)


def _profile(pairs: LabelCounts, units: int) -> tuple[list[int], list[NDArray[np.int64]]]:
    """The labels, rarest first; for each unit the place of its rarest label, minus its images of it, the next label ...

    A unit without a further label has the place after the last, and units without any come last.
    """
    labels, inverse, carriers = np.unique(pairs.label, return_inverse=True, return_counts=True)
    order = np.lexsort((-labels, carriers))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    ranks = rank[inverse]
    rows = np.lexsort((ranks, pairs.unit))
    owner = pairs.unit[rows]
    depth = np.arange(len(rows)) - np.searchsorted(owner, owner)
    keys = []
    for place in range(DEPTH):
        here = depth == place
        label, count = np.full(units, len(labels), dtype=np.int64), np.zeros(units, dtype=np.int64)
        label[owner[here]] = ranks[rows[here]]
        count[owner[here]] = -pairs.images[rows[here]]
        keys += [label, count]
    return labels[order].tolist(), keys


def _in_cells(
    keys: Sequence[NDArray[np.int64]], shuffled: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The units sorted by ``keys``, alike ones as they were shuffled; and where the alike ones of each cell start."""
    # lexsort is stable and sorts by its last key first
    order = shuffled[np.lexsort([key[shuffled] for key in reversed(keys)])]
    differs = np.zeros(len(order) - 1, dtype=bool)
    for key in keys:
        differs |= key[order[1:]] != key[order[:-1]]
    return order, np.flatnonzero(np.r_[True, differs])


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


def _cover(dealt: NDArray[np.int64], movable: NDArray[np.int64], carriers: NDArray[np.int64], splits: int) -> None:
    """Give each split a unit of this class where its units suffice and one whose rarest class it is can be moved."""
    if len(carriers) < splits:
        return
    for split in range(splits):
        held = np.bincount(dealt[carriers], minlength=splits)
        if held[split]:
            continue
        for donor in np.argsort(-held, kind="stable"):
            spare = movable[dealt[movable] == donor]
            if held[donor] > 1 and len(spare):
                dealt[spare[-1]] = split
                break
