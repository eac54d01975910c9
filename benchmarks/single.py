"""One evaluation of each metric, the kit beside other libraries: ``python -m benchmarks.single [--rounds 30]``.

Values of all are compared; a peer whose value is further off than ``--tolerance`` has another definition, is marked and
stays out of the ratio. Libraries differ in the last decimals by where they cut equal-mass bins, by how fine a width the
smooth error is searched, and by computing in float32. Functions take turns, all in one
thread, and the processor time of the best round of each counts.
"""

import argparse
import warnings
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks.data import make
from benchmarks.peers import BINS, MCE_BINS, Floats, Ints, Measure, Peer, installed, over_classes
from benchmarks.timing import machine, progress, race, table
from scorer import metrics

TARGET = 1.25
OTHER = "other definition"
TOLERANCE = {"smooth_ece": 1e-3}  # to which the peers halve the width of the kernel


def kit(classes: int) -> dict[str, Measure]:
    """The kit's own functions under the names that the peers use."""
    return {
        "brier": metrics.brier,
        "nll": lambda p, y: metrics.nll(p, y).value,
        "accuracy": metrics.accuracy,
        "ece": lambda p, y: metrics.ece(p, y, bins=BINS).value,
        "ece_width": lambda p, y: metrics.ece_width(p, y, bins=BINS).value,
        "mce": lambda p, y: metrics.mce(p, y, bins=MCE_BINS).value,
        "classwise_ece": lambda p, y: metrics.classwise_ece(p, y, bins=BINS).value,
        "ece_debiased": lambda p, y: metrics.ece_debiased(p, y, bins=BINS).value,
        "smooth_ece": lambda p, y: metrics.smooth_ece(p, y).value,
        "auroc": lambda p, y: metrics.auroc_classwise(p, y).macro.value,
        "auprc": over_classes(lambda p, y: metrics.auprc(p, y).value, classes),
        "corp": over_classes(lambda p, y: metrics.corp(p, y).mcb, classes),
    }


def compared(
    name: str, own: Measure, peers: Sequence[Peer], p: Floats, y: Ints, rounds: int, tolerance: float
) -> tuple[list[str], list[list[str]]]:
    """The row of one metric, and a row for each peer that has it."""
    values = {peer.package: peer.measures[name](p, y) for peer in peers if name in peer.measures}
    functions: dict[str, Callable[[], object]] = {"": partial(own, p, y)}
    for peer in peers:
        if name in peer.measures:
            functions[peer.package] = partial(peer.measures[name], p, y)
    took = race(functions, rounds)
    mine, limit = own(p, y), TOLERANCE.get(name, tolerance)
    same = {package: took[package] for package, value in values.items() if abs(value - mine) <= limit}
    fastest = min(same, key=lambda package: same[package], default="")
    ratio = f"{took[''] / same[fastest]:.2f}" if fastest else "no peer"
    best = f"{1e3 * same[fastest]:.2f}" if fastest else ""
    summary = [name, f"{mine:.6f}", f"{1e3 * took['']:.2f}", fastest, best, ratio]
    notes = [
        [name, package, f"{1e3 * took[package]:.2f}", f"{value - mine:+.1e}", "" if package in same else OTHER]
        for package, value in values.items()
    ]
    return summary, notes


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--patients", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tolerance", type=float, default=1e-4)
    chosen = parser.parse_args()
    warnings.filterwarnings("ignore")
    data = make(chosen.images, chosen.classes, chosen.patients)
    peers = installed(chosen.classes)
    rows, all_notes = [], []
    for name, own in kit(chosen.classes).items():
        progress(name)
        row, notes = compared(name, own, peers, data.p, data.y, chosen.rounds, chosen.tolerance)
        rows.append(row)
        all_notes += notes
    print(machine([peer.package for peer in peers] + ["torch"]), "Torch has one thread.")
    print(f"{chosen.images} images, {chosen.classes} classes. Target: at most {TARGET} times the fastest peer.\n")
    table(["metric", "value", "ours, ms", "fastest peer", "its ms", "ratio"], rows)
    table(["metric", "peer", "ms", "peer - ours", "note"], all_notes)


if __name__ == "__main__":
    main()
