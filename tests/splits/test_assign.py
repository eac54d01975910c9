import random
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.types import SplitName
from splits.assign import assign_splits

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
    # labels 1 and 2 have 4 patients each: a and b have both, c and d one, e and f the other. By the larger label the
    # strata are {a, b, e, f} and {c, d}; by the smaller {a, b, c, d} and {e, f}. Only the first always parts c from d.
    patients = ["a", "a", "b", "b", *"ccddeeff"]
    labels = [1, 2, 1, 2, *[1] * 4, *[2] * 4]
    parted = []
    for seed in range(30):
        split = dict(zip(patients, assign_splits(patients, labels, {"train": 0.5, "test": 0.5}, seed), strict=True))
        assert split["c"] != split["d"]
        parted.append(split["e"] != split["f"])
    assert not all(parted)


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
