"""Runs in the build, on the pruned installation: everything that is left loads, and every command does its work.

    NUMBA_CACHE_DIR=KERNELS selftest.py

What it makes the kit compile lands in KERNELS, which the image ships; each kernel must be among it. The image ships the
bytecode of what was imported here, too.
"""

import ctypes
import importlib.util
import os
import pkgutil
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

SITE = Path(sysconfig.get_path("platlib"))
PACKAGES = ("protocol", "splits", "submission", "scorer", "mvc")
KINDS = {"binary": "", "multiclass": "ordinal: true\n", "multilabel": "thresholds: [0.3, 0.4, 0.5]\n"}


def libraries() -> None:
    """Load every shared library with all that it needs."""
    for pattern in ("*.so", "*.so.[0-9]*"):
        for path in sorted(SITE.rglob(pattern)):
            ctypes.CDLL(str(path), mode=os.RTLD_NOW)


def modules() -> None:
    """Import every module of the kit but those of the baseline, which want torch."""
    for package in PACKAGES:
        for found in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if not found.name.endswith("__main__") and not found.name.startswith("submission.baseline."):
                importlib.import_module(found.name)


def mvc(*arguments: object, code: int = 0) -> str:
    """Run a command that must end with ``code``; what it printed."""
    command = [str(Path(sys.executable).with_name("mvc")), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != code:
        sys.exit(f"{' '.join(command)}: ended with {done.returncode}, wanted {code}\n{done.stdout}")
    return done.stdout


def commands() -> None:
    """The demonstration with its four rejections, then open and hosted tasks of each kind."""
    mvc("demo")
    for kind, more in KINDS.items():
        team, host, answer = (Path(f"{name}-{kind}") for name in ("team", "host", "answer"))
        mvc("init", team, "--task", kind)
        task = (team / "task.yaml").read_text()
        (team / "task.yaml").write_text(task.replace("resamples: 2000", "resamples: 1000") + more)
        mvc("declare", team)
        mvc("host", "init", host, "--task", team / "task.yaml", "--splits", team / "splits.parquet")
        shutil.copytree(team, answer)
        for name in ("task.yaml", "splits.parquet"):
            shutil.copy(host / "public" / name, answer)
        mvc("declare", answer, "--force")
        key = ["--key", host / "private" / "host.key"]
        mvc("host", "receipt", answer / "declaration.lock", *key)
        score = ["score", "--truth", host / "private" / "truth.parquet", *key, "--input", answer, "--output", "output"]
        mvc(*score)
        mvc("ledger", "append", "output/record.json", "--task", host / "public" / "task.yaml")
        mvc("submit", team)
    mvc(*score, "--host", "log")
    mvc("submit", answer)
    mvc("recalibrate", team, "--force")
    mvc("ledger", "list")
    mvc("ledger", "verify")
    mvc("rules", "MVC101")


def kernels(folder: Path) -> None:
    """See that every kernel was compiled and kept; blot out the addresses of this process in their comments."""
    from numba.core.registry import CPUDispatcher

    kept = {path.name.split("-")[0] for path in folder.rglob("*.nbi")}
    for module in ("kernels", "fitting"):
        names = vars(importlib.import_module(f"scorer.metrics.{module}")).items()
        wanted = {f"{kernel.__module__.rpartition('.')[2]}.{name}" for name, kernel in names
                  if isinstance(kernel, CPUDispatcher)}  # fmt: skip
        if not wanted <= kept:
            sys.exit(f"selftest.py: no code for {', '.join(sorted(wanted - kept))}: let a command here use it")
    for path in folder.rglob("*.nbc"):
        path.write_bytes(re.sub(rb"(?<= at 0x)[0-9a-f]+(?=>)", lambda found: b"0" * len(found[0]), path.read_bytes()))


def bytecode(listed: Path) -> None:
    """Make what Python kept of every module used here valid whatever the times of files; the rest is rarely needed.

    The modules of the standard library that were used are ``listed``: a base may come without their bytecode.
    """
    for kept in SITE.rglob("*.pyc"):
        source = importlib.util.source_from_cache(str(kept))
        py_compile.compile(
            source, str(kept), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )
    standard = [str(path) for path in Path(sysconfig.get_path("stdlib")).rglob("*.py") if "ensurepip" not in path.parts]
    used = [path for path in sorted(standard) if os.path.exists(importlib.util.cache_from_source(path))]
    listed.write_text("".join(f"{path}\n" for path in used))


if __name__ == "__main__":
    libraries()
    modules()
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        commands()
    kernels(Path(os.environ["NUMBA_CACHE_DIR"]))
    bytecode(Path(sys.prefix) / "standard-library.txt")
