"""Metrics as pure float64 functions of probabilities, labels and case weights, and the set of them that a task is
scored by.

The functions take plain arrays (shapes: :mod:`scorer.metrics.arrays`); :func:`plan_for` prepares the whole set for one
run in one slice. One file a family.
"""

from scorer.metrics.arrays import Classwise, Value
from scorer.metrics.binned import (
    Binned,
    ClasswiseEce,
    Debiased,
    ace,
    ace_nixon,
    classwise_ece,
    ece,
    ece_debiased,
    ece_top,
    ece_width,
    mce,
    mce_weighted,
    wsece,
)
from scorer.metrics.decisions import (
    NetBenefit,
    accuracy,
    balanced_accuracy,
    f1_macro,
    kappa_quadratic,
    net_benefit,
    sensitivity,
    specificity,
)
from scorer.metrics.decomposition import Corp, Murphy, corp, murphy
from scorer.metrics.logistic import Gaps, Line, citl, ici, recalibration_line
from scorer.metrics.plan import Plan, Point
from scorer.metrics.proper import Nll, brier, brier_binary, nll
from scorer.metrics.ranking import auprc, auprc_classwise, auroc, auroc_classwise
from scorer.metrics.selective import RiskAtCoverage, aurc, risk_at_coverage
from scorer.metrics.sets import FAMILIES, plan_for
from scorer.metrics.smooth import smooth_ece

__all__ = [
    "FAMILIES",
    "Binned",
    "Classwise",
    "ClasswiseEce",
    "Corp",
    "Debiased",
    "Gaps",
    "Line",
    "Murphy",
    "NetBenefit",
    "Nll",
    "Plan",
    "Point",
    "RiskAtCoverage",
    "Value",
    "accuracy",
    "ace",
    "ace_nixon",
    "auprc",
    "auprc_classwise",
    "aurc",
    "auroc",
    "auroc_classwise",
    "balanced_accuracy",
    "brier",
    "brier_binary",
    "citl",
    "classwise_ece",
    "corp",
    "ece",
    "ece_debiased",
    "ece_top",
    "ece_width",
    "f1_macro",
    "ici",
    "kappa_quadratic",
    "mce",
    "mce_weighted",
    "murphy",
    "net_benefit",
    "nll",
    "plan_for",
    "recalibration_line",
    "risk_at_coverage",
    "sensitivity",
    "smooth_ece",
    "specificity",
    "wsece",
]
