"""Draw the splits of a data set: whole patients, stratified, reproducible (step 1)."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from protocol.types import DEVELOPMENT, SplitName


def assign_splits(
    patients: Sequence[str], labels: Sequence[int] | None, proportions: Mapping[SplitName, float], seed: int
) -> list[SplitName]:
    """The split of each image, drawn so that all images of a patient share one.

    ``patients`` and ``labels`` have one entry an image; ``labels`` is None when there is nothing to stratify by.
    ``proportions`` are shares of patients (not images), each above 0, with sum 1 within 1e-9; ``external`` can't be
    drawn, since an external site is another institution.

    Patients are sorted, shuffled by ``seed``, and grouped into strata by their rarest label: the one that the fewest
    patients have, the larger one on a tie (the more severe, where classes are graded). Strata are dealt from the
    rarest on: each patient goes to the split that lacks most of its share so far, so that every split's share of
    every stratum is met up to one or two patients and what rounding takes from a split in one stratum is given
    back in the next. The result depends on ``seed`` and on which patient has which labels, not on the order of rows
    or of ``proportions``.

    Raises ``ValueError`` for no images, lengths that differ, an empty patient id, a negative seed, bad proportions,
    or when a split would get no patient.

    Source: protocol, section 3.1 (split by patient, four parts).
    """
    _check(patients, labels, proportions, seed)
    splits = [split for split in DEVELOPMENT if split in proportions]
    assigned: dict[str, SplitName] = {}
    lacking = dict.fromkeys(splits, 0.0)
    for stratum in _strata(patients, labels, seed):
        for split in splits:
            lacking[split] += proportions[split] * len(stratum)
        for patient in stratum:
            split = max(splits, key=lacking.__getitem__)
            assigned[patient] = split
            lacking[split] -= 1.0
    for split in splits:
        if split not in assigned.values():
            raise ValueError(
                f"split {split} would get no patient: its share {proportions[split]:g} of {len(assigned)} patients "
                f"is too small; raise its share, drop the split, or add patients"
            )
    return [assigned[patient] for patient in patients]


def _check(
    patients: Sequence[str], labels: Sequence[int] | None, proportions: Mapping[SplitName, float], seed: int
) -> None:
    if not patients:
        raise ValueError("there are no images to split")
    if labels is not None and len(labels) != len(patients):
        raise ValueError(f"{len(patients)} patient ids but {len(labels)} labels; give one of each an image")
    if not all(patients):
        raise ValueError("a patient id is empty; images without a patient can't be kept together")
    if seed < 0:
        raise ValueError(f"the seed is {seed}; it must be 0 or more")
    for split, share in proportions.items():
        if split not in DEVELOPMENT:
            raise ValueError(f"split {split} can't be drawn; choose among {', '.join(DEVELOPMENT)}")
        if not share > 0:
            raise ValueError(f"the share of split {split} is {share}; it must be above 0 (or leave the split out)")
    total = math.fsum(proportions.values())
    if not abs(total - 1) <= 1e-9:
        raise ValueError(f"the proportions sum to {total:.12g}; they must sum to 1")


def _strata(patients: Sequence[str], labels: Sequence[int] | None, seed: int) -> list[list[str]]:
    """Shuffled patients by their rarest label, rarest stratum first."""
    labels_of: defaultdict[str, set[int]] = defaultdict(set)
    for patient, label in zip(patients, labels or [0] * len(patients), strict=True):
        labels_of[patient].add(int(label))
    patients_with = Counter(label for own in labels_of.values() for label in own)

    def rarity(label: int) -> tuple[int, int]:
        return patients_with[label], -label

    ordered = sorted(labels_of)
    # raw bits and a sort: numpy keeps the stream of a bit generator fixed across versions, but not permutation()
    keys = np.random.PCG64(seed).random_raw(len(ordered))
    strata: defaultdict[int, list[str]] = defaultdict(list)
    for position in np.argsort(keys, kind="stable"):
        patient = ordered[position]
        strata[min(labels_of[patient], key=rarity)].append(patient)
    return [strata[label] for label in sorted(strata, key=rarity)]
