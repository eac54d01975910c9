"""Is every test and external row what the frozen map makes of the uncalibrated row? (MVC305, MVC306)

A stored output may lie anywhere in the map's range over the box of its input, give or take what its own precision
leaves open. Where it does not, the pattern tells whose offence it is: a site or a subgroup whose rows follow another
map than the rest was recalibrated on its own (MVC306); anything else is a map that was not applied (MVC305).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from scorer.verify.boxes import box_of, effective, output_slack, slack_of
from scorer.verify.ranges import range_of
from scorer.verify.rows import EXTERNAL, TEST, Images
from submission.recalibration.maps import (
    Floats,
    OfProbability,
    Outputs,
    Piecewise,
    RunMap,
    SoftmaxMap,
    TwoClass,
    softmax,
)

MOST = 0.5  # of a slice's rows off the map: the slice follows another
FEW = 0.01  # the slice follows the map, but for stray rows
WIDE = 0.01  # a range that says nothing


@dataclass(frozen=True)
class Replay:
    """Rows of one run off its map, as indices, worst first, with the ends that they should lie between.

    ``low`` and ``high`` (rows, K) belong to ``off``; ``unverified`` counts saturated rows of which nothing is known;
    ``slices`` names sites or subgroup levels that follow a map of their own (their rows are among ``off``).
    """

    off: NDArray[np.intp]
    low: Floats
    high: Floats
    column: NDArray[np.intp]
    unverified: int
    slices: tuple[str, ...]
    of_slices: NDArray[np.bool_]


def replay(
    run_map: RunMap,
    inputs: Outputs,
    stored: Floats,
    image: NDArray[np.int64],
    images: Images,
    precision: Mapping[str, Sequence[str]],
) -> Replay:
    """Apply ``run_map`` to ``inputs`` and compare with ``stored`` (N, K); ``image`` are the rows' codes."""
    expected = run_map.apply(inputs)
    written = effective(precision["p"], stored)
    doubtful = np.flatnonzero((np.abs(stored - expected) > slack_of(written, expected)).any(axis=1))
    if not len(doubtful):
        empty = np.empty((0, stored.shape[1]))
        return Replay(doubtful, empty, empty, doubtful, 0, (), np.empty(0, dtype=bool))
    box = box_of(run_map, inputs.rows(doubtful), precision)
    low, high = range_of(run_map, box)
    under, over = (slack_of(written, end) for end in (low, high))
    beyond = np.maximum(low - under - stored[doubtful], stored[doubtful] - high - over)
    worst = np.nan_to_num(beyond, nan=np.inf).max(axis=1)
    order = np.argsort(-worst, kind="stable")
    order = order[worst[order] > 0]
    off = doubtful[order]
    wide = box.open & ((high - low).max(axis=1) > WIDE) & (worst <= 0)
    slices = _slices(run_map, inputs, stored, image, images, off, output_slack(written))
    kept = np.zeros(len(stored), dtype=bool)
    for _, rows in slices:
        kept |= rows
    return Replay(
        off,
        low[order],
        high[order],
        np.asarray(beyond[order].argmax(axis=1)),
        int(wide.sum()),
        tuple(name for name, _ in slices),
        kept[off],
    )


Slices = list[tuple[str, NDArray[np.bool_]]]


def _slices(
    run_map: RunMap,
    inputs: Outputs,
    stored: Floats,
    image: NDArray[np.int64],
    images: Images,
    off: NDArray[np.intp],
    slack: float,
) -> Slices:
    """The slices that follow a map of their own: of a partition in which some follow the map, or each its own."""
    is_off = np.zeros(len(stored), dtype=bool)
    is_off[off] = True
    for parts in _partitions(image, images):
        shares = [float(is_off[rows].mean()) for _, rows in parts]
        apart = [part for part, share in zip(parts, shares, strict=True) if share >= MOST]
        rest = [share for share in shares if share < MOST]
        own = [part for part in apart if _own_map(run_map, inputs.rows(part[1]), stored[part[1]], slack)]
        if not own or len(own) < len(apart) or any(share > FEW for share in rest):
            continue
        together = np.logical_or.reduce([rows for _, rows in own])
        one = _own_map(run_map, inputs.rows(together), stored[together], slack)
        if rest or (len(own) > 1 and not one):
            return own
    return []


def _partitions(image: NDArray[np.int64], images: Images) -> list[Slices]:
    """Test and each external site; then the levels of each declared subgroup: partitions with two parts or more."""
    part = images.part[image]
    sites: Slices = [("test", part == TEST)]
    sites += [
        (f"external site {images.sites[code]}", (part == EXTERNAL) & (images.site[image] == code))
        for code in np.unique(images.site[image[part == EXTERNAL]])
        if code >= 0
    ]
    found = [sites]
    for column, (codes, levels) in images.subgroups.items():
        own = codes[image]
        found.append([(f"{column}={levels[code]}", own == code) for code in np.unique(own[own >= 0])])
    kept = [[(name, rows) for name, rows in parts if rows.any()] for parts in found]
    return [parts for parts in kept if len(parts) > 1]


def _own_map(run_map: RunMap, inputs: Outputs, stored: Floats, slack: float) -> bool:
    """True where one map of the family, fitted to inputs and outputs alone, gives all of the rows."""
    if run_map.softmax is not None:
        x = run_map.inputs(inputs)
        return _close(stored, _softmax_like(run_map.softmax, run_map.family, x, stored), slack)
    if run_map.kind == "multiclass":
        return True  # normalisation hides the classes' maps: that all of the slice is off has to do
    return all(
        _column_like(column, run_map, inputs, k, stored[:, k], slack) for k, column in enumerate(run_map.columns)
    )


def _softmax_like(scaling: SoftmaxMap, family: str, x: Floats, q: Floats) -> Floats:
    """What the best linear map of the family makes of ``x``, by least squares of the logarithms of ``q``."""
    y = np.log(np.maximum(q, 1e-12))
    y = y - y.mean(axis=1, keepdims=True)
    if family == "temperature":
        centred = x - x.mean(axis=1, keepdims=True)
        return softmax(x * ((centred * y).sum() / max((centred**2).sum(), 1e-300)))
    design = np.column_stack((x, np.ones(len(x))))
    return softmax(design @ np.linalg.lstsq(design, y, rcond=None)[0])


def _column_like(
    column: TwoClass | OfProbability | Piecewise, run_map: RunMap, inputs: Outputs, k: int, q: Floats, slack: float
) -> bool:
    p, u0, u1 = run_map.pair(inputs, k)
    if isinstance(column, Piecewise):
        order = np.argsort(p, kind="stable")
        falls = np.diff(q[order]) < -slack
        if run_map.family == "isotonic":
            return not falls.any()
        return len(np.unique(np.round(q, 9))) <= len(column.y)
    inner = (q > 1e-4) & (q < 1.0 - 1e-4)
    if inner.sum() < 4:
        return False
    if isinstance(column, OfProbability):
        design = np.column_stack((p, np.ones(len(p))))
    elif run_map.family == "temperature":
        design = (u1 - u0)[:, None]
    elif run_map.family == "platt":
        design = np.column_stack((u1 - u0, np.ones(len(p))))
    else:
        design = np.column_stack((u0, u1, np.ones(len(p))))
    found = np.linalg.lstsq(design[inner], logit(q[inner]), rcond=None)[0]
    return _close(q, np.asarray(expit(design @ found)), slack)


def _close(stored: Floats, made: Floats, slack: float) -> bool:
    """Nearly all rows within ten times what precision leaves open (the fit itself is made of stored values)."""
    off = np.abs(stored - made) > 10.0 * max(slack, 1e-4)
    return bool(off.mean() <= FEW)
