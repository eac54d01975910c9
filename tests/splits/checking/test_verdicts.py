"""What a check can't know and says: spellings, missing patients, collisions; and which rows are a run."""

import json
from pathlib import Path

import pytest

from splits.checking import Chosen, Finding, Level, Options, Report, check_splits


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def one(report: Report, code: str) -> Finding:
    found = [finding for finding in report.findings if finding.code == code]
    assert len(found) == 1, [finding.code for finding in report.findings]
    return found[0]


def two(folder: Path, train: list[str], test: list[str], head: str = "image,patient") -> list[Path]:
    """Lists with one row a patient, each with an image of its own."""
    of = (("train", train), ("test", test))
    return [
        put(folder, f"{name}.csv", f"{head}\n" + "".join(f"{name}-{k}.png,{p}\n" for k, p in enumerate(patients)))
        for name, patients in of
    ]


@pytest.mark.parametrize(
    ("written", "other"),
    [
        ("050", "50"),
        ("50.0", "50"),
        ("p001", "P001"),
        ("P-001", "P001"),
        ("P1", "P001"),
        ("P 001", "P001"),
        ("１", "1"),
    ],
)
def test_a_patient_under_two_spellings_is_a_leak(tmp_path: Path, written: str, other: str) -> None:
    report = check_splits(two(tmp_path, [written, "700"], [f'"{other}"', "800"]))
    leak = one(report, "patient-spelling")
    assert (report.exit_code, leak.level, leak.count) == (1, Level.LEAK, 1)
    assert "1 of 2 patients of test is in train too, written differently" in leak.title
    assert leak.samples == (f"{written} ~ {other}",)


@pytest.mark.parametrize(
    ("one", "other"), [("1-12", "11-2"), ("a1b01", "a1b1"), ("-5", "5"), ("50.5", "50"), ("", "0")]
)
def test_other_ids_are_other_patients(tmp_path: Path, one: str, other: str) -> None:
    assert check_splits(two(tmp_path, [one, "700"], [other, "800"])).exit_code == 0


def test_a_spelling_is_told_beside_what_is_equal_as_written(tmp_path: Path) -> None:
    report = check_splits(two(tmp_path, ["7", "050", "3"], ["7", "50", "4"]))
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 1), ("patient-spelling", 1)]
    report = check_splits(two(tmp_path, ["7", "3"], ["7", "4"]))
    assert [leak.code for leak in report.leaks] == ["patient-overlap"]


def test_spellings_of_a_group_and_of_two_sites(tmp_path: Path) -> None:
    lesions = two(tmp_path, ["L01", "L07"], ["l1", "L08"], "image,lesion_id")
    assert [leak.code for leak in check_splits(lesions).leaks] == ["group-spelling"]
    sites = two(tmp_path, ["050,A", "051,A"], ["50,B", "51,B"], "image,patient,site")
    report = check_splits(sites)
    assert report.exit_code == 0
    assert [finding.code for finding in report.of(Level.COLLISION)] == ["patient-spelling-collision"]


def test_rows_without_a_patient_are_counted(tmp_path: Path) -> None:
    report = check_splits(two(tmp_path, [f"P{k // 2}" for k in range(40)], ["Z0", "Z0", "Z1", *[""] * 37]))
    missing = one(report, "patient-missing")
    assert (missing.level, missing.count, missing.splits) == (Level.WARNING, 37, ("test",))
    assert "37 of 40 rows of test have no patient" in missing.title
    assert "patient (43 of 80 rows)" in report.compared
    assert report.last_line.startswith("MVC SPLITS CLEAN of what was compared: file name")
    assert "; patients of 37 of 80 rows not known; " in report.last_line


def test_without_patients_the_last_line_says_so(tmp_path: Path) -> None:
    files = [put(tmp_path, f"{name}.csv", f"image\n{name}-a.png\n") for name in ("train", "test")]
    report = check_splits(files)
    said = "file name, name without suffix and marks; patients not known; 1 warning; 2 splits, 2 rows"
    assert report.last_line == f"MVC SPLITS CLEAN of what was compared: {said}"
    assert report.to_dict()["verdict"] == "clean"


def test_collisions_leave_it_undecided(tmp_path: Path) -> None:
    report = check_splits(
        two(tmp_path, [f"{k},A" for k in range(9)], [f"{k},B" for k in range(9)], "image,patient,site")
    )
    assert (report.exit_code, report.to_dict()["verdict"]) == (0, "undecided")
    assert report.last_line == "MVC SPLITS UNDECIDED 1 collision to look at; 2 splits, 18 rows"
    mend = one(report, "patient-collision").mend
    assert mend.startswith("Nothing to mend if each site numbers its own patients (say --site COL); else give all")


def numbers(name: str, which: range) -> str:
    return "".join(f"/data/{name}/{k:04d}_a.png\n" for k in which)


def test_few_equal_names_in_the_folders_of_the_splits_are_no_second_numbering(tmp_path: Path) -> None:
    train = put(tmp_path, "train.txt", numbers("train", range(60)))
    few = put(tmp_path, "test.txt", numbers("test", range(55, 95)))
    assert [(leak.code, leak.count) for leak in check_splits([train, few]).leaks] == [("name-overlap", 5)]
    all_of_them = put(tmp_path, "test.txt", numbers("test", range(40)))
    report = check_splits([train, all_of_them])
    assert (report.exit_code, one(report, "name-collision").count) == (0, 40)


def test_patients_by_a_pattern_that_was_given_are_patients(tmp_path: Path) -> None:
    files = [put(tmp_path, f"{name}.txt", numbers(name, range(30))) for name in ("train", "test")]
    report = check_splits(files, Options(pattern=r"(\d{4})_"))
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 30)]
    rows = "".join(f"{s}/{k:04d}_{n}.png,{s},{n}\n" for s, n in (("A", "train"), ("B", "test")) for k in range(30))
    path = put(tmp_path, "sites.csv", "image,site,split\n" + rows)
    report = check_splits([path], Options(pattern=r"(\d{4})_"))
    assert (report.exit_code, one(report, "patient-collision").count) == (0, 30)


def wide(leaky: bool) -> str:
    names = [[("test" if k // 2 % 5 == run else "train") for run in range(5)] for k in range(40)]
    if leaky:
        names[0][3] = "test"
    rows = "".join(f"i{k}.png,p{k // 2},{','.join(of)}\n" for k, of in enumerate(names))
    return "image,patient," + ",".join(f"split_{run}" for run in range(5)) + "\n" + rows


def test_the_column_of_a_run_is_named(tmp_path: Path) -> None:
    report = check_splits([put(tmp_path, "wide.csv", wide(leaky=False))])
    assert report.last_line == "MVC SPLITS CLEAN nothing found; 2 splits in 5 runs, 40 rows"
    report = check_splits([put(tmp_path, "wide.csv", wide(leaky=True))])
    assert [leak.title.split(":")[0] for leak in report.leaks] == ["split_3"]


def test_equal_file_names_in_folders_of_folds_are_runs(tmp_path: Path) -> None:
    files = []
    for fold, name in ((fold, name) for fold in range(2) for name in ("train", "test")):
        rows = "".join(f"x{k}.png,p{k}\n" for k in range(8) if (k % 2 == fold) == (name == "test"))
        files.append(put(tmp_path, f"fold{fold}/{name}.csv", "image,patient\n" + rows))
    report = check_splits(files)
    assert (report.exit_code, report.runs, report.splits) == (0, 2, {"train": 8, "test": 8})
    put(tmp_path, "fold1/test.csv", files[3].read_text() + "x0.png,p0\n")
    assert [leak.code for leak in check_splits(files).leaks] == ["path-overlap", "patient-overlap"]


def test_equal_file_names_in_other_folders_are_splits(tmp_path: Path) -> None:
    files = [put(tmp_path, f"{of}/images.csv", "image\nx10.png\n") for of in ("a2", "b7")]
    assert check_splits(files).exit_code == 1


def test_names_without_hashes_are_not_used_and_that_is_said(tmp_path: Path) -> None:
    files = two(tmp_path, ["1"], ["2"])
    note = one(check_splits(files, Options(names=files[0])), "no-digests")
    assert note.level is Level.NOTE
    assert note.title.startswith("--names was not used: ")
    assert (
        "--names and --deep were not used"
        in one(check_splits(files, Options(names=files[0], deep=True)), "no-digests").title
    )


def test_equal_bytes_of_two_sites_are_equal_images(tmp_path: Path) -> None:
    rows = f"1,A,{'ab' * 16},train\n2,B,{'ab' * 16},test\n"
    report = check_splits([put(tmp_path, "a.csv", "image,site,md5,split\n" + rows)], Options(Chosen(image="image")))
    assert [leak.code for leak in report.leaks] == ["content-overlap"]


def test_equal_contents_without_names(tmp_path: Path) -> None:
    rows = f",{'ab' * 16},train\n,{'ab' * 16},test\nx.png,{'ab' * 16},test\n"
    report = check_splits([put(tmp_path, "a.csv", "image,md5,split\n" + rows)])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("content-overlap", 1)]


def test_groups_of_copies_are_escaped(tmp_path: Path) -> None:
    rows = f"a\x1b[31m,{'ab' * 16},train\nb,{'ab' * 16},test\n"
    report = check_splits([put(tmp_path, "a.csv", "image,md5,split\n" + rows)])
    assert one(report, "content-overlap").groups == ({"train": (r"a\x1b[31m",), "test": ("b",)},)
    assert json.loads(json.dumps(report.to_dict()))["findings"][0]["groups"] == [
        {"train": [r"a\x1b[31m"], "test": ["b"]}
    ]
