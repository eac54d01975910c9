"""``make fuzz``: coverage-guided fuzzing of every target, each for a while: ``python -m tests.fuzz.run``.

What breaks a promise is written to ``tests/fuzz/corpus/<target>/crash-<digest>``; ``make test`` replays it from then
on, until it is mended and beyond. Needs atheris (``pip install '.[fuzz]'``).
"""

import argparse
import hashlib
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(__file__).with_name("corpus")
NAMES = ("records", "archive", "carrier", "splits", "predictions", "engine")
MEMORY_MB = 4096
INSTRUMENTED = ("protocol", "submission", "scorer", "yaml", "zipfile", "json")


def main() -> int:
    """Fuzz the targets that were named, all by default; 1 when one was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=f"of {', '.join(NAMES)}; default: all")
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "60")), help="per target")
    parser.add_argument("--inside", metavar="CORPUS", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    unknown = sorted({*asked.targets} - {*NAMES})
    if unknown:
        parser.error(f"{', '.join(unknown)}: no such target; there are {', '.join(NAMES)}")
    if asked.inside:
        inside(asked.targets[0], asked.inside, asked.seconds)
    broken = [name for name in asked.targets or NAMES if not holds(name, asked.seconds)]
    print(f"broken: {', '.join(broken)}" if broken else "every promise held")
    return 1 if broken else 0


def holds(name: str, seconds: int) -> bool:
    """Fuzz ``name`` in a process of its own, which ends with its first failure."""
    print(f"== {name}, {seconds} s", flush=True)
    if name == "engine":
        environment = {**os.environ, "FUZZ_SECONDS": str(seconds)}
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-s", "tests/fuzz/test_engine.py"]
        return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == 0
    with tempfile.TemporaryDirectory() as corpus:
        shutil.copytree(CORPUS / name, corpus, dirs_exist_ok=True)
        command = [sys.executable, "-m", "tests.fuzz.run", name, "--seconds", str(seconds), "--inside", corpus]
        return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def inside(name: str, corpus: str, seconds: int) -> None:
    """Fuzz in this process; never returns. Nothing that is to be watched may have been imported before."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=list(INSTRUMENTED)):
        from tests.fuzz.targets import TARGETS

    def watched(data: bytes) -> None:
        try:
            TARGETS[name](data)
        except BaseException:  # libFuzzer writes the input too, but not always: threads can end the process before
            (CORPUS / name / f"crash-{hashlib.sha1(data, usedforsecurity=False).hexdigest()}").write_bytes(data)
            raise

    limits = [f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", "-timeout=20", "-max_len=65536"]
    found = f"-artifact_prefix={CORPUS / name}/"
    atheris.Setup([sys.argv[0], corpus, found, "-print_final_stats=1", *limits], watched)
    atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
