"""Compiled loops over one score column under the weights of many resamples.

A column is sorted by score, ascending, and cases of equal score form a group, so that ties enter everything together.
Entry i of ``g`` is the weight of group i in a resample, ``v`` its weighted outcome, ``score`` its score. Each resample
is worked on by itself, in a fixed order: neither the number of resamples nor of threads can change a bit.
"""

import numpy as np
from numpy.typing import NDArray

from scorer.metrics.compiled import compiled

Floats = NDArray[np.float64]
Places = NDArray[np.int32]

SUMS = 5  # of each bin: weight, weighted score, weighted outcome, weighted square of the score, of score times outcome


@compiled
def add_up(start: NDArray[np.int64], cell: Places, value: Floats, weights: Floats, sums: Floats) -> None:
    """Add to ``sums`` (cells, D) each patient's values times its weight; ``weights`` (patients, D).

    The values of patient i are at ``start[i]`` up to ``start[i + 1]``.
    """
    for patient in range(len(start) - 1):
        w = weights[patient]
        for i in range(start[patient], start[patient + 1]):
            row = sums[cell[i]]
            x = value[i]
            for d in range(len(w)):
                row[d] += w[d] * x


@compiled
def count(words: NDArray[np.uint64], per_draw: int, counts: Floats) -> None:
    """Add to ``counts`` (D, patients) the patients that each draw's 64-bit words name, ``per_draw`` apart."""
    patients = counts.shape[1]
    for d in range(len(counts)):
        for i in range(patients):
            uniform = (words[d * per_draw + i] >> np.uint64(11)) * 2.0**-53
            counts[d, int(uniform * patients)] += 1.0


@compiled
def gather(patient: Places, group: Places, outcome: Floats, w: Floats, g: Floats, v: Floats) -> None:
    """Fill ``g`` and ``v``; an empty ``group`` says that every case is a group of its own."""
    if len(group) == 0:
        for i in range(len(patient)):
            g[i] = w[patient[i]]
            v[i] = g[i] * outcome[i]
        return
    for i in range(len(g)):
        g[i] = 0.0
        v[i] = 0.0
    for i in range(len(patient)):
        weight = w[patient[i]]
        g[group[i]] += weight
        v[group[i]] += weight * outcome[i]


@compiled
def walk(
    patient: Places,
    score: Floats,
    outcome: Floats,
    w: Floats,
    total: float,
    events: float,
    sums: Floats,
    out: Floats,
    g: Floats,
    v: Floats,
) -> None:
    """:func:`gather`, :func:`into_bins` and :func:`ranked` in one pass, for cases that are groups of their own.

    The three chains of sums run beside each other, which is what makes it fast; ``g`` and ``v`` of length 0 are not
    wanted.
    """
    bins = len(sums)
    i = 0
    below = pairs = precision = events_below = 0.0
    for b in range(bins):
        limit = 2.0 * (b + 1) * total
        weight = by_score = by_outcome = by_square = by_both = 0.0
        while i < len(patient):
            own = w[patient[i]]
            if b < bins - 1 and bins * (2.0 * below + own) > limit:
                break
            s = score[i]
            event = own * outcome[i]
            weight += own
            by_score += own * s
            by_outcome += event
            by_square += own * s * s
            by_both += event * s
            pairs += event * (2.0 * (below - events_below) + (own - event))
            precision += event * ((events - events_below) / max(total - below, 1e-300))
            if len(g):
                g[i] = own
                v[i] = event
            below += own
            events_below += event
            i += 1
        sums[b, 0] = weight
        sums[b, 1] = by_score
        sums[b, 2] = by_outcome
        sums[b, 3] = by_square
        sums[b, 4] = by_both
    rates(pairs, precision, total, events, out)


@compiled
def rates(pairs: float, precision: float, total: float, events: float, out: Floats) -> None:
    """``out`` (2,): AUROC from twice the pairs ranked rightly, and average precision; left alone where undefined."""
    others = total - events
    if events > 0.0 and others > 0.0:
        out[0] = min(1.0, pairs / (2.0 * events * others))
        out[1] = min(1.0, precision / events)


@compiled
def into_bins(score: Floats, g: Floats, v: Floats, total: float, sums: Floats) -> None:
    """Fill ``sums`` (bins, 5) with the equal-mass bins: the score with midpoint h is in bin ceil(bins h / total)."""
    bins = len(sums)
    i = 0
    below = 0.0
    for b in range(bins):
        # bins h <= (b + 1) total, times two and without a division: exact for whole weights
        limit = 2.0 * (b + 1) * total
        weight = by_score = by_outcome = by_square = by_both = 0.0
        while i < len(g) and (b == bins - 1 or bins * (2.0 * below + g[i]) <= limit):
            s = score[i]
            weight += g[i]
            by_score += g[i] * s
            by_outcome += v[i]
            by_square += g[i] * s * s
            by_both += v[i] * s
            below += g[i]
            i += 1
        sums[b, 0] = weight
        sums[b, 1] = by_score
        sums[b, 2] = by_outcome
        sums[b, 3] = by_square
        sums[b, 4] = by_both


@compiled
def ranked(g: Floats, v: Floats, total: float, events: float, out: Floats) -> None:
    """``out`` (2,): AUROC with ties one half, and average precision; NaN where a class has no weight."""
    below = pairs = precision = events_below = 0.0
    for i in range(len(g)):
        pairs += v[i] * (2.0 * (below - events_below) + (g[i] - v[i]))
        # cases from this score up are called positive
        precision += v[i] * ((events - events_below) / max(total - below, 1e-300))
        below += g[i]
        events_below += v[i]
    rates(pairs, precision, total, events, out)


@compiled
def selective(g: Floats, v: Floats, total: float, hits: float, coverages: Floats, out: Floats) -> None:
    """``out`` (1 + coverages,): mean selective risk over cases (AURC), and the risk at each coverage, falling."""
    area = 0.0
    below = 0.0
    hits_below = 0.0
    risk = 0.0
    reached = 0
    for i in range(len(g)):
        # the cases from this score up; the smallest set that still covers a share is the last to do so
        kept = max(total - below, 1e-300)
        while reached < len(coverages) and kept < coverages[reached] * total * (1.0 - 1e-12):
            out[1 + reached] = risk
            reached += 1
        risk = max(0.0, 1.0 - (hits - hits_below) / kept)
        area += g[i] * risk
        below += g[i]
        hits_below += v[i]
    out[1 + reached :] = risk
    out[0] = area / total


@compiled
def pool(g: Floats, v: Floats, block_g: Floats, block_v: Floats) -> int:
    """Pool adjacent violators: blocks of increasing mean outcome v / g; their number. Scores without weight vanish."""
    k = 0
    for i in range(len(g)):
        a, b = g[i], v[i]
        while k > 0 and block_v[k - 1] * a >= b * block_g[k - 1]:
            k -= 1
            a += block_g[k]
            b += block_v[k]
        block_g[k] = a
        block_v[k] = b
        k += 1
    return k


@compiled
def corp(score: Floats, g: Floats, v: Floats, total: float, events: float, blocks: Floats, out: Floats) -> None:
    """``out`` (3,): miscalibration, discrimination and uncertainty of the Brier score; outcomes are 0 or 1."""
    own = 0.0
    for i in range(len(g)):
        s = score[i]
        own += g[i] * s * s - 2.0 * v[i] * s + v[i]
    best = 0.0
    for i in range(pool(g, v, blocks[0], blocks[1])):
        best += blocks[1, i] * (1.0 - blocks[1, i] / blocks[0, i])
    constant = events * (1.0 - events / total)
    out[0] = max(0.0, (own - best) / total)
    out[1] = max(0.0, (constant - best) / total)
    out[2] = constant / total


@compiled
def scan(
    patient: Places,
    group: Places,
    score: Floats,
    outcome: Floats,
    cases: Floats,
    credit: Floats,
    weights: Floats,
    coverages: Floats,
    bins: Floats,
    ranks: Floats,
    risks: Floats,
    parts: Floats,
) -> None:
    """One pass a resample over a sorted column; ``weights`` (D, patients), outputs of length 0 are not wanted.

    ``cases`` and ``credit`` (patients,): cases and summed outcome of each. ``bins`` (D, bins, 5) zeros, ``ranks`` (D,
    2), ``risks`` (D, 1 + coverages), ``parts`` (D, 3), NaN.
    """
    n = len(score)
    tied = len(group) > 0
    kept = n if tied or len(risks) or len(parts) else 0
    g = np.empty(kept)
    v = np.empty(kept)
    blocks = np.empty((2, n if len(parts) else 0))
    spare_bins = np.empty((1, SUMS))
    spare_ranks = np.empty(2)
    for d in range(len(weights)):
        total = 0.0
        events = 0.0
        for i in range(len(cases)):
            total += weights[d, i] * cases[i]
            events += weights[d, i] * credit[i]
        if not total > 0.0:
            continue
        if tied:
            gather(patient, group, outcome, weights[d], g, v)
            if len(bins):
                into_bins(score, g, v, total, bins[d])
            if len(ranks):
                ranked(g, v, total, events, ranks[d])
        else:
            into = bins[d] if len(bins) else spare_bins
            out = ranks[d] if len(ranks) else spare_ranks
            walk(patient, score, outcome, weights[d], total, events, into, out, g, v)
        if len(risks):
            selective(g, v, total, events, coverages, risks[d])
        if len(parts):
            corp(score, g, v, total, events, blocks, parts[d])


@compiled
def consistent(
    score: Floats,
    size: Floats,
    words: NDArray[np.uint64],
    first_cell: NDArray[np.int64],
    second_cell: NDArray[np.int64],
    at: NDArray[np.int64],
    first: Floats,
    second: Floats,
    isotonic: Floats,
) -> None:
    """Outcome rates if the scores were calibrated, one simulation a row, from 64-bit random ``words``, one a case.

    ``size`` (groups,) cases of each distinct score; ``first`` and ``second`` (S, bins) by the bins of the groups in
    ``first_cell`` and ``second_cell``; ``isotonic`` (S, points) the isotonic regression at the groups ``at``, rising.
    """
    n = len(score)
    v = np.empty(n)
    block_g = np.empty(n)
    block_v = np.empty(n)
    weight = np.zeros((2, first.shape[1]))
    for i in range(n):
        weight[0, first_cell[i]] += size[i]
        weight[1, second_cell[i]] += size[i]
    word = 0
    for s in range(len(first)):
        for i in range(n):
            v[i] = 0.0
            for _ in range(int(size[i])):
                if (words[word] >> np.uint64(11)) * 2.0**-53 < score[i]:
                    v[i] += 1.0
                word += 1
            first[s, first_cell[i]] += v[i]
            second[s, second_cell[i]] += v[i]
        for b in range(first.shape[1]):
            first[s, b] = first[s, b] / weight[0, b] if weight[0, b] > 0.0 else 0.0
            second[s, b] = second[s, b] / weight[1, b] if weight[1, b] > 0.0 else 0.0
        pool(size, v, block_g, block_v)
        block = 0
        below = 0.0
        position = 0.0
        i = 0
        for q in range(len(at)):
            while i < at[q]:
                below += size[i]
                i += 1
            while position + block_g[block] <= below:
                position += block_g[block]
                block += 1
            isotonic[s, q] = block_v[block] / block_g[block]
