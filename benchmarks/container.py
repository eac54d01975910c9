"""A cold container on the demonstration: ``python -m benchmarks.container [--image mvc-scorer:0.1.0] [--repeats 5]``.

Prints the best and the median wall time of whole containers, from the engine's command to its end, each with a new
root: what the engine itself takes, the version, a check and a hosted score, and the same score outside a container.
"""

import argparse
import importlib.metadata
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.submit import seconds
from tests.docker.demo import hosted_demo, open_output
from tests.docker.engine import DOCKER, SEALED, USER


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default=f"mvc-scorer:{importlib.metadata.version('mvc-kit')}")
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        demo = hosted_demo(Path(scratch, "demo"))
        output, outside = open_output(Path(scratch, "out")), open_output(Path(scratch, "outside"))
        mounts = {demo.bundle: "/input:ro", demo.labels: "/truth:ro", output: "/output:rw"}
        volumes = [part for path, place in mounts.items() for part in ("-v", f"{path}:{place}")]
        container = [DOCKER, "run", "--rm", *SEALED, "--user", USER, *volumes, asked.image]
        paths = {"--truth": demo.labels / "truth.parquet", "--input": demo.bundle, "--output": outside}
        options = [str(part) for option in paths.items() for part in option]
        commands = {
            "the engine: sh -c true": [*container, "sh", "-c", "true"],
            "mvc-scorer --version": [*container, "--version"],
            "mvc-scorer check": [*container, "check", "/input"],
            "mvc-scorer, cold start to verdict": container,
            "outside: mvc score": [sys.executable, "-P", "-m", "mvc", "score", *options],
        }
        for name, command in commands.items():
            taken = seconds(command, asked.repeats)
            print(f"{name:34} best {min(taken):.2f} s, median {statistics.median(taken):.2f} s", flush=True)


if __name__ == "__main__":
    main()
