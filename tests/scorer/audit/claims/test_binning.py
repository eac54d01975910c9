"""Every binning and form against plain loops, and against the metrics of this kit."""

import numpy as np
import pytest

from scorer.audit.claims import binning
from scorer.audit.claims.binning import BINNINGS, COUNTS, FORMS, Sorted, errors, sort
from scorer.audit.shapes import Codes, Floats
from scorer.metrics import ace, ece, ece_debiased, ece_width, mce, mce_weighted

N = 157


def _scores(kind: str) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(7)
    if kind == "free":
        score = rng.random(N)
    elif kind == "tied":  # edges of many bins, zero and one among them
        score = rng.choice([0.0, 0.1, 0.2, 0.25, 0.4, 0.5, 0.6, 0.7, 0.8, 0.95, 1.0], N)
    else:
        score = np.full(N, 0.3)
    return score, (rng.random(N) < score).astype(np.float64)


def _members(score: Floats, bins: int, which: int) -> list[Codes]:
    """Rows of each bin by a loop over bins, as the words of BINNINGS have it."""
    rule, side = BINNINGS[which]
    order = np.argsort(score, kind="stable")
    if rule == binning.SPLIT:
        return [part.astype(np.int64) for part in np.array_split(order, bins)]
    if rule == binning.MASS:
        middle = np.array([((score < s).sum() + (score <= s).sum()) / 2 for s in score])
        at = np.ceil(bins * middle / len(score)).astype(int) - 1
        return [np.flatnonzero(at == b) for b in range(bins)]
    edges = np.linspace(0.0, 1.0, bins + 1)
    if rule == binning.WIDTH and "floating" not in side:
        score, edges = np.round(score, 9), np.round(edges, 9)
    if rule == binning.QUANTILE:
        edges = np.quantile(score, edges)
    if rule == binning.RANKED:
        edges = np.interp(np.linspace(0, len(score), bins + 1), np.arange(len(score)), np.sort(score))
    out = []
    for b in range(bins):
        low, high = edges[b], edges[b + 1]
        if "right" in side:
            inside = (score > low) & (score <= high)
            if b == 0 and not ("0 in no bin" in side or "smallest" in side):
                inside |= score <= low
        else:
            inside = (score >= low) & (score < high)
            if b == bins - 1 and "1 in no bin" not in side:
                inside |= score >= high
        out.append(np.flatnonzero(inside))
    return out


@pytest.mark.parametrize("kind", ["free", "tied", "constant"])
@pytest.mark.parametrize("which", range(len(BINNINGS)))
def test_every_binning_is_that_of_a_plain_loop(kind: str, which: int) -> None:
    """All forms, at five numbers of bins."""
    score, outcome = _scores(kind)
    found = errors(sort(score, outcome), "float64")[which]
    for bins in (5, 10, 15, 20, 37):
        members = _members(score, bins, which)
        if not any(len(rows) for rows in members):
            assert np.isnan(found[:, COUNTS.index(bins)]).all()
            continue
        gaps = [abs(score[rows].mean() - outcome[rows].mean()) for rows in members if len(rows)]
        sizes = np.array([len(rows) for rows in members if len(rows)])
        wanted = {
            binning.MEAN_GAP: sum(gaps * sizes) / N,
            binning.ROOT_GAP: np.sqrt(sum(np.square(gaps) * sizes) / N),
            binning.MAX_GAP: max(gaps),
            binning.MAX_TERM: max(gaps * sizes) / N,
            binning.PLAIN: np.mean(gaps),
            binning.PLAIN_ALL: sum(gaps) / bins,
        }
        for form, value in wanted.items():
            assert found[FORMS.index(form), COUNTS.index(bins)] == pytest.approx(value, abs=1e-12), (bins, form)


@pytest.mark.parametrize("kind", ["free", "tied", "constant"])
def test_the_kits_own_definitions_are_among_them(kind: str) -> None:
    """Equal-mass and equal-width, to the last digits."""
    score, outcome = _scores(kind)
    found = errors(sort(score, outcome), "float64")
    mass = [rule for rule, _ in BINNINGS].index(binning.MASS)
    for bins in (5, 15, 20, 50):
        at = COUNTS.index(bins)

        def own(which: int, form: str, at: int = at) -> float:
            return float(found[which, FORMS.index(form), at])

        assert own(mass, binning.MEAN_GAP) == pytest.approx(ece(score, outcome, bins=bins).value, abs=1e-12)
        assert own(mass, binning.PLAIN) == pytest.approx(ace(score, outcome, bins=bins).value, abs=1e-12)
        assert own(mass, binning.DEBIASED) == pytest.approx(ece_debiased(score, outcome, bins=bins).value, abs=1e-9)
        assert own(0, binning.MEAN_GAP) == pytest.approx(ece_width(score, outcome, bins=bins).value, abs=1e-12)
        assert own(0, binning.MAX_GAP) == pytest.approx(mce(score, outcome, bins=bins).value, abs=1e-12)
        assert own(0, binning.MAX_TERM) == pytest.approx(mce_weighted(score, outcome, bins=bins).value, abs=1e-12)


@pytest.mark.parametrize("precision", ["float16", "float32", "decimals:3"])
def test_a_stored_score_counts_as_the_edge_that_it_stands_for(precision: str) -> None:
    """A single-precision 0.2 is above 1/5 as a double; as an edge it is 1/5."""
    rng = np.random.default_rng(3)
    score = np.round(rng.random(N), 1)
    stored = score if precision.startswith("decimals") else score.astype(precision).astype(np.float64)
    outcome = (rng.random(N) < 0.5).astype(np.float64)
    found = errors(sort(stored, outcome), precision)[0, FORMS.index(binning.MEAN_GAP)]
    for bins in (5, 10, 20):
        wanted = ece_width(stored, outcome.astype(np.int64), bins=bins, precision=precision).value
        assert found[COUNTS.index(bins)] == pytest.approx(wanted, abs=1e-12)


def test_one_row_is_enough() -> None:
    """No binning falls over a single row."""
    found = errors(sort(np.array([0.25]), np.array([1.0])), "float64")
    assert np.isfinite(found[:-1]).all()
    assert np.isnan(found[-1]).all()  # the smallest is in no bin
    assert found[:-1, FORMS.index(binning.MAX_GAP)].max() == 0.75


def test_sorting_keeps_the_order_of_ties() -> None:
    """Equal-count bins cut ties as the file has them."""
    found = sort(np.array([0.5, 0.5, 0.1]), np.array([1.0, 0.0, 0.0]))
    assert isinstance(found, Sorted)
    assert found.outcomes.tolist() == [0.0, 0.0, 1.0, 1.0]
