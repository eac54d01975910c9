"""Figures of the text, computed again from the printed table: rank correlations and paired tests."""

import math
from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal
from statistics import fmean, median
from typing import Any, cast

import numpy as np
from scipy import stats

from scorer.audit.shapes import AuditError, Finding, Level
from scorer.audit.table.cells import Table, half_unit
from scorer.audit.table.comparing import compared, p_value
from scorer.audit.table.layout import Alternative, Choice, KendallClaim, PairedClaim

ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")
MOST_EXACT = 50  # differences


def kendall(table: Table, claim: KendallClaim) -> Iterator[Finding]:
    """Kendall's tau-b between two rankings of methods, a pair of places at a time.

    Source: Kendall 1945, doi:10.1093/biomet/33.3.239.
    """
    taus = []
    for pair in claim.pairs:
        first, second = (
            _one(table, {**where, table.metric: claim.metric} if table.metric else dict(where), claim)
            for where in (pair.first, pair.second)
        )
        taus.append(float(stats.kendalltau(first, second).statistic))
    kept = [tau for tau in taus if not math.isnan(tau)]
    if not kept:
        raise AuditError(f"{claim.name}: no ranking has two different values")
    found = {
        "tests": len(taus), "mean": fmean(kept), "median": median(kept),
        "negative": sum(tau < 0 for tau in kept), "positive": sum(tau > 0 for tau in kept),
    }  # fmt: skip
    count = (0.0, float(len(taus)))
    yield compared(
        claim.name, {name: getattr(claim, name) for name in found}, found,
        f"Kendall's tau-b of {len(claim.methods)} methods ({', '.join(claim.methods)}), {len(taus)} pairs of places",
        {"tests": count, "mean": (-1.0, 1.0), "median": (-1.0, 1.0), "negative": count, "positive": count},
    )  # fmt: skip


def paired(table: Table, claim: PairedClaim) -> Iterator[Finding]:
    """Differences of two methods over places: mean, median, wins, and Wilcoxon's signed-rank test under each
    alternative, exact and by the normal approximation.

    Source: Wilcoxon 1945, doi:10.2307/3001968; zeros as by Wilcoxon (dropped), or Pratt 1959,
    doi:10.1080/01621459.1959.10501526.
    """
    chosen = table.of(claim.where, (claim.first, claim.second), claim.name)
    if len(chosen) < 2:
        raise AuditError(
            f"{claim.name}: {len(chosen)} places have both {claim.first} and {claim.second}; look at 'where'"
        )
    gaps = [
        round(rounded(first.text, claim.decimals) - rounded(second.text, claim.decimals), 12)
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
    count, span = (0.0, float(len(gaps))), (min(gaps), max(gaps))
    if claim.p is None or any(text is not None for text in printed.values()):
        yield compared(
            claim.name, printed, found, f"{claim.first} minus {claim.second}, {len(gaps)} places",
            {"mean": span, "median": span, "wins": count, "losses": count}, slack,
        )  # fmt: skip
    if claim.p is None:
        return
    p = p_values(gaps)
    if not p:
        yield Finding(
            Level.CONTRADICTION, "p-undefined", f"{claim.name}: p = {claim.p}, but all differences are zero",
            assumption=f"the signed-rank test on {len(gaps)} printed differences",
            chance="never, if the assumption holds", explanation="values before rounding, or other methods or places",
        )  # fmt: skip
        return
    yield p_value(
        claim.name, "Wilcoxon", claim.p, claim.stated, p, f"the signed-rank test on {len(gaps)} printed differences; "
    )


def rounded(text: str, places: int | None) -> float:
    """A printed number as it would be printed with fewer ``places``: half a unit is rounded away from zero."""
    if places is None:
        return float(text)
    return float(Decimal(text).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP))


def p_values(gaps: list[float]) -> dict[tuple[Alternative, str], float]:
    """Wilcoxon's p by (alternative, method); exact for up to 50 differences. Empty if all differences are zero.

    Zeros are dropped, ranked with the others and then dropped (Pratt), or ranked and shared by both signs (split); the
    names say so where there are zeros. Under ties "exact" takes the distribution without ties, as scipy does.
    """
    full = np.array(gaps, dtype=np.float64)
    values = full[full != 0]
    if not len(values):
        return {}
    zeros = "" if len(values) == len(full) else ", zeros dropped"
    exact = ("exact" if len(np.unique(np.abs(values))) == len(values) else "exact, ties ignored") + zeros
    found: dict[tuple[Alternative, str], float] = {}
    for alternative in ALTERNATIVES:
        if len(values) <= MOST_EXACT:
            found[alternative, exact] = _signed_rank(values, alternative, method="exact")
        for corrected in (False, True):
            name = "normal, continuity corrected" if corrected else "normal"
            kept: dict[str, Any] = {"alternative": alternative, "method": "approx", "correction": corrected}
            found[alternative, name + zeros] = _signed_rank(values, **kept)
            if zeros:
                found[alternative, f"{name}, zeros after Pratt"] = _signed_rank(full, zero_method="pratt", **kept)
                found[alternative, f"{name}, zeros split"] = _signed_rank(full, zero_method="zsplit", **kept)
    return found


def _signed_rank(values: np.ndarray[Any, Any], alternative: Alternative, **kept: Any) -> float:
    return float(cast(Any, stats.wilcoxon(values, alternative=alternative, **kept)).pvalue)


def _one(table: Table, where: Choice, claim: KendallClaim) -> list[float]:
    found = table.of(where, claim.methods, claim.name)
    if len(found) != 1:
        raise AuditError(
            f"{claim.name}: {len(found)} places have {claim.metric} of all {len(claim.methods)} methods at {where}; "
            "wanted one"
        )
    return [cell.value for cell in next(iter(found.values()))]
