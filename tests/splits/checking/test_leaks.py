"""Leaks, and things that only look like leaks, in the form in which released lists had them."""

import hashlib
import json
from pathlib import Path

import polars as pl
import pytest

from splits.checking import Chosen, Finding, Level, Options, Report, check_splits, identity
from splits.hashing import hash_identifiers
from splits.spellings import messidor


def put(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def one(report: Report, code: str) -> Finding:
    found = [finding for finding in report.findings if finding.code == code]
    assert len(found) == 1, [finding.code for finding in report.findings]
    return found[0]


def codes(report: Report, level: Level) -> list[str]:
    return [finding.code for finding in report.of(level)]


RSNA = [f"{k:08x}-a8{k:02x}-403a-930a-bc74a405{k:04x}" for k in range(40)]


def test_rsna_ids_are_images_and_a_map_shows_the_patients(tmp_path: Path) -> None:
    folds = [
        put(tmp_path, f"fold{f}_valid.csv", "".join(f"/data/orig/{i}.png,1,2,3,4,opacity\n" for i in RSNA[f::4]))
        for f in range(4)
    ]
    assert check_splits(folds).exit_code == 0  # the ids alone look clean
    table = put(
        tmp_path, "nih.csv", "rsna,nih\n" + "".join(f"{i},{k // 2:08d}_{k % 2:03d}.png\n" for k, i in enumerate(RSNA))
    )
    report = check_splits(folds, Options(maps={"": table}))
    leaks = report.leaks
    assert {leak.code for leak in leaks} == {"patient-overlap"}
    assert sum(leak.count for leak in leaks) == 20
    assert "00000000" in leaks[0].samples
    assert "read by the pattern nih" in one(report, "map-used").title


def test_rsna_rows_split_at_random_put_one_image_on_both_sides(tmp_path: Path) -> None:
    text = "patientId,x,y,width,height,Target,split\n"
    text += f"{RSNA[0]},1,1,2,2,1,train\n{RSNA[0]},5,5,2,2,1,test\n{RSNA[1]},,,,,0,train\n{RSNA[2]},,,,,0,test\n"
    report = check_splits([put(tmp_path, "rsna.csv", text)])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 1)]
    assert "image ids under the name of patients" in one(report, "patient-is-image").title


def test_digestpath_patches_of_one_slide_on_both_sides(tmp_path: Path) -> None:
    rows = "".join(f"s{k // 4}_{k}.png,s{k // 4},{'test' if k % 5 == 0 else 'train'}\n" for k in range(200))
    report = check_splits([put(tmp_path, "patches.csv", "image,slide_id,split\n" + rows)])
    assert codes(report, Level.LEAK) == ["group-overlap"]
    assert one(report, "group-overlap").count == 40


def test_ham_lesions(tmp_path: Path) -> None:
    split = "image,target,center,fold,fold2\n"
    split += "".join(
        f"ISIC_99{k:05d},{k % 3},{k % 2},{f},{f}_{k % 2}\n" for k, f in enumerate(["train"] * 30 + ["test"] * 10)
    )
    lesions = "lesion_id,image_id,dx\n" + "".join(f"HAM_99{k % 37:05d},ISIC_99{k:05d},nv\n" for k in range(40))
    table = put(tmp_path, "HAM10000_metadata.csv", lesions)
    report = check_splits([put(tmp_path, "split.csv", split)], Options(maps={"": table}))
    assert [(leak.code, leak.count) for leak in report.leaks] == [("group-overlap", 3)]  # fold2 is the same in parts
    assert "3 of 10 lesion_id values of test are in train too" in report.leaks[0].title
    assert report.leaks[0].share == pytest.approx(0.3)


COVIDX_TRAIN = (
    "ANON9991 CR.1.2.840.png negative actmed\nANON5 CR.9.png negative actmed\n"
    "COVID 1 COVID(1).png positive sirm\nCOVID 2 COVID(2).png positive sirm\n8 a b (c).jpg positive cohen\n"
)


def test_covidx_a_patient_in_both_lists_and_names_with_blanks(tmp_path: Path) -> None:
    train = put(tmp_path, "train_COVIDx7B.txt", COVIDX_TRAIN)
    test = put(
        tmp_path, "test_COVIDx7B.txt", "ANON9991 DX.7.png negative actmed\nCOVID 9970 COVID(9970).png positive sirm\n"
    )
    report = check_splits([train, test])
    assert [(leak.code, leak.count, leak.samples) for leak in report.leaks] == [("patient-overlap", 1, ("ANON9991",))]
    word = one(report, "patient-is-a-word")  # no leak: a word that the blanks split off
    assert (word.count, word.samples) == (3, ("COVID",))


def test_covidx_repeated_rows_are_counted_once(tmp_path: Path) -> None:
    train = put(tmp_path, "train.txt", "1 a.png normal\n2 b.png pneumonia\n2 b.png pneumonia\n2 b.png pneumonia\n")
    report = check_splits([train, put(tmp_path, "test.txt", "3 c.png normal\n")])
    assert one(report, "rows-repeated").count == 2
    assert report.exit_code == 0


def covidx(prefix: str, count: int, label: str, source: str) -> str:
    return "".join(f"{prefix}{k} {prefix}-{k}.png {label} {source}\n" for k in range(count))


def test_covidx_the_source_tells_the_label_in_test(tmp_path: Path) -> None:
    train = put(tmp_path, "train.txt", covidx("a", 50, "negative", "rsna") + covidx("b", 50, "positive", "rsna"))
    test = put(tmp_path, "test.txt", covidx("c", 30, "negative", "rsna") + covidx("d", 30, "positive", "ricord"))
    report = check_splits([train, test])
    told = one(report, "label-is-site")
    assert told.level is Level.WARNING
    assert told.splits == ("test",)
    assert "30 of 30 'positive' are of ricord" in told.title
    assert "30 of 30 'negative' are of rsna" in told.title


def test_covidx_one_of_three_classes_has_its_own_source(tmp_path: Path) -> None:
    test = (
        covidx("c", 30, "normal", "rsna") + covidx("e", 30, "pneumonia", "rsna") + covidx("d", 30, "COVID-19", "ricord")
    )
    report = check_splits(
        [put(tmp_path, "train.txt", covidx("a", 50, "normal", "rsna")), put(tmp_path, "test.txt", test)]
    )
    assert "30 of 30 'COVID-19' are of ricord, which has no other label" in one(report, "label-is-site").title


def test_aptos_copies_with_different_grades_across_lists(tmp_path: Path) -> None:
    head = "id_code,diagnosis,content_hash\n"
    train = put(tmp_path, "train.csv", head + "000c1434d8d7,2,aa\n0024cdab0c1e,1,bb\n002c21358ce6,0,cc\n")
    val = put(tmp_path, "val.csv", head + "a75bab2463d4,3,aa\n1632c4311fc9,1,bb\nffffffffffff,1,dd\n")
    report = check_splits([train, val])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("content-overlap", 2)]
    differ = one(report, "labels-disagree")
    assert differ.count == 1
    assert differ.samples == ("000c1434d8d7 = a75bab2463d4: 2 / 3",)


def idrid(count: int, labels: str) -> str:
    return "".join(
        f"IDRID/{labels[k % len(labels)]}/IDRiD_{k:03d}.jpg {labels[k % len(labels)]}\n" for k in range(count)
    )


def test_idrid_numbers_both_sets_from_one_which_is_no_leak(tmp_path: Path) -> None:
    report = check_splits(
        [put(tmp_path, "IDRID_train.txt", idrid(60, "43210")), put(tmp_path, "IDRID_crossval.txt", idrid(20, "32104"))]
    )
    collision = one(report, "name-collision")
    assert (collision.level, collision.count) == (Level.COLLISION, 20)
    assert "0 of 20 have the same label" in collision.title
    assert report.exit_code == 0


def test_names_whose_labels_agree_by_chance_alone_collide(tmp_path: Path) -> None:
    labels = [0 if k % 10 else 1 for k in range(100)]
    shifted = [0 if k % 10 != 5 else 1 for k in range(100)]
    files = [
        put(tmp_path, f"{name}.csv", "image,label\n" + "".join(f"img_{k}.png,{v}\n" for k, v in enumerate(of)))
        for name, of in (("train", labels), ("test", shifted))
    ]
    assert codes(check_splits(files), Level.COLLISION) == ["path-collision"]
    files[1] = put(tmp_path, "test.csv", files[0].read_text())
    assert codes(check_splits(files), Level.LEAK) == ["path-overlap"]


def test_a_content_hash_settles_equal_names(tmp_path: Path) -> None:
    rows = "1.png,0,{},train\n2.png,1,{},train\n1.png,0,{},test\n2.png,1,{},test\n"
    other = check_splits([put(tmp_path, "a.csv", "image,label,md5,split\n" + rows.format("aa", "bb", "cc", "dd"))])
    assert (other.exit_code, codes(other, Level.COLLISION)) == (0, ["path-collision"])
    assert "contents differ" in one(other, "path-collision").title
    same = check_splits([put(tmp_path, "a.csv", "image,label,md5,split\n" + rows.format("aa", "bb", "aa", "dd"))])
    assert set(codes(same, Level.LEAK)) == {"path-overlap", "content-overlap"}
    assert one(same, "path-overlap").count == 1


def test_numbers_in_folders_for_training_and_testing_collide(tmp_path: Path) -> None:
    rows = "".join(f"FIVES/{kind}/Original/{k}_A.png,1,{kind}\n" for kind in ("train", "test") for k in range(30))
    report = check_splits([put(tmp_path, "fives.csv", "Path,label,split\n" + rows)])
    assert (report.exit_code, codes(report, Level.COLLISION)) == (0, ["name-collision"])


def test_patients_read_from_names_that_collide_collide_too(tmp_path: Path) -> None:
    rows = "".join(
        f"{k}_left.png,{(k + s) % 3},{name}\n" for s, name in enumerate(("train", "test")) for k in range(30)
    )
    report = check_splits([put(tmp_path, "a.csv", "image,level,split\n" + rows)])
    assert report.exit_code == 0
    assert codes(report, Level.COLLISION) == ["path-collision", "patient-collision"]


def test_patient_seven_of_two_hospitals_is_no_leak_but_checked(tmp_path: Path) -> None:
    rows = "".join(
        f"{site}{k}.png,{k},{site},{split}\n" for site, split in (("A", "train"), ("B", "external")) for k in range(9)
    )
    report = check_splits([put(tmp_path, "a.csv", "image,patient,site,split\n" + rows)])
    assert (report.exit_code, codes(report, Level.COLLISION)) == (0, ["patient-collision"])


def test_messidor_inside_messidor_2(tmp_path: Path) -> None:
    names = [f"19990101_{10_008 + 7 * k}_0100_PP" for k in range(30)]
    inside = put(
        tmp_path, "messidor.csv", "image,diagnosis\n" + "".join(f"{n}.tif,{k % 4}\n" for k, n in enumerate(names[:20]))
    )
    whole = put(
        tmp_path,
        "messidor_data.csv",
        "image_id,adjudicated_dr_grade\n" + "".join(f"{n}.png,{k % 4}\n" for k, n in enumerate(names)),
    )
    report = check_splits([f"train={inside}", f"external={whole}"])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("copy-overlap", 20)]
    assert report.leaks[0].share == pytest.approx(20 / 30)


def test_isic_years_share_downsampled_images(tmp_path: Path) -> None:
    test = put(tmp_path, "2017_test.csv", "image_id\nISIC_9912086\nISIC_9912092\n")
    train = put(tmp_path, "2019_train.csv", "image,target\nISIC_9912086_downsampled,1\nISIC_9900001_downsampled,0\n")
    report = check_splits([test, train])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("copy-overlap", 1)]
    assert report.leaks[0].samples == ("ISIC_9912086_downsampled ~ ISIC_9912086",)


def test_eyenet_mirrored_and_turned_copies(tmp_path: Path) -> None:
    names = [f"{k}_left{mark}.jpeg" for k in range(10, 30) for mark in ("", "_mir", "_90", "_270")]
    rows = "".join(
        f"{n.split('_')[0]}_left.jpeg,0,{n},{'test' if i % 7 == 0 else 'train'}\n" for i, n in enumerate(names)
    )
    report = check_splits([put(tmp_path, "master.csv", "image,level,train_image_name,split\n" + rows)])
    assert codes(report, Level.LEAK) == ["copy-overlap", "patient-overlap"]
    assert one(report, "copy-overlap").count == len({n.split("_")[0] for n in names[::7]})


def test_chexpert_few_shot_lists_share_patients_and_no_more(tmp_path: Path) -> None:
    head = ",Path,Atelectasis,Edema\n"
    train = head + "".join(
        f"{k},CheXpert-v1.0/train/patient{k:05d}/study1/view1_frontal.jpg,1.0,0.0\n" for k in range(40)
    )
    test = head + "".join(
        f"{k},CheXpert-v1.0/train/patient{k:05d}/study2/view1_frontal.jpg,0.0,1.0\n" for k in range(37, 50)
    )
    report = check_splits([put(tmp_path, "5x200_train.csv", train), put(tmp_path, "5x200_test.csv", test)])
    assert [(leak.code, leak.count) for leak in report.leaks] == [("patient-overlap", 3)]


def test_nih_follow_ups(tmp_path: Path) -> None:
    train = put(tmp_path, "train_val_list.txt", "00090001_000.png\n00090002_000.png\n")
    test = put(tmp_path, "test_list.txt", "00090001_001.png\n00090003_000.png\n")
    report = check_splits([train, test])
    assert [(leak.code, leak.samples) for leak in report.leaks] == [("patient-overlap", ("00090001",))]


CLAM = (
    ",train,val,test\n0,slide_1,slide_3,slide_5\n1,slide_2,slide_4,slide_6\n",
    ",train,val,test\n0,slide_5,slide_1,slide_2\n1,slide_6,,slide_3\n",
)


def test_repeated_cross_validation_is_no_leak(tmp_path: Path) -> None:
    files = [put(tmp_path, f"splits_{k}.csv", text) for k, text in enumerate(CLAM)]
    report = check_splits(files)
    assert (report.runs, report.exit_code) == (2, 0)
    files[0] = put(tmp_path, "splits_0.csv", CLAM[0] + "2,slide_5,,\n")
    assert [leak.samples for leak in check_splits(files).leaks] == [("slide_5",)]


def test_splits_as_yes_and_no(tmp_path: Path) -> None:
    text = ",train,val,test\nslide_1,True,False,False\nslide_2,False,False,True\n"
    assert check_splits([put(tmp_path, "splits_0_bool.csv", text)]).splits == {"train": 1, "test": 1}
    report = check_splits([put(tmp_path, "splits_0_bool.csv", text + "slide_3,True,False,True\n")])
    assert [leak.samples for leak in report.leaks] == [("slide_3",)]


def test_slides_of_one_case_on_both_sides(tmp_path: Path) -> None:
    cases = put(
        tmp_path,
        "dataset.csv",
        "case_id,slide_id,label\n" + "".join(f"patient_{k // 2},slide_{k},x\n" for k in range(1, 7)),
    )
    report = check_splits([put(tmp_path, "splits_0.csv", CLAM[0])], Options(maps={"": cases}))
    assert {leak.code for leak in report.leaks} == {"patient-overlap"}
    assert sorted(sample for leak in report.leaks for sample in leak.samples) == ["patient_1", "patient_2"]


def test_sites_of_one_split_and_uneven_folds_are_no_error(tmp_path: Path) -> None:
    rows = "".join(
        f"TCGA-{site}-A{k:03d},{site},{fold}\n"
        for site, fold, n in (("OR", 0, 90), ("P6", 1, 5), ("OU", 2, 2))
        for k in range(n)
    )
    report = check_splits([put(tmp_path, "cv.csv", "patient_id,tissue_source_site,fold\n" + rows)])
    assert report.findings == ()


def test_tcga_samples_in_the_patient_column(tmp_path: Path) -> None:
    rows = "".join(
        f"x{k}.svs,TCGA-OR-A{k // 2:03d}-0{k % 2 + 1}A,{'test' if k % 3 == 0 else 'train'}\n" for k in range(40)
    )
    report = check_splits([put(tmp_path, "a.csv", "image,patient,split\n" + rows)])
    assert "barcodes of TCGA samples" in one(report, "patient-is-sample").title
    assert codes(report, Level.LEAK) == ["patient-overlap"]


def test_vqa_the_key_is_the_image_and_not_the_question(tmp_path: Path) -> None:
    rows = [
        {"qid": "1", "image_name": "synpic1.jpg", "question": "Is there a mass?", "answer": "yes", "split": "train"},
        {"qid": "2", "image_name": "synpic1.jpg", "question": "Which plane?", "answer": "axial", "split": "test"},
        {"qid": "3", "image_name": "synpic2.jpg", "question": "Is there a mass?", "answer": "yes", "split": "train"},
        {"qid": "4", "image_name": "synpic3.jpg", "question": "Is there a mass?", "answer": "yes", "split": "test"},
    ]
    path = tmp_path / "vqa.json"
    path.write_text(json.dumps(rows))
    report = check_splits([path])
    assert [(leak.samples, leak.count) for leak in report.leaks] == [(("synpic1.jpg",), 1)]
    assert "labels-disagree" not in [finding.code for finding in report.findings]


def test_one_image_under_two_names_and_two_labels(tmp_path: Path) -> None:
    rows = "apl/c1.jpg,apl,{h},train\naml/c9.jpg,aml,{h},test\napl/c2.jpg,apl,ee,train\naml/c3.jpg,aml,ff,test\n"
    report = check_splits([put(tmp_path, "cells.csv", "path,label,sha256,split\n" + rows.format(h="ab" * 32))])
    assert codes(report, Level.LEAK) == ["content-overlap"]
    assert one(report, "labels-disagree").samples == ("aml/c9.jpg = apl/c1.jpg: aml / apl",)


def test_plain_digests_are_a_leak_of_identity_and_keyed_ones_are_not(tmp_path: Path) -> None:
    salt = b"s" * 32

    def table(patients: list[str]) -> Path:
        images = hash_identifiers(salt, "", [f"i{k}" for k in range(40)])
        splits = ["train" if k < 30 else "test" for k in range(40)]
        path = tmp_path / "splits.parquet"
        pl.DataFrame({"image_id": images, "patient_id": patients, "split": splits}).write_parquet(path)
        return path

    keyed = hash_identifiers(salt, "", [str(k // 2) for k in range(40)])
    assert check_splits([table(keyed)]).exit_code == 0
    plain = [hashlib.sha256(f"{k // 2}".encode()).hexdigest() for k in range(40)]
    report = check_splits([table(plain)])
    leak = one(report, "reversible-identifiers")
    assert (report.exit_code, leak.level, leak.count) == (1, Level.LEAK, 20)
    assert 'sha256("0")' in leak.samples[0]
    keyed[35] = keyed[0]
    assert codes(check_splits([table(keyed)]), Level.LEAK) == ["patient-overlap"]


def test_names_of_an_official_list_turn_random_names_back(tmp_path: Path) -> None:
    """Names that can't be counted up, such as the hex codes of APTOS-2019, are found where their list is at hand."""
    names = [hashlib.md5(f"{k}".encode()).hexdigest()[:12] for k in range(20)]
    images = [hashlib.sha256(name.encode()).hexdigest() for name in names]
    splits = ["train" if k < 15 else "test" for k in range(20)]
    pl.DataFrame({"image_id": images, "split": splits}).write_csv(tmp_path / "splits.csv")
    official = put(tmp_path, "official.csv", "id_code,diagnosis\n" + "".join(f"{name},0\n" for name in names))
    assert check_splits([tmp_path / "splits.csv"]).exit_code == 0
    report = check_splits([tmp_path / "splits.csv"], Options(names=official))
    leak = one(report, "reversible-identifiers")
    assert (report.exit_code, leak.count) == (1, 20)
    assert names[0] in leak.samples[0]


def test_a_long_search_finds_names_of_messidor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # two of the 672 patterns that --deep tries: the search itself is the real one
    monkeypatch.setattr(identity, "_long", lambda: iter(list(messidor(".tif"))[:2]))
    images = [hashlib.sha256(f"20051019_3{k:04}_0200_PP.tif".encode()).hexdigest() for k in range(20)]
    splits = ["train" if k < 15 else "test" for k in range(20)]
    pl.DataFrame({"image_id": images, "split": splits}).write_csv(tmp_path / "splits.csv")
    assert check_splits([tmp_path / "splits.csv"]).exit_code == 0
    report = check_splits([tmp_path / "splits.csv"], Options(deep=True))
    assert one(report, "reversible-identifiers").count == 20


def test_a_group_of_ones_own(tmp_path: Path) -> None:
    text = "image,cluster,split\na,1,train\nb,1,test\nc,2,train\n"
    path = put(tmp_path, "a.csv", text)
    assert check_splits([path]).exit_code == 0
    report = check_splits([path], Options(Chosen(group=("cluster",))))
    assert "cluster" in report.leaks[0].title


def test_leaks_come_first_and_samples_are_escaped(tmp_path: Path) -> None:
    text = (
        "image,patient,split\n"
        + "".join(f"i{k},unknown,train\n" for k in range(30))
        + "a\x1b[31m,p,train\na\x1b[31m,p,test\n"
    )
    report = check_splits([put(tmp_path, "a.csv", text)])
    levels = [finding.level for finding in report.findings]
    assert levels == sorted(levels, key=list(Level).index)
    assert report.leaks[0].samples == (r"a\x1b[31m",)
    assert report.to_dict()["exit_code"] == 1
    assert report.last_line.startswith("MVC SPLITS LEAK 2 leaks")


def test_a_map_adds_to_the_patients_of_the_list(tmp_path: Path) -> None:
    train = put(tmp_path, "train.txt", f"{RSNA[0]} {RSNA[0]}.png negative rsna\nANON9991 CR.1.png negative actmed\n")
    test = put(tmp_path, "test.txt", f"{RSNA[1]} {RSNA[1]}.png negative rsna\nANON9991 DX.1.png negative actmed\n")
    table = put(tmp_path, "nih.csv", f"rsna,nih\n{RSNA[0]},00090007_000.png\n{RSNA[1]},00090007_003.png\n")
    report = check_splits([train, test], Options(maps={"": table}))
    assert [(leak.code, leak.samples) for leak in report.leaks] == [
        ("patient-overlap", ("ANON9991",)),
        ("patient-overlap", ("00090007",)),
    ]
    assert "1 of 1 patient by the map of test" in report.leaks[1].title
