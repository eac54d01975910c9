"""The two folders of a split: what is in them, whole or not at all, and accepted by the kit."""

import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import yaml

from protocol.calibrators import FittedCalibrator
from protocol.findings import Status
from protocol.types import Kind, SplitName
from splits import writing
from splits.errors import SplitError
from splits.hashing import hash_identifier, read_salt, salt_check, write_salt
from splits.making import make
from splits.plan import ColumnNames, Plan, SplitRecord
from splits.reading import digest_of_file
from splits.writing import FolderTakenError, write
from submission import recalibration
from submission.example import table
from tests.builders import Draft, good_submission
from tests.builders import write as write_bundle
from tests.referee import quick_check
from tests.splits.test_making import PLAIN, Cells, gathered, made, plan_of, simple

SALT = bytes(range(32))
PLAN = plan_of(PLAIN)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def everything(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_what_is_written(tmp_path: Path) -> None:
    plan = plan_of(PLAIN, shots=2, shot_seeds=(1, 2))
    split = made(simple(), plan)
    steps: list[str] = []
    written = write(tmp_path / "deep" / "out", split, plan, (), progress=steps.append)
    out = tmp_path / "deep" / "out"
    assert everything(tmp_path / "deep") == [
        "out", "out/private", "out/private/images.csv", "out/private/salt", "out/public", "out/public/few_shot.parquet",
        "out/public/split.json", "out/public/splits.parquet", "out/public/submission-splits.yaml",
    ]  # fmt: skip
    assert [f"out/{name}" for name in written.files] == [
        name for name in everything(tmp_path / "deep") if (tmp_path / "deep" / name).is_file()
    ]
    assert steps == ["hashing identifiers", "writing"]
    assert mode(out / "private") == 0o700
    assert mode(out / "private" / "salt") == mode(out / "private" / "images.csv") == 0o600

    salt = read_salt(written.salt_file)
    splits = pl.read_parquet(out / "public" / "splits.parquet")
    images = pl.read_csv(out / "private" / "images.csv", infer_schema_length=0)
    assert images.columns == ["image", "patient", "split", "site", "label"]
    named = {hash_identifier(salt, "study/image", image): split for image, _, split, *_ in images.iter_rows()}
    assert dict(splits.select("image_id", "split").iter_rows()) == named
    shots = pl.read_parquet(out / "public" / "few_shot.parquet")
    assert shots.columns == ["image_id", "seed", "split", "label"]
    assert all(named[image] == split == "train" for image, _, split, _ in shots.iter_rows())

    record = SplitRecord.model_validate_json((out / "public" / "split.json").read_bytes())
    assert record == written.record
    assert record.splits_sha256 == digest_of_file(out / "public" / "splits.parquet")
    assert record.few_shot_sha256 == digest_of_file(out / "public" / "few_shot.parquet")
    assert (record.salt_check, record.plan, record.sites) == (salt_check(salt), plan, ("a", "b"))
    public = b"".join(path.read_bytes() for path in (out / "public").iterdir())
    for secret in (salt, salt.hex().encode(), b"P007", b"P031"):
        assert secret not in public


def test_the_same_salt_gives_the_same_bytes_in_any_order(tmp_path: Path) -> None:
    write_salt(tmp_path / "salt", SALT)
    cells = simple()
    back: dict[str, Cells] = {name: own[::-1] for name, own in reversed(cells.items())}
    for name, own in (("one", cells), ("two", back)):
        written = write(tmp_path / name, made(own, PLAN), PLAN, (), tmp_path / "salt")
        assert written.salt_file == tmp_path / "salt"
        assert everything(tmp_path / name / "private") == ["images.csv"]
    for file in ("splits.parquet", "split.json", "submission-splits.yaml"):
        assert (tmp_path / "one" / "public" / file).read_bytes() == (tmp_path / "two" / "public" / file).read_bytes()


def test_long_lists_of_images_are_parquet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "MOST_CSV", 59)
    write(tmp_path / "out", made(simple(), PLAN), PLAN, ())
    path = tmp_path / "out" / "private" / "images.parquet"
    assert mode(path) == 0o600
    assert pl.read_parquet(path)["image"].to_list() == simple()["image"]


def test_names_with_commas_and_patients_of_each_site_come_back(tmp_path: Path) -> None:
    plan = plan_of(PLAIN, patients_per_site=True)
    image: Cells = [f'scan "{place}", left' for place in range(60)]
    patient: Cells = [str(place // 3) for place in range(60)]
    write(tmp_path / "out", made(simple(image=image, patient=patient), plan), plan, ())
    images = pl.read_csv(tmp_path / "out" / "private" / "images.csv", infer_schema_length=0)
    assert images.select("image", "patient").rows() == list(zip(image, patient, strict=True))


def _taken(path: Path) -> None:
    path.mkdir()
    (path / "mine").touch()


@pytest.mark.parametrize("occupy", [_taken, Path.touch])
def test_what_is_there_is_not_touched(tmp_path: Path, occupy: Callable[[Path], None]) -> None:
    occupy(tmp_path / "out")
    before = everything(tmp_path)
    with pytest.raises(FolderTakenError, match="out exists and is not an empty folder"):
        write(tmp_path / "out", made(simple(), PLAN), PLAN, ())
    assert everything(tmp_path) == before


@pytest.mark.parametrize("leads", ["empty", "nowhere"])
def test_a_link_is_refused_before_anything_is_made(tmp_path: Path, leads: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / leads)
    before, steps = everything(tmp_path), list[str]()
    with pytest.raises(FolderTakenError, match="out is a link; name a new folder, or the empty one that it leads to"):
        write(tmp_path / "out", made(simple(), PLAN), PLAN, (), progress=steps.append)
    assert (everything(tmp_path), steps) == (before, [])


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    write(tmp_path / "out", made(simple(), PLAN), PLAN, ())
    assert (tmp_path / "out" / "public" / "splits.parquet").exists()


def test_a_folder_that_fills_up_meanwhile_is_not_touched(tmp_path: Path) -> None:
    def meanwhile(step: str) -> None:
        if step == "writing":
            _taken(tmp_path / "out")

    with pytest.raises(FolderTakenError, match="out exists"):
        write(tmp_path / "out", made(simple(), PLAN), PLAN, (), progress=meanwhile)
    assert everything(tmp_path) == ["out", "out/mine"]


@pytest.mark.parametrize("step", ["hashing identifiers", "writing"])
def test_an_error_in_the_middle_leaves_nothing(tmp_path: Path, step: str) -> None:
    def stop(now: str) -> None:
        if now == step:
            raise KeyboardInterrupt

    (tmp_path / "mine").mkdir()
    for out in ("out", "mine/deep/deeper/out"):
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / out, made(simple(), PLAN), PLAN, (), progress=stop)
        assert everything(tmp_path) == ["mine"]


def test_a_file_in_the_way_of_the_folder_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        write(tmp_path / "file" / "out", made(simple(), PLAN), PLAN, ())
    assert everything(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_folder_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    with pytest.raises(PermissionError):
        write(tmp_path / "closed" / "out", made(simple(), PLAN), PLAN, ())
    assert everything(tmp_path) == ["closed"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such salt file"),
        (b"short\n", "is not a salt file"),
        (b"", "is not a salt file"),
    ],
)
def test_a_salt_that_is_none(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / "salt").write_bytes(content)
    before = everything(tmp_path)
    with pytest.raises(SplitError, match=said):
        write(tmp_path / "out", made(simple(), PLAN), PLAN, (), tmp_path / "salt")
    with pytest.raises(SplitError, match=r"can't be read \(Is a directory\)"):
        write(tmp_path / "out", made(simple(), PLAN), PLAN, (), tmp_path)
    assert everything(tmp_path) == before


STOPPED = """
import os, resource, signal, sys
from pathlib import Path
from splits.writing import write
from tests.splits.test_making import PLAIN, made, plan_of, simple

out, step = Path(sys.argv[1]), sys.argv[2]
plan = plan_of(PLAIN)
split = made(simple(600), plan)
if step == "full":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, resource.RLIM_INFINITY))
    try:
        write(out, split, plan, ())
    except OSError as error:
        os._exit(7 if "arge" in str(error) else 1)
write(out, split, plan, (), progress=lambda now: os._exit(9) if now == step else None)
"""


@pytest.mark.parametrize(("step", "code", "left"), [("writing", 9, 1), ("full", 7, 0)])
def test_a_stop_or_a_full_disk_leaves_no_folder(tmp_path: Path, step: str, code: int, left: int) -> None:
    done = subprocess.run([sys.executable, "-c", STOPPED, str(tmp_path / "out"), step], check=False)
    assert done.returncode == code
    staged = list(tmp_path.iterdir())
    assert [path.name.startswith(".mvc-") for path in staged] == [True] * left
    assert all(mode(path) == 0o700 for path in staged)


def metadata(kind: Kind) -> dict[str, Cells]:
    """480 images of 160 patients at two sites."""
    rng = np.random.default_rng(4)
    place = np.arange(480)
    cells: dict[str, Cells] = {
        "filename": [f"ward/{index:04}.png" for index in place],
        "who": [f"P{index // 3:03}" for index in place],
        "where": ["second hospital" if index >= 330 else "first hospital" for index in place],
        "sex": ["female" if index // 3 % 2 else "male" for index in place],
    }
    if kind == "multilabel":
        return cells | {name: rng.choice(["0", "1"], 480).tolist() for name in ("edema", "mass", "nodule")}
    names = ["none", "mild", "severe"][: 2 if kind == "binary" else 3]
    return cells | {"grade": rng.choice(names, 480).tolist()}


@pytest.mark.parametrize("kind", ["binary", "multiclass", "multilabel"])
def test_the_kit_accepts_what_is_written(tmp_path: Path, kind: Kind) -> None:
    labels = ("edema", "mass", "nodule") if kind == "multilabel" else ("grade",)
    names: tuple[str, ...] = ("none", "mild", "severe")[: 2 if kind == "binary" else 3]
    shares: dict[SplitName, float] = {"train": 0.3, "val": 0.1, "calib": 0.3, "test": 0.3}
    plan: Plan = plan_of(
        ColumnNames(patient="who", labels=labels, site="where", subgroups=("sex",), stratify=("sex",)),
        classes=() if kind == "multilabel" else names,
        proportions=shares,
        external=("second hospital",),
    )
    found = gathered(metadata(kind), plan)
    written = write(tmp_path / "out", make(found, plan), plan, ())
    draft = good_submission(kind)
    draft.splits = pl.read_parquet(tmp_path / "out" / "public" / "splits.parquet")
    draft.task["classes"] = list(found.classes)
    blocks = yaml.safe_load((tmp_path / "out" / "public" / "submission-splits.yaml").read_text())
    block, shift = blocks["splits"], blocks["shift"]
    assert block["sha256"] == written.record.splits_sha256
    assert [site["name"] for site in shift["external"]] == ["second hospital"]
    assert [site["differs_in"][0][:8] for site in shift["external"]] == ["EXAMPLE:"]
    assert shift["subgroups"] == [{"column": "sex", "levels": ["female", "male"]}]
    assert block["images_per_patient"] == 3.0
    block["hash"]["salt_custody"] = "the data steward"
    del block["sha256"]  # write_bundle() writes the table anew
    draft.record["splits"] = block
    shift["external"][0]["differs_in"] = ["institution"]
    draft.record["shift"] = shift
    _predict(draft.splits, kind, draft)
    verdict = quick_check(write_bundle(draft, tmp_path / "bundle"))
    assert verdict.status == Status.ACCEPTED, [(result.rule, result.findings) for result in verdict.rejecting]
    of_splits = [result for result in verdict.results if result.rule.startswith("MVC1")]
    assert len(of_splits) > 8
    assert [result for result in of_splits if result.findings] == []


def _predict(splits: pl.DataFrame, kind: Kind, draft: Draft) -> None:
    """Made-up probabilities of each image, and calibrators fitted on calib."""
    rng = np.random.default_rng(1)
    names = [name for name in splits.columns if name == "label" or name.startswith("label_")]
    y = splits.select(names).to_numpy().astype(np.int64)
    y = y if kind == "multilabel" else y[:, 0]
    calib = (splits["split"] == "calib").to_numpy()
    scored = splits["split"].is_in(["test", "external"]).to_numpy()
    frames: list[pl.DataFrame] = []
    fitted: list[FittedCalibrator] = []
    for seed in (1, 2, 3):
        if kind == "multiclass":
            p = rng.dirichlet(np.ones(3), len(y)) * 0.7 + 0.3 * np.eye(3)[y]
        elif kind == "binary":
            p = (rng.uniform(0.05, 0.95, len(y)) * 0.7 + 0.3 * y)[:, None]
        else:
            p = rng.uniform(0.05, 0.95, y.shape) * 0.7 + 0.3 * y
        frames.append(table(splits, calib | scored, p, "densenet121", seed, "none", kind))
        for family in ("temperature", "isotonic"):
            maps = recalibration.fit(
                family, p[calib], y[calib], kind=kind, model="densenet121", seed=seed, calibrator=family
            )
            fitted += maps
            frames.append(
                table(splits, scored, recalibration.apply(maps, p, kind=kind), "densenet121", seed, family, kind)
            )
    draft.predictions, draft.calibrators = pl.concat(frames), fitted
