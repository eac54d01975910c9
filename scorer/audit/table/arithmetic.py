"""Tests of a printed table that need no data: definitions, ranges, averages, decimals."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from scorer.audit.shapes import Finding, Level
from scorer.audit.table.cells import Cell, Place, Table, decimals, half_unit

CLEARLY = 0.01  # beyond the rounding of two decimals
MOST_RUNS = 10  # runs whose mean more decimals could be
MOST_DECIMALS = 9  # beyond these a double has noise


def impossible_order(table: Table) -> Iterator[Finding]:
    """MCE against ECE of one cell: the largest gap is never below a weighted mean of the gaps, nor is it below a
    plain one; the largest weighted term is never above their sum."""
    eces, mces = table.called("ece"), table.called("mce")
    ece = {(c.key, c.method): c for c in table.cells if c.metric in eces and not table.is_average(c)}
    pairs = [
        (cell, ece[cell.key, cell.method])
        for cell in table.cells
        if cell.metric in mces and (cell.key, cell.method) in ece and not table.is_average(cell)
    ]
    if not pairs:
        return
    unit = table.unit
    below = [(m, e) for m, e in pairs if m.value < e.value]
    above = [(m, e) for m, e in pairs if m.value > e.value]
    wrong = below if table.layout.mce == "max" else above
    if not wrong:
        return
    clearly = sum(abs(m.value - e.value) > CLEARLY * unit + 1e-9 for m, e in wrong)
    side, other = ("below", "above") if table.layout.mce == "max" else ("above", "below")
    ratio = float(np.median([m.value / e.value for m, e in wrong if e.value > 0] or [math.nan]))
    wrong = sorted(wrong, key=lambda pair: -abs(pair[0].value - pair[1].value))
    yield Finding(
        Level.CONTRADICTION if clearly else Level.NOTE,
        f"mce-{side}-ece",
        f"{len(wrong)} of {len(pairs)} cells have an MCE {side} the ECE ({clearly} by more than {CLEARLY * unit:g}); "
        f"the median of MCE / ECE in them is {ratio:.2f}",
        len(wrong),
        tuple(f"{_apart(m)}: MCE {m.text}, ECE {e.text}" for m, e in wrong),
        assumption="both are computed from the same bins, and the MCE is "
        + ("the largest gap of a bin" if table.layout.mce == "max" else "the largest term of the ECE's sum"),
        chance="never on the same bins; with different bins for the two an MCE can fall below the ECE, but seldom in "
        "most cells",
        explanation=(
            "the largest term of the ECE's sum (gap times the bin's share of images), which some implementations "
            f"return as MCE, is never above the ECE: it would explain these cells; {len(above)} others are above, "
            "which it would forbid"
            if table.layout.mce == "max"
            else f"the largest gap of a bin, unweighted, is never {other} the ECE"
        ),
    )


def out_of_range(table: Table) -> Iterator[Finding]:
    """Values that no accuracy and no calibration error has."""
    most = 100 * table.unit
    wrong = [c for c in table.cells if c.metric in table.names and not -1e-12 <= c.value <= most + 1e-12]
    if wrong:
        yield Finding(
            Level.CONTRADICTION, "out-of-range", f"{len(wrong)} values lie outside 0 to {most:g}", len(wrong),
            tuple(c.shown for c in wrong), assumption=f"values are printed as {table.scale}",
            chance="never, by definition",
            explanation="a slip of the pen, or another scale",
        )  # fmt: skip


def averages(table: Table) -> Iterator[Finding]:
    """Printed averages against the mean of their printed parts."""
    average = table.average
    if average is None:
        return
    parts: dict[tuple[Place, str, str], list[Cell]] = defaultdict(list)
    means: dict[tuple[Place, str, str], Cell] = {}
    for cell in table.cells:
        rest = tuple((name, value) for name, value in cell.place.items() if name != average.column)
        key = (rest, cell.metric, cell.method)
        if table.is_average(cell):
            means[key] = cell
        else:
            parts[key].append(cell)
    wrong, outside, clearly, checked, weighted = list[str](), 0, 0, 0, 0
    unit = CLEARLY * table.unit
    for key, mean in means.items():
        own = parts.get(key, [])
        if not own:
            continue
        checked += 1
        value = math.fsum(c.value for c in own) / len(own)
        slack = half_unit(mean.text) + math.fsum(half_unit(c.text) for c in own) / len(own)
        if abs(value - mean.value) <= slack:
            continue
        weighted += _follows_weighted(table, average.column, own, mean)
        widest = half_unit(mean.text) + max(half_unit(c.text) for c in own)
        beyond = not min(c.value for c in own) - widest <= mean.value <= max(c.value for c in own) + widest
        outside += beyond
        clearly += abs(value - mean.value) > unit + 1e-9
        wrong.append(
            f"{mean.shown}; its {len(own)} parts give {value:.4f}" + (" and it lies outside them" if beyond else "")
        )
    if not wrong:
        return
    guessed = table.layout.average is None
    tail = f"; {weighted} of them follow when the parts are weighted by their images" if table.layout.images else ""
    yield Finding(
        Level.WARNING if guessed and not outside else Level.CONTRADICTION, "average-does-not-follow",
        f"{len(wrong)} of {checked} averages do not follow from their parts ({clearly} by more than {unit:g}, "
        f"{outside} lie outside all of them)",
        len(wrong), tuple(wrong),
        assumption="an average is the unweighted mean of the printed parts; each part may be off by half a unit of "
        "its last decimal, and so may the mean"
        + ("; that these are averages is guessed from their name" if guessed else ""),
        chance="never, if the assumption holds; no weights at all put a mean outside its parts",
        explanation="a part that was changed after the average was computed, an average over other or weighted "
        "parts, or a slip in typing" + tail,
    )  # fmt: skip


def _follows_weighted(table: Table, column: str, own: Sequence[Cell], mean: Cell) -> bool:
    images = table.layout.images
    if images is None or images.column != column or any(c.place[column] not in images.n for c in own):
        return False
    weights = np.array([images.n[c.place[column]] for c in own], dtype=np.float64)
    value = float(np.average([c.value for c in own], weights=weights))
    slack = half_unit(mean.text) + float(np.average([half_unit(c.text) for c in own], weights=weights))
    return abs(value - mean.value) <= slack


def precisions(table: Table) -> Iterator[Finding]:
    """Values printed with more decimals than the rest; averages apart, which often have more."""
    counts: dict[int, list[Cell]] = defaultdict(list)
    for cell in table.cells:
        if not table.is_average(cell):
            counts[decimals(cell.text)].append(cell)
    if not counts:
        return
    usual = max(counts, key=lambda n: len(counts[n]))
    more = [cell for n, cells in counts.items() if n > usual for cell in cells]
    if not more:
        return
    total, most = sum(map(len, counts.values())), max(counts)
    fewer = sum(len(cells) for n, cells in counts.items() if n <= usual)
    runs, by_chance = _runs(more, usual)
    yield Finding(
        Level.NOTE, "other-decimals",
        f"{len(more)} values have more decimals than the usual {usual}", len(more), tuple(c.shown for c in more),
        assumption="values of one table are printed alike",
        chance=f"if all {total:,} values had {most} decimals and closing zeros were dropped, "
        f"{total * 10.0 ** (usual - most):.2g} would show {usual} or fewer; {fewer:,} do",
        explanation=(
            f"means of {runs} runs that were rounded to {usual} decimals: all are multiples of 1/{runs} of the last "
            f"(of arbitrary numbers with their decimals {by_chance:.2g} are, each)"
            if runs
            else "values that came another way than the rest: a spreadsheet's formula, or a late correction"
        ),
    )  # fmt: skip


def _runs(cells: Sequence[Cell], usual: int) -> tuple[int, float]:
    """The fewest runs of which all of ``cells`` can be means, each run with ``usual`` decimals, and the share of
    arbitrary numbers that could be one; (0, 1) where no few runs explain them or any number could be one."""
    values = np.array([c.value for c in cells])
    half = np.array([0.5 * 10.0 ** -min(decimals(c.text), MOST_DECIMALS) for c in cells])
    for runs in range(2, MOST_RUNS + 1):
        steps = values * runs * 10.0**usual
        share = float(np.max(2 * half * runs * 10.0**usual))
        if share < 0.2 and bool(np.all(np.abs(steps - np.round(steps)) <= half * runs * 10.0**usual * 1.001 + 1e-6)):
            return runs, share
    return 0, 1.0


def _apart(cell: Cell) -> str:
    """Where a cell stands, but for its metric."""
    return ", ".join(part for part in (*cell.place.values(), cell.method) if part)
