"""``mvc split make``, ``hash`` and ``verify`` as a user meets them."""

import csv
import json
import os
import re
import stat
from collections import defaultdict
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner, Result

from mvc.cli import app
from splits.hashing import hash_identifier, read_salt

ROWS = 240


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["split", *map(str, arguments)], env={"COLUMNS": "200"})


def metadata(folder: Path, **changes: list[str]) -> Path:
    """A table of 240 images of 80 patients; ``changes`` replaces or adds columns."""
    rng = np.random.default_rng(3)
    patient = [f"P{index // 3:03}" for index in range(ROWS)]
    columns = {
        "image_id": [f"scan_{index:04}.png" for index in range(ROWS)],
        "patient": patient,
        "grade": rng.choice(["none", "mild", "severe"], ROWS, p=[0.6, 0.3, 0.1]).tolist(),
        "hospital": ["north" if int(name[1:]) < 60 else "south" for name in patient],
        "sex": ["F" if int(name[1:]) % 2 else "M" for name in patient],
    } | changes
    path = folder / "metadata.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


OPTIONS = ("--patient", "patient", "--label", "grade", "--classes", "none,mild,severe")
SITES = ("--site", "hospital", "--external", "south", "--subgroup", "sex", "--stratify", "sex")


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A metadata table and the folder of its split."""
    table, out = metadata(tmp_path), tmp_path / "my-split"
    done = run("make", table, *OPTIONS, *SITES, "--shots", "2", "--out", out)
    assert done.exit_code == 0, done.output
    return table, out


def test_make_writes_what_can_be_published_and_what_is_kept(made: tuple[Path, Path]) -> None:
    _, out = made
    splits = pl.read_parquet(out / "public" / "splits.parquet")
    assert splits.columns == ["image_id", "patient_id", "split", "site", "label", "sex"]
    assert splits.height == ROWS
    of_patient = splits.group_by("patient_id").agg(pl.col("split").n_unique())
    assert of_patient["split"].to_list() == [1] * 80
    assert splits.filter(site="south")["split"].unique().to_list() == ["external"]
    assert set(splits["split"]) == {"train", "val", "calib", "test", "external"}
    assert stat.S_IMODE((out / "private").stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (out / "private").iterdir()} == {0o600}
    salt = read_salt(out / "private" / "salt")
    assert hash_identifier(salt, "metadata/image", "scan_0000.png") in splits["image_id"].to_list()
    public = b"".join(path.read_bytes() for path in (out / "public").iterdir())
    for secret in (salt, salt.hex().encode(), b"scan_0", b"P000"):
        assert secret not in public


def test_the_table_of_counts_adds_up(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, _ = made
    done = run("make", table, *OPTIONS, *SITES, "--out", tmp_path / "again")
    rows = {line.split()[0]: [int(n) for n in line.split()[1:]] for line in done.stdout.splitlines()[1:6]}
    assert list(rows) == ["images", "patients", "none", "mild", "severe"]
    assert sum(rows["images"]) == ROWS
    assert sum(rows["patients"]) == 80
    assert np.array_equal(np.sum([rows[name] for name in ("none", "mild", "severe")], axis=0), rows["images"])
    assert "salt" not in done.stdout.replace("images.csv, salt", "")


def test_the_record_is_enough_to_make_the_split_again(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    record = json.loads((out / "public" / "split.json").read_text())
    assert record["plan"]["columns"]["image"] == "image_id"
    lines = table.read_text().splitlines()
    table.write_text("\n".join([lines[0], *reversed(lines[1:])]) + "\n")  # other rows, other bytes, the same content
    done = run(
        "make", table, *OPTIONS, *SITES, "--shots", "2", "--salt-file", out / "private/salt", "--out", tmp_path / "b"
    )
    assert done.exit_code == 0
    for name in ("splits.parquet", "few_shot.parquet", "submission-splits.yaml"):
        assert (tmp_path / "b" / "public" / name).read_bytes() == (out / "public" / name).read_bytes()
    again = json.loads((tmp_path / "b" / "public" / "split.json").read_text())
    assert {key for key in record if record[key] != again[key]} == {"sources"}


def test_another_salt_gives_the_same_splits_under_other_names(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    assert run("make", table, *OPTIONS, *SITES, "--out", tmp_path / "b").exit_code == 0
    lists = [pl.read_csv(folder / "private" / "images.csv") for folder in (out, tmp_path / "b")]
    assert lists[0].equals(lists[1])
    ids = [set(pl.read_parquet(folder / "public" / "splits.parquet")["image_id"]) for folder in (out, tmp_path / "b")]
    assert not ids[0] & ids[1]


def test_few_shot_draws_come_from_train_and_val(made: tuple[Path, Path]) -> None:
    _, out = made
    shots = pl.read_parquet(out / "public" / "few_shot.parquet")
    splits = pl.read_parquet(out / "public" / "splits.parquet").select("image_id", "split", "label")
    assert shots.join(splits, on=["image_id", "split", "label"]).height == shots.height
    counts = shots.group_by("seed", "split", "label").len()
    assert set(counts["seed"]) == {1, 2, 3}
    assert set(counts.filter(split="train")["len"]) == {2}


def test_verify_holds_for_the_owner_alone(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    splits = out / "public" / "splits.parquet"
    done = run("verify", splits, table, "--salt-file", out / "private" / "salt")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-1].startswith("MVC SPLIT VERIFIED")
    other = tmp_path / "other"
    assert run("make", table, *OPTIONS, *SITES, "--out", other).exit_code == 0
    done = run("verify", splits, table, "--salt-file", other / "private" / "salt", "--json")
    assert done.exit_code == 1
    wrong = {check["name"] for check in json.loads(done.stdout)["checks"] if not check["ok"]}
    assert {"salt", "images", "all images"} <= wrong


@pytest.mark.parametrize(
    ("column", "found"),
    [("label", "label"), ("split", "split"), ("site", "site"), ("patient_id", "patient_id"), ("image_id", "images")],
)
def test_verify_names_what_was_changed(made: tuple[Path, Path], column: str, found: str) -> None:
    table, out = made
    path = out / "public" / "splits.parquet"
    frame = pl.read_parquet(path)
    turned = frame[column].to_list()
    other = next(value for value in turned if value != turned[0]) if column != "image_id" else "0" * 64
    frame.with_columns(pl.Series(column, [other, *turned[1:]])).write_parquet(path)
    done = run("verify", path, table, "--salt-file", out / "private" / "salt", "--json")
    assert done.exit_code == 1
    wrong = {check["name"] for check in json.loads(done.stdout)["checks"] if not check["ok"]}
    assert {found, "digest"} <= wrong
    assert wrong <= {found, "digest", "all images"}


def test_hash_gives_the_names_of_the_split(made: tuple[Path, Path], tmp_path: Path) -> None:
    _, out = made
    table = tmp_path / "predictions.csv"
    table.write_text("image_id,model,p_1\nscan_0001.png,net,0.2500\nscan_0000.png,net,0.75\nscan_0001.png,other,0.1\n")
    done = run("hash", table, "--record", out / "public" / "split.json", "--out", tmp_path / "hashed.csv")
    assert done.exit_code == 0, done.output
    salt = read_salt(out / "private" / "salt")
    names = [hash_identifier(salt, "metadata/image", f"scan_000{index}.png") for index in (0, 1)]
    text = (tmp_path / "hashed.csv").read_text()
    assert text == f"image_id,model,p_1\n{names[1]},net,0.2500\n{names[0]},net,0.75\n{names[1]},other,0.1\n"
    known = set(pl.read_parquet(out / "public" / "splits.parquet")["image_id"])
    assert set(names) <= known


def test_hash_keeps_the_types_of_a_parquet_file(made: tuple[Path, Path], tmp_path: Path) -> None:
    _, out = made
    frame = pl.DataFrame(
        {
            "image_id": ["scan_0001.png"],
            "p_1": pl.Series([0.1], dtype=pl.Float32),
            "seed": pl.Series([1], dtype=pl.Int16),
        }
    )
    frame.write_parquet(tmp_path / "predictions.parquet")
    arguments = ("--record", out / "public" / "split.json", "--out", tmp_path / "hashed.parquet")
    assert run("hash", tmp_path / "predictions.parquet", *arguments).exit_code == 0
    hashed = pl.read_parquet(tmp_path / "hashed.parquet")
    assert hashed.drop("image_id").equals(frame.drop("image_id"))
    assert hashed.schema == frame.schema


def test_hash_refuses_another_salt_and_keeps_a_file_that_is_there(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    record = ("--record", out / "public" / "split.json")
    (tmp_path / "other.salt").write_text("ab" * 32 + "\n")
    done = run("hash", table, *record, "--salt-file", tmp_path / "other.salt", "--out", tmp_path / "x.csv")
    assert (done.exit_code, "another salt" in done.stderr) == (1, True)
    (tmp_path / "x.csv").write_text("mine")
    done = run("hash", table, *record, "--out", tmp_path / "x.csv")
    assert (done.exit_code, (tmp_path / "x.csv").read_text()) == (1, "mine")


def test_hash_makes_a_salt_when_told_to(tmp_path: Path) -> None:
    table = metadata(tmp_path)
    salt = tmp_path / "study.salt"
    arguments = ("--namespace", "study", "--patient", "patient", "--salt-file", salt, "--out", tmp_path / "out.csv")
    assert run("hash", table, *arguments).exit_code == 1
    assert not salt.exists()
    done = run("hash", table, *arguments, "--new-salt")
    assert done.exit_code == 0, done.output
    assert stat.S_IMODE(salt.stat().st_mode) == 0o600
    assert salt.read_text().strip() not in done.output
    row = pl.read_csv(tmp_path / "out.csv").row(0, named=True)
    assert row["patient_id"] == hash_identifier(read_salt(salt), "study/patient", "P000")
    assert "patient" not in row


def test_each_site_can_number_its_own_patients(tmp_path: Path) -> None:
    table = metadata(tmp_path, patient=[str(index // 3 % 60) for index in range(ROWS)])
    done = run("make", table, *OPTIONS, *SITES, "--out", tmp_path / "a")
    assert done.exit_code == 1
    assert "20 patients are at an external site and elsewhere too" in done.stderr
    assert not (tmp_path / "a").exists()
    done = run("make", table, *OPTIONS, *SITES, "--patients-per-site", "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    splits = pl.read_parquet(tmp_path / "a" / "public" / "splits.parquet")
    assert splits["patient_id"].n_unique() == 80
    arguments = ("--record", tmp_path / "a" / "public" / "split.json", "--out", tmp_path / "hashed.csv")
    assert run("hash", table, *arguments).exit_code == 0
    hashed = pl.read_csv(tmp_path / "hashed.csv").select("image_id", "patient_id").sort("image_id")
    assert hashed.equals(splits.select("image_id", "patient_id"))
    proof = run("verify", tmp_path / "a/public/splits.parquet", table, "--salt-file", tmp_path / "a/private/salt")
    assert proof.exit_code == 0, proof.output


def test_external_images_of_known_patients_can_be_left_out(tmp_path: Path) -> None:
    table = metadata(tmp_path, patient=[str(index // 3 % 70) for index in range(ROWS)])
    done = run("make", table, *OPTIONS, *SITES, "--drop-shared", "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert "30 external images of 10 patients seen elsewhere are left out" in done.stdout


def test_an_external_site_of_known_patients_alone_is_refused(tmp_path: Path) -> None:
    table = metadata(tmp_path, patient=[str(index // 3 % 60) for index in range(ROWS)])
    done = run("make", table, *OPTIONS, *SITES, "--drop-shared", "--out", tmp_path / "a")
    assert (done.exit_code, "all 60 images of the external site 'south'" in done.stderr) == (1, True)


def test_what_a_group_identifies_is_not_guessed(tmp_path: Path) -> None:
    """'whole patients' would be published where none is known."""
    table = metadata(tmp_path, lesion=[str(index // 2) for index in range(ROWS)])
    alone = (
        "--label",
        "grade",
        "--classes",
        "none,mild,severe",
        "--patients-unavailable",
        "removed",
        "--group",
        "lesion",
    )
    assert run("make", table, *alone, "--out", tmp_path / "a").exit_code == 2
    assert run("make", table, *alone, "--unit", "lesion", "--out", tmp_path / "a").exit_code == 0
    assert "whole lesions" in (tmp_path / "a" / "public" / "submission-splits.yaml").read_text()


def test_groups_tie_patients_together(tmp_path: Path) -> None:
    """A family of two patients shares a slide: their images can't be parted."""
    slides = [f"S{index // 6}" for index in range(ROWS)]
    table = metadata(tmp_path, slide=slides)
    assert run("make", table, *OPTIONS, "--group", "slide", "--out", tmp_path / "a").exit_code == 0
    images = pl.read_csv(tmp_path / "a" / "private" / "images.csv")
    of_slide = defaultdict(set)
    for slide, split in zip(slides, images["split"], strict=True):
        of_slide[slide].add(split)
    assert all(len(splits) == 1 for splits in of_slide.values())


def test_findings_in_one_column_or_in_several(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    has = rng.random((ROWS, 2)) < 0.3
    listed = [
        "|".join(name for name, yes in zip(("mass", "nodule"), row, strict=True) if yes) or "No Finding" for row in has
    ]
    table = metadata(
        tmp_path, findings=listed, mass=[str(int(x)) for x in has[:, 0]], nodule=[str(int(x)) for x in has[:, 1]]
    )
    one = run(
        "make", table, "--patient", "patient", "--label", "findings", "--label-separator", "|", "--out", tmp_path / "a"
    )
    two = run("make", table, "--patient", "patient", "--label", "mass", "--label", "nodule", "--out", tmp_path / "b")
    assert (one.exit_code, two.exit_code) == (0, 0), one.output + two.output
    lists = [pl.read_csv(tmp_path / name / "private" / "images.csv") for name in "ab"]
    assert lists[0].equals(lists[1])
    assert lists[0]["label_0"].to_list() == has[:, 0].astype(int).tolist()


def test_unavailable_patients_are_said_everywhere(tmp_path: Path) -> None:
    table = metadata(tmp_path)
    reason = "the hospital removed them"
    done = run("make", table, "--label", "grade", "--patients-unavailable", reason, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert f"patients unavailable (waive MVC109): {reason}" in done.stdout
    assert pl.read_parquet(tmp_path / "a" / "public" / "splits.parquet")["patient_id"].null_count() == ROWS
    block = (tmp_path / "a" / "public" / "submission-splits.yaml").read_text()
    assert "patient_ids: unavailable" in block
    assert reason in block


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"patient": ["", *["7"] * (ROWS - 1)]}, "column 'patient' is empty in 1 of 240 rows"),
        ({"patient": [*["7", "007"] * (ROWS // 2)]}, "holds '007' and '7'"),
        ({"patient": ["one"] * ROWS}, "is that the label column, and that the patient's"),
        ({"grade": [str(index / 7) for index in range(ROWS)]}, "not among --classes"),
        ({"grade": ["", *["none", "mild", "severe"] * 79, "none", "mild"]}, "--drop-unlabelled"),
        ({"image_id": ["same.png"] * ROWS}, "comes with"),
        ({"image": [str(index) for index in range(ROWS)]}, "could each be the images"),
    ],
)
def test_bad_metadata_is_named_and_leaves_nothing(tmp_path: Path, changes: dict[str, list[str]], said: str) -> None:
    table = metadata(tmp_path, **changes)
    done = run("make", table, *OPTIONS, "--out", tmp_path / "out" / "deep")
    assert done.exit_code == 1, done.output
    assert said in done.stderr
    assert re.fullmatch(r"error: [^\n]+\n", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.csv"]


def test_a_named_class_without_images_is_said(tmp_path: Path) -> None:
    table = metadata(tmp_path, grade=["none", "mild"] * (ROWS // 2))
    done = run("make", table, *OPTIONS, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    assert "no image of class severe" in done.stdout


def test_folds_of_the_training_patients_for_a_cross_fit(tmp_path: Path) -> None:
    table = metadata(tmp_path)
    shares = ("--proportions", "train=0.7,test=0.3", "--folds", "5")
    done = run("make", table, *OPTIONS, *shares, "--out", tmp_path / "a")
    assert done.exit_code == 0, done.output
    splits = pl.read_parquet(tmp_path / "a" / "public" / "splits.parquet")
    train = splits.filter(split="train")
    assert splits.filter(pl.col("split") != "train")["fold"].null_count() == ROWS - train.height
    assert train.group_by("patient_id").agg(pl.col("fold").n_unique())["fold"].unique().to_list() == [1]
    patients = train.group_by("fold").agg(pl.col("patient_id").n_unique()).sort("fold")
    assert patients["fold"].to_list() == [0, 1, 2, 3, 4]
    assert patients["patient_id"].max() - patients["patient_id"].min() <= 2  # type: ignore[operator]
    salt = tmp_path / "a" / "private" / "salt"
    assert run("verify", tmp_path / "a/public/splits.parquet", table, "--salt-file", salt).exit_code == 0


def test_a_split_without_calibration_images_is_said(tmp_path: Path) -> None:
    done = run("make", metadata(tmp_path), *OPTIONS, "--proportions", "train=0.7,test=0.3", "--out", tmp_path / "a")
    assert "no calib split" in done.stdout


def test_a_folder_that_holds_something_is_not_touched(made: tuple[Path, Path]) -> None:
    table, out = made
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    done = run("make", table, *OPTIONS, "--out", out)
    assert done.exit_code == 2
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "wrong",
    [
        ["--proportions", "train=0.5"],
        ["--proportions", "train=0.5,train=0.5"],
        ["--proportions", "train=x,test=0.5"],
        ["--proportions", "external=0.5,test=0.5"],
        ["--proportions", "train=nan,test=0.5"],
        ["--seed", "-1"],
        ["--shots", "0"],
        ["--shots", "4", "--shot-seeds", "1,1"],
        ["--dataset", "aptos"],
        ["--recipe", "nothing"],
        ["--map", "nih"],
        ["--patients-unavailable", "why"],
    ],
)
def test_wrong_usage(tmp_path: Path, wrong: list[str]) -> None:
    known = wrong[0] in ("--dataset", "--recipe")
    done = run("make", metadata(tmp_path), *(() if known else OPTIONS), *wrong, "--out", tmp_path / "out")
    assert done.exit_code == 2, done.output
    assert not (tmp_path / "out").exists()


def test_hash_says_how_many_names_are_in_the_split(made: tuple[Path, Path], tmp_path: Path) -> None:
    _, out = made
    table = tmp_path / "predictions.csv"
    table.write_text("image_id,p_1\nscan_0001.png,0.2\nscan_0000.png,0.7\nscan_9.png,0.1\n")
    arguments = ("hash", table, "--record", out / "public" / "split.json", "--out")
    done = run(*arguments, tmp_path / "h.csv")
    assert done.exit_code == 0, done.output
    assert "image_id: 3 identifiers hashed, 2 of them in the split" in done.stdout
    done = run(*arguments, tmp_path / "h.parquet", "--json")
    assert json.loads(done.stdout)["in_split"] == {"image_id": 2}
    table.write_text("image_id,p_1\nscan_0001,0.2\n")
    done = run(*arguments, tmp_path / "none.csv")
    assert (done.exit_code, (tmp_path / "none.csv").exists()) == (1, False)
    assert "such as 'scan_0001', is in the split" in done.stderr
    assert "written like 'scan_" in done.stderr


def test_hash_leaves_no_new_salt_without_a_table(tmp_path: Path) -> None:
    salt, out = tmp_path / "salt", tmp_path / "h.csv"
    done = run("hash", tmp_path / "t.csv", "--namespace", "n", "--new-salt", "--salt-file", salt, "--out", out)
    assert done.exit_code == 1
    assert list(tmp_path.iterdir()) == []


def test_hash_finds_the_salt_from_within_the_public_folder(
    made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, out = made
    monkeypatch.chdir(out / "public")
    done = run("hash", table, "--record", "split.json", "--out", tmp_path / "h.csv")
    assert done.exit_code == 0, done.output


def test_a_salt_in_a_folder_to_publish_is_warned_of(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    salt = out / "public" / "salt"
    salt.write_bytes((out / "private" / "salt").read_bytes())
    salt.chmod(0o644)
    for arguments in (
        ("make", table, *OPTIONS, "--out", tmp_path / "again"),
        ("hash", table, "--record", out / "public" / "split.json", "--out", tmp_path / "h.csv"),
        ("verify", out / "public" / "splits.parquet", table),
    ):
        done = run(*arguments, "--salt-file", salt)
        assert done.exit_code == 0, done.output
        warned = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
        assert ["in a folder to publish" in warned[0], "chmod 600" in warned[1], len(warned)] == [True, True, 2]
    done = run("hash", table, "--namespace", "n", "--patient", "patient", "--new-salt", "--salt-file",
               out / "public" / "new", "--out", tmp_path / "h2.csv")  # fmt: skip
    assert (done.exit_code, (out / "public" / "new").exists()) == (1, False)


def test_verify_takes_good_copies_and_no_altered_record(made: tuple[Path, Path], tmp_path: Path) -> None:
    table, out = made
    public, salt = out / "public", ("--salt-file", out / "private" / "salt")
    copy = tmp_path / "copy.csv"
    pl.read_parquet(public / "splits.parquet").reverse().write_csv(copy)
    done = run("verify", copy, table, *salt, "--record", public / "split.json")
    assert done.exit_code == 0, done.output
    assert "other bytes than the record's, the same rows" in done.stdout
    record = json.loads((public / "split.json").read_text())
    record["counts"][0]["images"] = 999
    (public / "split.json").write_text(json.dumps(record))
    done = run("verify", public / "splits.parquet", table, *salt)
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "MVC SPLIT NOT VERIFIED record differs"


def test_a_name_is_hashed_alike_whatever_else_is_in_its_column(tmp_path: Path) -> None:
    names = [f"{index}.0" for index in range(ROWS - 1)] + ["x.png"]
    table = metadata(tmp_path, image_id=names)
    assert run("make", table, *OPTIONS, "--out", tmp_path / "a").exit_code == 0
    (tmp_path / "p.csv").write_text("image_id,p_1\n3.0,0.1\n4,0.2\nother.png,0.3\n")
    done = run("hash", tmp_path / "p.csv", "--record", tmp_path / "a/public/split.json", "--out", tmp_path / "h.csv")
    assert (done.exit_code, "2 of them in the split" in done.stdout) == (0, True), done.output


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes")
@pytest.mark.parametrize("name", ["list.csv", "list.json", "list.txt"])
def test_check_does_not_wait_for_a_pipe(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    done = run("check", tmp_path / name)
    assert (done.exit_code, "is a pipe or device" in done.stderr) == (1, True), done.output
