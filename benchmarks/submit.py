"""``mvc submit`` on the demonstration, as a user waits for it: ``python -m benchmarks.submit [--repeats 5]``.

Prints the best and the median wall time of whole processes, and of a bare interpreter and ``mvc --help`` beside them.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from submission.demo import make_demo


def seconds(command: list[str], repeats: int) -> list[float]:
    """Wall seconds of ``command``, run ``repeats`` times; it must succeed."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True)
        taken.append(time.perf_counter() - start)
    return taken


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    mvc = [sys.executable, "-m", "mvc"]
    with tempfile.TemporaryDirectory() as scratch:
        bundle = make_demo(Path(scratch, "bundle"))
        ledger = str(Path(scratch, "mvc.duckdb"))
        commands = {
            "bare interpreter": [sys.executable, "-c", ""],
            "mvc --help": [*mvc, "--help"],
            "mvc rules": [*mvc, "rules"],
            "mvc check, demonstration": [*mvc, "check", str(bundle)],
            "mvc submit, demonstration": [*mvc, "submit", str(bundle), "--ledger", ledger],
        }
        for name, command in commands.items():
            taken = seconds(command, repeats)
            print(f"{name:26} best {min(taken):.2f} s, median {statistics.median(taken):.2f} s", flush=True)


if __name__ == "__main__":
    main()
