"""Where images come from: a table, the files of a data set, those of a recipe."""

import hashlib
from pathlib import Path
from typing import Any

import pytest

from splits.errors import SplitError
from splits.making import Split, make
from splits.metadata import Gathered
from splits.plan import ColumnNames, Plan, Source
from splits.recipes import RECIPES
from splits.sources import load, settled
from tests.splits.test_making import plan_of

OWN = ColumnNames(patient="who", labels=("grade",))
TABLE = "file_name,who,grade\na.png,1,yes\nb.png,2,no\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table.csv").write_text(TABLE)
    return tmp_path / "table.csv"


def split_of(plan: Plan, gathered: Gathered) -> Split:
    return make(gathered, settled(plan, gathered))


def test_a_table_of_ones_own(table: Path) -> None:
    plan = plan_of(OWN, unit="exam")
    gathered, sources = load(plan, {"": [table]}, {})
    digest = hashlib.sha256(TABLE.encode()).hexdigest()
    assert sources == (Source(name="table.csv", sha256=digest, role="metadata"),)
    assert gathered.classes == ("no", "yes")
    told = settled(plan, gathered)
    assert (told.columns.image, told.unit, told.unavailable) == ("file_name", "exam", "")


def test_what_the_plan_says_of_a_table_is_followed(table: Path) -> None:
    table.write_bytes("file_name;who;grade;ward\na;1;não;n\nb;2;yes;s\nc;3;;s\n".encode("latin-1"))
    columns = ColumnNames(patient="who", labels=("grade",), site="ward", stratify=("ward",), image="file_name")
    plan = plan_of(columns, encoding="latin-1", classes=("yes", "não"), drop_unlabelled=True)
    frame = load(plan, {"": [table]}, {})[0].images.frame
    assert frame.to_dict(as_series=False) == {
        "image": ["a", "b"], "patient": ["1", "2"], "site": ["n", "s"], "stratify_0": ["n", "s"], "label": [1, 0],
    }  # fmt: skip


def test_one_table_is_wanted(table: Path) -> None:
    with pytest.raises(SplitError, match=r"2 metadata files; give one table, or name the data set \(--dataset\)"):
        load(plan_of(OWN), {"": [table, table]}, {})
    with pytest.raises(SplitError, match="no such file"):
        load(plan_of(OWN), {"": [table.with_name("none.csv")]}, {})
    with pytest.raises(SplitError, match="is a folder; name the file"):
        load(plan_of(OWN), {"": [table.parent]}, {})


EYES = "".join(f"{patient}_{side},{patient % 5}\n" for patient in range(1, 41) for side in ("left", "right"))


def eyepacs(folder: Path, rows: str = EYES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "trainLabels.csv").write_text(f"image,level\n{rows}")
    return folder


def test_a_data_set_keeps_both_eyes_together(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(stratify=("eye",)), dataset="eyepacs")
    gathered, sources = load(plan, {"": [eyepacs(tmp_path / "e")]}, {})
    assert sources[0].sha256 == hashlib.sha256(b"trainLabels.csv").hexdigest()  # of a folder: its list of files
    told = settled(plan, gathered)
    assert (told.unit, told.unavailable, told.columns.image) == ("patient", "", None)
    split = make(gathered, told)
    assert split.frame.columns == ["image", "site", "label", "eye", "split"]
    place = dict(split.frame.select("image", "split").iter_rows())
    assert all(place[f"{patient}_left"] == place[f"{patient}_right"] for patient in range(1, 41))
    assert split.images_per_unit == 2


def test_a_data_set_without_patients_splits_images(tmp_path: Path) -> None:
    rows = "".join(f"{index:012x},{index % 5}\n" for index in range(60))
    (tmp_path / "train.csv").write_text(f"id_code,diagnosis\n{rows}ffffffffffff,\n")
    plan = plan_of(ColumnNames(), dataset="aptos-2019")
    with pytest.raises(SplitError, match=r"1 of 61 images .*--drop-unlabelled"):
        load(plan, {"": [tmp_path]}, {})
    copies = tmp_path / "copies.csv"
    copies.write_text("id_code,diagnosis,Hash\n000000000001,1,h\n000000000002,2,h\n000000000003,3,h\n")
    plan = plan.model_copy(update={"drop_unlabelled": True})
    gathered, sources = load(plan, {"": [tmp_path / "train.csv"]}, {"duplicates": copies})
    assert [source.role for source in sources] == ["metadata", "duplicates"]
    split = split_of(plan, gathered)
    assert "neither patient nor eye" in settled(plan, gathered).unavailable
    assert split.frame.height == 60
    place = dict(split.frame.select("image", "split").iter_rows())
    assert len({place[f"{index:012x}"] for index in (1, 2, 3)}) == 1
    with pytest.raises(SplitError, match="aptos-2019 takes no map 'pairs'; its maps: duplicates"):
        load(plan, {"": [tmp_path / "train.csv"]}, {"pairs": copies})


def test_images_without_a_patient_among_others_count_as_their_own(tmp_path: Path) -> None:
    ids = [f"000{index}cfab-14fd-4e49-80ba-63a80b6bddd6" for index in range(10)]
    (tmp_path / "stage_2_detailed_class_info.csv").write_text(
        "patientId,class\n" + "".join(f"{name},{('Normal', 'Lung Opacity')[k % 2]}\n" for k, name in enumerate(ids))
    )
    known = tmp_path / "map"
    known.write_text("patientId,img_id\n" + "".join(f"{name},{k // 4:08}_000.png\n" for k, name in enumerate(ids[:8])))
    plan = plan_of(ColumnNames(), dataset="rsna-2018", proportions={"train": 0.5, "test": 0.5})
    gathered, _ = load(plan, {"": [tmp_path / "stage_2_detailed_class_info.csv"]}, {"nih": known})
    assert "2 images have no known patient; each counts as one of its own" in gathered.images.notes
    split = split_of(plan, gathered)
    place = dict(split.frame.select("image", "split").iter_rows())
    assert len({place[name] for name in ids[:4]}) == len({place[name] for name in ids[4:8]}) == 1
    assert sum(count.units for count in split.counts) == 4


RETINOPATHY = RECIPES["retinopathy-domain-shift"]


def retinopathy(folder: Path) -> dict[str, list[Path]]:
    """Files of the four sets: image 7 of Messidor is in Messidor-2 too, under the same name."""
    names = [f"20051020_{index:05}_0100_PP" for index in range(80)]
    files = {
        "messidor": "image_fname,diagnosis,id_code\n" + "".join(f"{n}.tif,{k % 4},{k}\n" for k, n in enumerate(names)),
        "aptos-2019": "id_code,diagnosis\n" + "".join(f"{index:012x},{index % 5}\n" for index in range(20)),
        "eyepacs": "image,level\n" + EYES,
        "messidor-2": "image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable\n"
        + "".join(f"20060101_{index:05}_0200_PP.png,{index % 5},0,1\n" for index in range(20))
        + f"{names[7]}.png,0,0,1\n",
    }
    paths: dict[str, list[Path]] = {}
    for key, text in files.items():
        paths[key] = [folder / f"{key}.csv"]
        paths[key][0].write_text(text)
    return paths


def recipe_plan(**fields: Any) -> Plan:
    fields = {"recipe": RETINOPATHY.key, "external": RETINOPATHY.external} | fields
    return plan_of(ColumnNames(), proportions=dict(RETINOPATHY.proportions), **fields)


def test_a_recipe_trains_on_one_set_and_keeps_the_others_external(tmp_path: Path) -> None:
    plan = recipe_plan(drop_shared=True, shots=2, shot_seeds=(1,))
    gathered, sources = load(plan, retinopathy(tmp_path), {})
    assert [source.role for source in sources] == ["messidor", "aptos-2019", "eyepacs", "messidor-2"]
    assert gathered.classes == RETINOPATHY.classes
    told = settled(plan, gathered)
    assert told.unavailable.startswith("messidor: ")
    split = make(gathered, told)
    sets = {
        (site, "external" if name == "external" else "drawn") for site, name in split.frame["site", "split"].iter_rows()
    }
    assert sets == {("messidor", "drawn"), *((key, "external") for key in RETINOPATHY.external)}
    images = split.frame["image"].to_list()
    assert "messidor/20051020_00007_0100_PP.tif" in images
    assert "messidor-2/20051020_00007_0100_PP.png" not in images
    # grade 4 has no answer in the task: a fifth of the three external sets is left out
    assert split.frame.group_by("site").len().sort("site").rows() == [
        ("aptos-2019", 16), ("eyepacs", 64), ("messidor", 80), ("messidor-2", 16),
    ]  # fmt: skip
    assert split.few_shot is not None
    assert any(note.startswith("warning: ") for note in split.notes)
    assert "aptos-2019: 4 images of classes that the task has not are left out" in split.notes


def test_an_image_of_two_sets_is_refused_unless_it_is_left_out(tmp_path: Path) -> None:
    plan = recipe_plan()
    gathered, _ = load(plan, retinopathy(tmp_path), {})
    with pytest.raises(SplitError, match="1 images are at an external site and elsewhere too; say --drop-shared"):
        split_of(plan, gathered)


@pytest.mark.parametrize(
    ("left_out", "maps", "fields", "said"),
    [
        ("eyepacs", {}, {}, "retinopathy-domain-shift: no file of eyepacs; give messidor=FILE aptos-2019=FILE"),
        (
            "",
            {"pairs": "x"},
            {},
            "'pairs' names no data set of retinopathy-domain-shift; write --map DATASET:NAME=FILE",
        ),
        ("", {"messidor:pairs": "x"}, {}, "messidor takes no map 'pairs'; its maps: duplicates"),
        ("", {}, {"recipe": "eyepacs-in-domain"}, "eyepacs-in-domain: aptos-2019 is not part of it; give eyepacs=FILE"),
        ("", {}, {"recipe": "none"}, "there is no recipe 'none'; there are aptos-2019-in-domain, "),
        ("", {}, {"recipe": None, "dataset": "none"}, "there is no data set 'none'; there are aptos-2019, "),
    ],
)
def test_what_does_not_belong_to_a_recipe(
    tmp_path: Path, left_out: str, maps: dict[str, str], fields: dict[str, Any], said: str
) -> None:
    files = {key: paths for key, paths in retinopathy(tmp_path).items() if key != left_out}
    (tmp_path / "x").write_text("left;right\n")
    with pytest.raises(SplitError, match=said):
        load(recipe_plan(**fields), files, {name: tmp_path / path for name, path in maps.items()})
