"""Figures of the text, computed again from the printed table: single values and means, best counts, correlations."""

import math
from collections import defaultdict
from collections.abc import Iterator
from statistics import fmean, median
from typing import Any, Literal

from scipy import stats

from scorer.audit.shapes import AuditError, Finding
from scorer.audit.table.cells import Cell, Table, decimals, half_unit
from scorer.audit.table.comparing import compared, p_value
from scorer.audit.table.layout import Alternative, CorrelationClaim, FigureClaim, RankClaim
from scorer.audit.table.stated import ALTERNATIVES, rounded

FEWEST = 3  # pairs of a correlation
MOST_EXACT = 30  # pairs of Kendall's exact test
ALL_METHODS: tuple[Literal["exact", "asymptotic"], ...] = ("exact", "asymptotic")


def figure(table: Table, claim: FigureClaim) -> Iterator[Finding]:
    """A value that the text takes from the table, or a statistic of several."""
    cells = table.choose(claim.where, claim.name)
    if not cells or (claim.of == "value" and len(cells) != 1):
        raise AuditError(
            f"{claim.name}: 'where' chooses {len(cells)} cells; wanted {'one' if claim.of == 'value' else 'some'}"
            + (f" ({cells[0].where}; {cells[1].where}; ...)" if len(cells) > 1 else "")
        )
    values = [cell.value for cell in cells]
    value = {"value": values[0], "mean": fmean(values), "median": median(values), "min": min(values)}.get(claim.of)
    alike = [cell.value for cell in table.cells if cell.metric in {c.metric for c in cells}]
    if len(set(alike)) < 2:
        alike = [0.0, 100 * table.unit]
    span = (min(alike), max(alike)) if claim.of == "value" or len(set(values)) < 2 else (min(values), max(values))
    finer = claim.of == "value" and decimals(claim.printed) > decimals(cells[0].text)
    slack = fmean(half_unit(cell.text) for cell in cells) if finer or claim.of in ("mean", "median") else 0.0
    yield compared(
        claim.name, {claim.of: claim.printed}, {claim.of: max(values) if value is None else value},
        f"{cells[0].where}" if claim.of == "value" else f"the {claim.of} of {len(cells)} printed values",
        {claim.of: span}, slack,
    )  # fmt: skip


def rank(table: Table, claim: RankClaim) -> Iterator[Finding]:
    """How often a method is best, alone or with others, and its mean rank (ties share the mean of their ranks)."""
    places: dict[tuple[object, str], list[Cell]] = defaultdict(list)
    for cell in table.choose(claim.where, claim.name):
        if claim.among is None or cell.method in claim.among or cell.method == claim.method:
            places[cell.key, cell.metric].append(cell)
    best, shared, ranks, sizes, alone = 0, 0, list[float](), list[int](), 0.0
    for (_, metric), cells in places.items():
        own = next((cell for cell in cells if cell.method == claim.method), None)
        if own is None or len(cells) < 2:
            continue
        if claim.lowest is None and metric not in table.names:
            raise AuditError(f"{claim.name}: is the lowest {metric} best, or the highest? Add lowest: true or false")
        lowest = table.names.get(metric) != "accuracy" if claim.lowest is None else claim.lowest
        values = [rounded(c.text, claim.decimals) * (1 if lowest else -1) for c in cells]
        mine = rounded(own.text, claim.decimals) * (1 if lowest else -1)
        best += mine == min(values) and values.count(mine) == 1
        shared += mine == min(values) and values.count(mine) > 1
        ranks.append(sum(v < mine for v in values) + (values.count(mine) + 1) / 2)
        sizes.append(len(cells))
        alone += 1 / len(cells)
    if not ranks:
        raise AuditError(f"{claim.name}: no place has {claim.method} and another method; look at 'where' and 'among'")
    found: dict[str, int | float] = {"best": best, "of": len(ranks), "mean_rank": fmean(ranks)}
    if shared and claim.best == best + shared:
        found["best"] = best + shared
    said = compared(
        claim.name, {"best": claim.best, "of": claim.of, "mean_rank": claim.mean_rank}, found,
        f"{claim.method} among {min(sizes)}" + (f" to {max(sizes)}" if max(sizes) > min(sizes) else "")
        + f" methods at {len(ranks)} places; it is best alone at {best} and shares the best value at {shared}; equal "
        f"methods would each be best at {alone:.1f}",
        {"best": (0, len(ranks)), "of": (0, len(places)), "mean_rank": (1.0, float(max(sizes)))},
    )  # fmt: skip
    yield said


def correlation(table: Table, claim: CorrelationClaim) -> Iterator[Finding]:
    """A correlation of two choices of cells, with its p-values.

    Sources: Student's t for Pearson and Spearman; Kendall 1945, doi:10.1093/biomet/33.3.239 (tau-b).
    """
    named = claim.x.keys() | claim.y.keys()
    rest = [column for column in table.columns if column not in named]
    sides: list[dict[tuple[str, ...], float]] = []
    for side in (claim.x, claim.y):
        own: dict[tuple[str, ...], float] = {}
        for cell in table.choose({**claim.where, **side}, claim.name):
            key = tuple(table.part(cell, column) for column in rest)
            if key in own:
                raise AuditError(f"{claim.name}: x and y must name the same columns, so that each cell has one partner")
            own[key] = cell.value
        sides.append(own)
    both = [key for key in sides[0] if key in sides[1]]
    x, y = ([side[key] for key in both] for side in sides)
    if len(both) < FEWEST or len(set(x)) < 2 or len(set(y)) < 2:
        raise AuditError(f"{claim.name}: {len(both)} pairs of cells with differing values; wanted {FEWEST} at least")
    r, found = _tests(claim.kind, x, y)
    how = f"{claim.kind.capitalize()}'s correlation of {len(both)} pairs of printed values"
    if claim.r is not None or claim.p is None:
        yield compared(claim.name, {"r": claim.r}, {"r": r}, how, {"r": (-1.0, 1.0)})
    if claim.p is not None:
        yield p_value(claim.name, claim.kind.capitalize(), claim.p, claim.stated, found, how + "; ")


def _tests(kind: str, x: list[float], y: list[float]) -> tuple[float, dict[tuple[Alternative, str], float]]:
    found: dict[tuple[Alternative, str], float] = {}
    r = math.nan
    for alternative in ALTERNATIVES:
        if kind == "kendall":
            ties = len(set(x)) < len(x) or len(set(y)) < len(y)
            for method in ALL_METHODS[int(ties or len(x) > MOST_EXACT) :]:
                tested: Any = stats.kendalltau(x, y, alternative=alternative, method=method)
                r, found[alternative, method] = float(tested.statistic), float(tested.pvalue)
            continue
        tested = (stats.pearsonr if kind == "pearson" else stats.spearmanr)(x, y, alternative=alternative)  # type: ignore[operator]
        r, found[alternative, "Student's t"] = float(tested.statistic), float(tested.pvalue)
    return r, found
