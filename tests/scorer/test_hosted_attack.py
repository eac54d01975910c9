"""Reading hidden labels out of public scores: what is stopped, and how much is left to those who have a quota."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray

from protocol.hosting import PublicScore
from protocol.types import Kind
from scorer.disclosure import Disclosure, disclosure
from scorer.ledger import Ledger
from scorer.ledger_records import RecordRefused, append_record, believed
from scorer.rows import Run
from scorer.scoring import Cohort
from tests.builders import Draft
from tests.hosted import HostFolder, answer, publish, scored, small
from tests.referee import rejecting

Floats = NDArray[np.float64]
CAP, QUOTA = 6, 3
ADDITIVE = ("brier_binary", "nll", "accuracy")


def attacker(flipped: Sequence[int]) -> Draft:
    """Models of one attacker: model n is the base but for the test image ``flipped[n]`` (-1: none).

    The reference calibrators are waived, so that every run is a model of the attacker's own choice.
    """
    draft = small()
    raw = draft.predictions.filter(pl.col("calibrator") == "none").with_columns(seed=pl.lit(0, dtype=pl.Int64))
    images = images_of(draft)
    own = [images[first] if first >= 0 else "" for first in flipped]
    models = pl.DataFrame({"model": [f"m{n}" for n in range(len(flipped))], "own": own})
    other = pl.when(pl.col("image_id") == pl.col("own")).then(1 - pl.col("p_1")).otherwise(pl.col("p_1"))
    columns = raw.columns
    draft.predictions = raw.drop("model").join(models, how="cross").with_columns(p_1=other).select(columns)
    draft.calibrators = []
    draft.record["models"] = [{"name": f"m{n}", "kind": "base", "deterministic": True} for n in range(len(flipped))]
    draft.record["calibration"]["methods"] = [{"name": "none", "family": "none"}]
    draft.record["waivers"] = [{"rule": "MVC301", "reason": "only our own models"}]
    return draft


def images_of(draft: Draft) -> list[str]:
    """The test images in the order of their ids."""
    return draft.splits.filter(pl.col("split") == "test")["image_id"].sort().to_list()


def labels_of(made: HostFolder, draft: Draft) -> NDArray[np.int64]:
    """The hidden labels of the test images, in that order."""
    truth = pl.read_parquet(made.truth).filter(pl.col("image_id").is_in(images_of(draft))).sort("image_id")
    return truth["label"].to_numpy()


def table_of(scores: Sequence[PublicScore], slice_: str = "all") -> dict[tuple[str, str], float | None]:
    """Values on one slice by model and metric."""
    return {(s.model, s.metric): s.value for s in scores if s.slice == slice_}


def read_label(base: float | None, other: float | None, p: float, n: int) -> int | None:
    """The label of the image whose probability ``p`` became 1 - p, from two Brier scores of ``n`` images."""
    if base is None or other is None or base == other:
        return None
    return int((other - base) * n * (1 - 2 * p) < 0)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> HostFolder:
    """A hosted task that allows few runs and few contents."""
    caps = {"max_runs": CAP, "quota": QUOTA}
    return publish(attacker([-1]), tmp_path_factory.mktemp("attack") / "host", caps=caps)


def test_500_models_in_one_submission_are_too_many(made: HostFolder, tmp_path: Path) -> None:
    draft = attacker([-1, *range(60), *[60] * 440])
    assert len(draft.record["models"]) == 501
    verdict = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out").verdict
    assert rejecting(verdict) == ["MVC004"]
    assert not (tmp_path / "out" / "scores.json").exists()


def test_one_submission_of_single_flips_tells_nothing(made: HostFolder, tmp_path: Path) -> None:
    draft = attacker([-1, *range(CAP - 1)])
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    assert seen.verdict.accepted
    for slice_ in ("all", "sex=female", "sex=male"):
        found = table_of(seen.scores, slice_)
        assert all(found["m0", metric] is not None for metric in ADDITIVE)
        assert {value for (model, _), value in found.items() if model != "m0"} == {None}
    outside = table_of(seen.scores, "second hospital")  # where they do not differ, and there is nothing to learn
    assert all(value == outside["m0", metric] for (_, metric), value in outside.items())


def test_another_entry_is_another_content(made: HostFolder, tmp_path: Path) -> None:
    """The same content is free; so it can't put forward another run, or show another one of two near ones."""
    draft = attacker([-1, 0, 1])
    orders = (draft.record["models"], draft.record["models"][::-1], [draft.record["models"][i] for i in (0, 2, 1)])
    found = []
    for n, models in enumerate(orders):
        changed = replace(draft, record={**draft.record, "models": models})
        found.append(scored(made, answer(changed, made, tmp_path / f"b{n}"), tmp_path / f"o{n}"))
    assert table_of(found[0].scores)["m0", "brier_binary"] is not None
    assert table_of(found[0].scores)["m1", "brier_binary"] is None
    assert table_of(found[1].scores)["m2", "brier_binary"] is not None  # the entry is shown, whatever its name
    records = [seen.record for seen in found if seen.record is not None]
    assert [record.entry.model for record in records if record.entry is not None] == ["m0", "m2", "m0"]
    assert records[0].content_sha256 != records[1].content_sha256
    assert records[0].content_sha256 == records[2].content_sha256
    assert (tmp_path / "o0" / "scores.json").read_bytes() == (tmp_path / "o2" / "scores.json").read_bytes()


def test_another_order_of_subgroups_shows_nothing_else(tmp_path: Path) -> None:
    """Two columns that one patient tells apart: it is the same one of them that is withheld."""
    draft = attacker([-1])
    patient = draft.splits.filter(pl.col("split") == "test", pl.col("sex") == "male")["patient_id"][0]
    gender = pl.when(pl.col("patient_id") == patient).then(pl.lit("female")).otherwise(pl.col("sex"))
    draft.splits = draft.splits.with_columns(gender=gender)
    groups = [{"column": name, "levels": ["female", "male"]} for name in ("sex", "gender")]
    made = publish(draft, tmp_path / "host")
    for n, order in enumerate((groups, groups[::-1])):
        draft.record["shift"]["subgroups"] = order
        seen = scored(made, answer(draft, made, tmp_path / f"b{n}"), tmp_path / f"o{n}")
        assert seen.verdict.accepted
        shown = {s.slice for s in seen.scores if s.slice_kind == "subgroup" and s.value is not None}
        assert shown == {"gender=female", "gender=male"}
    assert (tmp_path / "o0" / "scores.json").read_bytes() == (tmp_path / "o1" / "scores.json").read_bytes()


def test_patients_are_those_of_the_split_file_whatever_the_record_says(tmp_path: Path) -> None:
    """40 patients with two images each don't become 80 for being called unavailable."""
    draft = attacker([-1])
    made = publish(draft, tmp_path / "host", participant_view={"smallest_cell": 50})
    draft.record["splits"] |= {"patient_ids": "unavailable", "patient_ids_reason": "so that cells are larger"}
    draft.record["uncertainty"]["unit"] = "image"
    draft.record["waivers"].append({"rule": "MVC109", "reason": "so that cells are larger"})
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    assert [result.rule for result in seen.verdict.rejecting] == ["MVC501"]
    assert seen.scores == ()


def test_without_the_rule_single_flips_would_tell_every_label(
    made: HostFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attack is a real one: it is this rule that stops it."""
    monkeypatch.setattr("scorer.disclosure.disclosure", lambda *a: replace(disclosure(*a), withheld={}))
    draft = attacker([-1, *range(CAP - 1)])
    seen = scored(made, answer(draft, made, tmp_path / "bundle"), tmp_path / "out")
    found, labels = table_of(seen.scores), labels_of(made, draft)
    p = base_of(draft)
    guesses = [
        read_label(found["m0", "brier_binary"], found[f"m{n + 1}", "brier_binary"], p[n], len(p))
        for n in range(CAP - 1)
    ]
    assert guesses == labels[: CAP - 1].tolist()


def base_of(draft: Draft) -> Floats:
    """The probabilities of model m0, image by image."""
    own = draft.predictions.filter((pl.col("model") == "m0") & pl.col("image_id").is_in(images_of(draft)))
    return own.sort("image_id")["p_1"].to_numpy()


def test_over_several_submissions_the_quota_is_the_bound(made: HostFolder, tmp_path: Path) -> None:
    """A flip a submission: each content after the first tells one label, and contents are counted by the ledger."""
    values, labels, ledger = [], None, tmp_path / "host.duckdb"
    for n in range(QUOTA + 1):
        draft = attacker([n - 1])
        out = tmp_path / f"out{n}"
        seen = scored(made, answer(draft, made, tmp_path / f"bundle{n}"), out)
        signed = believed((out / "record.json").read_bytes(), made.task)
        with Ledger.open(ledger) as opened:
            if n == QUOTA:
                with pytest.raises(RecordRefused, match=f"its quota of {QUOTA}: {QUOTA} contents"):
                    append_record(signed, made.task, opened)
                break
            append_record(signed, made.task, opened)
        values.append(table_of(seen.scores)["m0", "brier_binary"])
        labels = labels_of(made, draft)
    assert labels is not None
    p = base_of(attacker([-1]))
    learned = [read_label(values[0], value, p[n], len(p)) for n, value in enumerate(values[1:])]
    assert learned == labels[: QUOTA - 1].tolist()  # no more than the quota allows, and not less: this is the price
    again = attacker([-1])
    again.predictions = again.predictions.sample(fraction=1.0, shuffle=True, seed=3)
    scored(made, answer(again, made, tmp_path / "again"), tmp_path / "out", now="2026-03-01T00:00:00Z")
    assert (tmp_path / "out" / "scores.json").read_bytes() == (tmp_path / "out0" / "scores.json").read_bytes()
    signed = believed((tmp_path / "out" / "record.json").read_bytes(), made.task)
    with Ledger.open(ledger) as opened:
        append_record(signed, made.task, opened)  # the same content again is free


# What is left


def people(n: int) -> Cohort:
    """``n`` test images of as many patients, in two groups."""
    ids = np.array([f"{i:06d}" for i in range(n)])
    same = np.full(n, "test"), np.full(n, "here")
    group = {"sex": np.where(np.arange(n) % 2 == 0, "f", "m")}
    return Cohort(ids, ids, *same, np.full(n, -1), group)


def shown_of(made: HostFolder, tables: Sequence[Floats]) -> Disclosure:
    """What the rule says to runs with the predictions ``tables``."""
    runs = {Run(f"m{k}", 0, "none"): p[:, None] for k, p in enumerate(tables)}
    return disclosure(made.task, people(len(tables[0])), [[run] for run in runs], runs.__getitem__)


def solved(tables: Sequence[Floats], y: Floats, decimals: int) -> Floats:
    """The labels that fit best to the rounded Brier scores and log-likelihoods of two groups: linear in the labels."""
    rows, sums = [], []
    for p in tables:
        for start in (0, 1):
            own, weights = slice(start, None, 2), np.zeros((2, len(y)))
            q, n = p[own], len(p[own])
            brier = round(float(np.mean((q - y[own]) ** 2)), decimals)
            nll = round(float(np.mean(-np.log(np.where(y[own] == 1, q, 1 - q)))), decimals)
            weights[0, own], weights[1, own] = (1 - 2 * q) / n, (np.log(1 - q) - np.log(q)) / n
            rows.append(weights)
            sums += [brier - np.mean(q**2), nll + np.mean(np.log(1 - q))]
    found = np.linalg.lstsq(np.concatenate(rows), np.array(sums), rcond=None)[0]
    return np.asarray((found > 0.5).astype(np.float64))


@pytest.mark.parametrize(("runs", "least", "most"), [(60, 1.0, 1.0), (3, 0.0, 0.8)])
def test_broad_differences_are_shown_and_can_be_solved_for(
    runs: int, least: float, most: float, made: HostFolder
) -> None:
    """Runs that differ everywhere are what honest models look like, so a team that plans for it gets equations.

    What bounds it are the numbers shown: runs, slices, metrics and the quota, against the images (PROTOCOL.md).
    """
    rng = np.random.default_rng(5)
    y = (rng.random(160) < 0.4).astype(np.float64)
    tables = [rng.choice([0.02, 0.2, 0.5, 0.8, 0.98], 160) for _ in range(runs)]
    assert {key[-1] for key in shown_of(made, tables).withheld} <= {"accuracy"}
    share = float((solved(tables, y, made.task.participant_view.decimals) == y).mean())
    assert least <= share <= most


def test_noise_around_a_flip_must_be_a_quarter_of_it_in_20_patients(made: HostFolder) -> None:
    """Small noise everywhere does not hide a flip from the rule; noise that does drowns the flip."""
    rng = np.random.default_rng(6)
    base = rng.uniform(0.3, 0.7, 160)
    base[0] = 0.05

    def withheld(noise: float, images: int) -> bool:
        other = base.copy()
        other[0] = 0.95
        other[1 : images + 1] += noise * rng.choice([-1.0, 1.0], images)
        return ("m1", "none", "test", "all", "brier_binary") in shown_of(made, [base, other]).withheld

    assert withheld(0.0, 159)
    assert withheld(0.02, 159)
    assert withheld(0.2, 159)
    assert withheld(0.23, 18)
    assert not withheld(0.23, 19)


@pytest.mark.parametrize(("name", "metric"), [("certain", "nll"), ("just over", "accuracy"), ("to the top", "auroc")])
def test_a_change_that_one_metric_sees(name: str, metric: str, made: HostFolder) -> None:
    """Broad changes of the probabilities do not cover for one image that a logarithm, a decision or a rank sees."""
    base = np.linspace(0.2, 0.8, 160)
    base[0], base[1] = 0.004, 0.499
    other = {
        "certain": np.where(np.arange(160) == 0, 1e-12, base + 0.003),
        "just over": np.where(np.arange(160) == 1, 0.501, base),
        "to the top": np.where(np.arange(160) == 0, 0.3, 0.6 * base),
    }[name]
    withheld = {key[-1] for key in shown_of(made, [base, other]).withheld if key[2] == "test"}
    assert metric in withheld
    assert ("brier_binary" in withheld) == (name == "just over")  # where no other image changes at all


@pytest.mark.parametrize("kind", ["binary", "multiclass"])
def test_two_images_that_change_bins_among_many_that_change_places(kind: Kind, made: HostFolder) -> None:
    """Where they do, an ECE tells their labels apart; swaps inside the other bins change nothing and can't hide it."""
    base = np.linspace(0.51, 0.99, 150)
    other = base.copy()
    for first in range(1, 149, 2):  # bins of ten: 0 to 9, 10 to 19
        if first % 10 != 9 or first == 9:
            other[[first, first + 1]] = other[[first + 1, first]]
    tables = [base[:, None], other[:, None]]
    if kind == "multiclass":  # the largest is in every class in turn, so that no class sees the order of the largest
        place = np.arange(150) % 3
        tables = [np.where(np.arange(3) == place[:, None], p, (1 - p) / 2) for p in tables]
    task = made.task.model_copy(update={"kind": kind})
    runs = {Run(f"m{k}", 0, "none"): p for k, p in enumerate(tables)}
    crowd = replace(people(150), subgroups={})
    withheld = disclosure(task, crowd, [[run] for run in runs], runs.__getitem__).withheld
    assert {key[-1] for key in withheld} >= {"ece", "classwise_ece"}
    assert not {"brier", "brier_binary"} & {key[-1] for key in withheld}


def test_a_map_that_changes_everything_a_little_is_shown(made: HostFolder) -> None:
    """A temperature near one is an honest result: no few patients carry the difference, and the decisions stay."""
    rng = np.random.default_rng(7)
    z = rng.normal(0, 1.5, 160)
    tables = [1 / (1 + np.exp(-z)), 1 / (1 + np.exp(-z / 1.01))]
    assert shown_of(made, tables).withheld == {}
    assert shown_of(made, [tables[0], tables[0]]).withheld == {}


def test_slices_that_give_a_small_one_away(made: HostFolder) -> None:
    """Two levels of 80 and 78 leave 2 patients to be found by subtraction, so the smaller level is withheld."""
    everyone = people(160)
    levels = np.array(["a"] * 80 + ["b"] * 78 + ["c"] * 2)
    site = np.where(np.arange(160) < 142, "most", "rest")
    crowd = replace(everyone, subgroups={"grade": levels, "clinic": site})
    p = np.linspace(0.01, 0.99, 160)[:, None]
    found = disclosure(made.task, crowd, [[Run("m", 0, "none")]], lambda run: p)
    why = {s.name: s.withheld for s in found.slices}
    assert why["all"] == why["grade=a"] == ""
    assert why["grade=c"] == why["clinic=rest"] == "fewer than 20 patients"
    assert why["grade=b"].startswith("with it, the others of grade and the whole test, fewer than 20 patients")
    assert why["clinic=most"] == "fewer than 20 patients tell it from the whole test"
    assert {s.n_patients for s in found.slices if s.name == "grade=b"} == {78}


def test_a_subgroup_is_not_shown_where_its_whole_is_withheld(made: HostFolder) -> None:
    """Shown groups would add up to the whole; and one group with the whole gives the other."""
    base = np.linspace(0.1, 0.9, 160)
    other = base.copy()
    other[::2] = 1 - other[::2]  # every patient of one group
    other[1] = 1 - other[1]  # one of the other
    withheld = shown_of(made, [base, other]).withheld
    assert ("m1", "none", "test", "all", "brier_binary") not in withheld
    assert {key[3] for key in withheld if key[-1] == "brier_binary"} == {"sex=f", "sex=m"}
    few = base.copy()
    few[1] = 1 - few[1]
    assert {key[3] for key in shown_of(made, [base, few]).withheld if key[-1] == "brier_binary"} == {
        "all", "sex=f", "sex=m",
    }  # fmt: skip
