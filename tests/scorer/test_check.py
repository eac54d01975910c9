"""The referee on whole bundles: honest ones of every kind are accepted, by the decoding process itself."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from protocol.canonical import sha256_hex
from protocol.engine import HIDDEN_LABELS
from protocol.findings import Outcome, Status, Verdict
from protocol.rules import all_rules
from protocol.types import Kind
from scorer import claims, scoring
from scorer.check import check, examine
from splits import attack
from submission.bundle import NoBundleError
from tests.builders import Draft, good_submission, write
from tests.mutations.bases import claimed, cross_fitted, doubled
from tests.mutations.registry import Base, all_mutations
from tests.mutations.stage0 import zipped
from tests.mutations.tables import as_csv
from tests.referee import quick_check, rejecting, result_of

KINDS: tuple[Kind, ...] = ("binary", "multiclass", "multilabel")


def zero_shot(draft: Draft) -> None:
    """One deterministic model: no seeds, and a short recipe."""
    draft.record["models"] = [{"name": "densenet121", "kind": "zero-shot", "deterministic": True}]
    draft.record["recipe"] = {"architecture": "CLIP", "pretrained_weights": "none", "preprocessing": "resized"}
    first = draft.predictions.filter(pl.col("seed") == 1)
    draft.predictions = first.with_columns(seed=pl.lit(0, dtype=pl.Int64))
    draft.calibrators = [c.model_copy(update={"seed": 0}) for c in draft.calibrators if c.seed == 1]


def ensemble(draft: Draft) -> None:
    """A second model that pools the seeds of the first."""
    draft.record["models"].append(
        {
            "name": "pooled",
            "kind": "ensemble",
            "deterministic": True,
            "members": ["densenet121"],
            "pooling": "mean probability",
        }
    )
    more = draft.predictions.filter(pl.col("seed") == 1)
    more = more.with_columns(model=pl.lit("pooled"), seed=pl.lit(0, dtype=pl.Int64))
    draft.predictions = pl.concat([draft.predictions, more])
    draft.calibrators += [c.model_copy(update={"model": "pooled", "seed": 0}) for c in draft.calibrators if c.seed == 1]


def waived(draft: Draft) -> None:
    """One seed, and why."""
    draft.record["models"][0]["seeds"] = [1]
    draft.predictions = draft.predictions.filter(pl.col("seed") == 1)
    draft.calibrators = [c for c in draft.calibrators if c.seed == 1]
    draft.record["waivers"] = [{"rule": "MVC203", "reason": "a foundation model that is trained once"}]


def in_float32(draft: Draft) -> None:
    draft.predictions = draft.predictions.with_columns(pl.col("^p_.$").cast(pl.Float32))


def in_csv(draft: Draft) -> None:
    as_csv(draft, float_precision=4)


def in_csv_with_exponents(draft: Draft) -> None:
    as_csv(draft, float_scientific=True, float_precision=4)


def unchanged(draft: Draft) -> None:
    """As the builder makes it."""


@pytest.mark.parametrize(
    ("kind", "change", "status"),
    [
        ("binary", unchanged, Status.ACCEPTED),
        ("multiclass", in_float32, Status.ACCEPTED),
        ("multilabel", in_csv, Status.ACCEPTED),
        ("multiclass", in_csv_with_exponents, Status.ACCEPTED),
        ("binary", waived, Status.ACCEPTED_WITH_WAIVERS),
    ],
)
def test_an_honest_submission_is_accepted(
    kind: Kind, change: Callable[[Draft], None], status: Status, tmp_path: Path
) -> None:
    draft = good_submission(kind)
    change(draft)
    verdict = check(write(draft, tmp_path / "bundle"))
    assert verdict.status is status, verdict.last_line
    assert verdict.exit_code == 0
    assert not verdict.of(Outcome.CRASHED)
    assert not verdict.of(Outcome.SKIPPED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change", [unchanged, in_float32, in_csv, in_csv_with_exponents, zero_shot, ensemble, waived])
def test_every_honest_shape_is_accepted_in_every_kind(
    kind: Kind, change: Callable[[Draft], None], tmp_path: Path
) -> None:
    draft = good_submission(kind)
    change(draft)
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert verdict.accepted, verdict.last_line
    assert (verdict.status is Status.ACCEPTED_WITH_WAIVERS) == (change is waived)
    assert not verdict.of(Outcome.SKIPPED)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("base", [claimed, cross_fitted, doubled])
def test_other_good_submissions_are_accepted(
    kind: Kind, base: Base, good_verdict: Callable[[Base, Kind], Verdict]
) -> None:
    verdict = good_verdict(base, kind)
    assert verdict.status is Status.ACCEPTED, verdict.last_line
    assert not verdict.of(Outcome.SKIPPED)


def test_a_zip_with_a_folder_around_it_is_accepted_and_said(tmp_path: Path) -> None:
    write(good_submission(), tmp_path / "outer" / "mine")
    path = zipped(("__MACOSX/mine/._task.yaml", b"junk"))(tmp_path / "outer")
    verdict = check(path)
    assert verdict.status is Status.ACCEPTED, verdict.last_line
    assert verdict.notes == ("the folder mine that wraps the bundle was taken off",)


def test_the_predictions_file_stands_for_its_folder(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "bundle")
    assert quick_check(folder / "predictions.parquet").to_dict() == quick_check(folder).to_dict()


def test_nothing_there_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(NoBundleError):
        check(tmp_path / "absent")


def test_nothing_is_written_beside_the_bundle(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "bundle")
    before = sorted(tmp_path.rglob("*"))
    quick_check(folder)
    assert sorted(tmp_path.rglob("*")) == before


def test_steps_are_told_and_tables_stay_open(tmp_path: Path) -> None:
    folder = write(good_submission(), tmp_path / "bundle")
    told: list[str] = []
    with examine(folder, progress=told.append) as examination:
        assert told == ["reading the record", "decoding tables", "checking rules"]
        assert examination.warehouse.sql("SELECT count(*) FROM predictions") == [(2520,)]
        assert examination.verdict.accepted


def hosted(draft: Draft) -> None:
    """The host keeps the labels of test and external."""
    outside = pl.col("split").is_in(["test", "external"])
    draft.task["truth_sha256"] = "0" * 64
    draft.splits = draft.splits.with_columns(
        pl.when(~outside).then(pl.col(name)).alias(name) for name in draft.splits.columns if name.startswith("label")
    )


@pytest.mark.parametrize("kind", KINDS)
def test_hidden_labels_leave_the_other_rules(kind: Kind, tmp_path: Path) -> None:
    draft = good_submission(kind)
    hosted(draft)
    draft.claim(metric="accuracy", model="densenet121", slice="test", value="0.1", **_class_of(draft))
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert verdict.status is Status.ACCEPTED, verdict.last_line
    for rule_id, rule in all_rules().items():
        result = result_of(verdict, rule_id)
        assert (result.reason == HIDDEN_LABELS) == rule.reads_test_labels
        assert result.outcome is not Outcome.SKIPPED


def _class_of(draft: Draft) -> dict[str, str]:
    return {"class": draft.task["classes"][0]} if draft.task["kind"] == "multilabel" else {}


def test_a_crash_is_logged_and_is_our_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(_: Any) -> dict[str, str]:
        raise RuntimeError("a defect")

    monkeypatch.setattr(attack, "reverse_plain_digests", broken)
    verdict = quick_check(write(good_submission(), tmp_path / "bundle"))
    assert [result.rule for result in verdict.of(Outcome.CRASHED)] == ["MVC103", "MVC104"]
    assert (verdict.status, verdict.exit_code) == (Status.UNDETERMINED, 3)
    assert "a defect" in caplog.text


def test_all_offences_are_told_at_once(tmp_path: Path) -> None:
    draft = good_submission()
    draft.declared = deepcopy(draft.record)
    draft.record["release"] = {}
    draft.record["uncertainty"] |= {"unit": "image", "resamples": 10}
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert rejecting(verdict) == ["MVC501", "MVC502", "MVC604", "MVC701", "MVC705"]
    assert verdict.last_line.endswith("; +4 more")


@settings(
    max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(seed=st.integers(0, 2**32))
@pytest.mark.parametrize("kind", ["binary", "multilabel"])
def test_test_labels_are_read_only_by_rules_that_say_so(
    kind: Kind,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
    good_verdict: Callable[[Base, Kind], Verdict],
) -> None:
    draft = good_submission(kind)
    outside = pl.col("split").is_in(["test", "external"])
    labels = [name for name in draft.splits.columns if name.startswith("label")]
    shuffled = draft.splits.filter(outside).with_columns(pl.col(name).shuffle(seed) for name in labels)
    draft.splits = pl.concat([draft.splits.filter(~outside), shuffled])
    verdict = quick_check(write(draft, tmp_path_factory.mktemp("shuffled") / "bundle"))
    for rule_id, rule in all_rules().items():
        if not rule.reads_test_labels:
            assert result_of(verdict, rule_id) == result_of(good_verdict(good_submission, kind), rule_id)


def test_the_same_bundle_gives_the_same_document(tmp_path: Path) -> None:
    draft = good_submission("multiclass")
    draft.files["notes.txt"] = b"not read"
    first = quick_check(write(draft, tmp_path / "a"))
    second = quick_check(write(draft, tmp_path / "b"))
    assert first.to_dict() == second.to_dict()
    assert first.digests["task.yaml"] == sha256_hex((tmp_path / "a" / "task.yaml").read_bytes())


@pytest.mark.parametrize(
    "key",
    [
        "MVC102 image_in_train_and_test",
        "MVC106 no_test",
        "MVC108 label_null_in_test",
        "MVC114 image_twice_in_test",
        "MVC202 run_missing",
        "MVC401 not_a_number",
        "MVC403 image_never_predicted",
        "MVC405 row_doubled",
        "MVC602 image_in_external_and_train",
        "MVC603 column_absent",
        "MVC607 site_without_rows",
        "MVC703 image_missing_from_one_run",
    ],
)
def test_claims_wait_until_everything_can_be_scored(key: str, tmp_path: Path) -> None:
    mutation = all_mutations()[key]
    draft = claimed("binary")
    mutation.change(draft)
    draft.claim(metric="auroc", model="densenet121", calibrator="isotonic", slice="sex=female", value="0.5")
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert rejecting(verdict) == [mutation.rule]
    assert result_of(verdict, "MVC407").outcome is Outcome.SKIPPED
    assert result_of(verdict, "MVC503").outcome is Outcome.SKIPPED
    assert not verdict.of(Outcome.CRASHED)


def test_images_resampled_although_patients_are_known_are_noted(tmp_path: Path) -> None:
    draft = good_submission()
    draft.task["clustering_unit"] = draft.record["uncertainty"]["unit"] = "image"
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert verdict.accepted
    assert [finding.note for finding in result_of(verdict, "MVC501").findings] == [True]


def test_many_claims_on_a_run_are_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft = claimed("binary")
    first = draft.record["metrics"]["claims"][0]
    draft.record["metrics"]["claims"] += [first | {"seed": seed, "interval": None} for seed in (1, 2, 3)] * 20
    calls: list[object] = []

    def counted(**arguments: Any) -> Any:
        calls.append(arguments["slices"])
        return scoring.score(**arguments)

    monkeypatch.setattr(claims, "score", counted)
    verdict = quick_check(write(draft, tmp_path / "bundle"))
    assert not verdict.of(Outcome.CRASHED)
    assert calls == [[("test", "all")]]
