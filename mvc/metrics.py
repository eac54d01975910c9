"""The metrics as functions of probabilities, labels and weights."""

from scorer.metrics import accuracy, auroc, auroc_classwise, brier, brier_binary, classwise_ece, ece, nll

__all__ = ["accuracy", "auroc", "auroc_classwise", "brier", "brier_binary", "classwise_ece", "ece", "nll"]
