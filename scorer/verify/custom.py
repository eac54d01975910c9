"""What can be said of a calibrator that is not one of ours, from its inputs and outputs alone."""

import numpy as np
from numpy.typing import NDArray

from protocol.types import Kind
from submission.recalibration.maps import Floats


def looked_at(kind: Kind, p: Floats, q: Floats, external: NDArray[np.bool_], slack: float) -> str:
    """Three answers in words: is ``q`` (N, K) a function of ``p`` (N, K), monotone, and the same on external rows?

    Where two rows share an input the first is told for sure. The other two are looked at column by column, and not in a
    multiclass task, where normalisation makes a column depend on the others: there the order of the classes within a
    row is compared.
    """
    answers = [f"a function of the uncalibrated output: {_function(p, q, slack)}"]
    if kind == "multiclass":
        kept = bool((_order(p) == _order(q)).all())
        answers.append(f"the most probable class unchanged: {'yes' if kept else 'no'}")
        answers.append(f"the same on external rows: {_same(p, q, external, slack)}")
        return "; ".join(answers)
    monotone = all(_monotone(p[:, k], q[:, k], slack) for k in range(p.shape[1]))
    answers.append(f"monotone: {'yes' if monotone else 'no'}")
    if not external.any() or external.all():
        answers.append("the same on external rows: no external rows to tell")
    elif monotone:
        answers.append("the same on external rows: yes, one monotone map fits all")
    else:
        answers.append(f"the same on external rows: {_same(p, q, external, slack)}")
    return "; ".join(answers)


def _groups(p: Floats) -> NDArray[np.intp]:
    return np.asarray(np.unique(p, axis=0, return_inverse=True)[1]).ravel()


def _spread(groups: NDArray[np.intp], q: Floats) -> tuple[NDArray[np.intp], Floats]:
    """Rows of each group, and the widest range of the outputs in it."""
    order = np.argsort(groups, kind="stable")
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    width = np.maximum.reduceat(q[order], starts, axis=0) - np.minimum.reduceat(q[order], starts, axis=0)
    return np.diff(np.append(starts, len(order))), np.asarray(width.max(axis=1))


def _function(p: Floats, q: Floats, slack: float) -> str:
    sizes, width = _spread(_groups(p), q)
    if (width > 2.0 * slack).any():
        return "no"
    return "yes" if (sizes > 1).any() else "no two rows share one to tell"


def _same(p: Floats, q: Floats, external: NDArray[np.bool_], slack: float) -> str:
    """Where test and external rows share inputs: do they share outputs?"""
    if not external.any() or external.all():
        return "no external rows to tell"
    groups = _groups(p)
    shared = np.intersect1d(groups[external], groups[~external])
    if not len(shared):
        return "no shared input to tell"
    rows = np.isin(groups, shared)
    _, width = _spread(groups[rows], q[rows])
    return "no" if (width > 2.0 * slack).any() else "yes"


def _monotone(p: Floats, q: Floats, slack: float) -> bool:
    order = np.argsort(p, kind="stable")
    # equal inputs may stand in any order: a fall counts from the greatest output below
    return bool((np.maximum.accumulate(q[order]) - q[order] <= 2.0 * slack).all())


def _order(p: Floats) -> NDArray[np.intp]:
    return np.asarray(p.argmax(axis=1))
