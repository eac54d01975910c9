"""Ten million images: ``python -m benchmarks.split [--rows 10000000]``.

Makes a metadata table of that many images (a third as many patients, five classes, seven sites), and runs the split
commands on it as processes: wall seconds and the largest memory of each, and for comparison the time in which polars
reads the table and scikit-learn splits it into two parts by patient.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl


def metadata(path: Path, rows: int) -> None:
    """A CSV of ``rows`` images."""
    rng = np.random.default_rng(1)
    patient = rng.integers(0, rows // 3, rows)
    pl.DataFrame(
        {
            "image": pl.Series(np.arange(rows)).cast(pl.String).str.zfill(8) + "_001.png",
            "patient": pl.Series(patient).cast(pl.String).str.zfill(8),
            "label": rng.choice(5, rows, p=[0.6, 0.2, 0.1, 0.07, 0.03]),
            "site": pl.Series(patient % 7).cast(pl.String),
        }
    ).write_csv(path)


def measured(arguments: list[str | Path]) -> tuple[float, float, int]:
    """Wall seconds, GiB at most and exit code of one ``mvc`` command."""
    command = [sys.executable, "-P", "-m", "mvc", *map(str, arguments)]
    start = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    return time.perf_counter() - start, used.ru_maxrss / 2**20, os.waitstatus_to_exitcode(status)


def peer(path: Path) -> tuple[float, float]:
    """Seconds in which polars reads the table, and scikit-learn parts its patients in two (not stratified)."""
    from sklearn.model_selection import GroupShuffleSplit

    start = time.perf_counter()
    frame = pl.read_csv(path)
    read = time.perf_counter() - start
    start = time.perf_counter()
    groups = frame["patient"].to_numpy()
    next(GroupShuffleSplit(1, test_size=0.2, random_state=1).split(groups, groups=groups))
    return read, time.perf_counter() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        table, out = Path(scratch, "metadata.csv"), Path(scratch, "out")
        metadata(table, asked.rows)
        named: list[str | Path] = ["--patient", "patient", "--label", "label", "--site", "site"]
        commands: dict[str, list[str | Path]] = {
            "mvc split make": ["split", "make", table, *named, "--external", "3", "--out", out],
            "mvc split check (public)": ["split", "check", out / "public" / "splits.parquet"],
            "mvc split check (names)": ["split", "check", out / "private" / "images.parquet"],
            "mvc split hash": [
                "split",
                "hash",
                table,
                "--record",
                out / "public/split.json",
                "--out",
                out / "h.parquet",
            ],
            "mvc split verify": [
                "split",
                "verify",
                out / "public/splits.parquet",
                table,
                "--salt-file",
                out / "private/salt",
            ],
        }
        for name, command in commands.items():
            seconds, memory, code = measured(command)
            print(f"{name:26} {seconds:6.1f} s, {memory:.2f} GiB, exit {code}", flush=True)
        read, parted = peer(table)
        print(f"{'polars reads the table':26} {read:6.1f} s\n{'GroupShuffleSplit':26} {parted:6.1f} s")


if __name__ == "__main__":
    main()
