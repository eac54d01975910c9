"""Do stored logits give the probabilities that stand beside them?"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from protocol.types import Kind
from scorer.verify.boxes import TINY, error_near_one, logit_slack, near_zero, output_slack, relative_of
from submission.recalibration.maps import LARGEST, Floats, Outputs, softmax


def stray_logits(
    kind: Kind, outputs: Outputs, precision: Mapping[str, Sequence[str]]
) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
    """Rows whose logits give other probabilities, worst first; what they give, and in which column.

    Logits of a multiclass task are those of a softmax, those of any other log odds. Rows without logits pass. A logit
    may be more extreme than its probability, which is often clipped; a milder one would soften what the probability
    says, and is held to the precision of a small probability.
    """
    if outputs.z is None:
        return np.empty(0, dtype=np.intp), np.empty(0), np.empty(0, dtype=np.intp)
    known = np.flatnonzero(np.isfinite(outputs.z).all(axis=1))
    p, z = outputs.p[known], outputs.z[known].clip(-LARGEST, LARGEST)
    if not len(p):
        return known, np.empty(0), known
    made = softmax(z) if kind == "multiclass" else np.asarray(expit(z))
    slack = logit_slack(precision["z"], z).max(axis=1, keepdims=True)
    # an error e of a logit moves a probability by at most e / 4, and those of the others as much again
    beyond = np.abs(p - made) - slack / 2.0 - output_slack(precision["p"])
    # and by a factor of exp(2 e) at most
    units = np.array([near_zero(name) for name in precision["p"]])
    shares = np.array([relative_of(name) for name in precision["p"]])
    milder = made * np.exp(-2.0 * slack) - p - np.maximum(units, 2.0 * shares * p) - TINY
    beyond = np.maximum(beyond, milder)
    if kind != "multiclass":
        near = np.array([error_near_one(name) for name in precision["p"]])
        milder = expit(-z) * np.exp(-2.0 * slack) - (1.0 - p) * (1.0 + 2.0 * shares) - near
        beyond = np.maximum(beyond, milder)
    worst = beyond.max(axis=1)
    order = np.argsort(-worst, kind="stable")
    order = order[worst[order] > 0]
    column = beyond[order].argmax(axis=1)
    return known[order], made[order, column], column
