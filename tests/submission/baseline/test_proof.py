"""On the toy every learner's loss falls, and its predictions beat zero-shot, with cross-entropy and with MCM."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from submission.baseline.changes import changed
from submission.baseline.configs import read_config
from submission.baseline.running import Inputs, run
from submission.baseline.toy import Toy
from tests.submission.baseline.toyworld import quick_toy

EPOCHS = 6
Scores = tuple[float, float]


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    return quick_toy(tmp_path_factory)


@pytest.fixture(scope="module")
def outcome(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], tuple[Path, Scores]]:
    """Folder of the run of a learner with a loss, one seed; its negative log-likelihood and Brier score on test."""
    base = tmp_path_factory.mktemp("proof")
    truth = pl.read_parquet(toy.splits).filter(pl.col("split").is_in(["test", "external"])).select("image_id", "label")

    @cache
    def made(learner: str, loss: str) -> tuple[Path, Scores]:
        given, _ = read_config(str(toy.folder / "configs" / f"{learner}.yaml"))
        config = changed(given, ["seeds=[1]", f"training.epochs={EPOCHS}", f"loss.name={loss}", "calibrators=[]"])
        out = base / f"{learner}-{loss}"
        run(config, Inputs(toy.splits, toy.images, out, task=toy.task, cache=base / "views"), threads=1)
        rows = pl.read_parquet(out / "bundle" / "predictions.parquet").join(truth, on="image_id").sort("image_id")
        p = rows.select("p_0", "p_1", "p_2", "p_3").to_numpy()
        own = p[np.arange(len(p)), rows["label"].to_numpy()]
        brier = (p**2).sum(axis=1) - 2.0 * own + 1.0
        return out, (float(-np.log(own).mean()), float(brier.mean()))

    return made


@pytest.mark.parametrize(
    ("learner", "loss"),
    [
        *((learner, "ce") for learner in ("coop", "kgcoop", "prograd", "maple", "promptsrc", "hicropl")),
        *((learner, "mcm") for learner in ("coop", "prograd", "maple")),
    ],
)
def test_the_loss_falls_and_zero_shot_is_beaten(
    outcome: Callable[[str, str], tuple[Path, Scores]], learner: str, loss: str
) -> None:
    _, (nll, brier) = outcome("zeroshot", "ce")
    out, (own_nll, own_brier) = outcome(learner, loss)
    log = [json.loads(line) for line in (out / "seeds" / "1" / "log.jsonl").read_text().splitlines()]
    losses = [line["supervised"] if loss == "ce" else line["loss"] for line in log]
    assert len(losses) == EPOCHS
    assert losses[-1] < losses[0]
    assert own_nll < nll
    assert own_brier < brier
