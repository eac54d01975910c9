"""Five million rows: ``python -m benchmarks.audit [--rows 5000000]``.

Makes predictions of five classes for that many images (a third as many patients, seven sites), labels in the file,
and audits them as CSV and as Parquet, as processes: wall seconds and the largest memory of each; for comparison the
time in which polars reads the CSV and scikit-learn computes Brier scores and a macro AUROC of it, without intervals.
"""

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.split import measured

CLASSES = 5


def predictions(path: Path, rows: int) -> None:
    """``rows`` calibrated predictions in CSV, and the same in Parquet beside it."""
    rng = np.random.default_rng(1)
    patient = rng.integers(0, rows // 3, rows)
    p = rng.dirichlet(np.array([3.0, 1.0, 0.7, 0.4, 0.2]), rows).round(5)
    p[:, 0] = (1.0 - p[:, 1:].sum(axis=1)).round(5).clip(0.0, 1.0)
    label = (p.cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(0, CLASSES - 1)
    frame = pl.DataFrame(
        {
            "image_id": pl.Series(np.arange(rows)).cast(pl.String).str.zfill(8) + "_001.png",
            "patient_id": pl.Series(patient).cast(pl.String).str.zfill(8),
            "site": "hospital-" + pl.Series(patient % 7).cast(pl.String),
            "label": label,
            **{f"p_{k}": p[:, k] for k in range(CLASSES)},
        }
    )
    frame.write_csv(path)
    frame.write_parquet(path.with_suffix(".parquet"))


def peer(path: Path) -> tuple[float, float]:
    """Seconds in which polars reads the table, and scikit-learn scores it once."""
    from sklearn.metrics import brier_score_loss, roc_auc_score

    start = time.perf_counter()
    frame = pl.read_csv(path)
    read = time.perf_counter() - start
    start = time.perf_counter()
    p, y = frame.select(r"^p_\d$").to_numpy(), frame["label"].to_numpy()
    roc_auc_score(y, p / p.sum(axis=1, keepdims=True), multi_class="ovr")
    for k in range(CLASSES):
        brier_score_loss(y == k, p[:, k])
    return read, time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        table = Path(scratch, "predictions.csv")
        predictions(table, asked.rows)
        for path in (table, table.with_suffix(".parquet")):
            seconds, memory, code = measured(["audit", "predictions", path])
            print(f"mvc audit predictions {path.suffix:9} {seconds:6.1f} s, {memory:.2f} GiB, exit {code}", flush=True)
        read, scored = peer(table)
        print(f"{'polars reads the CSV':31} {read:6.1f} s\n{'scikit-learn, no intervals':31} {scored:6.1f} s")


if __name__ == "__main__":
    main()
