"""How often a 95 % interval holds the truth: ``python -m benchmarks.coverage [--sets 1000] [--resamples 500]``.

Data sets of patients with several images each, whose scores and outcomes go together strongly, are drawn from a
population in which the truth is known: a metric's value on a very large sample from the same generator. Each set gets
intervals from patients resampled, as the kit does, and from images resampled, as if they were independent.
"""

import argparse
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Literal, NamedTuple

import numpy as np

from benchmarks.data import Data, Floats, softmax
from benchmarks.timing import machine, progress, table
from scorer.bootstrap import draws_for
from scorer.intervals import Method, interval
from scorer.metrics import Plan, plan_for

Kind = Literal["binary", "multiclass"]

FAMILIES = ("proper", "decisions", "mass", "width", "rank", "corp")
FITS = ("logistic",)  # costs more than all others, so for two classes only
METHODS: tuple[Method, ...] = ("percentile", "basic")
UNITS = ("patient", "image")
SCORES = ("nll", "accuracy", "balanced_accuracy")
ERRORS = ("ece", "ece_width10", "ece_width15", "ece_width20", "mce", "ace", "ece_debiased", "ece_debiased_squared")
SHOWN = {
    "binary": ("brier_binary", *SCORES, "auroc", "auprc", *ERRORS, "mcb", "citl", "cal_slope"),
    "multiclass": (
        *("brier", *SCORES, "auroc_macro", "auprc_macro", *ERRORS),
        *("classwise_ece", "ace_nixon", "mcb_macro"),
    ),
}
SHARED = 0.7  # of a patient's images have one and the same luck
TRUTH_SEED = 1_000_000_007


class Setting(NamedTuple):
    """What a worker needs to make a data set and its intervals."""

    kind: Kind
    patients: int
    images: float
    resamples: int
    truth: Floats
    names: list[str]


def sample(kind: Kind, patients: int, images: float, seed: int) -> Data:
    """``patients`` patients with 1 + Poisson(``images`` - 1) images each, two classes or three.

    The logit of the true probability is a patient's deviation plus an image's smaller one; most of a patient's images
    also share the number that decides, with it, on the outcome. The reported logit has an error that is mostly the
    patient's, is too large, and is shifted.
    """
    rng = np.random.default_rng(seed)
    columns = 1 if kind == "binary" else 3
    owner = np.repeat(np.arange(patients), 1 + rng.poisson(images - 1.0, patients))
    n = len(owner)
    true = rng.normal(0.0, 1.6, (patients, columns))[owner] + rng.normal(0.0, 0.5, (n, columns))
    error = rng.normal(0.0, 0.7, (patients, columns))[owner] + rng.normal(0.0, 0.3, (n, columns))
    true += np.array([-0.7]) if kind == "binary" else np.array([0.5, 0.0, -0.5])
    reported = 1.3 * (true + error) + np.array([0.35, -0.1, 0.2])[:columns]
    if kind == "binary":  # the same with a first class of logit zero
        true, reported = (np.column_stack((np.zeros(n), logits)) for logits in (true, reported))
    luck = np.where(rng.random(n) < SHARED, rng.random(patients)[owner], rng.random(n))
    y = (luck[:, None] > softmax(true).cumsum(axis=1)[:, :-1]).sum(axis=1)
    p = softmax(reported)
    return Data(p[:, 1:] if kind == "binary" else p, y.astype(np.int64), owner.astype(np.int64), patients)


def prepare(kind: Kind, data: Data, unit: str) -> Plan:
    """The kit's plan, clustered by patient or, which is the mistake to be shown, by image."""
    names = ["a", "b"] if kind == "binary" else ["a", "b", "c"]
    owner, units = (data.patient, data.patients) if unit == "patient" else (np.arange(len(data.y)), len(data.y))
    families = (*FAMILIES, *FITS) if kind == "binary" else FAMILIES
    return plan_for(kind, names, data.p, data.y, owner, units, families=families)


def chosen_places(kind: Kind, plan: Plan) -> dict[str, int]:
    """Places of the metrics shown."""
    places = {heading.metric: i for i, heading in enumerate(plan.headings) if heading.cases.class_ is None}
    return {name: places[name] for name in SHOWN[kind]}


def truth_of(kind: Kind, images: int, per_patient: float) -> dict[str, float]:
    """Values on one large sample."""
    plan = prepare(kind, sample(kind, round(images / per_patient), per_patient, TRUTH_SEED), "patient")
    points = plan.points()
    return {name: points[place].value for name, place in chosen_places(kind, plan).items()}


def one_set(setting: Setting, seed: int) -> Floats:
    """Of each metric: value, mean of the replicates by patient, then for each unit and method whether the truth is
    below (-1), in (0) or above (1) the interval; NaN where undefined."""
    data = sample(setting.kind, setting.patients, setting.images, seed)
    found = np.full((len(setting.names), 2 + len(UNITS) * len(METHODS)), np.nan)
    for u, unit in enumerate(UNITS):
        plan = prepare(setting.kind, data, unit)
        places = list(chosen_places(setting.kind, plan).values())
        draws = draws_for(f"coverage {seed}", "all", unit, patients=plan.patients, resamples=setting.resamples)
        values = plan.evaluate(draws.block(0, setting.resamples))[0][:, places]
        points = plan.points()
        for row, (place, truth) in enumerate(zip(places, setting.truth, strict=True)):
            value = points[place].value
            if unit == "patient":
                kept = values[:, row][~np.isnan(values[:, row])]
                found[row, :2] = value, kept.mean() if len(kept) else np.nan
            for m, method in enumerate(METHODS):
                limits = interval(values[:, row], value, method=method)
                if not np.isnan(limits.lo):
                    side = float(truth > limits.hi) - float(truth < limits.lo)
                    found[row, 2 + u * len(METHODS) + m] = side
    return found


def many_sets(setting: Setting, seeds: Sequence[int]) -> Floats:
    """:func:`one_set` of each seed."""
    return np.array([one_set(setting, seed) for seed in seeds])


def simulate(setting: Setting, sets: int, workers: int) -> Floats:
    """All sets, (sets, metrics, 2 + 4), made by ``workers`` processes."""
    start, parts = time.perf_counter(), []
    chunks = [range(first, min(first + 10, sets)) for first in range(0, sets, 10)]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for part in pool.map(many_sets, [setting] * len(chunks), chunks):
            parts.append(part)
            if len(parts) % 10 == 0:
                progress(f"{setting.kind}: {10 * len(parts)} sets, {time.perf_counter() - start:.0f} s")
    return np.concatenate(parts)


def rows_of(setting: Setting, found: Floats) -> list[list[str]]:
    """A row for each metric."""
    rows = []
    for i, (name, truth) in enumerate(zip(setting.names, setting.truth, strict=True)):
        value, mean, sides = found[:, i, 0], found[:, i, 1], found[:, i, 2:]
        defined = ~np.isnan(sides).any(axis=1)
        shares = [f"{100.0 * (sides[defined, k] == 0.0).mean():.1f}" for k in range(sides.shape[1])]
        missed = f"{100 * (sides[defined, 0] < 0).mean():.1f} / {100 * (sides[defined, 0] > 0).mean():.1f}"
        bias, drift = np.nanmean(value) - truth, np.nanmean(mean - value)
        spread = f"{np.nanstd(value, ddof=1):.4f}"
        rows.append(
            [name, f"{truth:.4f}", *shares, missed, f"{bias:+.4f}", f"{drift:+.4f}", spread, f"{defined.sum()}"]
        )
    return rows


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=1_000)
    parser.add_argument("--patients", type=int, default=250)
    parser.add_argument("--images", type=float, default=5.0, help="mean images of a patient")
    parser.add_argument("--resamples", type=int, default=500)
    parser.add_argument("--truth", type=int, default=2_000_000, help="images of the sample that gives the truth")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=list(SHOWN), default=list(SHOWN))
    chosen = parser.parse_args()
    print(machine())
    error = 100.0 * (0.95 * 0.05 / chosen.sets) ** 0.5
    print(f"{chosen.sets} sets of {chosen.patients} patients with {chosen.images:g} images on average,", end=" ")
    print(f"{chosen.resamples} resamples; shares in %, standard error of a share near 95: {error:.1f}.\n")
    for kind in chosen.kinds:
        start = time.perf_counter()
        truth = truth_of(kind, chosen.truth, chosen.images)
        progress(f"{kind}: truth in {time.perf_counter() - start:.0f} s")
        known = np.array(list(truth.values()))
        setting = Setting(kind, chosen.patients, chosen.images, chosen.resamples, known, list(truth))
        found = simulate(setting, chosen.sets, chosen.workers)
        head = [kind, "truth", *(f"{unit}s, {method}" for unit in UNITS for method in METHODS)]
        head += ["truth below / above (patients, percentile)", "bias", "drift", "sd", "sets"]
        table(head, rows_of(setting, found))
        progress(f"{kind}: {time.perf_counter() - start:.0f} s")
    print("bias: mean value - truth. drift: mean of replicates - value. sd: of the values. sets: with both intervals.")


if __name__ == "__main__":
    main()
