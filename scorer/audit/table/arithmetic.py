"""Tests of a printed table that need no data: definitions, ranges, averages, repeats, and cells unlike their peers."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

import numpy as np

from scorer.audit.shapes import Finding, Level
from scorer.audit.table.cells import Cell, Table, decimals, half_unit

CLEARLY = 0.01  # beyond the rounding of two decimals
FAR = 8.0  # robust standard deviations
FEWEST_PEERS = 8
FEWEST_IN_BLOCK = 4  # methods whose values are equal
MOST_ALIKE = 200  # places of one value that are compared with each other
Key = tuple[tuple[str, str], ...]


def impossible_order(table: Table) -> Iterator[Finding]:
    """MCE against ECE of one cell: the largest gap is never below a weighted mean of the gaps, nor is it below a
    plain one; the largest weighted term is never above their sum."""
    ece = {(c.key, c.method): c for c in table.cells if c.metric in table.called("ece") and not table.is_average(c)}
    pairs = [
        (cell, ece[cell.key, cell.method])
        for cell in table.cells
        if cell.metric in table.called("mce") and (cell.key, cell.method) in ece and not table.is_average(cell)
    ]
    if not pairs:
        return
    unit = 1.0 if table.layout.scale == "percent" else 0.01
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
        tuple(f"{', '.join([*m.place.values(), m.method])}: MCE {m.text}, ECE {e.text}" for m, e in wrong),
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
    most = 100.0 if table.layout.scale == "percent" else 1.0
    wrong = [c for c in table.cells if c.metric in table.names and not -1e-12 <= c.value <= most + 1e-12]
    if wrong:
        yield Finding(
            Level.CONTRADICTION, "out-of-range", f"{len(wrong)} values lie outside 0 to {most:g}", len(wrong),
            tuple(c.shown for c in wrong), assumption=f"values are printed as {table.layout.scale}", chance="never",
            explanation="a slip of the pen, or another scale",
        )  # fmt: skip


def averages(table: Table) -> Iterator[Finding]:
    """Printed averages against the mean of their printed parts."""
    average = table.layout.average
    if average is None:
        return
    parts: dict[tuple[Key, str, str], list[Cell]] = defaultdict(list)
    means: dict[tuple[Key, str, str], Cell] = {}
    for cell in table.cells:
        rest = tuple((name, value) for name, value in cell.place.items() if name != average.column)
        key = (rest, cell.metric, cell.method)
        if table.is_average(cell):
            means[key] = cell
        else:
            parts[key].append(cell)
    wrong, outside, clearly, checked = list[str](), 0, 0, 0
    unit = CLEARLY if table.layout.scale == "percent" else CLEARLY / 100
    for key, mean in means.items():
        own = parts.get(key, [])
        if len(own) < 1:
            continue
        checked += 1
        value = math.fsum(c.value for c in own) / len(own)
        slack = half_unit(mean.text) + math.fsum(half_unit(c.text) for c in own) / len(own)
        if abs(value - mean.value) <= slack:
            continue
        beyond = not min(c.value for c in own) - slack <= mean.value <= max(c.value for c in own) + slack
        outside += beyond
        clearly += abs(value - mean.value) > unit + 1e-9
        wrong.append(
            f"{mean.shown}; its {len(own)} parts give {value:.4f}" + (" and it lies outside them" if beyond else "")
        )
    if wrong:
        yield Finding(
            Level.CONTRADICTION, "average-does-not-follow",
            f"{len(wrong)} of {checked} averages do not follow from their parts ({clearly} by more than {unit:g}, "
        f"{outside} lie outside all of them)",
            len(wrong), tuple(wrong),
            assumption="an average is the unweighted mean of the printed parts; each part may be off by half a unit of "
            "its last decimal, and so may the mean",
            chance="never, if the assumption holds",
            explanation="a part that was changed after the average was computed, an average over other or weighted "
            "parts, or a slip in typing",
        )  # fmt: skip


def repeated_blocks(table: Table) -> Iterator[Finding]:
    """Places that share the values of several methods of one metric, linked place by place."""
    place_of: dict[str, list[str]] = defaultdict(list)
    holders: dict[tuple[str, str, float], list[int]] = defaultdict(list)
    number: dict[tuple[str, Key], int] = {}
    for cell in table.cells:
        if not table.is_average(cell):
            at = number.setdefault((cell.metric, cell.key), len(number))
            holders[cell.metric, cell.method, round(cell.value, 2)].append(at)
    shared: Counter[tuple[int, int]] = Counter()
    alike: dict[tuple[int, int], set[float]] = defaultdict(set)
    equal = 0
    for (_, _, value), places in holders.items():
        equal += len(places) * (len(places) - 1) // 2
        for pair in combinations(sorted(places[:MOST_ALIKE]), 2):
            shared[pair] += 1
            alike[pair].add(value)
    by_method: Counter[tuple[str, str]] = Counter()
    for (metric, method, _), places in holders.items():
        by_method[metric, method] += len(places)
    pairs = sum(n * (n - 1) // 2 for n in by_method.values())
    linked = [pair for pair, n in shared.items() if n >= FEWEST_IN_BLOCK and len(alike[pair]) > 1]
    if not linked:
        return
    names = {at: (metric, ", ".join(value for _, value in key)) for (metric, key), at in number.items()}
    groups = _joined(linked)
    for group in groups:
        place_of[names[group[0]][0]].append(" = ".join(names[at][1] for at in group))
    said = [f"{metric}: {where}" for metric, several in place_of.items() for where in several]
    at_random = (
        math.comb(len(number), 2)
        * math.comb(len({c.method for c in table.cells}), FEWEST_IN_BLOCK)
        * (equal / max(pairs, 1)) ** FEWEST_IN_BLOCK
    )
    yield Finding(
        Level.WARNING, "values-repeated",
        f"{len(groups)} groups of places share the values of {FEWEST_IN_BLOCK} methods or more "
        f"({', '.join(f'{len(w)} of {m}' for m, w in place_of.items())}; {sum(map(len, groups))} places)",
        len(groups), tuple(sorted(said, key=lambda one: (-one.count(" = "), one))),
        assumption="different places are different experiments; compared to two decimals",
        chance=f"two values of one method are equal in {equal / max(pairs, 1):.2%} of pairs here, repeats counted; if "
        f"so independently, {at_random:.1g} such pairs of places would be expected, {len(linked)} were found",
        explanation="numbers copied from one place to another, or one experiment printed under several names",
    )  # fmt: skip


def _joined(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """The groups that ``pairs`` link, in order of their first member."""
    group: dict[int, list[int]] = {}
    for first, second in sorted(pairs):
        one, other = group.setdefault(first, [first]), group.setdefault(second, [second])
        if one is not other:
            one += other
            group.update(dict.fromkeys(other, one))
    return [sorted(own) for at, own in sorted(group.items()) if at == min(own)]


def unlike_peers(table: Table) -> Iterator[Finding]:
    """Cells far from the other methods at their place, where these agree."""
    groups: dict[tuple[Key, str], list[Cell]] = defaultdict(list)
    for cell in table.cells:
        if cell.metric in table.names and not table.is_average(cell):
            groups[cell.key, cell.metric].append(cell)
    found: list[tuple[float, Cell, float]] = []
    floor = 1.0 if table.layout.scale == "percent" else 0.01
    for cells in groups.values():
        if len(cells) < FEWEST_PEERS:
            continue
        values = np.array([c.value for c in cells])
        middle = float(np.median(values))
        spread = max(1.4826 * float(np.median(np.abs(values - middle))), floor)
        found += [(abs(c.value - middle) / spread, c, middle) for c in cells]
    of_method: dict[tuple[str, str], list[float]] = defaultdict(list)
    for _, cell, _ in found:
        of_method[cell.metric, cell.method].append(cell.value)
    far = sorted(
        (
            item
            for item in found
            if item[0] > FAR and _extreme(item[1].value, item[2], of_method[item[1].metric, item[1].method])
        ),
        key=lambda item: -abs(item[1].value - item[2]),
    )
    if far:
        yield Finding(
            Level.WARNING, "unlike-its-peers",
            f"{len(far)} of {len(found)} values lie more than {FAR:g} robust standard deviations from the other "
            "methods at their place, and beyond every other value of their own method",
            len(far), tuple(f"{c.shown} (median of the methods {middle:.2f})" for _, c, middle in far),
            assumption=f"methods differ mildly; spread is 1.4826 x the median absolute deviation, {floor:g} at least",
            chance="1 in 10^15 values if they were normal and the spread known; they need not be: a method can fail",
            explanation="a run that failed, a slip in typing, or a true collapse of the method there",
        )  # fmt: skip


def _extreme(value: float, middle: float, own: list[float]) -> bool:
    """Whether ``value`` is the outermost of ``own`` on its side of ``middle``."""
    return value == (max(own) if value > middle else min(own))


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
    if more:
        yield Finding(
            Level.NOTE, "other-decimals",
            f"{len(more)} values have more decimals than the usual {usual}", len(more), tuple(c.shown for c in more),
            assumption="values of one table are printed alike", chance="never",
            explanation="values that came another way than the rest: a spreadsheet's formula, or a late correction",
        )  # fmt: skip
