"""The law, one file a stage: importing this package registers every rule."""

from protocol.stages import (
    stage0_intake,
    stage1_splits,
    stage2_training,
    stage3_recalibration,
    stage4_metrics,
    stage5_uncertainty,
    stage6_shift,
    stage7_release,
)

__all__ = [
    "stage0_intake",
    "stage1_splits",
    "stage2_training",
    "stage3_recalibration",
    "stage4_metrics",
    "stage5_uncertainty",
    "stage6_shift",
    "stage7_release",
]
STAGES = {
    0: "Intake",
    1: "Task and splits",
    2: "Training",
    3: "Recalibration",
    4: "Metrics",
    5: "Uncertainty",
    6: "Shift and subgroups",
    7: "Release",
}
