"""Splits of tables: what stays together, what is external, what is refused, what is said."""

import random
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocol.types import SplitName
from splits.errors import SplitError
from splits.making import Split, make
from splits.metadata import Columns, Gathered, Reading, gather
from splits.plan import ColumnNames, Plan
from splits.reading import Table

SHARES: dict[SplitName, float] = {"train": 0.5, "calib": 0.2, "test": 0.3}
Cells = list[str | None]
Row = tuple[int, int, int | None, int]  # patient, site, lesion, label
ROWS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 2), st.one_of(st.none(), st.integers(0, 40)), st.integers(0, 2)),
    min_size=10,
    max_size=70,
)


def plan_of(columns: ColumnNames, **fields: Any) -> Plan:
    given: dict[str, Any] = {"columns": columns, "proportions": SHARES, "seed": 1, "namespace": "study"}
    return Plan(**given | fields)


def gathered(cells: Mapping[str, Cells], plan: Plan) -> Gathered:
    names = plan.columns
    frame = pl.DataFrame([pl.Series(name, own, pl.String) for name, own in cells.items()])
    columns = Columns(
        names.patient, names.labels, names.image, names.site, names.groups, names.stratify, names.subgroups
    )
    reading = Reading(plan.classes, plan.drop_unlabelled, plan.unit, plan.unavailable)
    return gather(Table(frame, Path("t.csv"), "0" * 64), columns, reading)


def made(cells: Mapping[str, Cells], plan: Plan) -> Split:
    return make(gathered(cells, plan), plan)


def of_image(split: Split, column: str = "split") -> dict[str, Any]:
    return dict(split.frame.select("image", column).iter_rows())


def cells_of(rows: list[Row]) -> dict[str, Cells]:
    return {
        "image": [f"{place:03}.png" for place in range(len(rows))],
        "patient": [f"P{patient:02}" for patient, *_ in rows],
        "site": [f"site {site}" for _, site, *_ in rows],
        "lesion": [None if lesion is None else f"L{lesion:02}" for *_, lesion, _ in rows],
        "grade": [str(label) for *_, label in rows],
    }


def components(keys: list[list[Any]]) -> list[set[int]]:
    """Rows that share a value other than None in any of ``keys``, merged until nothing changes."""
    sets: list[set[int]] = [{row} for row in range(len(keys[0]))]
    for key in keys:
        of_value: defaultdict[Any, set[int]] = defaultdict(set)
        for row, value in enumerate(key):
            if value is not None:
                of_value[value].add(row)
        for together in of_value.values():
            touched = [own for own in sets if own & together]
            sets = [own for own in sets if not own & together] + [set().union(*touched)]
    return sets


NAMES = ColumnNames(patient="patient", labels=("grade",), site="site", groups=("lesion",))
EXPECTED = (
    "would get no patient",
    "one class only",
    "classes and",
    "there is no site 'site 2'",
    "every site is external",
    "of the external site 'site 2' are of patients seen elsewhere",
)


@settings(max_examples=60)
@given(ROWS, st.integers(0, 2**31 - 1), st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_no_unit_is_in_two_splits_whatever_the_order(
    rows: list[Row], seed: int, per_site: bool, external: bool, shuffle: random.Random
) -> None:
    cells = cells_of(rows)
    outside = ("site 2",) if external else ()
    plan = plan_of(NAMES, seed=seed, patients_per_site=per_site, external=outside, drop_shared=True)
    try:
        split = made(cells, plan)
    except SplitError as error:
        assert any(words in str(error) for words in EXPECTED)  # noqa: PT017
        return
    place = of_image(split)
    kept = [row for row, image in enumerate(cells["image"]) if image in place]
    patients = [(rows[row][0], rows[row][1] if per_site else 0) for row in kept]
    lesions = [rows[row][2] for row in kept]
    for unit in components([patients, lesions]):
        assert len({place[f"{kept[row]:03}.png"] for row in unit}) == 1
    for row in kept:
        assert (place[f"{row:03}.png"] == "external") == (external and rows[row][1] == 2)
    if not external:
        assert len(kept) == len(rows)
    assert sum(count.images for count in split.counts) == len(kept)

    order = list(range(len(rows)))
    shuffle.shuffle(order)
    names = list(cells)
    shuffle.shuffle(names)
    turned = made({name: [cells[name][row] for row in order] for name in names}, plan)
    assert of_image(turned) == place
    assert (turned.counts, turned.notes) == (split.counts, split.notes)


@settings(max_examples=60)
@given(st.lists(st.integers(0, 3), min_size=40, max_size=120), st.integers(0, 1000))
def test_one_image_a_patient_meets_the_shares_in_every_class(labels: list[int], seed: int) -> None:
    cells = cells_of([(place, 0, None, label) for place, label in enumerate(labels)])
    cells["patient"] = [f"P{place:03}" for place in range(len(labels))]
    if len(set(labels)) < 2:
        return
    split = made(cells, plan_of(NAMES, seed=seed))
    place, strata = of_image(split), set(labels)
    for label in strata:
        own = [place[image] for image, has in zip(cells["image"], labels, strict=True) if image and has == label]
        for name, share in SHARES.items():
            # one by rounding, one that was owed by another class, one moved so that a rare class is everywhere
            assert abs(own.count(name) - share * len(own)) < 3
            assert own.count(name) > 0 or len(own) < len(SHARES)
    for name, share in SHARES.items():
        assert abs(list(place.values()).count(name) - share * len(labels)) < 1 + len(strata)


def simple(count: int = 60, /, **cells: Cells) -> dict[str, Cells]:
    """One image a patient, two grades, a third of the patients at site b."""
    plain: dict[str, Cells] = {
        "image": [f"{place:03}" for place in range(count)],
        "patient": [f"P{place:03}" for place in range(count)],
        "site": ["b" if place % 3 == 0 else "a" for place in range(count)],
        "grade": ["no" if place % 2 else "yes" for place in range(count)],
    }
    return plain | cells


PLAIN = ColumnNames(patient="patient", labels=("grade",), site="site")


def test_external_sites_are_the_external_split_and_shares_are_of_the_rest() -> None:
    split = made(simple(), plan_of(PLAIN, external=("b",)))
    assert [(count.split, count.images, count.units) for count in split.counts] == [
        ("train", 20, 20), ("calib", 8, 8), ("test", 12, 12), ("external", 20, 20),
    ]  # fmt: skip
    outside = split.frame.filter(split="external")
    assert outside["site"].unique().to_list() == ["b"]


def test_strata_of_another_column_are_balanced() -> None:
    columns = ColumnNames(patient="patient", labels=("grade",), stratify=("sex",), subgroups=("sex",))
    sex: Cells = ["F" if place % 5 == 0 else "M" for place in range(200)]
    split = made(simple(200, sex=sex), plan_of(columns))
    for (_, _), own in split.frame.group_by("label", "sex"):
        for name, share in SHARES.items():
            assert abs(own.filter(split=name).height - share * own.height) <= 2
    assert split.frame.columns == ["image", "site", "label", "sex", "split"]


def test_a_group_called_almost_like_ours_is_a_subgroup_only() -> None:
    columns = ColumnNames(patient="patient", labels=("grade",), subgroups=("group_age",))
    age: Cells = ["old"] * 60
    split = made(simple(group_age=age), plan_of(columns))
    assert split.frame["group_age"].to_list() == age
    assert len(split.counts) == 3


def test_a_patient_number_can_be_that_of_the_site() -> None:
    cells = simple(patient=[str(place // 3) for place in range(60)])  # images 3k are at b, 3k + 1 and 3k + 2 at a
    with pytest.raises(SplitError, match="20 patients are at an external site and elsewhere too; say --drop-shared"):
        made(cells, plan_of(PLAIN, external=("b",)))
    apart = made(cells, plan_of(PLAIN, external=("b",), patients_per_site=True))
    assert (apart.frame.height, sum(count.units for count in apart.counts)) == (60, 40)


def test_shared_patients_are_left_out_of_the_external_split() -> None:
    patient: Cells = [f"P{place:03}" for place in range(60)]
    patient[3] = patient[4]  # image 003 is at b, 004 at a
    split = made(simple(patient=patient), plan_of(PLAIN, external=("b",), drop_shared=True))
    assert split.frame.height == 59
    assert "003" not in of_image(split)
    assert "1 external images of 1 patients seen elsewhere are left out" in split.notes
    assert not any("more than one site" in note for note in split.notes)
    patient[3] = patient[2]  # whichever row comes last
    split = made(simple(patient=patient), plan_of(PLAIN, external=("b",), drop_shared=True))
    assert not any("more than one site" in note for note in split.notes)
    said = made(simple(patient=patient), plan_of(PLAIN))
    assert any(note.startswith("1 patients are at more than one site and taken as the same") for note in said.notes)


def test_a_group_ties_patients_of_two_sites() -> None:
    columns = ColumnNames(patient="patient", labels=("grade",), site="site", groups=("lesion",))
    lesion: Cells = ["one" if place in (3, 4) else None for place in range(60)]
    with pytest.raises(SplitError, match="1 patients are at an external site and elsewhere too"):
        made(simple(lesion=lesion), plan_of(columns, external=("b",)))


def test_findings_are_stratified_by_the_rarest() -> None:
    columns = ColumnNames(patient="patient", labels=("edema", "mass"))
    cells = simple(
        edema=["1" if place % 10 == 0 else "0" for place in range(60)],
        mass=["1" if place % 2 else None for place in range(60)],
    )
    split = made(cells, plan_of(columns))
    assert split.label_columns == ("label_0", "label_1")
    assert [count.images_per_class[0] for count in split.counts] == [3, 1, 2]
    with pytest.raises(SplitError, match="few-shot draws need one class an image"):
        made(cells, plan_of(columns, shots=1, shot_seeds=(1,)))


def test_folds_are_whole_units_of_train() -> None:
    columns = ColumnNames(patient="patient", labels=("grade",))
    patient: Cells = [f"P{place // 2:03}" for place in range(120)]
    split = made(simple(120, patient=patient), plan_of(columns, folds=3))
    fold = of_image(split, "fold")
    place = of_image(split)
    assert all((fold[image] is None) == (place[image] != "train") for image in place)
    assert {value for value in fold.values() if value is not None} == {0, 1, 2}
    for one, other in zip(range(0, 120, 2), range(1, 120, 2), strict=True):
        assert fold[f"{one:03}"] == fold[f"{other:03}"]
    sizes = [list(fold.values()).count(number) for number in range(3)]
    assert max(sizes) - min(sizes) <= 4
    with pytest.raises(SplitError, match="100 folds of 30 training patients"):
        made(simple(120, patient=patient), plan_of(columns, folds=100))


def test_few_shot_draws_come_from_train_and_val_alone() -> None:
    shares: dict[SplitName, float] = {"train": 0.4, "val": 0.2, "calib": 0.2, "test": 0.2}
    split = made(simple(), plan_of(PLAIN, proportions=shares, external=("b",), shots=3, shot_seeds=(1, 2)))
    assert split.few_shot is not None
    place = of_image(split)
    assert {(place[image], named) for image, named in split.few_shot.select("image", "split").iter_rows()} == {
        ("train", "train"), ("val", "val"),
    }  # fmt: skip
    assert split.few_shot.group_by("seed", "split", "label").len()["len"].unique().to_list() == [3]


REFUSED: list[tuple[dict[str, Cells], dict[str, Any], str]] = [
    ({}, {"external": ("c",)}, "there is no site 'c' to be external; the sites are 'a', 'b'"),
    ({}, {"external": ("a", "b")}, "every site is external: nothing is left"),
    ({"site": ["B", "b", "A"] * 20}, {"external": ("B",)}, "column 'site' holds 'B' and 'b': one site or two"),
    ({"site": ["1", "01", "2"] * 20}, {"external": ("1",)}, "column 'site' holds '01' and '1': one site or two"),
    ({"site": ["St. A", "St.  A", "B"] * 20}, {}, "one site or two"),
    ({"site": ["\u00e9", "e\u0301", "B"] * 20}, {}, "one site or two"),
    ({}, {"external": ("B",)}, "there is no site 'B' to be external"),
    (
        {},
        {"columns": ColumnNames(patient="patient", labels=("grade",)), "patients_per_site": True},
        "--patients-per-site: which column holds the sites",
    ),
    ({"patient": ["same"] * 60}, {}, "2 classes and 1 patients: is that the label column"),
    ({"grade": [str(n) for n in range(60)], "patient": ["P1", "P2", "P3"] * 20}, {}, "60 classes and 3 patients"),
    ({"patient": ["P1", "P2"] * 30}, {}, r"split \w+ would get no patient: its share 0\.\d of 2 patients is too small"),
    ({"patient": ["7", "007", *[f"x{place}" for place in range(58)]]}, {}, "holds '007' and '7': one patient or two"),
    ({"patient": ["7", "7.0", *[f"x{place}" for place in range(58)]]}, {}, "holds '7' and '7.0': one name or two"),
    ({"patient": ["P7", "p7", *[f"x{place}" for place in range(58)]]}, {}, "holds 'P7' and 'p7': one patient or two"),
    ({"patient": ["\u00e9", "e\u0301", *[f"x{place}" for place in range(58)]]}, {}, "one patient or two"),
    ({}, {"proportions": {"train": 0.5, "external": 0.5}}, "split external can't be drawn"),
    ({}, {"proportions": {"train": 0.5, "test": 0.4}}, r"sum to 0\.9"),
    ({}, {"proportions": {"calib": 0.5, "test": 0.5}, "shots": 1, "shot_seeds": (1,)}, "no train split"),
    ({}, {"columns": ColumnNames(labels=("grade",))}, "60 images have no patient; name its column"),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "fields", "said"), REFUSED)
def test_what_cannot_be_split_is_said(cells: dict[str, Cells], fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SplitError, match=said) as error:
        made(simple(**cells), plan_of(PLAIN, **fields) if "columns" not in fields else plan_of(**fields))
    assert "\n" not in str(error.value)


def test_sites_that_look_alike_can_be_different() -> None:
    site: Cells = ["B", "b", "A"] * 20
    split = made(simple(site=site), plan_of(PLAIN, ids_as_written=True, external=("B",)))
    assert split.frame.filter(split="external")["site"].unique().to_list() == ["B"]


def test_spellings_count_within_a_site_too() -> None:
    patient: Cells = ["7", "x", "x", "007", *[f"y{place}" for place in range(56)]]  # images 000 and 003 are at b
    with pytest.raises(SplitError, match="one patient or two"):
        made(simple(patient=patient), plan_of(PLAIN, patients_per_site=True))


def test_notes_on_shots_name_the_class() -> None:
    notes = made(simple(), plan_of(PLAIN, shots=50, shot_seeds=(1,))).notes
    assert [note.split()[1] for note in notes if "fewer than 50 shots" in note] == ["no", "yes"]


def test_ids_that_look_alike_can_be_different() -> None:
    patient: Cells = ["7", "007", *[f"x{place}" for place in range(58)]]
    split = made(simple(patient=patient), plan_of(PLAIN, ids_as_written=True))
    assert sum(count.units for count in split.counts) == 60


@pytest.mark.parametrize(
    ("patient", "said"),
    [
        ([f"P{place:03}" for place in range(60)], "every image has its own patient: right if"),
        (
            ["someone"] * 30 + [f"P{place // 2:03}" for place in range(30)],
            "one patient holds 30 of 60 images: is it a placeh",
        ),
        ([f"P{place // 2:03}" for place in range(60)], ""),
    ],
)
def test_patients_that_may_be_none_are_pointed_at(patient: Cells, said: str) -> None:
    found = made(simple(patient=patient), plan_of(PLAIN)).notes
    notes = [note for note in found if note.startswith(("every image has", "one patient holds"))]
    assert [note[: len(said)] for note in notes] == ([said] if said else [])


def test_a_class_of_one_patient_is_said() -> None:
    grade: Cells = ["yes" if place < 20 else "no" for place in range(60)]
    patient: Cells = [*["big"] * 20, *[f"P{place:03}" for place in range(40)]]
    notes = made(simple(grade=grade, patient=patient), plan_of(PLAIN)).notes
    assert any(
        note.startswith("class yes is absent from") and "one patient alone holds 20 of its 20 images" in note
        for note in notes
    )


def test_images_are_split_where_patients_are_unavailable() -> None:
    columns = ColumnNames(labels=("grade",), groups=("lesion",))
    lesion: Cells = [f"L{place // 4}" if place < 40 else None for place in range(60)]
    plan = plan_of(columns, unavailable="never recorded", unit="lesion")
    split = made(simple(lesion=lesion), plan)
    place = of_image(split)
    for first in range(0, 40, 4):
        assert len({place[f"{first + step:03}"] for step in range(4)}) == 1
    assert sum(count.units for count in split.counts) == 30
    assert split.images_per_unit == 2
    assert split.frame.height == 60


def test_patients_are_counted_apart_from_the_units_that_groups_make_of_them() -> None:
    """Two patients of two images each share a slide: a unit holds four images, a patient two."""
    columns = ColumnNames(patient="patient", labels=("grade",), groups=("slide",))
    patient: Cells = [f"P{place // 2:03}" for place in range(60)]
    split = made(simple(patient=patient, slide=[f"S{place // 4}" for place in range(60)]), plan_of(columns))
    assert (split.images_per_unit, split.images_per_patient) == (4, 2)
    of_patient = split.frame.select("split", patient=pl.Series(patient)).unique()["split"].value_counts()
    assert {count.split: count.patients for count in split.counts} == dict(of_patient.iter_rows())
    assert sum(count.units for count in split.counts) == 15


def test_the_splits_are_pinned() -> None:
    # a change of these letters means that published seeds no longer give the published splits
    columns = ColumnNames(patient="patient", labels=("grade",), site="site", stratify=("site",))
    split = made(simple(40, patient=[f"P{place // 2:03}" for place in range(40)]), plan_of(columns, seed=7))
    letter = {"train": ".", "calib": "c", "test": "t"}
    assert "".join(letter[name] for name in split.frame["split"]) == "..tttt..tttt..cc..........tt..cccccctt.."
