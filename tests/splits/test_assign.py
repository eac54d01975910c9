import random
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from protocol.types import SPLIT_NAMES, SplitName
from splits import assign
from splits.assign import LabelCounts, _profile, assign_splits, draw, draw_folds, label_counts
from splits.errors import SplitError

SHARES: dict[SplitName, float] = {"train": 0.6, "val": 0.1, "calib": 0.1, "test": 0.2}
ROWS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3)), min_size=1, max_size=120)


def splits_of(patients: list[str], assigned: list[SplitName]) -> dict[str, set[str]]:
    of: defaultdict[str, set[str]] = defaultdict(set)
    for patient, split in zip(patients, assigned, strict=True):
        of[patient].add(split)
    return of


def counts(patients: list[str], assigned: list[SplitName]) -> Counter[str]:
    """Patients per split."""
    return Counter(split for _, split in set(zip(patients, assigned, strict=True)))


def test_one_patient_an_image_and_one_label_meets_the_shares_exactly() -> None:
    patients = [f"p{n}" for n in range(100)]
    assert counts(patients, assign_splits(patients, None, SHARES, 0)) == {
        "train": 60,
        "val": 10,
        "calib": 10,
        "test": 20,
    }


def test_every_stratum_is_shared_out() -> None:
    # 100 patients of class 0, 50 of 1, 20 of 2: each stratum divides evenly, so each split gets its exact share
    labels = [0] * 100 + [1] * 50 + [2] * 20
    patients = [f"p{n}" for n in range(170)]
    assigned = assign_splits(patients, labels, SHARES, 3)
    table = Counter(zip(labels, assigned, strict=True))
    for label, size in ((0, 100), (1, 50), (2, 20)):
        assert {split: table[label, split] for split in SHARES} == {s: round(f * size) for s, f in SHARES.items()}


def test_a_patient_counts_by_its_rarest_label() -> None:
    # 10 of 100 patients have one image of class 1 among many of class 0: each half gets 5 of them
    patients = [f"p{n % 100:02d}" for n in range(300)]
    labels = [int(n < 10) for n in range(300)]
    assigned = assign_splits(patients, labels, {"calib": 0.5, "test": 0.5}, 1)
    rare = {(patient, split) for patient, split, label in zip(patients, assigned, labels, strict=True) if label}
    assert Counter(split for _, split in rare) == {"calib": 5, "test": 5}


def test_a_tie_of_rarity_goes_to_the_larger_label() -> None:
    # labels 1 and 2 have 4 patients each: a and b have both, c and d one, e and f the other; 0 is everywhere
    units = np.array([0, 0, 1, 1, 2, 3, 4, 5, *range(6)])
    labels, keys = _profile(label_counts(units, np.array([1, 2, 1, 2, 1, 1, 2, 2, *[0] * 6])), 6)
    assert labels == [2, 1, 0]
    rarest, images, second = keys[:3]
    assert rarest.tolist() == [0, 0, 1, 1, 0, 0]
    assert images.tolist() == [-1] * 6
    assert second.tolist() == [1, 1, 2, 2, 2, 2]


def heavy_tail() -> tuple[NDArray[np.int64], LabelCounts]:
    """150 patients, some with a hundred images and more; five classes, the rarest of a few images."""
    rng = np.random.default_rng(0)
    sizes = np.minimum(150, (rng.pareto(1.1, 150) * 2).astype(int) + 1)
    units = np.repeat(np.arange(150), sizes)
    labels = np.concatenate([rng.choice(5, size, p=rng.dirichlet([3, 0.3, 0.2, 0.1, 0.05])) for size in sizes])
    return units, label_counts(units, labels)


def test_no_patient_is_kept_out_of_a_split() -> None:
    """Not even those of most images: balance is no reason to test on other patients than those there are."""
    units, labels = heavy_tail()
    first = np.unique(units, return_index=True)[1]
    splits = np.stack([draw(units, labels, SHARES, seed)[first] for seed in range(150)])
    largest = np.argsort(-np.bincount(units))[:15]
    for split, share in SHARES.items():
        often = (splits == SPLIT_NAMES.index(split)).mean(axis=0)
        assert often.min() > (0.5 * share if share >= 0.2 else 0)
        assert 0.6 * share < often[largest].mean() < 1.5 * share


def test_labels_can_be_any_whole_numbers() -> None:
    patients = [f"p{n}" for n in range(40)]
    small = [n % 3 for n in range(40)]
    large = [(0, 2**40, 2**62)[n] for n in small]
    assert assign_splits(patients, large, SHARES, 1) == assign_splits(patients, small, SHARES, 1)


def test_images_of_mixed_patients_are_balanced() -> None:
    """Two eyes of different grades: the images of every class are within a tenth of their share, but for one image."""
    rng = np.random.default_rng(1)
    grade = rng.choice(5, 1500, p=[0.7, 0.1, 0.12, 0.05, 0.03])
    eyes = np.clip(grade[:, None] + rng.choice([-1, 0, 0, 1], (1500, 2)), 0, 4).ravel()
    units = np.repeat(np.arange(1500), 2)
    split = draw(units, label_counts(units, eyes), SHARES, 3)
    for label in range(5):
        total = (eyes == label).sum()
        for name, share in SHARES.items():
            held = ((eyes == label) & (split == SPLIT_NAMES.index(name))).sum()
            assert abs(held - share * total) <= 0.1 * share * total + 1


def test_seeds_give_different_splits_where_no_two_patients_are_alike() -> None:
    units, labels = heavy_tail()
    assert len({draw(units, labels, SHARES, seed).tobytes() for seed in range(20)}) == 20


def test_singleton_strata_do_not_all_go_to_the_largest_split() -> None:
    patients = [f"p{n:02d}" for n in range(40)]
    assigned = assign_splits(patients, list(range(40)), SHARES, 0)
    for split, share in SHARES.items():
        assert abs(Counter(assigned)[split] - share * 40) <= 1


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(0, 2**31 - 1), st.randoms(use_true_random=False))
def test_whole_patients_whatever_the_row_order(rows: list[tuple[int, int]], seed: int, shuffle: random.Random) -> None:
    patients, labels = [f"p{n}" for n, _ in rows], [label for _, label in rows]
    try:
        assigned = assign_splits(patients, labels, SHARES, seed)
    except ValueError as error:
        assert "would get no patient" in str(error)  # noqa: PT017
        return
    assert all(len(splits) == 1 for splits in splits_of(patients, assigned).values())
    assert set(assigned) == set(SHARES)
    total = len(set(patients))
    # a patient moved so that a split has one of a rare class leaves the shares off by one, for each class and split
    moved = len(set(labels)) * (len(SHARES) - 1)
    for split, size in counts(patients, assigned).items():
        assert -3 - moved < size - SHARES[split] * total < 1 + moved  # type: ignore[index]
    carriers = {label: {p for p, has in zip(patients, labels, strict=True) if has == label} for label in set(labels)}
    for label, own in carriers.items():
        elsewhere = set().union(
            *(others for other, others in carriers.items() if len(others) <= len(own) and other != label)
        )
        if len(own - elsewhere) >= len(SHARES):
            assert {split for p, split in zip(patients, assigned, strict=True) if p in own} == set(SHARES)

    order = list(range(len(rows)))
    shuffle.shuffle(order)
    turned = assign_splits(
        [patients[i] for i in order], [labels[i] for i in order], dict(reversed(SHARES.items())), seed
    )
    assert turned == [assigned[i] for i in order]


@pytest.mark.parametrize(("seed", "expected"), [(0, "t...cc..ttt...v.v..."), (1, ".t.c..vtc.tv...t....")])
def test_the_draw_is_pinned_and_follows_the_seed(seed: int, expected: str) -> None:
    # a change of these letters means that published seeds no longer give the published splits
    letter = {"train": ".", "val": "v", "calib": "c", "test": "t"}
    assigned = assign_splits([f"p{n:02d}" for n in range(20)], None, SHARES, seed)
    assert "".join(letter[split] for split in assigned) == expected


def test_seeds_give_each_patient_each_split_in_proportion() -> None:
    patients = [f"p{n}" for n in range(10)]
    drawn = Counter(assign_splits(patients, None, SHARES, seed)[0] for seed in range(1000))
    # binomial standard deviation below 16: five of them
    assert all(abs(drawn[split] - 1000 * share) < 80 for split, share in SHARES.items())


def test_patients_of_many_images_are_not_sent_to_one_split() -> None:
    patients = [f"p{n}" for n in range(40) for _ in range(1 if n < 20 else 30)]
    images: Counter[str] = Counter()
    for seed in range(200):
        images.update(assign_splits(patients, None, {"train": 0.8, "test": 0.2}, seed))
    assert abs(images["test"] / images.total() - 0.2) < 0.02


def test_too_few_patients_for_a_split_is_said() -> None:
    with pytest.raises(ValueError, match=r"split val would get no patient: its share 0\.1 of 3 patients"):
        assign_splits(["a", "b", "c", "a"], None, SHARES, 0)


BAD_CALLS: list[tuple[list[str], list[int] | None, dict[SplitName, float], int, str]] = [
    ([], None, SHARES, 0, "no images"),
    (["a", "b"], [1], SHARES, 0, "2 patient ids but 1 labels"),
    (["a", ""], None, SHARES, 0, "patient id is empty"),
    (["a"], None, SHARES, -1, "seed is -1"),
    (["a"], None, {}, 0, "sum to 0"),
    (["a"], None, {"train": 0.5, "test": 0.4}, 0, r"sum to 0\.9"),
    (["a"], None, {"train": 0.5, "test": 0.5 + 2e-9}, 0, "must sum to 1"),
    (["a"], None, {"train": 1.0, "test": 0.0}, 0, "share of split test is 0"),
    (["a"], None, {"train": 1.5, "test": -0.5}, 0, r"share of split test is -0\.5"),
    (["a"], None, {"train": float("nan"), "test": 0.5}, 0, "share of split train is nan"),
    (["a"], None, {"train": float("inf")}, 0, "sum to inf"),
    (["a"], None, {"train": 0.5, "external": 0.5}, 0, "split external can't be drawn"),
]


@pytest.mark.parametrize(("patients", "labels", "shares", "seed", "message"), BAD_CALLS)
def test_bad_requests_are_refused(
    patients: list[str], labels: list[int] | None, shares: dict[SplitName, float], seed: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        assign_splits(patients, labels, shares, seed)


def test_proportions_may_miss_one_by_rounding() -> None:
    thirds: dict[SplitName, float] = {"train": 1 / 3, "calib": 1 / 3, "test": 1 / 3 + 5e-10}
    assert set(assign_splits(["a", "b", "c"], None, thirds, 0)) == set(thirds)


PAIRS = st.lists(st.tuples(st.integers(0, 12), st.integers(-1, 5)), min_size=1, max_size=60)


@given(PAIRS)
def test_label_counts_are_those_of_a_counter(pairs: list[tuple[int, int]]) -> None:
    for far in (1, 10**9):  # counted where the cells are few, sorted where they are not
        found = label_counts(np.array([unit * far for unit, _ in pairs]), np.array([label for _, label in pairs]))
        counted = Counter((unit * far, label) for unit, label in pairs)
        rows = zip(found.unit.tolist(), found.label.tolist(), found.images.tolist(), strict=True)
        assert list(rows) == [(unit, label, count) for (unit, label), count in sorted(counted.items())]


def drawn(labels: list[int], levels: list[list[int]], seed: int) -> list[SplitName]:
    """The splits of units of one image each."""
    units = np.arange(len(labels))
    columns = [np.array(level) for level in levels]
    places = draw(units, label_counts(units, np.array(labels)), SHARES, seed, columns)
    return [SPLIT_NAMES[place] for place in places.tolist()]


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-1, 2)), min_size=60, max_size=200), st.integers(0, 999))
def test_levels_are_shared_out_within_each_class(rows: list[tuple[int, int]], seed: int) -> None:
    assigned = drawn([label for label, _ in rows], [[level for _, level in rows]], seed)
    cells = Counter(rows)
    for cell, size in cells.items():
        own = Counter(split for row, split in zip(rows, assigned, strict=True) if row == cell)
        for split, share in SHARES.items():
            # up to one by rounding, one given back to another cell, one moved to each other split that lacks the class
            assert abs(own[split] - share * size) < 5
    for split, share in SHARES.items():
        assert abs(assigned.count(split) - share * len(rows)) < 1 + 3 * len({label for label, _ in rows})


def test_a_level_of_many_values_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assign, "MAX_CELLS", 50)
    assert len(drawn([0, 1] * 50, [], 1)) == 100
    with pytest.raises(SplitError, match="there are 100 strata, at most 50 can be dealt; stratify by fewer columns"):
        drawn([0, 1] * 50, [list(range(100))], 1)


@settings(max_examples=60)
@given(st.lists(st.floats(-3, 30), min_size=1, max_size=5), st.integers(1, 60))
def test_turns_are_those_of_one_after_the_other(lacking: list[float], count: int) -> None:
    wanted, left = [], list(lacking)
    for _ in range(count):
        split = max(range(len(left)), key=left.__getitem__)
        if left[split] <= 0:
            break
        wanted.append(split)
        left[split] -= 1
    found = assign._turns(np.array(lacking), count).tolist()
    assert found[: len(wanted)] == wanted
    assert len(found) == count


def test_a_class_of_as_many_patients_as_splits_is_in_every_split() -> None:
    for seed in range(40):
        assigned = drawn([1] * 4 + [0] * 96, [], seed)
        assert set(assigned[:4]) == set(SHARES)
        assert Counter(assigned)["train"] in (57, 58, 59, 60, 61)


@settings(max_examples=40)
@given(ROWS, st.integers(2, 5), st.integers(0, 999))
def test_folds_are_whole_units_of_like_size(rows: list[tuple[int, int]], folds: int, seed: int) -> None:
    units = np.unique([patient for patient, _ in rows], return_inverse=True)[1]
    labels = label_counts(units, np.array([label for _, label in rows]))
    count = int(units.max()) + 1
    if count < folds:
        with pytest.raises(SplitError, match=f"{folds} folds of {count} training patients"):
            draw_folds(units, labels, folds, seed)
        return
    fold = draw_folds(units, labels, folds, seed)
    assert all(len(set(fold[units == unit].tolist())) == 1 for unit in range(count))
    assert set(fold.tolist()) <= set(range(folds))
    sizes = np.bincount([fold[units == unit][0] for unit in range(count)], minlength=folds)
    assert sizes.max() - sizes.min() < 2 + 3 * folds
    if count >= 4 * folds:
        assert sizes.min() > 0


@pytest.mark.parametrize("folds", [1, 0, -1])
def test_folds_are_two_or_more(folds: int) -> None:
    units = np.arange(10)
    with pytest.raises(SplitError, match="a cross-fit takes 2 or more"):
        draw_folds(units, label_counts(units, units % 2), folds, 1)


def test_the_stratified_draw_is_pinned() -> None:
    letter = {"train": ".", "val": "v", "calib": "c", "test": "t"}
    assigned = drawn([place % 7 // 5 for place in range(40)], [[place % 3 for place in range(40)]], 5)
    assert "".join(letter[split] for split in assigned) == "v.c.tt....v.tct.c..v....c.....t.v..ttt.."
