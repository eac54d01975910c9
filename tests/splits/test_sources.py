"""Where images come from: a table, the files of a data set, those of a recipe."""

import hashlib
import os
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
from tests.splits.test_sealing import sealed

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


@pytest.mark.parametrize("plan", [plan_of(OWN), plan_of(ColumnNames(), dataset="eyepacs")])
def test_what_can_not_be_looked_at_is_named(tmp_path: Path, plan: Plan) -> None:
    name = "n" * 300
    with pytest.raises(SplitError, match=f"{name} can't be read"):
        load(plan, {"": [tmp_path / name]}, {})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everywhere")
def test_a_folder_that_is_closed_is_named(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(), dataset="eyepacs")
    eyepacs(tmp_path / "e")
    for mode in (0o000, 0o400, 0o100):  # nothing; the list without the files; the files without the list
        (tmp_path / "e").chmod(mode)
        with pytest.raises(SplitError, match=r"/e\S* can't be read \(Permission denied\)"):
            load(plan, {"": [tmp_path / "e"]}, {})
    (tmp_path / "e").chmod(0o700)
    (tmp_path / "e" / "within").mkdir(mode=0o000)
    with pytest.raises(SplitError, match=r"/e/within can't be read \(Permission denied\)"):
        load(plan, {"": [tmp_path / "e"]}, {})
    (tmp_path / "e" / "within").chmod(0o700)


EYES = "".join(f"{patient}_{side},{patient % 5}\n" for patient in range(99_001, 99_041) for side in ("left", "right"))


def eyepacs(folder: Path, rows: str = EYES) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "trainLabels.csv").write_text(f"image,level\n{rows}")
    return folder


def test_a_data_set_keeps_both_eyes_together(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(stratify=("eye",)), dataset="eyepacs")
    gathered, sources = load(plan, {"": [eyepacs(tmp_path / "e")]}, {})
    assert sources[0].role == "metadata"
    told = settled(plan, gathered)
    assert (told.unit, told.unavailable, told.columns.image) == ("patient", "", None)
    split = make(gathered, told)
    assert split.frame.columns == ["image", "site", "label", "split"]  # no subgroup is named
    place = dict(split.frame.select("image", "split").iter_rows())
    assert all(place[f"{patient}_left"] == place[f"{patient}_right"] for patient in range(99_001, 99_041))
    assert split.images_per_unit == split.images_per_patient == 2


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
    ids = [f"9999000{index}-1111-4222-8333-444444444444" for index in range(10)]
    (tmp_path / "stage_2_detailed_class_info.csv").write_text(
        "patientId,class\n" + "".join(f"{name},{('Normal', 'Lung Opacity')[k % 2]}\n" for k, name in enumerate(ids))
    )
    known = tmp_path / "map"
    known.write_text(
        "patientId,img_id\n" + "".join(f"{name},{90_000 + k // 4:08}_000.png\n" for k, name in enumerate(ids[:8]))
    )
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
    names = [f"19990101_{index:05}_0100_PP" for index in range(80)]
    files = {
        "messidor": "image_fname,diagnosis,id_code\n" + "".join(f"{n}.tif,{k % 4},{k}\n" for k, n in enumerate(names)),
        "aptos-2019": "id_code,diagnosis\n" + "".join(f"{index:012x},{index % 5}\n" for index in range(20)),
        "eyepacs": "image,level\n" + EYES,
        "messidor-2": "image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable\n"
        + "".join(f"19990202_{index:05}_0200_PP.png,{index % 5},0,1\n" for index in range(20))
        + f"{names[7]}.png,0,0,1\n",
    }
    paths: dict[str, list[Path]] = {}
    for key, text in files.items():
        paths[key] = [folder / f"{key}.csv"]
        paths[key][0].write_text(text)
    return paths


def recipe_plan(**fields: Any) -> Plan:
    fields = {"recipe": RETINOPATHY.key, "external": RETINOPATHY.external} | fields
    columns = fields.pop("columns", ColumnNames())
    return plan_of(columns, proportions=dict(RETINOPATHY.proportions), **fields)


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
    assert "messidor/19990101_00007_0100_PP.tif" in images
    assert "messidor-2/19990101_00007_0100_PP.png" not in images
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


def test_the_digest_of_a_folder_covers_its_label_files(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(), dataset="eyepacs")

    def digest() -> str:
        return load(plan, {"": [tmp_path / "e"]}, {})[1][0].sha256

    eyepacs(tmp_path / "e")
    first = digest()
    (tmp_path / "e" / "trainLabels.csv").write_text(f"image,level\n{EYES[:-2]}4\n")
    other = digest()
    (tmp_path / "e" / "99001_left.jpeg").write_bytes(b"picture")
    third = digest()
    assert len({first, other, third}) == 3
    (tmp_path / "e" / "99001_left.jpeg").write_bytes(b"another")  # images are told by their names
    assert digest() == third


def test_file_names_that_are_no_text_are_taken(tmp_path: Path) -> None:
    for name in (b"t\xff.csv", b"e\xff"):
        odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
        if odd.suffix:
            odd.write_text(TABLE)
            _, sources = load(plan_of(OWN), {"": [odd]}, {})
        else:
            (eyepacs(odd) / os.fsdecode(b"n\xff.jpeg")).touch()
            _, sources = load(plan_of(ColumnNames(), dataset="eyepacs"), {"": [odd]}, {})
        assert sources[0].name == name.replace(b"\xff", rb"\xff").decode()
    copies = Path(os.fsdecode(os.fsencode(tmp_path) + b"/c\xff.csv"))
    copies.write_text("group,image\n1,a\n1,b\n1,other\n")
    lists = [Path(os.fsdecode(os.fsencode(tmp_path) + name)) for name in (b"/train\xff.csv", b"/test\xff.csv")]
    for place, path in enumerate(lists):
        path.write_text(f"id_code,diagnosis\n{'ab'[place]},{place}\n")
    gathered, _ = load(plan_of(ColumnNames(), dataset="aptos-2019"), {"": lists}, {"duplicates": copies})
    assert r"1 images of c\udcff.csv are not in the label file" in gathered.images.notes


HAM = "lesion_id,image_id,dx,dx_type,age,sex,localization\n" + "".join(
    f"HAM_99{k // 2:05},ISIC_99{k:05},{('nv', 'mel', 'bcc', 'bkl', 'df', 'vasc', 'akiec')[k // 2 % 7]},histo,50,"
    f"{('male', 'female')[k // 2 % 2]},back\n"
    for k in range(140)
)


def test_lesions_are_no_patients(tmp_path: Path) -> None:
    (tmp_path / "HAM10000_metadata").write_text(HAM)
    plan = plan_of(ColumnNames(subgroups=("sex",), stratify=("localization",)), dataset="ham10000")
    gathered, _ = load(plan, {"": [tmp_path]}, {})
    told = settled(plan, gathered)
    assert (told.unit, told.unavailable) == ("lesion", "HAM10000 names lesions, no patients")
    split = make(gathered, told)
    assert split.frame.columns == ["image", "site", "label", "sex", "split"]
    assert (split.images_per_unit, split.images_per_patient) == (2, None)
    place = dict(split.frame.select("image", "split").iter_rows())
    assert all(place[f"ISIC_99{k:05}"] == place[f"ISIC_99{k + 1:05}"] for k in range(0, 140, 2))
    assert sealed(split, told, bytes(32))["patient_id"].null_count() == 140


def test_an_unknown_subgroup_is_refused(tmp_path: Path) -> None:
    files = {"": [eyepacs(tmp_path / "e")]}
    for named, said in (
        ("patient", "eyepacs has no subgroup 'patient'; there are eye"),
        ("label", "eyepacs has no subgroup 'label'; there are eye"),
        ("sex", "eyepacs has no subgroup 'sex'; there are eye"),
    ):
        with pytest.raises(SplitError, match=said):
            load(plan_of(ColumnNames(subgroups=(named,)), dataset="eyepacs"), files, {})
    (tmp_path / "train.csv").write_text("id_code,diagnosis\na,0\nb,1\n")
    plan = plan_of(ColumnNames(subgroups=("sex",)), dataset="aptos-2019")
    with pytest.raises(SplitError, match="aptos-2019 has no subgroup 'sex'; it has none"):
        load(plan, {"": [tmp_path / "train.csv"]}, {})


def test_a_recipe_publishes_and_balances_what_is_named(tmp_path: Path) -> None:
    columns = ColumnNames(subgroups=("eye",), stratify=("eye",))
    plan = plan_of(columns, recipe="eyepacs-in-domain", shots=1, shot_seeds=(1,))
    gathered, _ = load(plan, {"eyepacs": [eyepacs(tmp_path / "e")]}, {})
    assert gathered.subgroups == ("eye",)
    assert gathered.images.frame["stratify_0"].to_list() == ["left", "right"] * 40
    wrong = plan.model_copy(update={"columns": ColumnNames(stratify=("ey",))})
    with pytest.raises(SplitError, match="eyepacs: there is no column 'ey'; did you mean 'eye'"):
        load(wrong, {"eyepacs": [tmp_path / "e"]}, {})
    # an external set alone has this column, so nothing could be balanced
    with pytest.raises(SplitError, match="messidor: there is no column 'eye'"):
        load(recipe_plan(columns=ColumnNames(stratify=("eye",))), retinopathy(tmp_path), {})
    with pytest.raises(SplitError, match="messidor: there is no column 'group_1'"):
        load(recipe_plan(columns=ColumnNames(stratify=("group_1",))), retinopathy(tmp_path), {})


@pytest.mark.parametrize(("grade", "left"), [(0, 16), (4, 16), ("", 16)])
def test_an_exam_that_is_in_both_sets_with_one_eye_is_not_external(tmp_path: Path, grade: int | str, left: int) -> None:
    """The left eye is in both sets, the right one in Messidor-2 only; the left has no label there, or none of ours."""
    files = retinopathy(tmp_path)
    table = files["messidor-2"][0]
    shared, other = "19990101_00007_0100_PP.png", "19990101_99999_0100_PP.png"
    table.write_text(table.read_text().replace(f"{shared},0,0,1", f"{shared},{grade},0,1") + f"{other},1,0,1\n")
    names = [line.split(",")[0] for line in table.read_text().splitlines()[1:-2]]
    pairs = tmp_path / "pairs.csv"
    eyes = [*zip(names[::2], names[1::2], strict=True), (shared, other)]
    pairs.write_text("left;right\n" + "".join(f"{a};{b}\n" for a, b in eyes))
    plan = recipe_plan(drop_shared=True, drop_unlabelled=True)
    gathered, _ = load(plan, files, {"messidor-2:pairs": pairs})
    assert "messidor-2: Messidor-2, adjudicated grades names exams, no patients" in gathered.images.unavailable
    split = split_of(plan, gathered)
    images = split.frame["image"].to_list()
    assert "messidor/19990101_00007_0100_PP.tif" in images
    assert not {f"messidor-2/{shared}", f"messidor-2/{other}"} & {*images}
    assert split.frame.filter(site="messidor-2").height == left
    with pytest.raises(SplitError, match="1 images are at an external site and elsewhere too"):
        split_of(recipe_plan(drop_unlabelled=True), gathered)


def test_sets_that_share_images_under_other_names_are_refused(tmp_path: Path) -> None:
    files = retinopathy(tmp_path)
    rows = "".join(f"IM99{index // 2:02}.{index % 2:03},{index % 4},0,1\n" for index in range(20))
    files["messidor-2"][0].write_text(f"image_id,adjudicated_dr_grade,adjudicated_dme,adjudicated_gradable\n{rows}")
    with pytest.raises(
        SplitError, match=r"no file name .*; wanted the names .* of the form YYYYMMDD_NNNNN_0100_PP.png"
    ):
        load(recipe_plan(), files, {})


CHEST = RECIPES["chest-x-ray-domain-shift"]


def chest(folder: Path) -> tuple[dict[str, list[Path]], dict[str, Path]]:
    """RSNA images of 20 patients; COVIDx has the first of them, and one more image of the second's patient."""
    ids = [f"999900{index:02}-1111-4222-8333-444444444444" for index in range(41)]
    words = ("Normal", "No Lung Opacity / Not Normal", "Lung Opacity")
    (folder / "classes.csv").write_text(
        "patientId,class\n" + "".join(f"{name},{words[k // 2 % 3]}\n" for k, name in enumerate(ids[:40]))
    )
    rows = [f"{ids[0]} {ids[0]}.png normal rsna", f"{ids[40]} {ids[40]}.png normal rsna"]
    rows += [f"{k} c{k}.png COVID-19 cohen" for k in range(5)]
    (folder / "train_COVIDx9A.txt").write_text("\n".join(rows) + "\n")
    (folder / "map.csv").write_text(
        "patientId,img_id\n"
        + "".join(f"{name},{90_000 + k // 2 % 20 + (k == 40):08}_000.png\n" for k, name in enumerate(ids))
    )
    files = {"rsna-2018": [folder / "classes.csv"], "covidx": [folder / "train_COVIDx9A.txt"]}
    return files, dict.fromkeys(CHEST.patient_maps, folder / "map.csv")


def test_patients_of_both_sets_are_known_or_of_none(tmp_path: Path) -> None:
    plan = plan_of(ColumnNames(), recipe=CHEST.key, external=CHEST.external, drop_shared=True)
    files, maps = chest(tmp_path)
    for name, other in (CHEST.patient_maps, CHEST.patient_maps[::-1]):
        with pytest.raises(SplitError, match=f"with {name} alone, .* add --map {other}=FILE"):
            load(plan, files, {name: maps[name]})
    gathered, _ = load(plan, files, maps)
    assert not any("give the map nih" in note for note in gathered.images.notes)
    split = split_of(plan, gathered)
    assert split.frame.filter(site="covidx").height == 5  # neither the same image nor the same patient
    gathered, _ = load(plan, files, {})
    assert any("give the map nih" in note for note in gathered.images.notes)
    assert split_of(plan, gathered).frame.filter(site="covidx").height == 6


def test_no_note_names_an_image_or_a_patient(tmp_path: Path) -> None:
    """Notes are published in split.json."""
    rows = (
        "ANON9991 scan-{}-a.png COVID-19 actmed\nANON9992 scan-{}-a.png COVID-19 actmed\n"
        "ANON99{} s{}.png normal cohen\n"
    )
    for split in ("train", "test"):
        (tmp_path / f"{split}_COVIDx9A.txt").write_text(rows.format(split, split, split, split))
    gathered, _ = load(plan_of(ColumnNames(), dataset="covidx"), {"": [tmp_path]}, {})
    said = " ".join(gathered.images.notes)
    assert "in more than one published split (test, train): 1 of 3" in said
    assert not any(word in said for word in ("ANON", "scan-", ".png"))
