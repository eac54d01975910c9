"""Calibration losses of training: pure functions of scaled logits (B, K), and the criterion a learner is trained with.

Logits are scaled (exp(logit_scale) times a cosine, 100 times for CLIP) and worked on in float32 (float64 stays):
on bare cosines the margins of ``margin``, ``mcm`` and ``mbls`` are some hundred times smaller and say nothing.
A batch is all that a term sees. ``mdca`` compares class frequencies of the batch, so it wants a batch large enough
to hold most classes; the variances of ``margin`` and ``mcm`` are those of the batch (population: divided by the
count), and a batch of one leaves ``margin`` none and ``mcm`` that between the wrong classes.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from submission.baseline.config import LossConfig, LossName
from submission.baseline.errors import BaselineError

DEFAULTS: dict[LossName, dict[str, float]] = {
    "ce": {},
    "label-smoothing": {"alpha": 0.05},
    "label-smoothing-others": {"alpha": 0.1},
    "mdca": {"beta": 1.0},
    "mbls": {"alpha": 0.1, "margin": 10.0},
    "eccv-zs": {},
    "eccv-penalty": {"alpha": 10.0},
    "margin": {"alpha": 0.1, "beta": 0.01},
    "mcm": {"alpha": 0.1, "beta": 0.01},
}


def wide(x: Tensor) -> Tensor:
    """``x`` in float32, or as it is where it is float64."""
    return x if x.dtype == torch.float64 else x.float()


def ce(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy, mean over the batch, nats; in [0, inf)."""
    return functional.cross_entropy(wide(logits), labels)


def label_smoothing(logits: Tensor, labels: Tensor, alpha: float = 0.05) -> Tensor:
    """Cross-entropy against 1 - alpha + alpha / K for the label and alpha / K for each other class.

    Source: Müller et al. (2019), When does label smoothing help?, arXiv:1906.02629; alpha as in Liu et al. (2022),
    arXiv:2111.15430.
    """
    return functional.cross_entropy(wide(logits), labels, label_smoothing=alpha)


def label_smoothing_others(logits: Tensor, labels: Tensor, alpha: float = 0.1) -> Tensor:
    """Cross-entropy against 1 - alpha for the label and alpha / (K - 1) for each other class.

    The other convention: with K = 2 and alpha 0.1 the label's target is 0.9 here and 0.95 in :func:`label_smoothing`.
    Source: code of Hebbalaguppe et al. (2022), arXiv:2203.13834.
    """
    classes = logits.shape[1]
    target = torch.where(_own(logits, labels), 1.0 - alpha, alpha / (classes - 1)).to(wide(logits).dtype)
    return functional.cross_entropy(wide(logits), target)


def mdca(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean over classes of |mean predicted probability - frequency| in the batch; in [0, 2 / K].

    The gradient goes through the probabilities alone. Source: Hebbalaguppe et al. (2022), A stitch in
    time saves nine, arXiv:2203.13834.
    """
    p = wide(logits).softmax(dim=1)
    return (p.mean(dim=0) - _own(logits, labels).to(p.dtype).mean(dim=0)).abs().mean()


def mbls(logits: Tensor, margin: float = 10.0) -> Tensor:
    """Mean over all B x K entries of how far a logit lies more than ``margin`` below the largest of its row.

    The largest itself counts in the mean, with 0. The term and its gradient are exactly 0 while every gap is within
    the margin. Source: Liu et al. (2022), The devil is in the margin, arXiv:2111.15430.
    """
    return functional.relu(_gaps(logits) - margin).mean()


def eccv_zs(logits: Tensor, labels: Tensor, zero_shot: Tensor) -> Tensor:
    """Cross-entropy of logits stretched, row by row, to the range of the zero-shot logits.

    z' = (z - min z) / (max z - min z) * (max z_zs - min z_zs) + min z_zs, minima and maxima over classes; the gradient
    goes through them. With K = 2, z' is always the pair of zero-shot extremes and the gradient is 0 everywhere. A
    row of equal logits has no direction: its range is taken as 1, so that its loss is ln K and its gradient finite.
    Source: Murugesan et al. (2024), ZS-Norm, arXiv:2407.13588.
    """
    z, zs = wide(logits), wide(zero_shot).detach()
    low, high = z.amin(dim=1, keepdim=True), z.amax(dim=1, keepdim=True)
    reach = torch.where(high > low, high - low, torch.ones_like(low))
    floor, ceiling = zs.amin(dim=1, keepdim=True), zs.amax(dim=1, keepdim=True)
    return functional.cross_entropy((z - low) / reach * (ceiling - floor) + floor, labels)


def eccv_penalty(logits: Tensor, zero_shot: Tensor) -> Tensor:
    """Mean over all B x K entries of how far a logit lies above or below the zero-shot logits of its image.

    The only term that depends on the level of a row and not on differences within it.
    Source: Murugesan et al. (2024), penalty, arXiv:2407.13588.
    """
    z, zs = wide(logits), wide(zero_shot).detach()
    above = functional.relu(z - zs.amax(dim=1, keepdim=True))
    return above.mean() + functional.relu(zs.amin(dim=1, keepdim=True) - z).mean()


def hardest_margins(logits: Tensor, labels: Tensor) -> Tensor:
    """(B,): the label's logit less the largest of the other classes."""
    z = wide(logits)
    own = _own(logits, labels)
    return (z * own).sum(dim=1) - z.masked_fill(own, -torch.inf).amax(dim=1)


def pair_margins(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """(B, K): the label's logit less that of class k; and (B, K) bool: the pairs, where k is not the label."""
    z = wide(logits)
    own = _own(logits, labels)
    return (z * own).sum(dim=1, keepdim=True) - z, ~own


def margin(logits: Tensor, labels: Tensor, alpha: float = 0.1, beta: float = 0.01) -> Tensor:
    """-alpha * mean + beta * population variance over the batch of the margins to the hardest wrong class.

    Source: code of Sharifdeen et al. (2026); MVC-Bench, section 5, compares MCM with it.
    """
    mean, variance = moments(hardest_margins(logits, labels))
    return -alpha * mean + beta * variance


def mcm(logits: Tensor, labels: Tensor, alpha: float = 0.1, beta: float = 0.01) -> Tensor:
    """Multi-class margin: -alpha * mean + beta * population variance of the margins of all B (K - 1) pairs.

    m_ik = z_iy - z_ik for k != y; mu the mean over i of the mean over k; the variance is that of all pairs about mu:
    the variance between the rows' means plus the mean variance within rows. With K = 2 the second is 0 and the term
    is that of :func:`margin`. It has no lower bound: -alpha * mu falls as all margins grow together.
    Source: MVC-Bench, section 5, eq. 1.
    """
    margins, pairs = pair_margins(logits, labels)
    mean, variance = moments(margins, pairs)
    return -alpha * mean + beta * variance


def moments(x: Tensor, chosen: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Mean and population variance of the ``chosen`` elements (all), centred before they are squared."""
    weight = torch.ones_like(x) if chosen is None else chosen.to(x.dtype)
    mean = (x * weight).sum() / weight.sum()
    return mean, ((x - mean).square() * weight).sum() / weight.sum()


def _own(logits: Tensor, labels: Tensor) -> Tensor:
    """(B, K) bool: the label of each row."""
    return labels[:, None] == torch.arange(logits.shape[1], device=labels.device)


def _gaps(logits: Tensor) -> Tensor:
    """(B, K): the largest logit of the row less each."""
    z = wide(logits)
    return z.amax(dim=1, keepdim=True) - z


@dataclass(frozen=True)
class _Kind:
    """A loss: what stands in the place of cross-entropy, what is added to it, and what the log says of a batch."""

    supervised: Callable[[Tensor, Tensor, Tensor], Tensor]
    added: Callable[[Tensor, Tensor, Tensor], Tensor] | None
    logged: Callable[[Tensor, Tensor, Tensor], dict[str, Tensor]]
    words: str


class Criterion:
    """The supervised loss of a run: cross-entropy or what takes its place, and the regulariser added to it.

    Label smoothing and ECCV_ZS take the place of cross-entropy, the others are added to it with their weights
    (MVC-Bench, eq. 2, for MCM). A learner's own terms are added by the learner. BaselineError: a setting that the loss
    does not have or that is out of range; fewer than two classes; ECCV_ZS with two, where it has no gradient.
    """

    def __init__(self, config: LossConfig, classes: int) -> None:
        self.name: LossName = config.name
        self.settings = _settings(config)
        if classes < 2:
            raise BaselineError(f"{classes} class: a classifier needs two or more; name them in the task")
        if config.name == "eccv-zs" and classes == 2:
            raise BaselineError(
                "loss eccv-zs with 2 classes: stretched to the range of the zero-shot logits, two logits are always "
                "the two ends of that range, so the loss has zero gradient and nothing is learned; choose another loss "
                "(eccv-penalty keeps logits in that range too)"
            )
        self._kind = _kind(self.name, self.settings)

    def __call__(self, logits: Tensor, labels: Tensor, zero_shot: Tensor) -> Tensor:
        """The loss, a scalar, of scaled ``logits`` and ``zero_shot`` logits (B, K) and ``labels`` (B,) int64."""
        with torch.autocast(logits.device.type, enabled=False):
            loss = self._kind.supervised(logits, labels, zero_shot)
            return loss if self._kind.added is None else loss + self._kind.added(logits, labels, zero_shot)

    @torch.no_grad()
    def terms(self, logits: Tensor, labels: Tensor, zero_shot: Tensor) -> dict[str, Tensor]:
        """The parts of the loss for a log, scalars on the device: ``supervised``, ``regulariser`` (weighted; 0 where
        there is none) and what tells whether it acts (``active``, ``outside``: shares of B x K; ``present``: share of
        classes in the batch; ``mean_margin``, ``margin_variance``; ``equal``: share of rows without a range).
        """
        added = self._kind.added
        return {
            "supervised": self._kind.supervised(logits, labels, zero_shot),
            "regulariser": logits.new_zeros(()) if added is None else added(logits, labels, zero_shot),
            **self._kind.logged(logits, labels, zero_shot),
        }

    def words(self) -> str:
        """The whole loss in words, for the recipe."""
        return self._kind.words.format(**{name: f"{value:g}" for name, value in self.settings.items()})


def _settings(config: LossConfig) -> dict[str, float]:
    """The settings of a loss, defaults filled in."""
    own = DEFAULTS[config.name]
    given = {name: getattr(config, name) for name in ("alpha", "beta", "margin") if getattr(config, name) is not None}
    for name in given.keys() - own.keys():
        has = f"it has {', '.join(own)}" if own else "it has no settings"
        raise BaselineError(f"loss {config.name}: {name} is set, but {has}; take {name} out")
    settings = {**own, **given}
    if config.name.startswith("label-smoothing") and settings["alpha"] >= 1:
        raise BaselineError(f"loss {config.name}: alpha is {settings['alpha']:g}; it must lie in [0, 1)")
    return settings


def _kind(name: LossName, settings: dict[str, float]) -> _Kind:
    """The parts of the loss ``name``."""
    alpha, beta, gap = (settings.get(key, 0.0) for key in ("alpha", "beta", "margin"))
    plain = "cross-entropy (mean over the batch)"

    def nothing(z: Tensor, y: Tensor, zs: Tensor) -> dict[str, Tensor]:
        return {}

    def cross_entropy(z: Tensor, y: Tensor, zs: Tensor) -> Tensor:
        return ce(z, y)

    if name == "ce":
        return _Kind(cross_entropy, None, nothing, plain)
    if name == "label-smoothing":
        words = (
            "cross-entropy against smoothed labels: 1 - {alpha} + {alpha} / K for the label, {alpha} / K for the others"
        )
        return _Kind(lambda z, y, zs: label_smoothing(z, y, alpha), None, nothing, words)
    if name == "label-smoothing-others":
        words = "cross-entropy against smoothed labels: 1 - {alpha} for the label, {alpha} / (K - 1) for the others"
        return _Kind(lambda z, y, zs: label_smoothing_others(z, y, alpha), None, nothing, words)
    if name == "mdca":
        words = plain + " + {beta} * MDCA (mean over classes of |mean probability - frequency| in the batch)"
        return _Kind(cross_entropy, lambda z, y, zs: beta * mdca(z, y), _present, words)
    if name == "mbls":
        words = plain + " + {alpha} * MbLS (mean over images and classes of max(0, max z - z - {margin}))"
        return _Kind(
            cross_entropy,
            lambda z, y, zs: alpha * mbls(z, gap),
            lambda z, y, zs: {"active": _share(_gaps(z) > gap)},
            words,
        )
    if name == "eccv-zs":
        words = "cross-entropy of logits stretched to the image's range of zero-shot logits, in training only (ECCV_ZS)"
        return _Kind(eccv_zs, None, lambda z, y, zs: {"equal": _share(_gaps(z).amax(dim=1) == 0)}, words)
    if name == "eccv-penalty":
        words = (
            plain
            + " + {alpha} * ECCV_penalty (mean over images and classes of how far z is out of the zero-shot range)"
        )
        return _Kind(cross_entropy, lambda z, y, zs: alpha * eccv_penalty(z, zs), _outside, words)
    if name == "margin":
        words = (
            plain
            + " - {alpha} * mean + {beta} * population variance of the margins to the hardest wrong class in the batch"
        )
        return _Kind(
            cross_entropy,
            lambda z, y, zs: margin(z, y, alpha, beta),
            lambda z, y, zs: _named(moments(hardest_margins(z, y))),
            words,
        )
    words = (
        plain + " - {alpha} * mean + {beta} * population variance of all true-against-other margins in the batch (MCM)"
    )
    return _Kind(
        cross_entropy,
        lambda z, y, zs: mcm(z, y, alpha, beta),
        lambda z, y, zs: _named(moments(*pair_margins(z, y))),
        words,
    )


def _share(where: Tensor) -> Tensor:
    return where.float().mean()


def _named(values: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
    return {"mean_margin": values[0], "margin_variance": values[1]}


def _present(logits: Tensor, labels: Tensor, zero_shot: Tensor) -> dict[str, Tensor]:
    return {"present": _share(_own(logits, labels).any(dim=0))}


def _outside(logits: Tensor, labels: Tensor, zero_shot: Tensor) -> dict[str, Tensor]:
    low, high = zero_shot.amin(dim=1, keepdim=True), zero_shot.amax(dim=1, keepdim=True)
    return {"outside": _share((logits < low) | (logits > high))}
