"""Many runs: ``python -m benchmarks.scale [--runs 1638] [--images 10000] [--scored 24] [--resamples 1000]``.

All rules: seconds and peak memory (this process and the decoding process) for the given number of runs and for half of
it, so that growth is seen in one run. Scoring, with every metric, interval and curve written: the same for ``--scored``
runs and half of them, and what the given number of runs would take.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

from submission.example import example
from submission.skeleton import declare_folder
from submission.writing import Parts, write_bundle

CLASSES = 5


def make_bundle(folder: Path, runs: int, images: int, resamples: int) -> None:
    """A multiclass bundle of ``runs`` runs (models x 3 seeds x calibrator none) on ``images`` test images."""
    base = example("multiclass", tuple("abcde"))
    rng = np.random.default_rng(0)
    models = [f"model-{number}" for number in range(max(1, runs // 3))]
    splits = _splits(base.splits, images, rng)
    record = dict(base.record)
    record["models"] = [{"name": name, "seeds": [1, 2, 3]} for name in models]
    record["calibration"] = {"methods": [{"name": "none", "family": "none"}]}
    record["shift"] = {"external": [], "subgroups": []}
    record["waivers"] = [
        {"rule": "MVC301", "reason": "a benchmark of speed"},
        {"rule": "MVC601", "reason": "a benchmark of speed"},
    ]
    record["release"] = {**record["release"], "parameters": None}
    ids = splits.filter(pl.col("split").is_in(["calib", "test"])).select("image_id")
    frames = []
    for name in models:
        for seed in (1, 2, 3):
            p = rng.dirichlet(np.ones(CLASSES), size=ids.height)
            frames.append(
                ids.with_columns(
                    model=pl.lit(name),
                    seed=pl.lit(seed, dtype=pl.Int64),
                    calibrator=pl.lit("none"),
                    **{f"p_{k}": pl.Series(p[:, k]) for k in range(CLASSES)},
                )
            )
    folder.mkdir()
    write_bundle(folder, Parts({**base.task, "resamples": resamples}, record, splits, pl.concat(frames)))
    declare_folder(folder)


def _splits(example_splits: pl.DataFrame, images: int, rng: np.random.Generator) -> pl.DataFrame:
    few = example_splits.filter(pl.col("split").is_in(["train", "val", "calib"])).drop("sex")
    names = pl.Series([rng.bytes(32).hex() for _ in range(images)])
    patients = pl.Series([rng.bytes(32).hex() for _ in range(images // 2)])
    test = pl.DataFrame(
        {
            "image_id": names,
            "patient_id": patients.gather(np.arange(images) % len(patients)),
            "split": "test",
            "site": "first hospital",
            "label": rng.integers(0, CLASSES, images),
        }
    )
    return pl.concat([few, test.select(few.columns)])


SCORE = """
import resource, sys, tempfile, time
from pathlib import Path
from scorer.check import examine
from scorer.outputs import write_results
with examine(Path(sys.argv[1])) as examination, tempfile.TemporaryDirectory() as stage:
    assert examination.verdict.accepted, examination.verdict.last_line
    start = time.time()
    scores = write_results(examination, Path(stage), lambda step: None)
    print(time.time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, len(scores.rows))
"""


def measure_scoring(folder: Path) -> tuple[float, float, int]:
    """Seconds, peak GiB and rows of scoring an accepted bundle, in a fresh process with kernels loaded."""
    done = subprocess.run([sys.executable, "-c", SCORE, str(folder)], capture_output=True, text=True, check=True)
    took, peak, rows = done.stdout.split()
    return float(took), float(peak), int(rows)


def measure(folder: Path) -> tuple[float, float, float, str]:
    """Seconds, peak GiB of the referee and of its decoding process, and the last line, in a fresh process."""
    code = (
        "import resource, sys, time; from pathlib import Path; from scorer.check import check; start = time.time(); "
        "verdict = check(Path(sys.argv[1])); took = time.time() - start; "
        "who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN); "
        "own, child = (resource.getrusage(w).ru_maxrss / 2**20 for w in who); "
        "print(took, own, child, verdict.last_line[:100])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True)
    took, own, child, line = done.stdout.split(maxsplit=3)
    return float(took), float(own), float(child), line.strip()


def main() -> None:
    """Make, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1638)
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--scored", type=int, default=24)
    parser.add_argument("--resamples", type=int, default=1000)
    chosen = parser.parse_args()
    scored = []
    for runs in (chosen.scored // 2, chosen.scored):
        with tempfile.TemporaryDirectory() as scratch:
            make_bundle(Path(scratch, "bundle"), runs, chosen.images, chosen.resamples)
            took, peak, rows = measure_scoring(Path(scratch, "bundle"))
        scored.append(took)
        print(f"{runs} runs x {chosen.images} images, {chosen.resamples} resamples: scored in {took:.1f} s, "
              f"peak {peak:.2f} GiB, {rows} rows", flush=True)  # fmt: skip
    print(f"twice the runs cost {scored[1] / scored[0]:.2f} times the time; {chosen.runs} runs would take "
          f"{scored[1] / chosen.scored * chosen.runs / 60:.0f} minutes", flush=True)  # fmt: skip
    results = []
    for runs in (chosen.runs // 2, chosen.runs):
        with tempfile.TemporaryDirectory() as scratch:
            start = time.time()
            make_bundle(Path(scratch, "bundle"), runs, chosen.images, chosen.resamples)
            size = (Path(scratch, "bundle") / "predictions.parquet").stat().st_size / 2**20
            print(
                f"{runs} runs x {chosen.images} images: made in {time.time() - start:.0f} s, {size:.0f} MiB", flush=True
            )
            took, own, child, line = measure(Path(scratch, "bundle"))
        results.append(took)
        print(f"  check {took:.1f} s, peak {own:.2f} GiB, decoding process {child:.2f} GiB: {line}", flush=True)
    print(f"twice the runs cost {results[1] / results[0]:.2f} times the time")
    print(f"peak of this generator {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
