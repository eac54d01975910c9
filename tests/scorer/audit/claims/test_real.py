"""Published values of released predictions, found again."""

import csv
import json
from pathlib import Path

import numpy as np
import polars as pl

from scorer.audit.claims import read_claims, search
from scorer.audit.shapes import Loaded
from tests.scorer.audit.claims.sets import made
from tests.splits.datasets.real import released


def test_fifteen_equal_width_bins_reproduce_all_of_panrarewsi() -> None:
    """All 33 values of ``ece_pre``; ten bins only five of them."""
    root = "hayden-farquhar+PanRareWSI"
    rows = pl.read_csv(released(root, "results/oof_predictions.csv"))
    sets = [
        made(part["oof_proba"], part["y_true"], name="oof_proba", task=f"{a}, {b}", precision="decimals:6")
        for (a, b), part in rows.group_by("cohort", "biomarker", maintain_order=True)
    ]
    path = released(root, "results/calibration.json")
    frame = pl.DataFrame(json.loads(path.read_text()))
    claims = read_claims(Loaded(str(path), frame, "JSON", path, "0" * 64))
    pre = [claim for claim in claims if claim.column == "ece_pre"]
    assert {claim.metric for claim in claims} == {"ece"}
    assert len(pre) == len(sets) == 33
    found = search(claims, sets)
    assert len(found.of("cannot be checked")) == 66  # after a calibrator that was not released
    assert all("called" in one.problem for one in found.of("cannot be checked"))
    found = search(pre, sets)
    assert [one.status for one in found.claims] == ["reproduced"] * 33
    (joint,) = found.joint
    assert joint.best[0].reproduced == 33
    assert "positive class, 15 equal-width bins, either side closed" in joint.best[0].words[0]
    (ten,) = [one for one in joint.beside if " 10 " in one.words[0]]
    assert ten.reproduced == 5
    assert joint.best[1].reproduced < 33
    assert joint.average < 10


def test_the_14_auroc_of_the_nih_set() -> None:
    """One file a metric, labels from another release than the scores: all digits of single precision agree."""
    scores = pl.read_csv(released("jrzech+reproduce-chexnet", "pretrained/preds.csv"))
    path = released("jrzech+reproduce-chexnet", "pretrained/aucs.csv")
    labels = pl.read_csv(released("mlmed+torchxrayvision", "torchxrayvision/data/Data_Entry_2017_v2020.csv.gz"))
    both = scores.join(labels, on="Image Index", how="left", maintain_order="left")
    names = [name.removeprefix("prob_") for name in scores.columns[1:]]
    y = np.stack([both["Finding Labels"].str.split("|").list.contains(name).to_numpy() for name in names], axis=1)
    one = made(scores[:, 1:].to_numpy(), y, kind="multilabel", classes=tuple(names), precision="float32")
    claims = read_claims(_printed(path))
    assert len(claims) == 14
    found = search(claims, [one])
    assert [claim.status for claim in found.claims] == ["reproduced"] * 14
    assert found.joint[0].best[0].reproduced == 14


def _printed(path: Path) -> Loaded:
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return Loaded(str(path), pl.DataFrame(rows), "CSV", path, "0" * 64)
