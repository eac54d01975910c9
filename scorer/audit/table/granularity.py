"""Accuracies that no whole number of test images gives: needs no data but the number of images."""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table.cells import Cell, Table, decimals
from scorer.audit.table.layout import Images

MOST_NUMBERS = 1_000_000  # that are looked at to find the share which can be reached; a regular grid of them beyond
NO_POWER = 0.95  # share of all numbers that can be reached
MOST_RUNS = 20


def accuracies(table: Table) -> Iterator[Finding]:
    """Accuracies against k of n images, the mean of ``seeds`` runs: k / (n seeds), rounded either way or cut off.

    Source: the GRIM test of means of whole numbers, Brown and Heathers 2017, doi:10.1177/1948550616673876.
    """
    images = table.layout.images
    if images is None:
        return
    if images.column not in table.columns:
        raise AuditError(f"images: the table has no column {images.column!r}; it has {', '.join(table.columns)}")
    groups: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    accurate = table.called("accuracy")
    for cell in table.cells:
        name = table.part(cell, images.column)
        if cell.metric in accurate and name in images.n and not table.is_average(cell):
            groups[name, decimals(cell.text)].append(cell)
    if not groups:
        raise AuditError(f"images: no accuracy has one of {', '.join(images.n)} in column {images.column!r}")
    tested, fits, weak, wrong, powers = 0, 0.0, list[str](), list[str](), list[str]()
    for (name, places), cells in groups.items():
        n = images.n[name]
        share = reachable_share(places, n, images, table.unit)
        if share > NO_POWER:
            weak.append(f"{name}: {share:.1%} of all numbers with {places} decimals are k of {n:,} images")
            continue
        values = np.array([cell.value for cell in cells]) / table.unit
        off = [c for c, ok in zip(cells, reachable(values, places, n, images, table.unit), strict=True) if not ok]
        tested += len(cells)
        fits += share * len(cells)
        powers.append(f"{1 - share:.1%} with n = {n:,}")
        if off:
            tail = _runs_that_fit(values, places, n, images, table.unit) if len(off) > 1 else ""
            wrong += [f"{c.shown}; {_nearest(c, n, images, table)}{tail}" for c in off]
    assumption = f"k of n images are right, k is whole, {_of_runs(images)}; rounded either way or cut off"
    if wrong:
        yield Finding(
            Level.CONTRADICTION, "accuracy-of-no-count",
            f"{len(wrong)} of {tested} accuracies are given by no whole number of test images", len(wrong),
            tuple(wrong), assumption=assumption,
            chance=f"never, if n is right; of arbitrary numbers it finds out {', '.join(dict.fromkeys(powers))}: "
            f"{tested - fits:.1f} of {tested} expected",
            explanation="another number of images or runs than the layout says, an accuracy averaged over classes, "
            "or a slip in typing",
        )  # fmt: skip
    elif tested:
        yield Finding(
            Level.NOTE, "accuracies-are-counts",
            f"all {tested} accuracies are whole numbers of test images", tested, assumption=assumption,
            chance=f"of {tested} arbitrary numbers {fits:.1f} would be",
        )  # fmt: skip
    if weak:
        yield Finding(
            Level.NOTE, "counts-untestable",
            f"the test of whole numbers of images has no power for {len(weak)} groups: n is large for so few decimals",
            len(weak), tuple(weak), assumption=assumption,
        )  # fmt: skip


def reachable(values: NDArray[np.float64], places: int, n: int, images: Images, unit: float = 1.0) -> NDArray[np.bool_]:
    """Whether each of ``values`` (N,), in percent, printed with ``places`` decimals in units of ``unit`` percent,
    can be a share of n images."""
    digit = 10.0**-places / unit
    half = digit / 2
    if images.run_decimals is not None:
        half += 0.5 * 10.0**-images.run_decimals / unit
    step = 100.0 / (n * images.seeds)
    noise = 1e-9 + 1e-12 * 100
    rounded = np.abs(values - np.round(values / step) * step) <= half + noise
    above = np.ceil((values - noise) / step) * step  # the next share at or above: cut off, it prints the value
    return (rounded | (above - values < digit - noise)) & (values >= -noise) & (values <= 100 + noise)


def reachable_share(places: int, n: int, images: Images, unit: float = 1.0) -> float:
    """The share of all numbers from 0 to 100 percent with ``places`` decimals that can be a share of n images."""
    count = round(100 * unit * 10**places)
    if count < 1:
        return 1.0
    at = np.arange(count + 1) if count <= MOST_NUMBERS else np.linspace(0, count, MOST_NUMBERS + 1).round()
    return float(reachable(at * (10.0**-places / unit), places, n, images, unit).mean())


def _of_runs(images: Images) -> str:
    if images.seeds == 1:
        return "one run"
    before = "" if images.run_decimals is None else f", each rounded to {images.run_decimals} decimals"
    return f"the mean of {images.seeds} runs{before}"


def _nearest(cell: Cell, n: int, images: Images, table: Table) -> str:
    total = n * images.seeds
    k = int(np.floor(cell.value / table.unit / 100 * total))
    near = " and ".join(f"{j:,} = {j / total * 100 * table.unit:.6g}" for j in (k, k + 1))
    return f"of {total:,} images {near}"


def _runs_that_fit(values: NDArray[np.float64], places: int, n: int, images: Images, unit: float) -> str:
    """The fewest runs whose mean gives all of ``values``, where arbitrary numbers seldom would."""
    for runs in range(1, MOST_RUNS + 1):
        other = images.model_copy(update={"seeds": runs})
        if reachable_share(places, n, other, unit) > 0.5:
            return ""
        if bool(reachable(values, places, n, other, unit).all()):
            return f"; means of {runs} runs would give all of this n"
    return ""
