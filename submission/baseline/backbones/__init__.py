"""The eight backbones, and the toy one, behind one interface (``base.Backbone``)."""

from dataclasses import dataclass

from submission.baseline.backbones.base import Backbone
from submission.baseline.config import BackboneConfig


@dataclass(frozen=True)
class Weights:
    """Where weights are from: ``source`` in words, ``sha256`` of the files, ``trained_on``; ``remark``: choices."""

    source: str
    sha256: str
    trained_on: str
    remark: str = ""


@dataclass(frozen=True)
class Loaded:
    """A frozen backbone in eval(), and its weights' origin."""

    backbone: Backbone
    weights: Weights


def load(config: BackboneConfig, *, device: str = "cpu", precision: str = "fp32") -> Loaded:
    """The backbone of ``config`` on ``device``; ``precision`` of its towers: fp32, bf16 or fp16 (autocast).

    BaselineError where weights are not found (it says what to download from where) or do not fit, or the device fails.
    """
    from submission.baseline.backbones.registry import load_backbone

    backbone, weights = load_backbone(config, device, precision)
    return Loaded(backbone, weights)


def architecture(name: str) -> str:
    """The architecture in words, for the recipe of a record."""
    from submission.baseline.backbones.releases import ARCHITECTURES

    return ARCHITECTURES[name]
