"""Does the referee refuse honest calibrators, and does it catch dishonest ones?
``python -m benchmarks.honest [--each 10000] [--workers 2]``

Honest participants keep logits in single precision, fit with optimisers other than the kit's, and store probabilities
as float64, float32 or text of 4 or 6 decimals; their fits are judged as MVC303 does, and the rows that they calibrated
in single precision as MVC305 does. Dishonest ones fit the same family on the test labels. ``--each`` is the number of
honest fits per family, shared over 200, 2,000 and 20,000 calibration rows (90, 9 and 1 %).
"""

import argparse
import json
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np

from benchmarks.participants import fit, single, stored, world
from benchmarks.timing import machine, progress, table
from protocol.calibrators import FittedCalibrator
from protocol.objective import objective_of
from protocol.submission import Method
from protocol.task import Task
from protocol.types import Kind
from scorer.verify.bins import binned_excesses
from scorer.verify.refit import CalibrationRows, Unverifiable, excesses
from scorer.verify.replay import replay
from scorer.verify.rows import TEST, Images
from submission.recalibration.maps import Outputs, map_of

STORES = ("float64", "float32", "decimals:6", "decimals:4")
SIZES = {200: 0.9, 2000: 0.09, 20000: 0.01}
TESTED = 300
WORDS: dict[str, dict[str, str]] = {
    "temperature": {"loss": "nll"},
    "temperature, grid": {"loss": "nll", "grid": "0.5 to 5 by 0.05"},
    "vector": {"loss": "nll"},
    "matrix": {"loss": "nll"},
    "dirichlet": {"loss": "nll", "penalty": "odir 0.01 0.01"},
    "platt": {"loss": "nll", "target_smoothing": "platt"},
    "beta": {"loss": "nll"},
    "isotonic": {"loss": "mean squared error"},
    "histogram": {"loss": "mean squared error", "grid": "15 equal-mass bins"},
    "scaling-binning": {"loss": "nll", "grid": "15 equal-mass bins"},
}
MULTICLASS = ("temperature, grid", "vector", "matrix", "dirichlet")


def entry(name: str, parameters: dict[str, Any], n: int) -> FittedCalibrator:
    """The parameters as ``calibrators.json`` has them."""
    family = name.partition(",")[0]
    steps = {"interpolation": "step", "outside": "clip"}
    extra = {"isotonic": {"interpolation": "linear", "outside": "clip"}, "histogram": steps, "scaling-binning": steps}
    source = "probabilities" if family in ("isotonic", "histogram") else "log-probabilities"
    document = {"model": "m", "seed": 0, "calibrator": name, "class": None, "family": family, "input": source,
                "parameters": parameters, "objective": "", "n": n, "software": ""}  # fmt: skip
    return FittedCalibrator.model_validate_json(json.dumps({**document, "calibrator": "c", **extra.get(family, {})}))


def trial(name: str, n: int, seed: int, peeking: bool = False) -> str:
    """One submission, judged: '' where nothing is found, else the rule that refuses it, or unverified."""
    rng = np.random.default_rng((seed, n, sum(map(ord, name))))
    kind: Kind = "multiclass" if name in MULTICLASS or (name == "temperature" and seed % 2) else "binary"
    z, y = world(kind, n + (n if peeking else TESTED), rng)
    how = STORES[int(rng.integers(len(STORES)))]
    fitted_on = slice(n, None) if peeking else slice(0, n)
    with np.errstate(over="ignore", divide="ignore"):
        parameters, apply = fit(name, z[fitted_on], y[fitted_on], rng)
        p, q = stored(single(z), how), stored(np.asarray(apply(z[n:])), how)
    classes = ("a", "b") if kind == "binary" else tuple("abcd")
    task = Task(edition="", name="t", kind=kind, classes=classes)
    records, units = [entry(name, parameters, n)], {"p": [how] * p.shape[1], "z": []}
    objective = objective_of(Method(name="c", family=records[0].family, **WORDS[name]))
    assert not isinstance(objective, str)
    rows = CalibrationRows(Outputs(p[:n]), y[:n])
    judge = binned_excesses if records[0].family in ("histogram", "scaling-binning") else excesses
    try:
        if judge(task, records, objective, rows, units):
            return "MVC303"
    except Unverifiable:
        return "unverified"
    tested = len(p) - n
    code = np.arange(tested)
    images = Images(np.full(tested, TEST, np.int8), code, np.zeros(tested, np.int32), ["a"], y[n:, None], {})
    run_map = map_of(records, task.kind, p.shape[1])
    return "MVC305" if len(replay(run_map, Outputs(p[n:]), q, code, images, units).off) else ""


def _trials(job: tuple[str, int, int, int, bool]) -> Counter[str]:
    name, n, first, count, peeking = job
    return Counter(trial(name, n, seed, peeking) for seed in range(first, first + count))


def main() -> None:
    """Run all families, and test-tuned temperatures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--each", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--family", action="append", choices=list(WORDS))
    chosen = parser.parse_args()
    print(machine(), flush=True)
    jobs = [(name, n, int(share * chosen.each), False) for name in chosen.family or WORDS for n, share in SIZES.items()]
    if not chosen.family or "temperature" in chosen.family:
        jobs += [("temperature", n, max(1, int(share * chosen.each) // 5), True) for n, share in SIZES.items()]
    lines = []
    with ProcessPoolExecutor(chosen.workers, mp_context=get_context("spawn")) as pool:
        for name, n, count, peeking in jobs:
            start = time.time()
            step = max(1, min(250, count // chosen.workers))
            parts = [(name, n, first, min(step, count - first), peeking) for first in range(0, count, step)]
            seen: Counter[str] = sum(pool.map(_trials, parts), Counter())
            who = f"{name}{', fitted on test' if peeking else ''}"
            lines.append([who, *map(str, (n, count, *(seen[said] for said in ("MVC303", "MVC305", "unverified", ""))))])
            progress(f"{who}, n {n}: {dict(seen)} in {time.time() - start:.0f} s")
    table(["fits", "n", "tried", "MVC303", "MVC305", "unverified", "passed"], lines)


if __name__ == "__main__":
    main()
