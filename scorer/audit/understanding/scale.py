"""What the numbers of a score are, told before anything is scored: from their values, helped by their names."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scorer.audit.shapes import Floats, Scale, Scaled
from scorer.intake.decode import sum_tolerance, unit_of

NOISE = 1e-6  # beyond 0 and 1: single precision
FEWEST_RANKS = 20  # distinct values
MOST_INTEGERS = 20  # of class indices
LARGEST_GRADE = 10.0
HALF_PERCENT = 50.0
STRAY_ROWS = 0.01  # may sum to something else than one, near it
STRAY_SUM = 0.1
LOG_MEDIAN = 0.25  # |log of the row sum of exp| of logarithms that were meant to sum to one
LOGIT = re.compile(r"logit|(?:^|[_\W])z_|^z\d*$")
LOG = re.compile(r"log_?p(?:rob)?|log_?softmax|log_?lik|(?:^|[_\W])lp_")
PERCENT = re.compile(r"percent|(?:^|[_\W])pct|%")

# What --scale takes, and the scale that it tells.
TOLD = {
    "probabilities": Scale.PROBABILITIES,
    "probability": Scale.PROBABILITIES,
    "one-vs-rest": Scale.ONE_VS_REST,
    "percent": Scale.PERCENT,
    "logits": Scale.LOGITS,
    "log-probabilities": Scale.LOG_PROBABILITIES,
    "ranks": Scale.RANKS,
    "regression": Scale.REGRESSION,
    "hard-labels": Scale.HARD_LABELS,
}

Result = tuple[Scaled, Floats | None]


@dataclass(frozen=True)
class Profile:
    """The values of one column: how many, their range, and how many there are of some kinds."""

    n: int
    missing: int
    infinite: int
    low: float
    high: float
    distinct: int
    whole: bool  # all are whole numbers
    ends: int  # are exactly 0 or 1
    ordered: Floats  # finite ones, ascending

    @property
    def inside(self) -> bool:
        """Whether all lie in [0, 1], but for noise."""
        return self.low >= -NOISE and self.high <= 1 + NOISE


def profile(values: Floats) -> Profile:
    """The :class:`Profile` of ``values`` (N,)."""
    missing = int(np.isnan(values).sum())
    kept = values[np.isfinite(values)]
    kept.sort()
    n = len(kept)
    if not n:
        return Profile(0, missing, len(values) - missing, np.nan, np.nan, 0, False, 0, kept)
    distinct = 1 + int((kept[1:] != kept[:-1]).sum())
    whole = bool(np.array_equal(kept, np.rint(kept)))
    ends = int(np.searchsorted(kept, 0.0, "right") - np.searchsorted(kept, 0.0, "left"))
    ends += int(np.searchsorted(kept, 1.0, "right") - np.searchsorted(kept, 1.0, "left"))
    infinite = len(values) - missing - n
    return Profile(n, missing, infinite, float(kept[0]), float(kept[-1]), distinct, whole, ends, kept)


def of_one(values: Floats, name: str = "", precision: str = "float64", told: str = "", percent: bool = False) -> Result:
    """The scale of one column (N,): the score of the positive class; with P of it (N,), NaN where missing, or None.

    ``told`` is a key of :data:`TOLD` or '', ``percent`` says that the file printed percent signs.
    """
    seen = profile(values)
    if not seen.n:
        return Scaled(Scale.NONE, False, False, "no number in it"), None
    if told:
        return _told_one(values, seen, TOLD[told])
    said = _range(seen)
    low = name.lower()
    if seen.infinite:
        why = f"{said}, and {seen.infinite:,} are infinite: no probabilities, and logits or logarithms can't be told"
        return Scaled(Scale.UNKNOWN, False, False, why + "; say which with --scale"), None
    if seen.distinct == 1:
        why = f"one value throughout, {seen.low:g}: it ranks nothing, and nothing tells that it is a probability"
        return Scaled(Scale.CONSTANT, False, False, f"{why}; --scale probabilities takes it for one"), None
    if percent or (PERCENT.search(low) and seen.low >= 0 and 1 < seen.high <= 100):
        return _percent(values, seen, f"{said}, and the file says percent")
    ranks = _ranks(seen, precision)
    if ranks:
        why = f"{said}: {ranks}; ranks keep the order and lose the probability"
        return Scaled(Scale.RANKS, False, True, why), None
    if seen.whole:
        return _whole(seen), None
    if seen.inside:
        if LOGIT.search(low) or LOG.search(low):
            why = f"{said}, yet the name {name!r} tells logits or logarithms; say which with --scale"
            return Scaled(Scale.UNKNOWN, False, True, why), None
        return _probability(values, seen)
    return _outside(values, seen, low, said)


def _range(seen: Profile) -> str:
    return f"{seen.n:,} values from {seen.low:.6g} to {seen.high:.6g}, {seen.distinct:,} distinct"


def _probability(values: Floats, seen: Profile) -> Result:
    ends = f"; {seen.ends:,} are exactly 0 or 1" if seen.ends else ""
    why = f"all {seen.n:,} values lie in [0, 1], {seen.low:.6g} to {seen.high:.6g}, {seen.distinct:,} distinct{ends}"
    if seen.low >= 0 and seen.high <= 1:
        return Scaled(Scale.PROBABILITY, True, True, why), values
    off = int((seen.ordered < 0).sum() + (seen.ordered > 1).sum())
    changed = f"{off:,} values beyond 0 or 1 by less than {NOISE:g}, noise of single precision, were set to 0 or 1"
    return Scaled(Scale.PROBABILITY, True, True, why, changed), np.clip(values, 0.0, 1.0)


def _percent(values: Floats, seen: Profile, said: str) -> Result:
    if seen.low < 0 or seen.high > 100 or seen.infinite:
        infinite = f", {seen.infinite:,} infinite" if seen.infinite else ""
        why = f"{said}, but values lie outside 0 to 100 ({seen.low:g} to {seen.high:g}{infinite})"
        return Scaled(Scale.UNKNOWN, False, True, why), None
    return Scaled(Scale.PERCENT, True, True, said, "divided by 100"), values / 100.0


def _whole(seen: Profile) -> Scaled:
    said = f"all {seen.n:,} values are whole numbers, {seen.low:g} to {seen.high:g}, {seen.distinct:,} distinct"
    if seen.low >= 0 and seen.high <= 1:
        return Scaled(Scale.HARD_LABELS, False, False, f"{said}: 0 and 1 alone are decisions, no probabilities")
    if seen.distinct <= MOST_INTEGERS:
        why = f"{said}: classes or grades, no probabilities (ratings: --scale regression; percent: --scale percent)"
        return Scaled(Scale.HARD_LABELS, False, False, why)
    mend = "; --scale percent if they are" if seen.low >= 0 and seen.high <= 100 else ""
    return Scaled(Scale.UNKNOWN, False, True, f"{said}: no probabilities as they stand{mend}")


def _ranks(seen: Profile, precision: str) -> str:
    """In words how the values are their own ranks, or ''."""
    if seen.distinct < FEWEST_RANKS:
        return ""
    x, n = seen.ordered, seen.n
    starts = np.flatnonzero(np.concatenate(([True], x[1:] != x[:-1])))
    counts = np.diff(np.append(starts, n))
    values = x[starts]
    middle, dense = starts + (counts + 1) / 2, np.arange(1, len(starts) + 1)
    near = max(1e-6, 2 * unit_of(precision) if precision.startswith("decimals:") else 0.0)
    forms = {
        "rank": middle,
        "rank from 0": middle - 1,
        "first rank": starts + 1.0,
        "last rank": starts + counts * 1.0,
        "dense rank": dense * 1.0,
    }
    divided = (
        (1.0, ""),
        (n * 1.0, " / n"),
        (n - 1.0, " / (n - 1)"),
        (n + 1.0, " / (n + 1)"),
        (len(starts) * 1.0, " / values"),
    )
    for what, ranks in forms.items():
        for by, said in divided:
            # printed probabilities on a full grid (0.01, 0.02 ... 1.00) come from rounding, not from ranking
            if by == len(starts) and what == "dense rank" and len(starts) < n and unit_of(precision) * by > 0.5:
                continue
            if np.abs(values - ranks / by).max() <= (near if by > 1 else 1e-9):
                return f"each value is its own {what} among the n = {n:,} rows{said}"
    return ""


def _outside(values: Floats, seen: Profile, low: str, said: str) -> Result:
    """A column of fractions with values outside [0, 1]."""
    if LOG.search(low) and "logit" not in low and seen.high <= NOISE:
        why = f"{said}, none above 0, and the name tells logarithms"
        return Scaled(Scale.LOG_PROBABILITIES, True, True, why, "exp of each"), np.minimum(np.exp(values), 1.0)
    if LOGIT.search(low):
        why = f"{said}, and the name tells logits"
        return Scaled(Scale.LOGITS, True, True, why, "sigmoid of each"), _sigmoid(values)
    if seen.high <= NOISE:
        why = f"{said}, none above 0: logarithms of probabilities or logits; say which with --scale"
        return Scaled(Scale.UNKNOWN, False, True, why), None
    if seen.low >= 0 and HALF_PERCENT < seen.high <= 100:
        return _percent(values, seen, f"{said}: the range of percent")
    if seen.low >= -1 and seen.high <= LARGEST_GRADE and np.searchsorted(seen.ordered, 0.0) <= 0.05 * seen.n:
        why = f"{said}: a regression on grades, whatever its name says; no probability"
        return Scaled(Scale.REGRESSION, False, True, why), None
    if seen.low < 0:
        why = f"{said}: logits or any other unbounded score; --scale logits takes the sigmoid of each"
        return Scaled(Scale.LOGITS, False, True, why), None
    return Scaled(Scale.REGRESSION, False, True, f"{said}: beyond 1 and no percent; no probability"), None


def _told_one(values: Floats, seen: Profile, told: Scale) -> Result:
    said = f"told by the user; {_range(seen)}"
    ranked = seen.distinct > 1
    if told in (Scale.PROBABILITIES, Scale.ONE_VS_REST):
        if not seen.inside or seen.infinite:
            out = int((seen.ordered < -NOISE).sum() + (seen.ordered > 1 + NOISE).sum()) + seen.infinite
            return Scaled(
                Scale.UNKNOWN, False, ranked, f"{said}, but {out:,} lie outside [0, 1]: no probabilities"
            ), None
        p = np.clip(values, 0.0, 1.0) if seen.low < 0 or seen.high > 1 else values
        return Scaled(Scale.PROBABILITY, True, ranked, said), p
    if told is Scale.PERCENT:
        return _percent(values, seen, said)
    if told is Scale.LOGITS:
        return Scaled(told, True, ranked, said, "sigmoid of each"), _sigmoid(values)
    if told is Scale.LOG_PROBABILITIES:
        if seen.high > NOISE or bool(np.isposinf(values).any()):
            return Scaled(Scale.UNKNOWN, False, ranked, f"{said}, but logarithms of probabilities are at most 0"), None
        return Scaled(told, True, ranked, said, "exp of each"), np.minimum(np.exp(values), 1.0)
    return Scaled(told, False, ranked and told is not Scale.HARD_LABELS, said), None


def _sigmoid(z: Floats) -> Floats:
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0, 1.0, small) / (1.0 + small))


def of_classes(scores: Floats, names: Sequence[str], precision: Sequence[str], told: str = "") -> Result:
    """The scale of one column a class, (N, K) with K >= 2, of exclusive classes; with p (N, K) or None.

    Rows with a missing score are NaN throughout in p.
    """
    kept = ~np.isnan(scores).any(axis=1)
    rows = scores if kept.all() else scores[kept]
    if not len(rows):
        return Scaled(Scale.NONE, False, False, "no row has all scores"), None
    scaled, into = _classes(rows, " ".join(names).lower(), precision, TOLD.get(told))
    if into is None:
        return scaled, None
    p = into(rows)
    if rows is scores:
        return scaled, p
    whole = np.full(scores.shape, np.nan)
    whole[kept] = p
    return scaled, whole


Into = Callable[[Floats], Floats]


def _classes(rows: Floats, names: str, precision: Sequence[str], told: Scale | None) -> tuple[Scaled, Into | None]:
    low, high, k = float(rows.min()), float(rows.max()), rows.shape[1]
    said = f"{len(rows):,} rows of {k} values from {low:.6g} to {high:.6g}"
    if told is not None:
        said = f"told by the user; {said}"
    if told in (Scale.RANKS, Scale.REGRESSION, Scale.HARD_LABELS):
        return Scaled(told, False, told is Scale.RANKS, said), None
    if not np.isfinite(rows).all() and told is not Scale.LOG_PROBABILITIES:
        return Scaled(
            Scale.UNKNOWN, False, False, f"{said}: some are infinite; --scale log-probabilities if logs"
        ), None
    inside = low >= -NOISE and high <= 1 + NOISE
    if told in (Scale.PROBABILITIES, Scale.ONE_VS_REST) and not inside:
        return Scaled(Scale.UNKNOWN, False, False, f"{said}, but these lie outside [0, 1]"), None
    if told is None and bool((rows == rows[0]).all()):
        why = f"{said}: all rows are equal: they rank nothing; --scale probabilities takes them for such"
        return Scaled(Scale.CONSTANT, False, False, why), None
    if told is None and inside and bool(((rows == 0) | (rows == 1)).all()):
        return Scaled(Scale.HARD_LABELS, False, False, f"{said}: 0 and 1 alone are decisions, no probabilities"), None
    if inside and told in (None, Scale.PROBABILITIES, Scale.ONE_VS_REST):
        return _sums(rows, said, sum_tolerance(precision), told)
    if told in (None, Scale.PERCENT) and low >= 0 and high <= 100 + 100 * NOISE:
        sums = rows.sum(axis=1)
        allowed = min(
            10.0, max(1e-4, k * max(unit_of(one) if one.startswith("decimals:") else 0.0 for one in precision))
        )
        if np.abs(sums - 100).max() <= allowed:
            changed = "divided by the sums of rows, 100 within rounding"
            return Scaled(Scale.PERCENT, True, True, f"{said}: rows sum to 100", changed), _shares
    if told is Scale.PERCENT:
        return Scaled(Scale.UNKNOWN, False, False, f"{said}, but rows do not sum to 100"), None
    return _unbounded(rows, names, precision, told, said)


def _shares(rows: Floats) -> Floats:
    return np.asarray(rows / rows.sum(axis=1, keepdims=True))


def _sums(rows: Floats, said: str, allowed: float, told: Scale | None) -> tuple[Scaled, Into | None]:
    """Values in [0, 1]: of one distribution a row, or one-vs-rest."""
    sums = rows.sum(axis=1)
    off = np.abs(sums - 1)
    stray = int((off > allowed).sum())
    slightly = int((off > 1e-6).sum())
    spread = f"row sums from {sums.min():.6g} to {sums.max():.6g}"
    if told is not Scale.ONE_VS_REST and stray <= STRAY_ROWS * len(rows) and off.max() <= max(allowed, STRAY_SUM):
        why = f"{said}, all in [0, 1]; {spread}, one within {allowed:.1g} allowed for the stored precision"
        if stray:
            why += f", but for {stray:,} rows"
        if not slightly and rows.min() >= 0 and rows.max() <= 1:
            return Scaled(Scale.PROBABILITIES, True, True, why), _same
        changed = f"{slightly:,} rows that are off one by more than 1e-06 were divided by their sums"
        return Scaled(Scale.PROBABILITIES, True, True, why, changed), _renormalised
    if told is Scale.PROBABILITIES:
        why = f"{said}, but {spread}: {stray:,} rows are no distribution within {allowed:.1g}"
        return Scaled(Scale.ONE_VS_REST, True, True, why), _clipped
    why = (
        f"{said}, all in [0, 1], but {spread} ({stray:,} rows off one by more than {allowed:.1g}): each class by itself"
    )
    return Scaled(Scale.ONE_VS_REST, True, True, why), _clipped


def _same(rows: Floats) -> Floats:
    return rows


def _clipped(rows: Floats) -> Floats:
    return rows if rows.min() >= 0 and rows.max() <= 1 else np.clip(rows, 0.0, 1.0)


def _renormalised(rows: Floats) -> Floats:
    """Rows off one by more than 1e-6 divided by their sums; the others stand."""
    p = np.clip(rows, 0.0, 1.0)
    sums = p.sum(axis=1)
    off: NDArray[np.bool_] = np.abs(sums - 1) > 1e-6
    p[off] /= sums[off, None]
    return p


def _unbounded(
    rows: Floats, names: str, precision: Sequence[str], told: Scale | None, said: str
) -> tuple[Scaled, Into | None]:
    """Values outside [0, 1]: logarithms, logits, or what has no calibration."""
    top = rows.max(axis=1)
    if not np.isfinite(top).all():
        return Scaled(Scale.UNKNOWN, False, False, f"{said}: infinite values"), None
    logs = top + np.log(np.exp(rows - top[:, None]).sum(axis=1))
    spread = f"exp of rows sums to {np.exp(logs.min()):.3g} to {np.exp(min(logs.max(), 700.0)):.3g}"
    units = [unit_of(one) for one in precision]
    allowed = max(1e-5, rows.shape[1] * max(units) * (1.0 if max(units) > 2.0**-24 else 16.0))
    if told is Scale.LOGITS:
        return Scaled(told, True, True, said, "softmax of each row"), _softmax
    if np.abs(logs).max() <= allowed:
        why = f"{said}: {spread}, one within {allowed:.1g}"
        return Scaled(Scale.LOG_PROBABILITIES, True, True, why, "exp of each, rows divided by their sums"), _softmax
    if told is Scale.LOG_PROBABILITIES:
        changed = f"exp of each, rows divided by their sums, which is no rounding here ({spread})"
        return Scaled(told, True, True, f"{said}: {spread}", changed), _softmax
    floor = _floor(rows)
    if (float(np.median(np.abs(logs))) <= LOG_MEDIAN and float((rows <= 0).mean()) >= 0.5) or (
        floor and float((rows <= 0).mean()) >= 0.9
    ):
        above = int((rows.max(axis=1) > NOISE).sum())
        why = f"{said}{floor}: {spread}, near one in half of the rows, and {above:,} rows have a value above 0"
        why += ": logarithms (averaged, or of smoothed values) that are neither log-probabilities nor logits"
        mend = "; --scale log-probabilities takes exp and divides rows by their sums"
        return Scaled(Scale.LOG_UNNORMALISED, False, False, why + mend), None
    if bool(np.array_equal(rows, np.rint(rows))):
        return Scaled(Scale.UNKNOWN, False, False, f"{said}: whole numbers, votes or points; no probabilities"), None
    if LOGIT.search(names):
        return Scaled(Scale.LOGITS, True, True, f"{said}, and the names tell logits", "softmax of each row"), _softmax
    if rows.min() < 0:
        why = f"{said}: logits or other unbounded scores; --scale logits takes the softmax of each row"
        return Scaled(Scale.LOGITS, False, False, why), None
    return Scaled(Scale.UNKNOWN, False, False, f"{said}: above 1, and rows do not sum to 100"), None


def _softmax(rows: Floats) -> Floats:
    p: Floats = np.exp(rows - rows.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def _floor(rows: Floats) -> str:
    """In words a floor such as log(1e-05), or ''."""
    low = float(rows.min())
    for power in range(3, 17):
        if abs(low + power * np.log(10)) < 1e-3:
            return f", the lowest being log(1e-{power:02d})"
    return ""


def of_findings(
    scores: Floats, names: Sequence[str], precision: Sequence[str], told: str = "", percent: Sequence[bool] = ()
) -> Result:
    """The scale of one column a finding, (N, K), findings that do not exclude each other; with p (N, K) or None."""
    flags = percent or [False] * len(names)
    parts = [
        of_one(scores[:, k], name, kind, told, flag)
        for k, (name, kind, flag) in enumerate(zip(names, precision, flags, strict=True))
    ]
    good = [k for k, (one, _) in enumerate(parts) if one.usable]
    first = next((one for one, _ in parts if not one.usable and one.scale not in INERT), None)
    if first is None and good:
        scales = {parts[k][0].scale for k in good}
        if len(scales) == 1:
            return _together(scores, parts, names, good)
        listed = ", ".join(sorted(scales))
        why = f"columns are of several scales ({listed}): one model's scores have one; say which with --scale"
        return Scaled(Scale.UNKNOWN, False, True, why), None
    if first is None:
        one = parts[0][0]
        return Scaled(one.scale, False, False, f"column {names[0]!r}: {one.why}"), None
    at = next(k for k, (one, _) in enumerate(parts) if one is first)
    also = f" (and of {len(names) - len(good) - 1} other columns)" if len(names) - len(good) > 1 else ""
    ranked = all(one.ranked for one, _ in parts)
    return Scaled(first.scale, False, ranked, f"column {names[at]!r}{also}: {first.why}"), None


INERT = (Scale.CONSTANT, Scale.HARD_LABELS, Scale.NONE)


def _together(scores: Floats, parts: Sequence[Result], names: Sequence[str], good: Sequence[int]) -> Result:
    """Columns of one usable scale; those that say nothing (constant, empty, 0 and 1 alone) stay and are named."""
    one = parts[good[0]][0]
    low, high = float(np.nanmin(scores)), float(np.nanmax(scores))
    why = f"{len(good)} of {len(names)} columns: {scores.shape[0]:,} rows from {low:.6g} to {high:.6g}, {one.scale}"
    odd = [k for k in range(len(names)) if k not in good]
    inside = all(np.isnan(scores[:, k]).all() or (scores[:, k].min() >= 0 and scores[:, k].max() <= 1) for k in odd)
    if odd:
        why += "; " + ", ".join(f"{names[k]!r} is {parts[k][0].scale}" for k in odd[:5])
    changed = one.changed
    if all(p is None or np.shares_memory(p, scores) for _, p in parts) and (not odd or inside):
        return Scaled(one.scale, True, True, why, changed), scores
    p = np.full(scores.shape, np.nan)
    for k in good:
        part = parts[k][1]
        if part is not None:
            p[:, k] = part
    return Scaled(one.scale, True, True, why, changed), p
