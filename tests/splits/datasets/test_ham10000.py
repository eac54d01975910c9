"""HAM10000 and ISIC 2019: lesions, sources, ages in bands, names that were shrunk."""

from pathlib import Path

import pytest

from splits.datasets.ham10000 import HAM10000, ISIC2019
from splits.errors import SplitError
from tests.splits.datasets.real import released

HEADER = "lesion_id,image_id,dx,dx_type,age,sex,localization"
ROWS = (
    "HAM_9900001,ISIC_9900001,bkl,histo,90.0,male,foot",
    "HAM_9900001,ISIC_9900002,bkl,histo,90.0,male,foot",
    "HAM_9900002,ISIC_9900003,mel,consensus,,unknown,unknown",
)
TRUTH_HEADER = "image,MEL,NV,BCC,AK,BKL,DF,VASC,SCC,UNK"


def table(path: Path, header: str, *rows: str) -> Path:
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    return path


def test_the_short_list_has_one_site(tmp_path: Path) -> None:
    table(tmp_path / "HAM10000_metadata.csv", HEADER, *ROWS)
    images = HAM10000.read([tmp_path], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["ISIC_9900001", "ISIC_9900002", "ISIC_9900003"],
        "patient": ["HAM_9900001", "HAM_9900001", "HAM_9900002"],
        "site": ["ham10000"] * 3,
        "label": [2, 2, 4],
        "age_group": [">=80", ">=80", None],
        "sex": ["male", "male", None],
        "localization": ["foot", "foot", None],
    }
    assert (images.unit, images.unavailable) == ("lesion", "")
    assert images.notes == ("2 of 3 images show a lesion that has more images",)


def test_the_dataverse_list_has_sources(tmp_path: Path) -> None:
    sources = ("vidir_modern", "vidir_modern", "rosendahl")
    rows = [f"{row},{source}" for row, source in zip(ROWS, sources, strict=True)]
    file = table(tmp_path / "HAM10000_metadata", f"{HEADER},dataset", *rows)
    assert HAM10000.read([file], {}).frame["site"].to_list() == list(sources)


def test_lesions_are_compared_with_isic_2019(tmp_path: Path) -> None:
    file = table(tmp_path / "HAM10000_metadata.csv", HEADER, *ROWS)
    header = "image,age_approx,anatom_site_general,lesion_id,sex"
    rows = ["ISIC_9900001,90,,HAM_9900001,male", "ISIC_9900003_downsampled,,,HAM_9900002,", "ISIC_9,5,,BCN_1,male"]
    other = table(tmp_path / "isic.csv", header, *rows)
    notes = HAM10000.read([file], {"isic": other}).notes
    assert notes[-1] == "2 of 3 images are in ISIC 2019's training list too: it is no external test set"
    table(other, header, "ISIC_9900001,90,,HAM_9900009,male")
    with pytest.raises(SplitError, match="'ISIC_9900001' shows lesion 'HAM_9900009', but 'HAM_9900001' in the label"):
        HAM10000.read([file], {"isic": other})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (",ISIC_1,nv,histo,1,male,back", "1 images have no lesion_id"),
        ("HAM_1,ISIC_1,scc,histo,1,male,back", "'scc' is no label of this data set; wanted akiec, bcc"),
        ("HAM_9,ISIC_9900001,bkl,histo,90.0,male,foot", "'ISIC_9900001' comes 2 times with different patient"),
    ],
)
def test_what_is_refused(tmp_path: Path, row: str, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        HAM10000.read([table(tmp_path / "HAM10000_metadata.csv", HEADER, *ROWS, row)], {})


def isic(folder: Path, truth: tuple[str, ...], about: tuple[str, ...]) -> Path:
    table(folder / "ISIC_2019_Training_GroundTruth.csv", TRUTH_HEADER, *truth)
    table(folder / "ISIC_2019_Training_Metadata.csv", "image,age_approx,anatom_site_general,lesion_id,sex", *about)
    return folder


TRUTH = (
    "ISIC_9900010,0.0,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0",
    "ISIC_9900011_downsampled,1.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0",
    "ISIC_9900012,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0,0.0",
    "ISIC_9900013,0.0,0.0,0.0,0.0,0.0,0.0,0.0,0.0,1.0",
)
ABOUT = (
    "ISIC_9900013,85,head/neck,MSK9_9900013,female",
    "ISIC_9900012,15,,BCN_9900012,male",
    "ISIC_9900011_downsampled,50,posterior torso,,female",
    "ISIC_9900010,55,anterior torso,HAM_9900010,female",
)


def test_isic_2019(tmp_path: Path) -> None:
    images = ISIC2019.read([isic(tmp_path, TRUTH, ABOUT)], {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["ISIC_9900010", "ISIC_9900011_downsampled", "ISIC_9900012", "ISIC_9900013"],
        "patient": ["HAM_9900010", "ISIC_9900011", "BCN_9900012", "MSK9_9900013"],
        "site": ["HAM", "no lesion id", "BCN", "MSK"],
        "label": [1, 0, 7, None],
        "age_group": ["40-59", "40-59", "<20", ">=80"],
        "sex": ["female", "female", "male", "female"],
        "localization": ["anterior torso", "posterior torso", None, "head/neck"],
    }
    assert images.notes[0] == "1 of 4 images have no label"
    assert images.notes[1].startswith("1 of 4 images have no lesion id: each counts as a lesion of its own")
    assert images.notes[2].startswith("1 names end in _downsampled")


def test_isic_2019_needs_both_files_and_one_class_an_image(tmp_path: Path) -> None:
    isic(tmp_path, TRUTH, ABOUT[:3])
    with pytest.raises(SplitError, match=r"1 images of ISIC_2019_Training_GroundTruth\.csv are not listed"):
        ISIC2019.read([tmp_path], {})
    with pytest.raises(SplitError, match="wanted both ISIC_2019_Training_GroundTruth"):
        ISIC2019.read([tmp_path / "ISIC_2019_Training_GroundTruth.csv"], {})
    isic(tmp_path, (TRUTH[0].replace("0.0", "1.0"),), ABOUT)
    with pytest.raises(SplitError, match="row 1: 9 classes for image 'ISIC_9900010'; wanted one"):
        ISIC2019.read([tmp_path], {})
    isic(tmp_path, (*TRUTH[1:], TRUTH[0].replace("1.0", "0.0")), ABOUT)
    with pytest.raises(SplitError, match="row 4: 0 classes for image 'ISIC_9900010'; wanted one"):
        ISIC2019.read([tmp_path], {})


def test_released_list() -> None:
    images = HAM10000.read([released("patink+Skin-cancer-classification-using-CNN", "HAM10000_metadata.csv")], {})
    assert (images.frame.height, images.frame["patient"].n_unique()) == (10015, 7470)
    counts = images.frame["label"].value_counts().sort("label")["count"]
    assert counts.to_list() == [327, 514, 1099, 115, 1113, 6705, 142]
