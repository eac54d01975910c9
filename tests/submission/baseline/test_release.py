"""The bundle of a run: accepted by the kit as it is, honest about the split, and made of calib rows alone."""

import errno
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml
from numpy.typing import NDArray

from protocol.findings import Outcome, Status, Verdict
from scorer.host import init_host
from scorer.results import read_metrics
from scorer.submit import submit
from submission.baseline.backbones.base import Pixels
from submission.baseline.config import AboutConfig, BackboneConfig, LearnerConfig, LossConfig, RunConfig
from submission.baseline.configs import read_config
from submission.baseline.data import Pool, read_pool
from submission.baseline.errors import BaselineError
from submission.baseline.recipe import Told
from submission.baseline.release import Predicted, Released, _named, write_release
from submission.example import example
from submission.writing import to_yaml
from tests.referee import decoding_here, quick_check
from tests.submission.baseline.hospital import Hospital, hospital

TOLD = Told(
    architecture="CLIP, a tower",
    source="a file",
    sha256="a" * 64,
    trained_on="made-up pairs",
    pixels=Pixels(32, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2)),
    learner="CoOp",
    loss="cross-entropy",
    shots="16 images a class",
    trainable=64,
)
FILES = {"configs/my own.yaml": b"model: m\n", "logs/m-seed1.jsonl": b'{"epoch": 0}\n'}
GRADES = ("none", "mild", "severe")


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return hospital(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Hospital:
    return hospital(tmp_path_factory.mktemp("three"), classes=GRADES, patients=90)


def run_of(**fields: Any) -> RunConfig:
    given: dict[str, Any] = {
        "model": "m",
        "backbone": BackboneConfig(name="toy"),
        "learner": LearnerConfig(name="coop"),
        "seeds": (1, 2),
    }
    return RunConfig(**given | fields)


def pool_of(made: Hospital, folder: Path | None = None, **task: Any) -> Pool:
    """The pool of ``made`` with few resamples; a task of its own where ``folder`` is given."""
    if folder is None:
        return read_pool(made.splits, made.images)
    draft = read_pool(made.splits, made.images).task
    document = {**example(draft.kind).task, "classes": list(draft.classes), "resamples": 1000, **task}
    path = folder / "task.yaml"
    path.write_bytes(to_yaml(document))
    return read_pool(made.splits, made.images, task=path)


def logits_of(pool: Pool, seed: int) -> NDArray[np.float64]:
    """Logits with a signal, as float32 towers give them."""
    rng = np.random.default_rng(seed)
    known = pool.evaluated["label"].fill_null(0).to_numpy()
    z = rng.normal(size=(len(known), len(pool.task.classes))) * 3
    z[np.arange(len(known)), known] += 3.0
    return (z + 20).astype(np.float32).astype(np.float64)


def released(folder: Path, pool: Pool, config: RunConfig | None = None) -> Released:
    config = config or run_of()
    seeds = (0,) if config.learner.name == "zeroshot" else config.seeds
    runs = [Predicted(seed, logits_of(pool, seed)) for seed in seeds]
    return write_release(folder, config, TOLD, pool, runs, FILES)


def record_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "submission.yaml").read_text(encoding="utf-8"))
    return found


def accepted(folder: Path) -> Verdict:
    verdict = quick_check(folder)
    assert verdict.status in (Status.ACCEPTED, Status.ACCEPTED_WITH_WAIVERS), str(verdict)
    assert all(result.outcome is not Outcome.UNVERIFIED for result in verdict.results)
    return verdict


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_mvc_submit_takes_the_bundle_as_it_is(
    two: Hospital, three: Hospital, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scorer.scoring.COSTLY_DRAWS", 5)
    pool = pool_of(two if kind == "binary" else three, tmp_path)
    bundle = released(tmp_path / "bundle", pool).folder
    with decoding_here():
        outcome = submit(bundle, ledger=tmp_path / "mvc.duckdb")
    assert outcome.verdict.status is Status.ACCEPTED, str(outcome.verdict)
    assert all(result.outcome is not Outcome.UNVERIFIED for result in outcome.verdict.results)
    rows = read_metrics(bundle / "results" / "metrics.parquet")
    assert {(r.model, r.seed, r.calibrator) for r in rows} == {
        ("m", seed, name) for seed in ("1", "2", "mean") for name in ("none", "temperature", "isotonic")
    }
    slices = {("test", "all"), ("external", "second clinic"), ("subgroup", "sex=female"), ("subgroup", "sex=male")}
    assert {(r.slice_kind, r.slice) for r in rows} == slices
    assert (bundle / "task.yaml").read_bytes() == pool.task_file


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_every_calibrator_is_reproduced_by_the_referee(
    two: Hospital, three: Hospital, tmp_path: Path, kind: str
) -> None:
    names = (
        "temperature", "vector", "matrix", "dirichlet", "platt", "beta", "isotonic", "histogram", "scaling-binning"
    )  # fmt: skip
    pool = pool_of(two if kind == "binary" else three)
    config = run_of(calibrators=(*names, "temperature"), loss=LossConfig(name="mcm"), seeds=(1, 2))
    bundle = released(tmp_path / "bundle", pool, config).folder
    verdict = accepted(bundle)
    assert verdict.status is Status.ACCEPTED
    record = record_in(bundle)
    assert [method["name"] for method in record["calibration"]["methods"]] == ["none", *names]
    assert record["models"] == [{"name": "m", "kind": "train-time", "seeds": [1, 2]}]


def test_rows_are_those_that_the_protocol_wants(two: Hospital, tmp_path: Path) -> None:
    pool = pool_of(two)
    bundle = released(tmp_path / "bundle", pool).folder
    table = pl.read_parquet(bundle / "predictions.parquet")
    assert table.columns == ["image_id", "model", "seed", "calibrator", "p_1", "z_1"]
    splits = pool.splits.select("image_id", "split")
    counts = table.join(splits, on="image_id").group_by("seed", "calibrator", "split").len()
    size = dict(pool.splits["split"].value_counts().iter_rows())
    assert {(seed, name, split): n for seed, name, split, n in counts.iter_rows()} == {
        (seed, name, split): size[split]
        for seed in (1, 2)
        for name in ("none", "temperature", "isotonic")
        for split in ("calib", "test", "external")
        if name == "none" or split != "calib"
    }
    plain = table.filter((pl.col("seed") == 2) & (pl.col("calibrator") == "none"))
    z = logits_of(pool, 2)
    odds = z[:, 1] - z[:, 0]
    assert plain["image_id"].to_list() == pool.evaluated["image_id"].to_list()
    assert plain["z_1"].to_numpy().tolist() == odds.tolist()
    assert np.allclose(plain["p_1"].to_numpy(), 1 / (1 + np.exp(-odds)), rtol=1e-14)
    assert (bundle / "splits.parquet").read_bytes() == two.splits.read_bytes()


def test_calibrators_know_nothing_of_test_rows(three: Hospital, tmp_path: Path) -> None:
    pool = pool_of(three)
    first = released(tmp_path / "first", pool).folder
    other = [Predicted(seed, logits_of(pool, seed)) for seed in (1, 2)]
    rest = (pool.evaluated["split"] != "calib").to_numpy()
    for run in other:
        run.logits[rest] = np.random.default_rng(9).normal(size=run.logits[rest].shape)
    second = write_release(tmp_path / "second", run_of(), TOLD, pool, other, FILES).folder
    assert (first / "calibrators.json").read_bytes() == (second / "calibrators.json").read_bytes()
    fitted = json.loads((first / "calibrators.json").read_text())
    assert {(one["seed"], one["calibrator"], one["input"]) for one in fitted} == {
        (seed, *pair) for seed in (1, 2) for pair in (("temperature", "logits"), ("isotonic", "probabilities"))
    }
    assert {one["n"] for one in fitted} == {int((~rest).sum())}


def test_the_record_tells_of_split_recipe_and_files(two: Hospital, tmp_path: Path) -> None:
    pool = pool_of(two)
    made = released(tmp_path / "bundle", pool, run_of(about=AboutConfig(differs_in=("device", "population"))))
    record = record_in(made.folder)
    block = yaml.safe_load((two.public / "submission-splits.yaml").read_text())["splits"]
    custody = {**block["hash"], "salt_custody": "kept by those who made the split, in a file that is not published"}
    assert record["splits"] == {**block, "hash": custody, "patient_ids_reason": ""}
    assert record["shift"] == {
        "external": [{"name": "second clinic", "differs_in": ["device", "population"]}],
        "subgroups": [{"column": "sex", "levels": ["female", "male"]}],
    }
    configs = {one["file"]: one["sha256"] for one in record["recipe"]["configs"]}
    assert set(configs) == {"configs/my-own.yaml", "logs/m-seed1.jsonl", "configs/m-in-full.yaml"}
    assert (made.folder / "configs" / "my-own.yaml").read_bytes() == b"model: m\n"
    assert read_config(str(made.folder / "configs" / "m-in-full.yaml"))[0] == run_of(
        about=AboutConfig(differs_in=("device", "population"))
    )
    assert record["task"] == {"name": "clinic"}
    assert any("of the example left" in note and "task.yaml: target" in note for note in made.notes)
    assert not any("splits" in note for note in made.notes)
    accepted(made.folder)
    (made.folder / "logs" / "m-seed1.jsonl").write_bytes(b"{}\n")
    assert "MVC206" in [result.rule for result in quick_check(made.folder).rejecting]


def test_differences_that_the_split_states_are_kept(two: Hospital, tmp_path: Path) -> None:
    shutil.copytree(two.public, tmp_path / "public")
    path = tmp_path / "public" / "submission-splits.yaml"
    document = yaml.safe_load(path.read_text())
    document["shift"]["external"][0]["differs_in"] = ["protocol"]
    document["splits"]["hash"]["salt_custody"] = "the data steward"
    path.write_text(yaml.safe_dump(document))
    pool = read_pool(tmp_path / "public" / "splits.parquet", two.images, salt=two.private / "salt")
    record = record_in(released(tmp_path / "bundle", pool).folder)
    assert record["shift"]["external"] == [{"name": "second clinic", "differs_in": ["protocol"]}]
    assert record["splits"]["hash"]["salt_custody"] == "the data steward"
    path.unlink()
    pool = read_pool(tmp_path / "public" / "splits.parquet", two.images, salt=two.private / "salt")
    assert record_in(released(tmp_path / "without", pool).folder)["splits"]["how"].startswith("whole patients dealt")


def test_a_hosted_bundle_is_accepted_without_test_labels(two: Hospital, tmp_path: Path) -> None:
    draft = tmp_path / "draft.yaml"
    subgroup = [{"column": "sex", "levels": ["male", "female"]}]
    draft.write_bytes(to_yaml({**example("binary").task, "classes": ["healthy", "sick"], "subgroups": subgroup}))
    init_host(tmp_path / "host", task=draft, splits=two.splits)
    public = tmp_path / "host" / "public"
    for name in ("split.json", "submission-splits.yaml"):
        shutil.copy(two.public / name, public)
    pool = read_pool(public / "splits.parquet", two.images, salt=two.private / "salt")
    assert pool.task.hosted
    assert pool.part("test")["label"].null_count() == pool.part("test").height
    assert pool.pictures(pool.evaluated["image_id"])
    made = released(tmp_path / "bundle", pool)
    verdict = accepted(made.folder)
    assert verdict.status is Status.ACCEPTED
    record = record_in(made.folder)
    assert record["task"] == {"name": pool.task.name, "sha256": pool.task.digest}
    assert record["splits"]["sha256"] == pool.sha256 == pool.task.splits_sha256
    assert record["shift"]["subgroups"] == subgroup
    assert (made.folder / "task.yaml").read_bytes() == (public / "task.yaml").read_bytes()


def test_a_zero_shot_model_is_deterministic(two: Hospital, tmp_path: Path) -> None:
    config = run_of(learner=LearnerConfig(name="zeroshot"))
    bundle = released(tmp_path / "bundle", pool_of(two), config).folder
    assert accepted(bundle).status is Status.ACCEPTED
    assert record_in(bundle)["models"] == [{"name": "m", "kind": "zero-shot", "deterministic": True}]
    assert pl.read_parquet(bundle / "predictions.parquet")["seed"].unique().to_list() == [0]


def waived(folder: Path) -> set[str]:
    return {waiver["rule"] for waiver in record_in(folder)["waivers"]}


def test_what_split_or_configuration_can_not_meet_is_waived_with_its_reason(tmp_path: Path) -> None:
    plain = hospital(tmp_path, external=False, sex=False, proportions={"train": 0.5, "calib": 0.25, "test": 0.25})
    config = run_of(seeds=(3,), calibrators=("temperature",))
    made = released(tmp_path / "bundle", pool_of(plain), config)
    assert accepted(made.folder).status is Status.ACCEPTED_WITH_WAIVERS
    assert waived(made.folder) == {"MVC113", "MVC203", "MVC301", "MVC601"}
    assert "MVC601 is waived: The split has no external site." in made.notes
    none = released(tmp_path / "none", pool_of(plain), run_of(calibrators=())).folder
    accepted(none)
    assert not (none / "calibrators.json").exists()
    frame = pl.read_parquet(plain.splits)
    calib_sick = (pl.col("split") == "calib") & (pl.col("label") == 1)
    frame.filter(~calib_sick).with_columns(patient_id=pl.lit(None, pl.String)).write_parquet(plain.splits)
    bare = released(tmp_path / "bare", pool_of(plain)).folder
    accepted(bare)
    assert waived(bare) == {"MVC107", "MVC109", "MVC113", "MVC601"}
    splits = record_in(bare)["splits"]
    assert (splits["patient_ids"], splits["patient_ids_reason"]) == (
        "unavailable", "The split file does not name every patient.",
    )  # fmt: skip


def test_a_split_of_which_nothing_is_told_is_described_as_far_as_it_goes(two: Hospital, tmp_path: Path) -> None:
    (tmp_path / "alone").mkdir()
    shutil.copy(two.splits, tmp_path / "alone")
    pool = read_pool(tmp_path / "alone" / "splits.parquet", two.images, classes=("healthy", "sick"))
    bundle = released(tmp_path / "bundle", pool).folder
    accepted(bundle)
    assert record_in(bundle)["splits"] == {
        "how": "not known: the split file was used as it was received",
        "file": "splits.parquet",
        "sha256": pool.sha256,
        "patient_ids": "available",
        "patient_ids_reason": "",
        "images_per_patient": 2.0,
    }


def test_nothing_is_left_of_a_bundle_that_could_not_be_written(two: Hospital, tmp_path: Path) -> None:
    pool = pool_of(two)
    with pytest.raises(BaselineError, match=r"runs of seeds \[1\]; the configuration has \[1, 2\]"):
        write_release(tmp_path / "b", run_of(), TOLD, pool, [Predicted(1, logits_of(pool, 1))], FILES)
    bad = logits_of(pool, 2)
    bad[3, 0] = np.inf
    runs = [Predicted(1, logits_of(pool, 1)), Predicted(2, bad)]
    with pytest.raises(BaselineError, match=r"seed 2: logits of shape .* all finite"):
        write_release(tmp_path / "b", run_of(), TOLD, pool, runs, FILES)
    with pytest.raises(BaselineError, match=r"the record would not be valid: .*title"):
        released(tmp_path / "b", pool, run_of(about=AboutConfig.model_construct(title="x" * 5000)))
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "mine").touch()
    with pytest.raises(BaselineError, match="is not an empty folder"):
        released(tmp_path / "b", pool)
    assert [path.name for path in tmp_path.rglob("*")] == ["b", "mine"]
    (tmp_path / "b" / "mine").unlink()
    accepted(released(tmp_path / "b", pool).folder)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("configs/größe ☃.yaml", "configs/gr-e-.yaml"),
        ("configs/.hidden.yaml", "configs/hidden.yaml"),
        ("configs/..yaml", "configs/yaml"),
        ("configs/...", "configs/file"),
        (f"configs/{'x' * 250}.yaml", f"configs/{'x' * 145}.yaml"),
    ],
)
def test_any_name_of_a_configuration_has_a_place_in_the_bundle(given: str, kept: str) -> None:
    assert _named(given) == kept


def test_a_disk_that_is_full_is_an_error_of_the_system(
    two: Hospital, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("submission.files.os.fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        released(tmp_path / "bundle", pool_of(two))
    assert list(tmp_path.iterdir()) == []
