"""Names: what is one image under two names, what is plain numbering, and the patient in a name."""

import polars as pl
import pytest

from splits.checking.ids import as_path, bare_names, base_name, patients_from, pattern_that_fits, stem
from splits.errors import SplitError


def bare(*stems: str) -> list[str | None]:
    found = bare_names(pl.Series("stem", stems))
    return [None] * len(stems) if found is None else found.to_list()


@pytest.mark.parametrize(
    "marked",
    [
        "eye_7_aug", "eye_7_aug3", "eye_7_mir", "eye_7_mirrored", "eye_7_flip", "eye_7_hflip", "eye_7_flip_lr",
        "eye_7_rot90", "eye_7_rotated_180", "eye_7_90", "eye_7-270", "eye_7_downsampled", "eye_7_resized", "eye_7_crop",
        "eye_7_crop2", "eye_7 copy", "eye_7 copy 2", "eye_7 (1)", "eye_7(2)", "eye_7-2x", "eye_7@2x", "aug_eye_7",
        "aug2_eye_7", "copy of eye_7", "flipped_eye_7", "resized-eye_7", "eye_7_clahe", "eye_7_mir_90", "eye_7_90_mir",
        "aug_eye_7_flip",
    ],
)  # fmt: skip
def test_a_mark_counts_where_the_bare_name_is_listed_too(marked: str) -> None:
    assert bare("eye_7", marked, "eye_8") == [None, "eye_7", None]


@pytest.mark.parametrize(
    "names",
    [
        ("img_89", "img_90", "img_180", "img_270"),  # numbers
        ("img", "img_89", "img_90"),  # numbers beside a name without
        ("slide12_90", "slide12_180"),  # angles, or numbers: nothing tells
        ("covid (1)", "covid (2)", "covid (3)", "covid (4)"),
        ("covid", "covid (1)", "covid (2)", "covid (3)", "covid (4)"),  # plain numbering with a first one
        ("scan_crop1", "scan_crop2"),  # what is left names no image
        ("mirror", "flip", "90"),
        ("patient1_left", "patient1_right"),
        ("img_flipper", "img_cropland"),
    ],
)
def test_plain_numbers_and_other_words_are_no_marks(names: tuple[str, ...]) -> None:
    assert bare(*names) == [None] * len(names)


def test_marks_count_without_the_original_where_several_come_down_to_one_name() -> None:
    assert bare("10_left_mir", "10_left_90", "10_left_rot120", "11_left_mir") == ["10_left"] * 3 + [None]


def test_many_marked_versions_of_one_name_are_numbers() -> None:
    names = [f"s1_crop{k}" for k in range(65)]
    assert bare(*names) == [None] * 65
    assert bare(*names[:64]) == ["s1"] * 64


def test_paths_of_any_system() -> None:
    frame = pl.DataFrame({"p": ["C:\\data\\Eye 1.PNG", "./a/b/Eye 1.tif", "x.nii.gz", "plain", None]})
    shown = frame.select(path=as_path(pl.col("p")), base=base_name(pl.col("p")), stem=stem(pl.col("p")))
    assert shown["path"].to_list() == ["C:/data/Eye 1.PNG", "a/b/Eye 1.tif", "x.nii.gz", "plain", None]
    assert shown["base"].to_list() == ["Eye 1.PNG", "Eye 1.tif", "x.nii.gz", "plain", None]
    assert shown["stem"].to_list() == ["eye 1", "eye 1", "x", "plain", None]


@pytest.mark.parametrize(
    ("key", "name", "patient"),
    [
        ("eyepacs", "train/10_left.jpeg", "10"),
        ("eyepacs", "10_right_mir.jpeg", "10"),
        ("nih", "images/00093109_004.png", "00093109"),
        ("chexpert", "CheXpert-v1.0/train/patient99907/study1/view1_frontal.jpg", "patient99907"),
        ("tcga", "TCGA-OR-A5J1-01Z-00-DX1.svs", "TCGA-OR-A5J1"),
        ("tcga", "acc/TCGA-OR-A5J1/1.png", "TCGA-OR-A5J1"),
        ("pad-ufes", "PAT_1516_1765_530.png", "PAT_1516"),
        ("deepdrid", "264_l1.jpg", "264"),
        ("idc", "8863_idx5_x51_y1251_class0.png", "8863"),
        ("sicap", "18B0001071H_Block_Region_1.jpg", "18B0001071"),
        ("camelyon17", "patches/patient_004_node_4/patch_patient_004_node_4_x_3328_y_21792.png", "patient_004"),
        ("ricord", "MIDRC-RICORD-1C-419639-003251-46647-0.png", "419639-003251"),
    ],
)
def test_named_patterns(key: str, name: str, patient: str) -> None:
    names = pl.Series("image", [name])
    assert patients_from(names, key).to_list() == [patient]
    assert pattern_that_fits(names) == key


def test_a_pattern_must_fit_every_name_to_be_taken_unasked() -> None:
    assert pattern_that_fits(pl.Series(["10_left.png", "IMG_7.png"])) == ""
    assert pattern_that_fits(pl.Series(["ADI-TCGA-AAICEQFN.tif"])) == ""  # every name of CRC-VAL-HE-7K says TCGA


def test_a_pattern_of_ones_own() -> None:
    assert patients_from(pl.Series(["case7-a.png"]), r"^(case\d+)-").to_list() == ["case7"]
    with pytest.raises(SplitError, match="needs one"):
        patients_from(pl.Series(["a"]), r"\d+")
    with pytest.raises(SplitError, match="neither a known pattern nor a regular expression"):
        patients_from(pl.Series(["a"]), "(")
    with pytest.raises(SplitError, match="can't be used"):
        patients_from(pl.Series(["ab"]), r"(a)(?=b)")  # Python has look-ahead, the engine for tables has not
