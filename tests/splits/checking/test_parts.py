"""Which rows belong to which split: columns, files, forms without header, JSON, runs."""

import gzip
import json
from pathlib import Path

import pytest

from splits.checking import Chosen, Options, Report, check_splits
from splits.checking.loading import load
from splits.errors import SplitError


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


@pytest.mark.parametrize("column", ["split", "Set", "subset", "Usage", "dataset_split", "phase", "anything"])
def test_a_split_column_is_found_by_name_or_content(tmp_path: Path, column: str) -> None:
    rows = "".join(f"i{k}.png,p{k},{'train' if k < 8 else 'test'}\n" for k in range(12))
    report = check_splits([put(tmp_path, "a.csv", f"image,patient,{column}\n{rows}")])
    assert report.splits == {"train": 8, "test": 4}
    assert report.exit_code == 0


def test_folders_called_train_are_no_split_column(tmp_path: Path) -> None:
    train = "".join(f"CheX/train/patient{k}/study1/view1_frontal.jpg,{k % 2}\n" for k in range(30))
    test = "CheX/train/patient90/study1/view1_frontal.jpg,1\n"
    files = [put(tmp_path, f"x_{name}.csv", "Path,label\n" + rows) for name, rows in (("train", train), ("test", test))]
    report = check_splits(files)
    assert report.splits == {"train": 30, "test": 1}
    assert report.exit_code == 0  # one base name everywhere is no overlap


def test_files_are_splits_by_their_names_or_by_the_users(tmp_path: Path) -> None:
    a, b = put(tmp_path, "IDRID_train.csv", "image\na1.png\n"), put(tmp_path, "IDRID_crossval.csv", "image\nb1.png\n")
    assert check_splits([a, b]).splits == {"train": 1, "val": 1}
    assert check_splits([f"first={a}", f"second={b}"]).splits == {"first": 1, "second": 1}


def test_two_data_sets_with_splits_of_their_own_are_all_compared(tmp_path: Path) -> None:
    a = put(tmp_path, "isic2017.csv", "image,split\nISIC_9900001,train\nISIC_9900002,test\n")
    b = put(tmp_path, "isic2019.csv", "image,split\nISIC_9900002,train\nISIC_9900009,test\n")
    report = check_splits([a, b])
    assert set(report.splits) == {"isic2017/train", "isic2017/test", "isic2019/train", "isic2019/test"}
    assert [set(leak.splits) for leak in report.leaks] == [{"isic2017/test", "isic2019/train"}]


def test_two_training_lists_may_share(tmp_path: Path) -> None:
    a, b = put(tmp_path, "a_train.csv", "image\nx12345.png\n"), put(tmp_path, "b_train.csv", "image\nx12345.png\n")
    report = check_splits([a, b])
    assert report.exit_code == 0
    assert "path-overlap" in codes(report)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("a/b 1.png\na/b 2.png\n", "path list"),
        ("APTOS/pdr/001.png 4\nAPTOS/nodr/002.png 0\n", "path, label by blanks"),
        ("10_left 0\n10_right 1\n", "table without header, by blanks"),
        ("x/1.png,2,3\nx/2.png,,\n", "table without header"),
        ("ISIC_9900001\nISIC_9900002\n", "path list"),
        ("file_name\n000001.png\n", "table"),
        ("image\nabc\n", "table"),
    ],
)
def test_files_with_and_without_header(tmp_path: Path, text: str, form: str) -> None:
    listing = load(put(tmp_path, "list.txt", text))
    assert listing.form == form
    assert listing.frame.height == len(text.splitlines()) - (form == "table")


def test_a_packed_list_with_windows_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.txt.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfC:\\d\\1.png 0\r\nC:\\d\\2.png 1\r\n"))
    assert load(path).frame["image"].to_list() == ["C:\\d\\1.png", "C:\\d\\2.png"]


@pytest.mark.parametrize(
    "document",
    [
        {"train": ["a1.png", "a2.png"], "test": ["a2.png"]},
        {"train": [["a1.png", 0, "no"], ["a2.png", 1, "yes"]], "val": [], "test": [["a2.png", 1, "yes"]]},
        {"training": [{"image": "a1.png"}, {"image": "a2.png"}], "test": ["a2.png"], "name": "x", "labels": {"0": "a"}},
        [{"file": "a1.png", "set": "train"}, {"file": "a2.png", "set": "train"}, {"file": "a2.png", "set": "test"}],
        {"images": [{"file": "a2.png", "set": "train"}, {"file": "a2.png", "set": "test"}]},
        {"a1.png": {"set": "train"}, "d/a2.png": {"set": "train"}, "e/a2.png": {"set": "test"}},
    ],
)
def test_json_forms(tmp_path: Path, document: object) -> None:
    report = check_splits([put(tmp_path, "split.json", json.dumps(document))])
    assert len(report.leaks) == 1
    assert "a2.png" in report.leaks[0].samples[0]


def test_json_runs_are_compared_inside_one_run(tmp_path: Path) -> None:
    runs = [{"train": ["a", "b"], "val": ["c"]}, {"train": ["a", "c"], "val": ["b"]}]
    report = check_splits([put(tmp_path, "splits_final.json", json.dumps(runs))])
    assert report.runs == 2
    assert not report.leaks
    runs[1]["val"].append("a")
    assert [leak.count for leak in check_splits([put(tmp_path, "splits_final.json", json.dumps(runs))]).leaks] == [1]


@pytest.mark.parametrize("text", ["{", "7", '{"a": 1}', '{"train": [3.5], "test": ["a"]}', "[" * 100_000])
def test_json_that_lists_nothing_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(SplitError, match=r"split\.json"):
        check_splits([put(tmp_path, "split.json", text)])


def test_folds_are_a_partition_and_several_fold_columns_are_runs(tmp_path: Path) -> None:
    rows = [(f"i{k}.png", f"p{k // 2}", k // 2 % 3, (k // 2 + k // 6) % 3) for k in range(18)]
    text = "image,patient,fold_0,fold_1\n" + "".join(f"{a},{b},{c},{d}\n" for a, b, c, d in rows)
    assert check_splits([put(tmp_path, "cv.csv", text)]).exit_code == 0
    leaky = text.replace("i1.png,p0,0,0", "i1.png,p0,0,1")
    report = check_splits([put(tmp_path, "cv.csv", leaky)])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 1)]
    assert report.leaks[0].samples == ("p0",)


def test_a_run_column_keeps_runs_apart(tmp_path: Path) -> None:
    text = "image,patient,split,repeat\na,p1,train,0\nb,p2,test,0\na,p1,test,1\nb,p2,train,1\n"
    report = check_splits([put(tmp_path, "r.csv", text)])
    assert (report.runs, report.exit_code) == (2, 0)
    assert check_splits([put(tmp_path, "r.csv", text + "c,p1,test,0\n")]).exit_code == 1
    assert check_splits([put(tmp_path, "r.csv", text.replace("repeat", "note"))]).exit_code == 1


def test_fold_files_with_train_and_valid_are_runs(tmp_path: Path) -> None:
    files = []
    for k, kind in ((k, kind) for k in range(3) for kind in ("train", "valid")):
        rows = "".join(f"x{i}.png\n" for i in range(6) if (i % 3 == k) == (kind == "valid"))
        files.append(put(tmp_path, f"fold{k}_{kind}.csv", "image\n" + rows))
    report = check_splits(files)
    assert (report.runs, report.exit_code) == (3, 0)
    assert report.splits == {"train": 12, "val": 6}


def test_rows_of_no_split_are_left_out_and_counted(tmp_path: Path) -> None:
    text = "image,split\na,train\nb,test\na,\na,unused\n"
    report = check_splits([put(tmp_path, "a.csv", text)])
    assert report.exit_code == 0
    assert any("2 of 4 rows belong to no split" in finding.title for finding in report.findings)


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    alone = put(tmp_path, "a.csv", "image,label\nx.png,0\n")
    with pytest.raises(SplitError, match="nothing says which split"):
        check_splits([alone])
    with pytest.raises(SplitError, match=r"no file has a column 'Split'"):
        check_splits([alone], Options(Chosen(split="Split")))
    with pytest.raises(SplitError, match="no column names images or patients"):
        check_splits([put(tmp_path, "b.csv", "width,split\n3,train\n4,test\n")])
    with pytest.raises(SplitError, match="no such file"):
        check_splits([tmp_path / "none.csv"])
    with pytest.raises(SplitError, match="holds counts by split"):
        check_splits([put(tmp_path, "d.csv", ",train,val,test\nnormal,211,36,33\ntumor,89,15,15\n")])
    with pytest.raises(SplitError, match="has a header and no rows"):
        check_splits([put(tmp_path, "e.csv", "image,split\n")])


def test_columns_can_be_named(tmp_path: Path) -> None:
    text = "who,what,where\np1,a,one\np1,b,two\n"
    chosen = Chosen(patient="who", image="what", split="where")
    report = check_splits([put(tmp_path, "a.csv", text)], Options(chosen))
    assert [leak.code for leak in report.leaks] == ["patient-overlap"]
    assert report.sources[0].columns == {"image": "what", "patient": "who", "split": "where"}


def test_a_column_of_one_value_beside_the_name_of_its_file(tmp_path: Path) -> None:
    a = put(tmp_path, "x_train.csv", "image,split\na,train\n")
    b = put(tmp_path, "y.csv", "image,split\nb,test\nc,test\n")
    assert check_splits([a, b]).splits == {"x_train": 1, "y/test": 2}


def test_one_split_alone_is_said(tmp_path: Path) -> None:
    report = check_splits([put(tmp_path, "a.csv", "image,patient,split\na,p,train\nb,p,train\n")])
    assert (report.exit_code, codes(report)) == (0, ["no-splits"])
    assert "only one split is named (train)" in report.findings[0].title


def test_one_file_twice_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "image,split\na,train\n")
    with pytest.raises(SplitError, match="given twice"):
        check_splits([path, f"b={path}"])


def test_rows_without_image_names_are_no_repeats(tmp_path: Path) -> None:
    text = "image,patient,split\n,p1,train\n,p1,train\nd/a.png,p2,train\n,p3,test\n,p1,test\n"
    report = check_splits([put(tmp_path, "a.csv", text)])
    assert codes(report) == ["patient-overlap"]
    assert report.leaks[0].count == 1


def test_columns_without_any_value_are_as_good_as_none(tmp_path: Path) -> None:
    path = put(tmp_path, "a.csv", "image,patient,split\n,p1,train\n,p2,test\n")
    assert check_splits([path]).exit_code == 0
    with pytest.raises(SplitError, match="no column holds any"):
        check_splits([path], Options(images=tmp_path))
    with pytest.raises(SplitError, match="has no row with both"):
        check_splits([path], Options(maps={"": put(tmp_path, "m.csv", "image,patient\na,\n")}))


def test_a_split_column_wins_over_columns_called_train_and_test(tmp_path: Path) -> None:
    text = "image,split,train,test\na.png,train,True,False\nb.png,test,False,True\n"
    assert check_splits([put(tmp_path, "a.csv", text)]).splits == {"train": 1, "test": 1}
