"""A submission from released files: CheXNet reproductions on 22,433 NIH chest X-rays of 6,187 patients, 14 findings.

The files are not part of this project. They are looked for below ``MVC_REAL_DATA`` (else ``shared/real`` beside the
checkout), in folders named OWNER+REPOSITORY as published.
"""

import gzip
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from protocol import EDITION
from splits.assign import assign_splits
from splits.hashing import hash_identifiers
from submission import recalibration
from submission.writing import Parts

ROOT = Path(os.environ.get("MVC_REAL_DATA") or Path(__file__).resolve().parents[3] / "shared" / "real")
TABLE = ROOT / "mlmed+torchxrayvision" / "torchxrayvision" / "data" / "Data_Entry_2017_v2020.csv.gz"
SALT = b"the salt of a test on public data"
FINDINGS = (
    "Atelectasis", "Cardiomegaly", "Effusion", "Infiltration", "Mass", "Nodule", "Pneumonia", "Pneumothorax",
    "Consolidation", "Edema", "Emphysema", "Fibrosis", "Pleural_Thickening", "Hernia",
)  # fmt: skip


@dataclass(frozen=True)
class Release:
    """One released run: its predictions and its published AUROC table."""

    name: str
    predictions: Path
    aucs: Path

    @property
    def there(self) -> bool:
        """True when both files are there."""
        return self.predictions.is_file() and self.aucs.is_file()


_SECOND = ROOT / "haooyuee+reproduce-chexnet-nih-chexphoto" / "results"
RELEASES = (
    Release(
        "jrzech",
        ROOT / "jrzech+reproduce-chexnet" / "pretrained" / "preds.csv",
        ROOT / "jrzech+reproduce-chexnet" / "pretrained" / "aucs.csv",
    ),
    Release("haooyuee-nih-25", _SECOND / "nih_25_preds.csv", _SECOND / "nih_25_aucs.csv"),
    Release("haooyuee-test1", _SECOND / "test1_preds.csv", _SECOND / "test1_aucs.csv"),
)


def nih_table() -> pl.DataFrame:
    """Patient, age, sex, view and the 14 findings (0 or 1) of every NIH image."""
    with gzip.open(TABLE) as source:
        table = pl.read_csv(source.read())
    # The table writes Pleural_Thickening with an underscore, as the predictions do.
    return table.select(
        image=pl.col("Image Index"),
        patient=pl.col("Patient ID").cast(pl.String),
        age=pl.col("Patient Age"),
        sex=pl.col("Patient Gender").replace_strict({"F": "female", "M": "male"}),
        view=pl.col("View Position"),
        **{
            finding: pl.col("Finding Labels").str.split("|").list.contains(finding).cast(pl.Int8)
            for finding in FINDINGS
        },
    )


def predictions_of(release: Release) -> pl.DataFrame:
    """Image and the 14 probabilities, joined by name: the releases have two column orders and two spellings."""
    table = pl.read_csv(release.predictions)
    spelled = {name: name.removeprefix("prob_") for name in table.columns if name != "Image Index"}
    return table.rename({**spelled, "Image Index": "image"}).select("image", *FINDINGS)


def published(release: Release) -> dict[str, float]:
    """AUROC by finding as released."""
    return dict(pl.read_csv(release.aucs).select("label", "auc").iter_rows())


def chest_parts(releases: tuple[Release, ...], resamples: int = 1000) -> Parts:
    """The submission: half of the patients calib, half test, calibrators none, temperature and isotonic per finding."""
    tables = {release.name: predictions_of(release) for release in releases}
    images = tables[releases[0].name].select("image")
    facts = images.join(nih_table(), on="image", how="inner", validate="1:1", maintain_order="left")
    labels = facts.select(FINDINGS).to_numpy().astype(np.int64)
    rare = FINDINGS.index("Hernia")
    split = np.array(
        assign_splits(facts["patient"].to_list(), labels[:, rare].tolist(), {"calib": 0.5, "test": 0.5}, 2017)
    )
    splits = _splits(facts, split)
    frames: list[pl.DataFrame] = []
    fitted: list[Any] = []
    calib = split == "calib"
    for name, table in tables.items():
        p = facts.select("image").join(table, on="image", validate="1:1", maintain_order="left").select(FINDINGS)
        raw = p.to_numpy().astype(np.float64)
        frames.append(_rows(splits, np.ones(len(raw), dtype=bool), raw, name, "none"))
        for family in ("temperature", "isotonic"):
            maps = recalibration.fit(
                family, raw[calib], labels[calib], kind="multilabel", model=name, seed=0, calibrator=family
            )
            fitted += maps
            mapped = recalibration.apply(maps, raw, kind="multilabel")
            frames.append(_rows(splits, split == "test", mapped, name, family))
    return Parts(_task(resamples), _record(tables), splits, pl.concat(frames), fitted)


def _splits(facts: pl.DataFrame, split: NDArray[np.str_]) -> pl.DataFrame:
    age = pl.when(pl.col("age") < 40).then(pl.lit("below 40")).when(pl.col("age") < 60).then(pl.lit("40 to 59"))
    return facts.select(
        image_id=pl.Series(hash_identifiers(SALT, "nih/image", facts["image"].to_list())),
        patient_id=pl.Series(hash_identifiers(SALT, "nih/patient", facts["patient"].to_list())),
        split=pl.Series(split.tolist()),
        site=pl.lit("NIH Clinical Center"),
        sex="sex",
        age_band=age.otherwise(pl.lit("60 and over")),
        view="view",
        **{f"label_{k}": pl.col(finding) for k, finding in enumerate(FINDINGS)},
    )


def _rows(
    splits: pl.DataFrame, rows: NDArray[np.bool_], p: NDArray[np.float64], model: str, calibrator: str
) -> pl.DataFrame:
    return splits.filter(rows).select(
        "image_id",
        model=pl.lit(model),
        seed=pl.lit(0, dtype=pl.Int32),
        calibrator=pl.lit(calibrator),
        **{f"p_{k}": pl.Series(p[rows, k].astype(np.float32)) for k in range(p.shape[1])},
    )


def _task(resamples: int) -> dict[str, Any]:
    return {
        "edition": EDITION,
        "name": "nih-chest-14",
        "kind": "multilabel",
        "target": "fourteen findings on a frontal chest X-ray",
        "label_source": "text mining of radiology reports (NIH ChestX-ray14, table of 2020)",
        "label_definition": "1 when the report's mined labels name the finding",
        "classes": list(FINDINGS),
        "resamples": resamples,
    }


def _record(models: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "edition": EDITION,
        "submission_id": "chexnet-reproductions",
        "title": "CheXNet reproductions on NIH ChestX-ray14",
        "team": "released predictions of jrzech and haooyuee",
        "contact": "the repositories' issue trackers",
        "task": {"name": "nih-chest-14"},
        "splits": {"how": "random halves of the released test patients", "seed": 2017, "images_per_patient": 3.6},
        "recipe": {
            "architecture": "DenseNet-121",
            "pretrained_weights": "ImageNet-1k",
            "pretrained_on": "ImageNet-1k",
            "pretraining_test_overlap": "none",
            "preprocessing": "224 x 224, ImageNet mean and standard deviation",
            "augmentation": "horizontal flips",
            "optimiser": "SGD, momentum 0.9",
            "learning_rate": 0.01,
            "weight_decay": 0.0001,
            "batch_size": 16,
            "epochs": "until the validation loss stops falling",
            "stopping_rule": "lowest validation loss",
            "selected_on": "val",
        },
        "models": [{"name": name, "seeds": [0]} for name in models],
        "calibration": {
            "methods": [
                {"name": "none", "family": "none"},
                {"name": "temperature", "family": "temperature", "loss": "mean negative log-likelihood per finding"},
                {"name": "isotonic", "family": "isotonic", "loss": "mean squared error per finding"},
            ]
        },
        "uncertainty": {"resamples": 1000},
        "shift": {
            "subgroups": [
                {"column": "sex", "levels": ["female", "male"]},
                {"column": "age_band", "levels": ["below 40", "40 to 59", "60 and over"]},
                {"column": "view", "levels": ["AP", "PA"]},
            ]
        },
        "release": {
            "licence": "BSD-3-Clause",
            "code": {"url": "https://github.com/jrzech/reproduce-chexnet"},
            "predictions": {"file": "predictions.parquet"},
        },
        "waivers": [
            {"rule": "MVC113", "reason": "The training and validation lists were not released with the predictions."},
            {"rule": "MVC203", "reason": "One trained run of each reproduction was released."},
            {"rule": "MVC601", "reason": "All images come from one institution."},
        ],
    }
