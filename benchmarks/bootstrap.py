"""Resamples by patient, the kit against the loops that users write over other libraries.

``python -m benchmarks.bootstrap [--images 50000] [--patients 20000] [--classes 5] [--resamples 1000] [--sample 5]``

The kit is measured in full, preparing included, in fresh processes that say their peak memory; code is compiled into an
empty folder first, and that call is stated apart. A loop gathers the rows of the drawn patients and computes the five
metrics anew, in one thread; it is extrapolated from the fastest of a few resamples, metric by metric, which favours it.
Loops and the kit's one thread are compared by processor time, which is wall time on a quiet machine.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Data, make
from benchmarks.peers import BINS, Floats, Ints, Measure, Peer, installed, top
from benchmarks.timing import machine, progress, seconds, table
from scorer.bootstrap import Draws, draws_for, replicates
from scorer.metrics import Plan, plan_for

FIVE = ("brier", "nll", "ece", "classwise_ece", "auroc")
NAMES = {"auroc": "auroc_macro"}  # where the plan's name is another
NEEDED = ("proper", "mass", "rank")
ALL = ("proper", "decisions", "mass", "width", "rank", "selective")
TARGET, TARGET_ALL = 1.3, 5.0


def draws(patients: int, resamples: int) -> Draws:
    """The same draws for the kit and for the loops."""
    return draws_for("benchmark", "all", "", patients=patients, resamples=resamples)


def prepare(data: Data, families: Sequence[str]) -> Plan:
    """The kit's plan for these families."""
    names = [str(k) for k in range(data.p.shape[1])]
    return plan_for("multiclass", names, data.p, data.y, data.patient, data.patients, families=families)


def child(given: dict[str, Any]) -> dict[str, Any]:
    """What one process of the kit takes: seconds of the first call and of the best run, and peak memory in GiB.

    Processor time counts all threads and shows what a busy machine has added.
    """
    small = make(200, given["classes"], 100)
    first = seconds(lambda: replicates([prepare(small, given["families"])], draws(100, 4), workers=given["workers"]))
    data = make(given["images"], given["classes"], given["patients"])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    preparing, whole, cpu = [], [], []
    for _ in range(given["repeats"]):
        start, used = time.perf_counter(), time.process_time()
        plan = prepare(data, given["families"])
        preparing.append(time.perf_counter() - start)
        values = replicates([plan], draws(data.patients, given["resamples"]), workers=given["workers"])[0]
        whole.append(time.perf_counter() - start)
        cpu.append(time.process_time() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    place = {heading.metric: i for i, heading in enumerate(plan.headings) if heading.cases.class_ is None}
    head = values[: given["sample"], [place[NAMES.get(name, name)] for name in FIVE]]
    return {
        "first": first,
        "prepare": min(preparing),
        "whole": min(whole),
        "cpu": min(cpu),
        "before": before,
        "peak": peak,
        "metrics": values.shape[1],
        "head": head.tolist(),
    }


def measured(given: Mapping[str, Any], kept: str) -> dict[str, Any]:
    """:func:`child` in a process of its own, with compiled code in the folder ``kept``."""
    progress(f"kit: {given['images']} images, {len(given['families'])} families, {given['workers']} thread(s)")
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bootstrap", "--child", json.dumps(given)],
        env={**os.environ, "NUMBA_CACHE_DIR": kept},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def ranked(score: Floats, outcome: Floats) -> tuple[float, float]:
    """Equal-mass error by the kit's rule, and AUROC, from one sort; plain numpy."""
    n = len(score)
    order = np.argsort(score)
    ordered, event = score[order], outcome[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    last = np.append(first[1:], n)
    places = -(-BINS * (first + last) // (2 * n)) - 1  # the group's midpoint decides its bin
    gap = np.bincount(places, np.add.reduceat(event - ordered, first), BINS)
    events = event.sum()
    below = (np.add.reduceat(event, first) * (first + last) / 2.0).sum() - events**2 / 2.0
    area = below / (events * (n - events)) if 0.0 < events < n else float("nan")
    return float(np.abs(gap).sum() / n), float(area)


def five(p: Floats, y: Ints) -> NDArray[np.float64]:
    """The five metrics as a careful user of numpy writes them."""
    own = p[np.arange(len(y)), y]
    brier = np.mean(np.einsum("ij,ij->i", p, p) - 2.0 * own + 1.0)
    nll = -np.mean(np.log(np.maximum(own, 1e-12)))
    classes = np.array([ranked(p[:, k], (y == k).astype(np.float64)) for k in range(p.shape[1])])
    return np.array([brier, nll, ranked(*top(p, y))[0], *classes.mean(axis=0)])


def loops(data: Data, peers: Sequence[Peer], sample: int) -> tuple[dict[tuple[str, str], float], Floats]:
    """Best processor seconds a resample by (library, metric), ("numpy", "five") and ("", "gather"); numpy's values."""
    measures: dict[tuple[str, str], Measure] = {
        (peer.package, name): peer.measures[name] for peer in peers for name in FIVE if name in peer.measures
    }
    best: dict[tuple[str, str], float] = {}

    def keep(name: tuple[str, str], taken: float) -> None:
        best[name] = min(taken, best.get(name, float("inf")))

    for measure in measures.values():  # warm
        measure(data.p, data.y)
    values = []
    order = np.argsort(data.patient, kind="stable")
    for b, weights in enumerate(draws(data.patients, sample).block(0, sample)):
        progress(f"loops: resample {b + 1} of {sample}")
        start = time.process_time()
        rows = np.repeat(order, weights[data.patient[order]].astype(np.int64))
        p, y = data.p[rows], data.y[rows]
        keep(("", "gather"), time.process_time() - start)
        start = time.process_time()
        values.append(five(p, y))
        keep(("numpy", "five"), time.process_time() - start)
        for name, measure in measures.items():
            start = time.process_time()
            measure(p, y)
            keep(name, time.process_time() - start)
    return best, np.array(values)


def loop_rows(
    best: Mapping[tuple[str, str], float], peers: Sequence[Peer], resamples: int, ours: Sequence[float]
) -> list[list[str]]:
    """A row for each loop: seconds for all resamples, ratios to ours, and what scikit-learn fills in."""
    gather = best["", "gather"]
    totals = [("numpy, gather and recompute", gather + best["numpy", "five"], "")]
    for peer in peers:
        lacks = [name for name in FIVE if (peer.package, name) not in best]
        if len(lacks) == len(FIVE) or ("scikit-learn", FIVE[0]) not in best:
            continue
        parts = [best[("scikit-learn" if name in lacks else peer.package), name] for name in FIVE]
        totals.append((f"{peer.package} {peer.version}", gather + sum(parts), ", ".join(lacks)))
    return [
        [name, f"{resamples * each:.0f}", *(f"{resamples * each / own:.0f}" for own in ours), lacks]
        for name, each, lacks in sorted(totals, key=lambda one: one[1])
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--patients", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--resamples", type=int, default=1_000)
    parser.add_argument("--sample", type=int, default=5, help="resamples from which a loop is extrapolated")
    parser.add_argument("--repeats", type=int, default=3, help="runs of the kit, of which the best counts")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    if chosen.child is not None:
        print(json.dumps(child(json.loads(chosen.child))))
        return
    given = {name: value for name, value in vars(chosen).items() if name != "child"}
    twice = {**given, "images": 2 * chosen.images, "patients": 2 * chosen.patients}
    runs = {
        (families, workers, size["images"]): {**size, "families": families, "workers": workers}
        for size in (given, twice)
        for families in (NEEDED, ALL)
        for workers in (1, 2)
    }
    with tempfile.TemporaryDirectory() as kept:
        compiling = measured({**given, "families": ALL, "workers": 1, "repeats": 1, "resamples": 10}, kept)
        found = {run: measured(settings, kept) for run, settings in runs.items()}
    peers = installed(chosen.classes)
    data = make(chosen.images, chosen.classes, chosen.patients)
    best, values = loops(data, peers, chosen.sample)

    print(machine([peer.package for peer in peers] + ["torch"]), "Torch has one thread.")
    print(f"{chosen.images} images, {chosen.classes} classes, {chosen.patients} patients; 1 to 25 images each.\n")
    head = [f"the kit, best of {chosen.repeats}", "metrics", "threads", "images"]
    head += ["preparing", "in all", "processor time", "peak"]
    rows, growth = [], []
    for (families, workers, images), one in found.items():
        what = "families of the five metrics" if families == NEEDED else "all additive, rank and binned families"
        times = [f"{one[key]:.2f} s" for key in ("prepare", "whole", "cpu")]
        rows.append([what, str(one["metrics"]), str(workers), f"{images:,}", *times, f"{one['peak']:.2f} GiB"])
        if images == chosen.images:
            growth.append(f"{found[families, workers, 2 * images]['cpu'] / one['cpu']:.2f}")
    table(head, rows)
    own = [found[NEEDED, workers, chosen.images] for workers in (1, 2)]
    print(f"Targets: {TARGET} s and {TARGET_ALL} s for {1_000:,} resamples; growth 2.2 for twice the images.")
    print(f"Growth of processor time for twice the images, in the order of the first four rows: {', '.join(growth)}.")
    print(f"First call of a process: {compiling['first']:.1f} s compiling, {own[0]['first']:.2f} s with code kept.")
    print(f"Memory of a process before it prepares (interpreter, libraries, data): {own[0]['before']:.2f} GiB.")
    print("Both threads give the same bytes for the sampled resamples:", own[0]["head"] == own[1]["head"])
    worst = np.abs(values - np.array(own[0]["head"])).max(axis=0)
    print("Largest difference to numpy on the same draws:", dict(zip(FIVE, worst.tolist(), strict=True)), "\n")
    ours = [own[0]["cpu"], own[1]["whole"]]
    columns = ["s", "x the kit, 1 thread", "x the kit, 2 threads (wall)", "filled with scikit-learn"]
    print(f"{chosen.resamples:,} resamples of {', '.join(FIVE)}, extrapolated from {chosen.sample}:\n")
    table(["loop", *columns], loop_rows(best, peers, chosen.resamples, ours))
    print(f"The kit, measured: {ours[0]:.2f} s of a processor with one thread, {ours[1]:.2f} s by the clock with two.")


if __name__ == "__main__":
    main()
