"""Figures of the text, computed again from the printed table: rank correlations and paired tests."""

import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean, median
from typing import Literal

import numpy as np
from scipy import stats

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table.cells import Table, half_unit
from scorer.audit.table.layout import KendallClaim, PairedClaim

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")


def agrees(printed: str, value: float, slack: float = 0.0) -> bool:
    """Whether ``value``, known within ``slack``, can be printed as ``printed``. AuditError for what is no number."""
    try:
        return abs(float(printed) - value) <= half_unit(printed) + slack
    except ValueError:
        raise AuditError(
            f"the layout states {printed!r} where a number is wanted; write it as printed, '0.0881'"
        ) from None


def kendall(table: Table, claim: KendallClaim) -> Iterator[Finding]:
    """Kendall's tau-b between two rankings of methods, a pair of places at a time.

    Source: Kendall 1945, doi:10.1093/biomet/33.3.239.
    """
    taus = []
    for pair in claim.pairs:
        first, second = (
            _one(table, where, claim.metric, claim.methods, claim.name) for where in (pair.first, pair.second)
        )
        taus.append(float(stats.kendalltau(first, second).statistic))
    kept = [tau for tau in taus if not math.isnan(tau)]
    if not kept:
        raise AuditError(f"{claim.name}: no ranking has two different values")
    found = {
        "tests": len(taus), "mean": fmean(kept), "median": median(kept),
        "negative": sum(tau < 0 for tau in kept), "positive": sum(tau > 0 for tau in kept),
    }  # fmt: skip
    yield _compared(
        claim.name, {name: getattr(claim, name) for name in found}, found,
        f"Kendall's tau-b of {len(claim.methods)} methods ({', '.join(claim.methods)}), {len(taus)} pairs of places",
    )  # fmt: skip


def paired(table: Table, claim: PairedClaim) -> Iterator[Finding]:
    """Differences of two methods over places: mean, median, wins, and Wilcoxon's signed-rank test under each
    alternative, exact and by the normal approximation.

    Source: Wilcoxon 1945, doi:10.2307/3001968; zeros dropped.
    """
    where = dict(claim.where)
    metric = where.pop(table.layout.metric, "")
    if not metric:
        raise AuditError(f"{claim.name}: 'where' must name the metric: {table.layout.metric}: ...")
    chosen = table.of(where, metric, (claim.first, claim.second))
    if len(chosen) < 2:
        raise AuditError(
            f"{claim.name}: {len(chosen)} places have both {claim.first} and {claim.second}; look at 'where'"
        )
    gaps = [
        round(_rounded(first.text, claim.decimals) - _rounded(second.text, claim.decimals), 12)
        for first, second in chosen.values()
    ]
    slack = fmean(half_unit(first.text) + half_unit(second.text) for first, second in chosen.values())
    slack = slack if claim.decimals is None else 1e-9
    found = {
        "mean": fmean(gaps),
        "median": median(gaps),
        "wins": sum(g > 0 for g in gaps),
        "losses": sum(g < 0 for g in gaps),
    }
    printed = {name: getattr(claim, name) for name in found}
    yield _compared(claim.name, printed, found, f"{claim.first} minus {claim.second}, {len(gaps)} places", slack)
    if claim.p is not None:
        yield _p_value(claim, gaps)


def _rounded(text: str, places: int | None) -> float:
    """A printed number as it would be printed with fewer ``places``: half a unit is rounded away from zero."""
    if places is None:
        return float(text)
    return float(Decimal(text).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def p_values(gaps: list[float]) -> dict[tuple[Alternative, str], float]:
    """Wilcoxon's p by (alternative, method), zeros dropped; exact for up to 50 differences. Empty if all are zero.

    Under ties of differing signs "exact" takes the distribution without ties, as scipy does.
    """
    values = np.array([gap for gap in gaps if gap], dtype=np.float64)
    if not len(values):
        return {}
    sizes = np.abs(values)
    exact = "exact" if len(np.unique(sizes)) == len(sizes) else "exact, ties ignored"
    found: dict[tuple[Alternative, str], float] = {}
    for alternative in ALTERNATIVES:
        if len(values) <= 50:
            found[alternative, exact] = float(stats.wilcoxon(values, alternative=alternative, method="exact").pvalue)
        for corrected in (False, True):
            name = "normal, continuity corrected" if corrected else "normal"
            found[alternative, name] = float(
                stats.wilcoxon(values, alternative=alternative, method="approx", correction=corrected).pvalue
            )
    return found


def _p_value(claim: PairedClaim, gaps: list[float]) -> Finding:
    assert claim.p is not None
    found = p_values(gaps)
    if not found:
        return Finding(Level.CONTRADICTION, "p-undefined", f"{claim.name}: p = {claim.p}, but all differences are zero")
    matching = [key for key, value in found.items() if agrees(claim.p, value)]
    two = next(value for (alternative, _), value in found.items() if alternative == "two-sided")
    said = tuple(f"{alternative}, {method}: {value:.4f}" for (alternative, method), value in found.items())
    wanted = claim.stated or "two-sided"
    if any(alternative == wanted for alternative, _ in matching):
        level, code, tail = Level.NOTE, "p-reproduced", f"reproduces as {_listed(matching)}"
    elif matching:
        level, code = Level.WARNING, "p-of-another-alternative"
        tail = f"reproduces only as {_listed(matching)}; two-sided it is {two:.4f}"
        if (two < 0.05) != (float(claim.p) < 0.05):
            tail += ", on the other side of 0.05"
    else:
        level, code, tail = Level.WARNING, "p-not-reproduced", f"does not reproduce; two-sided it is {two:.4f}"
    return Finding(
        level, code, f"{claim.name}: Wilcoxon p = {claim.p} {tail}", 1, said,
        assumption=f"the signed-rank test on {len(gaps)} printed differences; "
        + (f"the source says {claim.stated}" if claim.stated else "no alternative is stated, so two-sided is expected"),
        chance=f"{len(found)} tests were tried; a p printed with as many digits agrees with one of them by chance in "
        f"about {min(1.0, 2 * half_unit(claim.p) * len(found)):.1%} of cases",
        explanation=""
        if code == "p-reproduced"
        else "a directed hypothesis that the text does not state, or values before rounding",
    )  # fmt: skip


def _listed(keys: list[tuple[Alternative, str]]) -> str:
    return " or ".join(f"{alternative} ({method})" for alternative, method in keys)


def _one(table: Table, where: dict[str, str], metric: str, methods: list[str], name: str) -> list[float]:
    found = table.of(where, metric, methods)
    if len(found) != 1:
        raise AuditError(
            f"{name}: {len(found)} places have {metric} of all {len(methods)} methods at {where}; wanted one"
        )
    return [cell.value for cell in next(iter(found.values()))]


def _compared(
    name: str, printed: dict[str, str | int | None], found: dict[str, int | float], how: str, slack: float = 0.0
) -> Finding:
    """Printed figures beside those found; counts must be equal, others agree within rounding."""
    stated = {key: text for key, text in printed.items() if text is not None}
    wrong = [
        key for key, text in stated.items()
        if (text != found[key] if isinstance(text, int) else not agrees(text, float(found[key]), slack))
    ]  # fmt: skip
    said = tuple(
        f"{key}: printed {printed[key]}, found {value if isinstance(value, int) else format(value, '.4f')}"
        if printed[key] is not None
        else f"{key}: found {value if isinstance(value, int) else format(value, '.4f')}"
        for key, value in found.items()
    )
    tail = f"{len(stated) - len(wrong)} of {len(stated)} printed figures reproduce" + (
        f"; {', '.join(wrong)} do not" if wrong else ""
    )
    return Finding(
        Level.CONTRADICTION if wrong else Level.NOTE, "figures-differ" if wrong else "figures-reproduced",
        f"{name}: {tail}", max(1, len(wrong)), said, assumption=how,
        explanation="another choice of methods or places, or values before rounding" if wrong else "",
    )  # fmt: skip
