"""COVIDx: lists of all versions, whose patients are patients in some sources only."""

from pathlib import Path

import pytest

from splits.datasets.covidx import COVIDX, COVIDX_BINARY
from splits.errors import SplitError
from tests.splits.datasets.real import released

U, V, W = (f"9999000{n}-1111-4222-8333-444444444444" for n in (1, 2, 3))


def lists(folder: Path, train: str, test: str = "", version: str = "9B") -> list[Path]:
    made = []
    for split, text in (("train", train), ("test", test)):
        if text:
            made.append(folder / f"{split}_COVIDx{version}.txt")
            made[-1].write_text(text)
    return made


def test_version_1_has_no_source_and_boxes_as_rows(tmp_path: Path) -> None:
    train = f"3 SARS-Fig99z-day99.jpeg pneumonia\n{U} {U}.png pneumonia\n{U} {U}.png pneumonia\nx odd.PNG COVID-19\n"
    images = COVIDX.read(lists(tmp_path, train, f"{V} {V}.png normal\n", ""), {})
    assert images.frame.to_dict(as_series=False) == {
        "image": ["SARS-Fig99z-day99.jpeg", f"{U}.png", "odd.PNG", f"{V}.png"],
        "patient": ["3", None, "x", None],
        "site": ["cohen", "rsna", "unknown", "rsna"],
        "label": [1, 1, 2, 0],
        "published": ["train", "train", "train", "test"],
    }
    assert images.notes[:4] == (
        "5 rows name no source; it was told from names, and of 1 it stays unknown",
        "3 rows from rsna have the image as patient: no patient is known of them",
        "rows that repeat another row and were left out (RSNA boxes in version 1): 1",
        "the patient of 2 of 4 images is known: 2 patients",
    )


def test_later_versions_name_the_source_and_split_names_at_blanks(tmp_path: Path) -> None:
    train = (
        "COVID 9970 COVID(9970).png COVID-19 sirm\n"
        "COVID_9503 COVID(9503).png COVID-19 sirm\n"
        "5 a name with blanks.JPG pneumonia cohen\n"
        "COVID-99915a COVID-99915a.jpg COVID-19 fig1\n"
        "COVID-99915b COVID-99915b.jpg COVID-19 fig1\n"
        f"{W} {W}.png normal rnsa\n"
    )
    images = COVIDX.read(lists(tmp_path, train, version="9A"), {})
    assert images.frame.select("image", "patient", "site").rows() == [
        ("COVID(9970).png", None, "sirm"),
        ("COVID(9503).png", None, "sirm"),
        ("a name with blanks.JPG", "5", "cohen"),
        ("COVID-99915a.jpg", "COVID-99915", "fig1"),
        ("COVID-99915b.jpg", "COVID-99915", "fig1"),
        (f"{W}.png", None, "rsna"),
    ]
    assert images.notes[0] == "1 rows name the source 'rnsa', read as rsna"
    assert images.notes[3] == "in 1 rows the patient column is the word COVID, since the id holds a blank ('COVID N')"
    assert images.frame["published"].unique().to_list() == ["train"]


@pytest.mark.parametrize(
    ("line", "site"),
    [
        ("SITE9-999961 MIDRC-RICORD-1C-SITE9-999961-99999-0.png COVID-19", "ricord"),
        ("S99158 sub-S99158_ses-E99907_run-1_bp-chest_vp-ap_dx-corrected.png COVID-19", "bimcv"),
        ("A999165 A999165-01-01-1901-NA-CHEST_AP_PORT-99999-2.000000-AP-99999-1-1.jpg COVID-19", "stonybrook"),
        ("ANON9993 CR.1.2.840.999999.9999999999.19990101000000000000.png COVID-19", "actmed"),
        ("COVID-99922 COVID-99922.jpg COVID-19", "fig1"),
        ("COVID-19(9903) COVID-19(9903).png COVID-19", "sirm"),
        ("99313b 10.9999-slash-j.none.1999.99.999-fig9-z.png COVID-19", "cohen"),
    ],
)
def test_sources_are_told_from_names(tmp_path: Path, line: str, site: str) -> None:
    assert COVIDX.read(lists(tmp_path, line + "\n"), {}).frame["site"].to_list() == [site]


def test_two_classes_patients_in_both_lists_and_label_that_is_source(tmp_path: Path) -> None:
    train = "ANON9991 CR.1.2.840.1.png negative actmed\nANON9991 CR.1.2.840.2.png positive actmed\n"
    test = f"ANON9991 CR.1.2.840.3.png positive actmed\n{U} {U}.png negative rsna\n"
    files = lists(tmp_path, train, test)
    images = COVIDX_BINARY.read(files, {})
    assert images.frame["label"].to_list() == [0, 1, 1, 0]
    assert images.notes[1:] == (
        "the patient of 3 of 4 images is known: 1 patients",
        "patients that lie in more than one published split (test, train): 1 of 1, with 3 images; the "
        "published split leaks",
        "label = source in test: actmed: 1 positive, rsna: 1 negative; who tells the source tells the label",
    )
    with pytest.raises(SplitError, match="negative or positive only; take the data set covidx-binary"):
        COVIDX.read(files, {})


def test_three_classes_are_taken_together(tmp_path: Path) -> None:
    images = COVIDX_BINARY.read(
        lists(tmp_path, "1 a.png normal cohen\n2 b.png pneumonia cohen\n3 c.png COVID-19 cohen\n"), {}
    )
    assert images.frame["label"].to_list() == [0, 0, 1]
    assert images.notes[0].startswith("the three classes of the lists were taken together")


def test_the_map_gives_nih_patients(tmp_path: Path) -> None:
    known = tmp_path / "map.csv"
    known.write_text(f"patientId,img_id\n{U},00090032_001.png\n{V},00090032_002.png\n")
    files = lists(
        tmp_path,
        f"{U} {U}.png negative rsna\n4 x.png positive cohen\n",
        f"{V} {V}.png negative rsna\n{W} {W}.png negative rsna\n",
    )
    images = COVIDX_BINARY.read(files, {"rsna-nih": known})
    assert images.frame["patient"].to_list() == ["00090032", "4", "00090032", None]
    assert any("(test, train): 1 of 2, with 2 images; the published" in note for note in images.notes)


def test_two_patients_of_one_image_are_one_person(tmp_path: Path) -> None:
    train = (
        "99287 a.jpg pneumonia cohen\n99340 a.jpg pneumonia cohen\n"
        "99340 b.jpg pneumonia cohen\n12 c.jpg pneumonia cohen\n"
    )
    images = COVIDX.read(lists(tmp_path, train), {})
    assert images.frame.select("image", "patient").rows() == [
        ("a.jpg", "99287+99340"),
        ("b.jpg", "99287+99340"),
        ("c.jpg", "12"),
    ]
    assert images.notes[0] == "2 patients that share an image with another are taken as one person: 1 persons"


@pytest.mark.parametrize(
    ("train", "test", "said"),
    [
        ("1 a.png normal\n2 b.png\n", "", "entry 2: '2 b.png' is no entry"),
        ("1 a.png normal\n", "1 a.png normal\n", "in the lists of different splits, such as 'a.png'"),
        ("1 a.png normal\n1 a.png pneumonia\n", "", "different label"),
        ("S a.png level2 ricord\n", "", "'level2', of image 'a.png', is no label"),
    ],
)
def test_what_is_refused(tmp_path: Path, train: str, test: str, said: str) -> None:
    with pytest.raises(SplitError, match=said):
        COVIDX.read(lists(tmp_path, train, test), {})


def test_folders(tmp_path: Path) -> None:
    lists(tmp_path, "1 a.png normal cohen\n", "2 b.png normal cohen\n", "9A")
    (tmp_path / "training_notes.txt").write_text("no list")
    assert COVIDX.read([tmp_path], {}).frame["published"].to_list() == ["test", "train"]
    lists(tmp_path, "1 a.png normal cohen\n", version="8A")
    with pytest.raises(
        SplitError, match=r"wanted the lists of one version, found test_COVIDx9A\.txt, train_COVIDx8A\.txt"
    ):
        COVIDX.read([tmp_path], {})
    with pytest.raises(SplitError, match="no file is given"):
        COVIDX.read([], {})


@pytest.mark.parametrize(
    ("version", "rows", "known"),
    [
        ("", 13_677, 92),
        ("3", 13_970, 339),
        ("5", 14_258, 627),
        ("7A", 15_411, 627),
        ("8A", 15_999, 1_467),
        ("9A", 30_530, 15_799),
    ],
)
def test_released_lists_of_three_classes(version: str, rows: int, known: int) -> None:
    files = [released("lindawangg+COVID-Net", f"labels/{split}_COVIDx{version}.txt") for split in ("train", "test")]
    frame = COVIDX.read(files, {}).frame
    assert (frame.height, frame["patient"].count()) == (rows, known)
    assert frame["site"].is_in(["unknown"]).sum() == 0


@pytest.mark.parametrize("version", ["6", "7B", "8B", "9B"])
def test_released_lists_of_two_classes(version: str) -> None:
    files = [released("lindawangg+COVID-Net", f"labels/{split}_COVIDx{version}.txt") for split in ("train", "test")]
    notes = "\n".join(COVIDX_BINARY.read(files, {}).notes)
    assert ("in more than one published split" in notes) == (version in ("6", "7B"))
    assert ("label = source in test: ricord: 200 positive, rsna: 200 negative" in notes) == (version in ("8B", "9B"))
