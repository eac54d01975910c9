"""Measuring and printing that the benchmarks share."""

import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

ALWAYS = ("numpy", "scipy", "numba")


def seconds(function: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one call by ``clock``."""
    start = clock()
    function()
    return clock() - start


def race(functions: Mapping[str, Callable[[], object]], rounds: int, budget: float = 5.0) -> dict[str, float]:
    """Best processor seconds of each function after one call that is not counted.

    They take turns, so that a busy spell of a shared machine hits all of them; one that has used up ``budget`` seconds
    drops out. Where all run in one thread, processor time is wall time on a quiet machine.
    """
    best = {name: float("inf") for name in functions}
    spent = {name: seconds(function, time.process_time) for name, function in functions.items()}
    for turn in range(rounds):
        for name, function in functions.items():
            if turn == 0 or spent[name] < budget:
                taken = seconds(function, time.process_time)
                best[name], spent[name] = min(best[name], taken), spent[name] + taken
    return best


def progress(text: str) -> None:
    """Say on the error stream what is being done."""
    print(text, file=sys.stderr, flush=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a markdown table."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def machine(packages: Iterable[str] = ()) -> str:
    """One line: cores, memory, Python, and the versions of the packages that are installed."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    found = []
    for name in dict.fromkeys((*ALWAYS, *packages)):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    cores = f"{os.cpu_count()} {platform.machine()} cores, {memory:.0f} GiB"
    return f"Machine: {cores}; Python {platform.python_version()}, {', '.join(found)}."
