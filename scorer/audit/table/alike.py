"""Tests of a printed table's values against each other: blocks that repeat, and cells unlike their peers."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import combinations

import numpy as np

from protocol.findings import counted
from scorer.audit.shapes import Finding, Level
from scorer.audit.table.cells import Cell, Place, Table

FAR = 8.0  # robust standard deviations
FEWEST_PEERS = 8
FEWEST_IN_BLOCK = 4  # methods whose values are equal
MOST_PAIRS = 300_000  # of places with a value in common; the rarest values come first
SEVERAL, SELDOM = 2, 0.1  # places where methods are equal, and how many are expected, for more than a note
DRAWS = 20_000  # of groups of normal numbers, for the chance of a cell unlike its peers


def repeated_blocks(table: Table) -> Iterator[Finding]:
    """Places that share the values of several methods of one metric, linked place by place."""
    place_of: dict[str, list[str]] = defaultdict(list)
    holders: dict[tuple[str, str, float], list[int]] = defaultdict(list)
    number: dict[tuple[str, Place], int] = {}
    for cell in table.cells:
        if not table.is_average(cell):
            at = number.setdefault((cell.metric, cell.key), len(number))
            holders[cell.metric, cell.method, round(cell.value, 2)].append(at)
    shared: Counter[tuple[int, int]] = Counter()
    alike: dict[tuple[int, int], set[float]] = defaultdict(set)
    equal = compared = 0
    for (_, _, value), places in sorted(holders.items(), key=lambda item: len(item[1])):
        own = len(places) * (len(places) - 1) // 2
        equal += own
        if compared + own > MOST_PAIRS:
            continue
        compared += own
        for pair in combinations(sorted(places), 2):
            shared[pair] += 1
            alike[pair].add(value)
    by_method: Counter[tuple[str, str]] = Counter()
    for (metric, method, _), places in holders.items():
        by_method[metric, method] += len(places)
    pairs = sum(n * (n - 1) // 2 for n in by_method.values())
    linked = [pair for pair, n in shared.items() if n >= FEWEST_IN_BLOCK and len(alike[pair]) > 1]
    if compared < equal:
        linked = sorted({*linked, *_equal_windows(table, number)})
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
        assumption="different places are different experiments; compared to two decimals"
        + ("" if compared == equal else f"; beyond {compared:,} of {equal:,} equal pairs only by methods in a row"),
        chance=f"two values of one method are equal in {equal / max(pairs, 1):.2%} of pairs here, repeats counted; if "
        f"so independently, {at_random:.1g} such pairs of places would be expected, {len(linked)} were found",
        explanation="numbers copied from one place to another, or one experiment printed under several names",
    )  # fmt: skip


def _equal_windows(table: Table, number: dict[tuple[str, Place], int]) -> list[tuple[int, int]]:
    """Pairs of places, one after the other, that share the values of four methods which follow each other by name."""
    rows: dict[tuple[str, Place], list[tuple[str, float]]] = defaultdict(list)
    for cell in table.cells:
        if not table.is_average(cell):
            rows[cell.metric, cell.key].append((cell.method, round(cell.value, 2)))
    last: dict[tuple[object, ...], int] = {}
    pairs: list[tuple[int, int]] = []
    for row, values in rows.items():
        for start in range(len(values) - FEWEST_IN_BLOCK + 1):
            window = tuple(values[start : start + FEWEST_IN_BLOCK])
            if len({value for _, value in window}) > 1:
                before = last.get((row[0], window))
                if before is not None:
                    pairs.append((before, number[row]))
                last[row[0], window] = number[row]
    return pairs


def _joined(pairs: list[tuple[int, int]]) -> list[list[int]]:
    """The groups that ``pairs`` link, in order of their first member."""
    group: dict[int, list[int]] = {}
    for first, second in sorted(pairs):
        one, other = group.setdefault(first, [first]), group.setdefault(second, [second])
        if one is not other:
            one += other
            group.update(dict.fromkeys(other, one))
    return [sorted(own) for at, own in sorted(group.items()) if at == min(own)]


def equal_methods(table: Table) -> Iterator[Finding]:
    """Methods that share all metrics at a place, where a metric besides the accuracy is printed."""
    accurate = table.called("accuracy")
    rows: dict[Place, dict[str, dict[str, float]]] = defaultdict(dict)
    values: dict[tuple[Place, str], Counter[float]] = defaultdict(Counter)
    for cell in table.cells:
        if not table.is_average(cell):
            rows[cell.key].setdefault(cell.method, {})[cell.metric] = cell.value
            values[cell.key, cell.metric][cell.value] += 1
    equal, pairs = Counter[str](), Counter[str]()
    for (_, metric), counts in values.items():
        equal[metric] += sum(math.comb(n, 2) for n in counts.values())
        pairs[metric] += math.comb(counts.total(), 2)
    found: list[str] = []
    expected, compared = 0.0, 0
    for place, methods in rows.items():
        alike: dict[tuple[tuple[str, float], ...], list[str]] = defaultdict(list)
        for method, own in methods.items():
            if len(own) > 1 and any(metric not in accurate for metric in own) and len(set(own.values())) > 1:
                alike[tuple(own.items())].append(method)
        metrics = max(alike, key=len, default=())
        held = sum(map(len, alike.values()))
        compared += math.comb(held, 2)
        expected += math.comb(held, 2) * math.prod(equal[metric] / max(pairs[metric], 1) for metric, _ in metrics)
        where = ", ".join(text for _, text in place if text)
        found += [f"{where}: {' = '.join(same)}" for same in alike.values() if len(same) > 1]
    if found:
        yield Finding(
            Level.WARNING if len(found) >= SEVERAL and expected < SELDOM else Level.NOTE, "methods-equal",
            f"two methods or more share the values of all metrics at {counted(len(found), 'place')}",
            len(found), tuple(found),
            assumption="methods give different probabilities; the metrics of one method are independent of each other",
            chance=f"of {compared:,} pairs of methods {expected:.2g} would be equal if the metrics agreed "
            "independently, each as often as it does here",
            explanation="a method that changes nothing there, a run that fell back on another, or copied values",
        )  # fmt: skip


def unlike_peers(table: Table) -> Iterator[Finding]:
    """Cells far from the other methods at their place, where these agree."""
    groups: dict[tuple[Place, str], list[Cell]] = defaultdict(list)
    for cell in table.cells:
        if cell.metric in table.names and not table.is_average(cell):
            groups[cell.key, cell.metric].append(cell)
    found: list[tuple[float, Cell, float]] = []
    sizes: list[int] = []
    floor = table.unit
    for cells in groups.values():
        if len(cells) < FEWEST_PEERS:
            continue
        sizes.append(len(cells))
        values = np.array([c.value for c in cells])
        middle = float(np.median(values))
        spread = max(1.4826 * float(np.median(np.abs(values - middle))), floor)
        found += [(abs(c.value - middle) / spread, c, middle) for c in cells]
    extremes: dict[tuple[str, str], tuple[float, float]] = {}
    for _, cell, _ in found:
        least, most = extremes.get((cell.metric, cell.method), (cell.value, cell.value))
        extremes[cell.metric, cell.method] = min(least, cell.value), max(most, cell.value)
    far = [
        (size, cell, middle)
        for size, cell, middle in found
        if size > FAR and cell.value == extremes[cell.metric, cell.method][int(cell.value > middle)]
    ]
    if not far:
        return
    far.sort(key=lambda item: -abs(item[1].value - item[2]))
    usual = int(np.median(sizes))
    yield Finding(
        Level.WARNING, "unlike-its-peers",
        f"{len(far)} of {len(found)} values lie more than {FAR:g} robust standard deviations from the other "
        "methods at their place, and beyond every other value of their own method",
        len(far), tuple(f"{c.shown} (median of the methods {middle:.2f})" for _, c, middle in far),
        assumption=f"methods differ mildly; spread is 1.4826 x the median absolute deviation, {floor:g} at least",
        chance=f"of {DRAWS:,} groups of {usual} normal numbers, {_far_by_chance(usual):.2g} of the numbers lie so far "
        f"({_far_by_chance(usual) * len(found):.2g} of {len(found)} expected, before the second condition); methods "
        "need not be normal: one can fail",
        explanation="a run that failed, a slip in typing, or a true collapse of the method there",
    )  # fmt: skip


@cache
def _far_by_chance(size: int) -> float:
    """The share of normal numbers that lie so far from the median of a group of ``size``; simulated."""
    size = min(size, 100)
    values = np.random.default_rng(size).standard_normal((DRAWS, size))
    off = np.abs(values - np.median(values, axis=1, keepdims=True))
    return float(np.mean(off > FAR * 1.4826 * np.median(off, axis=1, keepdims=True)))
